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

use crate::cache::CachedBuilds;
use crate::options;
use crate::tool::{at, cargo, ensure_installed, output_of, root, run as run_tool};

pub const USAGE: &str = "\
fuzz [--seconds N] [TARGET…]
                   run the fuzz targets, ten minutes each by default. Findings become tests";

/// The options of the compiler with which `cargo-fuzz` 0.13 compiles for libFuzzer without a sanitizer: the program counts
/// the branches that an input takes, and reports the numbers that it compares.
const FLAGS: [&str; 10] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "-Cdebug-assertions",
    "--cfg",
    "fuzzing",
];

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
    let options = options::parse(arguments, USAGE, &[], &["--seconds"])?;
    let known = targets()?;
    if let Some(unknown) = options.words.iter().find(|word| !known.iter().any(|it| it == *word)) {
        let known = known.join(", ");
        return Err(format!("{}; the targets are {known}", options.wrong(unknown)));
    }
    let chosen: Vec<String> = options.words.iter().map(|it| (*it).to_owned()).collect();
    let chosen = if chosen.is_empty() { known } else { chosen };
    let collected = fuzz().join("corpus");
    fuzz_each(options.number("--seconds", SECONDS)?, &chosen, &collected, None)
}

/// Runs all targets for a few seconds. It does not use the corpus, because reading the corpus may take longer.
pub fn run_briefly() -> Result<(), String> {
    let scratch = env::temp_dir().join(format!("conductor-fuzz-{}", process::id()));
    let kept = CachedBuilds::open()?;
    let done = fuzz_each(BRIEFLY, &targets()?, &scratch, Some(&kept));
    let _ = fs::remove_dir_all(&scratch);
    done
}

/// The folder of the fuzz targets.
fn fuzz() -> PathBuf {
    root().join("fuzz")
}

/// Runs each target. `collected`: the folder for inputs that reach new code. Without `kept`, the targets are built in
/// `fuzz/target`, because a long run must not lock the cached builds.
fn fuzz_each(
    seconds: u64,
    chosen: &[String],
    collected: &Path,
    kept: Option<&CachedBuilds>,
) -> Result<(), String> {
    let programs = build(chosen, kept)?;
    for target in chosen {
        let place = |path: &Path| -> Result<PathBuf, String> {
            let path = path.join(target);
            fs::create_dir_all(&path).map_err(at(&path)).map(|()| path)
        };
        let (corpus, seeds) = (place(collected)?, place(&fuzz().join("seeds"))?);
        let kept = place(&fuzz().join("regressions"))?;
        let before = files(&kept)?;
        // The output is long, and is only needed for a finding.
        let ran = Command::new(programs.join(target))
            .args([&corpus, &seeds, &kept])
            .arg(format!("-artifact_prefix={}/", kept.display()))
            .arg(format!("-dict={}", fuzz().join("protocol.dict").display()))
            .arg(format!("-max_total_time={seconds}"))
            .args([format!("-timeout={SLOWEST}"), format!("-report_slow_units={SLOWEST}")])
            .arg(format!("-rss_limit_mb={LARGEST}"))
            .arg("-print_final_stats=1")
            // For a backtrace, replay the input in a debugger.
            .env("RUST_BACKTRACE", "0")
            .output()
            .map_err(|error| format!("{target}: {error}"))?;
        let said = String::from_utf8_lossy(&ran.stderr);
        if !ran.status.success() {
            let new: Vec<PathBuf> = files(&kept)?.difference(&before).cloned().collect();
            return Err(finding(target, &said, &new));
        }
        // Removes the directory if it is empty.
        let _ = fs::remove_dir(&kept);
        let runs =
            said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let branches = covered(&said).ok_or_else(|| {
            format!("{target}: the fuzzer sees no branches, so it was not compiled for coverage")
        })?;
        let runs = runs.unwrap_or("?").trim();
        println!("{target}: {runs} runs in {seconds} s reach {branches} branches");
    }
    Ok(())
}

/// Builds the fuzz targets, or only the chosen one. Returns the folder of the programs.
fn build(chosen: &[String], kept: Option<&CachedBuilds>) -> Result<PathBuf, String> {
    // libFuzzer is written in C++.
    ensure_installed("c++", &["--version"], "g++")?;
    let version = output_of(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or_else(|| format!("rustc -vV names no host: {version}"))?;
    let mut build = Command::new(cargo());
    // With `--target`, the options do not apply to build scripts.
    build.args(["build", "--release", "--target", host]).current_dir(fuzz());
    build.args(["--config", "profile.release.debug=\"line-tables-only\""]);
    if let [only] = chosen {
        build.args(["--bin", only]);
    }
    let target = fuzz().join("target");
    let target = kept.map_or(&*target, |kept| kept.target());
    kept.map(|kept| kept.apply(&mut build));
    build.env("CARGO_TARGET_DIR", target).env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    run_tool(&mut build)?;
    Ok(target.join(host).join("release"))
}

/// The number of branches that the inputs reach: `#512 NEW cov: 61 ft: 75 …`. `None` if it is 0.
fn covered(said: &str) -> Option<u32> {
    let counts = said.lines().filter_map(|line| line.split_once(" cov: ")?.1.split(' ').next());
    counts.filter_map(|it| it.parse().ok()).next_back().filter(|it| *it > 0)
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
fn targets() -> Result<Vec<String>, String> {
    let files = files(&fuzz().join("fuzz_targets"))?;
    let stems = files.iter().filter_map(|path| path.file_stem());
    Ok(stems.map(|stem| stem.to_string_lossy().into_owned()).collect())
}

fn files(folder: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuzzer_without_coverage_is_noticed() {
        let said = "#2\tINITED cov: 61 ft: 75 corp: 1/1b\n#9\tNEW    cov: 64 ft: 80 corp: 2/4b\n";
        assert_eq!(covered(said), Some(64));
        assert_eq!(covered("#2\tINITED exec/s: 0 rss: 27Mb\n"), None);
    }

    #[test]
    fn a_finding_names_its_file_and_how_to_replay_it() {
        let told = finding("line", "one\ntwo", &["/k/crash-1".into()]);
        assert!(told.starts_with("one\ntwo\n") && told.contains("saved in /k/crash-1;"), "{told}");
        assert!(told.ends_with("cargo test --package fuzzing"), "{told}");
    }
}
