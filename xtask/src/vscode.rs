//! `cargo xtask vscode`: builds, packages and tests the VS Code extension in `editors/vscode`.
//!
//! The tests run in a real VS Code: code-server, whose window Chromium shows.

mod clients;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use clients::{stress as stress_clients, test as test_clients};
pub use tools::goose;
use tools::{Node, Tools};

use crate::test::node::{self, NodeTests};
use crate::tool::{at, root, run, target};
use crate::web::{Work, check_types, debug_program, modules, tests};

pub const USAGE: &str = "\
vscode           check the types of the VS Code extension, build it, and write target/vscode/conductor.vsix
  vscode --test [FILTER]
                   run the unit tests of the extension, and its tests in a real VS Code, whose files contain FILTER
  vscode --stress FILTER
                   run these test files 30 times beside three busy loops
  vscode --pictures
                   write the pictures of the extension in editors/vscode/images and docs/pictures";

/// The folder of the extension.
const FOLDER: &str = "editors/vscode";

/// The largest package that we ship, in bytes.
const LARGEST: u64 = 1 << 20;

pub fn run_command(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => package(&Node::installed()?).map(|path| println!("{}", path.display())),
        ["--test"] => test_all("", node::run),
        ["--test", filter] => test_all(filter, node::run),
        ["--stress", filter] => stress(filter),
        ["--pictures"] => pictures(),
        _ => Err(format!("usage: cargo xtask {USAGE}")),
    }
}

/// The step `vscode-tools`.
pub fn install() -> Result<(), String> {
    Tools::installed()?;
    install_packages()
}

/// The step `vscode`.
pub fn test() -> Result<(), String> {
    test_all("", node::run)
}

/// Runs test files many times beside busy loops.
pub fn stress(filter: &str) -> Result<(), String> {
    test_all(filter, node::stress)
}

fn extension() -> PathBuf {
    root().join(FOLDER)
}

/// Installs the packages of the sources that the extension is built from.
fn install_packages() -> Result<(), String> {
    for sources in [clients::folder(), root().join("web"), extension()] {
        modules::prepare(&sources)?;
    }
    Ok(())
}

/// Checks the types, builds the extension, and packages it. Returns the path of the package.
fn package(node: &Node) -> Result<PathBuf, String> {
    let folder = extension();
    install_packages()?;
    check_types(&folder)?;
    run(node.command().arg("build.mjs").current_dir(&folder))?;
    let place = target()?.join("vscode");
    let package = place.join("conductor.vsix");
    fs::create_dir_all(&place).map_err(at(&place))?;
    let mut vsce = node.command();
    vsce.arg("node_modules/@vscode/vsce/vsce")
        .args(["package", "--no-dependencies", "--out"])
        .arg(&package);
    run_without_warnings(vsce.current_dir(&folder))?;
    let size = fs::metadata(&package).map_err(at(&package))?.len();
    if size >= LARGEST {
        let path = package.display();
        return Err(format!("{path} has {size} bytes, and should have less than {LARGEST}"));
    }
    Ok(package)
}

/// Runs vsce, which succeeds although it warns.
fn run_without_warnings(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    eprintln!("{said}");
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status));
    }
    match said.contains("WARN") {
        true => Err(format!("{command:?} warns:\n{said}")),
        false => Ok(()),
    }
}

fn test_all(filter: &str, work: Work) -> Result<(), String> {
    let units = tests(&extension(), "test/units", filter)?;
    let windows = tests(&extension(), "test", filter)?;
    if units.is_empty() && windows.is_empty() {
        return Err(format!("no test file in editors/vscode/test contains {filter} in its name"));
    }
    let tools = Tools::installed()?;
    let package = package(&tools.node)?;
    let reads = &["web", "clients/typescript", "crates/web/dist"];
    if !units.is_empty() {
        let command = || {
            let mut test = tools.node.command();
            test.arg(root().join(node::RUNNER));
            test
        };
        let program = tools.node.program();
        let programs = &[&*program];
        work(&NodeTests { folder: FOLDER, files: &units, reads, programs, command: &command })?;
    }
    if windows.is_empty() {
        return Ok(());
    }
    // The scenarios are those of the library.
    clients::build()?;
    let program = debug_program()?;
    let command = || {
        let mut test = tools.node.command();
        test.arg(root().join(node::RUNNER)).arg("--browser");
        with_program(&mut test, &tools, &package, &program);
        test
    };
    // The name of its folder has the version of code-server.
    let code_server = tools.code_server.join("package.json");
    let mut programs = vec![&*program, &tools.browser, &code_server];
    programs.extend(tools.goose.as_deref());
    let node = tools.node.program();
    programs.push(&node);
    work(&NodeTests {
        folder: FOLDER,
        files: &windows,
        reads,
        programs: &programs,
        command: &command,
    })
}

fn pictures() -> Result<(), String> {
    let tools = Tools::installed()?;
    let package = package(&tools.node)?;
    let mut node = tools.node.command();
    node.args(["--test", "--test-reporter=spec", "test/pictures.mjs"]);
    with_program(&mut node, &tools, &package, &debug_program()?);
    run(node.current_dir(extension()))
}

/// Tells the tests which programs they run.
fn with_program(command: &mut Command, tools: &Tools, package: &Path, program: &Path) {
    if let Some(goose) = &tools.goose {
        command.env("CONDUCTOR_GOOSE", goose);
    }
    command
        .env("CONDUCTOR_BIN", program)
        .env("CONDUCTOR_CODE_SERVER", &tools.code_server)
        .env("CONDUCTOR_CHROMIUM", &tools.browser)
        .env("CONDUCTOR_VSIX", package);
}
