//! The file of a recording: JSON lines, one for each message.
//!
//! ```text
//! {"recording":1}
//! {"entry":"5f0c…","after":"a91b…","sent":{"request":"session/prompt","params":{…}}}
//! {"got":{"notification":"session/update","params":{…}}}
//! {"got":{"request":1,"method":"session/request_permission","params":{…}}}
//! {"entry":"77e2…","after":"5f0c…","sent":{"answer":1,"method":"session/request_permission","result":{…}}}
//! {"got":{"answer":2,"result":{"stopReason":"end_turn"}}}
//! {"entry":"5f0c…"}
//! {"got":{"notification":"session/update","params":{…}}}
//! ```
//!
//! An entry is a message of the editor's side, with what the agent did until the next one. Its key is a hash of that
//! message and of all messages before it in the session (`after` is the key of the one before).

//!
//! The file is a log. An entry with a key that was there before takes its place. An entry without `sent` continues the
//! one with this key. At the end of a run, the file is written anew if it has such entries.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use acp_wire::ErrorKind;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::got::Got;
use super::key::key;
use component_base::OptionError;
use component_base::append::KeptFile;

/// The version of the format.
const VERSION: u64 = 1;

/// The maximum size of a recording. What comes after it is not recorded.
pub(super) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The maximum size of the message of an entry in a file.
const MAX_SENT: usize = 2 * 1024 * 1024;

/// How many entries are searched for the end of a turn.
const MAX_SEARCH: usize = 10_000;

/// A line of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    recording: Option<u64>,
    entry: Option<String>,
    after: Option<String>,
    #[serde(borrow)]
    sent: Option<&'a RawValue>,
    #[serde(borrow)]
    got: Option<&'a RawValue>,
}

/// A message of the editor's side, and what the agent did until the next one. Messages are kept as text, which needs
/// much less memory than values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) after: String,
    sent: Box<str>,
    pub(super) got: Vec<Box<str>>,
}

impl Entry {
    pub(super) fn new(after: &str, sent: &Value) -> Entry {
        Entry { after: after.to_owned(), sent: sent.to_string().into(), got: Vec::new() }
    }

    /// The message of the editor's side.
    pub(super) fn sent(&self) -> Value {
        serde_json::from_str(&self.sent).unwrap_or_default()
    }

    /// The length of its line in the file, nearly.
    pub(super) fn length(&self) -> usize {
        self.sent.len() + 64
    }

    fn has(&self, kind: &str) -> bool {
        self.sent().get(kind).is_some()
    }

    /// Whether the agent has answered it with an error.
    pub(super) fn is_failed(&self) -> bool {
        let is_error = |got: &Got| matches!(got, Got::Answer { answer: Err(_), .. });
        self.got.iter().filter_map(|got| Got::parse(got).ok()).any(|got| is_error(&got))
    }

    /// The lines of the file, without the first messages of the agent.
    fn lines(&self, key: &str, written: usize) -> String {
        let mut text = match written {
            0 => format!(
                "{{\"entry\":\"{key}\",\"after\":{},\"sent\":{}}}\n",
                Value::from(self.after.as_str()),
                self.sent
            ),
            _ => format!("{{\"entry\":\"{key}\"}}\n"),
        };
        for got in self.got.iter().skip(written.saturating_sub(1)) {
            text.push_str("{\"got\":");
            text.push_str(got);
            text.push_str("}\n");
        }
        text
    }
}

/// A recording in memory.
#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) path: PathBuf,
    /// The keys, in the order of the file.
    order: Vec<String>,
    entries: HashMap<String, Entry>,
    children: HashMap<String, Vec<String>>,
    /// The entries that were recorded in this run.
    new: HashSet<String>,
    /// The entries that are not saved, with the number of their lines in the file.
    unsaved: Vec<(String, usize)>,
    /// Whether the file has entries that were replaced or continued.
    pub(super) is_untidy: bool,
    /// The length of the file as it was last read or written, and of the lines that are complete.
    pub(super) length: u64,
    pub(super) whole: u64,
    /// The size of what is not saved, and of the turns that are not complete.
    unsaved_bytes: u64,
    drafted_bytes: u64,
    pub(super) is_full: bool,
    /// The file, while it is open.
    pub(super) file: KeptFile,
    /// Whether the last byte of the file is known to end a line.
    pub(super) ends_with_line: bool,
}

impl Recording {
    /// An empty recording, for this file.
    pub(super) fn new(path: &Path) -> Recording {
        Recording { path: path.to_owned(), ..Recording::default() }
    }

    /// Reads a recording. A file that does not exist is an empty recording if `may_be_missing`.
    pub(super) fn load(path: &Path, may_be_missing: bool) -> Result<Recording, OptionError> {
        let unreadable = |why: String| OptionError {
            kind: ErrorKind::UnreadableFile,
            why: format!("cannot read {}: {why}", path.display()),
        };
        let metadata = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && may_be_missing => {
                return Ok(Recording::new(path));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = path.display();
                let why = format!(
                    "there is no such file; name another file, or record this one: \
                     `conductor agent 'cache --mode record --file {path}' my-agent`"
                );
                return Err(unreadable(why));
            }
            metadata => metadata.map_err(|error| unreadable(error.to_string()))?,
        };
        if !metadata.is_file() {
            return Err(unreadable("it is not a regular file".to_owned()));
        }
        if metadata.len() > MAX_BYTES {
            return Err(unreadable(format!("it has more than {} MiB", MAX_BYTES / 1024 / 1024)));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        if text.is_empty() && may_be_missing {
            return Ok(Recording::new(path));
        }
        let mut recording = Recording::parse(path, &text)?;
        // The file that a link leads to is written, and the link stays.
        recording.path = path.canonicalize().map_err(|error| unreadable(error.to_string()))?;
        Ok(recording)
    }

    /// Reads the text of a recording. Errors name the line. A last line that was not written to its end, because the
    /// writer was killed, is left out.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Recording, OptionError> {
        let mut recording = Recording::new(path);
        recording.length = text.len() as u64;
        let mut current = None;
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let wrong = |why: &str| OptionError {
                kind: ErrorKind::InvalidOptionsFile,
                why: format!("{}:{number}: {why}; record the conversation again", path.display()),
            };
            match (number, serde_json::from_str(line)) {
                (1, Ok(Line { recording: Some(VERSION), .. })) => {}
                (1, Ok(Line { recording: Some(version), .. })) => {
                    return Err(wrong(&format!(
                        "the recording has version {version}, and this program reads version {VERSION}"
                    )));
                }
                (1, _) => return Err(wrong("this is not a recording of the component cache")),
                (_, Err(error)) if error.is_eof() && !line.ends_with('\n') => break,
                (_, Err(error)) => {
                    // The error counts lines from the beginning of this one.
                    let why = error.to_string();
                    let why = why.split(" at line ").next().unwrap_or_default();
                    let why = format!("column {}: {why}", error.column());
                    return Err(wrong(&format!("this is not a line of a recording: {why}")));
                }
                (_, Ok(line)) => {
                    recording.read_line(line, &mut current).map_err(|why| wrong(&why))?;
                }
            }
            recording.whole += line.len() as u64;
        }
        if text.is_empty() {
            let why = format!("{}:1: the recording is empty; record it again", path.display());
            return Err(OptionError { kind: ErrorKind::InvalidOptionsFile, why });
        }
        Ok(recording)
    }

    fn read_line(&mut self, line: Line<'_>, current: &mut Option<String>) -> Result<(), String> {
        match line {
            Line {
                recording: None,
                entry: Some(entry),
                after: Some(after),
                sent: Some(sent),
                got: None,
            } => {
                if sent.get().len() > MAX_SENT {
                    return Err("the message of this entry is too long".to_owned());
                }
                let sent: Value = serde_json::from_str(sent.get()).map_err(|it| it.to_string())?;
                if entry != key(&after, &sent) {
                    return Err("the message of this entry was changed".to_owned());
                }
                self.is_untidy |= !self.insert(&entry, Entry::new(&after, &sent));
                *current = Some(entry);
            }
            Line { recording: None, entry: Some(entry), after: None, sent: None, got: None } => {
                if !self.entries.contains_key(&entry) {
                    return Err("the entry that is continued here does not exist".to_owned());
                }
                self.is_untidy = true;
                *current = Some(entry);
            }
            Line { recording: None, entry: None, after: None, sent: None, got: Some(got) } => {
                let got = got.get();
                Got::parse(got)
                    .map_err(|why| format!("this is not a line of a recording: {why}"))?;
                let entry = current.as_ref().and_then(|key| self.entries.get_mut(key));
                entry.ok_or("this message belongs to no entry")?.got.push(got.into());
            }
            Line { recording: Some(_), .. } => return Err("a second header".to_owned()),
            _ => return Err("this is not a line of a recording".to_owned()),
        }
        Ok(())
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The entry with this key.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The entries that follow the one with this key.
    pub(super) fn children(&self, key: &str) -> impl Iterator<Item = &Entry> {
        self.children.get(key).into_iter().flatten().filter_map(|key| self.entries.get(key))
    }

    /// All entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.order.iter().filter_map(|key| self.entries.get(key))
    }

    /// The key of the only recorded request that loads a session like this one does, whatever the session.
    pub(super) fn only_session(&self, after: &str, sent: &Value) -> Option<String> {
        sent.get("session")?;
        let keys = self.children.get(after)?;
        let mut like = keys.iter().filter(|key| {
            let other = self.entries.get(*key).map(Entry::sent).unwrap_or_default();
            other["request"] == sent["request"] && other["params"] == sent["params"]
        });
        like.next().filter(|_| like.next().is_none()).cloned()
    }

    /// Whether the mode `auto` replays a request: the recording has its end, without a cancellation, and the agent has
    /// not refused it.
    pub(super) fn answers(&self, key: &str) -> bool {
        let Some(entry) = self.entries.get(key) else { return false };
        let sent = entry.sent();
        let is_setting = sent["params"]["sessionId"].is_string()
            && !["session/prompt", "session/load", "session/resume"]
                .iter()
                .any(|it| sent["request"] == *it);
        self.is_finished(key) && (is_setting || !entry.is_failed())
    }

    /// Whether the recording has the end of what a message begins: the answer, and in ACP version 2 the end of the turn.
    /// Turns that were cancelled do not count.
    fn is_finished(&self, key: &str) -> bool {
        let is_prompt = self.entry(key).is_some_and(|it| it.sent()["request"] == "session/prompt");
        let mut open = vec![(key, false)];
        for _ in 0..MAX_SEARCH {
            let Some((key, mut is_answered)) = open.pop() else { return false };
            let Some(entry) = self.entries.get(key) else { continue };
            for got in entry.got.iter().filter_map(|got| Got::parse(got).ok()) {
                match &got {
                    Got::Answer { answer, .. } if !is_answered => {
                        let is_accepted =
                            answer.as_ref().is_ok_and(|it| !it.contains("\"stopReason\""));
                        if !(is_prompt && is_accepted) {
                            return true;
                        }
                        is_answered = true;
                    }
                    got if is_answered && got.is_idle() == Some(true) => return true,
                    _ => {}
                }
            }
            let next = self.children.get(key).into_iter().flatten();
            let next =
                next.filter(|key| !self.entries.get(*key).is_some_and(|it| it.has("notification")));
            open.extend(next.map(|key| (key.as_str(), is_answered)));
        }
        false
    }

    /// Makes room for a part of a turn that is not complete. Returns false if the recording is full.
    pub(super) fn reserve(&mut self, bytes: usize) -> bool {
        let all = self.length + self.unsaved_bytes + self.drafted_bytes + bytes as u64;
        match all < MAX_BYTES {
            true => self.drafted_bytes += bytes as u64,
            false => self.is_full = true,
        }
        all < MAX_BYTES
    }

    /// A turn is not recorded, or recorded now.
    pub(super) fn release(&mut self, bytes: usize) {
        self.drafted_bytes = self.drafted_bytes.saturating_sub(bytes as u64);
    }

    /// Records a turn that is complete. Returns whether the last entry is recorded as it is.
    pub(super) fn commit(&mut self, turn: Vec<(String, Entry)>) -> bool {
        let is_cut = |index: usize| {
            let (next, key) = (turn.get(index + 1), &turn[index].0);
            next.is_some_and(|(_, next)| next.after == *key && next.has("notification"))
        };
        let cuts: Vec<bool> = (0..turn.len()).map(is_cut).collect();
        let mut is_recorded = false;
        for ((key, entry), is_cut) in turn.into_iter().zip(cuts) {
            is_recorded = self.put(key, entry, is_cut);
        }
        is_recorded
    }

    /// Records an entry. What was recorded for it in an earlier run is replaced, but a turn that ends stays in place of
    /// one that was cancelled. Within a run, the first entry stays, unless the agent has refused it.
    fn put(&mut self, key: String, entry: Entry, is_cut: bool) -> bool {
        let is_first = self.new.insert(key.clone());
        if let Some(old) = self.entries.get(&key) {
            if *old == entry {
                return true;
            }
            let is_better =
                || entry.has("request") && !is_cut && (old.is_failed() || !self.is_finished(&key));
            let stays = match is_first {
                true => is_cut && self.is_finished(&key),
                false => !is_better(),
            };
            if stays {
                return false;
            }
        }
        self.is_untidy |= self.entries.contains_key(&key);
        self.note_unsaved(&key, 0, entry.lines(&key, 0).len());
        self.insert(&key, entry);
        true
    }

    /// Returns false if another entry was replaced.
    fn insert(&mut self, key: &str, entry: Entry) -> bool {
        let after = entry.after.clone();
        let is_new = self.entries.insert(key.to_owned(), entry).is_none();
        if is_new {
            self.order.push(key.to_owned());
            self.children.entry(after).or_default().push(key.to_owned());
        }
        is_new
    }

    /// Records a message of the agent after the end of a turn.
    pub(super) fn append(&mut self, key: &str, got: &Got) {
        let text = got.text();
        if !self.reserve(text.len() + 64) {
            return;
        }
        self.release(text.len() + 64);
        if let Some(entry) = self.entries.get_mut(key) {
            let written = entry.got.len() + 1;
            entry.got.push(text.clone().into());
            self.note_unsaved(key, written, text.len() + 64);
        }
    }

    fn note_unsaved(&mut self, key: &str, written: usize, bytes: usize) {
        self.unsaved_bytes += bytes as u64;
        match self.unsaved.iter_mut().find(|(it, _)| it == key) {
            Some((_, known)) => *known = (*known).min(written),
            None => self.unsaved.push((key.to_owned(), written)),
        }
    }

    pub(super) fn has_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    /// Whether anything was recorded in this run.
    pub(super) fn has_recorded(&self) -> bool {
        !self.new.is_empty()
    }

    /// The lines that are not in the file.
    pub(super) fn unsaved_text(&self) -> String {
        let lines = self.unsaved.iter();
        lines
            .filter_map(|(key, written)| Some(self.entries.get(key)?.lines(key, *written)))
            .collect()
    }

    /// The file has this length now, and everything is in it.
    pub(super) fn note_saved(&mut self, length: u64) {
        self.is_untidy |= self.unsaved.iter().any(|(_, written)| *written > 0);
        self.unsaved.clear();
        (self.length, self.whole, self.unsaved_bytes) = (length, length, 0);
    }

    /// Takes over what another run has recorded in the file. What the file does not have is written again.
    pub(super) fn merge(&mut self, other: Recording) {
        (self.length, self.whole) = (other.length, other.whole);
        let unsaved: HashSet<&String> = self.unsaved.iter().map(|(key, _)| key).collect();
        let is_lost = |key: &&String| !other.entries.contains_key(*key) && !unsaved.contains(key);
        let lost: Vec<_> = self.order.iter().filter(is_lost).map(|key| (key.clone(), 0)).collect();
        self.unsaved.extend(lost);
        for (key, written) in &mut self.unsaved {
            *written = if other.entries.contains_key(key) { *written } else { 0 };
        }
        self.is_untidy |= other.is_untidy;
        let Recording { order, mut entries, .. } = other;
        for key in order {
            if let Some(entry) = entries.remove(&key).filter(|_| !self.entries.contains_key(&key)) {
                self.insert(&key, entry);
            }
        }
    }

    /// The first line of the file.
    pub(super) fn header() -> String {
        format!("{{\"recording\":{VERSION}}}\n")
    }

    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let mut text = Recording::header();
        for key in &self.order {
            if let Some(entry) = self.entries.get(key) {
                text.push_str(&entry.lines(key, 0));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
