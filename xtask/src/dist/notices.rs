//! The licences of everything that a program contains.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::dependencies::Dependency;
use crate::tool::{at, output_of, read};

/// The names with which the licence files of a crate begin.
const LICENCE_FILES: [&str; 6] =
    ["license", "licence", "unlicense", "copying", "copyright", "notice"];

const LINE: &str =
    "--------------------------------------------------------------------------------";

const MUSL: &str = "\
Copyright © 2005-2020 Rich Felker, et al. The file COPYRIGHT of musl lists all authors:
https://git.musl-libc.org/cgit/musl/tree/COPYRIGHT
";

/// The list of all third-party crates, and the texts of their licences. Equal texts appear once.
pub fn text(dependencies: &[Dependency]) -> Result<String, String> {
    let mut text = "The program conductor contains this third-party software:\n\n".to_owned();
    let mut licences = BTreeMap::<String, Vec<String>>::new();
    let theirs: Vec<&Dependency> = dependencies.iter().filter(|it| !it.is_ours()).collect();
    for dependency in &theirs {
        let Dependency { name, version, license, repository, .. } = dependency;
        let place = if repository.is_empty() { "https://crates.io" } else { repository };
        writeln!(text, "- {name} {version}: {license} ({place})").expect("a String");
        let mut files = licence_files(&dependency.folder()?)?;
        if files.is_empty() {
            files = standard_texts(license)?;
        }
        for path in files {
            let content = fs::read(&path).map_err(at(&path))?;
            let content = String::from_utf8_lossy(&content).replace('\r', "");
            let owner = format!("{name} {version}");
            let owners = licences.entry(content.trim().to_owned()).or_default();
            if owners.last() != Some(&owner) {
                owners.push(owner);
            }
        }
    }
    text += "- the standard library of Rust: MIT OR Apache-2.0, see RUST-STANDARD-LIBRARY.html\n";
    text += "- musl libc: MIT (https://musl.libc.org)\n";
    text += "- LLVM libunwind: Apache-2.0 WITH LLVM-exception (https://llvm.org)\n";
    let mut licences: Vec<(String, Vec<String>)> = licences.into_iter().collect();
    licences.sort_by(|one, other| one.1.cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
    for (licence, owners) in licences {
        let owners = owners.join(", ");
        write!(text, "\n{LINE}\n{owners}\n{LINE}\n\n{licence}\n").expect("a String");
    }
    for (owner, before, files) in [
        ("musl libc", MUSL, &["MIT"][..]),
        ("LLVM libunwind", "", &["Apache-2.0", "LLVM-exception"]),
    ] {
        write!(text, "\n{LINE}\n{owner}\n{LINE}\n\n{before}").expect("a String");
        for file in files {
            let path = documents()?.join("licenses").join(format!("{file}.txt"));
            text = text + "\n" + &read(path)?;
        }
    }
    Ok(text)
}

/// The texts of the licences in an SPDX expression, for a crate whose package has none.
fn standard_texts(expression: &str) -> Result<Vec<PathBuf>, String> {
    let folder = documents()?.join("licenses");
    let words = expression.split([' ', '(', ')']).filter(|it| !it.is_empty());
    let names = words.filter(|it| !["OR", "AND", "WITH"].contains(it));
    Ok(names.map(|it| folder.join(format!("{it}.txt"))).collect())
}

/// The licences of the standard library, as Rust publishes them.
pub fn standard_library() -> Result<String, String> {
    read(documents()?.join("COPYRIGHT-library.html"))
}

/// The documents that are part of an installation of Rust.
fn documents() -> Result<PathBuf, String> {
    let root = output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(Path::new(root.trim()).join("share/doc/rust"))
}

fn licence_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let is_licence = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        LICENCE_FILES.iter().any(|start| name.starts_with(start)) && path.is_file()
    };
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_licence(path)).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::super::{TARGETS, dependencies};
    use super::*;

    #[test]
    fn each_crate_has_the_text_of_its_licence() {
        let dependencies = dependencies::read(TARGETS[0]).expect("the crates of the program");
        let text = text(&dependencies).expect("the licences");
        let owners: Vec<&str> = text
            .split(LINE)
            .skip(1)
            .step_by(2)
            .flat_map(|owners| owners.trim().split(", "))
            .collect();
        for dependency in dependencies.iter().filter(|it| !it.is_ours()) {
            let owner = format!("{} {}", dependency.name, dependency.version);
            assert!(owners.contains(&&*owner), "there is no licence of {owner}");
        }
    }
}
