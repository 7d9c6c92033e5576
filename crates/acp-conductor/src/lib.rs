//! Runs a chain: `editor ⇄ conductor ⇄ proxy 1 … proxy n ⇄ agent`.
//!
//! This crate is the shell around the pure core ([`engine`]): processes, pipes, the clock and the command
//! line. It makes no decisions about messages.
//!
//! The crate is also a library. A program can run chains over any pair of byte streams, with subprocesses
//! and its own code as components. `docs/embedding.md` is the guide, and `examples/embedded.rs` a complete
//! program.
//!
//! # Layout
//! - [`config`]: the configuration of a chain; [`failure_policy`]: the part about failing components;
//!   [`builtin`]: the built-in components; [`configuration`]: chains of configuration files
//! - [`mod@run`]: the main loop; `shutdown`: how it ends; `wait_report`: what it waits for
//! - [`mod@explain`]: `conductor agent --explain`
//! - [`seat_io`]: the pipes and the component of one seat; [`link`]: one pipe; [`lines`]: splits bytes into
//!   lines
//! - [`host`]: runs components as processes or in threads
//! - [`relay`]: lets the successor of an SCP proxy connect back to the conductor
//! - [`mcp`]: serves MCP clients; `unauthenticated`: limits connections that have not authenticated yet;
//!   `secret`: random tokens
//! - [`greeting_cache`]: which greeting each command understood; `crash_cache`: which messages crash it
//! - [`managed_options`]: options of built-in components that change while a chain runs
//! - [`tap`]: observes the messages of a chain; [`journal`]: records a chain for replay
//! - [`reload`]: `conductor reload`
//! - [`status`]: `conductor status`; [`audit_table`]: `conductor audit show`;
//!   [`spent_table`]: `conductor spent`
//! - [`chat`]: `conductor try`; [`studio`]: `conductor studio`
//! - [`stdio`]: the conductor's standard streams
//! - [`log`]: the log, and the stderr of components; `columns`: tables

#![warn(missing_docs, unreachable_pub)]

#[cfg(feature = "cli")]
mod agent_ends;
#[cfg(feature = "cli")]
pub mod audit_table;
#[cfg(feature = "cli")]
pub mod builtin;
#[cfg(feature = "cli")]
pub mod chat;
mod columns;
pub mod config;
#[cfg(feature = "cli")]
pub mod configuration;
mod crash_cache;
pub mod explain;
pub mod failure_policy;
pub mod greeting_cache;
pub mod host;
pub mod journal;
pub mod lines;
pub mod link;
pub mod log;
pub mod managed_options;
pub mod mcp;
mod own_program;
pub mod relay;
pub mod reload;
pub mod run;
pub mod seat_io;
mod secret;
mod shutdown;
#[cfg(feature = "cli")]
pub mod spent_table;
pub mod status;
pub mod stdio;
#[cfg(feature = "cli")]
pub mod studio;
pub mod tap;
mod telemetry;
mod unauthenticated;
mod wait_report;

pub use columns::table;
pub use config::{Config, Limits, Spec};
pub use explain::explain;
pub use failure_policy::FailurePolicy;
pub use host::in_process::InProcess;
pub use journal::JournalFile;
pub use router::{Ending, Mode};
pub use run::run;
pub use tap::{Tap, TapEvent};

/// The guide's examples are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Guide;
