//! `cargo xtask fuzz`: runs the fuzz targets.
//!
//! Coverage works with a stable compiler. Sanitizers would need a nightly one, but the fuzzed crates have no `unsafe`
//! code. Inputs that reach new code are collected in `fuzz/corpus`, which is not in Git. `fuzz/seeds` has the first
//! inputs. A failing input is written to `fuzz/regressions`, where the tests of the crate `fuzzing` run it from then
//! on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fs};

use crate::cache::{CachedBuilds, Profile, PublishedCrate};
use crate::tool::ensure_installed;

pub const CARGO_FUZZ: PublishedCrate =
    PublishedCrate { name: "cargo-fuzz", version: "0.13.2", profile: Profile::Dev };

/// How long each target runs by default, in seconds. Five targets take most of an hour.
const SECONDS: u64 = 600;

/// An input that takes longer than this, in seconds, or more memory than this, in MiB, is also a finding. Inputs
/// usually take milliseconds and almost no memory.
const SLOWEST: u64 = 20;
const LARGEST: u64 = 1024;

/// The number of lines of the fuzzer's output that are printed for a finding.
const LAST_LINES: usize = 40;

/// How long each target runs in `cargo xtask test`.
const BRIEFLY: u64 = 5;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let fuzz = directory();
    let known = targets(&fuzz)?;
    let (seconds, chosen) = parse(arguments, &known)?;
    fuzz_each(&fuzz, seconds, &chosen, &fuzz.join("corpus"), None)
}

/// Runs all targets for a few seconds. It does not use the corpus, because reading the corpus may take longer.
pub fn run_briefly() -> Result<(), String> {
    let fuzz = directory();
    let scratch = env::temp_dir().join(format!("conductor-fuzz-{}", process::id()));
    let kept = CachedBuilds::open()?;
    let done = fuzz_each(&fuzz, BRIEFLY, &targets(&fuzz)?, &scratch, Some(&kept));
    let _ = fs::remove_dir_all(&scratch);
    done
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("fuzz")
}

/// Runs each target. `collected`: the folder for inputs that reach new code. Without `kept`, the targets are built in
/// `fuzz/target`, because a long run must not lock the cached builds.
fn fuzz_each(
    fuzz: &Path,
    seconds: u64,
    chosen: &[String],
    collected: &Path,
    kept: Option<&CachedBuilds>,
) -> Result<(), String> {
    // libFuzzer is written in C++.
    ensure_installed("c++", &["--version"], "g++")?;
    let program = CARGO_FUZZ.installed()?;
    let fuzzer = |verb: &str| {
        let mut command = Command::new(&program);
        command.args([verb, "--sanitizer", "none"]).current_dir(fuzz);
        if let Some(kept) = kept {
            kept.apply(&mut command);
        }
        command
    };
    let mut build = fuzzer("build");
    if let [only] = chosen {
        build.arg(only);
    }
    if !build.status().map_err(|error| error.to_string())?.success() {
        return Err("the fuzz targets cannot be built".into());
    }
    for target in chosen {
        let place = |path: &Path| -> Result<PathBuf, String> {
            let path = path.join(target);
            fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(path)
        };
        let (corpus, seeds) = (place(collected)?, place(&fuzz.join("seeds"))?);
        let kept = place(&fuzz.join("regressions"))?;
        let before = files(&kept)?;
        // The output is long, and is only needed for a finding.
        let ran = fuzzer("run")
            .arg(target)
            .args([&corpus, &seeds, &kept])
            .arg("--")
            .arg(format!("-artifact_prefix={}/", kept.display()))
            .arg(format!("-dict={}", fuzz.join("protocol.dict").display()))
            .arg(format!("-max_total_time={seconds}"))
            .args([format!("-timeout={SLOWEST}"), format!("-report_slow_units={SLOWEST}")])
            .arg(format!("-rss_limit_mb={LARGEST}"))
            .arg("-print_final_stats=1")
            // For a backtrace, replay the input in a debugger.
            .env("RUST_BACKTRACE", "0")
            .output()
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&ran.stderr);
        if !ran.status.success() {
            let new: Vec<PathBuf> = files(&kept)?.difference(&before).cloned().collect();
            return Err(finding(target, &said, &new));
        }
        // Removes the directory if it is empty.
        let _ = fs::remove_dir(&kept);
        let runs =
            said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        println!("{target}: {} runs in {seconds} s", runs.unwrap_or("?").trim());
    }
    Ok(())
}

/// The report of a failing input.
fn finding(target: &str, said: &str, new: &[PathBuf]) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    let kept = match new {
        [] => "the input is in fuzz/seeds or fuzz/regressions already".into(),
        new => {
            let paths: Vec<String> = new.iter().map(|it| it.display().to_string()).collect();
            format!("the input is saved in {}; commit it with the fix", paths.join(" and "))
        }
    };
    format!(
        "{last}\n\n{target} found something; {kept}\nto replay it without a fuzzer: \
         cargo test --package fuzzing"
    )
}

/// The names of the targets: each is a file.
fn targets(fuzz: &Path) -> Result<Vec<String>, String> {
    let files = files(&fuzz.join("fuzz_targets"))?;
    let stems = files.iter().filter_map(|path| path.file_stem());
    Ok(stems.map(|stem| stem.to_string_lossy().into_owned()).collect())
}

fn files(directory: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let entries =
        fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn parse(arguments: &[String], known: &[String]) -> Result<(u64, Vec<String>), String> {
    let mut seconds = SECONDS;
    let mut chosen = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            let number = words.next().and_then(|it| it.parse().ok());
            seconds = number.ok_or("--seconds needs a number")?;
        } else if known.contains(word) {
            chosen.push(word.clone());
        } else {
            return Err(format!(
                "usage: cargo xtask fuzz [--seconds N] [TARGET…]; the targets are {}",
                known.join(", ")
            ));
        }
    }
    Ok((seconds, if chosen.is_empty() { known.to_vec() } else { chosen }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed() {
        let words = |words: &[&str]| words.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let known = words(&["line", "other"]);
        let parse = |given: &[&str]| parse(&words(given), &known);
        assert_eq!(parse(&[]), Ok((SECONDS, known.clone())));
        assert_eq!(parse(&["--seconds", "3", "line"]), Ok((3, words(&["line"]))));
        assert_eq!(parse(&["other", "line"]), Ok((SECONDS, words(&["other", "line"]))));
        assert!(parse(&["--seconds"]).is_err() && parse(&["nothing"]).is_err());
    }

    #[test]
    fn a_finding_names_its_file_and_how_to_replay_it() {
        let told = finding("line", "one\ntwo", &["/k/crash-1".into()]);
        assert!(told.starts_with("one\ntwo\n") && told.contains("saved in /k/crash-1;"), "{told}");
        assert!(told.ends_with("cargo test --package fuzzing"), "{told}");
    }
}
