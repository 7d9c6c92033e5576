//! Sessions that nobody has: whoever asked for them was told that it has failed.
//!
//! A component dies with a request that sets a session up. Who asked is told to send again, but those
//! beyond may set the session up all the same, or have done so. What is said of that session goes nowhere.
//! A new one is closed in our own name; one that was to be taken up again waits for who sends again.

use router::Seat;
use router::pending::{Ask, Gist};
use wire::{Id, Json, Message, Outcome, Side, code};

use crate::event::Action;
use crate::record::Record;
use crate::stages::Stage;
use crate::supervisor::Supervisor;
use crate::topic::{Topic, is_lesson, session_of, session_of_call, topic};

/// Of no more cancelled requests than these a late answer is waited for.
const MOST_ORPHANS: usize = 1024;

/// A session without anybody who has it.
#[derive(Debug)]
pub struct Orphan {
    /// Who is next to the one who would have had it.
    first: Seat,
    session: Option<String>,
    state: State,
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
enum State {
    /// It is being set up; this is how that was asked for.
    Asked(Id),
    /// It stands, and is to be closed as soon as somebody is there who can be told.
    Stands,
    /// It is being closed, with this request of ours.
    Closing(Id),
    /// It was there before, and will be taken up again.
    Kept,
}

/// Does this method name the session that it sets up?
fn takes_up(method: &str) -> bool {
    matches!(method, "session/load" | "session/resume")
}

/// A session that a component had in its hands when it died.
#[derive(Debug)]
pub struct Untold {
    session: String,
    is_new: bool,
}

impl Untold {
    pub fn new(session: String, method: &str) -> Untold {
        Untold { session, is_new: !takes_up(method) }
    }
}

impl Supervisor {
    /// What a component has asked its successor to set up, and waits for.
    pub(crate) fn asked_by(&self, seat: Seat) -> Vec<Asked> {
        let is_set_up = |method: &str| Topic::of(method) == Some(Topic::SetUp);
        let asked = self.router.questions().filter(|(_, it)| it.asker == seat);
        let asked = asked.filter(|(_, it)| is_set_up(&it.method));
        let session = |ask: &Ask| match &ask.gist {
            Gist::Whole(params) if takes_up(&ask.method) => session_of(params),
            _ => None,
        };
        asked.map(|(id, ask)| Asked { first: ask.answerer, id, session: session(ask) }).collect()
    }

    /// What a component was asked with this id, if that sets up a session.
    pub(crate) fn asked_as(&self, first: Seat, id: &Id) -> Option<Asked> {
        if self.orphans.len() >= MOST_ORPHANS {
            return None;
        }
        let set_up = self.records.get(first)?.opening(id)?;
        let session = Some(set_up.session.clone()).filter(|it| !it.is_empty());
        let session = session.filter(|_| takes_up(&set_up.call.method.name()));
        Some(Asked { first, id: id.clone(), session })
    }

    /// Nobody waits any more for the answer to this.
    pub(crate) fn await_orphan(&mut self, asked: Asked) {
        let Asked { first, id, session } = asked;
        self.orphans.push(Orphan { first, session, state: State::Asked(id) });
    }

    /// A component is gone that had asked for this.
    pub(crate) fn orphan(&mut self, seat: Seat, asked: Vec<Asked>, actions: &mut Vec<Action>) {
        for Asked { first, id, session } in asked {
            if !self.router.owes(first, &id) {
                self.orphans.push(Orphan { first, session, state: State::Asked(id) });
            }
        }
        // Those that it was to close are the next one's care.
        let is_gone = |it: &mut Orphan| it.first == seat && it.state != State::Kept;
        let gone: Vec<Orphan> = self.orphans.extract_if(.., is_gone).collect();
        for orphan in gone {
            if let (Some(session), false) =
                (orphan.session, matches!(orphan.state, State::Asked(_)))
            {
                if let Some(record) = self.records.get_mut(seat) {
                    record.forget(&session);
                }
                self.adopt(seat, session, actions);
            }
        }
    }

    /// Sessions stand beyond `before`, and nobody has them.
    pub(crate) fn adopt_all(
        &mut self,
        before: Seat,
        sessions: Vec<Untold>,
        actions: &mut Vec<Action>,
    ) {
        for Untold { session, is_new } in sessions {
            match (is_new, self.router.successor(before)) {
                // Those before have it: it was only to be set up anew.
                (false, Some(first)) if self.is_known_before(first, &session) => {}
                (false, Some(first)) => {
                    let session = Some(session);
                    self.orphans.push(Orphan { first, session, state: State::Kept });
                }
                _ => self.adopt(before, session, actions),
            }
        }
    }

    fn adopt(&mut self, before: Seat, session: String, actions: &mut Vec<Action>) {
        match self.router.successor(before) {
            // Nobody is there who knows it; who comes is not told.
            Some(first) if self.is_untaught(first) => {
                if let Some(record) = self.records.get_mut(first) {
                    record.forget(&session);
                }
                self.adopt(first, session, actions);
            }
            Some(first) => {
                let session = Some(session);
                self.orphans.push(Orphan { first, session, state: State::Stands });
                self.close_orphans(first, actions);
            }
            None => self.forget_session(&session, actions),
        }
    }

    /// Closes what can be closed through this seat.
    pub(crate) fn close_orphans(&mut self, first: Seat, actions: &mut Vec<Action>) {
        if !first.is_component() || self.is_up(first) {
            self.send_closes(first, actions);
        }
    }

    /// Asks a component that can be told to close the sessions that stand.
    pub(crate) fn send_closes(&mut self, first: Seat, actions: &mut Vec<Action>) {
        let stands = |it: &&mut Orphan| it.first == first && it.state == State::Stands;
        let mut requests = Vec::new();
        for orphan in self.orphans.iter_mut().filter(stands) {
            let session = orphan.session.as_deref().map(Json::string);
            let params = Json::object([("sessionId", session)]);
            self.asked += 1;
            let id = Id::string(&format!("r:{}", self.asked));
            orphan.state = State::Closing(id.clone());
            requests.push(Message::request(id, "session/close", params));
        }
        for message in requests {
            self.send_from(Stage::Orphans, first, Side::Agent, message, actions);
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
                && matches!(&it.state, State::Asked(asked) | State::Closing(asked) if asked == id)
        };
        let Some(index) = self.orphans.iter().position(is_it) else { return Some(message) };
        match (&self.orphans[index].state, outcome) {
            (State::Asked(_), Outcome::Result(result)) => {
                match self.orphans[index].session.clone() {
                    Some(session) if self.is_known_before(from, &session) => {
                        self.orphans.remove(index);
                    }
                    Some(_) => self.orphans[index].state = State::Kept,
                    None => {
                        let orphan = &mut self.orphans[index];
                        orphan.session = session_of(result);
                        orphan.state = State::Stands;
                        self.close_orphans(from, actions);
                    }
                }
            }
            (State::Asked(_), Outcome::Error(_)) => drop(self.orphans.remove(index)),
            (_, outcome) => {
                let closed = matches!(outcome, Outcome::Result(_));
                let session = self.orphans.remove(index).session.unwrap_or_default();
                match self.records.get_mut(from).filter(|_| !closed) {
                    // It could not, or would not; perhaps the next one can.
                    Some(record) => {
                        record.forget(&session);
                        self.adopt(from, session, actions);
                    }
                    None => self.forget_session(&session, actions),
                }
            }
        }
        None
    }

    /// Has somebody nearer to the editor this session?
    fn is_known_before(&self, first: Seat, session: &str) -> bool {
        let has = |record: &Record| record.sessions().iter().any(|it| it.session == session);
        self.records.before(first).iter().any(has)
    }

    /// A session has ended: nobody will take it up again.
    pub(crate) fn close_kept(&mut self, session: &str) {
        let is_it = |it: &Orphan| it.session.as_deref() == Some(session);
        self.orphans.retain(|it| !(it.state == State::Kept && is_it(it)));
    }

    /// Nobody knows this session any more.
    pub(crate) fn forget_session(&mut self, session: &str, actions: &mut Vec<Action>) {
        for record in self.records.iter_mut() {
            record.forget(session);
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
        let beyond = |first: Seat| from == Seat::OUTER || first != Seat::OUTER && from >= first;
        let is_it = |it: &Orphan| beyond(it.first) && it.session == session;
        if session.is_none() || !self.orphans.iter().any(is_it) {
            return Some(message);
        }
        if let Message::Request { id, .. } = message {
            let outcome = Outcome::error(code::INVALID_PARAMS, "nobody has this session any more");
            let answer = Message::response(id, outcome);
            self.send_from(Stage::Orphans, from, Side::Agent, answer, actions);
        }
        None
    }

    /// Somebody is asked to take up a session, or to work in it: it is nobody's no more.
    pub(crate) fn claim_orphan(&mut self, to: Seat, message: &Message) {
        if let Message::Request { id, call } = message
            && !self.orphans.is_empty()
            && !is_lesson(id)
            && matches!(topic(call), Some(Topic::SetUp | Topic::Prompt))
            && let session @ Some(_) = session_of_call(call)
        {
            let is_being_closed = |it: &Orphan| matches!(it.state, State::Closing(_));
            self.orphans
                .retain(|it| it.first != to || it.session != session || is_being_closed(it));
        }
    }
}
