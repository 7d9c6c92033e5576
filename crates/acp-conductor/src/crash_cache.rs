//! Remembers which kinds of message each command has crashed on (poison messages), so that the next chain does not
//! send them to it again.
//!
//! The file `crashes` in the user's cache directory contains a hash of each command line. An entry expires after 30
//! days, and when the program or a file among its arguments changes. Delete the file to remove all entries.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use acp_wire::Side;
use router::MessageKind;

use crate::config::Spec;
use crate::greeting_cache::{cache_directory, fnv, key};

/// The maximum number of entries.
const MAX_ENTRIES: usize = 500;

/// An entry expires after this many days.
const MAX_AGE_DAYS: u64 = 30;

/// The remembered poison messages.
#[derive(Debug, Default)]
pub(crate) struct CrashCache {
    path: Option<PathBuf>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    command: u64,
    /// A hash of the program and its files at the time of the crash.
    build: u64,
    day: u64,
    kind: MessageKind,
}

impl CrashCache {
    /// Loads the file.
    pub(crate) fn load() -> CrashCache {
        let path = cache_directory().map(|directory| directory.join("crashes"));
        let mut crashes = CrashCache { path, entries: Vec::new() };
        crashes.read();
        crashes
    }

    /// Reads the file again, because other conductors write it as well.
    fn read(&mut self) {
        let text = self.path.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let today = today();
        let entries = text.iter().flat_map(|text| text.lines()).filter_map(Entry::parse);
        self.entries =
            entries.filter(|it| it.day + MAX_AGE_DAYS > today).take(MAX_ENTRIES).collect();
    }

    /// The kinds of message that a command has crashed on. In-process components have no entries, because they
    /// change with the conductor.
    pub(crate) fn lookup(&self, spec: &Spec) -> Vec<MessageKind> {
        let command = key(spec);
        let ours: Vec<&Entry> = self.entries.iter().filter(|it| it.command == command).collect();
        if ours.is_empty() || spec.in_process.is_some() {
            return Vec::new();
        }
        let build = build_hash(spec);
        ours.into_iter().filter(|it| it.build == build).map(|it| it.kind.clone()).collect()
    }

    /// Adds a kind of message that a command has crashed on.
    pub(crate) fn store(&mut self, spec: &Spec, kind: MessageKind) {
        if spec.in_process.is_some() {
            return;
        }
        self.read();
        let (command, build, day) = (key(spec), build_hash(spec), today());
        self.entries.retain(|it| it.command != command || it.build == build && it.kind != kind);
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.remove(0);
        }
        self.entries.push(Entry { command, build, day, kind });
        if let Err(error) = self.save() {
            tracing::debug!(%error, "cannot write the crash cache");
        }
    }

    fn save(&self) -> std::io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let lines: String = self.entries.iter().map(|it| it.line() + "\n").collect();
        // Renamed when complete, so that another conductor never reads a partial file.
        let temporary = path.with_extension(std::process::id().to_string());
        fs::write(&temporary, lines)?;
        fs::rename(temporary, path)
    }
}

impl Entry {
    fn line(&self) -> String {
        let toward = match self.kind.toward {
            Side::Editor => "editor",
            Side::Agent => "agent",
        };
        // As JSON, because a method may contain any character.
        let method = serde_json::json!([self.kind.method, self.kind.update]);
        format!("{:016x} {:016x} {} {toward} {method}", self.command, self.build, self.day)
    }

    fn parse(line: &str) -> Option<Entry> {
        let mut words = line.splitn(5, ' ');
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let (command, build) = (number()?, number()?);
        let day = words.next()?.parse().ok()?;
        let toward = match words.next()? {
            "editor" => Side::Editor,
            "agent" => Side::Agent,
            _ => return None,
        };
        let (method, update) = serde_json::from_str(words.next()?).ok()?;
        Some(Entry { command, build, day, kind: MessageKind { toward, method, update } })
    }
}

fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400)
}

/// A hash that changes when the program or a file among its arguments changes.
fn build_hash(spec: &Spec) -> u64 {
    let program = Path::new(&spec.program);
    let on_path = std::env::var_os("PATH").filter(|_| program.components().count() == 1);
    let on_path = on_path.iter().flat_map(std::env::split_paths).map(|it| it.join(program));
    let program = on_path.into_iter().find(|it| it.is_file()).unwrap_or_else(|| program.into());
    let mut text = String::new();
    for path in std::iter::once(program).chain(spec.args.iter().map(PathBuf::from)) {
        let path = match &spec.directory {
            Some(directory) => directory.join(path),
            None => path,
        };
        if let Some(data) = fs::metadata(&path).ok().filter(fs::Metadata::is_file) {
            text += &format!("{} {:?}\n", data.len(), data.modified().ok());
        }
    }
    fnv(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(method: &str, update: Option<&str>) -> MessageKind {
        let update = update.map(str::to_owned);
        MessageKind { toward: Side::Editor, method: method.to_owned(), update }
    }

    fn empty_directory(name: &str) -> PathBuf {
        let name = format!("conductor-crashes-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn valid_lines_are_parsed_and_invalid_ones_are_skipped() {
        for kind in [kind("session/update", Some("usage_update")), kind("odd \"name\" \n", None)] {
            let entry = Entry { command: 1, build: u64::MAX, day: 20_000, kind };
            assert!(!entry.line().contains('\n'));
            assert_eq!(Entry::parse(&entry.line()), Some(entry));
        }
        for broken in ["", "1 2 3", "1 2 3 nowhere [\"a\",null]", "1 2 3 agent [", "x 2 3 agent []"]
        {
            assert_eq!(Entry::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn an_entry_expires_when_the_program_is_replaced() {
        let directory = empty_directory("replaced");
        let program = directory.join("proxy");
        fs::write(&program, "one").unwrap();
        let spec = Spec { program: program.to_string_lossy().into_owned(), ..Spec::default() };
        let other = Spec { args: vec!["--other".into()], ..spec.clone() };
        let mut crashes = CrashCache { path: Some(directory.join("crashes")), entries: vec![] };
        let usage = kind("session/update", Some("usage_update"));
        crashes.store(&spec, usage.clone());
        crashes.store(&spec, usage.clone());
        crashes.read();
        assert_eq!((crashes.lookup(&spec), crashes.lookup(&other)), (vec![usage.clone()], vec![]));
        fs::write(&program, "another").unwrap();
        assert_eq!(crashes.lookup(&spec), []);
        crashes.store(&spec, kind("a", None));
        assert_eq!(crashes.lookup(&spec), [kind("a", None)]);
    }

    #[test]
    fn an_entry_expires_after_thirty_days() {
        let path = empty_directory("month").join("crashes");
        let entry = |age: u64| {
            let day = today() - age;
            Entry { command: 1, build: 2, day, kind: kind("a", None) }.line()
        };
        fs::write(&path, format!("{}\n{}\n", entry(MAX_AGE_DAYS), entry(MAX_AGE_DAYS - 1)))
            .unwrap();
        let mut crashes = CrashCache { path: Some(path), entries: vec![] };
        crashes.read();
        assert_eq!(crashes.entries.len(), 1);
    }
}
