//! A chat with an ACP agent.
//!
//! # Layout
//! - [`driver`]: runs a chat; [`input`]: the user's input
//! - [`conversation`]: the state machine of a chat; `commands`: its slash commands; `elicitation`: what the
//!   agent asks about
//! - [`mcp_server`]: the MCP servers of a session
//! - [`view`]: what a chat shows, and what the user enters; [`json_view`]: as JSON
//! - [`wire`]: the messages of a chain, for `--show-wire`
//! - [`terminal`]: the chat in a terminal, with [`editor`] (the input line) and [`history`] (the prompts of earlier runs)
//! - [`plain`]: the chat as plain text
//! - [`transcript`]: what the agent has reported; `recent`: the part of it that is kept
//! - [`markdown`] and [`text`]: the layout of text

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

mod commands;
pub mod conversation;
pub mod driver;
pub mod editor;
mod elicitation;
pub mod history;
pub mod input;
pub mod json_view;
pub mod markdown;
pub mod mcp_server;
pub mod plain;
#[cfg(test)]
mod random;
mod recent;
pub mod terminal;
pub mod text;
pub mod transcript;
pub mod view;
pub mod wire;
pub mod wire_lines;

pub use conversation::{ChatEnd, FirstSession, Options};
pub use driver::{Signals, run};
pub use input::Input;
