//! The incoming half of a link: reads bytes and cuts them into lines ([`acp_wire::lines`]).

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

pub use acp_wire::lines::Line;
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is read at once: little from a quiet pipe, more and more from a busy one.
const CHUNK: usize = 64 * 1024;
const LARGEST_CHUNK: usize = 256 * 1024;

/// The incoming half of a link.
#[derive(Debug)]
pub struct Lines {
    lines: acp_wire::lines::Lines,
    chunk: usize,
}

impl Lines {
    pub fn new(longest: usize) -> Lines {
        Lines { lines: acp_wire::lines::Lines::new(longest), chunk: CHUNK }
    }

    /// Reads what is there, at most a chunk. `Ok(0)` means the end.
    pub fn poll_fill<R>(&mut self, reader: &mut R, cx: &mut Context<'_>) -> Poll<io::Result<usize>>
    where
        R: AsyncRead + Unpin + ?Sized,
    {
        let filled = pin!(reader.read_buf(self.lines.room(self.chunk))).poll(cx);
        if let Poll::Ready(Ok(count)) = filled {
            let busy = count >= self.chunk;
            self.chunk = if busy { (self.chunk * 2).min(LARGEST_CHUNK) } else { CHUNK };
        }
        filled
    }

    /// Whether no byte waits, not even of half a line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The next complete line, without its newline. Blank lines are passed over.
    pub fn next_line(&mut self) -> Option<Line> {
        self.lines.next_line()
    }

    /// What is left when the stream has ended without a last newline.
    pub fn last_line(&mut self) -> Option<Line> {
        self.lines.last_line()
    }
}
