//! Conversations between a consumer and a provider, at the provider's hop.
//!
//! What a consumer says comes in its own form and leaves in the provider's. Where both speak the same
//! form, messages pass as they are. The router does not know: a request is answered under the id it
//! was delivered with, whatever was said to the provider in between.

use std::collections::{BTreeMap, BTreeSet};

use router::{Seat, Time};
use wire::message::error_object;
use wire::{Call, Id, Json, Message, Outcome, Side, code};

use super::Step;
use super::repeat::Repeat;
use super::server::Server;
use crate::bridge::cancel;
use crate::deadlines::Deadlines;
use crate::form::{Address, Answer, Form, Way, Word};
use crate::ids::{Ids, Purpose};
use crate::stateless::Client;

/// How many bytes may wait for one server to be opened.
pub(crate) const MOST_WAITING: usize = 8 * 1024 * 1024;

/// How many bytes of requests are kept for each provider, in case its server asks back.
pub(super) const MOST_KEPT: usize = 16 * 1024 * 1024;

/// Roughly how much room a message takes.
pub(crate) fn size_of(call: &Call) -> usize {
    const OVERHEAD: usize = 256;
    let params = call.params.as_ref().map_or(0, |it| it.as_str().len());
    OVERHEAD + call.method.json().as_str().len() + params
}

/// How often a server may ask back before it answers.
pub(super) const ROUNDS: u8 = 16;

#[derive(Debug, Default)]
pub struct Talks {
    pub all: BTreeMap<u64, Talk>,
    /// By the id that a consumer knows.
    pub by_connection: BTreeMap<String, u64>,
    /// By the id that a provider knows.
    pub by_provider: BTreeMap<(Seat, String), u64>,
    /// What is being done, by provider and `requestId`: between a stateless side and one that is not.
    pub operations: BTreeMap<(Seat, String), Operation>,
    /// Answers of consumers that are spelt differently for the provider who asked.
    pub reversed: BTreeMap<(Seat, Id), Reversed>,
    /// What stateless servers want to know before they answer.
    pub inputs: BTreeMap<u64, Input>,
    /// Connections of which the agent has not heard yet.
    pub on_the_way: BTreeSet<u64>,
    /// Until when questions may be answered, if they have a limit.
    pub limits: Deadlines<(Seat, Id)>,
    /// Questions that are asked again, by the id of the first try.
    pub repeats: BTreeMap<(Seat, Id), Repeat>,
    /// When the next retry of each is due.
    pub retries: Deadlines<(Seat, Id)>,
    /// When something that waits for a conversation to be open has waited too long, or earlier.
    pub waits: Deadlines<u64>,
    /// The first try of each retry.
    pub copies: BTreeMap<(Seat, Id), Id>,
    /// The form in which a consumer has spoken last.
    pub spoken: Option<Form>,
    pub last: u64,
    /// The ids of what we ask consumers.
    pub ids: Ids,
}

#[derive(Debug)]
pub struct Talk {
    pub server: String,
    pub seat: Seat,
    pub consumer: Consumer,
    pub state: State,
    /// What the server answered to our own `initialize`, for a stateless consumer.
    pub hello: Option<Json>,
    /// How it began, to be said again if the provider is started anew.
    pub begun: Option<Begun>,
    /// The seat farthest from the provider that knows the connection: the consumer's, in the end.
    pub told_to: Seat,
    /// How many bytes wait for it to be open.
    pub held: usize,
    /// The server has left an `initialize` of this connection unanswered.
    pub unanswered: bool,
    /// The consumer has said goodbye, which may not have come to the provider yet.
    pub leaving: bool,
}

/// What a consumer has said of itself, and its server has taken.
#[derive(Debug, Clone)]
pub struct Begun {
    /// Its `initialize`.
    pub hello: Call,
    /// It has said `notifications/initialized`, too.
    pub ready: bool,
}

/// How the other side knows this conversation.
#[derive(Debug, Clone)]
pub enum Consumer {
    Connection {
        form: Form,
        id: String,
    },
    /// By the server's id, or name, as it says it.
    Server {
        form: Form,
        id: String,
    },
    Stateless,
}

#[derive(Debug)]
pub enum State {
    /// What is said waits.
    Opening(Vec<Item>),
    /// The same; we have said `initialize` for a consumer that does not.
    Greeting {
        form: Form,
        connection: String,
        waiting: Vec<Item>,
    },
    Open {
        form: Form,
        connection: String,
    },
    Stateless(Client),
}

/// Something that a consumer says.
#[derive(Debug, Clone)]
pub struct Item {
    /// Under which it is to be answered.
    pub id: Option<Id>,
    /// What the inner message calls itself.
    pub inner: Option<Id>,
    pub request: String,
    pub call: Call,
    /// The message as it came.
    pub original: Option<Call>,
    /// When it is answered with an error, if the server has not answered.
    pub until: Option<Time>,
}

#[derive(Debug)]
pub struct Operation {
    pub talk: u64,
    pub token: Option<Json>,
    /// What the other side calls it.
    pub request: String,
}

#[derive(Debug)]
pub struct Reversed {
    pub provider: Form,
    pub consumer: Form,
    /// How the provider calls its server.
    pub server: String,
    pub inner: Option<Id>,
}

/// Questions of a server that the consumer is asked before the server can answer.
#[derive(Debug)]
pub struct Input {
    pub talk: u64,
    pub id: Id,
    pub call: Call,
    pub inner: Option<Id>,
    pub state: Option<Json>,
    pub rounds: u8,
    /// By our number of the question: its name, and the answer.
    pub answers: Vec<(u64, String, Option<Json>)>,
}

/// Something that a provider was asked.
#[derive(Debug)]
pub enum Question {
    Connect {
        talk: u64,
        form: Form,
        asked: Option<Id>,
        alike: bool,
        /// How the connection is to be called, if its provider does not choose that itself (M3t).
        chosen: String,
    },
    /// Is it stateless? And then: what does it offer?
    Discover {
        talk: u64,
        then: Then,
    },
    Hello {
        talk: u64,
        form: Form,
    },
    Say {
        talk: u64,
        form: Form,
        inner: Option<Id>,
        request: String,
        call: Call,
        rounds: u8,
    },
    /// A stateless request to a server of which it is not known whether it is.
    Trial {
        server: String,
        inner: Option<Id>,
        request: String,
        call: Call,
    },
    /// A request of a stateless consumer to a stateless server, which passes as it is.
    Passed {
        server: String,
        request: String,
    },
    /// An `initialize` that was given up. If the server takes it after all, it need not be greeted
    /// again.
    LateHello {
        talk: u64,
        form: Form,
        call: Call,
    },
    /// A connect that is not needed any more: the connection is closed when it is known.
    Late {
        form: Form,
        chosen: String,
    },
    /// A connect for a second `initialize`: the first one is still unanswered.
    Spare {
        first: Id,
        form: Form,
        chosen: String,
    },
    Goodbye,
}

/// What a discovery is for.
#[derive(Debug)]
pub enum Then {
    /// Answer the consumer's connect, if it was one.
    Open { asked: Option<Id> },
    /// Answer the consumer's `initialize`.
    Hello { id: Id, inner: Option<Id> },
}

pub fn is_ignorance(outcome: &Outcome) -> bool {
    let codes = [code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::INVALID_REQUEST];
    outcome.error_code().is_some_and(|code| codes.contains(&code))
}

impl Question {
    /// The consumer's own connect that it is to answer.
    pub fn asked(&self) -> Option<&Id> {
        match self {
            Question::Connect { asked, .. }
            | Question::Discover { then: Then::Open { asked }, .. } => asked.as_ref(),
            _ => None,
        }
    }

    /// The conversation that it belongs to.
    pub fn talk(&self) -> Option<u64> {
        match self {
            Question::Connect { talk, .. }
            | Question::Discover { talk, .. }
            | Question::Hello { talk, .. }
            | Question::LateHello { talk, .. }
            | Question::Say { talk, .. } => Some(*talk),
            Question::Trial { .. }
            | Question::Passed { .. }
            | Question::Late { .. }
            | Question::Spare { .. }
            | Question::Goodbye => None,
        }
    }
}

impl Talk {
    /// Does the provider get what the consumer says as the consumer says it?
    pub fn is_alike(&self, server: &Server) -> bool {
        let State::Open { form, connection } = &self.state else { return false };
        match &self.consumer {
            Consumer::Connection { form: theirs, id } => {
                theirs.talks_like(*form) && id == connection
            }
            Consumer::Server { form: theirs, id } => theirs == form && *id == server.native,
            Consumer::Stateless => false,
        }
    }

    /// Takes note of what begins a conversation.
    pub fn begins(&mut self, hello: &Call) {
        self.begun = Some(Begun { hello: hello.detached(), ready: false });
    }

    pub fn is_ready(&mut self) {
        self.begun.iter_mut().for_each(|begun| begun.ready = true);
    }

    /// What is known of the consumer where there are no connections.
    pub fn client(&self) -> Client {
        self.begun.as_ref().map_or_else(Client::unknown, |begun| Client::of(&begun.hello))
    }

    pub fn waiting(&self) -> Option<&Vec<Item>> {
        match &self.state {
            State::Opening(waiting) | State::Greeting { waiting, .. } => Some(waiting),
            State::Open { .. } | State::Stateless(_) => None,
        }
    }

    /// What waits for the conversation to be open.
    pub fn waiting_mut(&mut self) -> Option<&mut Vec<Item>> {
        match &mut self.state {
            State::Opening(waiting) | State::Greeting { waiting, .. } => Some(waiting),
            State::Open { .. } | State::Stateless(_) => None,
        }
    }
}

impl Talks {
    pub fn len(&self) -> usize {
        self.all.len() + self.operations.len() + self.reversed.len() + self.inputs.len()
    }

    /// Is this an answer to what we asked a consumer in a server's place?
    pub fn is_input(&self, id: &Id) -> bool {
        self.ids.number(Purpose::Input, id).is_some()
    }

    pub fn waits_for_consumers(&self) -> bool {
        !self.reversed.is_empty() || !self.inputs.is_empty()
    }

    pub fn with(&self, connection: &str) -> Option<&Talk> {
        self.all.get(self.by_connection.get(connection)?)
    }

    pub fn of_provider(&self, seat: Seat, connection: &str) -> Option<u64> {
        self.by_provider.get(&(seat, connection.to_owned())).copied()
    }

    /// The form that a consumer speaks. M2 and M3 connect alike; only by what it says is it seen
    /// which one it is, and then it always was.
    pub fn recognize(&mut self, form: Form, word: &Word) -> Form {
        if let Word::Say { .. } = word {
            self.spoken = Some(form);
        }
        if self.spoken != Some(Form::M2) {
            return form;
        }
        let theirs = self.all.values_mut().filter_map(|talk| match &mut talk.consumer {
            Consumer::Connection { form, .. } if *form == Form::M3 => Some(form),
            _ => None,
        });
        theirs.for_each(|form| *form = Form::M2);
        if form == Form::M3 { Form::M2 } else { form }
    }

    pub fn forget(&mut self, seat: Seat) {
        self.all.retain(|_, talk| talk.seat != seat);
        let all = &self.all;
        self.by_connection.retain(|_, talk| all.contains_key(talk));
        self.on_the_way.retain(|talk| all.contains_key(talk));
        self.inputs.retain(|_, input| all.contains_key(&input.talk));
        self.void(seat);
    }

    /// What a provider had open, as it knew it, is over.
    pub fn void(&mut self, seat: Seat) {
        self.by_provider.retain(|(whose, _), _| *whose != seat);
        self.operations.retain(|(whose, _), _| *whose != seat);
        self.reversed.retain(|(whose, _), _| *whose != seat);
        self.limits.retain(|(whose, _)| *whose != seat);
        self.retries.retain(|(whose, _)| *whose != seat);
        self.repeats.retain(|(whose, _), _| *whose != seat);
        self.copies.retain(|(whose, _), _| *whose != seat);
    }

    /// Has the consumer been told how its connection is called?
    pub fn is_told(&self, number: u64) -> bool {
        match self.all.get(&number).map(|talk| &talk.consumer) {
            Some(Consumer::Connection { id, .. }) => self.by_connection.get(id) == Some(&number),
            _ => false,
        }
    }

    pub fn add(&mut self, talk: Talk) -> u64 {
        self.last += 1;
        self.all.insert(self.last, talk);
        self.last
    }

    pub fn remove(&mut self, number: u64) -> Option<Talk> {
        let talk = self.all.remove(&number)?;
        self.waits.remove(&number);
        self.by_connection.retain(|_, it| *it != number);
        self.on_the_way.remove(&number);
        self.by_provider.retain(|_, it| *it != number);
        self.operations.retain(|_, it| it.talk != number);
        Some(talk)
    }

    /// Takes the questions of servers that belong to a conversation.
    pub fn take_inputs(&mut self, test: impl Fn(&Input) -> bool) -> Vec<Input> {
        self.inputs.extract_if(.., |_, input| test(input)).map(|(_, input)| input).collect()
    }

    pub fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

pub fn deliver(to: Seat, toward: Side, message: Message, steps: &mut Vec<Step>) {
    steps.push(Step::Deliver { to, toward, message });
}

/// Answers a request that was delivered to a seat, in its place.
pub fn answer(seat: Seat, id: Id, outcome: Outcome, steps: &mut Vec<Step>) {
    let message = Message::response(id, outcome);
    steps.push(Step::Arrive { from: seat, toward: Side::Agent, message });
}

pub fn message(id: Option<Id>, call: Call) -> Message {
    match id {
        Some(id) => Message::Request { id, call },
        None => Message::Notification(call),
    }
}

/// A provider does not wait any more for what it, or we in its place, asked the consumer.
pub fn take_back(ids: &Ids, seat: Seat, input: &Input, steps: &mut Vec<Step>) {
    for (number, ..) in input.answers.iter().filter(|(_, _, answer)| answer.is_none()) {
        let message = cancel(&ids.id(Purpose::Input, *number));
        steps.push(Step::Arrive { from: seat, toward: Side::Agent, message });
    }
}

/// Why nothing more comes of what was asked in a conversation that is over.
pub fn closed() -> Json {
    error_object(code::INTERNAL_ERROR, "the connection to the MCP server was closed", None)
}

pub fn cancelled() -> Outcome {
    Outcome::Error(cancellation())
}

pub fn cancellation() -> Json {
    error_object(code::CANCELLED, "the request was cancelled", None)
}

/// The answer to a consumer, in its form.
pub fn close(talk: &Talk, server: &Server, inner: Option<&Id>, answer: Answer) -> Outcome {
    let (form, id) = match &talk.consumer {
        Consumer::Connection { form, .. } => (*form, server.name.as_str()),
        Consumer::Server { form, id } => (*form, id.as_str()),
        Consumer::Stateless => (Form::M7, ""),
    };
    form.close(Address { server: id, connection: "", request: "" }, inner, answer)
}

/// A message to a consumer, in its form.
pub fn to_consumer(
    consumer: &Consumer,
    server: &str,
    id: Option<&Id>,
    call: &Call,
) -> Option<Call> {
    let (form, server, connection) = match consumer {
        Consumer::Connection { form, id } => (form, server, id.as_str()),
        Consumer::Server { form, id } => (form, id.as_str(), ""),
        Consumer::Stateless => return None,
    };
    Some(form.say(Way::ToClient, Address { server, connection, request: "" }, id, call))
}

/// Why a stateless consumer cannot be served: what the server said is not the answer to its question.
pub fn backend_failed(error: &Json) -> Json {
    let text = error.member("message").and_then(|it| it.text().map(|it| it.into_owned()));
    let text = text.unwrap_or_default();
    error_object(
        code::BACKEND_FAILED,
        &format!("the MCP server could not be opened: {text}"),
        Some(error),
    )
}

/// An error of ACP for somebody who speaks MCP: its code would mean something else there.
pub fn not_mcp(error: &Json) -> Json {
    let text = error.member("message").and_then(|it| it.text().map(|it| it.into_owned()));
    let text = text.unwrap_or_else(|| "the MCP server could not be asked".into());
    error_object(code::INTERNAL_ERROR, &text, Some(error))
}
