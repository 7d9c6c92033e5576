//! What a command prints, and how it fails.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use acp_conductor::configuration;
use acp_wire::ErrorKind;

/// The exit status of a command that failed, and the error message unless it was already printed.
pub struct Failure {
    pub status: u8,
    pub line: Option<String>,
}

impl Failure {
    /// An invalid command line: status 2. The text names its section of the error page.
    pub fn usage(line: String) -> Failure {
        Failure { status: 2, line: Some(line) }
    }

    /// An invalid command line: status 2.
    pub fn invalid(kind: ErrorKind, line: impl Display) -> Failure {
        Failure::usage(kind.tag(line))
    }

    /// An invalid configuration: status 2.
    pub fn configuration(why: &configuration::Failure) -> Failure {
        let set = |name: &str| std::env::var_os(name).is_some_and(|it| !it.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|it| it == "dumb");
        if !io::stderr().is_terminal() || set("NO_COLOR") || dumb {
            return Failure::usage(why.render(false));
        }
        // The text has no other control characters than those of the colors.
        let _ = io::stderr().write_all(format!("conductor: {}\n", why.render(true)).as_bytes());
        Failure { status: 2, line: None }
    }

    /// A command that failed: status 1. The text names its section of the error page.
    pub fn run(line: impl Into<String>) -> Failure {
        Failure { status: 1, line: Some(line.into()) }
    }

    /// A command that failed: status 1.
    pub fn of(kind: ErrorKind, line: impl Display) -> Failure {
        Failure::run(kind.tag(line))
    }
}

/// Writes to standard output.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut text = Vec::new();
    write(&mut text).map_err(|error| Failure::of(ErrorKind::SystemError, error))?;
    let mut out = io::stdout().lock();
    match out.write_all(&text).and_then(|()| out.flush()) {
        // The reader closed the pipe early, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::run(write_error(&error))),
    }
}

/// Prints JSON with the control characters escaped: names and errors come from components.
pub fn print_json(out: &mut dyn Write, value: &impl serde::Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(out, "{}", acp_wire::printable::json(&text))
}

pub fn write_error(error: &io::Error) -> String {
    ErrorKind::OutputFailed.tag(format!("cannot write to standard output: {error}"))
}
