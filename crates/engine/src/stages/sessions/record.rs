//! What a component was told that the next one in its seat must be told, too: its sessions. And what
//! is going on in it: prompts and cancellations.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp};
use router::Time;

use super::cancelled::Cancelled;
use super::retention::{Keep, SHORT};
use crate::stages::is_own_request;
use crate::stages::orphans::UnreportedSession;
use acp_wire::acp::{SessionId, Topic, session_of, session_of_call, topic};

/// Of no more sessions than these it is kept, for each component, how they were set up: the newest.
const MAX_SESSIONS: usize = 256;

/// No more sessions than these are known at all.
const MAX_KNOWN: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Live sessions, as this component knows them, oldest first.
    sessions: Vec<SessionSetup>,
    /// Those it has yet to answer, by the id it was asked with.
    opening: BTreeMap<Id, SessionSetup>,
    /// Those that were answered in its place: its own answer may still come.
    late: BTreeMap<Id, SessionSetup>,
    count: u64,
    /// What it has asked its successor for these and waits for, by its own id: of which, and which one of its copies.
    asked: BTreeMap<Id, (Id, usize)>,
    /// It was prompted in a session that was set up in a way that nobody knows.
    has_unknown: bool,
    /// How many of its sessions are forgotten, because there were too many.
    forgotten: usize,
    /// Sessions that are not known may have been forgotten.
    has_forgotten: bool,
    ending: BTreeMap<Id, SessionId>,
    /// Logins it has yet to answer; `None` is the opposite.
    logging_in: BTreeMap<Id, Option<Call>>,
    /// How somebody has logged in.
    login: Option<Call>,
    /// Prompts that it has yet to answer, by the id it was asked with.
    prompts: BTreeMap<Id, Prompt>,
    /// Sessions in which the last thing it was told is to stop. It need not be at work there itself: it
    /// may have come when the prompt had passed.
    stopped: BTreeSet<SessionId>,
    /// Requests of which it was told that they are cancelled.
    cancelled: Cancelled,
}

/// A session, and how it was set up.
#[derive(Debug, Clone)]
pub(crate) struct SessionSetup {
    /// As it was delivered.
    pub call: Call,
    /// Whether all of it is kept. If not, nobody can be told of it again.
    pub kept: bool,
    pub session: SessionId,
    /// What the component asked its successor for it, and the answers.
    pub copies: Vec<Copy>,
    /// How many requests of this kind came before it.
    number: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub method: String,
    pub outcome: Option<Outcome>,
}

#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub id: Id,
    pub session: SessionId,
    /// When it was told that the turn is cancelled.
    pub cancelled: Option<Time>,
}

impl SessionSetup {
    /// Something that the component asked its successor for this is answered.
    fn answered(&mut self, index: usize, outcome: &Outcome, keep: Keep) {
        let kept = match (outcome, keep) {
            (outcome, Keep::All) => outcome.detached(),
            (Outcome::Result(_), Keep::Long(json)) => Outcome::Result(json),
            (Outcome::Error(_), Keep::Long(json)) => Outcome::Error(json),
            (outcome, Keep::Nothing) => {
                self.shorten();
                short(outcome)
            }
        };
        self.copies[index].outcome = Some(kept);
    }

    /// Keeps no more of it than which sessions it has set up.
    fn shorten(&mut self) {
        self.kept = false;
        self.call.params = None;
        for copy in &mut self.copies {
            copy.outcome = copy.outcome.as_ref().map(short);
        }
    }
}

/// The part of an answer that says which session it sets up.
fn short(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Result(result) => {
            let session = result.member("sessionId").map(|it| it.detached());
            Outcome::Result(Json::object([("sessionId", session)]))
        }
        Outcome::Error(_) => Outcome::Error(Json::EMPTY),
    }
}

impl Record {
    pub(crate) fn sessions(&self) -> &[SessionSetup] {
        &self.sessions
    }

    /// Whether the component was prompted in a session that was set up in a way that the core has not seen.
    pub(crate) fn has_unknown(&self) -> bool {
        self.has_unknown
    }

    /// How the last user has logged in.
    pub(crate) fn login(&self) -> Option<&Call> {
        self.login.as_ref()
    }

    /// The prompts that the component has yet to answer.
    pub(crate) fn prompts(&self) -> impl Iterator<Item = &Prompt> {
        self.prompts.values()
    }

    /// The requests of which the component was told that they are cancelled.
    pub(crate) fn cancelled(&self) -> &Cancelled {
        &self.cancelled
    }

    /// Takes the prompts that are cancelled.
    pub(crate) fn take_cancelled(&mut self) -> Vec<Prompt> {
        let taken = self.prompts.extract_if(.., |_, it| it.cancelled.is_some());
        taken.map(|(_, prompt)| prompt).collect()
    }

    /// Keeps only the requests that are still owed. Gives the prompts that are not.
    pub(crate) fn keep_owed(&mut self, owes: impl Fn(&Id) -> bool) -> Vec<Prompt> {
        self.cancelled.retain(&owes);
        let gone = self.prompts.extract_if(.., |_, it| !owes(&it.id));
        gone.map(|(_, prompt)| prompt).collect()
    }

    /// Has it no live session at all?
    pub(crate) fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.forgotten == 0
    }

    /// Does it wait for this answer to set something up?
    pub(crate) fn awaits(&self, id: &Id) -> bool {
        !self.asked.is_empty() && self.asked.contains_key(id)
    }

    /// The long params and answers that are kept.
    pub(crate) fn long(&self) -> impl Iterator<Item = &Json> {
        let set_ups = self.sessions.iter().chain(self.opening.values()).chain(self.late.values());
        let parts = set_ups.flat_map(|it| {
            let answers = it.copies.iter().filter_map(|copy| match copy.outcome.as_ref()? {
                Outcome::Result(json) | Outcome::Error(json) => Some(json),
            });
            answers.chain(&it.call.params)
        });
        parts.filter(|it| it.as_bytes().len() > SHORT)
    }

    /// The request with this id to set something up, if it has yet to answer it.
    pub(crate) fn opening(&self, id: &Id) -> Option<&SessionSetup> {
        self.opening.get(id)
    }

    /// This request was answered in place of the component, whose own answer may still come.
    pub(crate) fn is_late(&mut self, id: &Id, set_up: SessionSetup) {
        self.late.insert(id.detached(), set_up);
    }

    /// The requests to set something up that it has yet to answer.
    pub(crate) fn owed_set_ups(&self) -> Vec<Id> {
        self.opening.keys().cloned().collect()
    }

    /// The component is told something. `method`: that of a request which it has yet to answer.
    pub(crate) fn delivered(
        &mut self,
        now: Time,
        toward: Side,
        message: &Message,
        method: impl Fn(&Id) -> Option<String>,
        keep: Keep,
    ) {
        match message {
            Message::Request { id, call } if toward == Side::Agent => {
                self.asked_for(id, call, keep);
            }
            // The many updates go the other way.
            Message::Notification(call) if toward == Side::Agent => match topic(call) {
                Some(Topic::CancelSession) => {
                    let session = session_of_call(call).unwrap_or_default();
                    for prompt in self.prompts.values_mut() {
                        if session == prompt.session {
                            prompt.cancelled.get_or_insert(now);
                        }
                    }
                    if self.stopped.len() == MAX_SESSIONS {
                        self.stopped.pop_first();
                    }
                    self.stopped.insert(session);
                }
                Some(Topic::CancelRequest) => {
                    let id = call.params.as_ref().and_then(acp::cancelled_id);
                    if let Some(id) = id
                        && let Some(method) = method(&id)
                    {
                        self.cancelled.insert(&id, &method, now);
                    }
                }
                _ => {}
            },
            Message::Response { id, outcome, .. } if !self.asked.is_empty() => {
                if let Some((opening, index)) = self.asked.remove(id)
                    && let Some(set_up) =
                        self.opening.get_mut(&opening).or(self.late.get_mut(&opening))
                {
                    set_up.answered(index, outcome, keep);
                }
            }
            _ => {}
        }
    }

    fn asked_for(&mut self, id: &Id, call: &Call, keep: Keep) {
        match topic(call) {
            Some(Topic::SetUp) => {
                let session = session_of_call(call).unwrap_or_default();
                self.count += 1;
                let number = self.count;
                let (params, kept) = match keep {
                    Keep::All => (call.params.clone().map(|it| it.detached()), true),
                    Keep::Long(params) => (Some(params), true),
                    Keep::Nothing => (None, false),
                };
                let bare = Call { params: None, ..call.clone() };
                let call = Call { params, ..bare.detached() };
                let set_up = SessionSetup { call, kept, session, copies: Vec::new(), number };
                self.opening.insert(id.detached(), set_up);
            }
            Some(Topic::End) => {
                self.ending.extend(session_of_call(call).map(|session| (id.detached(), session)));
            }
            Some(Topic::Authenticate) => {
                self.logging_in.insert(id.detached(), Some(call.detached()));
            }
            Some(Topic::LogOut) => drop(self.logging_in.insert(id.detached(), None)),
            Some(Topic::Prompt) => {
                let session = session_of_call(call).unwrap_or_default();
                let known = || self.sessions.iter().any(|it| it.session == session);
                self.has_unknown |= !self.has_forgotten && !known();
                self.stopped.remove(&session);
                let prompt = Prompt { id: id.detached(), session, cancelled: None };
                self.prompts.insert(id.detached(), prompt);
            }
            _ => {}
        }
    }

    /// The component says something. Gives the session that it has ended with that.
    pub(crate) fn arrived(&mut self, toward: Side, message: &Message) -> Option<SessionId> {
        match message {
            Message::Request { id, call }
                if toward == Side::Agent
                    && !self.opening.is_empty()
                    && topic(call) == Some(Topic::SetUp) =>
            {
                self.has_asked(id, call);
                None
            }
            Message::Response { id, outcome, .. } if !self.owes_nothing() => {
                self.has_answered(id, outcome)
            }
            _ => None,
        }
    }

    fn owes_nothing(&self) -> bool {
        self.opening.is_empty()
            && self.late.is_empty()
            && self.ending.is_empty()
            && self.logging_in.is_empty()
            && self.prompts.is_empty()
            && self.cancelled.is_empty()
    }

    /// It sets up something of its own: most likely what it was asked to set up. Of several, one that
    /// asks for the same and that it has not done this for yet, the oldest first.
    fn has_asked(&mut self, id: &Id, call: &Call) {
        let method = call.method.name().into_owned();
        // To compare takes time: it may take as long as the request is, not as many are open.
        let mut work = call.params.as_ref().map_or(0, |it| 16 * it.as_bytes().len()) + (256 << 10);
        let mut asks_the_same = |set_up: &SessionSetup| match (&call.params, &set_up.call.params) {
            (Some(ours), Some(theirs)) => ours.extends_within_budget(theirs, &mut work),
            _ => true,
        };
        let several = self.opening.len() > 1;
        let next = self.opening.iter_mut().min_by_key(|(_, it)| {
            let differs = it.call.method != call.method || several && !asks_the_same(it);
            (differs, it.copies.len(), it.number)
        });
        if let Some((opening, set_up)) = next {
            self.asked.insert(id.detached(), (opening.clone(), set_up.copies.len()));
            set_up.copies.push(Copy { method, outcome: None });
        }
    }

    fn has_answered(&mut self, id: &Id, outcome: &Outcome) -> Option<SessionId> {
        self.prompts.remove(id);
        self.cancelled.remove(id);
        self.late.remove(id);
        let opened = self.opening.remove(id);
        let ended = self.ending.remove(id);
        let login = self.logging_in.remove(id);
        let Outcome::Result(result) = outcome else { return None };
        if let Some(login) = login {
            self.login = login;
        }
        if let Some(mut set_up) = opened {
            set_up.session = session_of(result).unwrap_or(set_up.session);
            self.sessions.retain(|it| it.session != set_up.session);
            self.sessions.push(set_up);
            self.make_room();
        }
        if let Some(session) = &ended {
            if !self.sessions.iter().any(|it| it.session == *session) {
                self.forgotten = self.forgotten.saturating_sub(1);
            }
            self.forget(session);
        }
        ended
    }

    /// Of too many sessions, the oldest are known by name only, or not at all.
    fn make_room(&mut self) {
        if self.sessions.iter().filter(|it| it.kept).count() > MAX_SESSIONS
            && let Some(oldest) = self.sessions.iter_mut().find(|it| it.kept)
        {
            oldest.shorten();
        }
        if self.sessions.len() > MAX_KNOWN {
            self.sessions.remove(0);
            self.forgotten += 1;
            self.has_forgotten = true;
        }
    }

    /// In which sessions it was told to stop, and not to go on since.
    pub(crate) fn stopped(&self) -> Vec<SessionId> {
        self.stopped.iter().cloned().collect()
    }

    /// Nobody will take up this session again.
    pub(crate) fn forget(&mut self, session: &SessionId) {
        self.stopped.remove(session);
        self.sessions.retain(|it| it.session != *session);
    }

    /// Sessions that its successor has set up for it, of which it has not told those who asked.
    pub(crate) fn untold(&self) -> Vec<UnreportedSession> {
        // Lessons are about sessions that others have.
        let opening = self.opening.iter().chain(&self.late);
        let asked = opening.filter(|(id, _)| !is_own_request(id));
        let copies = asked.flat_map(|(_, it)| it.copies.iter().map(move |copy| (it, copy)));
        let stands = copies.filter_map(|(set_up, copy)| match &copy.outcome {
            Some(Outcome::Result(result)) => {
                let session = session_of(result).unwrap_or_else(|| set_up.session.clone());
                (!session.is_empty()).then(|| UnreportedSession::new(session, &copy.method))
            }
            _ => None,
        });
        stands.collect()
    }

    /// Who knew all this is gone: what it had not finished is not known to anybody.
    pub(crate) fn parted(&mut self) {
        let sessions = std::mem::take(&mut self.sessions);
        let login = self.login.take();
        let (count, has_forgotten) = (self.count, self.has_forgotten);
        *self = Record { sessions, login, count, has_forgotten, ..Record::default() };
    }

    /// How much is open, for tests.
    pub(crate) fn open(&self) -> usize {
        let set_ups = [self.opening.len(), self.late.len(), self.asked.len(), self.ending.len()];
        let others = [self.logging_in.len(), self.prompts.len(), self.cancelled.len()];
        set_ups.into_iter().chain(others).sum()
    }
}
