//! The kinds of errors that the conductor itself reports, as opposed to the errors of components.
//!
//! Each kind has a section in `docs/errors.md`, which `conductor errors CODE` prints. The message of each error names that
//! command, and `data.code` of a JSON-RPC error has the code.

use std::fmt;

use crate::json::Json;
use crate::message::{Outcome, error_object};

macro_rules! error_kinds {
    ($($(#[$doc:meta])* $variant:ident = $code:literal,)*) => {
        /// A kind of error. Its code is the anchor of its section in `docs/errors.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ErrorKind {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorKind {
            /// All kinds, in the order of the page.
            pub const ALL: &[ErrorKind] = &[$(ErrorKind::$variant,)*];

            /// The code of the kind.
            pub const fn code(self) -> &'static str {
                match self {
                    $(ErrorKind::$variant => $code,)*
                }
            }
        }
    };
}

error_kinds! {
    // A component does not start.
    /// There is no such command, neither a program nor a built-in component.
    CommandNotFound = "command-not-found",
    /// The file of the command is not executable.
    NotExecutable = "not-executable",
    /// The command is a directory.
    CommandIsDirectory = "command-is-directory",
    /// The interpreter in the first line of a script does not exist.
    MissingInterpreter = "missing-interpreter",
    /// The program is for another system or processor.
    WrongArchitecture = "wrong-architecture",
    /// The working directory of a component does not exist.
    MissingDirectory = "missing-directory",
    /// A component cannot be started for another reason.
    StartFailed = "start-failed",
    /// A component exits before the handshake is complete.
    ExitedAtStart = "exited-at-start",
    /// A component does not answer `initialize` in time.
    InitializeTimeout = "initialize-timeout",
    /// A component that is not a proxy is in the place of one.
    NotAProxy = "not-a-proxy",
    /// The answer of a component to `initialize` is invalid.
    InvalidInitializeAnswer = "invalid-initialize-answer",
    // A component fails later.
    /// A component exits or is killed while the chain runs.
    Crashed = "crashed",
    /// A restarted component refuses `initialize`.
    RestartRefused = "restart-refused",
    /// A component does not answer within a time limit of the user.
    Unresponsive = "unresponsive",
    /// A component stops reading its input.
    StoppedReading = "stopped-reading",
    /// A command of the user stops a component.
    StoppedByCommand = "stopped-by-command",
    /// An agent has lost a session in a restart.
    SessionLost = "session-lost",
    // Errors of the agent.
    /// The agent asks for a login.
    LoginRequired = "login-required",
    /// The agent, or a proxy, answers a request with an error of its own.
    AgentError = "agent-error",
    // Decisions of the built-in components.
    /// `permissions` denies an action.
    DeniedByPolicy = "denied-by-policy",
    /// A hook of `hooks` blocks an action or a prompt.
    BlockedByHook = "blocked-by-hook",
    /// `filter` blocks a message that contains a secret.
    SecretBlocked = "secret-blocked",
    /// `rate-limit` refuses a request.
    RateLimited = "rate-limited",
    /// `budget` refuses a prompt.
    BudgetSpent = "budget-spent",
    /// `cache` has no recording of this conversation.
    NotRecorded = "not-recorded",
    /// An action cannot be written to the audit log, and is refused.
    AuditFailed = "audit-failed",
    /// An audit log does not verify.
    AuditInvalid = "audit-invalid",
    // Messages that break the protocol.
    /// A peer sends a line that is not a valid message.
    BadMessage = "bad-message",
    /// A peer sends a line that is longer than the limit.
    LineTooLong = "line-too-long",
    /// The first request of the editor is not a valid `initialize`.
    NotInitialized = "not-initialized",
    /// A message has no receiver.
    NoReceiver = "no-receiver",
    /// The chain is shutting down, or the editor has disconnected.
    ShuttingDown = "shutting-down",
    // The command line.
    /// A COMPONENT argument is invalid.
    InvalidComponent = "invalid-component",
    /// There is no built-in component of this name.
    UnknownBuiltIn = "unknown-built-in",
    /// A built-in component cannot be used in this way.
    MisusedBuiltIn = "misused-built-in",
    /// An option is invalid.
    InvalidOption = "invalid-option",
    /// A file with options or rules is invalid.
    InvalidOptionsFile = "invalid-options-file",
    /// A configuration file is invalid.
    InvalidConfiguration = "invalid-configuration",
    /// There is no chain of this name, or no default chain.
    UnknownChain = "unknown-chain",
    /// The file of a project is not used, because the user does not trust it.
    UntrustedProject = "untrusted-project",
    /// A file that a component or an option names cannot be read.
    UnreadableFile = "unreadable-file",
    /// A file that a component or an option names cannot be written.
    UnwritableFile = "unwritable-file",
    /// Standard output cannot be written.
    OutputFailed = "output-failed",
    /// The status of a running chain is not available.
    StatusUnavailable = "status-unavailable",
    /// A running chain does not use its changed configuration.
    ReloadFailed = "reload-failed",
    /// The conductor cannot use a resource of the system.
    SystemError = "system-error",
}

impl ErrorKind {
    /// The kind with this code.
    pub fn from_code(code: &str) -> Option<ErrorKind> {
        ErrorKind::ALL.iter().copied().find(|kind| kind.code() == code)
    }

    /// The kind of the error with this message: the reference at its end.
    pub fn of_message(message: &str) -> Option<ErrorKind> {
        let (_, rest) = message.rsplit_once(" [more: conductor errors ")?;
        ErrorKind::from_code(rest.strip_suffix(']')?)
    }

    /// The text with a reference to the section about the error.
    pub fn tag(self, text: impl fmt::Display) -> String {
        format!("{text} [more: conductor errors {}]", self.code())
    }

    /// A JSON-RPC error of this kind, with the JSON-RPC code `code`.
    pub fn outcome(self, code: i64, text: impl fmt::Display) -> Outcome {
        let data = Json::object([("code", Some(Json::string(self.code())))]);
        Outcome::Error(error_object(code, &self.tag(text), Some(&data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_code() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_code(kind.code()), Some(*kind));
            let fits = |it: char| it.is_ascii_lowercase() || it == '-';
            assert!(kind.code().chars().all(fits), "{}", kind.code());
        }
        assert_eq!(ErrorKind::from_code("nothing"), None);
        let message = ErrorKind::Crashed.tag("it crashed");
        assert_eq!(ErrorKind::of_message(&message), Some(ErrorKind::Crashed));
        assert_eq!(ErrorKind::of_message("it crashed"), None);
    }

    #[test]
    fn an_error_names_its_section_in_the_message_and_in_the_data() {
        let Outcome::Error(error) = ErrorKind::Crashed.outcome(-32603, "it crashed") else {
            panic!("an error")
        };
        assert_eq!(
            error.as_str(),
            r#"{"code":-32603,"message":"it crashed [more: conductor errors crashed]","data":{"code":"crashed"}}"#
        );
    }
}
