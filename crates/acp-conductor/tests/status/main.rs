//! `conductor status`: what it shows of chains that really run, and who can ask them.

#![cfg(unix)]

mod callers;
mod list;
mod place;
mod shown;

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

/// A grace period that no test lives to see.
const PATIENT: [&str; 2] = ["--grace", "600"];

/// The directories of one test: it sees no conductors of others.
struct Nook {
    root: PathBuf,
    /// `XDG_RUNTIME_DIR`.
    runtime: PathBuf,
    /// `TMPDIR`.
    temporary: PathBuf,
}

impl Nook {
    fn new(name: &str) -> Nook {
        let root = directory(&format!("status-{name}"));
        let [runtime, temporary] = ["run", "tmp"].map(|it| root.join(it));
        fs::create_dir(&runtime).expect("a directory");
        fs::create_dir(&temporary).expect("a directory");
        Nook { root, runtime, temporary }
    }

    fn variables(&self) -> [(&'static str, &Path); 2] {
        [("XDG_RUNTIME_DIR", &self.runtime), ("TMPDIR", &self.temporary)]
    }

    fn test_chain(&self) -> TestChainBuilder {
        self.variables().into_iter().fold(TestChain::builder(PROGRAM), |setup, (name, value)| {
            setup.env(name, value.to_str().expect("UTF-8"))
        })
    }

    /// `conductor` in the same surroundings.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).envs(self.variables()).stdin(Stdio::null());
        command
    }

    fn status(&self, arguments: &[&str]) -> Output {
        self.command(&[&["status"], arguments].concat()).output().expect("the conductor starts")
    }

    /// What it shows to people, with nothing to complain about.
    fn text(&self) -> String {
        let output = self.status(&[]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The conductors that run.
    fn list(&self) -> Vec<Value> {
        let output = self.status(&["--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// The one that runs.
    fn json(&self) -> Value {
        let mut list = self.list();
        assert_eq!(list.len(), 1, "{list:?}");
        list.remove(0)
    }

    /// Where the sockets are by default.
    fn directory(&self) -> PathBuf {
        self.runtime.join("conductor")
    }

    /// Where they are if that cannot be.
    fn fallback(&self) -> PathBuf {
        self.temporary.join(format!("conductor-{}", uid()))
    }

    fn socket(&self, conductor: &Conductor) -> PathBuf {
        self.directory().join(format!("{}.sock", conductor.pid()))
    }
}

impl Drop for Nook {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn uid() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A chain of a proxy and an agent that stand.
fn pair(setup: TestChainBuilder) -> (TestChain, ScriptedComponent, ScriptedComponent) {
    let mut chain = setup.run_named(&["proxy", "agent"]);
    let mut components = chain.initialize(&["proxy", "agent"]).into_iter();
    let (proxy, agent) = (components.next().unwrap(), components.next().unwrap());
    (chain, proxy, agent)
}

/// A chain of one agent that stands.
fn single(setup: TestChainBuilder) -> (TestChain, ScriptedComponent) {
    let mut chain = setup.run_named(&["agent"]);
    let agent = chain.initialize(&["agent"]).remove(0);
    (chain, agent)
}

fn end(chain: &mut TestChain, components: &mut [ScriptedComponent]) {
    chain.editor.close();
    for component in components {
        assert_eq!(component.next_line(), None);
        component.exit(0);
    }
    assert_eq!(chain.conductor.status(), 0);
}
