//! A simulated peer at the other end of a link, in any generation.
//!
//! An SCP proxy (P0) has two links and another handshake: it answers `initialize`, learns its successor from
//! `_scp/proxy`, starts a relay as its successor, and initializes the relay. A [`Peer`] does this by itself. For the test,
//! a proxy of each generation receives `initialize`, sends `initialize` to its successor, and then answers.

use acp_wire::dialect::{Generation, Outer, Plain, Proxy};
use acp_wire::{Call, Dialect, Id, Json, Message, Outcome, Rejection, Side, acp};
use bytes::Bytes;
use engine::Port;

/// A peer of a conductor.
#[derive(Debug)]
pub struct Peer {
    dialect: Dialect,
    scp: Option<Scp>,
}

/// The state of an SCP proxy.
#[derive(Debug, Default)]
struct Scp {
    /// The `initialize` that it has answered, until it learns its successor.
    greeting: Option<Call>,
    /// The requests that have arrived on the second link and must be answered there.
    relayed: Vec<Id>,
    /// The `initialize` that it has sent to its successor.
    initialize: Option<Id>,
}

/// The meaning of a line that a peer has read.
#[derive(Debug)]
pub enum Read {
    /// The peer has received a message that travels toward this side.
    Message(Side, Message),
    /// The peer answers by itself, on its first link.
    Reply(Bytes),
    /// An SCP proxy has started its relay, which connects. After that, the peer has received this message.
    Join(Side, Message),
    /// The line has no meaning for the test.
    Nothing,
}

/// The line that the conductor sends to a component that does not answer its greeting.
const POKE: &[u8] =
    br#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"none"}}"#;

/// The request from which an SCP proxy learns its successor.
const SCP_PROXY: &str = "_scp/proxy";

impl Peer {
    /// An editor.
    pub fn editor() -> Peer {
        Peer { dialect: Plain::agent().into(), scp: None }
    }

    /// An agent.
    pub fn agent() -> Peer {
        Peer { dialect: Plain::editor().into(), scp: None }
    }

    /// A conductor for which the tested conductor is a proxy.
    pub fn conductor() -> Peer {
        Peer { dialect: Proxy::pinned("us", Generation::CURRENT).into(), scp: None }
    }

    /// A proxy of this generation.
    pub fn proxy(generation: Generation) -> Peer {
        let scp = (generation == Generation::P0).then(Scp::default);
        Peer { dialect: Outer::pinned(generation).into(), scp }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// If the peer cannot read it.
    pub fn read(&mut self, port: Port, line: &Bytes) -> Result<Read, Rejection> {
        if **line == *POKE {
            return Ok(Read::Nothing);
        }
        if let Some(scp) = &mut self.scp {
            return Ok(scp.read(port, Message::parse(line)?));
        }
        let read = self.dialect.decode(line, &mut Vec::new())?;
        Ok(read.map_or(Read::Nothing, |(toward, message)| Read::Message(toward, message)))
    }

    /// The lines of a message.
    pub fn write(&mut self, toward: Side, message: &Message) -> Vec<(Port, Bytes)> {
        if let Some(scp) = &mut self.scp {
            return vec![(scp.port(toward, message), message.to_line().into())];
        }
        let mut text = Vec::new();
        self.dialect.encode(toward, message, &mut text);
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| (Port::Main, Bytes::copy_from_slice(line))).collect()
    }
}

impl Scp {
    fn read(&mut self, port: Port, message: Message) -> Read {
        match (port, message) {
            (Port::Main, Message::Request { id, call }) if call.is(acp::INITIALIZE) => {
                self.greeting = Some(call);
                let result = r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0","proxy":true}}}"#;
                let answer = Message::response(id, Outcome::Result(Json::trusted(result)));
                Read::Reply(answer.to_line().into())
            }
            (Port::Main, Message::Request { id, call })
                if call.is(SCP_PROXY) && self.greeting.is_some() =>
            {
                let call = self.greeting.take().unwrap_or(call);
                Read::Join(Side::Agent, Message::Request { id, call })
            }
            (Port::Main, message) => Read::Message(Side::Agent, message),
            (Port::Relay, Message::Response { id, outcome, extras }) => {
                let greeted = self.initialize.take_if(|it| *it == id).is_some();
                let outcome = match outcome {
                    Outcome::Result(result) if greeted => Outcome::Result(without_scp(&result)),
                    outcome => outcome,
                };
                Read::Message(Side::Editor, Message::Response { id, outcome, extras })
            }
            (Port::Relay, message) => {
                if let Message::Request { id, .. } = &message {
                    self.relayed.push(id.detached());
                }
                Read::Message(Side::Editor, message)
            }
        }
    }

    /// The link on which a message is sent.
    fn port(&mut self, toward: Side, message: &Message) -> Port {
        match message {
            Message::Response { id, .. } => {
                match self.relayed.iter().position(|relayed| relayed == id) {
                    Some(index) => {
                        self.relayed.remove(index);
                        Port::Relay
                    }
                    None => Port::Main,
                }
            }
            _ if toward == Side::Editor => Port::Main,
            Message::Request { id, call } if call.is(acp::INITIALIZE) => {
                self.initialize = Some(id.detached());
                Port::Relay
            }
            _ => Port::Relay,
        }
    }
}

/// The answer to `initialize` without the member that marks the successor as the last component of an SCP chain.
fn without_scp(result: &Json) -> Json {
    let result = result.with_at(&["_meta", "symposium"], None);
    match result.member("_meta") {
        Some(meta) if meta.keys().is_empty() => result.with_at(&["_meta"], None),
        _ => result,
    }
}
