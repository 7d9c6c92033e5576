//! `cargo xtask test`: all checks that must pass before a change lands.
//!
//! Each step runs in its own process (`cargo xtask test --only STEP`), so that steps can run in parallel and each has
//! its own log file.

mod change;
mod checkout;
mod excerpt;
pub mod flaky;
pub mod node;
mod pool;
pub mod programs;
mod records;
mod runner;
mod steps;
pub mod stress;

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, thread};

use checkout::{COPIED_FROM, Checkout};
use flaky::FlakyTests;
use records::{Inputs, Project, Records};
use runner::{Outcome, Progress, Reads, Step, StepResult, time};
use steps::{QUICK, STEPS, end_group, run_step};

use crate::tool::{at, enter_root, root};

pub const DENY_WARNINGS: [&str; 3] = ["--", "--deny", "warnings"];

/// The interval of the progress messages.
const STILL_RUNNING: Duration = Duration::from_secs(60);

const FULL_INTRODUCTION: &str = "\
All checks. On a fresh machine with 2 processors, they take about 35 minutes, a third of it to build third-party programs.
These are cached, and what passed before is not run again: later runs take less than 10 minutes. `--quick` takes some minutes.";

const QUICK_INTRODUCTION: &str = "\
Checks without third-party programs. On 2 processors, they take about 6 minutes on a fresh machine, and 3 minutes later.";

pub const USAGE: &str = "\
test [--all] [--here] [--fail-fast | --no-fail-fast]
                   run all checks, in a copy of the project in the cache. Installs the tools that it needs. What
                   passed before on this machine with the same inputs is not run again, except with --all. --here
                   runs in this folder instead. --fail-fast ends at the first failure, which is the default if CI is set
  test --quick     run the checks that need no third-party program: format, house rules, lints and
                   most tests. Takes some minutes
  test --only STEP run one step in this folder";

/// The options of a run of all steps.
#[derive(Debug, Clone, Copy)]
struct Options {
    all: bool,
    here: bool,
    fail_fast: bool,
}

pub fn start(arguments: &[String]) -> Result<(), String> {
    // The command may be called from any folder of the project.
    enter_root()?;
    let mut options = Options {
        all: false,
        here: env::var_os(COPIED_FROM).is_some(),
        fail_fast: env::var_os("CI").is_some_and(|it| !it.is_empty()),
    };
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--quick"] => return run_all(&QUICK, QUICK_INTRODUCTION, options),
        ["--only", name] => return run_step(name),
        _ => {}
    }
    for word in words {
        match word {
            "--all" => options.all = true,
            "--here" => options.here = true,
            "--fail-fast" => options.fail_fast = true,
            "--no-fail-fast" => options.fail_fast = false,
            _ => return Err(format!("usage: cargo xtask {USAGE}")),
        }
    }
    if !options.here
        && let Some(checkout) = Checkout::of(root())?
    {
        return checkout.xtask(&[&["test".to_owned()], arguments].concat());
    }
    run_all(&STEPS, FULL_INTRODUCTION, options)
}

fn run_all(steps: &[Step], introduction: &str, options: Options) -> Result<(), String> {
    let logs = logs();
    fs::create_dir_all(&logs).map_err(at(&logs))?;
    eprintln!("{introduction}");
    eprintln!(
        "Two steps run at a time, but some tests run alone. The logs are in {}\n",
        logs.display()
    );
    for (number, step) in (1..).zip(steps) {
        eprintln!("  {number:2}. {}: {}", step.name, step.about);
    }
    eprintln!();
    let work = Work {
        program: env::current_exe().map_err(|error| format!("the path of xtask: {error}"))?,
        logs: logs.clone(),
        // Two steps of one run agree on this number.
        run: flaky::next_run()?,
        options,
        running: Mutex::default(),
    };
    let printer =
        ProgressPrinter { count: steps.len(), logs: logs.clone(), running: Mutex::default() };
    let began = Instant::now();
    let done = thread::scope(|scope| {
        let (over, is_over) = mpsc::channel::<()>();
        let printer = &printer;
        scope.spawn(move || {
            while is_over.recv_timeout(STILL_RUNNING) == Err(RecvTimeoutError::Timeout) {
                printer.still_running();
            }
        });
        let done = runner::run(steps, options.fail_fast, |step| work.run(step), printer);
        drop(over);
        done
    });
    eprintln!();
    for test in FlakyTests::of_run(work.run).in_this_run() {
        eprintln!(
            "FLAKY: {test} failed, and passed when it ran again alone. Find the cause: the next time, it fails."
        );
    }
    eprintln!("{}", runner::summary(&done, began.elapsed()));
    match done.iter().all(|it| it.outcome.is_good()) {
        true => {
            change::all_passed();
            Ok(())
        }
        false => Err(format!("The output of each step is in {}", logs.display())),
    }
}

/// Runs the steps of one run, each in its own process, with its output in a log file.
struct Work {
    /// The program of `cargo xtask`.
    program: PathBuf,
    logs: PathBuf,
    /// The number of the run.
    run: u64,
    options: Options,
    /// The process groups of the running steps.
    running: Mutex<Vec<u32>>,
}

impl Work {
    fn run(&self, step: &Step) -> Outcome {
        let outcome = self.attempt(step).unwrap_or_else(|error| {
            eprintln!("{}: {error}", step.name);
            Outcome::Failed
        });
        if outcome == Outcome::Failed && self.options.fail_fast {
            for group in self.running.lock().expect("no panic").iter() {
                end_group(*group);
            }
        }
        outcome
    }

    fn attempt(&self, step: &Step) -> Result<Outcome, String> {
        let records = Records::open(self.options.all);
        let inputs = step.reads.map(|it| inputs(step, it)).transpose()?;
        if let Some(record) = inputs.and_then(|it| records.find(step.name, it)) {
            return Ok(Outcome::Recorded(record.to_string()));
        }
        let began = Instant::now();
        let passed = self.run_process(step)?;
        if let Some(inputs) = inputs {
            match passed {
                true => records.passed(step.name, inputs, began.elapsed())?,
                false => records.failed(step.name, inputs)?,
            }
        }
        Ok(if passed { Outcome::Passed } else { Outcome::Failed })
    }

    /// Returns whether the step has passed.
    fn run_process(&self, step: &Step) -> Result<bool, String> {
        let path = log(&self.logs, step.name);
        let output = File::create(&path).map_err(at(&path))?;
        let errors = output.try_clone().map_err(at(&path))?;
        let mut command = Command::new(&self.program);
        command.args(["test", "--only", step.name]).stdin(Stdio::null());
        command.stdout(output).stderr(errors).env(flaky::RUN, self.run.to_string());
        if self.options.all {
            command.env(records::ALL, "1");
        }
        // In its own group, so that all its processes can be ended.
        let mut process = command.process_group(0).spawn().map_err(at(&self.program))?;
        let group = process.id();
        self.running.lock().expect("no panic").push(group);
        let status = process.wait();
        self.running.lock().expect("no panic").retain(|it| *it != group);
        Ok(status.map_err(at(&self.program))?.success())
    }
}

/// The sum of the inputs of a step.
fn inputs(step: &Step, reads: Reads) -> Result<u64, String> {
    let mut inputs = Inputs::of_this_machine();
    inputs.add(&step.name);
    for program in reads.programs {
        inputs.add_program(program);
    }
    Project::read(root())?.add_to(&mut inputs, reads.files);
    Ok(inputs.sum())
}

/// The folder of the steps' logs.
fn logs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target").join("xtask-test")
}

fn log(logs: &Path, name: &str) -> PathBuf {
    logs.join(format!("{name}.log"))
}

/// Prints the progress while the steps run.
struct ProgressPrinter {
    count: usize,
    logs: PathBuf,
    running: Mutex<Vec<(&'static str, Instant)>>,
}

impl ProgressPrinter {
    fn still_running(&self) {
        let running = self.running.lock().expect("no panic");
        let names = running.iter().map(|(name, since)| {
            let last = excerpt::last_line(&log(&self.logs, name));
            let last: String = last.trim().chars().take(60).collect();
            format!("{name} ({}) {last}", time(since.elapsed()))
        });
        eprintln!("        still running: {}", names.collect::<Vec<_>>().join("; "));
    }
}

impl Progress for ProgressPrinter {
    fn began(&self, number: usize, step: &Step) {
        self.running.lock().expect("no panic").push((step.name, Instant::now()));
        eprintln!("[{number:2}/{}] {} …", self.count, step.name);
    }

    fn processor_time(&self, name: &str, outcome: &Outcome) -> Option<Duration> {
        let ran = matches!(outcome, Outcome::Passed | Outcome::Failed);
        let text = fs::read_to_string(steps::processor_time_file(name)).ok().filter(|_| ran)?;
        text.parse().ok().map(Duration::from_secs)
    }

    fn ended(&self, number: usize, done: &StepResult) {
        let StepResult { name, outcome, took, .. } = done;
        self.running.lock().expect("no panic").retain(|(running, _)| running != name);
        let end = match outcome {
            Outcome::Passed => format!("passed, {}", time(*took)),
            Outcome::Recorded(why) => format!("not run: {why}"),
            Outcome::Failed => format!("FAILED, {}", time(*took)),
            Outcome::Skipped(needed) => format!("skipped: it needs {needed}"),
            Outcome::NotRun => "skipped: an earlier step has failed".to_owned(),
        };
        eprintln!("[{number:2}/{}] {name}: {end}", self.count);
        if *outcome == Outcome::Failed {
            let path = log(&self.logs, name);
            let lines = excerpt::of(&path);
            eprintln!("{}\n        the whole output is in {}", lines.join("\n"), path.display());
        }
    }
}
