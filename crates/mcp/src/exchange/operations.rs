//! Requests that are under way between a stateless side and one with connections, by provider and
//! `requestId`.

use std::collections::BTreeMap;

use router::Seat;
use wire::{Call, Json};

use crate::stateless::PROGRESS;

#[derive(Debug, Default)]
pub struct Operations {
    open: BTreeMap<(Seat, String), Operation>,
}

#[derive(Debug)]
pub struct Operation {
    pub talk: u64,
    pub token: Option<Json>,
    /// What the other side calls it.
    pub request: String,
}

impl Operations {
    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn insert(&mut self, seat: Seat, request: String, operation: Operation) {
        self.open.insert((seat, request), operation);
    }

    pub fn take(&mut self, seat: Seat, request: String) -> Option<Operation> {
        self.open.remove(&(seat, request))
    }

    /// The conversation of a request.
    pub fn talk_of(&self, seat: Seat, request: &str) -> Option<u64> {
        self.open.get(&(seat, request.to_owned())).map(|operation| operation.talk)
    }

    /// Whether the consumer of a conversation waits for a request that it calls so.
    pub fn is_active(&self, talk: u64, request: &str) -> bool {
        self.open.values().any(|it| it.talk == talk && it.request == request)
    }

    /// The request of a stateless consumer that a notification belongs to, as the consumer calls it.
    pub fn meant(&self, seat: Seat, talk: u64, said: &Call) -> Option<String> {
        let token = said.params.as_ref().and_then(|params| params.member("progressToken"));
        let progress = said.is(PROGRESS);
        let of_talk = self.open.iter().filter(|((whose, _), it)| *whose == seat && it.talk == talk);
        let mut active = of_talk.filter(|(_, it)| !progress || it.token == token);
        active.next_back().map(|(_, operation)| operation.request.clone())
    }

    /// A conversation is over.
    pub fn forget_talk(&mut self, talk: u64) {
        self.open.retain(|_, operation| operation.talk != talk);
    }

    /// A provider is gone.
    pub fn void(&mut self, seat: Seat) {
        self.open.retain(|(whose, _), _| *whose != seat);
    }
}
