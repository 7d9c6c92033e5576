//! The core: everything that is decided about a chain.
//!
//! [`Core::handle`] is the one way in. It is told what happened ([`Input`]): a line has come, a link is closed, a
//! process has ended, time has passed. It says what to do ([`Output`]): write to a link, start or kill a
//! component, open a place for MCP clients, read or do not read. The shell (crate `conductor`) performs outputs
//! and reports inputs.
//!
//! Between a link and the router a message passes [stages](stages::Stage), always in the same order; on the way out
//! in the opposite order. Each stage passes a message on or takes it. When a component fails, its [`Policy`] says
//! what becomes of it:
//!
//! - It is **restarted**. A fresh component is greeted as the old one was, and is told again of each live session,
//!   so that it can build its state and its tools. What it passes on of that is answered from memory, and its
//!   neighbours notice nothing.
//! - It is **bypassed**: its neighbours are neighbours from now on.
//! - Or the chain **stops**.
//!
//! # Layout
//! - [`input`]: what the core is told and what it wants done; [`queue`]: the bytes for one link
//! - [`core`](mod@core): the one way in
//! - [`peer`]: what is known of the peer behind a link; `greet`: how components are greeted
//! - `bad_line`: lines that cannot be taken; `lost`: to which requests lost answers were
//! - `flow`: which peers are not read
//! - [`stages`]: the list of the stages, the events that move them, and how a message goes from one to the next. Each
//!   stage is a module there: `gate`, `watch`, `blame`, `turns`, `mcp`, `notes`, `sessions`, `lessons`, `orphans`;
//!   `failure` says what becomes of a component that fails, `command` what a user can want, `walk` takes a message
//!   through the stages, and `by_seat` is a table with one value for each component
//! - [`event`]: what the links tell the stages, and what the stages want done
//! - [`policy`]: what is to be done when a component fails, and how long to wait for one
//! - `topic`: the methods that the core acts on
//! - [`journal`]: inputs and outputs as text, and their replay
//! - [`tamper`]: lets tests plant faults
//!
//! Pure: no clock, no I/O, no randomness but that of a seed.

mod bad_line;
pub mod core;
pub mod event;
mod flow;
mod greet;
pub mod input;
pub mod journal;
mod lost;
pub mod peer;
pub mod policy;
pub mod queue;
pub mod stages;
pub mod tamper;
mod topic;

pub use core::{Core, Overdue};
pub use event::{Action, Event};
pub use flow::Marks;
pub use input::{Command, Facts, Input, Line, Link, Output, Outputs, Port, Seen, Setup};
pub use policy::{Pace, Policy, Restart, Rules, Then, Watch};
pub use stages::{Stage, Stages};
pub use tamper::Tamper;
