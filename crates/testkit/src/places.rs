//! Where the programs for tests are, and how they are built. `xtask` contains this file as a module of its own, because
//! every working copy compiles `xtask` first, and this crate would take long. So it uses the standard library only.

use std::env;
use std::path::PathBuf;

/// The profile of optimised programs for tests, and the name of its folder.
pub const OPTIMISED: &str = "optimised";

/// The arguments of `cargo` that build the programs of `test_chain::release_binary`. Every caller uses the same list:
/// another set of packages would have other features and would be compiled again. The list is short, because each
/// program takes seconds to optimise.
pub const RELEASE: [&str; 13] = [
    "build",
    "--profile",
    OPTIMISED,
    "--package",
    "acp-conductor",
    "--package",
    "testkit",
    "--bin",
    "conductor",
    "--bin",
    "transparent",
    "--bin",
    "stub_agent",
];

/// The file with the command lines of all peers.
pub fn index() -> PathBuf {
    cache().join("peers.json")
}

/// The cache directory: it has what is too slow to build in every working copy.
pub fn cache() -> PathBuf {
    let set = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    set("CONDUCTOR_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|it| it.join("conductor-dev")))
        .or_else(|| set("HOME").map(|it| it.join(".cache/conductor-dev")))
        .expect("one of CONDUCTOR_CACHE, XDG_CACHE_HOME and HOME is set")
}

/// Quotes an argument, so that a shell or the conductor parses it as one word.
pub fn quote(word: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "_-+=./:,@%".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn a_quoted_word_stays_one_word() {
        assert_eq!(quote("/usr/bin/node"), "/usr/bin/node");
        assert_eq!(quote("proxy --mark A"), "'proxy --mark A'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
