//! The built-in components of conductor: three proxies and a demo agent.
//!
//! Each component has a module, a row in the [`catalog`], a test in `tests/`, and a page in the user guide.
#![warn(missing_docs, unreachable_pub)]

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
pub use catalog::{BuiltIn, ComponentFactory, Entry, find};
