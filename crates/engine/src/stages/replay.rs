//! The stage *replay*: replays set-up requests to a restarted component. It also answers requests for sessions that the
//! agent has lost.
//!
//! A proxy receives the set-up requests of its sessions again, one after another, and then the requests that have opened
//! the MCP connections that pass it. Requests that it forwards meanwhile are answered from the record of its predecessor
//! process. An agent receives a request to resume or load each session
//! instead. A session that it cannot resume is *lost*.

use std::collections::{BTreeMap, VecDeque};

use acp_wire::acp::{MethodKind, SessionId, method_kind, session_of_call};
use acp_wire::{Call, ErrorKind, Id, Json, Message, Outcome, Side, acp, code};
use mcp::form::Frame;
use router::{Exit, ExitCause, Seat, SeatState};

use super::by_seat::BySeat;
use super::sessions::{ForwardedRequest, Record, SessionSetup};
use super::{Hop, Stage, StageResult, Stages};
use crate::resumption::{Resumption, is_metadata_update};

/// For how many lost sessions the reason is kept. The agent itself answers requests for older ones.
const MAX_LOST: usize = 1024;

/// Why a session is not replayed.
const NOT_STORED: &str = "its set-up request was too long, or too many sessions ago, to be stored";

/// The replays of restarted components, and the lost sessions.
#[derive(Debug)]
pub(super) struct SessionReplay {
    by_seat: BySeat<SeatReplay>,
    /// Sessions that the agent could not resume, and the reason.
    lost: BTreeMap<SessionId, String>,
}

/// The replay of one component.
#[derive(Debug, Default)]
struct SeatReplay {
    /// The requests that have not been sent.
    waiting: VecDeque<ReplayRequest>,
    /// The request that the component has not answered.
    current: Option<Box<InFlight>>,
}

impl SessionReplay {
    pub(super) fn new(count: usize) -> SessionReplay {
        SessionReplay { by_seat: BySeat::new(count), lost: BTreeMap::new() }
    }

    /// See [`BySeat::fill`].
    pub(super) fn fill(&mut self, count: usize, filled: &[Seat]) {
        self.by_seat.fill(count, filled);
    }

    /// The method of the request that the component has to answer next.
    pub(super) fn current_method(&self, seat: Seat) -> String {
        let current = self.by_seat.get(seat).and_then(|it| it.current.as_ref());
        current.map(|it| it.request.call.method.name().into_owned()).unwrap_or_default()
    }

    /// Whether the agent has lost any session.
    pub(super) fn has_lost_any(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Removes a lost session: the agent has it again.
    pub(super) fn remove_lost(&mut self, session: &SessionId) {
        self.lost.remove(session);
    }

    /// Ends the replay of a component that has failed.
    pub(super) fn on_component_down(&mut self, seat: Seat) {
        if let Some(replay) = self.by_seat.get_mut(seat) {
            *replay = SeatReplay::default();
        }
    }
}

/// A request that has been sent to a component, with its id.
#[derive(Debug)]
struct InFlight {
    id: Id,
    request: ReplayRequest,
}

/// A request to replay.
#[derive(Debug, Clone)]
struct ReplayRequest {
    call: Call,
    /// The direction in which it travels: toward the agent, or toward the editor if it opens an MCP connection.
    toward: Side,
    session: Option<SessionId>,
    /// The requests that the predecessor process forwarded for it. The new process gets the same answers.
    forwarded: Vec<ForwardedRequest>,
    /// Whether the agent sends the history of the session again. The editor has seen it already.
    repeats_history: bool,
}

impl SessionSetup {
    /// The request that sets up this session at a restarted proxy.
    fn replay_request(&self) -> ReplayRequest {
        ReplayRequest {
            call: self.call.clone(),
            toward: Side::Agent,
            session: Some(self.session.clone()),
            forwarded: self.forwarded.clone(),
            repeats_history: false,
        }
    }
}

impl ReplayRequest {
    /// The request of an MCP client that has opened a connection with this result.
    fn connect((call, result): (Call, Json)) -> ReplayRequest {
        let method = call.method.name().into_owned();
        let forwarded = vec![ForwardedRequest { method, outcome: Some(Outcome::Result(result)) }];
        let (toward, session) = (Side::Editor, None);
        ReplayRequest { call, toward, session, forwarded, repeats_history: false }
    }

    /// What the request restores, for messages.
    fn describe(&self) -> String {
        match &self.session {
            Some(session) => format!("session '{session}'"),
            None if self.toward == Side::Editor => "an MCP connection".to_owned(),
            None => "its login".to_owned(),
        }
    }
}

/// Whether two requests open a connection to the same MCP server.
fn names_same_server(one: &Call, other: &Call) -> bool {
    let server = |call: &Call| match mcp::form::decode(call)?.1 {
        Frame::Connect { server, .. } => Some(server),
        Frame::Disconnect { .. } | Frame::Mcp { .. } => None,
    };
    server(one).is_some_and(|it| server(other) == Some(it))
}

impl Stages {
    /// Sends a message from this stage to a component.
    pub(super) fn send_from_replay(&mut self, seat: Seat, toward: Side, message: Message) {
        self.send_from(Stage::Replay, Hop { seat, toward }, message);
    }

    /// How an agent resumes sessions, by its last answer to `initialize`.
    pub(super) fn resumption(&self, seat: Seat) -> Option<Resumption> {
        match self.router.handshake(seat)?.answer.as_ref()? {
            Outcome::Result(result) => Resumption::offered(result),
            Outcome::Error(_) => None,
        }
    }

    /// Handles the answer of a restarted component to `initialize`, and starts the replay.
    pub(super) fn on_restarted(&mut self, seat: Seat, outcome: Outcome) {
        match outcome {
            Outcome::Error(error) => {
                let text = error.member("message").and_then(|it| Some(it.text()?.into_owned()));
                let cause =
                    ExitCause::RefusedInitialize(text.unwrap_or_else(|| error.as_str().to_owned()));
                self.on_ended(seat, Exit::new(cause));
            }
            Outcome::Result(_) => {
                if self.cannot_resume(seat)
                    && self.fail_trial_of_agent(seat, "it does not support that".to_owned())
                {
                    return;
                }
                let requests = match self.is_agent(seat) {
                    true => self.replay_for_agent(seat),
                    false => self.replay_for_proxy(seat),
                };
                if let Some(replay) = self.replay.by_seat.get_mut(seat) {
                    *replay = SeatReplay { waiting: requests, current: None };
                }
                self.replay_next(seat);
            }
        }
    }

    /// Whether the answer of a restarted agent to `initialize` says that its sessions are lost.
    fn cannot_resume(&self, seat: Seat) -> bool {
        let has_sessions = self.sessions.record(seat).is_some_and(Record::has_sessions);
        self.is_agent(seat) && has_sessions && self.resumption(seat).is_none()
    }

    /// The requests to replay to a proxy: those that have set up its sessions, and those that have opened the MCP
    /// connections that pass it. Warns about sessions whose request is not stored.
    fn replay_for_proxy(&mut self, seat: Seat) -> VecDeque<ReplayRequest> {
        let sessions = || self.sessions.record(seat).into_iter().flat_map(Record::sessions);
        let (stored, missing): (Vec<_>, Vec<_>) = sessions().partition(|it| it.is_stored);
        let sessions = stored.into_iter().map(SessionSetup::replay_request);
        let connections = self.mcp.broker().map(|it| it.connections_through(seat));
        let connections = connections.into_iter().flatten().map(ReplayRequest::connect);
        let requests = sessions.chain(connections).collect();
        if let [first, rest @ ..] = &missing[..] {
            let others = match rest.len() {
                0 => String::new(),
                count => format!(" and {count} others"),
            };
            let text = format!(
                "{} was restarted without session '{}'{others}: {NOT_STORED}.",
                self.router.chain().describe(seat),
                first.session,
            );
            self.warn(seat, text.clone());
            self.notify_user(seat, &text);
        }
        requests
    }

    /// The requests that make an agent log in and resume its sessions. An agent that cannot resume sessions has lost
    /// them.
    fn replay_for_agent(&mut self, seat: Seat) -> VecDeque<ReplayRequest> {
        let resumption = self.resumption(seat);
        let Some(record) = self.sessions.record(seat) else { return VecDeque::new() };
        let login = record.login().cloned();
        let login = login.map(|call| ReplayRequest {
            call,
            toward: Side::Agent,
            session: None,
            forwarded: Vec::new(),
            repeats_history: false,
        });
        let sessions = record.sessions().to_vec();
        let Some(resumption) = resumption else {
            for set_up in sessions {
                self.mark_lost(seat, &set_up.session, "it does not support that");
            }
            return login.into_iter().collect();
        };
        let (sessions, missing): (Vec<_>, Vec<_>) =
            sessions.into_iter().partition(|it| it.is_stored);
        for set_up in missing {
            self.mark_lost(seat, &set_up.session, NOT_STORED);
        }
        let sessions = sessions.into_iter().map(|set_up| ReplayRequest {
            call: resumption.call(&set_up.call, &set_up.session),
            toward: Side::Agent,
            session: Some(set_up.session),
            forwarded: Vec::new(),
            repeats_history: resumption == Resumption::Load,
        });
        login.into_iter().chain(sessions).collect()
    }

    /// Sends the next request of a replay, or ends the replay.
    fn replay_next(&mut self, seat: Seat) {
        if !self.router.is_replaying(seat) {
            return;
        }
        self.router.restart_replay_timeout(self.cx.now, seat);
        let id = self.cx.next_id();
        let Some(replay) = self.replay.by_seat.get_mut(seat) else { return };
        let next = replay.waiting.pop_front();
        replay.current = next.map(|request| Box::new(InFlight { id: id.clone(), request }));
        match &replay.current {
            Some(current) => {
                let ReplayRequest { call, toward, .. } = current.request.clone();
                self.send_from_replay(seat, toward, Message::Request { id, call });
            }
            None => self.finish_replay(seat),
        }
    }

    /// Handles a message from a component. During a replay, it may belong to the replay.
    pub(super) fn replay_arrived(&mut self, hop: Hop, message: &mut Message) -> StageResult {
        let Hop { seat: from, toward } = hop;
        if !self.router.is_replaying(from) {
            return StageResult::Pass;
        }
        let replay = self.replay.by_seat.get_mut(from);
        let Some(current) = replay.and_then(|it| it.current.as_mut()) else {
            return StageResult::Pass;
        };
        let request = &mut current.request;
        match message {
            Message::Response { id, outcome, .. } if *id == current.id => {
                self.on_replay_answer(from, outcome);
                StageResult::Taken
            }
            Message::Request { id, call } if toward == request.toward => {
                let at = request.forwarded.iter().position(|it| *call.method.name() == it.method);
                let is_set_up = method_kind(call) == Some(MethodKind::SetUpSession);
                let at = at.filter(|_| is_set_up || names_same_server(call, &request.call));
                let Some(at) = at else { return StageResult::Pass };
                // The predecessor process may not have received an answer. The request is not forwarded again, because
                // that would set up another session.
                let outcome = request.forwarded.remove(at).outcome.unwrap_or_else(|| {
                    ErrorKind::Crashed.outcome(
                        code::INTERNAL_ERROR,
                        "this request was not answered before the restart",
                    )
                });
                let answer = Message::response(id.clone(), outcome);
                self.send_from_replay(from, toward.opposite(), answer);
                StageResult::Taken
            }
            Message::Notification(call) if request.repeats_history && call.is(acp::UPDATE) => {
                let is_history = session_of_call(call) == request.session
                    && !call.params.as_ref().is_some_and(is_metadata_update);
                if is_history { StageResult::Taken } else { StageResult::Pass }
            }
            _ => StageResult::Pass,
        }
    }

    /// Handles a message to a component. A request for a lost session is taken. Any other request may claim an orphaned
    /// session.
    pub(super) fn replay_delivered(&mut self, hop: Hop, message: &Message) -> StageResult {
        if self.take_for_lost_session(hop, message) {
            return StageResult::Taken;
        }
        self.orphans.claim(hop.seat, message);
        StageResult::Pass
    }

    /// Handles the answer to the current request of a replay.
    fn on_replay_answer(&mut self, seat: Seat, outcome: &Outcome) {
        let Some(replay) = self.replay.by_seat.get_mut(seat) else { return };
        let request = replay.current.take().map(|current| current.request);
        if let (Outcome::Error(error), Some(request)) = (outcome, &request) {
            let why = error.member("message").and_then(|it| Some(it.text()?.into_owned()));
            let why = why.unwrap_or_else(|| error.as_str().to_owned());
            let what = request.describe();
            let name = self.router.chain().describe(seat);
            self.warn(seat, format!("{name} could not resume {what}: {why}"));
            if let Some(session) = request.session.as_ref().filter(|_| self.is_agent(seat)) {
                let reason = format!("session '{session}': {why}");
                if self.fail_trial_of_agent(seat, reason) {
                    return;
                }
                self.mark_lost(seat, session, &why);
            }
        }
        self.replay_next(seat);
    }

    /// Ends a replay. The router then delivers the messages that it has held for the component.
    fn finish_replay(&mut self, seat: Seat) {
        self.with_broker(|it, cx| it.component_restarted(seat, cx));
        // These requests go before the held messages.
        self.send_closes(seat);
        let verb = match self.end_trial(seat).is_some_and(|trial| trial.has_joined()) {
            true => "has joined the chain",
            false => "is running again",
        };
        let text = format!("{} {verb}", self.router.chain().describe(seat));
        self.report_recovery(seat, text);
        self.route(router::Event::Resumed(seat));
    }

    /// Records that the agent has lost a session.
    fn mark_lost(&mut self, seat: Seat, session: &SessionId, why: &str) {
        let chain = self.router.chain();
        let exit = self.router.last_exit(seat);
        let text = format!(
            "{} {} ({}) and was restarted; it could not resume session '{session}': {why}. Start a \
             new session",
            chain.describe(seat),
            exit.map_or("crashed", Exit::verb),
            exit.map(Exit::description).unwrap_or_default(),
        );
        self.replay.lost.insert(session.to_owned(), text);
        if self.replay.lost.len() > MAX_LOST {
            self.replay.lost.pop_first();
        }
        // Only the record of the agent forgets it: the other components still have the session.
        if let Some(record) = self.sessions.record_mut(seat) {
            record.forget(session);
        }
        self.with_broker(|it, cx| it.session_lost(session, cx));
    }

    /// Takes a message to the agent about a session that the agent has lost. A request is answered with an error. Returns
    /// whether the message was taken.
    fn take_for_lost_session(&mut self, hop: Hop, message: &Message) -> bool {
        let Hop { seat: to, toward } = hop;
        if self.replay.lost.is_empty() || toward != Side::Agent || !self.is_agent(to) {
            return false;
        }
        let (Message::Request { call, .. } | Message::Notification(call)) = message else {
            return false;
        };
        let Some(session) = session_of_call(call) else { return false };
        // A request to resume the session may succeed.
        if method_kind(call) == Some(MethodKind::SetUpSession) {
            self.replay.lost.remove(&session);
        }
        let Some(text) = self.replay.lost.get(&session) else { return false };
        if let Message::Request { id, .. } = message {
            // Closing a lost session always succeeds.
            let outcome = match method_kind(call) == Some(MethodKind::EndSession) {
                true => Outcome::Result(Json::EMPTY_OBJECT),
                false => ErrorKind::SessionLost.outcome(code::RESOURCE_NOT_FOUND, text),
            };
            if let Outcome::Result(_) = outcome {
                self.replay.lost.remove(&session);
            }
            let message = Message::response(id.clone(), outcome);
            let hop = Hop { seat: to, toward: Side::Editor };
            self.inject(Stage::Replay, hop, message);
        }
        true
    }

    /// Whether a component is down or has not answered `initialize` since its restart.
    pub(super) fn awaits_restart(&self, seat: Seat) -> bool {
        matches!(
            self.router.state(seat),
            Some(SeatState::Down { .. } | SeatState::Reinitializing { .. })
        )
    }
}
