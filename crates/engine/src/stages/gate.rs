//! What may pass to a peer at the moment.
//!
//! The gate is the last stage before a link. It drops what is for a seat without a component, and it holds what
//! is for a peer while a command says so. Messages for a component that is being restarted do not come here:
//! the router keeps them, because some of them go elsewhere in the end (see `router::absence`).
//!
//! All gates open when the chain begins to end. The time limits of MCP requests (crate `mcp`) go on while a
//! message is held.

use std::collections::VecDeque;

use acp_wire::{Message, Side, acp};
use router::{Router, Seat, SeatState};

use super::{Hop, StageResult};

/// What a message costs beside its text while it is held.
const OVERHEAD: usize = 256;

#[derive(Debug)]
pub(super) struct Gate {
    /// By seat: the messages that are held, if the gate of that seat is closed.
    closed: Vec<Option<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    messages: VecDeque<(Side, Message)>,
    bytes: usize,
}

impl Gate {
    pub(super) fn new(count: usize) -> Gate {
        Gate { closed: std::iter::repeat_with(|| None).take(count + 1).collect() }
    }

    pub(super) fn delivered(
        &mut self,
        router: &Router,
        hop: Hop,
        message: &mut Message,
    ) -> StageResult {
        // The next component in the seat would not understand the message.
        if router.state(hop.seat).is_some_and(SeatState::is_vacant) {
            return StageResult::Taken;
        }
        match &mut self.closed[hop.seat.index()] {
            // Its time limit is the router's, which does not know the gate.
            Some(_) if is_greeting(message) => StageResult::Pass,
            Some(held) => {
                held.bytes += message.size() + OVERHEAD;
                held.messages.push_back((hop.toward, super::take(message)));
                StageResult::Taken
            }
            None => StageResult::Pass,
        }
    }

    /// Holds messages for a seat from now on.
    pub(super) fn close(&mut self, seat: Seat) {
        self.closed[seat.index()].get_or_insert_default();
    }

    /// Holds no more messages for a seat. Gives those that were held, oldest first.
    pub(super) fn open(&mut self, seat: Seat) -> Option<VecDeque<(Side, Message)>> {
        Some(self.closed.get_mut(seat.index())?.take()?.messages)
    }

    pub(super) fn is_closed(&self, seat: Seat) -> bool {
        self.closed[seat.index()].is_some()
    }

    /// How many messages are held for a seat, and how many bytes.
    pub(super) fn held(&self, seat: Seat) -> (usize, usize) {
        let held = self.closed[seat.index()].as_ref();
        held.map_or((0, 0), |held| (held.messages.len(), held.bytes))
    }

    pub(super) fn holds_any(&self) -> bool {
        self.closed.iter().any(Option::is_some)
    }
}

fn is_greeting(message: &Message) -> bool {
    matches!(message, Message::Request { call, .. } if call.is(acp::INITIALIZE))
}
