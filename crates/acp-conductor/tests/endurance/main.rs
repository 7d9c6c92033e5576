//! What is hard on the machine: components that die again and again, disks and descriptor tables that
//! are full, processes that are stopped, daemons that hold pipes open. Real processes that play by
//! themselves; the test is the editor, and kills.
//!
//! `ENDURANCE=600 cargo test --release --test endurance soak` soaks for ten minutes instead of some
//! seconds.

#![cfg(target_os = "linux")]

mod deaths;
mod ends;
mod scarcity;
mod soak;
mod stops;

use testkit::test_chain::{TestChain, TestChainBuilder, binary, memory, wait_until};
use testkit::test_client::TestClient;

/// The chain goes on, however often a component dies.
const TIRELESS: [&str; 4] = ["--restarts", "10000/3600", "--restart-delay", "0..0"];

fn test_chain() -> TestChainBuilder {
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

/// An agent that a restart costs nothing.
fn agent(arguments: &[&str]) -> String {
    component("agent", "resumable_agent", arguments)
}

/// Two proxies and an agent.
fn start_chain(name: &str, options: &[&str]) -> TestClient {
    let components = [proxy("first"), proxy("second"), agent(&[])];
    TestClient::start(test_chain().option(&TIRELESS).option(options), name, &components)
}

/// What a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usage {
    descriptors: usize,
    threads: usize,
    /// In KiB.
    memory: u64,
}

fn usage(pid: u32) -> Usage {
    let count =
        |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).expect("it runs").count();
    Usage { descriptors: count("fd"), threads: count("task"), memory: memory(pid).0 }
}

/// Waits until a process has no more descriptors and threads than it had, and says how much more memory
/// it has than then, in KiB. (What is closed is closed a moment later.)
fn growth(pid: u32, before: Usage) -> u64 {
    let now = wait_until("descriptors and threads are as many as before", || {
        let now = usage(pid);
        let fits = now.descriptors <= before.descriptors && now.threads <= before.threads;
        fits.then_some(now)
    });
    now.memory.saturating_sub(before.memory)
}
