//! A chain survives the failure of its components: real processes crash, hang or close their pipes
//! while messages are under way. The conductor restarts or bypasses them, and the rest of the chain
//! keeps working.
//!
//! The numbers in the comments are those of the conformance checklist.

#![cfg(unix)]

mod agents;
mod answers;
mod chain;
#[path = "../mcp/clients.rs"]
#[allow(dead_code)] // shared with the tests of tools
mod clients;
#[path = "../generations/generation.rs"]
#[allow(dead_code)] // shared with the tests of generations
mod generation;
mod generations;
mod inner_guards;
#[path = "../mcp/chain.rs"]
#[allow(dead_code)] // shared with the tests of tools
mod mcp_chain;
mod nested;
mod notices;
mod policies;
mod policy_options;
mod proxies;
#[path = "../generations/scripted_proxy.rs"]
#[allow(dead_code)] // shared with the tests of generations
mod scripted_proxy;
mod tools;
mod turns;
mod updates;
mod watchdog;

use testkit::test_chain::{TestChain, TestChainBuilder};

/// Restarts happen without a delay and notices are off, so the editor receives nothing but the agent's
/// messages. The tests in `notices` cover what the user sees.
fn new_setup() -> TestChainBuilder {
    setup_with_notices().option(&["--notices", "off"])
}

/// Restarts happen without a delay, and the editor receives notices.
fn setup_with_notices() -> TestChainBuilder {
    default_setup().option(&["--restart-delay", "0..0"])
}

/// The restart delay is longer than any test, so a component that is down stays down.
fn setup_without_restarts() -> TestChainBuilder {
    default_setup().option(&["--restart-delay", "600..600", "--notices", "off"])
}

fn default_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

/// Scripted components do not exit when their input ends. A test that waits for the end of a whole
/// chain uses this to keep the wait short.
const SHORT_GRACE: [&str; 2] = ["--grace", "0.1"];
/// A grace period longer than any test, for components that receive something at the end and then exit themselves.
const LONG_GRACE: [&str; 2] = ["--grace", "600"];
