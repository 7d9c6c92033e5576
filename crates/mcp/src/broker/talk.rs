//! Conversations between a consumer and a provider, at the provider's hop.
//!
//! What a consumer says comes in its own form and leaves in the provider's. Where both speak the same
//! form, messages pass as they are. The router does not know: a request is answered under the id it
//! was delivered with, whatever was said to the provider in between.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::{Seat, Time};

use super::inputs::Input;
use super::server::Server;
use super::{Cx, Step};
use crate::bridge::cancel;
use crate::form::{Address, Answer, Direction, Form};
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

pub fn deliver(to: Seat, toward: Side, message: Message, cx: &mut Cx<'_>) {
    cx.out.push(Step::Deliver { to, toward, message });
}

/// Answers a request that was delivered to a seat, in its place.
pub fn answer(seat: Seat, id: Id, outcome: Outcome, cx: &mut Cx<'_>) {
    let message = Message::response(id, outcome);
    cx.out.push(Step::Inject { from: seat, toward: Side::Agent, message });
}

pub fn message(id: Option<Id>, call: Call) -> Message {
    match id {
        Some(id) => Message::Request { id, call },
        None => Message::Notification(call),
    }
}

/// A provider does not wait any more for what it, or we in its place, asked the consumer.
pub fn take_back(ids: &Ids, seat: Seat, input: &Input, cx: &mut Cx<'_>) {
    for (number, ..) in input.answers.iter().filter(|(_, _, answer)| answer.is_none()) {
        let message = cancel(&ids.id(Purpose::Input, *number));
        cx.out.push(Step::Inject { from: seat, toward: Side::Agent, message });
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
    Some(form.say(Direction::ToClient, Address { server, connection, request: "" }, id, call))
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
