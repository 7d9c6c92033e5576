//! What is kept outside the repository: other people's programs that we measure and test against, and builds of this
//! project that take long in a fresh checkout.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::peers::cache;

use crate::tool::{at, cargo, run};

/// A program published as a crate.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    pub name: &'static str,
    pub version: &'static str,
    pub profile: Profile,
}

/// How a program is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Ready soon: for what tests run.
    Dev,
    /// Optimised: for what is measured.
    Release,
}

impl Published {
    fn root(&self) -> PathBuf {
        let suffix = if self.profile == Profile::Dev { "-dev" } else { "" };
        cache().join(format!("{}-{}{suffix}", self.name, self.version))
    }

    /// The path of its binary, which has the crate's name; installed now if it is not there yet.
    pub fn installed(&self) -> Result<PathBuf, String> {
        if self.binary().is_file() {
            return Ok(self.binary());
        }
        let workshop = Workshop::open()?;
        self.install(&workshop)?;
        workshop.close();
        Ok(self.binary())
    }

    /// Installs it if it is not there yet.
    pub fn install(&self, workshop: &Workshop) -> Result<(), String> {
        if self.binary().is_file() {
            return Ok(());
        }
        let Published { name, version, profile } = self;
        let root = self.root();
        eprintln!("installing {name} {version} in {}", root.display());
        let mut command = workshop.cargo("install");
        command.args([*name, "--version", &*format!("={version}"), "--root"]).arg(&root);
        if *profile == Profile::Dev {
            command.arg("--debug");
        }
        run(&mut command)?;
        if self.binary().is_file() {
            Ok(())
        } else {
            Err(format!("{name} {version} has no binary {name}"))
        }
    }

    fn binary(&self) -> PathBuf {
        self.root().join("bin").join(self.name)
    }
}

/// More than this is not kept: about ten checkouts.
const MOST_KEPT: u64 = 4 << 30;

/// A target folder for what is built for other platforms, or with a fuzzer. In a fresh checkout only the crates of this
/// project are compiled there; the dependencies are compiled already. Only one process at a time builds there; others
/// wait.
#[derive(Debug)]
pub struct KeptBuilds {
    target: PathBuf,
    _lock: File,
}

impl KeptBuilds {
    pub fn open() -> Result<KeptBuilds, String> {
        let lock = lock("builds.lock", "another build for other platforms")?;
        let target = cache().join("builds");
        // Each checkout leaves its own crates there, and each change of a dependency its old version.
        if size(&target) > MOST_KEPT {
            fs::remove_dir_all(&target).map_err(at(&target))?;
        }
        Ok(KeptBuilds { target, _lock: lock })
    }

    /// The path of the target folder.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Lets a Cargo command build there.
    pub fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("CARGO_TARGET_DIR", &self.target).env("CARGO_INCREMENTAL", "0")
    }
}

/// How many bytes the files in a folder have.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok().map(|it| (entry, it)));
    sizes.map(|(entry, it)| if it.is_dir() { size(&entry.path()) } else { it.len() }).sum()
}

/// Locks a file in the cache. Says what it waits for.
fn lock(name: &str, other: &str) -> Result<File, String> {
    let cache = cache();
    fs::create_dir_all(&cache).map_err(at(&cache))?;
    let path = cache.join(name);
    let lock = File::create(&path).map_err(at(&path))?;
    if lock.try_lock().is_err() {
        eprintln!("waiting for {other}");
        lock.lock().map_err(at(&path))?;
    }
    Ok(lock)
}

/// Where third-party programs are compiled: one target folder for all of them, because they have many
/// dependencies in common. Only one process at a time builds there; others wait.
#[derive(Debug)]
pub struct Workshop {
    target: PathBuf,
    _lock: File,
}

impl Workshop {
    pub fn open() -> Result<Workshop, String> {
        let lock = lock("peers-target.lock", "another build of third-party programs")?;
        Ok(Workshop { target: cache().join("peers-target"), _lock: lock })
    }

    /// Everything is built: gigabytes that are of no more use are removed. After a failure they stay,
    /// so that the next try goes on from there.
    pub fn close(self) {
        // What is left of a build is only space lost: no reason to fail.
        let _ = fs::remove_dir_all(&self.target);
    }

    /// The folder of the programs that were built with this profile.
    pub fn programs(&self, profile: Profile) -> PathBuf {
        self.target.join(if profile == Profile::Dev { "debug" } else { "release" })
    }

    /// `cargo build` or the like, with the dependencies that the lock file names. What tests run is built
    /// once and runs for seconds: what counts is how soon it is there.
    pub fn cargo(&self, verb: &str) -> Command {
        let mut command = Command::new(cargo());
        command
            .args([verb, "--locked"])
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_DEV_STRIP", "true")
            .env("CARGO_INCREMENTAL", "0");
        command
    }

    /// Compiles a package that has a lock file of its own.
    pub fn build(&self, package: &Path, profile: Profile) -> Result<(), String> {
        let mut build = self.cargo("build");
        build.arg("--manifest-path").arg(package.join("Cargo.toml"));
        run(build.args((profile == Profile::Release).then_some("--release")))
    }
}
