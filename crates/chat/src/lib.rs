//! A chat with an ACP agent.
//!
//! # Layout
//! - [`view`]: what a chat shows, and what the user enters
//! - [`wire`]: the messages of a chain, for `--show-wire`
//! - [`terminal`]: the chat in a terminal, with [`editor`] (the input line) and [`history`] (the prompts of earlier runs)
//! - [`plain`]: the chat as plain text
//! - [`transcript`]: what the agent has reported
//! - [`markdown`] and [`text`]: the layout of text

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod editor;
pub mod history;
pub mod markdown;
pub mod plain;
#[cfg(test)]
mod random;
pub mod terminal;
pub mod text;
pub mod transcript;
pub mod view;
pub mod wire;
pub mod wire_lines;
