//! What a proxy can do.

use acp_wire::{Call, Dialect, Id, Json, Message, Outcome, Side, acp};

use crate::driver::{Open, Table};
use crate::proxy::Request;

/// Names a question of the proxy's own, to know its answer by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub(crate) u64);

/// Where a handler puts what is to be sent, in order.
pub struct Outbox<'a> {
    pub(crate) dialect: &'a mut Dialect,
    pub(crate) table: &'a mut Table,
    pub(crate) lines: &'a mut Vec<u8>,
}

impl Outbox<'_> {
    /// Passes a request on, changed or not; its answer goes back to the asker by itself.
    pub fn pass(&mut self, toward: Side, request: Request) {
        let id = self.table.open(Open::Passed { asker_id: request.id.detached(), toward });
        self.send(toward, &Message::Request { id, call: request.call });
    }

    /// Answers a request in place of whoever it was meant for.
    pub fn answer(&mut self, request: Request, outcome: Outcome) {
        self.respond(request.id, outcome);
    }

    /// Asks something of the proxy's own; the answer comes to [`Proxy::on_answer`](crate::Proxy).
    pub fn ask(&mut self, toward: Side, call: Call) -> Tag {
        let id = self.table.open(Open::Asked { toward });
        let tag = Tag(self.table.last());
        self.send(toward, &Message::Request { id, call });
        tag
    }

    /// Does not want the answer to a question of its own any more. It comes all the same, perhaps as an
    /// error.
    pub fn cancel(&mut self, tag: Tag) {
        if let Some(toward) = self.table.asked(tag) {
            let params = Json::object([("requestId", Some(Id::from(tag.0).json().clone()))]);
            self.send(toward, &Message::notification(acp::CANCEL_REQUEST, params));
        }
    }

    pub fn notify(&mut self, toward: Side, call: Call) {
        self.send(toward, &Message::Notification(call));
    }

    pub(crate) fn respond(&mut self, id: Id, outcome: Outcome) {
        self.send(Side::Editor, &Message::response(id, outcome));
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
