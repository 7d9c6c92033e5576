//! Tests that failed and passed when they ran again alone.
//!
//! Such a test does not fail the run, but it is remembered. If it needs a second chance again within [`RUNS`] runs of all
//! tests on this machine, it fails. A test that the change touches has no second chance.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::{env, process};

use crate::cache::cache;
use crate::tool::at;

/// A test that was flaky in one of so many runs must not be flaky again.
const RUNS: u64 = 20;

/// Broken code fails many tests. So many at most are run again.
pub const MOST: usize = 5;

/// The number of this run of all tests. It is not set if a person runs one step: who looks at the failure needs no
/// second chance.
pub const RUN: &str = "CONDUCTOR_TEST_RUN";

/// The flaky tests of this machine.
#[derive(Debug)]
pub struct FlakyTests {
    path: PathBuf,
    run: u64,
}

impl FlakyTests {
    /// `None` outside of a run of all tests.
    pub fn of_this_run() -> Option<FlakyTests> {
        env::var(RUN).ok()?.parse().ok().map(FlakyTests::of_run)
    }

    pub fn of_run(run: u64) -> FlakyTests {
        FlakyTests { path: cache().join("flaky-tests"), run }
    }

    #[cfg(test)]
    pub fn of_test(path: &std::path::Path, run: u64) -> FlakyTests {
        FlakyTests { path: path.to_owned(), run }
    }

    /// Records that a test has passed in its second run. It is an error if that has happened before.
    pub fn add(&self, test: &str) -> Result<(), String> {
        let before = self.read().into_iter().filter(|(_, name)| name == test);
        let last = before.map(|(run, _)| run).max();
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path);
        let file = file.as_mut().map_err(|error| format!("{}: {error}", self.path.display()))?;
        writeln!(file, "{} {test}", self.run).map_err(at(&self.path))?;
        println!("FLAKY: {test} failed, and passed when it ran again alone");
        match last.filter(|last| self.run.saturating_sub(*last) <= RUNS) {
            Some(last) => Err(format!(
                "{test} is flaky again, after {} runs of all tests. Find the cause.",
                self.run.saturating_sub(last)
            )),
            None => Ok(()),
        }
    }

    /// The tests that were flaky in this run.
    pub fn in_this_run(&self) -> Vec<String> {
        self.read().into_iter().filter(|(run, _)| *run == self.run).map(|(_, name)| name).collect()
    }

    fn read(&self) -> Vec<(u64, String)> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let entry = |line: &str| {
            let (run, name) = line.split_once(' ')?;
            Some((run.parse().ok()?, name.to_owned()))
        };
        text.lines().filter_map(entry).collect()
    }
}

/// Counts the runs of all tests on this machine.
pub fn next_run() -> Result<u64, String> {
    let path = cache().join("test-runs");
    let last: u64 =
        fs::read_to_string(&path).ok().and_then(|it| it.trim().parse().ok()).unwrap_or(0);
    let fresh = path.with_extension(process::id().to_string());
    fs::write(&fresh, format!("{}\n", last + 1)).map_err(at(&fresh))?;
    fs::rename(&fresh, &path).map_err(at(&path))?;
    Ok(last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_may_be_flaky_once_in_twenty_runs() {
        let path = env::temp_dir().join(format!("xtask-flaky-{}", process::id()));
        let _ = fs::remove_file(&path);
        let run = |run| FlakyTests { path: path.clone(), run };
        assert_eq!(run(1).add("a::b"), Ok(()));
        assert_eq!(run(2).add("a::c"), Ok(()));
        assert_eq!(run(1).in_this_run(), ["a::b"]);
        let again = run(21).add("a::b").expect_err("within 20 runs");
        assert!(again.starts_with("a::b is flaky again, after 20 runs"), "{again}");
        assert_eq!(run(42).add("a::b"), Ok(()));
        fs::remove_file(path).expect("removed");
    }
}
