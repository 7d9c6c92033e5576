//! The common interface of all participants.

use acp_wire::{Message, Side};
use mcp::ClientId;

use crate::agent::Agent;
use crate::editor::{Editor, EditorAction};
use crate::outbox::Outbox;
use crate::proxy::Proxy;

/// The editor, a proxy, or the agent.
pub trait Participant {
    fn receive(&mut self, toward: Side, message: Message, outbox: &mut Outbox<'_>);
    fn act(&mut self, _act: EditorAction, _pen: &mut Outbox<'_>) {}
    fn wake(&mut self, _pen: &mut Outbox<'_>) {}
    fn on_client_message(
        &mut self,
        _client_id: ClientId,
        _message: Message,
        _pen: &mut Outbox<'_>,
    ) {
    }
    fn on_client_disconnected(&mut self, _client_id: ClientId, _pen: &mut Outbox<'_>) {}
}

impl Participant for Editor {
    fn receive(&mut self, _toward: Side, message: Message, outbox: &mut Outbox<'_>) {
        Editor::receive(self, message, outbox);
    }

    fn act(&mut self, act: EditorAction, outbox: &mut Outbox<'_>) {
        Editor::act(self, act, outbox);
    }

    fn wake(&mut self, outbox: &mut Outbox<'_>) {
        self.continue_work(outbox);
    }
}

impl Participant for Proxy {
    fn receive(&mut self, toward: Side, message: Message, outbox: &mut Outbox<'_>) {
        Proxy::receive(self, toward, message, outbox);
    }

    fn wake(&mut self, outbox: &mut Outbox<'_>) {
        Proxy::wake(self, outbox);
    }
}

impl Participant for Agent {
    fn receive(&mut self, _toward: Side, message: Message, outbox: &mut Outbox<'_>) {
        Agent::receive(self, message, outbox);
    }

    fn wake(&mut self, outbox: &mut Outbox<'_>) {
        Agent::wake(self, outbox);
    }

    fn on_client_message(
        &mut self,
        client_id: ClientId,
        message: Message,
        outbox: &mut Outbox<'_>,
    ) {
        if let Message::Response { id, outcome, .. } = message {
            self.on_answer(&id, Some(client_id), outcome, outbox);
        }
    }

    fn on_client_disconnected(&mut self, client_id: ClientId, outbox: &mut Outbox<'_>) {
        self.on_disconnected(client_id, outbox);
    }
}
