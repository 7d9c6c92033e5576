//! Proxies, and conductors above us, of every generation of the proxy protocol, as real ones behave:
//! found out without being told, spoken to in their own spelling, seen by nobody else.
//!
//! The numbers are those of the conformance checklist.

#![cfg(unix)]

mod explaining;
mod handshake;
mod memory;
mod parents;
mod pinning;
mod players;
mod probing;
mod restarts;
mod routing;
mod scp;
mod spelling;

use testkit::stage::{Setup, Stage};

/// Puppets do not end by themselves when their input does. Where a test waits for the end of a whole
/// chain of them, it need not wait long.
const HASTE: [&str; 2] = ["--grace", "0.1"];

fn stage() -> Setup {
    Stage::new(env!("CARGO_BIN_EXE_conductor"))
}
