//! The steps of `cargo xtask test`: what each does, what it needs, and what it reads.

use std::fs;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;
use std::{env, thread};

use super::change::Change;
use super::flaky::{FlakyTests, RUN};
use super::pool::{EXPECTED, Pool};
use super::programs::{self, Built, TestProgram};
use super::records::{Inputs, Records};
use super::runner::{Folder, Reads, Step};
use super::{DENY_WARNINGS, logs};
use crate::places::index;
use crate::tool::{at, cargo, cargo_run, ensure_all_installed, ensure_installed, root, run};
use crate::{
    demo, dist, fuzz, licences, packages, peers, picture, platforms, tidy, tool, vscode, walk, web,
    wine,
};

const fn step(name: &'static str, about: &'static str) -> Step {
    Step { name, about, folder: Folder::Debug, needs: &[], after: &[], alone: false, reads: None }
}

const fn of(folder: Folder, step: Step) -> Step {
    Step { folder, ..step }
}

const fn needs(needs: &'static [&'static str], step: Step) -> Step {
    Step { needs, ..step }
}

/// A step that is not run again if these files and programs are as they were when it passed.
const fn reads(
    files: &'static [&'static str],
    programs: &'static [&'static str],
    step: Step,
) -> Step {
    Step { reads: Some(Reads { files, programs }), ..step }
}

/// All but the sources that Rust does not compile.
const RUST: &[&str] = &["", "!web", "!editors", "!clients", "!peers"];

/// What `conductor` and the checks themselves are built from. The built pages are left out: these checks show none. The step
/// `release` compiles a program with them.
const PROGRAM: &[&str] = &[
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "crates",
    "examples",
    "xtask",
    "!crates/*/tests",
    "!crates/testkit/src",
    "!crates/web/dist",
    "!examples/tests",
];

/// [`PROGRAM`], and what a release contains besides.
const RELEASE: &[&str] = &[
    ".cargo",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "crates",
    "deny.toml",
    "docs/install.md",
    "examples",
    "install.sh",
    "xtask",
    "!crates/*/tests",
    "!crates/web/dist",
    "!examples/tests",
];

/// All steps, in the order in which they begin where possible. What is fast and fails often comes first. Third-party
/// programs are installed beside the first tests. Some tests run alone, at the end.
pub const STEPS: [Step; 33] = [
    step("format", "cargo fmt"),
    step("tidy", "the house rules"),
    step("fetch", "download all dependencies, of all platforms"),
    reads(RUST, &[], step("lints", "clippy")),
    reads(
        &["web", "clients/typescript", "crates/web/dist", "xtask"],
        &["node", "npm"],
        of(
            Folder::Node,
            step("web", "the web pages: the built files are up to date, types, unit tests"),
        ),
    ),
    of(Folder::ThirdParty, step("tools", "install the shells and other programs that tests run")),
    step("build-tests", "build all tests"),
    needs(
        &["build-tests", "tools"],
        step(
            "tests",
            "unit tests, scripts, simulations, real processes; those of the change first",
        ),
    ),
    of(
        Folder::ThirdParty,
        step("peers", "build third-party editors, proxies, agents and conductors to test against"),
    ),
    of(
        Folder::Node,
        step(
            "vscode-tools",
            "install VS Code as a server, a browser, a packager of extensions, and a published agent",
        ),
    ),
    of(
        Folder::Cached,
        step(
            "platforms",
            "install the standard libraries of macOS, Windows, WASI and static Linux",
        ),
    ),
    of(Folder::ThirdParty, step("wine", "install Wine and a C compiler for Windows")),
    of(
        Folder::ThirdParty,
        step("dist-tools", "install an emulator and make a bare Debian system, to test releases"),
    ),
    of(
        Folder::Release,
        step("release", "build the optimised program: tests about speed and memory use it"),
    ),
    reads(RUST, &[], step("docs", "rustdoc without warnings")),
    needs(
        &["build-tests"],
        reads(RUST, &[], step("doc-tests", "the examples in the documentation of the code")),
    ),
    needs(
        &["fetch"],
        reads(
            &[
                "Cargo.lock",
                "Cargo.toml",
                "crates/*/Cargo.toml",
                "examples/Cargo.toml",
                "fuzz/Cargo.lock",
                "deny.toml",
                "xtask",
            ],
            &[],
            step("licences", "licences and sources of dependencies"),
        ),
    ),
    needs(
        &["platforms"],
        reads(
            RUST,
            &[],
            of(
                Folder::Cached,
                step(
                    "features",
                    "clippy for the SDK on WASI, and for the library without the command line",
                ),
            ),
        ),
    ),
    needs(
        &["fetch"],
        reads(
            RUST,
            &[],
            of(
                Folder::Cached,
                step(
                    "package",
                    "package each crate, and compile the examples of the guide outside the repository",
                ),
            ),
        ),
    ),
    needs(&["platforms"], reads(RUST, &[], of(Folder::Cached, step("macos", "clippy for macOS")))),
    needs(
        &["platforms"],
        reads(RUST, &[], of(Folder::Cached, step("windows", "clippy for Windows"))),
    ),
    needs(
        &["platforms", "wine"],
        reads(
            PROGRAM,
            &["wine", "wine64"],
            of(Folder::Cached, step("windows-run", "the Windows program under Wine")),
        ),
    ),
    needs(
        &["fetch", "platforms", "dist-tools"],
        reads(
            RELEASE,
            &["qemu-aarch64-static", "shellcheck", "zsh", "busybox"],
            of(
                Folder::Cached,
                step(
                    "dist",
                    "make the archives of a release, and install them on a bare Debian system",
                ),
            ),
        ),
    ),
    needs(
        &["fetch", "tools"],
        reads(RUST, &["c++"], of(Folder::Cached, step("fuzz", "a short fuzz of each target"))),
    ),
    reads(RELEASE, &[], of(Folder::Release, step("demo", "a conversation through a real chain"))),
    reads(
        RELEASE,
        &[],
        of(Folder::Release, step("picture", "make the picture of the chat in the guide")),
    ),
    needs(
        &["fetch"],
        reads(
            RELEASE,
            &[],
            of(
                Folder::Release,
                step("walk", "follow the README from the first chat to a first proxy in an editor"),
            ),
        ),
    ),
    // These run alone: they measure time and memory, or use programs that we cannot change.
    Step {
        alone: true,
        ..needs(
            &["build-tests", "release", "tools"],
            step("slow-tests", "tests with heavy load, and those that measure time and memory"),
        )
    },
    Step {
        alone: true,
        ..needs(&["build-tests", "peers"], step("interop", "tests with third-party programs"))
    },
    Step {
        alone: true,
        after: &["web"],
        ..needs(
            &["build-tests"],
            of(
                Folder::Node,
                step("clients", "the TypeScript library for editors: types, build, tests"),
            ),
        )
    },
    Step {
        alone: true,
        after: &["web"],
        ..needs(
            &["build-tests", "vscode-tools"],
            of(Folder::Node, step("pages", "the web pages of the real program in a browser")),
        )
    },
    Step {
        alone: true,
        after: &["web", "clients"],
        ..needs(
            &["build-tests", "vscode-tools"],
            of(
                Folder::Node,
                step("vscode", "the VS Code extension: types, package, tests in a real VS Code"),
            ),
        )
    },
    Step {
        after: &["interop", "tests"],
        ..step("replay", "the journals of all chains of the tests replay identically")
    },
];

/// The steps of `--quick`: no third-party programs, no optimised build.
pub const QUICK: [Step; 4] = [
    step("format", "cargo fmt"),
    step("tidy", "the house rules"),
    step("lints", "clippy"),
    step("quick-tests", "all tests that need no third-party program and no optimised build"),
];

/// Runs one step. In a run of all steps, it also tells how much processor time that took.
pub fn run_step(name: &str) -> Result<(), String> {
    if env::var_os(RUN).is_none() {
        return perform(name);
    }
    end_with_parent();
    let done = perform(name);
    let path = processor_time_file(name);
    fs::write(&path, processor_seconds().to_string()).map_err(at(&path))?;
    done
}

/// The file to which a step writes its processor time, in seconds.
pub fn processor_time_file(step: &str) -> PathBuf {
    logs().join(format!("{step}.seconds"))
}

/// The processor time of this process and of all processes that it has waited for. Linux counts in hundredths of a second.
fn processor_seconds() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the name of the program, in brackets. Four times follow after eleven other fields.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(4).filter_map(|it| it.parse::<u64>().ok()).sum::<u64>() / 100
}

fn perform(name: &str) -> Result<(), String> {
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
        "build-tests" => programs::build(&programs::BUILD).map(drop),
        "tests" => {
            test_programs()?;
            tests(name, |it| !it.peers && !it.slow)
        }
        // Their chains are not recorded, because recording takes time and memory.
        "slow-tests" => {
            tool::release()?;
            tests(name, |it| !it.peers && it.slow)
        }
        "interop" => tests(name, |it| it.peers),
        "doc-tests" => run(&mut command(&["test", "--workspace", "--doc"])),
        "replay" => replay_all(),
        "quick-tests" => {
            test_programs()?;
            tests(name, |it| !it.peers && !it.slow)
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

/// Ends the processes of a group, whose number is that of its first process.
pub fn end_group(number: u32) {
    let _ = Command::new("kill").args(["-TERM", "--", &format!("-{number}")]).status();
}

/// Ends all processes of this step if the run of all tests is ended: the terminal only ends the processes in its
/// foreground.
fn end_with_parent() {
    let parent = parent_id();
    thread::spawn(move || {
        while parent_id() == parent {
            thread::sleep(Duration::from_millis(500));
        }
        end_group(process::id());
    });
}

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

const TEST_PROGRAMS: [tool::Requirement; 8] = [
    ("jq", &["--version"], "jq"),
    ("python3", &["--version"], "python3"),
    ("bash", &["--version"], "bash"),
    ("zsh", &["--version"], "zsh"),
    ("fish", &["--version"], "fish"),
    ("elvish", &["-version"], "elvish"),
    ("tmux", &["-V"], "tmux"),
    // It has no option that only prints its version.
    ("mandoc", &["/dev/null"], "mandoc"),
];

/// Installs the programs that tests run: those of the commands in the guide and of hook scripts, shells, for
/// completion, a terminal, and a reader of manual pages.
fn test_programs() -> Result<(), String> {
    ensure_all_installed(&TEST_PROGRAMS)
}

/// Builds all test programs, and runs the wanted ones.
fn tests(step: &str, wanted: impl Fn(&TestProgram) -> bool) -> Result<(), String> {
    let Built { tests, programs: built } = programs::build(&programs::BUILD)?;
    let mut programs = Inputs::of_this_machine();
    for program in &built {
        programs.add(program);
        programs.add_file(program)?;
    }
    for program in TEST_PROGRAMS {
        programs.add_program(program.0);
    }
    let wanted: Vec<TestProgram> = tests.into_iter().filter(wanted).collect();
    if wanted.iter().any(|it| it.peers) {
        programs.add_file(&index())?;
        programs.add_program("node");
    }
    if wanted.iter().any(|it| it.slow) {
        let folder = tool::release()?;
        for name in ["conductor", "transparent", "stub_agent"] {
            programs.add_file(&folder.join(name))?;
        }
    }
    let records_chains = ["tests", "interop"].contains(&step);
    let journals = records_chains.then(|| empty_folder(&journals().join(step))).transpose()?;
    let pool = Pool {
        root: root(),
        logs: logs().join(step),
        records: Records::open(false),
        change: Change::read(),
        flaky: FlakyTests::of_this_run(),
        programs,
        journals,
    };
    pool.run(wanted)
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

/// Replays the recorded journals. Those that replay identically are removed, because they take hundreds of megabytes.
fn replay_all() -> Result<(), String> {
    let ran = ["tests", "interop"].iter().any(|it| journals().join(it).join(EXPECTED).exists());
    if !ran && env::var_os(RUN).is_some() {
        println!("no test of this run has started a chain: the tests have records");
        return Ok(());
    }
    run(cargo_run("testkit", "replay").arg("--remove").arg(journals()))
        .map_err(|error| format!("{error}: run the steps tests and interop first"))
}

#[cfg(test)]
mod tests {
    use super::super::records::{Project, is_below};
    use super::*;

    /// Files that no check depends on.
    const UNCHECKED: &[&str] = &[".ci", ".gitattributes", "fuzz/.gitignore"];

    #[test]
    fn each_file_of_the_project_is_an_input_of_a_step() {
        let project = Project::read(root()).expect("a git repository");
        // The steps with test programs and test files have records of their own, which have the whole package.
        let others = ["web", "clients", "editors/vscode", "crates", "examples/tests", "peers"];
        let read = |name: &Path| {
            let steps = STEPS.iter().filter_map(|step| step.reads);
            is_below(name, &others) || steps.into_iter().any(|it| is_below(name, it.files))
        };
        let unread: Vec<&Path> =
            project.names().filter(|it| !is_below(it, UNCHECKED) && !read(it)).collect();
        assert!(unread.is_empty(), "{unread:?}");
    }

    #[test]
    fn a_change_of_the_program_runs_each_step_that_starts_it() {
        let program = Path::new("crates/guards/src/filter.rs");
        for name in ["lints", "package", "macos", "windows", "windows-run", "dist", "fuzz", "walk"]
        {
            let step = STEPS.iter().find(|it| it.name == name).expect(name);
            assert!(is_below(program, step.reads.expect("a record").files), "{name}");
        }
        let dist =
            STEPS.iter().find(|it| it.name == "dist").expect("dist").reads.expect("a record");
        assert!(is_below(Path::new("docs/install.md"), dist.files));
        assert!(!is_below(Path::new("docs/faq.md"), dist.files));
        assert!(!is_below(Path::new("crates/router/tests/scripts/a.rs"), dist.files));
    }
}
