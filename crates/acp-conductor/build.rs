//! Records how the program is built, for `conductor --version --verbose`.
//!
//! The commit comes from the environment (`CONDUCTOR_COMMIT` and `CONDUCTOR_COMMIT_DATE`, which `cargo xtask dist`
//! sets), from the file that cargo adds to a package, or from git. Git is asked only for optimised builds, and again only
//! if the sources of the program have changed: a commit alone does not link the program again. The recorded commit is
//! then an earlier one with the same sources.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of this package in its repository.
const FOLDER: &str = "crates/acp-conductor/";

/// The crates that are not a part of the program.
const TEST_CRATES: [&str; 2] = ["fuzzing", "testkit"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CLI").is_none() {
        return;
    }
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    record("CONDUCTOR_TARGET", env::var("TARGET").ok());
    record("CONDUCTOR_RUSTC", output_of(Command::new(rustc).arg("--version")));
    record("CONDUCTOR_SCHEMA", schema_version(&folder));
    println!("cargo::rerun-if-env-changed=CONDUCTOR_COMMIT");
    println!("cargo::rerun-if-env-changed=CONDUCTOR_COMMIT_DATE");
    if env::var_os("CONDUCTOR_COMMIT").is_some() {
        // The compiler gets both variables from the environment.
        return;
    }
    if let Some(commit) = packaged_commit(&folder) {
        record("CONDUCTOR_COMMIT", Some(commit));
    } else if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        record_git_commit(&folder);
    }
}

/// Sets an environment variable for the compiler.
fn record(name: &str, value: Option<String>) {
    if let Some(value) = value {
        println!("cargo::rustc-env={name}={value}");
    }
}

/// The commit of a package that `cargo package` has made.
fn packaged_commit(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).map(str::to_owned)
}

/// The commit of the repository, and whether the sources differ from it, unless this is a copy of the package in the
/// repository of another project.
fn record_git_commit(folder: &Path) {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        output_of(command.arg("--no-optional-locks").args(arguments).current_dir(folder))
    };
    if git(&["rev-parse", "--show-prefix"]).as_deref() != Some(FOLDER) {
        return;
    }
    let sources = sources(folder);
    for source in &sources {
        println!("cargo::rerun-if-changed={source}");
    }
    record("CONDUCTOR_COMMIT", git(&["rev-parse", "HEAD"]));
    record("CONDUCTOR_COMMIT_DATE", git(&["show", "--no-patch", "--format=%cs", "HEAD"]));
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--"];
    status.extend(sources.iter().map(String::as_str));
    let changes = git(&status).filter(|changes| !changes.is_empty());
    record("CONDUCTOR_COMMIT_CHANGED", changes.map(|_| "yes".to_owned()));
}

/// The files and folders that the program of this repository is compiled from, relative to this package.
fn sources(folder: &Path) -> Vec<String> {
    let mut sources = vec!["../../Cargo.toml".to_owned(), "../../Cargo.lock".to_owned()];
    let crates = folder.join("..").read_dir().into_iter().flatten().flatten();
    let names = crates.filter_map(|entry| entry.file_name().into_string().ok());
    for name in names.filter(|name| !TEST_CRATES.contains(&name.as_str())) {
        let parts =
            ["Cargo.toml", "build.rs", "src", "dist"].map(|part| format!("../{name}/{part}"));
        sources.extend(parts.into_iter().filter(|path| folder.join(path).exists()));
    }
    sources
}

/// The version of the ACP schema in the lock file of the workspace or of the package.
fn schema_version(folder: &Path) -> Option<String> {
    let places = [folder.join("../../Cargo.lock"), folder.join("Cargo.lock")];
    let path = places.iter().find(|path| path.is_file())?;
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(path).ok()?;
    let (_, rest) = text.split_once("name = \"agent-client-protocol-schema\"\nversion = \"")?;
    rest.split('"').next().map(str::to_owned)
}

fn output_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
