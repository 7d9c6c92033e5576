//! What waits to be written to one peer.
//!
//! Short pieces are copied into one buffer, so that many lines need one write. A long payload stays where it was
//! read: the queue only holds on to it, and it is written together with what is before and behind it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wire::Sink;

/// A buffer that grew beyond this is given back once it is written.
const KEEP: usize = 1024 * 1024;

/// How many pieces are handed to the operating system at once.
const MOST_SLICES: usize = 16;

/// Bytes in the order in which they are to be written.
#[derive(Debug, Default)]
pub struct Queue {
    /// What comes before `last`. Empty unless a long payload is queued.
    pieces: VecDeque<Piece>,
    /// The end of the queue, to which short pieces are appended.
    last: Vec<u8>,
    /// How many bytes of the first piece are written; of `last`, if there is no other.
    written: usize,
    /// How many bytes there are in `pieces`, written ones included.
    before: usize,
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
    fn short(&mut self) -> &mut Vec<u8> {
        &mut self.last
    }

    fn long(&mut self, payload: &Bytes) {
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
    /// How many bytes are yet to be written.
    pub fn len(&self) -> usize {
        self.before + self.last.len() - self.written
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = Queue::default();
    }

    /// Writes what the writer takes. Ready when all of it is written; the writer may yet have to be flushed.
    pub fn poll_write<W>(&mut self, writer: &mut W, cx: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        W: AsyncWrite + Unpin + ?Sized,
    {
        while !self.is_empty() {
            let written = if self.pieces.is_empty() {
                Pin::new(&mut *writer).poll_write(cx, &self.last[self.written..])
            } else {
                let (slices, count) = self.slices();
                Pin::new(&mut *writer).poll_write_vectored(cx, &slices[..count])
            };
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.advance(count),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// What is to be written next, and how many slices that is.
    fn slices(&self) -> ([IoSlice<'_>; MOST_SLICES], usize) {
        let mut slices = [IoSlice::new(&[]); MOST_SLICES];
        let pieces = self.pieces.iter().map(Piece::bytes).chain([self.last.as_slice()]);
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            let from = if count == 0 { self.written } else { 0 };
            *slice = IoSlice::new(&piece[from..]);
            count += 1;
        }
        (slices, count)
    }

    /// So many more bytes are written.
    fn advance(&mut self, count: usize) {
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
            if self.last.capacity() > KEEP {
                self.last = Vec::new();
            }
        } else if self.written > KEEP && self.written > self.last.len() / 2 {
            self.last.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes at a time, in one slice or in several.
    struct Narrow {
        taken: Vec<u8>,
        at_once: usize,
        vectored: bool,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.at_once);
            self.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let whole: Vec<u8> = slices.iter().flat_map(|it| it.iter().copied()).collect();
            let first = slices.iter().find(|it| !it.is_empty()).map_or(&[][..], |it| it);
            let bytes = if self.vectored { &whole } else { first };
            self.as_mut().poll_write(cx, bytes)
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn short_and_long_pieces_are_written_in_their_order() {
        let long = |byte: u8, length| Bytes::from(vec![byte; length]);
        for at_once in [1, 2, 3, 7, 1000] {
            for vectored in [true, false] {
                let mut queue = Queue::default();
                let mut expected = Vec::new();
                let mut writer = Narrow { taken: Vec::new(), at_once, vectored };
                for round in 0..3 {
                    for number in 0..MOST_SLICES {
                        let short = format!("{round} {number}\n");
                        queue.short().extend_from_slice(short.as_bytes());
                        expected.extend_from_slice(short.as_bytes());
                        if number % 3 != 1 {
                            let payload = long(b'a' + number as u8, number);
                            queue.long(&payload);
                            expected.extend_from_slice(&payload);
                        }
                    }
                    assert_eq!(queue.len(), expected.len() - writer.taken.len());
                    let mut cx = Context::from_waker(std::task::Waker::noop());
                    assert!(queue.poll_write(&mut writer, &mut cx).is_ready());
                    assert!(queue.is_empty());
                    assert_eq!(writer.taken, expected);
                }
            }
        }
    }

    #[test]
    fn what_is_long_is_not_copied() {
        let payload = Bytes::from(vec![b'x'; 100]);
        let mut queue = Queue::default();
        queue.short().extend_from_slice(b"{");
        queue.long(&payload);
        let (slices, count) = queue.slices();
        assert_eq!(count, 3);
        assert_eq!(slices[1].as_ptr(), payload.as_ptr());
    }
}
