//! The consumer at the end of the chain: an agent that speaks one form itself, or has MCP clients.

use super::*;

/// The agent at the end of the chain.
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
    Client(ClientId),
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
        for client_id in stage.client_ids() {
            while let Some(message) = stage.next_told(client_id) {
                busy = true;
                self.take_told(client_id, message);
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
        match (form::decode(&call), id) {
            (Some((form, word)), id) => {
                // M2 and M3 part alike.
                let alike = |mine: Form| mine.encode_disconnect("").0.method == call.method;
                let mine = self.form.is_some_and(|mine| match &word {
                    Frame::Disconnect { .. } => mine.has_connections() && alike(mine),
                    _ => mine.shares_messages_with(form),
                });
                assert!(mine, "an agent that speaks {:?} got {call:?}", self.form);
                let (whom, call, inner) = match word {
                    Frame::Mcp { target, call, id } => (said_of(target), call, id),
                    Frame::Disconnect { connection_id: connection } if id.is_none() => {
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

    fn take_told(&mut self, client_id: ClientId, message: Message) {
        match message {
            Message::Response { id, outcome, .. } => self.note_outcome(token(&id), outcome),
            Message::Request { id, call } => {
                let id = Some(token(&id));
                self.heard.push_back(Heard { id, inner: None, whom: whom(client_id), call });
            }
            Message::Notification(call) => {
                self.heard.push_back(Heard { id: None, inner: None, whom: whom(client_id), call });
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
        if !form.has_connections() {
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
            form => form.encode_connect(&server, &connection),
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
        let told = form::connection_id_of(result);
        let connection = if connection.is_empty() { told.unwrap() } else { connection.clone() };
        Ok(Line::Native { server: server.clone(), connection })
    }

    /// Asks a server. The outcome will be there under this name.
    pub fn ask(&mut self, stage: &mut Stage, line: &Line, call: &Call) -> String {
        let name = self.fresh();
        let id = Id::string(&name);
        match line {
            Line::Client(client_id) => {
                let message = Message::Request { id, call: call.clone() };
                stage.hear_raw(*client_id, &message.to_line());
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
            Line::Client(client_id) => {
                stage.hear_raw(*client_id, &Message::Notification(call.clone()).to_line());
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
        let address = Address { server, connection_id: connection, request_id: &request };
        form.encode_message(Direction::ToServer, address, inner.as_ref(), &call)
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
            (_, Some(client_id)) => {
                let client_id = ClientId(client_id.parse().unwrap());
                stage.hear_raw(client_id, &Message::response(id, said).to_line());
            }
            (form, None) => {
                let address = Address { server: &heard.whom, connection_id: "", request_id: "" };
                let outcome = form.unwrap().encode_answer(
                    address,
                    heard.inner.as_ref(),
                    Answer::FromServer(said),
                );
                stage.send(&stage.agent(), Side::Editor, Message::response(id, outcome));
            }
        }
    }

    /// Ends a connection. The name of the request, if it is one.
    pub fn hang_up(&mut self, stage: &mut Stage, line: &Line) -> Option<String> {
        let connection = match line {
            Line::Client(client_id) => {
                stage.hang_up(*client_id);
                return None;
            }
            Line::Native { connection, .. } => connection,
        };
        let form = self.form.filter(|form| form.has_connections())?;
        let (call, asks) = form.encode_disconnect(connection);
        let name = asks.then(|| self.fresh());
        let message = message(name.as_deref().map(Id::string), call);
        stage.send(&stage.agent(), Side::Editor, message);
        name
    }

    /// What came of a question, in MCP's words.
    pub fn outcome(&mut self, name: &str) -> Option<Answer> {
        let outcome = self.outcomes.remove(name)?;
        Some(self.form.unwrap_or(Form::M3).decode_answer(outcome))
    }
}
