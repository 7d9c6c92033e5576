//! The stage *watchdog*: finds components that run but do not respond in time.
//!
//! Only a component that is not waiting on another one is considered stuck. In a chain where each component waits for the
//! next one, that is the last component. The editor is never considered stuck, because a user may take any time.

use std::collections::BTreeSet;

use acp_wire::Message;
use acp_wire::acp::{MethodKind, PROMPT, SessionId, session_of};
use router::pending::{Fingerprint, PendingRequest, Purpose};
use router::{Chain, ExitCause, Router, Seat, SeatState, Time};

use super::by_seat::BySeat;
use super::{Context, Hop, StageResult, Stages};

/// When each component was last active.
#[derive(Debug)]
pub(super) struct Watchdog {
    activity: BySeat<Activity>,
}

/// The times at which one component was active, or was able to continue.
#[derive(Debug, Default)]
struct Activity {
    /// When the component last sent a message.
    last_sent: Time,
    /// When the component last got something that it had waited for.
    unblocked: Time,
    /// When messages that a command had held for it were released.
    released: Time,
}

impl Watchdog {
    pub(super) fn new(count: usize) -> Watchdog {
        Watchdog { activity: BySeat::new(count) }
    }

    /// See [`BySeat::fill`].
    pub(super) fn fill(&mut self, count: usize, filled: &[Seat]) {
        self.activity.fill(count, filled);
    }

    /// Every message that a component sends is activity.
    pub(super) fn arrived(&mut self, cx: &Context, router: &mut Router, hop: Hop) -> StageResult {
        router.restart_barrier_timeout(cx.now, hop.seat);
        if let Some(activity) = self.activity.get_mut(hop.seat) {
            activity.last_sent = cx.now;
        }
        router.restart_replay_timeout(cx.now, hop.seat);
        StageResult::Pass
    }

    pub(super) fn delivered(&mut self, cx: &Context, hop: Hop, message: &Message) -> StageResult {
        if let Message::Response { .. } = message
            && let Some(activity) = self.activity.get_mut(hop.seat)
        {
            activity.unblocked = cx.now;
        }
        StageResult::Pass
    }

    /// Messages that were held for a component are delivered now.
    pub(super) fn released(&mut self, cx: &Context, seat: Seat) {
        if let Some(activity) = self.activity.get_mut(seat) {
            (activity.unblocked, activity.released) = (cx.now, cx.now);
        }
    }

    /// A component is able to continue.
    pub(super) fn unblocked(&mut self, cx: &Context, seat: Seat) {
        if let Some(activity) = self.activity.get_mut(seat) {
            activity.unblocked = cx.now;
        }
    }

    /// The components before a seat have got what they waited for.
    pub(super) fn unblocked_before(&mut self, cx: &Context, chain: &Chain, seat: Seat) {
        for seat in chain.before(seat) {
            self.unblocked(cx, *seat);
        }
    }

    /// When a component was last active, or last able to continue.
    pub(super) fn last(&self, seat: Seat) -> Option<Time> {
        self.activity.get(seat).map(|activity| activity.last_sent.max(activity.unblocked))
    }
}

/// Whether a request may take any time, as long as the component is active. Prompts, tools, loading of sessions and
/// logins are such requests.
fn is_long_running(method: &str) -> bool {
    let kind = MethodKind::of(method);
    matches!(kind, Some(MethodKind::Prompt | MethodKind::SetUpSession | MethodKind::Authenticate))
        || method.contains("mcp/")
}

impl Stages {
    /// A component that has exceeded a timeout. [`Core`](crate::Core) then treats it as ended, and reports this with
    /// [`StageInput::Ended`](crate::StageInput::Ended).
    pub fn overdue(&self, now: Time) -> Option<(Seat, ExitCause)> {
        let restart = || {
            self.router
                .chain()
                .seats()
                .find_map(|seat| Some((seat, self.overdue_restart(seat, now)?)))
        };
        let silent = || self.next_timeout().filter(|(due, ..)| *due <= now);
        let silent = || silent().map(|(_, seat, how)| (seat, how));
        self.router.overdue_handshake(now).or_else(restart).or_else(silent)
    }

    /// When a component was last active, if messages reach it.
    pub(crate) fn last_activity(&self, seat: Seat) -> Option<Time> {
        self.watchdog.last(seat).filter(|_| self.can_act(seat))
    }

    /// Restarts the timeouts of a component that is blocked because its link is paused.
    pub(crate) fn restart_timeouts(&mut self, now: Time, seat: Seat) {
        self.cx.now = now;
        self.watchdog.unblocked(&self.cx, seat);
        self.router.restart_replay_timeout(now, seat);
    }

    /// Which timeout a component has exceeded while it is being restarted.
    fn overdue_restart(&self, seat: Seat, now: Time) -> Option<ExitCause> {
        let limit = self.router.chain().initialize_timeout;
        match self.router.state(seat)? {
            SeatState::Reinitializing { until } if *until <= now => {
                Some(ExitCause::InitializeTimeout(limit))
            }
            SeatState::Replaying { until } if *until <= now => {
                Some(ExitCause::Unresponsive { method: self.replay.current_method(seat), limit })
            }
            _ => None,
        }
    }

    pub(super) fn watchdog_deadline(&self) -> Option<Time> {
        self.next_timeout().map(|(due, ..)| due)
    }

    /// The timeout that expires first: when, of which component, and its cause of failure.
    fn next_timeout(&self) -> Option<(Time, Seat, ExitCause)> {
        let timeouts = self.rules.timeouts;
        let unanswered = match (timeouts.answer, timeouts.prompt) {
            (None, None) => None,
            _ => self.unanswered(),
        };
        let ignored_cancellation = timeouts.cancel.and_then(|limit| {
            let seats = self.router.chain().seats();
            seats
                .filter_map(|seat| self.ignored_cancellation(seat, limit))
                .min_by_key(|(due, ..)| *due)
        });
        let due =
            unanswered.into_iter().chain(ignored_cancellation).chain(self.next_turn_timeout());
        due.min_by_key(|(due, ..)| *due)
    }

    /// The timeout of a pending request that expires first.
    fn unanswered(&self) -> Option<(Time, Seat, ExitCause)> {
        let mut first: Option<(Time, u64, &PendingRequest)> = None;
        // The loop goes from the newest request to the oldest. A component that has itself sent a newer request may be
        // waiting for that answer, so it is not stuck. A request that it sent earlier is no excuse: if the agent waits
        // for a tool of a proxy, the proxy can be stuck although its own, older prompt waits for the agent.
        let seats = (0..=self.router.chain().components.len() as u16).map(Seat);
        let mut waits: Vec<bool> = seats.map(|seat| self.router.waits_for_held(seat)).collect();
        for request in self.router.requests().rev() {
            if let Some(limit) =
                self.request_timeout(request).filter(|_| !waits[request.responder.index()])
                && let due = self.waiting_since(request).plus(limit)
                && first.is_none_or(|(earliest, ..)| due < earliest)
            {
                first = Some((due, limit, request));
            }
            if let Some(waits) = waits.get_mut(request.requester.index()) {
                *waits = true;
            }
        }
        let (due, limit, request) = first?;
        Some((
            due,
            request.responder,
            ExitCause::Unresponsive { method: request.method.clone(), limit },
        ))
    }

    /// The length of a request's timeout. Requests of the conductor itself have none, and neither have requests to a
    /// component that cannot act.
    fn request_timeout(&self, request: &PendingRequest) -> Option<u64> {
        let is_relevant =
            matches!(request.purpose, Purpose::Forward) && self.can_act(request.responder);
        let limit = match is_long_running(&request.method) {
            true => self.rules.timeouts.prompt,
            false => self.rules.timeouts.answer,
        };
        limit.filter(|_| is_relevant)
    }

    /// Since when a component could have answered a request.
    fn waiting_since(&self, request: &PendingRequest) -> Time {
        let Some(activity) = self.watchdog.activity.get(request.responder) else {
            return request.sent_at;
        };
        // The time that it waited for other components does not count.
        let since = request.sent_at.max(activity.unblocked);
        if is_long_running(&request.method) { since.max(activity.last_sent) } else { since }
    }

    /// When a component that ignores `session/cancel` exceeds its timeout.
    fn ignored_cancellation(&self, seat: Seat, limit: u64) -> Option<(Time, Seat, ExitCause)> {
        let record = self.sessions.record(seat).filter(|_| self.can_act(seat))?;
        let cancelled = record.prompts().filter_map(|it| Some((it.cancelled?, it)));
        let mut cancelled = cancelled.peekable();
        cancelled.peek()?;
        // The sessions whose prompts the component has forwarded. `None` stands for an unknown session.
        let own = self.router.requests().filter(|it| it.requester == seat && it.method == PROMPT);
        let forwarded: BTreeSet<Option<SessionId>> = own
            .map(|request| match &request.fingerprint {
                Fingerprint::Params(params) => session_of(params),
                _ => None,
            })
            .collect();
        let has_forwarded = |session: &SessionId| {
            forwarded.contains(&None) || forwarded.contains(&Some(session.clone()))
        };
        let at = cancelled.filter(|(_, it)| !has_forwarded(&it.session)).map(|(at, _)| at).min()?;
        let since = self.should_have_stopped(seat, at, limit);
        Some((
            since.plus(limit),
            seat,
            ExitCause::Uncancellable { method: PROMPT.to_owned(), limit },
        ))
    }

    /// The time from which a component counts as too slow to stop work that was cancelled at this time. A proxy that has
    /// forwarded the work can stop only after the next component has stopped, which may take up to `limit`. An agent
    /// gets no such extension: everything that it waits for is part of the cancelled work.
    pub(super) fn should_have_stopped(&self, seat: Seat, cancelled: Time, limit: u64) -> Time {
        let Some(activity) = self.watchdog.activity.get(seat) else { return cancelled };
        // A held cancellation reaches the component only when it is released.
        let received = cancelled.max(activity.released);
        match self.is_agent(seat) {
            true => received,
            false => received.max(activity.unblocked.min(received.plus(limit))),
        }
    }

    /// Whether a component is live and messages reach it.
    pub(super) fn can_act(&self, seat: Seat) -> bool {
        self.is_up(seat) && !self.gate.is_closed(seat)
    }

    pub(super) fn is_up(&self, seat: Seat) -> bool {
        self.router.state(seat).is_some_and(SeatState::is_up)
    }
}
