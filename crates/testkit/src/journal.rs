//! Journals of failed tests.

use std::path::{Path, PathBuf};

/// Writes the journal of a failed run to `journals/NAME.jsonl` in the target directory. Gives the command that
/// steps through it.
///
/// # Panics
/// If the file cannot be written.
pub fn keep(name: &str, journal: &[u8]) -> String {
    let word = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
    let mut name: String = name.chars().map(word).collect();
    name.truncate(100);
    let directory = target().join("journals");
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = directory.join(format!("{name}.jsonl"));
    std::fs::write(&path, journal).expect("a file");
    format!("cargo xtask replay {}", path.display())
}

/// The target directory: a test is `target/PROFILE/deps/TEST`.
fn target() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    test.ancestors().nth(3).map(Path::to_owned).expect("target/profile/deps/test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_kept_and_the_command_names_it() {
        let command = keep("testkit | die@17:2", b"{}\n");
        let path = command.strip_prefix("cargo xtask replay ").expect("the command");
        assert!(path.ends_with("journals/testkit---die-17-2.jsonl"), "{path}");
        assert_eq!(std::fs::read(path).expect("a file"), b"{}\n");
        std::fs::remove_file(path).expect("ours");
    }
}
