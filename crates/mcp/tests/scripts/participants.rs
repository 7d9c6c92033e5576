//! Consumers and providers of every form of MCP over ACP.
//!
//! A [`Provider`] understands only the messages of its own generation, as its documents define
//! them. It opens and closes connections by itself. Messages for its servers wait in `received`
//! until the test answers them. An [`Agent`] uses one form itself, or has MCP clients that connect
//! to the bridge.

use std::collections::{BTreeMap, VecDeque};

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};
use mcp::form::{self, Address, Answer, Direction, Form, Frame, Target};
use mcp::{ClientId, Ticket};

use crate::harness::*;

mod agent;

pub use agent::{Agent, ServerConnection};

/// All forms, in order.
pub const FORMS: [Form; 9] =
    [Form::M0, Form::M1, Form::M2, Form::M3, Form::M3t, Form::M4, Form::M5, Form::M6, Form::M7];

/// The generation of the proxies that provide servers in this form.
pub fn generation_of(form: Form) -> &'static str {
    match form {
        Form::M0 => "P0",
        Form::M1 => "P1",
        Form::M2 => "P3",
        Form::M3 | Form::M6 => "P4",
        Form::M3t => "P3t",
        Form::M4 | Form::M5 | Form::M7 => "P5",
    }
}

/// A component that provides MCP servers.
pub struct Provider {
    pub name: String,
    pub form: Form,
    /// The names and ids of its servers.
    pub servers: Vec<(String, String)>,
    /// Messages for its servers that the test has not handled.
    pub received: VecDeque<ReceivedMessage>,
    /// The open connections, and the server of each.
    pub open: BTreeMap<String, String>,
    /// The prefix of the ids of its connections. A number follows.
    pub prefix: String,
    /// The requests that were cancelled.
    pub cancelled: Vec<String>,
    /// The provider passes on messages that it does not know, even if they are for itself.
    pub passes_unknown: bool,
    /// The provider adds its servers to set-up requests that pass through.
    pub offers: bool,
    /// The requests that it has sent to clients, and their answers.
    pub client_requests: BTreeMap<String, Option<Outcome>>,
    /// The answers to its own requests. Only the editor has some.
    pub answers: BTreeMap<String, Outcome>,
    /// Messages that are not for its servers and reached it as the last component.
    pub misdelivered: Vec<String>,
    /// Requests that are not answered yet.
    pub owed: BTreeMap<String, ReceivedMessage>,
    last: u64,
    /// The servers and connections that have accepted an `initialize`, with its params.
    initialized: BTreeMap<(String, String), Option<Json>>,
    /// The number of connections opened so far.
    opened: u64,
}

/// An MCP message that a server has received.
#[derive(Debug, Clone)]
pub struct ReceivedMessage {
    /// The id under which it is answered.
    pub id: Option<String>,
    pub server: String,
    pub connection_id: String,
    pub request: String,
    pub inner: Option<Id>,
    pub call: Call,
}

impl Provider {
    pub fn new(participant: &str, form: Form, servers: &[(&str, &str)]) -> Provider {
        Provider {
            name: participant.to_owned(),
            form,
            servers: servers.iter().map(|(name, id)| (name.to_string(), id.to_string())).collect(),
            received: VecDeque::new(),
            open: BTreeMap::new(),
            prefix: format!("{participant}-V"),
            cancelled: Vec::new(),
            passes_unknown: false,
            offers: true,
            client_requests: BTreeMap::new(),
            answers: BTreeMap::new(),
            misdelivered: Vec::new(),
            owed: BTreeMap::new(),
            last: 0,
            initialized: BTreeMap::new(),
            opened: 0,
        }
    }

    /// The provider was restarted: it has lost its state, and its servers have these names and ids.
    pub fn reset(&mut self, servers: &[(&str, &str)]) {
        let servers = servers.iter().map(|(name, id)| (name.to_string(), id.to_string()));
        self.servers = servers.collect();
        self.received.clear();
        self.open.clear();
        self.owed.clear();
        self.cancelled.clear();
        self.client_requests.retain(|_, answer| answer.is_some());
        self.initialized.clear();
        self.opened = 0;
    }

    fn is_editor(&self) -> bool {
        self.name == "editor"
    }

    /// The declarations of its servers.
    pub fn declarations(&self) -> Vec<String> {
        let declare = |(name, id): &(String, String)| match self.form {
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
        self.servers.iter().map(declare).collect()
    }

    /// Handles all messages. Returns whether there were any.
    pub fn pump(&mut self, harness: &mut Harness) -> bool {
        let mut busy = false;
        while self.step(harness) {
            busy = true;
        }
        busy
    }

    /// Handles the next message. Returns whether there was one.
    pub fn step(&mut self, harness: &mut Harness) -> bool {
        let next = harness.next(&self.name);
        let any = next.is_some();
        next.into_iter().for_each(|(toward, message)| self.take(harness, toward, message));
        any
    }

    fn take(&mut self, harness: &mut Harness, toward: Side, message: Message) {
        match message {
            Message::Response { id, outcome, extras } => {
                if let Some(answer) = self.client_requests.get_mut(&token(&id)) {
                    assert!(answer.is_none(), "{} is answered twice: {id}", self.name);
                    *answer = Some(outcome);
                } else if self.is_editor() {
                    let before = self.answers.insert(token(&id), outcome);
                    assert!(before.is_none(), "the editor is answered twice: {id}");
                } else {
                    harness.forward(&self.name, toward, Message::Response { id, outcome, extras });
                }
            }
            Message::Request { id, call } => self.on_call(harness, toward, Some(id), call),
            Message::Notification(call) => self.on_call(harness, toward, None, call),
        }
    }

    fn on_call(&mut self, harness: &mut Harness, toward: Side, id: Option<Id>, call: Call) {
        if call.is(acp::CANCEL_REQUEST) {
            let cancelled = call.params.as_ref().and_then(acp::cancelled_id);
            let cancelled = cancelled.map(|id| token(&id)).unwrap_or_default();
            return match self.owed.contains_key(&cancelled) {
                true => self.cancelled.push(cancelled),
                false if self.is_editor() => {}
                false => harness.forward(&self.name, toward, message(id, call)),
            };
        }
        if toward == Side::Agent {
            let call = match self.offers && call.method.name().starts_with("session/") {
                true => self.with_declarations(call),
                false => call,
            };
            return harness.forward(&self.name, toward, message(id, call));
        }
        match form::decode(&call) {
            Some((_, mut frame)) if self.is_for_me(&frame) => {
                if let (Form::M3t, Frame::Connect { proposed_id: chosen, .. }) =
                    (self.form, &mut frame)
                {
                    let id = call.params.as_ref().and_then(|it| it.member("connectionId"));
                    *chosen = id.and_then(|it| it.text().map(|it| it.into_owned()));
                }
                if understands(self.form, &call) {
                    self.on_frame(harness, id, frame);
                } else if self.passes_unknown {
                    harness.forward(&self.name, toward, message(id, call));
                } else if let Some(id) = id {
                    let outcome = Outcome::error(code::METHOD_NOT_FOUND, "unknown method");
                    harness.send(&self.name, Side::Agent, Message::response(id, outcome));
                }
            }
            _ if self.is_editor() => {
                let about = call.method.name().into_owned();
                self.misdelivered.push(about);
                if let Some(id) = id {
                    let outcome = Outcome::error(code::METHOD_NOT_FOUND, "unexpected message");
                    harness.send(&self.name, Side::Agent, Message::response(id, outcome));
                }
            }
            _ => harness.forward(&self.name, toward, message(id, call)),
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

    /// Which of its servers has received this message.
    pub fn find_server(&self, received: &ReceivedMessage) -> Option<(String, usize)> {
        let by_id = self.servers.iter().position(|(_, id)| *id == received.server);
        let place = by_id.or(self.servers.iter().position(|(name, _)| *name == received.server));
        Some((self.name.clone(), place?))
    }

    /// Whether the server that got this message has accepted an `initialize` of this agent process.
    pub fn is_initialized(&self, received: &ReceivedMessage, agent: &Agent) -> bool {
        let greeting =
            self.initialized.get(&(received.server.clone(), received.connection_id.clone()));
        let client = |params: &Json| params.member("clientInfo");
        greeting.is_some_and(|it| {
            it.as_ref().and_then(client) == agent.initialize().params.as_ref().and_then(client)
        })
    }

    fn is_for_me(&self, frame: &Frame) -> bool {
        let server = match frame {
            Frame::Connect { server, .. } => server,
            Frame::Disconnect { connection_id } => {
                return self.open.contains_key(connection_id);
            }
            Frame::Mcp { target: Target::Connection(it), .. } => return self.open.contains_key(it),
            Frame::Mcp { target: Target::Server(server), .. } => server,
            Frame::Mcp { target: Target::Operation { server, .. }, .. } => server,
        };
        self.servers.iter().any(|(name, id)| id == server || name == server)
    }

    fn on_frame(&mut self, harness: &mut Harness, id: Option<Id>, frame: Frame) {
        match frame {
            Frame::Connect { server, proposed_id: chosen } => {
                self.opened += 1;
                let connection_id =
                    chosen.unwrap_or_else(|| format!("{}{}", self.prefix, self.opened));
                let result = match self.form {
                    // The consumer has chosen the id.
                    Form::M3t => "{}".to_owned(),
                    Form::M2 | Form::M3 => format!(r#"{{"connection_id":"{connection_id}"}}"#),
                    _ => format!(r#"{{"connectionId":"{connection_id}"}}"#),
                };
                self.open.insert(connection_id, server);
                let id = token(&id.expect("a connect is a request"));
                harness.send_line(&self.name, &format!("result {id} {result}"));
            }
            Frame::Disconnect { connection_id } => {
                self.open.remove(&connection_id);
                let is_request = matches!(self.form, Form::M4 | Form::M5 | Form::M6);
                assert_eq!(
                    id.is_some(),
                    is_request,
                    "checklist 80: a disconnect of {:?}",
                    self.form
                );
                if let Some(id) = id {
                    harness.send_line(&self.name, &format!("result {} {{}}", token(&id)));
                }
            }
            Frame::Mcp { target, call, id: inner } => {
                let id = id.map(|id| token(&id));
                let (server, connection_id, request) = match target {
                    Target::Server(server) => (server, String::new(), String::new()),
                    Target::Connection(it) => (self.open[&it].clone(), it, String::new()),
                    Target::Operation { server, request_id: request } => {
                        (server, String::new(), request)
                    }
                };
                let received = ReceivedMessage { id, server, connection_id, request, inner, call };
                if let Some(id) = &received.id {
                    self.owed.insert(id.clone(), received.clone());
                }
                self.received.push_back(received);
            }
        }
    }

    /// A server answers a request.
    pub fn answer(&mut self, harness: &mut Harness, received: &ReceivedMessage, outcome: Outcome) {
        let id = received.id.as_ref().expect("a request");
        self.owed.remove(id);
        let taken = matches!(outcome, Outcome::Result(_)) && !self.cancelled.contains(id);
        if received.call.is("initialize") && taken {
            let place = (received.server.clone(), received.connection_id.clone());
            self.initialized.insert(place, received.call.params.clone());
        }
        let outcome = self.form.encode_answer(
            self.address(received),
            received.inner.as_ref(),
            Answer::FromServer(outcome),
        );
        harness.send(&self.name, Side::Agent, Message::response(crate::harness::id(id), outcome));
    }

    /// The answer to a request is lost.
    pub fn lose(&mut self, received: &ReceivedMessage) {
        self.owed.remove(received.id.as_ref().expect("a request"));
    }

    pub fn result(&mut self, harness: &mut Harness, received: &ReceivedMessage, result: &str) {
        self.answer(harness, received, Outcome::Result(json(result)));
    }

    /// A server sends a notification to the client that has sent this message.
    pub fn note(&mut self, harness: &mut Harness, to: &ReceivedMessage, call: &Call) {
        let call = self.form.encode_message(Direction::ToClient, self.address(to), None, call);
        harness.send(&self.name, Side::Agent, Message::Notification(call));
    }

    /// A server sends a request to the client that has sent this message. The answer will be in
    /// `asked`.
    pub fn ask(&mut self, harness: &mut Harness, to: &ReceivedMessage, call: &Call) -> String {
        self.last += 1;
        let name = format!("{}!{}", self.name, self.last);
        let inner = Id::string(&format!("inner-{name}"));
        let call =
            self.form.encode_message(Direction::ToClient, self.address(to), Some(&inner), call);
        self.client_requests.insert(name.clone(), None);
        harness.send(&self.name, Side::Agent, Message::Request { id: Id::string(&name), call });
        name
    }

    /// The answer of a client.
    pub fn answered(&self, name: &str) -> Option<Answer> {
        self.client_requests[name].clone().map(|outcome| self.form.decode_answer(outcome))
    }

    fn address<'a>(&self, received: &'a ReceivedMessage) -> Address<'a> {
        Address {
            server: &received.server,
            connection_id: &received.connection_id,
            request_id: &received.request,
        }
    }
}

/// Whether a provider of this form understands a message.
fn understands(form: Form, call: &Call) -> bool {
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
        // Programs of this form know one of these two keys.
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

/// The id of a declared server, as an agent of this form uses it.
pub fn server_id_in(form: Form, entry: &Json) -> String {
    // SCP addresses servers by their names alone.
    let texts: &[&str] = match form {
        Form::M0 => &["name"],
        _ => &["serverId", "id", "uuid", "url"],
    };
    let found = texts.iter().find_map(|key| entry.member(key)?.text().map(|it| it.into_owned()));
    form::strip_acp_prefix(&found.unwrap()).to_owned()
}

fn sender(client_id: ClientId) -> String {
    format!("client {}", client_id.0)
}

fn target_id(target: Target) -> String {
    match target {
        Target::Server(it) | Target::Connection(it) => it,
        Target::Operation { request_id, .. } => request_id,
    }
}

/// The ticket in a declaration that an agent has received.
pub fn ticket_of(entry: &Json) -> Ticket {
    let text = entry.as_str();
    let secret = text.split(r#""value":"Bearer s"#).nth(1).or(text.split(r#""value":"s"#).nth(1));
    let digits = secret.unwrap_or_else(|| panic!("no secret in {text}")).split('"').next().unwrap();
    Ticket(digits.parse().unwrap())
}

/// A request with the metadata that stateless MCP requires.
pub fn as_stateless(call: &Call) -> Call {
    let params = call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
    let version = Json::string("2026-07-28");
    let params = params
        .with_at(&["_meta", "io.modelcontextprotocol/protocolVersion"], Some(&version))
        .with_at(
            &["_meta", "io.modelcontextprotocol/clientCapabilities"],
            Some(&Json::EMPTY_OBJECT),
        );
    Call { params: Some(params), ..call.clone() }
}

pub fn call(method: &str, params: &str) -> Call {
    Call::new(method, (!params.is_empty()).then(|| json(params)))
}
