//! The built-in components of conductor: proxies, and agents for tests and demonstrations.
//!
//! Each component has a module, a row in the [`catalog`], a test in `tests/`, and a page in the user guide.
#![warn(missing_docs, unreachable_pub)]

#[cfg(feature = "catalog")]
pub mod action;
#[cfg(feature = "catalog")]
pub mod agents;
pub mod append;
#[cfg(feature = "catalog")]
pub mod audit;
#[cfg(feature = "catalog")]
pub mod browser;
#[cfg(feature = "catalog")]
pub mod budget;
#[cfg(feature = "catalog")]
pub mod cache;
#[cfg(feature = "catalog")]
pub mod catalog;
pub mod child_environment;
#[cfg(feature = "catalog")]
pub mod collaborator;
#[cfg(feature = "catalog")]
pub mod companion;
#[cfg(feature = "catalog")]
pub mod context;
#[cfg(feature = "catalog")]
pub mod demo;
#[cfg(feature = "catalog")]
mod fence;
#[cfg(feature = "catalog")]
mod file;
#[cfg(feature = "catalog")]
pub mod filter;
#[cfg(feature = "catalog")]
pub mod hooks;
#[cfg(feature = "catalog")]
pub mod ide;
#[cfg(feature = "catalog")]
pub mod log;
#[cfg(feature = "catalog")]
pub mod mentions;
#[cfg(feature = "catalog")]
pub mod metrics;
#[cfg(feature = "catalog")]
pub mod options;
#[cfg(feature = "catalog")]
pub mod permissions;
#[cfg(feature = "catalog")]
pub mod rate_limit;
#[cfg(feature = "catalog")]
pub mod refusal;
#[cfg(feature = "catalog")]
pub mod remind;
#[cfg(feature = "catalog")]
pub mod sessions;
#[cfg(feature = "catalog")]
pub mod sparkle;
pub mod state_folder;
#[cfg(feature = "catalog")]
pub mod telemetry;
#[cfg(feature = "catalog")]
mod turn_ends;
#[cfg(feature = "catalog")]
pub mod usage;
#[cfg(feature = "catalog")]
pub mod walkthrough;

#[cfg(feature = "catalog")]
pub use catalog::{BuiltIn, ComponentFactory, Entry, find};
