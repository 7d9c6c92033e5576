//! What a component runs in. Today: a process of its own.

mod group;
#[cfg(unix)]
pub mod guard;
pub mod process;
