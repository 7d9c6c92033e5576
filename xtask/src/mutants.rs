//! `cargo xtask mutants`: tests the tests of the core.
//!
//! `cargo-mutants` changes one expression of the program at a time (a *mutant*) and runs the tests. A
//! mutant that no test notices (a *missed* one) shows what the tests do not check. There are thousands
//! of mutants, so a random sample is tested. The same seed chooses the same sample of the same code.
//! `.cargo/mutants.toml` lists the code that is changed.
//!
//! A sample is tested in two passes. In the first pass, each mutant is tested with its own package's
//! tests, and the simulations are short. Most mutants are caught there, in seconds. The second pass tests
//! the missed mutants with the tests of the whole core, and the simulations have their usual length.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::cache::{Profile, PublishedCrate};
use crate::options;
use crate::tool::{cargo, copy_project, list, output_of, read, root, run as run_tool, text, write};

pub const CARGO_MUTANTS: PublishedCrate =
    PublishedCrate { name: "cargo-mutants", version: "27.1.0", profile: Profile::Dev };

pub const USAGE: &str = "\
mutants [--sample N] [--seed N] [--jobs 1|2] [PATH…]
                   run mutation tests of the core: change random expressions, and check that tests fail
    --sample N       how many mutants are tested, chosen at random (300)
    --seed N         another choice (1)
    --jobs 1|2       how many mutants are tested at the same time (2)
    PATH             only mutants of files whose path begins like this: crates/router";

/// The options that name the packages of the core.
const CORE: [&str; 4] = [
    "--package=acp-wire",
    "--package=acp-conductor-router",
    "--package=acp-conductor-mcp",
    "--package=acp-conductor-engine",
];

/// The share of the viable mutants that the tests must catch, in percent.
const REQUIRED_PERCENT: f64 = 95.0;

/// The environment variables that shorten the simulations in the first pass.
const SHORT_SIMULATIONS: [(&str, &str); 3] =
    [("SIM_SCHEDULES", "600"), ("SEEDS", "120"), ("EVERY", "60")];

/// Tests with these texts in their names are not run. They inject faults to test the simulations, so they do not check
/// the core, and they are slow.
const SKIPPED: [&str; 2] = ["--skip", "every_injected_fault"];

/// The same for the first pass: also slow tests that the variables do not shorten.
const SKIPPED_IN_FIRST_PASS: [&str; 2] = ["--skip", "every_pair_of_lines"];

/// The timeout of a mutant's tests in the second pass: a multiple of the time without a mutant, and the minimum in
/// seconds. `.cargo/mutants.toml` has the same figures for the first pass.
const TIMEOUT_FACTOR: f64 = 3.0;
const MIN_TIMEOUT: u64 = 120;

/// Limits the memory of a command and of what it starts, to 6 GiB. A mutant may allocate without end. A test that
/// reaches the limit aborts, and so fails.
const LIMIT_MEMORY: &str = "ulimit -v 6291456 && exec \"$0\" \"$@\"";

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = options::parse(arguments, USAGE, &[], &["--sample", "--seed", "--jobs"])?;
    let (seed, jobs) = (options.number("--seed", 1)?, options.number("--jobs", 2)?.clamp(1, 2));
    let sample = options.number("--sample", 300)? as usize;
    let place = root().join("target/mutants");
    let began = Instant::now();
    // A copy of the project, so that work on it can continue during the run.
    let tree = place.join("tree");
    let _ = fs::remove_dir_all(&tree);
    copy_project(&tree)?;
    let mut run =
        MutationRun { program: CARGO_MUTANTS.installed()?, tree, place, all: Vec::new(), jobs };
    run.all = run.list()?;
    let named = |it: &&String| {
        options.words.is_empty() || options.words.iter().any(|path| it.starts_with(path))
    };
    let wanted: Vec<String> = run.all.iter().filter(named).cloned().collect();
    let count = wanted.len();
    let sample = choose(wanted, sample, seed);
    println!("{} of {count} mutants, seed {seed}", sample.len());
    let mut results = run.test("own", &sample, Tests::Own)?;
    let missed = std::mem::take(&mut results.missed);
    if !missed.is_empty() {
        let count = missed.len();
        println!("{count} mutants were missed: testing them with all tests of the core");
        results.add(run.test("core", &missed, Tests::Core)?);
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

/// Chooses at random. Mutants of the same file follow each other, which makes the builds faster.
fn choose(mut names: Vec<String>, count: usize, seed: u64) -> Vec<String> {
    names.sort_by_cached_key(|name| {
        let mut hasher = DefaultHasher::new();
        (seed, name).hash(&mut hasher);
        hasher.finish()
    });
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
    jobs: u64,
}

impl MutationRun {
    fn mutants(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", LIMIT_MEMORY]).arg(&self.program).arg("mutants").args(CORE);
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).current_dir(&self.tree);
        command
    }

    /// The names of all mutants.
    fn list(&self) -> Result<Vec<String>, String> {
        let listed: Value =
            serde_json::from_str(&output_of(self.mutants().args(["--list", "--json"]))?)
                .map_err(|error| format!("the list of mutants: {error}"))?;
        Ok(list(&listed).map(|it| text(&it["name"]).to_owned()).collect())
    }

    fn test(&self, pass: &str, mutants: &[String], tests: Tests) -> Result<Results, String> {
        let output = self.place.join(pass);
        let results = output.join("mutants.out");
        // `cargo-mutants` can choose by a regular expression, but this does not work for all kinds of mutants.
        // With `--iterate` it leaves out the mutants that are listed as caught before.
        let _ = fs::remove_dir_all(&output);
        let others = self.all.iter().filter(|name| !mutants.contains(name));
        let others: String = others.map(|name| format!("{name}\n")).collect();
        write(&results.join("previously_caught.txt"), others)?;
        let mut command = self.mutants();
        command.args(["--iterate", "--colors", "never", "--jobs", &self.jobs.to_string()]);
        command.arg("--output").arg(&output);
        // Each mutant is built in a copy of the project with its own target folder.
        command.env_remove("CARGO_TARGET_DIR");
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("RUST_BACKTRACE", "0");
        match tests {
            Tests::Own => {
                command.envs(SHORT_SIMULATIONS).args(["--", "--tests", "--"]).args(SKIPPED);
                command.args(SKIPPED_IN_FIRST_PASS);
            }
            Tests::Core => {
                let timeout = self.core_timeout()?.to_string();
                command.args(["--baseline", "skip", "--timeout", &timeout]);
                command.args(CORE.map(|it| it.replace("--package", "--test-package")));
                command.args(["--", "--tests", "--"]).args(SKIPPED);
            }
        }
        let status = command.stdout(std::io::stderr()).status();
        let status = status.map_err(|error| format!("{}: {error}", self.program.display()))?;
        // 2: some mutants were missed. 3: some tests timed out.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            let log = results.join("log/baseline.log");
            return Err(format!("the mutants were not tested ({status}); see {}", log.display()));
        }
        let results = Results::read(&results)?;
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
            command.args(["test", "--tests"]).args(CORE).args(more).current_dir(&self.tree);
            command.env("CARGO_TARGET_DIR", self.place.join("target"));
            run_tool(command.env("CARGO_PROFILE_DEV_DEBUG", "0"))
        };
        test(&["--no-run"])?;
        let began = Instant::now();
        test(&[&["--"][..], &SKIPPED].concat())?;
        let seconds = began.elapsed().as_secs_f64() * TIMEOUT_FACTOR;
        Ok((seconds as u64).max(MIN_TIMEOUT))
    }
}

/// The results of the mutants.
#[derive(Debug, Default, PartialEq, Eq)]
struct Results {
    caught: usize,
    missed: Vec<String>,
    timeouts: usize,
    /// They do not compile.
    unviable: usize,
}

impl Results {
    /// Reads the lists of `cargo-mutants`.
    fn read(folder: &Path) -> Result<Results, String> {
        let names = |list: &str| -> Result<Vec<String>, String> {
            Ok(read(folder.join(format!("{list}.txt")))?.lines().map(str::to_owned).collect())
        };
        let [caught, timeouts, unviable] = ["caught", "timeout", "unviable"].map(names);
        let (caught, timeouts) = (caught?.len(), timeouts?.len());
        Ok(Results { caught, missed: names("missed")?, timeouts, unviable: unviable?.len() })
    }

    fn add(&mut self, more: Results) {
        self.caught += more.caught;
        self.missed.extend(more.missed);
        self.timeouts += more.timeouts;
        self.unviable += more.unviable;
    }

    fn count(&self) -> usize {
        self.caught + self.missed.len() + self.timeouts + self.unviable
    }

    /// The share of the viable mutants that were caught. A timeout counts as caught.
    fn percent(&self) -> f64 {
        let noticed = (self.caught + self.timeouts) as f64;
        let viable = noticed + self.missed.len() as f64;
        if viable == 0.0 { 100.0 } else { 100.0 * noticed / viable }
    }

    fn report(&self) -> String {
        let missed: String = self.missed.iter().map(|name| format!("missed: {name}\n")).collect();
        format!(
            "{missed}{} caught, {} missed, {} timeouts, {} unviable: {:.1} % of the viable ones are caught",
            self.caught,
            self.missed.len(),
            self.timeouts,
            self.unviable,
            self.percent()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_chooses_the_same_mutants() {
        let all: Vec<String> = (0..100).map(|number| format!("{number:02}")).collect();
        let chosen = choose(all.clone(), 30, 1);
        assert_eq!((chosen.len(), &chosen), (30, &choose(all.clone(), 30, 1)));
        assert_ne!(chosen, choose(all.clone(), 30, 2));
        assert_eq!(choose(all.clone(), 1000, 1), all);
    }

    #[test]
    fn the_report_lists_the_missed_mutants() {
        let folder = std::env::temp_dir().join(format!("conductor-mutants-{}", std::process::id()));
        for (list, names) in [
            ("caught", "a.rs:1:1: a\n"),
            ("timeout", "b.rs:1:1: b\n"),
            ("unviable", ""),
            ("missed", ""),
        ] {
            write(&folder.join(format!("{list}.txt")), names).expect("a file");
        }
        let mut results = Results::read(&folder).expect("the lists");
        fs::remove_dir_all(&folder).expect("the folder is removed");
        let missed = vec!["d.rs:4:1: d".to_owned()];
        results.add(Results { missed, unviable: 1, ..Results::default() });
        assert_eq!(results.count(), 4);
        assert_eq!(
            results.report(),
            "missed: d.rs:4:1: d\n\
             1 caught, 1 missed, 1 timeouts, 1 unviable: 66.7 % of the viable ones are caught"
        );
    }
}
