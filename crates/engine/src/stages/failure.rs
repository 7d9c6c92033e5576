//! How a component fails, and what becomes of it: what that means for each stage.

use acp_wire::{Json, Message, Outcome, Side, acp};
use router::{Exit, ExitCause, MessageKind, Recovery, Seat, SeatState};

use super::by_seat::BySeat;
use super::sessions::{Prompt, Record};
use super::{Hop, Stages};
use crate::policy::{Fallback, Restart, Restarts};
use crate::stage_io::StageOutput;
use acp_wire::acp::SessionId;

/// How often the components have failed.
#[derive(Debug)]
pub(super) struct Failures {
    restarts: BySeat<Restarts>,
    /// From which the jitter of restarts is made.
    random: u64,
}

impl Failures {
    pub(super) fn new(count: usize, seed: u64) -> Failures {
        Failures { restarts: BySeat::new(count), random: seed | 1 }
    }

    /// xorshift64: all that the jitter of restarts needs.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

enum FailureDecision {
    /// The seat has no component any more.
    Ignore,
    /// The chain ends.
    Stop,
    Restart {
        delay: u64,
    },
    Bypass,
}

impl Stages {
    /// A component has ended.
    pub(super) fn on_left(&mut self, seat: Seat, why: Exit) {
        let verdict = self.decide(seat);
        // Before anything is said in the place of the component: that is not its own doing.
        if self.gate.held(seat).0 > 0 {
            // The component never got what is held for it.
            self.poison.excuse(seat);
        }
        let crashed_on = self.poison.crashed(seat, &why);
        self.explain_stop(seat, &verdict);
        if let ExitCause::Uncancellable { .. } = why.cause {
            self.honour_cancellations(seat);
        }
        match verdict {
            FailureDecision::Ignore => {}
            FailureDecision::Stop => {
                self.end_turns(seat, &why, true);
                self.with_broker(|it, cx| it.component_removed(seat, cx));
                self.route(router::Event::Closed { seat, exit: why });
            }
            FailureDecision::Restart { delay } => {
                let attempts = self.failures.restarts.get(seat).map_or(0, Restarts::attempts);
                let plan = Recovery::Restart { at: self.cx.now.plus(delay), attempts };
                self.replace(seat, why, plan, crashed_on);
            }
            FailureDecision::Bypass => self.leave_out(seat, why),
        }
    }

    /// A component is to be replaced by a fresh one.
    /// `crashed_on`: the kind of message that it is to be spared.
    pub(super) fn replace(
        &mut self,
        seat: Seat,
        why: Exit,
        plan: Recovery,
        crashed_on: Option<MessageKind>,
    ) {
        let untold = self.sessions.record(seat).map(Record::untold).unwrap_or_default();
        self.take_down(seat, why, plan, "is being restarted");
        if let Some(kind) = crashed_on {
            self.mark_as_poison(seat, kind);
        }
        self.adopt_all(seat, untold);
        self.with_broker(|it, cx| it.component_down(seat, cx));
    }

    /// A component is bypassed from now on.
    pub(super) fn leave_out(&mut self, seat: Seat, why: Exit) {
        let untold = self.sessions.record(seat).map(Record::untold).unwrap_or_default();
        self.take_down(seat, why, Recovery::Bypass, "is bypassed from now on");
        self.adopt_all(seat, untold);
        if let Some(record) = self.sessions.record_mut(seat) {
            *record = Record::default();
        }
        self.with_broker(|it, cx| it.component_bypassed(seat, cx));
        self.route(router::Event::Bypassed(seat));
    }

    fn decide(&mut self, seat: Seat) -> FailureDecision {
        let now = self.cx.now;
        let random = self.failures.random();
        let can = self.can_take_up(seat);
        let Some(policy) = self.policy(seat) else { return FailureDecision::Stop };
        let then = match policy.fallback {
            Fallback::Bypass => FailureDecision::Bypass,
            Fallback::Stop => FailureDecision::Stop,
        };
        if self.router.is_ending() {
            return FailureDecision::Stop;
        }
        // What does not even start is a mistake to be corrected, not an accident to be survived. Only a
        // component that the user has named may be left out: until a component has answered `initialize`,
        // nobody knows whether it contains a guard.
        let may_be_left_out = policy.restart == Restart::Never && policy.named;
        if !self.router.was_initialized(seat) && !may_be_left_out {
            return match self.router.state(seat) {
                Some(SeatState::Bypassed | SeatState::Closed) => FailureDecision::Ignore,
                _ => FailureDecision::Stop,
            };
        }
        let since = match self.router.state(seat) {
            Some(SeatState::Bypassed | SeatState::Closed) => return FailureDecision::Ignore,
            life => life.and_then(SeatState::live_since),
        };
        let wanted = match policy.restart {
            Restart::Never => false,
            Restart::IfResumable => can,
            Restart::Always => true,
        };
        let restarts = self.failures.restarts.get_mut(seat);
        match restarts.and_then(|it| it.failed(now, since, policy.backoff, random)) {
            Some(delay) if wanted => FailureDecision::Restart { delay },
            _ => then,
        }
    }

    /// Says in the log why a component is not left out although `bypass` was said of all components.
    fn explain_stop(&mut self, seat: Seat, verdict: &FailureDecision) {
        let Some(policy) = self.policy(seat).filter(|_| matches!(verdict, FailureDecision::Stop))
        else {
            return;
        };
        let bypass = policy.restart == Restart::Never && policy.fallback == Fallback::Bypass;
        if bypass && !self.router.was_initialized(seat) && !self.router.is_ending() {
            let who = self.router.chain().describe(seat);
            let text = format!(
                "{who} has never answered initialize, so it may contain a guard and is not left out. \
                 It would be left out if `bypass` were said of it by name"
            );
            self.warn(seat, text);
        }
    }

    /// Whether a fresh component can go on with the sessions of this one.
    fn can_take_up(&self, seat: Seat) -> bool {
        let Some(record) = self.sessions.record(seat) else { return false };
        match self.is_agent(seat) {
            false => true,
            true if record.has_unknown() => false,
            true => record.is_idle() || self.resumption(seat).is_some(),
        }
    }

    /// A component is gone: the askers that wait for it are told, and the user.
    fn take_down(&mut self, seat: Seat, why: Exit, plan: Recovery, consequence: &str) {
        let chain = self.router.chain();
        let told = format!(
            "{} {}: it {}. It {consequence}.",
            chain.describe(seat),
            why.verb(),
            why.description()
        );
        let line = format!("{}; it {consequence}", chain.crash_report(seat, &why, None));
        self.warn(seat, line);
        // The user already knows of a component that fails while it is being restarted.
        let again = plan != Recovery::Bypass && !self.is_up(seat);
        if !again {
            self.notify_user(seat, &told);
        }
        self.end_turns(seat, &why, false);
        self.cx.out.push(StageOutput::Discard(seat));
        let asked = self.asked_by(seat);
        let (mut lost, mut stopped) = (Vec::new(), Vec::new());
        if let Some(record) = self.sessions.record_mut(seat) {
            // A session that the next one in this seat has never heard of must not begin.
            if plan != Recovery::Bypass {
                lost = record.owed_set_ups();
            }
            stopped = record.stopped();
            record.parted();
        }
        self.replay.parted(seat);
        // What was held for the component is not for the next one.
        self.gate.open(seat);
        self.route(router::Event::Down { seat, exit: why, recovery: plan, lost });
        self.orphan(seat, asked);
        self.call_off_orphans();
        self.cancel_on(seat, &stopped);
    }

    /// The component may have died before it passed a cancellation on. So the next component that works on a prompt
    /// of that session is told. That need not be its successor, which may have been started after the prompt.
    fn cancel_on(&mut self, seat: Seat, sessions: &[SessionId]) {
        for session in sessions {
            let works = |at: Seat| {
                let record = self.sessions.record(at).filter(|_| at > seat && self.is_up(at))?;
                let prompt = record.prompts().find(|it| it.session == *session)?;
                Some((at, prompt.cancelled.is_some()))
            };
            let next = self.router.chain().seats().find_map(works);
            if let Some((next, false)) = next {
                self.send(next, Side::Agent, cancellation(session));
            }
        }
    }

    /// What a component that is gone had asked the agent to do, and nobody waits for, is not to be
    /// done: the question itself is taken back by the router, and the turn is cancelled.
    fn call_off_orphans(&mut self) {
        for seat in self.router.chain().seats().collect::<Vec<_>>() {
            let router = &self.router;
            let Some(record) = self.sessions.record_mut(seat) else { continue };
            for prompt in record.keep_owed(|id| router.owes(seat, id)) {
                self.send(seat, Side::Agent, cancellation(&prompt.session));
            }
        }
    }

    /// A component that does not stop a turn when it is told to is given up; but first the prompts are answered
    /// as they would be by a component that stops.
    fn honour_cancellations(&mut self, seat: Seat) {
        let Some(record) = self.sessions.record_mut(seat) else { return };
        let prompts = record.take_cancelled();
        let stopped = Json::object([("stopReason", Some(Json::string("cancelled")))]);
        for Prompt { id, .. } in prompts {
            let answer = Message::response(id, Outcome::Result(stopped.clone()));
            self.send_on_behalf(Hop { seat, toward: Side::Editor }, answer);
        }
    }

    /// Starts those whose time has come.
    pub(super) fn start_what_is_due(&mut self) {
        for seat in self.router.chain().seats().collect::<Vec<_>>() {
            let is_due =
                |life: &SeatState| matches!(life, SeatState::Down { at, .. } if *at <= self.cx.now);
            if self.router.state(seat).is_some_and(is_due) && !self.router.is_ending() {
                self.start(seat);
            }
        }
    }

    /// Starts a fresh component in a seat whose component is gone.
    pub(super) fn start(&mut self, seat: Seat) {
        self.cx.out.push(StageOutput::Start(seat));
        self.route(router::Event::Restarted(seat));
    }
}

fn cancellation(session: &SessionId) -> Message {
    let params = Json::object([("sessionId", Some(session.json()))]);
    Message::notification(acp::CANCEL_SESSION, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Components that fail together are not started together.
    #[test]
    fn the_jitter_of_restarts_differs_from_time_to_time() {
        let mut failures = Failures::new(1, 7);
        let drawn: Vec<u64> = (0..100).map(|_| failures.random() % 100).collect();
        let different: std::collections::BTreeSet<&u64> = drawn.iter().collect();
        assert!(different.len() > 50, "{drawn:?}");
        let odd = drawn.iter().filter(|it| !it.is_multiple_of(2)).count();
        assert!((30..70).contains(&odd), "{drawn:?}");
    }
}
