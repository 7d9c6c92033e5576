//! The queue of bytes to write to one link.
//!
//! Short pieces are copied into one buffer, so that many lines need one write. A long payload is not copied: the queue
//! keeps a reference to it, and a vectored write sends it together with the pieces around it.

use std::collections::VecDeque;

use acp_wire::Sink;
use bytes::Bytes;

/// The capacity that an empty buffer keeps, in bytes. A larger buffer is freed.
const MAX_KEPT: usize = 1024 * 1024;

/// The maximum number of slices in one vectored write.
pub const MAX_SLICES: usize = 16;

/// Bytes in the order in which they are to be written.
#[derive(Debug, Default)]
pub struct Queue {
    /// The pieces before `last`. Empty unless a long payload is queued.
    pieces: VecDeque<Piece>,
    /// The end of the queue, to which short pieces are appended.
    last: Vec<u8>,
    /// How many bytes of the first piece are already written. If there are no pieces, of `last`.
    written: usize,
    /// The total length of `pieces`, including written bytes.
    before: usize,
    /// How many bytes have left the queue so far, written or dropped.
    left: u64,
}

/// How many bytes have been appended to a queue so far, and how many of them have left it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub appended: u64,
    pub left: u64,
}

#[derive(Debug)]
enum Piece {
    Short(Vec<u8>),
    Long(Bytes),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Short(bytes) => bytes,
            Piece::Long(bytes) => bytes,
        }
    }
}

impl Sink for Queue {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.last
    }

    fn append_long(&mut self, payload: &Bytes) {
        if payload.is_empty() {
            return;
        }
        if !self.last.is_empty() {
            self.before += self.last.len();
            self.pieces.push_back(Piece::Short(std::mem::take(&mut self.last)));
        }
        self.before += payload.len();
        self.pieces.push_back(Piece::Long(payload.clone()));
    }
}

impl Queue {
    /// How many bytes are not written yet.
    pub fn len(&self) -> usize {
        self.before + self.last.len() - self.written
    }

    /// Whether all bytes are written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all bytes.
    pub fn clear(&mut self) {
        *self = Queue { left: self.progress().appended, ..Queue::default() };
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress { appended: self.left + self.len() as u64, left: self.left }
    }

    /// A copy of the last `count` bytes.
    pub(crate) fn copy_end(&self, count: usize) -> Vec<u8> {
        let mut end = Vec::with_capacity(count);
        let mut skip = self.before + self.last.len() - count;
        for piece in self.pieces.iter().map(Piece::bytes).chain([self.last.as_slice()]) {
            end.extend_from_slice(&piece[skip.min(piece.len())..]);
            skip -= skip.min(piece.len());
        }
        end
    }

    /// The slices to write next, and their number.
    pub fn slices(&self) -> ([&[u8]; MAX_SLICES], usize) {
        let mut slices = [&[][..]; MAX_SLICES];
        let pieces = self.pieces.iter().map(Piece::bytes).chain([self.last.as_slice()]);
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            let from = if count == 0 { self.written } else { 0 };
            *slice = &piece[from..];
            count += 1;
        }
        (slices, count)
    }

    /// Removes bytes that were written.
    pub(crate) fn advance(&mut self, count: usize) {
        let count = count.min(self.len());
        self.left += count as u64;
        self.written += count;
        while let Some(first) = self.pieces.front()
            && let Some(rest) = self.written.checked_sub(first.bytes().len())
        {
            self.before -= first.bytes().len();
            self.written = rest;
            self.pieces.pop_front();
        }
        if !self.pieces.is_empty() {
            return;
        }
        if self.written == self.last.len() {
            self.last.clear();
            self.written = 0;
            if self.last.capacity() > MAX_KEPT {
                self.last = Vec::new();
            }
        } else if self.written > MAX_KEPT && self.written > self.last.len() / 2 {
            self.last.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the queue in steps of `at_once` bytes.
    fn write(queue: &mut Queue, at_once: usize) -> Vec<u8> {
        let mut written = Vec::new();
        while !queue.is_empty() {
            let (slices, count) = queue.slices();
            let next = slices[..count].concat();
            let next = &next[..next.len().min(at_once)];
            written.extend_from_slice(next);
            let count = next.len();
            queue.advance(count);
        }
        written
    }

    #[test]
    fn short_and_long_pieces_are_written_in_order() {
        for at_once in [1, 2, 3, 7, 1000] {
            let mut queue = Queue::default();
            for round in 0..3 {
                let mut expected = Vec::new();
                for number in 0..MAX_SLICES {
                    let short = format!("{round} {number}\n");
                    queue.buffer().extend_from_slice(short.as_bytes());
                    expected.extend_from_slice(short.as_bytes());
                    if number % 3 != 1 {
                        let payload = Bytes::from(vec![b'a' + number as u8; number]);
                        queue.append_long(&payload);
                        expected.extend_from_slice(&payload);
                    }
                }
                assert_eq!(queue.len(), expected.len());
                assert_eq!(write(&mut queue, at_once), expected);
            }
        }
    }

    #[test]
    fn a_queue_counts_appended_and_written_bytes() {
        let mut queue = Queue::default();
        queue.buffer().extend_from_slice(b"ab");
        queue.append_long(&Bytes::from_static(b"cde"));
        queue.buffer().extend_from_slice(b"fg");
        queue.advance(1);
        assert_eq!(queue.progress(), Progress { appended: 7, left: 1 });
        assert_eq!([0, 2, 4, 5, 6].map(|it| queue.copy_end(it)).concat(), b"fgdefgcdefgbcdefg");
        queue.clear();
        assert_eq!(queue.progress(), Progress { appended: 7, left: 7 });
        queue.buffer().extend_from_slice(b"h");
        queue.advance(5);
        assert_eq!(queue.progress(), Progress { appended: 8, left: 8 });
    }

    #[test]
    fn a_long_payload_is_not_copied() {
        let payload = Bytes::from(vec![b'x'; 100]);
        let mut queue = Queue::default();
        queue.buffer().extend_from_slice(b"{");
        queue.append_long(&payload);
        let (slices, count) = queue.slices();
        assert_eq!(count, 3);
        assert_eq!(slices[1].as_ptr(), payload.as_ptr());
    }
}
