//! `cargo xtask mutants`: tests the tests of the core.
//!
//! `cargo-mutants` changes one expression of the program at a time (a *mutant*) and runs the tests. A
//! mutant that no test notices (a *missed* one) shows what the tests do not check. There are thousands
//! of mutants, so a random sample is tested. The same seed chooses the same sample of the same code.
//!
//! A sample is tested in two passes. In the first pass, each mutant is tested with its own package's
//! tests, and the simulations are short. Most mutants are caught there, in seconds. The second pass tests
//! the missed mutants with the tests of the whole core, and the simulations have their usual length.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use crate::cache::{Profile, PublishedCrate};
use crate::tool::{at, cargo, output_of, run as run_tool};

pub const CARGO_MUTANTS: PublishedCrate =
    PublishedCrate { name: "cargo-mutants", version: "27.1.0", profile: Profile::Dev };

pub const USAGE: &str = "[--sample N] [--seed N] [--jobs 1|2] [PATH…]

  --sample N       how many mutants are tested, chosen at random (300)
  --seed N         another choice (1)
  --jobs 1|2       how many mutants are tested at the same time (2)
  PATH             only mutants of files whose path begins like this: crates/router";

/// The packages of the core.
const CORE: [&str; 4] =
    ["acp-wire", "acp-conductor-router", "acp-conductor-mcp", "acp-conductor-engine"];

/// The mutated code. The rest of `acp-wire` reads and writes JSON, which the fuzz targets test.
const MUTATED: [&str; 6] = [
    "crates/acp-wire/src/dialect",
    "crates/acp-wire/src/acp.rs",
    "crates/acp-wire/src/guards.rs",
    "crates/router/src/",
    "crates/mcp/src/",
    "crates/engine/src/",
];

/// Mutants with these texts in their names are excluded: text for people, and counts for tests.
const EXCLUDED: [&str; 4] =
    ["Debug for ", "Display for ", "::sizes", "crates/engine/src/journal/show.rs:"];

/// The share of the viable mutants that the tests must catch, in percent.
const REQUIRED_PERCENT: f64 = 95.0;

/// The environment variables that shorten the simulations in the first pass.
const SHORT_SIMULATIONS: [(&str, &str); 3] =
    [("SIM_SCHEDULES", "600"), ("SEEDS", "120"), ("EVERY", "60")];

/// Tests with these texts in their names are not run. They inject faults to test the simulations, so they do not check
/// the core, and they are slow.
const SKIPPED: [&str; 1] = ["every_injected_fault"];

/// The same for the first pass: also slow tests that the variables do not shorten.
const SKIPPED_IN_FIRST_PASS: [&str; 2] = ["every_injected_fault", "every_pair_of_lines"];

/// The timeout of a mutant's tests, as a multiple of the time without a mutant.
const TIMEOUT_FACTOR: f64 = 3.0;

/// The minimum timeout in seconds. A timeout counts as caught, so a busy machine must not cause one.
const MIN_TIMEOUT: u64 = 120;

/// The memory limit of the tests, in bytes. A mutant may allocate without end.
const MEMORY_LIMIT: u64 = 6 << 30;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let place = root.join("target").join("mutants");
    fs::create_dir_all(&place).map_err(at(&place))?;
    let program = CARGO_MUTANTS.installed()?;
    limit_memory()?;
    let began = Instant::now();

    let tree = snapshot(root, &place)?;
    let all = list(&program, &tree)?;
    let wanted: Vec<String> = all.iter().filter(|it| options.wants(it)).cloned().collect();
    let count = wanted.len();
    let sample = choose(wanted, options.sample, options.seed);
    println!("{} of {count} mutants, seed {}", sample.len(), options.seed);
    let run = MutationRun { program, tree, place, all, jobs: options.jobs };
    let mut results = run.test("own", &sample, Tests::Own)?;
    if !results.missed.is_empty() {
        println!(
            "{} mutants were missed in the first pass: testing them with all tests of the core",
            results.missed.len()
        );
        let missed: Vec<String> = std::mem::take(&mut results.missed).into_iter().collect();
        let second = run.test("core", &missed, Tests::Core)?;
        results.add(second);
    }
    println!("{}", results.report());
    println!("{} s; the logs are in {}", began.elapsed().as_secs(), run.place.display());
    match results.percent() {
        share if share < REQUIRED_PERCENT => {
            Err(format!("fewer than {REQUIRED_PERCENT} % of the mutants were caught"))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    sample: usize,
    seed: u64,
    jobs: u32,
    paths: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options, String> {
        let usage = || format!("usage: cargo xtask mutants {USAGE}");
        let mut options = Options { sample: 300, seed: 1, jobs: 2, paths: Vec::new() };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut number =
                || words.next().and_then(|it| it.parse::<u64>().ok()).ok_or_else(usage);
            match word.as_str() {
                "--sample" => options.sample = number()? as usize,
                "--seed" => options.seed = number()?,
                "--jobs" => options.jobs = number()?.clamp(1, 2) as u32,
                path if !path.starts_with('-') => options.paths.push(path.to_owned()),
                _ => return Err(usage()),
            }
        }
        Ok(options)
    }

    /// Whether a mutant is in mutated code, and in one of the files that the user has named.
    fn wants(&self, name: &str) -> bool {
        let decides = MUTATED.iter().any(|path| name.starts_with(path))
            && !EXCLUDED.iter().any(|part| name.contains(part));
        let named = self.paths.iter().any(|path| name.starts_with(path.as_str()));
        decides && (named || self.paths.is_empty())
    }
}

/// Limits the memory of all processes that are started from now on. A test that reaches the limit aborts, and so fails.
fn limit_memory() -> Result<(), String> {
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: Some(MEMORY_LIMIT), maximum })
        .map_err(|error| format!("the limit of memory: {error}"))
}

/// Copies the project, so that work on it can continue during the run.
fn snapshot(root: &Path, place: &Path) -> Result<PathBuf, String> {
    let tree = place.join("tree");
    let _ = fs::remove_dir_all(&tree);
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let files = output_of(command.current_dir(root))?;
    for file in files.split_terminator('\0') {
        let (from, to) = (root.join(file), tree.join(file));
        // A file that was deleted but not committed is still in Git's list.
        if from.is_file() {
            let folder = to.parent().ok_or("a file without a folder")?;
            fs::create_dir_all(folder).map_err(at(folder))?;
            fs::copy(&from, &to).map_err(at(&from))?;
        }
    }
    Ok(tree)
}

/// The names of all mutants in the packages of the core.
fn list(program: &Path, tree: &Path) -> Result<Vec<String>, String> {
    let mut command = Command::new(program);
    command.args(["mutants", "--no-config", "--list", "--json"]).current_dir(tree);
    for package in CORE {
        command.args(["--package", package]);
    }
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the mutants cannot be listed: {said}"));
    }
    let listed: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let mutants = listed.as_array().ok_or("the list of mutants is no list")?;
    let names = mutants.iter().filter_map(|it| it["name"].as_str());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// Chooses at random (a partial Fisher–Yates shuffle), and keeps the order of the list.
fn choose(mut names: Vec<String>, count: usize, seed: u64) -> Vec<String> {
    let mut state = seed;
    // SplitMix64
    let mut random = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    };
    let count = count.min(names.len());
    for index in 0..count {
        let rest = (names.len() - index) as u64;
        names.swap(index, index + (random() % rest) as usize);
    }
    names.truncate(count);
    names.sort();
    names
}

/// The tests that are run for a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tests {
    /// Those of its package, with short simulations.
    Own,
    /// Those of all packages of the core.
    Core,
}

/// A run of mutation tests.
#[derive(Debug)]
struct MutationRun {
    program: PathBuf,
    tree: PathBuf,
    place: PathBuf,
    all: Vec<String>,
    jobs: u32,
}

impl MutationRun {
    fn test(&self, pass: &str, mutants: &[String], tests: Tests) -> Result<Results, String> {
        let config = self.place.join(format!("{pass}.toml"));
        fs::write(&config, configuration(tests)).map_err(at(&config))?;
        let output = self.place.join(pass);
        self.exclude_others(&output, mutants)?;
        let mut command = Command::new(&self.program);
        command.args(["mutants", "--iterate", "--colors", "never", "--config"]).arg(&config);
        command.arg("--output").arg(&output).args(["--jobs", &self.jobs.to_string()]);
        for package in CORE {
            command.args(["--package", package]);
        }
        // Each mutant is built in a copy of the project with its own target folder.
        command.current_dir(&self.tree).env_remove("CARGO_TARGET_DIR");
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("RUST_BACKTRACE", "0");
        match tests {
            Tests::Own => {
                command.envs(SHORT_SIMULATIONS);
            }
            Tests::Core => {
                let timeout = self.core_timeout()?.to_string();
                command.args(["--baseline", "skip", "--timeout", &timeout]);
            }
        }
        let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status();
        let status = status.map_err(|error| format!("{}: {error}", self.program.display()))?;
        // 2: some mutants were missed. 3: some tests timed out.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            let log = output.join("mutants.out/log/baseline.log");
            return Err(format!("the mutants were not tested ({status}); see {}", log.display()));
        }
        let path = output.join("mutants.out/outcomes.json");
        let text = fs::read(&path).map_err(at(&path))?;
        let outcomes = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let results = Results::read(&outcomes);
        match results.count() == mutants.len() {
            true => Ok(results),
            false => Err(format!("{} mutants were tested, not {}", results.count(), mutants.len())),
        }
    }

    /// Runs the tests of the core without a mutant. Returns the timeout for the tests of a mutant, in seconds.
    /// `cargo-mutants` does this, too, but only for the packages that have mutants. If a test of another
    /// package failed or took long, then every mutant would count as caught.
    fn core_timeout(&self) -> Result<u64, String> {
        let test = |more: &[&str]| {
            let mut command = Command::new(cargo());
            command.args(["test", "--tests"]).current_dir(&self.tree);
            for package in CORE {
                command.args(["--package", package]);
            }
            command.env("CARGO_TARGET_DIR", self.place.join("target"));
            command.env("CARGO_PROFILE_DEV_DEBUG", "0");
            run_tool(command.args(more))
        };
        test(&["--no-run"])?;
        let began = Instant::now();
        let skip = SKIPPED.iter().flat_map(|name| ["--skip", name]);
        test(&["--"].into_iter().chain(skip).collect::<Vec<_>>())?;
        let seconds = began.elapsed().as_secs_f64() * TIMEOUT_FACTOR;
        Ok((seconds as u64).max(MIN_TIMEOUT))
    }

    /// Chooses the mutants. `cargo-mutants` can choose by a regular expression, but this does not work for
    /// all kinds of mutants. With `--iterate` it leaves out the mutants that are listed as caught before.
    fn exclude_others(&self, output: &Path, mutants: &[String]) -> Result<(), String> {
        let folder = output.join("mutants.out");
        let _ = fs::remove_dir_all(output);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let others = self.all.iter().filter(|name| !mutants.contains(name));
        let lines: String = others.map(|name| format!("{name}\n")).collect();
        let path = folder.join("previously_caught.txt");
        fs::write(&path, lines).map_err(at(&path))
    }
}

/// The configuration file of `cargo-mutants`. A list of strings is the same in JSON and in TOML.
fn configuration(tests: Tests) -> String {
    let (packages, skipped): (Vec<&str>, &[&str]) = match tests {
        Tests::Own => (Vec::new(), &SKIPPED_IN_FIRST_PASS),
        Tests::Core => (CORE.into(), &SKIPPED),
    };
    let skip = skipped.iter().flat_map(|name| ["--skip", name]);
    let arguments: Vec<&str> = ["--tests", "--"].into_iter().chain(skip).collect();
    format!(
        "test_package = {}\nadditional_cargo_test_args = {}\n\
         timeout_multiplier = {TIMEOUT_FACTOR:.1}\nminimum_test_timeout = {MIN_TIMEOUT}.0\n",
        Value::from(packages),
        Value::from(arguments)
    )
}

/// The results of the mutants, by name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Results {
    caught: BTreeSet<String>,
    missed: BTreeSet<String>,
    /// The tests timed out.
    endless: BTreeSet<String>,
    /// They do not compile.
    unviable: BTreeSet<String>,
}

impl Results {
    /// Reads the file `outcomes.json` of `cargo-mutants`.
    fn read(outcomes: &Value) -> Results {
        let mut results = Results::default();
        for outcome in outcomes["outcomes"].as_array().into_iter().flatten() {
            let Some(name) = outcome["scenario"]["Mutant"]["name"].as_str() else { continue };
            let set = match outcome["summary"].as_str() {
                Some("CaughtMutant") => &mut results.caught,
                Some("MissedMutant") => &mut results.missed,
                Some("Timeout") => &mut results.endless,
                _ => &mut results.unviable,
            };
            set.insert(name.to_owned());
        }
        results
    }

    fn add(&mut self, more: Results) {
        self.caught.extend(more.caught);
        self.missed.extend(more.missed);
        self.endless.extend(more.endless);
        self.unviable.extend(more.unviable);
    }

    fn count(&self) -> usize {
        self.caught.len() + self.missed.len() + self.endless.len() + self.unviable.len()
    }

    /// The share of the viable mutants that were caught. A timeout counts as caught.
    fn percent(&self) -> f64 {
        let noticed = (self.caught.len() + self.endless.len()) as f64;
        let viable = noticed + self.missed.len() as f64;
        if viable == 0.0 { 100.0 } else { 100.0 * noticed / viable }
    }

    fn report(&self) -> String {
        let mut text = String::new();
        for name in &self.missed {
            text.push_str(&format!("missed: {name}\n"));
        }
        text.push_str(&format!(
            "{} caught, {} missed, {} timeouts, {} unviable: {:.1} % of the viable ones are caught",
            self.caught.len(),
            self.missed.len(),
            self.endless.len(),
            self.unviable.len(),
            self.percent()
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&it| it.to_owned()).collect()
    }

    #[test]
    fn arguments_are_parsed() {
        let parse = |given: &[&str]| Options::parse(&words(given));
        let usual = Options { sample: 300, seed: 1, jobs: 2, paths: Vec::new() };
        assert_eq!(parse(&[]), Ok(usual));
        let given = ["--sample", "20", "--seed", "7", "--jobs", "9", "crates/router"];
        let wanted = Options { sample: 20, seed: 7, jobs: 2, paths: words(&["crates/router"]) };
        assert_eq!(parse(&given), Ok(wanted));
        assert!(parse(&["--sample"]).is_err() && parse(&["--all"]).is_err());
    }

    #[test]
    fn a_seed_always_chooses_the_same_mutants_and_none_twice() {
        let all: Vec<String> = (0..100).map(|number| format!("{number:02}")).collect();
        let chosen = choose(all.clone(), 30, 1);
        assert_eq!(chosen, choose(all.clone(), 30, 1));
        assert_ne!(chosen, choose(all.clone(), 30, 2));
        assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 30);
        assert_eq!(choose(all.clone(), 1000, 1), all);
    }

    #[test]
    fn only_files_of_the_core_are_changed() {
        let wants = |paths: &[&str], name: &str| {
            Options { sample: 1, seed: 1, jobs: 1, paths: words(paths) }.wants(name)
        };
        assert!(wants(&[], "crates/router/src/seat.rs:1:1: x"));
        assert!(!wants(&[], "crates/acp-wire/src/json.rs:1:1: x"));
        assert!(!wants(
            &[],
            "crates/router/src/skip.rs:1:1: replace <impl Display for MessageKind>::fmt"
        ));
        assert!(wants(&["crates/acp-wire"], "crates/acp-wire/src/dialect/p5.rs:1:1: x"));
        assert!(!wants(&["crates/acp-wire"], "crates/router/src/seat.rs:1:1: x"));
    }

    #[test]
    fn the_second_pass_runs_the_tests_of_the_whole_core() {
        let first = configuration(Tests::Own);
        assert!(first.contains("test_package = []\n") && first.contains("every_pair_of_lines"));
        let second = configuration(Tests::Core);
        assert!(
            second.contains(r#"test_package = ["acp-wire","acp-conductor-router","#),
            "{second}"
        );
        let arguments = r#"["--tests","--","--skip","every_injected_fault"]"#;
        assert!(second.contains(arguments), "{second}");
    }

    #[test]
    fn the_report_lists_the_missed_mutants() {
        let mutant = |name: &str, summary: &str| json!({"scenario": {"Mutant": {"name": name}}, "summary": summary});
        let mut results = Results::read(&json!({"outcomes": [
            {"scenario": "Baseline", "summary": "Success"},
            mutant("a.rs:1:1: a", "CaughtMutant"),
            mutant("b.rs:1:1: b", "Timeout"),
            mutant("c.rs:1:1: c", "Unviable"),
        ]}));
        results.add(Results::read(&json!({"outcomes": [mutant("d.rs:4:1: d", "MissedMutant")]})));
        assert_eq!(
            results.report(),
            "missed: d.rs:4:1: d\n\
             1 caught, 1 missed, 1 timeouts, 1 unviable: 66.7 % of the viable ones are caught"
        );
    }
}
