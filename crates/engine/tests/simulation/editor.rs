//! The editor. It follows a script. When a request fails, it does what the error message advises, and sends the request
//! again.

use std::collections::{BTreeMap, VecDeque};

use acp_wire::config::CONFIG;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};

use crate::outbox::{
    Outbox, SHOW_PANEL, Serial, USE_PANEL, is_mcp, json, key, number, serial, text,
};

/// One step of a script. A slot is the number of a session in the script.
#[derive(Debug, Clone, PartialEq)]
pub enum EditorAction {
    Initialize,
    New(usize),
    /// Loads the session that was closed in this slot.
    Load(usize),
    /// Sends a prompt. `plan` tells the agent what to do (see `agent`). `must_succeed`: a failure is an error of the core.
    Prompt {
        slot: usize,
        plan: String,
        must_succeed: bool,
    },
    Mode(usize),
    /// Sets the options of the component with this number. It may fail: a component may take no options.
    SetOptions(usize),
    /// `session/cancel`
    CancelSession(usize),
    /// `$/cancel_request` of the last open prompt.
    CancelRequest,
    Close(usize),
    /// Waits until the prompt of this slot has its first update, or is answered.
    WaitForUpdate(usize),
    /// Waits until all requests are answered.
    Wait,
}

/// A request that is not answered.
#[derive(Debug)]
struct PendingRequest {
    action: EditorAction,
    serial: Serial,
    session: Option<String>,
    cancelled: bool,
    /// How many failures had happened when it was sent.
    failures: usize,
}

#[derive(Debug, Default)]
pub struct Editor {
    script: VecDeque<EditorAction>,
    slots: BTreeMap<usize, String>,
    past: BTreeMap<usize, String>,
    open: BTreeMap<String, PendingRequest>,
    last: u64,
    /// Updates, by the prompt that they belong to.
    updates: BTreeMap<Serial, usize>,
    attempts: usize,
    /// Whether the chain has an MCP server.
    pub tools: bool,
    /// Whether a component crashes again after each restart. Then any request may fail, but not forever.
    pub tolerates_failures: bool,
    /// Whether the outer pipe is a conductor.
    pub outer: bool,
    /// Whether `initialize` was answered.
    pub initialized: bool,
    /// Whether it has stopped after a failed `initialize`.
    pub gave_up: bool,
    /// How many prompts ended normally.
    pub successful_prompts: usize,
}

/// How often a request is repeated.
const MAX_ATTEMPTS: usize = 40;

impl Editor {
    pub fn append_script(&mut self, acts: impl IntoIterator<Item = EditorAction>) {
        self.script.extend(acts);
    }

    pub fn slots(&self) -> Vec<usize> {
        self.slots.keys().copied().collect()
    }

    pub fn is_done(&self) -> bool {
        self.script.is_empty()
    }

    /// Performs the steps of the script until one has to wait.
    pub fn continue_work(&mut self, outbox: &mut Outbox<'_>) {
        while let Some(act) = self.script.front() {
            if outbox.is_ending || self.gave_up {
                return self.script.clear();
            }
            let waits = match act {
                EditorAction::Wait => !self.open.is_empty(),
                EditorAction::WaitForUpdate(slot) => self.open.values().any(|pending| {
                    matches!(&pending.action, EditorAction::Prompt { slot: it, .. } if it == slot)
                        && !self.updates.contains_key(&pending.serial)
                }),
                _ => false,
            };
            if waits {
                return;
            }
            if let Some(act) = self.script.pop_front() {
                self.act(act, outbox);
            }
        }
    }

    pub fn act(&mut self, action: EditorAction, outbox: &mut Outbox<'_>) {
        let n = outbox.next_serial();
        let of_slot = |slot: &usize| self.slots.get(slot).cloned();
        let (method, session, rest) = match &action {
            EditorAction::Wait | EditorAction::WaitForUpdate(_) => return,
            EditorAction::Initialize => {
                ("initialize", None, r#","protocolVersion":1,"clientCapabilities":{}"#.to_owned())
            }
            EditorAction::New(_) => {
                ("session/new", None, r#","cwd":"/w","mcpServers":[]"#.to_owned())
            }
            EditorAction::Load(slot) => (
                "session/load",
                self.past.get(slot).cloned(),
                r#","cwd":"/w","mcpServers":[]"#.to_owned(),
            ),
            EditorAction::Prompt { slot, plan, .. } => (
                "session/prompt",
                of_slot(slot),
                format!(r#","x": 1.10,"big":12345678901234567890,"do":"{plan}""#),
            ),
            EditorAction::SetOptions(number) => {
                (CONFIG, None, format!(r#","component":"p{number}","op":"set","values":{{}}"#))
            }
            EditorAction::Mode(slot) => ("session/set_mode", of_slot(slot), String::new()),
            EditorAction::Close(slot) => ("session/close", of_slot(slot), String::new()),
            EditorAction::CancelSession(slot) => {
                let Some(session) = of_slot(slot) else { return };
                for pending in self.open.values_mut() {
                    pending.cancelled |= pending.session.as_ref() == Some(&session);
                }
                let params = json(format!(r#"{{"n":{n},"sessionId":"{session}"}}"#));
                return outbox.send(Side::Agent, Message::notification("session/cancel", params));
            }
            EditorAction::CancelRequest => return self.cancel(n, outbox),
        };
        let has_session = !matches!(
            action,
            EditorAction::Initialize | EditorAction::New(_) | EditorAction::SetOptions(_)
        );
        if session.is_none() && has_session {
            return;
        }
        let named = session.as_ref().map_or(String::new(), |it| format!(r#","sessionId":"{it}""#));
        self.last += 1;
        let id = Id::string(&format!("e{}", self.last));
        let params = json(format!(r#"{{"n":{n}{named}{rest}}}"#));
        let pending = PendingRequest {
            action,
            serial: n,
            session,
            cancelled: false,
            failures: outbox.failures,
        };
        self.open.insert(key(&id), pending);
        outbox.send(Side::Agent, Message::request(id, method, params));
    }

    fn cancel(&mut self, n: Serial, outbox: &mut Outbox<'_>) {
        let last =
            self.open.iter_mut().filter(|(_, pending)| pending.action != EditorAction::Initialize);
        if let Some((id, pending)) = last.max_by_key(|(_, pending)| pending.serial) {
            pending.cancelled = true;
            let params = json(format!(r#"{{"n":{n},"requestId":{id}}}"#));
            outbox.send(Side::Agent, Message::notification("$/cancel_request", params));
        }
    }

    pub fn receive(&mut self, message: Message, outbox: &mut Outbox<'_>) {
        match message {
            Message::Request { id, call } => {
                let to = call.params.as_ref().and_then(serial);
                match &*call.method.name() {
                    "session/request_permission" => {
                        outbox.result(Side::Agent, id, to, r#","outcome":{"outcome":"selected"}"#);
                    }
                    method => {
                        // An MCP message may arrive after the end of its connection.
                        let is_late = self.outer && is_mcp(method);
                        if !is_late {
                            outbox.violation(format!("the editor gets the request {method}"));
                        }
                        outbox.error(Side::Agent, id, to, code::METHOD_NOT_FOUND, "unknown method");
                    }
                }
            }
            Message::Notification(call) => self.on_notification(&call, outbox),
            Message::Response { id, outcome, .. } => {
                if let Some(pending) = self.open.remove(&key(&id)) {
                    self.on_answer(pending, &outcome, outbox);
                }
            }
        }
        self.continue_work(outbox);
    }

    fn on_notification(&mut self, call: &Call, outbox: &mut Outbox<'_>) {
        let Some(params) = &call.params else { return };
        if params.member("secret").is_some() {
            outbox.violation(format!("the editor gets an update of the history again: {params:?}"));
        }
        if call.is(SHOW_PANEL)
            && let (Some(of), Some(id)) = (serial(params), params.member("id"))
        {
            let n = outbox.next_serial();
            let params = json(format!(r#"{{"n":{n},"of":{of},"id":{id}}}"#));
            outbox.send(Side::Agent, Message::notification(USE_PANEL, params));
        }
        if let Some(turn) = number(params, "turn") {
            *self.updates.entry(turn).or_default() += 1;
        }
    }

    fn on_answer(&mut self, pending: PendingRequest, outcome: &Outcome, outbox: &mut Outbox<'_>) {
        if let EditorAction::SetOptions(_) = pending.action {
            return;
        }
        let failed = match outcome {
            Outcome::Result(result) => self.on_result(&pending, result, outbox),
            Outcome::Error(error) => {
                let lost = outcome.error_code() == Some(-32002) && serial(error).is_none();
                (!lost).then(|| format!("{:?} fails: {}", pending.action, error.as_str()))
            }
        };
        let Some(why) = failed else {
            self.attempts = 0;
            return;
        };
        if outbox.is_ending {
            return;
        }
        if outbox.failures == 0 && !pending.cancelled {
            return outbox.violation(why);
        }
        let again = match &pending.action {
            EditorAction::Initialize => {
                self.gave_up = true;
                false
            }
            EditorAction::New(_) | EditorAction::Load(_) | EditorAction::Close(_) => true,
            EditorAction::Prompt { must_succeed, .. } => *must_succeed,
            _ => false,
        };
        if !again {
            return;
        }
        self.attempts += 1;
        // A request must not fail if no failure has happened since it was sent.
        let excused =
            pending.cancelled || pending.failures < outbox.failures || self.tolerates_failures;
        if !excused || self.attempts > MAX_ATTEMPTS {
            return outbox.violation(why);
        }
        self.act(pending.action, outbox);
    }

    /// Checks a result. Returns what is wrong with it.
    fn on_result(
        &mut self,
        pending: &PendingRequest,
        result: &Json,
        outbox: &mut Outbox<'_>,
    ) -> Option<String> {
        match &pending.action {
            EditorAction::Initialize => {
                self.initialized = true;
                None
            }
            EditorAction::New(slot) => {
                let session = text(result, &["sessionId"])?;
                self.slots.insert(*slot, session);
                None
            }
            EditorAction::Load(slot) => {
                self.slots.extend(pending.session.clone().map(|session| (*slot, session)));
                None
            }
            EditorAction::Close(slot) => {
                self.past.extend(self.slots.remove_entry(slot));
                None
            }
            EditorAction::Prompt { plan, must_succeed, .. } => {
                let reason = text(result, &["stopReason"]);
                if reason.as_deref() != Some("end_turn") {
                    let excused = pending.cancelled || outbox.failures > 0;
                    return (!excused || *must_succeed)
                        .then(|| format!("a prompt ends with {reason:?}"));
                }
                self.successful_prompts += 1;
                let received = self.updates.get(&pending.serial).copied().unwrap_or_default();
                let sent = number(result, "updates").unwrap_or_default();
                if received != sent && (*must_succeed || outbox.failures == 0) {
                    return Some(format!(
                        "{received} of {sent} updates have arrived: {}",
                        pending.serial
                    ));
                }
                let tool = text(result, &["tool"]);
                let wants_tool =
                    self.tools && plan.contains('t') && (*must_succeed || outbox.failures == 0);
                (wants_tool && tool.as_deref() != Some("good"))
                    .then(|| format!("the tool of {:?} is {tool:?}", pending.session))
            }
            _ => None,
        }
    }
}
