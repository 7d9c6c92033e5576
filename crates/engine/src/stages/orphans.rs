//! The stage *orphans*: handles sessions whose requester is gone.
//!
//! When a component fails, its pending set-up requests are answered with an error. But the components behind it may have
//! set up the session already, or may do so later. Such a session is an *orphan*: messages about it are dropped. A new
//! session is closed by the conductor. A session that was resumed or loaded waits until its owner sends the request
//! again.

use acp_wire::acp::{MethodKind, SessionId, method_kind, session_of, session_of_call};
use acp_wire::{Call, ErrorKind, Id, Json, Message, Outcome, Side, acp, code};
use router::Seat;
use router::pending::{Fingerprint, PendingRequest};

use super::{Hop, Stage, StageResult, Stages};
use crate::stages::is_own_request;

/// With this many orphans, late answers to further cancelled requests are not tracked.
const MAX_ORPHANS: usize = 1024;

/// A session without an owner.
#[derive(Debug)]
struct Orphan {
    /// The first component that has the session, seen from the editor.
    first: Seat,
    /// Its id, if it is known.
    session: Option<SessionId>,
    state: OrphanState,
}

/// A set-up request that is not answered.
#[derive(Debug)]
pub(crate) struct PendingSetup {
    /// The component that has to answer.
    first: Seat,
    id: Id,
    /// The session, if the request names it.
    session: Option<SessionId>,
}

/// How far the conductor is with an orphan.
#[derive(Debug, PartialEq)]
enum OrphanState {
    /// The set-up request with this id is not answered.
    SettingUp(Id),
    /// The session exists. It has to be closed as soon as its first component is live.
    Open,
    /// The conductor has sent a request with this id to close it.
    Closing(Id),
    /// The session existed before, and will be resumed or loaded again.
    Resumable,
}

/// Whether a request with this method names the session that it sets up.
fn names_session(method: &str) -> bool {
    matches!(method, "session/load" | "session/resume")
}

/// A session whose set-up a failed component had not reported to the requester.
#[derive(Debug)]
pub(crate) struct UnreportedSession {
    session: SessionId,
    /// Whether the session did not exist before.
    is_new: bool,
}

impl UnreportedSession {
    /// A session that was set up with a request of this method.
    pub(crate) fn new(session: SessionId, method: &str) -> UnreportedSession {
        UnreportedSession { session, is_new: !names_session(method) }
    }
}

/// All orphaned sessions.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    list: Vec<Orphan>,
}

impl Orphans {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds the session of a set-up request whose requester is gone.
    pub(super) fn await_answer(&mut self, setup: PendingSetup) {
        let PendingSetup { first, id, session } = setup;
        self.list.push(Orphan { first, session, state: OrphanState::SettingUp(id) });
    }

    /// Removes a session that has ended: no component will resume it.
    pub(super) fn remove_resumable(&mut self, session: &SessionId) {
        let is_it = |it: &Orphan| it.session.as_deref() == Some(session);
        self.list.retain(|it| !(it.state == OrphanState::Resumable && is_it(it)));
    }

    /// Removes a session that has an owner again: a component gets a set-up request or a prompt for it.
    pub(super) fn claim(&mut self, to: Seat, message: &Message) {
        if let Message::Request { id, call } = message
            && !self.list.is_empty()
            && !is_own_request(id)
            && matches!(method_kind(call), Some(MethodKind::SetUpSession | MethodKind::Prompt))
            && let session @ Some(_) = session_of_call(call)
        {
            let is_being_closed = |it: &Orphan| matches!(it.state, OrphanState::Closing(_));
            self.list.retain(|it| it.first != to || it.session != session || is_being_closed(it));
        }
    }
}

impl Stages {
    /// The set-up requests that a component has sent and that are not answered.
    pub(super) fn pending_setups_of(&self, seat: Seat) -> Vec<PendingSetup> {
        let is_set_up = |method: &str| MethodKind::of(method) == Some(MethodKind::SetUpSession);
        let requests = self.router.requests_with_ids().filter(|(_, it)| it.requester == seat);
        let requests = requests.filter(|(_, it)| is_set_up(&it.method));
        let session = |request: &PendingRequest| match &request.fingerprint {
            Fingerprint::Params(params) if names_session(&request.method) => session_of(params),
            _ => None,
        };
        requests
            .map(|(id, it)| PendingSetup { first: it.responder, id, session: session(it) })
            .collect()
    }

    /// The set-up request with this id that a component has not answered.
    pub(super) fn pending_setup(&self, first: Seat, id: &Id) -> Option<PendingSetup> {
        if self.orphans.list.len() >= MAX_ORPHANS {
            return None;
        }
        let set_up = self.sessions.record(first)?.pending_setup(id)?;
        let session = Some(set_up.session.clone()).filter(|it| !it.is_empty());
        let session = session.filter(|_| names_session(&set_up.call.method.name()));
        Some(PendingSetup { first, id: id.clone(), session })
    }

    /// Adds the sessions of a failed component's set-up requests. Orphans that this component had to close are passed to
    /// its successor.
    pub(super) fn orphan_setups(&mut self, seat: Seat, setups: Vec<PendingSetup>) {
        for setup in setups {
            if !self.router.owes(setup.first, &setup.id) {
                self.orphans.await_answer(setup);
            }
        }
        let is_gone = |it: &mut Orphan| it.first == seat && it.state != OrphanState::Resumable;
        let gone: Vec<Orphan> = self.orphans.list.extract_if(.., is_gone).collect();
        for orphan in gone {
            if let (Some(session), false) =
                (orphan.session, matches!(orphan.state, OrphanState::SettingUp(_)))
            {
                if let Some(record) = self.sessions.record_mut(seat) {
                    record.forget(&session);
                }
                self.add_orphan(seat, session);
            }
        }
    }

    /// Adds sessions that a failed component had not reported. `before` is the seat of this component.
    pub(super) fn add_orphans(&mut self, before: Seat, sessions: Vec<UnreportedSession>) {
        for UnreportedSession { session, is_new } in sessions {
            match (is_new, self.router.successor(before)) {
                // The components before it still have the session, so it has an owner.
                (false, Some(first)) if self.is_known_before(first, &session) => {}
                (false, Some(first)) => {
                    let session = Some(session);
                    self.orphans.list.push(Orphan {
                        first,
                        session,
                        state: OrphanState::Resumable,
                    });
                }
                _ => self.add_orphan(before, session),
            }
        }
    }

    /// Adds a session, and closes it if its first component is live.
    fn add_orphan(&mut self, before: Seat, session: SessionId) {
        match self.router.successor(before) {
            // This component is down. The session is not replayed to it, so the next component is the first.
            Some(first) if self.awaits_restart(first) => {
                if let Some(record) = self.sessions.record_mut(first) {
                    record.forget(&session);
                }
                self.add_orphan(first, session);
            }
            Some(first) => {
                let session = Some(session);
                self.orphans.list.push(Orphan { first, session, state: OrphanState::Open });
                self.close_orphans(first);
            }
            None => self.forget_session(&session),
        }
    }

    /// Closes the orphans of a component, if it is live.
    pub(super) fn close_orphans(&mut self, first: Seat) {
        if !first.is_component() || self.is_up(first) {
            self.send_closes(first);
        }
    }

    /// Sends requests to close the open orphans of a component.
    pub(super) fn send_closes(&mut self, first: Seat) {
        let is_open = |it: &&mut Orphan| it.first == first && it.state == OrphanState::Open;
        let mut requests = Vec::new();
        for orphan in self.orphans.list.iter_mut().filter(is_open) {
            let session = orphan.session.as_deref().map(Json::string);
            let params = Json::object([("sessionId", session)]);
            let id = self.cx.next_id();
            orphan.state = OrphanState::Closing(id.clone());
            requests.push(Message::request(id, acp::CLOSE_SESSION, params));
        }
        for message in requests {
            self.send_from(Stage::Orphans, Hop { seat: first, toward: Side::Agent }, message);
        }
    }

    /// Takes answers to the conductor's own requests, and messages about orphaned sessions.
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
                && matches!(&it.state, OrphanState::SettingUp(pending) | OrphanState::Closing(pending) if pending == id)
        };
        let Some(index) = self.orphans.list.iter().position(is_it) else {
            return StageResult::Pass;
        };
        match (&self.orphans.list[index].state, outcome) {
            (OrphanState::SettingUp(_), Outcome::Result(result)) => {
                match self.orphans.list[index].session.clone() {
                    Some(session) if self.is_known_before(from, &session) => {
                        self.orphans.list.remove(index);
                    }
                    Some(_) => self.orphans.list[index].state = OrphanState::Resumable,
                    None => {
                        let orphan = &mut self.orphans.list[index];
                        orphan.session = session_of(result);
                        orphan.state = OrphanState::Open;
                        self.close_orphans(from);
                    }
                }
            }
            (OrphanState::SettingUp(_), Outcome::Error(_)) => drop(self.orphans.list.remove(index)),
            (_, outcome) => {
                let closed = matches!(outcome, Outcome::Result(_));
                let session = self.orphans.list.remove(index).session.unwrap_or_default();
                match self.sessions.record_mut(from).filter(|_| !closed) {
                    // The component has refused. The next component may be able to close it.
                    Some(record) => {
                        record.forget(&session);
                        self.add_orphan(from, session);
                    }
                    None => self.forget_session(&session),
                }
            }
        }
        StageResult::Taken
    }

    /// Removes a session that no component has any more.
    pub(super) fn forget_session(&mut self, session: &SessionId) {
        self.sessions.forget(session);
        self.with_broker(|it, cx| it.session_lost(session, cx));
    }

    /// Takes a message about an orphaned session. A request is answered with an error.
    fn on_orphan_call(&mut self, hop: Hop, id: Option<&Id>, call: &Call) -> StageResult {
        let from = hop.seat;
        if hop.toward != Side::Editor {
            return StageResult::Pass;
        }
        let session = session_of_call(call);
        let is_behind = |first: Seat| from == Seat::OUTER || first != Seat::OUTER && from >= first;
        let is_it = |it: &Orphan| is_behind(it.first) && it.session == session;
        if session.is_none() || !self.orphans.list.iter().any(is_it) {
            return StageResult::Pass;
        }
        if let Some(id) = id {
            let outcome = ErrorKind::SessionLost
                .outcome(code::INVALID_PARAMS, "no component has this session any more");
            let answer = Message::response(id.clone(), outcome);
            self.send_from(Stage::Orphans, Hop { seat: from, toward: Side::Agent }, answer);
        }
        StageResult::Taken
    }
}
