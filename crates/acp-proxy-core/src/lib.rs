//! The core of every proxy: from a line to lines. The crate `sdk` has the front that most authors use.
//!
//! ```no_run
//! struct Transparent;
//! impl acp_proxy_core::Proxy for Transparent {}
//!
//! fn main() -> std::io::Result<()> {
//!     acp_proxy_core::stdio::run(Transparent)
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

pub use acp_wire::{Call, Id, Json, Message, Outcome, Side};
pub use driver::Driver;
pub use outbox::{Outbox, Tag};
pub use proxy::{Proxy, Request};
