//! What a player writes with, and the payloads that it writes.

use acp_wire::{Id, Json, Message, Outcome, Side};
use bytes::Bytes;
use mcp::{ClientId, Ticket};
use router::Time;

/// The number of a message, which its payload bears as its first member: `{"n":17,…}`.
pub type Serial = usize;

/// Collects what a player says while it deals with one thing.
pub struct Pen<'a> {
    pub now: Time,
    pub serials: &'a mut Serial,
    pub client_ids: &'a mut u64,
    /// The chain is about to end, or has ended.
    pub closing: bool,
    /// How many faults have happened so far.
    pub faults: usize,
    pub said: Vec<(Side, Message)>,
    pub clients: Vec<ClientDo>,
    /// A rule that was broken.
    pub wrong: Option<String>,
}

/// What the agent's MCP clients do.
pub enum ClientDo {
    Call { ticket: Ticket, client_id: ClientId },
    Line { client_id: ClientId, line: Bytes },
    HangUp(ClientId),
}

impl Pen<'_> {
    pub fn fresh(&mut self) -> Serial {
        *self.serials += 1;
        *self.serials
    }

    pub fn fresh_caller(&mut self) -> ClientId {
        *self.client_ids += 1;
        ClientId(*self.client_ids)
    }

    pub fn say(&mut self, toward: Side, message: Message) {
        self.said.push((toward, message));
    }

    pub fn wrong(&mut self, text: impl Into<String>) {
        self.wrong.get_or_insert(text.into());
    }

    /// Answers with a result; `rest` are its other members.
    pub fn result(&mut self, toward: Side, id: Id, to: Option<Serial>, rest: &str) {
        let outcome = Outcome::Result(self.payload(to, rest));
        self.say(toward, Message::response(id, outcome));
    }

    pub fn error(&mut self, toward: Side, id: Id, to: Option<Serial>, code: i64, text: &str) {
        let rest = format!(r#","code":{code},"message":"{text}""#);
        let outcome = Outcome::Error(self.payload(to, &rest));
        self.say(toward, Message::response(id, outcome));
    }

    fn payload(&mut self, to: Option<Serial>, rest: &str) -> Json {
        let to = to.map_or("null".to_owned(), |to| to.to_string());
        json(format!(r#"{{"n":{},"to":{to}{rest}}}"#, self.fresh()))
    }
}

/// # Panics
/// If a player writes nonsense.
pub fn json(text: String) -> Json {
    Json::parse(text).expect("a player writes JSON")
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

/// Sets a session up.
pub fn sets_up(method: &str) -> bool {
    matches!(method, "session/new" | "session/load" | "session/resume")
}

pub fn ends(method: &str) -> bool {
    matches!(method, "session/close" | "session/delete")
}

pub fn is_mcp(method: &str) -> bool {
    method.contains("mcp/")
}
