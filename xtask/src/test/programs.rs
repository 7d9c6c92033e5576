//! The test programs of the workspace, and what each of them reads when it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::records::{Inputs, Project};
use crate::tool::{at, cargo, output_of};

/// Builds everything that tests run: the test programs, and all programs of the workspace. One command builds all,
/// because the dependencies would get other features for another choice of packages.
pub const BUILD: [&str; 3] = ["build", "--workspace", "--all-targets"];

/// Tells tests that all programs of the workspace are built.
pub const BUILT: &str = "CONDUCTOR_TESTS_BUILT";

/// The packages whose tests start no program. Their other tests are the unit tests of their library.
const WITHOUT_PROGRAMS: [&str; 5] =
    ["acp-wire", "acp-conductor-router", "acp-conductor-mcp", "acp-conductor-engine", "fuzzing"];

/// The files outside of its package that a test program reads when it runs. A test compares this list with the sources.
const READS: [(&str, &[&str]); 10] = [
    // Searches the sources of all components.
    (
        "acp-conductor-components::components",
        &["crates/component-base/src", "crates/guards/src", "crates/proxies/src"],
    ),
    ("acp-conductor::conductor", &["docs/errors.md"]),
    ("acp-conductor::configuration", &["docs"]),
    // Runs the commands of the guide in the whole project.
    ("acp-conductor::docs", &[""]),
    ("acp-conductor::errors", &["docs/errors.md"]),
    ("acp-conductor::interop", &["examples", "docs", "README.md"]),
    ("bench::bench", &["BENCHMARKS.md"]),
    ("acp-conductor-web::acp_conductor_web", &["clients/typescript/src"]),
    ("fuzzing::corpus", &["fuzz"]),
    ("xtask::xtask", &[""]),
];

/// A program with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestProgram {
    pub package: String,
    /// The name that `cargo test --test` takes, or that of the library or program.
    pub target: String,
    /// Its file.
    pub file: PathBuf,
    /// The folder of the package, in which it runs.
    pub folder: PathBuf,
    /// Its source files: a file and, for a folder with `main.rs`, that folder.
    pub source: PathBuf,
    /// Needs third-party programs, because it reads their index.
    pub peers: bool,
    /// Uses the release build, or runs for minutes. It runs alone.
    pub slow: bool,
}

impl TestProgram {
    /// `package::target`.
    pub fn name(&self) -> String {
        format!("{}::{}", self.package, self.target)
    }

    /// Adds what the program reads and runs. `programs` are the programs of the workspace.
    pub fn add_inputs(
        &self,
        project: &Project,
        root: &Path,
        programs: &Inputs,
    ) -> Result<u64, String> {
        let starts_none = WITHOUT_PROGRAMS.contains(&&*self.package);
        let mut inputs = if starts_none { Inputs::of_this_machine() } else { programs.clone() };
        inputs.add_file(&self.file)?;
        let own = self.folder.strip_prefix(root).unwrap_or(&self.folder).to_string_lossy();
        let name = self.name();
        let more = READS.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, reads)| reads);
        project.add_to(&mut inputs, &[&[&*own, "crates/testkit"], more].concat());
        Ok(inputs.sum())
    }

    /// The command that runs it as Cargo does.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.folder).stdin(Stdio::null()).env(BUILT, "1");
        command.env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        command
    }
}

/// What the build of the workspace has made.
#[derive(Debug, Default)]
pub struct Built {
    pub tests: Vec<TestProgram>,
    /// The other programs of the workspace: the conductor, and components of tests and examples.
    pub programs: Vec<PathBuf>,
}

/// Builds everything that tests run, and returns the list.
pub fn build(arguments: &[&str]) -> Result<Built, String> {
    let mut build = Command::new(cargo());
    build.args(arguments).args(["--message-format", "json-render-diagnostics"]);
    let output = output_of(build.stderr(Stdio::inherit()))?;
    let mut built = Built::default();
    for line in output.lines() {
        let message: Value =
            serde_json::from_str(line).map_err(|error| format!("cargo: {error}"))?;
        let Some(file) = message["executable"].as_str().map(PathBuf::from) else { continue };
        match message["profile"]["test"] == true {
            true => built.tests.push(test_program(&message, file)?),
            false => built.programs.push(file),
        }
    }
    built.programs.sort();
    Ok(built)
}

fn test_program(message: &Value, file: PathBuf) -> Result<TestProgram, String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let source = PathBuf::from(word(&message["target"]["src_path"]));
    let manifest = PathBuf::from(word(&message["manifest_path"]));
    let target = word(&message["target"]["name"]);
    let is_test = message["target"]["kind"][0] == "test";
    let (mut peers, mut slow) = (false, is_test && target == "endurance");
    let files = match source.ends_with("main.rs") && is_test {
        true => list(source.parent().unwrap_or(&source))?,
        false => vec![source.clone()],
    };
    for file in files.iter().filter(|it| is_test && it.extension().is_some_and(|it| it == "rs")) {
        let text = fs::read_to_string(file).map_err(at(file))?;
        peers |= text.contains("Peers::load");
        slow |= text.contains("release_binary(\"");
    }
    let folder = manifest.parent().ok_or("a package has no folder")?.to_owned();
    let manifest_text = fs::read_to_string(&manifest).map_err(at(&manifest))?;
    Ok(TestProgram {
        package: package_name(&manifest_text),
        target,
        file,
        folder,
        source,
        peers,
        slow,
    })
}

/// The name in a manifest of this workspace. The identifiers of packages in Cargo's messages have several forms.
fn package_name(manifest: &str) -> String {
    let lines = manifest.lines().skip_while(|it| *it != "[package]");
    let mut names = lines.filter_map(|it| it.strip_prefix("name = "));
    names.next().unwrap_or_default().trim_matches('"').to_owned()
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    entries.map(|it| it.map(|it| it.path()).map_err(at(folder))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::checkout;
    use super::*;
    use crate::tool::root;

    /// The package and the test program of a source file, if it is known.
    fn owner(name: &Path) -> Option<(String, String)> {
        let words: Vec<&str> = name.iter().filter_map(|it| it.to_str()).collect();
        let ["crates", folder, kind, rest, ..] = words[..] else { return None };
        let manifest = root().join("crates").join(folder).join("Cargo.toml");
        let package = package_name(&fs::read_to_string(manifest).ok()?);
        let target = match kind {
            "tests" => rest.trim_end_matches(".rs").to_owned(),
            _ if words.ends_with(&["commands", "error_page.rs"]) => "conductor".to_owned(),
            _ => package.replace('-', "_"),
        };
        Some((package, target))
    }

    #[test]
    fn a_test_that_reads_files_of_other_folders_is_in_the_list() {
        let mut missing = Vec::new();
        for name in checkout::files(root()).expect("a git repository") {
            let text = fs::read_to_string(root().join(&name)).unwrap_or_default();
            let mut lines = text.lines().filter(|line| {
                line.contains("CARGO_MANIFEST_DIR")
                    && (line.contains("../..") || line.contains("/../"))
            });
            let Some((package, target)) = owner(&name).filter(|_| lines.next().is_some()) else {
                continue;
            };
            let known = READS.iter().any(|(of, _)| *of == format!("{package}::{target}"));
            if !known && package != "testkit" {
                missing.push(format!("{package}::{target}: {}", name.display()));
            }
        }
        assert!(missing.is_empty(), "{missing:#?}");
    }

    #[test]
    fn the_packages_that_start_no_program_start_none() {
        for name in checkout::files(root()).expect("a git repository") {
            let Some((package, _)) = owner(&name) else { continue };
            if WITHOUT_PROGRAMS.contains(&&*package)
                && name.extension().is_some_and(|it| it == "rs")
            {
                let text = fs::read_to_string(root().join(&name)).expect("readable");
                let starts = ["Command::new", "test_chain", "CARGO_BIN_EXE", "binary("];
                let found = starts.iter().find(|it| text.contains(**it));
                assert_eq!(found, None, "{}", name.display());
            }
        }
    }

    #[test]
    fn the_name_of_a_package_is_found() {
        let manifest = "bin = [\n    { name = \"a\" },\n]\n\n[package]\nname = \"testkit\"\n\n[dependencies]\nname = \"x\"\n";
        assert_eq!(package_name(manifest), "testkit");
    }
}
