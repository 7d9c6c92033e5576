//! Where MCP clients reach a running conductor: sockets and HTTP. What they say is given to the
//! bridge (the `mcp` crate), which knows what to do with it; here is only how they call.
//!
//! # Layout
//! - [`ports`]: the listeners, opened when first needed, and who may call
//! - [`stdio`]: clients behind `conductor mcp PORT`, and that command itself; `handover`: without a
//!   detour, on Linux
//! - [`http`]: clients that speak streamable HTTP
//! - `shell`: how the shell lets the broker take part

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use mcp::{ClientId, Ticket};
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(crate) mod clients;
#[cfg(target_os = "linux")]
mod handover;
pub mod http;
pub mod listeners;
pub mod stdio;

/// What the transports make of bytes, without a socket: for the fuzzer, which reaches nothing private.
#[doc(hidden)]
pub mod framing {
    use acp_wire::message::Scan;
    use bytes::Bytes;
    use tokio::io::AsyncRead;

    use super::{http, stdio};

    /// The first line of a connection, and what comes along with it.
    pub async fn first_line(from: &mut (impl AsyncRead + Unpin)) -> Option<(Vec<u8>, Vec<u8>)> {
        stdio::first_line(from).await
    }

    /// The first line that says this secret.
    pub fn introduction(secret: &str) -> Vec<u8> {
        stdio::introduction(secret)
    }

    /// The secret that a first line says.
    pub fn secret_of(line: Bytes) -> Option<String> {
        stdio::secret_of(line)
    }

    /// The answer to a line that was not read.
    pub fn too_long(scan: &Scan, length: usize, longest: usize) -> Bytes {
        stdio::too_long(scan, length, longest)
    }

    /// The messages of an HTTP body, each as one line; `None` if it is refused.
    pub fn lines_of(body: Bytes) -> Option<Vec<Bytes>> {
        http::lines_of(body)
    }

    /// A line as one event of a stream.
    pub fn event(line: &[u8]) -> Bytes {
        http::event(line)
    }
}

/// What clients do. The channel that carries this is bounded, so a client that is too fast waits.
#[derive(Debug)]
pub enum ClientEvent {
    /// Somebody with a ticket has called. `sender` says things to it.
    Connected { ticket: Ticket, client_id: ClientId, sender: ClientSender },
    /// One line of JSON-RPC (perhaps; it is not checked).
    Line { client_id: ClientId, line: Bytes },
    /// It has left.
    Disconnected(ClientId),
}

pub type ClientEventSender = Sender<ClientEvent>;

/// A client that leaves this much unread is given up.
pub const MAX_UNREAD: usize = 64 * 1024 * 1024;

/// What is to be said to a client: lines without their newline. Dropping it ends the call.
#[derive(Debug)]
pub struct ClientSender {
    lines: UnboundedSender<Bytes>,
    unread: Arc<AtomicUsize>,
}

/// The other end of a [`ClientSender`]: what the transport writes to the client.
#[derive(Debug)]
pub struct ClientReceiver {
    lines: UnboundedReceiver<Bytes>,
    unread: Arc<AtomicUsize>,
}

impl ClientSender {
    pub fn new() -> (ClientSender, ClientReceiver) {
        let (sender, receiver) = unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        (
            ClientSender { lines: sender, unread: unread.clone() },
            ClientReceiver { lines: receiver, unread },
        )
    }

    /// Says a line. False if the client does not listen: it has left, or has not read for too long.
    pub fn send(&self, line: Bytes) -> bool {
        let length = line.len();
        let before = self.unread.fetch_add(length, Ordering::Relaxed);
        (before == 0 || before + length <= MAX_UNREAD) && self.lines.send(line).is_ok()
    }
}

impl ClientReceiver {
    /// The next line; `None` when the call is over.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.lines.recv().await
    }

    /// The next line if there is one already.
    pub fn try_next(&mut self) -> Option<Bytes> {
        self.lines.try_recv().ok()
    }

    /// A line of that length has been written to the client.
    pub fn mark_written(&self, length: usize) {
        self.unread.fetch_sub(length, Ordering::Relaxed);
    }
}
