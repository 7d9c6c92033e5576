//! The sessions of a connection, and where they are in the recording.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use acp_proxy::Json;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::key::short_hash;
use super::lane::{Answer, Lane, Sent, session_of};
use super::names::Names;
use super::play::Input;
use super::recording::Recording;

/// How many sessions are kept. The oldest one is forgotten.
const MAX_LANES: usize = 10_000;

/// The requests that begin a session. Others with an unknown session are not recorded.
const SETUP: [&str; 3] = ["session/new", "session/load", "session/resume"];

/// The requests that the agent always gets in the mode `auto`: they change or show its own state.
const ALWAYS_LIVE: [&str; 3] = ["authenticate", "logout", "session/list"];

/// Members of a request of the agent that name an MCP server or a connection to one.
const SERVER_MEMBERS: [&str; 6] =
    ["serverId", "acpId", "acp_id", "acpUrl", "connectionId", "connection_id"];

/// The number of a lane.
pub(super) type LaneId = u64;

/// A session, or a request that belongs to no session.
pub(super) enum LaneState {
    /// The agent answers, and its answers are recorded.
    Live(Box<Lane>),
    /// The recording answers.
    Replayed(UnboundedSender<Input>),
}

/// Where a message of the editor goes.
pub(super) enum Route {
    /// To the agent. The answer is recorded in this lane, for the request with this number.
    Live(LaneId, u32),
    /// To the replay of its session.
    Replay(UnboundedSender<Input>),
    /// To a replay that begins with it.
    Start(LaneId, Box<Lane>),
    /// To the agent, without a recording.
    Pass,
    /// The session is not known, so that nothing can be replayed.
    Unknown,
}

/// The state of a connection.
pub(super) struct State {
    pub(super) recording: Recording,
    /// Whether messages that are not recorded go to the agent.
    may_go_live: bool,
    /// Whether everything goes to the agent.
    records_all: bool,
    /// The placeholders that every session begins with.
    names: Names,
    /// The key before the first message of a session.
    root: String,
    lanes: BTreeMap<LaneId, LaneState>,
    sessions: HashMap<String, LaneId>,
    /// The sessions that use an MCP server. Several sessions may use one with the same id.
    servers: HashMap<String, BTreeSet<LaneId>>,
    /// The lanes in which the agent has a request to answer.
    busy: BTreeSet<LaneId>,
    /// The sessions of each lane. Most have one.
    lane_sessions: HashMap<LaneId, Vec<String>>,
    /// The lanes whose session has no id yet.
    setups: Vec<LaneId>,
    /// The lane of the agent's messages that belong to no session: that of `initialize`.
    connection: Option<LaneId>,
    last_lane: LaneId,
    pub(super) last_session: u64,
    /// The ids that the agent knows, of sessions that were replayed first. By the id that the editor knows.
    agent_ids: HashMap<String, String>,
    editor_ids: HashMap<String, String>,
    /// How many sessions are being opened in place of replayed ones.
    pub(super) opening: usize,
    has_failed: bool,
}

impl State {
    pub(super) fn new(recording: Recording, records_all: bool, may_go_live: bool) -> State {
        let home = std::env::var("HOME").or_else(|_| std::env::var("USERPROFILE")).ok();
        State {
            recording,
            may_go_live,
            records_all,
            names: Names::new(home.as_deref()),
            root: root(1),
            lanes: BTreeMap::new(),
            sessions: HashMap::new(),
            servers: HashMap::new(),
            busy: BTreeSet::new(),
            lane_sessions: HashMap::new(),
            setups: Vec::new(),
            connection: None,
            last_lane: 0,
            last_session: 0,
            agent_ids: HashMap::new(),
            editor_ids: HashMap::new(),
            opening: 0,
            has_failed: false,
        }
    }

    fn new_lane(&mut self, root: &str) -> (LaneId, Lane) {
        self.last_lane += 1;
        (self.last_lane, Lane::new(root, self.names.clone()))
    }

    fn insert(&mut self, id: LaneId, lane: LaneState) {
        self.lanes.insert(id, lane);
        if self.lanes.len() > MAX_LANES
            && let Some(&oldest) = self.lanes.keys().next()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, id: LaneId) {
        match self.lanes.remove(&id) {
            Some(LaneState::Replayed(inputs)) => drop(inputs.send(Input::End)),
            Some(LaneState::Live(lane)) => lane.discard(&mut self.recording),
            None => {}
        }
        for session in self.lane_sessions.remove(&id).unwrap_or_default() {
            self.sessions.remove(&session);
            if let Some(agent_id) = self.agent_ids.remove(&session) {
                self.editor_ids.remove(&agent_id);
            }
        }
        self.servers.retain(|_, lanes| {
            lanes.remove(&id);
            !lanes.is_empty()
        });
        self.busy.remove(&id);
        self.setups.retain(|lane| *lane != id);
    }

    fn bind(&mut self, session: &str, id: LaneId) {
        self.sessions.insert(session.to_owned(), id);
        self.lane_sessions.entry(id).or_default().push(session.to_owned());
    }

    /// How many sessions and requests are kept.
    pub(super) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// The id of the next session that is replayed.
    pub(super) fn session_name(last_session: &mut u64) -> String {
        *last_session += 1;
        format!("recorded-session-{last_session}")
    }

    /// Records an `initialize`. Its lane has the agent's messages that belong to no session.
    pub(super) fn begin_connection(&mut self, sent: &Sent) -> (LaneId, u32) {
        let (id, mut lane) = self.new_lane("initialize");
        let (next, _) = lane.after(sent);
        // In the mode auto, a recorded answer stays.
        match !self.records_all && self.recording.answers(&next.at) {
            true => lane = next,
            false => lane.record_sent(sent, &mut self.recording),
        }
        let number = lane.requests;
        self.insert(id, LaneState::Live(Box::new(lane)));
        (id, number)
    }

    /// Does something in a lane of the live agent.
    fn in_lane<T>(
        &mut self,
        id: LaneId,
        act: impl FnOnce(&mut Lane, &mut Recording) -> T,
    ) -> Option<T> {
        let Some(LaneState::Live(lane)) = self.lanes.get_mut(&id) else { return None };
        let result = act(lane, &mut self.recording);
        match lane.is_busy() {
            true => self.busy.insert(id),
            false => self.busy.remove(&id),
        };
        Some(result)
    }

    /// Whether a message of the agent belongs to a session that is replayed, so that the editor must not see it.
    pub(super) fn is_replayed(&self, session: Option<&str>) -> bool {
        let Some(session) = session else { return false };
        match self.sessions.get(session) {
            Some(id) => matches!(self.lanes.get(id), Some(LaneState::Replayed(_))),
            None => self.opening > 0,
        }
    }

    /// Where a request of the editor goes. A request that goes to the agent is recorded.
    pub(super) fn route(&mut self, method: &str, params: &Value) -> Route {
        let sent = Sent::Request { method: method.to_owned(), params: params.clone() };
        if let Some(&id) = session_of(params).and_then(|session| self.sessions.get(session)) {
            if let Some(LaneState::Replayed(inputs)) = self.lanes.get(&id) {
                return Route::Replay(inputs.clone());
            }
            let number = self.in_lane(id, |lane, recording| {
                lane.record_sent(&sent, recording);
                lane.requests
            });
            return number.map_or(Route::Pass, |number| Route::Live(id, number));
        }
        let is_setup = SETUP.contains(&method);
        if session_of(params).is_some() && !is_setup {
            return if self.records_all || self.may_go_live { Route::Pass } else { Route::Unknown };
        }
        let root = if method == "initialize" { method.to_owned() } else { self.root.clone() };
        let (id, mut lane) = self.new_lane(&root);
        if is_setup {
            self.setups.push(id);
            if let Some(session) = session_of(params) {
                self.bind(session, id);
            }
            for server in lane.names.clone().learn_servers(params) {
                self.servers.entry(server).or_default().insert(id);
            }
        } else {
            lane.names.keep_sessions();
        }
        let is_live = |lane: &Lane| {
            ALWAYS_LIVE.contains(&method) || !self.recording.answers(&lane.after(&sent).0.at)
        };
        if self.records_all || self.may_go_live && is_live(&lane) {
            self.insert(id, LaneState::Live(Box::new(lane)));
            let number = self.in_lane(id, |lane, recording| {
                lane.record_sent(&sent, recording);
                lane.requests
            });
            return Route::Live(id, number.unwrap_or_default());
        }
        Route::Start(id, Box::new(lane))
    }

    /// A replay begins.
    pub(super) fn start(&mut self, id: LaneId, inputs: UnboundedSender<Input>) {
        self.insert(id, LaneState::Replayed(inputs));
    }

    /// The editor's request was answered, by the agent or by the recording: notes the session that it has begun or
    /// ended. Returns the id of a session that was forked from this one.
    pub(super) fn on_answer(
        &mut self,
        id: LaneId,
        method: &str,
        answer: &Answer,
    ) -> Option<String> {
        let is_setup = self.setups.contains(&id);
        self.setups.retain(|lane| *lane != id);
        let result = answer.as_ref().ok();
        let session = result.and_then(session_in);
        let is_session = self.lane_sessions.contains_key(&id);
        match (method, session) {
            ("session/close" | "session/delete", _) => self.forget(id),
            // The session does not exist, also if the request has named it.
            _ if is_setup && answer.is_err() => self.forget(id),
            ("initialize", _) => {
                self.connection = Some(id);
                self.root = root(result.map_or(1, version));
            }
            ("session/new", Some(session)) => {
                self.bind(&session, id);
            }
            (_, Some(session)) if is_session && !self.sessions.contains_key(&session) => {
                return Some(session);
            }
            (_, Some(session)) => {
                self.bind(&session, id);
            }
            (_, None) if is_session => {}
            (_, None) => self.forget(id),
        }
        None
    }

    /// A session that was forked: its lane.
    pub(super) fn fork(&mut self, session: &str) -> LaneId {
        self.last_lane += 1;
        self.bind(session, self.last_lane);
        self.last_lane
    }

    /// Records the agent's answer to a request of the editor, and saves the recording.
    pub(super) fn record_answer(&mut self, id: LaneId, number: u32, method: &str, answer: &Answer) {
        self.in_lane(id, |lane, recording| lane.record_answer(number, answer, recording));
        if let Some(session) = self.on_answer(id, method, answer) {
            let lane = match self.lanes.get(&id) {
                Some(LaneState::Live(lane)) => Some(lane.fork()),
                _ => None,
            };
            let fork = self.fork(&session);
            lane.into_iter().for_each(|it| self.insert(fork, LaneState::Live(Box::new(it))));
        }
    }

    /// The lane of a message of the agent.
    fn lane_of(&mut self, params: Option<&Json>) -> Option<LaneId> {
        if let Some(session) = params.and_then(session_in) {
            if let Some(&id) = self.sessions.get(&session) {
                return Some(id);
            }
            // The agent names a session before it answers the request that begins the session.
            let id = *self.setups.last()?;
            self.bind(&session, id);
            return Some(id);
        }
        let lanes = |name: &&str| self.servers.get(&*params?.member(name)?.text()?);
        if let Some(lanes) = SERVER_MEMBERS.iter().find_map(lanes) {
            let busy = lanes.iter().rev().find(|id| self.busy.contains(id));
            return busy.or(lanes.last()).copied();
        }
        // It belongs to no session. If the agent has one thing to do, it belongs to that.
        let only = self.busy.first().filter(|_| self.busy.len() == 1);
        only.or(self.setups.last()).copied().or(self.connection)
    }

    /// Records that the editor cancels a turn. Outside of a turn, a cancellation means nothing, and so does a second one.
    pub(super) fn record_cancel(&mut self, method: &str, params: &Value) {
        let id = session_of(params).and_then(|session| self.sessions.get(session));
        let Some(&id) = id else { return };
        let sent = Sent::Notification { method: method.to_owned(), params: params.clone() };
        self.in_lane(id, |lane, recording| {
            if lane.is_in_turn() {
                lane.record_sent(&sent, recording);
            }
        });
    }

    /// Records a notification of the agent.
    pub(super) fn record_notification(&mut self, method: &str, params: Option<&Json>) {
        if let Some(id) = self.lane_of(params) {
            self.in_lane(id, |lane, recording| lane.record_notification(method, params, recording));
        }
    }

    /// Records a request of the agent. Returns its lane and number.
    pub(super) fn record_request(
        &mut self,
        method: &str,
        params: Option<&Json>,
    ) -> Option<(LaneId, u32)> {
        let id = self.lane_of(params)?;
        let record = |lane: &mut Lane, recording: &mut Recording| {
            lane.record_request(method, params, recording)
        };
        Some((id, self.in_lane(id, record)?))
    }

    /// Records that the agent no longer needs the answer to its request.
    pub(super) fn record_withdrawal(&mut self, id: LaneId, number: u32) {
        self.in_lane(id, |lane, recording| lane.record_withdrawal(number, recording));
    }

    /// Records a message of the editor's side in a lane: an answer, or the cancellation of a turn.
    pub(super) fn record_sent(&mut self, id: LaneId, sent: &Sent) {
        if let Sent::Answer { answer: Ok(result), .. } = sent {
            let connection = result.get("connectionId").or_else(|| result.get("connection_id"));
            let connection = connection.and_then(Value::as_str);
            if let Some(connection) = connection {
                self.servers.entry(connection.to_owned()).or_default().insert(id);
            }
        }
        self.in_lane(id, |lane, recording| lane.record_sent(sent, recording));
    }

    /// The lane of a session, and the replay of it.
    pub(super) fn session(
        &self,
        session: &str,
    ) -> Option<(LaneId, Option<UnboundedSender<Input>>)> {
        let id = *self.sessions.get(session)?;
        match self.lanes.get(&id)? {
            LaneState::Live(_) => Some((id, None)),
            LaneState::Replayed(inputs) => Some((id, Some(inputs.clone()))),
        }
    }

    /// A session that was replayed goes on with the agent, which knows it by another id.
    pub(super) fn go_live(&mut self, id: LaneId, mut lane: Lane, ids: Option<(&str, &str)>) {
        if let Some((editor, agent)) = ids {
            lane.names.add_alias(editor, agent);
            self.agent_ids.insert(editor.to_owned(), agent.to_owned());
            self.editor_ids.insert(agent.to_owned(), editor.to_owned());
        }
        self.insert(id, LaneState::Live(Box::new(lane)));
    }

    /// The id by which the agent knows the session of this message, if it is another one.
    pub(super) fn agent_id(&self, params: &Value) -> Option<String> {
        self.agent_ids.get(session_of(params)?).cloned()
    }

    /// The id by which the editor knows the session of this message, if it is another one.
    pub(super) fn editor_id(&self, params: Option<&Json>) -> Option<String> {
        match self.editor_ids.is_empty() {
            true => None,
            false => self.editor_ids.get(&session_in(params?)?).cloned(),
        }
    }

    /// The session of a lane, by the id that the editor knows. `None` before the session is opened.
    pub(super) fn session_of(&self, id: LaneId) -> Option<String> {
        self.lane_sessions.get(&id)?.first().cloned()
    }

    /// Saves the recording. Returns an error the first time that it fails.
    pub(super) fn save(&mut self) -> Result<(), String> {
        let path = self.recording.path().display().to_string();
        let failure = match self.recording.save() {
            Ok(()) if self.recording.is_full => "it has reached its maximum size".to_owned(),
            Ok(()) => {
                self.has_failed = false;
                return Ok(());
            }
            Err(error) => error.to_string(),
        };
        match std::mem::replace(&mut self.has_failed, true) {
            true => Ok(()),
            false => Err(format!("cannot write the recording {path}: {failure}")),
        }
    }
}

/// What came after the last answer.
impl Drop for State {
    fn drop(&mut self) {
        drop(self.recording.finish());
    }
}

/// The key before the first message of a session, in this version of ACP.
fn root(version: i64) -> String {
    format!("acp-{version}")
}

/// The ACP version that an answer to `initialize` agrees to. Some agents repeat the requested version and continue with
/// version 1.
pub(super) fn version(result: &Json) -> i64 {
    match result.member("agentCapabilities") {
        Some(_) => 1,
        None => result.member("protocolVersion").and_then(|it| it.integer()).unwrap_or(1),
    }
}

/// The session id that a message names.
pub(super) fn session_in(params: &Json) -> Option<String> {
    params.member("sessionId")?.text().map(Into::into)
}

/// The member with the hash of parameters that cannot be read.
pub(super) const UNREADABLE: &str = "unreadable";

/// Parameters of the editor's side as a value. Of parameters that cannot be read, the value has only the session and a
/// hash.
pub(super) fn value(json: Option<&Json>) -> Value {
    let Some(json) = json else { return Value::Null };
    serde_json::from_slice(json.as_bytes()).unwrap_or_else(|_| {
        let mut value = json!({ UNREADABLE: short_hash(json.as_str()) });
        if let Some(session) = session_in(json) {
            value["sessionId"] = json!(session);
        }
        value
    })
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn ten_thousand_sessions_stay_in_bounded_memory() {
        for is_replay in [true, false] {
            // The directory does not exist, so that the recording is not saved.
            let recording = Recording::new(std::path::Path::new("no/such/directory/r.jsonl"));
            let mut state = State::new(recording, !is_replay, false);
            let params = json!({ "cwd": "/w", "mcpServers": [{ "name": "m", "id": "m" }] });
            let mut ends = Vec::new();
            for number in 0..MAX_LANES + 50 {
                let answer = format!("{{\"sessionId\":\"s{number}\"}}");
                let answer = Ok(Json::trusted(answer));
                match state.route("session/new", &params) {
                    Route::Start(id, _) => {
                        let (sender, receiver) = unbounded_channel();
                        ends.push(receiver);
                        state.start(id, sender);
                        state.on_answer(id, "session/new", &answer);
                    }
                    Route::Live(id, request) => {
                        state.record_answer(id, request, "session/new", &answer);
                    }
                    _ => panic!("a new session is replayed or recorded"),
                }
            }
            assert_eq!(state.count(), MAX_LANES);
            assert_eq!((state.sessions.len(), state.lane_sessions.len()), (MAX_LANES, MAX_LANES));
            assert_eq!((state.setups.len(), state.servers.len()), (0, 1));
            assert!(state.session("s49").is_none() && state.session("s50").is_some());
            // The tasks of the sessions that are forgotten end.
            let ended = ends.iter_mut().filter_map(|it| it.try_recv().ok());
            assert_eq!(ended.count(), if is_replay { 50 } else { 0 });
            // The ids that the agent knows are forgotten with their session.
            let lane = Lane::new("acp-1", Names::default());
            state.go_live(state.sessions["s50"], lane, Some(("s50", "of the agent")));
            state.forget(state.sessions["s50"]);
            assert!(state.agent_ids.is_empty() && state.editor_ids.is_empty());
            // A request of a forgotten session has an error in a replay.
            let route = state.route("session/prompt", &json!({ "sessionId": "s0", "prompt": [] }));
            assert!(matches!(route, Route::Unknown | Route::Pass));
            assert_eq!(matches!(route, Route::Unknown), is_replay);
        }
    }

    /// Halves of surrogate pairs, numbers of any size, and any depth.
    #[test]
    fn what_is_no_value_is_recorded_as_it_is() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let recording = Recording::new(std::path::Path::new("no/such/directory/r.jsonl"));
        let mut state = State::new(recording, true, false);
        let route = state.route("session/new", &json!({ "cwd": "/w" }));
        let Route::Live(id, number) = route else { panic!("it is recorded") };
        let answer = Ok(Json::trusted(r#"{"sessionId":"s"}"#));
        state.record_answer(id, number, "session/new", &answer);
        let prompt = Json::trusted(r#"{"sessionId":"s","prompt":[{"text":"\ud83d"}]}"#);
        let route = state.route("session/prompt", &value(Some(&prompt)));
        let Route::Live(id, number) = route else { panic!("it is recorded") };
        let params = |session: &str| {
            let text = r#""\ud83d","n":123456789012345678901234567890"#;
            format!(r#"{{"sessionId":"{session}","text":{text},"deep":{deep}}}"#)
        };
        state.record_notification("session/update", Some(&Json::trusted(params("s"))));
        let answer = Ok(Json::trusted(r#"{"stopReason":"end_turn"}"#));
        state.record_answer(id, number, "session/prompt", &answer);
        let text = state.recording.text();
        assert!(text.contains(&params("$session:1")), "{text}");
        let read = Recording::parse(std::path::Path::new("r.jsonl"), &text).expect("valid");
        assert_eq!(read.text(), text);
        let mut names = Names::default();
        let decoded = names.decode_json(&params("$session:1"), &mut || "other".to_owned());
        assert_eq!(decoded, params("other"));
    }
}
