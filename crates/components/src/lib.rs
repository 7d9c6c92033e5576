//! The proxies that come with conductor, and an agent to try them with. Each is a file here, a row in the [`catalog`], a script in
//! `tests/`, and a page in the guide.

pub mod append;
#[cfg(feature = "catalog")]
pub mod catalog;
#[cfg(feature = "catalog")]
pub mod context;
#[cfg(feature = "catalog")]
pub mod demo;
#[cfg(feature = "catalog")]
mod file;
#[cfg(feature = "catalog")]
pub mod log;
#[cfg(feature = "catalog")]
pub mod sparkle;

#[cfg(feature = "catalog")]
pub use catalog::{Component, Entry, Recipe, find};
