//! What a component has started that has left its process group, and outlives it.
//!
//! Agents often start programs in groups, or sessions, of their own; when the agent is killed these go
//! on, with nobody at the other end of their pipes, and keep ports and files. Their parents are gone, so
//! the process tree does not tell whose they were. But a process inherits its environment: each life of
//! each component is started with a mark there. When the life is over, whoever bears its mark is ended,
//! unless it has let go of its standard streams, as daemons and desktop programs do: these, and what they
//! have started themselves, are meant to stay.
//!
//! Linux only; elsewhere the process group is all there is.

use std::fmt;

/// The variable that bears the marks: one for each conductor around a process, the innermost last.
const VARIABLE: &str = "CONDUCTOR_LIFE";

/// A conductor's own mark. Unlike that of any other, on this machine and in its past.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    pub fn fresh() -> Mark {
        let mut bytes = [0; 8];
        // Without randomness the process id must do.
        match getrandom::fill(&mut bytes) {
            Ok(()) => Mark(u64::from_ne_bytes(bytes)),
            Err(_) => Mark(std::process::id().into()),
        }
    }

    /// That of one life of one of its components.
    pub fn of_life(self, seat: u16, life: u32) -> String {
        format!("{self}.{seat}.{life};")
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mark({self})")
    }
}

/// The variable for a component with this mark, which has those of the conductors around us, too.
pub fn variable(mark: &str) -> (&'static str, String) {
    let around = std::env::var(VARIABLE).unwrap_or_default();
    (VARIABLE, format!("{around}{mark}"))
}

/// Ends whoever bears this mark and has not let go of its standard streams.
#[cfg(target_os = "linux")]
pub fn sweep(mark: &str) {
    // Whoever is found may have started another one just then.
    for _ in 0..3 {
        if !linux::sweep_once(mark) {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub fn sweep(_mark: &str) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::os::unix::fs::FileTypeExt;
    use std::path::{Path, PathBuf};

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// Somebody who bears the mark.
    struct Bearer {
        number: u32,
        parent: u32,
        /// One of its standard streams is a pipe or a socket: somebody was at its other end.
        holds_streams: bool,
    }

    /// Says whether there was anybody to end.
    pub fn sweep_once(mark: &str) -> bool {
        let Ok(processes) = fs::read_dir("/proc") else { return false };
        let own = std::process::id();
        let numbers = processes.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        let bearers: Vec<Bearer> =
            numbers.filter(|it| *it != own).filter_map(|number| look_at(number, mark)).collect();
        let strays = bearers.iter().filter(|it| it.holds_streams && !is_of_daemon(it, &bearers));
        strays.filter(|stray| end(stray.number, mark)).count() > 0
    }

    /// Is it the child of a daemon that is meant to stay?
    fn is_of_daemon(stray: &Bearer, bearers: &[Bearer]) -> bool {
        let mut parent = stray.parent;
        // Numbers may be given anew meanwhile, so the way up could be a circle.
        for _ in 0..bearers.len() {
            let Some(above) = bearers.iter().find(|it| it.number == parent) else { return false };
            if !above.holds_streams {
                return true;
            }
            parent = above.parent;
        }
        false
    }

    fn look_at(number: u32, mark: &str) -> Option<Bearer> {
        let directory = directory(number);
        bears(&directory, mark).then_some(())?;
        let stat = fs::read_to_string(directory.join("stat")).ok()?;
        // The name before it may have spaces and brackets of its own.
        let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        Some(Bearer { number, parent, holds_streams: holds_streams(&directory) })
    }

    fn directory(number: u32) -> PathBuf {
        Path::new("/proc").join(number.to_string())
    }

    fn end(number: u32, mark: &str) -> bool {
        let Some(pid) = Pid::from_raw(number.cast_signed()) else { return false };
        // From here on the number cannot become somebody else's; so it is looked at again.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        bears(&directory(number), mark) && pidfd_send_signal(&handle, Signal::KILL).is_ok()
    }

    /// Others' environments cannot be read, and those of processes that have ended are empty.
    fn bears(directory: &Path, mark: &str) -> bool {
        let Ok(environment) = fs::read(directory.join("environ")) else { return false };
        let name = format!("{}=", super::VARIABLE);
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| {
            variable
                .strip_prefix(name.as_bytes())
                .is_some_and(|marks| memchr::memmem::find(marks, mark.as_bytes()).is_some())
        })
    }

    fn holds_streams(directory: &Path) -> bool {
        (0..3).any(|stream| {
            let kind =
                fs::metadata(directory.join(format!("fd/{stream}"))).map(|it| it.file_type());
            kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
        })
    }
}
