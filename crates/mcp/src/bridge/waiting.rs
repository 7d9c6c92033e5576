//! What an MCP client says before its server can hear it: it waits, up to a limit.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Message, Outcome, code};
use router::{Diagnostic, Level};

use super::Bridge;
use super::client::{Client, State};
use crate::broker::{Cx, MOST_WAITING, Step, size_of};
use crate::endpoint::ClientId;

impl Client {
    /// Counts what waits.
    pub(super) fn count_waiting(&mut self) {
        let connecting = match &self.state {
            State::Connecting(waiting) => &waiting[..],
            State::Idle | State::Connected(_) => &[],
        };
        let waiting = connecting.iter().chain(&self.early);
        self.waiting = waiting.map(|(_, call)| size_of(call)).sum();
    }
}

impl Bridge {
    /// Whether a message may wait for the server. If not, the client is told: a request is answered,
    /// and a client whose notification would be lost is disconnected.
    pub(super) fn may_wait(
        &mut self,
        client_id: ClientId,
        id: Option<&Id>,
        call: &Call,
        cx: &mut Cx<'_>,
    ) -> bool {
        let Some(client) = self.clients.get_mut(client_id) else { return false };
        if client.waiting + size_of(call) <= MOST_WAITING {
            client.waiting += size_of(call);
            return true;
        }
        let why = format!(
            "{} MiB wait for the MCP server '{}', which does not answer; say more when it does",
            MOST_WAITING >> 20,
            client.name
        );
        match id {
            Some(id) => {
                client.limits.remove(id);
                let error = error_object(code::INTERNAL_ERROR, &why, None);
                let message = Message::response(id.clone(), Outcome::Error(error));
                cx.out.push(Step::SendToClient { client_id, message });
            }
            None => {
                let text =
                    format!("an MCP client of {} was disconnected: {why}", self.agent.name());
                cx.out.push(Step::Report(Diagnostic { level: Level::Warn, seat: self.far, text }));
                cx.out.push(Step::DisconnectClient(client_id));
                self.on_hung_up(client_id, cx);
            }
        }
        false
    }
}
