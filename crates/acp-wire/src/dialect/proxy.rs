//! The link to a proxy of any generation.
//!
//! The generation is detected in the handshake. A proxy that does not know the greeting forwards it to its
//! successor, as it does with any unknown request, in an envelope of *its own* generation. That envelope
//! shows the generation. The conductor refuses the forwarded greeting and then sends the right one. A
//! component that refuses a greeting itself is sent the next older one. A component that exits on a
//! greeting is restarted and tried with the next older one. The router and the other components see none of
//! this. See `probe`.
//!
//! Until the generation is known, messages for the component are held. Answers are not held, because the
//! component may need them to continue.

use bytes::Bytes;

use super::envelope::{self, OpenedEnvelope};
use super::generation::{Generation, Greeting};
use super::restore::{KeyPath, restored};
use super::{NOT_THE_CONDUCTOR, Rejection, mcp_capability, offer, p0};
use crate::acp::{self, CANCEL_REQUEST, INITIALIZE};
use crate::error_kind::ErrorKind;
use crate::guards;
use crate::json::Json;
use crate::message::{Call, Id, Message, MessageParts, Outcome, Side, code};
use crate::sink::Sink;

mod probe;

use probe::{FirstGreeting, Probe, shortened};

/// The dialect of the link to a proxy.
#[derive(Debug)]
pub struct Proxy {
    /// The name of the component, for errors.
    component: String,
    /// The peer names that the component may use. `None` if they are not known here and any name is
    /// forwarded.
    peers: Option<Vec<String>>,
    /// The generation set by the user. No other one is tried.
    pinned: Option<Generation>,
    /// The greeting with which a probe starts.
    first: FirstGreeting,
    /// Whether the first greeting was a guess and the component did not understand it.
    guess_failed: bool,
    state: GenerationState,
    /// The `initialize` requests that the component has not answered.
    pending_greetings: Vec<PendingGreeting>,
    /// The ids of abandoned greetings. Their answers are dropped.
    abandoned_ids: Vec<Id>,
    /// The id of the `initialize` that the component has sent to its successor and that is not answered.
    forwarded_initialize: Option<Id>,
    /// The successor's result of `initialize`, and the path of the MCP capability if it was added for this
    /// component (see `mcp_capability`).
    successor_result: Option<(Json, Option<KeyPath>)>,
    /// The answer to `initialize` of a component that may be an SCP proxy. It is forwarded once the
    /// component has its successor.
    held_answer: Option<(Id, Json)>,
    successor: ScpSuccessor,
    /// Whether the successor that an SCP proxy has started is initialized.
    successor_initialized: bool,
    /// The generation of the envelope in which the component has forwarded `_scp/proxy`, which shows that
    /// it does not know SCP.
    scp_proxy_forwarded_in: Option<Generation>,
}

/// A greeting that the component has not answered.
#[derive(Debug)]
struct PendingGreeting {
    /// The id on this link.
    id: Id,
    /// The params before anything was added for this component.
    original_params: Json,
    /// The form of the greeting. The generation of a component's envelopes may differ from that of the greeting
    /// that it understands.
    greeting: Greeting,
}

/// The state of an SCP proxy's successor.
#[derive(Debug, PartialEq)]
enum ScpSuccessor {
    /// The component has not accepted the role of an SCP proxy.
    NotNeeded,
    /// The component waits for `_scp/proxy`.
    Needed,
    /// `_scp/proxy` was sent.
    Sent,
}

/// Whether the generation of the component is known.
#[derive(Debug)]
enum GenerationState {
    /// No greeting was sent, or it is not known whether the component understands it.
    Unknown(Option<Box<Probe>>),
    Known(Generation),
}

/// The cost of a held message in addition to its text, in bytes.
const MESSAGE_OVERHEAD: usize = 512;

/// The id of the conductor's `_scp/proxy` request.
const SCP_ID: &str = "scp";

impl Proxy {
    /// A component of unknown generation.
    pub fn unknown(component: &str) -> Proxy {
        Proxy {
            component: component.to_owned(),
            peers: Some(Vec::new()),
            pinned: None,
            first: FirstGreeting::Newest,
            guess_failed: false,
            state: GenerationState::Unknown(None),
            pending_greetings: Vec::new(),
            abandoned_ids: Vec::new(),
            forwarded_initialize: None,
            successor_result: None,
            held_answer: None,
            successor: ScpSuccessor::NotNeeded,
            successor_initialized: false,
            scp_proxy_forwarded_in: None,
        }
    }

    /// A component of this generation. No other one is tried.
    pub fn pinned(component: &str, generation: Generation) -> Proxy {
        Proxy { pinned: Some(generation), ..Proxy::unknown(component) }
    }

    /// A component that understood this greeting the last time. If it does not understand it now, its
    /// generation is detected.
    pub fn remembered(component: &str, greeting: Greeting) -> Proxy {
        Proxy { first: FirstGreeting::Greeting(greeting), ..Proxy::unknown(component) }
    }

    /// A component that had this generation before it was restarted. If it does not understand the same
    /// greeting now, its generation is detected.
    pub fn restarted(component: &str, generation: Generation) -> Proxy {
        Proxy { first: FirstGreeting::Generation(generation), ..Proxy::unknown(component) }
    }

    /// A component that has exited on each of these greetings.
    pub fn after_failures(component: &str, failed: Vec<Greeting>) -> Proxy {
        Proxy { first: FirstGreeting::After(failed), ..Proxy::unknown(component) }
    }

    /// Sets the names that the component may use for its successor (`peer` in an envelope). With `None` any
    /// name is forwarded to the outer conductor, which knows its own names.
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

    /// Sends a greeting that the component must answer: the first one, the next one of a probe, or a later
    /// `initialize`.
    fn greet(&mut self, greeting: Greeting, id: &Id, call: &Call, out: &mut dyn Sink) {
        let original_params = self.write_greeting(greeting, id, call, out).detached();
        self.pending_greetings.push(PendingGreeting { id: id.clone(), original_params, greeting });
    }

    /// Appends a greeting. Returns the params before anything was added.
    fn write_greeting(&self, greeting: Greeting, id: &Id, call: &Call, out: &mut dyn Sink) -> Json {
        let generation = self.generation().or(self.pinned).or(self.guessed_generation());
        let mut original_params = call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
        let v1_only = generation.map_or(greeting != Greeting::Proxy, Generation::v1_only);
        if v1_only {
            original_params = acp::downgraded_to_v1(&original_params);
        }
        let params = match greeting {
            Greeting::Proxy => original_params.with_at(offer::MCP_OFFER, Some(&Json::TRUE)),
            Greeting::Underscore => original_params.clone(),
            // An SCP proxy accepts its role without an offer. The version only shows that the conductor
            // knows SCP.
            Greeting::Capability => offer::add_offer(&original_params, generation),
        };
        let call = Call { method: greeting.method().into(), params: Some(params), ..call.clone() };
        Message::Request { id: id.clone(), call }.write_line(out);
        original_params
    }

    /// Sets the generation and sends the held messages.
    fn set_generation(&mut self, generation: Generation, out: &mut dyn Sink) {
        // Generations with the same envelopes are distinguished by the component's previous generation.
        let guess =
            self.guessed_generation().filter(|guess| guess.has_same_envelopes_as(generation));
        let generation = self.pinned.or(guess).unwrap_or(generation);
        match std::mem::replace(&mut self.state, GenerationState::Known(generation)) {
            GenerationState::Unknown(Some(probe)) => {
                for (toward, message) in probe.held {
                    self.encode(toward, &message, out);
                }
            }
            GenerationState::Unknown(None) | GenerationState::Known(_) => {}
        }
    }

    /// Appends an answer. In the successor's answer to `initialize`, the MCP capability is translated for
    /// the component.
    fn write_answer(&mut self, message: &Message, out: &mut dyn Sink) {
        let Message::Response { id, outcome, extras } = message else { return };
        let is_initialize_answer =
            self.forwarded_initialize.take_if(|forwarded| forwarded == id).is_some();
        let Outcome::Result(result) = outcome else { return message.write_line(out) };
        let Some(generation) = self.generation().filter(|_| is_initialize_answer) else {
            return message.write_line(out);
        };
        let missing = mcp_capability::missing_path(result, generation);
        self.successor_result = Some((result.detached(), missing.as_ref().map(|(path, _)| *path)));
        let Some((path, yes)) = missing else { return message.write_line(out) };
        let outcome = Outcome::Result(result.with_at(path, Some(&yes)));
        Message::Response { id: id.clone(), outcome, extras: extras.clone() }.write_line(out);
    }

    /// Appends a message for a component whose generation is not known, in the pinned or the newest generation.
    fn write_in_assumed_generation(&self, toward: Side, message: &Message, out: &mut dyn Sink) {
        let generation = self.pinned.unwrap_or(Generation::P5);
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

    /// Handles an envelope: a forwarded greeting or `_scp/proxy`, or a message for the successor.
    fn on_envelope(
        &mut self,
        opened: OpenedEnvelope,
        out: &mut dyn Sink,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        if let GenerationState::Unknown(Some(probe)) = &mut self.state
            && Greeting::of_method(&opened.call.method.name()).is_some()
        {
            // The component has forwarded the greeting. The envelope shows its generation.
            probe.envelope_hint = Some(opened.generation);
            if let Some(id) = opened.id {
                let why = format!(
                    "component '{}': the greeting and the envelope are of different generations",
                    self.component,
                );
                let outcome = ErrorKind::BadMessage.outcome(code::METHOD_NOT_FOUND, why);
                Message::response(id, outcome).write_line(out);
            }
            return Ok(None);
        }
        if self.successor == ScpSuccessor::Sent
            && self.held_answer.is_some()
            && opened.call.is(p0::SCP_PROXY)
        {
            // The component has forwarded an unknown request, so it is not an SCP proxy.
            self.scp_proxy_forwarded_in = Some(opened.generation);
            if let Some(id) = opened.id {
                let why = format!(
                    "component '{}': this request is only for SCP proxies",
                    self.component,
                );
                let outcome = ErrorKind::BadMessage.outcome(code::METHOD_NOT_FOUND, why);
                Message::response(id, outcome).write_line(out);
            }
            return Ok(None);
        }
        let mut opened = opened.check()?;
        self.check_peer(&mut opened)?;
        match &mut self.state {
            // Only the component's own `initialize` shows that it has understood the greeting. Other
            // messages only show the generation of its envelopes.
            GenerationState::Unknown(Some(probe))
                if !(opened.id.is_some() && opened.call.is(INITIALIZE)) =>
            {
                probe.envelope_hint = Some(opened.generation);
            }
            _ => self.set_generation(opened.generation, out),
        }
        if let Some(id) = &opened.id
            && opened.call.is(INITIALIZE)
        {
            self.forwarded_initialize = Some(id.detached());
            // The offer has to be removed only if it was made.
            let last_greeting = self.pending_greetings.last();
            let greeting =
                last_greeting.map(|it| it.greeting).or_else(|| self.understood_greeting());
            let original_params =
                last_greeting.map_or(Json::EMPTY_OBJECT, |it| it.original_params.clone());
            opened.call.params = opened.call.params.map(|params| match greeting {
                Some(Greeting::Proxy) => restored(&params, &original_params, &[offer::MCP_OFFER]),
                Some(Greeting::Capability) => offer::restore_params(&params, &original_params),
                Some(Greeting::Underscore) | None => params,
            });
        }
        Ok(Some((Side::Agent, opened.into_message())))
    }

    /// Checks the peer name of an envelope. The chain is linear, so every peer behind the component is
    /// reached through the successor.
    fn check_peer(&self, opened: &mut OpenedEnvelope) -> Result<(), Rejection> {
        let Some(names) = &self.peers else { return Ok(()) };
        let Some(peer) = opened.take_peer().filter(|peer| !peer.is_null()) else { return Ok(()) };
        if peer.text().is_some_and(|peer| names.iter().any(|name| *name == peer)) {
            return Ok(());
        }
        let text = format!(
            "no peer {} follows component '{}'. Known names: {}. Omit `peer` to send the message to \
             the successor",
            shortened(peer.as_str()),
            self.component,
            names.join(", "),
        );
        let id = opened.id.clone();
        let mut rejection = Rejection::refusal(id, code::INVALID_PARAMS, "the peer is not known");
        if let Some(reply) = &mut rejection.reply
            && let Message::Response { outcome, .. } = &mut **reply
        {
            *outcome = ErrorKind::BadMessage.outcome(code::INVALID_PARAMS, &text);
        }
        Err(rejection)
    }

    /// Handles an answer. An answer to a greeting may continue the probe.
    fn on_answer(
        &mut self,
        id: Id,
        outcome: Outcome,
        extras: Option<Box<[u8]>>,
        out: &mut dyn Sink,
    ) -> Option<(Side, Message)> {
        if self.successor == ScpSuccessor::Sent && id == Id::string(SCP_ID) {
            return self.on_scp_answer(outcome, out);
        }
        if let Some(index) = self.abandoned_ids.iter().position(|abandoned| *abandoned == id) {
            self.abandoned_ids.remove(index);
            return None;
        }
        let Some(index) = self.pending_greetings.iter().position(|it| it.id == id) else {
            return Some((Side::Editor, Message::Response { id, outcome, extras }));
        };
        let outcome = match &self.state {
            GenerationState::Unknown(Some(probe)) if probe.attempt_id == id => {
                self.on_probed(&id, outcome, out)?
            }
            _ => self.on_greeting_answer(self.pending_greetings[index].greeting, outcome),
        };
        self.pending_greetings.remove(index);
        let text = id.text().unwrap_or_default();
        let id = text.split_once('~').map_or_else(|| id.clone(), |(id, _)| Id::string(id));
        Some((Side::Editor, Message::Response { id, outcome, extras }))
    }

    /// Handles the answer to a greeting from a component whose generation is known. Removes from the result what
    /// belongs to the link only.
    fn on_greeting_answer(&mut self, greeting: Greeting, outcome: Outcome) -> Outcome {
        let Some(generation) = self.generation() else { return outcome };
        let Outcome::Result(result) = outcome else { return outcome };
        let base = self.successor_result.as_ref().map(|(result, _)| result);
        let mut result = match self.successor_result {
            Some((ref base, Some(path))) => restored(&result, base, &[path]),
            _ => result,
        };
        match greeting {
            Greeting::Proxy => {
                let nothing = Json::EMPTY_OBJECT;
                result = restored(&result, base.unwrap_or(&nothing), &[offer::MCP_OFFER]);
            }
            Greeting::Underscore => {}
            // The documents of the two oldest generations contradict themselves on whether acceptance is
            // required.
            Greeting::Capability if generation.table().must_accept && !offer::accepted(&result) => {
                self.guess_failed |= self.first.is_guessing();
                let text = format!(
                    "component '{}' is not a proxy: it did not accept the proxy capability in its \
                     answer to initialize",
                    self.component,
                );
                return ErrorKind::NotAProxy.outcome(code::INTERNAL_ERROR, &text);
            }
            Greeting::Capability => result = offer::without_acceptance(&result, base),
        }
        Outcome::Result(result)
    }

    /// Whether a component that accepted the role without sending `initialize` to a successor may be an SCP
    /// proxy, which waits for `_scp/proxy`.
    fn may_be_scp(&self) -> bool {
        self.successor == ScpSuccessor::NotNeeded
            && self.pinned.is_none_or(|pin| pin == Generation::P0)
    }

    /// Handles the answer to `_scp/proxy`. The outcome is also an error if the request was not sent.
    fn on_scp_answer(&mut self, outcome: Outcome, out: &mut dyn Sink) -> Option<(Side, Message)> {
        match outcome {
            Outcome::Result(successor_result) => {
                // The component did not know its own chain when it answered `initialize`.
                if let Some((_, result)) = &mut self.held_answer {
                    *result = guards::copy_flag(&successor_result, result);
                }
                self.set_generation(Generation::P0, out);
                // The component may initialize its successor before or after this answer.
                if !self.successor_initialized {
                    return None;
                }
            }
            // The component does not know `_scp/proxy`, so its generation has envelopes.
            Outcome::Error(_) => {
                self.set_generation(self.scp_proxy_forwarded_in.unwrap_or(Generation::P3), out)
            }
        }
        self.release_held_answer(out)
    }

    /// Forwards the answer to `initialize` that was held until the component had its successor.
    fn release_held_answer(&mut self, out: &mut dyn Sink) -> Option<(Side, Message)> {
        let (id, result) = self.held_answer.take()?;
        self.on_answer(id, Outcome::Result(result), None, out)
    }

    /// Decodes a line; see [`Dialect::decode`](super::Dialect::decode).
    pub fn decode(
        &mut self,
        line: &Bytes,
        out: &mut dyn Sink,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        let mut parts = MessageParts::default();
        parts.split(line)?;
        let opened = envelope::open(&parts, line);
        if let GenerationState::Unknown(Some(probe)) = &mut self.state {
            // A guess counts as failed until the component answers it or sends an envelope. A log
            // notification, for example, does not confirm it.
            probe.has_responded |=
                !probe.is_guess || opened.is_some() || probe.is_answered_by(&parts, line);
            if probe.needs_restart {
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

    /// Appends the line for a message; see [`Dialect::encode`](super::Dialect::encode).
    pub fn encode(&mut self, toward: Side, message: &Message, out: &mut dyn Sink) {
        let (id, call) = match message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { .. } => return self.write_answer(message, out),
        };
        let is_initialize = toward == Side::Agent && call.is(INITIALIZE);
        match &mut self.state {
            &mut GenerationState::Known(generation) => match id {
                Some(id) if is_initialize => {
                    self.greet(generation.greeting(), id, call, out);
                }
                _ if toward == Side::Agent => message.write_line(out),
                _ => envelope::write(generation, generation.table().receives, id, call, out),
            },
            GenerationState::Unknown(None) => match id {
                Some(id) if is_initialize => self.start_probe(id, call, out),
                _ => self.write_in_assumed_generation(toward, message, out),
            },
            GenerationState::Unknown(Some(_)) if self.pinned.is_some() => match id {
                Some(id) if is_initialize => {
                    self.greet(self.first_greeting(), id, call, out);
                }
                _ => self.write_in_assumed_generation(toward, message, out),
            },
            // A greeting is not cancelled, because its id on this link may be a different one.
            GenerationState::Unknown(Some(_)) if id.is_none() && call.is(CANCEL_REQUEST) => {}
            GenerationState::Unknown(Some(probe)) => {
                // The message is copied so that it does not keep the whole read buffer in memory.
                probe.held_bytes += call.size() + MESSAGE_OVERHEAD;
                probe.held.push((toward, Message::call(id.cloned(), call.detached())));
            }
        }
    }

    /// How many bytes of messages are held until the generation is known.
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

    /// Whether the component is an SCP proxy that waits for `_scp/proxy`.
    pub fn needs_successor(&self) -> bool {
        self.successor == ScpSuccessor::Needed
    }

    /// Sends `_scp/proxy` with these params. With `None`, the component is treated as one that is not an
    /// SCP proxy.
    pub fn set_successor(
        &mut self,
        servers: Option<Json>,
        out: &mut dyn Sink,
    ) -> Option<(Side, Message)> {
        self.successor = ScpSuccessor::Sent;
        match servers {
            Some(servers) => {
                let call = Call::new(p0::SCP_PROXY, servers);
                Message::Request { id: Id::string(SCP_ID), call }.write_line(out);
                None
            }
            None => self.on_scp_answer(Outcome::Error(Json::NULL), out),
        }
    }

    /// Records that the successor of an SCP proxy is initialized. Returns the proxy's answer to
    /// `initialize`, which was held until then.
    pub fn on_successor_initialized(&mut self, out: &mut dyn Sink) -> Option<(Side, Message)> {
        self.successor_initialized = true;
        self.generation().filter(|it| *it == Generation::P0)?;
        self.release_held_answer(out)
    }
}
