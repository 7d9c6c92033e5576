//! The consumer at the end of the chain: an agent that uses one form itself, or has MCP clients.

use super::*;

/// The agent at the end of the chain.
pub struct Agent {
    /// The form of the agent. Without one it has MCP clients.
    pub form: Option<Form>,
    /// Requests of the chain that are not answered yet: set-up requests, prompts, and requests that
    /// close a session.
    pub requests: VecDeque<(String, Call)>,
    /// The answers to its requests.
    pub outcomes: BTreeMap<String, Outcome>,
    /// Requests and notifications of servers.
    pub received: VecDeque<ServerMessage>,
    /// Connections that the provider has closed.
    pub closed_by_provider: Vec<String>,
    last: u64,
    /// The number of restarts.
    incarnation: u64,
}

/// A request or notification of a server.
#[derive(Debug, Clone)]
pub struct ServerMessage {
    pub id: Option<String>,
    pub inner: Option<Id>,
    /// The connection, server, request or client that the message is for.
    pub sender: String,
    pub call: Call,
}

/// How the agent uses a server.
#[derive(Debug, Clone)]
pub enum ServerConnection {
    /// In its own form.
    Native { server: String, connection_id: String },
    /// With an MCP client of the bridge.
    Client(ClientId),
}

impl Agent {
    pub fn new(form: Option<Form>) -> Agent {
        Agent {
            form,
            requests: VecDeque::new(),
            outcomes: BTreeMap::new(),
            received: VecDeque::new(),
            closed_by_provider: Vec::new(),
            last: 0,
            incarnation: 0,
        }
    }

    /// The `initialize` for a server. It identifies the agent process, because each process must
    /// send its own.
    pub fn initialize(&self) -> Call {
        let client = format!(r#"{{"name":"agent","version":"{}"}}"#, self.incarnation);
        let can = r#""protocolVersion":"2025-06-18","capabilities":{"roots":{}}"#;
        call("initialize", &format!(r#"{{{can},"clientInfo":{client}}}"#))
    }

    /// The agent was restarted.
    pub fn reset(&mut self) {
        self.incarnation += 1;
        self.requests.clear();
        self.received.clear();
    }

    /// The answer of an agent of this form to `initialize`.
    pub fn initialize_result(form: Option<Form>) -> &'static str {
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

    /// Handles all messages for the agent and its clients. Returns whether there were any.
    pub fn pump(&mut self, harness: &mut Harness) -> bool {
        let mut busy = false;
        let participant = harness.agent();
        while let Some((_, message)) = harness.next(&participant) {
            busy = true;
            self.take(message);
        }
        for client_id in harness.client_ids() {
            while let Some(message) = harness.next_client_message(client_id) {
                busy = true;
                self.take_client_message(client_id, message);
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
            (Some((form, frame)), id) => {
                // M2 and M3 have the same disconnect.
                let same_method = |own: Form| own.encode_disconnect("").0.method == call.method;
                let is_own_form = self.form.is_some_and(|own| match &frame {
                    Frame::Disconnect { .. } => own.has_connections() && same_method(own),
                    _ => own.shares_messages_with(form),
                });
                assert!(is_own_form, "an agent of form {:?} received {call:?}", self.form);
                let (sender, call, inner) = match frame {
                    Frame::Mcp { target, call, id } => (target_id(target), call, id),
                    Frame::Disconnect { connection_id } if id.is_none() => {
                        return self.closed_by_provider.push(connection_id);
                    }
                    frame => panic!("an agent received {frame:?}"),
                };
                self.received.push_back(ServerMessage { id, inner, sender, call });
            }
            (None, Some(id)) => self.requests.push_back((id, call)),
            (None, None) => {}
        }
    }

    fn take_client_message(&mut self, client_id: ClientId, message: Message) {
        match message {
            Message::Response { id, outcome, .. } => self.note_outcome(token(&id), outcome),
            Message::Request { id, call } => {
                let id = Some(token(&id));
                self.received.push_back(ServerMessage {
                    id,
                    inner: None,
                    sender: sender(client_id),
                    call,
                });
            }
            Message::Notification(call) => {
                self.received.push_back(ServerMessage {
                    id: None,
                    inner: None,
                    sender: sender(client_id),
                    call,
                });
            }
        }
    }

    fn note_outcome(&mut self, name: String, outcome: Outcome) {
        let before = self.outcomes.insert(name.clone(), outcome);
        assert!(before.is_none(), "{name} is answered twice");
    }

    /// Starts to connect to a declared server. Returns the name of the connect request, if there is
    /// one.
    pub fn start_connect(
        &mut self,
        harness: &mut Harness,
        entry: &Json,
    ) -> (ServerConnection, Option<String>) {
        let Some(form) = self.form else {
            return (ServerConnection::Client(harness.connect_client(ticket_of(entry))), None);
        };
        let server = server_id_in(form, entry);
        if !form.has_connections() {
            return (ServerConnection::Native { server, connection_id: String::new() }, None);
        }
        let name = self.fresh();
        let connection_id = match form {
            Form::M3t => format!("chosen-{name}"),
            _ => String::new(),
        };
        // The messages of programs of that form. Our own messages have more members.
        let call = match form {
            Form::M2 => call("_mcp/connect", &format!(r#"{{"acp_url":"acp:{server}"}}"#)),
            Form::M3 => call("_mcp/connect", &format!(r#"{{"acp_id":"acp:{server}"}}"#)),
            Form::M3t => {
                let names = format!(r#"{{"connectionId":"{connection_id}","url":"acp:{server}"}}"#);
                call("_mcp/connect", &names)
            }
            form => form.encode_connect(&server, &connection_id),
        };
        let message = Message::Request { id: Id::string(&name), call };
        harness.send(&harness.agent(), Side::Editor, message);
        (ServerConnection::Native { server, connection_id }, Some(name))
    }

    /// The open connection, if its connect was answered with a result.
    pub fn finish_connect(
        &mut self,
        connection: ServerConnection,
        name: &str,
    ) -> Result<ServerConnection, Outcome> {
        let outcome = self.outcomes.remove(name).expect("the connect was answered");
        let (ServerConnection::Native { server, connection_id }, Outcome::Result(result)) =
            (&connection, &outcome)
        else {
            return Err(outcome);
        };
        let returned_id = form::connection_id_of(result);
        let connection_id =
            if connection_id.is_empty() { returned_id.unwrap() } else { connection_id.clone() };
        Ok(ServerConnection::Native { server: server.clone(), connection_id })
    }

    /// Sends a request to a server. The answer will be in `outcomes` under the returned name.
    pub fn ask(
        &mut self,
        harness: &mut Harness,
        connection: &ServerConnection,
        call: &Call,
    ) -> String {
        let name = self.fresh();
        let id = Id::string(&name);
        match connection {
            ServerConnection::Client(client_id) => {
                let message = Message::Request { id, call: call.clone() };
                harness.client_sends_raw(*client_id, &message.to_line());
            }
            ServerConnection::Native { .. } => {
                let call = self.encode(connection, Some(&name), call);
                harness.send(&harness.agent(), Side::Editor, Message::Request { id, call });
            }
        }
        name
    }

    pub fn note(&mut self, harness: &mut Harness, connection: &ServerConnection, call: &Call) {
        match connection {
            ServerConnection::Client(client_id) => {
                harness
                    .client_sends_raw(*client_id, &Message::Notification(call.clone()).to_line());
            }
            ServerConnection::Native { .. } => {
                let call = self.encode(connection, None, call);
                harness.send(&harness.agent(), Side::Editor, Message::Notification(call));
            }
        }
    }

    fn encode(&self, connection: &ServerConnection, name: Option<&str>, call: &Call) -> Call {
        let ServerConnection::Native { server, connection_id } = connection else {
            panic!("not a native connection")
        };
        let form = self.form.unwrap();
        let request = format!("op-{}", name.unwrap_or("none"));
        let inner = name.map(|name| Id::string(&format!("inner-{name}")));
        let call = match form {
            Form::M7 => as_stateless(call),
            _ => call.clone(),
        };
        let address = Address { server, connection_id, request_id: &request };
        form.encode_message(Direction::ToServer, address, inner.as_ref(), &call)
    }

    /// Cancels a request: a client with `notifications/cancelled`, an agent with
    /// `$/cancel_request`.
    pub fn cancel(&mut self, harness: &mut Harness, connection: &ServerConnection, name: &str) {
        let params = json(&format!(r#"{{"requestId":"{name}"}}"#));
        match connection {
            ServerConnection::Client(_) => {
                self.note(harness, connection, &Call::new("notifications/cancelled", params))
            }
            ServerConnection::Native { .. } => {
                let message = Message::notification(acp::CANCEL_REQUEST, params);
                harness.send(&harness.agent(), Side::Editor, message);
            }
        }
    }

    /// Answers a request of a server.
    pub fn answer(&mut self, harness: &mut Harness, message: &ServerMessage, result: &str) {
        let id = crate::harness::id(message.id.as_ref().unwrap());
        let received = Outcome::Result(json(result));
        match (self.form, message.sender.strip_prefix("client ")) {
            (_, Some(client_id)) => {
                let client_id = ClientId(client_id.parse().unwrap());
                harness.client_sends_raw(client_id, &Message::response(id, received).to_line());
            }
            (form, None) => {
                let address =
                    Address { server: &message.sender, connection_id: "", request_id: "" };
                let outcome = form.unwrap().encode_answer(
                    address,
                    message.inner.as_ref(),
                    Answer::FromServer(received),
                );
                harness.send(&harness.agent(), Side::Editor, Message::response(id, outcome));
            }
        }
    }

    /// Closes a connection. Returns the name of the request, if it is one.
    pub fn disconnect(
        &mut self,
        harness: &mut Harness,
        connection: &ServerConnection,
    ) -> Option<String> {
        let connection_id = match connection {
            ServerConnection::Client(client_id) => {
                harness.disconnect(*client_id);
                return None;
            }
            ServerConnection::Native { connection_id, .. } => connection_id,
        };
        let form = self.form.filter(|form| form.has_connections())?;
        let (call, asks) = form.encode_disconnect(connection_id);
        let name = asks.then(|| self.fresh());
        let message = message(name.as_deref().map(Id::string), call);
        harness.send(&harness.agent(), Side::Editor, message);
        name
    }

    /// The MCP answer to a request.
    pub fn outcome(&mut self, name: &str) -> Option<Answer> {
        let outcome = self.outcomes.remove(name)?;
        Some(self.form.unwrap_or(Form::M3).decode_answer(outcome))
    }
}
