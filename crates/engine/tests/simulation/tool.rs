//! How an agent uses the tool of a session: in ACP's words, or through an MCP client at the bridge.

use acp_wire::{Call, Id, Json, Message, Outcome, Side};
use mcp::form::{Address, Answer, Direction, Form, connection_id_of, strip_acp_prefix};
use mcp::{ClientId, Ticket};

use crate::pen::{ClientDo, Pen, Serial, json, number};

/// The form that agents speak which speak it themselves.
const NATIVE: Form = Form::M6;

/// The conversation of one session with its server.
#[derive(Debug, Default)]
pub struct Tool {
    /// The server, as it was declared to the agent.
    entry: Option<Json>,
    line: Line,
    /// The last request, and what for.
    wait: Option<(Id, Wait)>,
    last: u64,
    /// The last call.
    called: Serial,
}

#[derive(Debug, Default, Clone, PartialEq)]
enum Line {
    #[default]
    None,
    Connection(String),
    Client(ClientId),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Wait {
    Connect,
    Greet,
    Call,
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    Waits,
    Good,
    Failed,
}

impl Tool {
    pub fn new(params: &Json) -> Tool {
        let servers = params.member("mcpServers").map(|it| it.elements()).unwrap_or_default();
        Tool { entry: servers.into_iter().next(), ..Tool::default() }
    }

    pub fn client_id(&self) -> Option<ClientId> {
        match self.line {
            Line::Client(client_id) => Some(client_id),
            _ => None,
        }
    }

    /// Uses the tool. `fresh` makes an id on the agent's link.
    pub fn begin(&mut self, fresh: &mut u64, pen: &mut Pen<'_>) -> Progress {
        let Some(entry) = self.entry.clone() else { return Progress::Failed };
        // Another turn was cancelled in the middle of this. What it called, nobody waits for.
        match &self.wait {
            Some((_, Wait::Connect | Wait::Greet)) => return Progress::Waits,
            Some((_, Wait::Call)) | None => {}
        }
        match self.line.clone() {
            Line::None => match ticket(&entry) {
                Some(ticket) => {
                    let client_id = pen.fresh_caller();
                    self.line = Line::Client(client_id);
                    pen.clients.push(ClientDo::Call { ticket, client_id });
                    self.greet(fresh, pen);
                }
                None => {
                    let id =
                        ["serverId", "id", "uuid", "url"].iter().find_map(|key| entry.member(key));
                    let Some(id) = id.and_then(|it| Some(strip_acp_prefix(&it.text()?).to_owned()))
                    else {
                        return Progress::Failed;
                    };
                    *fresh += 1;
                    let asked = Id::from(*fresh);
                    self.wait = Some((asked.clone(), Wait::Connect));
                    let call = NATIVE.encode_connect(&id, "");
                    pen.say(Side::Editor, Message::Request { id: asked, call });
                }
            },
            _ => self.call(fresh, pen),
        }
        Progress::Waits
    }

    fn greet(&mut self, fresh: &mut u64, pen: &mut Pen<'_>) {
        let can = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
        self.ask(Call::new("initialize", json(can.to_owned())), Wait::Greet, fresh, pen);
    }

    fn call(&mut self, fresh: &mut u64, pen: &mut Pen<'_>) {
        self.called = pen.fresh();
        let params = format!(r#"{{"name":"x","arguments":{{"n":{}}}}}"#, self.called);
        self.ask(Call::new("tools/call", json(params)), Wait::Call, fresh, pen);
    }

    fn ask(&mut self, call: Call, wait: Wait, fresh: &mut u64, pen: &mut Pen<'_>) {
        match self.line.clone() {
            Line::None => {}
            Line::Client(client_id) => {
                self.last += 1;
                let id = Id::from(self.last);
                self.wait = Some((id.clone(), wait));
                let line = Message::Request { id, call }.to_line().into();
                pen.clients.push(ClientDo::Line { client_id, line });
            }
            Line::Connection(connection) => {
                *fresh += 1;
                let id = Id::from(*fresh);
                self.wait = Some((id.clone(), wait));
                let address = Address { server: "", connection_id: &connection, request_id: "" };
                let call = NATIVE.encode_message(Direction::ToServer, address, Some(&id), &call);
                pen.say(Side::Editor, Message::Request { id, call });
            }
        }
    }

    fn note(&self, call: &Call, pen: &mut Pen<'_>) {
        match &self.line {
            Line::None => {}
            Line::Client(client_id) => {
                let line = Message::Notification(call.clone()).to_line().into();
                pen.clients.push(ClientDo::Line { client_id: *client_id, line });
            }
            Line::Connection(connection) => {
                let address = Address { server: "", connection_id: connection, request_id: "" };
                let call = NATIVE.encode_message(Direction::ToServer, address, None, call);
                pen.say(Side::Editor, Message::Notification(call));
            }
        }
    }

    pub fn waits_for(&self, id: &Id, client_id: Option<ClientId>) -> bool {
        self.wait.as_ref().is_some_and(|(it, _)| it == id) && self.client_id() == client_id
    }

    /// What it has waited for.
    pub fn on_answer(&mut self, outcome: Outcome, fresh: &mut u64, pen: &mut Pen<'_>) -> Progress {
        let Some((_, wait)) = self.wait.take() else { return Progress::Failed };
        let outcome = match (&self.line, wait) {
            (Line::Connection(_), _) => match NATIVE.decode_answer(outcome) {
                Answer::FromServer(outcome) => outcome,
                Answer::NotDelivered(error) => Outcome::Error(error),
            },
            _ => outcome,
        };
        let Outcome::Result(result) = outcome else {
            // A connection that is not there any more is opened again next time.
            self.leave(fresh, pen);
            return Progress::Failed;
        };
        match wait {
            Wait::Connect => {
                let Some(connection) = connection_id_of(&result) else { return Progress::Failed };
                self.line = Line::Connection(connection);
                self.greet(fresh, pen);
                Progress::Waits
            }
            Wait::Greet => {
                self.note(&Call::new("notifications/initialized", None), pen);
                self.call(fresh, pen);
                Progress::Waits
            }
            Wait::Call => {
                if number(&result, "to") != Some(self.called) {
                    pen.wrong(format!("tool call {} is answered with {result:?}", self.called));
                }
                Progress::Good
            }
        }
    }

    /// The conductor has hung up.
    pub fn on_hung_up(&mut self) -> bool {
        self.line = Line::None;
        self.wait.take().is_some()
    }

    /// Ends the conversation.
    pub fn leave(&mut self, fresh: &mut u64, pen: &mut Pen<'_>) {
        self.wait = None;
        match std::mem::take(&mut self.line) {
            Line::None => {}
            Line::Client(client_id) => pen.clients.push(ClientDo::HangUp(client_id)),
            Line::Connection(connection) => {
                let (call, asks) = NATIVE.encode_disconnect(&connection);
                let message = match asks {
                    true => {
                        *fresh += 1;
                        Message::Request { id: Id::from(*fresh), call }
                    }
                    false => Message::Notification(call),
                };
                pen.say(Side::Editor, message);
            }
        }
    }
}

/// The ticket in a declaration that was made for an agent without MCP over ACP.
fn ticket(entry: &Json) -> Option<Ticket> {
    let text = entry.as_str();
    let secret =
        text.split(r#""value":"Bearer s"#).nth(1).or(text.split(r#""value":"s"#).nth(1))?;
    Some(Ticket(secret.split('"').next()?.parse().ok()?))
}
