//! Draws the live region below the scrollback.

use std::io::{self, Write};

use super::frame::Frame;
use crate::text::Line;

/// Escape sequences around a frame: a synchronized update, and no cursor that jumps around.
const BEGIN: &str = "\x1b[?2026h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?2026l";
/// Without automatic wrap, each line of the live region has one row, even if the terminal takes a character for wider
/// than it is.
const WRAP: &str = "\x1b[?7h";
const NO_WRAP: &str = "\x1b[?7l";

/// The live region on the terminal.
pub(super) struct Screen<W: Write> {
    out: W,
    color: bool,
    /// The frame that is drawn, and the width of the terminal when it was.
    drawn: Option<(Frame, usize)>,
    error: Option<io::Error>,
    failed: bool,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, color: bool) -> Screen<W> {
        Screen { out, color, drawn: None, error: None, failed: false }
    }

    /// The error of the first failed output. Returned once.
    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Whether an output has failed. Then there are no others.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Prints finished lines, and draws the live region below them.
    pub(super) fn draw(&mut self, finished: &[Line], frame: &Frame, width: usize) {
        let same = self.drawn.as_ref().is_some_and(|(drawn, at)| drawn == frame && *at == width);
        if same && finished.is_empty() {
            return;
        }
        let mut text = String::from(BEGIN);
        self.clear_into(&mut text, width);
        text.push_str(WRAP);
        for line in finished {
            text.push_str(&line.painted(self.color));
            text.push_str("\r\n");
        }
        text.push_str(NO_WRAP);
        for (index, line) in frame.lines.iter().enumerate() {
            if index > 0 {
                text.push_str("\r\n");
            }
            text.push_str(&line.painted(self.color));
        }
        let up = frame.lines.len().saturating_sub(1).saturating_sub(frame.row);
        if up > 0 {
            text.push_str(&format!("\x1b[{up}A"));
        }
        text.push('\r');
        if frame.column > 0 {
            text.push_str(&format!("\x1b[{}C", frame.column));
        }
        text.push_str(WRAP);
        text.push_str(END);
        self.write(&text);
        self.drawn = Some((frame.clone(), width));
    }

    /// Removes the live region.
    pub(super) fn clear(&mut self, width: usize) {
        let mut text = String::new();
        self.clear_into(&mut text, width);
        self.write(&text);
    }

    /// Clears the whole screen. The scrollback stays.
    pub(super) fn clear_screen(&mut self) {
        self.drawn = None;
        self.write("\x1b[2J\x1b[H");
    }

    /// Moves to the top of the live region, and clears everything below.
    fn clear_into(&mut self, text: &mut String, width: usize) {
        if let Some((drawn, at)) = self.drawn.take() {
            let up = if at == width { drawn.row } else { rows_above_cursor(&drawn, width) };
            if up > 0 {
                text.push_str(&format!("\x1b[{up}A"));
            }
        }
        text.push_str("\r\x1b[J");
    }

    fn write(&mut self, text: &str) {
        if self.failed {
            return;
        }
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        if let Err(error) = written {
            self.failed = true;
            self.error = Some(error);
        }
    }
}

/// The rows above the cursor after the terminal has become narrower or wider. Terminals wrap the lines that do not fit
/// any more.
fn rows_above_cursor(frame: &Frame, width: usize) -> usize {
    let width = width.max(1);
    let above = frame.lines.iter().take(frame.row);
    let rows: usize = above.map(|line| line.width().div_ceil(width).max(1)).sum();
    rows + frame.column / width
}
