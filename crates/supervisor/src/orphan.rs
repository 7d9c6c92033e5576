//! Sessions that nobody has: whoever asked for them was told that it has failed.
//!
//! A component dies with a request that sets a session up. Who asked is told to send again, but those
//! beyond may set the session up all the same, or have done so. That session is closed in our own name,
//! and what is said of it in the meantime goes nowhere.

use router::Seat;
use wire::{Id, Json, Message, Outcome, Side, code};

use crate::event::Action;
use crate::supervisor::Supervisor;
use crate::topic::{Topic, session_of, session_of_call, topic};

/// A session without anybody who has it.
#[derive(Debug)]
pub struct Orphan {
    /// Who would have had it, and who is next.
    before: Seat,
    first: Seat,
    session: Option<String>,
    stage: Stage,
}

#[derive(Debug, PartialEq)]
enum Stage {
    /// It is being set up; this is how that was asked for.
    Asked(Id),
    /// It stands, and is to be closed as soon as somebody is there who can be told.
    Stands,
    /// It is being closed, with this request of ours.
    Closing(Id),
}

impl Supervisor {
    /// What a component has asked its successor to set up, and waits for.
    pub(crate) fn asked_by(&self, seat: Seat) -> Vec<(Seat, Id)> {
        let is_set_up = |method: &str| Topic::of(method) == Some(Topic::SetUp);
        let asked = self.router.questions().filter(|(_, it)| it.asker == seat);
        let asked = asked.filter(|(_, it)| is_set_up(&it.method));
        asked.map(|(id, ask)| (ask.answerer, id)).collect()
    }

    /// A component is gone that had asked for this, and had these sessions in its hands.
    pub(crate) fn orphan(
        &mut self,
        seat: Seat,
        asked: Vec<(Seat, Id)>,
        had: Vec<String>,
        actions: &mut Vec<Action>,
    ) {
        for (first, id) in asked {
            if !self.router.owes(first, &id) {
                let session = self.post(first).and_then(|post| post.record.opening_session(&id));
                self.orphans.push(Orphan { before: seat, first, session, stage: Stage::Asked(id) });
            }
        }
        for session in had {
            self.adopt(seat, session, actions);
        }
        // Those that it was to close are the next one's care.
        let gone: Vec<Orphan> = self.orphans.extract_if(.., |it| it.first == seat).collect();
        for orphan in gone {
            if let (Some(session), false) =
                (orphan.session, matches!(orphan.stage, Stage::Asked(_)))
            {
                if let Some(post) = self.post_mut(seat) {
                    post.record.forget(&session);
                }
                self.adopt(seat, session, actions);
            }
        }
    }

    /// A session stands beyond `before`, and nobody has it.
    fn adopt(&mut self, before: Seat, session: String, actions: &mut Vec<Action>) {
        match self.router.successor(before) {
            Some(first) => {
                let session = Some(session);
                self.orphans.push(Orphan { before, first, session, stage: Stage::Stands });
                self.close_orphans(first, actions);
            }
            None => self.forget_session(&session, actions),
        }
    }

    /// Closes what can be closed through this seat.
    pub(crate) fn close_orphans(&mut self, first: Seat, actions: &mut Vec<Action>) {
        if first.is_component() && !self.is_up(first) {
            return;
        }
        for index in 0..self.orphans.len() {
            let orphan = &self.orphans[index];
            if orphan.first != first || orphan.stage != Stage::Stands {
                continue;
            }
            let session = orphan.session.as_deref().map(Json::string);
            let params = Json::object([("sessionId", session)]);
            self.asked += 1;
            let id = Id::string(&format!("r:{}", self.asked));
            self.orphans[index].stage = Stage::Closing(id.clone());
            let message = Message::request(id, "session/close", params);
            self.deliver(first, Side::Agent, message, actions);
        }
    }

    /// Somebody answers what only we have a use for. Gives back what is not.
    pub(crate) fn on_orphan_answer(
        &mut self,
        from: Seat,
        message: Message,
        actions: &mut Vec<Action>,
    ) -> Option<Message> {
        let Message::Response { id, outcome, .. } = &message else { return Some(message) };
        let is_it = |it: &Orphan| {
            it.first == from
                && matches!(&it.stage, Stage::Asked(asked) | Stage::Closing(asked) if asked == id)
        };
        let Some(index) = self.orphans.iter().position(is_it) else { return Some(message) };
        match (&self.orphans[index].stage, outcome) {
            (Stage::Asked(_), Outcome::Result(result)) => {
                let orphan = &mut self.orphans[index];
                orphan.session = session_of(result).or(orphan.session.take());
                orphan.stage = Stage::Stands;
                self.close_orphans(from, actions);
            }
            (Stage::Asked(_), Outcome::Error(_)) => drop(self.orphans.remove(index)),
            _ => {
                let session = self.orphans.remove(index).session.unwrap_or_default();
                self.forget_session(&session, actions);
            }
        }
        None
    }

    /// Nobody knows this session any more.
    pub(crate) fn forget_session(&mut self, session: &str, actions: &mut Vec<Action>) {
        for post in &mut self.posts {
            post.record.forget(session);
        }
        self.with_exchange(actions, |it, now, steps| it.session_lost(now, session, steps));
    }

    /// Is what is to be delivered about a session that nobody has? Its sender is told.
    pub(crate) fn is_of_orphan(&mut self, to: Seat, toward: Side, message: &Message) -> bool {
        if self.orphans.is_empty() {
            return false;
        }
        let (Message::Request { call, .. } | Message::Notification(call)) = message else {
            return false;
        };
        let Some(session) = session_of_call(call) else { return false };
        let is_it = |it: &Orphan| it.session.as_ref() == Some(&session);
        if toward == Side::Agent {
            // Somebody takes it up: it is nobody's no more.
            if topic(call) == Some(Topic::SetUp) {
                let open = |it: &Orphan| is_it(it) && !matches!(it.stage, Stage::Closing(_));
                self.orphans.retain(|it| !(it.first == to && open(it)));
            }
            return false;
        }
        if !self.orphans.iter().any(|it| is_it(it) && to <= it.before) {
            return false;
        }
        if let Message::Request { id, .. } = message {
            let outcome = Outcome::error(code::INVALID_PARAMS, "nobody has this session any more");
            let message = Message::response(id.clone(), outcome);
            self.route_later(router::Event::Arrived { from: to, toward: Side::Agent, message });
        }
        true
    }
}
