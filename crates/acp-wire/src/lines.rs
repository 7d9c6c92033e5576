//! Splits a byte stream into lines without copying them. It buffers at most one line of the maximum length.

use bytes::{Buf, Bytes, BytesMut};

use crate::message::LineScan;

/// A buffer that grew beyond this size for a long line is freed once the line is read.
const MAX_IDLE_CAPACITY: usize = 1024 * 1024;

/// A buffer that splits a byte stream into lines.
#[derive(Debug)]
pub struct LineBuffer {
    buffer: BytesMut,
    /// There is no newline before this position.
    searched: usize,
    max_length: usize,
    /// Inside a line that is too long: the scan so far, and how many bytes were dropped.
    skipping: Option<(Box<LineScan>, usize)>,
}

/// A line of a [`LineBuffer`] buffer.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// The text of the line, without its newline.
    Text(Bytes),
    /// A line longer than the maximum. Its text was dropped.
    TooLong {
        /// What could be read of the line.
        scan: Box<LineScan>,
        /// Its length in bytes.
        length: usize,
    },
}

impl LineBuffer {
    /// A buffer for lines of at most `max_length` bytes.
    pub fn new(max_length: usize) -> LineBuffer {
        LineBuffer { buffer: BytesMut::new(), searched: 0, max_length, skipping: None }
    }

    /// Reserves space for at least `chunk` bytes. Returns the buffer to which the caller appends the next bytes of
    /// the stream.
    pub fn reserve(&mut self, chunk: usize) -> &mut BytesMut {
        if self.buffer.is_empty() && self.buffer.capacity() > MAX_IDLE_CAPACITY {
            self.buffer = BytesMut::new();
        }
        if self.buffer.capacity() - self.buffer.len() < chunk {
            // Growing in proportion to the length keeps the cost of a long line linear. Space that is never
            // written takes no physical memory.
            self.buffer.reserve(chunk.max(self.buffer.len() * 3));
        }
        &mut self.buffer
    }

    /// Whether the buffer is empty, without even a partial line.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next complete line, without its newline. Blank lines are skipped.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let Some(length) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                if self.buffer.len() > self.max_length || self.skipping.is_some() {
                    self.skip();
                }
                return None;
            };
            let line = self.buffer.split_to(self.searched + length).freeze();
            self.buffer.advance(1);
            self.searched = 0;
            if let Some(line) = self.finish(line) {
                return Some(line);
            }
        }
    }

    /// The rest of a stream that ended without a final newline.
    pub fn last_line(&mut self) -> Option<Line> {
        self.searched = 0;
        let line = self.buffer.split().freeze();
        self.finish(line)
    }

    /// The line that ends with these bytes. `None` for a blank line.
    fn finish(&mut self, line: Bytes) -> Option<Line> {
        if let Some((mut scan, length)) = self.skipping.take() {
            scan.feed(&line);
            return Some(Line::TooLong { scan, length: length + line.len() });
        }
        if line.len() > self.max_length {
            return Some(Line::TooLong { scan: Box::new(LineScan::of(&line)), length: line.len() });
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        Some(Line::Text(line))
    }

    /// Drops the buffered part of a line that is too long.
    fn skip(&mut self) {
        let (scan, skipped) = self.skipping.get_or_insert_default();
        scan.feed(&self.buffer);
        *skipped += self.buffer.len();
        self.searched = 0;
        self.buffer.clear();
        if self.buffer.capacity() > MAX_IDLE_CAPACITY {
            self.buffer = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(lines: &mut LineBuffer, bytes: &[u8]) {
        lines.reserve(bytes.len()).extend_from_slice(bytes);
    }

    fn text(line: &'static str) -> Option<Line> {
        Some(Line::Text(Bytes::from_static(line.as_bytes())))
    }

    #[test]
    fn lines_are_split_wherever_the_chunks_end() {
        let input = b"one\n\n \r\ntwo\r\nthree";
        for cut in 0..input.len() {
            let mut lines = LineBuffer::new(100);
            let mut seen = Vec::new();
            for part in [&input[..cut], &input[cut..]] {
                fill(&mut lines, part);
                seen.extend(std::iter::from_fn(|| lines.next_line()));
            }
            seen.extend(lines.last_line());
            assert_eq!(seen, [text("one"), text("two\r"), text("three")].map(Option::unwrap));
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_one_is_read() {
        let mut lines = LineBuffer::new(10);
        fill(&mut lines, b"0123456789\n");
        assert_eq!(lines.next_line(), text("0123456789"));
        fill(&mut lines, b"{\"id\":1,....");
        assert_eq!(lines.next_line(), None);
        assert!(lines.is_empty());
        fill(&mut lines, b"........");
        assert_eq!(lines.next_line(), None);
        assert!(lines.is_empty());
        fill(&mut lines, b"..}\nnext\n");
        let scan = Box::new(LineScan::of(b"{\"id\":1,......................}"));
        assert!(matches!(lines.next_line(), Some(Line::TooLong { scan: found, length: 23 })
            if found.messages() == scan.messages()));
        assert_eq!(lines.next_line(), text("next"));
        fill(&mut lines, b"01234567890\n");
        assert!(matches!(lines.next_line(), Some(Line::TooLong { length: 11, .. })));
    }
}
