//! What a component runs in: a process of its own, or a thread of ours.

mod group;
#[cfg(unix)]
pub mod guard;
#[cfg(windows)]
mod job;
pub mod pipes;
pub mod process;
pub mod resident;
pub mod strays;

use process::{Process, Words};
use resident::Guest;

/// A component that runs.
#[derive(Debug)]
pub enum Occupant {
    Process(Process),
    /// Ends when it is dropped; there is nothing that could be done more gently.
    Guest(Guest),
}

impl Occupant {
    pub fn words(&self) -> &Words {
        match self {
            Occupant::Process(process) => process.words(),
            Occupant::Guest(guest) => guest.words(),
        }
    }

    /// The id of its process, if it has one of its own.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Occupant::Process(process) => process.pid(),
            Occupant::Guest(_) => None,
        }
    }

    /// Asks a process and its children to end.
    pub fn terminate(&self) {
        if let Occupant::Process(process) = self {
            process.terminate();
        }
    }

    /// Ends a process and its children.
    pub fn kill(&self) {
        if let Occupant::Process(process) = self {
            process.kill();
        }
    }
}
