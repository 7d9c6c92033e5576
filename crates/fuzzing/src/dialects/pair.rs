//! Both ends of the link between a conductor and its proxy, which is another conductor.
//!
//! The first byte of the scenario chooses what the two know about each other. Then:
//!
//! | line | step |
//! |---|---|
//! | `G VALUE` | the proxy gets a greeting |
//! | `F VALUE`, `A VALUE` | the proxy greets its successor, the successor answers |
//! | `R VALUE` | the proxy answers a greeting, with a result or an error |
//! | `P` | the proxy answers a greeting with the result of its successor |
//! | `>`, `)` | the conductor sends a call, toward the agent, toward the editor |
//! | `(`, `<` | the proxy sends a call, toward the agent, toward the editor |
//! | `a`, `r` | the conductor, the proxy answers a request |
//! | `d`, `u` | a line arrives at the proxy, at the conductor |
//!
//! A call is `KIND METHOD VALUE`, a byte each.
//!
//! Invariants: every call and every answer arrives once, in order, unchanged, and travels toward the same side, also
//! during the negotiation. A greeting is answered once, with its own id. Members of the proxy handshake stay on the
//! link: a result that the proxy passes on arrives as the successor has sent it.

use std::collections::VecDeque;

use acp_wire::dialect::{Generation, Greeting, Outer, Proxy};
use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp};
use bytes::Bytes;

use super::written;
use crate::scenario::{self, Choices, trace};

const METHODS: [&str; 4] = ["session/update", "session/prompt", "_x/y", "$/cancel_request"];

const VALUES: [&str; 5] =
    [r#"{"a": 1.10}"#, "{}", "[1]", r#"{"requestId":1}"#, r#"{"_meta":{"x":{}}}"#];

/// Params of greetings, and answers to greetings.
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

/// Members of the handshakes that must stay on the link.
const HANDSHAKE_FIELDS: [&str; 2] = ["symposium", r#""proxy""#];

struct Pair {
    conductor: LinkEnd<Proxy>,
    proxy: LinkEnd<Outer>,
    /// Greetings of the conductor that are not answered.
    greeted: Vec<Id>,
    /// The greeting that the proxy must answer, the ones that it has sent, and the one that the conductor must answer.
    to_answer: Option<Id>,
    forwarded: Vec<Id>,
    has_forwarded: bool,
    to_complete: Option<Id>,
    /// The successor's result and the greeting that it answers; the same result and what the proxy has received; the
    /// same result if the proxy has passed it on.
    completed: Option<(Id, Json)>,
    received: Option<(Json, Json)>,
    passed_on: Option<Json>,
    declares_successor: bool,
}

/// One end of the link.
struct LinkEnd<D> {
    dialect: D,
    /// Lines that the other end has written.
    lines: VecDeque<Bytes>,
    /// Calls and answers that must arrive here.
    calls: VecDeque<(Side, Message)>,
    answers: VecDeque<Message>,
    /// Requests that have arrived here and are not answered.
    unanswered: Vec<Id>,
    last: u64,
}

impl<D> LinkEnd<D> {
    fn new(dialect: D) -> LinkEnd<D> {
        LinkEnd {
            dialect,
            lines: VecDeque::new(),
            calls: VecDeque::new(),
            answers: VecDeque::new(),
            unanswered: Vec::new(),
            last: 0,
        }
    }
}

/// # Panics
/// If something does not hold.
pub fn check(scenario: &[u8]) {
    let mut lines = scenario::steps(scenario);
    let Some((first, mut choices)) = lines.next() else { return };
    let mut pair = Pair::new(first, &mut choices);
    for (what, choices) in lines {
        pair.step(what, choices);
    }
    pair.end();
}

impl Pair {
    /// Either both ends know the generation, or only the conductor, or the conductor knows only the last accepted
    /// greeting, or nothing.
    fn new(first: u8, choices: &mut Choices<'_>) -> Pair {
        // All generations but P0, which has no envelopes.
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
            conductor: LinkEnd::new(conductor),
            proxy: LinkEnd::new(proxy),
            greeted: Vec::new(),
            to_answer: None,
            forwarded: Vec::new(),
            has_forwarded: false,
            to_complete: None,
            completed: None,
            received: None,
            passed_on: None,
            declares_successor: choices.below(2) == 1,
        }
    }

    fn step(&mut self, what: u8, mut choices: Choices<'_>) {
        trace(|| format!("{}{choices}", char::from(what)));
        match what {
            b'G' => self.greet(&mut choices),
            b'F' => self.forward(&mut choices),
            b'A' => self.complete(&mut choices),
            b'R' => {
                let outcome = greeting_outcome(&mut choices);
                self.answer_greeting(outcome);
            }
            b'P' => {
                let received = self.received.take().filter(|_| self.to_answer.is_some());
                if let Some((completed, received)) = received {
                    self.answer_greeting(Outcome::Result(received));
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

    // // Greetings.

    fn greet(&mut self, choices: &mut Choices<'_>) {
        // The router sends one greeting at a time.
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
        // With two greetings, it would not be clear which answer the proxy passes on.
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

    // // Sending.

    fn conductor_calls(&mut self, toward: Side, choices: &mut Choices<'_>) {
        self.conductor.last += 1;
        let id = Id::string(&format!("c:{}", self.conductor.last));
        let message = call(id, choices);
        // A cancellation belongs to the link, and cancels nothing here.
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
        let Some(message) = answer(&mut self.conductor.unanswered, choices) else { return };
        self.proxy.answers.push_back(message.clone());
        self.conductor_sends(Side::Editor, &message);
    }

    fn proxy_answers(&mut self, choices: &mut Choices<'_>) {
        let Some(message) = answer(&mut self.proxy.unanswered, choices) else { return };
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

    // // Receiving.

    fn arrive_at_proxy(&mut self) -> bool {
        let Some(line) = self.proxy.lines.pop_front() else { return false };
        let dialect = &mut self.proxy.dialect;
        let (received, lines) = written(|queue| dialect.decode(&line, queue));
        assert!(lines.is_empty(), "a proxy writes no lines by itself: {lines:?}");
        let (side, message) = received.expect("it is read").expect("it is passed on");
        match &message {
            Message::Request { id, call } if call.is(acp::INITIALIZE) => {
                assert_eq!(side, Side::Agent);
                assert_no_handshake_fields(call.params.as_ref());
                (self.to_answer, self.received, self.has_forwarded) =
                    (Some(id.clone()), None, false);
            }
            Message::Request { id, call } if call.is("_scp/proxy") => {
                // The proxy does not support this method.
                let outcome = Outcome::error(acp_wire::code::METHOD_NOT_FOUND, "no");
                self.proxy_sends(Side::Editor, &Message::response(id.clone(), outcome));
            }
            Message::Response { id, outcome, .. } => {
                if let Some(index) = self.forwarded.iter().position(|it| it == id) {
                    self.forwarded.remove(index);
                    let completed = self.completed.take();
                    let completed = completed.filter(|(it, _)| it == id && self.has_forwarded);
                    self.received = match (completed, outcome) {
                        (Some((_, it)), Outcome::Result(received)) => Some((it, received.clone())),
                        _ => None,
                    };
                } else {
                    assert_eq!(self.proxy.answers.pop_front(), Some(message));
                }
            }
            message if is_cancellation(message) => {}
            _ => {
                self.proxy.unanswered.extend(id_of(&message));
                assert_same_call((side, message), self.proxy.calls.pop_front());
            }
        }
        true
    }

    fn arrive_at_conductor(&mut self) -> bool {
        let Some(line) = self.conductor.lines.pop_front() else { return false };
        let dialect = &mut self.conductor.dialect;
        let (received, lines) = written(|queue| dialect.decode(&line, queue));
        self.proxy.lines.extend(lines.into_iter().map(|(line, _)| line));
        if let Some(received) = received.expect("it is read") {
            self.on_message(received);
        }
        if self.conductor.dialect.needs_successor() {
            let servers = self.declares_successor.then(|| Json::trusted(r#"{"servers":[]}"#));
            let dialect = &mut self.conductor.dialect;
            let (messages, lines) = written(|queue| dialect.set_successor(servers, queue));
            self.proxy.lines.extend(lines.into_iter().map(|(line, _)| line));
            messages.into_iter().for_each(|received| self.on_message(received));
        }
        true
    }

    fn on_message(&mut self, (side, message): (Side, Message)) {
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
                        assert_no_handshake_fields(Some(result));
                        passed_on.iter().for_each(|it| assert_equivalent(it, result));
                    }
                } else {
                    assert_eq!(self.conductor.answers.pop_front(), Some(message));
                }
            }
            message if is_cancellation(message) => {}
            _ => {
                self.conductor.unanswered.extend(id_of(&message));
                assert_same_call((side, message), self.conductor.calls.pop_front());
            }
        }
    }

    /// Checks that all messages arrive.
    fn end(mut self) {
        while self.arrive_at_proxy() || self.arrive_at_conductor() {}
        let waits = self.conductor.dialect.held_bytes() > 0;
        assert!(waits || self.proxy.calls.is_empty(), "lost: {:?}", self.proxy.calls);
        assert!(self.conductor.calls.is_empty(), "lost: {:?}", self.conductor.calls);
        assert!(self.proxy.answers.is_empty() && self.conductor.answers.is_empty());
    }
}

/// Asserts that members of the proxy handshake stay on the link.
fn assert_no_handshake_fields(json: Option<&Json>) {
    let text = json.map_or("", Json::as_str);
    assert!(!HANDSHAKE_FIELDS.iter().any(|word| text.contains(word)), "{text}");
}

/// Asserts that two results are equal but for the order of members and empty capabilities: removing the acceptance of
/// the proxy role can leave an empty object.
fn assert_equivalent(one: &Json, other: &Json) {
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

fn answer(unanswered: &mut Vec<Id>, choices: &mut Choices<'_>) -> Option<Message> {
    if unanswered.is_empty() {
        return None;
    }
    let id = unanswered.remove(choices.below(unanswered.len()));
    let value = Json::trusted(choices.text_of(&VALUES));
    let outcome =
        if choices.below(2) == 0 { Outcome::Result(value) } else { Outcome::Error(value) };
    Some(Message::response(id, outcome))
}

fn greeting_outcome(choices: &mut Choices<'_>) -> Outcome {
    let lines = choices.text_of(&ANSWERS);
    let value = Json::trusted(lines);
    if lines.contains("code") { Outcome::Error(value) } else { Outcome::Result(value) }
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

/// Asserts that a received call is the sent one. The oldest generations cannot omit params.
fn assert_same_call(received: (Side, Message), sent: Option<(Side, Message)>) {
    let mut sent = sent.expect("a call that was sent");
    if let (
        (_, Message::Request { call: received, .. } | Message::Notification(received)),
        (_, Message::Request { call, .. } | Message::Notification(call)),
    ) = (&received, &mut sent)
        && received.params == Some(Json::EMPTY_OBJECT)
        && call.params.is_none()
    {
        *call = Call { params: Some(Json::EMPTY_OBJECT), ..call.clone() };
    }
    assert_eq!(received, sent);
}
