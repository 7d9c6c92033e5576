//! The players, as the world sees them.

use acp_wire::{Message, Side};
use mcp::ClientId;

use crate::agent::Agent;
use crate::editor::{Act, Editor};
use crate::pen::Pen;
use crate::proxy::Proxy;

/// What all players can do.
pub trait Player {
    fn hear(&mut self, toward: Side, message: Message, pen: &mut Pen<'_>);
    fn act(&mut self, _act: Act, _pen: &mut Pen<'_>) {}
    fn wake(&mut self, _pen: &mut Pen<'_>) {}
    fn told(&mut self, _caller: ClientId, _message: Message, _pen: &mut Pen<'_>) {}
    fn hung_up(&mut self, _caller: ClientId, _pen: &mut Pen<'_>) {}
}

impl Player for Editor {
    fn hear(&mut self, _toward: Side, message: Message, pen: &mut Pen<'_>) {
        Editor::hear(self, message, pen);
    }

    fn act(&mut self, act: Act, pen: &mut Pen<'_>) {
        Editor::act(self, act, pen);
    }

    fn wake(&mut self, pen: &mut Pen<'_>) {
        self.go_on(pen);
    }
}

impl Player for Proxy {
    fn hear(&mut self, toward: Side, message: Message, pen: &mut Pen<'_>) {
        Proxy::hear(self, toward, message, pen);
    }

    fn wake(&mut self, pen: &mut Pen<'_>) {
        Proxy::wake(self, pen);
    }
}

impl Player for Agent {
    fn hear(&mut self, _toward: Side, message: Message, pen: &mut Pen<'_>) {
        Agent::hear(self, message, pen);
    }

    fn wake(&mut self, pen: &mut Pen<'_>) {
        Agent::wake(self, pen);
    }

    fn told(&mut self, client_id: ClientId, message: Message, pen: &mut Pen<'_>) {
        if let Message::Response { id, outcome, .. } = message {
            self.on_answer(&id, Some(client_id), outcome, pen);
        }
    }

    fn hung_up(&mut self, client_id: ClientId, pen: &mut Pen<'_>) {
        self.on_hung_up(client_id, pen);
    }
}
