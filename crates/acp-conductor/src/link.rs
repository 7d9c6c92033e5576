//! One pipe to a peer: a reader and a writer. What is to be written waits in the core's outputs.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use engine::queue::{MAX_SLICES, Queue};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::lines::Lines;

pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

pub struct Link {
    pub lines: Lines,
    /// `None` once the peer has closed its end.
    pub reader: Option<Reader>,
    /// `None` once the peer does not read any more.
    writer: Option<Writer>,
    /// The writer may hold what it took.
    unflushed: bool,
    /// False while the core has paused this link.
    pub read: bool,
    /// The core was told that unread lines wait here.
    pub waits: bool,
}

impl Link {
    pub fn new(longest_line: usize) -> Link {
        Link {
            lines: Lines::new(longest_line),
            reader: None,
            writer: None,
            unflushed: false,
            read: true,
            waits: false,
        }
    }

    pub fn attach(&mut self, reader: Reader, writer: Writer) {
        self.reader = Some(reader);
        self.writer = Some(writer);
    }

    /// Nothing is queued, or the peer does not read any more.
    pub fn is_idle(&self, queued: usize) -> bool {
        self.writer.is_none() || (queued == 0 && !self.unflushed)
    }

    /// Writes once, and says how much of the queue. `Ready(Ok(0))`: everything is written and flushed.
    pub fn poll_write(
        &mut self,
        queue: Option<&Queue>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let Some(writer) = &mut self.writer else { return Poll::Ready(Ok(0)) };
        let (slices, count) = queue.map(Queue::slices).unwrap_or_default();
        let is_empty = slices[..count].iter().all(|it| it.is_empty());
        let polled = match &slices[..count] {
            _ if is_empty => Pin::new(&mut *writer).poll_flush(cx).map_ok(|()| 0),
            [only] => Pin::new(&mut *writer).poll_write(cx, only),
            several => {
                let mut vectors = [IoSlice::new(&[]); MAX_SLICES];
                let copied = vectors.iter_mut().zip(several);
                copied.for_each(|(vector, slice)| *vector = IoSlice::new(slice));
                Pin::new(&mut *writer).poll_write_vectored(cx, &vectors[..several.len()])
            }
        };
        match polled {
            Poll::Ready(Ok(0)) if !is_empty => {
                self.writer = None;
                Poll::Ready(Err(io::ErrorKind::WriteZero.into()))
            }
            Poll::Ready(Ok(count)) => {
                self.unflushed = count > 0;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => {
                self.writer = None;
                Poll::Ready(Err(error))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Nothing more is written: the peer sees the end of its input.
    pub fn hang_up(&mut self) {
        self.writer = None;
    }

    /// Nothing more is written or read.
    pub fn close(&mut self) {
        self.hang_up();
        self.reader = None;
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("read", &self.read).finish_non_exhaustive()
    }
}
