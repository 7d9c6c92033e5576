//! What the options of a built-in component lead to: the files that it reads, and what these would run.
//!
//! `conductor trust` shows it before the user agrees to the file of a project, and compares the files afterwards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::file::{ReadError, ReadLimits, read_bytes};

/// The largest file that is looked into.
pub const MAX_FILE: usize = 4 * 1024 * 1024;

/// What the options of a component lead to.
#[derive(Debug, Clone, Default)]
pub struct Mentions {
    /// The files that the component reads, or would read if they existed.
    pub files: Vec<MentionedFile>,
    /// What the component runs because of its options and of these files, for the user.
    pub runs: Vec<String>,
    /// Texts that may name further files, such as command lines.
    pub texts: Vec<String>,
}

/// A file that a component reads.
#[derive(Debug, Clone)]
pub struct MentionedFile {
    /// Its path.
    pub path: PathBuf,
    /// Its bytes. `None` if there is no such file, or if it cannot be read.
    pub bytes: Option<Vec<u8>>,
}

impl Mentions {
    /// Adds a file, and returns its bytes. A file that is not regular or too large is left out: the component does not read it
    /// either.
    pub fn add_file(&mut self, path: &Path) -> Option<Vec<u8>> {
        let limits = ReadLimits { max_bytes: MAX_FILE, outside: true };
        let bytes = match read_bytes(Path::new("/"), path, limits) {
            Ok((bytes, false)) => Some(bytes),
            Err(ReadError::Missing) => None,
            Ok((_, true)) | Err(_) => return None,
        };
        self.files.push(MentionedFile { path: path.to_owned(), bytes: bytes.clone() });
        bytes
    }

    /// Adds all texts of a value.
    pub fn add_texts(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.texts.push(text.clone()),
            Value::Array(list) => list.iter().for_each(|it| self.add_texts(it)),
            Value::Object(members) => members.values().for_each(|it| self.add_texts(it)),
            _ => {}
        }
    }
}

/// The files to which the user has agreed, and what was in them: a SHA-256, or `missing`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgreedFiles(pub BTreeMap<PathBuf, String>);

impl AgreedFiles {
    /// Checks that a file has the bytes to which the user has agreed.
    ///
    /// # Errors
    /// What is different.
    pub fn check(&self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let digest: String = Sha256::digest(bytes).iter().map(|it| format!("{it:02x}")).collect();
        let why = match self.0.get(path).map(String::as_str) {
            Some(agreed) if agreed == digest => return Ok(()),
            Some("missing") => "is new since you agreed to the project",
            Some(_) => "has changed since you agreed to it",
            None => "is not part of the project to which you agreed",
        };
        Err(why.to_owned())
    }
}
