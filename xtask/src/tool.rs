//! Runs and installs other programs.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use testkit::test_chain::RELEASE;

pub fn cargo() -> impl AsRef<OsStr> {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

pub fn run(command: &mut Command) -> Result<(), String> {
    // Standard output is for results. The output of tools goes to standard error.
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

pub fn output_of(command: &mut Command) -> Result<String, String> {
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(format!("{command:?}: {}", output.status)),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

pub fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Builds the release program and two test components. Returns their folder.
pub fn release() -> Result<PathBuf, String> {
    run(Command::new(cargo()).args(RELEASE))?;
    let metadata =
        output_of(Command::new(cargo()).args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let target = metadata["target_directory"].as_str().ok_or("cargo names no target folder")?;
    Ok(Path::new(target).join("release"))
}

/// Checks that a program works. Otherwise installs its Debian package, if this user may.
pub fn ensure_installed(program: &str, check: &[&str], package: &str) -> Result<(), String> {
    let there = || output_of(Command::new(program).args(check)).is_ok();
    if there() {
        return Ok(());
    }
    // One thread at a time installs, and another thread may have installed the program already.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if there() {
        return Ok(());
    }
    let root = output_of(Command::new("id").arg("-u")).is_ok_and(|it| it.trim() == "0");
    if !root || output_of(Command::new("apt-get").arg("--version")).is_err() {
        return Err(format!("{program} {} does not work: install {package}", check.join(" ")));
    }
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--quiet", "--yes", "--no-install-recommends", package])
        .args(["--option", "DPkg::Lock::Timeout=600"])
        .env("DEBIAN_FRONTEND", "noninteractive"))?;
    if there() {
        Ok(())
    } else {
        Err(format!("{program} does not work, although {package} is installed"))
    }
}
