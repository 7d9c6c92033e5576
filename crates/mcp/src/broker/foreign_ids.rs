//! Messages that pass through a component and are not for it. Two components may use the same id
//! for a server or a connection. The broker marks the id in such a message, so that the component
//! does not take the message for its own.

use acp_wire::{Call, Message};
use router::Seat;

use super::foreign_mark::{mark_as_foreign, strip_foreign_mark};
use super::{Broker, Kind, kind_of};
use crate::form::{self, Frame, Subject};

impl Broker {
    /// Whether a message is for this seat: it provides the server or has the connection.
    pub(super) fn belongs_to(&self, seat: Seat, call: &Call) -> bool {
        // In proxy mode, the outer pipe leads to two peers. A message from one of them is for the
        // other.
        if seat == Seat::OUTER {
            return false;
        }
        let Some((form, frame)) = form::decode(call) else { return false };
        if self.has_same_id(seat, &frame) {
            return true;
        }
        match frame.subject() {
            Subject::Connection(it) => {
                self.connections.by_id(it).is_some_and(|connection| connection.seat == seat)
            }
            Subject::Server(it) => self.registry.provider_of(form, it) == Some(seat),
        }
    }

    /// Marks a message that passes through a seat, if the seat could take it for its own.
    pub(super) fn mark_if_ambiguous(&self, seat: Seat, call: Call) -> Call {
        match form::decode(&call) {
            Some((_, frame)) if self.has_same_id(seat, &frame) => mark_as_foreign(&call),
            _ => call,
        }
    }

    /// Whether a seat provides a server, or has a connection, with the id that a message names.
    fn has_same_id(&self, seat: Seat, frame: &Frame) -> bool {
        match frame.subject() {
            Subject::Connection(it) => self.connections.by_provider_id(seat, it).is_some(),
            Subject::Server(it) => self.registry.has_own(seat, it),
        }
    }
}

/// Removes the mark from a message that has passed through a component. `None` if it has none.
pub(super) fn strip_mark(message: &Message) -> Option<Message> {
    let unmarked = |call: &Call| match kind_of(call) {
        Some(Kind::Mcp) => strip_foreign_mark(call),
        _ => None,
    };
    match message {
        Message::Request { id, call } => {
            Some(Message::Request { id: id.clone(), call: unmarked(call)? })
        }
        Message::Notification(call) => Some(Message::Notification(unmarked(call)?)),
        Message::Response { .. } => None,
    }
}
