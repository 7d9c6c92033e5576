//! The crates as other projects use them: their features, their packages, and the examples of the guide.

mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use page::{Example, Page};
use serde_json::Value;

use crate::cache::KeptBuilds;
use crate::platforms::WASI;
use crate::test::DENY_WARNINGS;
use crate::tool::{at, cargo, run, said};

/// The crates that compile for WASI without their default features.
const FOR_WASI: [&str; 3] = ["acp-wire", "acp-proxy-core", "acp-proxy"];

/// Checks the crates without their default features: the SDK for WASI, and the library of the conductor without
/// the command line.
pub fn check_features() -> Result<(), String> {
    let builds = KeptBuilds::open()?;
    let clippy = |arguments: &[&str]| {
        let mut command = Command::new(cargo());
        command.args(["clippy", "--lib", "--no-default-features"]).args(arguments);
        run(builds.apply(&mut command).args(DENY_WARNINGS))
    };
    let for_wasi: Vec<&str> = FOR_WASI.iter().flat_map(|name| ["-p", name]).collect();
    clippy(&[&for_wasi[..], &["--target", WASI]].concat())?;
    clippy(&["-p", "acp-conductor"])
}

/// Packages all crates that are published, and compiles each package. Then compiles the examples of the guide
/// against the packages, in a folder outside the repository.
pub fn check_packages() -> Result<(), String> {
    let builds = KeptBuilds::open()?;
    let packages = Packages::read()?;
    packages.check_metadata()?;
    let mut package = Command::new(cargo());
    package.args(["package", "--workspace", "--allow-dirty", "--locked"]);
    package.args(packages.private.iter().flat_map(|name| ["--exclude", name]));
    run(builds.apply(&mut package))?;
    let folder = std::env::temp_dir().join(format!("conductor-examples-{}", std::process::id()));
    let checked = check_examples(&folder, &packages, &builds);
    // After a failure the folder stays: its path is in the errors of the compiler.
    checked.and_then(|()| fs::remove_dir_all(&folder).map_err(at(&folder)))
}

/// The packages of the workspace.
struct Packages {
    /// Those that are published, as `cargo metadata` describes them.
    published: Vec<Value>,
    /// The names of the others.
    private: Vec<String>,
}

impl Packages {
    fn read() -> Result<Packages, String> {
        let text =
            said(Command::new(cargo()).args(["metadata", "--no-deps", "--format-version", "1"]))?;
        let metadata: Value =
            serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
        let all = metadata["packages"].as_array().cloned().unwrap_or_default();
        let is_private = |it: &Value| it["publish"].as_array().is_some_and(Vec::is_empty);
        let (private, published) = all.into_iter().partition::<Vec<Value>, _>(is_private);
        let private = private.iter().map(|it| name(it).to_owned()).collect();
        Ok(Packages { published, private })
    }

    /// Everything that a reader of crates.io looks for is there.
    fn check_metadata(&self) -> Result<(), String> {
        for package in &self.published {
            for key in ["description", "license", "repository", "readme", "rust_version"] {
                if package[key].as_str().is_none_or(str::is_empty) {
                    return Err(format!("the package {} has no {key}", name(package)));
                }
            }
            for key in ["keywords", "categories"] {
                if package[key].as_array().is_none_or(Vec::is_empty) {
                    return Err(format!("the package {} has no {key}", name(package)));
                }
            }
            let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
            for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
                let path = manifest.with_file_name(licence);
                fs::metadata(&path).map_err(at(&path))?;
            }
        }
        Ok(())
    }

    /// Lets a project use the packages that were just made in the place of those on crates.io.
    fn patch(&self, builds: &KeptBuilds) -> String {
        let lines = self.published.iter().map(|package| {
            let version = package["version"].as_str().unwrap_or_default();
            let folder =
                builds.target().join("package").join(format!("{}-{version}", name(package)));
            format!("{} = {{ path = {:?} }}\n", name(package), folder.display().to_string())
        });
        "[patch.crates-io]\n".to_owned() + &lines.collect::<String>()
    }
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap_or_default()
}

/// Compiles each example of the guide in a project with the dependencies that its page prints.
fn check_examples(folder: &Path, packages: &Packages, builds: &KeptBuilds) -> Result<(), String> {
    let projects = projects()?;
    fs::create_dir_all(folder).map_err(at(folder))?;
    let members: Vec<String> =
        (0..projects.len()).map(|index| format!("\"project-{index}\"")).collect();
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n{}",
        members.join(", "),
        packages.patch(builds)
    );
    write(&folder.join("Cargo.toml"), &manifest)?;
    // The same versions of all other crates, so that the outcome does not change from day to day.
    let lock = fs::read_to_string("Cargo.lock").map_err(at(Path::new("Cargo.lock")))?;
    write(&folder.join("Cargo.lock"), &lock)?;
    for (index, project) in projects.iter().enumerate() {
        let package = format!("project-{index}");
        let root = folder.join(&package);
        let header = format!("[package]\nname = \"{package}\"\nedition = \"2024\"\n\n");
        write(&root.join("Cargo.toml"), &(header + &project.dependencies))?;
        for example in &project.examples {
            write(&root.join("src/bin").join(example.file_name()), &example.program)?;
        }
    }
    for index in 0..projects.len() {
        let mut check = Command::new(cargo());
        // One at a time: cargo would add up the features of several.
        check.args(["check", "--package", &format!("project-{index}")]).current_dir(folder);
        run(builds.apply(&mut check))?;
    }
    let count: usize = projects.iter().map(|it| it.examples.len()).sum();
    eprintln!("{count} examples compile outside the repository");
    if count == 0 { Err("the guide has no examples".to_owned()) } else { Ok(()) }
}

/// Examples that have the same dependencies.
struct Project {
    dependencies: String,
    examples: Vec<Example>,
}

/// All examples of the README and the guide.
fn projects() -> Result<Vec<Project>, String> {
    let mut paths: Vec<PathBuf> = vec!["README.md".into()];
    for entry in fs::read_dir("docs").map_err(at(Path::new("docs")))? {
        let path = entry.map_err(at(Path::new("docs")))?.path();
        paths.extend(path.extension().is_some_and(|it| it == "md").then_some(path));
    }
    paths.sort();
    let usual = Path::new("docs/proxies.md");
    let usual = Page::read(usual)?
        .dependencies
        .ok_or_else(|| format!("{} has no block with [dependencies]", usual.display()))?;
    let mut projects = Vec::<Project>::new();
    for path in paths {
        let page = Page::read(&path)?;
        let dependencies = page.dependencies.unwrap_or_else(|| usual.clone());
        match projects.iter_mut().find(|it| it.dependencies == dependencies) {
            Some(project) => project.examples.extend(page.examples),
            None if page.examples.is_empty() => {}
            None => projects.push(Project { dependencies, examples: page.examples }),
        }
    }
    Ok(projects)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(at(folder))?;
    fs::write(path, text).map_err(at(path))
}
