//! The cache outside the repository. It has third-party programs for tests and benchmarks, and builds of this project
//! that take long in a fresh checkout.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

pub use crate::places::cache;
use crate::tool::{at, cargo, run};

/// A program that is published as a crate.
#[derive(Debug, Clone, Copy)]
pub struct PublishedCrate {
    pub name: &'static str,
    pub version: &'static str,
    pub profile: Profile,
}

/// How a program is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Fast to compile: for tests.
    Dev,
    /// Optimised: for benchmarks.
    Release,
}

impl PublishedCrate {
    fn root(&self) -> PathBuf {
        let suffix = if self.profile == Profile::Dev { "-dev" } else { "" };
        cache().join(format!("{}-{}{suffix}", self.name, self.version))
    }

    /// The path of its binary, which has the name of the crate. Installs it if it is missing.
    pub fn installed(&self) -> Result<PathBuf, String> {
        if self.binary().is_file() {
            return Ok(self.binary());
        }
        let builds = ThirdPartyBuilds::open()?;
        self.install(&builds)?;
        builds.close();
        Ok(self.binary())
    }

    /// Installs it if it is missing.
    pub fn install(&self, builds: &ThirdPartyBuilds) -> Result<(), String> {
        if self.binary().is_file() {
            return Ok(());
        }
        let PublishedCrate { name, version, profile } = self;
        let root = self.root();
        eprintln!("installing {name} {version} in {}", root.display());
        let mut command = builds.cargo("install");
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

/// The maximum size of the cached builds, in bytes: twice what one state of the project needs.
const MOST_KEPT: u64 = 8 << 30;

/// The cached target folder of builds for other platforms and of fuzz targets. A fresh checkout compiles only the
/// crates of this project there, because the dependencies are compiled already. One process at a time builds there,
/// others wait.
#[derive(Debug)]
pub struct CachedBuilds {
    target: PathBuf,
    _lock: File,
}

impl CachedBuilds {
    pub fn open() -> Result<CachedBuilds, String> {
        let lock = lock("builds.lock", "another build for other platforms")?;
        let target = cache().join("builds");
        // Each checkout leaves its crates there, and each update of a dependency leaves its old version.
        if size(&target) > MOST_KEPT {
            fs::remove_dir_all(&target).map_err(at(&target))?;
        }
        Ok(CachedBuilds { target, _lock: lock })
    }

    /// The path of the target folder.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Makes a Cargo command build in this folder.
    pub fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("CARGO_TARGET_DIR", &self.target).env("CARGO_INCREMENTAL", "0")
    }
}

/// The size of the files in a folder, in bytes.
pub fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok().map(|it| (entry, it)));
    sizes.map(|(entry, it)| if it.is_dir() { size(&entry.path()) } else { it.len() }).sum()
}

/// Locks a file in the cache. Prints a message if it must wait.
pub fn lock(name: &str, other: &str) -> Result<File, String> {
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

/// The target folder of all third-party programs, which share many dependencies. One process at a time builds there,
/// others wait.
#[derive(Debug)]
pub struct ThirdPartyBuilds {
    target: PathBuf,
    _lock: File,
}

impl ThirdPartyBuilds {
    pub fn open() -> Result<ThirdPartyBuilds, String> {
        let lock = lock("peers-target.lock", "another build of third-party programs")?;
        Ok(ThirdPartyBuilds { target: cache().join("peers-target"), _lock: lock })
    }

    /// Removes the build files after everything is built. They have gigabytes. After a failure they stay, so that the
    /// next attempt continues.
    pub fn close(self) {
        // An error is ignored: files that stay only take space.
        let _ = fs::remove_dir_all(&self.target);
    }

    /// The folder of the programs with this profile.
    pub fn programs(&self, profile: Profile) -> PathBuf {
        self.target.join(if profile == Profile::Dev { "debug" } else { "release" })
    }

    /// A Cargo command that builds with the lock file's dependencies. Programs for tests run only for seconds, so they
    /// are compiled fast, without optimisation.
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

    /// Compiles a package that has its own lock file.
    pub fn build(&self, package: &Path, profile: Profile) -> Result<(), String> {
        let mut build = self.cargo("build");
        build.arg("--manifest-path").arg(package.join("Cargo.toml"));
        run(build.args((profile == Profile::Release).then_some("--release")))
    }
}
