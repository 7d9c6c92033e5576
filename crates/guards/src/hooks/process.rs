//! Runs one hook as a process: standard input, limits, and the end of its process group.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, Semaphore};

use super::reply::{Ending, HookOutput, background_time};

/// How much is kept of standard output and of standard error. Longer standard output is a failure, because the decision
/// may be in the rest.
pub(crate) const MAX_OUTPUT: usize = 1024 * 1024;

/// How long to wait for the end of the output after the process has exited. The time passes only if a process has left
/// the process group and keeps the pipe open.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(100);

/// The command of a hook.
pub(crate) struct HookCommand<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: Option<&'a [String]>,
    pub(crate) shell: Option<&'a str>,
    pub(crate) directory: &'a Path,
    /// Variables to set, or to remove.
    pub(crate) environment: &'a [(&'static str, Option<OsString>)],
}

/// Runs a hook until it ends, or until the time is over. Then its process group is killed. Dropping the future kills it
/// as well. A hook that says so goes on in the background, if there is a permit.
pub(crate) async fn run(
    hook: HookCommand<'_>,
    input: Vec<u8>,
    time: Duration,
    background: &Arc<Semaphore>,
) -> HookOutput {
    let started = Instant::now();
    let output = Arc::new(Output::default());
    let mut process = match Process::start(&hook, input, output.clone()) {
        Ok(process) => process,
        Err(ending) => return output.with(ending),
    };
    let is_over = tokio::select! {
        is_over = process.ends_within(time) => is_over,
        longer = output.goes_on() => match background.clone().try_acquire_owned() {
            Ok(permit) => {
                tokio::spawn(async move {
                    let is_over = process.ends_within(longer).await;
                    process.finish(is_over).await;
                    drop(permit);
                });
                return output.with(Ending::Status(0));
            }
            Err(_) => process.ends_within(time.saturating_sub(started.elapsed())).await,
        },
    };
    let ending = match (process.finish(is_over).await, output.out().len() > MAX_OUTPUT) {
        (Ending::Status(0), true) => {
            Ending::Failed("its standard output is longer than 1 MiB".to_owned())
        }
        (ending, _) => ending,
    };
    output.with(ending)
}

/// The output of a process.
#[derive(Debug, Default)]
struct Output {
    out: Mutex<Vec<u8>>,
    err: Mutex<Vec<u8>>,
    /// Notified when there is more standard output.
    more: Notify,
}

impl Output {
    fn out(&self) -> MutexGuard<'_, Vec<u8>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the process has printed that it goes on in the background. Returns for how long.
    async fn goes_on(&self) -> Duration {
        loop {
            self.more.notified().await;
            if let Some(time) = background_time(&self.out()) {
                return time;
            }
        }
    }

    fn with(&self, ending: Ending) -> HookOutput {
        let err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        HookOutput { ending, stdout: text(&self.out()), stderr: text(&err) }
    }
}

/// A process that runs. Dropping it kills its process group.
struct Process {
    child: Child,
    group: system::Group,
    /// Writes the input and reads the output.
    transfer: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_transferred: bool,
}

impl Process {
    fn start(
        hook: &HookCommand<'_>,
        input: Vec<u8>,
        output: Arc<Output>,
    ) -> Result<Process, Ending> {
        let mut command = hook.to_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        system::prepare(&mut command);
        let mut child = command.spawn().map_err(|error| {
            let why = format!("it cannot start: {error}");
            // The file of the hook names the program.
            let is_of_file = hook.args.is_some() || hook.shell.is_some();
            match error.kind() {
                ErrorKind::NotFound | ErrorKind::PermissionDenied if is_of_file => {
                    Ending::Failed(why)
                }
                _ => Ending::NotStarted(why),
            }
        })?;
        let group = system::Group::of(&child);
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(Ending::NotStarted("it has no standard streams".to_owned()));
        };
        let transfer = async move {
            let write = async move {
                // A script need not read its input.
                let _ = stdin.write_all(&input).await;
                let _ = stdin.shutdown().await;
            };
            let out = read(stdout, &output.out, || output.more.notify_one());
            tokio::join!(write, out, read(stderr, &output.err, || {}));
        };
        Ok(Process { child, group, transfer: Box::pin(transfer), is_transferred: false })
    }

    /// Waits until the process has exited. Returns false if the time is over before.
    async fn ends_within(&mut self, time: Duration) -> bool {
        let Process { child, group, transfer, is_transferred } = self;
        let mut exit = std::pin::pin!(group.leader_exits(child));
        let mut timeout = std::pin::pin!(tokio::time::sleep(time));
        loop {
            tokio::select! {
                () = &mut exit => return true,
                () = &mut *transfer, if !*is_transferred => *is_transferred = true,
                () = &mut timeout => return false,
            }
        }
    }

    /// Kills what is left of the process group, and reads the rest of the output.
    async fn finish(mut self, is_over: bool) -> Ending {
        self.group.kill();
        if !is_over {
            let _ = self.child.start_kill();
        }
        if !self.is_transferred {
            let _ = tokio::time::timeout(OUTPUT_TIMEOUT, self.transfer).await;
        }
        let ending = match (is_over, self.child.wait().await) {
            (false, _) => Ending::TimedOut,
            (true, Ok(status)) => match status.code() {
                Some(code) => Ending::Status(code),
                None => Ending::Failed(format!("it was ended: {status}")),
            },
            (true, Err(error)) => Ending::Failed(format!("its exit status is lost: {error}")),
        };
        self.group.forget();
        ending
    }
}

/// Reads to the end. Keeps the first [`MAX_OUTPUT`] bytes, and one more, which shows that there are more.
async fn read(mut stream: impl AsyncRead + Unpin, kept: &Mutex<Vec<u8>>, on_more: impl Fn()) {
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut chunk).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = (MAX_OUTPUT + 1).saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..count.min(room)]);
        drop(kept);
        on_more();
    }
}

impl HookCommand<'_> {
    fn to_command(&self) -> Command {
        let mut command = match self.args {
            Some(args) => {
                let mut command = Command::new(self.with_project(self.command));
                command.args(args.iter().map(|arg| self.with_project(arg)));
                command
            }
            None => system::shell(self.shell, self.command),
        };
        // A session of an editor on another machine may have a folder that does not exist here. The hook runs anyway.
        if self.directory.is_dir() {
            command.current_dir(self.directory);
        }
        for (name, value) in self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Without a shell, nobody else replaces the variable.
    fn with_project(&self, text: &str) -> String {
        let project = self.directory.to_string_lossy();
        text.replace("${CLAUDE_PROJECT_DIR}", &project).replace("$CLAUDE_PROJECT_DIR", &project)
    }
}

#[cfg(unix)]
mod system {
    use std::path::Path;

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
    use tokio::signal::unix::{SignalKind, signal};

    use super::{Child, Command};

    /// Starts the process in a group of its own.
    pub(super) fn prepare(command: &mut Command) {
        command.process_group(0);
    }

    /// A command line for the shell of the user, if it is one that reads the usual syntax.
    pub(super) fn shell(shell: Option<&str>, line: &str) -> Command {
        let own = std::env::var("SHELL").ok().filter(|path| {
            let name = Path::new(path).file_name().and_then(|name| name.to_str());
            matches!(name, Some("sh" | "bash" | "zsh" | "dash" | "ksh" | "ash"))
                && Path::new(path).is_absolute()
        });
        let (program, option) = match shell {
            Some("bash") => ("bash".to_owned(), "-c"),
            Some("powershell") => ("pwsh".to_owned(), "-Command"),
            _ => (own.unwrap_or_else(|| "/bin/sh".to_owned()), "-c"),
        };
        let mut command = Command::new(program);
        command.arg(option).arg(line);
        command
    }

    /// The process group of a hook. Dropping it kills the group.
    pub(super) struct Group(Option<Pid>);

    impl Group {
        pub(super) fn of(child: &Child) -> Group {
            Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
        }

        pub(super) fn kill(&self) {
            if let Some(leader) = self.0 {
                // Fails only if the group is empty.
                let _ = kill_process_group(leader, Signal::KILL);
            }
        }

        /// The leader was reaped, so the system may reuse its id.
        pub(super) fn forget(&mut self) {
            self.0 = None;
        }

        /// Waits until the leader has exited. Does not reap it, because its id, which identifies the group, could be
        /// reused.
        pub(super) async fn leader_exits(&self, child: &mut Child) {
            match signal(SignalKind::child()) {
                Ok(mut children) => {
                    while !self.leader_has_exited() && children.recv().await.is_some() {}
                }
                Err(_) => drop(child.wait().await),
            }
        }

        fn leader_has_exited(&self) -> bool {
            let Some(leader) = self.0 else { return true };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            // An error means that there is no such child.
            !matches!(waitid(WaitId::Pid(leader), options), Ok(None) | Err(rustix::io::Errno::INTR))
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            self.kill();
        }
    }
}

/// Windows kills only the process itself.
#[cfg(not(unix))]
mod system {
    use super::{Child, Command};

    pub(super) fn prepare(_: &mut Command) {}

    pub(super) fn shell(shell: Option<&str>, line: &str) -> Command {
        let (program, options): (_, &[&str]) = match shell {
            Some("bash") => ("bash", &["-c"]),
            Some(_) => ("powershell", &["-NoProfile", "-Command"]),
            None => ("cmd", &["/C"]),
        };
        let mut command = Command::new(program);
        command.args(options).arg(line);
        command
    }

    pub(super) struct Group;

    impl Group {
        pub(super) fn of(_: &Child) -> Group {
            Group
        }

        pub(super) fn kill(&self) {}

        pub(super) fn forget(&mut self) {}

        pub(super) async fn leader_exits(&self, child: &mut Child) {
            let _ = child.wait().await;
        }
    }
}
