//! Runs the test files of the pages, the extension and the client library with Node.

use std::path::Path;
use std::process::{self, Command};
use std::time::Duration;
use std::{env, fs};

use serde_json::Value;

use super::change::Change;
use super::flaky::{FlakyTests, MOST};
use super::records::{Inputs, Project, Records};
use super::stress;
use crate::tool::{self, root};

/// Runs test files.
pub const RUNNER: &str = "web/test/run.mjs";

/// Installed programs that the tests run. In Debian, the commands of Chromium are scripts.
const INSTALLED: [&str; 6] = [
    "node",
    "git",
    "chromium",
    "chromium-headless-shell",
    "/usr/lib/chromium/chromium",
    "/usr/lib/chromium/chromium-headless-shell",
];

/// Test files that run with one command.
pub struct NodeTests<'a> {
    /// The folder of the package, relative to the project.
    pub folder: &'a str,
    /// The test files, relative to the folder.
    pub files: &'a [String],
    /// The folders that the tests read, apart from other test files.
    pub reads: &'a [&'a str],
    /// The programs that they run.
    pub programs: &'a [&'a Path],
    /// Makes the command that runs [`RUNNER`]. The files follow.
    pub command: &'a dyn Fn() -> Command,
}

/// Runs the files that have no record. Each failed test runs again, alone.
pub fn run(tests: &NodeTests) -> Result<(), String> {
    tests.run_all()
}

/// Runs the files many times beside busy loops.
pub fn stress(tests: &NodeTests) -> Result<(), String> {
    tests.run_many_times()
}

impl NodeTests<'_> {
    fn run_all(&self) -> Result<(), String> {
        let root = root();
        let records = Records::open(false);
        let project = Project::read(root)?;
        let mut common = Inputs::of_this_machine();
        for program in self.programs {
            common.add(&program);
            common.add_file(program)?;
        }
        for program in INSTALLED {
            common.add_program(program);
        }
        let others: Vec<String> =
            self.files.iter().map(|it| format!("!{}/{it}", self.folder)).collect();
        let without: Vec<&str> = others.iter().map(String::as_str).collect();
        project.add_to(&mut common, &[&[self.folder], self.reads, &without].concat());
        let mut waiting = Vec::new();
        for file in self.files {
            let mut inputs = common.clone();
            project.add_to(&mut inputs, &[&format!("{}/{file}", self.folder)]);
            let name = format!("{}/{file}", self.folder);
            match records.find(&name, inputs.sum()) {
                Some(record) => println!("{name}: not run; {record}"),
                None => waiting.push((file.as_str(), name, inputs.sum())),
            }
        }
        println!(
            "{} of {} test files run; the others have a record",
            waiting.len(),
            self.files.len()
        );
        if waiting.is_empty() {
            return Ok(());
        }
        let files: Vec<&str> = waiting.iter().map(|(file, _, _)| *file).collect();
        let ran = self.run_files(&files, None)?;
        for (file, name, inputs) in &waiting {
            match ran.time_of_passed(file) {
                Some(took) => records.passed(name, *inputs, took)?,
                None => records.failed(name, *inputs)?,
            }
        }
        let failed: Vec<&TestResult> = ran.results.iter().filter(|it| !it.passed).collect();
        match ran.status {
            Ok(()) => Ok(()),
            Err(error) if failed.is_empty() => Err(error),
            Err(_) => self.second_chance(&failed),
        }
    }

    fn run_many_times(&self) -> Result<(), String> {
        let mut failures = 0;
        let files: Vec<&str> = self.files.iter().map(String::as_str).collect();
        stress::beside_busy_loops(|| {
            for number in 1..=stress::TIMES {
                let ran = self.run_files(&files, None)?;
                if let Err(error) = ran.status {
                    failures += 1;
                    let red = ran.results.iter().filter(|it| !it.passed);
                    let red: Vec<String> =
                        red.map(|it| format!("{}: {}", it.file, it.name)).collect();
                    println!("{error}\nrun {number} failed: {}", red.join("; "));
                }
            }
            Ok::<(), String>(())
        })?;
        stress::summary(&self.files.join(", "), stress::TIMES, failures)
    }

    /// Runs test files, or only the tests of one name.
    fn run_files(&self, files: &[&str], only: Option<&str>) -> Result<Ran, String> {
        let folder = root().join(self.folder);
        let report = env::temp_dir().join(format!("xtask-node-{}.jsonl", process::id()));
        let _ = fs::remove_file(&report);
        let mut command = (self.command)();
        command.env("CONDUCTOR_TEST_REPORT", &report);
        if let Some(name) = only {
            command.env("CONDUCTOR_TEST_ONLY", name);
        }
        let status = tool::run(command.args(files).current_dir(&folder));
        let text = fs::read_to_string(&report).unwrap_or_default();
        let _ = fs::remove_file(&report);
        let results =
            text.lines().map(|line| TestResult::parse(line, files)).collect::<Result<_, _>>()?;
        Ok(Ran { status, results })
    }

    fn second_chance(&self, failed: &[&TestResult]) -> Result<(), String> {
        let change = Change::read();
        let flaky = FlakyTests::of_this_run();
        let touched = [&[self.folder][..], self.reads]
            .concat()
            .iter()
            .any(|it| change.touches(Path::new(it)));
        let mut red = Vec::new();
        for TestResult { file, name, .. } in failed {
            let whole = format!("{}/{file}: {name}", self.folder);
            let Some(flaky) = flaky.as_ref().filter(|_| !touched && failed.len() <= MOST) else {
                red.push(format!("{whole}: failed"));
                continue;
            };
            println!("\n{whole}, again and alone");
            let again = self.run_files(&[file], Some(name))?;
            // A pattern that finds no test passes as well.
            let has_passed = again.results.iter().any(|it| it.name == *name && it.passed);
            if again.status.is_err() || !has_passed {
                red.push(format!("{whole}: failed twice"));
            } else if let Err(again) = flaky.add(&whole) {
                red.push(again);
            }
        }
        if red.is_empty() { Ok(()) } else { Err(red.join("\n")) }
    }
}

/// What became of some test files.
struct Ran {
    status: Result<(), String>,
    results: Vec<TestResult>,
}

impl Ran {
    /// How long the tests of a file took, if all have passed.
    fn time_of_passed(&self, file: &str) -> Option<Duration> {
        let mut own = self.results.iter().filter(|it| it.file == file).peekable();
        own.peek()?;
        own.try_fold(Duration::ZERO, |sum, it| it.passed.then_some(sum + it.took))
    }
}

#[derive(Debug)]
struct TestResult {
    /// As it was given to Node.
    file: String,
    name: String,
    passed: bool,
    took: Duration,
}

impl TestResult {
    /// Reads a line of the reporter. It names the file by its whole path.
    fn parse(line: &str, files: &[&str]) -> Result<TestResult, String> {
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let path = word("file");
        let file = files
            .iter()
            .find(|it| Path::new(&path).ends_with(it))
            .map_or(path.clone(), |it| (*it).to_owned());
        let took =
            Duration::from_secs_f64(value["ms"].as_f64().unwrap_or_default().max(0.0) / 1000.0);
        Ok(TestResult { file, name: word("name"), passed: value["passed"] == true, took })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_file_is_known_if_all_its_tests_passed() {
        let line = |file: &str, passed: bool| {
            let line =
                format!(r#"{{"file":"/p/web/{file}","name":"a","passed":{passed},"ms":1500}}"#);
            TestResult::parse(&line, &["test/a.mjs", "test/b.mjs"]).expect("a result")
        };
        let results = vec![
            line("test/a.mjs", true),
            line("test/a.mjs", true),
            line("test/b.mjs", true),
            line("test/b.mjs", false),
        ];
        let ran = Ran { status: Ok(()), results };
        assert_eq!(ran.time_of_passed("test/a.mjs"), Some(Duration::from_secs(3)));
        assert_eq!(ran.time_of_passed("test/b.mjs"), None);
        assert_eq!(ran.time_of_passed("test/c.mjs"), None, "nothing has passed");
    }
}
