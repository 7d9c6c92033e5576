//! The step `clients`: the TypeScript library for editors, in `clients/typescript`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool::{at, root, run};
use crate::web::{check_types, debug_program, modules, tests};

pub fn folder() -> PathBuf {
    root().join("clients/typescript")
}

/// Builds the package.
pub fn build() -> Result<(), String> {
    run(Command::new("node").arg("build.mjs").current_dir(folder()))
}

/// Checks the types, builds the package, runs the tests with the real program, and plays the scenarios.
pub fn test() -> Result<(), String> {
    let folder = folder();
    modules::prepare(&folder)?;
    check_types(&folder)?;
    build()?;
    run(Command::new("node")
        .args(["--test", "--test-concurrency=2", "--test-reporter=spec"])
        .args(tests(&folder, "test", "")?)
        .args(scenarios(&folder)?)
        .env("CONDUCTOR_BIN", debug_program()?)
        .current_dir(&folder))
}

/// The test files of the scenarios, each in its own folder.
fn scenarios(folder: &Path) -> Result<Vec<String>, String> {
    let all = folder.join("scenarios");
    let names = fs::read_dir(&all).map_err(at(&all))?.flatten().map(|it| it.file_name());
    let found = names.map(|it| tests(folder, &format!("scenarios/{}", it.to_string_lossy()), ""));
    let mut found = found.collect::<Result<Vec<_>, _>>()?.concat();
    found.sort();
    Ok(found)
}
