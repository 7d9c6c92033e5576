//! Tools from proxies, with real processes: the real program, proxies and agents as puppets, and the
//! MCP servers that the conductor declares really started, or called, as the agent would.
//!
//! The numbers are those of the conformance checklist; "phase" is one of the check-list of seed 003;
//! "issue" is what issue 4 asks for.

#![cfg(unix)]

mod clients;
mod command;
mod declarations;
mod doors;
mod fallback;
mod lifecycle;
mod nested;
mod play;
mod scp;
mod sessions;
mod stateless;
mod traffic;
mod walkthrough;

use testkit::stage::{Setup, Stage};

/// Puppets do not end by themselves when their input does. Where a test waits for the end of a whole
/// chain of them, it need not wait long.
const HASTE: [&str; 2] = ["--grace", "0.1"];

fn stage() -> Setup {
    Stage::new(env!("CARGO_BIN_EXE_conductor"))
}
