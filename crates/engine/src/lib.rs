//! The core of the conductor. It makes every decision about a chain of ACP components, and does no I/O.
//!
//! # Inputs and outputs
//!
//! [`Core::handle`] is the only entry point. The shell (crate `acp-conductor`) reports an [`Input`]: a line was read, a
//! link was closed, a process has exited, a deadline has passed. The core answers with [`Outputs`]: start or kill a
//! component, pause a link, open an endpoint for MCP clients, and bytes to write to each link. The core reads no
//! clock; each input comes with its time.
//!
//! So a run can be recorded and replayed exactly (see [`journal`]), and tests can drive the core without processes.
//!
//! # The path of a message
//!
//! The dialect of a link decodes each line that arrives there. The message then passes the [stages](stages::Stage), and
//! the router chooses the next seat. On the way out the message passes the same stages in reverse order, and the
//! dialect of the receiver's link encodes it. Each stage either passes a message on or takes it.
//!
//! | stage | purpose |
//! |---|---|
//! | [`Gate`](stages::Stage::Gate) | holds messages on command |
//! | [`Watchdog`](stages::Stage::Watchdog) | notices components that are silent for too long |
//! | [`Poison`](stages::Stage::Poison) | finds the kind of message that a component crashes on |
//! | [`Turns`](stages::Stage::Turns) | tracks turns in ACP version 2 |
//! | [`Mcp`](stages::Stage::Mcp) | carries MCP over ACP (crate `acp-conductor-mcp`) |
//! | [`Notices`](stages::Stage::Notices) | shows notices about failures in the editor |
//! | [`Sessions`](stages::Stage::Sessions) | records how each session was set up |
//! | [`Replay`](stages::Stage::Replay) | replays set-up requests to a restarted component |
//! | [`Orphans`](stages::Stage::Orphans) | handles sessions whose requester is gone |
//! | [`Telemetry`](stages::Stage::Telemetry) | reports log messages and metrics |
//! | [`Scp`](stages::Stage::Scp) | keeps the panels and comments of different components apart |
//!
//! # Failures
//!
//! When a component fails, its [`ComponentPolicy`] decides what happens:
//!
//! - The component is **restarted**. The new process is greeted as the old one was, and the set-up request of each live
//!   session is replayed to it, so that it can rebuild its state and its tools. Requests that it forwards
//!   meanwhile are answered from the record, so its neighbours notice nothing.
//! - The component is **bypassed**. Its neighbours are connected directly.
//! - The chain **stops**.
//!
//! # Modules, in reading order
//!
//! - [`input`]: the inputs and outputs; [`queue`]: the bytes for one link
//! - [`core`](mod@core): the entry point
//! - [`peer`]: the state of the peer in a seat; `greeting`: which greeting a component gets, and what happens if it
//!   does not understand the greeting
//! - `bad_line`: lines that cannot be read; `lost_answers`: finds the requests that unreadable answers belong to
//! - `flow_control`: which links are paused
//! - [`stages`]: the list of the stages. Each stage is a module there: `gate`, `watchdog`, `poison`, `turns`, `mcp`,
//!   `notices`, `sessions`, `replay`, `orphans`, `telemetry`, `scp`, `config`. `pipeline` moves a message from stage to stage, `failure`
//!   applies the failure policies, `command` performs user commands, `by_seat` is a table with one value for each
//!   component
//! - [`stage_io`]: the inputs and outputs of the stages
//! - [`policy`]: failure policies, restart backoff, timeouts
//! - `resumption`: how an agent resumes a session after a restart
//! - [`journal`]: records inputs and outputs as text, and replays them
//! - [`fault_injection`]: lets tests inject faults
//!
//! This crate is pure: no clock, no I/O, no threads, and no randomness except from the seed in [`Rules`].

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

mod bad_line;
pub mod core;
pub mod fault_injection;
mod flow_control;
mod greeting;
pub mod input;
pub mod journal;
mod lost_answers;
pub mod peer;
pub mod policy;
pub mod queue;
mod reload;
mod resumption;
pub mod stage_io;
pub mod stages;

pub use core::{Core, Overdue};
pub use fault_injection::FaultInjector;
pub use flow_control::Watermarks;
pub use input::{
    About, Command, Configured, Facts, Input, KeptTelemetry, Line, LinkId, Observation, Output,
    Outputs, Port, Reload, Setup,
};
pub use policy::{Backoff, ComponentPolicy, Fallback, Restart, Rules, Timeouts};
pub use stage_io::{StageInput, StageOutput};
pub use stages::{Stage, Stages};
