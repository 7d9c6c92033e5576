//! Keeps the documentation true.
//!
//! Every command block in README.md, CONTRIBUTING.md, the guide and the pages of the crates runs as printed (`commands`). The settings of editors start
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

/// README.md, CONTRIBUTING.md, all pages of the guide, and the pages of the crates.
fn pages() -> Vec<String> {
    let names = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).expect(folder);
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
    };
    let guide = names("docs").map(|name| format!("docs/{name}"));
    let guide = guide.filter(|page| page.ends_with(".md"));
    let crates = names("crates").map(|name| format!("crates/{name}/README.md"));
    let crates = crates.filter(|page| root().join(page).is_file());
    let own = ["README.md", "CONTRIBUTING.md"].map(str::to_owned);
    own.into_iter().chain(guide).chain(crates).collect()
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
