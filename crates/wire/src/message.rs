//! One JSON-RPC message: what kind it is, and its parts as they were spelt.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::json::{self, Json, Span, Syntax, Walker};

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

/// Two spellings of one string are one id; `1` and `"1"` are two.
impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.0 == other.0 || matches!((self.text(), other.text()), (Some(a), Some(b)) if a == b)
    }
}

impl Eq for Id {}

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

/// A method name as a JSON string.
#[derive(Clone)]
pub struct Method(Json);

impl Method {
    pub(crate) fn new(json: Json) -> Method {
        Method(json)
    }

    pub fn name(&self) -> Cow<'_, str> {
        self.0.text().unwrap_or_default()
    }

    pub fn json(&self) -> &Json {
        &self.0
    }
}

impl From<&str> for Method {
    fn from(name: &str) -> Method {
        Method(Json::string(name))
    }
}

impl PartialEq<str> for Method {
    fn eq(&self, name: &str) -> bool {
        self.0.says(name)
    }
}

impl PartialEq for Method {
    fn eq(&self, other: &Method) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// What a request or a notification says.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub method: Method,
    /// Absent, or any JSON value (a well-behaved sender uses an object, an array or null).
    pub params: Option<Json>,
    /// Members of the message that JSON-RPC does not know, as `,"key":value` text: passed on.
    pub extras: Option<Bytes>,
}

impl Call {
    pub fn new(method: &str, params: impl Into<Option<Json>>) -> Call {
        Call { method: method.into(), params: params.into(), extras: None }
    }

    pub fn is(&self, method: &str) -> bool {
        self.method == *method
    }

    /// A copy that does not keep the line it was cut from alive.
    pub fn detached(&self) -> Call {
        Call {
            method: Method(self.method.0.detached()),
            params: self.params.as_ref().map(Json::detached),
            extras: self.extras.as_deref().map(Bytes::copy_from_slice),
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
}

/// A message, free of any envelope.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    Request { id: Id, call: Call },
    Notification(Call),
    Response { id: Id, outcome: Outcome, extras: Option<Bytes> },
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
        Parts::split(line)?.into_message(line)
    }

    /// Appends the message as one plain line, newline included.
    pub fn write_line(&self, out: &mut Vec<u8>) {
        match self {
            Message::Request { id, call } => {
                start_line(Some(id), call.size(), out);
                call.write_members(out);
                end_line(out);
            }
            Message::Notification(call) => {
                start_line(None, call.size(), out);
                call.write_members(out);
                end_line(out);
            }
            Message::Response { id, outcome, extras } => {
                let (key, value) = match outcome {
                    Outcome::Result(value) => (&b",\"result\":"[..], value),
                    Outcome::Error(value) => (&b",\"error\":"[..], value),
                };
                start_line(Some(id), value.as_bytes().len(), out);
                out.extend_from_slice(key);
                out.extend_from_slice(value.as_bytes());
                out.extend_from_slice(extras.as_deref().unwrap_or_default());
                end_line(out);
            }
        }
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

pub(crate) fn start_line(id: Option<&Id>, size: usize, out: &mut Vec<u8>) {
    // A large payload is given its exact room: doubling would cost a copy and twice the memory.
    if size > out.capacity() - out.len() {
        out.reserve_exact((size + FRAMING).max(out.len()));
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
            + self.extras.as_ref().map_or(0, Bytes::len)
    }

    /// Appends `,"method":…,"params":…`, the members of a message.
    pub(crate) fn write_members(&self, out: &mut Vec<u8>) {
        out.push(b',');
        self.write_inner(out);
    }

    /// Appends `"method":…,"params":…`, the members of an envelope.
    pub(crate) fn write_inner(&self, out: &mut Vec<u8>) {
        self.write_inner_or(None, out);
    }

    /// The same, with something in place of params that are missing.
    pub(crate) fn write_inner_or(&self, missing: Option<&[u8]>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"method\":");
        out.extend_from_slice(self.method.json().as_bytes());
        if let Some(params) = self.params.as_ref().map(Json::as_bytes).or(missing) {
            out.extend_from_slice(b",\"params\":");
            out.extend_from_slice(params);
        }
        out.extend_from_slice(self.extras.as_deref().unwrap_or_default());
    }
}

/// Why a line is not a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Malformed {
    /// Not JSON at all: a banner, a log line, half a message.
    NotJson(Syntax),
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

/// Where the parts of a message stand in its line. Everything is found in one walk, the two
/// members of an envelope inside `params` included, whichever order the keys come in.
#[derive(Default)]
pub(crate) struct Parts {
    id: Option<Span>,
    pub method: Option<Span>,
    params: Option<Span>,
    result: Option<Span>,
    error: Option<Span>,
    extras: Vec<Span>,
    pub inner: Inner,
}

/// What an envelope would carry, if these params are one.
#[derive(Default)]
pub(crate) struct Inner {
    pub method: Option<Span>,
    pub params: Option<Span>,
    /// A whole message, where older generations keep the two.
    pub message: Option<Span>,
    /// There are members beside these two and the envelope's own metadata.
    others: bool,
}

/// Why an envelope cannot be opened.
pub(crate) const BAD_ENVELOPE: &str = "an envelope needs a string `method` and, if any, `params` that are an object, an array or null";

impl Parts {
    pub fn split(line: &Bytes) -> Result<Parts, Malformed> {
        let mut walker = Walker::new(line);
        match walker.peek() {
            Some(b'{') => {}
            _ => {
                let value = walker.value().and_then(|span| walker.end().map(|()| span));
                let span = value.map_err(Malformed::NotJson)?;
                let why = match line[span.start] {
                    b'[' => "batches are not supported: send one message a line",
                    _ => "a message must be a JSON object",
                };
                return Err(Malformed::NotAMessage { id: Id::NULL, why });
            }
        }
        let mut parts = Parts::default();
        let mut twice = false;
        let walked = walker.object(|key, walker| {
            let key_start = walker.key_start();
            let slot = match key {
                b"params" if walker.peek() == Some(b'{') => {
                    twice |= parts.params.is_some();
                    parts.inner = Inner::default();
                    let inner = &mut parts.inner;
                    parts.params = Some(walker.object(|key, walker| {
                        let value = walker.value()?;
                        match key {
                            b"method" => inner.method = Some(value),
                            b"params" => inner.params = Some(value),
                            b"_meta" | b"meta" => {}
                            b"message" => (inner.message, inner.others) = (Some(value), true),
                            _ => inner.others = true,
                        }
                        Ok(())
                    })?);
                    return Ok(());
                }
                b"params" => &mut parts.params,
                b"id" => &mut parts.id,
                b"method" => &mut parts.method,
                b"result" => &mut parts.result,
                b"error" => &mut parts.error,
                b"jsonrpc" => {
                    walker.value()?;
                    return Ok(());
                }
                _ => {
                    let value = walker.value()?;
                    parts.extras.push(Span { start: key_start, end: value.end });
                    return Ok(());
                }
            };
            twice |= slot.replace(walker.value()?).is_some();
            Ok(())
        });
        walked.and_then(|_| walker.end()).map_err(Malformed::NotJson)?;
        if twice {
            // Which one counts? Two readers may disagree, and then an answer reaches the wrong one.
            let why = "a member of the message stands twice";
            return Err(Malformed::NotAMessage { id: Id::NULL, why });
        }
        Ok(parts)
    }

    pub fn into_message(self, line: &Bytes) -> Result<Message, Malformed> {
        let id = self.id(line)?;
        let json = |span| Json::slice_of(line, span);
        let refuse = |why| Err(Malformed::NotAMessage { id: id.clone().unwrap_or(Id::NULL), why });
        let outcome = match (self.result, self.error) {
            // Peers that write every member of an answer say `"error":null` beside the result.
            (Some(result), None) => Some(Outcome::Result(json(result))),
            (Some(result), Some(error)) if json(error).is_null() => {
                Some(Outcome::Result(json(result)))
            }
            (_, Some(error)) => Some(Outcome::Error(json(error))),
            (None, None) => None,
        };
        let extras = self.extras(line);
        match (self.method, outcome) {
            (Some(_), Some(_)) => refuse("a message cannot be both a call and an answer"),
            (Some(method), None) => {
                let method = json(method);
                if !method.is_string() {
                    return refuse("the method must be a string");
                }
                let params = self.params.map(json);
                let call = Call { method: Method::new(method), params, extras };
                Ok(match id {
                    Some(id) => Message::Request { id, call },
                    None => Message::Notification(call),
                })
            }
            (None, Some(outcome)) => match id {
                Some(id) => Ok(Message::Response { id, outcome, extras }),
                None => Err(Malformed::AnswerWithoutId),
            },
            (None, None) => refuse("a message needs a method, a result or an error"),
        }
    }

    pub fn method_name<'a>(&self, line: &'a Bytes) -> Option<Cow<'a, str>> {
        json::unquote(self.method?.of(line))
    }

    pub fn id(&self, line: &Bytes) -> Result<Option<Id>, Malformed> {
        let Some(span) = self.id else { return Ok(None) };
        match Id::new(Json::slice_of(line, span)) {
            Some(id) => Ok(Some(id)),
            None => {
                let why = "the id must be a string, an integer or null";
                Err(Malformed::NotAMessage { id: Id::NULL, why })
            }
        }
    }

    fn extras(&self, line: &Bytes) -> Option<Bytes> {
        (!self.extras.is_empty()).then(|| join(&self.extras, line))
    }

    /// The call inside an envelope and whether it is a `message` of its own; `None` if there is none
    /// that makes sense.
    pub fn inner_call(&self, line: &Bytes) -> Option<(Call, bool)> {
        let method = self.inner.method.map(|span| Json::slice_of(line, span));
        match (method, self.inner.message) {
            (Some(method), _) if method.is_string() => {
                let params = self.inner.params.map(|span| Json::slice_of(line, span));
                let extras = if self.inner.others { self.inner_extras(line) } else { None };
                Some((envelope_call(method, params, extras)?, false))
            }
            (_, Some(message)) => {
                let line = line.slice(message.start..message.end);
                let parts = Parts::split(&line).ok()?;
                let method = Json::slice_of(&line, parts.method?);
                let params = parts.params.map(|span| Json::slice_of(&line, span));
                Some((envelope_call(method, params, parts.extras(&line))?, true))
            }
            _ => None,
        }
    }

    fn inner_extras(&self, line: &Bytes) -> Option<Bytes> {
        let envelope = self.params?;
        let mut extras = Vec::new();
        let walked = Walker::new(envelope.of(line)).object(|key, walker| {
            let start = walker.key_start();
            let value = walker.value()?;
            // The last four would make another kind of message of it.
            let known = ["method", "params", "_meta", "meta", "id", "jsonrpc", "result", "error"];
            if !known.iter().any(|known| known.as_bytes() == key) {
                let (start, end) = (envelope.start + start, envelope.start + value.end);
                extras.push(Span { start, end });
            }
            Ok(())
        });
        (walked.is_ok() && !extras.is_empty()).then(|| join(&extras, line))
    }
}

fn envelope_call(method: Json, params: Option<Json>, extras: Option<Bytes>) -> Option<Call> {
    if !method.is_string() {
        return None;
    }
    if params.as_ref().is_some_and(|it| !(it.is_object() || it.is_array() || it.is_null())) {
        return None;
    }
    // No params and null params are the same in an envelope; plain JSON-RPC knows only the former.
    let params = params.filter(|params| !params.is_null());
    Some(Call { method: Method::new(method), params, extras })
}

/// Members as `,"key":value` text.
fn join(members: &[Span], line: &Bytes) -> Bytes {
    let mut text = Vec::new();
    for span in members {
        text.push(b',');
        text.extend_from_slice(span.of(line));
    }
    text.into()
}

/// What can still be read off the beginning of a line that is too long, cut off or broken: enough
/// to answer its sender, or to end the wait of whoever it was going to answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Salvage {
    Request(Id),
    Response(Id),
    /// Neither or both of these.
    Unclear(Id),
    Nothing,
}

pub fn salvage(beginning: &[u8]) -> Salvage {
    let readable = match std::str::from_utf8(beginning) {
        Ok(_) => beginning,
        Err(error) => &beginning[..error.valid_up_to()],
    };
    let beginning = Bytes::copy_from_slice(readable);
    let (mut id, mut call, mut answer) = (None, false, false);
    // The walk ends with an error where the text breaks off; what it saw before that counts.
    let _ = Walker::new(&beginning).object(|key, walker| {
        match key {
            b"id" => id = Id::new(Json::slice_of(&beginning, walker.value()?)),
            b"method" | b"params" => call = true,
            b"result" | b"error" => answer = true,
            _ => {}
        }
        if key != b"id" { walker.value().map(drop) } else { Ok(()) }
    });
    match id {
        Some(id) if call && !answer => Salvage::Request(id.detached()),
        Some(id) if answer && !call => Salvage::Response(id.detached()),
        Some(id) => Salvage::Unclear(id.detached()),
        None => Salvage::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Message, Malformed> {
        Message::parse(&Bytes::copy_from_slice(line.as_bytes()))
    }

    #[track_caller]
    fn round_trips(line: &str) {
        assert_eq!(parse(line).unwrap().to_line(), line);
    }

    #[test]
    fn what_is_read_is_written_as_it_was_spelt() {
        round_trips(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#);
        round_trips(
            r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"a","params":[]}"#,
        );
        round_trips(
            r#"{"jsonrpc":"2.0","id":"x\u0041","method":"session\/update","params":{ "b" : 1.10, "a":1e400, "a":"\ud800" }}"#,
        );
        round_trips(r#"{"jsonrpc":"2.0","method":"a","params":null}"#);
        round_trips(r#"{"jsonrpc":"2.0","id":null,"result":null}"#);
        round_trips(
            r#"{"jsonrpc":"2.0","id":-7,"error":{"code":12345678901,"message":"m","data":null,"more":[1]}}"#,
        );
        round_trips(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"trace":{"x": 1},"y":2}"#);
    }

    #[test]
    fn key_order_white_space_and_a_missing_version_do_not_matter() {
        let message =
            parse(" { \"params\" : {\"method\":1} , \"me\\u0074hod\":\"m\",\"id\":3 } \r").unwrap();
        assert_eq!(
            message.to_line(),
            r#"{"jsonrpc":"2.0","id":3,"me"#.to_owned() + r#"thod":"m","params":{"method":1}}"#
        );
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_id_it_has() {
        let refused = |line: &str| match parse(line) {
            Err(Malformed::NotAMessage { id, .. }) => id.to_string(),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(refused("[]"), "null");
        assert_eq!(refused("42"), "null");
        assert_eq!(refused("{}"), "null");
        assert_eq!(refused(r#"{"id":7}"#), "7");
        assert_eq!(refused(r#"{"id":7,"method":1}"#), "7");
        assert_eq!(refused(r#"{"id":7,"method":"a","result":1}"#), "7");
        assert_eq!(refused(r#"{"id":1.5,"method":"a"}"#), "null");
        assert_eq!(refused(r#"{"id":1e3,"method":"a"}"#), "null");
        assert_eq!(refused(r#"{"id":true,"method":"a"}"#), "null");
        assert_eq!(refused(r#"{"id":1,"id":2,"method":"a"}"#), "null");
        assert_eq!(refused(r#"{"id":1,"method":"a","params":{},"params":{}}"#), "null");
        assert_eq!(parse(r#"{"error":{"code":1}}"#), Err(Malformed::AnswerWithoutId));
        assert!(matches!(parse("hello"), Err(Malformed::NotJson(_))));
        assert!(matches!(parse("{\"id\":1"), Err(Malformed::NotJson(_))));
        let line = Bytes::from_static(b"{\"method\":\"\xff\"}");
        assert!(matches!(Message::parse(&line), Err(Malformed::NotJson(_))));
    }

    #[test]
    fn answers_that_spell_out_the_absent_half_are_understood() {
        let outcome = |line| match parse(line) {
            Ok(Message::Response { outcome, .. }) => outcome,
            other => panic!("{other:?}"),
        };
        assert_eq!(outcome(r#"{"id":1,"result":null,"error":null}"#), Outcome::Result(Json::NULL));
        let error = outcome(r#"{"id":1,"result":null,"error":{"code":-1}}"#);
        assert_eq!(error.error_code(), Some(-1));
        assert_eq!(outcome(r#"{"id":1,"error":null}"#), Outcome::Error(Json::NULL));
    }

    #[test]
    fn ids_are_compared_by_what_they_say() {
        let id = |text: &'static str| Id::new(Json::parse(text).unwrap()).unwrap();
        assert_eq!(id(r#""a""#), id(r#""\u0061""#));
        assert_ne!(id("1"), id(r#""1""#));
        assert_ne!(id("null"), id(r#""null""#));
    }

    #[test]
    fn the_beginning_of_a_lost_line_tells_who_waits() {
        let one = Id::from(1);
        assert_eq!(
            salvage(br#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"te"#),
            Salvage::Request(one.clone())
        );
        assert_eq!(
            salvage(br#"{"jsonrpc":"2.0","id":1,"result":{"te"#),
            Salvage::Response(one.clone())
        );
        assert_eq!(salvage(b"{\"id\":1,\"result\":\"\xff\"}"), Salvage::Response(one.clone()));
        assert_eq!(salvage(br#"{"id":1,"params":{"te"#), Salvage::Request(one.clone()));
        assert_eq!(salvage(br#"{"id":1}"#), Salvage::Unclear(one.clone()));
        assert_eq!(salvage(br#"{"id":1,"method":"x","result":1}"#), Salvage::Unclear(one));
        assert_eq!(salvage(br#"{"result":{"te"#), Salvage::Nothing);
        assert_eq!(salvage(b"Starting agent"), Salvage::Nothing);
    }
}
