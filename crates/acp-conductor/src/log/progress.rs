//! A line on the terminal that says what a command waits for.

use std::io::{self, IsTerminal, Write, stderr};
use std::sync::{Mutex, PoisonError};

/// Whether the line is on the screen. Locked while something is written to standard error.
static SHOWN: Mutex<bool> = Mutex::new(false);

/// Removes the line, and moves to the beginning of its row.
const CLEAR: &str = "\r\x1b[K";

/// Shows a line on standard error in place of the previous one. Does nothing if standard error is not a terminal.
pub fn show(text: &str) {
    if !stderr().is_terminal() {
        return;
    }
    // The line must not wrap, or the next one would not replace it.
    let width = crossterm::terminal::size().map_or(0, |(width, _)| usize::from(width));
    let width = if width == 0 { 80 } else { width };
    let text = acp_wire::printable::one_line(text);
    let text: String = text.chars().take(width - 1).collect();
    // The background thread holds the lock while it writes. If nobody reads standard error, it waits, but the chain must not.
    if let Ok(mut shown) = SHOWN.try_lock() {
        *shown = true;
        let _ = stderr().write_all(format!("{CLEAR}{text}").as_bytes());
    }
}

/// Removes the line. If the background thread is writing at this moment, it has removed the line already.
pub fn clear() {
    if let Ok(mut shown) = SHOWN.try_lock()
        && std::mem::take(&mut *shown)
    {
        let _ = stderr().write_all(CLEAR.as_bytes());
    }
}

/// Standard error for other lines: the line about the progress is removed before them.
#[derive(Debug)]
pub(super) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.write_all(text).map(|()| text.len())
    }

    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *shown) {
            stderr().write_all(CLEAR.as_bytes())?;
        }
        stderr().write_all(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
}
