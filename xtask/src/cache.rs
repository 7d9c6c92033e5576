//! Other people's programs that we measure and test against, kept outside the repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// The path of `binary` from crate `name` at exactly `version`, installed now if it is not there yet.
pub fn install(name: &str, version: &str, binary: &str) -> Result<PathBuf, String> {
    let cache = testkit::peers::cache();
    let root = cache.join(format!("{name}-{version}"));
    let path = root.join("bin").join(binary);
    if path.is_file() {
        return Ok(path);
    }
    eprintln!("installing {name} {version} in {}", root.display());
    // Not in our own target directory: its lock would make a concurrent build wait for minutes.
    let build = cache.join(format!("build-{name}-{version}-{}", std::process::id()));
    let built = run_install(name, version, &root, &build);
    // What is left of a build is only space lost: no reason to fail.
    let _ = fs::remove_dir_all(&build);
    built?;
    if path.is_file() { Ok(path) } else { Err(format!("{name} {version} has no binary {binary}")) }
}

fn run_install(name: &str, version: &str, root: &Path, build: &Path) -> Result<(), String> {
    fs::create_dir_all(root).map_err(|error| format!("{}: {error}", root.display()))?;
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "install",
            name,
            "--version",
            &format!("={version}"),
            "--locked",
            "--quiet",
            "--root",
        ])
        .arg(root)
        .env("CARGO_TARGET_DIR", build)
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("cargo install {name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo install {name} {version}: {status}")) }
}
