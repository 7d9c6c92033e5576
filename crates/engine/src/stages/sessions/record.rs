//! [`Record`]: the sessions of one component, with the requests that set them up. Also its open prompts and
//! cancellations.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::acp::{MethodKind, SessionId, method_kind, session_of, session_of_call};
use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp};
use router::Time;

use super::cancelled::Cancelled;
use super::retention::{Retention, SHORT};
use crate::stages::is_own_request;
use crate::stages::orphans::UnreportedSession;

/// For how many sessions of a component the set-up requests are stored. Those of older sessions are dropped.
const MAX_SESSIONS: usize = 256;

/// How many sessions of a component are tracked at all.
const MAX_KNOWN: usize = 4096;

/// The sessions and open requests of one component.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Live sessions, under the ids that this component knows, oldest first.
    sessions: Vec<SessionSetup>,
    /// Set-up requests that it has not answered, by request id.
    pending_setups: BTreeMap<Id, SessionSetup>,
    /// Set-up requests that the conductor has answered on its behalf. The component may still answer them.
    late_setups: BTreeMap<Id, SessionSetup>,
    /// How many set-up requests it has received.
    setup_count: u64,
    /// The set-up requests that it has forwarded and that are not answered, by its own request id: the id of the
    /// original request, and the index in [`SessionSetup::forwarded`].
    pending_forwards: BTreeMap<Id, (Id, usize)>,
    /// Whether it was prompted in a session whose set-up the core has not seen.
    has_unknown_sessions: bool,
    /// How many live sessions are no longer tracked, because there were too many.
    forgotten: usize,
    /// Whether a session was ever dropped for that reason.
    has_forgotten: bool,
    /// Requests that end a session and that it has not answered, by request id.
    ending: BTreeMap<Id, SessionId>,
    /// Logins (`Some`) and logouts (`None`) that it has not answered, by request id.
    logging_in: BTreeMap<Id, Option<Call>>,
    /// The last successful login.
    login: Option<Call>,
    /// Prompts that it has not answered, by request id.
    prompts: BTreeMap<Id, Prompt>,
    /// Sessions that were cancelled and not prompted since. The component need not have an open prompt there: it may
    /// have been started after the prompt.
    cancelled_sessions: BTreeSet<SessionId>,
    /// Requests that were cancelled by id.
    cancelled: Cancelled,
}

/// A session, and the request that set it up.
#[derive(Debug, Clone)]
pub(crate) struct SessionSetup {
    /// The request, as it was delivered.
    pub(crate) call: Call,
    /// Whether the request and the answers are stored completely. If not, they cannot be replayed.
    pub(crate) is_stored: bool,
    /// The id of the session.
    pub(crate) session: SessionId,
    /// The requests that the component sent to its successor to set up this session.
    pub(crate) forwarded: Vec<ForwardedRequest>,
    /// The number of this request among all set-up requests of the component.
    number: u64,
}

/// A set-up request that a component has sent to its successor.
#[derive(Debug, Clone)]
pub(crate) struct ForwardedRequest {
    /// Its method.
    pub(crate) method: String,
    /// The answer, if there was one.
    pub(crate) outcome: Option<Outcome>,
}

/// A prompt that a component has not answered.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) id: Id,
    pub(crate) session: SessionId,
    /// When the turn was cancelled.
    pub(crate) cancelled: Option<Time>,
}

impl SessionSetup {
    /// Stores the answer to a forwarded request.
    fn answered(&mut self, index: usize, outcome: &Outcome, retention: Retention) {
        let stored = match (outcome, retention) {
            (outcome, Retention::Full) => outcome.detached(),
            (Outcome::Result(_), Retention::Long(json)) => Outcome::Result(json),
            (Outcome::Error(_), Retention::Long(json)) => Outcome::Error(json),
            (outcome, Retention::Dropped) => {
                self.strip();
                session_only(outcome)
            }
        };
        self.forwarded[index].outcome = Some(stored);
    }

    /// Drops the params and the answers, except for the session ids.
    fn strip(&mut self) {
        self.is_stored = false;
        self.call.params = None;
        for request in &mut self.forwarded {
            request.outcome = request.outcome.as_ref().map(session_only);
        }
    }
}

/// The answer, reduced to its session id.
fn session_only(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Result(result) => {
            let session = result.member("sessionId").map(|it| it.detached());
            Outcome::Result(Json::object([("sessionId", session)]))
        }
        Outcome::Error(_) => Outcome::Error(Json::EMPTY_OBJECT),
    }
}

/// The shortest valid answer to a request that sets up this session.
fn bare_answer(method: &str, session: &SessionId) -> Outcome {
    let is_new = ["session/new", "session/fork"].contains(&method);
    let id = is_new.then(|| session.json());
    Outcome::Result(Json::object([("sessionId", id)]))
}

impl Record {
    /// The record of a component that joins a running chain: the sessions that its successor has (`next`), set up by the
    /// requests that the successor has received. `before` is the record of the component before it, which has
    /// received the answers of the successor. In proxy mode, the last component has no successor in this chain.
    pub(crate) fn of_joining(next: Option<&Record>, before: Option<&Record>) -> Record {
        let found = next.or(before).map(Record::sessions).unwrap_or_default();
        let sessions = found.iter().map(|set_up| {
            let same = |record: &Record| {
                record.sessions().iter().find(|it| it.session == set_up.session).cloned()
            };
            let answered = before.and_then(same).unwrap_or_else(|| set_up.clone());
            let results = answered.forwarded.into_iter().filter_map(|it| it.outcome);
            let result = results.filter(|it| matches!(it, Outcome::Result(_))).last();
            let method = set_up.call.method.name().into_owned();
            let outcome = Some(result.unwrap_or_else(|| bare_answer(&method, &set_up.session)));
            SessionSetup { forwarded: vec![ForwardedRequest { method, outcome }], ..set_up.clone() }
        });
        let sessions: Vec<SessionSetup> = sessions.collect();
        Record { setup_count: sessions.len() as u64, sessions, ..Record::default() }
    }

    pub(crate) fn sessions(&self) -> &[SessionSetup] {
        &self.sessions
    }

    /// Whether the component was prompted in a session whose set-up the core has not seen.
    pub(crate) fn has_unknown_sessions(&self) -> bool {
        self.has_unknown_sessions
    }

    /// Whether it has a session whose set-up request is not stored, so that the session cannot be replayed.
    pub(crate) fn has_unstored_sessions(&self) -> bool {
        self.forgotten > 0 || self.sessions.iter().any(|it| !it.is_stored)
    }

    /// The request of the last successful login.
    pub(crate) fn login(&self) -> Option<&Call> {
        self.login.as_ref()
    }

    /// The prompts that the component has not answered.
    pub(crate) fn prompts(&self) -> impl Iterator<Item = &Prompt> {
        self.prompts.values()
    }

    /// The requests that were cancelled by id.
    pub(crate) fn cancelled(&self) -> &Cancelled {
        &self.cancelled
    }

    /// Removes and returns the cancelled prompts.
    pub(crate) fn take_cancelled(&mut self) -> Vec<Prompt> {
        let taken = self.prompts.extract_if(.., |_, it| it.cancelled.is_some());
        taken.map(|(_, prompt)| prompt).collect()
    }

    /// Keeps only the requests that are still pending. Returns the prompts that are not.
    pub(crate) fn retain_owed(&mut self, owes: impl Fn(&Id) -> bool) -> Vec<Prompt> {
        self.cancelled.retain(&owes);
        let gone = self.prompts.extract_if(.., |_, it| !owes(&it.id));
        gone.map(|(_, prompt)| prompt).collect()
    }

    /// Whether the component has any live session.
    pub(crate) fn has_sessions(&self) -> bool {
        !self.sessions.is_empty() || self.forgotten > 0
    }

    /// Whether this is the id of a forwarded set-up request that is not answered.
    pub(crate) fn awaits_setup_answer(&self, id: &Id) -> bool {
        !self.pending_forwards.is_empty() && self.pending_forwards.contains_key(id)
    }

    /// The long params and results that are stored.
    pub(crate) fn long(&self) -> impl Iterator<Item = &Json> {
        let setups = self
            .sessions
            .iter()
            .chain(self.pending_setups.values())
            .chain(self.late_setups.values());
        let parts = setups.flat_map(|it| {
            let answers =
                it.forwarded.iter().filter_map(|request| match request.outcome.as_ref()? {
                    Outcome::Result(json) | Outcome::Error(json) => Some(json),
                });
            answers.chain(&it.call.params)
        });
        parts.filter(|it| it.as_bytes().len() > SHORT)
    }

    /// The set-up request with this id, if the component has not answered it.
    pub(crate) fn pending_setup(&self, id: &Id) -> Option<&SessionSetup> {
        self.pending_setups.get(id)
    }

    /// Keeps a set-up request that the conductor has answered on behalf of the component. The component may still answer
    /// it.
    pub(crate) fn await_late_answer(&mut self, id: &Id, set_up: SessionSetup) {
        self.late_setups.insert(id.detached(), set_up);
    }

    /// The ids of the set-up requests that the component has not answered.
    pub(crate) fn pending_setup_ids(&self) -> Vec<Id> {
        self.pending_setups.keys().cloned().collect()
    }

    /// Handles a message to the component. `method` returns the method of a request that the component has not answered.
    pub(crate) fn delivered(
        &mut self,
        now: Time,
        toward: Side,
        message: &Message,
        method: impl Fn(&Id) -> Option<String>,
        retention: Retention,
    ) {
        match message {
            Message::Request { id, call } if toward == Side::Agent => {
                self.on_request(id, call, retention);
            }
            // Updates travel toward the editor, so they are not parsed here.
            Message::Notification(call) if toward == Side::Agent => match method_kind(call) {
                Some(MethodKind::CancelSession) => {
                    let session = session_of_call(call).unwrap_or_default();
                    for prompt in self.prompts.values_mut() {
                        if session == prompt.session {
                            prompt.cancelled.get_or_insert(now);
                        }
                    }
                    if self.cancelled_sessions.len() == MAX_SESSIONS {
                        self.cancelled_sessions.pop_first();
                    }
                    self.cancelled_sessions.insert(session);
                }
                Some(MethodKind::CancelRequest) => {
                    let id = call.params.as_ref().and_then(acp::cancelled_id);
                    if let Some(id) = id
                        && let Some(method) = method(&id)
                    {
                        self.cancelled.insert(&id, &method, now);
                    }
                }
                _ => {}
            },
            Message::Response { id, outcome, .. } if !self.pending_forwards.is_empty() => {
                if let Some((setup, index)) = self.pending_forwards.remove(id)
                    && let Some(set_up) =
                        self.pending_setups.get_mut(&setup).or(self.late_setups.get_mut(&setup))
                {
                    set_up.answered(index, outcome, retention);
                }
            }
            _ => {}
        }
    }

    fn on_request(&mut self, id: &Id, call: &Call, retention: Retention) {
        match method_kind(call) {
            Some(MethodKind::SetUpSession) => {
                let session = session_of_call(call).unwrap_or_default();
                self.setup_count += 1;
                let number = self.setup_count;
                let (params, is_stored) = match retention {
                    Retention::Full => (call.params.clone().map(|it| it.detached()), true),
                    Retention::Long(params) => (Some(params), true),
                    Retention::Dropped => (None, false),
                };
                let bare = Call { params: None, ..call.clone() };
                let call = Call { params, ..bare.detached() };
                let set_up =
                    SessionSetup { call, is_stored, session, forwarded: Vec::new(), number };
                self.pending_setups.insert(id.detached(), set_up);
            }
            Some(MethodKind::EndSession) => {
                self.ending.extend(session_of_call(call).map(|session| (id.detached(), session)));
            }
            Some(MethodKind::Authenticate) => {
                self.logging_in.insert(id.detached(), Some(call.detached()));
            }
            Some(MethodKind::LogOut) => drop(self.logging_in.insert(id.detached(), None)),
            Some(MethodKind::Prompt) => {
                let session = session_of_call(call).unwrap_or_default();
                let is_known = || self.sessions.iter().any(|it| it.session == session);
                self.has_unknown_sessions |= !self.has_forgotten && !is_known();
                self.cancelled_sessions.remove(&session);
                let prompt = Prompt { id: id.detached(), session, cancelled: None };
                self.prompts.insert(id.detached(), prompt);
            }
            _ => {}
        }
    }

    /// Handles a message from the component. Returns the session that the message ends.
    pub(crate) fn arrived(&mut self, toward: Side, message: &Message) -> Option<SessionId> {
        match message {
            Message::Request { id, call }
                if toward == Side::Agent
                    && !self.pending_setups.is_empty()
                    && method_kind(call) == Some(MethodKind::SetUpSession) =>
            {
                self.on_forwarded_setup(id, call);
                None
            }
            Message::Response { id, outcome, .. } if !self.has_nothing_pending() => {
                self.on_answer(id, outcome)
            }
            _ => None,
        }
    }

    fn has_nothing_pending(&self) -> bool {
        self.pending_setups.is_empty()
            && self.late_setups.is_empty()
            && self.ending.is_empty()
            && self.logging_in.is_empty()
            && self.prompts.is_empty()
            && self.cancelled.is_empty()
    }

    /// Finds the pending set-up request that the component forwards with this request. Of several, requests with the same
    /// method and params come first, then those that were forwarded least often, then the oldest.
    fn on_forwarded_setup(&mut self, id: &Id, call: &Call) {
        let method = call.method.name().into_owned();
        // The cost of the comparison is limited by the length of this request, not by the number of pending ones.
        let mut budget =
            call.params.as_ref().map_or(0, |it| 16 * it.as_bytes().len()) + (256 << 10);
        let mut has_same_params = |set_up: &SessionSetup| match (&call.params, &set_up.call.params)
        {
            (Some(ours), Some(original)) => ours.extends_within_budget(original, &mut budget),
            _ => true,
        };
        let several = self.pending_setups.len() > 1;
        let next = self.pending_setups.iter_mut().min_by_key(|(_, it)| {
            let differs = it.call.method != call.method || several && !has_same_params(it);
            (differs, it.forwarded.len(), it.number)
        });
        if let Some((original, set_up)) = next {
            self.pending_forwards.insert(id.detached(), (original.clone(), set_up.forwarded.len()));
            set_up.forwarded.push(ForwardedRequest { method, outcome: None });
        }
    }

    fn on_answer(&mut self, id: &Id, outcome: &Outcome) -> Option<SessionId> {
        self.prompts.remove(id);
        self.cancelled.remove(id);
        self.late_setups.remove(id);
        let set_up = self.pending_setups.remove(id);
        let ended = self.ending.remove(id);
        let login = self.logging_in.remove(id);
        let Outcome::Result(result) = outcome else { return None };
        if let Some(login) = login {
            self.login = login;
        }
        if let Some(mut set_up) = set_up {
            set_up.session = session_of(result).unwrap_or(set_up.session);
            self.sessions.retain(|it| it.session != set_up.session);
            self.sessions.push(set_up);
            self.enforce_limits();
        }
        if let Some(session) = &ended {
            if !self.sessions.iter().any(|it| it.session == *session) {
                self.forgotten = self.forgotten.saturating_sub(1);
            }
            self.forget(session);
        }
        ended
    }

    /// Drops the set-up request of the oldest session, or the session itself, if there are too many.
    fn enforce_limits(&mut self) {
        if self.sessions.iter().filter(|it| it.is_stored).count() > MAX_SESSIONS
            && let Some(oldest) = self.sessions.iter_mut().find(|it| it.is_stored)
        {
            oldest.strip();
        }
        if self.sessions.len() > MAX_KNOWN {
            self.sessions.remove(0);
            self.forgotten += 1;
            self.has_forgotten = true;
        }
    }

    /// The sessions that were cancelled and not prompted since.
    pub(crate) fn cancelled_sessions(&self) -> Vec<SessionId> {
        self.cancelled_sessions.iter().cloned().collect()
    }

    /// Removes a session.
    pub(crate) fn forget(&mut self, session: &SessionId) {
        self.cancelled_sessions.remove(session);
        self.sessions.retain(|it| it.session != *session);
    }

    /// The sessions that its successor has set up and that the component has not reported to the requester.
    pub(crate) fn unreported_sessions(&self) -> Vec<UnreportedSession> {
        // A session that is being replayed has an owner already.
        let setups = self.pending_setups.iter().chain(&self.late_setups);
        let setups = setups.filter(|(id, _)| !is_own_request(id));
        let forwarded =
            setups.flat_map(|(_, it)| it.forwarded.iter().map(move |request| (it, request)));
        let sessions = forwarded.filter_map(|(set_up, request)| match &request.outcome {
            Some(Outcome::Result(result)) => {
                let session = session_of(result).unwrap_or_else(|| set_up.session.clone());
                (!session.is_empty()).then(|| UnreportedSession::new(session, &request.method))
            }
            _ => None,
        });
        sessions.collect()
    }

    /// The component has failed. Its unfinished requests are dropped.
    pub(crate) fn on_component_down(&mut self) {
        let sessions = std::mem::take(&mut self.sessions);
        let login = self.login.take();
        let (setup_count, has_forgotten) = (self.setup_count, self.has_forgotten);
        *self = Record { sessions, login, setup_count, has_forgotten, ..Record::default() };
    }

    /// The number of unfinished requests, for tests.
    pub(crate) fn open(&self) -> usize {
        let setups = [
            self.pending_setups.len(),
            self.late_setups.len(),
            self.pending_forwards.len(),
            self.ending.len(),
        ];
        let others = [self.logging_in.len(), self.prompts.len(), self.cancelled.len()];
        setups.into_iter().chain(others).sum()
    }
}
