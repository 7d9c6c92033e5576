//! Conversations between a consumer and a provider, at the provider's hop.
//!
//! What a consumer says comes in its own form and leaves in the provider's. Where both speak the same
//! form, messages pass as they are. The router does not know: a request is answered under the id it
//! was delivered with, whatever was said to the provider in between.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::{Seat, Time};

use super::input_requests::PendingInput;
use super::server::Server;
use super::{Context, Step};
use crate::bridge::cancel;
use crate::form::{Address, Answer, Direction, Form};
use crate::ids::{Purpose, RequestIds};
use crate::stateless::ClientInfo;

/// How many bytes may wait for one server to be opened.
pub(crate) const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// How many bytes of requests are kept for each provider, in case its server asks back.
pub(super) const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;

/// Roughly how much room a message takes.
pub(crate) fn size_of(call: &Call) -> usize {
    const OVERHEAD: usize = 256;
    let params = call.params.as_ref().map_or(0, |it| it.as_str().len());
    OVERHEAD + call.method.json().as_str().len() + params
}

/// How often a server may ask back before it answers.
pub(super) const MAX_INPUT_ROUNDS: u8 = 16;

#[derive(Debug)]
pub struct Connection {
    pub server: String,
    pub seat: Seat,
    pub consumer: Consumer,
    pub state: ConnectionState,
    /// What the server answered to our own `initialize`, for a stateless consumer.
    pub initialize_result: Option<Json>,
    /// How it began, to be said again if the provider is started anew.
    pub handshake: Option<ConsumerHandshake>,
    /// The seat farthest from the provider that knows the connection: the consumer's, in the end.
    pub known_to: Seat,
    /// How many bytes wait for it to be open.
    pub queued_bytes: usize,
    /// The server has left an `initialize` of this connection unanswered.
    pub initialize_unanswered: bool,
    /// The consumer has said goodbye, which may not have come to the provider yet.
    pub is_closing: bool,
}

/// What a consumer has said of itself, and its server has taken.
#[derive(Debug, Clone)]
pub struct ConsumerHandshake {
    /// Its `initialize`.
    pub initialize: Call,
    /// It has said `notifications/initialized`, too.
    pub is_initialized: bool,
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
pub enum ConnectionState {
    /// What is said waits.
    Opening(Vec<ConsumerMessage>),
    /// The same; we have said `initialize` for a consumer that does not.
    Initializing {
        form: Form,
        connection_id: String,
        queued: Vec<ConsumerMessage>,
    },
    Open {
        form: Form,
        connection_id: String,
    },
    Stateless(ClientInfo),
}

/// Something that a consumer says.
#[derive(Debug, Clone)]
pub struct ConsumerMessage {
    /// Under which it is to be answered.
    pub id: Option<Id>,
    /// What the inner message calls itself.
    pub inner_id: Option<Id>,
    pub request_id: String,
    pub call: Call,
    /// The message as it came.
    pub original: Option<Call>,
    /// When it is answered with an error, if the server has not answered.
    pub deadline: Option<Time>,
}

impl Connection {
    /// Does the provider get what the consumer says as the consumer says it?
    pub fn passes_unchanged(&self, server: &Server) -> bool {
        let ConnectionState::Open { form, connection_id } = &self.state else { return false };
        match &self.consumer {
            Consumer::Connection { form: theirs, id } => {
                theirs.shares_messages_with(*form) && id == connection_id
            }
            Consumer::Server { form: theirs, id } => theirs == form && *id == server.provider_id,
            Consumer::Stateless => false,
        }
    }

    /// Takes note of what begins a conversation.
    pub fn record_initialize(&mut self, initialize: &Call) {
        self.handshake =
            Some(ConsumerHandshake { initialize: initialize.detached(), is_initialized: false });
    }

    pub fn record_initialized(&mut self) {
        self.handshake.iter_mut().for_each(|handshake| handshake.is_initialized = true);
    }

    /// What is known of the consumer where there are no connections.
    pub fn client(&self) -> ClientInfo {
        self.handshake
            .as_ref()
            .map_or_else(ClientInfo::unknown, |handshake| ClientInfo::of(&handshake.initialize))
    }

    pub fn queued(&self) -> Option<&Vec<ConsumerMessage>> {
        match &self.state {
            ConnectionState::Opening(queued) | ConnectionState::Initializing { queued, .. } => {
                Some(queued)
            }
            ConnectionState::Open { .. } | ConnectionState::Stateless(_) => None,
        }
    }

    /// What waits for the conversation to be open.
    pub fn queued_mut(&mut self) -> Option<&mut Vec<ConsumerMessage>> {
        match &mut self.state {
            ConnectionState::Opening(queued) | ConnectionState::Initializing { queued, .. } => {
                Some(queued)
            }
            ConnectionState::Open { .. } | ConnectionState::Stateless(_) => None,
        }
    }
}

pub fn deliver(to: Seat, toward: Side, message: Message, cx: &mut Context<'_>) {
    cx.out.push(Step::Deliver { to, toward, message });
}

/// Answers a request that was delivered to a seat, in its place.
pub fn answer(seat: Seat, id: Id, outcome: Outcome, cx: &mut Context<'_>) {
    let message = Message::response(id, outcome);
    cx.out.push(Step::Inject { from: seat, toward: Side::Agent, message });
}

pub fn request_or_notification(id: Option<Id>, call: Call) -> Message {
    match id {
        Some(id) => Message::Request { id, call },
        None => Message::Notification(call),
    }
}

/// A provider does not wait any more for what it, or we in its place, asked the consumer.
pub fn cancel_input_requests(
    ids: &RequestIds,
    seat: Seat,
    input: &PendingInput,
    cx: &mut Context<'_>,
) {
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
    Outcome::Error(cancelled_error())
}

pub fn cancelled_error() -> Json {
    error_object(code::CANCELLED, "the request was cancelled", None)
}

/// The answer to a consumer, in its form.
pub fn encode_answer_for(
    connection: &Connection,
    server: &Server,
    inner_id: Option<&Id>,
    answer: Answer,
) -> Outcome {
    let (form, id) = match &connection.consumer {
        Consumer::Connection { form, .. } => (*form, server.name.as_str()),
        Consumer::Server { form, id } => (*form, id.as_str()),
        Consumer::Stateless => (Form::M7, ""),
    };
    form.encode_answer(Address { server: id, connection_id: "", request_id: "" }, inner_id, answer)
}

/// A message to a consumer, in its form.
pub fn encode_call_for(
    consumer: &Consumer,
    server: &str,
    id: Option<&Id>,
    call: &Call,
) -> Option<Call> {
    let (form, server, connection_id) = match consumer {
        Consumer::Connection { form, id } => (form, server, id.as_str()),
        Consumer::Server { form, id } => (form, id.as_str(), ""),
        Consumer::Stateless => return None,
    };
    Some(form.encode_message(
        Direction::ToClient,
        Address { server, connection_id, request_id: "" },
        id,
        call,
    ))
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
pub fn as_mcp_error(error: &Json) -> Json {
    let text = error.member("message").and_then(|it| it.text().map(|it| it.into_owned()));
    let text = text.unwrap_or_else(|| "the MCP server could not be asked".into());
    error_object(code::INTERNAL_ERROR, &text, Some(error))
}
