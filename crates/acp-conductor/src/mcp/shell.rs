//! MCP clients: what they say goes to the core, what it has to say to them goes out.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use acp_wire::Message;
use bytes::Bytes;
use engine::Input;
use mcp::ClientId;
use tokio::sync::mpsc::{Receiver, channel};
use tracing::debug;

use super::ports::Listeners;
use super::{Heard, Mouth};
use crate::run::Shell;

/// How many lines of MCP clients may wait to be handled; then the clients do.
const MOST_LINES: usize = 64;

/// The MCP clients that have called, and where they do.
#[derive(Debug)]
pub struct Clients {
    pub(crate) listeners: Listeners,
    mouths: BTreeMap<ClientId, Mouth>,
    heard: Receiver<Heard>,
    listens: bool,
}

impl Clients {
    pub fn new(longest_line: usize) -> Clients {
        let (hearing, heard) = channel(MOST_LINES);
        let listeners = Listeners::new(hearing, longest_line);
        Clients { listeners, mouths: BTreeMap::new(), heard, listens: true }
    }

    /// Listens to the clients, or does not.
    pub fn listen(&mut self, listen: bool) {
        self.listens = listen;
    }

    pub fn hang_up(&mut self, client_id: ClientId) {
        self.mouths.remove(&client_id);
    }

    /// How many have called.
    pub fn len(&self) -> usize {
        self.mouths.len()
    }
}

impl Shell {
    /// Looks after what MCP clients say. Says whether there was anything.
    pub(crate) fn hear(&mut self, cx: &mut Context<'_>) -> bool {
        let mut busy = false;
        for _ in 0..MOST_LINES {
            if !self.clients.listens {
                break;
            }
            let Poll::Ready(Some(heard)) = self.clients.heard.poll_recv(cx) else { break };
            busy = true;
            let input = match heard {
                Heard::Called { ticket, client_id, mouth } => {
                    debug!(client_id = client_id.0, "an MCP client calls");
                    self.clients.mouths.insert(client_id, mouth);
                    Input::ClientConnected { ticket, client_id }
                }
                Heard::Line { client_id, line } => {
                    debug!(client_id = client_id.0, size = line.len(), "an MCP client speaks");
                    Input::ClientMessage { client_id, line }
                }
                Heard::HungUp(client_id) => {
                    debug!(client_id = client_id.0, "an MCP client has left");
                    self.clients.mouths.remove(&client_id);
                    Input::ClientDisconnected(client_id)
                }
            };
            self.handle(input);
        }
        busy
    }

    /// Says something to an MCP client, which may have left.
    pub(crate) fn tell_client(&mut self, client_id: ClientId, message: &Message) {
        let mut line = Vec::new();
        message.write_line(&mut line);
        line.pop();
        let mouth = self.clients.mouths.get(&client_id);
        if mouth.is_some_and(|mouth| !mouth.say(Bytes::from(line))) {
            self.clients.mouths.remove(&client_id);
            self.inputs.push_back(Input::ClientDisconnected(client_id));
        }
    }
}
