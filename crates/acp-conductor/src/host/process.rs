//! A component as a separate process: its start, its stderr and its exit.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use router::{ExitCause, Seat};
use secrets::Secrets;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::config::Spec;
use crate::host::group::Group;
use crate::host::leftovers::{self, ProcessTag};
use crate::host::pipes::{self, QuotaShare};

/// The number of stderr lines that are kept for error messages. The reason may be above a long stack trace.
const KEPT_LINES: usize = 200;
/// The maximum length of a kept line. Longer lines are truncated.
const LONGEST_KEPT_LINE: usize = 2000;
/// A line without a newline is passed on in pieces of about this length.
const LONGEST_PIECE: usize = 64 * 1024;
/// So many lines of stderr are searched for secrets without the tables of the detectors, which take time to build.
const FEW_LINES: usize = 100;
/// How long to wait for the end of stderr after the process has exited. The timeout is reached only if a
/// grandchild has left the process group and keeps the pipe open.
const STDERR_TIMEOUT: Duration = Duration::from_millis(100);

/// How long the clean-up after an exit may take until the exit is reported. On a busy machine it takes seconds.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The exit of a component.
#[derive(Debug)]
pub struct ComponentExit {
    /// The seat of the component.
    pub seat: Seat,
    /// How many components the seat has had before this one.
    pub incarnation: u32,
    /// How the component exited.
    pub how: ExitCause,
}

/// How component processes are cleaned up if the conductor exits or is killed.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessCleanup {
    /// The descriptor of the pipe to the reaper (see `reaper`).
    pub reaper: Option<i32>,
    /// Linux: the system kills a component when the thread that started it ends. Set this only if the main
    /// thread starts the components.
    pub die_with_thread: bool,
    /// Marks the processes of this conductor, to find those that have left their process group (see
    /// `leftovers`).
    pub tag: Option<ProcessTag>,
}

/// A running component process. Dropping it kills the process and its children.
#[derive(Debug)]
pub struct Process {
    pid: Option<u32>,
    group: Group,
    /// When it was first seen that it has exited.
    exited: OnceLock<Instant>,
    stderr_tail: StderrTail,
    _pipes: [Option<QuotaShare>; 2],
}

/// The last lines that a component wrote on stderr. Shared between the task that reads stderr and the main
/// loop.
#[derive(Debug, Clone, Default)]
pub struct StderrTail(Arc<StderrLines>);

#[derive(Debug, Default)]
struct StderrLines {
    lines: Mutex<VecDeque<String>>,
    /// Whether there are lines. The main loop checks this in every round, so it does not take the lock.
    any: AtomicBool,
}

impl StderrTail {
    /// Adds a line, and drops the oldest if there are too many.
    pub fn push(&self, line: String) {
        let mut lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
        self.0.any.store(true, Ordering::Release);
    }

    /// Removes and returns the lines.
    pub fn take(&self) -> Vec<String> {
        if !self.0.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.any.store(false, Ordering::Release);
        lines.drain(..).collect()
    }
}

/// Set for a program that is started again. What it has known is lost.
const RESTARTED: &str = "CONDUCTOR_RESTARTED";

impl Process {
    /// Starts a component. Its exit is sent to `exits`, and each line of its stderr to `on_stderr`.
    ///
    /// # Errors
    /// The program could not be started.
    pub fn start(
        spec: &Spec,
        (seat, incarnation): (Seat, u32),
        cleanup: ProcessCleanup,
        exits: UnboundedSender<ComponentExit>,
        on_stderr: impl Fn(&str) + Send + 'static,
    ) -> io::Result<(Process, ChildStdout, ChildStdin)> {
        let mut command = Command::new(&spec.program);
        let tag = cleanup.tag.map(|tag| tag.for_incarnation(seat.0, incarnation));
        command.args(&spec.args).envs(tag.iter().map(|tag| leftovers::variable(tag)));
        command.envs(spec.env.iter().map(|(name, value)| (name, value)));
        if incarnation > 0 {
            command.env(RESTARTED, "1");
        }
        if let Some(directory) = &spec.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let pending = Group::prepare(&mut command, cleanup)?;
        let started = command.spawn().and_then(|mut child| {
            let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let (Some(stdin), Some(stdout), Some(stderr)) = taken else {
                return Err(io::Error::other("its standard streams are missing"));
            };
            let group = Group::for_child(&child, &pending)?;
            Ok((child, group, stdin, stdout, stderr))
        });
        let (child, group, stdin, stdout, stderr) = match started {
            Ok(started) => started,
            Err(error) => {
                pending.abandon();
                return Err(error);
            }
        };
        let pipes = [pipes::widen(&stdin), pipes::widen(&stdout)];
        let pid = child.id();
        let stderr_tail = StderrTail::default();
        let (stop, stop_reading) = oneshot::channel();
        let reading =
            tokio::spawn(read_stderr(stderr, stop_reading, stderr_tail.clone(), on_stderr));
        // Fails if the chain has ended.
        let report = move |how| drop(exits.send(ComponentExit { seat, incarnation, how }));
        tokio::spawn(wait(child, group.clone(), tag, (reading, stop), report));
        let exited = OnceLock::new();
        Ok((Process { pid, group, exited, stderr_tail, _pipes: pipes }, stdout, stdin))
    }

    /// The last lines on its stderr.
    pub fn stderr(&self) -> &StderrTail {
        &self.stderr_tail
    }

    /// The process id.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Whether it has exited and its exit will be reported soon, after its children have been killed and its stderr has been
    /// read.
    pub fn is_exiting(&self) -> bool {
        let has_ended = self.group.has_ended();
        has_ended && self.exited.get_or_init(Instant::now).elapsed() < REPORT_TIMEOUT
    }

    /// Asks the component and its children to exit.
    pub fn terminate(&self) {
        self.group.terminate();
    }

    /// Kills the component and its children.
    pub fn kill(&self) {
        self.group.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn wait(
    mut child: Child,
    group: Group,
    tag: Option<String>,
    (mut reading, stop): (tokio::task::JoinHandle<()>, oneshot::Sender<()>),
    report: impl FnOnce(ExitCause),
) {
    // Also kills the children, so that the pipes are closed.
    group.end(&mut child).await;
    let how = match child.wait().await {
        Ok(status) => exit_cause(status),
        Err(error) => ExitCause::Ended(error.to_string()),
    };
    if let Some(tag) = tag {
        let _ = tokio::task::spawn_blocking(move || leftovers::kill_all(&tag)).await;
    }
    if tokio::time::timeout(STDERR_TIMEOUT, &mut reading).await.is_err() {
        // What is already in the pipe is still read, also if the machine was too busy to read it in time.
        drop(stop);
        let _ = tokio::time::timeout(STDERR_TIMEOUT, reading).await;
    }
    report(how);
}

/// Reads stderr until the pipe is closed. After `stop` it only reads what is left in the pipe: a daemon that a
/// component leaves behind may keep the pipe open forever.
async fn read_stderr(
    stderr: impl AsyncRead + Unpin,
    mut stop: oneshot::Receiver<()>,
    stderr_tail: StderrTail,
    on_stderr: impl Fn(&str),
) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    let mut lines = 0;
    loop {
        let filled = tokio::select! {
            biased;
            filled = reader.fill_buf() => filled,
            _ = &mut stop => Ok(&[][..]),
        };
        let (taken, ends) = match filled {
            Ok([]) | Err(_) => (0, true),
            Ok(bytes) => match memchr::memchr(b'\n', bytes) {
                Some(at) => {
                    line.extend_from_slice(&bytes[..at]);
                    (at + 1, true)
                }
                None => {
                    line.extend_from_slice(bytes);
                    (bytes.len(), line.len() > LONGEST_PIECE)
                }
            },
        };
        reader.consume(taken);
        if ends && (taken > 0 || !line.is_empty()) {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            // The kept lines are quoted to the editor, past every guard of the chain.
            stderr_tail.push(truncated(&redacted(text, lines)).to_owned());
            lines += 1;
            on_stderr(text);
            line.clear();
        }
        if taken == 0 {
            return;
        }
    }
}

/// A line without its secrets. The first lines do not wait until the tables of the detectors are built, unless they may have
/// a secret. With the tables, many lines are faster.
fn redacted(line: &str, number: usize) -> Cow<'_, str> {
    match number < FEW_LINES && Secrets::standard_ranges(line).is_empty() {
        true => Cow::Borrowed(line),
        false => Secrets::standard().redact(line),
    }
}

/// Truncates a line for error messages.
pub fn truncated(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_KEPT_LINE)]
}

#[cfg(unix)]
fn exit_cause(status: ExitStatus) -> ExitCause {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCause::Status(code),
        (None, Some(signal)) => ExitCause::Signal(signal),
        (None, None) => ExitCause::ClosedOutput,
    }
}

#[cfg(not(unix))]
fn exit_cause(status: ExitStatus) -> ExitCause {
    ExitCause::Status(status.code().unwrap_or(-1))
}
