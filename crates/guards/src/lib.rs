//! The built-in guards: proxies that keep messages from passing. The chain does not bypass them unless the user allows it.
#![warn(missing_docs, unreachable_pub)]

pub mod budget;
pub mod filter;
pub mod hooks;
pub mod permissions;
pub mod rate_limit;
