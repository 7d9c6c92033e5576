//! `cargo xtask test`: everything that must pass before a change lands.

use std::env;
use std::process::Command;
use std::time::Instant;

use crate::cache::{Profile, Published};
use crate::{fuzz, peers, tidy};

const CARGO_DENY: Published =
    Published { name: "cargo-deny", version: "0.20.2", profile: Profile::Dev };

pub fn run() -> Result<(), String> {
    step("format", || cargo(&["fmt", "--all", "--check"]))?;
    step("house rules", tidy::run)?;
    step("lints", || {
        cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"])
    })?;
    step("third-party peers", || peers::ensure().map(drop))?;
    // Some tests are about speed and memory, and use the program as it is shipped.
    step("release build", || cargo(&["build", "--quiet", "--release", "--package", "conductor"]))?;
    step("tests", || cargo(&["test", "--workspace"]))?;
    step("demo", crate::demo::run)?;
    // Whether it is still the same is for people to see.
    step("picture", || crate::picture::make().map(drop))?;
    step("documentation", || {
        let mut doc = command(&["doc", "--quiet", "--workspace", "--no-deps"]);
        succeed(doc.env("RUSTDOCFLAGS", "--deny warnings"))
    })?;
    step("licences", licences)?;
    step("fuzz", fuzz::briefly)
}

/// Licences and sources of all dependencies. The advisory database is fetched from the network, so
/// it is left to those who have it: `cargo deny check`.
fn licences() -> Result<(), String> {
    let deny = CARGO_DENY.installed()?;
    succeed(Command::new(deny).args(["--offline", "check", "bans", "licenses", "sources"]))
}

fn step(name: &str, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    eprintln!("── {name}");
    let began = Instant::now();
    work().map_err(|error| format!("{name}: {error}"))?;
    eprintln!("── {name}: {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn command(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments);
    cargo
}

fn cargo(arguments: &[&str]) -> Result<(), String> {
    succeed(&mut command(arguments))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}
