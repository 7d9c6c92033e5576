//! Finding out which greeting a component understands.
//!
//! The greetings are tried newest first, unless there is a guess: what the component understood the
//! last time. A guess that fails in any way is forgotten, and the probe begins anew.

use bytes::Bytes;

use super::super::generation::{Generation, Greeting};
use super::super::offer;
use super::{GenerationState, Proxy, ScpSuccessor};
use crate::acp::CANCEL_REQUEST;
use crate::json::Json;
use crate::message::{Call, Id, Message, Outcome, Parts, Side, code, error_object};
use crate::sink::Sink;

/// With which greeting a probe begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FirstGreeting {
    Newest,
    /// A guess: the one that was understood the last time.
    Greeting(Greeting),
    /// A guess: the one of the generation that the component had before it was started again.
    Generation(Generation),
    /// The newest one but these, over which the component has ended.
    After(Vec<Greeting>),
}

impl FirstGreeting {
    pub fn is_guessing(&self) -> bool {
        matches!(self, FirstGreeting::Greeting(_) | FirstGreeting::Generation(_))
    }
}

/// A greeting in search of its spelling.
#[derive(Debug)]
pub(super) struct Probe {
    id: Id,
    call: Call,
    greeting: Greeting,
    /// The present attempt is the guess.
    pub guess: bool,
    /// Under which id the present attempt went out.
    pub sent: Id,
    /// The component has said something since. While the attempt is a guess, only its answer and envelopes
    /// count.
    pub heard: bool,
    /// The envelope in which it passed the greeting on tells the generation.
    pub hint: Option<Generation>,
    tried: Vec<Attempt>,
    /// The guess has made an agent of the component: it has to be started again.
    pub restart: bool,
    pub held: Vec<(Side, Message)>,
    pub held_bytes: usize,
}

/// A greeting that the component did not understand.
#[derive(Debug)]
struct Attempt {
    greeting: Greeting,
    /// A guess that does not count: the greeting is tried again when its turn comes.
    guess: bool,
    /// What came of it.
    answer: String,
    /// The component's own error.
    error: Option<Json>,
}

impl Probe {
    /// What was tried, and what came of it.
    fn summary(&self) -> String {
        let tried = self.tried.iter().map(|Attempt { greeting, answer, .. }| match greeting {
            Greeting::Capability => format!("initialize with the proxy capability: {answer}"),
            greeting => format!("{}: {answer}", greeting.method()),
        });
        tried.collect::<Vec<_>>().join("; ")
    }

    /// The same, unless all of it is told elsewhere.
    pub fn notable_summary(&self) -> Option<String> {
        let said = self.tried.iter().any(|it| it.answer != ENDED);
        (self.tried.len() > 1 || said).then(|| self.summary())
    }

    /// Whether this line answers the present attempt.
    pub fn is_answered_by(&self, parts: &Parts, line: &Bytes) -> bool {
        parts.method.is_none() && matches!(parts.id(line), Ok(Some(id)) if id == self.sent)
    }

    fn has_tried(&self, greeting: Greeting) -> bool {
        self.tried.iter().any(|it| it.greeting == greeting && !it.guess)
    }

    fn has_refused(&self, greeting: Greeting) -> bool {
        let refused = |it: &Attempt| it.greeting == greeting && !it.guess && it.answer != ENDED;
        self.tried.iter().any(refused)
    }

    pub fn can_retry(&self) -> bool {
        let left = |it: &Greeting| {
            let current = *it == self.greeting && !self.guess && !self.restart;
            !current && !self.has_tried(*it)
        };
        Greeting::ALL.iter().any(left)
    }

    /// The greetings over which the component has ended, or is about to.
    pub fn failed(&self) -> Vec<Greeting> {
        let present = (!self.guess && !self.restart).then_some(self.greeting);
        let failed = |it: &Greeting| {
            let ended = |attempt: &Attempt| attempt.greeting == *it && attempt.answer == ENDED;
            present == Some(*it) || self.tried.iter().any(|it| ended(it) && !it.guess)
        };
        Greeting::ALL.into_iter().filter(failed).collect()
    }

    /// The component has refused an earlier greeting for a reason of its own.
    pub fn was_refused(&self) -> bool {
        self.first_error().is_some_and(|error| unknown_greeting(error).is_none())
    }

    /// The first error of the component's own.
    fn first_error(&self) -> Option<&Json> {
        self.tried.iter().filter(|it| !it.guess).find_map(|it| it.error.as_ref())
    }
}

/// These codes mean that the component does not know the greeting.
const UNKNOWN: [i64; 4] =
    [code::METHOD_NOT_FOUND, code::INVALID_REQUEST, code::INVALID_PARAMS, code::PARSE_ERROR];

/// The code of an error that says no more than that.
fn unknown_greeting(error: &Json) -> Option<i64> {
    error.member("code")?.integer().filter(|code| UNKNOWN.contains(code))
}

/// What is known of the handshake from outside, and what can be done about it.
impl Proxy {
    /// A greeting was sent of which it is not known whether the component understands it, and the
    /// component has not sent a line since. If the greeting [is a guess](Proxy::is_guessing), only the answer to it and
    /// envelopes count.
    pub fn awaits_first_line(&self) -> bool {
        matches!(&self.state, GenerationState::Unknown(Some(probe)) if !probe.heard)
    }

    /// Says something harmless. A program that an unknown greeting has broken may notice only when
    /// the next line comes.
    pub fn send_noop(&mut self, out: &mut dyn Sink) {
        if self.awaits_first_line() {
            let params = Json::trusted(r#"{"requestId":"none"}"#);
            Message::notification(CANCEL_REQUEST, params).write_line(out);
        }
    }

    /// Which greetings were tried in vain, and what came of each, once there were several.
    pub fn attempts_summary(&self) -> Option<String> {
        match &self.state {
            GenerationState::Unknown(Some(probe)) => probe.notable_summary(),
            _ => None,
        }
    }

    /// The component was greeted with what it understood the last time, and has not answered yet.
    pub fn is_guessing(&self) -> bool {
        matches!(&self.state, GenerationState::Unknown(Some(probe)) if probe.guess)
    }

    /// The greeting that the component was known to understand was not understood this time.
    pub fn guess_failed(&self) -> bool {
        self.guess_failed
    }

    /// The greetings over which the component has ended, or is about to. A guess does not count.
    pub fn failed_greetings(&self) -> Vec<Greeting> {
        match &self.state {
            GenerationState::Unknown(Some(probe)) => probe.failed(),
            _ => Vec::new(),
        }
    }

    /// The greeting that was a guess has made something else than a proxy of the component: it is to be
    /// ended, and then to [`retry_on_restart`](Proxy::retry_on_restart).
    pub fn needs_restart(&self) -> bool {
        matches!(&self.state, GenerationState::Unknown(Some(probe)) if probe.restart)
    }

    /// The component has refused an earlier greeting with an error that says more than that it does not
    /// know the greeting, and has not answered the present one.
    pub fn was_refused(&self) -> bool {
        matches!(&self.state, GenerationState::Unknown(Some(probe)) if probe.was_refused())
    }

    /// Stops waiting for the answer to a greeting: what is answered instead.
    pub fn stop_waiting(&mut self, out: &mut dyn Sink) -> Option<(Side, Message)> {
        Some((Side::Editor, self.end_probe(out)?))
    }

    /// There is a greeting that was not tried yet.
    pub fn can_retry(&self) -> bool {
        let GenerationState::Unknown(Some(probe)) = &self.state else { return false };
        self.pin.is_none() && probe.can_retry()
    }
}

impl Proxy {
    pub(super) fn first_greeting(&self) -> Greeting {
        match (&self.first, self.pin) {
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

    /// The generation that the component is believed to be of.
    pub(super) fn guessed(&self) -> Option<Generation> {
        match self.first {
            FirstGreeting::Generation(generation) => Some(generation),
            _ => None,
        }
    }

    pub(super) fn begin(&mut self, id: &Id, call: &Call, out: &mut dyn Sink) {
        self.withdrawn.clear();
        let greeting = self.first_greeting();
        self.greet(greeting, id, call, out);
        let failed = match &self.first {
            FirstGreeting::After(failed) => failed.clone(),
            _ => Vec::new(),
        };
        let ended =
            |greeting| Attempt { greeting, guess: false, answer: ENDED.to_owned(), error: None };
        let tried = failed.into_iter().filter(|it| *it != greeting).map(ended).collect();
        self.state = GenerationState::Unknown(Some(Box::new(Probe {
            id: id.clone(),
            call: call.detached(),
            greeting,
            guess: self.first.is_guessing() && self.pin.is_none(),
            sent: id.clone(),
            heard: false,
            hint: None,
            tried,
            restart: false,
            held: Vec::new(),
            held_bytes: 0,
        })));
    }

    /// Notes that the present attempt has failed. A guess is forgotten.
    fn note_failure(&mut self, answer: String, error: Option<Json>) {
        let GenerationState::Unknown(Some(probe)) = &mut self.state else { return };
        let guess = std::mem::take(&mut probe.guess);
        // The same greeting to the same process would be refused again, unless it offers more.
        let narrow = matches!(self.first, FirstGreeting::Generation(_))
            && probe.greeting == Greeting::Capability;
        let counts = !guess || (error.is_some() && !narrow);
        let attempt = Attempt { greeting: probe.greeting, guess: !counts, answer, error };
        probe.tried.push(attempt);
        if guess {
            self.first = FirstGreeting::Newest;
            self.guess_failed = true;
        }
    }

    /// Sends the next greeting to try; says whether there is one.
    fn try_next(&mut self, out: &mut dyn Sink) -> bool {
        let GenerationState::Unknown(Some(probe)) = &mut self.state else { return false };
        let untried = |it: &Greeting| !probe.has_tried(*it);
        // One over which the component has ended is worth another try if its envelope says so.
        let hinted = probe.hint.map(Generation::greeting).filter(|it| !probe.has_refused(*it));
        let next = hinted.or_else(|| Greeting::ALL.into_iter().find(untried));
        probe.hint = None;
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

    fn try_next_or_give_up(&mut self, out: &mut dyn Sink) -> Option<Outcome> {
        if self.try_next(out) { None } else { Some(self.give_up(out)) }
    }

    /// The answer to a greeting of which it was not known whether it would be understood.
    pub(super) fn on_probed(
        &mut self,
        id: &Id,
        outcome: Outcome,
        out: &mut dyn Sink,
    ) -> Option<Outcome> {
        let GenerationState::Unknown(Some(probe)) = &mut self.state else { return Some(outcome) };
        let greeting = probe.greeting;
        match &outcome {
            // Some agents answer anything they do not know with a result.
            Outcome::Result(result) if result.member("protocolVersion").is_some() => {
                self.on_result(id, greeting, outcome, out)
            }
            Outcome::Result(result) => {
                self.note_failure(format!("the result {}", shortened(result.as_str())), None);
                self.try_next_or_give_up(out)
            }
            Outcome::Error(error) => {
                // After a hint, the error is the one with which we refused the greeting.
                let own = probe.hint.is_none().then(|| error.detached());
                let answer = format!("the error {}", shortened(error.as_str()));
                self.note_failure(answer, own);
                self.try_next_or_give_up(out)
            }
        }
    }

    /// A result that looks like one of `initialize`.
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
            // It answered without initialising its successor; the router does that for it.
            Greeting::Proxy => self.adopt(Generation::P5, out),
            Greeting::Underscore => self.adopt(Generation::P4, out),
            Greeting::Capability if offer::accepted(result) || self.pin.is_some() => {
                if self.may_be_scp() {
                    self.accepted = Some((id.detached(), result.detached()));
                    self.successor = ScpSuccessor::Wanted;
                    return None;
                }
                self.adopt(self.guessed().unwrap_or(Generation::P3), out);
            }
            Greeting::Capability => {
                let guess = probe.guess;
                self.note_failure(NOT_ACCEPTED.to_owned(), None);
                if !guess {
                    return Some(self.give_up(out));
                }
                // Now it is an agent. It may be a proxy if it is started again and greeted as one.
                if let GenerationState::Unknown(Some(probe)) = &mut self.state {
                    probe.restart = true;
                }
                return None;
            }
        }
        Some(self.on_accepted(greeting, outcome))
    }

    /// No greeting is left to try. The component may be greeted again later, from the beginning.
    fn give_up(&mut self, out: &mut dyn Sink) -> Outcome {
        let Some(probe) = self.release_held(out) else { return Outcome::Error(Json::NULL) };
        let text = format!(
            "component '{}' is not a proxy. Tried {}. Every component but the last must be a proxy, \
             the last one is the agent",
            self.component,
            probe.summary(),
        );
        let is_agent = probe.tried.last().is_some_and(|it| it.answer == NOT_ACCEPTED);
        let Some(error) = probe.first_error().filter(|_| !is_agent) else {
            return Outcome::error(code::INTERNAL_ERROR, &text);
        };
        match unknown_greeting(error) {
            // All that it says is that it is not a proxy.
            Some(code) => {
                let data = error.member("data");
                Outcome::Error(error_object(code, &text, data.as_ref()))
            }
            None => Outcome::Error(error.clone()),
        }
    }

    /// Stops waiting for the answer to the present greeting, and with it the probe.
    fn end_probe(&mut self, out: &mut dyn Sink) -> Option<Message> {
        let GenerationState::Unknown(Some(probe)) = &self.state else { return None };
        let (id, sent) = (probe.id.clone(), probe.sent.clone());
        self.note_failure("no answer".to_owned(), None);
        self.greeted.retain(|it| it.id != sent);
        self.withdrawn.push(sent);
        Some(Message::response(id, self.give_up(out)))
    }

    /// No greeting was understood. What waited for that goes out as if the component were of the
    /// newest generation: it will hardly understand, but it can answer.
    fn release_held(&mut self, out: &mut dyn Sink) -> Option<Box<Probe>> {
        let GenerationState::Unknown(probe) = &mut self.state else { return None };
        let mut probe = probe.take()?;
        for (toward, message) in std::mem::take(&mut probe.held) {
            self.write_assuming(toward, &message, out);
        }
        Some(probe)
    }

    /// The component ended, or was ended, over a greeting that it did not understand. If there is another
    /// one to try on a fresh start, appends it.
    pub fn retry_on_restart(&mut self, out: &mut dyn Sink) -> bool {
        if !self.can_retry() {
            return false;
        }
        let GenerationState::Unknown(Some(probe)) = &mut self.state else { return false };
        if !std::mem::take(&mut probe.restart) {
            self.note_failure(ENDED.to_owned(), None);
        }
        self.forwarded = None;
        (self.accepted, self.successor, self.no_scp) = (None, ScpSuccessor::None, None);
        self.try_next(out)
    }
}

const ENDED: &str = "it ended";
const NOT_ACCEPTED: &str = "a result that does not accept the role of a proxy";

pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
