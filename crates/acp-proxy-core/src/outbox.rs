//! What a proxy can send.

use acp_wire::{Call, Dialect, Id, Json, Message, Outcome, Side, acp};

use crate::driver::{OpenRequests, SentRequest};
use crate::proxy::IncomingRequest;

/// Identifies a request that the proxy has sent with [`Outbox::request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey(pub(crate) u64);

/// Sends messages for a proxy, in the order of the calls.
pub struct Outbox<'a> {
    pub(crate) dialect: &'a mut Dialect,
    pub(crate) open: &'a mut OpenRequests,
    pub(crate) lines: &'a mut Vec<u8>,
}

impl Outbox<'_> {
    /// Forwards a request, changed or not. The driver returns the answer to the requester.
    pub fn forward(&mut self, toward: Side, request: IncomingRequest) {
        let requester_id = request.id.detached();
        let id = self.open.insert(SentRequest::Forwarded { requester_id, toward });
        self.send(toward, &Message::Request { id, call: request.call });
    }

    /// Answers a request.
    pub fn answer(&mut self, request: IncomingRequest, outcome: Outcome) {
        self.send(Side::Editor, &Message::response(request.id, outcome));
    }

    /// Sends a new request. [`Proxy::on_answer`](crate::Proxy::on_answer) gets the answer.
    pub fn request(&mut self, toward: Side, call: Call) -> RequestKey {
        let id = self.open.insert(SentRequest::New { toward });
        let key = RequestKey(self.open.last());
        self.send(toward, &Message::Request { id, call });
        key
    }

    /// Cancels a request that [`Outbox::request`] has sent. The answer still comes, often as an error.
    pub fn cancel(&mut self, key: RequestKey) {
        if let Some(toward) = self.open.side_of(key) {
            let params = Json::object([("requestId", Some(Id::from(key.0).json().clone()))]);
            self.send(toward, &Message::notification(acp::CANCEL_REQUEST, params));
        }
    }

    /// Sends a notification.
    pub fn notify(&mut self, toward: Side, call: Call) {
        self.send(toward, &Message::Notification(call));
    }

    pub(crate) fn send(&mut self, toward: Side, message: &Message) {
        self.dialect.encode(toward, message, self.lines);
    }
}

impl std::fmt::Debug for Outbox<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("bytes", &self.lines.len()).finish_non_exhaustive()
    }
}
