//! Runs test programs: several at a time, and each failed test a second time alone.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::change::Change;
use super::flaky::{FlakyTests, MOST};
use super::programs::TestProgram;
use super::records::{Inputs, Project, Records};
use crate::tool::at;

/// How many test programs run at a time. Most of them wait for processes most of the time.
const AT_A_TIME: usize = 3;

/// The file in a folder of journals that says that journals must be there.
pub const EXPECTED: &str = "expected";

/// The results of test programs.
#[derive(Debug, Default)]
struct Results {
    /// How many ran.
    ran: usize,
    failed: Vec<Failure>,
}

#[derive(Debug)]
struct Failure {
    program: TestProgram,
    inputs: u64,
    /// The names of the failed tests. Empty if the program has not said which tests failed.
    tests: Vec<String>,
}

/// Runs test programs.
#[derive(Debug)]
pub struct Pool<'a> {
    pub root: &'a Path,
    /// The folder of their output.
    pub logs: PathBuf,
    pub records: Records,
    pub change: Change,
    /// `None`: no test has a second chance.
    pub flaky: Option<FlakyTests>,
    /// The programs of the workspace, which tests start.
    pub programs: Inputs,
    /// The folder in which chains are recorded.
    pub journals: Option<PathBuf>,
}

impl Pool<'_> {
    /// Runs those that have no record. The tests of the change come first, then those that take longest.
    pub fn run(&self, tests: Vec<TestProgram>) -> Result<(), String> {
        fs::create_dir_all(&self.logs).map_err(at(&self.logs))?;
        let project = Project::read(self.root)?;
        let mut waiting = Vec::new();
        let count = tests.len();
        for test in tests {
            let inputs = test.add_inputs(&project, self.root, &self.programs)?;
            match self.records.find(&test.name(), inputs) {
                Some(record) => println!("{}: not run; {record}", test.name()),
                None => waiting.push((test, inputs)),
            }
        }
        waiting.sort_by_key(|(test, _)| {
            let touched = self.change.touches_tests_of(test, self.root);
            (test.slow, !touched, std::cmp::Reverse(self.records.last_time(&test.name())))
        });
        let (alone, together): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(it, _)| it.slow);
        let results = Mutex::new(Results::default());
        self.run_some(together, AT_A_TIME, &results);
        self.run_some(alone, 1, &results);
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outcome = self.second_chance(results.failed);
        println!("{} of {count} test programs ran; the others have a record", results.ran);
        outcome
    }

    fn run_some(&self, tests: Vec<(TestProgram, u64)>, at_a_time: usize, results: &Mutex<Results>) {
        let waiting = Mutex::new(VecDeque::from(tests));
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        thread::scope(|scope| {
            for _ in 0..at_a_time {
                scope.spawn(|| {
                    while let Some((test, inputs)) = next() {
                        self.expect_journals(&test);
                        let ran = self.run_one(&test, &[]);
                        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                        results.ran += 1;
                        // Printed as a whole, so that the outputs of two programs do not mix.
                        println!(
                            "\n{} ({:.1} s)\n{}",
                            test.name(),
                            ran.took.as_secs_f64(),
                            ran.output
                        );
                        let recorded = match ran.passed {
                            true => self.records.passed(&test.name(), inputs, ran.took),
                            false => self.records.failed(&test.name(), inputs),
                        };
                        recorded.unwrap_or_else(|error| println!("{error}"));
                        if !ran.passed {
                            let tests = failed_tests(&ran.output);
                            results.failed.push(Failure { program: test, inputs, tests });
                        }
                    }
                });
            }
        });
    }

    /// Runs a test program, or only some of its tests.
    fn run_one(&self, test: &TestProgram, tests: &[&str]) -> Ran {
        let began = Instant::now();
        let path = self.logs.join(format!("{}.log", test.name().replace("::", "-")));
        let attempt = || -> Result<bool, String> {
            let output = File::create(&path).map_err(at(&path))?;
            let errors = output.try_clone().map_err(at(&path))?;
            let mut command = test.command();
            if !tests.is_empty() {
                command.arg("--exact").args(tests);
            }
            if let Some(folder) = &self.journals {
                command.env("CONDUCTOR_JOURNAL", folder);
            }
            let status = command.stdout(output).stderr(errors).status();
            Ok(status.map_err(at(&test.file))?.success())
        };
        let (passed, error) = match attempt() {
            Ok(passed) => (passed, String::new()),
            Err(error) => (false, error),
        };
        let output = fs::read(&path).unwrap_or_default();
        let output = String::from_utf8_lossy(&output).into_owned() + &error;
        Ran { passed, output, took: began.elapsed() }
    }

    /// Tells the replay of the journals that a chain has been recorded.
    fn expect_journals(&self, test: &TestProgram) {
        if let Some(folder) = self.journals.as_ref().filter(|_| test.package == "acp-conductor") {
            let _ = fs::write(folder.join(EXPECTED), test.name());
        }
    }

    /// Runs each failed test again, alone.
    fn second_chance(&self, failed: Vec<Failure>) -> Result<(), String> {
        let count: usize = failed.iter().map(|it| it.tests.len().max(1)).sum();
        let mut red = Vec::new();
        for Failure { program, inputs, tests } in failed {
            let touched = self.change.touches_package_of(&program, self.root);
            let names = match tests.is_empty() {
                true => vec![None],
                false => tests.iter().map(|it| Some(&**it)).collect(),
            };
            for name in names {
                let whole =
                    name.map_or_else(|| program.name(), |it| format!("{}::{it}", program.name()));
                let Some(flaky) = self.flaky.as_ref().filter(|_| !touched && count <= MOST) else {
                    red.push(format!("{whole} failed"));
                    continue;
                };
                let ran = self.run_one(&program, name.as_slice());
                println!("\n{whole}, again and alone\n{}", ran.output);
                if !ran.passed {
                    red.push(format!("{whole} failed twice"));
                } else if let Err(again) = flaky.add(&whole) {
                    red.push(again);
                }
            }
            // A flaky program has no record either, so it runs in the next run.
            self.records.failed(&program.name(), inputs)?;
        }
        if red.is_empty() { Ok(()) } else { Err(red.join("\n")) }
    }
}

/// The result of a test program.
#[derive(Debug)]
struct Ran {
    passed: bool,
    output: String,
    took: Duration,
}

/// The names in the last list of failures that the test harness has printed.
pub fn failed_tests(output: &str) -> Vec<String> {
    let Some((_, list)) = output.rsplit_once("\nfailures:\n") else { return Vec::new() };
    let names = list.lines().map_while(|line| line.strip_prefix("    "));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_failed_tests_of_a_program_are_found() {
        let output = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nleft != right\n\n\n\
                      failures:\n    a\n    b::c\n\ntest result: FAILED. 1 passed; 2 failed\n";
        assert_eq!(failed_tests(output), ["a", "b::c"]);
        assert!(failed_tests("test a ... ok\ntest result: ok\n").is_empty());
    }

    /// A project with one test program, which is a script.
    struct Project {
        folder: PathBuf,
    }

    impl Project {
        /// The script fails in those of its runs whose number is in `fails`, and prints what the test harness prints.
        fn new(name: &str, fails: &[usize]) -> Project {
            let folder = env::temp_dir().join(format!("xtask-pool-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(folder.join("crates/a/tests")).expect("a folder");
            let fails: String = fails.iter().map(|it| format!("{it}) exit_with=1;; ")).collect();
            let script = format!(
                "#!/bin/sh\nexit_with=0\necho run >>../../runs\n\
                 case $(wc -l <../../runs) in {fails} esac\n\
                 [ $exit_with = 0 ] || printf '\\nfailures:\\n    b\\n\\n'\nexit $exit_with\n"
            );
            let program = folder.join("program");
            fs::write(&program, script).expect("written");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
            let git =
                std::process::Command::new("git").arg("init").arg("--quiet").arg(&folder).status();
            assert!(git.expect("git").success());
            Project { folder }
        }

        /// Runs the program. `run` is the number of the run of all tests.
        fn run(&self, run: u64, changed: &[&str]) -> Result<(), String> {
            let pool = Pool {
                root: &self.folder,
                logs: self.folder.join("logs"),
                records: Records::of_test(&self.folder.join(".git/records")),
                change: Change::of_test(changed),
                flaky: Some(FlakyTests::of_test(&self.folder.join(".git/flaky"), run)),
                programs: Inputs::of_this_machine(),
                journals: None,
            };
            pool.run(vec![TestProgram {
                package: "a".to_owned(),
                target: "t".to_owned(),
                file: self.folder.join("program"),
                folder: self.folder.join("crates/a"),
                source: self.folder.join("crates/a/tests/t.rs"),
                peers: false,
                slow: false,
            }])
        }

        fn runs(&self) -> usize {
            fs::read_to_string(self.folder.join("runs")).expect("it ran").lines().count()
        }
    }

    impl Drop for Project {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn a_test_that_fails_once_passes_but_not_again_within_twenty_runs() {
        let project = Project::new("flaky", &[1, 3]);
        assert_eq!(project.run(1, &[]), Ok(()));
        assert_eq!(project.runs(), 2, "it ran twice");
        let again = project.run(2, &[]).expect_err("flaky again");
        assert!(again.contains("a::t::b is flaky again"), "{again}");
        assert_eq!(project.runs(), 4, "a flaky program leaves no record");
    }

    #[test]
    fn a_test_that_fails_twice_fails() {
        let project = Project::new("red", &[1, 2]);
        assert_eq!(project.run(1, &[]), Err("a::t::b failed twice".to_owned()));
    }

    #[test]
    fn a_test_that_the_change_touches_has_no_second_chance() {
        let project = Project::new("touched", &[1]);
        let outcome = project.run(1, &["crates/a/src/lib.rs"]);
        assert_eq!(outcome, Err("a::t::b failed".to_owned()));
        assert_eq!(project.runs(), 1);
    }

    #[test]
    fn a_program_with_a_record_runs_again_after_each_change_of_its_inputs() {
        let project = Project::new("record", &[4]);
        assert_eq!(project.run(1, &[]), Ok(()));
        assert_eq!(project.run(2, &[]), Ok(()));
        assert_eq!(project.runs(), 1, "it has a record");
        fs::write(project.folder.join("crates/a/tests/data.json"), "{}").expect("written");
        assert_eq!(project.run(3, &[]), Ok(()));
        assert_eq!(project.runs(), 2, "a file of its package is new");
        fs::write(project.folder.join("other"), "").expect("written");
        assert_eq!(project.run(4, &[]), Ok(()));
        assert_eq!(project.runs(), 2, "it does not read this file");
        let program = project.folder.join("program");
        let script = fs::read_to_string(&program).expect("readable");
        fs::write(&program, script + "\n").expect("written");
        assert_eq!(project.run(5, &[]), Ok(()));
        assert_eq!(project.runs(), 3, "the program is another one");
        // A fault that is planted in the data is red, and stays red.
        fs::write(project.folder.join("crates/a/tests/data.json"), "fault").expect("written");
        assert!(project.run(6, &["crates/a/tests/data.json"]).is_err());
        let script = fs::read_to_string(&program).expect("readable");
        assert!(script.contains("4) exit_with=1"));
        assert_eq!(project.runs(), 4);
    }
}
