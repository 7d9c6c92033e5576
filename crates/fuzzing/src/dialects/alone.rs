//! One dialect on its link, and a peer that says anything.
//!
//! | line | what happens |
//! |---|---|
//! | `<TEXT` | the peer says this |
//! | `.SHAPE ID METHOD VALUE` | the peer says something in the shape of a document (a byte each) |
//! | `>TEXT`, `)TEXT` | this message is sent, toward the agent, toward the editor |
//! | `+SIDE KIND METHOD VALUE` | a message is sent that nobody else has sent |
//! | `p`, `b` | it is poked; the peer has ended and is begun again |
//! | `gTEXT`, `s` | an SCP proxy that wants to know its successor is told, its successor stands |
//! | `c` | the chain of an SCP editor is taken |
//!
//! What must hold: nothing panics. What is written are whole lines, each of them a message. A message
//! goes to the side that the table in `acp_wire::dialect` says, with the payload that it came with. What
//! is sent is written once and in its order, or still waits; only a proxy whose generation is not
//! known makes anything wait. Something that was said and done leaves nothing behind.

use std::collections::VecDeque;
use std::fmt::Debug;

use acp_wire::dialect::{Generation, Greeting, Outer, Plain, Proxy, Relay};
use acp_wire::{Call, Dialect, Id, Json, LinkProtocol, Message, Outcome, Side, acp};
use bytes::Bytes;

use super::shapes::{self, METHODS, VALUES};
use super::written;
use crate::line::reads_the_same;
use crate::story::{self, Choices, tell};

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Peer {
    Editor,
    Agent,
    Proxy,
    Conductor,
}

/// Whom the first byte of a story can choose.
const PEERS: &[u8] = b"ea543t210?xyzor";

fn seat(who: u8) -> (Peer, Dialect) {
    let pinned = |generation| (Peer::Proxy, Proxy::pinned("x", generation).into());
    let remembered = |greeting| (Peer::Proxy, Proxy::remembered("x", greeting).into());
    match who {
        b'e' => (Peer::Editor, Plain::editor().into()),
        b'a' => (Peer::Agent, Plain::agent().into()),
        b'5' => pinned(Generation::P5),
        b'4' => pinned(Generation::P4),
        b'3' => pinned(Generation::P3),
        b't' => pinned(Generation::P3t),
        b'2' => pinned(Generation::P2),
        b'1' => pinned(Generation::P1),
        b'0' => pinned(Generation::P0),
        b'?' => (Peer::Proxy, Proxy::unknown("x").into()),
        b'x' => remembered(Greeting::Proxy),
        b'y' => remembered(Greeting::Underscore),
        b'z' => remembered(Greeting::Capability),
        b'o' => (Peer::Conductor, Outer::unknown().into()),
        // To an SCP proxy, its successor is an agent: what it says comes from an editor.
        b'r' => {
            let asked = Json::trusted(VALUES[0]);
            (Peer::Editor, Relay::new(Some(asked)).into())
        }
        other => seat(PEERS[usize::from(other) % PEERS.len()]),
    }
}

struct Alone {
    dialect: Dialect,
    peer: Peer,
    /// How many requests were sent that nobody else has sent, and which are not written yet.
    sent: u64,
    unwritten: VecDeque<u64>,
    /// What all that was sent would weigh if it had to wait.
    weight: usize,
}

/// # Panics
/// If something does not hold.
pub fn check(who: u8, story: &[u8]) {
    let (peer, dialect) = seat(who);
    let mut alone = Alone { dialect, peer, sent: 0, unwritten: VecDeque::new(), weight: 0 };
    for (what, choices) in story::lines(story) {
        alone.happen(what, choices);
        alone.look();
    }
    alone.end();
}

impl Alone {
    fn happen(&mut self, what: u8, mut choices: Choices<'_>) {
        tell(|| format!("{}{choices}", char::from(what)));
        match what {
            b'.' => self.hear(&shapes::line(&mut choices)),
            b'>' | b')' => {
                let toward = if what == b'>' { Side::Agent } else { Side::Editor };
                if let Some(message) = Message::parse(&choices.rest()).ok().filter(could_be_sent) {
                    self.send(toward, &message);
                }
            }
            b'+' => self.send_fresh(&mut choices),
            b'p' => {
                let waits = self.dialect.proxy().is_some_and(Proxy::awaits_first_line);
                let (_, count) =
                    self.act(|dialect, queue| dialect.proxy_mut().map(|it| it.send_noop(queue)));
                assert_eq!(count, usize::from(waits), "only who waits for a word is poked");
            }
            b'b' => {
                let can = self.dialect.proxy().is_some_and(Proxy::can_retry);
                let (begun, count) = self.act(|dialect, queue| {
                    dialect.proxy_mut().is_some_and(|it| it.retry_on_restart(queue))
                });
                assert!(!begun || can, "it had nothing left to begin with");
                assert_eq!(count, usize::from(begun), "who is begun again is greeted");
            }
            b'g' if self.dialect.proxy().is_some_and(Proxy::needs_successor) => {
                let servers = Json::parse(choices.rest()).ok();
                let (told, _) =
                    self.act(|dialect, queue| dialect.proxy_mut()?.set_successor(servers, queue));
                let told_it = !self.dialect.proxy().is_some_and(Proxy::needs_successor);
                assert!(told_it, "it has been told");
                told.iter().for_each(|(_, message)| reads_the_same(message));
            }
            b's' => {
                let (told, _) =
                    self.act(|dialect, queue| dialect.proxy_mut()?.on_successor_initialized(queue));
                told.iter().for_each(|(_, message)| reads_the_same(message));
            }
            b'c' => {
                if let Some(outer) = self.dialect.outer_mut()
                    && let Some((_, initialize)) = outer.take_chain()
                {
                    reads_the_same(&initialize);
                    assert!(outer.take_chain().is_none(), "a chain is taken once");
                }
            }
            b'<' => self.hear(&choices.rest()),
            _ => {}
        }
    }

    /// Lets the dialect write: what came of it, and how many lines.
    fn act<T>(&mut self, act: impl FnOnce(&mut Dialect, &mut Vec<u8>) -> T) -> (T, usize) {
        let (done, lines) = written(|queue| act(&mut self.dialect, queue));
        for (line, message) in &lines {
            if let Message::Request { id, .. } = message
                && let Some(number) = id.text().and_then(|id| id.strip_prefix("u:")?.parse().ok())
            {
                let next = self.unwritten.pop_front();
                assert_eq!(next, Some(number), "once, and in its order: {line:?}");
            }
        }
        (done, lines.len())
    }

    fn hear(&mut self, line: &Bytes) {
        let (heard, _) = self.act(|dialect, queue| dialect.decode(line, queue));
        match heard {
            Ok(Some((side, message))) => {
                reads_the_same(&message);
                self.check_way(line, side, &message);
            }
            Ok(None) => {}
            Err(rejection) => {
                let Some(reply) = rejection.reply else { return };
                assert!(matches!(*reply, Message::Response { .. }), "a refusal is an answer");
                reads_the_same(&reply);
            }
        }
    }

    /// The way of a message by the table, seen from outside: whoever carries another call than the
    /// line itself was in an envelope.
    fn check_way(&self, line: &Bytes, side: Side, message: &Message) {
        let call = |message: &Message| match message {
            Message::Request { call, .. } | Message::Notification(call) => Some(call.clone()),
            Message::Response { .. } => None,
        };
        let (Some(carried), Some(outside)) = (call(message), Message::parse(line).ok()) else {
            return;
        };
        let outside = call(&outside).expect("a call does not come from an answer");
        let wrapped = carried.method != outside.method;
        if carried.is(acp::INITIALIZE) {
            // Greetings are spelt in many ways.
            return;
        }
        let expected = match self.peer {
            Peer::Editor => Side::Agent,
            Peer::Agent => Side::Editor,
            Peer::Proxy if wrapped => Side::Agent,
            Peer::Proxy => Side::Editor,
            Peer::Conductor if wrapped => Side::Editor,
            Peer::Conductor => Side::Agent,
        };
        assert_eq!(side, expected, "{line:?}");
        let payload = carried.params.as_ref().map_or(&b""[..], Json::as_bytes);
        let kept = line.windows(payload.len().max(1)).any(|part| part == payload);
        assert!(kept || payload.is_empty(), "the payload is as it came: {line:?}");
    }

    fn send(&mut self, toward: Side, message: &Message) {
        let mut line = Vec::new();
        message.write_line(&mut line);
        self.weight += line.len() + 1024;
        self.act(|dialect, queue| dialect.encode(toward, message, queue));
    }

    fn send_fresh(&mut self, choices: &mut Choices<'_>) {
        let toward = if choices.below(2) == 0 { Side::Agent } else { Side::Editor };
        let kind = choices.below(4);
        let method = choices.text_of(&METHODS);
        let value = Json::trusted(choices.text_of(&VALUES));
        let call = Call::new(method, Some(value.clone()));
        let message = match kind {
            // The router's own id: what a peer of these stories answers.
            0 => Message::Request { id: Id::string("c:1"), call },
            1 if call.is(acp::INITIALIZE) => Message::Request { id: Id::string("c:2"), call },
            1 => {
                self.sent += 1;
                self.unwritten.push_back(self.sent);
                Message::Request { id: Id::string(&format!("u:{}", self.sent)), call }
            }
            2 => Message::Notification(call),
            _ => Message::response(Id::from(7), Outcome::Result(value)),
        };
        self.send(toward, &message);
    }

    /// What can be seen of a dialect at any time.
    fn look(&self) {
        let backlog = self.dialect.held_bytes();
        let may_hold = self.peer == Peer::Proxy && self.dialect.protocol() == LinkProtocol::Unknown;
        assert!(may_hold || backlog == 0, "{backlog} bytes wait for nothing");
        assert!(backlog <= self.weight, "{backlog} bytes wait of {}", self.weight);
        assert!(self.unwritten.is_empty() || backlog > 0, "something was lost");
        let _ = self.dialect.proxy().map(|it| (it.understood_greeting(), it.attempts_summary()));
    }

    /// Something that is said and done leaves nothing behind.
    fn end(mut self) {
        self.repeat();
        if self.dialect.held_bytes() > 0 {
            return;
        }
        let size = |it: &Alone| format!("{:?}", it.dialect).len();
        let before = size(&self);
        for _ in 0..8 {
            self.repeat();
        }
        assert!(size(&self) <= before, "{:?}", self.dialect);
    }

    fn repeat(&mut self) {
        self.send(Side::Agent, &Message::notification("session/cancel", None));
        self.send(Side::Editor, &Message::notification("session/update", None));
        for line in [
            r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"x","method":"session/prompt"}"#,
            r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"x"}}"#,
        ] {
            self.hear(&Bytes::from_static(line.as_bytes()));
        }
        self.send(Side::Editor, &Message::response(Id::string("x"), Outcome::Result(Json::NULL)));
    }
}

/// Could the router send this? Its ids are its own.
fn could_be_sent(message: &Message) -> bool {
    match message {
        Message::Request { id, .. } => {
            let number = |id: &str| id.strip_prefix("c:")?.parse::<u64>().ok();
            id.text().is_some_and(|id| number(&id).is_some())
        }
        Message::Notification(_) | Message::Response { .. } => true,
    }
}
