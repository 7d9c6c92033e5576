//! Requests that are under way between a stateless side and one with connections, by provider and
//! `requestId`.

use std::collections::BTreeMap;

use acp_wire::{Call, Json};
use router::Seat;

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

#[cfg(test)]
mod tests {
    use super::*;

    const P1: Seat = Seat(1);
    const P2: Seat = Seat(2);

    /// Three requests: two of P1 in conversation 7, one of P2 in conversation 8.
    fn operations() -> Operations {
        let mut operations = Operations::default();
        let add = |operations: &mut Operations,
                   seat,
                   request: &str,
                   talk,
                   token: Option<&'static str>| {
            let token = token.map(Json::trusted);
            let operation = Operation { talk, token, request: format!("theirs-{request}") };
            operations.insert(seat, request.to_owned(), operation);
        };
        add(&mut operations, P1, "a", 7, Some("1"));
        add(&mut operations, P1, "b", 7, None);
        add(&mut operations, P2, "a", 8, Some("1"));
        operations
    }

    #[test]
    fn a_request_is_found_by_provider_and_name() {
        let mut operations = operations();
        assert_eq!(operations.len(), 3);
        assert_eq!((operations.talk_of(P1, "a"), operations.talk_of(P2, "a")), (Some(7), Some(8)));
        assert_eq!(operations.talk_of(P2, "b"), None);
        assert!(operations.is_active(7, "theirs-b") && !operations.is_active(8, "theirs-b"));
        assert!(!operations.is_active(7, "b"));
        let taken = operations.take(P1, "a".to_owned()).map(|it| it.request);
        assert_eq!((taken.as_deref(), operations.len()), (Some("theirs-a"), 2));
        assert!(operations.take(P1, "a".to_owned()).is_none());
    }

    /// Progress belongs to the request with its token, anything else to the last request.
    #[test]
    fn a_notification_belongs_to_a_request_of_its_conversation() {
        let operations = operations();
        let note = |method: &str, token: &str| {
            Call::new(method, Json::trusted(format!(r#"{{"progressToken":{token}}}"#)))
        };
        let meant = |seat, talk, call: &Call| operations.meant(seat, talk, call);
        assert_eq!(meant(P1, 7, &note(PROGRESS, "1")).as_deref(), Some("theirs-a"));
        assert_eq!(meant(P1, 7, &note(PROGRESS, "2")), None);
        assert_eq!(meant(P1, 7, &note("notifications/message", "1")).as_deref(), Some("theirs-b"));
        assert_eq!(meant(P1, 8, &note("notifications/message", "1")), None);
        assert_eq!(meant(P2, 7, &note("notifications/message", "1")), None);
    }

    #[test]
    fn requests_end_with_their_conversation_or_their_provider() {
        let mut ended = operations();
        ended.forget_talk(7);
        assert_eq!((ended.len(), ended.talk_of(P2, "a")), (1, Some(8)));
        let mut gone = operations();
        gone.void(P2);
        assert_eq!((gone.len(), gone.talk_of(P2, "a")), (2, None));
    }
}
