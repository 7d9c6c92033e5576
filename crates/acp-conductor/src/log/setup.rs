//! Sets up the log of the program: its destination and its filter.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use tracing_subscriber::EnvFilter;

use super::progress::Stderr;
use super::{BackgroundWriter, COMPONENT_STDERR, STDERR};
use acp_wire::{ErrorKind, printable};

/// The running log. Dropping it waits until the queued lines are written, or until a timeout.
#[derive(Debug)]
pub struct Logs {
    writers: Vec<BackgroundWriter>,
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.writers.iter().for_each(BackgroundWriter::flush_queue);
    }
}

/// Starts logging to a file or stderr. `filter` is a level or a filter of `tracing`.
///
/// # Errors
/// The filter is invalid, or the file cannot be written.
pub fn start(filter: &str, file: Option<&Path>) -> Result<Logs, String> {
    let filter = read(filter)?;
    let file = file.map(open).transpose()?;
    let stderr = STDERR.get_or_init(|| BackgroundWriter::new(Stderr)).clone();
    COMPONENT_STDERR.get_or_init(|| stderr.clone());
    let log = file.map_or_else(|| stderr.clone(), BackgroundWriter::new);
    let logs = Logs { writers: vec![stderr, log.clone()] };
    write_to(filter, log)?;
    Ok(logs)
}

/// Starts logging to a file only, for a program that uses the terminal. Without a file, the log and the stderr lines of
/// components are discarded.
///
/// # Errors
/// The filter is invalid, or the file cannot be written.
pub fn start_file_only(filter: &str, file: Option<&Path>) -> Result<Logs, String> {
    let filter = read(filter)?;
    let Some(log) = file.map(open).transpose()?.map(BackgroundWriter::new) else {
        return Ok(Logs { writers: Vec::new() });
    };
    COMPONENT_STDERR.get_or_init(|| log.clone());
    let logs = Logs { writers: vec![log.clone()] };
    write_to(filter, log)?;
    Ok(logs)
}

/// Checks a level or a filter.
///
/// # Errors
/// It is neither.
pub fn check(filter: &str) -> Result<(), String> {
    let wrong = |error| format!("{filter:?} is not a level or filter: {error}");
    EnvFilter::try_new(filter).map(drop).map_err(wrong)
}

fn read(filter: &str) -> Result<EnvFilter, String> {
    check(filter).map_err(|why| ErrorKind::InvalidOption.tag(format!("--log {why}")))?;
    Ok(EnvFilter::new(filter))
}

fn open(path: &Path) -> Result<File, String> {
    // A log may quote messages, so only its user can read it.
    let file = components::append::open(path);
    file.map_err(|error| {
        let why = format!("cannot write the log file {}: {error}", path.display());
        ErrorKind::UnwritableFile.tag(why)
    })
}

fn write_to(filter: EnvFilter, log: BackgroundWriter) -> Result<(), String> {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(move || log.clone())
        .try_init()
        .map_err(|error| error.to_string())
}

/// Removes control characters from a log entry, which may quote components, and indents all lines but the first, so
/// that no line can imitate another entry.
fn indent_entry(text: &str) -> String {
    let text = printable::plain(text);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    format!("{}\n", text.replace('\n', "\n    | "))
}

impl Write for BackgroundWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(indent_entry(&String::from_utf8_lossy(line)).into_bytes(), false);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_line_cannot_imitate_a_log_entry() {
        assert_eq!(indent_entry("INFO a\n"), "INFO a\n");
        assert_eq!(indent_entry("INFO a\nINFO b\r\n\n"), "INFO a\n    | INFO b\n    | \n");
    }
}
