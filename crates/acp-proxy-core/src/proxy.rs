//! What authors write.

use acp_wire::{Call, Id, Message, Outcome, Side};

use crate::outbox::{Outbox, Tag};

/// A request that waits for its answer: pass it on, answer it, or keep it for later.
#[derive(Debug)]
#[must_use = "a request that is dropped is never answered: use Outbox::pass or Outbox::answer"]
pub struct Request {
    pub(crate) id: Id,
    pub call: Call,
}

impl Request {
    /// As its asker calls it, and so as it is cancelled.
    pub fn id(&self) -> &Id {
        &self.id
    }
}

/// Sees every message of its place in the chain, from both sides. All methods default to passing
/// on, so an empty `impl` is a transparent proxy.
pub trait Proxy {
    /// Any message came from that side: answers, too, under the ids that their askers know. It goes
    /// its way whatever is done here.
    fn on_message(&mut self, from: Side, message: &Message) {
        let _ = (from, message);
    }

    /// A request came from that side. Do exactly one thing with it, now or later.
    fn on_request(&mut self, from: Side, request: Request, out: &mut Outbox<'_>) {
        out.pass(from.opposite(), request);
    }

    /// A notification came from that side.
    fn on_notification(&mut self, from: Side, call: Call, out: &mut Outbox<'_>) {
        out.notify(from.opposite(), call);
    }

    /// The asker of a request that this proxy keeps does not want the answer any more. It still has to
    /// be answered; requests that were passed on are cancelled there by themselves.
    fn on_cancel(&mut self, id: &Id, out: &mut Outbox<'_>) {
        let _ = (id, out);
    }

    /// The answer to what this proxy itself asked with [`Outbox::ask`].
    fn on_answer(&mut self, tag: Tag, outcome: Outcome, out: &mut Outbox<'_>) {
        let _ = (tag, outcome, out);
    }
}
