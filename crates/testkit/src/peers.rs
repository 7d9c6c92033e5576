//! Finds the interop peers: editors, agents and proxies on other SDKs.
//!
//! `cargo xtask peers` builds them into a cache outside the project, because they are slow to build and seldom change.
//! `peers/README.md` describes each of them.

use std::collections::BTreeMap;
use std::fs;

pub use crate::places::{cache, index, quote};

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
