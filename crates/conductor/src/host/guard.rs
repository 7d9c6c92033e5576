//! The last resort against orphans: a tiny process that outlives us by an instant.
//!
//! A component dies with its process group, and we end the groups when we end. When we are killed
//! outright we can end nothing. Linux then kills our direct children (a parent-death signal), but
//! not *their* children. The guard holds the reading end of a pipe whose writing end is ours alone:
//! when the pipe closes, whatever was the reason, it kills the groups that are still on its list, and
//! strays of theirs.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::host::strays::{self, Mark};

/// The running guard. Dropping it ends it (and whatever is left on its list).
#[derive(Debug)]
pub struct Guard {
    pipe: Option<OwnedFd>,
    pid: libc::pid_t,
}

impl Guard {
    /// Forks the guard.
    ///
    /// # Safety
    /// The program must have one thread: the guard goes on in a copy of it.
    pub unsafe fn start(mark: Mark) -> io::Result<Guard> {
        let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // SAFETY: there is one thread, so the copy can go on like any program.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(writing);
                watch(reading, mark);
                // SAFETY: ends the copy without running what the original registered for its end.
                unsafe { libc::_exit(0) }
            }
            pid => Ok(Guard { pipe: Some(writing), pid }),
        }
    }

    /// What a component writes its own process id to before it becomes the component, so that there
    /// is no moment in which it runs without being on the list. A negative number takes a group off
    /// the list: it is gone, and its number may be given to somebody else.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.pipe.as_ref().map(AsRawFd::as_raw_fd)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pipe = None;
        // SAFETY: waits for a child of ours, touches no memory.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// The life of the guard: keeps the list, and kills what is on it when the pipe closes.
fn watch(pipe: OwnedFd, mark: Mark) {
    // Out of our process group and session, so that what ends us does not end the guard.
    let _ = rustix::process::setsid();
    // What asks us to end must not end the guard before us, nor what kills by name.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"chain-guard");
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: sets the disposition of a signal in a process of one thread.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // Whoever reads our output must see its end when we end.
    // SAFETY: nothing in this process uses the standard streams.
    unsafe {
        libc::close(0);
        libc::close(1);
        libc::close(2);
    }
    let mut groups = BTreeSet::new();
    while let Some(number) = next(pipe.as_fd()) {
        if number > 0 {
            groups.insert(number);
        } else {
            groups.remove(&-number);
        }
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    strays::sweep(&mark.to_string());
}

fn next(pipe: BorrowedFd<'_>) -> Option<i32> {
    let mut bytes = [0; 4];
    let mut have = 0;
    while have < bytes.len() {
        match rustix::io::read(pipe, &mut bytes[have..]) {
            Ok(0) => return None,
            Ok(count) => have += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(i32::from_ne_bytes(bytes))
}
