//! The pipe to one seat: a reader, a writer with its queue, and the dialect spoken there.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use wire::{Dialect, Message, Rejection, Side};

use crate::flow::{Gauge, HIGH, LOW};
use crate::lines::Lines;
use crate::queue::Queue;

pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

pub struct Link {
    dialect: Dialect,
    pub lines: Lines,
    /// Gone once the peer has closed its end.
    pub reader: Option<Reader>,
    /// Gone once the peer does not read any more.
    writer: Option<Writer>,
    queue: Queue,
    /// The writer may hold what it took; see that it goes out.
    unflushed: bool,
    full: bool,
    pub paused: bool,
}

impl Link {
    pub fn new(dialect: Dialect, longest_line: usize) -> Link {
        Link {
            dialect,
            lines: Lines::new(longest_line),
            reader: None,
            writer: None,
            queue: Queue::default(),
            unflushed: false,
            full: false,
            paused: false,
        }
    }

    pub fn attach(&mut self, reader: Reader, writer: Writer) {
        self.reader = Some(reader);
        self.writer = Some(writer);
    }

    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Reads a line in the peer's dialect, which may say something back at once.
    pub fn decode(&mut self, line: &Bytes) -> Result<Option<(Side, Message)>, Rejection> {
        self.dialect.decode(line, &mut self.queue)
    }

    /// Lets the dialect write to the peer on its own account.
    pub fn with_dialect<T>(&mut self, act: impl FnOnce(&mut Dialect, &mut Queue) -> T) -> T {
        act(&mut self.dialect, &mut self.queue)
    }

    /// The peer is gone and another is to take its place, if the dialect has something left to try.
    /// What was queued for the old one is dropped.
    pub fn begin_again(&mut self, longest_line: usize) -> bool {
        let mut queue = Queue::default();
        if !self.dialect.proxy_mut().is_some_and(|proxy| proxy.begin_again(&mut queue)) {
            return false;
        }
        self.hang_up();
        self.queue = queue;
        self.reader = None;
        self.lines = Lines::new(longest_line);
        true
    }

    /// Queues a message. What is sent to a peer that does not read any more is dropped.
    pub fn send(&mut self, toward: Side, message: &Message) {
        if self.writer.is_some() {
            self.dialect.encode(toward, message, &mut self.queue);
            self.full |= self.queued() > HIGH;
        }
    }

    pub fn queued(&self) -> usize {
        self.queue.len() + self.dialect.backlog()
    }

    pub fn gauge(&self) -> Gauge {
        Gauge { queued: self.queued(), full: self.full, pending: !self.lines.is_empty() }
    }

    /// Writes what can be written. Ready when the queue is empty, or when nobody reads any more.
    pub fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writer) = &mut self.writer else { return Poll::Ready(Ok(())) };
        self.unflushed |= !self.queue.is_empty();
        let written = self.queue.poll_write(writer, cx);
        self.full &= self.queued() > LOW;
        if let Err(error) = ready!(written) {
            return self.broken(error);
        }
        if self.unflushed
            && let Some(writer) = &mut self.writer
        {
            match ready!(Pin::new(writer).poll_flush(cx)) {
                Ok(()) => self.unflushed = false,
                Err(error) => return self.broken(error),
            }
        }
        Poll::Ready(Ok(()))
    }

    pub fn idle(&self) -> bool {
        self.writer.is_none() || (self.queue.is_empty() && !self.unflushed)
    }

    /// Nothing more is written: the peer sees the end of its input.
    pub fn hang_up(&mut self) {
        self.writer = None;
        self.queue = Queue::default();
        self.full = false;
    }

    fn broken(&mut self, error: io::Error) -> Poll<io::Result<()>> {
        self.hang_up();
        Poll::Ready(Err(error))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("dialect", &self.dialect.spoken())
            .field("queued", &self.queued())
            .field("paused", &self.paused)
            .finish_non_exhaustive()
    }
}
