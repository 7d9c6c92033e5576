//! Runs a chain: `editor ⇄ conductor ⇄ proxy 1 … proxy n ⇄ agent`.
//!
//! This crate is the shell around the pure core ([`engine`]): processes, pipes, the clock, the command
//! line. It decides nothing about messages.
//!
//! It is a library, too: a program can run chains over any pair of byte streams, with programs and
//! parts of itself as components.
//!
//! See `docs/embedding.md`, and `examples/embedded.rs`.
//!
//! # Layout
//! - [`config`]: what the user asked for; [`builtin`]: components of our own, by name
//! - [`survival`]: what is to happen when a component fails
//! - [`mod@run`]: the loop that everything goes through; `wind_down`: the end of it
//! - [`mod@explain`]: what each component turned out to be
//! - [`link`], [`lines`]: the pipe to one peer; bytes into lines
//! - [`place`]: what the shell has for a seat
//! - [`host`]: what a component runs in
//! - [`relay`]: how an SCP proxy's successor connects back to us
//! - [`mcp`]: where MCP clients reach us; `secret`: what they must know
//! - [`memory`]: which greeting a command understood the last time
//! - [`tap`]: sees what happens; [`journal`]: writes down what happens, to be replayed
//! - [`status`]: what a running conductor is doing, for who asks
//! - [`chat`]: `conductor try`
//! - [`stdio`]: our own standard streams
//! - [`log`]: what people read; [`terminal`]: text from components, made safe to print

pub mod builtin;
pub mod chat;
mod columns;
pub mod config;
mod crashes;
pub mod explain;
pub mod host;
pub mod journal;
pub mod lines;
pub mod link;
pub mod log;
pub mod mcp;
pub mod memory;
pub mod place;
pub mod relay;
pub mod run;
mod secret;
pub mod status;
pub mod stdio;
mod strangers;
pub mod survival;
pub mod tap;
pub mod terminal;
mod wind_down;

pub use config::{Config, Limits, Spec};
pub use explain::explain;
pub use host::resident::Resident;
pub use journal::JournalFile;
pub use router::{Ending, Mode};
pub use run::run;
pub use survival::Survival;
pub use tap::{Sighting, Tap};

/// The guide's examples are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Guide;
