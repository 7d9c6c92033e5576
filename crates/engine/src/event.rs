//! What the core tells the stages, and what they want done. (`input` has the lists of the shell.)

use acp_wire::{Message, Side};
use bytes::Bytes;
use mcp::{ClientId, Endpoint, Ticket};
use router::{Ending, Exit, Seat};

use crate::input::{Command, Output};

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// `from` sent a message that travels toward `toward`.
    Arrived { from: Seat, toward: Side, message: Message },
    /// The component at `seat` has ended, or is treated as if it had.
    Left { seat: Seat, why: Exit },
    /// A component that did not survive a greeting was started again, with another one.
    Again { seat: Seat, why: Exit },
    /// An MCP client has connected, with this ticket.
    ClientConnected { ticket: Ticket, client_id: ClientId },
    /// An MCP client has sent a line.
    ClientMessage { client_id: ClientId, line: Bytes },
    /// An MCP client has disconnected.
    ClientDisconnected(ClientId),
    /// The answer to an [`Output::OpenEndpoint`]: the endpoint, or why it could not be opened.
    EndpointOpened { ticket: Ticket, endpoint: Result<Endpoint, String> },
    /// The user wants something.
    Command(Command),
    /// The [`deadline`](crate::stages::Stages::deadline) has come.
    Tick,
}

/// What to do, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start the component of this seat, with a fresh link.
    Start(Seat),
    /// Kill what is left of the component, at once. Nothing more is read from it.
    End(Seat),
    /// Write a message to a seat's link.
    Deliver { to: Seat, toward: Side, message: Message },
    /// What concerns no link goes to the shell as it is.
    Output(Output),
    /// The chain is over: write out what is queued, end the components. No action follows.
    Finish(Ending),
}
