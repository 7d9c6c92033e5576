//! The conductor above us, of whatever generation: its first request tells.

use bytes::Bytes;

use super::generation::{Generation, Greeting};
use super::restore::restored;
use super::{Rejection, envelope, offer, p0};
use crate::acp::INITIALIZE;
use crate::guards;
use crate::json::Json;
use crate::message::{Call, Id, Message, Outcome, Parts, Side, code};
use crate::sink::Sink;

/// The link to a conductor whose proxy we are.
#[derive(Debug)]
pub struct Outer {
    generation: Option<Generation>,
    /// The greeting that we have yet to answer.
    greeted: Option<Id>,
    /// That greeting offers MCP over ACP, which is to be accepted in the same path.
    mcp_offered: bool,
    scp: Option<Scp>,
}

/// What there is to remember under an SCP editor, which tells us our successors after it has
/// initialised us.
#[derive(Debug)]
struct Scp {
    initialize: Call,
    state: ScpState,
}

#[derive(Debug)]
enum ScpState {
    /// Initialised; nothing but `_scp/proxy` is taken.
    Waiting,
    /// Told its successors; they are not started yet.
    Told {
        id: Id,
        servers: Json,
    },
    /// The successors are being initialised; then `_scp/proxy` is answered.
    Building {
        id: Id,
    },
    Done,
}

/// The id of the `initialize` that completes the chain.
const SCP_INITIALIZE: &str = "scp:initialize";

const NOT_GREETED: &str =
    "this is a proxy: greet it with proxy/initialize, or offer it the proxy capability";

impl Outer {
    pub fn unknown() -> Outer {
        Outer { generation: None, greeted: None, mcp_offered: false, scp: None }
    }

    pub fn pinned(generation: Generation) -> Outer {
        Outer { generation: Some(generation), ..Outer::unknown() }
    }

    pub fn generation(&self) -> Option<Generation> {
        self.generation
    }

    fn spelling(&self) -> Generation {
        self.generation.unwrap_or(Generation::P5)
    }

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
                let without = |params| restored(&params, &Json::EMPTY, &[offer::MCP_OFFER]);
                let params = call.params.clone();
                (Generation::P5, if self.mcp_offered { params.map(without) } else { params })
            }
            Some(_) => (Generation::P4, call.params.clone()),
            None if method == INITIALIZE => {
                let params = call.params.clone().unwrap_or(Json::EMPTY);
                let path = offer::offered_at(&params);
                match path.and_then(|it| Some((it, Generation::of_offer(it)?))) {
                    Some((path, generation)) => (generation, Some(offer::withdrawn(&params, path))),
                    None if p0::knows_scp(&params) => {
                        drop(method);
                        return self.begin_scp(id, call, &params, out);
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
        self.greeted = id.clone();
        let call = Call { method: INITIALIZE.into(), params, ..call };
        Ok(Some((Side::Agent, Message::call(id, call))))
    }

    /// An SCP editor initialises us before we know our successors, so we can only speak for
    /// ourselves.
    fn begin_scp(
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
        let result = offer::put_at(&result, p0::P0.acceptance);
        Message::response(id, Outcome::Result(result)).write_line(out);
        self.generation = Some(Generation::P0);
        self.scp = Some(Scp { initialize: call.detached(), state: ScpState::Waiting });
        Ok(None)
    }

    fn on_scp_call(
        &mut self,
        id: Option<Id>,
        call: Call,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        let Some(scp) = &mut self.scp else { return Ok(None) };
        let refuse = |id, code, why| Err(Rejection::refusal(id, code, why));
        match (&scp.state, call.is(p0::SCP_PROXY)) {
            (ScpState::Waiting, true) => {
                let servers = call.params.as_ref().and_then(p0::servers);
                let (Some(servers), Some(id)) = (servers, id.clone()) else {
                    let why = "_scp/proxy needs a list of servers";
                    return refuse(id, code::INVALID_PARAMS, why);
                };
                scp.state = ScpState::Told { id: id.detached(), servers: servers.detached() };
                Ok(None)
            }
            (ScpState::Waiting, false) => {
                refuse(id, code::INVALID_REQUEST, "this proxy waits for _scp/proxy")
            }
            (_, true) => refuse(id, code::INVALID_REQUEST, "the proxy chain cannot be changed"),
            (_, false) => Ok(Some((Side::Agent, Message::call(id, call)))),
        }
    }

    /// The chain that an SCP editor asked for stands, or cannot stand.
    fn on_scp_built(&mut self, answered: &Id, outcome: &Outcome) -> Option<Message> {
        let scp = self.scp.as_mut().filter(|_| *answered == Id::string(SCP_INITIALIZE))?;
        let ScpState::Building { id } = &scp.state else { return None };
        let (outcome, state) = match outcome {
            Outcome::Result(result) => {
                (Outcome::Result(guards::copy_flag(result, &Json::EMPTY)), ScpState::Done)
            }
            error => (error.clone(), ScpState::Waiting),
        };
        let answer = Message::response(id.clone(), outcome);
        scp.state = state;
        Some(answer)
    }

    /// Accepts the role of a proxy in the way in which it was offered.
    fn accept(&mut self, id: &Id, outcome: &Outcome) -> Option<Outcome> {
        let generation = self.generation?;
        self.greeted.take_if(|greeted| greeted == id)?;
        let Outcome::Result(result) = outcome else { return None };
        match generation.greeting() {
            Greeting::Capability => {
                Some(Outcome::Result(offer::put_at(result, generation.table().acceptance)))
            }
            Greeting::Proxy if self.mcp_offered => {
                Some(Outcome::Result(result.with_at(offer::MCP_OFFER, Some(&Json::TRUE))))
            }
            Greeting::Proxy | Greeting::Underscore => None,
        }
    }

    pub fn decode(
        &mut self,
        line: &Bytes,
        out: &mut dyn Sink,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        let mut parts = Parts::default();
        parts.split(line)?;
        if let Some(opened) = envelope::open(&parts, line) {
            let opened = opened?.check()?;
            // A parent of the capability kind may spell its envelopes in either way.
            if self.generation.is_none_or(|it| !it.spells_like(opened.generation)) {
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

    pub fn encode(&mut self, toward: Side, message: &Message, out: &mut dyn Sink) {
        let (id, call) = match message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { id, outcome, extras } => {
                if let Some(answer) = self.on_scp_built(id, outcome) {
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
            Side::Agent => {
                envelope::write(self.spelling(), self.spelling().table().sends, id, call, out)
            }
        }
    }

    /// The peer is an SCP editor and told us our successors: the servers of its `_scp/proxy`, and
    /// the `initialize` for the chain that they complete.
    pub fn take_chain(&mut self) -> Option<(Json, Message)> {
        let scp = self.scp.as_mut()?;
        let ScpState::Told { id, servers } = &scp.state else { return None };
        let servers = servers.clone();
        scp.state = ScpState::Building { id: id.clone() };
        let (id, call) = (Id::string(SCP_INITIALIZE), scp.initialize.clone());
        Some((servers, Message::Request { id, call }))
    }
}
