//! The link to an outer conductor. Its first request shows its generation.

use bytes::Bytes;

use super::generation::{Generation, Greeting};
use super::restore::restored;
use super::{Rejection, envelope, offer, p0};
use crate::acp::INITIALIZE;
use crate::guards;
use crate::json::Json;
use crate::message::{Call, Id, Message, MessageParts, Outcome, Side, code};
use crate::sink::Sink;

/// The dialect of the link to an outer conductor, for which this chain is a proxy.
#[derive(Debug)]
pub struct Outer {
    generation: Option<Generation>,
    /// The id of the greeting that this chain has not answered.
    pending_greeting: Option<Id>,
    /// Whether that greeting offers MCP over ACP. The answer accepts it at the same path.
    mcp_offered: bool,
    scp: Option<Scp>,
}

/// The state under an SCP editor, which sends the list of successors after it has initialized this chain.
#[derive(Debug)]
struct Scp {
    /// The editor's `initialize`, for the successors.
    initialize: Call,
    state: ScpState,
}

/// How far the set-up under an SCP editor has come.
#[derive(Debug)]
enum ScpState {
    /// The chain is initialized. Only `_scp/proxy` is accepted.
    AwaitingServers,
    /// The successors are known and not started.
    GotServers {
        id: Id,
        servers: Json,
    },
    /// The successors are being initialized. Then `_scp/proxy` is answered.
    Initializing {
        id: Id,
    },
    Done,
}

/// The id of the `initialize` for the successors.
const SCP_INITIALIZE: &str = "scp:initialize";

const NOT_GREETED: &str =
    "this is a proxy: greet it with proxy/initialize, or offer it the proxy capability";

impl Outer {
    /// A conductor whose generation is not known.
    pub fn unknown() -> Outer {
        Outer { generation: None, pending_greeting: None, mcp_offered: false, scp: None }
    }

    /// A conductor of this generation.
    pub fn pinned(generation: Generation) -> Outer {
        Outer { generation: Some(generation), ..Outer::unknown() }
    }

    /// The generation, if it is known.
    pub fn generation(&self) -> Option<Generation> {
        self.generation
    }

    /// The generation of the envelopes for the outer conductor.
    fn generation_to_send(&self) -> Generation {
        self.generation.unwrap_or(Generation::P5)
    }

    /// Handles a plain request or notification. A greeting becomes `initialize`.
    fn on_call(
        &mut self,
        id: Option<Id>,
        call: Call,
        out: &mut dyn Sink,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        if self.scp.is_some() {
            return self.on_scp_call(id, call);
        }
        let method = call.method.name();
        let (generation, params) = match Greeting::of_method(&method) {
            Some(Greeting::Proxy) => {
                let offered =
                    |params: &&Json| params.at(offer::MCP_OFFER).is_some_and(|it| it == Json::TRUE);
                self.mcp_offered = call.params.as_ref().filter(offered).is_some();
                let without = |params| restored(&params, &Json::EMPTY_OBJECT, &[offer::MCP_OFFER]);
                let params = call.params.clone();
                (Generation::P5, if self.mcp_offered { params.map(without) } else { params })
            }
            Some(_) => (Generation::P4, call.params.clone()),
            None if method == INITIALIZE => {
                let params = call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
                let path = offer::offered_at(&params);
                match path.and_then(|it| Some((it, Generation::of_offer(it)?))) {
                    Some((path, generation)) => {
                        (generation, Some(offer::without_offer(&params, path)))
                    }
                    None if p0::knows_scp(&params) => {
                        drop(method);
                        return self.answer_scp_initialize(id, call, &params, out);
                    }
                    None => return Err(Rejection::refusal(id, code::INVALID_REQUEST, NOT_GREETED)),
                }
            }
            None => {
                drop(method);
                return Ok(Some((Side::Agent, Message::call(id, call))));
            }
        };
        drop(method);
        self.generation = Some(generation);
        self.pending_greeting = id.clone();
        let call = Call { method: INITIALIZE.into(), params, ..call };
        Ok(Some((Side::Agent, Message::call(id, call))))
    }

    /// Answers the `initialize` of an SCP editor. The successors are not known yet, so the answer describes
    /// only this chain.
    fn answer_scp_initialize(
        &mut self,
        id: Option<Id>,
        call: Call,
        params: &Json,
        out: &mut dyn Sink,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        let Some(id) = id else { return Ok(None) };
        let version = params.member("protocolVersion").unwrap_or(Json::trusted("1"));
        let result = Json::trusted(r#"{"agentCapabilities":{},"authMethods":[]}"#)
            .with_at(&["protocolVersion"], Some(&version));
        let result = offer::set_capability(&result, p0::P0.acceptance);
        Message::response(id, Outcome::Result(result)).write_line(out);
        self.generation = Some(Generation::P0);
        self.scp = Some(Scp { initialize: call.detached(), state: ScpState::AwaitingServers });
        Ok(None)
    }

    /// Handles a request or notification of an SCP editor after its `initialize`.
    fn on_scp_call(
        &mut self,
        id: Option<Id>,
        call: Call,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        let Some(scp) = &mut self.scp else { return Ok(None) };
        let refuse = |id, code, why| Err(Rejection::refusal(id, code, why));
        match (&scp.state, call.is(p0::SCP_PROXY)) {
            (ScpState::AwaitingServers, true) => {
                let servers = call.params.as_ref().and_then(p0::servers);
                let (Some(servers), Some(id)) = (servers, id.clone()) else {
                    let why = "_scp/proxy needs a list of servers";
                    return refuse(id, code::INVALID_PARAMS, why);
                };
                scp.state = ScpState::GotServers { id: id.detached(), servers: servers.detached() };
                Ok(None)
            }
            (ScpState::AwaitingServers, false) => refuse(
                id,
                code::INVALID_REQUEST,
                "this proxy waits for _scp/proxy and accepts no other request before it",
            ),
            (_, true) => refuse(id, code::INVALID_REQUEST, "the proxy chain cannot be changed"),
            (_, false) => Ok(Some((Side::Agent, Message::call(id, call)))),
        }
    }

    /// The answer to `_scp/proxy`, once the successors are initialized or have failed.
    fn answer_scp_proxy(&mut self, answered: &Id, outcome: &Outcome) -> Option<Message> {
        let scp = self.scp.as_mut().filter(|_| *answered == Id::string(SCP_INITIALIZE))?;
        let ScpState::Initializing { id } = &scp.state else { return None };
        let (outcome, state) = match outcome {
            Outcome::Result(result) => {
                (Outcome::Result(guards::copy_flag(result, &Json::EMPTY_OBJECT)), ScpState::Done)
            }
            error => (error.clone(), ScpState::AwaitingServers),
        };
        let answer = Message::response(id.clone(), outcome);
        scp.state = state;
        Some(answer)
    }

    /// The answer to the greeting with the acceptance of the proxy role, at the path that belongs to the offer.
    /// `None` if nothing has to be added.
    fn accept(&mut self, id: &Id, outcome: &Outcome) -> Option<Outcome> {
        let generation = self.generation?;
        self.pending_greeting.take_if(|pending_greeting| pending_greeting == id)?;
        let Outcome::Result(result) = outcome else { return None };
        match generation.greeting() {
            Greeting::Capability => {
                Some(Outcome::Result(offer::set_capability(result, generation.table().acceptance)))
            }
            Greeting::Proxy if self.mcp_offered => {
                Some(Outcome::Result(result.with_at(offer::MCP_OFFER, Some(&Json::TRUE))))
            }
            Greeting::Proxy | Greeting::Underscore => None,
        }
    }

    /// Decodes a line; see [`Dialect::decode`](super::Dialect::decode).
    pub fn decode(
        &mut self,
        line: &Bytes,
        out: &mut dyn Sink,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        let mut parts = MessageParts::default();
        parts.split(line)?;
        if let Some(opened) = envelope::open(&parts, line) {
            let opened = opened?.check()?;
            // A conductor that greets with the capability may use either envelope.
            if self.generation.is_none_or(|it| !it.has_same_envelopes_as(opened.generation)) {
                self.generation = Some(opened.generation);
            }
            return Ok(Some((Side::Editor, opened.into_message())));
        }
        match parts.message(line)? {
            Message::Request { id, call } => self.on_call(Some(id), call, out),
            Message::Notification(call) => self.on_call(None, call, out),
            answer => Ok(Some((Side::Agent, answer))),
        }
    }

    /// Appends the line for a message; see [`Dialect::encode`](super::Dialect::encode).
    pub fn encode(&mut self, toward: Side, message: &Message, out: &mut dyn Sink) {
        let (id, call) = match message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { id, outcome, extras } => {
                if let Some(answer) = self.answer_scp_proxy(id, outcome) {
                    return answer.write_line(out);
                }
                match self.accept(id, outcome) {
                    Some(outcome) => {
                        let (id, extras) = (id.clone(), extras.clone());
                        Message::Response { id, outcome, extras }.write_line(out);
                    }
                    None => message.write_line(out),
                }
                return;
            }
        };
        match toward {
            Side::Editor => message.write_line(out),
            Side::Agent => envelope::write(
                self.generation_to_send(),
                self.generation_to_send().table().sends,
                id,
                call,
                out,
            ),
        }
    }

    /// The list of servers from an SCP editor, which are the successors of this chain, and the `initialize` for
    /// the complete chain. Each list is returned once. `None` if no list has arrived.
    pub fn take_scp_servers(&mut self) -> Option<(Json, Message)> {
        let scp = self.scp.as_mut()?;
        let ScpState::GotServers { id, servers } = &scp.state else { return None };
        let servers = servers.clone();
        scp.state = ScpState::Initializing { id: id.clone() };
        let (id, call) = (Id::string(SCP_INITIALIZE), scp.initialize.clone());
        Some((servers, Message::Request { id, call }))
    }
}
