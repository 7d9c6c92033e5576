//! Plain ACP: the link to the editor and the link to the agent.
//!
//! ```json
//! {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}
//! {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}
//! {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}
//! ```

use bytes::Bytes;

use super::generation::{Greeting, is_envelope};
use super::{NOT_A_PROXY, NOT_THE_CONDUCTOR, Rejection};
use crate::message::{Message, Side, code};

/// The dialect of a peer at an end of the chain.
#[derive(Debug)]
pub struct Plain {
    toward: Side,
}

impl Plain {
    /// The link to the editor.
    pub fn editor() -> Plain {
        Plain { toward: Side::Agent }
    }

    /// The link to the agent.
    pub fn agent() -> Plain {
        Plain { toward: Side::Editor }
    }

    /// Decodes a line; see [`Dialect::decode`](super::Dialect::decode).
    pub fn decode(&self, line: &Bytes) -> Result<Option<(Side, Message)>, Rejection> {
        let message = Message::parse(line)?;
        let (id, call) = match &message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { .. } => return Ok(Some((self.toward, message))),
        };
        let method = call.method.name();
        let refused = if is_envelope(&method) {
            NOT_A_PROXY
        } else if Greeting::of_method(&method).is_some() {
            NOT_THE_CONDUCTOR
        } else {
            drop(method);
            return Ok(Some((self.toward, message)));
        };
        Err(Rejection::refusal(id.cloned(), code::INVALID_REQUEST, refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(line: &'static str) -> Result<(Side, Message), Rejection> {
        let line = Bytes::from_static(line.as_bytes());
        Plain::editor().decode(&line).map(|it| it.unwrap())
    }

    #[test]
    fn ordinary_messages_go_toward_the_other_end() {
        let (side, message) = decode(r#"{"jsonrpc":"2.0","id":1,"method":"_x/y"}"#).unwrap();
        assert_eq!(side, Side::Agent);
        assert_eq!(message.label(), "_x/y");
    }

    /// Checklist 43, 44, 46, 47.
    #[test]
    fn methods_of_the_proxy_protocol_are_refused() {
        for method in [
            "proxy/successor",
            "_proxy/successor",
            "_proxy/successor/request",
            "_proxy/successor/notification",
            "_proxy/successor/send/request",
            "proxy/initialize",
            "_proxy/initialize",
            "\\u0070roxy/successor",
        ] {
            let request = format!(r#"{{"id":5,"method":"{method}","params":{{"method":"x"}}}}"#);
            let rejection = Plain::agent().decode(&request.into()).unwrap_err();
            let reply = rejection.reply.unwrap().to_line();
            assert!(reply.contains(r#""id":5"#) && reply.contains("-32600"), "{reply}");

            let notification = format!(r#"{{"method":"{method}","params":{{"method":"x"}}}}"#);
            let rejection = Plain::agent().decode(&notification.into()).unwrap_err();
            assert_eq!(rejection.reply, None);
        }
        assert!(decode(r#"{"method":"_proxy/successors"}"#).is_ok());
    }

    #[test]
    fn bad_lines_are_answered_with_a_null_id() {
        let reply = |line| decode(line).unwrap_err().reply.map(|reply| reply.to_line());
        assert!(reply("nonsense").unwrap().contains(r#""id":null,"error":{"code":-32700"#));
        assert!(reply("[1]").unwrap().contains(r#""id":null,"error":{"code":-32600"#));
        assert_eq!(reply(r#"{"error":{}}"#), None);
    }
}
