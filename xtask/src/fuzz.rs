//! `cargo xtask fuzz`: runs the fuzz targets for some time each.
//!
//! Coverage needs no nightly compiler; sanitizers would, and our crates have no `unsafe` for them to
//! look into. What was found once is kept in `fuzz/corpus`, on this machine only; `fuzz/seeds` is
//! where everybody begins.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{cache, peers};

const TARGETS: [&str; 2] = ["line", "router_ops"];
const VERSION: &str = "0.13.2";

pub fn run(arguments: &[String]) -> Result<(), String> {
    let (seconds, targets) = parse(arguments)?;
    // The fuzzer's engine is C++.
    peers::need("c++", &["--version"], "g++")?;
    let program = cache::install("cargo-fuzz", VERSION, "cargo-fuzz")?;
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("fuzz");
    for target in targets {
        let corpus = fuzz.join("corpus").join(target);
        fs::create_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
        let fuzzer = |verb: &str| {
            let mut command = Command::new(&program);
            command.args([verb, "--sanitizer", "none", target]).current_dir(&fuzz);
            command
        };
        let built = fuzzer("build").status().map_err(|error| error.to_string())?;
        if !built.success() {
            return Err(format!("{target} cannot be built"));
        }
        // It talks a lot, and nobody wants to know unless something was found.
        let ran = fuzzer("run")
            .args([&corpus, &fuzz.join("seeds").join(target)])
            .args(["--", "-print_final_stats=1", &format!("-max_total_time={seconds}")])
            .output()
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&ran.stderr);
        if !ran.status.success() {
            return Err(format!(
                "{said}\n{target} found something; how to replay it is told above"
            ));
        }
        let runs =
            said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        println!("{target}: {} runs in {seconds} s", runs.unwrap_or("?").trim());
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<(u64, Vec<&'static str>), String> {
    let mut seconds = 10;
    let mut targets = TARGETS.to_vec();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            let number = words.next().and_then(|it| it.parse().ok());
            seconds = number.ok_or("--seconds needs a number")?;
        } else if let Some(target) = TARGETS.into_iter().find(|it| it == word) {
            targets = vec![target];
        } else {
            return Err(format!(
                "usage: cargo xtask fuzz [--seconds N] [TARGET]; the targets are {}",
                TARGETS.join(", ")
            ));
        }
    }
    Ok((seconds, targets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood() {
        let parse = |words: &[&str]| parse(&words.iter().map(|&it| it.into()).collect::<Vec<_>>());
        assert_eq!(parse(&[]), Ok((10, TARGETS.to_vec())));
        assert_eq!(parse(&["--seconds", "3", "line"]), Ok((3, vec!["line"])));
        assert!(parse(&["--seconds"]).is_err() && parse(&["nothing"]).is_err());
    }
}
