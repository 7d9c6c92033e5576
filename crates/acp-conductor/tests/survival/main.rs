//! Chains that survive: real processes die, hang or close their pipes in the middle of things, others
//! take their places, and everybody else goes on.
//!
//! "Line" is one of the list that these tests were written from: 1 policies, 2 proxies, 3 the agent,
//! 4 tools, 5 silence, 6 what people are told, 7 chains in chains. The numbers are those of the
//! conformance checklist.

#![cfg(unix)]

mod agents;
mod answers;
#[path = "../mcp/clients.rs"]
#[allow(dead_code)] // shared with the tests of tools
mod clients;
mod generations;
mod inner_guards;
#[path = "../mcp/play.rs"]
#[allow(dead_code)] // shared with the tests of tools
mod mcp_play;
mod nested;
mod play;
#[path = "../generations/players.rs"]
#[allow(dead_code)] // shared with the tests of generations
mod players;
mod policies;
mod proxies;
#[path = "../generations/spelling.rs"]
#[allow(dead_code)] // shared with the tests of generations
mod spelling;
mod telling;
mod tools;
mod turns;
mod updates;
mod watchdog;

use testkit::stage::{Setup, Stage};

/// Restarts happen at once, and the editor hears nothing but answers: what it is told beside that has
/// tests of its own.
fn stage() -> Setup {
    loud().option(&["--notices", "off"])
}

/// The same, and the editor is told.
fn loud() -> Setup {
    bare().option(&["--restart-delay", "0..0"])
}

/// Restarts happen when no test lives to see it: who is away stays away.
fn never_back() -> Setup {
    bare().option(&["--restart-delay", "600..600", "--notices", "off"])
}

fn bare() -> Setup {
    Stage::new(env!("CARGO_BIN_EXE_conductor"))
}

/// Puppets do not end by themselves when their input does. Where a test waits for the end of a whole
/// chain of them, it need not wait long.
const HASTE: [&str; 2] = ["--grace", "0.1"];
