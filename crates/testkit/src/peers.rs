//! Finds the interop peers: editors, agents and proxies on other SDKs.
//!
//! `cargo xtask peers` builds them into a cache outside the project, because they are slow to build and seldom change.
//! `peers/README.md` describes each of them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;

/// The command line of each peer, in shell words, by name: `rust_editor`, `py_agent`, ….
#[derive(Debug)]
pub struct Peers(BTreeMap<String, String>);

impl Peers {
    /// Reads the list that `cargo xtask peers` has written.
    ///
    /// # Panics
    /// If there is none. A test that skipped itself instead would pass without having tested anything.
    pub fn load() -> Self {
        let path = index();
        let text = fs::read(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; run `cargo xtask peers` first", path.display())
        });
        Self(serde_json::from_slice(&text).expect("peers.json maps names to command lines"))
    }

    /// The command line of the peer of this name.
    pub fn command(&self, name: &str) -> &str {
        self.0
            .get(name)
            .unwrap_or_else(|| panic!("peers.json has no {name}; run `cargo xtask peers` first"))
    }
}

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
