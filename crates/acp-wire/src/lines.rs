//! Bytes into lines: cut at newlines, copy nothing, hold at most one line of the allowed length.

use bytes::{Buf, Bytes, BytesMut};

use crate::message::Scan;

/// A buffer that grew beyond this for one long line is given back once the line is done.
const KEEP: usize = 1024 * 1024;

/// A stream of bytes that is cut into lines.
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    /// No newline stands before this position.
    searched: usize,
    longest: usize,
    /// Inside a line that is too long: what was made out so far, and how much of it went by.
    skipping: Option<(Box<Scan>, usize)>,
}

#[derive(Debug, PartialEq)]
pub enum Line {
    Text(Bytes),
    /// Longer than allowed, and dropped; this could be made out, and its length.
    TooLong {
        scan: Box<Scan>,
        length: usize,
    },
}

impl Lines {
    /// Lines of at most `longest` bytes.
    pub fn new(longest: usize) -> Lines {
        Lines { buffer: BytesMut::new(), searched: 0, longest, skipping: None }
    }

    /// Where the next bytes are to be appended. There is room for `chunk` bytes at least.
    pub fn room(&mut self, chunk: usize) -> &mut BytesMut {
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP {
            self.buffer = BytesMut::new();
        }
        if self.buffer.capacity() - self.buffer.len() < chunk {
            // Growing with the length of a long line keeps its cost linear, and in large steps cheap:
            // room that is not used costs nothing.
            self.buffer.reserve(chunk.max(self.buffer.len() * 3));
        }
        &mut self.buffer
    }

    /// Whether no byte waits, not even of half a line.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next complete line, without its newline. Blank lines are passed over.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let Some(length) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                if self.buffer.len() > self.longest || self.skipping.is_some() {
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

    /// What is left when the stream has ended without a last newline.
    pub fn last_line(&mut self) -> Option<Line> {
        self.searched = 0;
        let line = self.buffer.split().freeze();
        self.finish(line)
    }

    fn finish(&mut self, line: Bytes) -> Option<Line> {
        if let Some((mut scan, length)) = self.skipping.take() {
            scan.feed(&line);
            return Some(Line::TooLong { scan, length: length + line.len() });
        }
        if line.len() > self.longest {
            return Some(Line::TooLong { scan: Box::new(Scan::of(&line)), length: line.len() });
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        Some(Line::Text(line))
    }

    fn skip(&mut self) {
        let (scan, skipped) = self.skipping.get_or_insert_default();
        scan.feed(&self.buffer);
        *skipped += self.buffer.len();
        self.searched = 0;
        self.buffer.clear();
        if self.buffer.capacity() > KEEP {
            self.buffer = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(lines: &mut Lines, bytes: &[u8]) {
        lines.room(bytes.len()).extend_from_slice(bytes);
    }

    fn text(line: &'static str) -> Option<Line> {
        Some(Line::Text(Bytes::from_static(line.as_bytes())))
    }

    #[test]
    fn lines_are_cut_wherever_the_chunks_end() {
        let input = b"one\n\n \r\ntwo\r\nthree";
        for cut in 0..input.len() {
            let mut lines = Lines::new(100);
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
    fn a_line_that_is_too_long_is_dropped_as_it_comes_and_the_next_one_is_read() {
        let mut lines = Lines::new(10);
        fill(&mut lines, b"0123456789\n");
        assert_eq!(lines.next_line(), text("0123456789"));
        fill(&mut lines, b"{\"id\":1,....");
        assert_eq!(lines.next_line(), None);
        assert!(lines.is_empty());
        fill(&mut lines, b"........");
        assert_eq!(lines.next_line(), None);
        assert!(lines.is_empty());
        fill(&mut lines, b"..}\nnext\n");
        let scan = Box::new(Scan::of(b"{\"id\":1,......................}"));
        assert!(matches!(lines.next_line(), Some(Line::TooLong { scan: found, length: 23 })
            if found.messages() == scan.messages()));
        assert_eq!(lines.next_line(), text("next"));
        fill(&mut lines, b"01234567890\n");
        assert!(matches!(lines.next_line(), Some(Line::TooLong { length: 11, .. })));
    }
}
