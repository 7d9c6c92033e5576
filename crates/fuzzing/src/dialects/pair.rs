//! Both ends of the link between a conductor and its proxy, which is a conductor itself.
//!
//! The first byte of the story chooses what the two know of each other. Then:
//!
//! | line | what happens |
//! |---|---|
//! | `G VALUE` | the proxy is greeted |
//! | `F VALUE`, `A VALUE` | it greets its successor, and that is answered |
//! | `R VALUE` | it answers a greeting, with a result or an error |
//! | `P` | it answers a greeting with what its successor has answered |
//! | `>`, `)` | the conductor sends a call, toward the agent, toward the editor |
//! | `(`, `<` | the proxy sends a call, toward the agent, toward the editor |
//! | `a`, `r` | the conductor answers a request, the proxy does |
//! | `d`, `u` | a line arrives at the proxy, at the conductor |
//!
//! A call is made of `KIND METHOD VALUE`, a byte each.
//!
//! What must hold: every call arrives, once and in its order, as it was sent and on its way to the
//! same side, whatever the two find out about each other meanwhile; so does every answer. A greeting
//! is answered once, under its own id, and nothing of how it was spelt is seen by anybody else: an answer
//! that was passed on comes back as it was given.

use std::collections::VecDeque;

use acp_wire::dialect::{Generation, Greeting, Outer, Proxy};
use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp};
use bytes::Bytes;

use super::written;
use crate::story::{self, Choices, tell};

const METHODS: [&str; 4] = ["session/update", "session/prompt", "_x/y", "$/cancel_request"];

const VALUES: [&str; 5] =
    [r#"{"a": 1.10}"#, "{}", "[1]", r#"{"requestId":1}"#, r#"{"_meta":{"x":{}}}"#];

/// What greetings, and answers to them, say.
const GREETINGS: [&str; 3] = [
    r#"{"protocolVersion":1,"clientCapabilities":{"fs":{}}}"#,
    r#"{"protocolVersion":1,"clientCapabilities":{},"_meta":{"t":1}}"#,
    r#"{"protocolVersion":1}"#,
];
const ANSWERS: [&str; 7] = [
    r#"{"protocolVersion":1}"#,
    r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}"#,
    r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
    r#"{"code":-32601,"message":"no"}"#,
    r#"{"code":-32000,"message":"log in first"}"#,
    r#"{"protocolVersion":1,"agentCapabilities":{}}"#,
    r#"{"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}"#,
];

/// Words of the handshakes that must not travel on.
const SPELLING: [&str; 2] = ["symposium", r#""proxy""#];

struct Pair {
    conductor: End<Proxy>,
    proxy: End<Outer>,
    /// Greetings that the conductor waits for.
    greeted: Vec<Id>,
    /// The greeting that the proxy has to answer, the one that it waits for, and the one that the
    /// conductor has to answer.
    to_answer: Option<Id>,
    forwarded: Vec<Id>,
    has_forwarded: bool,
    to_complete: Option<Id>,
    /// What the successor has answered, as it did, to which greeting; as it did, and as the proxy has
    /// heard it; as it did, and the proxy has passed that on.
    completed: Option<(Id, Json)>,
    heard: Option<(Json, Json)>,
    passed_on: Option<Json>,
    tells_successor: bool,
}

/// One end of the link.
struct End<D> {
    dialect: D,
    /// What the other end has written.
    lines: VecDeque<Bytes>,
    /// What is to be heard here: calls, and answers.
    calls: VecDeque<(Side, Message)>,
    answers: VecDeque<Message>,
    /// What has been asked here and is not answered.
    asked: Vec<Id>,
    last: u64,
}

impl<D> End<D> {
    fn new(dialect: D) -> End<D> {
        End {
            dialect,
            lines: VecDeque::new(),
            calls: VecDeque::new(),
            answers: VecDeque::new(),
            asked: Vec::new(),
            last: 0,
        }
    }
}

/// # Panics
/// If something does not hold.
pub fn check(story: &[u8]) {
    let mut lines = story::lines(story);
    let Some((first, mut choices)) = lines.next() else { return };
    let mut pair = Pair::new(first, &mut choices);
    for (what, choices) in lines {
        pair.happen(what, choices);
    }
    pair.end();
}

impl Pair {
    /// What is known: the generation to both, to the conductor, or only how it was greeted the last
    /// time, or nothing.
    fn new(first: u8, choices: &mut Choices<'_>) -> Pair {
        // All but P0, which has no envelopes.
        let generations = &Generation::ALL[..6];
        let generation = *choices.of(generations).unwrap_or(&Generation::CURRENT);
        let greeting = *choices.of(&Greeting::ALL).unwrap_or(&Greeting::Proxy);
        let (conductor, proxy) = match first {
            b'b' => (Proxy::pinned("x", generation), Outer::pinned(generation)),
            b'c' => (Proxy::pinned("x", generation), Outer::unknown()),
            b'r' => (Proxy::remembered("x", greeting), Outer::unknown()),
            _ => (Proxy::unknown("x"), Outer::unknown()),
        };
        Pair {
            conductor: End::new(conductor),
            proxy: End::new(proxy),
            greeted: Vec::new(),
            to_answer: None,
            forwarded: Vec::new(),
            has_forwarded: false,
            to_complete: None,
            completed: None,
            heard: None,
            passed_on: None,
            tells_successor: choices.below(2) == 1,
        }
    }

    fn happen(&mut self, what: u8, mut choices: Choices<'_>) {
        tell(|| format!("{}{choices}", char::from(what)));
        match what {
            b'G' => self.greet(&mut choices),
            b'F' => self.forward(&mut choices),
            b'A' => self.complete(&mut choices),
            b'R' => {
                let outcome = greeting_outcome(&mut choices);
                self.answer_greeting(outcome);
            }
            b'P' => {
                let heard = self.heard.take().filter(|_| self.to_answer.is_some());
                if let Some((completed, heard)) = heard {
                    self.answer_greeting(Outcome::Result(heard));
                    self.passed_on = Some(completed);
                }
            }
            b'>' => self.conductor_calls(Side::Agent, &mut choices),
            b')' => self.conductor_calls(Side::Editor, &mut choices),
            b'(' => self.proxy_calls(Side::Agent, &mut choices),
            b'<' => self.proxy_calls(Side::Editor, &mut choices),
            b'a' => self.conductor_answers(&mut choices),
            b'r' => self.proxy_answers(&mut choices),
            b'd' => drop(self.arrive_at_proxy()),
            b'u' => drop(self.arrive_at_conductor()),
            _ => {}
        }
    }

    // Greetings.

    fn greet(&mut self, choices: &mut Choices<'_>) {
        // The router greets one component once at a time.
        if !self.greeted.is_empty() {
            return;
        }
        self.conductor.last += 1;
        let id = Id::string(&format!("c:{}", self.conductor.last));
        let params = Json::trusted(choices.text_of(&GREETINGS));
        self.greeted.push(id.clone());
        self.conductor_sends(Side::Agent, &Message::request(id, acp::INITIALIZE, params));
    }

    fn forward(&mut self, choices: &mut Choices<'_>) {
        // Who does so twice cannot tell what it passes on: one answer, or the other.
        if self.to_answer.is_none() || self.has_forwarded || !self.forwarded.is_empty() {
            return;
        }
        self.has_forwarded = true;
        self.proxy.last += 1;
        let id = Id::from(self.proxy.last);
        let params = Json::trusted(choices.text_of(&GREETINGS));
        self.forwarded.push(id.clone());
        self.proxy_sends(Side::Agent, &Message::request(id, acp::INITIALIZE, params));
    }

    fn complete(&mut self, choices: &mut Choices<'_>) {
        if let Some(id) = self.to_complete.take() {
            let outcome = greeting_outcome(choices);
            self.completed = match &outcome {
                Outcome::Result(result) => Some((id.clone(), result.clone())),
                Outcome::Error(_) => None,
            };
            self.conductor_sends(Side::Editor, &Message::response(id, outcome));
        }
    }

    fn answer_greeting(&mut self, outcome: Outcome) {
        if let Some(id) = self.to_answer.take() {
            self.passed_on = None;
            self.proxy_sends(Side::Editor, &Message::response(id, outcome));
        }
    }

    // What is said.

    fn conductor_calls(&mut self, toward: Side, choices: &mut Choices<'_>) {
        self.conductor.last += 1;
        let id = Id::string(&format!("c:{}", self.conductor.last));
        let message = call(id, choices);
        // A cancellation belongs to the link; while a greeting is open there is nothing to cancel.
        if !is_cancellation(&message) {
            self.proxy.calls.push_back((toward, message.clone()));
        }
        self.conductor_sends(toward, &message);
    }

    fn proxy_calls(&mut self, toward: Side, choices: &mut Choices<'_>) {
        self.proxy.last += 1;
        let message = call(Id::from(self.proxy.last), choices);
        if !is_cancellation(&message) {
            self.conductor.calls.push_back((toward, message.clone()));
        }
        self.proxy_sends(toward, &message);
    }

    fn conductor_answers(&mut self, choices: &mut Choices<'_>) {
        let Some(message) = answer(&mut self.conductor.asked, choices) else { return };
        self.proxy.answers.push_back(message.clone());
        self.conductor_sends(Side::Editor, &message);
    }

    fn proxy_answers(&mut self, choices: &mut Choices<'_>) {
        let Some(message) = answer(&mut self.proxy.asked, choices) else { return };
        self.conductor.answers.push_back(message.clone());
        self.proxy_sends(Side::Agent, &message);
    }

    fn conductor_sends(&mut self, toward: Side, message: &Message) {
        let dialect = &mut self.conductor.dialect;
        let ((), lines) = written(|queue| dialect.encode(toward, message, queue));
        self.proxy.lines.extend(lines.into_iter().map(|(line, _)| line));
    }

    fn proxy_sends(&mut self, toward: Side, message: &Message) {
        let dialect = &mut self.proxy.dialect;
        let ((), lines) = written(|queue| dialect.encode(toward, message, queue));
        self.conductor.lines.extend(lines.into_iter().map(|(line, _)| line));
    }

    // What is heard.

    fn arrive_at_proxy(&mut self) -> bool {
        let Some(line) = self.proxy.lines.pop_front() else { return false };
        let dialect = &mut self.proxy.dialect;
        let (heard, said) = written(|queue| dialect.decode(&line, queue));
        assert!(said.is_empty(), "a proxy says nothing of its own: {said:?}");
        let (side, message) = heard.expect("it is read").expect("it is passed on");
        match &message {
            Message::Request { id, call } if call.is(acp::INITIALIZE) => {
                assert_eq!(side, Side::Agent);
                unseen(call.params.as_ref());
                (self.to_answer, self.heard, self.has_forwarded) = (Some(id.clone()), None, false);
            }
            Message::Request { id, call } if call.is("_scp/proxy") => {
                // It has never heard of it.
                let outcome = Outcome::error(acp_wire::code::METHOD_NOT_FOUND, "no");
                self.proxy_sends(Side::Editor, &Message::response(id.clone(), outcome));
            }
            Message::Response { id, outcome, .. } => {
                if let Some(index) = self.forwarded.iter().position(|it| it == id) {
                    self.forwarded.remove(index);
                    let completed = self.completed.take();
                    let completed = completed.filter(|(it, _)| it == id && self.has_forwarded);
                    self.heard = match (completed, outcome) {
                        (Some((_, it)), Outcome::Result(heard)) => Some((it, heard.clone())),
                        _ => None,
                    };
                } else {
                    assert_eq!(self.proxy.answers.pop_front(), Some(message));
                }
            }
            message if is_cancellation(message) => {}
            _ => {
                self.proxy.asked.extend(id_of(&message));
                is_same((side, message), self.proxy.calls.pop_front());
            }
        }
        true
    }

    fn arrive_at_conductor(&mut self) -> bool {
        let Some(line) = self.conductor.lines.pop_front() else { return false };
        let dialect = &mut self.conductor.dialect;
        let (heard, said) = written(|queue| dialect.decode(&line, queue));
        self.proxy.lines.extend(said.into_iter().map(|(line, _)| line));
        if let Some(heard) = heard.expect("it is read") {
            self.on_heard(heard);
        }
        if self.conductor.dialect.needs_successor() {
            let servers = self.tells_successor.then(|| Json::trusted(r#"{"servers":[]}"#));
            let dialect = &mut self.conductor.dialect;
            let (told, said) = written(|queue| dialect.set_successor(servers, queue));
            self.proxy.lines.extend(said.into_iter().map(|(line, _)| line));
            told.into_iter().for_each(|heard| self.on_heard(heard));
        }
        true
    }

    fn on_heard(&mut self, (side, message): (Side, Message)) {
        match &message {
            Message::Request { id, call } if call.is(acp::INITIALIZE) => {
                assert_eq!(side, Side::Agent);
                self.to_complete = Some(id.clone());
            }
            Message::Response { id, outcome, .. } => {
                if let Some(index) = self.greeted.iter().position(|it| it == id) {
                    self.greeted.remove(index);
                    let passed_on = self.passed_on.take();
                    if let Outcome::Result(result) = outcome {
                        unseen(Some(result));
                        passed_on.iter().for_each(|it| says_the_same(it, result));
                    }
                } else {
                    assert_eq!(self.conductor.answers.pop_front(), Some(message));
                }
            }
            message if is_cancellation(message) => {}
            _ => {
                self.conductor.asked.extend(id_of(&message));
                is_same((side, message), self.conductor.calls.pop_front());
            }
        }
    }

    /// All that was said arrives.
    fn end(mut self) {
        while self.arrive_at_proxy() || self.arrive_at_conductor() {}
        let waits = self.conductor.dialect.held_bytes() > 0;
        assert!(waits || self.proxy.calls.is_empty(), "lost: {:?}", self.proxy.calls);
        assert!(self.conductor.calls.is_empty(), "lost: {:?}", self.conductor.calls);
        assert!(self.proxy.answers.is_empty() && self.conductor.answers.is_empty());
    }
}

/// Nothing of how a greeting was spelt travels on.
fn unseen(json: Option<&Json>) {
    let text = json.map_or("", Json::as_str);
    assert!(!SPELLING.iter().any(|word| text.contains(word)), "{text}");
}

/// Whatever the order of the members. Where an answer had no capabilities, there may be an empty list of
/// them afterwards: the acceptance of the role stood in it.
fn says_the_same(one: &Json, other: &Json) {
    let value = |json: &Json| -> serde_json::Value {
        let lists = ["capabilities", "agentCapabilities"];
        let empty = |key: &&str| json.member(key).is_some_and(|it| it.is_empty_object());
        let json = lists
            .iter()
            .filter(|it| empty(it))
            .fold(json.clone(), |it, key| it.with_at(&[key], None));
        serde_json::from_slice(json.as_bytes()).expect("it is JSON")
    };
    assert_eq!(value(one), value(other));
}

fn call(id: Id, choices: &mut Choices<'_>) -> Message {
    let kind = choices.below(4);
    let method = choices.text_of(&METHODS);
    let value = (kind < 2).then(|| Json::trusted(choices.text_of(&VALUES)));
    match kind % 2 {
        0 => Message::request(id, method, value),
        _ => Message::notification(method, value),
    }
}

fn answer(asked: &mut Vec<Id>, choices: &mut Choices<'_>) -> Option<Message> {
    if asked.is_empty() {
        return None;
    }
    let id = asked.remove(choices.below(asked.len()));
    let value = Json::trusted(choices.text_of(&VALUES));
    let outcome =
        if choices.below(2) == 0 { Outcome::Result(value) } else { Outcome::Error(value) };
    Some(Message::response(id, outcome))
}

fn greeting_outcome(choices: &mut Choices<'_>) -> Outcome {
    let said = choices.text_of(&ANSWERS);
    let value = Json::trusted(said);
    if said.contains("code") { Outcome::Error(value) } else { Outcome::Result(value) }
}

fn is_cancellation(message: &Message) -> bool {
    matches!(message, Message::Notification(call) if call.is(acp::CANCEL_REQUEST))
}

fn id_of(message: &Message) -> Option<Id> {
    match message {
        Message::Request { id, .. } => Some(id.clone()),
        Message::Notification(_) | Message::Response { .. } => None,
    }
}

/// Is what was heard what was sent? The oldest generations cannot say that there are no params.
fn is_same(heard: (Side, Message), sent: Option<(Side, Message)>) {
    let mut sent = sent.expect("somebody has sent it");
    if let (
        (_, Message::Request { call: heard, .. } | Message::Notification(heard)),
        (_, Message::Request { call, .. } | Message::Notification(call)),
    ) = (&heard, &mut sent)
        && heard.params == Some(Json::EMPTY)
        && call.params.is_none()
    {
        *call = Call { params: Some(Json::EMPTY), ..call.clone() };
    }
    assert_eq!(heard, sent);
}
