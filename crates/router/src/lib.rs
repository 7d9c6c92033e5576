//! The pure core: where messages go, and who sits where.
//!
//! A [`Router`] is told what happened ([`Event`]) and says what to do ([`Action`]). It waits for
//! nothing, fails at nothing, and knows no clock: time comes in with each event. The shell around
//! it (crate `conductor`) reads, writes, starts processes and keeps the time.
//!
//! # Layout
//! - [`event`]: the closed list of what can happen and what can be done about it
//! - [`seat`]: the places of a chain, who sits there and what became of them
//! - [`pending`]: which questions are open, who asked, who owes the answer
//! - [`router`]: the rules; `view`: what can be seen of it
//! - `greeting`: the rules for `initialize`
//! - [`absence`]: the rules for a seat whose occupant is replaced or left out
//! - [`around`]: the rules for messages that go around a component
//! - `barrier`: the rules for barriers, which keep the order
//! - `copies`: which questions a component has passed on
//! - `crash_report`: how a component's end is told
//!
//! The router knows three methods, `initialize`, `$/cancel_request` and (for what goes around a component)
//! `session/update`, and no sessions.

mod barrier;
mod crash_report;
pub mod event;
mod forwarded;
mod greeting;
pub mod pending;
pub mod recovery;
pub mod router;
pub mod seat;
pub mod skip;
mod view;

pub use acp_wire::Outcome;
pub use event::{Action, Diagnostic, Ending, Event, Level, Recovery, Time};
pub use router::Router;
pub use seat::{
    Chain, Component, Exit, ExitCause, Handshake, Mode, Role, Seat, SeatState, UpdateFilter,
};
pub use skip::MessageKind;
