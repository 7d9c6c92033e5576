//! The built-in components of conductor: proxies, and agents for tests and demonstrations.
//!
//! Each component has a module in one of the crates below this one, a row in the [`catalog`], a test in `tests/`, and a page in the
//! user guide.
#![warn(missing_docs, unreachable_pub)]

pub mod catalog;

pub use catalog::{BuiltIn, ComponentFactory, Entry, find};
pub use component_base::{
    action, agents, append, audit, child_environment, mentions, options, refusal, sessions,
    state_folder, usage,
};
pub use guards::{budget, filter, hooks, permissions, rate_limit};
pub use proxies::{
    browser, cache, collaborator, companion, context, demo, ide, log, metrics, remind, sparkle,
    telemetry, walkthrough,
};
