//! Conditions that are hard on the machine: components that crash again and again, full disks and descriptor
//! tables, stopped processes, daemons that hold pipes open. The components are real programs that act on their
//! own. The test is the editor, and kills them.
//!
//! `ENDURANCE=600 cargo test --release --test endurance soak` soaks for ten minutes instead of a few
//! seconds.

#![cfg(target_os = "linux")]

mod crashes;
mod ends;
mod resource_limits;
mod soak;
mod stopped_processes;

use testkit::test_chain::{TestChain, TestChainBuilder, binary, memory, wait_until};
use testkit::test_client::TestClient;

/// A component is restarted at once, however often it crashes.
const UNLIMITED_RESTARTS: [&str; 4] = ["--restarts", "10000/3600", "--restart-delay", "0..0"];

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

/// A program of the testkit, as a COMPONENT with this name.
fn component(name: &str, program: &str, arguments: &[&str]) -> String {
    serde_json::json!({ "name": name, "command": binary(program), "args": arguments }).to_string()
}

/// A proxy that passes everything on.
fn proxy(name: &str) -> String {
    component(name, "transparent", &[])
}

/// An agent that can restore its sessions.
fn agent(arguments: &[&str]) -> String {
    component("agent", "resumable_agent", arguments)
}

/// Two proxies and an agent.
fn start_chain(name: &str, options: &[&str]) -> TestClient {
    let components = [proxy("first"), proxy("second"), agent(&[])];
    TestClient::start(new_setup().option(&UNLIMITED_RESTARTS).option(options), name, &components)
}

/// The resources of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usage {
    descriptors: usize,
    threads: usize,
    /// In KiB.
    memory: u64,
}

fn usage(pid: u32) -> Usage {
    let count = |what: &str| {
        std::fs::read_dir(format!("/proc/{pid}/{what}")).expect("a running process").count()
    };
    Usage { descriptors: count("fd"), threads: count("task"), memory: memory(pid).0 }
}

/// Waits until a process has no more descriptors and threads than before, since they are released with a
/// delay. Returns by how much its memory has grown, in KiB.
fn growth(pid: u32, before: Usage) -> u64 {
    let now = wait_until("descriptors and threads are as many as before", || {
        let now = usage(pid);
        let fits = now.descriptors <= before.descriptors && now.threads <= before.threads;
        fits.then_some(now)
    });
    now.memory.saturating_sub(before.memory)
}
