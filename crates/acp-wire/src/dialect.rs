//! Translates between the lines of a link and messages with a direction.
//!
//! Every link has one [`Dialect`]. It knows the *role* of the peer and the *generation* of the proxy
//! protocol that the peer speaks. The router knows neither. One rule holds for all generations: on the link
//! to a proxy, plain lines belong to the editor's side and envelopes to the agent's side, in both
//! directions. On the link to an outer conductor the same rule holds, and this chain is the proxy.
//!
//! | peer | its plain lines go | its envelopes go | sent plain | sent in an envelope |
//! |---|---|---|---|---|
//! | editor | toward the agent | refused | toward the editor | – |
//! | agent | toward the editor | refused | toward the agent | – |
//! | proxy | toward the editor | toward the agent | toward the agent | toward the editor |
//! | outer conductor | toward the agent | toward the editor | toward the editor | toward the agent |
//!
//! Answers are never in an envelope. Neither is `$/cancel_request`, because its id belongs to the link.
//!
//! # Layout
//! - [`plain`]: the links to the editor and the agent
//! - [`proxy`]: the link to a proxy; detects the proxy's generation
//! - [`outer`]: the link to an outer conductor; detects its generation
//! - [`generation`]: the list of generations and what they differ in
//! - `p5`, `p4`, `p3`, `p3t`, `p2`, `p1`, `p0`: one generation each, with examples from its specification
//! - [`updates`]: the `session/update`s that the SDKs of a generation can read
//! - `envelope`: wraps and unwraps messages
//! - `offer`: the capability in the handshake of the older generations
//! - `mcp_capability`: the capability "supports MCP over ACP", which each generation has at another path
//! - `restore`: removes what was added to a handshake for one component

use bytes::Bytes;

use crate::error_kind::ErrorKind;
use crate::message::{Id, Malformed, Message, Side, code};
use crate::sink::Sink;

mod envelope;
pub mod generation;
mod mcp_capability;
mod offer;
pub mod outer;
mod p0;
mod p1;
mod p2;
mod p3;
mod p3t;
mod p4;
mod p5;
pub mod plain;
pub mod proxy;
mod restore;
pub mod updates;

pub use generation::{Generation, Greeting, LinkProtocol};
pub use outer::Outer;
pub use p0::Relay;
pub use plain::Plain;
pub use proxy::Proxy;
pub(crate) use restore::{KeyPath, restored};

/// The dialect of one link. The variant is the role of the peer. Operations that exist for one role only are
/// methods of the type in its variant: see [`proxy`](Dialect::proxy) and [`outer_mut`](Dialect::outer_mut).
#[derive(Debug)]
pub enum Dialect {
    /// The editor or the agent.
    Plain(Plain),
    /// A proxy of this chain.
    Proxy(Box<Proxy>),
    /// An outer conductor, for which this chain is a proxy.
    Outer(Box<Outer>),
    /// The second link of an SCP proxy.
    Relay(Box<Relay>),
}

impl Dialect {
    /// Decodes a line. `None` means that the dialect has handled the line itself. Lines that the dialect
    /// sends back at once are appended to `out`, the queue of this link. The side of a response has no
    /// meaning: a response goes to the requester.
    pub fn decode(
        &mut self,
        line: &Bytes,
        out: &mut dyn Sink,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        match self {
            Dialect::Plain(it) => it.decode(line),
            Dialect::Proxy(it) => it.decode(line, out),
            Dialect::Outer(it) => it.decode(line, out),
            Dialect::Relay(it) => it.decode(line),
        }
    }

    /// Appends the line for `message`, which travels toward `toward`.
    pub fn encode(&mut self, toward: Side, message: &Message, out: &mut dyn Sink) {
        match self {
            Dialect::Plain(_) => message.write_line(out),
            Dialect::Proxy(it) => it.encode(toward, message, out),
            Dialect::Outer(it) => it.encode(toward, message, out),
            Dialect::Relay(it) => it.encode(message, out),
        }
    }

    /// The generation of the proxy protocol that the peer speaks, if it speaks one and it is known.
    pub fn generation(&self) -> Option<Generation> {
        match self {
            Dialect::Plain(_) => None,
            Dialect::Proxy(it) => it.generation(),
            Dialect::Outer(it) => it.generation(),
            Dialect::Relay(_) => Some(Generation::P0),
        }
    }

    /// The protocol of the link, as far as it is known.
    pub fn protocol(&self) -> LinkProtocol {
        match self {
            Dialect::Plain(_) => LinkProtocol::Plain,
            Dialect::Proxy(_) | Dialect::Outer(_) | Dialect::Relay(_) => self.generation().into(),
        }
    }

    /// How many bytes of messages the dialect holds until the generation is known.
    pub fn held_bytes(&self) -> usize {
        self.proxy().map_or(0, Proxy::held_bytes)
    }

    /// The dialect of a proxy, if the peer is one.
    pub fn proxy(&self) -> Option<&Proxy> {
        match self {
            Dialect::Proxy(it) => Some(it),
            Dialect::Plain(_) | Dialect::Outer(_) | Dialect::Relay(_) => None,
        }
    }

    /// The dialect of a proxy, if the peer is one.
    pub fn proxy_mut(&mut self) -> Option<&mut Proxy> {
        match self {
            Dialect::Proxy(it) => Some(it),
            Dialect::Plain(_) | Dialect::Outer(_) | Dialect::Relay(_) => None,
        }
    }

    /// The dialect of an outer conductor, if the peer is one.
    pub fn outer_mut(&mut self) -> Option<&mut Outer> {
        match self {
            Dialect::Outer(it) => Some(it),
            Dialect::Plain(_) | Dialect::Proxy(_) | Dialect::Relay(_) => None,
        }
    }
}

impl From<Plain> for Dialect {
    fn from(it: Plain) -> Dialect {
        Dialect::Plain(it)
    }
}

impl From<Proxy> for Dialect {
    fn from(it: Proxy) -> Dialect {
        Dialect::Proxy(Box::new(it))
    }
}

impl From<Outer> for Dialect {
    fn from(it: Outer) -> Dialect {
        Dialect::Outer(Box::new(it))
    }
}

impl From<Relay> for Dialect {
    fn from(it: Relay) -> Dialect {
        Dialect::Relay(Box::new(it))
    }
}

/// A line that is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// Why the line is refused.
    pub why: Malformed,
    /// The error to send back. `None` for a notification that is refused, and for a response without an id.
    pub reply: Option<Box<Message>>,
}

impl Rejection {
    /// Refuses a well-formed message that is not allowed on this link.
    fn refusal(id: Option<Id>, code: i64, why: &'static str) -> Rejection {
        let refused = |id| Message::response(id, ErrorKind::BadMessage.outcome(code, why)).into();
        let reply = id.clone().map(refused);
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
            Box::new(Message::response(id, ErrorKind::BadMessage.outcome(code, &why)))
        });
        Rejection { why, reply }
    }
}

/// The errors for peers that misuse the proxy protocol.
const NOT_A_PROXY: &str =
    "only a proxy may send a successor envelope, and this connection is not a proxy's";
const NESTED: &str = "an envelope must not be inside another envelope";
const NOT_THE_CONDUCTOR: &str =
    "only a conductor may send a proxy its handshake (proxy/initialize)";
