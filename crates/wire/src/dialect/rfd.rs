//! P5, the current generation: the ACP RFD "Proxy Chains" and schema 1.15.
//!
//! ```json
//! {"jsonrpc":"2.0","id":"c","method":"proxy/initialize","params":{"protocolVersion":1}}
//! {"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1}}}
//! {"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{},"_meta":{"this":"hop"}}}
//! ```
//!
//! An outer `id` makes an envelope a request. The envelope's `_meta` belongs to this hop and goes
//! no further.

use bytes::Bytes;

use super::{Dialect, NESTED, NOT_THE_CONDUCTOR, Rejection, is_envelope, is_proxy_greeting};
use crate::acp::{CANCEL_REQUEST, INITIALIZE};
use crate::message::{BAD_ENVELOPE, Call, Id, Message, Parts, Side, code, end_line, start_line};

const GREETING: &str = "proxy/initialize";
const ENVELOPE: &[u8] = b",\"method\":\"proxy/successor\",\"params\":{";

/// The dialect of a proxy of ours, or of a conductor whose proxy we are.
#[derive(Debug)]
pub struct Rfd {
    role: Role,
}

#[derive(Debug, PartialEq)]
enum Role {
    /// The peer is our proxy.
    Proxy,
    /// The peer is the conductor above us.
    Outer,
}

impl Rfd {
    pub fn proxy() -> Rfd {
        Rfd { role: Role::Proxy }
    }

    pub fn outer() -> Rfd {
        Rfd { role: Role::Outer }
    }

    /// Toward which side a plain line of the peer goes; its envelopes go the other way.
    fn plain(&self) -> Side {
        match self.role {
            Role::Proxy => Side::Editor,
            Role::Outer => Side::Agent,
        }
    }

    fn open(&self, id: Option<Id>, call: Option<Call>) -> Result<(Side, Message), Rejection> {
        let refuse = |code, why| Err(Rejection::refusal(id.clone(), code, why));
        let Some(call) = call else { return refuse(code::INVALID_PARAMS, BAD_ENVELOPE) };
        let method = call.method.name();
        if is_envelope(&method) {
            return refuse(code::INVALID_REQUEST, NESTED);
        }
        if is_proxy_greeting(&method) {
            return refuse(code::INVALID_REQUEST, NOT_THE_CONDUCTOR);
        }
        drop(method);
        Ok((self.plain().opposite(), message(id, call)))
    }

    fn greet(&self, id: Option<Id>, call: Call) -> Result<(Side, Message), Rejection> {
        let refuse = |why| Err(Rejection::refusal(id.clone(), code::INVALID_REQUEST, why));
        let greets = call.is(GREETING);
        match self.role {
            Role::Proxy if is_proxy_greeting(&call.method.name()) => refuse(NOT_THE_CONDUCTOR),
            Role::Outer if greets => {
                let call = Call { method: INITIALIZE.into(), ..call };
                Ok((Side::Agent, message(id, call)))
            }
            Role::Outer if call.is(INITIALIZE) || is_proxy_greeting(&call.method.name()) => {
                refuse("this is a proxy: greet it with proxy/initialize")
            }
            _ => Ok((self.plain(), message(id, call))),
        }
    }
}

fn message(id: Option<Id>, call: Call) -> Message {
    match id {
        Some(id) => Message::Request { id, call },
        None => Message::Notification(call),
    }
}

impl Dialect for Rfd {
    fn decode(&mut self, line: &Bytes) -> Result<(Side, Message), Rejection> {
        let parts = Parts::split(line)?;
        if parts.method_is(line, is_envelope) {
            let id = parts.id(line)?;
            return self.open(id, parts.inner_call(line));
        }
        match parts.into_message(line)? {
            Message::Request { id, call } => self.greet(Some(id), call),
            Message::Notification(call) => self.greet(None, call),
            answer => Ok((self.plain(), answer)),
        }
    }

    fn encode(&mut self, toward: Side, message: &Message, out: &mut Vec<u8>) {
        let (id, call) = match message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { .. } => return message.write_line(out),
        };
        // To a proxy of ours, plain is toward the agent; to a conductor above, toward the editor.
        if toward != self.plain() {
            if self.role == Role::Proxy && call.is(INITIALIZE) {
                let call = Call { method: GREETING.into(), ..call.clone() };
                return self::message(id.cloned(), call).write_line(out);
            }
            return message.write_line(out);
        }
        if id.is_none() && call.is(CANCEL_REQUEST) {
            return message.write_line(out);
        }
        start_line(id, call.size(), out);
        out.extend_from_slice(ENVELOPE);
        call.write_inner(out);
        out.push(b'}');
        end_line(out);
    }

    fn name(&self) -> &'static str {
        "P5"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(mut dialect: Rfd, line: &'static str) -> Result<(Side, String), String> {
        match dialect.decode(&Bytes::from_static(line.as_bytes())) {
            Ok((side, message)) => Ok((side, message.to_line())),
            Err(rejection) => {
                Err(rejection.reply.map_or_else(String::new, |reply| reply.to_line()))
            }
        }
    }

    fn encode(mut dialect: Rfd, toward: Side, line: &'static str) -> String {
        let message = Message::parse(&Bytes::from_static(line.as_bytes())).unwrap();
        let mut out = Vec::new();
        dialect.encode(toward, &message, &mut out);
        assert_eq!(out.pop(), Some(b'\n'));
        String::from_utf8(out).unwrap()
    }

    const UPDATE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"a": 1.10}}"#;
    const WRAPPED: &str = r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{"a": 1.10}}}"#;
    const ASK: &str = r#"{"jsonrpc":"2.0","id":"c:1","method":"initialize","params":{}}"#;
    const GREET: &str = r#"{"jsonrpc":"2.0","id":"c:1","method":"proxy/initialize","params":{}}"#;
    const WRAPPED_ASK: &str = r#"{"jsonrpc":"2.0","id":"c:1","method":"proxy/successor","params":{"method":"initialize","params":{}}}"#;

    #[test]
    fn to_and_from_a_proxy() {
        assert_eq!(encode(Rfd::proxy(), Side::Agent, UPDATE), UPDATE);
        assert_eq!(encode(Rfd::proxy(), Side::Editor, UPDATE), WRAPPED);
        assert_eq!(encode(Rfd::proxy(), Side::Agent, ASK), GREET);
        assert_eq!(decode(Rfd::proxy(), UPDATE), Ok((Side::Editor, UPDATE.into())));
        assert_eq!(decode(Rfd::proxy(), WRAPPED), Ok((Side::Agent, UPDATE.into())));
        assert_eq!(decode(Rfd::proxy(), WRAPPED_ASK), Ok((Side::Agent, ASK.into())));
    }

    #[test]
    fn to_and_from_the_conductor_above() {
        assert_eq!(encode(Rfd::outer(), Side::Editor, UPDATE), UPDATE);
        assert_eq!(encode(Rfd::outer(), Side::Agent, UPDATE), WRAPPED);
        assert_eq!(encode(Rfd::outer(), Side::Agent, ASK), WRAPPED_ASK);
        assert_eq!(decode(Rfd::outer(), UPDATE), Ok((Side::Agent, UPDATE.into())));
        assert_eq!(decode(Rfd::outer(), WRAPPED), Ok((Side::Editor, UPDATE.into())));
        assert_eq!(decode(Rfd::outer(), GREET), Ok((Side::Agent, ASK.into())));
        // Checklist 30.
        assert!(decode(Rfd::outer(), ASK).unwrap_err().contains("-32600"));
    }

    /// Checklist 45, 46, 48, 68.
    #[test]
    fn envelopes_that_make_no_sense_are_refused() {
        let refused = |line| decode(Rfd::proxy(), line).unwrap_err();
        assert!(refused(r#"{"id":1,"method":"proxy/successor","params":{"method":"proxy/successor","params":{"method":"x"}}}"#).contains("-32600"));
        assert!(refused(r#"{"id":1,"method":"proxy/successor","params":{"method":"_proxy/successor/request"}}"#).contains("-32600"));
        assert!(
            refused(
                r#"{"id":1,"method":"proxy/successor","params":{"method":"proxy/initialize"}}"#
            )
            .contains("-32600")
        );
        assert!(refused(r#"{"id":1,"method":"proxy/initialize","params":{}}"#).contains("-32600"));
        assert!(
            refused(r#"{"id":1,"method":"proxy/successor","params":{"params":{}}}"#)
                .contains("-32602")
        );
        assert!(
            refused(r#"{"id":1,"method":"proxy/successor","params":{"method":"x","params":3}}"#)
                .contains("-32602")
        );
        assert!(
            refused(r#"{"id":1,"method":"proxy/successor","params":{"method":3}}"#)
                .contains("-32602")
        );
        assert!(refused(r#"{"id":1,"method":"proxy/successor"}"#).contains("-32602"));
        assert_eq!(
            refused(r#"{"method":"proxy/successor","params":{"method":"proxy/successor"}}"#),
            ""
        );
        assert_eq!(refused(r#"{"method":"proxy/successor"}"#), "");
    }

    /// Checklist 24, 51: an envelope's own metadata, in either spelling, stays on its hop.
    #[test]
    fn envelope_metadata_stays_and_unknown_members_pass() {
        let line = r#"{"params":{"_meta":{"h":1},"params":{"_meta":{"t":2}},"meta":3,"x": [4],"method":"m"},"method":"proxy/successor","id":9}"#;
        let plain = r#"{"jsonrpc":"2.0","id":9,"method":"m","params":{"_meta":{"t":2}},"x": [4]}"#;
        assert_eq!(decode(Rfd::proxy(), line), Ok((Side::Agent, plain.into())));
        let again = r#"{"jsonrpc":"2.0","id":9,"method":"proxy/successor","params":{"method":"m","params":{"_meta":{"t":2}},"x": [4]}}"#;
        assert_eq!(encode(Rfd::proxy(), Side::Editor, plain), again);
    }

    #[test]
    fn params_may_be_absent_or_null_in_an_envelope() {
        let bare = Ok((Side::Agent, r#"{"jsonrpc":"2.0","method":"m"}"#.to_owned()));
        assert_eq!(
            decode(Rfd::proxy(), r#"{"method":"proxy/successor","params":{"method":"m"}}"#),
            bare
        );
        assert_eq!(
            decode(
                Rfd::proxy(),
                r#"{"method":"proxy/successor","params":{"method":"m","params":null}}"#
            ),
            bare
        );
    }

    /// Checklist 57: a cancellation is never tunnelled.
    #[test]
    fn cancellations_travel_plain_both_ways() {
        let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
        for side in [Side::Editor, Side::Agent] {
            assert_eq!(encode(Rfd::proxy(), side, cancel), cancel);
            assert_eq!(encode(Rfd::outer(), side, cancel), cancel);
        }
    }
}
