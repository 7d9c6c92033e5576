//! Write a proxy in ten lines.
//!
//! ```no_run
//! use acp_proxy::Proxy;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> std::io::Result<()> {
//!     Proxy::new("brief")
//!         .on_prompt(async |mut prompt, next| {
//!             prompt.prepend_text("Answer in one sentence.");
//!             next.run(prompt).await
//!         })
//!         .serve_stdio()
//!         .await
//! }
//! ```
//!
//! # What is promised
//! - What is not handled passes byte for byte, in order.
//! - Notification handlers run in the order of the messages, before the next message is looked at.
//! - Request handlers may wait; nothing behind them waits for them. What a handler sends, it sends in
//!   the order in which it says so, and if it waits for nothing but `next.run`, its answer keeps the
//!   place of the answer it got.
//! - A request is answered exactly once: with what its handler returns. In ACP version 2 a prompt is answered
//!   when the agent accepts it, and what its handler returns is how the turn ends.
//! - `next.run(prompt)` returns at the end of the turn, in ACP version 1 and 2.
//! - When the asker cancels, what the handler has asked with `next.run` is cancelled, too.
//!
//! # Layout
//! - [`proxy`]: handlers, one after the other
//! - [`handler`]: what they are given: [`Prompt`], [`Next`], [`Typed`]
//! - [`permission`]: what the agent asks permission for; `calls`: what it said of its tool calls before
//! - `turn`: one turn for handlers, in ACP version 1 and 2
//! - `strict`: what becomes of messages that the types cannot hold
//! - [`context`]: what they can do beside: [`Cx`], [`Peer`]; [`session`]: subagents
//! - [`agent`]: what an agent says
//! - [`tool`]: MCP tools; `connection`: to MCP servers that speak over a stream
//! - [`typed`], [`error`]: messages of the schema; failures
//! - [`script`]: conversations as tests, for authors
//! - `serve`: the loop; `stdio`: standard input and output; `signal`: answers that come later
//! - [`sync`]: the synchronous core under all this, for proxies that never wait

pub mod agent;
mod calls;
mod connection;
pub mod context;
pub mod error;
pub mod handler;
pub mod permission;
pub mod proxy;
pub mod script;
mod serve;
pub mod session;
mod signal;
#[cfg(feature = "stdio")]
mod stdio;
mod strict;
pub mod tool;
mod turn;
pub mod typed;

pub use acp_proxy_core as sync;
pub use acp_proxy_core::{Call, Id, Json, Message, Outcome, Side};
pub use agent_client_protocol_schema::{ProtocolVersion, v1 as schema};
pub use context::{Cx, Peer};
pub use error::{Error, Result};
pub use handler::{LinkProtocol, Next, Prompt, Verdict};
pub use permission::Permission;
pub use proxy::Proxy;
pub use schemars::JsonSchema;
pub use session::{Session, Turn};
pub use tool::{IntoOutput, NoInput, Output, ToolCx, ToolSession};
pub use typed::Typed;

/// The guide's examples are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/proxies.md")]
struct Guide;
