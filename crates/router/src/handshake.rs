//! The rules for `initialize`.
//!
//! The handshake goes down the chain: the editor's `initialize` goes to the first component, each proxy
//! sends its own `initialize` to its successor before it answers, and the answers come back the same way.
//! The router records which component must act next. If a proxy answers without sending `initialize` to its
//! successor, the router sends it.

use acp_wire::{Call, ErrorKind, Id, Message, Outcome, Side, acp, code, guards};

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
            for seat in self.chain.seats().collect::<Vec<_>>() {
                cx.out.push(Action::Start(seat));
                if let Some(state) = self.state_mut(seat) {
                    *state = SeatState::Starting;
                }
            }
        }
        if let Some(SeatState::Initializing { forwarded, .. }) = self.state_mut(from) {
            *forwarded = true;
        }
        if let Some(outcome) = self.cached_initialize_answer(from) {
            let outcome = self.initialize_answer_for(from, outcome);
            return answer(from, Side::Editor, id, outcome, cx);
        }
        let to = self.neighbour(from, Side::Agent);
        if let Some(to) = to.filter(|to| self.is_recovering(*to)) {
            self.hold(to, HeldCall::new(from, Side::Agent, Message::Request { id, call }));
            return;
        }
        self.send_initialize(from, id, call, None, cx);
    }

    /// Forwards `initialize` to the component after `before`. `answer_instead` has the requester and its
    /// answer, if the component at `before` has answered without sending `initialize` to its successor.
    fn send_initialize(
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
                let outcome = ErrorKind::NoReceiver
                    .outcome(code::INVALID_REQUEST, "the agent has no successor");
                return answer(requester, Side::Editor, id, outcome, cx);
            }
        };
        if let (Some(SeatState::Closed), Some(exit)) = (self.state(to), self.last_exit(to)) {
            let outcome = Outcome::Error(self.chain.crash_error(to, exit, None, true));
            return answer(requester, Side::Editor, id, outcome, cx);
        }
        match self.state_mut(to) {
            Some(state) => {
                let params = call.params.as_ref().map(|params| params.detached());
                let live_since = state.live_since();
                *state = SeatState::Initializing {
                    params: params.clone(),
                    forwarded: false,
                    live_since,
                };
                self.handshakes[to.index() - 1] = Handshake { params, ..Handshake::default() };
                self.handshake_turn = Some((to, cx.now.plus(self.chain.initialize_timeout)));
            }
            None => {
                // The outer conductor applies its own timeout to our successor.
                self.outer.successor_initialized = true;
                self.handshake_turn = None;
            }
        }
        let requester = Requester { seat: requester, id, toward: Side::Agent };
        let purpose =
            Purpose::Initialize { answer_instead: answer_instead.map(|(_, outcome)| outcome) };
        self.send_request(requester, call, to, purpose, cx);
    }

    /// Handles the answer of a component, or of the last component's successor, to `initialize`.
    pub(crate) fn on_initialized(
        &mut self,
        request: PendingRequest,
        outcome: Outcome,
        extras: Option<Box<[u8]>>,
        cx: &mut Context<'_>,
    ) {
        let seat = request.responder;
        let outcome = self.require_object(request.requester, seat, outcome);
        let Purpose::Initialize { answer_instead } = request.purpose else { return };
        let outcome = self.take_guard_flag(seat, outcome, cx);
        if let Some(handshake) = self.handshakes.get_mut(seat.index().wrapping_sub(1)) {
            handshake.answer = Some(outcome.detached());
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
            // The proxy has answered without sending `initialize` to its successor. The oldest documents
            // describe such proxies, so the router does it for the proxy.
            (Outcome::Result(result), Some(params)) => {
                self.set_live(cx.now, seat);
                let text = "answered initialize without initializing its successor".to_owned();
                cx.out.push(Action::Report(Diagnostic { level: Level::Warn, seat, text }));
                let kept = answer_instead.unwrap_or(Outcome::Result(result));
                let call = Call::new(acp::INITIALIZE, params);
                return self.send_initialize(
                    seat,
                    request.requester_id,
                    call,
                    Some((request.requester, kept)),
                    cx,
                );
            }
            (outcome, _) => outcome,
        };
        let outcome = match (outcome, answer_instead) {
            (Outcome::Result(_), Some(answer_instead)) => answer_instead,
            (outcome, _) => outcome,
        };
        // The requester must answer its own `initialize` next, unless it has answered already or was sent none.
        self.handshake_turn = match self.state(request.requester) {
            Some(SeatState::Initializing { .. }) => {
                Some((request.requester, cx.now.plus(self.chain.initialize_timeout)))
            }
            _ => self.handshake_turn.filter(|(turn, _)| *turn != seat),
        };
        match &outcome {
            Outcome::Result(result) => {
                self.set_live(cx.now, seat);
                if request.requester == Seat::OUTER {
                    self.outer.v2 = acp::selects_v2(result);
                }
            }
            Outcome::Error(_) => self.reset_initializing(seat),
        }
        if let Some(handshake) = self.handshakes.get_mut(request.requester.index().wrapping_sub(1))
        {
            handshake.successor_answer = Some(outcome.detached());
        }
        let outcome = match outcome {
            Outcome::Result(result)
                if request.requester == Seat::OUTER && self.has_guard_to_announce() =>
            {
                Outcome::Result(guards::set_flag(&result))
            }
            outcome => self.initialize_answer_for(request.requester, outcome),
        };
        let message = Message::Response { id: request.requester_id, outcome, extras };
        cx.out.push(Action::Deliver { to: request.requester, toward: Side::Editor, message });
    }

    /// Undoes a failed handshake: the editor may try `initialize` once more. A component that was live stays live.
    fn reset_initializing(&mut self, seat: Seat) {
        if let Some(state @ SeatState::Initializing { .. }) = self.state_mut(seat) {
            *state = match state.live_since() {
                Some(since) => SeatState::Live { since },
                None => SeatState::Starting,
            };
        }
    }

    fn has_guard_to_announce(&self) -> bool {
        self.announces_guards && self.chain.has_guard()
    }

    /// Removes the guard flag from an answer to `initialize`. A component that is itself a chain sets the
    /// flag if it contains a guard; the component is then a guard from now on, also after a restart.
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
            let text = "contains a guard, so it must not be bypassed".to_owned();
            cx.out.push(Action::Report(Diagnostic { level: Level::Debug, seat, text }));
        }
        Outcome::Result(rest)
    }

    /// The answer to the `initialize` that a seat sent to its successor. For a proxy the guard flag is
    /// hidden, since the proxy's own answer would repeat it.
    pub(crate) fn initialize_answer_for(&self, seat: Seat, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Result(result) if self.is_proxy(seat) => {
                Outcome::Result(guards::hide_flag(&result))
            }
            outcome => outcome,
        }
    }

    /// The answer to `initialize`, or an error if the guard flag would have to be added to a result that is
    /// not an object.
    fn require_object(&self, requester: Seat, responder: Seat, outcome: Outcome) -> Outcome {
        let is_added_to = self.is_proxy(requester) || self.has_guard_to_announce();
        match &outcome {
            Outcome::Result(result) if is_added_to && !result.is_object() => {
                let peer = match responder {
                    Seat::OUTER => "the successor of this chain".to_owned(),
                    seat => format!("component '{}'", self.chain.name(seat)),
                };
                let text =
                    format!("{peer} answered initialize with a result that is not a JSON object");
                ErrorKind::InvalidInitializeAnswer.outcome(code::INTERNAL_ERROR, &text)
            }
            _ => outcome,
        }
    }

    pub(crate) fn is_proxy(&self, seat: Seat) -> bool {
        seat.is_component() && self.chain.role(seat) == Role::Proxy
    }

    fn set_live(&mut self, now: Time, seat: Seat) {
        // `Starting`: of two `initialize` requests at once, the first was refused.
        if let Some(state @ (SeatState::Initializing { .. } | SeatState::Starting)) =
            self.state_mut(seat)
        {
            *state = SeatState::Live { since: state.live_since().unwrap_or(now) };
        }
    }

    fn successor_is_uninitialized(&self, seat: Seat) -> bool {
        match self.neighbour(seat, Side::Agent) {
            Some(Seat::OUTER) => !self.outer.successor_initialized,
            Some(next) => matches!(self.state(next), Some(SeatState::Starting)),
            None => false,
        }
    }
}

/// The editor's `initialize` with a protocol version that can be forwarded, or the error to answer.
fn checked_initialize(call: Call) -> Result<Call, Outcome> {
    let Some((params, version)) =
        call.params.as_ref().and_then(|params| Some((params, acp::protocol_version(params)?)))
    else {
        let why = "initialize needs an integer protocolVersion";
        return Err(ErrorKind::NotInitialized.outcome(code::INVALID_PARAMS, why));
    };
    if version <= acp::HIGHEST_VERSION {
        return Ok(call);
    }
    let params = Some(acp::with_protocol_version(params, acp::HIGHEST_VERSION));
    Ok(Call { params, ..call })
}
