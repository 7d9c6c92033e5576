//! The editor's side of the Agent Client Protocol (ACP).
//!
//! # Layout
//! - [`connection`]: requests, answers and notifications over a pair of byte streams
//! - [`payload`]: reads any payload, and hides secrets in it
//! - [`error`]: describes the errors of agents for people

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod connection;
pub mod error;
pub mod payload;

pub use connection::{Connection, Incoming};
