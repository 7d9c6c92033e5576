//! A stage for end-to-end tests: the real program, real pipes, and puppets whose strings the test
//! pulls (see `bin/puppet.rs`). The test plays the editor and every component, line by line, so
//! nothing depends on timing: each step waits for the one before it to be seen.
//!
//! ```no_run
//! use testkit::stage::Stage;
//! let mut stage = Stage::new("conductor-binary").agent(&["agent"]);
//! stage.editor.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#);
//! let mut agent = stage.enter("agent");
//! let greeting = agent.request("initialize");
//! agent.answer(&greeting, r#"{"protocolVersion":1}"#);
//! assert_eq!(stage.editor.line(), r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
//! ```

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::peers::quote;

mod folder;
mod puppet;

pub use folder::directory;
use puppet::Puppets;
pub use puppet::{Child, Puppet};

/// How long anything may take before the test fails. Generous: it is only ever reached by a bug.
const PATIENCE: Duration = Duration::from_secs(60);

/// The path of one of this crate's binaries, built on first use.
pub fn binary(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let test = std::env::current_exe().expect("the path of the test");
        let directory = test.ancestors().nth(2).expect("target/profile/deps/test").to_owned();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "testkit", "--bins"]);
        if directory.ends_with("release") {
            build.arg("--release");
        }
        let target = directory.parent().expect("the target directory");
        let built =
            build.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.expect("cargo").success(), "the test components cannot be built");
        directory
    });
    directory.join(name)
}

/// Builds what [`release`] gives. The same packages wherever it is built, because another choice has other features and is
/// compiled again; and no further program, because each takes seconds to optimise.
pub const RELEASE: [&str; 12] = [
    "build",
    "--release",
    "--package",
    "acp-conductor",
    "--package",
    "testkit",
    "--bin",
    "conductor",
    "--bin",
    "transparent",
    "--bin",
    "stub_agent",
];

/// The path of a binary of this workspace as users get it: optimised, built on first use. For what
/// is too much for a debug build. There are only those that [`RELEASE`] names.
pub fn release(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let test = std::env::current_exe().expect("the path of the test");
        let target = test.ancestors().nth(3).expect("target/profile/deps/test");
        let built = Command::new(env!("CARGO"))
            .args(RELEASE)
            .args(["--quiet", "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(built.expect("cargo").success(), "the release build fails");
        target.join("release")
    });
    directory.join(name)
}

/// Whoever the test plays: the editor or a component.
pub trait Peer {
    /// Sends a line; the newline is added.
    fn send(&mut self, line: &str);

    /// The next line it gets.
    fn line(&mut self) -> String;
}

/// A running conductor, its editor (the test) and its puppets.
#[derive(Debug)]
pub struct Stage {
    pub editor: Editor,
    pub conductor: Conductor,
    puppets: Puppets,
}

/// What to run, before it runs.
#[derive(Debug)]
pub struct Setup {
    program: PathBuf,
    options: Vec<String>,
    env: Vec<(String, String)>,
    unheard: bool,
    puppets: Puppets,
}

impl Stage {
    /// Prepares a stage for this conductor binary.
    #[allow(clippy::new_ret_no_self)] // reads best where it is used: `Stage::new(…).agent(…)`
    pub fn new(program: impl Into<PathBuf>) -> Setup {
        Setup {
            program: program.into(),
            options: Vec::new(),
            env: Vec::new(),
            unheard: false,
            puppets: Puppets::new(),
        }
    }

    /// Waits for a component to be started, and hands over its strings.
    pub fn enter(&mut self, name: &str) -> Puppet {
        self.puppets.enter(name)
    }

    /// Where the socket for `conductor status` is, as `XDG_RUNTIME_DIR`.
    pub fn runtime_directory(&self) -> PathBuf {
        self.puppets.cache()
    }

    /// No component of this name was started so far.
    pub fn has_entered(&mut self, name: &str) -> bool {
        self.puppets.has_entered(name)
    }

    /// Plays the handshake of a chain of P5 proxies and an agent, all puppets, in this order.
    pub fn initialize(&mut self, names: &[&str]) -> Vec<Puppet> {
        self.editor.send(
            r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
        );
        let (agent, proxies) = names.split_last().expect("at least an agent");
        let (mut puppets, mut greetings) = (Vec::new(), Vec::new());
        for name in proxies {
            // Not sooner: a chain inside the chain starts when it is greeted.
            let mut proxy = self.enter(name);
            let greeting = proxy.request("proxy/initialize");
            proxy.forward("forward", "initialize", &greeting["params"].to_string());
            greetings.push(greeting);
            puppets.push(proxy);
        }
        let mut agent = self.enter(agent);
        let greeting = agent.request("initialize");
        let result = r#"{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}"#;
        agent.answer(&greeting, result);
        for (proxy, greeting) in puppets.iter_mut().zip(&greetings).rev() {
            let answer = proxy.message();
            assert_eq!(answer["id"], "forward", "{answer}");
            proxy.answer(greeting, &answer["result"].to_string());
        }
        let answer = self.editor.message();
        assert_eq!(answer["id"], "init", "{answer}");
        assert!(answer["result"].is_object(), "{answer}");
        puppets.push(agent);
        puppets
    }
}

impl Setup {
    pub fn option(mut self, words: &[&str]) -> Setup {
        self.options.extend(words.iter().map(|&word| word.to_owned()));
        self
    }

    /// Sets a variable of its environment. By default it remembers what components speak for this
    /// stage only; a test of its memory sets `XDG_CACHE_HOME`. Likewise its socket for `conductor
    /// status` is the stage's own, in `XDG_RUNTIME_DIR`.
    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Nobody reads what the conductor says on stderr.
    pub fn unheard(mut self) -> Setup {
        self.unheard = true;
        self
    }

    /// The command line of a puppet, for a COMPONENT argument.
    pub fn puppet(&self, name: &str) -> String {
        self.puppets.command(name)
    }

    /// The command line of a chain of these components that is itself a proxy.
    pub fn subchain(&self, components: &[String]) -> String {
        self.nested("proxy", components)
    }

    /// The command line of another conductor, in any mode.
    pub fn nested(&self, mode: &str, components: &[String]) -> String {
        let program = quote(&self.program.to_string_lossy());
        let words = components.iter().map(|component| format!(" {}", quote(component)));
        format!("{program} {mode}{}", words.collect::<String>())
    }

    /// A puppet as a COMPONENT in JSON, so that the conductor calls it by this name, too.
    pub fn component(&self, name: &str) -> Value {
        let socket = &self.puppets.socket;
        json!({ "name": name, "command": binary("puppet"), "args": [socket, name] })
    }

    /// `conductor agent` with puppets that the conductor calls by these names.
    pub fn named(self, names: &[&str]) -> Stage {
        let components: Vec<String> =
            names.iter().map(|name| self.component(name).to_string()).collect();
        self.run("agent", &components)
    }

    /// `conductor agent` with puppets of these names.
    pub fn agent(self, names: &[&str]) -> Stage {
        let components: Vec<String> = names.iter().map(|name| self.puppet(name)).collect();
        self.run("agent", &components)
    }

    /// `conductor MODE` with these COMPONENT arguments, whatever they are.
    pub fn run(self, mode: &str, components: &[String]) -> Stage {
        let mut command = Command::new(&self.program);
        command.arg(mode).args(&self.options).args(components);
        let own = self.puppets.cache();
        std::fs::create_dir_all(&own).expect("a directory");
        command.env("XDG_CACHE_HOME", &own).env("XDG_RUNTIME_DIR", &own);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the conductor starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = child.stdout.take().expect("a pipe");
        let said = Arc::new(Mutex::new(Vec::new()));
        // Unheard, the pipe stays open in `child`, and fills.
        let stderr = if self.unheard { None } else { child.stderr.take() };
        let listener = stderr.map(|stderr| {
            let said = said.clone();
            std::thread::spawn(move || listen(stderr, &said))
        });
        Stage {
            editor: Editor::new(stdin, stdout),
            conductor: Conductor { child, said, listener },
            puppets: self.puppets,
        }
    }
}

fn listen(stderr: ChildStderr, said: &Mutex<Vec<u8>>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while matches!(stderr.read_until(b'\n', &mut line), Ok(1..)) {
        said.lock().expect("no panic").extend_from_slice(&line);
        line.clear();
    }
}

/// The conductor's process.
#[derive(Debug)]
pub struct Conductor {
    child: std::process::Child,
    said: Arc<Mutex<Vec<u8>>>,
    listener: Option<std::thread::JoinHandle<()>>,
}

impl Conductor {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote on stderr so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().expect("no panic")).into_owned()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: sends a signal to a child that is not reaped yet.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Waits for its end and for all it said.
    pub fn wait(&mut self) -> ExitStatus {
        let status = wait_until("the conductor ends", || self.child.try_wait().expect("wait"));
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        status
    }

    /// Waits for its end; the status as a shell would show it.
    pub fn status(&mut self) -> i32 {
        let status = self.wait();
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    }

    /// Resident memory now, and at its highest, in KiB.
    pub fn memory(&self) -> (u64, u64) {
        memory(self.pid())
    }
}

impl Conductor {
    /// The process of the component whose command line starts with these words; directories do not
    /// count.
    pub fn component(&self, words: &str) -> u32 {
        wait_until(&format!("{words} runs"), || {
            let processes = std::fs::read_dir("/proc").ok()?;
            let mut pids =
                processes.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
            pids.find(|&pid| parent(pid) == Some(self.pid()) && command(pid).starts_with(words))
        })
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        // However the test ended. The components follow: that is tested elsewhere.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The editor's end: the test.
#[derive(Debug)]
pub struct Editor {
    stdin: Option<ChildStdin>,
    stdout: Option<std::process::ChildStdout>,
    lines: Option<Receiver<Option<String>>>,
}

impl Editor {
    fn new(stdin: ChildStdin, stdout: std::process::ChildStdout) -> Editor {
        Editor { stdin: Some(stdin), stdout: Some(stdout), lines: None }
    }

    /// Sends a line; the newline is added.
    pub fn send(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("still open").write_all(bytes).expect("the conductor reads");
    }

    /// Closes our end: the editor leaves.
    pub fn leave(&mut self) {
        self.stdin = None;
    }

    /// For tests that read, or do not read, in their own way.
    pub fn take_stdout(&mut self) -> std::process::ChildStdout {
        self.stdout.take().expect("nobody reads it yet")
    }

    pub fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("still open")
    }

    /// The next line, or `None` at the end.
    pub fn next_line(&mut self) -> Option<String> {
        let stdout = &mut self.stdout;
        let lines = self.lines.get_or_insert_with(|| {
            let mut reader = BufReader::with_capacity(1 << 16, stdout.take().expect("not taken"));
            let (sender, receiver) = channel();
            std::thread::spawn(move || {
                loop {
                    let mut line = Vec::new();
                    let ended = !matches!(reader.read_until(b'\n', &mut line), Ok(1..));
                    let line = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
                    if sender.send((!ended).then_some(line)).is_err() || ended {
                        return;
                    }
                }
            });
            receiver
        });
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the editor waits for a line in vain"),
        }
    }

    pub fn line(&mut self) -> String {
        self.next_line().expect("a line for the editor, not the end")
    }

    pub fn message(&mut self) -> Value {
        parse(&self.line())
    }
}

impl Peer for Editor {
    fn send(&mut self, line: &str) {
        Editor::send(self, line);
    }

    fn line(&mut self) -> String {
        Editor::line(self)
    }
}

pub fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// An answer must be an error that tells who failed, how, what it said last, and what to do.
pub fn assert_blames(answer: &Value, component: &str, cause: &str, last_words: &str) {
    let error = &answer["error"];
    assert_eq!(error["code"], -32603, "{answer}");
    let message = error["message"].as_str().expect("a message");
    let data = |key: &str| error["data"][key].as_str().unwrap_or_else(|| panic!("{key}: {answer}"));
    assert_eq!(data("component"), component, "{answer}");
    assert!(data("cause").contains(cause), "{answer}");
    for part in [&format!("'{component}'"), data("command"), cause, last_words, data("remedy")] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    let words = error["data"]["lastWords"].as_array().expect("a list");
    let said = |line: &Value| line.as_str().is_some_and(|line| line.contains(last_words));
    assert!(last_words.is_empty() || words.iter().any(said), "{answer}");
}

/// Is there a live (not merely unreaped) process of this id?
pub fn alive(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'),
        Err(_) => false,
    }
}

/// PID (NAME) STATE PARENT …; the name may contain anything.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The command line of a process, without the directory of the program.
fn command(pid: u32) -> String {
    let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let (program, arguments) = words.split_once('\0').unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    format!("{name} {}", arguments.replace('\0', " "))
}

/// Resident memory of a process now, and at its highest, in KiB.
pub fn memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect(name);
        line.split_whitespace().nth(1).and_then(|it| it.parse().ok()).expect(name)
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Waits until these processes neither read nor write any more. A stall is no event, so this looks
/// on for a while; a look that is deceived makes the test weaker, never wrong.
pub fn wait_for_rest(pids: &[u32]) {
    let moved = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/io")).ok();
    let (mut before, mut looks) = (Vec::new(), 0);
    wait_until("everybody rests", || {
        let now: Vec<_> = pids.iter().map(moved).collect();
        looks = if now == before { looks + 1 } else { 0 };
        before = now;
        (looks == 50).then_some(())
    });
}

/// Sends a signal to a process of this test.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: signals touch no memory of ours.
    unsafe { libc::kill(pid as i32, signal) };
}

/// Waits for a process to be gone.
pub fn assert_gone(pid: u32, who: &str) {
    wait_until(&format!("{who} is gone"), || (!alive(pid)).then_some(()));
}

/// Asks again and again. For what cannot be waited for as an event: the state of other processes.
pub fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Does something that may block, such as reading a pipe, but not for ever.
pub fn patiently<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Writes an executable shell script and gives its path.
pub fn script(directory: &Path, name: &str, body: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a mode");
    path
}
