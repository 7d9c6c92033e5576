//! Requests that are still counted after the component was restarted, although nobody will see their end.
//!
//! If the component crashes while a prompt runs, the conductor answers the prompt and cancels the turn at the agent. The
//! agent may need time to stop, and its answer reaches nobody. So the prompt is counted until the agent was silent in
//! that session for a minute, or until something shows that the turn has ended.

use std::time::Duration;

use super::{Kind, Limiter, MINUTE, Running, Scope, Ticket};
use component_base::sessions::{Origin, session_key};

impl Limiter {
    /// The handler of a request has ended without its answer: the component has crashed.
    pub fn abandon(&mut self, ticket: Ticket, now: Duration) {
        if self.running.contains_key(&ticket) {
            self.leftovers.insert(ticket, now + MINUTE);
        }
    }

    /// The component was restarted without its memory, and this session had begun before: its turns may still run.
    pub fn leave_turns(&mut self, session: &str, now: Duration) {
        let at_once = |scope| self.rules.limits(Kind::Prompt, scope).at_once;
        let (of_session, of_all) = (at_once(Scope::Session), at_once(Scope::All));
        if of_session.is_none() && of_all.is_none() {
            return;
        }
        // More than one turn at a time is unusual, but a limit must not be exceeded.
        for _ in 0..of_session.map_or(1, |it| it.get()) {
            let ticket = self.new_ticket();
            self.run(ticket, Kind::Prompt, session, now);
            self.leftovers.insert(ticket, now + MINUTE);
        }
    }

    /// The agent works in a session.
    pub fn on_activity(&mut self, session: &str, now: Duration) {
        for ticket in self.left_turns(session) {
            self.leftovers.insert(ticket, now + MINUTE);
        }
    }

    /// A turn of a session has ended. The agent works on the turns of a session one after the other.
    pub fn on_turn_end(&mut self, session: &str) {
        for ticket in self.left_turns(session) {
            self.end(ticket);
        }
    }

    /// Whether any request is counted although nobody will see its end.
    pub fn has_leftovers(&self) -> bool {
        !self.leftovers.is_empty()
    }

    /// The agent uses a terminal that was started before the component was restarted without its memory.
    pub fn adopt_terminal(&mut self, session: &str, id: &str, now: Duration) {
        let is_known = self.terminals.contains_key(&super::terminal_key(session, id));
        if self.restarted.is_none() || is_known {
            return;
        }
        let ticket = self.new_ticket();
        self.run(ticket, Kind::ToolCall, session, now);
        if !self.begin_terminal(session, id, ticket) {
            self.end(ticket);
        }
    }

    /// Whether terminals may run that were started before the component was restarted.
    pub(super) fn may_have_terminals(&self, scope: Scope, session: &str, now: Duration) -> bool {
        let is_new = |session| {
            let origin =
                |it: &mut component_base::sessions::Session<_>| (it.origin, it.was_repeated);
            self.sessions.with_known(session, origin) == Some((Origin::New, false))
        };
        self.terminals_lost_until.is_some_and(|until| now < until)
            && (scope == Scope::All || !is_new(session))
    }

    /// Ends what was left behind long ago. Returns when the next request ends in this way.
    pub(super) fn end_leftovers(&mut self, now: Duration) -> Option<Duration> {
        let over = self.leftovers.iter().filter(|(_, until)| **until <= now);
        for ticket in over.map(|(ticket, _)| *ticket).collect::<Vec<Ticket>>() {
            self.end(ticket);
        }
        self.terminals_lost_until = self.terminals_lost_until.filter(|until| now < *until);
        Kind::ALL.into_iter().filter_map(|kind| self.next_leftover_end(kind, now)).min()
    }

    /// How long the first leftover request of a kind is still counted, if nothing shows its end before.
    pub(super) fn next_leftover_end(&self, kind: Kind, now: Duration) -> Option<Duration> {
        let of_kind = |(ticket, until): (&Ticket, &Duration)| {
            self.running.get(ticket).filter(|it| it.kind == kind).map(|_| *until)
        };
        let lost = self.terminals_lost_until.filter(|_| kind == Kind::ToolCall);
        let ends = self.leftovers.iter().filter_map(of_kind).chain(lost);
        ends.min().map(|until| until.saturating_sub(now))
    }

    fn left_turns(&self, session: &str) -> Vec<Ticket> {
        let session = session_key(session);
        let is_turn = |it: &Running| it.kind == Kind::Prompt && it.session == *session;
        let tickets = self.leftovers.keys().copied();
        tickets.filter(|ticket| self.running.get(ticket).is_some_and(is_turn)).collect()
    }
}
