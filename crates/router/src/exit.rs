//! How a component ended, and the texts that describe it.

use acp_wire::ErrorKind;

use crate::excerpt::{excerpt, remedy as remedy_for};

/// How many lines of the output are in the data of an error.
pub const MAX_QUOTED_LINES: usize = 20;

/// How a peer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// What happened.
    pub cause: ExitCause,
    /// The last lines that the component wrote to stderr, and lines on stdout that were not messages.
    pub last_output: Vec<String>,
    /// The greetings that the component did not understand, and its reactions.
    pub failed_greetings: Option<String>,
}

/// Why a peer sends nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitCause {
    /// The program could not be started.
    NotStarted(StartFailure),
    /// The program exited with this status.
    Status(i32),
    /// The program was killed by this signal.
    Signal(i32),
    /// The in-process component ended, for this reason.
    Ended(String),
    /// The peer closed its output.
    ClosedOutput,
    /// The peer closed its input.
    ClosedInput,
    /// The SCP proxy closed the connection to its successor.
    ClosedSuccessor,
    /// The component did not answer `initialize` within this many milliseconds.
    InitializeTimeout(u64),
    /// The restarted component answered `initialize` with this error.
    RefusedInitialize(String),
    /// The restarted agent cannot continue its sessions, for this reason.
    CannotResume(String),
    /// The component runs, but showed no activity for too long while it owed an answer.
    Unresponsive {
        /// The method of the request.
        method: String,
        /// The timeout, in milliseconds.
        limit: u64,
    },
    /// The component did not answer a cancelled request in time.
    Uncancellable {
        /// The method of the request.
        method: String,
        /// The timeout, in milliseconds.
        limit: u64,
    },
    /// A user's command restarted or bypassed the component.
    ByCommand,
    /// The component stopped reading its input while this many bytes were queued for it, which blocked the
    /// rest of the chain.
    StoppedReading(usize),
}

/// Why a program could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// The kind of problem.
    pub problem: StartProblem,
    /// What is wrong.
    pub why: String,
    /// What the user can do about it.
    pub remedy: String,
}

impl StartFailure {
    /// A failure of another kind.
    pub fn other(why: impl Into<String>) -> StartFailure {
        let remedy = "run the command by hand to see what is wrong with it";
        StartFailure { problem: StartProblem::Other, why: why.into(), remedy: remedy.to_owned() }
    }
}

/// The kinds of problems at the start of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartProblem {
    /// There is no such command.
    NotFound,
    /// The file is not executable.
    NotExecutable,
    /// The command is a directory.
    Directory,
    /// The interpreter of a script does not exist.
    MissingInterpreter,
    /// The program is for another system or processor.
    WrongArchitecture,
    /// The working directory does not exist.
    MissingDirectory,
    /// A file that the component needs cannot be read or written.
    UnusableFile,
    /// The user has not agreed to what would be started.
    Untrusted,
    /// Another problem.
    Other,
}

impl StartProblem {
    /// The kind of error.
    pub fn kind(self) -> ErrorKind {
        match self {
            StartProblem::NotFound => ErrorKind::CommandNotFound,
            StartProblem::NotExecutable => ErrorKind::NotExecutable,
            StartProblem::Directory => ErrorKind::CommandIsDirectory,
            StartProblem::MissingInterpreter => ErrorKind::MissingInterpreter,
            StartProblem::WrongArchitecture => ErrorKind::WrongArchitecture,
            StartProblem::MissingDirectory => ErrorKind::MissingDirectory,
            StartProblem::UnusableFile => ErrorKind::UnreadableFile,
            StartProblem::Untrusted => ErrorKind::UntrustedProject,
            StartProblem::Other => ErrorKind::StartFailed,
        }
    }
}

impl Exit {
    /// An exit without output.
    pub fn new(cause: ExitCause) -> Exit {
        Exit { cause, last_output: Vec::new(), failed_greetings: None }
    }

    /// What happened, as the predicate of a sentence about the component.
    pub fn description(&self) -> String {
        match &self.cause {
            ExitCause::NotStarted(failure) => format!("could not be started: {}", failure.why),
            ExitCause::Status(status) => format!("exited with status {status}"),
            ExitCause::Signal(signal) => {
                format!("was killed by signal {signal}{}", signal_name(*signal))
            }
            ExitCause::Ended(why) => format!("ended: {why}"),
            ExitCause::ClosedOutput => "closed its standard output".into(),
            ExitCause::ClosedInput => "closed its standard input".into(),
            ExitCause::ClosedSuccessor => "closed the connection to its successor".into(),
            ExitCause::InitializeTimeout(limit) => {
                format!("did not answer initialize within {}", seconds(*limit))
            }
            ExitCause::RefusedInitialize(why) => format!("refused to be initialized again: {why}"),
            ExitCause::CannotResume(why) => format!("could not resume its sessions: {why}"),
            ExitCause::Unresponsive { method, limit } => {
                let limit = seconds(*limit);
                format!("showed no activity for {limit} while it owed an answer to {method}")
            }
            ExitCause::Uncancellable { method, limit } => {
                format!("kept running {method} for {} after it was cancelled", seconds(*limit))
            }
            ExitCause::ByCommand => "was stopped by a command".into(),
            ExitCause::StoppedReading(bytes) => match bytes >> 20 {
                0 => format!("stopped reading with {} KiB queued for it", bytes.div_ceil(1024)),
                mebibytes => format!("stopped reading with {mebibytes} MiB queued for it"),
            },
        }
    }

    /// What happened, as one verb: `crashed`, `failed` or `stopped`.
    pub fn verb(&self) -> &'static str {
        match self.cause {
            ExitCause::InitializeTimeout(_)
            | ExitCause::StoppedReading(_)
            | ExitCause::RefusedInitialize(_)
            | ExitCause::CannotResume(_)
            | ExitCause::Unresponsive { .. }
            | ExitCause::Uncancellable { .. } => "failed",
            ExitCause::ByCommand => "stopped",
            _ => "crashed",
        }
    }

    /// Whether [`description`](Exit::description) makes clear which request failed.
    pub(crate) fn names_the_request(&self) -> bool {
        matches!(
            self.cause,
            ExitCause::InitializeTimeout(_)
                | ExitCause::NotStarted(_)
                | ExitCause::Unresponsive { .. }
                | ExitCause::Uncancellable { .. }
        )
    }

    /// The last lines of the output. The list is short enough for the data of an error.
    pub fn quoted_output(&self) -> &[String] {
        &self.last_output[self.last_output.len().saturating_sub(MAX_QUOTED_LINES)..]
    }

    /// The kind of error. `starting` means that the component had not answered `initialize`.
    pub fn kind(&self, starting: bool) -> ErrorKind {
        match &self.cause {
            ExitCause::NotStarted(failure) => failure.problem.kind(),
            ExitCause::InitializeTimeout(_) => ErrorKind::InitializeTimeout,
            ExitCause::RefusedInitialize(_) | ExitCause::CannotResume(_) => {
                ErrorKind::RestartRefused
            }
            ExitCause::Unresponsive { .. } | ExitCause::Uncancellable { .. } => {
                ErrorKind::Unresponsive
            }
            ExitCause::ByCommand => ErrorKind::StoppedByCommand,
            ExitCause::StoppedReading(_) => ErrorKind::StoppedReading,
            _ if starting => ErrorKind::ExitedAtStart,
            _ => ErrorKind::Crashed,
        }
    }

    /// What the user can do about it.
    pub fn remedy(&self) -> String {
        let remedy = match &self.cause {
            ExitCause::NotStarted(failure) => &failure.remedy,
            ExitCause::InitializeTimeout(_) => {
                "check that the command speaks ACP on its standard input and output, or give it more time with --init-timeout"
            }
            ExitCause::StoppedReading(_) => {
                "check whether the component hangs; then start the chain again"
            }
            ExitCause::Unresponsive { .. } | ExitCause::Uncancellable { .. } => {
                "check whether the component hangs, or give it more time (--answer-limit, --prompt-limit, --cancel-limit)"
            }
            _ => "run the command by hand to see why it exits; then start the chain again",
        };
        let is_exit = matches!(self.cause, ExitCause::Status(_) | ExitCause::ClosedOutput);
        match remedy_for(&excerpt(&self.last_output)).filter(|_| is_exit) {
            Some(specific) => format!("{specific}; or {remedy}"),
            None => remedy.to_owned(),
        }
    }
}

fn seconds(milliseconds: u64) -> String {
    if milliseconds.is_multiple_of(1000) {
        format!("{} s", milliseconds / 1000)
    } else {
        format!("{milliseconds} ms")
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_described_in_a_sentence() {
        let method = || "m".to_owned();
        for (cause, description, verb) in [
            (
                ExitCause::NotStarted(StartFailure::other("why")),
                "could not be started: why",
                "crashed",
            ),
            (ExitCause::Status(3), "exited with status 3", "crashed"),
            (ExitCause::Signal(1), "was killed by signal 1 (SIGHUP)", "crashed"),
            (ExitCause::Signal(2), "was killed by signal 2 (SIGINT)", "crashed"),
            (ExitCause::Signal(4), "was killed by signal 4 (SIGILL)", "crashed"),
            (ExitCause::Signal(6), "was killed by signal 6 (SIGABRT)", "crashed"),
            (ExitCause::Signal(9), "was killed by signal 9 (SIGKILL)", "crashed"),
            (ExitCause::Signal(11), "was killed by signal 11 (SIGSEGV)", "crashed"),
            (ExitCause::Signal(13), "was killed by signal 13 (SIGPIPE)", "crashed"),
            (ExitCause::Signal(15), "was killed by signal 15 (SIGTERM)", "crashed"),
            (ExitCause::Signal(10), "was killed by signal 10", "crashed"),
            (
                ExitCause::InitializeTimeout(1500),
                "did not answer initialize within 1500 ms",
                "failed",
            ),
            (ExitCause::InitializeTimeout(2000), "did not answer initialize within 2 s", "failed"),
            (
                ExitCause::RefusedInitialize("no".into()),
                "refused to be initialized again: no",
                "failed",
            ),
            (ExitCause::CannotResume("no".into()), "could not resume its sessions: no", "failed"),
            (
                ExitCause::Unresponsive { method: method(), limit: 1000 },
                "showed no activity for 1 s while it owed an answer to m",
                "failed",
            ),
            (
                ExitCause::Uncancellable { method: method(), limit: 1000 },
                "kept running m for 1 s after it was cancelled",
                "failed",
            ),
            (ExitCause::ByCommand, "was stopped by a command", "stopped"),
            (
                ExitCause::StoppedReading(3 << 20),
                "stopped reading with 3 MiB queued for it",
                "failed",
            ),
        ] {
            let exit = Exit::new(cause);
            assert_eq!((exit.description().as_str(), exit.verb()), (description, verb));
        }
        let names_request = |cause| Exit::new(cause).names_the_request();
        assert!(
            names_request(ExitCause::InitializeTimeout(1))
                && names_request(ExitCause::NotStarted(StartFailure::other("")))
        );
        assert!(!names_request(ExitCause::Status(0)) && !names_request(ExitCause::ByCommand));
        let remedy = |cause| Exit::new(cause).remedy();
        assert!(remedy(ExitCause::NotStarted(StartFailure::other(""))).contains("by hand"));
        assert!(remedy(ExitCause::InitializeTimeout(1)).contains("--init-timeout"));
        assert!(remedy(ExitCause::StoppedReading(1)).contains("hangs; then start"));
        assert!(
            remedy(ExitCause::Unresponsive { method: method(), limit: 1 })
                .contains("--answer-limit")
        );
        assert!(remedy(ExitCause::Status(1)).contains("by hand"));
    }
}
