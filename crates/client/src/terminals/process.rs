//! The process of a terminal, with its children.

use std::fmt;

use serde_json::{Value, json};

#[cfg(not(unix))]
pub(super) use other::Process;
#[cfg(unix)]
pub(super) use unix::Process;

/// How a command has exited. Both are `None` if that is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExitStatus {
    /// The exit status.
    pub code: Option<i32>,
    /// The number of the signal that has killed the command.
    pub signal: Option<i32>,
}

impl ExitStatus {
    /// The status of a command that is killed.
    pub(super) fn killed() -> ExitStatus {
        // On Windows there is no signal.
        ExitStatus { code: None, signal: cfg!(unix).then_some(9) }
    }

    /// The name of the signal, such as `SIGKILL`.
    pub fn signal_name(self) -> Option<String> {
        self.signal.map(signal_name)
    }

    /// The status as ACP encodes it.
    pub fn to_json(self) -> Value {
        json!({ "exitCode": self.code, "signal": self.signal_name() })
    }
}

/// As the end of a sentence about the command.
impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with status {code}"),
            (None, Some(signal)) => write!(f, "killed by {}", signal_name(signal)),
            (None, None) => f.write_str("ended"),
        }
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// On Unix: a process group.
#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, waitid, waitpid,
    };

    use super::ExitStatus;

    /// A process that leads its own group. Until [`Process::reap`] is called, its id is not reused.
    #[derive(Debug, Clone)]
    pub(in super::super) struct Process(Option<Pid>);

    impl Process {
        pub(in super::super) fn start(command: &mut Command) -> io::Result<Process> {
            let child = command.process_group(0).spawn()?;
            Ok(Process(Pid::from_raw(child.id().cast_signed())))
        }

        /// Waits until the process has exited. Does not reap it.
        pub(in super::super) fn wait(&self) -> ExitStatus {
            let Some(pid) = self.0 else { return ExitStatus::default() };
            loop {
                match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                    Ok(Some(status)) => {
                        return ExitStatus {
                            code: status.exit_status(),
                            signal: status.terminating_signal(),
                        };
                    }
                    Ok(None) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return ExitStatus::default(),
                }
            }
        }

        /// Reaps the process after it has exited.
        pub(in super::super) fn reap(&self) {
            if let Some(pid) = self.0 {
                while matches!(
                    waitpid(Some(pid), WaitOptions::empty()),
                    Err(rustix::io::Errno::INTR)
                ) {}
            }
        }

        /// Asks the processes of the group to exit.
        pub(in super::super) fn terminate(&self) {
            self.signal(Signal::TERM);
        }

        /// Kills the processes of the group.
        pub(in super::super) fn kill(&self) {
            self.signal(Signal::KILL);
        }

        fn signal(&self, signal: Signal) {
            if let Some(pid) = self.0 {
                // Fails only if the group is empty.
                let _ = kill_process_group(pid, signal);
            }
        }
    }
}

/// On other systems: a process, whose tree is killed with `taskkill`.
#[cfg(not(unix))]
mod other {
    use std::io;
    use std::process::{Child, Command, Stdio};
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::Duration;

    use super::ExitStatus;

    /// How often the exit of the process is checked.
    const INTERVAL: Duration = Duration::from_millis(20);

    #[derive(Debug, Clone)]
    pub(in super::super) struct Process(Arc<Mutex<Child>>);

    impl Process {
        pub(in super::super) fn start(command: &mut Command) -> io::Result<Process> {
            Ok(Process(Arc::new(Mutex::new(command.spawn()?))))
        }

        /// Waits until the process has exited.
        pub(in super::super) fn wait(&self) -> ExitStatus {
            loop {
                let exited = self.0.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
                match exited {
                    Ok(Some(status)) => return ExitStatus { code: status.code(), signal: None },
                    Ok(None) => std::thread::sleep(INTERVAL),
                    Err(_) => return ExitStatus::default(),
                }
            }
        }

        /// Nothing to do: the handle keeps the process id.
        pub(in super::super) fn reap(&self) {}

        /// As [`Process::kill`]: a process without a window cannot be asked to exit.
        pub(in super::super) fn terminate(&self) {
            self.kill();
        }

        /// Kills the process and its children.
        pub(in super::super) fn kill(&self) {
            let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(child.try_wait(), Ok(Some(_))) {
                return;
            }
            let id = child.id().to_string();
            let mut taskkill = Command::new("taskkill");
            taskkill.args(["/T", "/F", "/PID", &id]).stdout(Stdio::null()).stderr(Stdio::null());
            if !taskkill.status().is_ok_and(|status| status.success()) {
                let _ = child.kill();
            }
        }
    }
}
