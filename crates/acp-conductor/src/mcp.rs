//! The transports for MCP clients of an agent without MCP over ACP. The messages go to the MCP broker (crate
//! `mcp`), which is part of the core.
//!
//! # Layout
//! - [`listeners`]: opens listeners on demand and authenticates clients
//! - [`stdio`]: clients that run `conductor mcp PORT`, and that command; `handover`: passes their descriptors
//!   to the conductor (Linux)
//! - [`http`]: clients that use streamable HTTP
//! - `clients`: connects the transports with the core

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

/// The parsers of the transports, for the fuzzer.
#[doc(hidden)]
pub mod framing {
    use acp_wire::message::LineScan;
    use bytes::Bytes;
    use tokio::io::AsyncRead;

    use super::{http, stdio};

    /// Reads the first line of a connection. Also returns the bytes that were read after it.
    pub async fn first_line(from: &mut (impl AsyncRead + Unpin)) -> Option<(Vec<u8>, Vec<u8>)> {
        stdio::first_line(from).await
    }

    /// The first line of a connection, with this secret.
    pub fn authentication_line(secret: &str) -> Vec<u8> {
        stdio::authentication_line(secret)
    }

    /// The secret in the first line of a connection.
    pub fn secret_of(line: Bytes) -> Option<String> {
        stdio::secret_of(line)
    }

    /// The error for a line that is too long.
    pub fn too_long_error(scan: &LineScan, length: usize, max_line: usize) -> Bytes {
        stdio::too_long_error(scan, length, max_line)
    }

    /// The messages in an HTTP body, each as one line. `None` if the body is invalid.
    pub fn split_body(body: Bytes) -> Option<Vec<Bytes>> {
        http::split_body(body)
    }

    /// Encodes a line as a server-sent event.
    pub fn event(line: &[u8]) -> Bytes {
        http::event(line)
    }
}

/// An event of an MCP client. The channel of these events is bounded, which slows down fast clients.
#[derive(Debug)]
pub enum ClientEvent {
    /// A client has connected and authenticated with a ticket. `sender` sends lines to it.
    Connected {
        /// The ticket that the client has used.
        ticket: Ticket,
        /// The new id of the client.
        client_id: ClientId,
        /// Sends lines to the client.
        sender: ClientSender,
    },
    /// A client has sent a line. It is not validated.
    Line {
        /// The client.
        client_id: ClientId,
        /// The line, without its newline.
        line: Bytes,
    },
    /// A client has disconnected.
    Disconnected(ClientId),
}

/// Sends the events of all clients to the shell.
pub type ClientEventSender = Sender<ClientEvent>;

/// A client with more unread bytes than this is disconnected.
pub const MAX_UNREAD: usize = 64 * 1024 * 1024;

/// Sends lines, without their newline, to a client. Dropping it disconnects the client.
#[derive(Debug)]
pub struct ClientSender {
    lines: UnboundedSender<Bytes>,
    unread: Arc<AtomicUsize>,
}

/// The receiving end of a [`ClientSender`], for the transport that writes to the client.
#[derive(Debug)]
pub struct ClientReceiver {
    lines: UnboundedReceiver<Bytes>,
    unread: Arc<AtomicUsize>,
}

impl ClientSender {
    /// A new channel to a client.
    pub fn new() -> (ClientSender, ClientReceiver) {
        let (sender, receiver) = unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        (
            ClientSender { lines: sender, unread: unread.clone() },
            ClientReceiver { lines: receiver, unread },
        )
    }

    /// Sends a line. Returns false if the client has disconnected or has too many unread bytes.
    pub fn send(&self, line: Bytes) -> bool {
        let length = line.len();
        let before = self.unread.fetch_add(length, Ordering::Relaxed);
        (before == 0 || before + length <= MAX_UNREAD) && self.lines.send(line).is_ok()
    }
}

impl ClientReceiver {
    /// The next line; `None` if the client is to be disconnected.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.lines.recv().await
    }

    /// The next line, if one is available.
    pub fn try_next(&mut self) -> Option<Bytes> {
        self.lines.try_recv().ok()
    }

    /// Reports that a line of this length was written to the client.
    pub fn mark_written(&self, length: usize) {
        self.unread.fetch_sub(length, Ordering::Relaxed);
    }
}
