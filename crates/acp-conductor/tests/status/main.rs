//! `conductor status`: what it shows of running chains, and which users may read it.

#![cfg(unix)]

mod clients;
mod list;
mod output;
mod sockets;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::test_chain::{Conductor, ScriptedComponent, TestChain, TestChainBuilder, directory};

const PROGRAM: &str = env!("CARGO_BIN_EXE_conductor");

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
const PROMPT: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#;

/// A grace period longer than any test.
const LONG_GRACE: [&str; 2] = ["--grace", "600"];

/// The directories of one test, so that it sees only its own conductors.
struct TestDirectories {
    root: PathBuf,
    /// `XDG_RUNTIME_DIR`.
    runtime: PathBuf,
    /// `TMPDIR`.
    temporary: PathBuf,
}

impl TestDirectories {
    fn new(name: &str) -> TestDirectories {
        let root = directory(&format!("status-{name}"));
        let [runtime, temporary] = ["run", "tmp"].map(|it| root.join(it));
        fs::create_dir(&runtime).expect("a directory");
        fs::create_dir(&temporary).expect("a directory");
        TestDirectories { root, runtime, temporary }
    }

    fn variables(&self) -> [(&'static str, &Path); 2] {
        [("XDG_RUNTIME_DIR", &self.runtime), ("TMPDIR", &self.temporary)]
    }

    fn new_setup(&self) -> TestChainBuilder {
        self.variables().into_iter().fold(TestChain::builder(PROGRAM), |setup, (name, value)| {
            setup.env(name, value.to_str().expect("UTF-8"))
        })
    }

    /// `conductor` in the same environment.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).envs(self.variables()).stdin(Stdio::null());
        command
    }

    fn status(&self, arguments: &[&str]) -> Output {
        self.command(&[&["status"], arguments].concat()).output().expect("the conductor starts")
    }

    /// The text output, without errors.
    fn text(&self) -> String {
        let output = self.status(&[]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The running conductors.
    fn list(&self) -> Vec<Value> {
        let output = self.status(&["--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// The status of the only running conductor.
    fn json(&self) -> Value {
        let mut list = self.list();
        assert_eq!(list.len(), 1, "{list:?}");
        list.remove(0)
    }

    /// The default directory of the sockets.
    fn sockets(&self) -> PathBuf {
        self.runtime.join("conductor")
    }

    /// The directory of the sockets when the default cannot be used.
    fn fallback_sockets(&self) -> PathBuf {
        self.temporary.join(format!("conductor-{}", uid()))
    }

    fn socket(&self, conductor: &Conductor) -> PathBuf {
        self.sockets().join(format!("{}.sock", conductor.pid()))
    }
}

impl Drop for TestDirectories {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn uid() -> u32 {
    // SAFETY: reads the user id.
    unsafe { libc::geteuid() }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A chain of a proxy and an agent, after the handshake.
fn start_pair(setup: TestChainBuilder) -> (TestChain, ScriptedComponent, ScriptedComponent) {
    let mut chain = setup.run_named(&["proxy", "agent"]);
    let mut scripted = chain.initialize(&["proxy", "agent"]).into_iter();
    let (proxy, agent) = (scripted.next().unwrap(), scripted.next().unwrap());
    (chain, proxy, agent)
}

/// A chain of one agent, after the handshake.
fn start_agent(setup: TestChainBuilder) -> (TestChain, ScriptedComponent) {
    let mut chain = setup.run_named(&["agent"]);
    let agent = chain.initialize(&["agent"]).remove(0);
    (chain, agent)
}

fn end(chain: &mut TestChain, scripted: &mut [ScriptedComponent]) {
    chain.editor.close();
    for component in scripted {
        assert_eq!(component.next_line(), None);
        component.exit(0);
    }
    assert_eq!(chain.conductor.status(), 0);
}
