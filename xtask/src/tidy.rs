//! `cargo xtask tidy`: the house rules that a program can check.

mod links;
mod retired;
mod test_code;
mod web;

use std::fs;
use std::path::{Path, PathBuf};

/// The pure crates. They must produce the same outputs for the same inputs, so that simulations are meaningful and journals
/// can be replayed.
const PURE: [&str; 5] = [
    "crates/acp-wire/src",
    "crates/router/src",
    "crates/mcp/src",
    "crates/engine/src",
    "crates/acp-proxy-core/src",
];

/// Files of pure crates that may do I/O.
const EXCEPTIONS: [&str; 1] = ["crates/acp-proxy-core/src/stdio.rs"];

/// Names that make a crate depend on more than its inputs.
const IMPURE: [&str; 15] = [
    "tokio",
    "std::env",
    "std::io",
    "std::os",
    "std::time",
    "getrandom",
    "rand::",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "Instant::now",
    "SystemTime",
    "HashMap", // its iteration order is random
    "HashSet",
];

/// The maximum length of a file of Rust or of the web pages, in lines.
const LONGEST_FILE: usize = 600;

/// Files and folders in which retired words are allowed: the list and its tests, and the sources of third-party peers, whose cached
/// builds depend on their exact text.
const MAY_USE_RETIRED_WORDS: [&str; 2] = ["xtask/src/tidy", "peers/"];

/// The copy of `docs/errors.md` in the program. Its links are those of the page.
const COPIED_PAGE: &str = "crates/acp-conductor/errors.md";

/// Checks all Rust and Markdown files of the project, and the web pages.
pub fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let mut complaints = Vec::new();
    for path in files(root)? {
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        if name.ends_with(".rs") {
            check_code(&name, &text, &mut complaints);
            test_code::check(&name, &text, &mut complaints);
        }
        if name.ends_with(".md") && name != COPIED_PAGE {
            links::check(root, &name, &text, &mut complaints);
        }
        if web::is_source(Path::new(&name)) {
            web::check(&name, &text, &mut complaints);
        }
        if !web::is_lock(Path::new(&name)) {
            check_words(&name, &text, &mut complaints);
        }
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// Checks a Rust file: pure crates are pure, and no file is too long.
fn check_code(name: &str, text: &str, complaints: &mut Vec<String>) {
    let pure = PURE.iter().any(|it| name.starts_with(it)) && !EXCEPTIONS.contains(&name);
    if pure {
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.split("//").next().unwrap_or(line);
            for word in IMPURE.iter().filter(|word| code.contains(**word)) {
                complaints.push(format!("{name}:{number}: a pure crate must not use {word}"));
            }
        }
    }
    check_length(name, text, complaints);
}

fn check_length(name: &str, text: &str, complaints: &mut Vec<String>) {
    let length = text.lines().count();
    if length > LONGEST_FILE {
        complaints.push(format!("{name}: {length} lines, more than {LONGEST_FILE}: split it"));
    }
}

/// Checks that a file has no retired words.
fn check_words(name: &str, text: &str, complaints: &mut Vec<String>) {
    if MAY_USE_RETIRED_WORDS.iter().any(|it| name.starts_with(it)) {
        return;
    }
    for (number, line) in (1..).zip(text.lines()) {
        for (word, instead) in retired::in_line(line) {
            complaints.push(format!("{name}:{number}: do not write '{word}' but '{instead}'"));
        }
    }
}

/// The Rust and Markdown files of the project, and the sources of the web pages, in order.
fn files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let is_project = !name.to_string_lossy().starts_with('.')
                && !["target", "node_modules", "corpus", "dist", "media"]
                    .iter()
                    .any(|it| name == *it);
            if path.is_dir() && is_project {
                directories.push(path);
            } else if path.extension().is_some_and(|it| it == "rs" || it == "md")
                || web::is_source(path.strip_prefix(root).unwrap_or(&path))
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_violations() {
        let mut complaints = Vec::new();
        check_code(
            "crates/router/src/a.rs",
            "use std::fs; // std::net\nHashMap::new()",
            &mut complaints,
        );
        check_code("crates/acp-conductor/src/a.rs", "use std::fs;", &mut complaints);
        check_code(
            "crates/acp-conductor/src/b.rs",
            &"\n".repeat(LONGEST_FILE + 1),
            &mut complaints,
        );
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        complaints.clear();
        check_words("docs/a.md", "The puppet.\nA scripted component.", &mut complaints);
        check_words("peers/README.md", "The puppet.", &mut complaints);
        let expected = "docs/a.md:1: do not write 'puppet' but 'scripted component'";
        assert_eq!(complaints, [expected]);
    }
}
