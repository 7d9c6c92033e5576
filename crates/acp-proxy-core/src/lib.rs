//! The synchronous core of an ACP proxy: one line in, any number of lines out.
//!
//! Most authors want the crate `acp-proxy`, whose handlers are async and typed. This crate is for proxies
//! that never wait, and for programs that bring their own event loop. It has no runtime and, except for
//! [`stdio`], no I/O.
//!
//! ```no_run
//! use acp_proxy_core::{Call, Outbox, Proxy, Side};
//!
//! /// Drops every `session/update` and forwards everything else.
//! struct Quiet;
//!
//! impl Proxy for Quiet {
//!     fn on_notification(&mut self, from: Side, call: Call, out: &mut Outbox<'_>) {
//!         if !call.is("session/update") {
//!             out.notify(from.opposite(), call);
//!         }
//!     }
//! }
//!
//! fn main() -> std::io::Result<()> {
//!     acp_proxy_core::stdio::run(Quiet)
//! }
//! ```
//!
//! - [`Proxy`] is the trait to implement. Its default methods forward every message.
//! - [`Outbox`] sends messages: forwarded requests, answers, new requests, notifications.
//! - [`Driver`] runs a proxy. It gives out request ids, returns answers to their requesters, passes
//!   cancellations on, and speaks every generation of the proxy protocol.
//! - [`stdio`] connects a driver to standard input and output.
//!
//! Methods of [`Proxy`] cannot wait. So messages leave in the order in which they came, and a proxy cannot
//! deadlock.

#![warn(missing_docs, unreachable_pub)]
#![forbid(unsafe_code)]

mod driver;
mod outbox;
mod proxy;
pub mod stdio;

#[doc(no_inline)]
pub use acp_wire::{Call, Id, Json, Message, Outcome, Side};
pub use driver::Driver;
pub use outbox::{Outbox, RequestKey};
pub use proxy::{IncomingRequest, Proxy, Rewritten};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
