//! `cargo xtask web`: builds, checks and tests the web pages in `web/`.
//!
//! The built files are in the repository, in `crates/web/dist`, so that Rust alone builds the program.

pub mod modules;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::test::flaky::RUN;
use crate::test::node::{self, NodeTests};
use crate::test::programs;
use crate::tool::{at, cargo, copy_folder, ensure_all_installed, root, run, target};
use crate::vscode;

pub const USAGE: &str = "\
web              check the types of the web pages, and build them into crates/web/dist
  web --check      check that crates/web/dist is what the sources give
  web --test [FILTER]
                   run the unit tests and the browser tests of the web pages whose files contain FILTER
  web --stress FILTER
                   run these test files 30 times beside three busy loops
  web --pictures   write the pictures of the studio in docs/pictures";

pub fn run_command(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            prepare()?;
            check_types(&web())?;
            run(Command::new("node").arg("build.mjs").current_dir(web()))
        }
        ["--check"] => check(),
        ["--test"] => test_all(""),
        ["--test", filter] => test_all(filter),
        ["--stress", filter] => stress(filter),
        ["--pictures"] => pictures(),
        _ => Err(format!("usage: cargo xtask {USAGE}")),
    }
}

/// Runs test files many times beside busy loops.
pub fn stress(filter: &str) -> Result<(), String> {
    unit_tests(filter, node::stress)?;
    browser_tests(filter, node::stress)
}

/// The step `web`: everything that needs no browser.
pub fn check_and_test_units() -> Result<(), String> {
    check()?;
    unit_tests("", node::run)
}

/// The step `pages`: the browser tests.
pub fn test_pages() -> Result<(), String> {
    browser_tests("", node::run)
}

fn test_all(filter: &str) -> Result<(), String> {
    let all = [tests(&web(), "test/units", filter)?, tests(&web(), "test", filter)?];
    if all.concat().is_empty() {
        return Err(format!("no test file in web/test contains {filter} in its name"));
    }
    unit_tests(filter, node::run)?;
    browser_tests(filter, node::run)
}

fn web() -> PathBuf {
    root().join("web")
}

/// Installs Node and the packages of the lock file.
fn prepare() -> Result<(), String> {
    modules::prepare(&web())
}

/// Installs what the browser tests run: Chromium, and a font that is the same everywhere.
fn install_browser() -> Result<(), String> {
    ensure_all_installed(&[
        ("sh", &["-c", "chromium --version || chromium-headless-shell --version"], "chromium"),
        ("sh", &["-c", "find /usr/share/fonts | grep --quiet DejaVuSansMono"], "fonts-dejavu-core"),
    ])
}

pub fn check_types(folder: &Path) -> Result<(), String> {
    run(Command::new(folder.join("node_modules/.bin/tsc")).arg("--noEmit").current_dir(folder))
}

/// Builds the sources in another folder with the packages of the lock file, and compares the result.
fn check() -> Result<(), String> {
    prepare()?;
    let folder = env::temp_dir().join(format!("conductor-web-{}", std::process::id()));
    let checked = check_in(&folder);
    let _ = fs::remove_dir_all(&folder);
    checked
}

fn check_in(folder: &Path) -> Result<(), String> {
    let (copy, built) = (folder.join("web"), folder.join("built"));
    copy_folder(&web(), &copy, &["node_modules", "dist"])?;
    // Its package.json says which modules have no effect when nothing of them is used.
    let link = Path::new("clients/typescript");
    copy_folder(&root().join(link), &folder.join(link), &["node_modules", "dist"])?;
    modules::link_into(&copy, &modules::installed(&web())?)?;
    check_types(&copy)?;
    run(Command::new("node").args(["build.mjs", "--out"]).arg(&built).current_dir(&copy))?;
    let kept = root().join("crates/web/dist");
    let mut diff = Command::new("diff");
    run(diff.args(["--recursive", "--brief"]).args([&built, &kept])).map_err(|error| {
        format!(
            "crates/web/dist is not what the sources in web/ give: {error}\n\
             Run `cargo xtask web`, and commit crates/web/dist together with your change."
        )
    })
}

/// The test files of a folder below `base` whose names contain `filter`, in order.
pub fn tests(base: &Path, folder: &str, filter: &str) -> Result<Vec<String>, String> {
    let path = base.join(folder);
    let entries = fs::read_dir(&path).map_err(at(&path))?.flatten();
    let names = entries.map(|it| format!("{folder}/{}", it.file_name().to_string_lossy()));
    let mut names: Vec<String> =
        names.filter(|it| it.ends_with(".test.mjs") && it.contains(filter)).collect();
    names.sort();
    Ok(names)
}

/// What is done with test files.
pub type Work = fn(&NodeTests) -> Result<(), String>;

fn unit_tests(filter: &str, work: Work) -> Result<(), String> {
    let names = tests(&web(), "test/units", filter)?;
    if names.is_empty() {
        return Ok(());
    }
    prepare()?;
    let command = || {
        let mut node = Command::new("node");
        node.arg(root().join(node::RUNNER));
        node
    };
    let reads = &["clients/typescript"];
    work(&NodeTests { folder: "web", files: &names, reads, programs: &[], command: &command })
}

fn browser_tests(filter: &str, work: Work) -> Result<(), String> {
    let names = tests(&web(), "test", filter)?;
    if names.is_empty() {
        return Ok(());
    }
    prepare()?;
    install_browser()?;
    let (program, goose) = (debug_program()?, vscode::goose()?);
    let command = || {
        let mut node = Command::new("node");
        if let Some(goose) = &goose {
            node.env("CONDUCTOR_GOOSE", goose);
        }
        node.arg(root().join(node::RUNNER)).arg("--browser").env("CONDUCTOR_BIN", &program);
        node
    };
    let programs: Vec<&Path> = [&program].into_iter().chain(&goose).map(PathBuf::as_path).collect();
    let reads = &["clients/typescript", "crates/web/dist"];
    work(&NodeTests { folder: "web", files: &names, reads, programs: &programs, command: &command })
}

fn pictures() -> Result<(), String> {
    prepare()?;
    install_browser()?;
    let program = debug_program()?;
    run(Command::new("node")
        .args(["--test", "--test-reporter=spec", "pictures.mjs"])
        .env("CONDUCTOR_BIN", program)
        .env("CONDUCTOR_PICTURES", root().join("docs/pictures"))
        .current_dir(web()))
}

/// Builds the program without optimisation, as the tests do. Returns its path.
pub fn debug_program() -> Result<PathBuf, String> {
    if env::var_os(RUN).is_some() {
        // Another choice of packages would have other features, and be built again.
        programs::build(&programs::BUILD)?;
        return Ok(target()?.join("debug/conductor"));
    }
    run(Command::new(cargo()).args(["build", "--package", "acp-conductor"]).current_dir(root()))?;
    Ok(target()?.join("debug/conductor"))
}
