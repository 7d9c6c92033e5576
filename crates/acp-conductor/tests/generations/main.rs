//! Proxies and parent conductors of every generation of the proxy protocol, as real ones behave. The conductor
//! recognizes their generation without configuration and uses its spelling, and no other component notices.
//!
//! The numbers in the comments are those of the conformance checklist.

#![cfg(unix)]

mod explain;
mod generation;
mod handshake;
mod parents;
mod pinning;
mod probing;
mod remembered_greetings;
mod restarts;
mod routing;
mod scp;
mod scripted_proxy;

use testkit::test_chain::{TestChain, TestChainBuilder};

/// Scripted components do not exit when their input ends. A test that waits for the end of a whole
/// chain uses this to keep the wait short.
const SHORT_GRACE: [&str; 2] = ["--grace", "0.1"];

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}
