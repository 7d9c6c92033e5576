//! What is written about a consent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::evidence::{Evidence, FileState};

/// The version of the format. A record of another version counts as damaged.
const VERSION: u32 = 1;

/// The consent to a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    v: u32,
    /// The root of the project. Bytes that are not UTF-8 are replaced.
    pub root: PathBuf,
    /// The time of the consent, in seconds since 1970.
    pub given: u64,
    /// The file of the project, from the root.
    pub config: String,
    /// The files, from the root, and what was in them: a SHA-256, `missing`, `folder` or `special`.
    pub files: BTreeMap<String, String>,
}

impl Record {
    /// The consent to these files.
    pub(super) fn of(evidence: &Evidence, given: u64) -> Record {
        let root = evidence.root();
        let files = evidence.files().map(|it| (key(root, &it.path), state(it.state)));
        Record {
            v: VERSION,
            root: shown(root),
            given,
            config: key(root, evidence.config()),
            files: files.collect(),
        }
    }

    /// The record about a project.
    pub(super) fn read(bytes: &[u8], root: &Path) -> Result<Record, String> {
        let record = Record::parse(bytes)?;
        match record.root == shown(root) {
            true => Ok(record),
            false => Err("it is about another project".to_owned()),
        }
    }

    /// A record about any project.
    pub(super) fn parse(bytes: &[u8]) -> Result<Record, String> {
        let record: Record = serde_json::from_slice(bytes).map_err(|it| it.to_string())?;
        let valid = |it: &String| is_state(it);
        match record.v == VERSION && record.files.values().all(valid) {
            true => Ok(record),
            false => Err("it was written by another version of conductor".to_owned()),
        }
    }

    /// The name of the file of the record about a project.
    pub(super) fn file_name(root: &Path) -> String {
        format!("{}.json", Digest::of(root.as_os_str().as_encoded_bytes()))
    }

    /// Keeps the files of an older consent to the same text that the new consent does not mention. They are the files that
    /// components name if they run in another folder of the project.
    pub(super) fn keep(&mut self, old: Record, evidence: &Evidence) {
        let config = |record: &Record| record.files.get(&record.config).cloned();
        if old.config != self.config || config(&old) != config(self) {
            return;
        }
        let root = evidence.root();
        let mentioned = |key: &str| evidence.file(&root.join(key)).is_some();
        for (key, state) in old.files.into_iter().filter(|(key, _)| !mentioned(key)) {
            self.files.entry(key).or_insert(state);
        }
    }
}

/// A path in a record: from the root, if it is inside of the root.
pub(super) fn key(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    match path.to_str() {
        Some(text) => text.to_owned(),
        // No path contains a NUL, so no other path has this key.
        None => format!("\0{}", path.as_os_str().as_encoded_bytes().escape_ascii()),
    }
}

/// The content of a file in a record.
pub(super) fn state(state: FileState) -> String {
    match state {
        FileState::Missing => "missing".to_owned(),
        FileState::Regular { digest, .. } => digest.to_string(),
        FileState::Folder => "folder".to_owned(),
        FileState::Special => "special".to_owned(),
    }
}

fn is_state(text: &str) -> bool {
    matches!(text, "missing" | "folder" | "special") || Digest::parse(text).is_some()
}

fn shown(root: &Path) -> PathBuf {
    PathBuf::from(root.to_string_lossy().into_owned())
}
