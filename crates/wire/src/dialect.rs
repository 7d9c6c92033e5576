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
//!
//! # Layout
//! - [`plain`]: the editor and the agent
//! - [`proxy`]: a proxy of ours; finds out which generation it is of
//! - [`outer`]: the conductor above us; recognises which generation greets us
//! - [`generation`]: what generations differ in, and the list of them
//! - `p5`, `p4`, `p3`, `p3t`, `p2`, `p1`, `p0`: one generation each, with the examples of its document
//! - [`updates`]: which `session/update`s the SDKs of a generation can read
//! - `envelope`, `offer`, `words`: wrapping and unwrapping; the capability with which older ones are
//!   greeted; a capability that each calls by another name
//! - `restore`: takes out again what was put into a handshake for one component

use bytes::Bytes;

use crate::json::Json;
use crate::message::{Id, Malformed, Message, Outcome, Side, code};

mod envelope;
pub mod generation;
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
mod words;

pub use generation::{Generation, Greeting};
pub use outer::Outer;
pub use p0::Relay;
pub use plain::Plain;
pub use proxy::Proxy;
pub(crate) use restore::{Place, restored};

/// One side of the conversation on one link.
pub trait Dialect: Send {
    /// Reads a line. `None` means that the line was for the dialect itself. What the dialect has to
    /// say back at once is appended to `out`, the queue of this link. An answer's side means
    /// nothing: answers go back to who asked.
    fn decode(
        &mut self,
        line: &Bytes,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Side, Message)>, Rejection>;

    /// Appends the line that carries `message`, which travels toward `toward`.
    fn encode(&mut self, toward: Side, message: &Message, out: &mut Vec<u8>);

    /// For people: which generation this is.
    fn name(&self) -> &'static str;

    /// How many bytes wait in the dialect itself until it is known how to spell them.
    fn backlog(&self) -> usize {
        0
    }

    /// The peer is of a generation whose documents know no protocol version as we do.
    fn any_version(&self) -> bool {
        false
    }

    /// The greeting that a proxy has understood, once that is known.
    fn understood(&self) -> Option<Greeting> {
        None
    }

    /// A greeting was sent of which it is not known whether the peer understands it, and the peer
    /// has not said a word since. If the greeting [is a guess](Dialect::is_guess), only the answer to it
    /// and envelopes count as a word.
    fn awaits_first_word(&self) -> bool {
        false
    }

    /// Says something harmless. A program that an unknown greeting has broken may notice only when
    /// the next line comes.
    fn poke(&mut self, _out: &mut Vec<u8>) {}

    /// The peer is an SCP proxy, which starts its successor itself: it waits to be told which.
    fn wants_successor(&self) -> bool {
        false
    }

    /// Tells it: `servers` are the params of `_scp/proxy`. Without them it is treated as if it had
    /// not asked.
    fn give_successor(
        &mut self,
        _servers: Option<Json>,
        _out: &mut Vec<u8>,
    ) -> Option<(Side, Message)> {
        None
    }

    /// The successor of an SCP proxy has been initialised: the proxy's own answer, which waited for
    /// that, may travel on.
    fn successor_stands(&mut self, _out: &mut Vec<u8>) -> Option<(Side, Message)> {
        None
    }

    /// The peer is an SCP editor and told us our successors: the servers of its `_scp/proxy`, and
    /// the `initialize` for the chain that they complete.
    fn take_chain(&mut self) -> Option<(Json, Message)> {
        None
    }

    /// Which greetings were tried in vain, and what came of each, once there were several.
    fn tried(&self) -> Option<String> {
        None
    }

    /// The peer was greeted with what it understood the last time, and has not answered yet.
    fn is_guess(&self) -> bool {
        false
    }

    /// The greeting that a component was known to understand was not understood this time.
    fn guess_failed(&self) -> bool {
        false
    }

    /// The greetings over which the peer has ended, or is about to. A guess does not count.
    fn failed_greetings(&self) -> Vec<Greeting> {
        Vec::new()
    }

    /// The greeting that was a guess has made something else than a proxy of the peer: it is to be
    /// ended, and then to [`begin_again`](Dialect::begin_again).
    fn wants_restart(&self) -> bool {
        false
    }

    /// The peer has refused an earlier greeting with an error that says more than that it does not know the
    /// greeting, and has not answered the present one.
    fn was_refused(&self) -> bool {
        false
    }

    /// Stops waiting for the answer to a greeting: what is answered instead.
    fn stop_waiting(&mut self, _out: &mut Vec<u8>) -> Option<(Side, Message)> {
        None
    }

    /// There is a greeting that was not tried yet.
    fn can_begin_again(&self) -> bool {
        false
    }

    /// The peer ended, or was ended, over a greeting that it did not understand. If there is another
    /// one to try on a fresh start, appends it.
    fn begin_again(&mut self, _out: &mut Vec<u8>) -> bool {
        false
    }
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

/// What is said to those who use the words of the proxy protocol out of turn.
const NOT_A_PROXY: &str =
    "only a proxy may send a successor envelope, and this connection is not a proxy's";
const NESTED: &str = "an envelope must not be inside another envelope";
const NOT_THE_CONDUCTOR: &str = "only a conductor may greet a proxy";
