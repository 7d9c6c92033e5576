//! Reads bytes and splits them into lines ([`acp_wire::lines`]).

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

pub use acp_wire::lines::Line;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The size of a read. It grows while the pipe is busy.
const CHUNK: usize = 64 * 1024;
const LARGEST_CHUNK: usize = 256 * 1024;

/// The input of a link, split into lines.
#[derive(Debug)]
pub struct Lines {
    lines: acp_wire::lines::LineBuffer,
    chunk: usize,
}

impl Lines {
    /// Rejects lines that are longer than `max_line` bytes.
    pub fn new(max_line: usize) -> Lines {
        Lines { lines: acp_wire::lines::LineBuffer::new(max_line), chunk: CHUNK }
    }

    /// Reads up to one chunk. `Ok(0)` means that the stream has ended.
    pub fn poll_fill<R>(&mut self, reader: &mut R, cx: &mut Context<'_>) -> Poll<io::Result<usize>>
    where
        R: AsyncRead + Unpin + ?Sized,
    {
        let filled = pin!(reader.read_buf(self.lines.reserve(self.chunk))).poll(cx);
        if let Poll::Ready(Ok(count)) = filled {
            let busy = count >= self.chunk;
            self.chunk = if busy { (self.chunk * 2).min(LARGEST_CHUNK) } else { CHUNK };
        }
        filled
    }

    /// Whether no data is buffered, not even an incomplete line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The next complete line, without its newline. Skips blank lines.
    pub fn next_line(&mut self) -> Option<Line> {
        self.lines.next_line()
    }

    /// The incomplete last line of a stream that has ended.
    pub fn last_line(&mut self) -> Option<Line> {
        self.lines.last_line()
    }
}
