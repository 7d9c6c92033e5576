//! The trait that a proxy implements, and the requests that it receives.

use acp_wire::{Call, Id, Json, Message, Outcome, Side};

use crate::outbox::{Outbox, RequestKey};

/// A request that the proxy has received and not answered yet. Forward it, answer it, or keep it for later.
#[derive(Debug)]
#[must_use = "a request that is dropped is never answered: use Outbox::forward or Outbox::answer"]
pub struct IncomingRequest {
    pub(crate) id: Id,
    /// The method and the parameters. A proxy may change both before it forwards the request.
    pub call: Call,
}

impl IncomingRequest {
    /// The id that the requester gave to the request. A cancellation names this id.
    pub fn id(&self) -> &Id {
        &self.id
    }
}

/// What happens to a message after [`Proxy::rewrite`].
#[derive(Debug, Clone, PartialEq)]
pub enum Rewritten {
    /// The message, changed or not, goes on.
    Pass,
    /// A notification is dropped. Requests and answers go on, because a requester waits for them.
    Drop,
    /// A request is answered with this error object. An answer becomes this error. A notification is dropped.
    Refuse(Json),
}

/// A proxy without waiting: each method handles one message and returns.
///
/// Every method has a default that forwards the message, so an empty `impl` is a transparent proxy.
pub trait Proxy {
    /// Rewrites a message from that side before any other method sees it. Responses have the id that their requester
    /// knows. What this method sends leaves before the message.
    fn rewrite(&mut self, from: Side, message: &mut Message, out: &mut Outbox<'_>) -> Rewritten {
        let _ = (from, message, out);
        Rewritten::Pass
    }

    /// Observes a message from that side before any other method handles it. Responses have the id that
    /// their requester knows. The message is delivered whatever this method does.
    fn on_message(&mut self, from: Side, message: &Message) {
        let _ = (from, message);
    }

    /// Handles a request from that side. Forward it or answer it exactly once, now or later.
    fn on_request(&mut self, from: Side, request: IncomingRequest, out: &mut Outbox<'_>) {
        out.forward(from.opposite(), request);
    }

    /// Handles a notification from that side.
    fn on_notification(&mut self, from: Side, call: Call, out: &mut Outbox<'_>) {
        out.notify(from.opposite(), call);
    }

    /// The driver has returned the answer to a request that this proxy has forwarded. `id` is the id that its
    /// requester knows.
    fn on_forwarded_answer(&mut self, id: &Id, outcome: &Outcome) {
        let _ = (id, outcome);
    }

    /// The requester cancels a request that this proxy keeps. The proxy still has to answer it. The driver
    /// cancels forwarded requests without calling this.
    fn on_cancel(&mut self, id: &Id, out: &mut Outbox<'_>) {
        let _ = (id, out);
    }

    /// Handles the answer to a request that this proxy has sent with [`Outbox::request`].
    fn on_answer(&mut self, key: RequestKey, outcome: Outcome, out: &mut Outbox<'_>) {
        let _ = (key, outcome, out);
    }
}
