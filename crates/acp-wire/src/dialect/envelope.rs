//! Wraps and unwraps messages in the envelope of a generation.

use bytes::Bytes;

use super::generation::{Generation, Greeting, is_envelope};
use super::{NESTED, NOT_THE_CONDUCTOR, Rejection};
use crate::acp::CANCEL_REQUEST;
use crate::json::Json;
use crate::message::{BAD_ENVELOPE, Call, Id, Message, MessageParts, code, end_line, start_line};
use crate::sink::{LONG_THRESHOLD, Sink};

/// The content of an envelope.
#[derive(Debug)]
pub(crate) struct OpenedEnvelope {
    /// The generation of the envelope.
    pub generation: Generation,
    /// The id, if the envelope is a request.
    pub id: Option<Id>,
    pub call: Call,
}

/// Opens the envelope of any generation. `None` if the line is not an envelope.
pub(crate) fn open(
    parts: &MessageParts,
    line: &Bytes,
) -> Option<Result<OpenedEnvelope, Rejection>> {
    let method = parts.method(line)?;
    let method = method.name();
    // Most messages are not envelopes, so this check comes first.
    if !is_envelope(&method) {
        return None;
    }
    let id = match parts.id(line) {
        Ok(id) => id,
        Err(malformed) => return Some(Err(malformed.into())),
    };
    let Some((call, wrapped)) = parts.inner_call(line) else {
        return Some(Err(Rejection::refusal(id, code::INVALID_PARAMS, BAD_ENVELOPE)));
    };
    let generation = Generation::of_envelope(&method, wrapped)?;
    Some(Ok(OpenedEnvelope { generation, id, call }))
}

impl OpenedEnvelope {
    /// Refuses messages that are not allowed inside an envelope.
    pub(crate) fn check(self) -> Result<OpenedEnvelope, Rejection> {
        let method = self.call.method.name();
        let why = if is_envelope(&method) {
            NESTED
        } else if Greeting::of_method(&method).is_some() {
            NOT_THE_CONDUCTOR
        } else {
            drop(method);
            return Ok(self);
        };
        Err(Rejection::refusal(self.id, code::INVALID_REQUEST, why))
    }

    /// Removes the name of the addressed peer from the envelope, if it has one.
    pub(crate) fn take_peer(&mut self) -> Option<Json> {
        let extras = self.call.extras.as_ref().filter(|_| self.generation == Generation::P5)?;
        // Members as `,"key":value` text.
        let members = Json::parse([b"{", &extras[1..], b"}"].concat()).ok()?;
        let peer = members.member("peer")?;
        let rest = members.with_at(&["peer"], None);
        let text = &rest.as_bytes()[1..rest.as_bytes().len() - 1];
        self.call.extras = (!text.is_empty()).then(|| [b",", text].concat().into());
        Some(peer)
    }

    pub(crate) fn into_message(self) -> Message {
        Message::call(self.id, self.call)
    }
}

/// Appends the envelope of a request or notification. `methods` are the envelope's methods for a request and
/// for a notification. A cancellation is written plain, because its id belongs to the link.
pub(crate) fn write(
    generation: Generation,
    methods: [&str; 2],
    id: Option<&Id>,
    call: &Call,
    out: &mut dyn Sink,
) {
    match call.size() < LONG_THRESHOLD {
        true => write_to(generation, methods, id, call, out.buffer()),
        false => write_to(generation, methods, id, call, out),
    }
}

fn write_to<S: Sink + ?Sized>(
    generation: Generation,
    methods: [&str; 2],
    id: Option<&Id>,
    call: &Call,
    out: &mut S,
) {
    let table = generation.table();
    let buffer = out.buffer();
    start_line(id, call.size(), buffer);
    if id.is_none() && call.is(CANCEL_REQUEST) {
        call.write_members(out);
        return end_line(out.buffer());
    }
    buffer.extend_from_slice(b",\"method\":\"");
    buffer.extend_from_slice(methods[usize::from(id.is_none())].as_bytes());
    buffer.extend_from_slice(if table.wrapped {
        b"\",\"params\":{\"message\":{"
    } else {
        b"\",\"params\":{"
    });
    call.write_method_and_params(table.no_params, out);
    let buffer = out.buffer();
    buffer.extend_from_slice(if table.wrapped { b"}}" } else { b"}" });
    end_line(buffer);
}
