//! Keeps the documentation true.
//!
//! Every command block in README.md, CONTRIBUTING.md and the guide runs as printed (`commands`). The settings of editors start
//! a chain (`settings`). Every fault of docs/reliability.md has a test (`faults`). Every path, command, option and crate
//! that the documentation names exists (`names`).

mod blocks;
mod commands;
mod faults;
mod names;
mod settings;

use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file of the repository.
fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// README.md, CONTRIBUTING.md and all pages of the guide.
fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("docs")).expect("docs/ is readable");
    let names = entries.map(|entry| entry.expect("docs/ is readable").file_name());
    let guide = names.map(|name| format!("docs/{}", name.to_string_lossy()));
    let guide = guide.filter(|page| page.ends_with(".md"));
    guide.chain(["README.md".to_owned(), "CONTRIBUTING.md".to_owned()]).collect()
}

/// The tests of the package `examples` run that program.
#[test]
fn the_example_in_tools_md_is_the_example_program() {
    let program = read("examples/tools.rs");
    let (_, code) = program.split_once("\n\n").expect("a comment before the code");
    assert!(
        read("docs/tools.md").contains(code.trim_end()),
        "docs/tools.md and examples/tools.rs differ"
    );
}
