//! `cargo xtask stress`: runs tests many times beside a busy machine.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::change::Change;
use super::pool::failed_tests;
use super::programs::{self, BUILD, Built, TestProgram};
use super::runner::time;
use crate::tool::{output_of_failed, release, root};
use crate::{vscode, web};

pub const USAGE: &str = "\
stress [--times N] [--changed | --all | TARGET… [-- TEST…]]
                   run tests 30 times beside three busy loops: those whose files have changed, all, or those of some
                   targets, such as `start` or `acp-wire::acp_wire`, and only these tests of them. `cargo xtask web --stress FILTER`
                   and `cargo xtask vscode --stress FILTER` do the same with tests of pages and of the extension";

/// How often each test program runs.
pub const TIMES: usize = 30;

const LOOPS: usize = 3;

pub fn start(arguments: &[String]) -> Result<(), String> {
    let mut times = TIMES;
    let (mut changed, mut all, mut targets) = (false, false, Vec::new());
    let mut words = arguments.iter();
    let mut tests = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--times" => {
                let number = words.next().and_then(|it| it.parse().ok());
                times = number.ok_or("--times needs a number")?;
            }
            "--changed" => changed = true,
            "--all" => all = true,
            "--" => tests = words.by_ref().map(String::as_str).collect(),
            word if word.starts_with("--") => return Err(format!("usage: cargo xtask {USAGE}")),
            target => targets.push(target),
        }
    }
    if !changed && !all && targets.is_empty() {
        return Err(format!("usage: cargo xtask {USAGE}"));
    }
    let root = root();
    let change = Change::read();
    let Built { tests: programs, .. } = programs::build(&BUILD)?;
    let wanted = |it: &TestProgram| {
        all || (changed && change.touches_tests_of(it, root))
            || targets.iter().any(|target| it.target == **target || it.name() == **target)
    };
    let chosen: Vec<TestProgram> = programs.into_iter().filter(wanted).collect();
    let files = if changed { changed_files(&change) } else { Vec::new() };
    if chosen.is_empty() && files.is_empty() {
        return Err("no test program is chosen".to_owned());
    }
    for (stress, file) in files {
        stress(&file)?;
    }
    if chosen.iter().any(|it| it.slow) {
        release()?;
    }
    let failures = beside_busy_loops(|| run_all(&chosen, times, &tests));
    summary(&format!("{} test programs", chosen.len()), times, failures)
}

/// Runs test files whose names contain some text.
type Stress = fn(&str) -> Result<(), String>;

/// The changed test files that Node runs.
fn changed_files(change: &Change) -> Vec<(Stress, String)> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let folders: [(&str, Stress); 3] = [
        ("web/test", web::stress),
        ("editors/vscode/test", vscode::stress),
        ("clients/typescript", vscode::stress_clients),
    ];
    let mut found = Vec::new();
    for (folder, stress) in folders {
        let files = change.files().filter(|it| it.starts_with(folder)).filter_map(name);
        found.extend(files.filter(|it| it.ends_with(".test.mjs")).map(|it| (stress, it)));
    }
    found
}

/// Runs each program so many times, and returns how many runs failed.
fn run_all(programs: &[TestProgram], times: usize, tests: &[&str]) -> usize {
    let mut failures = 0;
    for program in programs {
        let began = Instant::now();
        let mut longest = Duration::ZERO;
        for number in 1..=times {
            let began = Instant::now();
            let failed = output_of_failed(program.command().args(tests));
            longest = longest.max(began.elapsed());
            if let Some(output) = failed {
                failures += 1;
                println!(
                    "{output}\n{}: run {number} failed: {}",
                    program.name(),
                    failed_tests(&output).join(", ")
                );
            }
        }
        println!(
            "{}: {times} runs in {}, the longest in {}",
            program.name(),
            time(began.elapsed()),
            time(longest)
        );
    }
    failures
}

/// Does something while three threads use all the time of the processors that they get.
pub fn beside_busy_loops<T>(work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..LOOPS {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// Tells how many runs failed.
pub fn summary(what: &str, times: usize, failures: usize) -> Result<(), String> {
    println!("{what} ran {times} times; {failures} runs failed");
    if failures == 0 { Ok(()) } else { Err("some tests depend on a fast machine".to_owned()) }
}
