//! Players who know their parts: consumers and providers of every form of MCP over ACP.
//!
//! A [`Provider`] takes only what its own generation knows, in the spelling of its documents. What it
//! is asked waits in `heard` until the test answers it; connections it opens and closes by itself. An
//! [`Agent`] speaks one form itself, or has MCP clients that call at the bridge.

use std::collections::{BTreeMap, VecDeque};

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};
use mcp::form::{self, Address, Answer, Direction, Form, Frame, Target};
use mcp::{ClientId, Ticket};

use crate::stage::*;

mod agent;

pub use agent::{Agent, Line};

/// All forms, in order.
pub const FORMS: [Form; 9] =
    [Form::M0, Form::M1, Form::M2, Form::M3, Form::M3t, Form::M4, Form::M5, Form::M6, Form::M7];

/// The dialect of the proxies that provide servers in this form.
pub fn dialect_of(form: Form) -> &'static str {
    match form {
        Form::M0 => "P0",
        Form::M1 => "P1",
        Form::M2 => "P3",
        Form::M3 | Form::M6 => "P4",
        Form::M3t => "P3t",
        Form::M4 | Form::M5 | Form::M7 => "P5",
    }
}

pub struct Provider {
    pub who: String,
    pub form: Form,
    /// Names and ids.
    pub servers: Vec<(String, String)>,
    /// What its servers were asked and told.
    pub heard: VecDeque<Said>,
    /// Its connections, and the servers at the other end.
    pub open: BTreeMap<String, String>,
    /// How its connections are called: this and a number.
    pub prefix: String,
    /// The requests that were cancelled.
    pub cancelled: Vec<String>,
    /// It passes on what it does not know, even if it is for itself.
    pub passes_unknown: bool,
    /// It adds its servers to set-up requests that pass.
    pub offers: bool,
    /// What it has asked clients, and what they answered.
    pub asked: BTreeMap<String, Option<Outcome>>,
    /// Only the editor: answers to its own requests.
    pub answers: BTreeMap<String, Outcome>,
    /// What is not for its servers but came to it as to the last.
    pub strangers: Vec<String>,
    /// Requests that it has not answered.
    pub owed: BTreeMap<String, Said>,
    last: u64,
    /// Servers, and connections to them, that have accepted an `initialize`, with its parameters.
    greeted: BTreeMap<(String, String), Option<Json>>,
    /// How many connections it has opened.
    opened: u64,
}

/// An MCP message that a server got.
#[derive(Debug, Clone)]
pub struct Said {
    /// Under which it is to be answered.
    pub id: Option<String>,
    pub server: String,
    pub connection: String,
    pub request: String,
    pub inner: Option<Id>,
    pub call: Call,
}

impl Provider {
    pub fn new(who: &str, form: Form, servers: &[(&str, &str)]) -> Provider {
        Provider {
            who: who.to_owned(),
            form,
            servers: servers.iter().map(|(name, id)| (name.to_string(), id.to_string())).collect(),
            heard: VecDeque::new(),
            open: BTreeMap::new(),
            prefix: format!("{who}-V"),
            cancelled: Vec::new(),
            passes_unknown: false,
            offers: true,
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
            strangers: Vec::new(),
            owed: BTreeMap::new(),
            last: 0,
            greeted: BTreeMap::new(),
            opened: 0,
        }
    }

    /// It was started again: it knows nothing any more, and calls its servers otherwise.
    pub fn reborn(&mut self, servers: &[(&str, &str)]) {
        let servers = servers.iter().map(|(name, id)| (name.to_string(), id.to_string()));
        self.servers = servers.collect();
        self.heard.clear();
        self.open.clear();
        self.owed.clear();
        self.cancelled.clear();
        self.asked.retain(|_, answer| answer.is_some());
        self.greeted.clear();
        self.opened = 0;
    }

    fn is_editor(&self) -> bool {
        self.who == "editor"
    }

    /// Its servers as it declares them.
    pub fn declarations(&self) -> Vec<String> {
        let spell = |(name, id): &(String, String)| match self.form {
            Form::M0 => format!(r#"{{"type":"scp","name":"{name}"}}"#),
            Form::M1 | Form::M2 | Form::M3 | Form::M3t => {
                format!(r#"{{"type":"http","name":"{name}","url":"acp:{id}","headers":[]}}"#)
            }
            Form::M4 => format!(r#"{{"name":"{name}","transport":"acp","uuid":"{id}"}}"#),
            Form::M5 => format!(r#"{{"type":"acp","name":"{name}","id":"{id}"}}"#),
            Form::M6 | Form::M7 => {
                format!(r#"{{"type":"acp","name":"{name}","serverId":"{id}"}}"#)
            }
        };
        self.servers.iter().map(spell).collect()
    }

    /// Deals with what has come. Says whether anything had.
    pub fn pump(&mut self, stage: &mut Stage) -> bool {
        let mut busy = false;
        while self.step(stage) {
            busy = true;
        }
        busy
    }

    /// Deals with the next message. Says whether there was any.
    pub fn step(&mut self, stage: &mut Stage) -> bool {
        let next = stage.next(&self.who);
        let any = next.is_some();
        next.into_iter().for_each(|(toward, message)| self.take(stage, toward, message));
        any
    }

    fn take(&mut self, stage: &mut Stage, toward: Side, message: Message) {
        match message {
            Message::Response { id, outcome, extras } => {
                if let Some(answer) = self.asked.get_mut(&token(&id)) {
                    assert!(answer.is_none(), "{} is answered twice: {id}", self.who);
                    *answer = Some(outcome);
                } else if self.is_editor() {
                    let before = self.answers.insert(token(&id), outcome);
                    assert!(before.is_none(), "the editor is answered twice: {id}");
                } else {
                    stage.forward(&self.who, toward, Message::Response { id, outcome, extras });
                }
            }
            Message::Request { id, call } => self.on_call(stage, toward, Some(id), call),
            Message::Notification(call) => self.on_call(stage, toward, None, call),
        }
    }

    fn on_call(&mut self, stage: &mut Stage, toward: Side, id: Option<Id>, call: Call) {
        if call.is(acp::CANCEL_REQUEST) {
            let cancelled = call.params.as_ref().and_then(acp::cancelled_id);
            let cancelled = cancelled.map(|id| token(&id)).unwrap_or_default();
            return match self.owed.contains_key(&cancelled) {
                true => self.cancelled.push(cancelled),
                false if self.is_editor() => {}
                false => stage.forward(&self.who, toward, message(id, call)),
            };
        }
        if toward == Side::Agent {
            let call = match self.offers && call.method.name().starts_with("session/") {
                true => self.with_declarations(call),
                false => call,
            };
            return stage.forward(&self.who, toward, message(id, call));
        }
        match form::decode(&call) {
            Some((_, mut word)) if self.is_mine(&word) => {
                if let (Form::M3t, Frame::Connect { proposed_id: chosen, .. }) =
                    (self.form, &mut word)
                {
                    let id = call.params.as_ref().and_then(|it| it.member("connectionId"));
                    *chosen = id.and_then(|it| it.text().map(|it| it.into_owned()));
                }
                if knows(self.form, &call) {
                    self.on_word(stage, id, word);
                } else if self.passes_unknown {
                    stage.forward(&self.who, toward, message(id, call));
                } else if let Some(id) = id {
                    let outcome = Outcome::error(code::METHOD_NOT_FOUND, "I do not know this");
                    stage.send(&self.who, Side::Agent, Message::response(id, outcome));
                }
            }
            _ if self.is_editor() => {
                let about = call.method.name().into_owned();
                self.strangers.push(about);
                if let Some(id) = id {
                    let outcome = Outcome::error(code::METHOD_NOT_FOUND, "what is this?");
                    stage.send(&self.who, Side::Agent, Message::response(id, outcome));
                }
            }
            _ => stage.forward(&self.who, toward, message(id, call)),
        }
    }

    fn with_declarations(&self, call: Call) -> Call {
        let Some(params) = &call.params else { return call };
        let Some(list) = params.member("mcpServers") else { return call };
        let mut entries = list.elements();
        entries.extend(self.declarations().iter().map(|it| json(it)));
        let params = params.with_member("mcpServers", &Json::array(&entries));
        Call { params: Some(params), ..call }
    }

    /// Which of its servers has heard this?
    pub fn place_of(&self, said: &Said) -> Option<(String, usize)> {
        let by_id = self.servers.iter().position(|(_, id)| *id == said.server);
        let place = by_id.or(self.servers.iter().position(|(name, _)| *name == said.server));
        Some((self.who.clone(), place?))
    }

    /// Whether the server that got this message has accepted an `initialize` of this agent process.
    pub fn is_greeted(&self, said: &Said, agent: &Agent) -> bool {
        let greeting = self.greeted.get(&(said.server.clone(), said.connection.clone()));
        let client = |params: &Json| params.member("clientInfo");
        greeting.is_some_and(|it| {
            it.as_ref().and_then(client) == agent.hello().params.as_ref().and_then(client)
        })
    }

    fn is_mine(&self, word: &Frame) -> bool {
        let server = match word {
            Frame::Connect { server, .. } => server,
            Frame::Disconnect { connection_id: connection } => {
                return self.open.contains_key(connection);
            }
            Frame::Mcp { target: Target::Connection(it), .. } => return self.open.contains_key(it),
            Frame::Mcp { target: Target::Server(server), .. } => server,
            Frame::Mcp { target: Target::Operation { server, .. }, .. } => server,
        };
        self.servers.iter().any(|(name, id)| id == server || name == server)
    }

    fn on_word(&mut self, stage: &mut Stage, id: Option<Id>, word: Frame) {
        match word {
            Frame::Connect { server, proposed_id: chosen } => {
                self.opened += 1;
                let connection =
                    chosen.unwrap_or_else(|| format!("{}{}", self.prefix, self.opened));
                let result = match self.form {
                    // It was named by the other side.
                    Form::M3t => "{}".to_owned(),
                    Form::M2 | Form::M3 => format!(r#"{{"connection_id":"{connection}"}}"#),
                    _ => format!(r#"{{"connectionId":"{connection}"}}"#),
                };
                self.open.insert(connection, server);
                let id = token(&id.expect("a connect is a request"));
                stage.say(&self.who, &format!("result {id} {result}"));
            }
            Frame::Disconnect { connection_id: connection } => {
                self.open.remove(&connection);
                let asked = matches!(self.form, Form::M4 | Form::M5 | Form::M6);
                assert_eq!(id.is_some(), asked, "checklist 80: a disconnect of {:?}", self.form);
                if let Some(id) = id {
                    stage.say(&self.who, &format!("result {} {{}}", token(&id)));
                }
            }
            Frame::Mcp { target, call, id: inner } => {
                let id = id.map(|id| token(&id));
                let (server, connection, request) = match target {
                    Target::Server(server) => (server, String::new(), String::new()),
                    Target::Connection(it) => (self.open[&it].clone(), it, String::new()),
                    Target::Operation { server, request_id: request } => {
                        (server, String::new(), request)
                    }
                };
                let said = Said { id, server, connection, request, inner, call };
                if let Some(id) = &said.id {
                    self.owed.insert(id.clone(), said.clone());
                }
                self.heard.push_back(said);
            }
        }
    }

    /// Answers what a server was asked.
    pub fn answer(&mut self, stage: &mut Stage, said: &Said, outcome: Outcome) {
        let id = said.id.as_ref().expect("a request");
        self.owed.remove(id);
        let taken = matches!(outcome, Outcome::Result(_)) && !self.cancelled.contains(id);
        if said.call.is("initialize") && taken {
            let place = (said.server.clone(), said.connection.clone());
            self.greeted.insert(place, said.call.params.clone());
        }
        let outcome = self.form.encode_answer(
            self.address(said),
            said.inner.as_ref(),
            Answer::FromServer(outcome),
        );
        stage.send(&self.who, Side::Agent, Message::response(crate::stage::id(id), outcome));
    }

    /// Does what it was asked, and loses the answer.
    pub fn lose(&mut self, said: &Said) {
        self.owed.remove(said.id.as_ref().expect("a request"));
    }

    pub fn result(&mut self, stage: &mut Stage, said: &Said, result: &str) {
        self.answer(stage, said, Outcome::Result(json(result)));
    }

    /// A server says something to the client that said this.
    pub fn note(&mut self, stage: &mut Stage, to: &Said, call: &Call) {
        let call = self.form.encode_message(Direction::ToClient, self.address(to), None, call);
        stage.send(&self.who, Side::Agent, Message::Notification(call));
    }

    /// A server asks the client that said this. The answer will be in `asked`.
    pub fn ask(&mut self, stage: &mut Stage, to: &Said, call: &Call) -> String {
        self.last += 1;
        let name = format!("{}!{}", self.who, self.last);
        let inner = Id::string(&format!("inner-{name}"));
        let call =
            self.form.encode_message(Direction::ToClient, self.address(to), Some(&inner), call);
        self.asked.insert(name.clone(), None);
        stage.send(&self.who, Side::Agent, Message::Request { id: Id::string(&name), call });
        name
    }

    /// What a client has answered.
    pub fn answered(&self, name: &str) -> Option<Answer> {
        self.asked[name].clone().map(|outcome| self.form.decode_answer(outcome))
    }

    fn address<'a>(&self, said: &'a Said) -> Address<'a> {
        Address { server: &said.server, connection_id: &said.connection, request_id: &said.request }
    }
}

/// Does a provider of this form know a message that is spelt like this?
fn knows(form: Form, call: &Call) -> bool {
    let method = call.method.name();
    let has = |key: &str| call.params.as_ref().is_some_and(|it| it.member(key).is_some());
    let scheme = |key: &str| {
        let value = call.params.as_ref().and_then(|it| it.member(key));
        value.is_some_and(|it| it.text().is_some_and(|it| it.starts_with("acp:")))
    };
    let flat = has("connectionId") && has("method");
    match form {
        Form::M0 => method == "_scp/mcp" && has("name") && has("message"),
        Form::M1 => method.starts_with("_mcp/client_to_server/") && scheme("url") && has("message"),
        Form::M2 => match &*method {
            "_mcp/connect" => scheme("acp_url"),
            "_mcp/disconnect" => has("connection_id"),
            "_mcp/request" | "_mcp/notification" => flat && has("params"),
            _ => false,
        },
        // There were two kinds, with one word each.
        Form::M3 => match &*method {
            "_mcp/connect" => scheme("acp_url") && scheme("acp_id"),
            "_mcp/disconnect" => has("connection_id"),
            "_mcp/message" => flat && has("params"),
            _ => false,
        },
        Form::M3t => match &*method {
            "_mcp/connect" => scheme("url") && has("connectionId"),
            "_mcp/disconnect" => has("connectionId"),
            "_mcp/message" => flat && has("params"),
            _ => false,
        },
        Form::M4 | Form::M5 | Form::M6 => match &*method {
            "mcp/connect" => match form {
                Form::M4 => scheme("acpUrl"),
                Form::M5 => has("acpId"),
                _ => has("serverId"),
            },
            "mcp/disconnect" => has("connectionId"),
            "mcp/message" => flat,
            _ => false,
        },
        Form::M7 => method == "mcp/message" && has("serverId") && has("requestId"),
    }
}

fn message(id: Option<Id>, call: Call) -> Message {
    match id {
        Some(id) => Message::Request { id, call },
        None => Message::Notification(call),
    }
}

/// How an agent that speaks this form calls a server that it was given.
pub fn server_in(form: Form, entry: &Json) -> String {
    // SCP knows servers by their names alone.
    let texts: &[&str] = match form {
        Form::M0 => &["name"],
        _ => &["serverId", "id", "uuid", "url"],
    };
    let found = texts.iter().find_map(|key| entry.member(key)?.text().map(|it| it.into_owned()));
    form::strip_acp_prefix(&found.unwrap()).to_owned()
}

fn whom(client_id: ClientId) -> String {
    format!("client {}", client_id.0)
}

fn said_of(target: Target) -> String {
    match target {
        Target::Server(it) | Target::Connection(it) => it,
        Target::Operation { request_id, .. } => request_id,
    }
}

/// The ticket in a declaration that was made for an agent.
pub fn ticket_of(entry: &Json) -> Ticket {
    let text = entry.as_str();
    let secret = text.split(r#""value":"Bearer s"#).nth(1).or(text.split(r#""value":"s"#).nth(1));
    let digits = secret.unwrap_or_else(|| panic!("no secret in {text}")).split('"').next().unwrap();
    Ticket(digits.parse().unwrap())
}

/// A call with what stateless MCP wants in each.
pub fn standing_alone(call: &Call) -> Call {
    let params = call.params.clone().unwrap_or(Json::EMPTY);
    let version = Json::string("2026-07-28");
    let params = params
        .with_at(&["_meta", "io.modelcontextprotocol/protocolVersion"], Some(&version))
        .with_at(&["_meta", "io.modelcontextprotocol/clientCapabilities"], Some(&Json::EMPTY));
    Call { params: Some(params), ..call.clone() }
}

pub fn call(method: &str, params: &str) -> Call {
    Call::new(method, (!params.is_empty()).then(|| json(params)))
}
