//! Components that are alive and silent.
//!
//! Only a component that is not waiting on another one is considered stuck. In a chain where each component
//! waits for the next one, that is the last component. The editor is never considered stuck: a user may take
//! any time.

use std::collections::BTreeSet;

use acp_wire::Message;
use router::pending::{Fingerprint, PendingRequest, Purpose};
use router::{ExitCause, Router, Seat, SeatState, Time};

use super::by_seat::BySeat;
use super::{Context, Hop, StageResult, Stages};
use acp_wire::acp::{PROMPT, SessionId, Topic, session_of};

/// When the components gave signs of life.
#[derive(Debug)]
pub(super) struct Watchdog {
    activity: BySeat<Activity>,
}

#[derive(Debug, Default)]
struct Activity {
    /// When the component last sent something.
    last_sent: Time,
    /// When something that it waited for came.
    unblocked: Time,
    /// When messages that were held for it were released.
    released: Time,
}

impl Watchdog {
    pub fn new(count: usize) -> Watchdog {
        Watchdog { activity: BySeat::new(count) }
    }

    /// Whatever a component sends is a sign of life.
    pub fn arrived(&mut self, cx: &Context, router: &mut Router, hop: Hop) -> StageResult {
        router.restart_barrier_timeout(cx.now, hop.seat);
        if let Some(activity) = self.activity.get_mut(hop.seat) {
            activity.last_sent = cx.now;
        }
        router.restart_replay_timeout(cx.now, hop.seat);
        StageResult::Pass
    }

    pub fn delivered(&mut self, cx: &Context, hop: Hop, message: &Message) -> StageResult {
        if let Message::Response { .. } = message
            && let Some(activity) = self.activity.get_mut(hop.seat)
        {
            activity.unblocked = cx.now;
        }
        StageResult::Pass
    }

    /// Messages that were held for a component have reached it.
    pub fn released(&mut self, cx: &Context, seat: Seat) {
        if let Some(activity) = self.activity.get_mut(seat) {
            (activity.unblocked, activity.released) = (cx.now, cx.now);
        }
    }

    /// A component can act again.
    pub fn unblocked(&mut self, cx: &Context, seat: Seat) {
        if let Some(activity) = self.activity.get_mut(seat) {
            activity.unblocked = cx.now;
        }
    }

    /// What the components before a seat have waited for has come.
    pub fn unblocked_before(&mut self, cx: &Context, seat: Seat) {
        self.activity.before_mut(seat).iter_mut().for_each(|activity| activity.unblocked = cx.now);
    }

    /// The last sign of life of a component, or the end of its last wait.
    pub fn last(&self, seat: Seat) -> Option<Time> {
        self.activity.get(seat).map(|activity| activity.last_sent.max(activity.unblocked))
    }
}

/// Prompts take as long as they take, and so do tools, sessions that are loaded, and people who log in;
/// what counts is a sign of life.
fn is_work(method: &str) -> bool {
    let topic = Topic::of(method);
    matches!(topic, Some(Topic::Prompt | Topic::SetUp | Topic::Authenticate))
        || method.contains("mcp/")
}

impl Stages {
    /// A component that has been silent for too long. [`Core`](crate::Core) adds its last words and reports its
    /// end with [`StageInput::Left`](crate::StageInput::Left).
    pub fn overdue(&self, now: Time) -> Option<(Seat, ExitCause)> {
        let late =
            || self.router.chain().seats().find_map(|seat| Some((seat, self.late(seat, now)?)));
        let silent = || self.silence().filter(|(due, ..)| *due <= now);
        let silent = || silent().map(|(_, seat, how)| (seat, how));
        self.router.overdue_handshake(now).or_else(late).or_else(silent)
    }

    /// When a component that can be sent messages last gave a sign of life.
    pub(crate) fn last_activity(&self, seat: Seat) -> Option<Time> {
        self.watchdog.last(seat).filter(|_| self.can_act(seat))
    }

    /// A component cannot act, because it is not read: its time begins anew.
    pub(crate) fn restart_timeouts(&mut self, now: Time, seat: Seat) {
        self.cx.now = now;
        self.watchdog.unblocked(&self.cx, seat);
        self.router.restart_replay_timeout(now, seat);
    }

    /// What a component has not done in time to be spoken to again.
    fn late(&self, seat: Seat, now: Time) -> Option<ExitCause> {
        let limit = self.router.chain().initialize_timeout;
        match self.router.state(seat)? {
            SeatState::Reinitializing { until } if *until <= now => {
                Some(ExitCause::InitializeTimeout(limit))
            }
            SeatState::Replaying { until } if *until <= now => {
                Some(ExitCause::Unresponsive { method: self.replay.method(seat), limit })
            }
            _ => None,
        }
    }

    pub(super) fn watchdog_deadline(&self) -> Option<Time> {
        self.silence().map(|(due, ..)| due)
    }

    /// The component whose time limit ends first: when, and for what.
    fn silence(&self) -> Option<(Time, Seat, ExitCause)> {
        let watch = self.rules.timeouts;
        let unanswered = match (watch.answer, watch.prompt) {
            (None, None) => None,
            _ => self.unanswered(),
        };
        let uncancelled = watch.cancel.and_then(|limit| {
            let seats = self.router.chain().seats();
            seats.filter_map(|seat| self.uncancelled(seat, limit)).min_by_key(|(due, ..)| *due)
        });
        let due = unanswered.into_iter().chain(uncancelled).chain(self.overdue_turn());
        due.min_by_key(|(due, ..)| *due)
    }

    fn unanswered(&self) -> Option<(Time, Seat, ExitCause)> {
        let mut first: Option<(Time, u64, &PendingRequest)> = None;
        // What it had asked before cannot be for this: a proxy that waits for an agent is to blame all
        // the same if the agent waits for a tool of that proxy.
        let seats = (0..=self.router.chain().components.len() as u16).map(Seat);
        let mut waits: Vec<bool> = seats.map(|seat| self.router.waits_for_held(seat)).collect();
        for ask in self.router.requests().rev() {
            if let Some(limit) = self.patience(ask).filter(|_| !waits[ask.responder.index()])
                && let due = self.owed_since(ask).plus(limit)
                && first.is_none_or(|(earliest, ..)| due < earliest)
            {
                first = Some((due, limit, ask));
            }
            if let Some(waits) = waits.get_mut(ask.requester.index()) {
                *waits = true;
            }
        }
        let (due, limit, ask) = first?;
        Some((due, ask.responder, ExitCause::Unresponsive { method: ask.method.clone(), limit }))
    }

    /// How long an answer may take, if anybody of ours owes it.
    fn patience(&self, ask: &PendingRequest) -> Option<u64> {
        let ours = matches!(ask.purpose, Purpose::Forward) && self.can_act(ask.responder);
        let limit = match is_work(&ask.method) {
            true => self.rules.timeouts.prompt,
            false => self.rules.timeouts.answer,
        };
        limit.filter(|_| ours)
    }

    fn owed_since(&self, ask: &PendingRequest) -> Time {
        let Some(activity) = self.watchdog.activity.get(ask.responder) else { return ask.sent_at };
        // Time that it spent waiting for others is not its own.
        let since = ask.sent_at.max(activity.unblocked);
        if is_work(&ask.method) { since.max(activity.last_sent) } else { since }
    }

    /// Since when a component goes on with a turn that was cancelled (`session/cancel`).
    fn uncancelled(&self, seat: Seat, limit: u64) -> Option<(Time, Seat, ExitCause)> {
        let record = self.sessions.record(seat).filter(|_| self.can_act(seat))?;
        let cancelled = record.prompts().filter_map(|it| Some((it.cancelled?, it)));
        let mut cancelled = cancelled.peekable();
        cancelled.peek()?;
        // The sessions whose prompts it has passed on; `None` is one that is not known.
        let own = self.router.requests().filter(|it| it.requester == seat && it.method == PROMPT);
        let passed_on: BTreeSet<Option<SessionId>> = own
            .map(|ask| match &ask.fingerprint {
                Fingerprint::Params(params) => session_of(params),
                _ => None,
            })
            .collect();
        let passes_on = |session: &SessionId| {
            passed_on.contains(&None) || passed_on.contains(&Some(session.clone()))
        };
        let at = cancelled.filter(|(_, it)| !passes_on(&it.session)).map(|(at, _)| at).min()?;
        let since = self.should_have_stopped(seat, at, limit);
        Some((
            since.plus(limit),
            seat,
            ExitCause::Uncancellable { method: PROMPT.to_owned(), limit },
        ))
    }

    /// Since when a component should have stopped what was cancelled at this time. A proxy that has passed it
    /// on could not stop before the next component did, which takes at most `limit`. What an agent waits for
    /// is part of what it should have stopped.
    pub(super) fn should_have_stopped(&self, seat: Seat, cancelled: Time, limit: u64) -> Time {
        let Some(activity) = self.watchdog.activity.get(seat) else { return cancelled };
        // It cannot have heard of the cancellation before.
        let heard = cancelled.max(activity.released);
        match self.is_agent(seat) {
            true => heard,
            false => heard.max(activity.unblocked.min(heard.plus(limit))),
        }
    }

    /// A component is live, and messages reach it.
    pub(super) fn can_act(&self, seat: Seat) -> bool {
        self.is_up(seat) && !self.gate.is_closed(seat)
    }

    pub(super) fn is_up(&self, seat: Seat) -> bool {
        self.router.state(seat).is_some_and(SeatState::is_up)
    }
}
