//! One pipe to a peer: a reader and a writer. The queue of the writer belongs to the core's outputs.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use engine::queue::{MAX_SLICES, Queue};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::lines::Lines;

/// The stream that a peer writes.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// The stream that a peer reads.
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// The pipe to one peer.
pub struct Link {
    /// Splits the input into lines.
    pub lines: Lines,
    /// `None` after the peer has closed its output.
    pub reader: Option<Reader>,
    /// `None` after the peer has closed its input.
    writer: Option<Writer>,
    /// Whether the writer may have buffered data.
    unflushed: bool,
    /// Whether lines are handled. False while the core has paused the link.
    pub reading: bool,
    /// Whether the core was told that data is waiting on the paused link.
    pub reported_waiting: bool,
}

impl Link {
    /// A link without streams.
    pub fn new(max_line: usize) -> Link {
        Link {
            lines: Lines::new(max_line),
            reader: None,
            writer: None,
            unflushed: false,
            reading: true,
            reported_waiting: false,
        }
    }

    /// Sets the streams.
    pub fn attach(&mut self, reader: Reader, writer: Writer) {
        self.reader = Some(reader);
        self.writer = Some(writer);
    }

    /// Whether there is nothing to write: `queued` is 0 and everything is flushed, or the peer has closed its
    /// input.
    pub fn is_idle(&self, queued: usize) -> bool {
        self.writer.is_none() || (queued == 0 && !self.unflushed)
    }

    /// Writes once and returns the number of bytes. `Ready(Ok(0))` means that everything is written and flushed.
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

    /// Closes the writer. The peer reads the end of its input.
    pub fn close_writer(&mut self) {
        self.writer = None;
    }

    /// Closes both directions.
    pub fn close(&mut self) {
        self.close_writer();
        self.reader = None;
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("reading", &self.reading).finish_non_exhaustive()
    }
}
