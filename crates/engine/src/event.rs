//! What the core tells the stages, and what they want done. (`input` has the lists of the shell.)

use bytes::Bytes;
use mcp::{Caller, Place, Ticket};
use router::{Ending, Exit, Kind, Notice, Seat};
use wire::{Message, Side};

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// `from` sent a message that travels toward `toward`.
    Arrived {
        from: Seat,
        toward: Side,
        message: Message,
    },
    /// The component at `seat` has ended, or is treated as if it had.
    Left {
        seat: Seat,
        why: Exit,
    },
    /// A component that did not survive a greeting was started again, with another one.
    Again {
        seat: Seat,
        why: Exit,
    },
    /// An MCP client has connected, has sent a line, or has left.
    Called {
        ticket: Ticket,
        caller: Caller,
    },
    Heard {
        caller: Caller,
        line: Bytes,
    },
    HungUp(Caller),
    /// The place that an [`Action::Admit`] asked for is open, or could not be opened.
    Admitted {
        ticket: Ticket,
        place: Result<Place, String>,
    },
    /// The conductor was asked to end.
    Stop,
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
    /// Send a message to an MCP client.
    Tell { caller: Caller, message: Message },
    /// End the connection of an MCP client.
    HangUp(Caller),
    /// Open a place where MCP clients with this ticket can connect, and report it with
    /// [`Event::Admitted`].
    Admit { ticket: Ticket, kind: mcp::Kind },
    /// Take no more MCP clients with this ticket. Those that have connected stay.
    Revoke(Ticket),
    /// Remember that this component crashes on this kind of message.
    Spare { seat: Seat, kind: Kind },
    /// Tell the user who runs the conductor.
    Report(Notice),
    /// The chain is over: write out what is queued, end the components. No action follows.
    Finish(Ending),
}
