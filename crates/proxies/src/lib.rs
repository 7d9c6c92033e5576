//! The built-in proxies that are not guards, and agents for tests and demonstrations.
#![warn(missing_docs, unreachable_pub)]

pub mod browser;
pub mod cache;
pub mod collaborator;
pub mod companion;
pub mod context;
pub mod demo;
mod fence;
pub mod ide;
pub mod log;
pub mod metrics;
pub mod remind;
pub mod sparkle;
pub mod telemetry;
mod turn_ends;
pub mod walkthrough;
