//! Open requests where either the consumer or the server is stateless and the other has a
//! connection. The key is the seat of the provider and the `requestId`.

use std::collections::BTreeMap;

use acp_wire::{Call, Json};
use router::Seat;

use super::connections::ConnectionNumber;
use crate::stateless::PROGRESS;

/// The table of open requests.
#[derive(Debug, Default)]
pub(super) struct Operations {
    open: BTreeMap<(Seat, String), Operation>,
}

/// One open request.
#[derive(Debug)]
pub(super) struct Operation {
    pub connection: ConnectionNumber,
    /// The progress token of the request.
    pub token: Option<Json>,
    /// The `requestId` on the side of the consumer.
    pub request_id: String,
}

impl Operations {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn insert(&mut self, seat: Seat, request_id: String, operation: Operation) {
        self.open.insert((seat, request_id), operation);
    }

    pub(super) fn take(&mut self, seat: Seat, request_id: String) -> Option<Operation> {
        self.open.remove(&(seat, request_id))
    }

    /// The connection of a request.
    pub(super) fn connection_of(&self, seat: Seat, request_id: &str) -> Option<ConnectionNumber> {
        self.open.get(&(seat, request_id.to_owned())).map(|operation| operation.connection)
    }

    /// Whether the consumer of a connection has an open request with this `requestId`.
    pub(super) fn is_active(&self, connection: ConnectionNumber, request_id: &str) -> bool {
        self.open.values().any(|it| it.connection == connection && it.request_id == request_id)
    }

    /// The `requestId` of the stateless request that a notification belongs to.
    pub(super) fn request_for(
        &self,
        seat: Seat,
        connection: ConnectionNumber,
        notification: &Call,
    ) -> Option<String> {
        let token = notification.params.as_ref().and_then(|params| params.member("progressToken"));
        let progress = notification.is(PROGRESS);
        let of_connection = self
            .open
            .iter()
            .filter(|((key_seat, _), it)| *key_seat == seat && it.connection == connection);
        let mut active = of_connection.filter(|(_, it)| !progress || it.token == token);
        active.next_back().map(|(_, operation)| operation.request_id.clone())
    }

    /// Forgets the requests of a connection.
    pub(super) fn forget_connection(&mut self, connection: ConnectionNumber) {
        self.open.retain(|_, operation| operation.connection != connection);
    }

    /// Forgets the requests to a provider.
    pub(super) fn forget_provider(&mut self, seat: Seat) {
        self.open.retain(|(key_seat, _), _| *key_seat != seat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P1: Seat = Seat(1);
    const P2: Seat = Seat(2);
    const C7: ConnectionNumber = ConnectionNumber(7);
    const C8: ConnectionNumber = ConnectionNumber(8);

    /// Three requests: two to P1 on connection 7, one to P2 on connection 8.
    fn operations() -> Operations {
        let mut operations = Operations::default();
        let add = |operations: &mut Operations,
                   seat,
                   request_id: &str,
                   connection,
                   token: Option<&'static str>| {
            let token = token.map(Json::trusted);
            let operation =
                Operation { connection, token, request_id: format!("theirs-{request_id}") };
            operations.insert(seat, request_id.to_owned(), operation);
        };
        add(&mut operations, P1, "a", C7, Some("1"));
        add(&mut operations, P1, "b", C7, None);
        add(&mut operations, P2, "a", C8, Some("1"));
        operations
    }

    #[test]
    fn a_request_is_found_by_provider_and_request_id() {
        let mut operations = operations();
        assert_eq!(operations.len(), 3);
        assert_eq!(
            (operations.connection_of(P1, "a"), operations.connection_of(P2, "a")),
            (Some(C7), Some(C8))
        );
        assert_eq!(operations.connection_of(P2, "b"), None);
        assert!(operations.is_active(C7, "theirs-b") && !operations.is_active(C8, "theirs-b"));
        assert!(!operations.is_active(C7, "b"));
        let taken = operations.take(P1, "a".to_owned()).map(|it| it.request_id);
        assert_eq!((taken.as_deref(), operations.len()), (Some("theirs-a"), 2));
        assert!(operations.take(P1, "a".to_owned()).is_none());
    }

    /// Progress belongs to the request with its token. Any other notification belongs to the last
    /// request.
    #[test]
    fn a_notification_belongs_to_a_request_of_its_connection() {
        let operations = operations();
        let notification = |method: &str, token: &str| {
            Call::new(method, Json::trusted(format!(r#"{{"progressToken":{token}}}"#)))
        };
        let request_for =
            |seat, connection, call: &Call| operations.request_for(seat, connection, call);
        assert_eq!(request_for(P1, C7, &notification(PROGRESS, "1")).as_deref(), Some("theirs-a"));
        assert_eq!(request_for(P1, C7, &notification(PROGRESS, "2")), None);
        assert_eq!(
            request_for(P1, C7, &notification("notifications/message", "1")).as_deref(),
            Some("theirs-b")
        );
        assert_eq!(request_for(P1, C8, &notification("notifications/message", "1")), None);
        assert_eq!(request_for(P2, C7, &notification("notifications/message", "1")), None);
    }

    #[test]
    fn requests_end_with_their_connection_or_their_provider() {
        let mut ended = operations();
        ended.forget_connection(C7);
        assert_eq!((ended.len(), ended.connection_of(P2, "a")), (1, Some(C8)));
        let mut gone = operations();
        gone.forget_provider(P2);
        assert_eq!((gone.len(), gone.connection_of(P2, "a")), (2, None));
    }
}
