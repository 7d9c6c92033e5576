//! The stage *gate*: holds messages on command.
//!
//! The gate is the last stage before a link. It drops messages for a seat without a component, and holds messages for a
//! seat whose gate a command has closed. Messages for a component that is being restarted do not get here: the router
//! holds them, because it may still send some of them elsewhere.
//!
//! All gates open when the chain begins to end. The timeouts of MCP requests (crate `mcp`) continue while a message is
//! held.

use std::collections::VecDeque;

use acp_wire::{Message, Side, acp};
use router::{Router, Seat, SeatState};

use super::{Hop, StageResult};

/// The memory that a held message needs beside its text, in bytes.
const OVERHEAD: usize = 256;

/// The gates of all seats.
#[derive(Debug)]
pub(super) struct Gate {
    /// For each seat whose gate is closed, the held messages.
    closed: Vec<Option<Held>>,
}

/// The messages that are held for one seat, and their size.
#[derive(Debug, Default)]
struct Held {
    messages: VecDeque<(Side, Message)>,
    bytes: usize,
}

impl Gate {
    pub(super) fn new(count: usize) -> Gate {
        Gate { closed: std::iter::repeat_with(|| None).take(count + 1).collect() }
    }

    /// Makes room for this many components.
    pub(super) fn fill(&mut self, count: usize) {
        self.closed.resize_with(count + 1, || None);
    }

    pub(super) fn delivered(
        &mut self,
        router: &Router,
        hop: Hop,
        message: &mut Message,
    ) -> StageResult {
        // The message was for the component that has ended.
        if router.state(hop.seat).is_some_and(SeatState::is_vacant) {
            return StageResult::Taken;
        }
        match &mut self.closed[hop.seat.index()] {
            // A greeting is not held: the router has a timeout for the handshake, and does not know about gates.
            Some(_) if is_greeting(message) => StageResult::Pass,
            Some(held) => {
                held.bytes += message.size() + OVERHEAD;
                held.messages.push_back((hop.toward, super::take(message)));
                StageResult::Taken
            }
            None => StageResult::Pass,
        }
    }

    /// Closes a gate: messages for the seat are held from now on.
    pub(super) fn close(&mut self, seat: Seat) {
        self.closed[seat.index()].get_or_insert_default();
    }

    /// Opens a gate. Returns the held messages, oldest first, or `None` if the gate was open.
    pub(super) fn open(&mut self, seat: Seat) -> Option<VecDeque<(Side, Message)>> {
        Some(self.closed.get_mut(seat.index())?.take()?.messages)
    }

    pub(super) fn is_closed(&self, seat: Seat) -> bool {
        self.closed[seat.index()].is_some()
    }

    /// The number of messages that are held for a seat, and their size in bytes.
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
