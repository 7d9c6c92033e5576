//! The commands of the program, one module each.

pub mod audit;
pub mod chain;
pub mod component;
pub mod config;
pub mod editor_hint;
pub mod error_page;
pub mod manual;
pub mod named_chain;
pub mod next_steps;
pub mod output;
pub mod refusal;
pub mod reload;
pub mod screen;
pub mod spent;
pub mod status;
pub mod studio;
pub mod trust;
pub mod try_chat;
pub mod version;
