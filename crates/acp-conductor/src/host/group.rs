//! A component process together with its children.

#[cfg(unix)]
pub(crate) use unix::Group;
#[cfg(windows)]
pub(crate) use windows::Group;

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

    /// The entry of a process group on the list of the reaper.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct ReaperEntry {
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

        /// Removes the entry from the list.
        pub(crate) fn remove(self) {
            self.send(0, 0);
        }
    }

    /// A process start in progress. It may fail even after the process has begun to run.
    #[derive(Debug)]
    pub(crate) struct PendingStart {
        entry: ReaperEntry,
        /// The forked child writes its process id here before it executes the program.
        pid_reader: PipeReader,
    }

    impl PendingStart {
        /// Cleans up after a failed start. If the process is running, kills it and its group. Then removes the
        /// entry from the list of the reaper.
        pub(crate) fn abandon(mut self) {
            let mut pid = [0; 4];
            let read = self.pid_reader.read_exact(&mut pid);
            let pid = read.ok().and_then(|()| Pid::from_raw(i32::from_ne_bytes(pid)));
            if let Some(pid) = pid {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                // An error means that the child could not execute the program and was already reaped.
                if waitid(WaitId::Pid(pid), options).is_ok() {
                    let _ = kill_process_group(pid, Signal::KILL);
                    let _ = waitpid(Some(pid), WaitOptions::empty());
                }
            }
            self.entry.remove();
        }
    }

    /// The process group of a component.
    #[derive(Debug, Clone)]
    pub(crate) struct Group {
        /// The process id of the leader. `None` once the group has ended, because the system may then reuse
        /// the id. Locked while a signal is sent, so that the group cannot end at that moment.
        leader: Arc<Mutex<Option<Pid>>>,
        entry: ReaperEntry,
    }

    impl Group {
        /// Configures a command to start in a new process group. If the start fails, call
        /// [`PendingStart::abandon`].
        pub(crate) fn prepare(
            command: &mut Command,
            cleanup: ProcessCleanup,
        ) -> io::Result<PendingStart> {
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
                    // If the reaper was killed, writing to its pipe must not kill this component.
                    // SAFETY: no handler is installed, and the forked child has a single thread.
                    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
                    entry.send(pid, reaper::own_start_time());
                    // SAFETY: as above. New programs expect the default.
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
            // SAFETY: between fork and exec there are only system calls and no allocation.
            unsafe { command.pre_exec(prepare) };
            Ok(PendingStart { entry, pid_reader })
        }

        /// The group of a started child.
        pub(crate) fn for_child(child: &Child, pending: &PendingStart) -> io::Result<Group> {
            let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
            Ok(Group { leader: Arc::new(Mutex::new(leader)), entry: pending.entry })
        }

        /// Asks the processes of the group to exit.
        pub(crate) fn terminate(&self) {
            self.signal(Signal::TERM);
        }

        /// Kills the processes of the group.
        pub(crate) fn kill(&self) {
            self.signal(Signal::KILL);
        }

        fn signal(&self, signal: Signal) {
            if let Some(leader) = *self.leader.lock().unwrap_or_else(PoisonError::into_inner) {
                // Fails only if the group is empty.
                let _ = kill_process_group(leader, signal);
            }
        }

        /// Waits until the leader has exited, then kills the rest of the group. Does not reap the leader
        /// before that, because its process id, which identifies the group, could be reused.
        pub(crate) async fn end(&self, child: &mut Child) {
            match signal(SignalKind::child()) {
                Ok(mut children) => while !self.has_ended() && children.recv().await.is_some() {},
                Err(_) => drop(child.wait().await),
            }
            self.kill();
            *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.entry.remove();
        }

        /// Whether the leader has exited. Does not reap it.
        pub(crate) fn has_ended(&self) -> bool {
            let leader = *self.leader.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(leader) = leader else { return true };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            // An error means that there is no such child.
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

        /// This happens, for example, if the runtime cannot register a process that it has started.
        #[test]
        fn a_process_that_runs_although_its_start_failed_is_killed() {
            let (mut command, pending) = command("sleep");
            let child = command.as_std_mut().spawn().expect("a program of every system");
            let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
            drop(child);
            rustix::process::test_kill_process(pid).expect("it runs");
            pending.abandon();
            assert!(rustix::process::test_kill_process_group(pid).is_err());
        }

        #[test]
        fn nothing_is_killed_if_the_program_could_not_be_executed() {
            let (mut command, pending) = command("/is/not/there");
            assert!(command.as_std_mut().spawn().is_err());
            pending.abandon();
        }
    }
}

/// On Windows: a job object. The system kills its processes when the last handle is closed. Only the conductor
/// has a handle, so a component and its children never outlive it.
#[cfg(windows)]
mod windows {
    use std::io;
    use std::sync::Arc;

    use tokio::process::{Child, Command};

    use crate::host::job::{Job, START_SUSPENDED, resume};
    use crate::host::process::ProcessCleanup;

    /// A start in progress. If it fails, dropping the handle of the process kills it.
    #[derive(Debug)]
    pub(crate) struct PendingStart;

    impl PendingStart {
        /// Does nothing.
        pub(crate) fn abandon(self) {}
    }

    /// The job object of a component.
    #[derive(Debug, Clone)]
    pub(crate) struct Group(Arc<Job>);

    impl Group {
        /// Configures a command to start suspended, so that it is in its job before it can start children.
        pub(crate) fn prepare(
            command: &mut Command,
            _cleanup: ProcessCleanup,
        ) -> io::Result<PendingStart> {
            command.creation_flags(START_SUSPENDED).kill_on_drop(true);
            Ok(PendingStart)
        }

        /// Adds a started child to a new job and resumes it.
        pub(crate) fn for_child(child: &Child, _pending: &PendingStart) -> io::Result<Group> {
            let (Some(handle), Some(id)) = (child.raw_handle(), child.id()) else {
                return Err(io::Error::other("the process exited immediately"));
            };
            let job = Job::new()?;
            job.add(handle)?;
            resume(id)?;
            Ok(Group(Arc::new(job)))
        }

        /// Waits until the process has exited, then kills its children.
        pub(crate) async fn end(&self, child: &mut Child) {
            let _ = child.wait().await;
            self.kill();
        }

        /// Unknown: the exit of a job is reported without a clean-up.
        pub(crate) fn has_ended(&self) -> bool {
            false
        }

        /// Does nothing: Windows cannot ask a process without a window to exit. Closing its standard input must
        /// suffice.
        pub(crate) fn terminate(&self) {}

        /// Kills the processes of the job.
        pub(crate) fn kill(&self) {
            self.0.end();
        }
    }
}
