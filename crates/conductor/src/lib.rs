//! Runs a chain: `editor ⇄ conductor ⇄ proxy 1 … proxy n ⇄ agent`.
//!
//! This crate is the shell around the pure [`router`]: processes, pipes, the clock, the command
//! line. It decides nothing about messages.
//!
//! # Layout
//! - [`config`]: what the user asked for
//! - [`run`]: the loop that everything goes through
//! - [`link`], [`lines`], [`flow`]: the pipe to one seat; bytes into lines; who must wait
//! - [`host`]: what a component runs in
//! - [`stdio`]: our own standard streams
//! - [`log`]: what people read

pub mod config;
pub mod flow;
pub mod host;
pub mod lines;
pub mod link;
pub mod log;
pub mod run;
pub mod stdio;

pub use config::{Config, Limits, Spec};
pub use router::{Ending, Mode};
pub use run::run;
