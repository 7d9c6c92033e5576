//! The queue of messages that an MCP client sends before its server can receive them. Its size is
//! limited.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Message, Outcome, code};
use router::{Diagnostic, Level};

use super::Bridge;
use super::client::{Client, ClientState};
use crate::broker::{Action, Context, MAX_QUEUED_BYTES, memory_size};
use crate::endpoint::ClientId;

impl Client {
    /// Counts the queued bytes.
    pub(super) fn count_queued(&mut self) {
        let connecting = match &self.state {
            ClientState::Connecting(queued) => &queued[..],
            ClientState::Idle | ClientState::Connected(_) => &[],
        };
        let queued = connecting.iter().chain(&self.deferred);
        self.queued_bytes = queued.map(|(_, call)| memory_size(call)).sum();
    }
}

impl Bridge {
    /// Whether a message may be queued. If not, a request is answered with an error, and a client
    /// whose notification would be lost is disconnected.
    pub(super) fn may_queue(
        &mut self,
        client_id: ClientId,
        id: Option<&Id>,
        call: &Call,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(client) = self.clients.get_mut(client_id) else { return false };
        if client.queued_bytes + memory_size(call) <= MAX_QUEUED_BYTES {
            client.queued_bytes += memory_size(call);
            return true;
        }
        let why = format!(
            "{} MiB are queued for the MCP server '{}', which does not answer; send the message again later",
            MAX_QUEUED_BYTES >> 20,
            client.name
        );
        match id {
            Some(id) => {
                client.timeouts.remove(id);
                let error = error_object(code::INTERNAL_ERROR, &why, None);
                let message = Message::response(id.clone(), Outcome::Error(error));
                cx.out.push(Action::SendToClient { client_id, message });
            }
            None => {
                let text =
                    format!("an MCP client of {} was disconnected: {why}", self.agent.name());
                cx.out.push(Action::Report(Diagnostic {
                    level: Level::Warn,
                    seat: self.agent_seat,
                    text,
                }));
                cx.out.push(Action::DisconnectClient(client_id));
                self.on_client_disconnected(client_id, cx);
            }
        }
        false
    }
}
