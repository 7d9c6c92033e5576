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
use acp_wire::dialect::updates::{self, Updates};
use acp_wire::{Call, Id, Json, Message, Outcome, Side};

use crate::absence::{Held, Letter};
use crate::event::{Action, Cx};
use crate::pending::{Ask, Purpose};
use crate::router::{Router, answer};
use crate::seat::{Role, Seat};

/// So many kinds of message may go around one component because it has crashed on them.
const MOST_KINDS: usize = 32;

/// What goes around one component.
#[derive(Debug, Default)]
pub struct Detours {
    /// What its SDK can read, if it fails with anything else.
    reads: Option<&'static Updates>,
    /// What it has crashed on.
    kinds: Vec<Kind>,
    /// The last barrier, if nothing else was delivered to the component since.
    last: Option<(Id, Side)>,
    /// How many messages wait behind barriers, and how many bytes they are.
    held: (usize, usize),
}

/// A kind of message, as far as a component can be spared it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub toward: Side,
    pub method: String,
    /// For `session/update`: the kind of update.
    pub update: Option<String>,
}

/// Longer names of methods and kinds of update are not told apart, so that remembering them costs little.
const LONGEST_NAME: usize = 128;

impl Kind {
    /// The kind of a request or a notification, unless its name is too long.
    pub fn of(toward: Side, message: &Message) -> Option<Kind> {
        let (Message::Request { call, .. } | Message::Notification(call)) = message else {
            return None;
        };
        let update = match Kind::update_of(call) {
            Some(update) => Some(update.text()?.into_owned()),
            None => None,
        };
        let method = call.method.name().into_owned();
        let longest = method.len().max(update.as_ref().map_or(0, String::len));
        (longest <= LONGEST_NAME).then_some(Kind { toward, method, update })
    }

    /// For a `session/update`: the kind of update.
    pub fn update_of(call: &Call) -> Option<Json> {
        call.params.as_ref().filter(|_| call.is(UPDATE)).and_then(updates::update_kind)
    }

    /// Whether a call is of this kind. `update` is [`update_of`](Kind::update_of) of the call, which is read
    /// once for all comparisons.
    pub fn is_of(&self, toward: Side, call: &Call, update: Option<&Json>) -> bool {
        self.toward == toward
            && call.is(&self.method)
            && match (&self.update, update) {
                (Some(ours), Some(theirs)) => theirs.says(ours),
                (None, None) => true,
                _ => false,
            }
    }
}

/// `session/update usage_update`
impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.update {
            Some(update) => write!(f, "{} {update}", self.method),
            None => f.write_str(&self.method),
        }
    }
}

impl Router {
    /// Sets which updates a component can read. Others go around it.
    pub fn set_updates(&mut self, seat: Seat, reads: Option<&'static Updates>) {
        if let Some(detours) = self.detours_mut(seat) {
            detours.reads = reads;
        }
    }

    /// A component is spared a kind of message from now on. Says whether that is new, and possible.
    pub fn spare(&mut self, seat: Seat, kind: Kind) -> bool {
        if !self.can_go_around(seat) {
            return false;
        }
        let Some(detours) = self.detours_mut(seat) else { return false };
        let new = !detours.kinds.contains(&kind) && detours.kinds.len() < MOST_KINDS;
        if new {
            detours.kinds.push(kind);
        }
        new
    }

    /// The kinds of message that a component is spared because it has crashed on them.
    pub fn spared(&self, seat: Seat) -> &[Kind] {
        self.detours(seat).map_or(&[], |detours| &detours.kinds)
    }

    /// The kinds of `session/update` that go around a component, of those that there are today.
    pub fn updates_around(&self, seat: Seat) -> Vec<&'static str> {
        let reads = self.detours(seat).and_then(|detours| detours.reads);
        let reads = reads.filter(|_| self.can_go_around(seat) && !self.outer.v2);
        let is_read = |kind: &str| reads.is_none_or(|updates| updates.kinds().any(|it| it == kind));
        updates::CURRENT_KINDS.into_iter().filter(|kind| !is_read(kind)).collect()
    }

    /// Whether messages may go around this component at all.
    pub fn can_go_around(&self, seat: Seat) -> bool {
        let guard = self.chain.component(seat).is_none_or(|component| component.guard);
        !guard && self.chain.role(seat) == Role::Proxy
    }

    fn detours(&self, seat: Seat) -> Option<&Detours> {
        self.detours.get(seat.index().checked_sub(1)?)
    }

    fn detours_mut(&mut self, seat: Seat) -> Option<&mut Detours> {
        self.detours.get_mut(seat.index().checked_sub(1)?)
    }

    /// Whether a message that is to be delivered to this seat goes around it.
    pub(crate) fn goes_around(&self, seat: Seat, letter: &Letter) -> bool {
        let (Message::Request { call, .. } | Message::Notification(call)) = &letter.message else {
            return false;
        };
        // A component that is not initialized yet is sent nothing but its greeting.
        let stands = matches!(
            self.life(seat),
            Some(life) if life.has_stood()
        );
        stands && self.is_spared(seat, letter.toward, call) && self.can_go_around(seat)
    }

    /// Whether a component is spared this message.
    pub fn is_spared(&self, seat: Seat, toward: Side, call: &Call) -> bool {
        let Some(detours) = self.detours(seat) else { return false };
        if !detours.kinds.is_empty() {
            let update = Kind::update_of(call);
            if detours.kinds.iter().any(|kind| kind.is_of(toward, call, update.as_ref())) {
                return true;
            }
        }
        // In ACP v2 the schema itself has room for what is new.
        match detours.reads.filter(|_| toward == Side::Editor && !self.outer.v2) {
            Some(updates) if call.is(UPDATE) => {
                call.params.as_ref().is_some_and(|params| !updates.reads(params))
            }
            _ => false,
        }
    }

    /// Sends a message on past a component, behind all that the component was sent before.
    pub(crate) fn around(&mut self, seat: Seat, mut letter: Letter, cx: &mut Cx<'_>) {
        letter.message = letter.message.detached();
        letter.past.push(seat);
        let toward = letter.toward;
        let held = Held::Letter(letter);
        match self.shared_barrier(seat, toward, cx.out) {
            Some(id) => self.load(seat, &id, held),
            None => self.send_barrier(seat, toward, held, cx),
        }
    }

    /// The barrier that was the last thing a component was sent, in this direction.
    fn shared_barrier(&self, seat: Seat, toward: Side, actions: &[Action]) -> Option<Id> {
        let (id, side) = self.detours(seat)?.last.as_ref()?;
        self.pending.get(id)?;
        let since = actions.iter().rev().find_map(|action| match action {
            Action::Deliver { to, message, .. } if *to == seat => Some(message),
            _ => None,
        });
        let is_last = since.is_none_or(|message| is_request(message, id));
        (is_last && *side == toward).then(|| id.clone())
    }

    pub(crate) fn set_shared_barrier(&mut self, seat: Seat, id: &Id, toward: Side) {
        if let Some(detours) = self.detours_mut(seat) {
            detours.last = Some((id.clone(), toward));
        }
    }

    /// Whether anything goes around this component.
    pub(crate) fn has_detours(&self, seat: Seat) -> bool {
        self.detours(seat).is_some_and(|it| it.reads.is_some() || !it.kinds.is_empty())
    }

    /// Puts a message behind a barrier.
    pub(crate) fn load(&mut self, seat: Seat, id: &Id, held: Held) {
        let size = held.size();
        if let Some(behind) = self.pending.behind(id) {
            behind.push(held);
            if let Some(detours) = self.detours_mut(seat) {
                detours.held = (detours.held.0 + 1, detours.held.1 + size);
            }
        }
    }

    /// What waited behind a barrier waits no longer.
    pub(crate) fn unload(&mut self, seat: Seat, held: Vec<Held>) -> Vec<Held> {
        let size: usize = held.iter().map(Held::size).sum();
        if let Some(detours) = self.detours_mut(seat) {
            let (count, bytes) = detours.held;
            detours.held = (count.saturating_sub(held.len()), bytes.saturating_sub(size));
        }
        held
    }

    /// A barrier has come through, or never will: what waited behind it goes on.
    pub(crate) fn let_through(&mut self, seat: Seat, ask: Ask, cx: &mut Cx<'_>) {
        let Purpose::Barrier(held) = ask.purpose else { return };
        for held in self.unload(seat, held) {
            self.go_on(held, cx);
        }
    }

    pub(crate) fn go_on(&mut self, held: Held, cx: &mut Cx<'_>) {
        match held {
            Held::Letter(letter) => self.route(letter, cx),
            Held::Answer(parcel) => self.forward(parcel, cx),
        }
    }

    /// The chain ends: no barrier is waited for any more. A notification goes on to the next component
    /// that it does not go around, a request is refused.
    pub(crate) fn go_on_at_the_end(&mut self, held: Held, error: &Json, cx: &mut Cx<'_>) {
        match held {
            Held::Answer(parcel) => self.bring(parcel, cx),
            Held::Letter(Letter { from, toward, message: Message::Request { id, .. }, .. }) => {
                answer(from, toward.opposite(), id, Outcome::Error(error.clone()), cx);
            }
            Held::Letter(mut letter) => {
                while let Some(to) = self.neighbour(letter.at(), letter.toward) {
                    if to == Seat::OUTER || !self.goes_around(to, &letter) {
                        let Letter { toward, message, .. } = letter;
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
        taken.into_iter().flat_map(|(seat, held)| self.unload(seat, held)).collect()
    }

    /// Whether `asker` has asked something that waits behind a barrier.
    pub(crate) fn waits_to_go_around(&self, asker: Seat) -> bool {
        self.holds_around()
            && self.pending.asks().any(|ask| match &ask.purpose {
                Purpose::Barrier(held) => held.iter().any(|it| it.is_awaited_by(asker)),
                _ => false,
            })
    }

    pub(crate) fn holds_around(&self) -> bool {
        self.detours.iter().any(|detours| detours.held.0 > 0)
    }

    pub(crate) fn held_around(&self, seat: Seat) -> (usize, usize) {
        self.detours(seat).map_or((0, 0), |detours| detours.held)
    }

    /// What is delivered to a component after a barrier may not be overtaken by what waits behind the
    /// next message that goes around it: that one needs a barrier of its own.
    pub(crate) fn end_sharing(&mut self, actions: &[Action]) {
        if self.detours.iter().all(|detours| detours.last.is_none()) {
            return;
        }
        for action in actions {
            if let Action::Deliver { to, message, .. } = action
                && let Some(detours) = self.detours_mut(*to)
            {
                detours.last.take_if(|(id, _)| !is_request(message, id));
            }
        }
        let pending = &self.pending;
        for detours in &mut self.detours {
            detours.last.take_if(|(id, _)| pending.get(id).is_none());
        }
    }
}

fn is_request(message: &Message, id: &Id) -> bool {
    matches!(message, Message::Request { id: it, .. } if it == id)
}
