//! Who is alive and says nothing.
//!
//! A component is to blame for a question that it owes only while it waits for nobody itself: in a
//! chain where everybody waits for the next one, that is the last of them. The editor is never to
//! blame: people take their time.

use router::pending::{Ask, Purpose};
use router::{How, Seat, Time};
use wire::Id;

use crate::recovery::Stage;
use crate::supervisor::Supervisor;
use crate::topic::key;

/// Prompts take as long as they take, and so do tools; what counts is a sign of life.
fn is_work(method: &str) -> bool {
    method == "session/prompt" || method.contains("mcp/")
}

impl Supervisor {
    /// Who has been silent for too long. A shell that knows the last words of that component tells its
    /// end, with [`Event::Left`](crate::Event::Left).
    pub fn overdue(&self, now: Time) -> Option<(Seat, How)> {
        let limit = self.router.chain().greeting_limit;
        let learner = |seat: &Seat| match self.post(*seat).map(|post| &post.stage) {
            Some(Stage::Greeting { until } | Stage::Learning { until, .. }) => *until <= now,
            _ => false,
        };
        let late = || self.router.chain().seats().find(learner).map(|it| (it, How::Silent(limit)));
        let silent =
            || self.silences().find(|(due, ..)| *due <= now).map(|(_, seat, how)| (seat, how));
        self.router.overdue(now).or_else(late).or_else(silent)
    }

    pub(crate) fn watch_deadline(&self) -> Option<Time> {
        self.silences().map(|(due, ..)| due).min()
    }

    pub(crate) fn sign_of_life(&mut self, seat: Seat) {
        let now = self.now;
        if let Some(post) = self.post_mut(seat) {
            post.heard = now;
        }
    }

    /// When whose patience with whom will be over, and what for.
    fn silences(&self) -> impl Iterator<Item = (Time, Seat, How)> {
        let watch = self.rules.watch;
        let unanswered = (watch.answer.is_some() || watch.prompt.is_some()).then(|| {
            self.router.questions().filter_map(move |(id, ask)| self.unanswered(&id, ask))
        });
        let uncancelled = watch.cancel.map(|limit| {
            let seats = self.router.chain().seats();
            seats.filter_map(move |seat| self.uncancelled(seat, limit))
        });
        unanswered.into_iter().flatten().chain(uncancelled.into_iter().flatten())
    }

    fn unanswered(&self, id: &Id, ask: &Ask) -> Option<(Time, Seat, How)> {
        let seat = ask.answerer;
        let post = self.post(seat)?;
        let work = is_work(&ask.method);
        let limit = if work { self.rules.watch.prompt? } else { self.rules.watch.answer? };
        // What it had asked before cannot be for this: a proxy that waits for an agent is to blame all
        // the same if the agent waits for a tool of that proxy.
        let since = || self.router.questions().skip_while(|(it, _)| it != id);
        let waits = || since().any(|(_, it)| it.asker == seat);
        if !matches!(ask.purpose, Purpose::Pass) || !self.is_up(seat) || waits() {
            return None;
        }
        let since = if work { ask.at.max(post.heard) } else { ask.at };
        // Time that it spent waiting for others is not its own.
        let since = since.max(post.freed);
        let how = How::Unresponsive { method: ask.method.clone(), limit };
        Some((since.plus(limit), seat, how))
    }

    fn uncancelled(&self, seat: Seat, limit: u64) -> Option<(Time, Seat, How)> {
        let post = self.post(seat)?;
        let record = &post.record;
        if record.prompts.is_empty() && record.cancelled.is_empty() || !self.is_up(seat) {
            return None;
        }
        let passes_on = |method: &str| {
            self.router.questions().any(|(_, it)| it.asker == seat && it.method == method)
        };
        let prompts = record.prompts.values();
        let prompts = prompts.filter_map(|it| Some((it.cancelled?, "session/prompt".to_owned())));
        let method_of = |id: &Id, name: &String| key(id) == *name;
        let requests = record.cancelled.iter().filter_map(|(name, at)| {
            let mut owed = self.router.questions().filter(|(_, ask)| ask.answerer == seat);
            let (_, ask) = owed.find(|(id, _)| method_of(id, name))?;
            Some((*at, ask.method.clone()))
        });
        let (at, method) = prompts.chain(requests).filter(|(_, it)| !passes_on(it)).min()?;
        // A proxy that had passed it on could not stop before the next one did. What an agent waits for
        // meanwhile is part of what it should have stopped.
        let since = if self.is_agent(seat) { at } else { at.max(post.freed) };
        Some((since.plus(limit), seat, How::Uncancellable { method, limit }))
    }

    pub(crate) fn is_up(&self, seat: Seat) -> bool {
        matches!(self.post(seat).map(|post| &post.stage), Some(Stage::Up { .. }))
            && self.router.has_stood(seat)
    }
}
