//! Lines ⇄ messages: the spelling of the Agent Client Protocol and of its proxy extension.
//!
//! # Layout
//! - [`json`]: check a text, find members, copy nothing
//! - [`lines`]: bytes into lines
//! - [`message`]: requests, notifications, answers; how a line becomes one and back
//! - [`dialect`]: which lines a link carries, one file per generation of the proxy protocol
//! - `sink`: where lines are written to
//! - [`guards`]: how a chain within a chain says that it contains a guard
//! - [`acp`]: the few shapes of ACP that a conductor reads or edits
//!
//! Pure: no clock, no I/O, no randomness.

pub mod acp;
pub mod dialect;
pub mod guards;
pub mod json;
pub mod lines;
pub mod message;
mod sink;

pub use dialect::{Dialect, Generation, LinkProtocol, Rejection};
pub use json::{Json, SyntaxError};
pub use message::{Call, DamagedLine, Id, Malformed, Message, Method, Outcome, Side, code};
pub use sink::Sink;
