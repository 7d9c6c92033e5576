//! The agent. It streams updates, requests permissions, uses tools, and stores its sessions on a disk that survives its
//! restart.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};
use mcp::ClientId;
use router::Time;

use crate::outbox::{Outbox, Serial, ends, json, number, serial, session, sets_up, text};
use crate::tool::{Progress, Tool};

/// The duration of a pause in a turn, in milliseconds. A restart is faster.
pub const PAUSE: u64 = 300;

/// The capabilities of an agent, and how it reacts to cancellations.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentTraits {
    pub load: bool,
    pub resume: bool,
    /// Supports MCP over ACP.
    pub native: bool,
    /// Ignores cancellations, and finishes its turns.
    pub ignores_cancel: bool,
    /// Ignores cancellations, and never finishes a turn with a pause.
    pub never_stops: bool,
    /// Whether every prompt has to pass a guard.
    pub guarded: bool,
}

/// What survives a restart of the agent.
#[derive(Debug, Default)]
pub struct Disk {
    last: usize,
    /// The updates of each session.
    history: BTreeMap<String, Vec<Json>>,
    /// Sessions that were closed and not loaded since.
    pub closed: BTreeSet<String>,
    /// The `session/new` requests that any process of the agent has received.
    seen: Vec<Serial>,
}

pub struct Agent {
    traits: AgentTraits,
    disk: Rc<RefCell<Disk>>,
    initialized: bool,
    last: u64,
    sessions: BTreeMap<String, Tool>,
    pub turns: Vec<Turn>,
}

pub struct Turn {
    pub id: Id,
    serial: Serial,
    session: String,
    steps: VecDeque<char>,
    wait: Wait,
    updates: usize,
    tool: &'static str,
    /// Whether it was cancelled.
    pub cancelled: bool,
}

#[derive(PartialEq)]
enum Wait {
    Nothing,
    Answer(Id),
    Tool,
    Until(Time),
    Forever,
}

impl Agent {
    pub fn new(traits: AgentTraits, disk: Rc<RefCell<Disk>>) -> Agent {
        Agent {
            traits,
            disk,
            initialized: false,
            last: 0,
            sessions: BTreeMap::new(),
            turns: Vec::new(),
        }
    }

    pub fn receive(&mut self, message: Message, outbox: &mut Outbox<'_>) {
        match message {
            Message::Request { id, call } => self.on_request(id, &call, outbox),
            Message::Notification(call) => self.on_notification(&call, outbox),
            Message::Response { id, outcome, .. } => self.on_answer(&id, None, outcome, outbox),
        }
        self.continue_work(outbox);
    }

    fn on_request(&mut self, id: Id, call: &Call, outbox: &mut Outbox<'_>) {
        let method = call.method.name().into_owned();
        let params = call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
        let to = serial(&params);
        if method == "initialize" {
            if std::mem::replace(&mut self.initialized, true) {
                outbox.violation("the agent is initialized twice");
            }
            return outbox.result(Side::Editor, id, to, &self.greeting());
        }
        if !self.initialized {
            outbox.violation(format!("the agent gets {method} before it was initialized"));
        }
        if sets_up(&method) {
            return self.set_up(id, &method, &params, outbox);
        }
        match &*method {
            "_holder/look" => outbox.result(Side::Editor, id, to, ""),
            "session/prompt" => self.on_prompt(id, &params, outbox),
            "session/set_mode" => {
                if let Some(session) = self.check_session(&method, &params, outbox) {
                    self.update(&session, r#""sessionUpdate":"current_mode_update","#, 0, outbox);
                }
                outbox.result(Side::Editor, id, to, "");
            }
            _ if ends(&method) => {
                // A component that did not get the answer sends the request again.
                if let Some(session) = session(Some(&params))
                    && let Some(mut tool) = self.sessions.remove(&session)
                {
                    tool.disconnect(&mut self.last, outbox);
                    self.disk.borrow_mut().closed.insert(session);
                }
                outbox.result(Side::Editor, id, to, "");
            }
            _ => outbox.error(Side::Editor, id, to, code::METHOD_NOT_FOUND, "unknown method"),
        }
    }

    fn greeting(&self) -> String {
        let AgentTraits { load, resume, native, .. } = self.traits;
        let resume = if resume { r#","sessionCapabilities":{"resume":{}}"# } else { "" };
        let native = if native { r#","mcpCapabilities":{"acp":true}"# } else { "" };
        format!(
            r#","protocolVersion":1,"agentCapabilities":{{"loadSession":{load}{resume}{native}}}"#
        )
    }

    fn set_up(&mut self, id: Id, method: &str, params: &Json, outbox: &mut Outbox<'_>) {
        let to = serial(params);
        if method == "session/new" {
            if let Some(to) = to {
                let mut disk = self.disk.borrow_mut();
                if disk.seen.contains(&to) {
                    outbox.violation(format!("the agent gets the session/new {to} again"));
                }
                disk.seen.push(to);
            }
            self.disk.borrow_mut().last += 1;
            let session = format!("S{}", self.disk.borrow().last);
            self.disk.borrow_mut().history.insert(session.clone(), Vec::new());
            self.sessions.insert(session.clone(), Tool::new(params));
            return outbox.result(Side::Editor, id, to, &format!(r#","sessionId":"{session}""#));
        }
        let named = session(Some(params)).unwrap_or_default();
        // In a replay by the conductor, no other participant may receive the history.
        let is_replay = id.text().is_some_and(|id| id.starts_with("r:"));
        let Some(history) = self.disk.borrow().history.get(&named).cloned() else {
            return outbox.error(Side::Editor, id, to, -32002, "no such session");
        };
        if is_replay && self.sessions.contains_key(&named) {
            outbox
                .violation(format!("the agent has to load session {named}, which it already has"));
        }
        if method == "session/load" {
            for update in history {
                let update = match is_replay {
                    true => update.with_at(&["secret"], Some(&Json::TRUE)),
                    false => json(format!(
                        r#"{{"n":{},"sessionId":"{named}","update":{{"sessionUpdate":"agent_message_chunk"}},"again":true}}"#,
                        outbox.next_serial()
                    )),
                };
                outbox.send(Side::Editor, Message::notification("session/update", update));
            }
        }
        self.disk.borrow_mut().closed.remove(&named);
        // The agent reports the state of the session again.
        self.update(&named, r#""sessionUpdate":"current_mode_update","#, 0, outbox);
        self.sessions.insert(named, Tool::new(params));
        outbox.result(Side::Editor, id, to, "");
    }

    fn check_session(
        &self,
        method: &str,
        params: &Json,
        outbox: &mut Outbox<'_>,
    ) -> Option<String> {
        let session = session(Some(params))?;
        if !self.sessions.contains_key(&session) {
            outbox.violation(format!(
                "the agent gets {method} for {session}, which was never set up"
            ));
        }
        Some(session)
    }

    fn on_prompt(&mut self, id: Id, params: &Json, outbox: &mut Outbox<'_>) {
        let Some(session) = self.check_session("session/prompt", params, outbox) else { return };
        let serial = serial(params).unwrap_or_default();
        if self.traits.guarded && number(params, "guard") != Some(serial) {
            outbox.violation(format!("the prompt {serial} was routed past the guard: {params:?}"));
        }
        let steps = text(params, &["do"]).unwrap_or_default().chars().collect();
        self.turns.push(Turn {
            id,
            serial,
            session,
            steps,
            wait: Wait::Nothing,
            updates: 0,
            tool: "none",
            cancelled: false,
        });
    }

    fn update(&mut self, session: &str, kind: &str, turn: Serial, outbox: &mut Outbox<'_>) {
        let update = json(format!(
            r#"{{"n":{},"sessionId":"{session}","update":{{{kind}"content":{{"type":"text","text":"…"}}}},"turn":{turn}}}"#,
            outbox.next_serial()
        ));
        if turn > 0
            && let Some(history) = self.disk.borrow_mut().history.get_mut(session)
        {
            history.push(update.clone());
        }
        outbox.send(Side::Editor, Message::notification("session/update", update));
    }

    fn on_notification(&mut self, call: &Call, outbox: &mut Outbox<'_>) {
        let params = call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
        let method = call.method.name();
        let is_it: Box<dyn Fn(&Turn) -> bool> = match &*method {
            "session/cancel" => {
                let session = session(Some(&params)).unwrap_or_default();
                Box::new(move |turn| turn.session == session)
            }
            acp::CANCEL_REQUEST => {
                let id = acp::cancelled_id(&params);
                Box::new(move |turn| Some(&turn.id) == id.as_ref())
            }
            _ => return,
        };
        for turn in self.turns.iter_mut().filter(|turn| is_it(turn)) {
            turn.cancelled = true;
        }
        if self.traits.ignores_cancel || self.traits.never_stops {
            return;
        }
        for turn in self.turns.extract_if(.., |turn| is_it(turn)).collect::<Vec<_>>() {
            let to = Some(turn.serial);
            match &*method {
                "session/cancel" => {
                    let stopped = r#","stopReason":"cancelled""#;
                    outbox.result(Side::Editor, turn.id, to, stopped);
                }
                _ => outbox.error(Side::Editor, turn.id, to, code::CANCELLED, "cancelled"),
            }
        }
    }

    /// Handles an answer to the agent, or to one of its MCP clients.
    pub fn on_answer(
        &mut self,
        id: &Id,
        client_id: Option<ClientId>,
        outcome: Outcome,
        outbox: &mut Outbox<'_>,
    ) {
        let found = self.sessions.iter_mut().find(|(_, tool)| tool.waits_for(id, client_id));
        if let Some((session, tool)) = found {
            let session = session.clone();
            let progress = tool.on_answer(outcome, &mut self.last, outbox);
            self.finish_tool_call(&session, progress);
        } else if client_id.is_none() {
            for turn in &mut self.turns {
                if turn.wait == Wait::Answer(id.clone()) {
                    turn.wait = Wait::Nothing;
                }
            }
        }
        self.continue_work(outbox);
    }

    fn finish_tool_call(&mut self, session: &str, progress: Progress) {
        let result = match progress {
            Progress::Pending => return,
            Progress::Succeeded => "good",
            Progress::Failed => "failed",
        };
        for turn in &mut self.turns {
            if turn.session == session && turn.wait == Wait::Tool {
                (turn.wait, turn.tool) = (Wait::Nothing, result);
            }
        }
    }

    /// The conductor has closed the connection of a client.
    pub fn on_disconnected(&mut self, client_id: ClientId, outbox: &mut Outbox<'_>) {
        let found = self.sessions.iter_mut().find(|(_, tool)| tool.client_id() == Some(client_id));
        if let Some((session, tool)) = found {
            let session = session.clone();
            if tool.on_disconnected() {
                self.finish_tool_call(&session, Progress::Failed);
            }
        }
        self.continue_work(outbox);
    }

    pub fn wake(&mut self, outbox: &mut Outbox<'_>) {
        for turn in &mut self.turns {
            if matches!(turn.wait, Wait::Until(time) if time <= outbox.now) {
                turn.wait = Wait::Nothing;
            }
        }
        self.continue_work(outbox);
    }

    pub fn next_timer(&self) -> Option<Time> {
        let times = self.turns.iter().filter_map(|turn| match turn.wait {
            Wait::Until(time) => Some(time),
            _ => None,
        });
        times.min()
    }

    /// Continues all turns until they have to wait.
    fn continue_work(&mut self, outbox: &mut Outbox<'_>) {
        let mut turns = std::mem::take(&mut self.turns);
        for turn in &mut turns {
            while turn.wait == Wait::Nothing
                && let Some(step) = turn.steps.pop_front()
            {
                self.step(turn, step, outbox);
            }
        }
        self.turns.extend(turns);
        let is_finished = |turn: &mut Turn| turn.wait == Wait::Nothing && turn.steps.is_empty();
        for turn in self.turns.extract_if(.., is_finished).collect::<Vec<_>>() {
            let Turn { updates, tool, .. } = turn;
            let rest = format!(r#","stopReason":"end_turn","updates":{updates},"tool":"{tool}""#);
            outbox.result(Side::Editor, turn.id, Some(turn.serial), &rest);
        }
    }

    fn step(&mut self, turn: &mut Turn, step: char, outbox: &mut Outbox<'_>) {
        match step {
            'u' => {
                turn.updates += 1;
                let kind = r#""sessionUpdate":"agent_message_chunk","#;
                self.update(&turn.session, kind, turn.serial, outbox);
            }
            // An update that proxies of older generations cannot read. It is not part of the history.
            'x' => {
                turn.updates += 1;
                let (n, session, turn) = (outbox.next_serial(), &turn.session, turn.serial);
                let update = r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#;
                let params = json(format!(
                    r#"{{"n":{n},"sessionId":"{session}","update":{update},"turn":{turn}}}"#
                ));
                outbox.send(Side::Editor, Message::notification("session/update", params));
            }
            'p' => {
                self.last += 1;
                let id = Id::from(self.last);
                let params = json(format!(
                    r#"{{"n":{},"sessionId":"{}"}}"#,
                    outbox.next_serial(),
                    turn.session
                ));
                turn.wait = Wait::Answer(id.clone());
                let message = Message::request(id, "session/request_permission", params);
                outbox.send(Side::Editor, message);
            }
            't' => {
                let Some(tool) = self.sessions.get_mut(&turn.session) else { return };
                match tool.begin(&mut self.last, outbox) {
                    Progress::Pending => turn.wait = Wait::Tool,
                    Progress::Succeeded | Progress::Failed => turn.tool = "failed",
                }
            }
            's' => outbox.show_panel(),
            'l' if self.traits.never_stops => turn.wait = Wait::Forever,
            'l' => turn.wait = Wait::Until(outbox.now.plus(PAUSE)),
            other => outbox.violation(format!("there is no step {other:?}")),
        }
    }

    /// The MCP clients, which end with the process of the agent.
    pub fn client_ids(&self) -> Vec<ClientId> {
        self.sessions.values().filter_map(Tool::client_id).collect()
    }
}
