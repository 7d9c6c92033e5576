//! The agent: it streams updates, asks for permission, uses tools, and keeps its sessions on a disk
//! that outlives it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};
use mcp::ClientId;
use router::Time;

use crate::pen::{Pen, Serial, ends, json, number, serial, session, sets_up, text};
use crate::tool::{Progress, Tool};

/// How long it lingers, in milliseconds: longer than a restart takes.
pub const LINGER: u64 = 300;

#[derive(Debug, Clone, Copy, Default)]
pub struct Nature {
    pub load: bool,
    pub resume: bool,
    /// Speaks MCP over ACP.
    pub native: bool,
    /// Does not listen to cancellations, but finishes.
    pub deaf: bool,
    /// Does not listen to them and does not finish what lingers.
    pub stubborn: bool,
    /// Nothing reaches it that a guard has not stamped.
    pub guarded: bool,
}

#[derive(Debug, Default)]
pub struct Disk {
    last: usize,
    /// What was said in each session.
    history: BTreeMap<String, Vec<Json>>,
    /// Sessions that were closed, and not taken up since.
    pub closed: BTreeSet<String>,
    /// Requests for new sessions that were seen, by any life.
    seen: Vec<Serial>,
}

pub struct Agent {
    nature: Nature,
    disk: Rc<RefCell<Disk>>,
    greeted: bool,
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
    /// It was told that nobody wants it any more.
    pub called_off: bool,
}

#[derive(PartialEq)]
enum Wait {
    Nothing,
    Answer(Id),
    Tool,
    Until(Time),
    Ever,
}

impl Agent {
    pub fn new(nature: Nature, disk: Rc<RefCell<Disk>>) -> Agent {
        Agent {
            nature,
            disk,
            greeted: false,
            last: 0,
            sessions: BTreeMap::new(),
            turns: Vec::new(),
        }
    }

    pub fn hear(&mut self, message: Message, pen: &mut Pen<'_>) {
        match message {
            Message::Request { id, call } => self.on_request(id, &call, pen),
            Message::Notification(call) => self.on_notification(&call, pen),
            Message::Response { id, outcome, .. } => self.on_answer(&id, None, outcome, pen),
        }
        self.go_on(pen);
    }

    fn on_request(&mut self, id: Id, call: &Call, pen: &mut Pen<'_>) {
        let method = call.method.name().into_owned();
        let params = call.params.clone().unwrap_or(Json::EMPTY);
        let to = serial(&params);
        if method == "initialize" {
            if std::mem::replace(&mut self.greeted, true) {
                pen.wrong("the agent is initialized twice");
            }
            return pen.result(Side::Editor, id, to, &self.greeting());
        }
        if !self.greeted {
            pen.wrong(format!("the agent hears {method} before it was initialized"));
        }
        if sets_up(&method) {
            return self.set_up(id, &method, &params, pen);
        }
        match &*method {
            "_holder/look" => pen.result(Side::Editor, id, to, ""),
            "session/prompt" => self.on_prompt(id, &params, pen),
            "session/set_mode" => {
                if let Some(session) = self.check_session(&method, &params, pen) {
                    self.update(&session, r#""sessionUpdate":"current_mode_update","#, 0, pen);
                }
                pen.result(Side::Editor, id, to, "");
            }
            _ if ends(&method) => {
                // Who has not heard that it is closed asks again.
                if let Some(session) = session(Some(&params))
                    && let Some(mut tool) = self.sessions.remove(&session)
                {
                    tool.leave(&mut self.last, pen);
                    self.disk.borrow_mut().closed.insert(session);
                }
                pen.result(Side::Editor, id, to, "");
            }
            _ => pen.error(Side::Editor, id, to, code::METHOD_NOT_FOUND, "what is this?"),
        }
    }

    fn greeting(&self) -> String {
        let Nature { load, resume, native, .. } = self.nature;
        let resume = if resume { r#","sessionCapabilities":{"resume":{}}"# } else { "" };
        let native = if native { r#","mcpCapabilities":{"acp":true}"# } else { "" };
        format!(
            r#","protocolVersion":1,"agentCapabilities":{{"loadSession":{load}{resume}{native}}}"#
        )
    }

    fn set_up(&mut self, id: Id, method: &str, params: &Json, pen: &mut Pen<'_>) {
        let to = serial(params);
        if method == "session/new" {
            if let Some(to) = to {
                let mut disk = self.disk.borrow_mut();
                if disk.seen.contains(&to) {
                    pen.wrong(format!("the agent gets the session/new {to} again"));
                }
                disk.seen.push(to);
            }
            self.disk.borrow_mut().last += 1;
            let session = format!("S{}", self.disk.borrow().last);
            self.disk.borrow_mut().history.insert(session.clone(), Vec::new());
            self.sessions.insert(session.clone(), Tool::new(params));
            return pen.result(Side::Editor, id, to, &format!(r#","sessionId":"{session}""#));
        }
        let named = session(Some(params)).unwrap_or_default();
        // A conductor has no use for what was said before: nobody may hear it.
        let in_secret = id.text().is_some_and(|id| id.starts_with("r:"));
        let Some(history) = self.disk.borrow().history.get(&named).cloned() else {
            return pen.error(Side::Editor, id, to, -32002, "no such session");
        };
        if in_secret && self.sessions.contains_key(&named) {
            pen.wrong(format!("the agent is to take up session {named}, which it has"));
        }
        if method == "session/load" {
            for said in history {
                let said = match in_secret {
                    true => said.with_at(&["secret"], Some(&Json::TRUE)),
                    false => json(format!(
                        r#"{{"n":{},"sessionId":"{named}","update":{{"sessionUpdate":"agent_message_chunk"}},"again":true}}"#,
                        pen.fresh()
                    )),
                };
                pen.say(Side::Editor, Message::notification("session/update", said));
            }
        }
        self.disk.borrow_mut().closed.remove(&named);
        // What is, is said again.
        self.update(&named, r#""sessionUpdate":"current_mode_update","#, 0, pen);
        self.sessions.insert(named, Tool::new(params));
        pen.result(Side::Editor, id, to, "");
    }

    fn check_session(&self, method: &str, params: &Json, pen: &mut Pen<'_>) -> Option<String> {
        let session = session(Some(params))?;
        if !self.sessions.contains_key(&session) {
            pen.wrong(format!("the agent hears {method} of {session}, of which it was never told"));
        }
        Some(session)
    }

    fn on_prompt(&mut self, id: Id, params: &Json, pen: &mut Pen<'_>) {
        let Some(session) = self.check_session("session/prompt", params, pen) else { return };
        let serial = serial(params).unwrap_or_default();
        if self.nature.guarded && number(params, "guard") != Some(serial) {
            pen.wrong(format!("the prompt {serial} has passed the guard: {params:?}"));
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
            called_off: false,
        });
    }

    fn update(&mut self, session: &str, kind: &str, turn: Serial, pen: &mut Pen<'_>) {
        let update = json(format!(
            r#"{{"n":{},"sessionId":"{session}","update":{{{kind}"content":{{"type":"text","text":"…"}}}},"turn":{turn}}}"#,
            pen.fresh()
        ));
        if turn > 0
            && let Some(history) = self.disk.borrow_mut().history.get_mut(session)
        {
            history.push(update.clone());
        }
        pen.say(Side::Editor, Message::notification("session/update", update));
    }

    fn on_notification(&mut self, call: &Call, pen: &mut Pen<'_>) {
        let params = call.params.clone().unwrap_or(Json::EMPTY);
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
            turn.called_off = true;
        }
        if self.nature.deaf || self.nature.stubborn {
            return;
        }
        for turn in self.turns.extract_if(.., |turn| is_it(turn)).collect::<Vec<_>>() {
            let to = Some(turn.serial);
            match &*method {
                "session/cancel" => {
                    let stopped = r#","stopReason":"cancelled""#;
                    pen.result(Side::Editor, turn.id, to, stopped);
                }
                _ => pen.error(Side::Editor, turn.id, to, code::CANCELLED, "cancelled"),
            }
        }
    }

    /// The agent, or a client of it, is answered.
    pub fn on_answer(
        &mut self,
        id: &Id,
        client_id: Option<ClientId>,
        outcome: Outcome,
        pen: &mut Pen<'_>,
    ) {
        let found = self.sessions.iter_mut().find(|(_, tool)| tool.waits_for(id, client_id));
        if let Some((session, tool)) = found {
            let session = session.clone();
            let progress = tool.on_answer(outcome, &mut self.last, pen);
            self.tool_is(&session, progress);
        } else if client_id.is_none() {
            for turn in &mut self.turns {
                if turn.wait == Wait::Answer(id.clone()) {
                    turn.wait = Wait::Nothing;
                }
            }
        }
        self.go_on(pen);
    }

    fn tool_is(&mut self, session: &str, progress: Progress) {
        let word = match progress {
            Progress::Waits => return,
            Progress::Good => "good",
            Progress::Failed => "failed",
        };
        for turn in &mut self.turns {
            if turn.session == session && turn.wait == Wait::Tool {
                (turn.wait, turn.tool) = (Wait::Nothing, word);
            }
        }
    }

    /// The conductor has hung up on a client.
    pub fn on_hung_up(&mut self, client_id: ClientId, pen: &mut Pen<'_>) {
        let found = self.sessions.iter_mut().find(|(_, tool)| tool.client_id() == Some(client_id));
        if let Some((session, tool)) = found {
            let session = session.clone();
            if tool.on_hung_up() {
                self.tool_is(&session, Progress::Failed);
            }
        }
        self.go_on(pen);
    }

    pub fn wake(&mut self, pen: &mut Pen<'_>) {
        for turn in &mut self.turns {
            if matches!(turn.wait, Wait::Until(time) if time <= pen.now) {
                turn.wait = Wait::Nothing;
            }
        }
        self.go_on(pen);
    }

    pub fn alarm(&self) -> Option<Time> {
        let times = self.turns.iter().filter_map(|turn| match turn.wait {
            Wait::Until(time) => Some(time),
            _ => None,
        });
        times.min()
    }

    /// All turns go as far as they can.
    fn go_on(&mut self, pen: &mut Pen<'_>) {
        let mut turns = std::mem::take(&mut self.turns);
        for turn in &mut turns {
            while turn.wait == Wait::Nothing
                && let Some(step) = turn.steps.pop_front()
            {
                self.step(turn, step, pen);
            }
        }
        self.turns.extend(turns);
        let over = |turn: &mut Turn| turn.wait == Wait::Nothing && turn.steps.is_empty();
        for turn in self.turns.extract_if(.., over).collect::<Vec<_>>() {
            let Turn { updates, tool, .. } = turn;
            let rest = format!(r#","stopReason":"end_turn","updates":{updates},"tool":"{tool}""#);
            pen.result(Side::Editor, turn.id, Some(turn.serial), &rest);
        }
    }

    fn step(&mut self, turn: &mut Turn, step: char, pen: &mut Pen<'_>) {
        match step {
            'u' => {
                turn.updates += 1;
                let kind = r#""sessionUpdate":"agent_message_chunk","#;
                self.update(&turn.session, kind, turn.serial, pen);
            }
            // One that proxies of older generations cannot read. It is not part of the history.
            'x' => {
                turn.updates += 1;
                let (n, session, turn) = (pen.fresh(), &turn.session, turn.serial);
                let update = r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#;
                let params = json(format!(
                    r#"{{"n":{n},"sessionId":"{session}","update":{update},"turn":{turn}}}"#
                ));
                pen.say(Side::Editor, Message::notification("session/update", params));
            }
            'p' => {
                self.last += 1;
                let id = Id::from(self.last);
                let params =
                    json(format!(r#"{{"n":{},"sessionId":"{}"}}"#, pen.fresh(), turn.session));
                turn.wait = Wait::Answer(id.clone());
                let message = Message::request(id, "session/request_permission", params);
                pen.say(Side::Editor, message);
            }
            't' => {
                let Some(tool) = self.sessions.get_mut(&turn.session) else { return };
                match tool.begin(&mut self.last, pen) {
                    Progress::Waits => turn.wait = Wait::Tool,
                    Progress::Good | Progress::Failed => turn.tool = "failed",
                }
            }
            'l' if self.nature.stubborn => turn.wait = Wait::Ever,
            'l' => turn.wait = Wait::Until(pen.now.plus(LINGER)),
            other => pen.wrong(format!("no agent does {other:?}")),
        }
    }

    /// The process ends: these clients end with it.
    pub fn client_ids(&self) -> Vec<ClientId> {
        self.sessions.values().filter_map(Tool::client_id).collect()
    }
}
