//! Remembers which greeting each command understood, so that the next start does not need to probe.
//!
//! The file `greetings` in the user's cache directory contains a hash of each command line, because command lines
//! may contain secrets. An entry is only the first guess: if the greeting fails, the conductor probes as usual.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use acp_wire::dialect::generation::Greeting;

use crate::config::Spec;

/// The maximum number of entries, so that the file does not grow without limit.
const MAX_ENTRIES: usize = 500;

/// The remembered greetings, by the hash of the command line.
#[derive(Debug, Default)]
pub struct GreetingCache {
    path: Option<PathBuf>,
    greetings: BTreeMap<u64, Greeting>,
}

impl GreetingCache {
    /// Loads the file.
    pub fn load() -> GreetingCache {
        let path = cache_directory().map(|directory| directory.join("greetings"));
        let mut cache = GreetingCache { path, greetings: BTreeMap::new() };
        cache.read();
        cache
    }

    /// Reads the file again, because other conductors write it as well.
    fn read(&mut self) {
        let text = self.path.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let entries = text.iter().flat_map(|text| text.lines()).filter_map(parse_entry);
        self.greetings = entries.take(MAX_ENTRIES).collect();
    }

    /// The greeting that a command understood.
    pub fn lookup(&self, spec: &Spec) -> Option<Greeting> {
        self.greetings.get(&key(spec)).copied()
    }

    /// Stores the greeting that a command understood. The newest greeting is the default and is not stored.
    pub fn store(&mut self, spec: &Spec, greeting: Greeting) {
        let known = self.lookup(spec);
        if known.unwrap_or(Greeting::Proxy) == greeting {
            return;
        }
        self.read();
        let key = key(spec);
        match greeting {
            Greeting::Proxy => drop(self.greetings.remove(&key)),
            greeting => {
                if self.greetings.len() >= MAX_ENTRIES {
                    self.greetings.pop_first();
                }
                self.greetings.insert(key, greeting);
            }
        }
        if let Err(error) = self.save() {
            tracing::debug!(%error, "cannot write the greeting cache");
        }
    }

    /// Removes the entry of a command.
    pub fn remove(&mut self, spec: &Spec) {
        // Storing the default removes the entry.
        self.store(spec, Greeting::Proxy);
    }

    fn save(&self) -> std::io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let lines: String = self
            .greetings
            .iter()
            .map(|(key, greeting)| format!("{key:016x} {}\n", greeting.method()))
            .collect();
        // Renamed when complete, so that another conductor never reads a partial file.
        let temporary = path.with_extension(std::process::id().to_string());
        fs::write(&temporary, lines)?;
        fs::rename(temporary, path)
    }
}

/// Parses a line of the file.
fn parse_entry(line: &str) -> Option<(u64, Greeting)> {
    let (key, method) = line.split_once(' ')?;
    let greeting = Greeting::ALL.into_iter().find(|it| it.method() == method)?;
    Some((u64::from_str_radix(key, 16).ok()?, greeting))
}

/// The directory of conductor in the user's cache directory.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("LOCALAPPDATA"))
        .or_else(|| Some(set("HOME")?.join(".cache")))
        .map(|cache| cache.join("conductor"))
}

/// The hash of a command line.
pub(crate) fn key(spec: &Spec) -> u64 {
    fnv(spec.command_line().as_bytes())
}

/// The FNV-1a hash. Unlike the hasher of the standard library, it is the same in every build.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_lines_are_parsed_and_invalid_ones_are_skipped() {
        assert_eq!(
            parse_entry("00000000000000ff _proxy/initialize"),
            Some((255, Greeting::Underscore))
        );
        assert_eq!(parse_entry("ff initialize"), Some((255, Greeting::Capability)));
        for broken in ["", "ff", "xx initialize", "ff session/new"] {
            assert_eq!(parse_entry(broken), None);
        }
    }
}
