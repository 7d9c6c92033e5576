//! The demo agent, seen from an editor.

mod chat;
mod client;
mod conversation;
mod process;
mod tools;
mod updates;
