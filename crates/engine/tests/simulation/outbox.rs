//! [`Outbox`]: collects what a participant sends. And the format of the payloads.

use acp_wire::{Id, Json, Message, Outcome, Side};
use bytes::Bytes;
use mcp::{ClientId, Ticket};
use router::Time;

/// The serial number of a message. It is the first member of its payload: `{"n":17,…}`.
pub type Serial = usize;

/// The id of the panels of all components.
pub const PANEL: &str = "plan";

/// Shows a panel.
pub const SHOW_PANEL: &str = "_scp/html_panel/show";

/// A person has used a panel. The member `of` is the serial number of the message that has shown it.
pub const USE_PANEL: &str = "_scp/html_panel/event";

/// Collects what a participant sends while it handles one event.
pub struct Outbox<'a> {
    pub now: Time,
    pub last_serial: &'a mut Serial,
    pub last_client_id: &'a mut u64,
    /// Whether the chain is ending or has ended.
    pub is_ending: bool,
    /// How many failures have happened so far.
    pub failures: usize,
    pub sent: Vec<(Side, Message)>,
    pub client_actions: Vec<ClientAction>,
    /// The first violation of a rule.
    pub violation: Option<String>,
}

/// What an MCP client of the agent does.
pub enum ClientAction {
    Connect { ticket: Ticket, client_id: ClientId },
    Line { client_id: ClientId, line: Bytes },
    Disconnect(ClientId),
}

impl Outbox<'_> {
    pub fn next_serial(&mut self) -> Serial {
        *self.last_serial += 1;
        *self.last_serial
    }

    pub fn next_client_id(&mut self) -> ClientId {
        *self.last_client_id += 1;
        ClientId(*self.last_client_id)
    }

    pub fn send(&mut self, toward: Side, message: Message) {
        self.sent.push((toward, message));
    }

    pub fn violation(&mut self, text: impl Into<String>) {
        self.violation.get_or_insert(text.into());
    }

    /// Answers with a result. `rest` is the text of its other members.
    pub fn result(&mut self, toward: Side, id: Id, to: Option<Serial>, rest: &str) {
        let outcome = Outcome::Result(self.payload(to, rest));
        self.send(toward, Message::response(id, outcome));
    }

    pub fn error(&mut self, toward: Side, id: Id, to: Option<Serial>, code: i64, text: &str) {
        let rest = format!(r#","code":{code},"message":"{text}""#);
        let outcome = Outcome::Error(self.payload(to, &rest));
        self.send(toward, Message::response(id, outcome));
    }

    /// Shows a panel. All components use the same id.
    pub fn show_panel(&mut self) {
        let params = json(format!(r#"{{"n":{},"id":"{PANEL}"}}"#, self.next_serial()));
        self.send(Side::Editor, Message::notification(SHOW_PANEL, params));
    }

    fn payload(&mut self, to: Option<Serial>, rest: &str) -> Json {
        let to = to.map_or("null".to_owned(), |to| to.to_string());
        json(format!(r#"{{"n":{},"to":{to}{rest}}}"#, self.next_serial()))
    }
}

/// # Panics
/// If the text is not JSON.
pub fn json(text: String) -> Json {
    Json::parse(text).expect("a participant writes JSON")
}

pub fn serial(payload: &Json) -> Option<Serial> {
    let number = payload.as_str().strip_prefix("{\"n\":")?;
    let end = number.find(|it: char| !it.is_ascii_digit())?;
    number[..end].parse().ok()
}

/// The params, the result or the error.
pub fn payload_of(message: &Message) -> Option<&Json> {
    match message {
        Message::Request { call, .. } | Message::Notification(call) => call.params.as_ref(),
        Message::Response { outcome: Outcome::Result(it) | Outcome::Error(it), .. } => Some(it),
    }
}

pub fn text(json: &Json, path: &[&str]) -> Option<String> {
    json.at(path)?.text().map(|it| it.into_owned())
}

pub fn number(json: &Json, key: &str) -> Option<usize> {
    json.member(key)?.as_str().parse().ok()
}

pub fn session(payload: Option<&Json>) -> Option<String> {
    text(payload?, &["sessionId"])
}

pub fn key(id: &Id) -> String {
    id.json().as_str().to_owned()
}

/// Whether a method sets up a session.
pub fn sets_up(method: &str) -> bool {
    matches!(method, "session/new" | "session/load" | "session/resume")
}

pub fn ends(method: &str) -> bool {
    matches!(method, "session/close" | "session/delete")
}

pub fn is_mcp(method: &str) -> bool {
    method.contains("mcp/")
}
