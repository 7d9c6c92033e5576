//! `cargo xtask peers`: builds the programs under `peers/` and the reference conductor into the cache,
//! and writes down their command lines for the tests (`testkit::peers`).
//!
//! Each is built once per state of its sources: the directory's name ends in a hash of them. A build
//! happens beside its directory and is moved there when it is whole, so what is there can be used.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::peers::{cache, index, quote};

const REFERENCE: &str = "agent-client-protocol-conductor";
const REFERENCE_VERSION: &str = "5.0.0";

/// Builds what is missing and writes the index. Returns the index's path.
pub fn ensure() -> Result<PathBuf, String> {
    let mut commands = BTreeMap::new();
    rust(&mut commands)?;
    typescript(&mut commands)?;
    python(&mut commands)?;
    let reference = crate::cache::install(REFERENCE, REFERENCE_VERSION, REFERENCE)?;
    commands.insert("reference", quoted([reference]));

    let text = serde_json::to_string_pretty(&commands).expect("strings are JSON");
    // Moved into place, so that a test never reads half of it.
    let fresh = cache().join(format!("peers.json.{}", std::process::id()));
    fs::write(&fresh, text + "\n").map_err(at(&fresh))?;
    fs::rename(&fresh, index()).map_err(at(&index()))?;
    Ok(index())
}

type Commands = BTreeMap<&'static str, String>;

fn rust(commands: &mut Commands) -> Result<(), String> {
    let source = source("rust-sdk");
    let bin = built(&source, "", |place| {
        let target = place.join("target");
        run(Command::new(cargo())
            .args(["build", "--release", "--locked", "--manifest-path"])
            .arg(source.join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", &target))?;
        for name in ["acp-editor", "acp-proxy", "acp-agent"] {
            copy(&target.join("release").join(name), &place.join(name))?;
        }
        // Three programs are worth keeping, the hundreds of megabytes that they were made of are not.
        fs::remove_dir_all(&target).map_err(at(&target))
    })?;
    commands.insert("rust_editor", quoted([bin.join("acp-editor")]));
    commands.insert("rust_proxy", quoted([bin.join("acp-proxy")]));
    commands.insert("rust_agent", quoted([bin.join("acp-agent")]));
    Ok(())
}

fn typescript(commands: &mut Commands) -> Result<(), String> {
    need("node", &["--version"], "nodejs")?;
    need("npm", &["--version"], "npm")?;
    let source = source("typescript");
    let place = built(&source, "", |place| {
        copy_files(&source, place)?;
        run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(place))
    })?;
    for (name, file) in
        [("ts_editor", "editor.mjs"), ("ts_proxy", "proxy.mjs"), ("ts_agent", "agent.mjs")]
    {
        commands.insert(name, quoted([Path::new("node"), &place.join(file)]));
    }
    Ok(())
}

fn python(commands: &mut Commands) -> Result<(), String> {
    need("python3", &["--version"], "python3")?;
    // Debian's python3 has the venv module, but not what it needs to put pip there.
    need("python3", &["-c", "import venv, ensurepip"], "python3-venv")?;
    // A virtual environment leans on the Python that made it, and is of no use to another one.
    let version = said(
        Command::new("python3").args(["-c", "import sys; print(sys.base_prefix, sys.version)"]),
    )?;
    let source = source("python");
    let place = built(&source, &version, |place| {
        copy_files(&source, place)?;
        run(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(place))?;
        run(Command::new("venv/bin/python")
            .args(["-m", "pip", "install", "--quiet", "--requirement", "requirements.txt"])
            .current_dir(place))
    })?;
    // Asked for by path and not through a script of the environment: those name the directory they
    // were made in, and it has been moved since.
    let python = place.join("venv/bin/python");
    commands.insert("py_editor", quoted([&python, &place.join("editor.py")]));
    commands.insert("py_agent", quoted([&python, &place.join("agent.py")]));
    Ok(())
}

/// The directory of what `build` makes from `source`, built now if it is not there yet.
fn built(
    source: &Path,
    also: &str,
    build: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    // Another Rust may hash differently; that costs one more build.
    let mut hasher = DefaultHasher::new();
    also.hash(&mut hasher);
    for file in files(source)? {
        file.strip_prefix(source).expect("listed below it").hash(&mut hasher);
        fs::read(&file).map_err(at(&file))?.hash(&mut hasher);
    }
    let name = source.file_name().unwrap_or_default().display();
    let place = cache().join(format!("peers-{name}-{:016x}", hasher.finish()));
    if place.exists() {
        return Ok(place);
    }

    eprintln!("building {}", place.display());
    let fresh = place.with_extension(format!("new-{}", std::process::id()));
    fs::create_dir_all(&fresh).map_err(at(&fresh))?;
    let outcome = build(&fresh).and_then(|()| match fs::rename(&fresh, &place) {
        // Someone else was faster: theirs is as good.
        Err(_) if place.exists() => Ok(()),
        outcome => outcome.map_err(at(&place)),
    });
    let _ = fs::remove_dir_all(&fresh);
    outcome.map(|()| place)
}

/// The sources of a peer, in a fixed order: its files and those of its `src`, not what tools leave there.
fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let path = entry.map_err(at(directory))?.path();
        if path.is_file() {
            found.push(path);
        } else if path.ends_with("src") || path.ends_with("bin") {
            found.extend(files(&path)?);
        }
    }
    found.sort();
    Ok(found)
}

fn copy_files(from: &Path, to: &Path) -> Result<(), String> {
    for file in files(from)? {
        copy(&file, &to.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Makes sure that a program is there, with the help of Debian's package manager if we may.
fn need(program: &str, check: &[&str], package: &str) -> Result<(), String> {
    let there = || said(Command::new(program).args(check)).is_ok();
    if there() {
        return Ok(());
    }
    let root = said(Command::new("id").arg("-u")).is_ok_and(|it| it.trim() == "0");
    if !root || said(Command::new("apt-get").arg("--version")).is_err() {
        return Err(format!("{program} {} does not work: install {package}", check.join(" ")));
    }
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--quiet", "--yes", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive"))?;
    if there() {
        Ok(())
    } else {
        Err(format!("{program} does not work, although {package} is installed"))
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    // Standard output is for what was asked for; the noise of tools is not.
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

fn said(command: &mut Command) -> Result<String, String> {
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(format!("{command:?}: {}", output.status)),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("peers").join(name)
}

fn cargo() -> impl AsRef<OsStr> {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(|_| ()).map_err(at(from))
}

fn quoted<const N: usize>(words: [impl AsRef<Path>; N]) -> String {
    words.map(|it| quote(&it.as_ref().display().to_string())).join(" ")
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}
