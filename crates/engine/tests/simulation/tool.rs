//! How the agent uses the MCP server of a session: with MCP over ACP, or with an MCP client that connects to the bridge.

use acp_wire::{Call, Id, Json, Message, Outcome, Side};
use mcp::form::{Address, Answer, Direction, Form, connection_id_of, strip_acp_prefix};
use mcp::{ClientId, Ticket};

use crate::outbox::{ClientAction, Outbox, Serial, json, number};

/// The form of MCP over ACP that agents use.
const NATIVE: Form = Form::M6;

/// The connection of one session to its server.
#[derive(Debug, Default)]
pub struct Tool {
    /// The server, as it was declared to the agent.
    entry: Option<Json>,
    connection: ToolConnection,
    /// The last request, and its purpose.
    pending: Option<(Id, PendingStep)>,
    last: u64,
    /// The last call.
    called: Serial,
}

#[derive(Debug, Default, Clone, PartialEq)]
enum ToolConnection {
    #[default]
    None,
    Acp(String),
    Client(ClientId),
}

/// The step of a tool call that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PendingStep {
    Connect,
    Initialize,
    Call,
}

/// The progress of a tool call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    Pending,
    Succeeded,
    Failed,
}

impl Tool {
    pub fn new(params: &Json) -> Tool {
        let servers = params.member("mcpServers").map(|it| it.elements()).unwrap_or_default();
        Tool { entry: servers.into_iter().next(), ..Tool::default() }
    }

    pub fn client_id(&self) -> Option<ClientId> {
        match self.connection {
            ToolConnection::Client(client_id) => Some(client_id),
            _ => None,
        }
    }

    /// Starts a tool call. `last_id` is the last request id on the link of the agent.
    pub fn begin(&mut self, last_id: &mut u64, outbox: &mut Outbox<'_>) -> Progress {
        let Some(entry) = self.entry.clone() else { return Progress::Failed };
        // Another turn may have been cancelled during its call. Then its answer is not needed.
        match &self.pending {
            Some((_, PendingStep::Connect | PendingStep::Initialize)) => return Progress::Pending,
            Some((_, PendingStep::Call)) | None => {}
        }
        match self.connection.clone() {
            ToolConnection::None => match ticket(&entry) {
                Some(ticket) => {
                    let client_id = outbox.next_client_id();
                    self.connection = ToolConnection::Client(client_id);
                    outbox.client_actions.push(ClientAction::Connect { ticket, client_id });
                    self.initialize(last_id, outbox);
                }
                None => {
                    let id =
                        ["serverId", "id", "uuid", "url"].iter().find_map(|key| entry.member(key));
                    let Some(id) = id.and_then(|it| Some(strip_acp_prefix(&it.text()?).to_owned()))
                    else {
                        return Progress::Failed;
                    };
                    *last_id += 1;
                    let request = Id::from(*last_id);
                    self.pending = Some((request.clone(), PendingStep::Connect));
                    let call = NATIVE.encode_connect(&id, "");
                    outbox.send(Side::Editor, Message::Request { id: request, call });
                }
            },
            _ => self.call(last_id, outbox),
        }
        Progress::Pending
    }

    fn initialize(&mut self, last_id: &mut u64, outbox: &mut Outbox<'_>) {
        let params = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
        self.send_request(
            Call::new("initialize", json(params.to_owned())),
            PendingStep::Initialize,
            last_id,
            outbox,
        );
    }

    fn call(&mut self, last_id: &mut u64, outbox: &mut Outbox<'_>) {
        self.called = outbox.next_serial();
        let params = format!(r#"{{"name":"x","arguments":{{"n":{}}}}}"#, self.called);
        self.send_request(
            Call::new("tools/call", json(params)),
            PendingStep::Call,
            last_id,
            outbox,
        );
    }

    fn send_request(
        &mut self,
        call: Call,
        step: PendingStep,
        last_id: &mut u64,
        outbox: &mut Outbox<'_>,
    ) {
        match self.connection.clone() {
            ToolConnection::None => {}
            ToolConnection::Client(client_id) => {
                self.last += 1;
                let id = Id::from(self.last);
                self.pending = Some((id.clone(), step));
                let line = Message::Request { id, call }.to_line().into();
                outbox.client_actions.push(ClientAction::Line { client_id, line });
            }
            ToolConnection::Acp(connection) => {
                *last_id += 1;
                let id = Id::from(*last_id);
                self.pending = Some((id.clone(), step));
                let address = Address { server: "", connection_id: &connection, request_id: "" };
                let call = NATIVE.encode_message(Direction::ToServer, address, Some(&id), &call);
                outbox.send(Side::Editor, Message::Request { id, call });
            }
        }
    }

    fn send_notification(&self, call: &Call, outbox: &mut Outbox<'_>) {
        match &self.connection {
            ToolConnection::None => {}
            ToolConnection::Client(client_id) => {
                let line = Message::Notification(call.clone()).to_line().into();
                outbox.client_actions.push(ClientAction::Line { client_id: *client_id, line });
            }
            ToolConnection::Acp(connection) => {
                let address = Address { server: "", connection_id: connection, request_id: "" };
                let call = NATIVE.encode_message(Direction::ToServer, address, None, call);
                outbox.send(Side::Editor, Message::Notification(call));
            }
        }
    }

    /// Whether this is the id of the last request.
    pub fn waits_for(&self, id: &Id, client_id: Option<ClientId>) -> bool {
        self.pending.as_ref().is_some_and(|(it, _)| it == id) && self.client_id() == client_id
    }

    /// Handles the answer to the last request.
    pub fn on_answer(
        &mut self,
        outcome: Outcome,
        last_id: &mut u64,
        outbox: &mut Outbox<'_>,
    ) -> Progress {
        let Some((_, step)) = self.pending.take() else { return Progress::Failed };
        let outcome = match (&self.connection, step) {
            (ToolConnection::Acp(_), _) => match NATIVE.decode_answer(outcome) {
                Answer::FromServer(outcome) => outcome,
                Answer::NotDelivered(error) => Outcome::Error(error),
            },
            _ => outcome,
        };
        let Outcome::Result(result) = outcome else {
            // The next call opens a new connection.
            self.disconnect(last_id, outbox);
            return Progress::Failed;
        };
        match step {
            PendingStep::Connect => {
                let Some(connection) = connection_id_of(&result) else { return Progress::Failed };
                self.connection = ToolConnection::Acp(connection);
                self.initialize(last_id, outbox);
                Progress::Pending
            }
            PendingStep::Initialize => {
                self.send_notification(&Call::new("notifications/initialized", None), outbox);
                self.call(last_id, outbox);
                Progress::Pending
            }
            PendingStep::Call => {
                if number(&result, "to") != Some(self.called) {
                    outbox.violation(format!(
                        "tool call {} is answered with {result:?}",
                        self.called
                    ));
                }
                Progress::Succeeded
            }
        }
    }

    /// The conductor has closed the connection. Returns whether a call was pending.
    pub fn on_disconnected(&mut self) -> bool {
        self.connection = ToolConnection::None;
        self.pending.take().is_some()
    }

    /// Closes the connection.
    pub fn disconnect(&mut self, last_id: &mut u64, outbox: &mut Outbox<'_>) {
        self.pending = None;
        match std::mem::take(&mut self.connection) {
            ToolConnection::None => {}
            ToolConnection::Client(client_id) => {
                outbox.client_actions.push(ClientAction::Disconnect(client_id))
            }
            ToolConnection::Acp(connection) => {
                let (call, is_request) = NATIVE.encode_disconnect(&connection);
                let message = match is_request {
                    true => {
                        *last_id += 1;
                        Message::Request { id: Id::from(*last_id), call }
                    }
                    false => Message::Notification(call),
                };
                outbox.send(Side::Editor, message);
            }
        }
    }
}

/// The ticket in a declaration for an agent that does not support MCP over ACP.
fn ticket(entry: &Json) -> Option<Ticket> {
    let text = entry.as_str();
    let secret =
        text.split(r#""value":"Bearer s"#).nth(1).or(text.split(r#""value":"s"#).nth(1))?;
    Some(Ticket(secret.split('"').next()?.parse().ok()?))
}
