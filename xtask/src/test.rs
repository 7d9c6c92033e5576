//! `cargo xtask test`: everything that must pass before a change lands.
//!
//! Each step is a process of its own (`cargo xtask test --only STEP`), so that steps can run side by side
//! and the output of each is in a file of its own.

mod excerpt;
mod runner;
mod targets;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, thread};

use runner::{Done, Folder, Outcome, Progress, Step, time};

use crate::cache::{Profile, Published, Workshop};
use crate::tool::{at, cargo, need, run};
use crate::{demo, fuzz, packages, peers, picture, platforms, replay, tidy, tool, wine};

const CARGO_DENY: Published =
    Published { name: "cargo-deny", version: "0.20.2", profile: Profile::Dev };

/// How often a long run says that it is still there.
const STILL_RUNNING: Duration = Duration::from_secs(60);

const fn step(name: &'static str, about: &'static str) -> Step {
    Step { name, about, folder: Folder::Debug, needs: &[], after: &[], alone: false }
}

const fn theirs(name: &'static str, about: &'static str) -> Step {
    Step { folder: Folder::ThirdParty, ..step(name, about) }
}

const fn kept(name: &'static str, about: &'static str) -> Step {
    Step { folder: Folder::Kept, ..step(name, about) }
}

const fn release(name: &'static str, about: &'static str) -> Step {
    Step { folder: Folder::Release, ..step(name, about) }
}

/// All steps. Other people's programs come first: in the first run they take longest. Then everything that only has to
/// be compiled, and at last the tests: some of them are about speed, so nothing runs beside them.
const STEPS: [Step; 23] = [
    theirs("peers", "build third-party editors, proxies, agents and conductors to test against"),
    theirs("tools", "install cargo-deny and cargo-fuzz"),
    theirs("wine", "install Wine and a C compiler for Windows"),
    step("format", "cargo fmt"),
    step("tidy", "the house rules"),
    step("fetch", "download all dependencies, of all platforms"),
    release("release", "build the program as it is shipped: tests about speed and memory use it"),
    step("lints", "clippy"),
    step("docs", "rustdoc without warnings"),
    step("build-tests", "build all tests"),
    kept("platforms", "install the standard libraries of macOS, Windows and WASI"),
    Step {
        needs: &["platforms"],
        ..kept(
            "features",
            "clippy for the SDK on WASI, and for the library without the command line",
        )
    },
    Step {
        needs: &["fetch"],
        ..kept(
            "package",
            "package each crate, and compile the examples of the guide outside the repository",
        )
    },
    Step { needs: &["platforms"], ..kept("macos", "clippy for macOS") },
    Step { needs: &["platforms"], ..kept("windows", "clippy for Windows") },
    Step { needs: &["platforms", "wine"], ..kept("windows-run", "the Windows program under Wine") },
    Step { needs: &["fetch", "tools"], ..kept("fuzz", "a short fuzz of each target") },
    Step { needs: &["build-tests", "peers"], ..step("interop", "tests with third-party programs") },
    release("demo", "a conversation through a real chain"),
    release("picture", "make the README's picture"),
    Step { needs: &["fetch", "tools"], ..step("licences", "licences and sources of dependencies") },
    Step {
        needs: &["build-tests"],
        after: &["peers", "tools", "wine"],
        alone: true,
        ..step("tests", "unit tests, scripts, simulations, real processes")
    },
    Step {
        after: &["interop", "tests"],
        ..step("replay", "the journals of all chains of the tests replay identically")
    },
];

/// For people who just arrived: nothing of third parties, no optimised build.
const QUICK: [Step; 4] = [
    step("format", "cargo fmt"),
    step("tidy", "the house rules"),
    step("lints", "clippy"),
    step("quick-tests", "all tests that need no third-party program and no optimised build"),
];

const FULL_INTRODUCTION: &str = "\
Everything that must pass. With 2 processors it takes about 40 minutes on a fresh machine, most of it to build
other people's programs, which are kept; about 13 minutes when they are there. `--quick` takes some minutes.";

const QUICK_INTRODUCTION: &str = "\
Without third-party programs: about 8 minutes with 2 processors on a fresh machine, 3 when all is built.";

pub fn start(arguments: &[String]) -> Result<(), String> {
    // Wherever in the project it is called from.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    env::set_current_dir(root).map_err(at(root))?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => run_all(&STEPS, FULL_INTRODUCTION),
        ["--quick"] => run_all(&QUICK, QUICK_INTRODUCTION),
        ["--only", name] => only(name),
        _ => Err("usage: cargo xtask test [--quick | --only STEP]".into()),
    }
}

fn run_all(steps: &[Step], introduction: &str) -> Result<(), String> {
    let logs = logs();
    fs::create_dir_all(&logs).map_err(at(&logs))?;
    eprintln!("{introduction}");
    eprintln!(
        "Two steps run at a time, but the tests run alone. Their output is in {}\n",
        logs.display()
    );
    for (number, step) in (1..).zip(steps) {
        eprintln!("  {number:2}. {}: {}", step.name, step.about);
    }
    eprintln!();
    let program = env::current_exe().map_err(|error| format!("our own program: {error}"))?;
    let screen = Screen { count: steps.len(), logs: logs.clone(), running: Mutex::default() };
    let began = Instant::now();
    let done = thread::scope(|scope| {
        let (over, is_over) = mpsc::channel::<()>();
        let screen = &screen;
        scope.spawn(move || {
            while is_over.recv_timeout(STILL_RUNNING) == Err(RecvTimeoutError::Timeout) {
                screen.still_running();
            }
        });
        let done = runner::run(steps, |step| run_step(&program, step, &logs), screen);
        drop(over);
        done
    });
    eprintln!("\n{}", runner::summary(&done, began.elapsed()));
    match done.iter().all(|it| it.outcome == Outcome::Passed) {
        true => Ok(()),
        false => Err(format!("The output of each step is in {}", logs.display())),
    }
}

/// Where the output of each step is.
fn logs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target").join("xtask-test")
}

/// Runs a step as a process of its own, with its output in a file. Says whether it passed.
fn run_step(program: &Path, step: &Step, logs: &Path) -> bool {
    let attempt = || -> Result<bool, String> {
        let path = log(logs, step.name);
        let output = File::create(&path).map_err(at(&path))?;
        let errors = output.try_clone().map_err(at(&path))?;
        let mut command = Command::new(program);
        command.args(["test", "--only", step.name]).stdin(Stdio::null());
        let status = command.stdout(output).stderr(errors).status();
        Ok(status.map_err(|error| format!("{}: {error}", program.display()))?.success())
    };
    attempt().unwrap_or_else(|error| {
        eprintln!("{}: {error}", step.name);
        false
    })
}

fn log(logs: &Path, name: &str) -> PathBuf {
    logs.join(format!("{name}.log"))
}

/// What people see while the steps run.
struct Screen {
    count: usize,
    logs: PathBuf,
    running: Mutex<Vec<(&'static str, Instant)>>,
}

impl Screen {
    fn still_running(&self) {
        let running = self.running.lock().expect("nobody panics with it");
        let names = running.iter().map(|(name, since)| {
            let last = excerpt::last_line(&log(&self.logs, name));
            let last: String = last.trim().chars().take(60).collect();
            format!("{name} ({}) {last}", time(since.elapsed()))
        });
        eprintln!("        still running: {}", names.collect::<Vec<_>>().join("; "));
    }
}

impl Progress for Screen {
    fn began(&self, number: usize, step: &Step) {
        self.running.lock().expect("nobody panics with it").push((step.name, Instant::now()));
        eprintln!("[{number:2}/{}] {} …", self.count, step.name);
    }

    fn ended(&self, number: usize, done: &Done) {
        let Done { name, outcome, took } = done;
        self.running.lock().expect("nobody panics with it").retain(|(running, _)| running != name);
        let end = match outcome {
            Outcome::Passed => format!("passed, {}", time(*took)),
            Outcome::Failed => format!("FAILED, {}", time(*took)),
            Outcome::Skipped(needed) => format!("skipped: it needs {needed}"),
        };
        eprintln!("[{number:2}/{}] {name}: {end}", self.count);
        if *outcome == Outcome::Failed {
            let path = log(&self.logs, name);
            let lines = excerpt::of(&path);
            eprintln!("{}\n        all of it is in {}", lines.join("\n"), path.display());
        }
    }
}

/// The work of one step.
fn only(name: &str) -> Result<(), String> {
    match name {
        "peers" => peers::ensure().map(drop),
        "tools" => tools(),
        "wine" => wine::install(),
        "format" => {
            platforms::component("fmt", "rustfmt")?;
            run(&mut command(&["fmt", "--all", "--check"]))
        }
        "tidy" => tidy::run(),
        "fetch" => fetch(),
        "lints" => {
            platforms::component("clippy", "clippy")?;
            let mut clippy = command(&["clippy", "--keep-going", "--workspace", "--all-targets"]);
            run(clippy.args(DENY_WARNINGS))
        }
        "platforms" => platforms::install(),
        "features" => packages::check_features(),
        "package" => packages::check_packages(),
        "macos" => platforms::lint_macos(),
        "windows" => platforms::lint_windows(),
        "docs" => {
            let mut doc = command(&["doc", "--workspace", "--no-deps"]);
            run(doc.env("RUSTDOCFLAGS", "--deny warnings"))
        }
        "release" => tool::release().map(drop),
        "build-tests" => run(&mut command(&["test", "--workspace", "--no-run"])),
        "tests" => {
            let journals = empty_folder(&journals().join(name))?;
            let ours = tests(&["--lib", "--bins"], |it| !it.peers && !it.slow, Some(&journals));
            // To record takes time and memory, which is what these are about.
            let slow = tests(&[], |it| !it.peers && it.slow, None);
            let docs = run(&mut command(&["test", "--workspace", "--doc"]));
            ours.and(slow).and(docs)
        }
        "interop" => tests(&[], |it| it.peers, Some(&empty_folder(&journals().join(name))?)),
        "replay" => replay_all(),
        "quick-tests" => tests(&["--lib", "--bins"], |it| !it.peers && !it.slow, None),
        "demo" => demo::run(),
        // Whether it is still the same is for people to see.
        "picture" => picture::make().map(drop),
        "licences" => licences(),
        "windows-run" => wine::smoke(),
        "fuzz" => fuzz::briefly(),
        _ => {
            let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
            Err(format!("no step {name}; there are {} and quick-tests", names.join(", ")))
        }
    }
}

pub const DENY_WARNINGS: [&str; 3] = ["--", "--deny", "warnings"];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    command.args(arguments);
    command
}

/// The dependencies of all platforms, although only those of this one are compiled: cargo-deny looks at
/// all, and is not to wait for the network then. Also what is compiled outside the workspace.
fn fetch() -> Result<(), String> {
    run(&mut command(&["fetch", "--locked"]))?;
    run(&mut command(&["fetch", "--locked", "--manifest-path", "fuzz/Cargo.toml"])).map_err(
        |error| {
            format!(
                "{error}\nif our own crates have other dependencies now: \
             cargo update --workspace --manifest-path fuzz/Cargo.toml"
            )
        },
    )
}

/// One target folder for both: they have dependencies in common.
fn tools() -> Result<(), String> {
    // The fuzzer's engine is C++.
    need("c++", &["--version"], "g++")?;
    let workshop = Workshop::open()?;
    CARGO_DENY.install(&workshop)?;
    fuzz::CARGO_FUZZ.install(&workshop)?;
    workshop.close();
    Ok(())
}

/// Runs the test programs that are wanted, and those that `more` names. A program that fails does not keep the others from
/// running. Their chains are recorded in `journals`.
fn tests(
    more: &[&str],
    wanted: impl Fn(&targets::Target) -> bool,
    journals: Option<&Path>,
) -> Result<(), String> {
    let mut test = command(&["test", "--workspace", "--no-fail-fast"]);
    let chosen = targets::all()?.into_iter().filter(wanted);
    test.args(more).args(chosen.flat_map(|it| ["--test".to_owned(), it.name]));
    if let Some(folder) = journals {
        test.env("CONDUCTOR_JOURNAL", folder);
    }
    run(&mut test)
}

/// Where the chains of the tests are recorded, by step.
fn journals() -> PathBuf {
    logs().join("journals")
}

fn empty_folder(path: &Path) -> Result<PathBuf, String> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(at(path))?;
    }
    fs::create_dir_all(path).map_err(at(path))?;
    Ok(path.to_owned())
}

/// Journals that replay identically are removed: they have hundreds of megabytes.
fn replay_all() -> Result<(), String> {
    let nothing = |why| format!("{why}: run the steps tests and interop first");
    let summary = replay::replay_recorded(&journals()).map_err(nothing)?;
    println!("{summary}");
    summary.result()
}

/// Licences and sources of all dependencies. The advisory database is fetched from the network, so
/// it is left to those who have it: `cargo deny check`.
fn licences() -> Result<(), String> {
    let deny = CARGO_DENY.installed()?;
    run(Command::new(deny).args(["--offline", "check", "bans", "licenses", "sources"]))
}
