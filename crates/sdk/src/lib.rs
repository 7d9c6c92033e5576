//! Write a proxy once, run it anywhere.
//!
//! ```no_run
//! struct Transparent;
//! impl sdk::Proxy for Transparent {}
//!
//! fn main() -> std::io::Result<()> {
//!     sdk::stdio::run(Transparent)
//! }
//! ```
//!
//! # Layout
//! - [`proxy`]: what authors write
//! - [`outbox`]: what a proxy can do
//! - [`driver`]: runs a proxy: ids, passing on, answers, cancellation
//! - [`stdio`]: the driver behind standard input and output, the one file with I/O
//!
//! Handlers cannot wait, so there is no order to lose and nothing to deadlock: what a proxy passes
//! on leaves in the order in which it came.

pub mod driver;
pub mod outbox;
pub mod proxy;
pub mod stdio;

pub use driver::Driver;
pub use outbox::{Outbox, Tag};
pub use proxy::{Proxy, Request};
pub use wire::{Call, Id, Json, Outcome, Side};

/// The guide's examples are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/proxies.md")]
struct Guide;
