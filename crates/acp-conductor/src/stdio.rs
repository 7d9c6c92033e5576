//! The conductor's standard input and output as asynchronous streams.
//!
//! An editor may pass pipes, sockets (Node does), a terminal, files or `/dev/null`. The flag for non-blocking
//! I/O is shared by all processes that have the descriptor, including the editor and its other children, and
//! it would stay set after the conductor exits. So on Linux a pipe is reopened through `/proc`, and a socket
//! is used with flags for each call. Streams that cannot be polled are read and written by threads.

use crate::link::{Reader, Writer};

/// The streams to the program that started the conductor.
pub fn outer_streams() -> (Reader, Writer) {
    #[cfg(unix)]
    let (reader, writer) = (unix::reader(), unix::writer());
    #[cfg(not(unix))]
    let (reader, writer) = (None, None);
    (
        reader.unwrap_or_else(|| Box::new(tokio::io::stdin())),
        writer.unwrap_or_else(|| Box::new(tokio::io::stdout())),
    )
}

/// Asynchronous streams for standard streams that another process has passed. `None` if they cannot be polled.
#[cfg(target_os = "linux")]
pub fn pollable_streams(
    input: std::os::fd::BorrowedFd<'_>,
    output: std::os::fd::BorrowedFd<'_>,
) -> Option<(Reader, Writer)> {
    Some((unix::read_from(input)?, unix::write_to(output)?))
}

/// Whether the program that started the conductor has closed a standard stream, even if unread data is left.
#[cfg(unix)]
pub fn hung_up() -> bool {
    is_closed(&[rustix::stdio::stdin(), rustix::stdio::stdout()])
}

/// Checks whether the reader of standard output has closed it.
#[cfg(unix)]
pub fn stdout_is_closed() -> bool {
    is_closed(&[rustix::stdio::stdout()])
}

/// Whether the peer of one of these streams has closed it.
#[cfg(unix)]
fn is_closed(streams: &[std::os::fd::BorrowedFd<'_>]) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ends: Vec<PollFd<'_>> =
        streams.iter().map(|stream| PollFd::new(stream, PollFlags::empty())).collect();
    let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
    let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    poll(&mut ends, Some(&no_wait)).is_ok()
        && ends.iter().any(|end| end.revents().intersects(closed))
}

/// Always false: on this system only reading detects the end of a stream.
#[cfg(not(unix))]
pub fn hung_up() -> bool {
    false
}

/// Always false: on this system only writing detects the end of a stream.
#[cfg(not(unix))]
pub fn stdout_is_closed() -> bool {
    false
}

#[cfg(unix)]
mod unix {
    use std::io::{self, IoSlice};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
    use rustix::net::{RecvFlags, SendFlags, recv, send};
    use tokio::io::unix::AsyncFd;
    use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

    use crate::host::pipes::{QuotaShare, widen};
    use crate::link::{Reader, Writer};

    pub(crate) fn reader() -> Option<Reader> {
        read_from(rustix::stdio::stdin())
    }

    pub(crate) fn writer() -> Option<Writer> {
        write_to(rustix::stdio::stdout())
    }

    pub(crate) fn read_from(fd: BorrowedFd<'_>) -> Option<Reader> {
        Some(Box::new(Stream::new(fd, Interest::READABLE, OFlags::RDONLY)?))
    }

    pub(crate) fn write_to(fd: BorrowedFd<'_>) -> Option<Writer> {
        Some(Box::new(Stream::new(fd, Interest::WRITABLE, OFlags::WRONLY)?))
    }

    /// One direction of a descriptor that can be polled.
    struct Stream {
        fd: AsyncFd<OwnedFd>,
        socket: bool,
        /// Whether a short read means that the stream is empty. Not for a terminal, which returns one line at a time.
        short_is_all: bool,
        _quota: Option<QuotaShare>,
    }

    impl Stream {
        fn new(fd: BorrowedFd<'_>, interest: Interest, access: OFlags) -> Option<Stream> {
            let kind = FileType::from_raw_mode(fstat(fd).ok()?.st_mode);
            let socket = kind == FileType::Socket;
            let fd = if socket {
                fd.try_clone_to_owned().ok()?
            } else {
                reopen(fd, access).or_else(|| non_blocking(fd))?
            };
            let quota = widen(&fd);
            // SAFETY: `AsyncFd` owns the descriptor, which stays open until it is dropped.
            let fd = unsafe { AsyncFd::register_with_interest(fd, interest) };
            // Files and /dev/null cannot be polled. Then `fd` is an error, and the result is `None`.
            let short_is_all = socket || kind == FileType::Fifo;
            Some(Stream { fd: fd.ok()?, socket, short_is_all, _quota: quota })
        }

        fn read(&self, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
            let (read, _) = if self.socket {
                recv(&self.fd, into, RecvFlags::DONTWAIT)?.0
            } else {
                rustix::io::read(&self.fd, into)?
            };
            Ok(read.len())
        }

        /// Writes the first non-empty slice to a socket, or as many slices as possible to a pipe.
        fn write(&self, from: &[IoSlice<'_>]) -> io::Result<usize> {
            if self.socket {
                let first = from.iter().find(|it| !it.is_empty()).map_or(&[][..], |it| it);
                Ok(send(&self.fd, first, SendFlags::DONTWAIT)?)
            } else if let [only] = from {
                Ok(rustix::io::write(&self.fd, only)?)
            } else {
                Ok(rustix::io::writev(&self.fd, from)?)
            }
        }
    }

    /// Reopens a pipe or terminal, so that its flags are not shared with other processes.
    #[cfg(target_os = "linux")]
    fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> Option<OwnedFd> {
        use std::os::fd::AsRawFd;

        use rustix::fs::{Mode, open};
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        open(path, flags, Mode::empty()).ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn reopen(_fd: BorrowedFd<'_>, _access: OFlags) -> Option<OwnedFd> {
        None
    }

    fn non_blocking(fd: BorrowedFd<'_>) -> Option<OwnedFd> {
        let fd = fd.as_fd().try_clone_to_owned().ok()?;
        fcntl_setfl(&fd, fcntl_getfl(&fd).ok()? | OFlags::NONBLOCK).ok()?;
        Some(fd)
    }

    impl AsyncRead for Stream {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            loop {
                let mut ready = ready!(self.fd.poll_read_ready(cx))?;
                // SAFETY: `read` only writes to the buffer. Zeroing it first would cost more than reading when
                // a long line arrives in many pieces.
                let room = unsafe { into.unfilled_mut() };
                let asked = room.len();
                match ready.try_io(|_| self.read(room)) {
                    Ok(Ok(count)) => {
                        // The stream is empty, so the next read would block.
                        if self.short_is_all && count > 0 && count < asked {
                            ready.clear_ready();
                        }
                        // SAFETY: `read` has just written `count` bytes.
                        unsafe { into.assume_init(count) };
                        into.advance(count);
                        return Poll::Ready(Ok(()));
                    }
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(Err(error)) => return Poll::Ready(Err(error)),
                    Err(_would_block) => {}
                }
            }
        }
    }

    impl AsyncWrite for Stream {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            from: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(cx, &[IoSlice::new(from)])
        }

        fn is_write_vectored(&self) -> bool {
            !self.socket
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            from: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            loop {
                let mut ready = ready!(self.fd.poll_write_ready(cx))?;
                match ready.try_io(|_| self.write(from)) {
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(result) => return Poll::Ready(result),
                    Err(_would_block) => {}
                }
            }
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }
}
