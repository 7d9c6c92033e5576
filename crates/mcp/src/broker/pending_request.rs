//! A request that is not answered yet, and what the broker does with its answer.

use acp_wire::acp::SessionId;
use acp_wire::{Call, Id, Outcome, code};

use super::connections::ConnectionNumber;
use crate::bridge::SetUp;
use crate::form::Form;

/// A request whose answer the broker has to see.
#[derive(Debug)]
pub(super) enum PendingRequest {
    /// An `initialize` to the agent. Its answer declares the capabilities of the agent.
    Initialize,
    /// A set-up request to the agent.
    SetUp(Box<SetUp>),
    /// A request to the agent that closes this session.
    Close(SessionId),
    /// The first prompt of this session, whose end shows whether the agent has connected.
    Prompt(SessionId),
    /// A request to a provider.
    Provider(ProviderRequest),
}

/// A request to a provider, of a consumer or of the broker itself.
#[derive(Debug)]
pub(super) enum ProviderRequest {
    /// Opens a connection.
    Connect {
        connection: ConnectionNumber,
        form: Form,
        /// The id of the consumer's own connect.
        connect_id: Option<Id>,
        /// The consumer's connect was sent unchanged, so its result is passed on unchanged.
        unchanged: bool,
        /// The id that the broker proposes, for a provider that does not choose it (M3t).
        proposed_id: String,
    },
    /// `server/discover`: whether the server is stateless, and what it offers.
    Discover { connection: ConnectionNumber, after: AfterDiscover },
    /// An `initialize` that the broker sends in place of the consumer.
    Initialize { connection: ConnectionNumber, form: Form },
    /// An MCP request of a consumer.
    Forward {
        connection: ConnectionNumber,
        form: Form,
        inner_id: Option<Id>,
        request_id: String,
        /// The request, if it may have to be sent again. Empty otherwise.
        call: Call,
        /// How often the server has requested input.
        rounds: u8,
    },
    /// A stateless request to a server that may not be stateless.
    StatelessProbe { server: String, inner_id: Option<Id>, request_id: String, call: Call },
    /// A request of a stateless consumer to a stateless server, which passes unchanged.
    PassThrough { server: String, request_id: String },
    /// An `initialize` that has timed out. If the server answers it after all, the broker does not
    /// send another one.
    LateInitialize { connection: ConnectionNumber, form: Form, call: Call },
    /// A connect that is not needed any more. Its connection is closed as soon as its id is known.
    LateConnect { form: Form, proposed_id: String },
    /// An additional connect, because the first `initialize` is not answered.
    ExtraConnect { first: Id, form: Form, proposed_id: String },
    /// Closes a connection.
    Disconnect,
}

/// What the broker does after `server/discover`.
#[derive(Debug)]
pub(super) enum AfterDiscover {
    /// Answer the consumer's connect, if there is one.
    AnswerConnect { connect_id: Option<Id> },
    /// Answer the consumer's `initialize`.
    AnswerInitialize { id: Id, inner_id: Option<Id> },
}

/// Whether an error means that the provider does not know the request.
pub(super) fn is_unsupported(outcome: &Outcome) -> bool {
    let codes = [code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::INVALID_REQUEST];
    outcome.error_code().is_some_and(|code| codes.contains(&code))
}

impl ProviderRequest {
    /// The id of the consumer's own connect, which the answer to this request completes.
    pub(super) fn connect_id(&self) -> Option<&Id> {
        match self {
            ProviderRequest::Connect { connect_id, .. }
            | ProviderRequest::Discover {
                after: AfterDiscover::AnswerConnect { connect_id },
                ..
            } => connect_id.as_ref(),
            _ => None,
        }
    }

    /// The connection that the request belongs to.
    pub(super) fn connection(&self) -> Option<ConnectionNumber> {
        match self {
            ProviderRequest::Connect { connection, .. }
            | ProviderRequest::Discover { connection, .. }
            | ProviderRequest::Initialize { connection, .. }
            | ProviderRequest::LateInitialize { connection, .. }
            | ProviderRequest::Forward { connection, .. } => Some(*connection),
            ProviderRequest::StatelessProbe { .. }
            | ProviderRequest::PassThrough { .. }
            | ProviderRequest::LateConnect { .. }
            | ProviderRequest::ExtraConnect { .. }
            | ProviderRequest::Disconnect => None,
        }
    }
}
