//! A component as a process: how it starts, what it says on the side, how it ends.

use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use router::{ExitCause, Seat};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::config::Spec;
use crate::host::group::Group;
use crate::host::leftovers::{self, ProcessTag};
use crate::host::pipes::{self, QuotaShare};

/// How many lines of a component's stderr are kept for error messages.
const KEPT_LINES: usize = 20;
/// A longer line is cut in error messages: they are for people.
const LONGEST_KEPT_LINE: usize = 2000;
/// A line without an end is passed on in pieces of about this length.
const LONGEST_PIECE: usize = 64 * 1024;
/// How long the last stderr_tail may take to arrive once the process has ended. Only a grandchild that
/// left the group and holds the pipe open makes us wait this long.
const STDERR_TIMEOUT: Duration = Duration::from_millis(100);

/// The end of a component's process.
#[derive(Debug)]
pub struct Ended {
    pub seat: Seat,
    /// Which of those who sat there, counted from the first.
    pub life: u32,
    pub how: ExitCause,
}

/// What binds a process to ours.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessCleanup {
    /// The reaper's pipe (see `reaper`).
    pub reaper: Option<i32>,
    /// Die with the thread that started us. For a program whose starting thread is its main thread.
    pub die_with_thread: bool,
    /// By which those are known who have left their group (see `leftovers`).
    pub tag: Option<ProcessTag>,
}

/// A started component. Dropping it kills whatever is left of it.
#[derive(Debug)]
pub struct Process {
    pid: Option<u32>,
    group: Group,
    stderr_tail: StderrTail,
    _pipes: [Option<QuotaShare>; 2],
}

/// The end of what a component said on the side: stderr, and noise on stdout.
#[derive(Debug, Clone, Default)]
pub struct StderrTail(Arc<StderrLines>);

#[derive(Debug, Default)]
struct StderrLines {
    lines: Mutex<VecDeque<String>>,
    /// There are lines. Asked in every round of the loop, so it takes no lock.
    any: AtomicBool,
}

impl StderrTail {
    pub fn push(&self, line: String) {
        let mut stderr_tail = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if stderr_tail.len() == KEPT_LINES {
            stderr_tail.pop_front();
        }
        stderr_tail.push_back(line);
        self.0.any.store(true, Ordering::Release);
    }

    /// What was said since the last time.
    pub fn take(&self) -> Vec<String> {
        if !self.0.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut stderr_tail = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.any.store(false, Ordering::Release);
        stderr_tail.drain(..).collect()
    }
}

impl Process {
    /// Starts a component. Its end is sent to `ended`; the lines of its stderr go to `on_stderr`.
    pub fn start(
        spec: &Spec,
        (seat, life): (Seat, u32),
        cleanup: ProcessCleanup,
        ended: UnboundedSender<Ended>,
        on_stderr: impl Fn(&str) + Send + 'static,
    ) -> io::Result<(Process, ChildStdout, ChildStdin)> {
        let mut command = Command::new(&spec.program);
        let tag = cleanup.tag.map(|tag| tag.for_life(seat.0, life));
        command.args(&spec.args).envs(tag.iter().map(|tag| leftovers::variable(tag)));
        command.envs(spec.env.iter().map(|(name, value)| (name, value)));
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
        // Nobody listens any more when the chain is stop.
        let report = move |how| drop(ended.send(Ended { seat, life, how }));
        tokio::spawn(wait(child, group.clone(), tag, (reading, stop), report));
        Ok((Process { pid, group, stderr_tail, _pipes: pipes }, stdout, stdin))
    }

    pub fn stderr(&self) -> &StderrTail {
        &self.stderr_tail
    }

    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Asks the component and all its children to end.
    pub fn terminate(&self) {
        self.group.terminate();
    }

    /// Ends the component and all its children.
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
    (reading, stop): (tokio::task::JoinHandle<()>, oneshot::Sender<()>),
    report: impl FnOnce(ExitCause),
) {
    // Its children die with it, and so the pipes they hold are closed.
    group.end(&mut child).await;
    let how = match child.wait().await {
        Ok(status) => how(status),
        Err(error) => ExitCause::NotStarted(error.to_string()),
    };
    if let Some(tag) = tag {
        let _ = tokio::task::spawn_blocking(move || leftovers::kill_all(&tag)).await;
    }
    let _ = tokio::time::timeout(STDERR_TIMEOUT, reading).await;
    drop(stop);
    report(how);
}

/// Listens until the pipe is closed, or, when that takes too long, until nothing more is in it: a daemon
/// that a component leaves behind may live for ever, and each would cost us a descriptor.
async fn read_stderr(
    stderr: impl AsyncRead + Unpin,
    mut stop: oneshot::Receiver<()>,
    stderr_tail: StderrTail,
    on_stderr: impl Fn(&str),
) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let filled = tokio::select! {
            biased;
            filled = reader.fill_buf() => filled,
            _ = &mut stop => Ok(&[][..]),
        };
        // A line without an end is passed on in pieces.
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
            stderr_tail.push(truncated(text).to_owned());
            on_stderr(text);
            line.clear();
        }
        if taken == 0 {
            return;
        }
    }
}

/// At most so much of a line as a person would read.
pub fn truncated(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_KEPT_LINE)]
}

#[cfg(unix)]
fn how(status: ExitStatus) -> ExitCause {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCause::Status(code),
        (None, Some(signal)) => ExitCause::Signal(signal),
        (None, None) => ExitCause::ClosedOutput,
    }
}

#[cfg(not(unix))]
fn how(status: ExitStatus) -> ExitCause {
    ExitCause::Status(status.code().unwrap_or(-1))
}
