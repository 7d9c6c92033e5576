//! `cargo xtask dist`: the files of a release. An archive for each platform, with the program, completions, manual
//! pages, licences and an SBOM; checksums; release notes.
//!
//! The files depend only on the commit and the version of Rust: see `archive`.

mod archive;
mod build;
mod changelog;
pub mod check;
mod dependencies;
mod notices;
mod sbom;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::cache::Profile;
use crate::tool::{at, enter_root, output_of, read};
use crate::{options, platforms};
use archive::Archive;
use build::Builder;

pub const USAGE: &str = "\
dist [--target TARGET]… [--out FOLDER] [--allow-dirty]
                   build the files of a release in target/dist: an archive for each platform, SBOMs,
                   checksums, the install script and the release notes";

/// The platforms of a release. The programs are static, so they run on every Linux distribution.
pub const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

const INSTALL_SCRIPT: &str = "install.sh";
const NOTES: &str = "RELEASE-NOTES.md";
const SUMS: &str = "SHA256SUMS";

/// What a release is made of.
#[derive(Debug, Clone)]
struct Release {
    version: String,
    commit: String,
    /// The time of the commit, in seconds since 1970: the age of all files.
    seconds: String,
    /// The same time as text: `2026-01-31T12:00:00Z`.
    timestamp: String,
}

impl Release {
    /// The current commit, with the version of the workspace.
    fn read() -> Result<Release, String> {
        let git = |arguments: &[&str]| {
            let output = output_of(Command::new("git").args(arguments).env("TZ", "UTC"));
            output.map(|it| it.trim().to_owned())
        };
        Ok(Release {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: git(&["rev-parse", "HEAD"])?,
            seconds: git(&["log", "-1", "--format=%ct"])?,
            timestamp: git(&[
                "log",
                "-1",
                "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
                "--format=%cd",
            ])?,
        })
    }

    /// The name of the archive for a platform, without its extension.
    fn archive_name(&self, target: &str) -> String {
        format!("conductor-{}-{target}", self.version)
    }
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = options::parse(arguments, USAGE, &["--allow-dirty"], &["--target", "--out"])?;
    options.no_words()?;
    let chosen: Vec<&str> = options.values("--target").collect();
    if let Some(unknown) = chosen.iter().find(|it| !TARGETS.contains(it)) {
        return Err(format!("no platform {unknown}: there are {}", TARGETS.join(" and ")));
    }
    let targets = if chosen.is_empty() { TARGETS.to_vec() } else { chosen };
    let out =
        options.value("--out").unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/dist"));
    let out = env::current_dir().map_err(|it| it.to_string())?.join(out);
    enter_root()?;
    let release = Release::read()?;
    let notes = changelog::entry(&read("CHANGELOG.md")?, &release.version)?;
    let changed = output_of(Command::new("git").args(["status", "--porcelain"]))?;
    if !changed.is_empty() && !options.has("--allow-dirty") {
        return Err(format!(
            "the working tree has changes that are in no commit, so the release would not be \
             reproducible. Commit them, or use --allow-dirty for a trial:\n{changed}"
        ));
    }
    platforms::install_targets(&TARGETS)?;
    let builder = Builder { profile: Profile::Release, cache: None, release: &release };
    write_release(&release, &builder, &targets, &notes, &out)?;
    println!("{}", out.display());
    Ok(())
}

/// Builds the programs and writes all files of a release. Files of earlier runs are removed.
fn write_release(
    release: &Release,
    builder: &Builder,
    targets: &[&str],
    notes: &str,
    out: &Path,
) -> Result<(), String> {
    let host = host_target()?;
    let own_program = builder.program(host)?;
    let programs: Vec<PathBuf> =
        targets.iter().map(|target| builder.program(target)).collect::<Result<_, _>>()?;
    remove_earlier_files(out)?;
    fs::create_dir_all(out).map_err(at(out))?;
    let mut names = vec![INSTALL_SCRIPT.to_owned()];
    fs::copy(INSTALL_SCRIPT, out.join(INSTALL_SCRIPT)).map_err(at(Path::new(INSTALL_SCRIPT)))?;
    for (target, program) in targets.iter().zip(&programs) {
        let archive = Archive { release, target, program, own_program: &own_program };
        names.extend(archive.write(out)?);
    }
    fs::write(out.join(NOTES), notes).map_err(at(&out.join(NOTES)))?;
    names.sort();
    let sums = archive::checksums(out, &names)?;
    fs::write(out.join(SUMS), sums).map_err(at(&out.join(SUMS)))
}

/// Removes the files that an earlier run has left, and nothing else.
fn remove_earlier_files(out: &Path) -> Result<(), String> {
    let Ok(entries) = fs::read_dir(out) else { return Ok(()) };
    for path in entries.flatten().map(|entry| entry.path()) {
        if !path.file_name().is_some_and(|it| is_of_release(&it.to_string_lossy())) {
            continue;
        }
        // An interrupted run leaves the folder that it wanted to pack.
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(at(&path))?;
    }
    Ok(())
}

/// Whether `cargo xtask dist` writes a file of this name.
fn is_of_release(name: &str) -> bool {
    let is_of = |target| name.starts_with("conductor-") && name.contains(&format!("-{target}"));
    [INSTALL_SCRIPT, NOTES, SUMS].contains(&name) || TARGETS.into_iter().any(is_of)
}

/// The platform whose program runs here. It writes the completions and manual pages.
fn host_target() -> Result<&'static str, String> {
    let machine = env::consts::ARCH;
    let target =
        TARGETS.into_iter().find(|it| it.starts_with(machine) && cfg!(target_os = "linux"));
    target.ok_or_else(|| format!("releases are made on Linux with one of {}", TARGETS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_platforms_are_built() {
        let run =
            |words: &[&str]| run(&words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert!(run(&["--target", "sparc"]).is_err_and(|it| it.contains("sparc")));
        assert!(run(&["--out"]).is_err() && run(&["--fast"]).is_err() && run(&["x"]).is_err());
    }

    #[test]
    fn a_second_run_removes_the_files_of_the_first_one_and_no_others() {
        let out = env::temp_dir().join(format!("conductor-dist-test-{}", std::process::id()));
        let unfinished = out.join(format!("conductor-0.0.9-{}", TARGETS[0]));
        fs::create_dir_all(unfinished.join("man")).expect("a folder");
        for name in [SUMS, "conductor-notes.txt", "notes.md"] {
            fs::write(out.join(name), "").expect("a file");
        }
        fs::write(out.join(format!("conductor-0.0.9-{}.tar.gz", TARGETS[1])), "").expect("a file");
        remove_earlier_files(&out).expect("they are removed");
        let entries = fs::read_dir(&out).expect("the folder");
        let mut left: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["conductor-notes.txt", "notes.md"]);
        fs::remove_dir_all(&out).expect("the folder is removed");
    }

    #[test]
    fn the_install_script_downloads_from_the_repository_of_the_manifest() {
        let repository = env!("CARGO_PKG_REPOSITORY");
        let script = include_str!("../../install.sh");
        assert!(script.contains(&format!("\nRELEASES='{repository}/releases'\n")));
        assert!(script.contains(&format!("\nSOURCE='{repository}'\n")));
        for target in TARGETS {
            assert!(script.contains(&format!("target={target} ;;")), "{target}");
        }
        let rust = concat!("Rust ", env!("CARGO_PKG_RUST_VERSION"), " or later");
        assert!(script.contains(rust) && include_str!("../../docs/install.md").contains(rust));
    }
}
