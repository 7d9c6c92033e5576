//! The rules for messages that skip a component.
//!
//! A message skips a component if it is a `session/update` that the SDKs of the component's generation cannot read,
//! or if the component has crashed on that kind of message before. The message goes to
//! the next seat as if the component had forwarded it.
//!
//! The order of messages stays the same. In place of the message, a *barrier* is sent through the component
//! (see `barrier`), and the message waits until the barrier comes out. Messages that follow each other
//! directly share one barrier.
//!
//! No message skips a guard or the agent.

use acp_wire::acp::UPDATE;
use acp_wire::dialect::updates::{self, UpdateSchema};
use acp_wire::{Call, Id, Json, Message, Outcome, Side};

use crate::event::{Action, Context};
use crate::pending::{PendingRequest, Purpose};
use crate::recovery::{Held, HeldCall};
use crate::router::{Router, answer};
use crate::seat::{Role, Seat, SeatState};

/// How many kinds of message may skip one component because it has crashed on them.
const MAX_KINDS: usize = 32;

/// Which messages skip one component, and how many wait to do so.
#[derive(Debug, Default)]
pub(crate) struct SkipRules {
    /// The updates that the component can read, if the others skip it.
    readable_updates: Option<&'static UpdateSchema>,
    /// The kinds of message on which the component has crashed.
    kinds: Vec<MessageKind>,
    /// The last barrier and its direction, if nothing else was delivered to the component since.
    shared_barrier: Option<(Id, Side)>,
    /// How many messages wait behind barriers, and their size in bytes.
    held: (usize, usize),
}

/// A kind of message: the direction, the method, and for `session/update` the kind of update.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageKind {
    /// The side toward which messages of this kind travel.
    pub toward: Side,
    /// The method.
    pub method: String,
    /// For `session/update`: the kind of update.
    pub update: Option<String>,
}

/// Messages with a longer method or update kind have no [`MessageKind`], so that stored kinds stay small.
const MAX_NAME_LENGTH: usize = 128;

impl MessageKind {
    /// The kind of a request or notification. `None` if a name in it is too long.
    pub fn of(toward: Side, message: &Message) -> Option<MessageKind> {
        let (Message::Request { call, .. } | Message::Notification(call)) = message else {
            return None;
        };
        let update = match MessageKind::update_of(call) {
            Some(update) => Some(update.text()?.into_owned()),
            None => None,
        };
        let method = call.method.name().into_owned();
        let longest = method.len().max(update.as_ref().map_or(0, String::len));
        (longest <= MAX_NAME_LENGTH).then_some(MessageKind { toward, method, update })
    }

    /// For a `session/update`: the kind of update, as a JSON string.
    pub fn update_of(call: &Call) -> Option<Json> {
        call.params.as_ref().filter(|_| call.is(UPDATE)).and_then(updates::update_kind)
    }

    /// Whether a call is of this kind. `update` is the result of [`update_of`](MessageKind::update_of) for
    /// the call, so that the call is read once for several comparisons.
    pub fn matches(&self, toward: Side, call: &Call, update: Option<&Json>) -> bool {
        self.toward == toward
            && call.is(&self.method)
            && match (&self.update, update) {
                (Some(ours), Some(theirs)) => theirs.equals_text(ours),
                (None, None) => true,
                _ => false,
            }
    }
}

/// For example `session/update usage_update`.
impl std::fmt::Display for MessageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.update {
            Some(update) => write!(f, "{} {update}", self.method),
            None => f.write_str(&self.method),
        }
    }
}

impl Router {
    /// Sets which updates a component can read. Others skip it.
    pub fn set_readable_updates(
        &mut self,
        seat: Seat,
        readable_updates: Option<&'static UpdateSchema>,
    ) {
        if let Some(skip_rules) = self.skip_rules_mut(seat) {
            skip_rules.readable_updates = readable_updates;
        }
    }

    /// Lets a kind of message skip a component from now on. Returns `false` if the rule exists already, if
    /// there are too many rules, or if no message may skip this component.
    pub fn add_skip_rule(&mut self, seat: Seat, kind: MessageKind) -> bool {
        if !self.can_be_skipped(seat) {
            return false;
        }
        let Some(skip_rules) = self.skip_rules_mut(seat) else { return false };
        let new = !skip_rules.kinds.contains(&kind) && skip_rules.kinds.len() < MAX_KINDS;
        if new {
            skip_rules.kinds.push(kind);
        }
        new
    }

    /// The kinds of message that skip a component because it has crashed on them.
    pub fn skipped_kinds(&self, seat: Seat) -> &[MessageKind] {
        self.skip_rules(seat).map_or(&[], |skip_rules| &skip_rules.kinds)
    }

    /// The kinds of `session/update` in the current schema that skip a component.
    pub fn skipped_updates(&self, seat: Seat) -> Vec<&'static str> {
        let readable = self.skip_rules(seat).and_then(|skip_rules| skip_rules.readable_updates);
        let readable = readable.filter(|_| self.can_be_skipped(seat) && !self.outer.v2);
        let is_readable =
            |kind: &str| readable.is_none_or(|updates| updates.kinds().any(|it| it == kind));
        updates::CURRENT_KINDS.into_iter().filter(|kind| !is_readable(kind)).collect()
    }

    /// Whether messages may skip this component at all.
    pub fn can_be_skipped(&self, seat: Seat) -> bool {
        let guard = self.chain.component(seat).is_none_or(|component| component.guard);
        !guard && self.chain.role(seat) == Role::Proxy
    }

    fn skip_rules(&self, seat: Seat) -> Option<&SkipRules> {
        self.skip_rules.get(seat.index().checked_sub(1)?)
    }

    fn skip_rules_mut(&mut self, seat: Seat) -> Option<&mut SkipRules> {
        self.skip_rules.get_mut(seat.index().checked_sub(1)?)
    }

    /// Whether a message that is about to be delivered to this seat skips it.
    pub(crate) fn message_skips(&self, seat: Seat, held_call: &HeldCall) -> bool {
        let (Message::Request { call, .. } | Message::Notification(call)) = &held_call.message
        else {
            return false;
        };
        // A component that is not initialized gets nothing but `initialize`.
        let was_initialized = self.state(seat).is_some_and(SeatState::was_initialized);
        was_initialized
            && self.is_skipped(seat, held_call.toward, call)
            && self.can_be_skipped(seat)
    }

    /// Whether a skip rule of the component matches this message.
    pub fn is_skipped(&self, seat: Seat, toward: Side, call: &Call) -> bool {
        let Some(skip_rules) = self.skip_rules(seat) else { return false };
        if !skip_rules.kinds.is_empty() {
            let update = MessageKind::update_of(call);
            if skip_rules.kinds.iter().any(|kind| kind.matches(toward, call, update.as_ref())) {
                return true;
            }
        }
        // SDKs for ACP v2 can read unknown updates.
        match skip_rules.readable_updates.filter(|_| toward == Side::Editor && !self.outer.v2) {
            Some(updates) if call.is(UPDATE) => {
                call.params.as_ref().is_some_and(|params| !updates.can_read(params))
            }
            _ => false,
        }
    }

    /// Sends a message past a component, behind everything that was delivered to the component before.
    pub(crate) fn send_past(&mut self, seat: Seat, mut held_call: HeldCall, cx: &mut Context<'_>) {
        held_call.message = held_call.message.detached();
        held_call.skipped.push(seat);
        let toward = held_call.toward;
        let held = Held::Call(held_call);
        match self.shared_barrier(seat, toward, cx.out) {
            Some(id) => self.hold_behind(seat, &id, held),
            None => self.send_barrier(seat, toward, held, cx),
        }
    }

    /// The barrier that was the last delivery to a component in this direction.
    fn shared_barrier(&self, seat: Seat, toward: Side, actions: &[Action]) -> Option<Id> {
        let (id, side) = self.skip_rules(seat)?.shared_barrier.as_ref()?;
        self.pending.request(id)?;
        let since = actions.iter().rev().find_map(|action| match action {
            Action::Deliver { to, message, .. } if *to == seat => Some(message),
            _ => None,
        });
        let is_last = since.is_none_or(|message| is_request(message, id));
        (is_last && *side == toward).then(|| id.clone())
    }

    /// Records that a barrier was the last delivery to a component.
    pub(crate) fn set_shared_barrier(&mut self, seat: Seat, id: &Id, toward: Side) {
        if let Some(skip_rules) = self.skip_rules_mut(seat) {
            skip_rules.shared_barrier = Some((id.clone(), toward));
        }
    }

    /// Whether the component has skip rules.
    pub(crate) fn has_skip_rules(&self, seat: Seat) -> bool {
        self.skip_rules(seat)
            .is_some_and(|it| it.readable_updates.is_some() || !it.kinds.is_empty())
    }

    /// Holds a message behind a barrier.
    pub(crate) fn hold_behind(&mut self, seat: Seat, id: &Id, held: Held) {
        let size = held.size();
        if let Some(behind) = self.pending.held_behind(id) {
            behind.push(held);
            if let Some(skip_rules) = self.skip_rules_mut(seat) {
                skip_rules.held = (skip_rules.held.0 + 1, skip_rules.held.1 + size);
            }
        }
    }

    /// Subtracts messages that no longer wait behind a barrier from the counters.
    pub(crate) fn subtract_held(&mut self, seat: Seat, held: Vec<Held>) -> Vec<Held> {
        let size: usize = held.iter().map(Held::size).sum();
        if let Some(skip_rules) = self.skip_rules_mut(seat) {
            let (count, bytes) = skip_rules.held;
            skip_rules.held = (count.saturating_sub(held.len()), bytes.saturating_sub(size));
        }
        held
    }

    /// Releases the messages behind a barrier that has come out of the component or is given up.
    pub(crate) fn release_behind(
        &mut self,
        seat: Seat,
        request: PendingRequest,
        cx: &mut Context<'_>,
    ) {
        let Purpose::Barrier(held) = request.purpose else { return };
        for held in self.subtract_held(seat, held) {
            self.resume_held(held, cx);
        }
    }

    /// Routes a message that was held.
    pub(crate) fn resume_held(&mut self, held: Held, cx: &mut Context<'_>) {
        match held {
            Held::Call(held_call) => self.route(held_call, cx),
            Held::Answer(held_answer) => self.forward_answer(held_answer, cx),
        }
    }

    /// Releases a message at shutdown, without waiting for barriers. A notification goes to the next
    /// component that it does not skip. A request is refused.
    pub(crate) fn release_at_shutdown(&mut self, held: Held, error: &Json, cx: &mut Context<'_>) {
        match held {
            Held::Answer(held_answer) => self.deliver_answer(held_answer, cx),
            Held::Call(HeldCall { from, toward, message: Message::Request { id, .. }, .. }) => {
                answer(from, toward.opposite(), id, Outcome::Error(error.clone()), cx);
            }
            Held::Call(mut held_call) => {
                while let Some(to) = self.neighbour(held_call.position(), held_call.toward) {
                    if to == Seat::OUTER || !self.message_skips(to, &held_call) {
                        let HeldCall { toward, message, .. } = held_call;
                        return cx.out.push(Action::Deliver { to, toward, message });
                    }
                    held_call.skipped.push(to);
                }
            }
        }
    }

    /// Takes the messages behind barriers that pass the test.
    pub(crate) fn take_behind_barriers(&mut self, test: impl Fn(&Held) -> bool) -> Vec<Held> {
        let mut taken: Vec<(Seat, Vec<Held>)> = Vec::new();
        for (seat, held) in self.pending.barriers() {
            let found: Vec<Held> = held.extract_if(.., |held| test(held)).collect();
            if !found.is_empty() {
                taken.push((seat, found));
            }
        }
        taken.into_iter().flat_map(|(seat, held)| self.subtract_held(seat, held)).collect()
    }

    /// Whether `requester` waits for a request or an answer that is behind a barrier.
    pub(crate) fn waits_behind_barrier(&self, requester: Seat) -> bool {
        self.holds_behind_barriers()
            && self.pending.requests().any(|request| match &request.purpose {
                Purpose::Barrier(held) => held.iter().any(|it| it.is_awaited_by(requester)),
                _ => false,
            })
    }

    /// Whether any message waits behind a barrier.
    pub(crate) fn holds_behind_barriers(&self) -> bool {
        self.skip_rules.iter().any(|skip_rules| skip_rules.held.0 > 0)
    }

    /// How many messages wait behind barriers of a component, and their size in bytes.
    pub(crate) fn held_behind_barriers(&self, seat: Seat) -> (usize, usize) {
        self.skip_rules(seat).map_or((0, 0), |skip_rules| skip_rules.held)
    }

    /// Stops sharing a barrier after another delivery to the component. The next message that skips the
    /// component must not overtake that delivery, so it needs a new barrier.
    pub(crate) fn stop_sharing_barriers(&mut self, actions: &[Action]) {
        if self.skip_rules.iter().all(|skip_rules| skip_rules.shared_barrier.is_none()) {
            return;
        }
        for action in actions {
            if let Action::Deliver { to, message, .. } = action
                && let Some(skip_rules) = self.skip_rules_mut(*to)
            {
                skip_rules.shared_barrier.take_if(|(id, _)| !is_request(message, id));
            }
        }
        let pending = &self.pending;
        for skip_rules in &mut self.skip_rules {
            skip_rules.shared_barrier.take_if(|(id, _)| pending.request(id).is_none());
        }
    }
}

fn is_request(message: &Message, id: &Id) -> bool {
    matches!(message, Message::Request { id: it, .. } if it == id)
}
