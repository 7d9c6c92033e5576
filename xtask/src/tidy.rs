//! The house rules that a machine can check. Each has its reason.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that must give the same actions for the same events, so that a simulation proves
/// something and a trace can be replayed.
const PURE: [&str; 5] = [
    "crates/acp-wire/src",
    "crates/router/src",
    "crates/mcp/src",
    "crates/engine/src",
    "crates/acp-proxy-core/src",
];

/// The one file of a pure crate that may touch the world.
const EXCEPTIONS: [&str; 1] = ["crates/acp-proxy-core/src/stdio.rs"];

/// What would make a pure crate depend on something else than its input.
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
    "HashMap", // its order is random
    "HashSet",
];

/// A file that needs a table of contents is two files.
const LONGEST_FILE: usize = 600;

pub fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let mut complaints = Vec::new();
    for path in rust_files(root)? {
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        check(&name, &text, &mut complaints);
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

fn check(name: &str, text: &str, complaints: &mut Vec<String>) {
    let pure = PURE.iter().any(|it| name.starts_with(it)) && !EXCEPTIONS.contains(&name);
    if pure {
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.split("//").next().unwrap_or(line);
            for word in IMPURE.iter().filter(|word| code.contains(**word)) {
                complaints.push(format!("{name}:{number}: a pure crate must not use {word}"));
            }
        }
    }
    let length = text.lines().count();
    if length > LONGEST_FILE {
        complaints.push(format!("{name}: {length} lines, more than {LONGEST_FILE}: split it"));
    }
}

fn rust_files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut directories: Vec<PathBuf> =
        ["crates", "xtask", "fuzz", "peers"].iter().map(|it| root.join(it)).collect();
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                if !path.ends_with("target") && !path.ends_with("node_modules") {
                    directories.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
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
    fn the_rules_can_be_broken() {
        let mut complaints = Vec::new();
        check(
            "crates/router/src/a.rs",
            "use std::fs; // std::net\nHashMap::new()",
            &mut complaints,
        );
        check("crates/acp-conductor/src/a.rs", "use std::fs;", &mut complaints);
        check("crates/acp-conductor/src/b.rs", &"\n".repeat(LONGEST_FILE + 1), &mut complaints);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
    }
}
