//! The short way between an MCP client and the conductor: `conductor mcp` hands its standard streams
//! over and waits. What the client says then takes no detour through another process.
//!
//! Beside the port there is a Unix socket with the port in its name. A connection there begins with the
//! same line as on the port, and the two descriptors come along with it; both ends must be of the same
//! user. It stays open for as long as the call lasts: when it closes, either side knows.

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

use super::stdio::{LONGEST_GREETING, WELCOME, introduction};
use crate::link::{Reader, Writer};

/// In a name space that belongs to the machine's network, like the port.
fn address(port: u16) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("conductor-mcp-{port}"))
}

pub fn listen(port: u16) -> io::Result<UnixListener> {
    let listener = Listener::bind_addr(&address(port)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Whether the other end is a process of the same user.
pub fn is_of_our_user(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| is_ours(peer.uid()))
}

/// Reads the first line and the streams that come with it.
pub async fn receive(stream: &UnixStream) -> Option<(Vec<u8>, [OwnedFd; 2])> {
    let mut line = vec![0; LONGEST_GREETING];
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

/// What a client says, until it closes its output, or the one who handed it over is gone.
pub struct Held {
    reader: Reader,
    holder: UnixStream,
}

impl Held {
    /// Takes the streams over: says so, and waits until the client knows. From then on it does not
    /// read them any more itself.
    pub async fn take(
        [input, output]: [OwnedFd; 2],
        mut holder: UnixStream,
    ) -> Option<(Held, Writer)> {
        let (reader, writer) = crate::stdio::pollable_streams(input.as_fd(), output.as_fd())?;
        holder.write_all(WELCOME.as_bytes()).await.ok()?;
        holder.read_u8().await.ok()?;
        Some((Held { reader, holder }, writer))
    }
}

/// Is the other end a process of the same user? Names of this kind belong to whoever comes first.
fn is_ours(peer: u32) -> bool {
    peer == rustix::process::geteuid().as_raw()
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.reader).poll_read(cx, into);
        if polled.is_ready() {
            return polled;
        }
        // It says nothing more, so all there is to read is its end.
        let mut nothing = [0; 16];
        let mut nothing = ReadBuf::new(&mut nothing);
        match Pin::new(&mut self.holder).poll_read(cx, &mut nothing) {
            Poll::Ready(_) => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// `conductor mcp PORT`, the short way. `None` if it cannot be taken: then there is the port.
pub fn hand_over(port: u16, secret: &str, until: Instant) -> Option<()> {
    let (input, output) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    if !can_be_polled(input) || !can_be_polled(output) {
        return None;
    }
    let mut holder = Plain::connect_addr(&address(port).ok()?).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&holder).ok()?;
    if !is_ours(peer.uid.as_raw()) {
        return None;
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let streams = [input, output];
    if !control.push(SendAncillaryMessage::ScmRights(&streams)) {
        return None;
    }
    let line = introduction(secret);
    sendmsg(&holder, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL).ok()?;
    let mut welcome = vec![0; WELCOME.len()];
    holder.set_read_timeout(Some(until.saturating_duration_since(Instant::now()))).ok()?;
    holder.read_exact(&mut welcome).ok()?;
    if welcome != WELCOME.as_bytes() {
        return None;
    }
    holder.set_read_timeout(None).ok()?;
    holder.write_all(b"\n").ok()?;
    // Ends when the conductor does, or when it has no more to do with us.
    let _ = holder.read(&mut welcome);
    Some(())
}

fn can_be_polled(fd: BorrowedFd<'_>) -> bool {
    let kind = fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
    kind.is_ok_and(|kind| kind == FileType::Fifo || kind == FileType::Socket)
}
