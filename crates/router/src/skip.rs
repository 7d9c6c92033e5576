//! The rules for messages that go around a component.
//!
//! Some messages are not for a component, though they travel past it: updates that the SDKs of its
//! generation cannot read, and kinds of message that it has crashed on before. They go on to whoever is
//! next in their direction, as if the component had passed them on, and in the same order: such a message
//! waits behind a *barrier* (see `barrier`) that is sent through the component in its place. Messages with
//! nothing between them share one barrier.
//!
//! Nothing goes around a guard, nor around the agent.

use acp_wire::acp::UPDATE;
use acp_wire::dialect::updates::{self, UpdateSchema};
use acp_wire::{Call, Id, Json, Message, Outcome, Side};

use crate::event::{Action, Context};
use crate::pending::{PendingRequest, Purpose};
use crate::recovery::{Held, HeldCall};
use crate::router::{Router, answer};
use crate::seat::{Role, Seat};

/// So many kinds of message may go around one component because it has crashed on them.
const MOST_KINDS: usize = 32;

/// What goes around one component.
#[derive(Debug, Default)]
pub struct SkipRules {
    /// What its SDK can read, if it fails with anything else.
    reads: Option<&'static UpdateSchema>,
    /// What it has crashed on.
    kinds: Vec<MessageKind>,
    /// The last barrier, if nothing else was delivered to the component since.
    last: Option<(Id, Side)>,
    /// How many messages wait behind barriers, and how many bytes they are.
    held: (usize, usize),
}

/// A kind of message, as far as a component can be spared it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageKind {
    pub toward: Side,
    pub method: String,
    /// For `session/update`: the kind of update.
    pub update: Option<String>,
}

/// Longer names of methods and kinds of update are not told apart, so that remembering them costs little.
const LONGEST_NAME: usize = 128;

impl MessageKind {
    /// The kind of a request or a notification, unless its name is too long.
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
        (longest <= LONGEST_NAME).then_some(MessageKind { toward, method, update })
    }

    /// For a `session/update`: the kind of update.
    pub fn update_of(call: &Call) -> Option<Json> {
        call.params.as_ref().filter(|_| call.is(UPDATE)).and_then(updates::update_kind)
    }

    /// Whether a call is of this kind. `update` is [`update_of`](MessageKind::update_of) of the call, which is read
    /// once for all comparisons.
    pub fn is_of(&self, toward: Side, call: &Call, update: Option<&Json>) -> bool {
        self.toward == toward
            && call.is(&self.method)
            && match (&self.update, update) {
                (Some(ours), Some(theirs)) => theirs.equals_text(ours),
                (None, None) => true,
                _ => false,
            }
    }
}

/// `session/update usage_update`
impl std::fmt::Display for MessageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.update {
            Some(update) => write!(f, "{} {update}", self.method),
            None => f.write_str(&self.method),
        }
    }
}

impl Router {
    /// Sets which updates a component can read. Others go around it.
    pub fn set_readable_updates(&mut self, seat: Seat, reads: Option<&'static UpdateSchema>) {
        if let Some(skip_rules) = self.skip_rules_mut(seat) {
            skip_rules.reads = reads;
        }
    }

    /// A component is spared a kind of message from now on. Says whether that is new, and possible.
    pub fn add_skip_rule(&mut self, seat: Seat, kind: MessageKind) -> bool {
        if !self.can_be_skipped(seat) {
            return false;
        }
        let Some(skip_rules) = self.skip_rules_mut(seat) else { return false };
        let new = !skip_rules.kinds.contains(&kind) && skip_rules.kinds.len() < MOST_KINDS;
        if new {
            skip_rules.kinds.push(kind);
        }
        new
    }

    /// The kinds of message that a component is spared because it has crashed on them.
    pub fn skipped_kinds(&self, seat: Seat) -> &[MessageKind] {
        self.skip_rules(seat).map_or(&[], |skip_rules| &skip_rules.kinds)
    }

    /// The kinds of `session/update` that go around a component, of those that there are today.
    pub fn skipped_updates(&self, seat: Seat) -> Vec<&'static str> {
        let reads = self.skip_rules(seat).and_then(|skip_rules| skip_rules.reads);
        let reads = reads.filter(|_| self.can_be_skipped(seat) && !self.outer.v2);
        let is_read = |kind: &str| reads.is_none_or(|updates| updates.kinds().any(|it| it == kind));
        updates::CURRENT_KINDS.into_iter().filter(|kind| !is_read(kind)).collect()
    }

    /// Whether messages may go around this component at all.
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

    /// Whether a message that is to be delivered to this seat goes around it.
    pub(crate) fn skips(&self, seat: Seat, letter: &HeldCall) -> bool {
        let (Message::Request { call, .. } | Message::Notification(call)) = &letter.message else {
            return false;
        };
        // A component that is not initialized yet is sent nothing but its greeting.
        let stands = matches!(
            self.state(seat),
            Some(state) if state.was_initialized()
        );
        stands && self.is_skipped(seat, letter.toward, call) && self.can_be_skipped(seat)
    }

    /// Whether a component is spared this message.
    pub fn is_skipped(&self, seat: Seat, toward: Side, call: &Call) -> bool {
        let Some(skip_rules) = self.skip_rules(seat) else { return false };
        if !skip_rules.kinds.is_empty() {
            let update = MessageKind::update_of(call);
            if skip_rules.kinds.iter().any(|kind| kind.is_of(toward, call, update.as_ref())) {
                return true;
            }
        }
        // In ACP v2 the schema itself has room for what is new.
        match skip_rules.reads.filter(|_| toward == Side::Editor && !self.outer.v2) {
            Some(updates) if call.is(UPDATE) => {
                call.params.as_ref().is_some_and(|params| !updates.can_read(params))
            }
            _ => false,
        }
    }

    /// Sends a message on past a component, behind all that the component was sent before.
    pub(crate) fn send_past(&mut self, seat: Seat, mut letter: HeldCall, cx: &mut Context<'_>) {
        letter.message = letter.message.detached();
        letter.past.push(seat);
        let toward = letter.toward;
        let held = Held::Call(letter);
        match self.shared_barrier(seat, toward, cx.out) {
            Some(id) => self.hold_behind(seat, &id, held),
            None => self.send_barrier(seat, toward, held, cx),
        }
    }

    /// The barrier that was the last thing a component was sent, in this direction.
    fn shared_barrier(&self, seat: Seat, toward: Side, actions: &[Action]) -> Option<Id> {
        let (id, side) = self.skip_rules(seat)?.last.as_ref()?;
        self.pending.request(id)?;
        let since = actions.iter().rev().find_map(|action| match action {
            Action::Deliver { to, message, .. } if *to == seat => Some(message),
            _ => None,
        });
        let is_last = since.is_none_or(|message| is_request(message, id));
        (is_last && *side == toward).then(|| id.clone())
    }

    pub(crate) fn set_shared_barrier(&mut self, seat: Seat, id: &Id, toward: Side) {
        if let Some(skip_rules) = self.skip_rules_mut(seat) {
            skip_rules.last = Some((id.clone(), toward));
        }
    }

    /// Whether anything goes around this component.
    pub(crate) fn has_skip_rules(&self, seat: Seat) -> bool {
        self.skip_rules(seat).is_some_and(|it| it.reads.is_some() || !it.kinds.is_empty())
    }

    /// Puts a message behind a barrier.
    pub(crate) fn hold_behind(&mut self, seat: Seat, id: &Id, held: Held) {
        let size = held.size();
        if let Some(behind) = self.pending.held_behind(id) {
            behind.push(held);
            if let Some(skip_rules) = self.skip_rules_mut(seat) {
                skip_rules.held = (skip_rules.held.0 + 1, skip_rules.held.1 + size);
            }
        }
    }

    /// What waited behind a barrier waits no longer.
    pub(crate) fn uncount_held(&mut self, seat: Seat, held: Vec<Held>) -> Vec<Held> {
        let size: usize = held.iter().map(Held::size).sum();
        if let Some(skip_rules) = self.skip_rules_mut(seat) {
            let (count, bytes) = skip_rules.held;
            skip_rules.held = (count.saturating_sub(held.len()), bytes.saturating_sub(size));
        }
        held
    }

    /// A barrier has come through, or never will: what waited behind it goes on.
    pub(crate) fn release_behind(&mut self, seat: Seat, ask: PendingRequest, cx: &mut Context<'_>) {
        let Purpose::Barrier(held) = ask.purpose else { return };
        for held in self.uncount_held(seat, held) {
            self.resume_held(held, cx);
        }
    }

    pub(crate) fn resume_held(&mut self, held: Held, cx: &mut Context<'_>) {
        match held {
            Held::Call(letter) => self.route(letter, cx),
            Held::Answer(parcel) => self.forward_answer(parcel, cx),
        }
    }

    /// The chain ends: no barrier is waited for any more. A notification goes on to the next component
    /// that it does not go around, a request is refused.
    pub(crate) fn release_at_shutdown(&mut self, held: Held, error: &Json, cx: &mut Context<'_>) {
        match held {
            Held::Answer(parcel) => self.deliver_answer(parcel, cx),
            Held::Call(HeldCall { from, toward, message: Message::Request { id, .. }, .. }) => {
                answer(from, toward.opposite(), id, Outcome::Error(error.clone()), cx);
            }
            Held::Call(mut letter) => {
                while let Some(to) = self.neighbour(letter.at(), letter.toward) {
                    if to == Seat::OUTER || !self.skips(to, &letter) {
                        let HeldCall { toward, message, .. } = letter;
                        return cx.out.push(Action::Deliver { to, toward, message });
                    }
                    letter.past.push(to);
                }
            }
        }
    }

    /// Takes what waits behind barriers and passes the test.
    pub(crate) fn take_behind_barriers(&mut self, test: impl Fn(&Held) -> bool) -> Vec<Held> {
        let mut taken: Vec<(Seat, Vec<Held>)> = Vec::new();
        for (seat, held) in self.pending.barriers() {
            let found: Vec<Held> = held.extract_if(.., |held| test(held)).collect();
            if !found.is_empty() {
                taken.push((seat, found));
            }
        }
        taken.into_iter().flat_map(|(seat, held)| self.uncount_held(seat, held)).collect()
    }

    /// Whether `requester` has asked something that waits behind a barrier.
    pub(crate) fn waits_behind_barrier(&self, requester: Seat) -> bool {
        self.holds_behind_barriers()
            && self.pending.requests().any(|ask| match &ask.purpose {
                Purpose::Barrier(held) => held.iter().any(|it| it.is_awaited_by(requester)),
                _ => false,
            })
    }

    pub(crate) fn holds_behind_barriers(&self) -> bool {
        self.skip_rules.iter().any(|skip_rules| skip_rules.held.0 > 0)
    }

    pub(crate) fn held_behind_barriers(&self, seat: Seat) -> (usize, usize) {
        self.skip_rules(seat).map_or((0, 0), |skip_rules| skip_rules.held)
    }

    /// What is delivered to a component after a barrier may not be overtaken by what waits behind the
    /// next message that goes around it: that one needs a barrier of its own.
    pub(crate) fn end_sharing(&mut self, actions: &[Action]) {
        if self.skip_rules.iter().all(|skip_rules| skip_rules.last.is_none()) {
            return;
        }
        for action in actions {
            if let Action::Deliver { to, message, .. } = action
                && let Some(skip_rules) = self.skip_rules_mut(*to)
            {
                skip_rules.last.take_if(|(id, _)| !is_request(message, id));
            }
        }
        let pending = &self.pending;
        for skip_rules in &mut self.skip_rules {
            skip_rules.last.take_if(|(id, _)| pending.request(id).is_none());
        }
    }
}

fn is_request(message: &Message, id: &Id) -> bool {
    matches!(message, Message::Request { id: it, .. } if it == id)
}
