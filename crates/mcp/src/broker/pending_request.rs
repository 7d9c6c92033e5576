//! What a component was asked, and why its answer is waited for.

use acp_wire::acp::SessionId;
use acp_wire::{Call, Id, Outcome, code};

use super::connections::ConnectionNumber;
use crate::bridge::SetUp;
use crate::form::Form;

/// Why an answer is waited for.
#[derive(Debug)]
pub enum PendingRequest {
    /// The agent says what it can do.
    Initialize,
    SetUp(Box<SetUp>),
    Close(SessionId),
    Prompt(SessionId),
    /// A provider answers what a consumer, or we ourselves, asked.
    Provider(ProviderRequest),
}

/// Something that a provider was asked.
#[derive(Debug)]
pub enum ProviderRequest {
    Connect {
        connection: ConnectionNumber,
        form: Form,
        connect_id: Option<Id>,
        unchanged: bool,
        /// How the connection is to be called, if its provider does not choose that itself (M3t).
        proposed_id: String,
    },
    /// Is it stateless? And then: what does it offer?
    Discover {
        connection: ConnectionNumber,
        then: AfterDiscover,
    },
    Initialize {
        connection: ConnectionNumber,
        form: Form,
    },
    Forward {
        connection: ConnectionNumber,
        form: Form,
        inner_id: Option<Id>,
        request_id: String,
        call: Call,
        rounds: u8,
    },
    /// A stateless request to a server of which it is not known whether it is.
    StatelessProbe {
        server: String,
        inner_id: Option<Id>,
        request_id: String,
        call: Call,
    },
    /// A request of a stateless consumer to a stateless server, which passes as it is.
    PassThrough {
        server: String,
        request_id: String,
    },
    /// An `initialize` that was given up. If the server takes it after all, it need not be greeted
    /// again.
    LateInitialize {
        connection: ConnectionNumber,
        form: Form,
        call: Call,
    },
    /// A connect that is not needed any more: the connection is closed when it is known.
    LateConnect {
        form: Form,
        proposed_id: String,
    },
    /// A connect for a second `initialize`: the first one is still unanswered.
    ExtraConnect {
        first: Id,
        form: Form,
        proposed_id: String,
    },
    Disconnect,
}

/// What a discovery is for.
#[derive(Debug)]
pub enum AfterDiscover {
    /// Answer the consumer's connect, if it was one.
    AnswerConnect { connect_id: Option<Id> },
    /// Answer the consumer's `initialize`.
    AnswerInitialize { id: Id, inner_id: Option<Id> },
}

pub fn is_unsupported(outcome: &Outcome) -> bool {
    let codes = [code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::INVALID_REQUEST];
    outcome.error_code().is_some_and(|code| codes.contains(&code))
}

impl ProviderRequest {
    /// The consumer's own connect that it is to answer.
    pub fn connect_id(&self) -> Option<&Id> {
        match self {
            ProviderRequest::Connect { connect_id, .. }
            | ProviderRequest::Discover {
                then: AfterDiscover::AnswerConnect { connect_id }, ..
            } => connect_id.as_ref(),
            _ => None,
        }
    }

    /// The conversation that it belongs to.
    pub fn connection(&self) -> Option<ConnectionNumber> {
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
