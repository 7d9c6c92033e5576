//! Environment variables for the processes that components start.
//!
//! The conductor finds the processes of its chain by a variable in their environment, and kills those that are left
//! when it ends. A built-in component runs inside the conductor, so the conductor sets the variable here.

use std::ffi::OsString;
use std::sync::OnceLock;

static VARIABLE: OnceLock<(&'static str, OsString)> = OnceLock::new();

/// Sets the variable for all processes that components start from now on. Only the first call has an effect.
pub fn set(name: &'static str, value: impl Into<OsString>) {
    let _ = VARIABLE.set((name, value.into()));
}

/// The variables for a process that a component starts.
pub fn variables() -> Option<(&'static str, OsString)> {
    VARIABLE.get().cloned()
}
