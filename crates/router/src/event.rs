//! The closed list of what can happen to a chain, and of what can be done about it.

use acp_wire::{Id, Message, Outcome, Side};

use crate::seat::{Exit, Seat};

/// Milliseconds since the chain began. Unlike a clock's own type it can be written down, replayed
/// and made up by a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub u64);

impl Time {
    pub fn plus(self, milliseconds: u64) -> Time {
        Time(self.0.saturating_add(milliseconds))
    }
}

/// What all rules need: the time, and the list of what is to be done.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub now: Time,
    pub out: &'a mut Vec<Action>,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// `from` sent a message that travels toward `toward`.
    Arrived { from: Seat, toward: Side, message: Message },
    /// The same, but `from` has not sent it itself: it was made up in its place, so it says nothing about what
    /// `from` has read.
    Supplied { from: Seat, toward: Side, message: Message },
    /// A component that did not survive its first greeting was started again, with another one.
    GreetingRetried { seat: Seat, exit: Exit },
    /// Nothing more will come from `seat`, ever: the chain ends.
    Closed { seat: Seat, exit: Exit },
    /// Nothing more will come from who sat at `seat`; the chain goes on, as planned. Of the questions
    /// that it owed, those in `lost` are lost with it, though it may have passed them on: only it could
    /// have made use of the answers.
    Down { seat: Seat, exit: Exit, recovery: Recovery, lost: Vec<Id> },
    /// Another one has taken the place of who parted, and is to be greeted.
    Restarted(Seat),
    /// It knows what it must know: it can be spoken to.
    Resumed(Seat),
    /// The seat of who parted is left out from now on.
    Bypassed(Seat),
    /// The conductor was asked to end.
    Stop,
    /// The [`deadline`](crate::Router::deadline) has come.
    Tick,
}

/// What becomes of a seat whose component has parted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Another component is started at this time; so many were tried in a row.
    Restart {
        at: Time,
        attempts: u32,
    },
    Bypass,
}

/// What to do, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start the component of this seat.
    Start(Seat),
    /// Hand a message that travels toward `toward` to the one who sits at `to`.
    Deliver { to: Seat, toward: Side, message: Message },
    /// Who has taken the place of another has answered `initialize`. If it is fit, say what it must
    /// know and then [`Event::Resumed`].
    Reinitialized { seat: Seat, outcome: Outcome },
    /// Tell the people who run this.
    Report(Diagnostic),
    /// The chain is over: write out what is queued, end the components. No action follows.
    Finish(Ending),
}

/// How a chain ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The editor left, or the conductor was asked to end.
    Clean,
    /// A component failed; one readable line says which and why.
    Failed(String),
}

/// Something worth telling, which concerns one seat.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    pub level: Level,
    pub seat: Seat,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Somebody broke a rule or something was lost.
    Warn,
    /// Harmless, interesting when looking for a fault.
    Debug,
}
