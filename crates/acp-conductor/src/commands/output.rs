//! What a command prints, and how it fails.

use std::io::{self, Write};

/// The exit status of a command that failed, and the error message unless it was already printed.
pub struct Failure {
    pub status: u8,
    pub line: Option<String>,
}

impl Failure {
    /// An invalid command line: status 2.
    pub fn usage(line: String) -> Failure {
        Failure { status: 2, line: Some(line) }
    }

    /// A command that failed: status 1.
    pub fn run(line: impl Into<String>) -> Failure {
        Failure { status: 1, line: Some(line.into()) }
    }
}

/// Writes to standard output.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut text = Vec::new();
    write(&mut text).map_err(|error| Failure::run(error.to_string()))?;
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
    format!("cannot write to standard output: {error}")
}
