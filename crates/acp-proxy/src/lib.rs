//! Write a proxy for the Agent Client Protocol (ACP) in ten lines.
//!
//! A proxy is a program between an editor and an agent. It sees every message between them, and can change, answer,
//! drop and add messages.
//!
//! ```no_run
//! use acp_proxy::prelude::*;
//!
//! fn main() -> std::io::Result<()> {
//!     Proxy::new("brief")
//!         .on_prompt(async |mut prompt, next| {
//!             prompt.prepend_text("Answer in one sentence.");
//!             next.run(prompt).await
//!         })
//!         .run()
//! }
//! ```
//!
//! `conductor agent my-proxy my-agent` puts the program between an editor and an agent.
//!
//! # Handlers
//!
//! | | handles | may wait |
//! |---|---|---|
//! | [`Proxy::on_prompt`] | each prompt of the user | yes |
//! | [`Proxy::on_permission`] | each permission request of the agent, with everything known about the tool call | yes |
//! | [`Proxy::on_mcp_request`] | each MCP request of the agent to a server of another component | yes |
//! | [`Proxy::on_request`] | each request of a type: of the [`schema`], or one of your own ([`Request`]) | yes |
//! | [`Proxy::on_raw_request`] | each request of a method, without a type | yes |
//! | [`Proxy::on_any_request`] | each request of any method from both sides | yes |
//! | [`Proxy::on_update`] | each `session/update` of the agent | no |
//! | [`Proxy::on_tool_call`] | each tool call of the agent, with everything known about it | no |
//! | [`Proxy::on_notification`] | each notification of a type ([`Notification`]) | no |
//! | [`Proxy::on_raw_notification`] | each notification of a method, without a type | no |
//! | [`Proxy::on_any_notification`] | each notification of any method from both sides | no |
//! | [`Proxy::on_panel_event`], [`Proxy::on_comment_reply`] | each use of a panel, each reply to a comment ([`scp`]) | no |
//! | [`Proxy::observe`] | sees every message, answers included | no |
//! | [`Proxy::options`] | each change of an option while the proxy runs | no |
//! | [`Proxy::on_start`] | runs a background task | yes |
//!
//! A request handler gets the request and [`Next`]. [`next.run(request)`](Next::run) sends the request on and returns
//! the answer. The handler returns the answer for the requester. A notification handler changes the notification in
//! place, and returns [`Delivery::Drop`] to drop it.
//!
//! [`Next`] and the other contexts dereference to [`Context`]:
//!
//! - [`say`](Context::say) sends text to the user in the session of the request;
//! - [`editor`](Context::editor) and [`agent`](Context::agent) send requests and notifications to one side
//!   ([`Peer`]), and open sessions for subagents ([`Peer::new_session`]);
//! - [`send_log`](Context::send_log) and [`send_metric`](Context::send_metric) send log messages and metrics to the
//!   rest of the chain;
//! - [`show_panel`](Context::show_panel) and [`show_comment`](Context::show_comment) show HTML, and comments on files, in
//!   editors that support SCP ([`scp`]);
//! - [`announce`](Context::announce), [`wait_until_idle`](Context::wait_until_idle) and
//!   [`start_turn`](Context::start_turn) speak outside of a turn;
//! - [`spawn`](Context::spawn) starts background tasks, and [`cancelled`](Context::cancelled) waits until the
//!   requester cancels.
//!
//! # Tools
//!
//! [`Proxy::tool`] offers an MCP tool in every session, to every agent. [`Proxy::mcp_server`] offers a whole MCP
//! server.
//!
//! # Agents and tests
//!
//! [`Agent`] is the same for the end of a chain. [`script`] tests proxies and agents with scripted conversations.
//!
//! # Guarantees
//!
//! - Messages without a handler pass byte for byte, in order.
//! - Members that a type does not know, big numbers and the order of keys stay, whatever a handler changes beside
//!   them.
//! - Notification handlers run in the order of the messages, each before the next message is read.
//! - A request handler that waits does not delay other messages. Messages of a handler leave in the order in which
//!   it sends them. If it waits only for `next.run`, its answer keeps the place of the answer that it got.
//! - Each request is answered exactly once, with what its handler returns.
//! - `next.run(prompt)` returns at the end of the turn, in ACP version 1 and 2. In version 2 the editor's prompt is
//!   answered when the agent accepts it, and the answer of the handler is how the turn ends.
//! - When the requester cancels a request, the requests that its handler has sent with `next.run` are cancelled.
//!   So is a request whose future is dropped, as by `tokio::time::timeout`. A late answer is ignored. A prompt of ACP
//!   version 2 is answered long before its turn ends, so dropping its future does not end the turn: send
//!   `session/cancel` for that.
//!
//! # Features
//!
//! - `stdio` (default): `run` and `serve`, on standard input and output. Without it the crate compiles for WASI.
//! - `rmcp`: `Proxy::rmcp_server`, for MCP servers written with the crate `rmcp`.
//! - `unstable`: the schema's unstable types.
//! - `unstable_protocol_v2`: the schema's types of ACP version 2, in the module `schema_v2`. An agent may answer an
//!   `initialize` of version 2 with version 1, so handle `initialize` without a type.
//!
//! Everything that examples need is re-exported: [`serde`], [`serde_json`], [`schemars`] and [`tokio`]. Derives of
//! serde need the attribute `#[serde(crate = "acp_proxy::serde")]`, unless your package depends on serde itself.

#![warn(missing_docs, unreachable_pub)]
#![forbid(unsafe_code)]

mod activity;
mod agent;
mod ahead;
mod chain_event;
mod component;
mod context;
mod dispatch;
mod error;
mod known_calls;
mod loop_waker;
mod mcp_connection;
mod mcp_request;
mod message_type;
mod next;
mod oneshot;
mod options;
mod permission;
pub mod prelude;
mod prompt;
mod proxy;
mod schema_types;
pub mod scp;
pub mod script;
mod serve;
mod session;
mod shared;
#[cfg(feature = "stdio")]
mod stdio;
mod strict;
mod telemetry;
mod tool;
mod tool_call;
mod tool_server;
mod turn;
mod typed;

#[doc(no_inline)]
pub use acp_proxy_core as sync;
#[doc(inline)]
pub use acp_proxy_core::{Call, Id, Json, Message, Outcome, Side};
pub use activity::LateUpdates;
pub use agent::Agent;
#[cfg(feature = "unstable_protocol_v2")]
#[doc(no_inline)]
pub use agent_client_protocol_schema::v2 as schema_v2;
#[doc(no_inline)]
pub use agent_client_protocol_schema::{ProtocolVersion, v1 as schema};
pub use ahead::Ahead;
pub use chain_event::{ChainEvent, ChainObserver};
pub use component::{Component, StatusSource};
pub use context::{Context, Peer};
pub use error::{Error, Result};
pub use mcp_request::{McpNext, McpRequest};
pub use message_type::{Notification, Request};
pub use next::{Delivery, Forward, Next};
pub use options::{ComponentOptions, Refusal};
pub use permission::{Permission, PermissionAnswer};
pub use prompt::Prompt;
pub use proxy::Proxy;
#[doc(no_inline)]
pub use schemars::{self, JsonSchema};
#[doc(no_inline)]
pub use serde;
#[doc(no_inline)]
pub use serde_json;
pub use session::{Session, Turn};
pub use telemetry::{LogLevel, LogMessage, Metric, MetricKind, ScpLogMessage};
#[doc(no_inline)]
pub use tokio;
pub use tool::{IntoToolOutput, NoInput, ToolContext, ToolOutput, ToolSession};
pub use tool_call::ToolCall;
pub use typed::to_json;

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/proxies.md")]
struct Guide;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
