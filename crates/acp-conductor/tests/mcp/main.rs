//! MCP servers of proxies, with real processes: scripted proxies and agents, and MCP clients that really
//! start or call the servers that the conductor declares, as an agent would.
//!
//! The numbers in the comments are those of the conformance checklist.

#![cfg(unix)]

mod access;
mod chain;
mod clients;
mod command;
mod declarations;
mod fallback;
mod lifecycle;
mod nested;
mod scp;
mod sessions;
mod stateless;
mod traffic;
mod walkthrough;

use testkit::test_chain::{TestChain, TestChainBuilder};

/// Scripted components do not exit when their input ends. A test that waits for the end of a whole
/// chain uses this to keep the wait short.
const SHORT_GRACE: [&str; 2] = ["--grace", "0.1"];

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}
