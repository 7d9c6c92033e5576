//! The rules for `initialize`.
//!
//! The handshake walks down the chain by itself: the editor's `initialize` goes to the first
//! component, each proxy sends its own to its successor before it answers, and the answers come
//! back the same way. The router only watches whose turn it is, and repairs what a proxy left out.

use acp_wire::{Call, Id, Message, Outcome, Side, acp, code, guards};

use crate::event::{Action, Context, Diagnostic, Level, Time};
use crate::pending::{PendingRequest, Purpose};
use crate::recovery::HeldCall;
use crate::router::{Requester, Router, answer};
use crate::seat::{Handshake, Role, Seat, SeatState};

impl Router {
    pub(crate) fn on_initialize(&mut self, from: Seat, id: Id, call: Call, cx: &mut Context<'_>) {
        let call = if from == Seat::OUTER && !self.chain.any_version {
            match checked_initialize(call) {
                Ok(call) => call,
                Err(outcome) => return answer(from, Side::Editor, id, outcome, cx),
            }
        } else {
            call
        };
        if !self.outer.started {
            self.outer.started = true;
            for seat in self.chain.seats() {
                cx.out.push(Action::Start(seat));
            }
            self.states.fill(SeatState::Starting);
        }
        if let Some(SeatState::Initializing { forwarded, .. }) = self.state_mut(from) {
            *forwarded = true;
        }
        if let Some(outcome) = self.cached_initialize_answer(from) {
            let outcome = self.answer_for(from, outcome);
            return answer(from, Side::Editor, id, outcome, cx);
        }
        let to = self.neighbour(from, Side::Agent);
        if let Some(to) = to.filter(|to| self.is_recovering(*to)) {
            self.hold(to, HeldCall::new(from, Side::Agent, Message::Request { id, call }));
            return;
        }
        self.greet(from, id, call, None, cx);
    }

    /// Passes `initialize` on to the component after `before`, in the name of `requester`.
    fn greet(
        &mut self,
        before: Seat,
        id: Id,
        call: Call,
        answer_instead: Option<(Seat, Outcome)>,
        cx: &mut Context<'_>,
    ) {
        let requester = answer_instead.as_ref().map_or(before, |(requester, _)| *requester);
        let to = match self.neighbour(before, Side::Agent) {
            Some(seat) => seat,
            None => {
                let outcome = Outcome::error(code::INVALID_REQUEST, "the agent has no successor");
                return answer(requester, Side::Editor, id, outcome, cx);
            }
        };
        if let (Some(SeatState::Closed), Some(exit)) = (self.state(to), self.last_exit(to)) {
            let outcome = Outcome::Error(self.chain.crash_error(to, exit, None));
            return answer(requester, Side::Editor, id, outcome, cx);
        }
        match self.state_mut(to) {
            Some(state) => {
                let params = call.params.as_ref().map(|params| params.detached());
                let again = state.live_since();
                *state =
                    SeatState::Initializing { params: params.clone(), forwarded: false, again };
                self.handshakes[to.index() - 1] = Handshake { params, ..Handshake::default() };
                self.handshake_turn = Some((to, cx.now.plus(self.chain.initialize_timeout)));
            }
            None => {
                // Our successor's successors may take their time: that is the outer conductor's care.
                self.outer.successor_greeted = true;
                self.handshake_turn = None;
            }
        }
        let requester = Requester { seat: requester, id, toward: Side::Agent };
        let purpose =
            Purpose::Initialize { answer_instead: answer_instead.map(|(_, outcome)| outcome) };
        self.send_request(requester, call, to, purpose, cx);
    }

    /// A component, or the successor of the last one, has answered `initialize`.
    pub(crate) fn on_greeted(
        &mut self,
        ask: PendingRequest,
        outcome: Outcome,
        extras: Option<Box<[u8]>>,
        cx: &mut Context<'_>,
    ) {
        let seat = ask.responder;
        let outcome = self.require_object(ask.requester, seat, outcome);
        let Purpose::Initialize { answer_instead } = ask.purpose else { return };
        let outcome = self.take_guard_flag(seat, outcome, cx);
        if let Some(greeted) = self.handshakes.get_mut(seat.index().wrapping_sub(1)) {
            greeted.answer = Some(outcome.detached());
        }
        let params = match self.state(seat) {
            Some(SeatState::Initializing { params, forwarded: false, .. })
                if self.chain.role(seat) == Role::Proxy
                    && self.successor_is_uninitialized(seat) =>
            {
                Some(params.clone())
            }
            _ => None,
        };
        let outcome = match (outcome, params) {
            // A proxy that answers without having initialised its successor. The oldest documents
            // describe such proxies, so do its part. (That it is a proxy is its dialect's care.)
            (Outcome::Result(result), Some(params)) => {
                self.set_live(cx.now, seat);
                let text = "answered initialize without initializing its successor".to_owned();
                cx.out.push(Action::Report(Diagnostic { level: Level::Warn, seat, text }));
                let kept = answer_instead.unwrap_or(Outcome::Result(result));
                let call = Call::new(acp::INITIALIZE, params);
                return self.greet(seat, ask.requester_id, call, Some((ask.requester, kept)), cx);
            }
            (outcome, _) => outcome,
        };
        let outcome = match (outcome, answer_instead) {
            (Outcome::Result(_), Some(answer_instead)) => answer_instead,
            (outcome, _) => outcome,
        };
        // Back to who asked, if it owes an answer of its own: it may have given it already, or have
        // asked unbidden.
        self.handshake_turn = match self.state(ask.requester) {
            Some(SeatState::Initializing { .. }) => {
                Some((ask.requester, cx.now.plus(self.chain.initialize_timeout)))
            }
            _ => self.handshake_turn.filter(|(whose, _)| *whose != seat),
        };
        match &outcome {
            Outcome::Result(result) => {
                self.set_live(cx.now, seat);
                if ask.requester == Seat::OUTER {
                    self.outer.v2 = acp::speaks_v2(result);
                }
            }
            // It may be greeted again: the editor is free to try once more. Who was live stays so.
            Outcome::Error(_) => {
                if let Some(state @ SeatState::Initializing { .. }) = self.state_mut(seat) {
                    *state = match state.live_since() {
                        Some(since) => SeatState::Live { since },
                        None => SeatState::Starting,
                    };
                }
            }
        }
        if let Some(greeted) = self.handshakes.get_mut(ask.requester.index().wrapping_sub(1)) {
            greeted.successor_answer = Some(outcome.detached());
        }
        let outcome = match outcome {
            Outcome::Result(result)
                if ask.requester == Seat::OUTER && self.has_guard_to_announce() =>
            {
                Outcome::Result(guards::set_flag(&result))
            }
            outcome => self.answer_for(ask.requester, outcome),
        };
        let message = Message::Response { id: ask.requester_id, outcome, extras };
        cx.out.push(Action::Deliver { to: ask.requester, toward: Side::Editor, message });
    }

    fn has_guard_to_announce(&self) -> bool {
        self.announces_guards && self.chain.components.iter().any(|it| it.guard)
    }

    /// A component that is a chain may say that it contains a guard: then it is a guard itself, from now on
    /// and whatever takes its place. Gives its answer without that.
    pub(crate) fn take_guard_flag(
        &mut self,
        seat: Seat,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let Some(index) = seat.index().checked_sub(1).filter(|_| self.is_proxy(seat)) else {
            return outcome;
        };
        let Outcome::Result(result) = &outcome else { return outcome };
        let successor = match self.handshakes.get(index).and_then(|it| it.successor_answer.as_ref())
        {
            Some(Outcome::Result(result)) => Some(result),
            _ => None,
        };
        let (set, rest) = guards::take_flag(result, successor);
        let component = self.chain.components.get_mut(index).filter(|it| set && !it.guard);
        if let Some(component) = component {
            component.guard = true;
            let text = "contains a guard: nothing passes without it".to_owned();
            cx.out.push(Action::Report(Diagnostic { level: Level::Debug, seat, text }));
        }
        Outcome::Result(rest)
    }

    /// The answer to the `initialize` that a seat has sent to its successor. A proxy does not get what would
    /// be mistaken for its own word on guards.
    pub(crate) fn answer_for(&self, seat: Seat, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Result(result) if self.is_proxy(seat) => {
                Outcome::Result(guards::hide_flag(&result))
            }
            outcome => outcome,
        }
    }

    /// The answer to `initialize`, or an error where a chain could not add to it that it contains a guard.
    fn require_object(&self, requester: Seat, responder: Seat, outcome: Outcome) -> Outcome {
        let is_added_to = self.is_proxy(requester) || self.has_guard_to_announce();
        match &outcome {
            Outcome::Result(result) if is_added_to && !result.is_object() => {
                let whose = match responder {
                    Seat::OUTER => "the successor of this chain".to_owned(),
                    seat => format!("component '{}'", self.chain.name(seat)),
                };
                let text = format!(
                    "{whose} answered initialize with something that is not an object: a result of \
                     initialize has to be one"
                );
                Outcome::error(code::INTERNAL_ERROR, &text)
            }
            _ => outcome,
        }
    }

    fn is_proxy(&self, seat: Seat) -> bool {
        seat.is_component() && self.chain.role(seat) == Role::Proxy
    }

    fn set_live(&mut self, now: Time, seat: Seat) {
        // Waiting: of two greetings at once, the first was refused.
        if let Some(state @ (SeatState::Initializing { .. } | SeatState::Starting)) =
            self.state_mut(seat)
        {
            *state = SeatState::Live { since: state.live_since().unwrap_or(now) };
        }
    }

    fn successor_is_uninitialized(&self, seat: Seat) -> bool {
        match self.neighbour(seat, Side::Agent) {
            Some(Seat::OUTER) => !self.outer.successor_greeted,
            Some(next) => matches!(self.state(next), Some(SeatState::Starting)),
            None => false,
        }
    }
}

/// The editor's `initialize` as it may go on: with a version, and with one that can be relayed.
fn checked_initialize(call: Call) -> Result<Call, Outcome> {
    let Some((params, version)) =
        call.params.as_ref().and_then(|params| Some((params, acp::protocol_version(params)?)))
    else {
        let why = "initialize needs an integer protocolVersion";
        return Err(Outcome::error(code::INVALID_PARAMS, why));
    };
    if version <= acp::HIGHEST_VERSION {
        return Ok(call);
    }
    let params = Some(acp::with_protocol_version(params, acp::HIGHEST_VERSION));
    Ok(Call { params, ..call })
}
