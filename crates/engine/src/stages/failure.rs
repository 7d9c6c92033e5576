//! Handles the failure of a component, for all stages.

use acp_wire::acp::SessionId;
use acp_wire::{Json, Message, Outcome, Side, acp};
use router::{Exit, ExitCause, MessageKind, Recovery, Seat, SeatState, StartProblem};

use super::by_seat::BySeat;
use super::sessions::{Prompt, Record};
use super::{Hop, Stages};
use crate::input::Output;
use crate::policy::{Fallback, Restart, Restarts};
use crate::stage_io::StageOutput;

/// The recent failures of all components.
#[derive(Debug)]
pub(super) struct Failures {
    restarts: BySeat<Restarts>,
    /// The state of the random generator for the jitter of restart delays.
    random: u64,
}

impl Failures {
    pub(super) fn new(count: usize, seed: u64) -> Failures {
        Failures { restarts: BySeat::new(count), random: seed | 1 }
    }

    /// See [`BySeat::fill`].
    pub(super) fn fill(&mut self, count: usize, filled: &[Seat]) {
        self.restarts.fill(count, filled);
    }

    /// The next random number (xorshift64).
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// The decision about a failed component.
pub(super) enum FailureDecision {
    /// Nothing: it is no longer part of the chain.
    Ignore,
    /// End the chain.
    Stop,
    /// Restart it after this delay, in milliseconds.
    Restart { delay: u64 },
    /// Connect its neighbours directly.
    Bypass,
    /// Restart it with its previous configuration.
    Revert,
}

/// Whether a component was not started, because the user has not agreed to it.
fn is_untrusted(why: &Exit) -> bool {
    let ExitCause::NotStarted(failure) = &why.cause else { return false };
    failure.problem == StartProblem::Untrusted
}

impl Stages {
    /// Handles the end of a component, or of the editor's connection.
    pub(super) fn on_ended(&mut self, seat: Seat, why: Exit) {
        let decision = match self.revert_options(seat, &why) {
            true => FailureDecision::Restart { delay: 0 },
            false => match self.decide_on_trial(seat, &why) {
                Some(decision) => decision,
                None => self.decide(seat, &why),
            },
        };
        // The suspects are determined before any message is sent on behalf of the component.
        if self.gate.held(seat).0 > 0 {
            // The component never received the held messages.
            self.poison.forget_pending(seat);
        }
        let poison = self.poison.crashed(seat, &why);
        self.explain_stop(seat, &decision);
        if let ExitCause::Uncancellable { .. } = why.cause {
            self.answer_cancelled_prompts(seat);
        }
        match decision {
            FailureDecision::Ignore => {}
            FailureDecision::Stop => {
                self.end_turns(seat, &why, true);
                self.with_broker(|it, cx| it.component_removed(seat, cx));
                self.route(router::Event::Closed { seat, exit: why });
            }
            FailureDecision::Restart { delay } => {
                let attempts = self.failures.restarts.get(seat).map_or(0, Restarts::attempts);
                let recovery = Recovery::Restart { at: self.cx.now.plus(delay), attempts };
                self.replace(seat, why, recovery, poison);
            }
            FailureDecision::Bypass => self.bypass(seat, why),
            FailureDecision::Revert => self.revert(seat, why),
        }
    }

    /// Takes a component down to restart it. `poison` is the kind of message that it has crashed on twice.
    pub(super) fn replace(
        &mut self,
        seat: Seat,
        why: Exit,
        recovery: Recovery,
        poison: Option<MessageKind>,
    ) {
        self.replace_with(seat, why, (recovery, "is being restarted"), poison);
    }

    /// Like [`replace`](Stages::replace). `consequence` is what the user is told.
    pub(super) fn replace_with(
        &mut self,
        seat: Seat,
        why: Exit,
        (recovery, consequence): (Recovery, &str),
        poison: Option<MessageKind>,
    ) {
        let unreported =
            self.sessions.record(seat).map(Record::unreported_sessions).unwrap_or_default();
        self.take_down(seat, why, recovery, consequence);
        if let Some(kind) = poison {
            self.mark_as_poison(seat, kind);
        }
        self.add_orphans(seat, unreported);
        self.with_broker(|it, cx| it.component_down(seat, cx));
    }

    /// Removes a component from the chain, and connects its neighbours directly.
    pub(super) fn bypass(&mut self, seat: Seat, why: Exit) {
        if self.trials.remove(seat).is_some_and(|trial| trial.has_joined()) {
            let why = format!("it {}{}", why.description(), why.quoted_reason());
            self.cx.push(Output::Reverted { seat, why });
        }
        let unreported =
            self.sessions.record(seat).map(Record::unreported_sessions).unwrap_or_default();
        self.take_down(seat, why, Recovery::Bypass, "is bypassed from now on");
        self.add_orphans(seat, unreported);
        if let Some(record) = self.sessions.record_mut(seat) {
            *record = Record::default();
        }
        self.with_broker(|it, cx| it.component_bypassed(seat, cx));
        self.route(router::Event::Bypassed(seat));
    }

    /// Decides what to do about a component that has failed, by its policy.
    fn decide(&mut self, seat: Seat, why: &Exit) -> FailureDecision {
        let now = self.cx.now;
        let random = self.failures.random();
        let is_resumable = self.is_resumable(seat);
        let Some(policy) = self.policy(seat) else { return FailureDecision::Stop };
        let fallback = match policy.fallback {
            Fallback::Bypass => FailureDecision::Bypass,
            Fallback::Stop => FailureDecision::Stop,
        };
        if self.router.is_ending() {
            return FailureDecision::Stop;
        }
        // A component that has never answered `initialize` is probably misconfigured, so the chain ends. It may contain
        // a guard, so it is bypassed only if the user has named it.
        let may_be_bypassed = policy.restart == Restart::Never && policy.named;
        if !self.router.was_initialized(seat) && !may_be_bypassed {
            return match self.router.state(seat) {
                Some(SeatState::Bypassed | SeatState::Closed) => FailureDecision::Ignore,
                _ => FailureDecision::Stop,
            };
        }
        let since = match self.router.state(seat) {
            Some(SeatState::Bypassed | SeatState::Closed) => return FailureDecision::Ignore,
            state => state.and_then(SeatState::live_since),
        };
        let wanted = match policy.restart {
            // Only the user can change this.
            _ if is_untrusted(why) => false,
            Restart::Never => false,
            Restart::IfResumable => is_resumable,
            Restart::Always => true,
        };
        let restarts = self.failures.restarts.get_mut(seat);
        match restarts.and_then(|it| it.failed(now, since, policy.backoff, random)) {
            Some(delay) if wanted => FailureDecision::Restart { delay },
            _ => fallback,
        }
    }

    /// Logs why a component is not bypassed although its policy is `bypass`.
    fn explain_stop(&mut self, seat: Seat, decision: &FailureDecision) {
        let Some(policy) = self.policy(seat).filter(|_| matches!(decision, FailureDecision::Stop))
        else {
            return;
        };
        let bypass = policy.restart == Restart::Never && policy.fallback == Fallback::Bypass;
        if bypass && !self.router.was_initialized(seat) && !self.router.is_ending() {
            let chain = self.router.chain();
            let text = format!(
                "{} has never answered initialize, so it may contain a guard and is not bypassed; to bypass \
                 it anyway, name it: --on-crash {}=bypass",
                chain.describe(seat),
                chain.name(seat),
            );
            self.warn(seat, text);
        }
    }

    /// Whether a component can continue its sessions after a restart.
    pub(super) fn is_resumable(&self, seat: Seat) -> bool {
        let Some(record) = self.sessions.record(seat) else { return false };
        match self.is_agent(seat) {
            false => true,
            true if record.has_unknown_sessions() => false,
            true => !record.has_sessions() || self.resumption(seat).is_some(),
        }
    }

    /// Takes a component down: informs the user, the router and all stages.
    fn take_down(&mut self, seat: Seat, why: Exit, recovery: Recovery, consequence: &str) {
        let chain = self.router.chain();
        let notice = format!(
            "{} {}: it {}{}. It {consequence}.",
            chain.describe(seat),
            why.verb(),
            why.description(),
            why.quoted_reason()
        );
        let report = format!("{}; it {consequence}", chain.crash_report(seat, &why, None));
        self.report_recovery(seat, report);
        // The user already knows that this component is being restarted.
        let is_known = recovery != Recovery::Bypass && !self.is_up(seat);
        let is_known = is_known || self.is_restarting_for_options(seat);
        if !is_known {
            self.notify_user(seat, &notice);
        }
        self.end_turns(seat, &why, false);
        self.cx.out.push(StageOutput::Discard(seat));
        let pending_setups = self.pending_setups_of(seat);
        let (mut lost, mut cancelled) = (Vec::new(), Vec::new());
        if let Some(record) = self.sessions.record_mut(seat) {
            // The restarted component would not know these sessions, so they must not begin.
            if recovery != Recovery::Bypass {
                lost = record.pending_setup_ids();
            }
            cancelled = record.cancelled_sessions();
            record.on_component_down();
        }
        self.replay.on_component_down(seat);
        self.config.on_component_down(seat);
        // The held messages were for the component that has ended.
        self.gate.open(seat);
        self.route(router::Event::Down { seat, exit: why, recovery, lost });
        self.orphan_setups(seat, pending_setups);
        self.cancel_abandoned_prompts();
        self.forward_cancellations(seat, &cancelled);
    }

    /// Sends the cancellations of these sessions that the failed component may not have forwarded. Each goes to the next
    /// component that has an open prompt of the session. The direct successor may have none, if it was started after the
    /// prompt.
    fn forward_cancellations(&mut self, seat: Seat, sessions: &[SessionId]) {
        let behind = self.router.chain().behind(seat).to_vec();
        for session in sessions {
            let works_on_it = |at: &Seat| {
                let at = *at;
                let record = self.sessions.record(at).filter(|_| self.is_up(at))?;
                let prompt = record.prompts().find(|it| it.session == *session)?;
                Some((at, prompt.cancelled.is_some()))
            };
            let next = behind.iter().find_map(works_on_it);
            if let Some((next, false)) = next {
                self.send_from_replay(next, Side::Agent, cancellation(session));
            }
        }
    }

    /// Cancels the turns of prompts whose requester is gone. The router has already dropped the requests.
    fn cancel_abandoned_prompts(&mut self) {
        for seat in self.router.chain().seats().collect::<Vec<_>>() {
            let router = &self.router;
            let Some(record) = self.sessions.record_mut(seat) else { continue };
            for prompt in record.retain_owed(|id| router.owes(seat, id)) {
                self.send_from_replay(seat, Side::Agent, cancellation(&prompt.session));
            }
        }
    }

    /// Answers the cancelled prompts of a component that has ignored their cancellation, as a component that stops
    /// would.
    fn answer_cancelled_prompts(&mut self, seat: Seat) {
        let Some(record) = self.sessions.record_mut(seat) else { return };
        let prompts = record.take_cancelled();
        let stopped = Json::object([("stopReason", Some(Json::string("cancelled")))]);
        for Prompt { id, .. } in prompts {
            let answer = Message::response(id, Outcome::Result(stopped.clone()));
            self.send_on_behalf(Hop { seat, toward: Side::Editor }, answer);
        }
    }

    /// Starts the components whose restart delay is over.
    pub(super) fn start_due_components(&mut self) {
        for seat in self.router.chain().seats().collect::<Vec<_>>() {
            let is_due = |state: &SeatState| matches!(state, SeatState::Down { at, .. } if *at <= self.cx.now);
            if self.router.state(seat).is_some_and(is_due) && !self.router.is_ending() {
                self.start(seat);
            }
        }
    }

    /// Starts a new process for a component that is down.
    pub(super) fn start(&mut self, seat: Seat) {
        self.cx.out.push(StageOutput::Start(seat));
        self.route(router::Event::Restarted(seat));
    }
}

/// The notification that cancels the turn of a session.
fn cancellation(session: &SessionId) -> Message {
    let params = Json::object([("sessionId", Some(session.json()))]);
    Message::notification(acp::CANCEL_SESSION, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jitter_of_restart_delays_is_random() {
        let mut failures = Failures::new(1, 7);
        let drawn: Vec<u64> = (0..100).map(|_| failures.random() % 100).collect();
        let different: std::collections::BTreeSet<&u64> = drawn.iter().collect();
        assert!(different.len() > 50, "{drawn:?}");
        let odd = drawn.iter().filter(|it| !it.is_multiple_of(2)).count();
        assert!((30..70).contains(&odd), "{drawn:?}");
    }
}
