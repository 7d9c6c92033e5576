//! JSON-RPC messages: their kind, and their parts as text.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;

use crate::json::{self, Json, SyntaxError};
use crate::sink::{LONG_THRESHOLD, Sink};

mod method;
mod parts;
mod scan;

pub use method::Method;
pub use parts::DamagedLine;
pub(crate) use parts::{BAD_ENVELOPE, MessageParts};
pub use scan::{LineScan, PartialMessage, ScanResult};

/// An end of a chain, and also a direction: a message travels *toward* a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The side of the editor.
    Editor,
    /// The side of the agent.
    Agent,
}

impl Side {
    /// The other side.
    pub fn opposite(self) -> Side {
        match self {
            Side::Editor => Side::Agent,
            Side::Agent => Side::Editor,
        }
    }
}

/// A request id: a string, an integer of any size, or null. It keeps its spelling.
#[derive(Clone)]
pub struct Id(Json);

impl Id {
    /// The id `null`.
    pub const NULL: Id = Id(Json::NULL);

    /// The id with this JSON value. `None` for fractions, booleans, arrays and objects, which JSON-RPC does
    /// not allow.
    pub fn new(json: Json) -> Option<Id> {
        let text = json.as_bytes();
        let fits = match text.first()? {
            b'"' => true,
            b'n' => true,
            b'-' | b'0'..=b'9' => text[1..].iter().all(u8::is_ascii_digit),
            _ => false,
        };
        fits.then_some(Id(json))
    }

    /// A string id with this text.
    pub fn string(text: &str) -> Id {
        Id(Json::string(text))
    }

    /// Whether the id is null.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The JSON value.
    pub fn json(&self) -> &Json {
        &self.0
    }

    /// The unescaped text of a string id. `None` for any other id.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        self.0.text()
    }

    /// A copy that does not share the memory of its line. Use it for ids that are kept for long, for
    /// example as keys of a map.
    pub fn detached(&self) -> Id {
        Id(self.0.detached())
    }
}

/// Two spellings of the same string are equal. `1` and `"1"` are different.
impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Id {}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Id) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Strings come first, ordered by their text. Then numbers, ordered by their digits as text. Then null.
impl Ord for Id {
    fn cmp(&self, other: &Id) -> Ordering {
        let (ours, theirs) = (self.0.as_bytes(), other.0.as_bytes());
        if ours == theirs {
            return Ordering::Equal;
        }
        // Only escaped strings need to be unescaped.
        match (ours, theirs) {
            ([b'"', ours @ .., b'"'], [b'"', theirs @ .., b'"'])
                if !ours.contains(&b'\\') && !theirs.contains(&b'\\') =>
            {
                ours.cmp(theirs)
            }
            ([b'"', ..], [b'"', ..]) => self.text().cmp(&other.text()),
            _ => ours.cmp(theirs),
        }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Id {
        Id(Json::trusted(number.to_string()))
    }
}

/// The method and params of a request or notification.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The params: absent, or any JSON value. A well-behaved sender uses an object, an array or null.
    pub params: Option<Json>,
    /// Members of the message that JSON-RPC does not define, as `,"key":value` text. They are forwarded.
    pub extras: Option<Box<[u8]>>,
}

impl Call {
    /// A call without extra members.
    pub fn new(method: &str, params: impl Into<Option<Json>>) -> Call {
        Call { method: method.into(), params: params.into(), extras: None }
    }

    /// Whether the call has this method.
    pub fn is(&self, method: &str) -> bool {
        self.method == *method
    }

    /// Whether `test` returns true for the method or for any string in the params or extra members (see
    /// [`Json::any_string`]).
    pub fn any_string(&self, mut test: impl FnMut(&str) -> bool) -> bool {
        test(&self.method.name())
            || self.params.as_ref().is_some_and(|params| params.any_string(&mut test))
            || self.extras.as_deref().is_some_and(|extras| json::any_string(extras, &mut test))
    }

    /// A copy that does not share the memory of its line.
    pub fn detached(&self) -> Call {
        Call {
            method: self.method.detached(),
            params: self.params.as_ref().map(Json::detached),
            extras: self.extras.clone(),
        }
    }
}

/// The result or the error of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A result, which may be any JSON value.
    Result(Json),
    /// A JSON-RPC error object.
    Error(Json),
}

impl Outcome {
    /// An error with this code and message.
    pub fn error(code: i64, message: &str) -> Outcome {
        Outcome::Error(error_object(code, message, None))
    }

    /// A copy that does not share the memory of its line.
    pub fn detached(&self) -> Outcome {
        match self {
            Outcome::Result(json) => Outcome::Result(json.detached()),
            Outcome::Error(json) => Outcome::Error(json.detached()),
        }
    }

    /// The code of an error, if it has one.
    pub fn error_code(&self) -> Option<i64> {
        match self {
            Outcome::Error(error) => error.member("code")?.integer(),
            Outcome::Result(_) => None,
        }
    }
}

/// A JSON-RPC error object.
pub fn error_object(code: i64, message: &str, data: Option<&Json>) -> Json {
    let mut out = format!("{{\"code\":{code},\"message\":").into_bytes();
    json::write_string(message, &mut out);
    if let Some(data) = data {
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(data.as_bytes());
    }
    out.push(b'}');
    Json::trusted(out)
}

/// The error codes that a conductor itself uses.
pub mod code {
    /// JSON-RPC: the line is not valid JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// JSON-RPC: the line is not a valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// JSON-RPC: the method is not known.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// JSON-RPC: the params are not valid.
    pub const INVALID_PARAMS: i64 = -32602;
    /// JSON-RPC: an internal error.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// ACP: the request was cancelled.
    pub const CANCELLED: i64 = -32800;
    /// ACP: a resource that the request names, such as a session, does not exist.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// MCP over ACP: the server does not exist, or no longer exists.
    pub const NO_SUCH_SERVER: i64 = -33001;
    /// MCP over ACP: the server failed, for example because it could not be opened.
    pub const SERVER_FAILED: i64 = -33002;
}

/// A JSON-RPC message without an envelope.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A request.
    Request {
        /// The id, which the response repeats.
        id: Id,
        /// The method and params.
        call: Call,
    },
    /// A notification, which has no response.
    Notification(Call),
    /// The response to a request.
    Response {
        /// The id of the request.
        id: Id,
        /// The result or error.
        outcome: Outcome,
        /// Members that JSON-RPC does not define, as `,"key":value` text. They are forwarded.
        extras: Option<Box<[u8]>>,
    },
}

impl Message {
    /// A request.
    pub fn request(id: Id, method: &str, params: impl Into<Option<Json>>) -> Message {
        Message::Request { id, call: Call::new(method, params) }
    }

    /// A notification.
    pub fn notification(method: &str, params: impl Into<Option<Json>>) -> Message {
        Message::Notification(Call::new(method, params))
    }

    /// A request if there is an id, otherwise a notification.
    pub(crate) fn call(id: Option<Id>, call: Call) -> Message {
        match id {
            Some(id) => Message::Request { id, call },
            None => Message::Notification(call),
        }
    }

    /// A response without extra members.
    pub fn response(id: Id, outcome: Outcome) -> Message {
        Message::Response { id, outcome, extras: None }
    }

    /// The approximate length of the line of this message.
    pub fn size(&self) -> usize {
        match self {
            Message::Request { call, .. } | Message::Notification(call) => call.size() + FRAMING,
            Message::Response { outcome, extras, .. } => {
                let (Outcome::Result(value) | Outcome::Error(value)) = outcome;
                value.as_bytes().len() + extras.as_ref().map_or(0, |it| it.len()) + FRAMING
            }
        }
    }

    /// A copy that does not share the memory of its line.
    pub fn detached(&self) -> Message {
        match self {
            Message::Request { id, call } => {
                Message::Request { id: id.detached(), call: call.detached() }
            }
            Message::Notification(call) => Message::Notification(call.detached()),
            Message::Response { id, outcome, extras } => Message::Response {
                id: id.detached(),
                outcome: outcome.detached(),
                extras: extras.clone(),
            },
        }
    }

    /// The method, `result` or `error`. For the log.
    pub fn label(&self) -> Cow<'_, str> {
        match self {
            Message::Request { call, .. } | Message::Notification(call) => call.method.name(),
            Message::Response { outcome: Outcome::Result(_), .. } => "result".into(),
            Message::Response { outcome: Outcome::Error(_), .. } => "error".into(),
        }
    }

    /// Parses one line of plain JSON-RPC.
    pub fn parse(line: &Bytes) -> Result<Message, Malformed> {
        let mut parts = MessageParts::default();
        parts.split(line)?;
        parts.message(line)
    }

    /// Appends the message as one plain line, including the newline.
    pub fn write_line(&self, out: &mut dyn Sink) {
        match self.size() < LONG_THRESHOLD {
            true => self.write_line_to(out.buffer()),
            false => self.write_line_to(out),
        }
    }

    fn write_line_to<S: Sink + ?Sized>(&self, out: &mut S) {
        match self {
            Message::Request { id, call } => {
                start_line(Some(id), call.size(), out.buffer());
                call.write_members(out);
            }
            Message::Notification(call) => {
                start_line(None, call.size(), out.buffer());
                call.write_members(out);
            }
            Message::Response { id, outcome, extras } => {
                let (key, value) = match outcome {
                    Outcome::Result(value) => (&b",\"result\":"[..], value),
                    Outcome::Error(value) => (&b",\"error\":"[..], value),
                };
                start_line(Some(id), value.as_bytes().len(), out.buffer());
                out.buffer().extend_from_slice(key);
                value.write(out);
                out.buffer().extend_from_slice(extras.as_deref().unwrap_or_default());
            }
        }
        end_line(out.buffer());
    }

    /// The plain line as text, without the newline.
    pub fn to_line(&self) -> String {
        let mut out = Vec::new();
        self.write_line(&mut out);
        out.pop();
        String::from_utf8(out).unwrap_or_default()
    }
}

/// The approximate length of the framing of a message: brackets, keys and the id.
const FRAMING: usize = 128;

/// Reserves space for a payload and its framing. A large payload gets the exact space, because doubling the
/// buffer would cost a copy and twice the memory.
pub(crate) fn make_room(size: usize, out: &mut Vec<u8>) {
    if size > out.capacity() - out.len() {
        out.reserve_exact((size + FRAMING).max(out.len()));
    }
}

pub(crate) fn start_line(id: Option<&Id>, size: usize, out: &mut Vec<u8>) {
    if size < LONG_THRESHOLD {
        make_room(size, out);
    }
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id.json().as_bytes());
    }
}

pub(crate) fn end_line(out: &mut Vec<u8>) {
    out.extend_from_slice(b"}\n");
}

impl Call {
    pub(crate) fn size(&self) -> usize {
        self.method.json().as_bytes().len()
            + self.params.as_ref().map_or(0, |params| params.as_bytes().len())
            + self.extras.as_ref().map_or(0, |it| it.len())
    }

    /// Appends the members of the call to a message that has other members before them.
    pub(crate) fn write_members<S: Sink + ?Sized>(&self, out: &mut S) {
        out.buffer().push(b',');
        self.write_method_and_params(None, out);
    }

    /// Appends `"method":…,"params":…` and the extra members. `missing` is written in place of missing params.
    pub(crate) fn write_method_and_params<S: Sink + ?Sized>(
        &self,
        missing: Option<&[u8]>,
        out: &mut S,
    ) {
        let buffer = out.buffer();
        buffer.extend_from_slice(b"\"method\":");
        buffer.extend_from_slice(self.method.json().as_bytes());
        match (&self.params, missing) {
            (Some(params), _) => {
                buffer.extend_from_slice(b",\"params\":");
                params.write(out);
            }
            (None, Some(missing)) => {
                buffer.extend_from_slice(b",\"params\":");
                buffer.extend_from_slice(missing);
            }
            (None, None) => {}
        }
        if let Some(extras) = &self.extras {
            out.buffer().extend_from_slice(extras);
        }
    }
}

/// Why a line is not a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Malformed {
    /// The line is not JSON, for example a banner, a log line or half a message.
    NotJson(SyntaxError),
    /// The line is JSON, but not a valid message. `id` is its id if it has a readable one, otherwise null.
    NotAMessage {
        /// The id of the message, or null.
        id: Id,
        /// What is wrong.
        why: &'static str,
    },
    /// The line is a response without an id, so it answers no request.
    AnswerWithoutId,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::NotJson(syntax) => write!(f, "not JSON: {syntax}"),
            Malformed::NotAMessage { why, .. } => f.write_str(why),
            Malformed::AnswerWithoutId => f.write_str("an answer without an id"),
        }
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests;
