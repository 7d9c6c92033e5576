//! Messages for the agent that wait until the shell has opened the endpoints of a set-up request.
//!
//! A set-up request with bridged servers cannot be written before its endpoints are known. All
//! later messages for the agent wait behind it, so that nothing overtakes it. The shell answers
//! each [`Action::OpenEndpoint`] before it reads anything else, so the queue is short and needs no
//! limit.

use std::collections::VecDeque;

use acp_wire::{Id, Message, Side};
use router::Seat;

use super::pending_request::PendingRequest;
use super::{Action, Broker, Context, Hop};
use crate::bridge::SetUpDraft;
use crate::endpoint::{Endpoint, Ticket};

/// The queue of held messages. If it is not empty, its first item is a set-up request that waits
/// for the shell.
#[derive(Debug, Default)]
pub(super) struct HeldDeliveries {
    items: VecDeque<HeldItem>,
}

#[derive(Debug)]
enum HeldItem {
    /// A set-up request that waits for its endpoints.
    SetUp { id: Id, draft: Box<SetUpDraft> },
    /// A message of the router that the broker has not handled yet.
    Delivery { hop: Hop, message: Message },
    /// A message of the broker itself.
    Own { toward: Side, message: Message },
}

impl HeldDeliveries {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds a message of the router at the end.
    pub(super) fn push(&mut self, hop: Hop, message: Message) {
        self.items.push_back(HeldItem::Delivery { hop, message });
    }

    /// Adds a set-up request at the front, because it is the next message for the agent.
    fn push_set_up_first(&mut self, id: Id, draft: SetUpDraft) {
        self.items.push_front(HeldItem::SetUp { id, draft: Box::new(draft) });
    }

    /// The shell has answered a request for an endpoint.
    fn endpoint_opened(&mut self, ticket: Ticket, endpoint: &Result<Endpoint, String>) {
        for item in &mut self.items {
            if let HeldItem::SetUp { draft, .. } = item {
                draft.endpoint_opened(ticket, endpoint);
            }
        }
    }

    /// Removes and returns the first item, unless it waits for the shell.
    fn pop(&mut self) -> Option<HeldItem> {
        match self.items.front()? {
            HeldItem::SetUp { draft, .. } if !draft.is_complete() => None,
            _ => self.items.pop_front(),
        }
    }

    /// Removes all items. Returns the tickets of the set-up requests.
    pub(super) fn clear(&mut self) -> Vec<Ticket> {
        let drafts = self.items.drain(..).filter_map(|item| match item {
            HeldItem::SetUp { draft, .. } => Some(draft),
            HeldItem::Delivery { .. } | HeldItem::Own { .. } => None,
        });
        drafts.flat_map(|draft| draft.tickets().to_vec()).collect()
    }

    /// Moves new deliveries to this seat from the list of actions to the queue, if it is not empty.
    /// `from` is the index of the first new action.
    fn hold_back(&mut self, seat: Seat, from: usize, cx: &mut Context<'_>) {
        if self.is_empty() {
            return;
        }
        let held =
            |action: &mut Action| matches!(action, Action::Deliver { to, .. } if *to == seat);
        for action in cx.out.extract_if(from.., held) {
            if let Action::Deliver { toward, message, .. } = action {
                self.items.push_back(HeldItem::Own { toward, message });
            }
        }
    }
}

impl Broker {
    /// Whether all messages for this seat are held.
    pub(super) fn is_held(&self, seat: Seat) -> bool {
        seat == self.agent_seat && !self.held.is_empty()
    }

    /// Calls `act`. If messages for the agent are held, queues the new deliveries to the agent
    /// behind them.
    pub(super) fn after_held<T>(
        &mut self,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut Broker, &mut Context<'_>) -> T,
    ) -> T {
        let from = cx.out.len();
        let result = act(self, cx);
        self.held.hold_back(self.agent_seat, from, cx);
        result
    }

    /// The shell has opened the endpoint that an [`Action::OpenEndpoint`] requested, or reports why it
    /// could not. The shell answers each of these actions once.
    pub fn endpoint_opened(
        &mut self,
        ticket: Ticket,
        endpoint: Result<Endpoint, String>,
        cx: &mut Context<'_>,
    ) {
        self.bridge.endpoint_opened(ticket, &endpoint, cx);
        self.held.endpoint_opened(ticket, &endpoint);
        self.release(cx);
    }

    /// Finishes a set-up request for the agent and returns it. Holds it if it waits for an
    /// endpoint.
    pub(super) fn send_set_up(
        &mut self,
        id: Id,
        draft: SetUpDraft,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        if !draft.is_complete() {
            self.held.push_set_up_first(id, draft);
            return None;
        }
        match self.bridge.finish_set_up(draft, cx) {
            Ok((call, set_up)) => {
                self.pending.insert(self.agent_seat, &id, PendingRequest::SetUp(Box::new(set_up)));
                Some(Message::Request { id, call })
            }
            Err(outcome) => {
                let message = Message::response(id, outcome);
                cx.out.push(Action::Inject {
                    from: self.agent_seat,
                    toward: Side::Editor,
                    message,
                });
                None
            }
        }
    }

    /// Sends a set-up request to the agent again, behind the held messages.
    pub(super) fn resend_set_up(&mut self, id: Id, draft: Box<SetUpDraft>, cx: &mut Context<'_>) {
        self.held.items.push_back(HeldItem::SetUp { id, draft });
        self.release(cx);
    }

    /// Delivers the held messages, up to the next set-up request that waits for the shell.
    fn release(&mut self, cx: &mut Context<'_>) {
        while let Some(item) = self.held.pop() {
            let mut then = Vec::new();
            let (toward, message) = match item {
                HeldItem::SetUp { id, draft } => (Side::Agent, self.send_set_up(id, *draft, cx)),
                HeldItem::Own { toward, message } => (toward, Some(message)),
                HeldItem::Delivery { hop, message } => {
                    let mut cx = Context { now: cx.now, out: &mut then };
                    (hop.toward, self.deliver_now(hop, message, &mut cx))
                }
            };
            if let Some(message) = message {
                cx.out.push(Action::Deliver { to: self.agent_seat, toward, message });
            }
            cx.out.append(&mut then);
        }
    }
}
