//! A process and all its children.

#[cfg(not(unix))]
pub use other::Group;
#[cfg(unix)]
pub use unix::Group;

/// On Unix: a process group.
#[cfg(unix)]
mod unix {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::process::{Pid, Signal, kill_process_group};
    use tokio::process::{Child, Command};

    use crate::host::process::Ties;

    #[derive(Debug, Clone)]
    pub struct Group {
        leader: Option<Pid>,
        /// The leader is reaped: the number may be somebody else's soon, signal it no more.
        gone: Arc<AtomicBool>,
        ties: Ties,
    }

    impl Group {
        pub fn prepare(command: &mut Command, ties: Ties) {
            command.process_group(0);
            #[cfg(target_os = "linux")]
            let parent = rustix::process::getpid();
            let prepare = move || {
                if let Some(guard) = ties.guard {
                    let pid = rustix::process::getpid().as_raw_nonzero().get();
                    // SAFETY: the guard's pipe is open as long as the chain runs.
                    let guard = unsafe { std::os::fd::BorrowedFd::borrow_raw(guard) };
                    // Without the guard, the parent-death signal is all there is. That it was killed
                    // must not kill whoever is started later.
                    // SAFETY: no handler is installed, and nothing else runs in this process.
                    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
                    let _ = rustix::io::write(guard, &pid.to_ne_bytes());
                    // SAFETY: as above; it is what a fresh program expects.
                    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
                }
                #[cfg(target_os = "linux")]
                if ties.die_with_thread {
                    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                    if rustix::process::getppid() != Some(parent) {
                        return Err(io::Error::from_raw_os_error(libc::ESRCH));
                    }
                }
                Ok(())
            };
            // SAFETY: between fork and exec only system calls are made, nothing is allocated.
            unsafe { command.pre_exec(prepare) };
        }

        pub fn of(child: &Child, ties: Ties) -> Group {
            let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
            Group { leader, gone: Arc::default(), ties }
        }

        pub fn terminate(&self) {
            self.signal(Signal::TERM);
        }

        pub fn kill(&self) {
            self.signal(Signal::KILL);
        }

        fn signal(&self, signal: Signal) {
            if let Some(leader) = self.leader
                && !self.gone.load(Ordering::Relaxed)
            {
                // Fails only when nobody is left in the group, which is what we want.
                let _ = kill_process_group(leader, signal);
            }
        }

        pub fn forget(&self) {
            self.gone.store(true, Ordering::Relaxed);
            if let (Some(leader), Some(guard)) = (self.leader, self.ties.guard) {
                // SAFETY: the guard's pipe is open as long as the chain runs.
                let guard = unsafe { std::os::fd::BorrowedFd::borrow_raw(guard) };
                let number = -leader.as_raw_nonzero().get();
                let _ = rustix::io::write(guard, &number.to_ne_bytes());
            }
        }
    }
}

/// Elsewhere: the process itself, ended by closing its pipes and then by the runtime.
#[cfg(not(unix))]
mod other {
    use tokio::process::{Child, Command};

    use crate::host::process::Ties;

    #[derive(Debug, Clone)]
    pub struct Group;

    impl Group {
        pub fn prepare(command: &mut Command, _ties: Ties) {
            command.kill_on_drop(true);
        }

        pub fn of(_child: &Child, _ties: Ties) -> Group {
            Group
        }

        pub fn terminate(&self) {}

        pub fn kill(&self) {}

        pub fn forget(&self) {}
    }
}
