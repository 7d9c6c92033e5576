//! Sets up the log of the program: where it goes, and which entries are written.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use tracing_subscriber::EnvFilter;

use super::{COMPONENT_STDERR, STDERR, Sink};
use crate::terminal;

/// Waits, when dropped, until what was logged is written; not for ever.
#[derive(Debug)]
pub struct Logs {
    sinks: Vec<Sink>,
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.sinks.iter().for_each(Sink::flush_queue);
    }
}

/// Starts logging. `filter` is a level, or a filter as `tracing` knows it.
pub fn start(filter: &str, file: Option<&Path>) -> Result<Logs, String> {
    let filter = read(filter)?;
    let file = file.map(open).transpose()?;
    let stderr = STDERR.get_or_init(|| Sink::new(io::stderr())).clone();
    COMPONENT_STDERR.get_or_init(|| stderr.clone());
    let log = file.map_or_else(|| stderr.clone(), Sink::new);
    let logs = Logs { sinks: vec![stderr, log.clone()] };
    write_to(filter, log)?;
    Ok(logs)
}

/// The same for a program whose standard streams are for somebody to read: everything goes into the
/// file, or nowhere.
pub fn start_file_only(filter: &str, file: Option<&Path>) -> Result<Logs, String> {
    let filter = read(filter)?;
    let Some(log) = file.map(open).transpose()?.map(Sink::new) else {
        return Ok(Logs { sinks: Vec::new() });
    };
    COMPONENT_STDERR.get_or_init(|| log.clone());
    let logs = Logs { sinks: vec![log.clone()] };
    write_to(filter, log)?;
    Ok(logs)
}

fn read(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter)
        .map_err(|error| format!("--log {filter:?} is not a level or filter: {error}"))
}

fn open(path: &Path) -> Result<File, String> {
    // A log may hold what was said: it is for its user alone.
    let file = components::append::open(path);
    file.map_err(|error| format!("cannot write the log file {}: {error}", path.display()))
}

fn write_to(filter: EnvFilter, log: Sink) -> Result<(), String> {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(move || log.clone())
        .try_init()
        .map_err(|error| error.to_string())
}

/// An entry of the log, which may quote components. The lines after its first are indented, so that none of
/// them looks like another entry.
fn entry(text: &str) -> String {
    let text = terminal::plain(text);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    format!("{}\n", text.replace('\n', "\n    | "))
}

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(entry(&String::from_utf8_lossy(line)).into_bytes(), false);
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
    fn what_is_quoted_does_not_look_like_an_entry_of_its_own() {
        assert_eq!(entry("INFO a\n"), "INFO a\n");
        assert_eq!(entry("INFO a\nINFO b\r\n\n"), "INFO a\n    | INFO b\n    | \n");
    }
}
