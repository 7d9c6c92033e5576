//! The rules for a component that is restarted or bypassed.
//!
//! | event | the seat | messages for it |
//! |---|---|---|
//! | [`Down`](crate::Event::Down) | has no component | are held |
//! | [`Restarted`](crate::Event::Restarted) | gets the same `initialize` as before; the `initialize` that it sends to its successor is answered from memory | are held |
//! | [`Resumed`](crate::Event::Resumed) | is live; its sessions were replayed | are delivered, in order |
//! | [`Bypassed`](crate::Event::Bypassed) | is removed from the chain | go to the next seat |
//!
//! A request that the component owed is answered with an error, unless the component had forwarded it. Then
//! the successor's answer is delivered to the original requester. That answer must not overtake messages
//! that the successor sent before it, which travel through the restarted component. So it waits for a
//! *barrier* that is sent the same way (see `barrier`).

use std::collections::VecDeque;

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};

use crate::event::{Action, Context, Recovery, Time};
use crate::exit::Exit;
use crate::forwarded::SentRequests;
use crate::pending::{Fingerprint, PendingRequest, Purpose};
use crate::router::{Router, answer};
use crate::seat::{Seat, SeatState};

/// The cost of a held message in addition to its text, in bytes.
const MESSAGE_OVERHEAD: usize = 256;

/// The messages held for one seat.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldQueue {
    held: VecDeque<Held>,
    bytes: usize,
}

/// A message that is held for a seat or behind a barrier.
#[derive(Debug, Clone)]
pub enum Held {
    /// A request or notification.
    Call(HeldCall),
    /// An answer.
    Answer(HeldAnswer),
}

/// A request or notification on its way through the chain. It is held if its next seat cannot receive it.
#[derive(Debug, Clone)]
pub struct HeldCall {
    pub(crate) from: Seat,
    pub(crate) toward: Side,
    pub(crate) message: Message,
    /// The components that it has skipped, in order (see [`skip`](crate::skip)).
    pub(crate) skipped: Vec<Seat>,
}

impl HeldCall {
    pub(crate) fn new(from: Seat, toward: Side, message: Message) -> HeldCall {
        HeldCall { from, toward, message, skipped: Vec::new() }
    }

    /// The seat that it has reached: its sender, or the last component that it has skipped.
    pub(crate) fn position(&self) -> Seat {
        self.skipped.last().copied().unwrap_or(self.from)
    }
}

/// An answer that goes past components that had forwarded the request, or that the request skipped.
#[derive(Debug, Clone)]
pub struct HeldAnswer {
    from: Seat,
    to: Seat,
    toward: Side,
    /// The seats that it still has to go past, in order.
    via: Vec<Seat>,
    /// The request that the receiver owes and can answer with this answer (see `barrier`).
    owed: Option<Id>,
    message: Message,
}

impl Held {
    pub(crate) fn size(&self) -> usize {
        let (Held::Call(HeldCall { message, .. }) | Held::Answer(HeldAnswer { message, .. })) =
            self;
        message.size() + MESSAGE_OVERHEAD
    }

    /// Whether `requester` waits for the answer to this request, or for this answer.
    pub(crate) fn is_awaited_by(&self, requester: Seat) -> bool {
        match self {
            Held::Call(held_call) => {
                held_call.from == requester && matches!(held_call.message, Message::Request { .. })
            }
            Held::Answer(held_answer) => held_answer.to == requester,
        }
    }
}

impl HeldQueue {
    fn hold(&mut self, held: Held) {
        self.bytes += held.size();
        self.held.push_back(held);
    }

    /// Removes the messages that pass the test.
    fn take(&mut self, test: impl Fn(&Held) -> bool) -> Vec<Held> {
        let (taken, kept): (Vec<_>, Vec<_>) = self.held.drain(..).partition(test);
        self.held = kept.into();
        self.bytes = self.held.iter().map(Held::size).sum();
        taken
    }
}

impl Router {
    /// How many messages are held for a seat or wait to skip it, and their size in bytes.
    pub fn held(&self, seat: Seat) -> (usize, usize) {
        let queued = self.held_queue(seat).map_or((0, 0), |it| (it.held.len(), it.bytes));
        let behind_barriers = self.held_behind_barriers(seat);
        (queued.0 + behind_barriers.0, queued.1 + behind_barriers.1)
    }

    /// Whether the sessions of a restarted component are being replayed.
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

    /// Holds a message for a component that is recovering. Returns the message if the component is not.
    pub(crate) fn hold(&mut self, to: Seat, held_call: HeldCall) -> Option<HeldCall> {
        let Some(queue) = self.held_queue_mut(to) else { return Some(held_call) };
        let message = held_call.message.detached();
        queue.hold(Held::Call(HeldCall { message, ..held_call }));
        None
    }

    /// Handles the end of a component whose chain continues.
    pub(crate) fn on_down(
        &mut self,
        seat: Seat,
        exit: Exit,
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
        self.record_exit(seat, exit.clone());
        self.handshake_turn = self.handshake_turn.filter(|(turn, _)| *turn != seat);
        self.drop_held_of(seat);
        let guard = self.chain.component(seat).is_some_and(|it| it.guard);
        let mut sent = SentRequests::new(self.pending.take_sent_by(seat));
        // Messages that waited for a barrier through the component are released first.
        let (barriers, owed): (Vec<_>, Vec<_>) = self
            .pending
            .take_owed_by(seat)
            .into_iter()
            .partition(|(_, request)| matches!(request.purpose, Purpose::Barrier(_)));
        for (_, request) in barriers {
            self.release_behind(seat, request, cx);
        }
        self.reset_barriers(seat);
        let copies = match guard {
            true => Vec::new(),
            false => sent.take_copies(&owed, &lost),
        };
        let copies = copies.into_iter().chain(std::iter::repeat(None));
        for ((_, request), copy) in owed.into_iter().zip(copies) {
            match copy {
                _ if matches!(request.purpose, Purpose::Reinitialize | Purpose::Barrier(_)) => {}
                Some((id, copy)) => self.redirect(seat, request, &id, copy, cx),
                None => self.answer_owed(seat, request, &exit, recovery, cx),
            }
        }
        for (id, request) in sent.rest() {
            self.cancel_copy(&id, &request, cx);
        }
    }

    /// Delivers the answer to a forwarded request to the original requester. `request` is the one that the
    /// component owed, `copy` the one that it sent to its successor.
    fn redirect(
        &mut self,
        seat: Seat,
        request: PendingRequest,
        id: &Id,
        mut copy: PendingRequest,
        cx: &mut Context<'_>,
    ) {
        // The component may have ended before it forwarded the cancellation.
        if request.cancelled {
            self.cancel_copy(id, &copy, cx);
        }
        let mut via = std::mem::take(&mut copy.via);
        via.push(seat);
        via.extend(request.via);
        let PendingRequest { requester, requester_id, cancelled, purpose, .. } = request;
        let cancelled = cancelled || copy.cancelled;
        let request = PendingRequest { requester, requester_id, cancelled, purpose, via, ..copy };
        self.pending.restore(id, request);
    }

    /// Answers a request that the component owed and had not forwarded.
    fn answer_owed(
        &mut self,
        seat: Seat,
        request: PendingRequest,
        exit: &Exit,
        recovery: Recovery,
        cx: &mut Context<'_>,
    ) {
        let is_initialize = matches!(request.purpose, Purpose::Initialize { .. });
        if is_initialize && recovery == Recovery::Bypass {
            // The successor has answered `initialize` already and is not asked again.
            if let Some(outcome) = self.successor_answer(seat) {
                let outcome = self.initialize_answer_for(seat, outcome);
                return self.on_initialized(request, outcome, None, cx);
            }
            // The component has not forwarded `initialize`, so it goes to the next component.
            if let Fingerprint::Params(params) = request.fingerprint {
                let call = Call::new(acp::INITIALIZE, params);
                let message = Message::Request { id: request.requester_id, call };
                self.hold(seat, HeldCall::new(request.requester, request.toward, message));
                return;
            }
        }
        let error = self.chain.recovery_error(seat, exit, Some(&request.method), recovery);
        let message = Message::response(request.requester_id, Outcome::Error(error));
        let (to, toward) = (request.requester, request.toward.opposite());
        let (via, owed) = (Vec::new(), None);
        self.deliver_answer(HeldAnswer { from: seat, to, toward, via, owed, message }, cx);
    }

    /// The answer of a seat's successor to `initialize`.
    fn successor_answer(&self, seat: Seat) -> Option<Outcome> {
        self.handshake(seat)?.successor_answer.clone()
    }

    /// Cancels a request of a component that is down, because no peer waits for the answer.
    fn cancel_copy(&self, id: &Id, request: &PendingRequest, cx: &mut Context<'_>) {
        let can_receive =
            matches!(self.state(request.responder), Some(SeatState::Live { .. }) | None);
        if can_receive && !request.cancelled {
            let params = Json::object([("requestId", Some(id.json().clone()))]);
            let message = Message::notification(acp::CANCEL_REQUEST, params);
            cx.out.push(Action::Deliver { to: request.responder, toward: request.toward, message });
        }
    }

    /// Sends the `initialize` of the previous component to the restarted one.
    pub(crate) fn on_restarted(&mut self, seat: Seat, cx: &mut Context<'_>) {
        let until = cx.now.plus(self.chain.initialize_timeout);
        match self.state_mut(seat) {
            Some(state) if state.is_recovering() => *state = SeatState::Reinitializing { until },
            _ => return,
        }
        let params = self.handshakes[seat.index() - 1].params.clone();
        let request =
            self.own_request(cx.now, seat, Side::Agent, acp::INITIALIZE, Purpose::Reinitialize);
        let id = self.pending.open(request);
        let call = Call::new(acp::INITIALIZE, params);
        let message = Message::Request { id, call };
        cx.out.push(Action::Deliver { to: seat, toward: Side::Agent, message });
    }

    /// Handles the answer of a restarted component to `initialize`. The caller decides what is replayed.
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

    /// The answer to the `initialize` that a restarted component sends to its successor: the answer that
    /// the previous component got. The successor is live and is not initialized again.
    pub(crate) fn cached_initialize_answer(&self, seat: Seat) -> Option<Outcome> {
        if !self.is_recovering(seat) {
            return None;
        }
        let own = self.handshakes[seat.index() - 1].successor_answer.clone();
        own.or_else(|| self.handshake(self.neighbour(seat, Side::Agent)?)?.answer.clone())
    }

    /// Delivers the held messages to the restarted component.
    pub(crate) fn on_resumed(&mut self, seat: Seat, cx: &mut Context<'_>) {
        self.release_held(seat, SeatState::Live { since: cx.now }, cx);
    }

    /// Removes the seat from the chain. The held messages go to the next seat.
    pub(crate) fn on_bypassed(&mut self, seat: Seat, cx: &mut Context<'_>) {
        self.release_held(seat, SeatState::Bypassed, cx);
    }

    /// Sets the state of a seat and routes the messages that were held for it.
    fn release_held(&mut self, seat: Seat, next: SeatState, cx: &mut Context<'_>) {
        let Some(queue) = self.held_queue_mut(seat).map(std::mem::take) else { return };
        if let Some(state) = self.state_mut(seat) {
            *state = next;
        }
        for held in queue.held {
            match held {
                Held::Call(held_call) if held_call.skipped.is_empty() => {
                    let HeldCall { from, toward, message, .. } = held_call;
                    self.on_message(from, toward, message, cx);
                }
                held => self.resume_held(held, cx),
            }
        }
    }

    /// Answers the requests held for a seat with this error.
    pub(crate) fn refuse_held(&mut self, seat: Seat, error: &Json, cx: &mut Context<'_>) {
        let held = self.held_queue_mut(seat).map(|queue| queue.take(|_| true));
        for held in held.into_iter().flatten() {
            self.refuse_or_deliver(held, error, cx);
        }
    }

    /// Answers all held requests with this error.
    pub(crate) fn refuse_all_held(&mut self, error: &Json, cx: &mut Context<'_>) {
        let held: Vec<Held> =
            self.held_queues.iter_mut().flat_map(|it| it.take(|_| true)).collect();
        for held in held {
            self.refuse_or_deliver(held, error, cx);
        }
    }

    /// Answers a held request with this error and delivers a held answer. Drops a held notification.
    fn refuse_or_deliver(&mut self, held: Held, error: &Json, cx: &mut Context<'_>) {
        match held {
            Held::Call(HeldCall { from, toward, message: Message::Request { id, .. }, .. }) => {
                let outcome = Outcome::Error(error.clone());
                answer(from, toward.opposite(), id, outcome, cx);
            }
            Held::Call(_) => {}
            Held::Answer(held_answer) => self.deliver_answer(held_answer, cx),
        }
    }

    /// Whether `requester` waits for a request or answer that is held.
    pub fn waits_for_held(&self, requester: Seat) -> bool {
        let mut held = self.held_queues.iter().flat_map(|queue| &queue.held);
        held.any(|held| held.is_awaited_by(requester)) || self.waits_behind_barrier(requester)
    }

    /// Drops held requests of this seat and held answers for it.
    pub(crate) fn drop_held_of(&mut self, seat: Seat) {
        for queue in self.held_queues.iter_mut() {
            queue.take(|held| held.is_awaited_by(seat));
        }
        self.take_behind_barriers(|held| held.is_awaited_by(seat));
    }

    /// Cancels a held request. Returns whether there was one.
    pub(crate) fn cancel_held(&mut self, from: Seat, id: &Id, cx: &mut Context<'_>) -> bool {
        let is_the_request = |held: &Held| match held {
            Held::Call(HeldCall {
                from: requester,
                message: Message::Request { id: held_id, .. },
                ..
            }) => *requester == from && held_id == id,
            _ => false,
        };
        let mut found: Vec<Held> =
            self.held_queues.iter_mut().flat_map(|it| it.take(is_the_request)).collect();
        found.extend(self.take_behind_barriers(is_the_request));
        for held in &found {
            let Held::Call(held_call) = held else { continue };
            let outcome = Outcome::error(code::CANCELLED, "the request was cancelled");
            answer(from, held_call.toward.opposite(), id.clone(), outcome, cx);
        }
        !found.is_empty()
    }

    /// Forwards an answer to the requester, behind everything that the responder sent before.
    pub(crate) fn on_answer(
        &mut self,
        request: PendingRequest,
        outcome: Outcome,
        extras: Option<Box<[u8]>>,
        cx: &mut Context<'_>,
    ) {
        let owed = self.request_answered_with(&request);
        let message = Message::Response { id: request.requester_id, outcome, extras };
        let held_answer = HeldAnswer {
            from: request.responder,
            to: request.requester,
            toward: request.toward.opposite(),
            via: request.via,
            owed,
            message,
        };
        self.forward_answer(held_answer, cx);
    }

    /// Sends an answer past the next seat in `via`, or delivers it if there is none.
    pub(crate) fn forward_answer(&mut self, mut held_answer: HeldAnswer, cx: &mut Context<'_>) {
        while let Some(&seat) = held_answer.via.first() {
            match self.state(seat) {
                Some(state) if state.is_recovering() => {
                    held_answer.message = held_answer.message.detached();
                    if let Some(queue) = self.held_queue_mut(seat) {
                        queue.hold(Held::Answer(held_answer));
                    }
                    return;
                }
                Some(SeatState::Live { .. } | SeatState::Initializing { .. }) => {
                    held_answer.via.remove(0);
                    let toward = held_answer.toward;
                    return self.send_barrier(seat, toward, Held::Answer(held_answer), cx);
                }
                _ => drop(held_answer.via.remove(0)),
            }
        }
        self.deliver_answer(held_answer, cx);
    }

    /// Delivers an answer. If messages are held for the receiver, those that the responder sent before are
    /// delivered first.
    pub(crate) fn deliver_answer(&mut self, held_answer: HeldAnswer, cx: &mut Context<'_>) {
        let HeldAnswer { from, to, toward, owed, message, .. } = held_answer;
        let before = |held: &Held| matches!(held, Held::Call(it) if it.position() == from);
        let earlier = self.held_queue_mut(to).map(|queue| queue.take(before));
        for held in earlier.into_iter().flatten() {
            if let Held::Call(held_call) = held {
                self.deliver_call(held_call, to, cx);
            }
        }
        if let Some(owed) = owed {
            self.record_answer(to, toward, owed, cx.out);
        }
        cx.out.push(Action::Deliver { to, toward, message });
    }

    /// A request of the conductor itself.
    pub(crate) fn own_request(
        &self,
        sent_at: Time,
        responder: Seat,
        toward: Side,
        method: &str,
        purpose: Purpose,
    ) -> PendingRequest {
        PendingRequest {
            requester: Seat::CONDUCTOR,
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
