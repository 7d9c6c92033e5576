//! The reaper: a small forked process that kills the components if the conductor is killed.
//!
//! The conductor stops the process groups of its components when it exits, but not if it is killed with
//! SIGKILL. In that case Linux kills its direct children (by a parent-death signal), but not the children of
//! these. The reaper reads from a pipe whose writing end only the conductor has. When the pipe closes, for
//! whatever reason, the reaper kills the process groups that are still on its list, and their leftovers.
//!
//! Process ids are reused, and the reaper must never kill an unrelated process. So a failed start removes its
//! entry from the list, a group is removed before its leader is reaped (until then the id cannot be reused),
//! and the reaper compares the start time of the leader before it kills a group.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

use crate::host::leftovers::{self, ProcessTag};

/// How long to wait for the reaper to exit before sending SIGCONT, in case it was stopped.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long to wait after that before killing it.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// The running reaper. Dropping it ends the reaper, which kills the process groups on its list.
#[derive(Debug)]
pub struct Reaper {
    pipe: Option<OwnedFd>,
    /// A pipe whose writing end only the reaper has. It closes when the reaper exits.
    running: OwnedFd,
    pid: libc::pid_t,
}

impl Reaper {
    /// Forks the reaper.
    ///
    /// # Errors
    /// The system cannot create a pipe or a process.
    ///
    /// # Safety
    /// The program must have a single thread, because the reaper continues in a forked copy of it.
    pub unsafe fn start(tag: ProcessTag) -> io::Result<Reaper> {
        let (reading, writing) = io::pipe()?;
        let (running, held) = io::pipe()?;
        // A reaper that does not read must not delay the start of a component.
        rustix::io::ioctl_fionbio(&writing, true)?;
        // SAFETY: there is a single thread, so the copy can continue to run.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(writing);
                drop(running);
                run(reading.as_fd(), tag);
                drop(held);
                // SAFETY: exits without running the exit handlers of the conductor.
                unsafe { libc::_exit(0) }
            }
            pid => Ok(Reaper { pipe: Some(writing.into()), running: running.into(), pid }),
        }
    }

    /// The pipe for [`GroupRecord`]s. A forked child writes its record before it executes the program of the
    /// component, so a component never runs without being on the list.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.pipe.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Whether the reaper exits within this time.
    fn exits_within(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let Ok(rest) = Timespec::try_from(rest) else { return false };
            let mut wait = [PollFd::new(&self.running, PollFlags::IN)];
            match poll(&mut wait, Some(&rest)) {
                Err(rustix::io::Errno::INTR) => {}
                ready => return ready.is_ok_and(|count| count > 0),
            }
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.pipe = None;
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        // While the reaper keeps its pipe open it exists, so its process id was not reused.
        if !self.exits_within(EXIT_TIMEOUT) {
            let _ = kill_process(pid, Signal::CONT);
            if !self.exits_within(KILL_TIMEOUT) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
}

/// Adds a process group to the reaper's list, or removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRecord {
    /// Identifies the entry. Each start of a component has a different token.
    pub token: u32,
    /// The process id of the group leader; 0 removes the entry.
    pub leader: i32,
    /// The start time of the leader in clock ticks; 0 if unknown.
    pub started: u64,
}

impl GroupRecord {
    const SIZE: usize = 16;

    /// Writes the record to the pipe of the reaper. Ignores errors: the reaper may have been killed.
    /// Allocates no memory, because a forked child calls it.
    pub fn send(self, pipe: RawFd) {
        let mut bytes = [0; GroupRecord::SIZE];
        bytes[..4].copy_from_slice(&self.token.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.leader.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.started.to_ne_bytes());
        // SAFETY: the pipe stays open while the chain runs.
        let pipe = unsafe { BorrowedFd::borrow_raw(pipe) };
        // A write of this size is atomic.
        let _ = rustix::io::write(pipe, &bytes);
    }

    fn read(pipe: BorrowedFd<'_>) -> Option<GroupRecord> {
        let mut bytes = [0; GroupRecord::SIZE];
        let mut have = 0;
        while have < bytes.len() {
            match rustix::io::read(pipe, &mut bytes[have..]) {
                Ok(0) => return None,
                Ok(count) => have += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        let [t0, t1, t2, t3, l0, l1, l2, l3, started @ ..] = bytes;
        Some(GroupRecord {
            token: u32::from_ne_bytes([t0, t1, t2, t3]),
            leader: i32::from_ne_bytes([l0, l1, l2, l3]),
            started: u64::from_ne_bytes(started),
        })
    }
}

/// The process groups to kill, with their leader and its start time, by token.
#[derive(Debug, Default)]
struct GroupList(BTreeMap<u32, (i32, u64)>);

impl GroupList {
    /// Reads records until the pipe is closed, or until a non-blocking pipe is empty.
    fn read(&mut self, pipe: BorrowedFd<'_>) {
        while let Some(GroupRecord { token, leader, started }) = GroupRecord::read(pipe) {
            match leader {
                0 => drop(self.0.remove(&token)),
                _ => drop(self.0.insert(token, (leader, started))),
            }
        }
    }

    fn kill(&self) {
        for (leader, started) in self.0.values() {
            let now = start_time_of(*leader);
            let reused = *started != 0 && now.is_some_and(|now| now != *started);
            if let Some(group) = Pid::from_raw(*leader).filter(|_| !reused) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }
}

/// Runs the reaper: maintains the list until the pipe closes, then kills the groups on it.
fn run(pipe: BorrowedFd<'_>, tag: ProcessTag) {
    // A new session: signals to the process group of the conductor do not reach the reaper.
    let _ = rustix::process::setsid();
    // A different name: killing the conductor by name does not kill the reaper.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"chain-reaper");
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: the process has a single thread.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // The reader of the conductor's output must see its end when the conductor exits.
    // SAFETY: nothing in this process uses the standard streams.
    unsafe {
        libc::close(0);
        libc::close(1);
        libc::close(2);
    }
    let mut list = GroupList::default();
    list.read(pipe);
    list.kill();
    leftovers::kill_all(&tag.to_string());
}

/// The start time of a process in clock ticks since boot. Linux only.
#[cfg(target_os = "linux")]
fn start_time_of(pid: i32) -> Option<u64> {
    parse_start_time(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

#[cfg(not(target_os = "linux"))]
fn start_time_of(_pid: i32) -> Option<u64> {
    None
}

/// The start time of this process, or 0. Allocates no memory, because a forked child calls it.
pub fn own_start_time() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let mut stat = [0; 1024];
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let file = rustix::fs::open(c"/proc/self/stat", flags, rustix::fs::Mode::empty());
        let count = file.and_then(|file| rustix::io::read(file, &mut stat[..]));
        count.ok().and_then(|count| parse_start_time(&stat[..count])).unwrap_or(0)
    }
    #[cfg(not(target_os = "linux"))]
    0
}

/// Parses the 22nd field of a `stat` file. The second field is a name, which may contain spaces and brackets.
#[cfg(target_os = "linux")]
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let rest = &stat[memchr::memrchr(b')', stat)? + 1..];
    let field = rest.split(|byte| *byte == b' ').filter(|field| !field.is_empty()).nth(19)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Spec;
    use crate::host::process::{Process, ProcessCleanup};
    use router::Seat;

    /// A pipe like that of the reaper, but non-blocking.
    fn pipe() -> (OwnedFd, OwnedFd) {
        let (reading, writing) = io::pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&reading, true).expect("a pipe can do that");
        (reading.into(), writing.into())
    }

    async fn start(command: &str, pipe: &OwnedFd) -> io::Result<(Process, ExitReceiver)> {
        let cleanup =
            ProcessCleanup { reaper: Some(pipe.as_raw_fd()), ..ProcessCleanup::default() };
        let (ended, has_ended) = tokio::sync::mpsc::unbounded_channel();
        let spec = Spec::parse(command).expect("a command line");
        Process::start(&spec, (Seat(1), 0), cleanup, ended, |_| {}).map(|it| (it.0, has_ended))
    }

    type ExitReceiver = tokio::sync::mpsc::UnboundedReceiver<crate::host::process::ComponentExit>;

    #[tokio::test]
    async fn a_command_that_cannot_be_executed_is_not_on_the_list() {
        use std::os::unix::fs::PermissionsExt;
        let directory =
            std::env::temp_dir().join(format!("conductor-reaper-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = |name: &str, text: &str, mode: u32| {
            let path = directory.join(name);
            std::fs::write(&path, text).expect("a file");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))
                .expect("the directory belongs to the test");
            path.display().to_string()
        };
        let commands = [
            file("missing", "", 0o600).replace("missing", "is not there"),
            file("plain", "#!/bin/sh\n", 0o600),
            file("lost", "#!/is/not/there\n", 0o700),
            directory.display().to_string(),
        ];
        let (reading, writing) = pipe();
        let mut list = GroupList::default();
        for command in commands {
            let command = serde_json::json!({ "command": command }).to_string();
            assert!(start(&command, &writing).await.is_err(), "{command}");
            list.read(reading.as_fd());
            assert!(list.0.is_empty(), "{command}: {list:?}");
        }
        std::fs::remove_dir_all(directory).expect("the directory belongs to the test");
    }

    #[tokio::test]
    async fn a_component_is_on_the_list_as_long_as_it_runs() {
        let (reading, writing) = pipe();
        let mut list = GroupList::default();
        let (process, mut ended) = start("sleep 1000", &writing).await.expect("it is there");
        list.read(reading.as_fd());
        let leader = process.pid().expect("it runs").cast_signed();
        assert_eq!(
            list.0.values().copied().collect::<Vec<_>>(),
            [(leader, start_time_or_zero(leader))]
        );
        process.kill();
        ended.recv().await.expect("the exit of the component");
        list.read(reading.as_fd());
        assert!(list.0.is_empty(), "{list:?}");
    }

    fn start_time_or_zero(pid: i32) -> u64 {
        start_time_of(pid).unwrap_or(0)
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_process_that_reuses_a_process_id_is_not_killed() {
        let (_reading, writing) = pipe();
        let (process, mut ended) = start("sleep 1000", &writing).await.expect("it is there");
        let leader = process.pid().expect("it runs").cast_signed();
        let started = start_time_of(leader).expect("it runs");
        GroupList(BTreeMap::from([(1, (leader, started - 1))])).kill();
        // A signal from `kill` would have arrived before this one.
        process.terminate();
        let how = ended.recv().await.expect("the exit of the component").how;
        assert_eq!(how, router::ExitCause::Signal(libc::SIGTERM));
        let (process, mut ended) = start("sleep 1000", &writing).await.expect("it is there");
        let leader = process.pid().expect("it runs").cast_signed();
        GroupList(BTreeMap::from([(1, (leader, start_time_or_zero(leader)))])).kill();
        let how = ended.recv().await.expect("the exit of the component").how;
        assert_eq!(how, router::ExitCause::Signal(libc::SIGKILL));
    }

    #[test]
    fn the_start_time_is_parsed_after_any_process_name() {
        let stat = b"7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        #[cfg(target_os = "linux")]
        assert_eq!(parse_start_time(stat), Some(4711));
        let _ = stat;
        assert_eq!(own_start_time(), start_time_or_zero(std::process::id().cast_signed()));
    }
}
