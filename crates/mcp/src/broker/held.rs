//! What waits at the agent's hop until the shell has opened the places of a set-up request's servers.
//!
//! A set-up request whose servers are bridged cannot be written before their places are known. Everything
//! that is delivered to the agent after it waits behind it, so that nothing overtakes it. The shell answers
//! each [`Step::OpenEndpoint`] before it reads anything else, so the queue is short and needs no limit.

use std::collections::VecDeque;

use acp_wire::{Id, Message, Side};
use router::Seat;

use super::question::Watch;
use super::{Broker, Cx, Hop, Step};
use crate::bridge::Draft;
use crate::endpoint::{Endpoint, Ticket};

/// If anything waits, the first item is a set-up request that waits for the shell.
#[derive(Debug, Default)]
pub struct Held {
    items: VecDeque<Item>,
}

#[derive(Debug)]
enum Item {
    SetUp {
        id: Id,
        draft: Box<Draft>,
    },
    /// A message of the router's. The exchange has not looked at it yet.
    Delivery {
        hop: Hop,
        message: Message,
    },
    /// A message of the exchange's own.
    Own {
        toward: Side,
        message: Message,
    },
}

impl Held {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// A message of the router's waits behind everything else.
    pub fn push(&mut self, hop: Hop, message: Message) {
        self.items.push_back(Item::Delivery { hop, message });
    }

    /// A set-up request waits before everything else: its turn has come.
    fn push_set_up_first(&mut self, id: Id, draft: Draft) {
        self.items.push_front(Item::SetUp { id, draft: Box::new(draft) });
    }

    /// The shell has answered for a place.
    fn answered(&mut self, ticket: Ticket, place: &Result<Endpoint, String>) {
        for item in &mut self.items {
            if let Item::SetUp { draft, .. } = item {
                draft.answered(ticket, place);
            }
        }
    }

    /// Takes the first item, unless it waits for the shell.
    fn pop(&mut self) -> Option<Item> {
        match self.items.front()? {
            Item::SetUp { draft, .. } if !draft.is_complete() => None,
            _ => self.items.pop_front(),
        }
    }

    /// Forgets everything that waits. Gives the tickets of the set-up requests.
    pub fn clear(&mut self) -> Vec<Ticket> {
        let drafts = self.items.drain(..).filter_map(|item| match item {
            Item::SetUp { draft, .. } => Some(draft),
            Item::Delivery { .. } | Item::Own { .. } => None,
        });
        drafts.flat_map(|draft| draft.tickets().to_vec()).collect()
    }

    /// Moves what the exchange delivers to this seat behind what waits there. `from`: where the steps to look
    /// at begin.
    fn hold_back(&mut self, seat: Seat, from: usize, cx: &mut Cx<'_>) {
        if self.is_empty() {
            return;
        }
        let held = |step: &mut Step| matches!(step, Step::Deliver { to, .. } if *to == seat);
        for step in cx.out.extract_if(from.., held) {
            if let Step::Deliver { toward, message, .. } = step {
                self.items.push_back(Item::Own { toward, message });
            }
        }
    }
}

impl Broker {
    /// Whether everything for this seat waits, whatever it is.
    pub(super) fn holds(&self, seat: Seat) -> bool {
        seat == self.far && !self.held.is_empty()
    }

    /// Does something that may deliver messages to a seat where others wait.
    pub(super) fn in_order<T>(
        &mut self,
        cx: &mut Cx<'_>,
        act: impl FnOnce(&mut Broker, &mut Cx<'_>) -> T,
    ) -> T {
        let from = cx.out.len();
        let done = act(self, cx);
        self.held.hold_back(self.far, from, cx);
        done
    }

    /// The shell has opened the place that a [`Step::OpenEndpoint`] asked for, or says why it could not. It answers
    /// each of them once.
    pub fn endpoint_opened(
        &mut self,
        ticket: Ticket,
        place: Result<Endpoint, String>,
        cx: &mut Cx<'_>,
    ) {
        self.bridge.admitted(ticket, &place, cx);
        self.held.answered(ticket, &place);
        self.release(cx);
    }

    /// A set-up request for the agent, whose turn it is. Gives it back if it waits for nothing.
    pub(super) fn place(&mut self, id: Id, draft: Draft, cx: &mut Cx<'_>) -> Option<Message> {
        if !draft.is_complete() {
            self.held.push_set_up_first(id, draft);
            return None;
        }
        match self.bridge.complete(draft, cx) {
            Ok((call, set_up)) => {
                self.questions.watch(self.far, &id, Watch::SetUp(Box::new(set_up)));
                Some(Message::Request { id, call })
            }
            Err(outcome) => {
                let message = Message::response(id, outcome);
                cx.out.push(Step::Inject { from: self.far, toward: Side::Editor, message });
                None
            }
        }
    }

    /// A set-up request is sent to the agent again, behind what waits.
    pub(super) fn place_again(&mut self, id: Id, draft: Box<Draft>, cx: &mut Cx<'_>) {
        self.held.items.push_back(Item::SetUp { id, draft });
        self.release(cx);
    }

    /// Delivers what waits, up to the next set-up request that waits for the shell.
    fn release(&mut self, cx: &mut Cx<'_>) {
        while let Some(item) = self.held.pop() {
            let mut then = Vec::new();
            let (toward, message) = match item {
                Item::SetUp { id, draft } => (Side::Agent, self.place(id, *draft, cx)),
                Item::Own { toward, message } => (toward, Some(message)),
                Item::Delivery { hop, message } => {
                    let mut cx = Cx { now: cx.now, out: &mut then };
                    (hop.toward, self.deliver_now(hop, message, &mut cx))
                }
            };
            if let Some(message) = message {
                cx.out.push(Step::Deliver { to: self.far, toward, message });
            }
            cx.out.append(&mut then);
        }
    }
}
