//! One JSON-RPC message: what kind it is, and its parts as they were spelt.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;

use crate::json::{self, Json, SyntaxError};
use crate::sink::{LONG, Sink};

mod method;
mod parts;
mod scan;

pub use method::Method;
pub use parts::DamagedLine;
pub(crate) use parts::{BAD_ENVELOPE, Parts};
pub use scan::{Findings, PartialMessage, Scan};

/// The two ends of a chain, and so the two ways to go. A message travels *toward* a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    Editor,
    Agent,
}

impl Side {
    pub fn opposite(self) -> Side {
        match self {
            Side::Editor => Side::Agent,
            Side::Agent => Side::Editor,
        }
    }
}

/// A request id: a string, an integer of any length, or null. Kept as it was spelt.
#[derive(Clone)]
pub struct Id(Json);

impl Id {
    pub const NULL: Id = Id(Json::NULL);

    /// `None` for what JSON-RPC does not take as an id: fractions, booleans, arrays, objects.
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

    pub fn string(text: &str) -> Id {
        Id(Json::string(text))
    }

    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub fn json(&self) -> &Json {
        &self.0
    }

    pub fn text(&self) -> Option<Cow<'_, str>> {
        self.0.text()
    }

    pub fn detached(&self) -> Id {
        Id(self.0.detached())
    }
}

/// Two spellings of one string are one id; `1` and `"1"` are two. An id that is kept for long, for example
/// as the key of a map, is to be [`detached`](Id::detached) from its line.
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

/// Strings come first, in the order of their texts; then numbers, in the order of their digits as text.
impl Ord for Id {
    fn cmp(&self, other: &Id) -> Ordering {
        let (ours, theirs) = (self.0.as_bytes(), other.0.as_bytes());
        if ours == theirs {
            return Ordering::Equal;
        }
        // Only escapes make it necessary to build a text.
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

/// What a request or a notification says.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub method: Method,
    /// Absent, or any JSON value (a well-behaved sender uses an object, an array or null).
    pub params: Option<Json>,
    /// Members of the message that JSON-RPC does not know, as `,"key":value` text: passed on.
    pub extras: Option<Box<[u8]>>,
}

impl Call {
    pub fn new(method: &str, params: impl Into<Option<Json>>) -> Call {
        Call { method: method.into(), params: params.into(), extras: None }
    }

    pub fn is(&self, method: &str) -> bool {
        self.method == *method
    }

    /// Whether the test holds for the method or for any string inside (see [`Json::any_string`]), also in
    /// members of the message that JSON-RPC does not know.
    pub fn any_string(&self, mut test: impl FnMut(&str) -> bool) -> bool {
        test(&self.method.name())
            || self.params.as_ref().is_some_and(|params| params.any_string(&mut test))
            || self.extras.as_deref().is_some_and(|extras| json::any_string(extras, &mut test))
    }

    /// A copy that does not keep the line it was cut from alive.
    pub fn detached(&self) -> Call {
        Call {
            method: self.method.detached(),
            params: self.params.as_ref().map(Json::detached),
            extras: self.extras.clone(),
        }
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Result(Json),
    Error(Json),
}

impl Outcome {
    pub fn error(code: i64, message: &str) -> Outcome {
        Outcome::Error(error_object(code, message, None))
    }

    /// A copy that does not keep the line it was cut from alive.
    pub fn detached(&self) -> Outcome {
        match self {
            Outcome::Result(json) => Outcome::Result(json.detached()),
            Outcome::Error(json) => Outcome::Error(json.detached()),
        }
    }

    /// The code of an error, where it has one.
    pub fn error_code(&self) -> Option<i64> {
        match self {
            Outcome::Error(error) => error.member("code")?.integer(),
            Outcome::Result(_) => None,
        }
    }
}

/// The JSON-RPC error object with these words.
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
    pub const PARSE_ERROR: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL_ERROR: i64 = -32603;
    pub const CANCELLED: i64 = -32800;
    /// ACP: something that the request names, such as a session, does not exist.
    pub const NO_SUCH_SESSION: i64 = -32002;
    /// MCP over ACP: the server is not there, or not any more.
    pub const NO_SUCH_SERVER: i64 = -33001;
    /// MCP over ACP: the server has answered with something that is not an answer to the request.
    pub const BACKEND_FAILED: i64 = -33002;
}

/// A message, free of any envelope.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    Request { id: Id, call: Call },
    Notification(Call),
    Response { id: Id, outcome: Outcome, extras: Option<Box<[u8]>> },
}

impl Message {
    pub fn request(id: Id, method: &str, params: impl Into<Option<Json>>) -> Message {
        Message::Request { id, call: Call::new(method, params) }
    }

    pub fn notification(method: &str, params: impl Into<Option<Json>>) -> Message {
        Message::Notification(Call::new(method, params))
    }

    pub(crate) fn call(id: Option<Id>, call: Call) -> Message {
        match id {
            Some(id) => Message::Request { id, call },
            None => Message::Notification(call),
        }
    }

    pub fn response(id: Id, outcome: Outcome) -> Message {
        Message::Response { id, outcome, extras: None }
    }

    /// About how long its line is.
    pub fn size(&self) -> usize {
        match self {
            Message::Request { call, .. } | Message::Notification(call) => call.size() + FRAMING,
            Message::Response { outcome, extras, .. } => {
                let (Outcome::Result(value) | Outcome::Error(value)) = outcome;
                value.as_bytes().len() + extras.as_ref().map_or(0, |it| it.len()) + FRAMING
            }
        }
    }

    /// A copy that does not keep the line it was cut from alive.
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

    /// For the log: the method, or what kind of answer it is.
    pub fn label(&self) -> Cow<'_, str> {
        match self {
            Message::Request { call, .. } | Message::Notification(call) => call.method.name(),
            Message::Response { outcome: Outcome::Result(_), .. } => "result".into(),
            Message::Response { outcome: Outcome::Error(_), .. } => "error".into(),
        }
    }

    /// Reads one line of plain JSON-RPC.
    pub fn parse(line: &Bytes) -> Result<Message, Malformed> {
        let mut parts = Parts::default();
        parts.split(line)?;
        parts.message(line)
    }

    /// Appends the message as one plain line, newline included.
    pub fn write_line(&self, out: &mut dyn Sink) {
        match self.size() < LONG {
            true => self.write_line_to(out.short()),
            false => self.write_line_to(out),
        }
    }

    fn write_line_to<S: Sink + ?Sized>(&self, out: &mut S) {
        match self {
            Message::Request { id, call } => {
                start_line(Some(id), call.size(), out.short());
                call.write_members(out);
            }
            Message::Notification(call) => {
                start_line(None, call.size(), out.short());
                call.write_members(out);
            }
            Message::Response { id, outcome, extras } => {
                let (key, value) = match outcome {
                    Outcome::Result(value) => (&b",\"result\":"[..], value),
                    Outcome::Error(value) => (&b",\"error\":"[..], value),
                };
                start_line(Some(id), value.as_bytes().len(), out.short());
                out.short().extend_from_slice(key);
                value.write(out);
                out.short().extend_from_slice(extras.as_deref().unwrap_or_default());
            }
        }
        end_line(out.short());
    }

    /// The plain line as text, without its newline.
    pub fn to_line(&self) -> String {
        let mut out = Vec::new();
        self.write_line(&mut out);
        out.pop();
        String::from_utf8(out).unwrap_or_default()
    }
}

/// Room for the framing of a message: brackets, keys, an id of ours.
const FRAMING: usize = 128;

/// Makes room for a payload and its framing. A large one is given its exact room: doubling would cost a copy and
/// twice the memory.
pub(crate) fn make_room(size: usize, out: &mut Vec<u8>) {
    if size > out.capacity() - out.len() {
        out.reserve_exact((size + FRAMING).max(out.len()));
    }
}

pub(crate) fn start_line(id: Option<&Id>, size: usize, out: &mut Vec<u8>) {
    if size < LONG {
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

    /// Appends `,"method":…,"params":…`, the members of a message.
    pub(crate) fn write_members<S: Sink + ?Sized>(&self, out: &mut S) {
        out.short().push(b',');
        self.write_inner_or(None, out);
    }

    /// Appends `"method":…,"params":…`, the members of an envelope, with something in path of params that are
    /// missing.
    pub(crate) fn write_inner_or<S: Sink + ?Sized>(&self, missing: Option<&[u8]>, out: &mut S) {
        let short = out.short();
        short.extend_from_slice(b"\"method\":");
        short.extend_from_slice(self.method.json().as_bytes());
        match (&self.params, missing) {
            (Some(params), _) => {
                short.extend_from_slice(b",\"params\":");
                params.write(out);
            }
            (None, Some(missing)) => {
                short.extend_from_slice(b",\"params\":");
                short.extend_from_slice(missing);
            }
            (None, None) => {}
        }
        if let Some(extras) = &self.extras {
            out.short().extend_from_slice(extras);
        }
    }
}

/// Why a line is not a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Malformed {
    /// Not JSON at all: a banner, a log line, half a message.
    NotJson(SyntaxError),
    /// JSON, but not a message we can take. The id is the sender's where one could be read.
    NotAMessage { id: Id, why: &'static str },
    /// An answer that does not say to what. Nobody can be told.
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
