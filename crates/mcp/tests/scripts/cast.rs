//! Players who know their parts: consumers and providers of every form of MCP over ACP.
//!
//! A [`Provider`] takes only what its own generation knows, in the spelling of its documents. What it
//! is asked waits in `heard` until the test answers it; connections it opens and closes by itself. An
//! [`Agent`] speaks one form itself, or has MCP clients that call at the bridge.

use std::collections::{BTreeMap, VecDeque};

use mcp::form::{self, Address, Answer, Form, Target, Way, Word};
use mcp::{Caller, Ticket};
use wire::{Call, Id, Json, Message, Outcome, Side, acp, code};

use crate::stage::*;

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
        while let Some((toward, message)) = stage.next(&self.who) {
            busy = true;
            self.take(stage, toward, message);
        }
        busy
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
        match form::read(&call) {
            Some((_, mut word)) if self.is_mine(&word) => {
                if let (Form::M3t, Word::Connect { chosen, .. }) = (self.form, &mut word) {
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

    fn is_mine(&self, word: &Word) -> bool {
        let server = match word {
            Word::Connect { server, .. } => server,
            Word::Disconnect { connection } => return self.open.contains_key(connection),
            Word::Say { target: Target::Connection(it), .. } => return self.open.contains_key(it),
            Word::Say { target: Target::Server(server), .. } => server,
            Word::Say { target: Target::Operation { server, .. }, .. } => server,
        };
        self.servers.iter().any(|(name, id)| id == server || name == server)
    }

    fn on_word(&mut self, stage: &mut Stage, id: Option<Id>, word: Word) {
        match word {
            Word::Connect { server, chosen } => {
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
            Word::Disconnect { connection } => {
                self.open.remove(&connection);
                let asked = matches!(self.form, Form::M4 | Form::M5 | Form::M6);
                assert_eq!(id.is_some(), asked, "checklist 80: a disconnect of {:?}", self.form);
                if let Some(id) = id {
                    stage.say(&self.who, &format!("result {} {{}}", token(&id)));
                }
            }
            Word::Say { target, call, id: inner } => {
                let id = id.map(|id| token(&id));
                let (server, connection, request) = match target {
                    Target::Server(server) => (server, String::new(), String::new()),
                    Target::Connection(it) => (self.open[&it].clone(), it, String::new()),
                    Target::Operation { server, request } => (server, String::new(), request),
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
        let outcome =
            self.form.close(self.address(said), said.inner.as_ref(), Answer::Said(outcome));
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
        let call = self.form.say(Way::ToClient, self.address(to), None, call);
        stage.send(&self.who, Side::Agent, Message::Notification(call));
    }

    /// A server asks the client that said this. The answer will be in `asked`.
    pub fn ask(&mut self, stage: &mut Stage, to: &Said, call: &Call) -> String {
        self.last += 1;
        let name = format!("{}!{}", self.who, self.last);
        let inner = Id::string(&format!("inner-{name}"));
        let call = self.form.say(Way::ToClient, self.address(to), Some(&inner), call);
        self.asked.insert(name.clone(), None);
        stage.send(&self.who, Side::Agent, Message::Request { id: Id::string(&name), call });
        name
    }

    /// What a client has answered.
    pub fn answered(&self, name: &str) -> Option<Answer> {
        self.asked[name].clone().map(|outcome| self.form.open(outcome))
    }

    fn address<'a>(&self, said: &'a Said) -> Address<'a> {
        Address { server: &said.server, connection: &said.connection, request: &said.request }
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

/// Who sits at the end of the chain.
pub struct Agent {
    /// The form it speaks itself; without one it has MCP clients.
    pub form: Option<Form>,
    /// Requests that set up or end a session, or prompt, and are not answered.
    pub requests: VecDeque<(String, Call)>,
    /// The outcomes of what it has asked.
    pub outcomes: BTreeMap<String, Outcome>,
    /// What servers have told it, and asked (with an id).
    pub heard: VecDeque<Heard>,
    /// Connections that were closed by the other side.
    pub dismissed: Vec<String>,
    last: u64,
    /// Counts its processes.
    life: u64,
}

#[derive(Debug, Clone)]
pub struct Heard {
    pub id: Option<String>,
    pub inner: Option<Id>,
    /// The connection, server, or operation; or the caller.
    pub whom: String,
    pub call: Call,
}

/// How the agent reaches a server.
#[derive(Debug, Clone)]
pub enum Line {
    Native { server: String, connection: String },
    Client(Caller),
}

impl Agent {
    pub fn new(form: Option<Form>) -> Agent {
        Agent {
            form,
            requests: VecDeque::new(),
            outcomes: BTreeMap::new(),
            heard: VecDeque::new(),
            dismissed: Vec::new(),
            last: 0,
            life: 0,
        }
    }

    /// Its `initialize` for a server. It names the agent process: the next process must send its own.
    pub fn hello(&self) -> Call {
        let client = format!(r#"{{"name":"agent","version":"{}"}}"#, self.life);
        let can = r#""protocolVersion":"2025-06-18","capabilities":{"roots":{}}"#;
        call("initialize", &format!(r#"{{{can},"clientInfo":{client}}}"#))
    }

    /// It was started again.
    pub fn reborn(&mut self) {
        self.life += 1;
        self.requests.clear();
        self.heard.clear();
    }

    /// What it answers to `initialize`.
    pub fn greeting(form: Option<Form>) -> &'static str {
        match form {
            None => STDIO,
            Some(Form::M0) => SCP,
            Some(Form::M1 | Form::M2 | Form::M3 | Form::M3t | Form::M4) => OLDER,
            Some(Form::M5 | Form::M6 | Form::M7) => NATIVE,
        }
    }

    fn fresh(&mut self) -> String {
        self.last += 1;
        format!("a{}", self.last)
    }

    /// Deals with what has come, to the agent and to its clients.
    pub fn pump(&mut self, stage: &mut Stage) -> bool {
        let mut busy = false;
        let who = stage.agent();
        while let Some((_, message)) = stage.next(&who) {
            busy = true;
            self.take(message);
        }
        for caller in stage.callers() {
            while let Some(message) = stage.next_told(caller) {
                busy = true;
                self.take_told(caller, message);
            }
        }
        busy
    }

    fn take(&mut self, message: Message) {
        let (id, call) = match message {
            Message::Response { id, outcome, .. } => return self.note_outcome(token(&id), outcome),
            Message::Request { id, call } => (Some(token(&id)), call),
            Message::Notification(call) => (None, call),
        };
        match (form::read(&call), id) {
            (Some((form, word)), id) => {
                // M2 and M3 part alike.
                let alike = |mine: Form| mine.disconnect("").0.method == call.method;
                let mine = self.form.is_some_and(|mine| match &word {
                    Word::Disconnect { .. } => mine.connects() && alike(mine),
                    _ => mine.talks_like(form),
                });
                assert!(mine, "an agent that speaks {:?} got {call:?}", self.form);
                let (whom, call, inner) = match word {
                    Word::Say { target, call, id } => (said_of(target), call, id),
                    Word::Disconnect { connection } if id.is_none() => {
                        return self.dismissed.push(connection);
                    }
                    word => panic!("an agent got {word:?}"),
                };
                self.heard.push_back(Heard { id, inner, whom, call });
            }
            (None, Some(id)) => self.requests.push_back((id, call)),
            (None, None) => {}
        }
    }

    fn take_told(&mut self, caller: Caller, message: Message) {
        match message {
            Message::Response { id, outcome, .. } => self.note_outcome(token(&id), outcome),
            Message::Request { id, call } => {
                let id = Some(token(&id));
                self.heard.push_back(Heard { id, inner: None, whom: whom(caller), call });
            }
            Message::Notification(call) => {
                self.heard.push_back(Heard { id: None, inner: None, whom: whom(caller), call });
            }
        }
    }

    fn note_outcome(&mut self, name: String, outcome: Outcome) {
        let before = self.outcomes.insert(name.clone(), outcome);
        assert!(before.is_none(), "{name} is answered twice");
    }

    /// Begins to use a server that it was given. Connecting may still be under way.
    pub fn reach(&mut self, stage: &mut Stage, entry: &Json) -> (Line, Option<String>) {
        let Some(form) = self.form else {
            return (Line::Client(stage.call(ticket_of(entry))), None);
        };
        let server = server_in(form, entry);
        if !form.connects() {
            return (Line::Native { server, connection: String::new() }, None);
        }
        let name = self.fresh();
        let connection = match form {
            Form::M3t => format!("chosen-{name}"),
            _ => String::new(),
        };
        // What each of them says in its own time; ours are supersets.
        let call = match form {
            Form::M2 => call("_mcp/connect", &format!(r#"{{"acp_url":"acp:{server}"}}"#)),
            Form::M3 => call("_mcp/connect", &format!(r#"{{"acp_id":"acp:{server}"}}"#)),
            Form::M3t => {
                let names = format!(r#"{{"connectionId":"{connection}","url":"acp:{server}"}}"#);
                call("_mcp/connect", &names)
            }
            form => form.connect(&server, &connection),
        };
        let message = Message::Request { id: Id::string(&name), call };
        stage.send(&stage.agent(), Side::Editor, message);
        (Line::Native { server, connection }, Some(name))
    }

    /// The line is open, if this was its connect and it was answered.
    pub fn reached(&mut self, line: Line, name: &str) -> Result<Line, Outcome> {
        let outcome = self.outcomes.remove(name).expect("the connect was answered");
        let (Line::Native { server, connection }, Outcome::Result(result)) = (&line, &outcome)
        else {
            return Err(outcome);
        };
        let told = form::connection_of(result);
        let connection = if connection.is_empty() { told.unwrap() } else { connection.clone() };
        Ok(Line::Native { server: server.clone(), connection })
    }

    /// Asks a server. The outcome will be there under this name.
    pub fn ask(&mut self, stage: &mut Stage, line: &Line, call: &Call) -> String {
        let name = self.fresh();
        let id = Id::string(&name);
        match line {
            Line::Client(caller) => {
                let message = Message::Request { id, call: call.clone() };
                stage.hear_raw(*caller, &message.to_line());
            }
            Line::Native { .. } => {
                let call = self.spell(line, Some(&name), call);
                stage.send(&stage.agent(), Side::Editor, Message::Request { id, call });
            }
        }
        name
    }

    pub fn note(&mut self, stage: &mut Stage, line: &Line, call: &Call) {
        match line {
            Line::Client(caller) => {
                stage.hear_raw(*caller, &Message::Notification(call.clone()).to_line());
            }
            Line::Native { .. } => {
                let call = self.spell(line, None, call);
                stage.send(&stage.agent(), Side::Editor, Message::Notification(call));
            }
        }
    }

    fn spell(&self, line: &Line, name: Option<&str>, call: &Call) -> Call {
        let Line::Native { server, connection } = line else { panic!("not a native line") };
        let form = self.form.unwrap();
        let request = format!("op-{}", name.unwrap_or("none"));
        let inner = name.map(|name| Id::string(&format!("inner-{name}")));
        let call = match form {
            Form::M7 => standing_alone(call),
            _ => call.clone(),
        };
        let address = Address { server, connection, request: &request };
        form.say(Way::ToServer, address, inner.as_ref(), &call)
    }

    /// Takes a question back: a client in MCP's words, an agent in ACP's.
    pub fn cancel(&mut self, stage: &mut Stage, line: &Line, name: &str) {
        let params = json(&format!(r#"{{"requestId":"{name}"}}"#));
        match line {
            Line::Client(_) => {
                self.note(stage, line, &Call::new("notifications/cancelled", params))
            }
            Line::Native { .. } => {
                let message = Message::notification(acp::CANCEL_REQUEST, params);
                stage.send(&stage.agent(), Side::Editor, message);
            }
        }
    }

    /// Answers a server's question.
    pub fn answer(&mut self, stage: &mut Stage, heard: &Heard, result: &str) {
        let id = crate::stage::id(heard.id.as_ref().unwrap());
        let said = Outcome::Result(json(result));
        match (self.form, heard.whom.strip_prefix("client ")) {
            (_, Some(caller)) => {
                let caller = Caller(caller.parse().unwrap());
                stage.hear_raw(caller, &Message::response(id, said).to_line());
            }
            (form, None) => {
                let address = Address { server: &heard.whom, connection: "", request: "" };
                let outcome =
                    form.unwrap().close(address, heard.inner.as_ref(), Answer::Said(said));
                stage.send(&stage.agent(), Side::Editor, Message::response(id, outcome));
            }
        }
    }

    /// Ends a connection. The name of the request, if it is one.
    pub fn hang_up(&mut self, stage: &mut Stage, line: &Line) -> Option<String> {
        let connection = match line {
            Line::Client(caller) => {
                stage.hang_up(*caller);
                return None;
            }
            Line::Native { connection, .. } => connection,
        };
        let form = self.form.filter(|form| form.connects())?;
        let (call, asks) = form.disconnect(connection);
        let name = asks.then(|| self.fresh());
        let message = message(name.as_deref().map(Id::string), call);
        stage.send(&stage.agent(), Side::Editor, message);
        name
    }

    /// What came of a question, in MCP's words.
    pub fn outcome(&mut self, name: &str) -> Option<Answer> {
        let outcome = self.outcomes.remove(name)?;
        Some(self.form.unwrap_or(Form::M3).open(outcome))
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
    form::bare(&found.unwrap()).to_owned()
}

fn whom(caller: Caller) -> String {
    format!("client {}", caller.0)
}

fn said_of(target: Target) -> String {
    match target {
        Target::Server(it) | Target::Connection(it) => it,
        Target::Operation { request, .. } => request,
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
