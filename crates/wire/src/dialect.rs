//! Which lines a link carries, and which way each one goes.
//!
//! Every link has one dialect value. It knows the *role* of the peer behind the link and the
//! *generation* of the proxy protocol it speaks; the router knows neither. One rule holds for all
//! generations: on the link to a proxy, plain means the editor's side and an envelope means the
//! agent's side, in both directions. On the link to an outer conductor, whose proxy we are, it is
//! the same seen from the other end.
//!
//! | peer | its plain lines go | its envelopes go | sent plain | sent in an envelope |
//! |---|---|---|---|---|
//! | editor | toward the agent | refused | toward the editor | – |
//! | agent | toward the editor | refused | toward the agent | – |
//! | proxy | toward the editor | toward the agent | toward the agent | toward the editor |
//! | outer conductor | toward the agent | toward the editor | toward the editor | toward the agent |
//!
//! Answers are never in an envelope, and neither is `$/cancel_request`: its id belongs to the link.

use bytes::Bytes;

use crate::message::{Id, Malformed, Message, Outcome, Side, code};

mod plain;
mod rfd;

pub use plain::Plain;
pub use rfd::Rfd;

/// One generation of the wire, for one link.
pub trait Dialect: Send {
    /// Reads a line. An answer's side means nothing: answers go back to who asked.
    fn decode(&mut self, line: &Bytes) -> Result<(Side, Message), Rejection>;

    /// Appends the line that carries `message`, which travels toward `toward`.
    fn encode(&mut self, toward: Side, message: &Message, out: &mut Vec<u8>);

    /// For people: which generation this is.
    fn name(&self) -> &'static str;
}

/// A line that goes no further.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    pub why: Malformed,
    /// What its sender is told, if it can be told anything.
    pub reply: Option<Box<Message>>,
}

impl Rejection {
    /// For a message that is well-formed but not allowed here.
    fn refusal(id: Option<Id>, code: i64, why: &'static str) -> Rejection {
        let reply = id.clone().map(|id| Message::response(id, Outcome::error(code, why)).into());
        Rejection { why: Malformed::NotAMessage { id: id.unwrap_or(Id::NULL), why }, reply }
    }
}

impl From<Malformed> for Rejection {
    fn from(why: Malformed) -> Rejection {
        let reply = match &why {
            Malformed::NotJson(_) => Some((Id::NULL, code::PARSE_ERROR)),
            Malformed::NotAMessage { id, .. } => Some((id.clone(), code::INVALID_REQUEST)),
            Malformed::AnswerWithoutId => None,
        };
        let reply = reply.map(|(id, code)| {
            Box::new(Message::response(id, Outcome::error(code, &why.to_string())))
        });
        Rejection { why, reply }
    }
}

/// The method names that mean an envelope in any generation of the proxy protocol. Whoever is not
/// a proxy may send none of them, and none may be inside another.
pub(crate) fn is_envelope(method: &str) -> bool {
    method == "proxy/successor"
        || method.strip_prefix("_proxy/successor").is_some_and(|rest| {
            matches!(
                rest,
                "" | "/request"
                    | "/notification"
                    | "/send/request"
                    | "/send/notification"
                    | "/receive/request"
                    | "/receive/notification"
            )
        })
}

/// The handshakes with which a conductor, and nobody else, makes a component a proxy.
pub(crate) fn is_proxy_greeting(method: &str) -> bool {
    matches!(method, "proxy/initialize" | "_proxy/initialize")
}

/// What is said to those who use the words of the proxy protocol out of turn.
pub(crate) const NOT_A_PROXY: &str =
    "only a proxy may send a successor envelope, and this connection is not a proxy's";
pub(crate) const NESTED: &str = "an envelope must not be inside another envelope";
pub(crate) const NOT_THE_CONDUCTOR: &str = "only a conductor may greet a proxy";
