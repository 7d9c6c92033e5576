//! Messages that only pass a component, and that it could take for its own: two components may have given the
//! same id to a server or a connection. Such a message is marked on its way.

use acp_wire::{Call, Message};
use router::Seat;

use super::{Broker, Topic, topic};
use crate::form::{self, Frame, Subject};

impl Broker {
    /// Is this seat the provider of the server, or has the connection, that a message is for?
    pub(super) fn belongs_to(&self, seat: Seat, call: &Call) -> bool {
        // In proxy mode the outer pipe has two ends: what comes from the one is for the other.
        if seat == Seat::OUTER {
            return false;
        }
        let Some((form, word)) = form::decode(call) else { return false };
        if self.would_mistake(seat, &word) {
            return true;
        }
        match word.about() {
            Subject::Connection(it) => {
                self.connections.by_id(it).is_some_and(|connection| connection.seat == seat)
            }
            Subject::Server(it) => self.registry.provider_of(form, it) == Some(seat),
        }
    }

    /// A message that only passes a seat, such that it is not taken for one of its own.
    pub(super) fn mark_if_mistakable(&self, seat: Seat, call: Call) -> Call {
        match form::decode(&call) {
            Some((_, word)) if self.would_mistake(seat, &word) => form::mark_as_foreign(&call),
            _ => call,
        }
    }

    /// Does a seat that is not meant have something of its own with the id that a message names?
    fn would_mistake(&self, seat: Seat, word: &Frame) -> bool {
        match word.about() {
            Subject::Connection(it) => self.connections.by_provider_id(seat, it).is_some(),
            Subject::Server(it) => self.registry.has_own(seat, it),
        }
    }
}

/// A message that has passed a component that could have taken it for its own, without the mark.
pub fn without_mark(message: &Message) -> Option<Message> {
    let unmarked = |call: &Call| match topic(call) {
        Some(Topic::Mcp) => form::strip_foreign_mark(call),
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
