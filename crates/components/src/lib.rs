//! The proxies that come with conductor, and an agent to try them with. Each is a file here, a row in the [`catalog`], a script in
//! `tests/`, and a page in the guide.

pub mod append;
pub mod catalog;
pub mod context;
pub mod demo;
mod file;
pub mod log;
pub mod sparkle;

pub use catalog::{Component, Entry, Recipe, find};
