//! A proxy of ours, of whatever generation.
//!
//! Which one it is, nobody has to say. A proxy that does not know the greeting it gets does what it
//! does with anything it does not know: it passes it on to its successor, in an envelope of *its*
//! generation. That envelope is the answer. It is refused, and then the right greeting is sent. A
//! component that refuses a greeting by itself is sent the next older one; one that dies of it is
//! started again and begun with the next older one. Nothing of this is seen by anybody else. See
//! `probe`.
//!
//! What is to be sent meanwhile waits, all but answers: the component may need them to go on.

use bytes::Bytes;

use super::envelope::{self, Opened};
use super::generation::{Generation, Greeting};
use super::restore::{KeyPath, restored};
use super::{NOT_THE_CONDUCTOR, Rejection, mcp_capability, offer, p0};
use crate::acp::{self, CANCEL_REQUEST, INITIALIZE};
use crate::guards;
use crate::json::Json;
use crate::message::{Call, Id, Message, Outcome, Parts, Side, code};
use crate::sink::Sink;

mod probe;

use probe::{FirstGreeting, Probe, shortened};

/// The link to a proxy.
#[derive(Debug)]
pub struct Proxy {
    /// What the component is called in errors.
    component: String,
    /// The names that it may give its successor. `None`: all, since they are not known here.
    peers: Option<Vec<String>>,
    /// Set by the user: no other generation is tried.
    pin: Option<Generation>,
    /// With which greeting to begin.
    first: FirstGreeting,
    /// A guess was with what to begin, and it was wrong.
    guess_failed: bool,
    state: GenerationState,
    /// The `initialize`s that the component has yet to answer.
    greeted: Vec<PendingGreeting>,
    /// Ids under which a greeting went out that was then tried otherwise: nobody waits for them.
    withdrawn: Vec<Id>,
    /// The `initialize` that the component has sent to its successor and waits for.
    forwarded: Option<Id>,
    /// The result of `initialize` of its successor, and the path of the word that was put into it
    /// for this component, if any (see `words`).
    successor_result: Option<(Json, Option<KeyPath>)>,
    /// The answer to `initialize` of a component that may be an SCP proxy; it travels on when the
    /// component has its successor.
    accepted: Option<(Id, Json)>,
    successor: ScpSuccessor,
    /// The successor that an SCP proxy has started has been initialised.
    successor_initialized: bool,
    /// The generation of the envelope in which it passed `_scp/proxy` on, which it does not know.
    no_scp: Option<Generation>,
}

/// A greeting that the component has yet to answer.
#[derive(Debug)]
struct PendingGreeting {
    /// On this link.
    id: Id,
    /// The params as they were before anything was put in for this component.
    asked: Json,
    /// How it was spelt. The envelopes of a component may be of another generation than the greeting
    /// that it understands.
    greeting: Greeting,
}

/// How far an SCP proxy is with its successor.
#[derive(Debug, PartialEq)]
enum ScpSuccessor {
    /// Nobody has asked.
    None,
    Wanted,
    /// We have sent `_scp/proxy`.
    Given,
}

#[derive(Debug)]
enum GenerationState {
    /// Not greeted, or greeted and not yet understood.
    Unknown(Option<Box<Probe>>),
    Known(Generation),
}

/// What a message costs beside its text while it waits.
const HELD: usize = 512;

/// The id of our own `_scp/proxy` request.
const SCP_ID: &str = "scp";

impl Proxy {
    /// A component of which nothing is known.
    pub fn unknown(component: &str) -> Proxy {
        Proxy {
            component: component.to_owned(),
            peers: Some(Vec::new()),
            pin: None,
            first: FirstGreeting::Newest,
            guess_failed: false,
            state: GenerationState::Unknown(None),
            greeted: Vec::new(),
            withdrawn: Vec::new(),
            forwarded: None,
            successor_result: None,
            accepted: None,
            successor: ScpSuccessor::None,
            successor_initialized: false,
            no_scp: None,
        }
    }

    /// A component that is known to be of this generation: no other one is tried.
    pub fn pinned(component: &str, generation: Generation) -> Proxy {
        Proxy { pin: Some(generation), ..Proxy::unknown(component) }
    }

    /// A component that understood this greeting the last time. If it does not understand it now, it
    /// is a component of which nothing is known.
    pub fn remembered(component: &str, greeting: Greeting) -> Proxy {
        Proxy { first: FirstGreeting::Greeting(greeting), ..Proxy::unknown(component) }
    }

    /// A component that was of this generation before it was started again. If it does not understand
    /// the same greeting now, it is a component of which nothing is known.
    pub fn restarted(component: &str, generation: Generation) -> Proxy {
        Proxy { first: FirstGreeting::Generation(generation), ..Proxy::unknown(component) }
    }

    /// A component that has ended over these greetings, each on a start of its own.
    pub fn after_failures(component: &str, failed: Vec<Greeting>) -> Proxy {
        Proxy { first: FirstGreeting::After(failed), ..Proxy::unknown(component) }
    }

    /// With the names that the component may use for its successor (`peer` in an envelope). `None`
    /// passes any name on to a conductor above us, which knows its own.
    pub fn with_peers(self, peers: Option<Vec<String>>) -> Proxy {
        Proxy { peers, ..self }
    }

    /// The generation, once it is known.
    pub fn generation(&self) -> Option<Generation> {
        match self.state {
            GenerationState::Known(generation) => Some(generation),
            GenerationState::Unknown(_) => None,
        }
    }

    /// Sends a greeting that the component is to answer: the first one, the next one, or another one to
    /// a component we know.
    fn greet(&mut self, greeting: Greeting, id: &Id, call: &Call, out: &mut dyn Sink) {
        let asked = self.write_greeting(greeting, id, call, out).detached();
        self.greeted.push(PendingGreeting { id: id.clone(), asked, greeting });
    }

    /// Gives the params as they were before anything was put in.
    fn write_greeting(&self, greeting: Greeting, id: &Id, call: &Call, out: &mut dyn Sink) -> Json {
        let generation = self.generation().or(self.pin).or(self.guessed());
        let mut asked = call.params.clone().unwrap_or(Json::EMPTY);
        let v1_only = generation.map_or(greeting != Greeting::Proxy, Generation::v1_only);
        if v1_only {
            asked = acp::lowered_to_v1(&asked);
        }
        let params = match greeting {
            Greeting::Proxy => asked.with_at(offer::MCP_OFFER, Some(&Json::TRUE)),
            Greeting::Underscore => asked.clone(),
            // An SCP proxy finds its role by itself: it is only told that we know of SCP.
            Greeting::Capability => offer::put(&asked, generation),
        };
        let call = Call { method: greeting.method().into(), params: Some(params), ..call.clone() };
        Message::Request { id: id.clone(), call }.write_line(out);
        asked
    }

    /// From now on the component's generation is known: what waited for that is sent.
    fn adopt(&mut self, generation: Generation, out: &mut dyn Sink) {
        // Generations that spell alike are told apart by what the component was before.
        let guess = self.guessed().filter(|guess| guess.spells_like(generation));
        let generation = self.pin.or(guess).unwrap_or(generation);
        match std::mem::replace(&mut self.state, GenerationState::Known(generation)) {
            GenerationState::Unknown(Some(probe)) => {
                for (toward, message) in probe.held {
                    self.encode(toward, &message, out);
                }
            }
            GenerationState::Unknown(None) | GenerationState::Known(_) => {}
        }
    }

    /// Answers the component. If it is its successor's answer to `initialize`, the component hears of
    /// capabilities in its own words.
    fn write_answer(&mut self, message: &Message, out: &mut dyn Sink) {
        let Message::Response { id, outcome, extras } = message else { return };
        let greeted = self.forwarded.take_if(|forwarded| forwarded == id).is_some();
        let Outcome::Result(result) = outcome else { return message.write_line(out) };
        let Some(generation) = self.generation().filter(|_| greeted) else {
            return message.write_line(out);
        };
        let missing = mcp_capability::missing(result, generation);
        self.successor_result = Some((result.detached(), missing.as_ref().map(|(path, _)| *path)));
        let Some((path, yes)) = missing else { return message.write_line(out) };
        let outcome = Outcome::Result(result.with_at(path, Some(&yes)));
        Message::Response { id: id.clone(), outcome, extras: extras.clone() }.write_line(out);
    }

    /// Writes to a component whose generation is not known yet, or not any more.
    fn write_assuming(&self, toward: Side, message: &Message, out: &mut dyn Sink) {
        let generation = self.pin.unwrap_or(Generation::P5);
        match message {
            Message::Request { id, call } if toward == Side::Editor => {
                envelope::write(generation, generation.table().receives, Some(id), call, out);
            }
            Message::Notification(call) if toward == Side::Editor => {
                envelope::write(generation, generation.table().receives, None, call, out);
            }
            Message::Request { id, call } if call.is(INITIALIZE) => {
                self.write_greeting(generation.greeting(), id, call, out);
            }
            message => message.write_line(out),
        }
    }

    fn on_envelope(
        &mut self,
        opened: Opened,
        out: &mut dyn Sink,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        if let GenerationState::Unknown(Some(probe)) = &mut self.state
            && Greeting::of_method(&opened.call.method.name()).is_some()
        {
            // Our own greeting comes back: this is how a proxy says which generation it is of.
            probe.hint = Some(opened.generation);
            if let Some(id) = opened.id {
                let why = "this greeting is not of the generation of this envelope";
                let outcome = Outcome::error(code::METHOD_NOT_FOUND, why);
                Message::response(id, outcome).write_line(out);
            }
            return Ok(None);
        }
        if self.successor == ScpSuccessor::Given
            && self.accepted.is_some()
            && opened.call.is(p0::SCP_PROXY)
        {
            // It passes on what it does not know: so it is no SCP proxy.
            self.no_scp = Some(opened.generation);
            if let Some(id) = opened.id {
                let outcome = Outcome::error(code::METHOD_NOT_FOUND, "only SCP proxies know this");
                Message::response(id, outcome).write_line(out);
            }
            return Ok(None);
        }
        let mut opened = opened.check()?;
        self.check_peer(&mut opened)?;
        match &mut self.state {
            // Only its own `initialize` shows that it has understood; anything else that it sends
            // meanwhile just tells how it spells.
            GenerationState::Unknown(Some(probe))
                if !(opened.id.is_some() && opened.call.is(INITIALIZE)) =>
            {
                probe.hint = Some(opened.generation);
            }
            _ => self.adopt(opened.generation, out),
        }
        if let Some(id) = &opened.id
            && opened.call.is(INITIALIZE)
        {
            self.forwarded = Some(id.detached());
            // Only a component that was offered something has it to pass on.
            let greeted = self.greeted.last();
            let greeting = greeted.map(|it| it.greeting).or_else(|| self.understood_greeting());
            let asked = greeted.map_or(Json::EMPTY, |it| it.asked.clone());
            opened.call.params = opened.call.params.map(|params| match greeting {
                Some(Greeting::Proxy) => restored(&params, &asked, &[offer::MCP_OFFER]),
                Some(Greeting::Capability) => offer::take_offer(&params, &asked),
                Some(Greeting::Underscore) | None => params,
            });
        }
        Ok(Some((Side::Agent, opened.into_message())))
    }

    /// An envelope may name whom it is for. The chain is a line: whoever follows is reached through the
    /// successor.
    fn check_peer(&self, opened: &mut Opened) -> Result<(), Rejection> {
        let Some(names) = &self.peers else { return Ok(()) };
        let Some(peer) = opened.take_peer().filter(|peer| !peer.is_null()) else { return Ok(()) };
        if peer.text().is_some_and(|peer| names.iter().any(|name| *name == peer)) {
            return Ok(());
        }
        let text = format!(
            "there is no peer {} behind component '{}'. The names are: {}. Without `peer`, a \
             message goes to the successor",
            shortened(peer.as_str()),
            self.component,
            names.join(", "),
        );
        let id = opened.id.clone();
        let mut rejection = Rejection::refusal(id, code::INVALID_PARAMS, "an unknown peer");
        if let Some(reply) = &mut rejection.reply
            && let Message::Response { outcome, .. } = &mut **reply
        {
            *outcome = Outcome::error(code::INVALID_PARAMS, &text);
        }
        Err(rejection)
    }

    fn on_answer(
        &mut self,
        id: Id,
        outcome: Outcome,
        extras: Option<Box<[u8]>>,
        out: &mut dyn Sink,
    ) -> Option<(Side, Message)> {
        if self.successor == ScpSuccessor::Given && id == Id::string(SCP_ID) {
            return self.on_successor(outcome, out);
        }
        if let Some(index) = self.withdrawn.iter().position(|withdrawn| *withdrawn == id) {
            self.withdrawn.remove(index);
            return None;
        }
        let Some(index) = self.greeted.iter().position(|it| it.id == id) else {
            return Some((Side::Editor, Message::Response { id, outcome, extras }));
        };
        let outcome = match &self.state {
            GenerationState::Unknown(Some(probe)) if probe.sent == id => {
                self.on_probed(&id, outcome, out)?
            }
            _ => self.on_accepted(self.greeted[index].greeting, outcome),
        };
        self.greeted.remove(index);
        let text = id.text().unwrap_or_default();
        let id = text.split_once('~').map_or_else(|| id.clone(), |(id, _)| Id::string(id));
        Some((Side::Editor, Message::Response { id, outcome, extras }))
    }

    /// An answer to a greeting, from a component whose generation is known.
    fn on_accepted(&mut self, greeting: Greeting, outcome: Outcome) -> Outcome {
        let Some(generation) = self.generation() else { return outcome };
        let Outcome::Result(result) = outcome else { return outcome };
        let base = self.successor_result.as_ref().map(|(result, _)| result);
        let mut result = match self.successor_result {
            Some((ref base, Some(word))) => restored(&result, base, &[word]),
            _ => result,
        };
        match greeting {
            Greeting::Proxy => {
                let nothing = Json::EMPTY;
                result = restored(&result, base.unwrap_or(&nothing), &[offer::MCP_OFFER]);
            }
            Greeting::Underscore => {}
            // The two oldest documents contradict themselves on whether it has to.
            Greeting::Capability if generation.table().must_accept && !offer::accepted(&result) => {
                self.guess_failed |= self.first.is_guessing();
                let text = format!(
                    "component '{}' is not a proxy: it did not accept the proxy capability in its \
                     answer to initialize",
                    self.component,
                );
                return Outcome::error(code::INTERNAL_ERROR, &text);
            }
            Greeting::Capability => result = offer::take_acceptance(&result, base),
        }
        Outcome::Result(result)
    }

    /// A component that accepted its role without initialising a successor may be one that waits to
    /// be told its successor.
    fn may_be_scp(&self) -> bool {
        self.successor == ScpSuccessor::None && self.pin.is_none_or(|pin| pin == Generation::P0)
    }

    /// The component has answered `_scp/proxy`, or has not been asked at all.
    fn on_successor(&mut self, outcome: Outcome, out: &mut dyn Sink) -> Option<(Side, Message)> {
        match outcome {
            Outcome::Result(successor_result) => {
                // When it answered `initialize` it did not know its own chain.
                if let Some((_, result)) = &mut self.accepted {
                    *result = guards::copy_flag(&successor_result, result);
                }
                self.adopt(Generation::P0, out);
                // It may initialise its successor before it answers this, or after.
                if !self.successor_initialized {
                    return None;
                }
            }
            // It has never heard of it, so it is of the generations that have envelopes.
            Outcome::Error(_) => self.adopt(self.no_scp.unwrap_or(Generation::P3), out),
        }
        self.release(out)
    }

    /// Lets the answer to `initialize` travel on that waited for a successor.
    fn release(&mut self, out: &mut dyn Sink) -> Option<(Side, Message)> {
        let (id, result) = self.accepted.take()?;
        self.on_answer(id, Outcome::Result(result), None, out)
    }

    pub fn decode(
        &mut self,
        line: &Bytes,
        out: &mut dyn Sink,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        let mut parts = Parts::default();
        parts.split(line)?;
        let opened = envelope::open(&parts, line);
        if let GenerationState::Unknown(Some(probe)) = &mut self.state {
            // A guess is wrong until something speaks for it: a log message, for example, does not.
            probe.heard |= !probe.guess || opened.is_some() || probe.is_answered_by(&parts, line);
            if probe.restart {
                return Ok(None);
            }
        }
        if let Some(opened) = opened {
            return self.on_envelope(opened?, out);
        }
        match parts.message(line)? {
            Message::Response { id, outcome, extras } => {
                Ok(self.on_answer(id, outcome, extras, out))
            }
            Message::Request { id, call } if Greeting::of_method(&call.method.name()).is_some() => {
                Err(Rejection::refusal(Some(id), code::INVALID_REQUEST, NOT_THE_CONDUCTOR))
            }
            Message::Notification(call) if Greeting::of_method(&call.method.name()).is_some() => {
                Err(Rejection::refusal(None, code::INVALID_REQUEST, NOT_THE_CONDUCTOR))
            }
            message => Ok(Some((Side::Editor, message))),
        }
    }

    pub fn encode(&mut self, toward: Side, message: &Message, out: &mut dyn Sink) {
        let (id, call) = match message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { .. } => return self.write_answer(message, out),
        };
        let greets = toward == Side::Agent && call.is(INITIALIZE);
        match &mut self.state {
            &mut GenerationState::Known(generation) => match id {
                Some(id) if greets => {
                    self.greet(generation.greeting(), id, call, out);
                }
                _ if toward == Side::Agent => message.write_line(out),
                _ => envelope::write(generation, generation.table().receives, id, call, out),
            },
            GenerationState::Unknown(None) => match id {
                Some(id) if greets => self.begin(id, call, out),
                _ => self.write_assuming(toward, message, out),
            },
            GenerationState::Unknown(Some(_)) if self.pin.is_some() => match id {
                Some(id) if greets => {
                    self.greet(self.first_greeting(), id, call, out);
                }
                _ => self.write_assuming(toward, message, out),
            },
            // The greeting is not cancelled: whoever it is for cannot even be told its id.
            GenerationState::Unknown(Some(_)) if id.is_none() && call.is(CANCEL_REQUEST) => {}
            GenerationState::Unknown(Some(probe)) => {
                // Copied, so that a short message does not keep the whole of what was read alive.
                probe.held_bytes += call.size() + HELD;
                probe.held.push((toward, Message::call(id.cloned(), call.detached())));
            }
        }
    }

    /// How many bytes wait here until the generation is known.
    pub fn held_bytes(&self) -> usize {
        match &self.state {
            GenerationState::Unknown(Some(probe)) => probe.held_bytes,
            GenerationState::Unknown(None) | GenerationState::Known(_) => 0,
        }
    }

    /// The greeting that the component has understood, once that is known.
    pub fn understood_greeting(&self) -> Option<Greeting> {
        self.generation().map(Generation::greeting)
    }

    /// The component is an SCP proxy, which starts its successor itself: it waits to be told which.
    pub fn needs_successor(&self) -> bool {
        self.successor == ScpSuccessor::Wanted
    }

    /// Tells it: `servers` are the params of `_scp/proxy`. Without them it is treated as if it had
    /// not asked.
    pub fn set_successor(
        &mut self,
        servers: Option<Json>,
        out: &mut dyn Sink,
    ) -> Option<(Side, Message)> {
        self.successor = ScpSuccessor::Given;
        match servers {
            Some(servers) => {
                let call = Call::new(p0::SCP_PROXY, servers);
                Message::Request { id: Id::string(SCP_ID), call }.write_line(out);
                None
            }
            None => self.on_successor(Outcome::Error(Json::NULL), out),
        }
    }

    /// The successor of an SCP proxy has been initialised: the proxy's own answer, which waited for
    /// that, may travel on.
    pub fn on_successor_initialized(&mut self, out: &mut dyn Sink) -> Option<(Side, Message)> {
        self.successor_initialized = true;
        self.generation().filter(|it| *it == Generation::P0)?;
        self.release(out)
    }
}
