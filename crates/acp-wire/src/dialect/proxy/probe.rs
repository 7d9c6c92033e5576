//! Finds the greeting that a component understands.
//!
//! The greetings are tried newest first, unless there is a guess: the greeting that the component
//! understood the last time. A guess that fails in any way is dropped, and the probe starts with the newest
//! greeting.

use bytes::Bytes;

use super::super::generation::{Generation, Greeting};
use super::super::offer;
use super::{GenerationState, Proxy, ScpSuccessor};
use crate::acp::CANCEL_REQUEST;
use crate::error_kind::ErrorKind;
use crate::json::Json;
use crate::message::{Call, Id, Message, MessageParts, Outcome, Side, code, error_object};
use crate::sink::Sink;

/// The greeting with which a probe starts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FirstGreeting {
    Newest,
    /// A guess: the greeting that the component understood the last time.
    Greeting(Greeting),
    /// A guess: the greeting of the generation that the component had before it was restarted.
    Generation(Generation),
    /// The newest greeting except these, on which the component has exited.
    After(Vec<Greeting>),
}

impl FirstGreeting {
    pub(crate) fn is_guessing(&self) -> bool {
        matches!(self, FirstGreeting::Greeting(_) | FirstGreeting::Generation(_))
    }
}

/// The state of a handshake while the component's generation is not known.
#[derive(Debug)]
pub(super) struct Probe {
    /// The `initialize` that the component is to be sent, and its id.
    id: Id,
    call: Call,
    /// The greeting of the current attempt.
    greeting: Greeting,
    /// Whether the current attempt is a guess.
    pub is_guess: bool,
    /// The id of the current attempt.
    pub attempt_id: Id,
    /// Whether the component has sent a line since the current attempt. If the attempt is a guess, only its
    /// answer and envelopes count.
    pub has_responded: bool,
    /// The generation of the envelope in which the component has forwarded the greeting.
    pub envelope_hint: Option<Generation>,
    /// The attempts that have failed.
    failed_attempts: Vec<Attempt>,
    /// The component has answered the guess as an agent and must be restarted.
    pub needs_restart: bool,
    /// The messages that are held until the generation is known, and their size.
    pub held: Vec<(Side, Message)>,
    pub held_bytes: usize,
}

/// A greeting that the component did not understand.
#[derive(Debug)]
struct Attempt {
    greeting: Greeting,
    /// Whether the attempt was a guess that does not count. The greeting is tried again in its turn.
    is_guess: bool,
    /// The component's reaction.
    answer: String,
    /// The component's error, if it is not the forwarded error of the conductor.
    error: Option<Json>,
}

impl Probe {
    /// The greetings that were tried and the component's reactions.
    fn summary(&self) -> String {
        let tried =
            self.failed_attempts.iter().map(|Attempt { greeting, answer, .. }| match greeting {
                Greeting::Capability => format!("initialize with the proxy capability: {answer}"),
                greeting => format!("{}: {answer}", greeting.method()),
            });
        tried.collect::<Vec<_>>().join("; ")
    }

    /// The [`summary`](Probe::summary). `None` if the component only exited on one greeting, because the crash
    /// report contains that already.
    pub(crate) fn notable_summary(&self) -> Option<String> {
        let has_answered = self.failed_attempts.iter().any(|it| it.answer != EXITED);
        (self.failed_attempts.len() > 1 || has_answered).then(|| self.summary())
    }

    /// Whether this line answers the current attempt.
    pub(crate) fn is_answered_by(&self, parts: &MessageParts, line: &Bytes) -> bool {
        parts.method.is_none() && matches!(parts.id(line), Ok(Some(id)) if id == self.attempt_id)
    }

    fn has_tried(&self, greeting: Greeting) -> bool {
        self.failed_attempts.iter().any(|it| it.greeting == greeting && !it.is_guess)
    }

    /// Whether the component has answered this greeting without accepting it.
    fn has_refused(&self, greeting: Greeting) -> bool {
        let refused = |it: &Attempt| it.greeting == greeting && !it.is_guess && it.answer != EXITED;
        self.failed_attempts.iter().any(refused)
    }

    pub(crate) fn can_retry(&self) -> bool {
        let left = |it: &Greeting| {
            let current = *it == self.greeting && !self.is_guess && !self.needs_restart;
            !current && !self.has_tried(*it)
        };
        Greeting::ALL.iter().any(left)
    }

    /// The greetings on which the component has exited or is about to.
    pub(crate) fn failed(&self) -> Vec<Greeting> {
        let current = (!self.is_guess && !self.needs_restart).then_some(self.greeting);
        let failed = |it: &Greeting| {
            let ended = |attempt: &Attempt| attempt.greeting == *it && attempt.answer == EXITED;
            current == Some(*it) || self.failed_attempts.iter().any(|it| ended(it) && !it.is_guess)
        };
        Greeting::ALL.into_iter().filter(failed).collect()
    }

    /// Whether the component has refused an earlier greeting although it knows the greeting (see
    /// [`UNKNOWN_GREETING_CODES`]).
    pub(crate) fn was_refused(&self) -> bool {
        self.first_error().is_some_and(|error| unknown_greeting(error).is_none())
    }

    /// The component's first error.
    fn first_error(&self) -> Option<&Json> {
        self.failed_attempts.iter().filter(|it| !it.is_guess).find_map(|it| it.error.as_ref())
    }
}

/// These codes mean that the component does not know the greeting.
const UNKNOWN_GREETING_CODES: [i64; 4] =
    [code::METHOD_NOT_FOUND, code::INVALID_REQUEST, code::INVALID_PARAMS, code::PARSE_ERROR];

/// The code of an error that means only that the component does not know the greeting.
fn unknown_greeting(error: &Json) -> Option<i64> {
    error.member("code")?.integer().filter(|code| UNKNOWN_GREETING_CODES.contains(code))
}

/// The state of the handshake for callers, and the operations on it.
impl Proxy {
    /// Whether a greeting was sent, it is not known whether the component understands it, and the component
    /// has not sent a line since. If the greeting [is a guess](Proxy::is_guessing), only its answer and
    /// envelopes count.
    pub fn awaits_first_line(&self) -> bool {
        matches!(&self.state, GenerationState::Unknown(Some(probe)) if !probe.has_responded)
    }

    /// Sends a notification without effect. A program that is broken by an unknown greeting may exit only
    /// when it reads another line.
    pub fn send_noop(&mut self, out: &mut dyn Sink) {
        if self.awaits_first_line() {
            let params = Json::trusted(r#"{"requestId":"none"}"#);
            Message::notification(CANCEL_REQUEST, params).write_line(out);
        }
    }

    /// The greetings that failed and the component's reactions, if there is more to say than that the
    /// component exited.
    pub fn attempts_summary(&self) -> Option<String> {
        match &self.state {
            GenerationState::Unknown(Some(probe)) => probe.notable_summary(),
            _ => None,
        }
    }

    /// Whether the current greeting is the one that the component understood the last time.
    pub fn is_guessing(&self) -> bool {
        matches!(&self.state, GenerationState::Unknown(Some(probe)) if probe.is_guess)
    }

    /// Whether the component did not understand the greeting that it understood the last time.
    pub fn guess_failed(&self) -> bool {
        self.guess_failed
    }

    /// The greetings on which the component has exited or is about to. A guess does not count.
    pub fn failed_greetings(&self) -> Vec<Greeting> {
        match &self.state {
            GenerationState::Unknown(Some(probe)) => probe.failed(),
            _ => Vec::new(),
        }
    }

    /// Whether the component has answered a guess as an agent. The caller must stop it and then call
    /// [`retry_on_restart`](Proxy::retry_on_restart).
    pub fn needs_restart(&self) -> bool {
        matches!(&self.state, GenerationState::Unknown(Some(probe)) if probe.needs_restart)
    }

    /// Whether the component has refused an earlier greeting that it knows, and has not answered the current one.
    pub fn was_refused(&self) -> bool {
        matches!(&self.state, GenerationState::Unknown(Some(probe)) if probe.was_refused())
    }

    /// Stops waiting for the answer to a greeting. Returns the answer for the requester.
    pub fn stop_waiting(&mut self, out: &mut dyn Sink) -> Option<(Side, Message)> {
        Some((Side::Editor, self.end_probe(out)?))
    }

    /// Whether there is a greeting that was not tried.
    pub fn can_retry(&self) -> bool {
        let GenerationState::Unknown(Some(probe)) = &self.state else { return false };
        self.pinned.is_none() && probe.can_retry()
    }
}

impl Proxy {
    /// The first greeting of a probe.
    pub(super) fn first_greeting(&self) -> Greeting {
        match (&self.first, self.pinned) {
            (_, Some(pin)) => pin.greeting(),
            (FirstGreeting::Newest, _) => Greeting::Proxy,
            (FirstGreeting::Greeting(greeting), _) => *greeting,
            (FirstGreeting::Generation(generation), _) => generation.greeting(),
            (FirstGreeting::After(failed), _) => {
                let left = Greeting::ALL.into_iter().find(|it| !failed.contains(it));
                left.unwrap_or(Greeting::Proxy)
            }
        }
    }

    /// The generation that the component had before it was restarted, if that is a guess.
    pub(super) fn guessed_generation(&self) -> Option<Generation> {
        match self.first {
            FirstGreeting::Generation(generation) => Some(generation),
            _ => None,
        }
    }

    /// Sends the first greeting.
    pub(super) fn start_probe(&mut self, id: &Id, call: &Call, out: &mut dyn Sink) {
        self.abandoned_ids.clear();
        let greeting = self.first_greeting();
        self.greet(greeting, id, call, out);
        let failed = match &self.first {
            FirstGreeting::After(failed) => failed.clone(),
            _ => Vec::new(),
        };
        let ended = |greeting| Attempt {
            greeting,
            is_guess: false,
            answer: EXITED.to_owned(),
            error: None,
        };
        let tried = failed.into_iter().filter(|it| *it != greeting).map(ended).collect();
        self.state = GenerationState::Unknown(Some(Box::new(Probe {
            id: id.clone(),
            call: call.detached(),
            greeting,
            is_guess: self.first.is_guessing() && self.pinned.is_none(),
            attempt_id: id.clone(),
            has_responded: false,
            envelope_hint: None,
            failed_attempts: tried,
            needs_restart: false,
            held: Vec::new(),
            held_bytes: 0,
        })));
    }

    /// Records that the current attempt has failed. A guess is dropped.
    fn record_failure(&mut self, answer: String, error: Option<Json>) {
        let GenerationState::Unknown(Some(probe)) = &mut self.state else { return };
        let guess = std::mem::take(&mut probe.is_guess);
        // The same process would refuse the same greeting again. The greeting with the capability is different the
        // next time: it offers the role at the paths of all generations.
        let narrow = matches!(self.first, FirstGreeting::Generation(_))
            && probe.greeting == Greeting::Capability;
        let counts = !guess || (error.is_some() && !narrow);
        let attempt = Attempt { greeting: probe.greeting, is_guess: !counts, answer, error };
        probe.failed_attempts.push(attempt);
        if guess {
            self.first = FirstGreeting::Newest;
            self.guess_failed = true;
        }
    }

    /// Sends the next greeting. Returns whether there is one.
    fn try_next(&mut self, out: &mut dyn Sink) -> bool {
        let GenerationState::Unknown(Some(probe)) = &mut self.state else { return false };
        let untried = |it: &Greeting| !probe.has_tried(*it);
        // A greeting on which the component has exited is tried again if the component's envelope hints at
        // it.
        let hinted =
            probe.envelope_hint.map(Generation::greeting).filter(|it| !probe.has_refused(*it));
        let next = hinted.or_else(|| Greeting::ALL.into_iter().find(untried));
        probe.envelope_hint = None;
        let Some(greeting) = next.filter(|_| self.pinned.is_none()) else { return false };
        self.pending_greetings.retain(|it| it.id != probe.attempt_id);
        self.abandoned_ids.push(probe.attempt_id.clone());
        probe.greeting = greeting;
        probe.has_responded = false;
        probe.attempt_id = Id::string(&format!(
            "{}~{}",
            probe.id.text().unwrap_or_default(),
            probe.failed_attempts.len()
        ));
        let (sent, call) = (probe.attempt_id.clone(), probe.call.clone());
        self.greet(greeting, &sent, &call, out);
        true
    }

    fn try_next_or_give_up(&mut self, out: &mut dyn Sink) -> Option<Outcome> {
        if self.try_next(out) { None } else { Some(self.give_up(out)) }
    }

    /// Handles the answer to a greeting of the probe. `None` if the probe continues.
    pub(super) fn on_probed(
        &mut self,
        id: &Id,
        outcome: Outcome,
        out: &mut dyn Sink,
    ) -> Option<Outcome> {
        let GenerationState::Unknown(Some(probe)) = &mut self.state else { return Some(outcome) };
        let greeting = probe.greeting;
        match &outcome {
            // Some agents answer unknown requests with a result.
            Outcome::Result(result) if result.member("protocolVersion").is_some() => {
                self.on_result(id, greeting, outcome, out)
            }
            Outcome::Result(result) => {
                self.record_failure(format!("the result {}", shortened(result.as_str())), None);
                self.try_next_or_give_up(out)
            }
            Outcome::Error(error) => {
                // After a hint, this is the error with which the conductor refused the forwarded greeting.
                let own = probe.envelope_hint.is_none().then(|| error.detached());
                let answer = format!("the error {}", shortened(error.as_str()));
                self.record_failure(answer, own);
                self.try_next_or_give_up(out)
            }
        }
    }

    /// Handles a result that has the members of an `initialize` result.
    fn on_result(
        &mut self,
        id: &Id,
        greeting: Greeting,
        outcome: Outcome,
        out: &mut dyn Sink,
    ) -> Option<Outcome> {
        let GenerationState::Unknown(Some(probe)) = &mut self.state else { return Some(outcome) };
        let Outcome::Result(result) = &outcome else { return Some(outcome) };
        match greeting {
            // The component has not sent `initialize` to its successor. The router does it.
            Greeting::Proxy => self.set_generation(Generation::P5, out),
            Greeting::Underscore => self.set_generation(Generation::P4, out),
            Greeting::Capability if offer::accepted(result) || self.pinned.is_some() => {
                if self.may_be_scp() {
                    self.held_answer = Some((id.detached(), result.detached()));
                    self.successor = ScpSuccessor::Needed;
                    return None;
                }
                self.set_generation(self.guessed_generation().unwrap_or(Generation::P3), out);
            }
            Greeting::Capability => {
                let guess = probe.is_guess;
                self.record_failure(NOT_ACCEPTED.to_owned(), None);
                if !guess {
                    return Some(self.give_up(out));
                }
                // The component is an agent now. If it is restarted and gets another greeting, it may be a
                // proxy.
                if let GenerationState::Unknown(Some(probe)) = &mut self.state {
                    probe.needs_restart = true;
                }
                return None;
            }
        }
        Some(self.on_greeting_answer(greeting, outcome))
    }

    /// Ends the probe without a generation. The component may be sent `initialize` again later.
    fn give_up(&mut self, out: &mut dyn Sink) -> Outcome {
        let Some(probe) = self.release_held(out) else { return Outcome::Error(Json::NULL) };
        let text = format!(
            "component '{}' is not a proxy. Every component except the last must be a proxy; the \
             last one is the agent. Tried {}",
            self.component,
            probe.summary(),
        );
        let is_agent = probe.failed_attempts.last().is_some_and(|it| it.answer == NOT_ACCEPTED);
        let Some(error) = probe.first_error().filter(|_| !is_agent) else {
            return ErrorKind::NotAProxy.outcome(code::INTERNAL_ERROR, &text);
        };
        match unknown_greeting(error) {
            // The component's error means only that it is not a proxy.
            Some(code) => {
                let data = error.member("data");
                Outcome::Error(error_object(code, &ErrorKind::NotAProxy.tag(text), data.as_ref()))
            }
            None => Outcome::Error(error.clone()),
        }
    }

    /// Stops waiting for the answer to the current greeting and ends the probe.
    fn end_probe(&mut self, out: &mut dyn Sink) -> Option<Message> {
        let GenerationState::Unknown(Some(probe)) = &self.state else { return None };
        let (id, sent) = (probe.id.clone(), probe.attempt_id.clone());
        self.record_failure("no answer".to_owned(), None);
        self.pending_greetings.retain(|it| it.id != sent);
        self.abandoned_ids.push(sent);
        Some(Message::response(id, self.give_up(out)))
    }

    /// Ends the probe and sends the held messages in the newest generation, although the component understood no
    /// greeting. It can still answer the requests, at least with an error.
    fn release_held(&mut self, out: &mut dyn Sink) -> Option<Box<Probe>> {
        let GenerationState::Unknown(probe) = &mut self.state else { return None };
        let mut probe = probe.take()?;
        for (toward, message) in std::mem::take(&mut probe.held) {
            self.write_in_assumed_generation(toward, &message, out);
        }
        Some(probe)
    }

    /// Continues the probe after the component exited, or was stopped, on a greeting that it did not
    /// understand. Appends the next greeting for the restarted component. Returns `false` if there is none.
    pub fn retry_on_restart(&mut self, out: &mut dyn Sink) -> bool {
        if !self.can_retry() {
            return false;
        }
        let GenerationState::Unknown(Some(probe)) = &mut self.state else { return false };
        if !std::mem::take(&mut probe.needs_restart) {
            self.record_failure(EXITED.to_owned(), None);
        }
        self.forwarded_initialize = None;
        (self.held_answer, self.successor, self.scp_proxy_forwarded_in) =
            (None, ScpSuccessor::NotNeeded, None);
        self.try_next(out)
    }
}

const EXITED: &str = "the component exited";
const NOT_ACCEPTED: &str = "a result that does not accept the role of a proxy";

/// The first 200 characters of a text.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
