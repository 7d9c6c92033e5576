//! Finds the members of a message in its line, and classifies damaged lines.

use bytes::Bytes;

use super::scan::{LineScan, PartialMessage};
use super::{Call, Id, Malformed, Message, Method, Outcome};
use crate::json::{Json, SESSION, SessionPosition, Span, Walker};

/// The ranges of the members of a message in its line. One walk finds all of them, including the members of
/// an envelope inside `params`, in any order.
#[derive(Default)]
pub(crate) struct MessageParts {
    id: Option<Span>,
    pub method: Option<Span>,
    params: Option<Span>,
    result: Option<Span>,
    error: Option<Span>,
    extras: Vec<Span>,
    pub inner: InnerParts,
}

/// The members of `params` that matter if the message is an envelope.
#[derive(Default)]
pub(crate) struct InnerParts {
    pub method: Option<Span>,
    pub params: Option<Span>,
    /// The member `message`, which contains the inner message in the oldest generations.
    pub message: Option<Span>,
    /// Whether there are members other than `method`, `params` and the envelope's metadata.
    others: bool,
    /// The position of `sessionId` in the line. 0 if `params` has no such member.
    session: usize,
}

const SESSION_KEY: &[u8] = SESSION.as_bytes();

/// The session id in the inner params of an envelope is located at once if they are longer than this. In shorter
/// ones it is searched for when it is needed.
const LOCATE_SESSION_ABOVE: usize = 16 * 1024;

/// The error for a malformed envelope.
pub(crate) const BAD_ENVELOPE: &str = "an envelope needs a string `method` and, if any, `params` that are an object, an array or null";

impl MessageParts {
    /// Finds the members of a line. `self` must be empty.
    pub(crate) fn split(&mut self, line: &Bytes) -> Result<(), Malformed> {
        let parts = self;
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
        let (mut has_repeated_member, mut id_is_repeated) = (false, false);
        let walked = walker.object(|key, walker| {
            let key_start = walker.key_start();
            let slot = match key {
                b"params" if walker.peek() == Some(b'{') => {
                    has_repeated_member |= parts.params.is_some();
                    parts.inner = InnerParts::default();
                    let inner = &mut parts.inner;
                    parts.params = Some(walker.object(|key, walker| {
                        let value = walker.value()?;
                        match key {
                            b"method" => inner.method = Some(value),
                            b"params" => inner.params = Some(value),
                            b"_meta" | b"meta" => {}
                            b"message" => (inner.message, inner.others) = (Some(value), true),
                            SESSION_KEY => (inner.session, inner.others) = (value.start, true),
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
            let again = slot.replace(walker.value()?).is_some();
            has_repeated_member |= again;
            id_is_repeated |= again && key == b"id";
            Ok(())
        });
        walked.and_then(|_| walker.end()).map_err(Malformed::NotJson)?;
        if has_repeated_member {
            // Receivers may disagree on which of the two counts, and then an answer could go to the wrong
            // request.
            let why = "a member of the message occurs twice";
            let id = if id_is_repeated { None } else { parts.id(line)? };
            return Err(Malformed::NotAMessage { id: id.unwrap_or(Id::NULL), why });
        }
        Ok(())
    }

    /// The message in the line.
    pub(crate) fn message(&self, line: &Bytes) -> Result<Message, Malformed> {
        let id = self.id(line)?;
        let json = |span| Json::slice_of(line, span);
        let refuse = |why| Err(Malformed::NotAMessage { id: id.clone().unwrap_or(Id::NULL), why });
        let outcome = match (self.result, self.error) {
            // Some peers write `"error":null` next to the result.
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
                if line[method.start] != b'"' {
                    return refuse("the method must be a string");
                }
                let method = Method::slice_of(line, method);
                let params = self.params.map(|span| {
                    let session = self.inner.session.checked_sub(span.start);
                    Json::object_of(
                        line,
                        span,
                        session.map_or(SessionPosition::ABSENT, SessionPosition::new),
                    )
                });
                let call = Call { method, params, extras };
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

    /// The method, if it is a string.
    pub(crate) fn method(&self, line: &Bytes) -> Option<Method> {
        let span = self.method.filter(|span| line[span.start] == b'"')?;
        Some(Method::slice_of(line, span))
    }

    /// The id, if the message has one.
    pub(crate) fn id(&self, line: &Bytes) -> Result<Option<Id>, Malformed> {
        let Some(span) = self.id else { return Ok(None) };
        match Id::new(Json::slice_of(line, span)) {
            Some(id) => Ok(Some(id)),
            None => {
                let why = "the id must be a string, an integer or null";
                Err(Malformed::NotAMessage { id: Id::NULL, why })
            }
        }
    }

    fn extras(&self, line: &Bytes) -> Option<Box<[u8]>> {
        (!self.extras.is_empty()).then(|| join(&self.extras, line))
    }

    /// The call inside an envelope, and whether it is wrapped in a `message` member. `None` if there is no
    /// valid call.
    pub(crate) fn inner_call(&self, line: &Bytes) -> Option<(Call, bool)> {
        match (self.inner.method, self.inner.message) {
            (Some(method), _) if line[method.start] == b'"' => {
                let extras = if self.inner.others { self.inner_extras(line) } else { None };
                Some((envelope_call(line, method, self.inner.params, extras)?, false))
            }
            (_, Some(message)) => {
                let line = line.slice(message.start..message.end);
                let mut parts = MessageParts::default();
                parts.split(&line).ok()?;
                let extras = parts.extras(&line);
                Some((envelope_call(&line, parts.method?, parts.params, extras)?, true))
            }
            _ => None,
        }
    }

    fn inner_extras(&self, line: &Bytes) -> Option<Box<[u8]>> {
        let envelope = self.params?;
        let mut extras = Vec::new();
        let walked = Walker::new(envelope.of(line)).object(|key, walker| {
            let start = walker.key_start();
            let value = walker.value()?;
            // The last four would change the kind of the message.
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

fn envelope_call(
    line: &Bytes,
    method: Span,
    params: Option<Span>,
    extras: Option<Box<[u8]>>,
) -> Option<Call> {
    if line[method.start] != b'"' {
        return None;
    }
    let params = match params.map(|span| (span, line[span.start])) {
        Some((span, b'{' | b'[')) => {
            let params = Json::slice_of(line, span);
            Some(if params.as_bytes().len() > LOCATE_SESSION_ABOVE {
                params.with_session()
            } else {
                params
            })
        }
        // In an envelope, null params mean no params. Plain JSON-RPC has only missing params.
        Some((_, b'n')) | None => None,
        Some(_) => return None,
    };
    Some(Call { method: Method::slice_of(line, method), params, extras })
}

/// Joins members to `,"key":value` text.
fn join(members: &[Span], line: &Bytes) -> Box<[u8]> {
    let mut text = Vec::new();
    for span in members {
        text.push(b',');
        text.extend_from_slice(span.of(line));
    }
    text.into()
}

/// What can still be read from a line that is too long, cut off or broken. This is enough to answer the
/// sender of a request, or to fail the request that a response would have answered.
#[derive(Debug, Clone, PartialEq)]
pub enum DamagedLine {
    /// A request with this id.
    Request(Id),
    /// A response with this id.
    Response(Id),
    /// A message with this id that has members of neither or both kinds.
    Ambiguous(Id),
    /// No message with exactly one id.
    Unreadable,
}

impl DamagedLine {
    /// Reads a whole line.
    pub fn read(line: &[u8]) -> DamagedLine {
        DamagedLine::from(&LineScan::of(line))
    }
}

impl From<&LineScan> for DamagedLine {
    /// Describes the first message of the line.
    fn from(scan: &LineScan) -> DamagedLine {
        let messages = scan.messages();
        let Some(PartialMessage { ids, call, answer, .. }) = messages.first() else {
            return DamagedLine::Unreadable;
        };
        match (ids.as_slice(), call, answer) {
            ([id], true, false) => DamagedLine::Request(id.clone()),
            ([id], false, true) => DamagedLine::Response(id.clone()),
            ([id], _, _) => DamagedLine::Ambiguous(id.clone()),
            _ => DamagedLine::Unreadable,
        }
    }
}
