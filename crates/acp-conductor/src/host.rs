//! What a component runs in: a process of its own, or a thread of ours.

mod group;
pub mod in_process;
#[cfg(windows)]
mod job;
pub mod leftovers;
pub mod pipes;
pub mod process;
#[cfg(unix)]
pub mod reaper;

use in_process::ComponentThread;
use process::{Process, StderrTail};

/// A component that runs.
#[derive(Debug)]
pub enum RunningComponent {
    Process(Process),
    /// Ends when it is dropped; there is nothing that could be done more gently.
    Thread(ComponentThread),
}

impl RunningComponent {
    pub fn stderr(&self) -> &StderrTail {
        match self {
            RunningComponent::Process(process) => process.stderr(),
            RunningComponent::Thread(thread) => thread.stderr(),
        }
    }

    /// The id of its process, if it has one of its own.
    pub fn pid(&self) -> Option<u32> {
        match self {
            RunningComponent::Process(process) => process.pid(),
            RunningComponent::Thread(_) => None,
        }
    }

    /// Asks a process and its children to end.
    pub fn terminate(&self) {
        if let RunningComponent::Process(process) = self {
            process.terminate();
        }
    }

    /// Ends a process and its children.
    pub fn kill(&self) {
        if let RunningComponent::Process(process) = self {
            process.kill();
        }
    }
}
