//! Where the interop peers are: editors, agents and proxies on the official SDKs, built by
//! `cargo xtask peers` into a cache outside the project, because they are slow to build and seldom
//! change. See `peers/README.md` for what each of them does.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;

/// The command line of each peer, in shell words, by name: `rust_editor`, `py_agent`, ….
#[derive(Debug)]
pub struct Peers(BTreeMap<String, String>);

impl Peers {
    /// Reads what `cargo xtask peers` wrote.
    ///
    /// # Panics
    /// When it has not run: a test that skips itself would be green without having looked.
    pub fn load() -> Self {
        let path = index();
        let text = fs::read(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; run `cargo xtask peers` first", path.display())
        });
        Self(serde_json::from_slice(&text).expect("peers.json maps names to command lines"))
    }

    pub fn command(&self, name: &str) -> &str {
        self.0
            .get(name)
            .unwrap_or_else(|| panic!("peers.json has no {name}; run `cargo xtask peers` first"))
    }
}

/// The file that says where each peer is.
pub fn index() -> PathBuf {
    cache().join("peers.json")
}

/// The directory for what is too slow to build in every working copy.
pub fn cache() -> PathBuf {
    let set = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    set("CONDUCTOR_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|it| it.join("conductor-dev")))
        .or_else(|| set("HOME").map(|it| it.join(".cache/conductor-dev")))
        .expect("one of CONDUCTOR_CACHE, XDG_CACHE_HOME and HOME is set")
}

/// Writes an argument so that a shell, or a conductor reading a component, sees one word.
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
