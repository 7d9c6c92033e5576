//! Builds the static programs of a release.

use std::path::PathBuf;
use std::process::Command;

use super::Release;
use crate::cache::{CachedBuilds, Profile};
use crate::tool::{built_program, cargo, cargo_home, root};

/// Where the paths of this machine would be in a program, it has these instead.
const SOURCES: &str = "/conductor";
const DEPENDENCIES: &str = "/cargo";

/// How the programs are compiled.
#[derive(Debug)]
pub struct Builder<'a> {
    pub profile: Profile,
    /// The target folder: `target`, or the cache.
    pub cache: Option<&'a CachedBuilds>,
    /// The release, whose commit `conductor --version --verbose` prints.
    pub release: &'a Release,
}

impl Builder<'_> {
    /// Builds the program for a platform. No C compiler is needed: Rust brings its own linker, and the C library of the
    /// platform.
    pub fn program(&self, target: &str) -> Result<PathBuf, String> {
        let mut build = Command::new(cargo());
        build.args(["build", "--locked", "--package", "acp-conductor", "--bin", "conductor"]);
        build.args(["--target", target]);
        if self.profile == Profile::Release {
            build.arg("--release");
        }
        self.configure(&mut build)?;
        built_program(&mut build)
    }

    /// Makes a Cargo command compile as for a release.
    pub fn configure(&self, build: &mut Command) -> Result<(), String> {
        build
            .env("CARGO_PROFILE_DEV_STRIP", "symbols")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_ENCODED_RUSTFLAGS", flags(self.profile)?.join("\u{1f}"));
        let date = self.release.timestamp.split('T').next().unwrap_or_default();
        build.env("CONDUCTOR_COMMIT", &self.release.commit).env("CONDUCTOR_COMMIT_DATE", date);
        if let Some(cache) = self.cache {
            cache.apply(build);
        }
        Ok(())
    }
}

/// The options of the compiler. Paths of this machine do not get into the program, so that every machine builds the
/// same one.
///
/// Cargo compiles all dependencies again if an option changes. So the builds for tests, which are in a cache for all
/// checkouts, have no option with the path of this checkout. Their programs do not have that path anyway: `archive`
/// checks it.
fn flags(profile: Profile) -> Result<Vec<String>, String> {
    let mut flags = vec![
        "-Clinker=rust-lld".to_owned(),
        "-Clink-self-contained=yes".to_owned(),
        format!("--remap-path-prefix={}={DEPENDENCIES}", cargo_home()?.display()),
    ];
    if profile == Profile::Release {
        flags.push(format!("--remap-path-prefix={}={SOURCES}", root().display()));
    }
    Ok(flags)
}
