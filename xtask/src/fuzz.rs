//! `cargo xtask fuzz`: runs the fuzz targets for some time each.
//!
//! Coverage needs no nightly compiler; sanitizers would, and our crates have no `unsafe` for them to
//! look into. Inputs that reach something new are collected in `fuzz/corpus`, on this machine only;
//! `fuzz/seeds` is where everybody begins. An input that breaks something is written to
//! `fuzz/regressions`, where the tests of the crate `fuzzing` look at it ever after.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fs};

use crate::cache::{KeptBuilds, Profile, Published};
use crate::tool::need;

pub const CARGO_FUZZ: Published =
    Published { name: "cargo-fuzz", version: "0.13.2", profile: Profile::Dev };

/// Long enough to find what is not found by the way; five targets take most of an hour.
const SECONDS: u64 = 600;

/// One input that takes this long, in seconds, is a finding, too; so is one that takes this much
/// memory, in MiB. They take milliseconds, and next to nothing.
const SLOWEST: u64 = 20;
const LARGEST: u64 = 1024;

/// How much of what the fuzzer said is told when it has found something.
const LAST_LINES: usize = 40;

/// How long each target runs in `cargo xtask test`.
const BRIEFLY: u64 = 5;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let fuzz = directory();
    let known = targets(&fuzz)?;
    let (seconds, chosen) = parse(arguments, &known)?;
    fuzz_each(&fuzz, seconds, &chosen, &fuzz.join("corpus"), None)
}

/// All targets for a few seconds. What was collected on this machine is left alone: to read it may take
/// longer than that.
pub fn briefly() -> Result<(), String> {
    let fuzz = directory();
    let scratch = env::temp_dir().join(format!("conductor-fuzz-{}", process::id()));
    let kept = KeptBuilds::open()?;
    let done = fuzz_each(&fuzz, BRIEFLY, &targets(&fuzz)?, &scratch, Some(&kept));
    let _ = fs::remove_dir_all(&scratch);
    done
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("fuzz")
}

/// `collected` is where inputs are kept that reach something new. Without `kept` it builds in `fuzz/target`: to run for
/// an hour must not keep other checkouts from building.
fn fuzz_each(
    fuzz: &Path,
    seconds: u64,
    chosen: &[String],
    collected: &Path,
    kept: Option<&KeptBuilds>,
) -> Result<(), String> {
    // The fuzzer's engine is C++.
    need("c++", &["--version"], "g++")?;
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
        // It talks a lot, and nobody wants to know unless something was found.
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
            // Who wants one replays the input with a debugger at hand.
            .env("RUST_BACKTRACE", "0")
            .output()
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&ran.stderr);
        if !ran.status.success() {
            let new: Vec<PathBuf> = files(&kept)?.difference(&before).cloned().collect();
            return Err(finding(target, &said, &new));
        }
        // An empty directory would only be in the way.
        let _ = fs::remove_dir(&kept);
        let runs =
            said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        println!("{target}: {} runs in {seconds} s", runs.unwrap_or("?").trim());
    }
    Ok(())
}

/// What people are told of an input that breaks something.
fn finding(target: &str, said: &str, new: &[PathBuf]) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    let kept = match new {
        [] => "it is one of those that are kept already".into(),
        new => {
            let paths: Vec<String> = new.iter().map(|it| it.display().to_string()).collect();
            format!("it is kept in {}; commit it with the fix", paths.join(" and "))
        }
    };
    format!(
        "{last}\n\n{target} found something; {kept}\nto replay it without a fuzzer: \
         cargo test --package fuzzing"
    )
}

/// Every target is a file.
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
    fn arguments_are_understood() {
        let words = |words: &[&str]| words.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let known = words(&["line", "other"]);
        let parse = |given: &[&str]| parse(&words(given), &known);
        assert_eq!(parse(&[]), Ok((SECONDS, known.clone())));
        assert_eq!(parse(&["--seconds", "3", "line"]), Ok((3, words(&["line"]))));
        assert_eq!(parse(&["other", "line"]), Ok((SECONDS, words(&["other", "line"]))));
        assert!(parse(&["--seconds"]).is_err() && parse(&["nothing"]).is_err());
    }

    #[test]
    fn a_finding_says_where_it_is_kept_and_how_to_replay_it() {
        let told = finding("line", "one\ntwo", &["/k/crash-1".into()]);
        assert!(told.starts_with("one\ntwo\n") && told.contains("kept in /k/crash-1;"), "{told}");
        assert!(told.ends_with("cargo test --package fuzzing"), "{told}");
    }
}
