//! Sessions that nobody has: whoever asked for them was told that it has failed.
//!
//! A component dies with a request that sets a session up. Who asked is told to send again, but those
//! beyond may set the session up all the same, or have done so. That session is closed in our own name,
//! and what is said of it in the meantime goes nowhere.

use router::Seat;
use router::pending::{Ask, Gist};
use wire::{Id, Json, Message, Outcome, Side, code};

use crate::event::Action;
use crate::supervisor::Supervisor;
use crate::topic::{Topic, is_lesson, session_of, session_of_call, topic};

/// A session without anybody who has it.
#[derive(Debug)]
pub struct Orphan {
    /// Who is next to the one who would have had it.
    first: Seat,
    session: Option<String>,
    stage: Stage,
}

/// A request to set up a session, on its way.
#[derive(Debug)]
pub struct Asked {
    first: Seat,
    id: Id,
    /// If the request names it.
    session: Option<String>,
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
    pub(crate) fn asked_by(&self, seat: Seat) -> Vec<Asked> {
        let is_set_up = |method: &str| Topic::of(method) == Some(Topic::SetUp);
        let asked = self.router.questions().filter(|(_, it)| it.asker == seat);
        let asked = asked.filter(|(_, it)| is_set_up(&it.method));
        let session = |ask: &Ask| match &ask.gist {
            Gist::Whole(params) => session_of(params),
            _ => None,
        };
        asked.map(|(id, ask)| Asked { first: ask.answerer, id, session: session(ask) }).collect()
    }

    /// A component is gone that had asked for this, and had these sessions in its hands.
    pub(crate) fn orphan(
        &mut self,
        seat: Seat,
        asked: Vec<Asked>,
        had: Vec<String>,
        actions: &mut Vec<Action>,
    ) {
        for Asked { first, id, session } in asked {
            if !self.router.owes(first, &id) {
                self.orphans.push(Orphan { first, session, stage: Stage::Asked(id) });
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
            // Nobody is there who knows it; who comes is not told.
            Some(first) if self.is_untaught(first) => {
                if let Some(post) = self.post_mut(first) {
                    post.record.forget(&session);
                }
                self.adopt(first, session, actions);
            }
            Some(first) => {
                let session = Some(session);
                self.orphans.push(Orphan { first, session, stage: Stage::Stands });
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

    /// Gives back what somebody says, unless it is about a session that nobody has. Who asks is told.
    pub(crate) fn unless_of_orphan(
        &mut self,
        from: Seat,
        toward: Side,
        message: Message,
        actions: &mut Vec<Action>,
    ) -> Option<Message> {
        let (Message::Request { call, .. } | Message::Notification(call)) = &message else {
            return Some(message);
        };
        if self.orphans.is_empty() || toward != Side::Editor {
            return Some(message);
        }
        let session = session_of_call(call);
        let is_it = |it: &Orphan| it.first == from && it.session == session;
        if session.is_none() || !self.orphans.iter().any(is_it) {
            return Some(message);
        }
        if let Message::Request { id, .. } = message {
            let outcome = Outcome::error(code::INVALID_PARAMS, "nobody has this session any more");
            self.deliver(from, Side::Agent, Message::response(id, outcome), actions);
        }
        None
    }

    /// Somebody is asked to take up a session: it is nobody's no more.
    pub(crate) fn claim_orphan(&mut self, to: Seat, message: &Message) {
        if let Message::Request { id, call } = message
            && !self.orphans.is_empty()
            && !is_lesson(id)
            && topic(call) == Some(Topic::SetUp)
            && let session @ Some(_) = session_of_call(call)
        {
            let is_being_closed = |it: &Orphan| matches!(it.stage, Stage::Closing(_));
            self.orphans
                .retain(|it| it.first != to || it.session != session || is_being_closed(it));
        }
    }
}
