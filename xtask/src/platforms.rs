//! Installs the parts of Rust that the checks need: rustfmt, clippy, and the standard libraries of other platforms.

use std::process::Command;

use crate::cache::CachedBuilds;
use crate::dist::TARGETS;
use crate::test::DENY_WARNINGS;
use crate::tool::{cargo, output_of, run};

pub const MACOS: &str = "aarch64-apple-darwin";
pub const WINDOWS: &str = "x86_64-pc-windows-gnu";
pub const WASI: &str = "wasm32-wasip1";

/// Installs the standard libraries of the other platforms, and those of releases.
pub fn install() -> Result<(), String> {
    install_targets(&[MACOS, WINDOWS, WASI])?;
    install_targets(&TARGETS)
}

/// Installs the standard libraries of these platforms, unless they are there.
pub fn install_targets(targets: &[&str]) -> Result<(), String> {
    let missing: Vec<&str> = targets.iter().copied().filter(|it| !is_there(it)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    rustup("target", &missing)
}

/// Installs a Cargo command such as fmt or clippy, which a minimal installation lacks.
pub fn component(verb: &str, component: &str) -> Result<(), String> {
    match output_of(Command::new(cargo()).args([verb, "--version"])) {
        Ok(_) => Ok(()),
        Err(_) => rustup("component", &[component]),
    }
}

fn rustup(kind: &str, names: &[&str]) -> Result<(), String> {
    if output_of(Command::new("rustup").arg("--version")).is_err() {
        let names = names.join(" and ");
        return Err(format!(
            "Rust has no {kind} {names} here, and there is no rustup to install it: install it as you \
             installed Rust, or get Rust from https://rustup.rs"
        ));
    }
    run(Command::new("rustup").args([kind, "add"]).args(names))
}

/// Whether the compiler in use has the standard library of `target`.
fn is_there(target: &str) -> bool {
    let path =
        output_of(Command::new("rustc").args(["--print", "target-libdir", "--target", target]));
    path.is_ok_and(|it| std::path::Path::new(it.trim()).is_dir())
}

/// Runs clippy for macOS, without the crates that are for Linux: xtask and bench.
pub fn lint_macos() -> Result<(), String> {
    lint(clippy(MACOS).arg("--all-targets"))
}

/// Runs clippy for Windows, for the programs and libraries. The tests with processes are for Unix.
pub fn lint_windows() -> Result<(), String> {
    let parts = ["--exclude", "testkit", "--lib", "--bins", "--examples"];
    lint(clippy(WINDOWS).args(parts))
}

fn lint(clippy: &mut Command) -> Result<(), String> {
    run(CachedBuilds::open()?.apply(clippy).args(DENY_WARNINGS))
}

fn clippy(target: &str) -> Command {
    let mut command = Command::new(cargo());
    command.args(["clippy", "--keep-going", "--target", target]);
    command.args(["--workspace", "--exclude", "xtask", "--exclude", "bench"]);
    command
}
