//! Sessions that nobody has: whoever asked for them was told that it has failed.
//!
//! A component dies with a request that sets a session up. Who asked is told to send again, but those
//! beyond may set the session up all the same, or have done so. What is said of that session goes nowhere.
//! A new one is closed in our own name; one that was to be taken up again waits for who sends again.

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};
use router::Seat;
use router::pending::{Fingerprint, PendingRequest};

use super::{Hop, Stage, StageResult, Stages};
use crate::stages::is_own_request;
use acp_wire::acp::{SessionId, Topic, session_of, session_of_call, topic};

/// Of no more cancelled requests than these a late answer is waited for.
const MAX_ORPHANS: usize = 1024;

/// A session without anybody who has it.
#[derive(Debug)]
struct Orphan {
    /// Who is next to the one who would have had it.
    first: Seat,
    session: Option<SessionId>,
    state: State,
}

/// A request to set up a session, on its way.
#[derive(Debug)]
pub(super) struct Asked {
    first: Seat,
    id: Id,
    /// If the request names it.
    session: Option<SessionId>,
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
pub(super) struct UnreportedSession {
    session: SessionId,
    is_new: bool,
}

impl UnreportedSession {
    pub(super) fn new(session: SessionId, method: &str) -> UnreportedSession {
        UnreportedSession { session, is_new: !takes_up(method) }
    }
}

/// The sessions that nobody has.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    list: Vec<Orphan>,
}

impl Orphans {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// No component waits any more for the answer to this.
    pub(super) fn await_answer(&mut self, asked: Asked) {
        let Asked { first, id, session } = asked;
        self.list.push(Orphan { first, session, state: State::Asked(id) });
    }

    /// A session has ended: no component will take it up again.
    pub(super) fn close_kept(&mut self, session: &SessionId) {
        let is_it = |it: &Orphan| it.session.as_deref() == Some(session);
        self.list.retain(|it| !(it.state == State::Kept && is_it(it)));
    }

    /// A component is asked to take up a session, or to work in it: the session belongs to it now.
    pub(super) fn claim(&mut self, to: Seat, message: &Message) {
        if let Message::Request { id, call } = message
            && !self.list.is_empty()
            && !is_own_request(id)
            && matches!(topic(call), Some(Topic::SetUp | Topic::Prompt))
            && let session @ Some(_) = session_of_call(call)
        {
            let is_being_closed = |it: &Orphan| matches!(it.state, State::Closing(_));
            self.list.retain(|it| it.first != to || it.session != session || is_being_closed(it));
        }
    }
}

impl Stages {
    /// What a component has asked its successor to set up, and waits for.
    pub(super) fn asked_by(&self, seat: Seat) -> Vec<Asked> {
        let is_set_up = |method: &str| Topic::of(method) == Some(Topic::SetUp);
        let asked = self.router.requests_with_ids().filter(|(_, it)| it.requester == seat);
        let asked = asked.filter(|(_, it)| is_set_up(&it.method));
        let session = |ask: &PendingRequest| match &ask.fingerprint {
            Fingerprint::Params(params) if takes_up(&ask.method) => session_of(params),
            _ => None,
        };
        asked.map(|(id, ask)| Asked { first: ask.responder, id, session: session(ask) }).collect()
    }

    /// What a component was asked with this id, if that sets up a session.
    pub(super) fn asked_as(&self, first: Seat, id: &Id) -> Option<Asked> {
        if self.orphans.list.len() >= MAX_ORPHANS {
            return None;
        }
        let set_up = self.sessions.record(first)?.opening(id)?;
        let session = Some(set_up.session.clone()).filter(|it| !it.is_empty());
        let session = session.filter(|_| takes_up(&set_up.call.method.name()));
        Some(Asked { first, id: id.clone(), session })
    }

    /// A component is gone that had asked for this.
    pub(super) fn orphan(&mut self, seat: Seat, asked: Vec<Asked>) {
        for Asked { first, id, session } in asked {
            if !self.router.owes(first, &id) {
                self.orphans.await_answer(Asked { first, id, session });
            }
        }
        // Those that it was to close are the next one's care.
        let is_gone = |it: &mut Orphan| it.first == seat && it.state != State::Kept;
        let gone: Vec<Orphan> = self.orphans.list.extract_if(.., is_gone).collect();
        for orphan in gone {
            if let (Some(session), false) =
                (orphan.session, matches!(orphan.state, State::Asked(_)))
            {
                if let Some(record) = self.sessions.record_mut(seat) {
                    record.forget(&session);
                }
                self.adopt(seat, session);
            }
        }
    }

    /// Sessions stand beyond `before`, and nobody has them.
    pub(super) fn adopt_all(&mut self, before: Seat, sessions: Vec<UnreportedSession>) {
        for UnreportedSession { session, is_new } in sessions {
            match (is_new, self.router.successor(before)) {
                // Those before have it: it was only to be set up anew.
                (false, Some(first)) if self.sessions.is_known_before(first, &session) => {}
                (false, Some(first)) => {
                    let session = Some(session);
                    self.orphans.list.push(Orphan { first, session, state: State::Kept });
                }
                _ => self.adopt(before, session),
            }
        }
    }

    fn adopt(&mut self, before: Seat, session: SessionId) {
        match self.router.successor(before) {
            // The seat has no component that knows the session, and the next one is not told of it.
            Some(first) if self.awaits_restart(first) => {
                if let Some(record) = self.sessions.record_mut(first) {
                    record.forget(&session);
                }
                self.adopt(first, session);
            }
            Some(first) => {
                let session = Some(session);
                self.orphans.list.push(Orphan { first, session, state: State::Stands });
                self.close_orphans(first);
            }
            None => self.forget_session(&session),
        }
    }

    /// Closes what can be closed through this seat.
    pub(super) fn close_orphans(&mut self, first: Seat) {
        if !first.is_component() || self.is_up(first) {
            self.send_closes(first);
        }
    }

    /// Asks a component that can be told to close the sessions that stand.
    pub(super) fn send_closes(&mut self, first: Seat) {
        let stands = |it: &&mut Orphan| it.first == first && it.state == State::Stands;
        let mut requests = Vec::new();
        for orphan in self.orphans.list.iter_mut().filter(stands) {
            let session = orphan.session.as_deref().map(Json::string);
            let params = Json::object([("sessionId", session)]);
            let id = self.cx.next_id();
            orphan.state = State::Closing(id.clone());
            requests.push(Message::request(id, acp::CLOSE_SESSION, params));
        }
        for message in requests {
            self.send_from(Stage::Orphans, Hop { seat: first, toward: Side::Agent }, message);
        }
    }

    /// Takes the answers that only we have a use for, and what is said about a session that nobody has.
    pub(super) fn orphans_arrived(&mut self, hop: Hop, message: &Message) -> StageResult {
        if self.orphans.list.is_empty() {
            return StageResult::Pass;
        }
        match message {
            Message::Response { id, outcome, .. } => self.on_orphan_answer(hop.seat, id, outcome),
            Message::Request { id, call } => self.on_orphan_call(hop, Some(id), call),
            Message::Notification(call) => self.on_orphan_call(hop, None, call),
        }
    }

    fn on_orphan_answer(&mut self, from: Seat, id: &Id, outcome: &Outcome) -> StageResult {
        let is_it = |it: &Orphan| {
            it.first == from
                && matches!(&it.state, State::Asked(asked) | State::Closing(asked) if asked == id)
        };
        let Some(index) = self.orphans.list.iter().position(is_it) else {
            return StageResult::Pass;
        };
        match (&self.orphans.list[index].state, outcome) {
            (State::Asked(_), Outcome::Result(result)) => {
                match self.orphans.list[index].session.clone() {
                    Some(session) if self.sessions.is_known_before(from, &session) => {
                        self.orphans.list.remove(index);
                    }
                    Some(_) => self.orphans.list[index].state = State::Kept,
                    None => {
                        let orphan = &mut self.orphans.list[index];
                        orphan.session = session_of(result);
                        orphan.state = State::Stands;
                        self.close_orphans(from);
                    }
                }
            }
            (State::Asked(_), Outcome::Error(_)) => drop(self.orphans.list.remove(index)),
            (_, outcome) => {
                let closed = matches!(outcome, Outcome::Result(_));
                let session = self.orphans.list.remove(index).session.unwrap_or_default();
                match self.sessions.record_mut(from).filter(|_| !closed) {
                    // It could not, or would not; perhaps the next one can.
                    Some(record) => {
                        record.forget(&session);
                        self.adopt(from, session);
                    }
                    None => self.forget_session(&session),
                }
            }
        }
        StageResult::Taken
    }

    /// Nobody knows this session any more.
    pub(super) fn forget_session(&mut self, session: &SessionId) {
        self.sessions.forget(session);
        self.with_broker(|it, cx| it.session_lost(session, cx));
    }

    /// A component speaks about a session that nobody has. If it asks something, it is told so.
    fn on_orphan_call(&mut self, hop: Hop, id: Option<&Id>, call: &Call) -> StageResult {
        let from = hop.seat;
        if hop.toward != Side::Editor {
            return StageResult::Pass;
        }
        let session = session_of_call(call);
        let beyond = |first: Seat| from == Seat::OUTER || first != Seat::OUTER && from >= first;
        let is_it = |it: &Orphan| beyond(it.first) && it.session == session;
        if session.is_none() || !self.orphans.list.iter().any(is_it) {
            return StageResult::Pass;
        }
        if let Some(id) = id {
            let outcome = Outcome::error(code::INVALID_PARAMS, "nobody has this session any more");
            let answer = Message::response(id.clone(), outcome);
            self.send_from(Stage::Orphans, Hop { seat: from, toward: Side::Agent }, answer);
        }
        StageResult::Taken
    }
}
