//! Runs components: as a process, or in a thread of the conductor.

mod group;
pub mod in_process;
#[cfg(windows)]
mod job;
pub mod leftovers;
pub mod pipes;
pub mod process;
#[cfg(unix)]
pub mod reaper;
pub mod start_check;
pub(crate) mod start_failure;

use in_process::ComponentThread;
use process::{Process, StderrTail};

/// A running component.
#[derive(Debug)]
pub enum RunningComponent {
    /// A separate process.
    Process(Process),
    /// A thread of this process. Dropping it stops the component; there is no gentler way.
    Thread(ComponentThread),
}

impl RunningComponent {
    /// The last lines on its stderr.
    pub fn stderr(&self) -> &StderrTail {
        match self {
            RunningComponent::Process(process) => process.stderr(),
            RunningComponent::Thread(thread) => thread.stderr(),
        }
    }

    /// The process id, if it is a separate process.
    pub fn pid(&self) -> Option<u32> {
        match self {
            RunningComponent::Process(process) => process.pid(),
            RunningComponent::Thread(_) => None,
        }
    }

    /// Whether it is a process that has exited, and its exit will be reported soon.
    pub fn is_exiting(&self) -> bool {
        matches!(self, RunningComponent::Process(process) if process.is_exiting())
    }

    /// Asks a process and its children to exit. Does nothing for a thread.
    pub fn terminate(&self) {
        if let RunningComponent::Process(process) = self {
            process.terminate();
        }
    }

    /// Kills a process and its children. Does nothing for a thread.
    pub fn kill(&self) {
        if let RunningComponent::Process(process) = self {
            process.kill();
        }
    }
}
