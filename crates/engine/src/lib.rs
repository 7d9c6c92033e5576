//! A chain that survives: the router and the exchange, and who looks after them.
//!
//! A [`Supervisor`] is the one way into the pure core. What arrives passes the exchange (MCP over
//! ACP), then the router; what the router delivers passes the exchange again. The supervisor watches
//! both ways, and when a component fails it decides by its [`Policy`] what becomes of it:
//!
//! - it is **restarted**: a fresh one is greeted as the old one was, and told again of each live
//!   session, so that it can build its state and its tools; what it passes on of that is answered from
//!   memory, and nobody else notices;
//! - it is **bypassed**: its neighbours are neighbours from now on;
//! - or the chain **stops**.
//!
//! # Layout
//! - [`event`]: what can happen and what can be done about it
//! - [`policy`]: what is to be done when a component fails, and how patient to be
//! - [`supervisor`](mod@supervisor): the way in, and the way of a message through the core
//! - [`journal`]: inputs and outputs as text, and their replay
//! - `topic`: the few methods that a supervisor knows
//! - `record`: what a component was told that its successor must be told, too
//! - `kept`: how much of that is kept
//! - `recovery`: how a component fails, and how its successor learns
//! - `blame`: which kind of message a component crashes on
//! - `cancelled`: requests that were cancelled and are not answered
//! - `orphan`: sessions that nobody has
//! - `turn`: what goes on after a prompt is answered, in ACP version 2
//! - `watchdog`: who is alive and says nothing
//! - [`tamper`]: a seam for tests that plant faults
//! - `telling`: what the people in front of the editor are told
//!
//! Pure: no clock, no I/O, no randomness but that of a seed.

mod bad_line;
mod blame;
mod cancelled;
pub mod core;
pub mod event;
pub mod flow;
mod greet;
pub mod input;
pub mod journal;
mod kept;
mod lost;
mod orphan;
pub mod peer;
pub mod policy;
pub mod queue;
mod record;
mod recovery;
pub mod supervisor;
pub mod tamper;
mod telling;
mod topic;
mod turn;
mod watchdog;

pub use core::Core;
pub use event::{Action, Event};
pub use flow::Marks;
pub use input::{Facts, Input, Line, Link, Output, Outputs, Port, Seen, Setup};
pub use policy::{Pace, Policy, Restart, Rules, Then, Watch};
pub use supervisor::Supervisor;
pub use tamper::Tamper;
