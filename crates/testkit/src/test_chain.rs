//! A chain of real processes for end-to-end tests: the real program, real pipes, and scripted components.
//!
//! A scripted component (`bin/scripted.rs`) does nothing by itself. The test acts as the editor and as every
//! component, line by line, and each step waits for the step before it. So no test depends on timing.
//!
//! ```no_run
//! use testkit::test_chain::TestChain;
//! let mut chain = TestChain::builder("conductor-binary").run_agent(&["agent"]);
//! chain.editor.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#);
//! let mut agent = chain.wait_for_component("agent");
//! let greeting = agent.request("initialize");
//! agent.answer(&greeting, r#"{"protocolVersion":1}"#);
//! assert_eq!(chain.editor.line(), r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
//! ```

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::peers::quote;
use crate::places::{OPTIMISED, RELEASE};

mod conductor;
mod directory;
mod scripted;

pub use conductor::Conductor;
pub use directory::directory;
use scripted::ScriptedComponents;
pub use scripted::{Child, ScriptedComponent};

/// How long a step may take before the test fails. It is generous, because only a bug reaches it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Whether `cargo xtask test` has built all programs already.
pub fn all_is_built() -> bool {
    std::env::var_os("CONDUCTOR_TESTS_BUILT").is_some()
}

/// The path of one of this crate's binaries, built on first use.
pub fn binary(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let test = std::env::current_exe().expect("the path of the test");
        let directory = test.ancestors().nth(2).expect("target/profile/deps/test").to_owned();
        if all_is_built() {
            return directory;
        }
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

/// The path of an optimised binary of this workspace, built on first use. For loads that are too heavy for a
/// debug build. Only the programs in [`RELEASE`] exist.
pub fn release_binary(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let test = std::env::current_exe().expect("the path of the test");
        let target = test.ancestors().nth(3).expect("target/profile/deps/test");
        if all_is_built() {
            return target.join(OPTIMISED);
        }
        let built = Command::new(env!("CARGO"))
            .args(RELEASE)
            .args(["--quiet", "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(built.expect("cargo").success(), "the release build fails");
        target.join(OPTIMISED)
    });
    directory.join(name)
}

/// A peer of the conductor whose lines the test writes and reads: the editor or a component.
pub trait Peer {
    /// Sends a line; the newline is added.
    fn send(&mut self, line: &str);

    /// Waits for the next line that the peer receives.
    fn line(&mut self) -> String;
}

/// A running conductor, its editor (the test) and its scripted components.
#[derive(Debug)]
pub struct TestChain {
    /// The editor's end of the pipes.
    pub editor: Editor,
    /// The conductor's process.
    pub conductor: Conductor,
    components: ScriptedComponents,
}

/// The options of a [`TestChain`] that does not run yet.
#[derive(Debug)]
pub struct TestChainBuilder {
    program: PathBuf,
    options: Vec<String>,
    env: Vec<(String, String)>,
    leave_stderr_unread: bool,
    components: ScriptedComponents,
}

impl TestChain {
    /// Prepares a chain that runs this conductor binary.
    pub fn builder(program: impl Into<PathBuf>) -> TestChainBuilder {
        TestChainBuilder {
            program: program.into(),
            options: Vec::new(),
            env: Vec::new(),
            leave_stderr_unread: false,
            components: ScriptedComponents::new(),
        }
    }

    /// Waits until the conductor has started the scripted component of this name. A restarted component is waited for
    /// again.
    pub fn wait_for_component(&mut self, name: &str) -> ScriptedComponent {
        self.components.wait_for_component(name)
    }

    /// The `XDG_RUNTIME_DIR` of the conductor, which has its socket for `conductor status`.
    pub fn runtime_directory(&self) -> PathBuf {
        self.components.cache()
    }

    /// Whether a component of this name has reported to the test that the test has not waited for yet. For waits: a
    /// component that has just been started has not reported yet.
    pub fn has_reported(&mut self, name: &str) -> bool {
        self.components.has_reported(name)
    }

    /// Asserts that no component of this name has been started except those that the test has waited for. A process that
    /// has not reported to the test yet counts, too. Call it after a fact that comes later than a start would have.
    #[track_caller]
    pub fn assert_not_started(&mut self, name: &str) {
        self.components.assert_not_started(name);
    }

    /// Ends the chain: the editor disconnects, and each component exits at the end of its input. Returns all that the
    /// conductor has written on stderr.
    pub fn end<'a>(
        &mut self,
        components: impl IntoIterator<Item = &'a mut ScriptedComponent>,
    ) -> String {
        self.editor.close();
        for component in components {
            // Before that, its exit would be a crash.
            while component.next_line().is_some() {}
            component.exit(0);
        }
        assert_eq!(self.conductor.status(), 0, "{}", self.conductor.stderr_so_far());
        self.conductor.whole_stderr()
    }

    /// Runs the handshake of a chain of scripted P5 proxies and an agent, and returns them in this order.
    pub fn initialize(&mut self, names: &[&str]) -> Vec<ScriptedComponent> {
        self.editor.send(
            r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
        );
        let (agent, proxies) = names.split_last().expect("at least an agent");
        let (mut components, mut greetings) = (Vec::new(), Vec::new());
        for name in proxies {
            // A nested chain starts its components when it receives `initialize`.
            let mut proxy = self.wait_for_component(name);
            let greeting = proxy.request("proxy/initialize");
            proxy.forward("forward", "initialize", &greeting["params"].to_string());
            greetings.push(greeting);
            components.push(proxy);
        }
        let mut agent = self.wait_for_component(agent);
        let greeting = agent.request("initialize");
        let result = r#"{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}"#;
        agent.answer(&greeting, result);
        for (proxy, greeting) in components.iter_mut().zip(&greetings).rev() {
            let answer = proxy.message();
            assert_eq!(answer["id"], "forward", "{answer}");
            proxy.answer(greeting, &answer["result"].to_string());
        }
        let answer = self.editor.message();
        assert_eq!(answer["id"], "init", "{answer}");
        assert!(answer["result"].is_object(), "{answer}");
        components.push(agent);
        components
    }
}

impl TestChainBuilder {
    /// Adds arguments of `conductor`, before the components.
    pub fn option(mut self, words: &[&str]) -> TestChainBuilder {
        self.options.extend(words.iter().map(|&word| word.to_owned()));
        self
    }

    /// Sets an environment variable of the conductor. By default, `XDG_CACHE_HOME` and `XDG_RUNTIME_DIR` are a directory
    /// of this chain only, so chains share neither what they remember of components nor their sockets.
    pub fn env(mut self, name: &str, value: &str) -> TestChainBuilder {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Leaves the conductor's stderr unread, so that its pipe fills up.
    pub fn leave_stderr_unread(mut self) -> TestChainBuilder {
        self.leave_stderr_unread = true;
        self
    }

    /// The command line of a scripted component, for a COMPONENT argument.
    pub fn scripted_command(&self, name: &str) -> String {
        self.components.command(name)
    }

    /// The command line of a chain of these components that is itself a proxy.
    pub fn subchain(&self, components: &[String]) -> String {
        self.nested("proxy", components)
    }

    /// The command line of another conductor in this mode.
    pub fn nested(&self, mode: &str, components: &[String]) -> String {
        let program = quote(&self.program.to_string_lossy());
        let words = components.iter().map(|component| format!(" {}", quote(component)));
        format!("{program} {mode}{}", words.collect::<String>())
    }

    /// A scripted component as a COMPONENT in JSON, which gives it this name in the conductor, too.
    pub fn scripted_json(&self, name: &str) -> Value {
        let socket = &self.components.socket;
        json!({ "name": name, "command": binary("scripted"), "args": [socket, name] })
    }

    /// Runs `conductor agent` with scripted components that have these names in the conductor, too.
    pub fn run_named(self, names: &[&str]) -> TestChain {
        let components: Vec<String> =
            names.iter().map(|name| self.scripted_json(name).to_string()).collect();
        self.run("agent", &components)
    }

    /// Runs `conductor agent` with scripted components. In the conductor, all have the name of their program.
    pub fn run_agent(self, names: &[&str]) -> TestChain {
        let components: Vec<String> =
            names.iter().map(|name| self.scripted_command(name)).collect();
        self.run("agent", &components)
    }

    /// Runs `conductor MODE` with these COMPONENT arguments.
    pub fn run(self, mode: &str, components: &[String]) -> TestChain {
        let mut command = Command::new(&self.program);
        command.arg(mode).args(&self.options).args(components);
        let own = self.components.cache();
        std::fs::create_dir_all(&own).expect("a directory");
        command.env("XDG_CACHE_HOME", &own).env("XDG_RUNTIME_DIR", &own);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the conductor starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = child.stdout.take().expect("a pipe");
        // If stderr is not read, the pipe stays open in `child` and fills up.
        let stderr = if self.leave_stderr_unread { None } else { child.stderr.take() };
        TestChain {
            editor: Editor::new(stdin, stdout),
            conductor: Conductor::new(child, stderr),
            components: self.components,
        }
    }
}

/// The editor's end of the conductor's pipes.
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

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("still open").write_all(bytes).expect("the conductor reads");
    }

    /// Closes the conductor's standard input, as an editor that disconnects does.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Takes the pipe out, for a test that reads it by itself or not at all.
    pub fn take_stdout(&mut self) -> std::process::ChildStdout {
        self.stdout.take().expect("not read yet")
    }

    /// Takes the pipe out, for a test that writes it by itself.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("still open")
    }

    /// Waits for the next line. `None` at the end of the stream.
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
        match lines.recv_timeout(TIMEOUT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("the editor received no line within {TIMEOUT:?}")
            }
        }
    }

    /// Waits for the next line.
    pub fn line(&mut self) -> String {
        self.next_line().expect("a line for the editor, not the end of the stream")
    }

    /// Waits for the next line and parses it.
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

/// Parses a line as JSON.
pub fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Asserts that an answer is an error that names the component that failed, the cause, its last lines on stderr, and
/// what to do.
pub fn assert_reports_failure(answer: &Value, component: &str, cause: &str, last_line: &str) {
    let error = &answer["error"];
    assert_eq!(error["code"], -32603, "{answer}");
    let message = error["message"].as_str().expect("a message");
    let data = |key: &str| error["data"][key].as_str().unwrap_or_else(|| panic!("{key}: {answer}"));
    assert_eq!(data("component"), component, "{answer}");
    assert!(data("cause").contains(cause), "{answer}");
    for part in [&format!("'{component}'"), data("command"), cause, last_line, data("remedy")] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    let lines = error["data"]["lastWords"].as_array().expect("a list");
    let is_last = |line: &Value| line.as_str().is_some_and(|line| line.contains(last_line));
    assert!(last_line.is_empty() || lines.iter().any(is_last), "{answer}");
}

/// Whether a process of this id runs. A zombie does not.
pub fn is_alive(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'),
        Err(_) => false,
    }
}

/// The parent of a process. The file reads `PID (NAME) STATE PARENT …`, and the name may contain any character.
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

/// The resident memory of a process now and its peak, in KiB.
pub fn memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect(name);
        line.split_whitespace().nth(1).and_then(|it| it.parse().ok()).expect(name)
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Waits until these processes neither read nor write any more. A stall is not an event, so this function polls and
/// wants the same counters fifty times. If it returns too early, the test checks less but does not fail.
pub fn wait_until_idle(pids: &[u32]) {
    let counters = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/io")).ok();
    let (mut before, mut unchanged) = (Vec::new(), 0);
    wait_until("the processes are idle", || {
        let now: Vec<_> = pids.iter().map(counters).collect();
        unchanged = if now == before { unchanged + 1 } else { 0 };
        before = now;
        (unchanged == 50).then_some(())
    });
}

/// Sends a signal to a process of this test.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: signals touch no memory of ours.
    unsafe { libc::kill(pid as i32, signal) };
}

/// Waits until a process has exited.
pub fn assert_gone(pid: u32, name: &str) {
    wait_until(&format!("{name} is gone"), || (!is_alive(pid)).then_some(()));
}

/// Writes an agent as a shell script, which runs a command for each prompt. `$id` is the id of the prompt.
pub fn write_shell_agent(directory: &Path, on_prompt: &str) -> PathBuf {
    let body = format!(
        r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"protocolVersion\":1}}}}" ;;
    *'"session/new"'*) echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"sessionId\":\"s\"}}}}" ;;
    *'"session/prompt"'*) {on_prompt} ;;
  esac
done
"#
    );
    write_script(directory, "agent", &body)
}

/// Polls until `look` returns a value. For conditions that are not events, such as the state of another process.
pub fn wait_until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_until_described(look, || what.to_owned())
}

/// Like [`wait_until`], with a description that is made when the test fails, from what there is then.
pub fn wait_until_described<T>(
    mut look: impl FnMut() -> Option<T>,
    describe: impl Fn() -> String,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        // Timing: the condition is not an event, and only a bug reaches the deadline.
        assert!(began.elapsed() < TIMEOUT, "{}: not within {TIMEOUT:?}", describe());
        // Timing: as above.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs work that may block, such as reading a pipe, with a timeout.
pub fn with_timeout<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(TIMEOUT).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Writes an executable shell script and returns its path.
pub fn write_script(directory: &Path, name: &str, body: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a mode");
    path
}
