//! `cargo xtask test`: all checks that must pass before a change lands.
//!
//! Each step runs in its own process (`cargo xtask test --only STEP`), so that steps can run in parallel and each has
//! its own log file.

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

use runner::{Folder, Outcome, Progress, Step, StepResult, time};

use crate::tool::{at, cargo, cargo_run, ensure_all_installed, ensure_installed, run};
use crate::{
    demo, dist, fuzz, licences, packages, peers, picture, platforms, tidy, tool, vscode, walk, web,
    wine,
};

/// The interval of the progress messages.
const STILL_RUNNING: Duration = Duration::from_secs(60);

const fn step(name: &'static str, about: &'static str) -> Step {
    Step { name, about, folder: Folder::Debug, needs: &[], after: &[], alone: false }
}

const fn third_party(name: &'static str, about: &'static str) -> Step {
    Step { folder: Folder::ThirdParty, ..step(name, about) }
}

const fn cached(name: &'static str, about: &'static str) -> Step {
    Step { folder: Folder::Cached, ..step(name, about) }
}

const fn release(name: &'static str, about: &'static str) -> Step {
    Step { folder: Folder::Release, ..step(name, about) }
}

const fn node(name: &'static str, about: &'static str) -> Step {
    Step { folder: Folder::Node, ..step(name, about) }
}

/// All steps. Third-party programs come first, because they take longest in the first run. Steps that only compile
/// follow. The tests come last: some of them measure speed, so they run alone.
const STEPS: [Step; 31] = [
    third_party(
        "peers",
        "build third-party editors, proxies, agents and conductors to test against",
    ),
    third_party("tools", "install a C++ compiler, and the shells that tests run"),
    third_party("wine", "install Wine and a C compiler for Windows"),
    third_party(
        "dist-tools",
        "install an emulator and make a bare Debian system, to test releases",
    ),
    node(
        "vscode-tools",
        "install VS Code as a server, a browser, a packager of extensions, and a published agent",
    ),
    step("format", "cargo fmt"),
    step("tidy", "the house rules"),
    node("web", "the web pages: the built files are up to date, types, unit tests"),
    step("fetch", "download all dependencies, of all platforms"),
    release("release", "build the program as it is shipped: tests about speed and memory use it"),
    step("lints", "clippy"),
    step("docs", "rustdoc without warnings"),
    step("build-tests", "build all tests"),
    cached("platforms", "install the standard libraries of macOS, Windows, WASI and static Linux"),
    Step {
        needs: &["platforms"],
        ..cached(
            "features",
            "clippy for the SDK on WASI, and for the library without the command line",
        )
    },
    Step {
        needs: &["fetch"],
        ..cached(
            "package",
            "package each crate, and compile the examples of the guide outside the repository",
        )
    },
    Step { needs: &["platforms"], ..cached("macos", "clippy for macOS") },
    Step { needs: &["platforms"], ..cached("windows", "clippy for Windows") },
    Step {
        needs: &["platforms", "wine"],
        ..cached("windows-run", "the Windows program under Wine")
    },
    Step {
        needs: &["fetch", "platforms", "dist-tools"],
        ..cached("dist", "make the archives of a release, and install them on a bare Debian system")
    },
    Step { needs: &["fetch", "tools"], ..cached("fuzz", "a short fuzz of each target") },
    Step { needs: &["build-tests", "peers"], ..step("interop", "tests with third-party programs") },
    Step {
        needs: &["build-tests", "vscode-tools"],
        after: &["web"],
        alone: true,
        ..step("pages", "the web pages of the real program in a browser")
    },
    Step {
        needs: &["build-tests"],
        ..step("clients", "the TypeScript library for editors: types, build, tests")
    },
    Step {
        needs: &["build-tests", "vscode-tools"],
        after: &["web", "clients"],
        alone: true,
        ..step("vscode", "the VS Code extension: types, package, tests in a real VS Code")
    },
    release("demo", "a conversation through a real chain"),
    release("picture", "make the picture of the chat in the guide"),
    Step {
        needs: &["fetch"],
        ..release("walk", "follow the README from the first chat to a first proxy in an editor")
    },
    Step { needs: &["fetch"], ..step("licences", "licences and sources of dependencies") },
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

/// The steps of `--quick`: no third-party programs, no optimised build.
const QUICK: [Step; 4] = [
    step("format", "cargo fmt"),
    step("tidy", "the house rules"),
    step("lints", "clippy"),
    step("quick-tests", "all tests that need no third-party program and no optimised build"),
];

const FULL_INTRODUCTION: &str = "\
All checks. On a fresh machine with 2 processors, they take about 45 minutes, most of it to build third-party programs.
These are cached: later runs take less than 15 minutes. `--quick` takes some minutes.";

const QUICK_INTRODUCTION: &str = "\
Checks without third-party programs. On 2 processors, they take about 8 minutes on a fresh machine, and 3 minutes later.";

pub fn start(arguments: &[String]) -> Result<(), String> {
    // The command may be called from any folder of the project.
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
        "Two steps run at a time, but the tests run alone. The logs are in {}\n",
        logs.display()
    );
    for (number, step) in (1..).zip(steps) {
        eprintln!("  {number:2}. {}: {}", step.name, step.about);
    }
    eprintln!();
    let program = env::current_exe().map_err(|error| format!("the path of xtask: {error}"))?;
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
        let done = runner::run(steps, |step| run_step(&program, step, &logs), printer);
        drop(over);
        done
    });
    eprintln!("\n{}", runner::summary(&done, began.elapsed()));
    match done.iter().all(|it| it.outcome == Outcome::Passed) {
        true => Ok(()),
        false => Err(format!("The output of each step is in {}", logs.display())),
    }
}

/// The folder of the steps' logs.
fn logs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target").join("xtask-test")
}

/// Runs a step in its own process, with its output in a log file. Returns whether it passed.
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

    fn ended(&self, number: usize, done: &StepResult) {
        let StepResult { name, outcome, took } = done;
        self.running.lock().expect("no panic").retain(|(running, _)| running != name);
        let end = match outcome {
            Outcome::Passed => format!("passed, {}", time(*took)),
            Outcome::Failed => format!("FAILED, {}", time(*took)),
            Outcome::Skipped(needed) => format!("skipped: it needs {needed}"),
        };
        eprintln!("[{number:2}/{}] {name}: {end}", self.count);
        if *outcome == Outcome::Failed {
            let path = log(&self.logs, name);
            let lines = excerpt::of(&path);
            eprintln!("{}\n        the whole output is in {}", lines.join("\n"), path.display());
        }
    }
}

/// Runs one step.
fn only(name: &str) -> Result<(), String> {
    match name {
        "peers" => peers::ensure().map(drop),
        "tools" => tools(),
        "wine" => wine::install(),
        "dist-tools" => dist::check::install_tools(),
        "dist" => dist::check::run_all(),
        "format" => {
            platforms::component("fmt", "rustfmt")?;
            run(&mut command(&["fmt", "--all", "--check"]))
        }
        "tidy" => tidy::run(),
        "web" => web::check_and_test_units(),
        "pages" => web::test_pages(),
        "clients" => vscode::test_clients(),
        "vscode-tools" => vscode::install(),
        "vscode" => vscode::test(),
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
            test_programs()?;
            let journals = empty_folder(&journals().join(name))?;
            let ours = tests(&["--lib", "--bins"], |it| !it.peers && !it.slow, Some(&journals));
            // These tests measure time and memory, so their chains are not recorded.
            let slow = tests(&[], |it| !it.peers && it.slow, None);
            let docs = run(&mut command(&["test", "--workspace", "--doc"]));
            ours.and(slow).and(docs)
        }
        "interop" => tests(&[], |it| it.peers, Some(&empty_folder(&journals().join(name))?)),
        // Those that replay identically are removed, because they take hundreds of megabytes.
        "replay" => run(cargo_run("testkit", "replay").arg("--remove").arg(journals()))
            .map_err(|error| format!("{error}: run the steps tests and interop first")),
        "quick-tests" => {
            test_programs()?;
            tests(&["--lib", "--bins"], |it| !it.peers && !it.slow, None)
        }
        "demo" => demo::run(),
        // Whether the picture has changed is for a person to check.
        "picture" => picture::make().map(drop),
        "walk" => walk::run_walk(&["--built".to_owned()]),
        "licences" => licences::check(),
        "windows-run" => wine::smoke_test(),
        "fuzz" => fuzz::run_briefly(),
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

/// Fetches the dependencies of all platforms, because the step licences reads them offline. Also those of the packages outside
/// the workspace.
fn fetch() -> Result<(), String> {
    run(&mut command(&["fetch", "--locked"]))?;
    run(&mut command(&["fetch", "--locked", "--manifest-path", "fuzz/Cargo.toml"])).map_err(
        |error| {
            format!(
                "{error}\nif the dependencies of the project's crates have changed, run: \
             cargo update --workspace --manifest-path fuzz/Cargo.toml"
            )
        },
    )
}

fn tools() -> Result<(), String> {
    // libFuzzer is written in C++.
    ensure_installed("c++", &["--version"], "g++")?;
    test_programs()
}

/// Installs the programs that tests run: those of the commands in the guide and of hook scripts, shells, for
/// completion, a terminal, and a reader of manual pages.
fn test_programs() -> Result<(), String> {
    ensure_all_installed(&[
        ("jq", &["--version"], "jq"),
        ("python3", &["--version"], "python3"),
        ("bash", &["--version"], "bash"),
        ("zsh", &["--version"], "zsh"),
        ("fish", &["--version"], "fish"),
        ("elvish", &["-version"], "elvish"),
        ("tmux", &["-V"], "tmux"),
        // It has no option that only prints its version.
        ("mandoc", &["/dev/null"], "mandoc"),
    ])
}

/// Runs the wanted test programs, and those of the options `more`. All run, even if one fails. Their chains are
/// recorded in `journals`.
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

/// The folder of the recorded journals, by step.
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
