//! Translates between the lines of the Agent Client Protocol (ACP) and messages.
//!
//! ACP is JSON-RPC with one message a line. The proxy protocol is an extension of ACP for programs between an editor
//! and an agent. It exists in several generations, which have the same function and differ in the names of methods and
//! members. This crate reads and writes the lines of all generations. A payload is never parsed into a tree: it is
//! checked once and kept as a range of its line, so a forwarded message keeps its exact text.
//!
//! ```
//! use acp_wire::dialect::Proxy;
//! use acp_wire::{Dialect, Generation, Message, Side};
//! use bytes::Bytes;
//!
//! // The link to a proxy of the current generation.
//! let mut dialect = Dialect::from(Proxy::pinned("my-proxy", Generation::CURRENT));
//! let mut out = Vec::new();
//!
//! // A message from the agent's side is sent to the proxy in an envelope.
//! let line = Bytes::from(r#"{"jsonrpc":"2.0","method":"session/update","params":{"n":1.10}}"#);
//! dialect.encode(Side::Editor, &Message::parse(&line)?, &mut out);
//! assert_eq!(
//!     String::from_utf8_lossy(&out),
//!     concat!(
//!         r#"{"jsonrpc":"2.0","method":"proxy/successor","#,
//!         r#""params":{"method":"session/update","params":{"n":1.10}}}"#,
//!         "\n",
//!     ),
//! );
//!
//! // A line that the proxy sends without an envelope travels toward the editor.
//! let (side, message) = dialect.decode(&line, &mut out).unwrap().expect("a message");
//! assert_eq!(side, Side::Editor);
//! assert_eq!(message.label(), "session/update");
//! # Ok::<(), acp_wire::Malformed>(())
//! ```
//!
//! # Layout
//! In reading order:
//! - [`json`]: JSON values as text; checks a value and finds members without copies
//! - [`message`]: requests, notifications and responses, and how a line becomes one
//! - [`dialect`]: translates the lines of each link, with one file for each generation of the proxy protocol
//! - [`mcp`]: the forms of MCP over ACP, and how each one encodes its messages
//! - [`lines`]: splits a byte stream into lines
//! - `sink`: the output to which lines are written
//! - [`guards`]: the flag with which a nested chain announces a guard
//! - [`error_kind`]: the kinds of errors that a conductor itself reports
//! - [`printable`]: makes text from components safe to print on a terminal
//! - [`telemetry`]: log messages and metrics of components
//! - [`scp`]: the messages of SCP about panels and comments, and the ids in them
//! - [`toml_nesting`]: how deeply a text of TOML is nested, so that no parser overflows the stack
//! - [`words`]: finds words in texts, for remedies
//! - [`suggestion`]: the known name that a misspelt name probably means
//! - [`acp`]: the few methods and shapes of ACP that a conductor reads or edits
//!
//! The crate performs no I/O, reads no clock and uses no random numbers. Its only unsafe code is the SSE2 string
//! scan in `json/run.rs`.

#![deny(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod acp;
pub mod config;
pub mod dialect;
pub mod error_kind;
pub mod guards;
pub mod json;
pub mod lines;
pub mod mcp;
pub mod message;
pub mod printable;
pub mod scp;
pub mod secret_names;
mod sink;
pub mod suggestion;
pub mod telemetry;
pub mod toml_nesting;
pub mod words;

pub use dialect::{Dialect, Generation, LinkProtocol, Rejection};
pub use error_kind::ErrorKind;
pub use json::{Json, SyntaxError};
pub use message::{Call, DamagedLine, Id, Malformed, Message, Method, Outcome, Side, code};
pub use sink::Sink;
