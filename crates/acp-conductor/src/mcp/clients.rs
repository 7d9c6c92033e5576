//! Passes messages between the MCP clients and the core.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use acp_wire::Message;
use bytes::Bytes;
use engine::Input;
use mcp::ClientId;
use tokio::sync::mpsc::{Receiver, channel};
use tracing::debug;

use super::listeners::Listeners;
use super::{ClientEvent, ClientSender};
use crate::run::Shell;

/// The capacity of the event channel. When it is full, the clients wait.
const MAX_EVENTS: usize = 64;

/// The connected MCP clients, and the listeners for new ones.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) listeners: Listeners,
    senders: BTreeMap<ClientId, ClientSender>,
    receiver: Receiver<ClientEvent>,
    reading: bool,
}

impl Clients {
    /// No clients, and no open listeners.
    pub(crate) fn new(max_line: usize) -> Clients {
        let (events, receiver) = channel(MAX_EVENTS);
        let listeners = Listeners::new(events, max_line);
        Clients { listeners, senders: BTreeMap::new(), receiver, reading: true }
    }

    /// Pauses or resumes reading from the clients.
    pub(crate) fn set_reading(&mut self, reading: bool) {
        self.reading = reading;
    }

    /// Disconnects a client.
    pub(crate) fn disconnect(&mut self, client_id: ClientId) {
        self.senders.remove(&client_id);
    }

    /// The number of connected clients.
    pub(crate) fn len(&self) -> usize {
        self.senders.len()
    }
}

impl Shell {
    /// Handles the pending events of MCP clients. Returns whether there were any.
    pub(crate) fn poll_clients(&mut self, cx: &mut Context<'_>) -> bool {
        let mut busy = false;
        for _ in 0..MAX_EVENTS {
            if !self.clients.reading {
                break;
            }
            let Poll::Ready(Some(event)) = self.clients.receiver.poll_recv(cx) else { break };
            busy = true;
            let input = match event {
                ClientEvent::Connected { ticket, client_id, sender } => {
                    debug!(client_id = client_id.0, "an MCP client has connected");
                    self.clients.senders.insert(client_id, sender);
                    Input::ClientConnected { ticket, client_id }
                }
                ClientEvent::Line { client_id, line } => {
                    debug!(
                        client_id = client_id.0,
                        size = line.len(),
                        "received a line from an MCP client"
                    );
                    Input::ClientMessage { client_id, line }
                }
                ClientEvent::Disconnected(client_id) => {
                    debug!(client_id = client_id.0, "an MCP client has disconnected");
                    self.clients.senders.remove(&client_id);
                    Input::ClientDisconnected(client_id)
                }
            };
            self.handle(input);
        }
        busy
    }

    /// Sends a message to an MCP client, unless it has disconnected.
    pub(crate) fn send_to_client(&mut self, client_id: ClientId, message: &Message) {
        let mut line = Vec::new();
        message.write_line(&mut line);
        line.pop();
        let sender = self.clients.senders.get(&client_id);
        if sender.is_some_and(|sender| !sender.send(Bytes::from(line))) {
            self.clients.senders.remove(&client_id);
            self.inputs.push_back(Input::ClientDisconnected(client_id));
        }
    }
}
