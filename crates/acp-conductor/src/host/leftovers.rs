//! Kills processes that a component has started and that have outlived it.
//!
//! Agents often start programs in separate process groups or sessions. When the agent is killed, these
//! programs continue to run and occupy ports and files, although the other ends of their pipes are closed.
//! Their parents are gone, so the process tree does not show which component started them. But a process
//! inherits its environment: each component is started with a tag in an environment variable. After the
//! component has exited, the conductor kills all processes with its tag. A process without pipes as standard
//! streams is exempt, together with its children, because daemons and desktop programs are meant to stay.
//!
//! Linux only. On other systems the conductor only kills the process group.

use std::fmt;

/// The environment variable with the tags: one for each conductor around a process, the innermost last.
const VARIABLE: &str = "CONDUCTOR_LIFE";

/// The random tag of a conductor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProcessTag(u64);

impl ProcessTag {
    /// A new tag.
    pub fn random() -> ProcessTag {
        let mut bytes = [0; 8];
        // The process id is the fallback without a random source.
        match getrandom::fill(&mut bytes) {
            Ok(()) => ProcessTag(u64::from_ne_bytes(bytes)),
            Err(_) => ProcessTag(std::process::id().into()),
        }
    }

    /// The tag of one start of a component.
    pub fn for_incarnation(self, seat: u16, incarnation: u32) -> String {
        format!("{self}.{seat}.{incarnation};")
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

/// The environment variable for a component with this tag. It also contains the tags of outer conductors.
pub fn variable(tag: &str) -> (&'static str, String) {
    let outer = std::env::var(VARIABLE).unwrap_or_default();
    (VARIABLE, format!("{outer}{tag}"))
}

/// Whether this process is a component of a conductor, or was started by one.
pub fn is_in_conductor() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Kills all processes with this tag that have a pipe or socket as a standard stream.
#[cfg(target_os = "linux")]
pub fn kill_all(tag: &str) {
    // Repeated, because a process may have started another one in the meantime.
    for _ in 0..3 {
        if !linux::kill_once(tag) {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
/// Does nothing on this system.
pub fn kill_all(_tag: &str) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::os::unix::fs::FileTypeExt;
    use std::path::{Path, PathBuf};

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// A process with the tag.
    struct TaggedProcess {
        pid: u32,
        parent: u32,
        /// Whether one of its standard streams is a pipe or socket.
        has_piped_stream: bool,
    }

    /// Returns whether any process was killed.
    pub(crate) fn kill_once(tag: &str) -> bool {
        let Ok(processes) = fs::read_dir("/proc") else { return false };
        let own = std::process::id();
        let pids = processes.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        let tagged: Vec<TaggedProcess> =
            pids.filter(|it| *it != own).filter_map(|pid| inspect(pid, tag)).collect();
        let leftovers =
            tagged.iter().filter(|it| it.has_piped_stream && !is_child_of_daemon(it, &tagged));
        leftovers.filter(|process| kill(process.pid, tag)).count() > 0
    }

    /// Whether the process is a descendant of a daemon.
    fn is_child_of_daemon(process: &TaggedProcess, tagged: &[TaggedProcess]) -> bool {
        let mut parent = process.parent;
        // Bounded, because reused process ids could form a cycle.
        for _ in 0..tagged.len() {
            let Some(ancestor) = tagged.iter().find(|it| it.pid == parent) else { return false };
            if !ancestor.has_piped_stream {
                return true;
            }
            parent = ancestor.parent;
        }
        false
    }

    fn inspect(pid: u32, tag: &str) -> Option<TaggedProcess> {
        let directory = directory(pid);
        is_tagged(&directory, tag).then_some(())?;
        let stat = fs::read_to_string(directory.join("stat")).ok()?;
        // The field before it is a name, which may contain spaces and brackets.
        let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        Some(TaggedProcess { pid, parent, has_piped_stream: has_piped_stream(&directory) })
    }

    fn directory(pid: u32) -> PathBuf {
        Path::new("/proc").join(pid.to_string())
    }

    fn kill(number: u32, tag: &str) -> bool {
        let Some(pid) = Pid::from_raw(number.cast_signed()) else { return false };
        // The handle refers to this process even if the id is reused. So the tag is checked again.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        is_tagged(&directory(number), tag) && pidfd_send_signal(&handle, Signal::KILL).is_ok()
    }

    /// Whether the environment of a process contains the tag. The environment of another user's process cannot
    /// be read, and that of a process that has exited is empty.
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
