//! The editor, which follows a script as well as it can: when something fails, it does what the error
//! says, and sends again.

use std::collections::{BTreeMap, VecDeque};

use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};

use crate::pen::{Pen, Serial, is_mcp, json, key, number, serial, text};

/// One line of a script. Sessions are known by their slots.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    Initialize,
    New(usize),
    /// Takes up the session that was closed in this slot.
    Load(usize),
    /// What the agent is to do: see `agent`. `must`: it is an error if it fails.
    Prompt {
        slot: usize,
        plan: String,
        must: bool,
    },
    Mode(usize),
    /// `session/cancel`
    Halt(usize),
    /// `$/cancel_request` of the last prompt that is open.
    Cancel,
    Close(usize),
    /// Waits until this slot's prompt shows, or is answered.
    Stir(usize),
    /// Waits until all is answered.
    Wait,
}

#[derive(Debug)]
struct Asked {
    act: Act,
    serial: Serial,
    session: Option<String>,
    cancelled: bool,
    /// How many faults had happened then.
    faults: usize,
}

#[derive(Debug, Default)]
pub struct Editor {
    script: VecDeque<Act>,
    slots: BTreeMap<usize, String>,
    past: BTreeMap<usize, String>,
    open: BTreeMap<String, Asked>,
    last: u64,
    /// Updates, by the prompt that they belong to.
    updates: BTreeMap<Serial, usize>,
    tries: usize,
    /// The server of the chain is there.
    pub tools: bool,
    /// A component crashes in each of its lives: anything may fail, but not for ever.
    pub patient: bool,
    /// It is a conductor's, above us.
    pub outer: bool,
    /// It was greeted.
    pub greeted: bool,
    /// It does not go on.
    pub gave_up: bool,
    /// Prompts that went well.
    pub good: usize,
}

/// How often the same thing is tried.
const MOST_TRIES: usize = 40;

impl Editor {
    pub fn follow(&mut self, acts: impl IntoIterator<Item = Act>) {
        self.script.extend(acts);
    }

    pub fn slots(&self) -> Vec<usize> {
        self.slots.keys().copied().collect()
    }

    pub fn is_done(&self) -> bool {
        self.script.is_empty()
    }

    /// Does what the script says, as far as it need not wait.
    pub fn go_on(&mut self, pen: &mut Pen<'_>) {
        while let Some(act) = self.script.front() {
            if pen.closing || self.gave_up {
                return self.script.clear();
            }
            let waits = match act {
                Act::Wait => !self.open.is_empty(),
                Act::Stir(slot) => self.open.values().any(|asked| {
                    matches!(&asked.act, Act::Prompt { slot: it, .. } if it == slot)
                        && !self.updates.contains_key(&asked.serial)
                }),
                _ => false,
            };
            if waits {
                return;
            }
            if let Some(act) = self.script.pop_front() {
                self.act(act, pen);
            }
        }
    }

    pub fn act(&mut self, act: Act, pen: &mut Pen<'_>) {
        let n = pen.fresh();
        let of_slot = |slot: &usize| self.slots.get(slot).cloned();
        let (method, session, rest) = match &act {
            Act::Wait | Act::Stir(_) => return,
            Act::Initialize => {
                ("initialize", None, r#","protocolVersion":1,"clientCapabilities":{}"#.to_owned())
            }
            Act::New(_) => ("session/new", None, r#","cwd":"/w","mcpServers":[]"#.to_owned()),
            Act::Load(slot) => (
                "session/load",
                self.past.get(slot).cloned(),
                r#","cwd":"/w","mcpServers":[]"#.to_owned(),
            ),
            Act::Prompt { slot, plan, .. } => (
                "session/prompt",
                of_slot(slot),
                format!(r#","x": 1.10,"big":12345678901234567890,"do":"{plan}""#),
            ),
            Act::Mode(slot) => ("session/set_mode", of_slot(slot), String::new()),
            Act::Close(slot) => ("session/close", of_slot(slot), String::new()),
            Act::Halt(slot) => {
                let Some(session) = of_slot(slot) else { return };
                for asked in self.open.values_mut() {
                    asked.cancelled |= asked.session.as_ref() == Some(&session);
                }
                let params = json(format!(r#"{{"n":{n},"sessionId":"{session}"}}"#));
                return pen.say(Side::Agent, Message::notification("session/cancel", params));
            }
            Act::Cancel => return self.cancel(n, pen),
        };
        if session.is_none() && !matches!(act, Act::Initialize | Act::New(_)) {
            return;
        }
        let named = session.as_ref().map_or(String::new(), |it| format!(r#","sessionId":"{it}""#));
        self.last += 1;
        let id = Id::string(&format!("e{}", self.last));
        let params = json(format!(r#"{{"n":{n}{named}{rest}}}"#));
        let asked = Asked { act, serial: n, session, cancelled: false, faults: pen.faults };
        self.open.insert(key(&id), asked);
        pen.say(Side::Agent, Message::request(id, method, params));
    }

    fn cancel(&mut self, n: Serial, pen: &mut Pen<'_>) {
        let last = self.open.iter_mut().filter(|(_, asked)| asked.act != Act::Initialize);
        if let Some((id, asked)) = last.max_by_key(|(_, asked)| asked.serial) {
            asked.cancelled = true;
            let params = json(format!(r#"{{"n":{n},"requestId":{id}}}"#));
            pen.say(Side::Agent, Message::notification("$/cancel_request", params));
        }
    }

    pub fn hear(&mut self, message: Message, pen: &mut Pen<'_>) {
        match message {
            Message::Request { id, call } => {
                let to = call.params.as_ref().and_then(serial);
                match &*call.method.name() {
                    "session/request_permission" => {
                        pen.result(Side::Agent, id, to, r#","outcome":{"outcome":"selected"}"#);
                    }
                    method => {
                        // A goodbye may come after the end of what it is for.
                        let stray = self.outer && is_mcp(method);
                        if !stray {
                            pen.wrong(format!("the editor is asked {method}"));
                        }
                        pen.error(Side::Agent, id, to, code::METHOD_NOT_FOUND, "what is this?");
                    }
                }
            }
            Message::Notification(call) => self.on_notification(&call, pen),
            Message::Response { id, outcome, .. } => {
                if let Some(asked) = self.open.remove(&key(&id)) {
                    self.on_answer(asked, &outcome, pen);
                }
            }
        }
        self.go_on(pen);
    }

    fn on_notification(&mut self, call: &Call, pen: &mut Pen<'_>) {
        let Some(params) = &call.params else { return };
        if params.member("secret").is_some() {
            pen.wrong(format!("the editor hears again what it has heard: {params:?}"));
        }
        if let Some(turn) = number(params, "turn") {
            *self.updates.entry(turn).or_default() += 1;
        }
    }

    fn on_answer(&mut self, asked: Asked, outcome: &Outcome, pen: &mut Pen<'_>) {
        let failed = match outcome {
            Outcome::Result(result) => self.on_result(&asked, result, pen),
            Outcome::Error(error) => {
                let lost = outcome.error_code() == Some(-32002) && serial(error).is_none();
                (!lost).then(|| format!("{:?} fails: {}", asked.act, error.as_str()))
            }
        };
        let Some(why) = failed else {
            self.tries = 0;
            return;
        };
        if pen.closing {
            return;
        }
        if pen.faults == 0 && !asked.cancelled {
            return pen.wrong(why);
        }
        let again = match &asked.act {
            Act::Initialize => {
                self.gave_up = true;
                false
            }
            Act::New(_) | Act::Load(_) | Act::Close(_) => true,
            Act::Prompt { must, .. } => *must,
            _ => false,
        };
        if !again {
            return;
        }
        self.tries += 1;
        // What fails although nothing has happened since it was asked will fail again.
        let excused = asked.cancelled || asked.faults < pen.faults || self.patient;
        if !excused || self.tries > MOST_TRIES {
            return pen.wrong(why);
        }
        self.act(asked.act, pen);
    }

    /// Says what is wrong with it, if anything.
    fn on_result(&mut self, asked: &Asked, result: &Json, pen: &mut Pen<'_>) -> Option<String> {
        match &asked.act {
            Act::Initialize => {
                self.greeted = true;
                None
            }
            Act::New(slot) => {
                let session = text(result, &["sessionId"])?;
                self.slots.insert(*slot, session);
                None
            }
            Act::Load(slot) => {
                self.slots.extend(asked.session.clone().map(|session| (*slot, session)));
                None
            }
            Act::Close(slot) => {
                self.past.extend(self.slots.remove_entry(slot));
                None
            }
            Act::Prompt { plan, must, .. } => {
                let reason = text(result, &["stopReason"]);
                if reason.as_deref() != Some("end_turn") {
                    let excused = asked.cancelled || pen.faults > 0;
                    return (!excused || *must).then(|| format!("a prompt ends with {reason:?}"));
                }
                self.good += 1;
                let heard = self.updates.get(&asked.serial).copied().unwrap_or_default();
                let said = number(result, "updates").unwrap_or_default();
                if heard != said && (*must || pen.faults == 0) {
                    return Some(format!("of {said} updates {heard} have come: {}", asked.serial));
                }
                let tool = text(result, &["tool"]);
                let wants_tool = self.tools && plan.contains('t') && (*must || pen.faults == 0);
                (wants_tool && tool.as_deref() != Some("good"))
                    .then(|| format!("the tool of {:?} is {tool:?}", asked.session))
            }
            _ => None,
        }
    }
}
