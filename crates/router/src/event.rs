//! The router's inputs ([`Event`]) and outputs ([`Action`]).
//!
//! Both lists are complete: a router has no other inputs and outputs.

use acp_wire::{Id, Message, Outcome, Side};

use crate::exit::Exit;
use crate::seat::{Chain, Seat};

/// Milliseconds since the chain started. Unlike [`std::time::Instant`] it can be recorded, replayed and
/// constructed in tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub u64);

impl Time {
    /// The time `milliseconds` later. Saturates instead of overflowing.
    pub fn plus(self, milliseconds: u64) -> Time {
        Time(self.0.saturating_add(milliseconds))
    }
}

/// The state of one call of [`Router::handle`](crate::Router::handle): the current time and the list to
/// which actions are appended.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) out: &'a mut Vec<Action>,
}

/// Something that happened to the chain.
#[derive(Debug, Clone)]
pub enum Event {
    /// The peer at `from` sent a message that travels toward `toward`.
    Arrived {
        /// The seat of the sender.
        from: Seat,
        /// The side toward which the message travels.
        toward: Side,
        /// The message, without an envelope.
        message: Message,
    },
    /// The conductor itself creates a message on behalf of the component at `from`.
    ///
    /// The message is routed like that of [`Event::Arrived`], but it does not show what the component has read (see
    /// `barrier`).
    Supplied {
        /// The seat on whose behalf the message is sent.
        from: Seat,
        /// The side toward which the message travels.
        toward: Side,
        /// The message, without an envelope.
        message: Message,
    },
    /// A component exited during its first handshake. It was restarted and gets a different greeting.
    GreetingRetried {
        /// The seat of the component.
        seat: Seat,
        /// How the previous process ended.
        exit: Exit,
    },
    /// The peer at `seat` is gone and is not replaced. The chain shuts down.
    Closed {
        /// The seat of the peer.
        seat: Seat,
        /// How the peer ended.
        exit: Exit,
    },
    /// The component at `seat` is down. The chain continues, and `recovery` says how.
    Down {
        /// The seat of the component.
        seat: Seat,
        /// How the component ended.
        exit: Exit,
        /// What happens to the seat next.
        recovery: Recovery,
        /// Requests that the component owed and that are answered with an error even if the component had
        /// forwarded them: only this component could have used the answers.
        lost: Vec<Id>,
    },
    /// A new component was started in the seat of one that was down. It needs `initialize`.
    Restarted(Seat),
    /// The restarted component is ready for messages. Held messages are delivered to it.
    Resumed(Seat),
    /// The seat of a component that was down is removed from the chain.
    Bypassed(Seat),
    /// The chain has another configuration from now on (see `reload`). The chain is [at
    /// rest](crate::Router::unrest), or has not started.
    Reloaded {
        /// The new configuration.
        chain: Box<Chain>,
        /// The seats that get a component, in addition to those that were not in the chain.
        filled: Vec<Seat>,
    },
    /// The conductor was asked to shut down.
    Stop,
    /// The [`deadline`](crate::Router::deadline) has passed.
    Tick,
}

/// What happens to the seat of a component that is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// The component is restarted.
    Restart {
        /// When the next process is started.
        at: Time,
        /// How many restarts in a row were attempted before.
        attempts: u32,
    },
    /// The seat is removed from the chain.
    Bypass,
}

/// Something the caller must do. Actions are performed in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start the component of this seat.
    Start(Seat),
    /// Send a message to a peer.
    Deliver {
        /// The seat of the receiver.
        to: Seat,
        /// The side toward which the message travels.
        toward: Side,
        /// The message, without an envelope.
        message: Message,
    },
    /// A restarted component answered `initialize`.
    ///
    /// If the answer is acceptable, the caller replays the set-up requests of the open sessions and then
    /// reports [`Event::Resumed`].
    Reinitialized {
        /// The seat of the component.
        seat: Seat,
        /// The component's answer to `initialize`.
        outcome: Outcome,
    },
    /// Write a line to the log.
    Report(Diagnostic),
    /// The chain has ended. The caller flushes its queues and stops the components. No action follows.
    Finish(Ending),
}

/// How a chain ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The editor disconnected, or the conductor was asked to shut down.
    Clean,
    /// A component failed. The text is a one-line crash report.
    Failed(String),
}

/// A log line about one seat.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// The severity.
    pub level: Level,
    /// The seat that the line is about.
    pub seat: Seat,
    /// The text, without the name of the component.
    pub text: String,
}

/// The severity of a [`Diagnostic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A peer broke a rule of the protocol, or data was lost.
    Warn,
    /// Harmless. Useful when debugging a chain.
    Debug,
}
