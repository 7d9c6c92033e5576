//! A chat with an ACP agent.
//!
//! # Layout
//! - [`view`]: what a chat shows, and what the user enters
//! - [`wire`]: the messages of a chain, for `--show-wire`

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod view;
pub mod wire;
