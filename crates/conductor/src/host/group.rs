//! A process and all its children.

#[cfg(unix)]
pub use unix::Group;
#[cfg(windows)]
pub use windows::Group;

/// On Unix: a process group.
#[cfg(unix)]
mod unix {
    use std::io;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
    use tokio::process::{Child, Command};
    use tokio::signal::unix::{SignalKind, signal};

    use crate::host::guard::{self, Record};
    use crate::host::process::Ties;

    /// The entry of a process group on the list of the guard process.
    #[derive(Debug, Clone, Copy)]
    pub struct Entry {
        pipe: Option<i32>,
        token: u32,
    }

    impl Entry {
        fn new(pipe: Option<i32>) -> Entry {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            Entry { pipe, token: NEXT.fetch_add(1, Ordering::Relaxed) }
        }

        fn put(self, leader: i32, started: u64) {
            if let Some(pipe) = self.pipe {
                Record { token: self.token, leader, started }.send(pipe);
            }
        }

        /// Takes it off the list.
        pub fn strike(self) {
            self.put(0, 0);
        }
    }

    #[derive(Debug, Clone)]
    pub struct Group {
        /// Gone once the group has ended: from then on the system may reuse the number. Locked while a
        /// signal is sent, so that the group cannot end meanwhile.
        leader: Arc<Mutex<Option<Pid>>>,
        entry: Entry,
    }

    impl Group {
        /// Prepares a command to become a group. If it cannot be started, the entry must be struck.
        pub fn prepare(command: &mut Command, ties: Ties) -> Entry {
            command.process_group(0);
            let entry = Entry::new(ties.guard);
            #[cfg(target_os = "linux")]
            let parent = rustix::process::getpid();
            let prepare = move || {
                if entry.pipe.is_some() {
                    // Without the guard process, the parent-death signal is all there is. That it was
                    // killed must not kill a component that is started later.
                    // SAFETY: no handler is installed, and nothing else runs in this process.
                    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
                    let pid = rustix::process::getpid().as_raw_nonzero().get();
                    entry.put(pid, guard::own_start());
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
            entry
        }

        pub fn of(child: &Child, entry: Entry) -> io::Result<Group> {
            let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
            Ok(Group { leader: Arc::new(Mutex::new(leader)), entry })
        }

        pub fn terminate(&self) {
            self.signal(Signal::TERM);
        }

        pub fn kill(&self) {
            self.signal(Signal::KILL);
        }

        fn signal(&self, signal: Signal) {
            if let Some(leader) = *self.leader.lock().unwrap_or_else(PoisonError::into_inner) {
                // Fails only when nobody is left in the group, which is what we want.
                let _ = kill_process_group(leader, signal);
            }
        }

        /// Waits until the leader has ended, and ends the rest of the group. The leader is not reaped
        /// before: until then its number, which is that of the group, belongs to nobody else.
        pub async fn end(&self, child: &mut Child) {
            match signal(SignalKind::child()) {
                Ok(mut children) => {
                    while !self.leader_has_ended() && children.recv().await.is_some() {}
                }
                Err(_) => drop(child.wait().await),
            }
            self.kill();
            *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.entry.strike();
        }

        /// Whether the leader has ended. It is not reaped.
        fn leader_has_ended(&self) -> bool {
            let leader = *self.leader.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(leader) = leader else { return true };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            // An error says that there is no such child, so there is nothing to wait for.
            !matches!(waitid(WaitId::Pid(leader), options), Ok(None) | Err(rustix::io::Errno::INTR))
        }
    }
}

/// On Windows: a job object, which ends with its last handle. Only we have one, so a component and its
/// children end with us, however we end.
#[cfg(windows)]
mod windows {
    use std::io;
    use std::sync::Arc;

    use tokio::process::{Child, Command};

    use crate::host::job::{Job, START_SUSPENDED, resume};
    use crate::host::process::Ties;

    /// There is no list of groups to be struck from.
    #[derive(Debug, Clone, Copy)]
    pub struct Entry;

    impl Entry {
        pub fn strike(self) {}
    }

    #[derive(Debug, Clone)]
    pub struct Group(Arc<Job>);

    impl Group {
        /// Prepares a command to become a group: it does not run before it is in its job, so that all
        /// its children are in it, too.
        pub fn prepare(command: &mut Command, _ties: Ties) -> Entry {
            command.creation_flags(START_SUSPENDED).kill_on_drop(true);
            Entry
        }

        pub fn of(child: &Child, _entry: Entry) -> io::Result<Group> {
            let (Some(handle), Some(id)) = (child.raw_handle(), child.id()) else {
                return Err(io::Error::other("it has ended before it began"));
            };
            let job = Job::new()?;
            job.add(handle)?;
            resume(id)?;
            Ok(Group(Arc::new(job)))
        }

        /// Waits until the process has ended, and ends the rest of the group.
        pub async fn end(&self, child: &mut Child) {
            let _ = child.wait().await;
            self.kill();
        }

        /// A process without a window cannot be asked to end. The end of its standard input has to do.
        pub fn terminate(&self) {}

        pub fn kill(&self) {
            self.0.end();
        }
    }
}
