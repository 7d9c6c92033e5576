//! What a component was asked, and why its answer is waited for.

use acp_wire::acp::SessionId;
use acp_wire::{Call, Id, Outcome, code};

use crate::bridge::SetUp;
use crate::form::Form;

/// Why an answer is waited for.
#[derive(Debug)]
pub enum Watch {
    /// The agent says what it can do.
    Initialize,
    SetUp(Box<SetUp>),
    Close(SessionId),
    Prompt(SessionId),
    /// A provider answers what a consumer, or we ourselves, asked.
    Question(Question),
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
