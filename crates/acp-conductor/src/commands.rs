//! The commands of the program, one module each.

pub mod chain;
pub mod component;
pub mod manual;
pub mod output;
pub mod status;
pub mod try_chat;
