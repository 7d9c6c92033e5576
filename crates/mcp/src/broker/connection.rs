//! A connection between a consumer and a server, and the helpers that encode its messages.
//!
//! The consumer's messages arrive in the consumer's form and leave in the provider's form. If both
//! use the same form, messages pass unchanged. The router does not notice the translation: each
//! request is answered under the id it was delivered with.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::{Seat, Time};

use super::input_requests::PendingInput;
use super::server::Server;
use super::{Action, Context};
use crate::bridge::cancel_notification;
use crate::form::{Address, Answer, Direction, Form};
use crate::ids::{Purpose, RequestIds};
use crate::stateless::ClientInfo;

/// The most bytes that may be queued for one connection, or one MCP client, until the connection is
/// open.
pub(crate) const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// The most bytes of requests that are kept for each provider, to repeat them when its server
/// requests input.
pub(super) const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;

/// The approximate size of a message in memory.
pub(crate) fn memory_size(call: &Call) -> usize {
    const OVERHEAD: usize = 256;
    let params = call.params.as_ref().map_or(0, |it| it.as_str().len());
    OVERHEAD + call.method.json().as_str().len() + params
}

/// How often a server may request input before it answers.
pub(super) const MAX_INPUT_ROUNDS: u8 = 16;

/// A consumer's connection to a server.
#[derive(Debug)]
pub(super) struct Connection {
    /// The id of the server in the registry.
    pub server: String,
    /// The seat of the provider.
    pub seat: Seat,
    /// The side of the consumer.
    pub consumer: Consumer,
    /// The side of the provider.
    pub state: ConnectionState,
    /// The answer of the server to an `initialize` that the broker has sent in place of the consumer.
    pub initialize_result: Option<Json>,
    /// The handshake of the consumer. It is repeated if the provider is restarted.
    pub handshake: Option<ConsumerHandshake>,
    /// The seat farthest from the provider that has seen the id of the connection. In the end this
    /// is the seat of the consumer.
    pub known_to: Seat,
    /// How many bytes are queued until the connection is open.
    pub queued_bytes: usize,
    /// The server has not answered an `initialize` on this connection.
    pub initialize_unanswered: bool,
    /// The consumer has sent a disconnect, which may not have reached the provider yet.
    pub is_closing: bool,
}

/// The handshake of a consumer, as far as its server has accepted it.
#[derive(Debug, Clone)]
pub(super) struct ConsumerHandshake {
    /// The `initialize` request.
    pub initialize: Call,
    /// The consumer has also sent `notifications/initialized`.
    pub is_initialized: bool,
}

/// How the consumer identifies the connection.
#[derive(Debug, Clone)]
pub(super) enum Consumer {
    /// By the id of a connection.
    Connection { form: Form, id: String },
    /// By the id or name of the server, as the consumer writes it (M0, M1).
    Server { form: Form, id: String },
    /// Not at all: its requests are stateless (M7).
    Stateless,
}

/// The state of a connection at the side of the provider.
#[derive(Debug)]
pub(super) enum ConnectionState {
    /// The connection is not open yet. Messages are queued.
    Opening(Vec<ConsumerMessage>),
    /// The connection is open, and the broker has sent `initialize` in place of the consumer. Messages are
    /// queued.
    Initializing { form: Form, connection_id: String, queued: Vec<ConsumerMessage> },
    /// The connection is open.
    Open { form: Form, connection_id: String },
    /// The server is stateless. There is no connection on the side of the provider.
    Stateless(ClientInfo),
}

/// A message of a consumer.
#[derive(Debug, Clone)]
pub(super) struct ConsumerMessage {
    /// The id under which a request is answered.
    pub id: Option<Id>,
    /// The id of the inner message (M0, M1).
    pub inner_id: Option<Id>,
    /// The `requestId` of a stateless consumer, or empty.
    pub request_id: String,
    /// The MCP message.
    pub call: Call,
    /// The message as it arrived, with its envelope.
    pub original: Option<Call>,
    /// When the request times out.
    pub deadline: Option<Time>,
}

impl Connection {
    /// Whether messages of the consumer reach the provider unchanged.
    pub(super) fn passes_unchanged(&self, server: &Server) -> bool {
        let ConnectionState::Open { form, connection_id } = &self.state else { return false };
        match &self.consumer {
            Consumer::Connection { form: consumer_form, id } => {
                consumer_form.shares_messages_with(*form) && id == connection_id
            }
            Consumer::Server { form: consumer_form, id } => {
                consumer_form == form && *id == server.provider_id
            }
            Consumer::Stateless => false,
        }
    }

    /// Records an `initialize` that the server has accepted.
    pub(super) fn record_initialize(&mut self, initialize: &Call) {
        self.handshake =
            Some(ConsumerHandshake { initialize: initialize.detached(), is_initialized: false });
    }

    /// Records that the consumer has sent `notifications/initialized`.
    pub(super) fn record_initialized(&mut self) {
        self.handshake.iter_mut().for_each(|handshake| handshake.is_initialized = true);
    }

    /// What the consumer has declared about itself, for a stateless server.
    pub(super) fn client(&self) -> ClientInfo {
        self.handshake
            .as_ref()
            .map_or_else(ClientInfo::unknown, |handshake| ClientInfo::of(&handshake.initialize))
    }

    /// The messages that wait until the connection is open.
    pub(super) fn queued(&self) -> Option<&Vec<ConsumerMessage>> {
        match &self.state {
            ConnectionState::Opening(queued) | ConnectionState::Initializing { queued, .. } => {
                Some(queued)
            }
            ConnectionState::Open { .. } | ConnectionState::Stateless(_) => None,
        }
    }

    /// The messages that wait until the connection is open, to be changed.
    pub(super) fn queued_mut(&mut self) -> Option<&mut Vec<ConsumerMessage>> {
        match &mut self.state {
            ConnectionState::Opening(queued) | ConnectionState::Initializing { queued, .. } => {
                Some(queued)
            }
            ConnectionState::Open { .. } | ConnectionState::Stateless(_) => None,
        }
    }
}

/// Writes a message to the link of a seat.
pub(super) fn deliver(to: Seat, toward: Side, message: Message, cx: &mut Context<'_>) {
    cx.out.push(Action::Deliver { to, toward, message });
}

/// Answers a request that the router has delivered to a seat, in place of the component.
pub(super) fn answer(seat: Seat, id: Id, outcome: Outcome, cx: &mut Context<'_>) {
    let message = Message::response(id, outcome);
    cx.out.push(Action::Inject { from: seat, toward: Side::Agent, message });
}

/// A request if there is an id, a notification otherwise.
pub(super) fn request_or_notification(id: Option<Id>, call: Call) -> Message {
    match id {
        Some(id) => Message::Request { id, call },
        None => Message::Notification(call),
    }
}

/// Cancels the unanswered requests that the broker has sent to a consumer on behalf of a server.
pub(super) fn cancel_input_requests(
    ids: &RequestIds,
    seat: Seat,
    input: &PendingInput,
    cx: &mut Context<'_>,
) {
    for (number, ..) in input.answers.iter().filter(|(_, _, answer)| answer.is_none()) {
        let message = cancel_notification(&ids.id(Purpose::Input, *number));
        cx.out.push(Action::Inject { from: seat, toward: Side::Agent, message });
    }
}

/// The error for requests on a connection that is closed.
pub(super) fn connection_closed_error() -> Json {
    error_object(code::INTERNAL_ERROR, "the connection to the MCP server was closed", None)
}

/// The outcome of a cancelled request.
pub(crate) fn cancelled_outcome() -> Outcome {
    Outcome::Error(cancelled_error())
}

/// The error of a cancelled request.
pub(super) fn cancelled_error() -> Json {
    error_object(code::CANCELLED, "the request was cancelled", None)
}

/// Encodes an answer for the consumer, in its form.
pub(super) fn encode_answer_for(
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

/// Encodes a message for a consumer, in its form. `None` for a stateless consumer.
pub(super) fn encode_call_for(
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

/// The error for a stateless consumer whose server could not be opened.
pub(super) fn backend_failed_error(error: &Json) -> Json {
    let text = error.member("message").and_then(|it| it.text().map(|it| it.into_owned()));
    let text = text.unwrap_or_default();
    error_object(
        code::SERVER_FAILED,
        &format!("the MCP server could not be opened: {text}"),
        Some(error),
    )
}

/// Converts an ACP error for an MCP client. The code of an ACP error has another meaning in MCP.
pub(super) fn as_mcp_error(error: &Json) -> Json {
    let text = error.member("message").and_then(|it| it.text().map(|it| it.into_owned()));
    let text = text.unwrap_or_else(|| "the request did not reach the MCP server".into());
    error_object(code::INTERNAL_ERROR, &text, Some(error))
}
