//! The editor's side of the Agent Client Protocol (ACP).
//!
//! # Layout
//! - [`connection`]: requests, answers and notifications over a pair of byte streams
//! - [`workspace`]: the requests of an agent that a client performs: [`files`] and [`terminals`]
//! - [`opening`]: how a session is opened
//! - [`settings`]: modes, models and options of the agent; [`tool_calls`]: what updates have said about tool calls
//! - [`payload`]: reads any payload, and hides secrets in it
//! - [`error`]: describes the errors of agents for people; [`rpc_error`]: the errors that a client answers with

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod connection;
pub mod error;
pub mod files;
pub mod opening;
pub mod payload;
pub mod rpc_error;
pub mod settings;
pub mod terminals;
pub mod tool_calls;
pub mod workspace;

pub use connection::{Connection, Incoming, Outgoing};
pub use opening::Opening;
pub use workspace::{Reply, Workspace};
