//! Configuration files, with real files and the real program: which file wins, what is an error and how it is printed, and
//! which chain runs.

#![cfg(unix)]

mod built_ins;
mod chains;
mod edit;
mod mistakes;
mod schema;
mod shown;
mod validator;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::test_chain::{directory, with_timeout};

/// A user with a configuration folder, and a project.
struct Setup {
    folder: PathBuf,
}

impl Setup {
    fn new(name: &str) -> Setup {
        let folder = directory(name).canonicalize().expect("it exists");
        for name in ["config/conductor", "home", "state", "project", "run"] {
            std::fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        Setup { folder }
    }

    /// A setup with a configuration file of the user.
    fn with_user_file(name: &str, text: &str) -> Setup {
        let setup = Setup::new(name);
        setup.write("config/conductor/conductor.toml", text);
        setup
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("in the folder")).expect("a folder");
        std::fs::write(&path, text).expect("written");
        path
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The program, in the folder of the project.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
        command.args(arguments).current_dir(self.path("project")).stdin(Stdio::null());
        command.env("HOME", self.path("home")).env("XDG_CONFIG_HOME", self.path("config"));
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_RUNTIME_DIR", self.path("run"));
        command.env("XDG_CACHE_HOME", self.path("state"));
        for name in ["CONDUCTOR_CONFIG", "CONDUCTOR_LOG", "VISUAL", "EDITOR", "NOTHING"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments))
    }

    /// What a command prints, which must succeed.
    #[track_caller]
    fn printed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The names of the components of a chain that starts, by `--explain`.
    #[track_caller]
    fn explained(&self, arguments: &[&str]) -> Vec<String> {
        let text = self.printed(&[&["agent"], arguments, &["--explain", "--json"]].concat());
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let components = report["components"].as_array().expect("a list");
        components.iter().map(|it| it["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// The error of a command, with `FOLDER` in place of the path of the setup.
    #[track_caller]
    fn refused(&self, arguments: &[&str], status: i32) -> String {
        let output = self.run(arguments);
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {stderr}");
        stderr.replace(&self.folder.display().to_string(), "FOLDER")
    }
}

fn finish(mut command: Command) -> Output {
    with_timeout("the program ends", move || command.output().expect("the program starts"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A shell script as a TOML array of arguments of `sh`.
fn shell(script: &str) -> String {
    format!("[\"-c\", {}]", Value::from(script))
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
