//! Lock files: which package a project depends on, in which versions.
//!
//! They are searched upward from the folder in which the chain starts. The first folder that has one of the language ends the
//! search, so that a member of a workspace finds the file of the root.

mod javascript;
mod json;
mod lines;
mod pnpm;
mod python;
mod rust;
mod tables;
#[cfg(test)]
mod tests;
mod yarn;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::bounded_file;

/// The greatest lock file, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// The most packages of a lock file.
const MAX_PACKAGES: usize = 200_000;

/// The longest name or version. npm allows 214 characters.
const MAX_NAME: usize = 256;

/// A version, if the lock file has one.
pub(super) type Version = Option<String>;

/// A language, with its own lock files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Language {
    Rust,
    JavaScript,
    Python,
}

/// The lock files of a language.
#[derive(Debug)]
pub(super) enum Found {
    /// All files of the nearest folder that has one.
    Files(Vec<LockFile>),
    /// There is none, with a sentence about it.
    Nothing(String),
}

/// A lock file that exists.
#[derive(Debug)]
pub(super) struct LockFile {
    /// Its name if it is in the folder in which the chain starts, otherwise its path.
    pub(super) shown: String,
    /// What is in it, or a clause such as `is not UTF-8`.
    pub(super) packages: Result<Packages, String>,
}

/// The packages of a lock file.
#[derive(Debug, Default)]
pub(super) struct Packages {
    /// By the name in its usual form.
    by_name: BTreeMap<String, BTreeSet<Version>>,
    /// How many versions there are.
    count: usize,
}

/// Finds the packages in the text of a lock file.
type ReadPackages = fn(&str) -> Result<Packages, String>;

/// A format of lock files.
struct Format {
    file: &'static str,
    /// None if the file is binary.
    read: Option<ReadPackages>,
}

impl Language {
    /// What a package is called.
    pub(super) fn package(self) -> &'static str {
        match self {
            Language::Rust => "a crate",
            Language::JavaScript => "an npm package",
            Language::Python => "a Python package",
        }
    }

    /// The name of the language.
    fn name(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::JavaScript => "JavaScript",
            Language::Python => "Python",
        }
    }

    /// A package with a range.
    pub(super) fn example(self) -> &'static str {
        match self {
            Language::Rust => "tokio >=1.30, <2",
            Language::JavaScript => "react >=18 <20",
            Language::Python => "django >=4.2, <6",
        }
    }

    fn formats(self) -> &'static [Format] {
        match self {
            Language::Rust => &rust::FORMATS,
            Language::JavaScript => &javascript::FORMATS,
            Language::Python => &python::FORMATS,
        }
    }

    /// The files that a project has without a lock file, and the remedy.
    fn manifests(self) -> (&'static [&'static str], &'static str) {
        match self {
            Language::Rust => (&["Cargo.toml"], "run `cargo generate-lockfile`"),
            Language::JavaScript => (&["package.json"], "run `npm install`"),
            Language::Python => (
                &["pyproject.toml", "Pipfile", "setup.py"],
                "run `uv lock`, or write the versions into requirements.txt with ==",
            ),
        }
    }

    /// The usual form of a name: what is the same package has the same form.
    fn usual_form(self, name: &str) -> String {
        match self {
            Language::JavaScript => name.to_owned(),
            // crates.io does not have two crates that differ only in this.
            Language::Rust => name.to_ascii_lowercase().replace('_', "-"),
            // PEP 503.
            Language::Python => {
                let lower = name.to_ascii_lowercase();
                let parts: Vec<&str> =
                    lower.split(['-', '_', '.']).filter(|it| !it.is_empty()).collect();
                parts.join("-")
            }
        }
    }
}

impl Packages {
    /// Remembers a package. Names and versions that no package can have are left out.
    fn add(&mut self, language: Language, name: &str, version: Option<&str>) -> Result<(), String> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Ok(());
        }
        self.count += 1;
        if self.count > MAX_PACKAGES {
            return Err(too_many());
        }
        // Not `file:…`, `workspace:…` or the address of a repository.
        let is_version =
            |it: &&str| it.len() <= MAX_NAME && it.starts_with(|it: char| it.is_ascii_digit());
        let version = version.filter(is_version).map(str::to_owned);
        self.by_name.entry(language.usual_form(name)).or_default().insert(version);
        Ok(())
    }

    /// The versions of a package. None if it is not in the file.
    pub(super) fn versions(&self, name: &str, language: Language) -> Option<&BTreeSet<Version>> {
        self.by_name.get(&language.usual_form(name))
    }
}

fn too_many() -> String {
    format!("has more than {MAX_PACKAGES} packages")
}

/// Finds and reads the lock files of a language.
pub(super) fn find(language: Language, folder: &Path) -> Found {
    let mut manifest = None;
    for ancestor in folder.ancestors() {
        let shown = |name: &str| match ancestor == folder {
            true => name.to_owned(),
            false => ancestor.join(name).display().to_string(),
        };
        let files: Vec<LockFile> = language
            .formats()
            .iter()
            .filter_map(|format| {
                let path = ancestor.join(format.file);
                let packages = match format.read {
                    Some(read) => bounded_file::read(&path, MAX_FILE)?.and_then(|it| read(&it)),
                    None if path.symlink_metadata().is_err() => return None,
                    None => Err(javascript::BINARY.into()),
                };
                Some(LockFile { shown: shown(format.file), packages })
            })
            .collect();
        if !files.is_empty() {
            return Found::Files(files);
        }
        let mut manifests = language.manifests().0.iter();
        let exists = |name: &&&str| ancestor.join(name).exists();
        manifest = manifest.or_else(|| manifests.find(exists).map(|name| shown(name)));
    }
    Found::Nothing(match manifest {
        Some(manifest) => format!("{manifest} has no lock file: {}", language.manifests().1),
        None => format!("there is no lock file of {}", language.name()),
    })
}
