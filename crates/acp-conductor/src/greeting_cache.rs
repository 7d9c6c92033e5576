//! Which greeting a command understood the last time, so that the next start need not find out.
//!
//! Kept in the user's cache directory, by a hash of the command line: what people put on command
//! lines is nobody's business. It is a hint, not a truth: a component that has learnt a newer
//! greeting meanwhile says so, and a lost or broken file costs nothing but a probe.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use acp_wire::dialect::generation::Greeting;

use crate::config::Spec;

/// No more than this is remembered: a file that nobody cleans up must not grow for ever.
const MAX_ENTRIES: usize = 500;

#[derive(Debug, Default)]
pub struct GreetingCache {
    path: Option<PathBuf>,
    greetings: BTreeMap<u64, Greeting>,
}

impl GreetingCache {
    /// What earlier runs have found out.
    pub fn load() -> GreetingCache {
        let path = directory().map(|directory| directory.join("greetings"));
        let mut memory = GreetingCache { path, greetings: BTreeMap::new() };
        memory.read();
        memory
    }

    /// What is in the file now: other conductors write it, too.
    fn read(&mut self) {
        let text = self.path.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let entries = text.iter().flat_map(|text| text.lines()).filter_map(entry);
        self.greetings = entries.take(MAX_ENTRIES).collect();
    }

    pub fn lookup(&self, spec: &Spec) -> Option<Greeting> {
        self.greetings.get(&key(spec)).copied()
    }

    /// Remembers for the next run. The newest greeting is what a start begins with anyway.
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
            tracing::debug!(%error, "cannot remember what the components speak");
        }
    }

    /// Forgets what was wrong.
    pub fn remove(&mut self, spec: &Spec) {
        // The newest greeting is what a start begins with if nothing is remembered.
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
        // Moved into place, so that another conductor never reads half of it.
        let temporary = path.with_extension(std::process::id().to_string());
        fs::write(&temporary, lines)?;
        fs::rename(temporary, path)
    }
}

fn entry(line: &str) -> Option<(u64, Greeting)> {
    let (key, method) = line.split_once(' ')?;
    let greeting = Greeting::ALL.into_iter().find(|it| it.method() == method)?;
    Some((u64::from_str_radix(key, 16).ok()?, greeting))
}

/// Where what is remembered is kept.
pub(crate) fn directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("LOCALAPPDATA"))
        .or_else(|| Some(set("HOME")?.join(".cache")))
        .map(|cache| cache.join("conductor"))
}

pub(crate) fn key(spec: &Spec) -> u64 {
    fnv(spec.command_line().as_bytes())
}

/// FNV-1a: the same in every build, unlike the standard library's hasher.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back_and_broken_ones_passed_over() {
        assert_eq!(entry("00000000000000ff _proxy/initialize"), Some((255, Greeting::Underscore)));
        assert_eq!(entry("ff initialize"), Some((255, Greeting::Capability)));
        for broken in ["", "ff", "xx initialize", "ff session/new"] {
            assert_eq!(entry(broken), None);
        }
    }
}
