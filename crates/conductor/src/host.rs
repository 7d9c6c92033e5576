//! What a component runs in. Today: a process of its own.

#[cfg(unix)]
pub mod guard;
pub mod process;
