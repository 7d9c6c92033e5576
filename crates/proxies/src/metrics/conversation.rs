//! What passes the component at its own place in the chain: sizes, turns, tool calls, tokens and sessions.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use acp_proxy::{Call, Id, Json, Message, Outcome, Side};
use acp_wire::acp;

use super::labels::{self, MessageKind, MethodNumber, Methods, OTHER, PermissionRequest};
use super::registry::{Named, Registry, SeriesId};
use component_base::agents::AgentInfo;
use component_base::sessions::{DEFAULT_LIMIT, Sessions, text};
use component_base::usage::{Certainty, Delta, MessageMeter};

/// How many requests may be open. Further ones are not measured.
const MAX_OPEN: usize = 10_000;

/// How many tool calls of a session may be open. Further ones are not measured.
const MAX_CALLS: usize = 256;

/// How many names of agents are distinguished. A chain has one agent, which may be replaced by another version.
const MAX_AGENTS: usize = 8;

/// The longest name of an agent, in bytes.
const MAX_AGENT_NAME: usize = 64;

/// The longest name of a currency, in bytes.
const MAX_CURRENCY: usize = 16;

const STOP_REASONS: [&str; 6] =
    ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"];

const TOOL_KINDS: [&str; 9] =
    ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"];

/// The statuses with which a tool call ends.
const FINAL: [&str; 3] = ["completed", "failed", "cancelled"];

/// The state of the conversation that passes the component.
#[derive(Debug)]
pub(super) struct Conversation {
    /// The open requests, by the side that has sent them.
    open: BTreeMap<(Side, Id), OpenRequest>,
    sessions: Sessions<SessionState>,
    /// How many turns wait for the first text of the agent.
    without_text: usize,
    /// The histograms of sizes, by method and side.
    sizes: HashMap<(MethodNumber, Side), Option<SeriesId>>,
    usage: MessageMeter,
    /// The name of the agent, as a label.
    agent: String,
    agents: Vec<String>,
    is_v2: bool,
    /// Whether permission requests are counted here, because the chain is not observed.
    pub(super) counts_permissions: bool,
}

impl Default for Conversation {
    fn default() -> Conversation {
        Conversation {
            open: BTreeMap::new(),
            sessions: Sessions::new(DEFAULT_LIMIT),
            without_text: 0,
            sizes: HashMap::new(),
            usage: MessageMeter::default(),
            agent: "unknown".to_owned(),
            agents: Vec::new(),
            is_v2: false,
            counts_permissions: true,
        }
    }
}

#[derive(Debug)]
struct OpenRequest {
    method: MethodNumber,
    since: Instant,
    purpose: Purpose,
}

/// What is measured when a request is answered, besides its duration.
#[derive(Debug)]
enum Purpose {
    Plain,
    Initialize,
    /// Sets up this session, or one that the agent names in the answer.
    SetUp(Option<String>),
    Prompt(String),
    Close(String),
    Permission(PermissionRequest),
}

#[derive(Debug, Default)]
struct SessionState {
    turn: Option<Turn>,
    /// The tool calls that have not ended, by the hash of their id: the kind and the start.
    calls: HashMap<u64, (&'static str, Instant)>,
    /// How full the context window is: from 0 to 1.
    context: Option<f64>,
    /// Whether the session is being loaded. The agent then repeats earlier messages.
    is_loading: bool,
}

#[derive(Debug)]
struct Turn {
    since: Instant,
    has_text: bool,
}

/// A message that has passed.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) method: MethodNumber,
    pub(super) kind: MessageKind,
    /// For an answer to a known request: when the request came.
    pub(super) requested: Option<Instant>,
}

impl Conversation {
    /// The state after a restart: what the agent has reported so far is known, and is not counted again.
    pub(super) fn restarted(self) -> Conversation {
        let Conversation { mut usage, agent, agents, .. } = self;
        usage.restart();
        Conversation { usage, agent, agents, ..Conversation::default() }
    }

    /// Measures a message from this side.
    pub(super) fn pass(
        &mut self,
        registry: &mut Registry,
        methods: &mut Methods,
        from: Side,
        message: &Message,
        now: Instant,
    ) -> Passed {
        if let Some(delta) = self.usage.observe(from, message) {
            self.count_usage(registry, &delta);
        }
        let passed = match message {
            Message::Request { id, call } => {
                let method = methods.number(call);
                self.on_request(registry, (from, id), method, call, now);
                Passed { method, kind: MessageKind::Request, requested: None }
            }
            Message::Notification(call) => {
                if from == Side::Agent && call.is("session/update") {
                    self.on_update(registry, call, now);
                }
                let method = methods.number(call);
                Passed { method, kind: MessageKind::Notification, requested: None }
            }
            Message::Response { id, outcome, .. } => {
                let request = self.open.remove(&(from.opposite(), id.detached()));
                let (method, requested) = match &request {
                    Some(request) => (request.method, Some(request.since)),
                    None => (OTHER, None),
                };
                if let Some(OpenRequest { purpose, since, .. }) = request {
                    self.on_answer(registry, purpose, outcome, since, now);
                }
                Passed { method, kind: MessageKind::of(outcome), requested }
            }
        };
        let size = self.sizes.entry((passed.method, from)).or_insert_with(|| {
            let labels = [("method", methods.name(passed.method)), ("from", labels::side(from))];
            registry.series(Named::MessageBytes, &labels)
        });
        if let Some(series) = *size {
            registry.observe(series, message.size() as f64);
        }
        passed
    }

    fn on_request(
        &mut self,
        registry: &mut Registry,
        (from, id): (Side, &Id),
        method: MethodNumber,
        call: &Call,
        now: Instant,
    ) {
        let name = call.method.name();
        let session = || text(call.params.as_ref(), "sessionId");
        let purpose = match (from, &*name) {
            (Side::Editor, "initialize") => Purpose::Initialize,
            (Side::Editor, "session/new" | "session/fork") => Purpose::SetUp(None),
            (Side::Editor, "session/load" | "session/resume") => {
                let session = session();
                if let Some(id) = &session {
                    self.sessions.with(id, |it| it.state.is_loading = true);
                }
                Purpose::SetUp(session)
            }
            (Side::Editor, "session/prompt") => match session() {
                Some(session) => {
                    self.begin_turn(&session, now);
                    Purpose::Prompt(session)
                }
                None => Purpose::Plain,
            },
            (Side::Editor, "session/close" | "session/delete") => {
                session().map_or(Purpose::Plain, Purpose::Close)
            }
            (Side::Agent, "session/request_permission") if self.counts_permissions => {
                PermissionRequest::read(call).map_or(Purpose::Plain, Purpose::Permission)
            }
            _ => Purpose::Plain,
        };
        if self.open.len() >= MAX_OPEN {
            return registry.count_dropped();
        }
        let request = OpenRequest { method, since: now, purpose };
        self.open.insert((from, id.detached()), request);
    }

    fn on_answer(
        &mut self,
        registry: &mut Registry,
        purpose: Purpose,
        outcome: &Outcome,
        since: Instant,
        now: Instant,
    ) {
        match (purpose, outcome) {
            (Purpose::Initialize, Outcome::Result(answer)) => self.on_initialized(answer),
            (Purpose::SetUp(asked), Outcome::Result(answer)) => {
                if let Some(id) = text(Some(answer), "sessionId").or(asked) {
                    self.sessions.with(&id, |it| it.state.is_loading = false);
                }
            }
            (Purpose::SetUp(Some(asked)), Outcome::Error(_)) => {
                self.sessions.close(&asked);
            }
            (Purpose::Prompt(session), Outcome::Error(_)) => {
                self.end_turn(registry, &session, "error", now);
            }
            // In ACP version 2 the answer accepts the prompt, and an update ends the turn.
            (Purpose::Prompt(session), Outcome::Result(answer)) if !self.is_v2 => {
                let reason = text(Some(answer), "stopReason").unwrap_or_default();
                self.end_turn(registry, &session, &reason, now);
            }
            (Purpose::Close(session), Outcome::Result(_)) => {
                // The agent may answer the prompt later, or never.
                self.end_turn(registry, &session, "cancelled", now);
                self.sessions.close(&session);
            }
            (Purpose::Permission(request), outcome) => {
                let labels = [("decision", request.decision(outcome)), ("by", "unknown")];
                registry.count(Named::PermissionRequests, &labels, 1.0);
                registry.record(Named::PermissionWait, &labels, (now - since).as_secs_f64());
            }
            _ => {}
        }
    }

    fn on_initialized(&mut self, answer: &Json) {
        self.is_v2 = acp::selects_v2(answer);
        let info = AgentInfo::of_answer(answer);
        let name = &info.name[..info.name.floor_char_boundary(MAX_AGENT_NAME)];
        let name = if name.is_empty() { "unknown" } else { name };
        if !self.agents.iter().any(|it| it == name) {
            if self.agents.len() >= MAX_AGENTS {
                return;
            }
            self.agents.push(name.to_owned());
        }
        self.agent = name.to_owned();
    }

    fn begin_turn(&mut self, session: &str, now: Instant) {
        let before = self
            .sessions
            .with(session, |it| it.state.turn.replace(Turn { since: now, has_text: false }));
        self.without_text += usize::from(before.is_none_or(|turn| turn.has_text));
    }

    fn end_turn(&mut self, registry: &mut Registry, session: &str, reason: &str, now: Instant) {
        // The session may be closed already.
        let ended = self
            .sessions
            .with_known(session, |it| (it.state.turn.take(), std::mem::take(&mut it.state.calls)));
        let (turn, calls) = ended.unwrap_or_default();
        for (kind, since) in calls.into_values() {
            count_call(registry, kind, "unfinished", since, now);
        }
        let Some(turn) = turn else { return };
        self.without_text = self.without_text.saturating_sub(usize::from(!turn.has_text));
        let reason = labels::one_of(reason, &STOP_REASONS);
        let labels = [("agent", self.agent.as_str()), ("stop_reason", reason)];
        registry.record(Named::TurnDuration, &labels, (now - turn.since).as_secs_f64());
    }

    fn on_update(&mut self, registry: &mut Registry, call: &Call, now: Instant) {
        let Some(params) = &call.params else { return };
        let Some(update) = params.member("update") else { return };
        let kind = update.member("sessionUpdate");
        let kind = kind.as_ref().and_then(Json::text).unwrap_or_default();
        let session = || {
            let session = text(Some(params), "sessionId")?;
            let is_loading = self.sessions.with_known(&session, |it| it.state.is_loading);
            (is_loading != Some(true)).then_some(session)
        };
        match &*kind {
            "agent_message_chunk" | "agent_message" if self.without_text > 0 => {
                if let Some(session) = session() {
                    self.on_text(registry, &session, now);
                }
            }
            "tool_call" | "tool_call_update" => {
                if let Some(session) = session() {
                    self.on_tool_call(registry, &session, &update, now);
                }
            }
            "usage_update" => {
                let number = |key| update.member(key)?.as_str().parse::<f64>().ok();
                if let (Some(session), Some(used), Some(size)) =
                    (session(), number("used"), number("size"))
                    && size > 0.0
                {
                    self.sessions.with_known(&session, |it| it.state.context = Some(used / size));
                }
            }
            "state_update" if update.member("state").is_some_and(|it| it.equals_text("idle")) => {
                if let Some(session) = session() {
                    let reason = text(Some(&update), "stopReason").unwrap_or_default();
                    self.end_turn(registry, &session, &reason, now);
                }
            }
            _ => {}
        }
    }

    fn on_text(&mut self, registry: &mut Registry, session: &str, now: Instant) {
        let waited = self.sessions.with_known(session, |it| {
            let turn = it.state.turn.as_mut().filter(|turn| !turn.has_text)?;
            turn.has_text = true;
            Some(now - turn.since)
        });
        if let Some(waited) = waited.flatten() {
            self.without_text = self.without_text.saturating_sub(1);
            let labels = [("agent", self.agent.as_str())];
            registry.record(Named::TurnFirstText, &labels, waited.as_secs_f64());
        }
    }

    fn on_tool_call(&self, registry: &mut Registry, session: &str, update: &Json, now: Instant) {
        let Some(id) = text(Some(update), "toolCallId") else { return };
        // Ids are long, and there may be many sessions with many calls.
        let id = hash(&id);
        let kind = text(Some(update), "kind").map(|it| labels::one_of(&it, &TOOL_KINDS));
        let status = text(Some(update), "status").unwrap_or_default();
        let ended = FINAL.iter().find(|it| **it == status);
        let call = self.sessions.with_known(session, |it| {
            let calls = &mut it.state.calls;
            let is_lost = calls.len() >= MAX_CALLS && !calls.contains_key(&id);
            if is_lost {
                return (None, true);
            }
            let call = calls.entry(id).or_insert((kind.unwrap_or("other"), now));
            call.0 = kind.unwrap_or(call.0);
            (ended.and_then(|_| calls.remove(&id)), false)
        });
        let (call, is_lost) = call.unwrap_or_default();
        if is_lost {
            registry.count_dropped();
        }
        if let (Some((kind, since)), Some(status)) = (call, ended) {
            count_call(registry, kind, status, since, now);
        }
    }

    fn count_usage(&self, registry: &mut Registry, delta: &Delta) {
        let agent = self.agent.as_str();
        let exact = |certainty| if certainty == Certainty::Exact { "true" } else { "false" };
        let kinds = delta.tokens.map(|tokens| tokens.kinds()).into_iter().flatten();
        for (kind, count) in kinds.filter(|(_, count)| *count > 0) {
            let labels =
                [("agent", agent), ("type", kind), ("exact", exact(delta.tokens_certainty))];
            registry.count(Named::Tokens, &labels, count as f64);
        }
        if let Some(cost) = &delta.cost {
            let is_short = cost.currency.len() <= MAX_CURRENCY;
            let currency = if is_short { cost.currency.as_str() } else { "other" };
            let labels = [("agent", agent), ("currency", currency)];
            registry.count(Named::Cost, &labels, cost.micros as f64);
        }
    }

    /// Sets the gauges, before the metrics are written.
    pub(super) fn update_gauges(&self, registry: &mut Registry) {
        let mut fullest: Option<f64> = None;
        self.sessions.for_each(|_, session| {
            fullest = [fullest, session.state.context].into_iter().flatten().reduce(f64::max);
        });
        registry.gauge(Named::Sessions, &[], self.sessions.count() as f64);
        // Without open sessions there is no value.
        registry.clear(Named::ContextUsed);
        if let Some(fullest) = fullest {
            registry.gauge(Named::ContextUsed, &[("agent", &self.agent)], fullest);
        }
    }

    /// How many sessions are known.
    pub(super) fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// How many requests are open, for tests.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn count_call(
    registry: &mut Registry,
    kind: &'static str,
    status: &str,
    since: Instant,
    now: Instant,
) {
    let labels = [("tool_kind", kind), ("status", status)];
    registry.count(Named::ToolCalls, &labels, 1.0);
    registry.record(Named::ToolCallDuration, &labels, (now - since).as_secs_f64());
}
