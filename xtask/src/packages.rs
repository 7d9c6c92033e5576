//! The crates as other projects use them: their features, their packages, and the examples of the guide.

mod page;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use page::{Example, Page};
use serde_json::Value;

use crate::cache::CachedBuilds;
use crate::platforms::WASI;
use crate::test::DENY_WARNINGS;
use crate::tool::{at, cargo, copy, list, metadata, run, text, write};

/// The crates of the SDK, which other projects use one by one. They compile for WASI without their default features.
const SDK: [&str; 3] = ["acp-wire", "acp-proxy-core", "acp-proxy"];

/// Checks the crates without their default features: the SDK for WASI, and the library of the conductor without
/// the command line.
pub fn check_features() -> Result<(), String> {
    let builds = CachedBuilds::open()?;
    let clippy = |arguments: &[&str]| {
        let mut command = Command::new(cargo());
        command.args(["clippy", "--lib", "--no-default-features"]).args(arguments);
        run(builds.apply(&mut command).args(DENY_WARNINGS))
    };
    let for_wasi: Vec<&str> = SDK.iter().flat_map(|name| ["-p", name]).collect();
    clippy(&[&for_wasi[..], &["--target", WASI]].concat())?;
    clippy(&["-p", "acp-conductor"])
}

/// Packages all crates that are published, and compiles the packages and the examples of the guide in a folder
/// outside the repository.
///
/// Cargo could compile the packages itself. But it unpacks them as it unpacks those of a registry, and never again
/// under the same version, so the second run would compile the sources of the first.
pub fn check_packages() -> Result<(), String> {
    let builds = CachedBuilds::open()?;
    let packages = Packages::read()?;
    packages.check_metadata()?;
    let mut package = Command::new(cargo());
    package.args(["package", "--workspace", "--no-verify", "--allow-dirty", "--locked"]);
    package.args(packages.private.iter().flat_map(|name| ["--exclude", name]));
    run(builds.apply(&mut package))?;
    let outside = Outside::create(builds.target().with_file_name("packages"), &packages, &builds)?;
    // Cargo adds up the features of the packages in one command, and compiles every dependency again for another sum. So
    // each crate of the SDK is checked alone, and the crates of the program together, as it uses them.
    for name in SDK {
        outside.check(&[name], &builds)?;
    }
    let all = packages.published.iter().map(name);
    outside.check(&all.filter(|it| !SDK.contains(it)).collect::<Vec<_>>(), &builds)?;
    for index in 0..outside.projects.len() {
        outside.check(&[&project_name(index)], &builds)?;
    }
    let count: usize = outside.projects.iter().map(|it| it.examples.len()).sum();
    eprintln!("{count} examples compile outside the repository");
    if count == 0 { Err("the guide has no examples".to_owned()) } else { Ok(()) }
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
        let metadata = metadata(&["--no-deps"])?;
        let all: Vec<Value> = list(&metadata["packages"]).cloned().collect();
        let is_private = |it: &Value| it["publish"].as_array().is_some_and(Vec::is_empty);
        let (private, published) = all.into_iter().partition::<Vec<Value>, _>(is_private);
        let private = private.iter().map(|it| name(it).to_owned()).collect();
        Ok(Packages { published, private })
    }

    /// Everything that a reader of crates.io looks for is there.
    fn check_metadata(&self) -> Result<(), String> {
        for package in &self.published {
            for key in ["description", "license", "repository", "readme", "rust_version"] {
                if text(&package[key]).is_empty() {
                    return Err(format!("the package {} has no {key}", name(package)));
                }
            }
            for key in ["keywords", "categories"] {
                if list(&package[key]).next().is_none() {
                    return Err(format!("the package {} has no {key}", name(package)));
                }
            }
            let manifest = Path::new(text(&package["manifest_path"]));
            for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
                let path = manifest.with_file_name(licence);
                fs::metadata(&path).map_err(at(&path))?;
            }
        }
        Ok(())
    }
}

fn name(package: &Value) -> &str {
    text(&package["name"])
}

/// The name and the version of a package, as Cargo names its archive.
fn full_name(package: &Value) -> String {
    format!("{}-{}", name(package), text(&package["version"]))
}

fn project_name(index: usize) -> String {
    format!("project-{index}")
}

/// A folder outside the repository, with the unpacked packages, and projects that depend on them.
struct Outside {
    folder: PathBuf,
    projects: Vec<Project>,
}

impl Outside {
    fn create(
        folder: PathBuf,
        packages: &Packages,
        builds: &CachedBuilds,
    ) -> Result<Outside, String> {
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(at(&folder))?;
        }
        let projects = projects()?;
        let mut members: Vec<String> = (0..projects.len()).map(project_name).collect();
        let mut patch = String::new();
        for package in &packages.published {
            let full_name = full_name(package);
            let archive = builds.target().join("package").join(format!("{full_name}.crate"));
            unpack(&archive, &folder)?;
            writeln!(patch, "{} = {{ path = {full_name:?} }}", name(package)).expect("a String");
            members.push(full_name);
        }
        let manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n[patch.crates-io]\n{patch}"
        );
        write(&folder.join("Cargo.toml"), manifest)?;
        // The same versions of all other crates, so that the outcome does not change from day to day.
        copy(Path::new("Cargo.lock"), &folder.join("Cargo.lock"))?;
        for (index, project) in projects.iter().enumerate() {
            let root = folder.join(project_name(index));
            let header =
                format!("[package]\nname = \"{}\"\nedition = \"2024\"\n\n", project_name(index));
            write(&root.join("Cargo.toml"), header + &project.dependencies)?;
            for example in &project.examples {
                write(&root.join("src/bin").join(example.file_name()), &example.program)?;
            }
        }
        Ok(Outside { folder, projects })
    }

    /// Compiles some packages.
    fn check(&self, packages: &[&str], builds: &CachedBuilds) -> Result<(), String> {
        let mut check = Command::new(cargo());
        check.arg("check").args(packages.iter().flat_map(|it| ["--package", it]));
        run(builds.apply(check.current_dir(&self.folder)))
    }
}

/// The files of a package are as old as their unpacking: Cargo sees by their age that they have changed.
fn unpack(archive: &Path, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    run(Command::new("tar").arg("-xzmf").arg(archive).arg("-C").arg(folder))
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
