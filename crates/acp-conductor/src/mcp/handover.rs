//! Handover: `conductor mcp` passes its standard streams to the conductor and waits. The conductor then
//! communicates with the MCP client directly, without copying through another process.
//!
//! In addition to the port there is an abstract Unix socket with the port in its name. A connection begins with
//! the same line as on the port, and the two descriptors are sent along with it. Both processes must belong to
//! the same user. The connection stays open while the client is connected, so each side detects the end of the
//! other.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as Listener, UnixStream as Plain};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use rustix::fs::{FileType, fstat};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::{UnixListener, UnixStream};

use super::stdio::{ACCEPTED, MAX_FIRST_LINE, authentication_line};
use crate::link::{Reader, Writer};

/// The address of the abstract socket. Its namespace belongs to the network namespace, like the port.
fn address(port: u16) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("conductor-mcp-{port}"))
}

/// Opens the socket of a port.
pub(crate) fn listen(port: u16) -> io::Result<UnixListener> {
    let listener = Listener::bind_addr(&address(port)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Whether the peer is a process of the same user.
pub(crate) fn is_same_user(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| is_own_uid(peer.uid()))
}

/// Receives the first line and the two descriptors.
pub(crate) async fn receive(stream: &UnixStream) -> Option<(Vec<u8>, [OwnedFd; 2])> {
    let mut line = vec![0; MAX_FIRST_LINE];
    loop {
        stream.readable().await.ok()?;
        let received = stream.try_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let into = &mut [IoSliceMut::new(&mut line)];
            let count = recvmsg(stream, into, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
            let rights = control.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                _ => None,
            });
            Ok((count, rights.flatten().collect::<Vec<OwnedFd>>()))
        });
        match received {
            Ok((count, streams)) => {
                line.truncate(count);
                return Some((line, streams.try_into().ok()?));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}

/// Reads from a client that was handed over. Ends when the client closes its output or `conductor mcp` exits.
pub(crate) struct HandedOverReader {
    reader: Reader,
    connection: UnixStream,
}

impl HandedOverReader {
    /// Accepts the streams, and waits until `conductor mcp` confirms that it does not read them itself.
    pub(crate) async fn take(
        [input, output]: [OwnedFd; 2],
        mut connection: UnixStream,
    ) -> Option<(HandedOverReader, Writer)> {
        let (reader, writer) = crate::stdio::pollable_streams(input.as_fd(), output.as_fd())?;
        connection.write_all(ACCEPTED.as_bytes()).await.ok()?;
        connection.read_u8().await.ok()?;
        Some((HandedOverReader { reader, connection }, writer))
    }
}

/// Whether the peer has this user id. Any user can create an abstract socket with this name.
fn is_own_uid(peer: u32) -> bool {
    peer == rustix::process::geteuid().as_raw()
}

impl AsyncRead for HandedOverReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.reader).poll_read(cx, into);
        if polled.is_ready() {
            return polled;
        }
        // `conductor mcp` sends nothing more, so this only detects its exit.
        let mut nothing = [0; 16];
        let mut nothing = ReadBuf::new(&mut nothing);
        match Pin::new(&mut self.connection).poll_read(cx, &mut nothing) {
            Poll::Ready(_) => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Hands the standard streams over to the conductor, and waits until it has finished. Returns `None` if that is
/// not possible; then `conductor mcp` uses the port.
pub(crate) fn hand_over(port: u16, secret: &str, until: Instant) -> Option<()> {
    let (input, output) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    if !is_pollable(input) || !is_pollable(output) {
        return None;
    }
    let mut connection = Plain::connect_addr(&address(port).ok()?).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&connection).ok()?;
    if !is_own_uid(peer.uid.as_raw()) {
        return None;
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let streams = [input, output];
    if !control.push(SendAncillaryMessage::ScmRights(&streams)) {
        return None;
    }
    let line = authentication_line(secret);
    sendmsg(&connection, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL).ok()?;
    let mut answer = vec![0; ACCEPTED.len()];
    connection.set_read_timeout(Some(until.saturating_duration_since(Instant::now()))).ok()?;
    connection.read_exact(&mut answer).ok()?;
    if answer != ACCEPTED.as_bytes() {
        return None;
    }
    connection.set_read_timeout(None).ok()?;
    connection.write_all(b"\n").ok()?;
    // Returns when the conductor closes the connection.
    let _ = connection.read(&mut answer);
    Some(())
}

fn is_pollable(fd: BorrowedFd<'_>) -> bool {
    let kind = fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
    kind.is_ok_and(|kind| kind == FileType::Fifo || kind == FileType::Socket)
}
