//! The rules for a seat whose occupant has left and is replaced, or left out.
//!
//! | event | the seat | what is said to it |
//! |---|---|---|
//! | [`Parted`](crate::Event::Down) | is vacant | waits |
//! | [`Returned`](crate::Event::Restarted) | is sent the `initialize` it was sent before; what it sends to its successor is answered from memory | waits |
//! | [`Resumed`](crate::Event::Resumed) | is live: it has been told all that it must know | is delivered, in order |
//! | [`Bypassed`](crate::Event::Bypassed) | is left out | goes to the next seat |
//!
//! What the one who left owed is answered with an error, unless it had passed the question on as it
//! was: then the answer of the next one is delivered to who asked in the first place. That answer must
//! not overtake what the next one said before, which travels through the new occupant. So it waits
//! until a *barrier* that is sent the same way has come through (see `barrier`).

use std::collections::VecDeque;

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};

use crate::event::{Action, Context, Recovery, Time};
use crate::forwarded::SentRequests;
use crate::pending::{Fingerprint, PendingRequest, Purpose};
use crate::router::{Router, answer};
use crate::seat::{Exit, Seat, SeatState};

/// What a message costs beside its text while it waits.
const HELD: usize = 256;

/// What waits for a seat whose component cannot be sent messages.
#[derive(Debug, Clone, Default)]
pub struct HeldQueue {
    held: VecDeque<Held>,
    bytes: usize,
}

/// What waits for a seat, or behind a barrier.
#[derive(Debug, Clone)]
pub enum Held {
    Call(HeldCall),
    Answer(HeldAnswer),
}

/// A request or a notification on its way.
#[derive(Debug, Clone)]
pub struct HeldCall {
    pub(crate) from: Seat,
    pub(crate) toward: Side,
    pub(crate) message: Message,
    /// The components that it has gone around, in this order (see `around`).
    pub(crate) past: Vec<Seat>,
}

impl HeldCall {
    pub(crate) fn new(from: Seat, toward: Side, message: Message) -> HeldCall {
        HeldCall { from, toward, message, past: Vec::new() }
    }

    /// Where it is: at its sender, or at the last component that it has gone around.
    pub(crate) fn at(&self) -> Seat {
        self.past.last().copied().unwrap_or(self.from)
    }
}

/// An answer on its way past those who had passed the question on.
#[derive(Debug, Clone)]
pub struct HeldAnswer {
    from: Seat,
    to: Seat,
    toward: Side,
    via: Vec<Seat>,
    /// The question of the receiver's own that it can answer with this one (see `barrier`).
    owed: Option<Id>,
    message: Message,
}

impl Held {
    pub(crate) fn size(&self) -> usize {
        let (Held::Call(HeldCall { message, .. }) | Held::Answer(HeldAnswer { message, .. })) =
            self;
        message.size() + HELD
    }

    /// Does `requester` wait for this to be answered, or for this answer?
    pub(crate) fn is_awaited_by(&self, requester: Seat) -> bool {
        match self {
            Held::Call(letter) => {
                letter.from == requester && matches!(letter.message, Message::Request { .. })
            }
            Held::Answer(parcel) => parcel.to == requester,
        }
    }
}

impl HeldQueue {
    fn hold(&mut self, held: Held) {
        self.bytes += held.size();
        self.held.push_back(held);
    }

    fn take(&mut self, test: impl Fn(&Held) -> bool) -> Vec<Held> {
        let (taken, kept): (Vec<_>, Vec<_>) = self.held.drain(..).partition(test);
        self.held = kept.into();
        self.bytes = self.held.iter().map(Held::size).sum();
        taken
    }
}

impl Router {
    /// How many messages wait for a seat, or to go around it, and how many bytes they are.
    pub fn held(&self, seat: Seat) -> (usize, usize) {
        let away = self.held_queue(seat).map_or((0, 0), |it| (it.held.len(), it.bytes));
        let around = self.held_behind_barriers(seat);
        (away.0 + around.0, away.1 + around.1)
    }

    /// Is the component told what it must know, before it can be sent messages?
    pub fn is_replaying(&self, seat: Seat) -> bool {
        matches!(self.state(seat), Some(SeatState::Replaying { .. }))
    }

    pub(crate) fn is_recovering(&self, seat: Seat) -> bool {
        self.state(seat).is_some_and(SeatState::is_recovering)
    }

    pub(crate) fn held_queue(&self, seat: Seat) -> Option<&HeldQueue> {
        self.held_queues.get(seat.index().checked_sub(1)?).filter(|_| self.is_recovering(seat))
    }

    fn held_queue_mut(&mut self, seat: Seat) -> Option<&mut HeldQueue> {
        let is_recovering = self.is_recovering(seat);
        self.held_queues.get_mut(seat.index().checked_sub(1)?).filter(|_| is_recovering)
    }

    /// Keeps a message for a seat that cannot be spoken to; gives it back if it can.
    pub(crate) fn hold(&mut self, to: Seat, letter: HeldCall) -> Option<HeldCall> {
        let Some(queue) = self.held_queue_mut(to) else { return Some(letter) };
        let message = letter.message.detached();
        queue.hold(Held::Call(HeldCall { message, ..letter }));
        None
    }

    /// The occupant of a seat has left; another will come, or the seat will be left out.
    pub(crate) fn on_down(
        &mut self,
        seat: Seat,
        why: Exit,
        (recovery, lost): (Recovery, Vec<Id>),
        cx: &mut Context<'_>,
    ) {
        let Some(state) = self.state_mut(seat) else { return };
        let (at, attempts) = match recovery {
            Recovery::Restart { at, attempts } => (at, attempts),
            Recovery::Bypass => (cx.now, 0),
        };
        match state {
            SeatState::Closed | SeatState::Bypassed => return,
            state => *state = SeatState::Down { at, attempts },
        }
        self.note_exit(seat, why.clone());
        self.handshake_turn = self.handshake_turn.filter(|(whose, _)| *whose != seat);
        self.drop_held_of(seat);
        let guard = self.chain.component(seat).is_some_and(|it| it.guard);
        let mut asked = SentRequests::new(self.pending.take_sent_by(seat));
        // What would have come out of it behind a barrier goes on at once, before anybody is told.
        let (barriers, owed): (Vec<_>, Vec<_>) = self
            .pending
            .take_owed_by(seat)
            .into_iter()
            .partition(|(_, ask)| matches!(ask.purpose, Purpose::Barrier(_)));
        for (_, ask) in barriers {
            self.release_behind(seat, ask, cx);
        }
        self.reset_barriers(seat);
        let copies = match guard {
            true => Vec::new(),
            false => asked.take_copies(&owed, &lost),
        };
        let copies = copies.into_iter().chain(std::iter::repeat(None));
        for ((_, ask), copy) in owed.into_iter().zip(copies) {
            match copy {
                _ if matches!(ask.purpose, Purpose::Reinitialize | Purpose::Barrier(_)) => {}
                Some((id, copy)) => self.redirect(seat, ask, &id, copy, cx),
                None => self.answer_owed(seat, ask, &why, recovery, cx),
            }
        }
        for (id, ask) in asked.rest() {
            self.cancel_copy(&id, &ask, cx);
        }
    }

    /// A component that is gone had passed a question on: the answer goes to its requester.
    fn redirect(
        &mut self,
        seat: Seat,
        ask: PendingRequest,
        id: &Id,
        mut copy: PendingRequest,
        cx: &mut Context<'_>,
    ) {
        // The component may have died with the cancellation in its hands.
        if ask.cancelled {
            self.cancel_copy(id, &copy, cx);
        }
        let mut via = std::mem::take(&mut copy.via);
        via.push(seat);
        via.extend(ask.via);
        let PendingRequest { requester, requester_id, cancelled, purpose, .. } = ask;
        let cancelled = cancelled || copy.cancelled;
        let ask = PendingRequest { requester, requester_id, cancelled, purpose, via, ..copy };
        self.pending.restore(id, ask);
    }

    /// A component that is gone had not passed a question on.
    fn answer_owed(
        &mut self,
        seat: Seat,
        ask: PendingRequest,
        why: &Exit,
        recovery: Recovery,
        cx: &mut Context<'_>,
    ) {
        let is_greeting = matches!(ask.purpose, Purpose::Initialize { .. });
        if is_greeting && recovery == Recovery::Bypass {
            // The next component has answered already, and is not asked twice.
            if let Some(outcome) = self.successor_answer(seat) {
                let outcome = self.answer_for(seat, outcome);
                return self.on_greeted(ask, outcome, None, cx);
            }
            // No other component has heard of it: it goes to the next one instead.
            if let Fingerprint::Params(params) = ask.fingerprint {
                let call = Call::new(acp::INITIALIZE, params);
                let message = Message::Request { id: ask.requester_id, call };
                self.hold(seat, HeldCall::new(ask.requester, ask.toward, message));
                return;
            }
        }
        let error = self.chain.recovery_error(seat, why, Some(&ask.method), recovery);
        let message = Message::response(ask.requester_id, Outcome::Error(error));
        let (to, toward) = (ask.requester, ask.toward.opposite());
        let (via, owed) = (Vec::new(), None);
        self.deliver_answer(HeldAnswer { from: seat, to, toward, via, owed, message }, cx);
    }

    /// What the next one has answered to the `initialize` of a seat.
    fn successor_answer(&self, seat: Seat) -> Option<Outcome> {
        self.handshake(seat)?.successor_answer.clone()
    }

    /// Nobody waits any more for what this question asks.
    fn cancel_copy(&self, id: &Id, ask: &PendingRequest, cx: &mut Context<'_>) {
        let listens = matches!(self.state(ask.responder), Some(SeatState::Live { .. }) | None);
        if listens && !ask.cancelled {
            let params = Json::object([("requestId", Some(id.json().clone()))]);
            let message = Message::notification(acp::CANCEL_REQUEST, params);
            cx.out.push(Action::Deliver { to: ask.responder, toward: ask.toward, message });
        }
    }

    /// Another one sits there now: it is greeted as the last one was.
    pub(crate) fn on_restarted(&mut self, seat: Seat, cx: &mut Context<'_>) {
        let until = cx.now.plus(self.chain.initialize_timeout);
        match self.state_mut(seat) {
            Some(state) if state.is_recovering() => *state = SeatState::Reinitializing { until },
            _ => return,
        }
        let params = self.handshakes[seat.index() - 1].params.clone();
        let ask =
            self.own_request(cx.now, seat, Side::Agent, acp::INITIALIZE, Purpose::Reinitialize);
        let id = self.pending.open(ask);
        let call = Call::new(acp::INITIALIZE, params);
        let message = Message::Request { id, call };
        cx.out.push(Action::Deliver { to: seat, toward: Side::Agent, message });
    }

    /// The next component has answered `initialize`. The core is told, and decides what it must learn.
    pub(crate) fn on_reinitialized(&mut self, seat: Seat, outcome: Outcome, cx: &mut Context<'_>) {
        let outcome = self.take_guard_flag(seat, outcome, cx);
        if !self.is_recovering(seat) {
            return;
        }
        if let Outcome::Result(_) = &outcome {
            let until = cx.now.plus(self.chain.initialize_timeout);
            if let Some(state) = self.state_mut(seat) {
                *state = SeatState::Replaying { until };
            }
            self.handshakes[seat.index() - 1].answer = Some(outcome.detached());
        }
        cx.out.push(Action::Reinitialized { seat, outcome });
    }

    /// The answer to the `initialize` that a new occupant sends to its successor: the one that the
    /// last occupant got, so that who is live is not initialized twice.
    pub(crate) fn cached_initialize_answer(&self, seat: Seat) -> Option<Outcome> {
        if !self.is_recovering(seat) {
            return None;
        }
        let own = self.handshakes[seat.index() - 1].successor_answer.clone();
        own.or_else(|| self.handshake(self.neighbour(seat, Side::Agent)?)?.answer.clone())
    }

    /// It can be spoken to: what has waited is delivered.
    pub(crate) fn on_resumed(&mut self, seat: Seat, cx: &mut Context<'_>) {
        self.release(seat, SeatState::Live { since: cx.now }, cx);
    }

    /// The chain closes over the gap: what has waited goes to whoever is next.
    pub(crate) fn on_bypassed(&mut self, seat: Seat, cx: &mut Context<'_>) {
        self.release(seat, SeatState::Bypassed, cx);
    }

    fn release(&mut self, seat: Seat, next: SeatState, cx: &mut Context<'_>) {
        let Some(queue) = self.held_queue_mut(seat).map(std::mem::take) else { return };
        if let Some(state) = self.state_mut(seat) {
            *state = next;
        }
        for held in queue.held {
            match held {
                Held::Call(letter) if letter.past.is_empty() => {
                    let HeldCall { from, toward, message, .. } = letter;
                    self.on_message(from, toward, message, cx);
                }
                held => self.resume_held(held, cx),
            }
        }
    }

    /// A seat is gone for good: what waits for it is answered with this error.
    pub(crate) fn refuse_held(&mut self, seat: Seat, error: &Json, cx: &mut Context<'_>) {
        let held = self.held_queue_mut(seat).map(|queue| queue.take(|_| true));
        for held in held.into_iter().flatten() {
            self.settle_held(held, error, cx);
        }
    }

    /// The chain ends: what waits anywhere is answered with this error.
    pub(crate) fn refuse_all_held(&mut self, error: &Json, cx: &mut Context<'_>) {
        let held: Vec<Held> =
            self.held_queues.iter_mut().flat_map(|it| it.take(|_| true)).collect();
        for held in held {
            self.settle_held(held, error, cx);
        }
    }

    fn settle_held(&mut self, held: Held, error: &Json, cx: &mut Context<'_>) {
        match held {
            Held::Call(HeldCall { from, toward, message: Message::Request { id, .. }, .. }) => {
                let outcome = Outcome::Error(error.clone());
                answer(from, toward.opposite(), id, outcome, cx);
            }
            Held::Call(_) => {}
            Held::Answer(parcel) => self.deliver_answer(parcel, cx),
        }
    }

    /// Whether `requester` waits for something that waits for another component to return, or to go around it.
    pub fn waits_for_held(&self, requester: Seat) -> bool {
        let mut held = self.held_queues.iter().flat_map(|queue| &queue.held);
        held.any(|held| held.is_awaited_by(requester)) || self.waits_behind_barrier(requester)
    }

    /// Nobody is left to hear what this seat asked.
    pub(crate) fn drop_held_of(&mut self, seat: Seat) {
        for queue in self.held_queues.iter_mut() {
            queue.take(|held| held.is_awaited_by(seat));
        }
        self.take_behind_barriers(|held| held.is_awaited_by(seat));
    }

    /// Takes back a question that waits for a seat; says whether there was one.
    pub(crate) fn cancel_held(&mut self, from: Seat, id: &Id, cx: &mut Context<'_>) -> bool {
        let is_it = |held: &Held| match held {
            Held::Call(HeldCall {
                from: requester,
                message: Message::Request { id: asked, .. },
                ..
            }) => *requester == from && asked == id,
            _ => false,
        };
        let mut found: Vec<Held> =
            self.held_queues.iter_mut().flat_map(|it| it.take(is_it)).collect();
        found.extend(self.take_behind_barriers(is_it));
        for held in &found {
            let Held::Call(letter) = held else { continue };
            let outcome = Outcome::error(code::CANCELLED, "the request was cancelled");
            answer(from, letter.toward.opposite(), id.clone(), outcome, cx);
        }
        !found.is_empty()
    }

    /// An answer has come: it goes to who asked, behind all that its sender said before.
    pub(crate) fn on_answer(
        &mut self,
        ask: PendingRequest,
        outcome: Outcome,
        extras: Option<Box<[u8]>>,
        cx: &mut Context<'_>,
    ) {
        let owed = self.request_answered_with(&ask);
        let message = Message::Response { id: ask.requester_id, outcome, extras };
        let parcel = HeldAnswer {
            from: ask.responder,
            to: ask.requester,
            toward: ask.toward.opposite(),
            via: ask.via,
            owed,
            message,
        };
        self.forward_answer(parcel, cx);
    }

    pub(crate) fn forward_answer(&mut self, mut parcel: HeldAnswer, cx: &mut Context<'_>) {
        while let Some(&seat) = parcel.via.first() {
            match self.state(seat) {
                Some(state) if state.is_recovering() => {
                    parcel.message = parcel.message.detached();
                    if let Some(queue) = self.held_queue_mut(seat) {
                        queue.hold(Held::Answer(parcel));
                    }
                    return;
                }
                Some(SeatState::Live { .. } | SeatState::Initializing { .. }) => {
                    parcel.via.remove(0);
                    let toward = parcel.toward;
                    return self.send_barrier(seat, toward, Held::Answer(parcel), cx);
                }
                _ => drop(parcel.via.remove(0)),
            }
        }
        self.deliver_answer(parcel, cx);
    }

    /// Hands an answer over. Should its receiver still be learning, it first gets what the sender
    /// said before.
    pub(crate) fn deliver_answer(&mut self, parcel: HeldAnswer, cx: &mut Context<'_>) {
        let HeldAnswer { from, to, toward, owed, message, .. } = parcel;
        let before = |held: &Held| matches!(held, Held::Call(it) if it.at() == from);
        let earlier = self.held_queue_mut(to).map(|queue| queue.take(before));
        for held in earlier.into_iter().flatten() {
            if let Held::Call(letter) = held {
                self.deliver_call(letter, to, cx);
            }
        }
        if let Some(owed) = owed {
            self.note_answer(to, toward, owed, cx.out);
        }
        cx.out.push(Action::Deliver { to, toward, message });
    }

    pub(crate) fn own_request(
        &self,
        sent_at: Time,
        responder: Seat,
        toward: Side,
        method: &str,
        purpose: Purpose,
    ) -> PendingRequest {
        PendingRequest {
            requester: Seat::SELF,
            requester_id: Id::NULL,
            responder,
            toward,
            method: method.to_owned(),
            fingerprint: Fingerprint::None,
            sent_at,
            cancelled: false,
            purpose,
            via: Vec::new(),
        }
    }
}
