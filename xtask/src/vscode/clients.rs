//! The step `clients`: the TypeScript library for editors, in `clients/typescript`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::node::{self, NodeTests};
use crate::tool::{at, root, run};
use crate::web::{Work, check_types, debug_program, modules, tests};

pub fn folder() -> PathBuf {
    root().join("clients/typescript")
}

/// Builds the package.
pub fn build() -> Result<(), String> {
    run(Command::new("node").arg("build.mjs").current_dir(folder()))
}

/// Checks the types, builds the package, runs the tests with the real program, and plays the scenarios.
pub fn test() -> Result<(), String> {
    run_all("", node::run)
}

/// Runs test files many times beside busy loops.
pub fn stress(filter: &str) -> Result<(), String> {
    run_all(filter, node::stress)
}

fn run_all(filter: &str, work: Work) -> Result<(), String> {
    let folder = folder();
    modules::prepare(&folder)?;
    check_types(&folder)?;
    build()?;
    let program = debug_program()?;
    let command = || {
        let mut node = Command::new("node");
        node.arg(root().join(node::RUNNER)).env("CONDUCTOR_BIN", &program);
        node
    };
    let files = [tests(&folder, "test", filter)?, scenarios(&folder, filter)?].concat();
    // A test compares the library with the studio, which has a page.
    let reads = &["web", "crates/web/dist"];
    let programs = &[&*program];
    work(&NodeTests {
        folder: "clients/typescript",
        files: &files,
        reads,
        programs,
        command: &command,
    })
}

/// The test files of the scenarios, each in its own folder.
fn scenarios(folder: &Path, filter: &str) -> Result<Vec<String>, String> {
    let all = folder.join("scenarios");
    let names = fs::read_dir(&all).map_err(at(&all))?.flatten().map(|it| it.file_name());
    let found =
        names.map(|it| tests(folder, &format!("scenarios/{}", it.to_string_lossy()), filter));
    let mut found = found.collect::<Result<Vec<_>, _>>()?.concat();
    found.sort();
    Ok(found)
}
