//! One running chain, with the benchmark as its editor.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use testkit::stub::{Frame, Lines, lines};

/// How long a conductor may take to exit after its editor has closed the pipe.
const FAREWELL: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Chain {
    child: Child,
    to: Option<File>,
    from: Lines,
    asked: u64,
    watchdog: Watchdog,
    stderr: PathBuf,
    limit: Duration,
    /// From before the process was started to the answer to `initialize`.
    pub start_up: Duration,
}

/// What to do after reading a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Read,
    Stop,
}

impl Chain {
    /// Starts and initializes a chain. It is killed after `limit`.
    pub fn start(command: Command, stderr: &Path, limit: Duration) -> Result<Self, String> {
        File::create(stderr).map_err(|error| format!("{}: {error}", stderr.display()))?;
        let greeting = r#"{"protocolVersion":1,"clientCapabilities":{}}"#;
        Self::greet(command, greeting, stderr, limit)
    }

    /// Starts another program that speaks JSON-RPC in lines, and initializes it with these params. It has the limit and
    /// the log of the chain.
    pub fn beside(&self, command: Command, greeting: &str) -> Result<Self, String> {
        Self::greet(command, greeting, &self.stderr, self.limit)
    }

    fn greet(
        mut command: Command,
        greeting: &str,
        stderr: &Path,
        limit: Duration,
    ) -> Result<Self, String> {
        let log = File::options().append(true).open(stderr);
        let log = log.map_err(|error| format!("{}: {error}", stderr.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).process_group(0);
        let begin = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a chain without pipes".to_owned());
        };
        let mut chain = Self {
            watchdog: Watchdog::watch(child.id(), limit),
            child,
            to: Some(File::from(OwnedFd::from(to))),
            from: Lines::new(from),
            asked: 0,
            stderr: stderr.to_owned(),
            limit,
            start_up: Duration::ZERO,
        };
        chain.ask("initialize", greeting)?;
        chain.start_up = begin.elapsed();
        Ok(chain)
    }

    /// The conductor's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens a session and returns its id.
    pub fn session(&mut self) -> Result<String, String> {
        let answer = self.new_session()?;
        let id = testkit::stub::text_after(&answer, "\"sessionId\":\"")
            .ok_or("session/new gave no id")?;
        Ok(String::from_utf8_lossy(id).into_owned())
    }

    /// Opens a session and returns the agent's answer.
    pub fn new_session(&mut self) -> Result<Vec<u8>, String> {
        self.ask("session/new", r#"{"cwd":"/","mcpServers":[]}"#)
    }

    /// The time from a request to its answer, which must be the next line.
    pub fn round_trip(&mut self, method: &str, params: &str) -> Result<Duration, String> {
        let (id, line) = self.request(method, params);
        let begin = Instant::now();
        self.send(line.as_bytes())?;
        self.read(|line, _| match result_of(line, id)? {
            Some(_) => Ok(Next::Stop),
            None => Err(format!("not the answer: {}", preview(line))),
        })?;
        Ok(begin.elapsed())
    }

    /// Sends a request and waits for the answer. Drops the lines before the answer.
    pub fn ask(&mut self, method: &str, params: &str) -> Result<Vec<u8>, String> {
        let (id, line) = self.request(method, params);
        self.send(line.as_bytes())?;
        self.answer(id)
    }

    /// The line of a request, with a new id.
    pub fn request(&mut self, method: &str, params: &str) -> (u64, String) {
        self.asked += 1;
        let id = self.asked;
        (
            id,
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
            ),
        )
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Some(to) = &mut self.to else { return Err("the chain is closed".to_owned()) };
        to.write_all(bytes)
            .map_err(|error| self.watchdog.explain(&format!("write failed: {error}")))
    }

    fn answer(&mut self, id: u64) -> Result<Vec<u8>, String> {
        let mut result = Vec::new();
        self.read(|line, _| {
            Ok(match result_of(line, id)? {
                Some(it) => {
                    result = it.to_vec();
                    Next::Stop
                }
                None => Next::Read,
            })
        })?;
        Ok(result)
    }

    /// Calls `on_line` for each line until it returns stop. After each batch of lines, sends the bytes that `on_line`
    /// has appended to its second argument.
    pub fn read<F>(&mut self, mut on_line: F) -> Result<(), String>
    where
        F: FnMut(&[u8], &mut Vec<u8>) -> Result<Next, String>,
    {
        let mut replies = Vec::new();
        loop {
            let batch = self.from.batch().map_err(|error| format!("read failed: {error}"))?;
            let Some(batch) = batch else {
                return Err(self.watchdog.explain("the conductor has exited"));
            };
            let mut next = Next::Read;
            for line in lines(batch) {
                if next == Next::Stop {
                    return Err(format!("a line after the last: {}", preview(line)));
                }
                next = on_line(line, &mut replies)?;
            }
            if !replies.is_empty() {
                self.send(&replies)?;
                replies.clear();
            }
            if next == Next::Stop {
                return Ok(());
            }
        }
    }
}

impl Drop for Chain {
    /// Ends the chain as an editor does, so that no process runs during the next measurement.
    fn drop(&mut self) {
        self.to = None;
        let begin = Instant::now();
        while begin.elapsed() < FAREWELL && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(1));
        }
        self.watchdog.dismiss();
        if matches!(self.child.try_wait(), Ok(None)) {
            kill(self.child.id());
            let _ = self.child.wait();
        }
    }
}

/// The result of request `id`, if `line` is its answer. An error if the answer is an error.
pub fn result_of(line: &[u8], id: u64) -> Result<Option<&[u8]>, String> {
    let frame = Frame::split(line).ok_or_else(|| format!("not a message: {}", preview(line)))?;
    if frame.method.is_some() || frame.id.map(testkit::stub::number) != Some(id) {
        return Ok(None);
    }
    frame.result.map(Some).ok_or_else(|| format!("refused: {}", preview(line)))
}

pub fn preview(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}

/// Kills a process group after a timeout. Hanging reads and writes fail then.
#[derive(Debug)]
struct Watchdog {
    limit: Duration,
    begin: Instant,
    sleeper: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Watchdog {
    fn watch(pid: u32, limit: Duration) -> Self {
        let (dismiss, dismissed) = channel();
        let sleeper = thread::spawn(move || {
            if dismissed.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                kill(pid);
            }
        });
        Self { limit, begin: Instant::now(), sleeper: Some((dismiss, sleeper)) }
    }

    /// Adds to an error that the timeout has killed the process, if so.
    fn explain(&self, what: &str) -> String {
        if self.begin.elapsed() < self.limit {
            return what.to_owned();
        }
        format!("not done after {} s", self.limit.as_secs())
    }

    fn dismiss(&mut self) {
        if let Some((dismiss, sleeper)) = self.sleeper.take() {
            drop(dismiss);
            let _ = sleeper.join();
        }
    }
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // This fails if the group has exited already.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}
