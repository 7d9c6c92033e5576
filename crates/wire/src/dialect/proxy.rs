//! A proxy of ours, of whatever generation.
//!
//! Which one it is, nobody has to say. A proxy that does not know the greeting it gets does what it
//! does with anything it does not know: it passes it on to its successor, in an envelope of *its*
//! generation. That envelope is the answer. It is refused, and then the right greeting is sent. A
//! component that refuses a greeting by itself is sent the next older one; one that dies of it is
//! started again and begun with the next older one. Nothing of this is seen by anybody else.
//!
//! What is to be sent meanwhile waits, all but answers: the component may need them to go on.

use bytes::Bytes;

use super::envelope::{self, Opened};
use super::generation::{Generation, Greeting};
use super::{Dialect, NOT_THE_CONDUCTOR, Rejection, offer, p0, p3, p4, p5, words};
use crate::acp::{self, CANCEL_REQUEST, INITIALIZE};
use crate::guards;
use crate::json::Json;
use crate::message::{Call, Id, Message, Outcome, Parts, Side, code};

/// The link to a proxy.
#[derive(Debug)]
pub struct Proxy {
    /// What the component is called in errors.
    component: String,
    /// Set by the user: no other generation is tried.
    pin: Option<&'static Generation>,
    /// With which greeting to begin.
    first: Greeting,
    state: State,
    /// The `initialize`s that the component has yet to answer.
    greeted: Vec<Greeted>,
    /// Ids under which a greeting went out that was then tried otherwise: nobody waits for them.
    withdrawn: Vec<Id>,
    /// The `initialize` that the component has sent to its successor and waits for.
    forwarded: Option<Id>,
    /// The word that was put into its successor's answer for it (see `words`).
    told: Option<words::Place>,
    /// The answer to `initialize` of a component that may be an SCP proxy; it travels on when the
    /// component has its successor.
    accepted: Option<(Id, Json)>,
    successor: Successor,
    /// The successor that an SCP proxy has started has been initialised.
    successor_stands: bool,
    /// The generation of the envelope in which it passed `_scp/proxy` on, which it does not know.
    no_scp: Option<&'static Generation>,
}

/// A greeting that the component has yet to answer.
#[derive(Debug)]
struct Greeted {
    /// On this link.
    id: Id,
    /// The params as they were before we changed them.
    asked: Option<Json>,
    /// How it was spelt. The envelopes of a component may be of another generation than the greeting
    /// that it understands.
    greeting: Greeting,
}

/// How far an SCP proxy is with its successor.
#[derive(Debug, PartialEq)]
enum Successor {
    /// Nobody has asked.
    None,
    Wanted,
    /// We have sent `_scp/proxy`.
    Given,
}

#[derive(Debug)]
enum State {
    /// Not greeted, or greeted and not yet understood.
    Unknown(Option<Box<Probe>>),
    Known(&'static Generation),
}

/// A greeting in search of its spelling.
#[derive(Debug)]
struct Probe {
    id: Id,
    call: Call,
    greeting: Greeting,
    /// Under which id the present attempt went out.
    sent: Id,
    /// The component has said something since.
    heard: bool,
    /// The envelope in which it passed the greeting on tells the generation.
    hint: Option<&'static Generation>,
    tried: Vec<(Greeting, String)>,
    held: Vec<(Side, Message)>,
    held_bytes: usize,
}

impl Probe {
    /// What was tried, and what came of it.
    fn story(&self) -> String {
        let tried = self.tried.iter().map(|(greeting, answer)| match greeting {
            Greeting::Capability => format!("initialize with the proxy capability: {answer}"),
            greeting => format!("{}: {answer}", greeting.method()),
        });
        tried.collect::<Vec<_>>().join("; ")
    }
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
            pin: None,
            first: Greeting::Proxy,
            state: State::Unknown(None),
            greeted: Vec::new(),
            withdrawn: Vec::new(),
            forwarded: None,
            told: None,
            accepted: None,
            successor: Successor::None,
            successor_stands: false,
            no_scp: None,
        }
    }

    /// A component that is known to be of this generation.
    pub fn pinned(component: &str, generation: &'static Generation) -> Proxy {
        let pin = Some(generation);
        Proxy { pin, first: generation.greeting, ..Proxy::unknown(component) }
    }

    /// A component that understood this greeting the last time.
    pub fn remembered(component: &str, greeting: Greeting) -> Proxy {
        Proxy { first: greeting, ..Proxy::unknown(component) }
    }

    /// The generation, once it is known.
    pub fn generation(&self) -> Option<&'static Generation> {
        match self.state {
            State::Known(generation) => Some(generation),
            State::Unknown(_) => None,
        }
    }

    /// Sends a greeting that the component is to answer: the first one, the next one, or another one to
    /// a component we know.
    fn greet(&mut self, greeting: Greeting, id: &Id, call: &Call, out: &mut Vec<u8>) {
        self.greeted.push(Greeted { id: id.clone(), asked: call.params.clone(), greeting });
        self.write_greeting(greeting, id, call, out);
    }

    fn write_greeting(&self, greeting: Greeting, id: &Id, call: &Call, out: &mut Vec<u8>) {
        let generation = self.generation().or(self.pin);
        let mut params = call.params.clone().unwrap_or(Json::EMPTY);
        let v1_only = generation.map_or(greeting != Greeting::Proxy, Generation::v1_only);
        if v1_only {
            params = acp::lowered_to_v1(&params);
        }
        if greeting == Greeting::Capability {
            // An SCP proxy finds its role by itself: it is only told that we know of SCP.
            params = offer::put(&params, generation);
        }
        let call = Call { method: greeting.method().into(), params: Some(params), ..call.clone() };
        Message::Request { id: id.clone(), call }.write_line(out);
    }

    fn begin(&mut self, id: &Id, call: &Call, out: &mut Vec<u8>) {
        self.withdrawn.clear();
        self.greet(self.first, id, call, out);
        self.state = State::Unknown(Some(Box::new(Probe {
            id: id.clone(),
            call: call.detached(),
            greeting: self.first,
            sent: id.clone(),
            heard: false,
            hint: None,
            tried: Vec::new(),
            held: Vec::new(),
            held_bytes: 0,
        })));
    }

    /// Sends the next greeting to try; says whether there is one.
    fn try_next(&mut self, out: &mut Vec<u8>) -> bool {
        let State::Unknown(Some(probe)) = &mut self.state else { return false };
        let untried = |it: &Greeting| probe.tried.iter().all(|(tried, _)| tried != it);
        let hinted = probe.hint.take().map(|it| it.greeting);
        let next = hinted.filter(untried).or_else(|| Greeting::ALL.into_iter().find(untried));
        let Some(greeting) = next.filter(|_| self.pin.is_none()) else { return false };
        self.greeted.retain(|it| it.id != probe.sent);
        self.withdrawn.push(probe.sent.clone());
        probe.greeting = greeting;
        probe.heard = false;
        probe.sent =
            Id::string(&format!("{}~{}", probe.id.text().unwrap_or_default(), probe.tried.len()));
        let (sent, call) = (probe.sent.clone(), probe.call.clone());
        self.greet(greeting, &sent, &call, out);
        true
    }

    /// From now on the component's generation is known: what waited for that is sent.
    fn adopt(&mut self, generation: &'static Generation, out: &mut Vec<u8>) {
        let generation = self.pin.unwrap_or(generation);
        match std::mem::replace(&mut self.state, State::Known(generation)) {
            State::Unknown(Some(probe)) => {
                for (toward, message) in probe.held {
                    self.encode(toward, &message, out);
                }
            }
            State::Unknown(None) | State::Known(_) => {}
        }
    }

    /// Answers the component. If it is its successor's answer to `initialize`, the component hears of
    /// capabilities in its own words.
    fn write_answer(&mut self, message: &Message, out: &mut Vec<u8>) {
        let Message::Response { id, outcome, extras } = message else { return };
        let greeted = self.forwarded.take_if(|forwarded| forwarded == id).is_some();
        if greeted {
            // What an earlier answer lacked, this one may have said itself.
            self.told = None;
        }
        let Outcome::Result(result) = outcome else { return message.write_line(out) };
        let generation = self.generation().filter(|_| greeted);
        let Some((place, yes)) = generation.and_then(|it| words::missing(result, it)) else {
            return message.write_line(out);
        };
        self.told = Some(place);
        let outcome = Outcome::Result(result.with_at(place, Some(&yes)));
        Message::Response { id: id.clone(), outcome, extras: extras.clone() }.write_line(out);
    }

    /// No greeting was understood. What waited for that goes out as if the component were of the
    /// newest generation: it will hardly understand, but it can answer.
    fn despair(&mut self, out: &mut Vec<u8>) -> Option<Box<Probe>> {
        let State::Unknown(probe) = &mut self.state else { return None };
        let mut probe = probe.take()?;
        for (toward, message) in std::mem::take(&mut probe.held) {
            self.write_assuming(toward, &message, out);
        }
        Some(probe)
    }

    /// Writes to a component whose generation is not known yet, or not any more.
    fn write_assuming(&self, toward: Side, message: &Message, out: &mut Vec<u8>) {
        let generation = self.pin.unwrap_or(&p5::P5);
        match message {
            Message::Request { id, call } if toward == Side::Editor => {
                envelope::write(generation, generation.receives, Some(id), call, out);
            }
            Message::Notification(call) if toward == Side::Editor => {
                envelope::write(generation, generation.receives, None, call, out);
            }
            Message::Request { id, call } if call.is(INITIALIZE) => {
                self.write_greeting(generation.greeting, id, call, out);
            }
            message => message.write_line(out),
        }
    }

    fn on_envelope(
        &mut self,
        opened: Opened,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        if let State::Unknown(Some(probe)) = &mut self.state
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
        if self.successor == Successor::Given
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
        match &mut self.state {
            // Only its own `initialize` shows that it has understood; anything else that it sends
            // meanwhile just tells how it spells.
            State::Unknown(Some(probe)) if !(opened.id.is_some() && opened.call.is(INITIALIZE)) => {
                probe.hint = Some(opened.generation);
            }
            State::Known(generation) if generation.spells_like(opened.generation) => {}
            _ => self.adopt(opened.generation, out),
        }
        if let Some(id) = &opened.id
            && opened.call.is(INITIALIZE)
        {
            self.forwarded = Some(id.detached());
            // Only those who were offered something have it to pass on.
            let greeted = self.greeted.last();
            let greeting = greeted.map(|it| it.greeting).or_else(|| self.understood());
            if greeting == Some(Greeting::Capability) {
                let before = greeted.and_then(|it| it.asked.as_ref());
                opened.call.params =
                    opened.call.params.map(|params| offer::take_offer(&params, before));
            }
        }
        Ok(Some((Side::Agent, opened.into_message())))
    }

    fn on_answer(
        &mut self,
        id: Id,
        outcome: Outcome,
        extras: Option<Bytes>,
        out: &mut Vec<u8>,
    ) -> Option<(Side, Message)> {
        if self.successor == Successor::Given && id == Id::string(SCP_ID) {
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
            State::Unknown(Some(probe)) if probe.sent == id => self.on_probed(&id, outcome, out)?,
            _ => self.on_accepted(self.greeted[index].greeting, outcome),
        };
        self.greeted.remove(index);
        let text = id.text().unwrap_or_default();
        let id = text.split_once('~').map_or_else(|| id.clone(), |(id, _)| Id::string(id));
        Some((Side::Editor, Message::Response { id, outcome, extras }))
    }

    /// The answer to a greeting of which it was not known whether it would be understood.
    fn on_probed(&mut self, id: &Id, outcome: Outcome, out: &mut Vec<u8>) -> Option<Outcome> {
        let State::Unknown(Some(probe)) = &mut self.state else { return Some(outcome) };
        let greeting = probe.greeting;
        match &outcome {
            // Some agents answer anything they do not know with a result.
            Outcome::Result(result) if result.member("protocolVersion").is_some() => match greeting
            {
                // It answered without initialising its successor; the router does that for it.
                Greeting::Proxy => self.adopt(&p5::P5, out),
                Greeting::Underscore => self.adopt(&p4::P4, out),
                Greeting::Capability if offer::accepted(result) || self.pin.is_some() => {
                    if self.may_be_scp() {
                        self.accepted = Some((id.detached(), result.detached()));
                        self.successor = Successor::Wanted;
                        return None;
                    }
                    self.adopt(&p3::P3, out);
                    return Some(self.on_accepted(greeting, outcome));
                }
                Greeting::Capability => {
                    let what = "a result that does not accept the role of a proxy".to_owned();
                    probe.tried.push((greeting, what));
                    return Some(self.give_up(out));
                }
            },
            Outcome::Result(result) => {
                probe.tried.push((greeting, format!("the result {}", shortened(result.as_str()))));
                return if self.try_next(out) { None } else { Some(self.give_up(out)) };
            }
            Outcome::Error(error) => {
                let ignorance = [
                    code::METHOD_NOT_FOUND,
                    code::INVALID_REQUEST,
                    code::INVALID_PARAMS,
                    code::PARSE_ERROR,
                ];
                let ignorant = outcome.error_code().is_some_and(|code| ignorance.contains(&code));
                if !ignorant && probe.hint.is_none() {
                    // It understood well, and says no.
                    self.despair(out);
                    return Some(outcome);
                }
                probe.tried.push((greeting, format!("the error {}", shortened(error.as_str()))));
                return if self.try_next(out) { None } else { Some(self.give_up(out)) };
            }
        }
        Some(outcome)
    }

    /// No greeting is left to try. The component may be greeted again later, from the beginning.
    fn give_up(&mut self, out: &mut Vec<u8>) -> Outcome {
        let Some(probe) = self.despair(out) else { return Outcome::Error(Json::NULL) };
        let text = format!(
            "component '{}' is not a proxy. Tried {}. Every component but the last must be a proxy, \
             the last one is the agent",
            self.component,
            probe.story(),
        );
        Outcome::error(code::INTERNAL_ERROR, &text)
    }

    /// An answer to a greeting, from a component whose generation is known.
    fn on_accepted(&self, greeting: Greeting, outcome: Outcome) -> Outcome {
        let Some(generation) = self.generation() else { return outcome };
        let outcome = match (outcome, self.told) {
            (Outcome::Result(result), Some(place)) => {
                Outcome::Result(words::without(&result, place))
            }
            (outcome, _) => outcome,
        };
        match outcome {
            Outcome::Result(result) if greeting == Greeting::Capability => {
                // The two oldest documents contradict themselves on whether it has to.
                if !offer::accepted(&result) && generation.must_accept {
                    let text = format!(
                        "component '{}' is not a proxy: it did not accept the proxy capability in its \
                         answer to initialize",
                        self.component,
                    );
                    return Outcome::error(code::INTERNAL_ERROR, &text);
                }
                Outcome::Result(offer::take_acceptance(&result))
            }
            outcome => outcome,
        }
    }

    /// A component that accepted its role without initialising a successor may be one that waits to
    /// be told its successor.
    fn may_be_scp(&self) -> bool {
        self.successor == Successor::None && self.pin.is_none_or(|pin| pin.name == p0::P0.name)
    }

    /// The component has answered `_scp/proxy`, or has not been asked at all.
    fn on_successor(&mut self, outcome: Outcome, out: &mut Vec<u8>) -> Option<(Side, Message)> {
        match outcome {
            Outcome::Result(told) => {
                // When it answered `initialize` it did not know its own chain.
                if let Some((_, result)) = &mut self.accepted {
                    *result = guards::copy(&told, result);
                }
                self.adopt(&p0::P0, out);
                // It may initialise its successor before it answers this, or after.
                if !self.successor_stands {
                    return None;
                }
            }
            // It has never heard of it, so it is of the generations that have envelopes.
            Outcome::Error(_) => self.adopt(self.no_scp.unwrap_or(&p3::P3), out),
        }
        self.release(out)
    }

    /// Lets the answer to `initialize` travel on that waited for a successor.
    fn release(&mut self, out: &mut Vec<u8>) -> Option<(Side, Message)> {
        let (id, result) = self.accepted.take()?;
        self.on_answer(id, Outcome::Result(result), None, out)
    }
}

impl Dialect for Proxy {
    fn decode(
        &mut self,
        line: &Bytes,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Side, Message)>, Rejection> {
        let parts = Parts::split(line)?;
        if let State::Unknown(Some(probe)) = &mut self.state {
            probe.heard = true;
        }
        if let Some(opened) = envelope::open(&parts, line) {
            return self.on_envelope(opened?, out);
        }
        match parts.into_message(line)? {
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

    fn encode(&mut self, toward: Side, message: &Message, out: &mut Vec<u8>) {
        let (id, call) = match message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { .. } => return self.write_answer(message, out),
        };
        let greets = toward == Side::Agent && call.is(INITIALIZE);
        match &mut self.state {
            &mut State::Known(generation) => match id {
                Some(id) if greets => {
                    self.greet(generation.greeting, id, call, out);
                }
                _ if toward == Side::Agent => message.write_line(out),
                _ => envelope::write(generation, generation.receives, id, call, out),
            },
            State::Unknown(None) => match id {
                Some(id) if greets => self.begin(id, call, out),
                _ => self.write_assuming(toward, message, out),
            },
            State::Unknown(Some(_)) if self.pin.is_some() => match id {
                Some(id) if greets => {
                    self.greet(self.first, id, call, out);
                }
                _ => self.write_assuming(toward, message, out),
            },
            // The greeting is not cancelled: whoever it is for cannot even be told its id.
            State::Unknown(Some(_)) if id.is_none() && call.is(CANCEL_REQUEST) => {}
            State::Unknown(Some(probe)) => {
                // Copied, so that a short message does not keep the whole of what was read alive.
                probe.held_bytes += call.size() + HELD;
                probe.held.push((toward, Message::call(id.cloned(), call.detached())));
            }
        }
    }

    fn name(&self) -> &'static str {
        self.generation().map_or("unknown", |it| it.name)
    }

    fn backlog(&self) -> usize {
        match &self.state {
            State::Unknown(Some(probe)) => probe.held_bytes,
            State::Unknown(None) | State::Known(_) => 0,
        }
    }

    fn understood(&self) -> Option<Greeting> {
        self.generation().map(|it| it.greeting)
    }

    fn awaits_first_word(&self) -> bool {
        matches!(&self.state, State::Unknown(Some(probe)) if !probe.heard)
    }

    fn poke(&mut self, out: &mut Vec<u8>) {
        if self.awaits_first_word() {
            let params = Json::trusted(r#"{"requestId":"none"}"#);
            Message::notification(CANCEL_REQUEST, params).write_line(out);
        }
    }

    fn wants_successor(&self) -> bool {
        self.successor == Successor::Wanted
    }

    fn give_successor(
        &mut self,
        servers: Option<Json>,
        out: &mut Vec<u8>,
    ) -> Option<(Side, Message)> {
        self.successor = Successor::Given;
        match servers {
            Some(servers) => {
                let call = Call::new(p0::SCP_PROXY, servers);
                Message::Request { id: Id::string(SCP_ID), call }.write_line(out);
                None
            }
            None => self.on_successor(Outcome::Error(Json::NULL), out),
        }
    }

    fn successor_stands(&mut self, out: &mut Vec<u8>) -> Option<(Side, Message)> {
        self.successor_stands = true;
        self.generation().filter(|it| *it == &p0::P0)?;
        self.release(out)
    }

    fn tried(&self) -> Option<String> {
        match &self.state {
            State::Unknown(Some(probe)) if probe.tried.len() > 1 => Some(probe.story()),
            _ => None,
        }
    }

    fn can_begin_again(&self) -> bool {
        let State::Unknown(Some(probe)) = &self.state else { return false };
        let tried = |it: &Greeting| probe.tried.iter().any(|(tried, _)| tried == it);
        self.pin.is_none() && Greeting::ALL.iter().any(|it| *it != probe.greeting && !tried(it))
    }

    fn begin_again(&mut self, out: &mut Vec<u8>) -> bool {
        let State::Unknown(Some(probe)) = &mut self.state else { return false };
        // It had understood enough to say no: its end has another reason.
        if probe.tried.iter().any(|(tried, _)| *tried == probe.greeting) {
            return false;
        }
        probe.tried.push((probe.greeting, "it ended".to_owned()));
        self.try_next(out)
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
