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
//! - `obituary`: how a component's end is told
//!
//! The router knows three methods, `initialize`, `$/cancel_request` and (for what goes around a component)
//! `session/update`, and no sessions.

pub mod absence;
pub mod around;
mod barrier;
mod copies;
pub mod event;
mod greeting;
mod obituary;
pub mod pending;
pub mod router;
pub mod seat;
mod view;

pub use acp_wire::Outcome;
pub use around::Kind;
pub use event::{Action, Ending, Event, Level, Notice, Plan, Time};
pub use router::Router;
pub use seat::{Chain, Component, Exit, Greeted, How, Life, Mode, Role, Seat, TakesUpdates};
