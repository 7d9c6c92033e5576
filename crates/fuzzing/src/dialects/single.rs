//! One dialect on its link, and a peer that sends any lines.
//!
//! | line | step |
//! |---|---|
//! | `<TEXT` | the peer sends this line |
//! | `.SHAPE ID METHOD VALUE` | the peer sends a line from a template (a byte each) |
//! | `>TEXT`, `)TEXT` | this message is sent, toward the agent, toward the editor |
//! | `+SIDE KIND METHOD VALUE` | a message with a new id is sent |
//! | `p`, `b` | the peer gets a line without meaning; the peer is restarted during the handshake |
//! | `gTEXT`, `s` | an SCP proxy learns its successor, the successor is initialized |
//! | `c` | the chain of an SCP editor is taken |
//!
//! Invariants: nothing panics. Only whole lines are written, and each is a message. A message goes to the side in the
//! table of `acp_wire::dialect`, with an unchanged payload. Each sent message is written once and in order, or is held;
//! only a proxy of unknown generation holds messages. A finished exchange leaves no state behind.

use std::collections::VecDeque;
use std::fmt::Debug;

use acp_wire::dialect::{Generation, Greeting, Outer, Plain, Proxy, Relay};
use acp_wire::{Call, Dialect, Id, Json, LinkProtocol, Message, Outcome, Side, acp};
use bytes::Bytes;

use super::shapes::{self, METHODS, VALUES};
use super::written;
use crate::line::assert_round_trips;
use crate::scenario::{self, Choices, trace};

/// The peer at the other end.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Peer {
    Editor,
    Agent,
    Proxy,
    Conductor,
}

/// The peers that the first byte of a scenario can choose.
const PEERS: &[u8] = b"ea543t210?xyzor";

fn peer(choice: u8) -> (Peer, Dialect) {
    let pinned = |generation| (Peer::Proxy, Proxy::pinned("x", generation).into());
    let remembered = |greeting| (Peer::Proxy, Proxy::remembered("x", greeting).into());
    match choice {
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
        // For an SCP proxy, its successor is an agent. So its messages are those of an editor.
        b'r' => {
            let asked = Json::trusted(VALUES[0]);
            (Peer::Editor, Relay::new(Some(asked)).into())
        }
        other => peer(PEERS[usize::from(other) % PEERS.len()]),
    }
}

struct SingleDialect {
    dialect: Dialect,
    peer: Peer,
    /// The number of requests with a new id, and those that are not written yet.
    sent: u64,
    unwritten: VecDeque<u64>,
    /// An upper bound of the size of all sent messages.
    weight: usize,
}

/// # Panics
/// If something does not hold.
pub fn check(choice: u8, scenario: &[u8]) {
    let (peer, dialect) = peer(choice);
    let mut single =
        SingleDialect { dialect, peer, sent: 0, unwritten: VecDeque::new(), weight: 0 };
    for (kind, choices) in scenario::steps(scenario) {
        single.step(kind, choices);
        single.check_invariants();
    }
    single.end();
}

impl SingleDialect {
    fn step(&mut self, kind: u8, mut choices: Choices<'_>) {
        trace(|| format!("{}{choices}", char::from(kind)));
        match kind {
            b'.' => self.receive(&shapes::line(&mut choices)),
            b'>' | b')' => {
                let toward = if kind == b'>' { Side::Agent } else { Side::Editor };
                if let Some(message) = Message::parse(&choices.rest()).ok().filter(can_be_sent) {
                    self.send(toward, &message);
                }
            }
            b'+' => self.send_numbered(&mut choices),
            b'p' => {
                let waits = self.dialect.proxy().is_some_and(Proxy::awaits_first_line);
                let (_, count) =
                    self.act(|dialect, queue| dialect.proxy_mut().map(|it| it.send_noop(queue)));
                assert_eq!(
                    count,
                    usize::from(waits),
                    "only a proxy that has not sent its first line is poked"
                );
            }
            b'b' => {
                let can = self.dialect.proxy().is_some_and(Proxy::can_retry);
                let (retried, count) = self.act(|dialect, queue| {
                    dialect.proxy_mut().is_some_and(|it| it.retry_on_restart(queue))
                });
                assert!(!retried || can, "there was no greeting left to try");
                assert_eq!(count, usize::from(retried), "a restarted proxy gets a greeting");
            }
            b'g' if self.dialect.proxy().is_some_and(Proxy::needs_successor) => {
                let servers = Json::parse(choices.rest()).ok();
                let (received, _) =
                    self.act(|dialect, queue| dialect.proxy_mut()?.set_successor(servers, queue));
                let knows_successor = !self.dialect.proxy().is_some_and(Proxy::needs_successor);
                assert!(knows_successor, "it knows its successor");
                received.iter().for_each(|(_, message)| assert_round_trips(message));
            }
            b's' => {
                let (received, _) =
                    self.act(|dialect, queue| dialect.proxy_mut()?.on_successor_initialized(queue));
                received.iter().for_each(|(_, message)| assert_round_trips(message));
            }
            b'c' => {
                if let Some(outer) = self.dialect.outer_mut()
                    && let Some((_, initialize)) = outer.take_scp_servers()
                {
                    assert_round_trips(&initialize);
                    assert!(outer.take_scp_servers().is_none(), "a chain is taken once");
                }
            }
            b'<' => self.receive(&choices.rest()),
            _ => {}
        }
    }

    /// Lets the dialect write. Returns the result and the number of lines.
    fn act<T>(&mut self, act: impl FnOnce(&mut Dialect, &mut Vec<u8>) -> T) -> (T, usize) {
        let (done, lines) = written(|queue| act(&mut self.dialect, queue));
        for (line, message) in &lines {
            if let Message::Request { id, .. } = message
                && let Some(number) = id.text().and_then(|id| id.strip_prefix("u:")?.parse().ok())
            {
                let next = self.unwritten.pop_front();
                assert_eq!(
                    next,
                    Some(number),
                    "each request is written once and in order: {line:?}"
                );
            }
        }
        (done, lines.len())
    }

    fn receive(&mut self, line: &Bytes) {
        let (received, _) = self.act(|dialect, queue| dialect.decode(line, queue));
        match received {
            Ok(Some((side, message))) => {
                assert_round_trips(&message);
                self.check_direction(line, side, &message);
            }
            Ok(None) => {}
            Err(rejection) => {
                let Some(reply) = rejection.reply else { return };
                assert!(matches!(*reply, Message::Response { .. }), "a refusal is an answer");
                assert_round_trips(&reply);
            }
        }
    }

    /// Checks the direction of a message by the table. A message whose method differs from that of the line was in an
    /// envelope.
    fn check_direction(&self, line: &Bytes, side: Side, message: &Message) {
        let call = |message: &Message| match message {
            Message::Request { call, .. } | Message::Notification(call) => Some(call.clone()),
            Message::Response { .. } => None,
        };
        let (Some(carried), Some(outside)) = (call(message), Message::parse(line).ok()) else {
            return;
        };
        let outside = call(&outside).expect("an answer is never decoded as a call");
        let wrapped = carried.method != outside.method;
        if carried.is(acp::INITIALIZE) {
            // Greetings have many forms.
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
        assert!(kept || payload.is_empty(), "the payload is unchanged: {line:?}");
    }

    fn send(&mut self, toward: Side, message: &Message) {
        let mut line = Vec::new();
        message.write_line(&mut line);
        self.weight += line.len() + 1024;
        self.act(|dialect, queue| dialect.encode(toward, message, queue));
    }

    fn send_numbered(&mut self, choices: &mut Choices<'_>) {
        let toward = if choices.below(2) == 0 { Side::Agent } else { Side::Editor };
        let kind = choices.below(4);
        let method = choices.text_of(&METHODS);
        let value = Json::trusted(choices.text_of(&VALUES));
        let call = Call::new(method, Some(value.clone()));
        let message = match kind {
            // An id of the router, which the peers of these scenarios answer.
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

    /// Checks the invariants that hold at any time.
    fn check_invariants(&self) {
        let backlog = self.dialect.held_bytes();
        let may_hold = self.peer == Peer::Proxy && self.dialect.protocol() == LinkProtocol::Unknown;
        assert!(may_hold || backlog == 0, "{backlog} bytes are held without a reason");
        assert!(backlog <= self.weight, "{backlog} bytes are held of {}", self.weight);
        assert!(self.unwritten.is_empty() || backlog > 0, "a message was lost");
        let _ = self.dialect.proxy().map(|it| (it.understood_greeting(), it.attempts_summary()));
    }

    /// Checks that a finished exchange leaves no state behind.
    fn end(mut self) {
        self.repeat();
        if self.dialect.held_bytes() > 0 {
            return;
        }
        let size = |it: &SingleDialect| format!("{:?}", it.dialect).len();
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
            self.receive(&Bytes::from_static(line.as_bytes()));
        }
        self.send(Side::Editor, &Message::response(Id::string("x"), Outcome::Result(Json::NULL)));
    }
}

/// Whether the router could send this: a request must have an id of the router.
fn can_be_sent(message: &Message) -> bool {
    match message {
        Message::Request { id, .. } => {
            let number = |id: &str| id.strip_prefix("c:")?.parse::<u64>().ok();
            id.text().is_some_and(|id| number(&id).is_some())
        }
        Message::Notification(_) | Message::Response { .. } => true,
    }
}
