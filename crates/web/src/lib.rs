//! The web pages of Conductor.
//!
//! # Layout
//! - [`server`]: serves the pages on loopback, with a log-in
//! - [`topics`]: the state that pages follow
//! - [`surface`]: the editor's side of SCP: panels, comments and operations
//! - [`project`]: the files of the project
//! - [`protocol`]: the messages between the server and a page

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod project;
pub mod protocol;
pub mod server;
pub mod surface;
pub mod topics;
