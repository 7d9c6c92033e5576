//! The rules for `initialize`.
//!
//! The handshake walks down the chain by itself: the editor's `initialize` goes to the first
//! component, each proxy sends its own to its successor before it answers, and the answers come
//! back the same way. The router only watches whose turn it is, and repairs what a proxy left out.

use acp_wire::{Call, Id, Message, Outcome, Side, acp, code, guards};

use crate::absence::Letter;
use crate::event::{Action, Cx, Level, Notice, Time};
use crate::pending::{Ask, Purpose};
use crate::router::{Asker, Router, answer};
use crate::seat::{Greeted, Life, Role, Seat};

impl Router {
    pub(crate) fn on_initialize(&mut self, from: Seat, id: Id, call: Call, cx: &mut Cx<'_>) {
        let call = if from == Seat::OUTER && !self.chain.any_version {
            match relayable(call) {
                Ok(call) => call,
                Err(outcome) => return answer(from, Side::Editor, id, outcome, cx),
            }
        } else {
            call
        };
        if !self.outer.began {
            self.outer.began = true;
            for seat in self.chain.seats() {
                cx.out.push(Action::Start(seat));
            }
            self.lives.fill(Life::Starting);
        }
        if let Some(Life::Greeting { forwarded, .. }) = self.life_mut(from) {
            *forwarded = true;
        }
        if let Some(outcome) = self.remembered(from) {
            let outcome = self.heard_by(from, outcome);
            return answer(from, Side::Editor, id, outcome, cx);
        }
        let to = self.neighbour(from, Side::Agent);
        if let Some(to) = to.filter(|to| self.is_away(*to)) {
            self.hold(to, Letter::new(from, Side::Agent, Message::Request { id, call }));
            return;
        }
        self.greet(from, id, call, None, cx);
    }

    /// Passes `initialize` on to the component after `before`, in the name of `asker`.
    fn greet(
        &mut self,
        before: Seat,
        id: Id,
        call: Call,
        instead: Option<(Seat, Outcome)>,
        cx: &mut Cx<'_>,
    ) {
        let asker = instead.as_ref().map_or(before, |(asker, _)| *asker);
        let to = match self.neighbour(before, Side::Agent) {
            Some(seat) => seat,
            None => {
                let outcome = Outcome::error(code::INVALID_REQUEST, "the agent has no successor");
                return answer(asker, Side::Editor, id, outcome, cx);
            }
        };
        if let (Some(Life::Closed), Some(exit)) = (self.life(to), self.last_exit(to)) {
            let outcome = Outcome::Error(self.chain.death_notice(to, exit, None));
            return answer(asker, Side::Editor, id, outcome, cx);
        }
        match self.life_mut(to) {
            Some(state) => {
                let params = call.params.as_ref().map(|params| params.detached());
                let again = state.live_since();
                *state = Life::Greeting { params: params.clone(), forwarded: false, again };
                self.greeted[to.index() - 1] = Greeted { asked: params, ..Greeted::default() };
                self.turn = Some((to, cx.now.plus(self.chain.greeting_limit)));
            }
            None => {
                // Our successor's successors may take their time: that is the outer conductor's care.
                self.outer.successor_greeted = true;
                self.turn = None;
            }
        }
        let asker = Asker { seat: asker, id, toward: Side::Agent };
        let purpose = Purpose::Greeting { instead: instead.map(|(_, outcome)| outcome) };
        self.ask(asker, call, to, purpose, cx);
    }

    /// A component, or the successor of the last one, has answered `initialize`.
    pub(crate) fn on_greeted(
        &mut self,
        ask: Ask,
        outcome: Outcome,
        extras: Option<Box<[u8]>>,
        cx: &mut Cx<'_>,
    ) {
        let seat = ask.answerer;
        let outcome = self.with_an_object(ask.asker, seat, outcome);
        let Purpose::Greeting { instead } = ask.purpose else { return };
        let outcome = self.note_guard(seat, outcome, cx);
        if let Some(greeted) = self.greeted.get_mut(seat.index().wrapping_sub(1)) {
            greeted.answered = Some(outcome.detached());
        }
        let params = match self.life(seat) {
            Some(Life::Greeting { params, forwarded: false, .. })
                if self.chain.role(seat) == Role::Proxy && self.successor_waits(seat) =>
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
                cx.out.push(Action::Report(Notice { level: Level::Warn, seat, text }));
                let kept = instead.unwrap_or(Outcome::Result(result));
                let call = Call::new(acp::INITIALIZE, params);
                return self.greet(seat, ask.asker_id, call, Some((ask.asker, kept)), cx);
            }
            (outcome, _) => outcome,
        };
        let outcome = match (outcome, instead) {
            (Outcome::Result(_), Some(instead)) => instead,
            (outcome, _) => outcome,
        };
        // Back to who asked, if it owes an answer of its own: it may have given it already, or have
        // asked unbidden.
        self.turn = match self.life(ask.asker) {
            Some(Life::Greeting { .. }) => {
                Some((ask.asker, cx.now.plus(self.chain.greeting_limit)))
            }
            _ => self.turn.filter(|(whose, _)| *whose != seat),
        };
        match &outcome {
            Outcome::Result(result) => {
                self.set_live(cx.now, seat);
                if ask.asker == Seat::OUTER {
                    self.outer.v2 = acp::speaks_v2(result);
                }
            }
            // It may be greeted again: the editor is free to try once more. Who was live stays so.
            Outcome::Error(_) => {
                if let Some(state @ Life::Greeting { .. }) = self.life_mut(seat) {
                    *state = match state.live_since() {
                        Some(since) => Life::Live { since },
                        None => Life::Starting,
                    };
                }
            }
        }
        if let Some(greeted) = self.greeted.get_mut(ask.asker.index().wrapping_sub(1)) {
            greeted.successor = Some(outcome.detached());
        }
        let outcome = match outcome {
            Outcome::Result(result) if ask.asker == Seat::OUTER && self.has_guard_to_tell() => {
                Outcome::Result(guards::put(&result))
            }
            outcome => self.heard_by(ask.asker, outcome),
        };
        let message = Message::Response { id: ask.asker_id, outcome, extras };
        cx.out.push(Action::Deliver { to: ask.asker, toward: Side::Editor, message });
    }

    fn has_guard_to_tell(&self) -> bool {
        self.tells_guards && self.chain.components.iter().any(|it| it.guard)
    }

    /// A component that is a chain may say that it contains a guard: then it is a guard itself, from now on
    /// and whatever takes its place. Gives its answer without that.
    pub(crate) fn note_guard(&mut self, seat: Seat, outcome: Outcome, cx: &mut Cx<'_>) -> Outcome {
        let Some(index) = seat.index().checked_sub(1).filter(|_| self.is_proxy(seat)) else {
            return outcome;
        };
        let Outcome::Result(result) = &outcome else { return outcome };
        let successor = match self.greeted.get(index).and_then(|it| it.successor.as_ref()) {
            Some(Outcome::Result(result)) => Some(result),
            _ => None,
        };
        let (set, rest) = guards::take(result, successor);
        let component = self.chain.components.get_mut(index).filter(|it| set && !it.guard);
        if let Some(component) = component {
            component.guard = true;
            let text = "contains a guard: nothing passes without it".to_owned();
            cx.out.push(Action::Report(Notice { level: Level::Debug, seat, text }));
        }
        Outcome::Result(rest)
    }

    /// The answer to the `initialize` that a seat has sent to its successor. A proxy does not get what would
    /// be mistaken for its own word on guards.
    pub(crate) fn heard_by(&self, seat: Seat, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Result(result) if self.is_proxy(seat) => {
                Outcome::Result(guards::hide(&result))
            }
            outcome => outcome,
        }
    }

    /// The answer to `initialize`, or an error where a chain could not add to it that it contains a guard.
    fn with_an_object(&self, asker: Seat, answerer: Seat, outcome: Outcome) -> Outcome {
        let is_added_to = self.is_proxy(asker) || self.has_guard_to_tell();
        match &outcome {
            Outcome::Result(result) if is_added_to && !result.is_object() => {
                let whose = match answerer {
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
        if let Some(state @ (Life::Greeting { .. } | Life::Starting)) = self.life_mut(seat) {
            *state = Life::Live { since: state.live_since().unwrap_or(now) };
        }
    }

    fn successor_waits(&self, seat: Seat) -> bool {
        match self.neighbour(seat, Side::Agent) {
            Some(Seat::OUTER) => !self.outer.successor_greeted,
            Some(next) => matches!(self.life(next), Some(Life::Starting)),
            None => false,
        }
    }
}

/// The editor's `initialize` as it may go on: with a version, and with one that can be relayed.
fn relayable(call: Call) -> Result<Call, Outcome> {
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
