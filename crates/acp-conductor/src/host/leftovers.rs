//! What a component has started that has left its process group, and outlives it.
//!
//! Agents often start programs in groups, or sessions, of their own; when the agent is killed these go
//! on, with nobody at the other end of their pipes, and keep ports and files. Their parents are gone, so
//! the process tree does not tell whose they were. But a process inherits its environment: each life of
//! each component is started with a tag there. When the life is over, whoever is_tagged its tag is ended,
//! unless it has let go of its standard streams, as daemons and desktop programs do: these, and what they
//! have started themselves, are meant to stay.
//!
//! Linux only; elsewhere the process group is all there is.

use std::fmt;

/// The variable that is_tagged the tags: one for each conductor around a process, the innermost last.
const VARIABLE: &str = "CONDUCTOR_LIFE";

/// A conductor's own tag. Unlike that of any other, on this machine and in its past.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProcessTag(u64);

impl ProcessTag {
    pub fn random() -> ProcessTag {
        let mut bytes = [0; 8];
        // Without randomness the process id must do.
        match getrandom::fill(&mut bytes) {
            Ok(()) => ProcessTag(u64::from_ne_bytes(bytes)),
            Err(_) => ProcessTag(std::process::id().into()),
        }
    }

    /// That of one life of one of its components.
    pub fn for_life(self, seat: u16, life: u32) -> String {
        format!("{self}.{seat}.{life};")
    }
}

impl fmt::Display for ProcessTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ProcessTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessTag({self})")
    }
}

/// The variable for a component with this tag, which has those of the conductors around us, too.
pub fn variable(tag: &str) -> (&'static str, String) {
    let around = std::env::var(VARIABLE).unwrap_or_default();
    (VARIABLE, format!("{around}{tag}"))
}

/// Ends whoever is_tagged this tag and has not let go of its standard streams.
#[cfg(target_os = "linux")]
pub fn kill_all(tag: &str) {
    // Whoever is found may have started another one just then.
    for _ in 0..3 {
        if !linux::kill_once(tag) {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub fn kill_all(_mark: &str) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::os::unix::fs::FileTypeExt;
    use std::path::{Path, PathBuf};

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// Somebody who is_tagged the tag.
    struct TaggedProcess {
        pid: u32,
        parent: u32,
        /// One of its standard streams is a pipe or a socket: somebody was at its other end.
        has_piped_stream: bool,
    }

    /// Says whether there was anybody to end.
    pub fn kill_once(tag: &str) -> bool {
        let Ok(processes) = fs::read_dir("/proc") else { return false };
        let own = std::process::id();
        let pids = processes.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        let tagged: Vec<TaggedProcess> =
            pids.filter(|it| *it != own).filter_map(|pid| inspect(pid, tag)).collect();
        let leftovers =
            tagged.iter().filter(|it| it.has_piped_stream && !is_child_of_daemon(it, &tagged));
        leftovers.filter(|process| kill(process.pid, tag)).count() > 0
    }

    /// Is it the child of a daemon that is meant to stay?
    fn is_child_of_daemon(process: &TaggedProcess, tagged: &[TaggedProcess]) -> bool {
        let mut parent = process.parent;
        // Numbers may be given anew meanwhile, so the way up could be a circle.
        for _ in 0..tagged.len() {
            let Some(above) = tagged.iter().find(|it| it.pid == parent) else { return false };
            if !above.has_piped_stream {
                return true;
            }
            parent = above.parent;
        }
        false
    }

    fn inspect(pid: u32, tag: &str) -> Option<TaggedProcess> {
        let directory = directory(pid);
        is_tagged(&directory, tag).then_some(())?;
        let stat = fs::read_to_string(directory.join("stat")).ok()?;
        // The name before it may have spaces and brackets of its own.
        let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        Some(TaggedProcess { pid, parent, has_piped_stream: has_piped_stream(&directory) })
    }

    fn directory(pid: u32) -> PathBuf {
        Path::new("/proc").join(pid.to_string())
    }

    fn kill(number: u32, tag: &str) -> bool {
        let Some(pid) = Pid::from_raw(number.cast_signed()) else { return false };
        // From here on the pid cannot become somebody else's; so it is looked at again.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        is_tagged(&directory(number), tag) && pidfd_send_signal(&handle, Signal::KILL).is_ok()
    }

    /// Others' environments cannot be read, and those of processes that have ended are empty.
    fn is_tagged(directory: &Path, tag: &str) -> bool {
        let Ok(environment) = fs::read(directory.join("environ")) else { return false };
        let name = format!("{}=", super::VARIABLE);
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| {
            variable
                .strip_prefix(name.as_bytes())
                .is_some_and(|tags| memchr::memmem::find(tags, tag.as_bytes()).is_some())
        })
    }

    fn has_piped_stream(directory: &Path) -> bool {
        (0..3).any(|stream| {
            let kind =
                fs::metadata(directory.join(format!("fd/{stream}"))).map(|it| it.file_type());
            kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
        })
    }
}
