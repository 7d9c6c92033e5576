//! A line on the terminal that says what a command waits for.

use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the line is on the screen.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Shows a line on standard error in place of the previous one. Does nothing if standard error is not a terminal.
pub fn show(text: &str) {
    if !stderr().is_terminal() {
        return;
    }
    // The line must not wrap, or the next one would not replace it.
    let width = crossterm::terminal::size().map_or(80, |(width, _)| usize::from(width));
    let text = acp_wire::printable::one_line(text);
    let text: String = text.chars().take(width.saturating_sub(1)).collect();
    SHOWN.store(true, Ordering::Relaxed);
    let _ = stderr().write_all(format!("\r\x1b[K{text}").as_bytes());
}

/// Removes the line.
pub fn clear() {
    if SHOWN.swap(false, Ordering::Relaxed) {
        let _ = stderr().write_all(b"\r\x1b[K");
    }
}
