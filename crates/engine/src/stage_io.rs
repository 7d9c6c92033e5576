//! What [`Core`](crate::Core) passes to the [stages](crate::stages), and what the stages return.
//!
//! These two types are used only inside the core. [`input`](crate::input) has the types between the core and the shell.

use acp_wire::{Message, Side};
use bytes::Bytes;
use mcp::{ClientId, Endpoint, Ticket};
use router::{Ending, Exit, Seat};

use crate::input::{Command, Configured, Output, Reload};

/// An event that the stages handle.
#[derive(Debug, Clone)]
pub enum StageInput {
    /// A peer has sent a message.
    Arrived {
        /// The sender.
        from: Seat,
        /// The side that the message travels toward.
        toward: Side,
        /// The message, without its envelope.
        message: Message,
    },
    /// A component has ended, or is treated as ended. On the outer pipe: the editor has closed the connection.
    Ended {
        /// Its seat.
        seat: Seat,
        /// How it ended.
        exit: Exit,
    },
    /// A component ended during its first greeting and was started again with another greeting.
    GreetingRetried {
        /// Its seat.
        seat: Seat,
        /// How it ended.
        exit: Exit,
    },
    /// See [`Input::ClientConnected`](crate::Input::ClientConnected).
    ClientConnected {
        /// The ticket that the client presented.
        ticket: Ticket,
        /// The id of the new connection.
        client_id: ClientId,
    },
    /// See [`Input::ClientMessage`](crate::Input::ClientMessage).
    ClientMessage {
        /// The client's connection.
        client_id: ClientId,
        /// The line.
        line: Bytes,
    },
    /// See [`Input::ClientDisconnected`](crate::Input::ClientDisconnected).
    ClientDisconnected(ClientId),
    /// See [`Input::EndpointOpened`](crate::Input::EndpointOpened).
    EndpointOpened {
        /// The ticket of the endpoint.
        ticket: Ticket,
        /// The endpoint that is open, or why it could not be opened.
        endpoint: Result<Endpoint, String>,
    },
    /// See [`Input::Configured`](crate::Input::Configured).
    Configured {
        /// The number of the request.
        request: u64,
        /// The answer, or what is wrong.
        answer: Result<Configured, String>,
    },
    /// The user has given a command.
    Command(Command),
    /// The chain is at rest, or has not started, and gets another configuration.
    Reload(Box<Reload>),
    /// There is a newer configuration for these components, which are not live yet.
    Superseded(Vec<Seat>),
    /// This configuration waits. It ends the components that it removes or restarts.
    Hurry(Box<Reload>),
    /// The [`deadline`](crate::stages::Stages::deadline) has passed.
    Tick,
}

/// An action that [`Core`](crate::Core) performs for the stages. Outputs are performed in order.
#[derive(Debug, Clone, PartialEq)]
pub enum StageOutput {
    /// Prepare these seats for components that join the chain.
    Prepare(Vec<Seat>),
    /// Start the component of this seat, with a new link.
    Start(Seat),
    /// The component of this seat has its previous configuration again.
    Revert {
        /// The seat.
        seat: Seat,
        /// Why it does not run with the new one.
        why: String,
    },
    /// Kill the process of a component, if it still runs. Nothing more is read from it.
    Discard(Seat),
    /// Write a message to the link of a seat.
    Deliver {
        /// The receiver.
        to: Seat,
        /// The side that the message travels toward.
        toward: Side,
        /// The message, without an envelope.
        message: Message,
    },
    /// Pass this to the shell. It concerns no link.
    Output(Output),
    /// The chain has ended: write the queued bytes and stop the components. No output follows.
    Finish(Ending),
}
