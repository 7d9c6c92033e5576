//! The file of a project starts nothing before its user has consented to it.

#![cfg(unix)]

mod built_ins;
mod command;
mod hostile;
mod swapped;
mod told;

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};
use testkit::test_chain::{directory, parse, with_timeout, write_shell_agent};

/// The chain of the user, the file of a project, and the places for both.
struct Setup {
    root: PathBuf,
    env: Vec<(String, PathBuf)>,
}

/// What an editor and its user got from a chain.
#[derive(Debug)]
struct Run {
    /// All texts that the editor got at its first prompt, or the error of a request.
    editor: String,
    stderr: String,
    status: Option<i32>,
}

const ANSWER: &str =
    r#"echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"end_turn\"}}""#;

impl Setup {
    /// A user with the chain `mine`, and a project without a file. The agent of the user makes the file `mine-ran`.
    fn new(name: &str) -> Setup {
        let root = directory(name).canonicalize().expect("it exists");
        let setup = Setup { root, env: Vec::new() };
        setup.write_agent("bin", "mine-ran");
        setup.write_agent("project/bin", "evil-ran");
        let agent = setup.path("bin/agent").display().to_string();
        setup.write(
            "config/conductor/conductor.toml",
            format!(
                "default = \"mine\"\n[components.me]\ncommand = {agent:?}\n[components.extra]\ncommand = \"log\"\n\
                 [chains.mine]\nproxies = [{{ chain = \"included\" }}]\nagent = \"me\"\n[chains.included]\nproxies = []\n"
            ),
        );
        setup
    }

    /// Like [`new`](Setup::new), with the file of a project whose agent makes the file `evil-ran`.
    fn with_project(name: &str, file: &str) -> Setup {
        let setup = Setup::new(name);
        setup.write("project/.conductor.toml", file);
        setup
    }

    fn env(mut self, name: &str, value: impl Into<PathBuf>) -> Setup {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).expect("ours");
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).expect("ours");
    }

    fn link(&self, to: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(to, self.path(name)).expect("a link");
    }

    fn fifo(&self, name: &str) {
        let made = Command::new("mkfifo").arg(self.path(name)).status().expect("mkfifo");
        assert!(made.success());
    }

    /// Writes the program `agent` into a folder. When it starts, it makes an empty file.
    fn write_agent(&self, folder: &str, marker: &str) {
        let folder = self.path(folder);
        fs::create_dir_all(&folder).expect("a folder");
        let agent = write_shell_agent(&folder, ANSWER);
        let text = fs::read_to_string(&agent).expect("a script");
        let marked = format!("#!/bin/sh\n: >'{}'\n", self.path(marker).display());
        fs::write(&agent, text.replacen("#!/bin/sh\n", &marked, 1)).expect("a script");
    }

    fn ran(&self, marker: &str) -> bool {
        self.path(marker).exists()
    }

    /// `conductor` in a folder, with the environment of the user.
    fn conductor(&self, folder: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
        command.args(args).current_dir(self.path(folder));
        for name in ["HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME"] {
            fs::create_dir_all(self.path("home")).expect("a folder");
            command.env(name, self.path("home"));
        }
        command
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"));
        command.env("NO_COLOR", "1").env_remove("CONDUCTOR_CONFIG").env_remove("CONDUCTOR_LOG");
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    fn output(&self, folder: &str, args: &[&str]) -> Output {
        let mut command = self.conductor(folder, args);
        with_timeout(&format!("{args:?}"), move || command.output().expect("the conductor starts"))
    }

    /// Consents to the project.
    fn trust(&self) {
        let output = self.output("project", &["trust", "--yes"]);
        assert!(output.status.success(), "{output:?}");
    }

    /// Plays an editor in a folder: it starts a session, and sends a prompt.
    fn run_in(&self, folder: &str, args: &[&str]) -> Run {
        self.run_session(folder, args, "/")
    }

    /// Like [`run_in`](Setup::run_in), with the folder of the session.
    fn run_session(&self, folder: &str, args: &[&str], cwd: impl AsRef<Path>) -> Run {
        let cwd = cwd.as_ref().to_owned();
        let mut command = self.conductor(folder, args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        with_timeout("the conductor runs", move || {
            let mut child = command.spawn().expect("the conductor starts");
            let mut stdin = child.stdin.take().expect("a pipe");
            let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            let requests = [
                ("initialize", json!({ "protocolVersion": 1 })),
                ("session/new", json!({ "cwd": cwd, "mcpServers": [] })),
                ("session/prompt", json!({ "sessionId": "s", "prompt": [] })),
            ];
            let mut editor = String::new();
            'requests: for (method, params) in requests {
                let request =
                    json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
                // The conductor may have ended.
                if writeln!(stdin, "{request}").is_err() {
                    break;
                }
                loop {
                    let Some(Ok(line)) = lines.next() else { break 'requests };
                    let message: Value = parse(&line);
                    editor += message["params"]["update"]["content"]["text"].as_str().unwrap_or("");
                    if message["id"] == method {
                        if let Some(why) = message["error"]["message"].as_str() {
                            editor += why;
                            break 'requests;
                        }
                        assert!(message["result"].is_object(), "{message}");
                        break;
                    }
                }
            }
            drop(stdin);
            let output = child.wait_with_output().expect("it ends");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            Run { editor, stderr, status: output.status.code() }
        })
    }

    /// Runs the default chain in the project.
    fn run(&self) -> Run {
        self.run_in("project", &["agent"])
    }

    /// The chain of the user runs, nothing of the project does, and the user is told this.
    fn assert_refused(&self, why: &str) -> Run {
        let run = self.run();
        assert!(!self.ran("evil-ran"), "the project has started something: {run:?}");
        assert!(self.ran("mine-ran"), "the chain of the user has not run: {run:?}");
        self.remove("mine-ran");
        assert_eq!(run.status, Some(0), "{run:?}");
        for told in [&run.editor, &run.stderr] {
            assert!(told.contains(why), "{why:?} is not in {told:?}: {run:?}");
        }
        run
    }

    /// Like [`assert_refused`](Setup::assert_refused), for a file to which the user can consent.
    fn assert_asks(&self, why: &str) -> Run {
        let run = self.assert_refused(why);
        let command = format!("conductor trust {}", self.path("project").display());
        assert!(run.editor.contains(&command) && run.stderr.contains(&command), "{run:?}");
        run
    }

    /// The chain of the project runs.
    fn assert_used(&self) {
        let run = self.run();
        assert!(self.ran("evil-ran") && !self.ran("mine-ran"), "{run:?}");
        assert!(!run.editor.contains("trust") && !run.stderr.contains("trust"), "{run:?}");
        self.remove("evil-ran");
    }
}

/// An editor that asks one thing after the other.
struct Editor {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Editor {
    fn start(command: &mut Command) -> Editor {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the conductor starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Editor { child, lines }
    }

    /// Sends a request, and returns the answer. `null` if the chain has ended.
    fn request(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        writeln!(self.child.stdin.as_mut().expect("open"), "{request}").expect("it reads");
        let lines = self.lines.by_ref().map(|line| parse(&line.expect("UTF-8")));
        let mut answers = lines.filter(|it| it["id"] == method);
        answers.next().unwrap_or_default()
    }

    /// Ends the chain. Returns its status, and what it wrote to standard error.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        for line in self.lines.by_ref() {
            line.expect("UTF-8");
        }
        let output = self.child.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    }
}

/// The file of a project with a chain of its own.
const PROJECT: &str = "default = \"theirs\"\n[components.evil]\ncommand = \"./bin/agent\"\n[chains.theirs]\nagent = \"evil\"\n";

const NOT_YET: &str = "you do not trust this project yet";

#[test]
fn the_chain_of_a_project_runs_after_its_user_has_consented() {
    let setup = Setup::with_project("consent", PROJECT);
    let run = setup.assert_asks(NOT_YET);
    for told in [&run.editor, &run.stderr] {
        assert!(told.contains("It has the component evil and the chain theirs."), "{run:?}");
        assert!(told.contains("[more: conductor errors untrusted-project]"), "{run:?}");
    }
    setup.trust();
    setup.assert_used();
    // Also from a folder inside of the project.
    setup.write("project/sub/file", "");
    let run = setup.run_in("project/sub", &["agent"]);
    assert!(setup.ran("evil-ran"), "{run:?}");
    setup.remove("evil-ran");
    let output = setup.output("project/sub", &["untrust"]);
    assert!(output.status.success(), "{output:?}");
    setup.assert_asks(NOT_YET);
}

#[test]
fn without_a_file_of_a_project_nothing_is_said() {
    let setup = Setup::new("none");
    let run = setup.run();
    assert!(setup.ran("mine-ran"), "{run:?}");
    assert_eq!((run.editor.as_str(), run.stderr.as_str()), ("", ""), "{run:?}");
}
