//! What the tests of the workspace are built from.
//!
//! - Without processes: [`shell`] runs a core in memory, [`peer`] is the other end of a link in any generation, [`script`]
//!   checks a conversation against a text, and [`sim`] runs random schedules and checks invariants. [`topology`],
//!   [`notation`] and [`diff`] are their notation.
//! - With processes: `test_chain` runs the real program with components that a test scripts line by line, and
//!   `test_client` is an editor for components that need no script. [`numbered_lines`] and [`rpc`] build the lines.
//!   `terminal` runs a program in a pty.
//! - [`stub`] has the parts of the benchmark's components, [`peers`] finds the programs on other SDKs.

pub mod diff;
pub mod notation;
pub mod numbered_lines;
pub mod peer;
pub mod peers;
pub mod places;
pub mod rpc;
pub mod script;
pub mod shell;
pub mod sim;
pub mod stub;
#[cfg(unix)]
pub mod terminal;
#[cfg(unix)]
pub mod test_chain;
#[cfg(unix)]
pub mod test_client;
pub mod topology;
