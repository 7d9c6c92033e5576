//! A process and all its children.

#[cfg(unix)]
pub use unix::Group;
#[cfg(windows)]
pub use windows::Group;

/// On Unix: a process group.
#[cfg(unix)]
mod unix {
    use std::io::{self, PipeReader, Read, Write};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    use rustix::process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, waitid, waitpid,
    };
    use tokio::process::{Child, Command};
    use tokio::signal::unix::{SignalKind, signal};

    use crate::host::process::ProcessCleanup;
    use crate::host::reaper::{self, GroupRecord};

    /// The entry of a process group on the list of the guard process.
    #[derive(Debug, Clone, Copy)]
    pub struct ReaperEntry {
        pipe: Option<i32>,
        token: u32,
    }

    impl ReaperEntry {
        fn new(pipe: Option<i32>) -> ReaperEntry {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            ReaperEntry { pipe, token: NEXT.fetch_add(1, Ordering::Relaxed) }
        }

        fn send(self, leader: i32, started: u64) {
            if let Some(pipe) = self.pipe {
                GroupRecord { token: self.token, leader, started }.send(pipe);
            }
        }

        /// Takes it off the list.
        pub fn remove(self) {
            self.send(0, 0);
        }
    }

    /// A start that may fail, also after the process has begun to run.
    #[derive(Debug)]
    pub struct PendingStart {
        entry: ReaperEntry,
        /// The process writes its number here before it becomes the component.
        pid_reader: PipeReader,
    }

    impl PendingStart {
        /// The start has failed. If the process runs all the same, it is killed with its group. Only then
        /// is the entry struck: until then the guard process is to know of it.
        pub fn abandon(mut self) {
            let mut pid = [0; 4];
            let read = self.pid_reader.read_exact(&mut pid);
            let pid = read.ok().and_then(|()| Pid::from_raw(i32::from_ne_bytes(pid)));
            if let Some(pid) = pid {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                // An error says that it is no child of ours any more: it could not be executed, and was reaped.
                if waitid(WaitId::Pid(pid), options).is_ok() {
                    let _ = kill_process_group(pid, Signal::KILL);
                    let _ = waitpid(Some(pid), WaitOptions::empty());
                }
            }
            self.entry.remove();
        }
    }

    #[derive(Debug, Clone)]
    pub struct Group {
        /// Gone once the group has ended: from then on the system may reuse the number. Locked while a
        /// signal is sent, so that the group cannot end meanwhile.
        leader: Arc<Mutex<Option<Pid>>>,
        entry: ReaperEntry,
    }

    impl Group {
        /// Prepares a command to become a group. If it cannot be started, the pending must be abandoned.
        pub fn prepare(command: &mut Command, cleanup: ProcessCleanup) -> io::Result<PendingStart> {
            command.process_group(0);
            let (pid_reader, mut pid_writer) = io::pipe()?;
            rustix::io::ioctl_fionbio(&pid_reader, true)?;
            let entry = ReaperEntry::new(cleanup.reaper);
            #[cfg(target_os = "linux")]
            let parent = rustix::process::getpid();
            let prepare = move || {
                let pid = rustix::process::getpid().as_raw_nonzero().get();
                pid_writer.write_all(&pid.to_ne_bytes())?;
                if entry.pipe.is_some() {
                    // Without the guard process, the parent-death signal is all there is. That it was
                    // killed must not kill a component that is started later.
                    // SAFETY: no handler is installed, and nothing else runs in this process.
                    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
                    entry.send(pid, reaper::own_start_time());
                    // SAFETY: as above; it is what a fresh program expects.
                    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
                }
                #[cfg(target_os = "linux")]
                if cleanup.die_with_thread {
                    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                    if rustix::process::getppid() != Some(parent) {
                        return Err(io::Error::from_raw_os_error(libc::ESRCH));
                    }
                }
                Ok(())
            };
            // SAFETY: between fork and exec only system calls are made, nothing is allocated.
            unsafe { command.pre_exec(prepare) };
            Ok(PendingStart { entry, pid_reader })
        }

        /// The group of a child that runs.
        pub fn for_child(child: &Child, pending: &PendingStart) -> io::Result<Group> {
            let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
            Ok(Group { leader: Arc::new(Mutex::new(leader)), entry: pending.entry })
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
            self.entry.remove();
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

    #[cfg(test)]
    mod tests {
        use super::*;

        fn command(program: &str) -> (Command, PendingStart) {
            let mut command = Command::new(program);
            command.arg("600").stdin(std::process::Stdio::null());
            let pending = Group::prepare(&mut command, ProcessCleanup::default()).expect("a pipe");
            (command, pending)
        }

        /// As when the runtime fails to watch the process that it has started.
        #[test]
        fn a_process_that_runs_though_its_start_failed_is_killed() {
            let (mut command, pending) = command("sleep");
            let child = command.as_std_mut().spawn().expect("a program of every system");
            let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
            drop(child);
            rustix::process::test_kill_process(pid).expect("it runs");
            pending.abandon();
            assert!(rustix::process::test_kill_process_group(pid).is_err());
        }

        #[test]
        fn nothing_is_killed_for_a_program_that_could_not_be_executed() {
            let (mut command, pending) = command("/is/not/there");
            assert!(command.as_std_mut().spawn().is_err());
            pending.abandon();
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
    use crate::host::process::ProcessCleanup;

    /// A start that may fail. A process that runs all the same is killed when its handle is dropped.
    #[derive(Debug)]
    pub struct PendingStart;

    impl PendingStart {
        pub fn abandon(self) {}
    }

    #[derive(Debug, Clone)]
    pub struct Group(Arc<Job>);

    impl Group {
        /// Prepares a command to become a group: it does not run before it is in its job, so that all
        /// its children are in it, too.
        pub fn prepare(command: &mut Command, _ties: ProcessCleanup) -> io::Result<PendingStart> {
            command.creation_flags(START_SUSPENDED).kill_on_drop(true);
            Ok(PendingStart)
        }

        pub fn for_child(child: &Child, _attempt: &PendingStart) -> io::Result<Group> {
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
