//! What the user has consented to.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use acp_wire::{ErrorKind, printable};

use super::evidence::{Evidence, FileState, Role};
use super::names::without_dots;
use super::private_folder::PrivateFolder;
use super::record::{Record, key, state};
use crate::project::ProjectFile;

/// The maximum number of files in a record that keeps files of an older one.
const MAX_FILES: usize = 20_000;

/// The folder with the records of what the user has consented to, one file for each project.
///
/// Only the user can read and write it. Its place must not depend on a project: not on the working directory, and not on the
/// env-files of a project.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// Whether the user has consented to a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consent {
    /// The user has consented to exactly these files.
    Given,
    /// The user has not consented.
    Missing,
    /// The user has consented, but these files have changed since then.
    Changed(Vec<Change>),
    /// The record of the consent cannot be used, for this reason. It counts as no consent.
    Unusable(String),
}

/// A file that is not as it was when the user consented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: PathBuf,
    /// What is different.
    pub difference: Difference,
}

/// How a file differs from what the user has consented to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// Its content is another one.
    Changed,
    /// It is new, or newly named.
    Appeared,
    /// It does not exist any more.
    Vanished,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::Changed => "has changed",
            Difference::Appeared => "is new",
            Difference::Vanished => "does not exist any more",
        })
    }
}

/// Why a consent cannot be recorded, withdrawn or listed.
#[derive(Debug)]
pub struct StoreError {
    kind: ErrorKind,
    path: PathBuf,
    why: String,
}

impl Store {
    /// The store in this folder, which is created when the first consent is given.
    pub fn new(folder: impl Into<PathBuf>) -> Store {
        Store { folder: folder.into() }
    }

    /// Whether the user has consented to the text of a project's file.
    ///
    /// This is the first question. As long as the answer is not [`Consent::Given`], nothing that the text names is read.
    pub fn knows(&self, project: &ProjectFile) -> Consent {
        self.consent(&Evidence::of_config(project))
    }

    /// Whether the user has consented to all of these files.
    pub fn consent(&self, evidence: &Evidence) -> Consent {
        match self.record(evidence.root()) {
            Err(why) => Consent::Unusable(why),
            Ok(None) => Consent::Missing,
            Ok(Some(record)) => match changes(&record, evidence) {
                changes if changes.is_empty() => Consent::Given,
                changes => Consent::Changed(changes),
            },
        }
    }

    /// Records that the user has consented to these files.
    ///
    /// # Errors
    /// The store cannot be written, other users can access it, or it is inside of the project.
    pub fn give(&self, evidence: &Evidence) -> Result<(), StoreError> {
        let failed = |why| self.failed(ErrorKind::UnwritableFile, why);
        let folder = PrivateFolder::create(&self.folder).map_err(failed)?;
        self.check_outside(evidence.root()).map_err(failed)?;
        let name = Record::file_name(evidence.root());
        let _lock = folder.lock().map_err(failed)?;
        let mut record = Record::of(evidence, now());
        let old = folder.read(&name).ok().flatten();
        if let Some(Ok(old)) = old.map(|it| Record::read(&it, evidence.root()))
            && old.files.len() + record.files.len() <= MAX_FILES
        {
            record.keep(old, evidence);
        }
        let text = serde_json::to_string_pretty(&record).map_err(|why| failed(why.to_string()))?;
        folder.write(&name, text.as_bytes()).map_err(failed)
    }

    /// Forgets the consent to a project. Returns whether there was one.
    ///
    /// # Errors
    /// The store cannot be written, or other users can access it.
    pub fn withdraw(&self, root: &Path) -> Result<bool, StoreError> {
        let failed = |why| self.failed(ErrorKind::UnwritableFile, why);
        let Some(folder) = PrivateFolder::open(&self.folder).map_err(failed)? else {
            return Ok(false);
        };
        let _lock = folder.lock().map_err(failed)?;
        folder.delete(&Record::file_name(root)).map_err(failed)
    }

    /// Forgets the consent to all projects, also what cannot be read. Returns the number of records.
    ///
    /// # Errors
    /// The store cannot be written, or other users can access it.
    pub fn withdraw_all(&self) -> Result<usize, StoreError> {
        let failed = |why| self.failed(ErrorKind::UnwritableFile, why);
        let Some(folder) = PrivateFolder::open(&self.folder).map_err(failed)? else {
            return Ok(0);
        };
        let _lock = folder.lock().map_err(failed)?;
        let mut count = 0;
        for name in folder.names(".json").map_err(failed)? {
            count += usize::from(folder.delete(&name).map_err(failed)?);
        }
        for name in folder.names(".new").map_err(failed)? {
            folder.delete(&name).map_err(failed)?;
        }
        Ok(count)
    }

    /// All records, in the order of the roots. An error is a record that cannot be used, with the reason.
    ///
    /// # Errors
    /// The store cannot be read, or other users can access it.
    pub fn list(&self) -> Result<Vec<Result<Record, String>>, StoreError> {
        let failed = |why| self.failed(ErrorKind::UnreadableFile, why);
        let Some(folder) = PrivateFolder::open(&self.folder).map_err(failed)? else {
            return Ok(Vec::new());
        };
        let mut records = Vec::new();
        for name in folder.names(".json").map_err(failed)? {
            let read = |bytes: Vec<u8>| {
                let record = Record::parse(&bytes)?;
                match Record::file_name(&record.root) == name || !is_exact(&record.root) {
                    true => Ok(record),
                    false => Err("it is about another project".to_owned()),
                }
            };
            let record = match folder.read(&name) {
                Ok(None) => continue,
                Ok(Some(bytes)) => read(bytes),
                Err(why) => Err(why),
            };
            records.push(record.map_err(|why| self.describe(&self.folder.join(&name), &why)));
        }
        let root = |it: &Result<Record, String>| it.as_ref().ok().map(|it| it.root.clone());
        records.sort_by_key(root);
        Ok(records)
    }

    /// The record about a project.
    fn record(&self, root: &Path) -> Result<Option<Record>, String> {
        let folder = PrivateFolder::open(&self.folder);
        let folder = folder.map_err(|why| self.describe(&self.folder, &why))?;
        let Some(folder) = folder else { return Ok(None) };
        self.check_outside(root).map_err(|why| self.describe(&self.folder, &why))?;
        let name = Record::file_name(root);
        let damaged = |why: String| self.describe(&self.folder.join(&name), &why);
        let Some(bytes) = folder.read(&name).map_err(damaged)? else { return Ok(None) };
        Record::read(&bytes, root).map(Some).map_err(|why| damaged(format!("it is damaged: {why}")))
    }

    /// A project that contains the store could bring records along.
    fn check_outside(&self, root: &Path) -> Result<(), String> {
        let folder = self.folder.canonicalize().map_err(|why| why.to_string())?;
        // As it is written, too: the project may have brought along a link.
        match folder.starts_with(root) || without_dots(&self.folder).starts_with(root) {
            true => Err(format!(
                "it is inside of the project {}, which could have brought it along. Set XDG_STATE_HOME to another folder",
                root.display()
            )),
            false => Ok(()),
        }
    }

    fn describe(&self, path: &Path, why: &str) -> String {
        printable::one_line(&format!("{} is not used: {why}", path.display()))
    }

    fn failed(&self, kind: ErrorKind, why: String) -> StoreError {
        StoreError { kind, path: self.folder.clone(), why }
    }
}

fn changes(record: &Record, evidence: &Evidence) -> Vec<Change> {
    let root = evidence.root();
    let mut changes = Vec::new();
    let mut add =
        |path: &Path, difference| changes.push(Change { path: path.to_owned(), difference });
    // The same file may have been consented to in another role.
    if record.config != key(root, evidence.config()) {
        add(evidence.config(), Difference::Appeared);
        return changes;
    }
    for file in evidence.files() {
        match (record.files.get(&key(root, &file.path)), file.state) {
            (Some(recorded), now) if *recorded == state(now) => {}
            (_, FileState::Missing) => add(&file.path, Difference::Vanished),
            (Some(recorded), _) if recorded != "missing" => add(&file.path, Difference::Changed),
            (_, _) => add(&file.path, Difference::Appeared),
        }
    }
    for path in record.files.keys().map(|key| root.join(key)) {
        let now = evidence.file(&path).map(|it| (it.role, it.state));
        if now == Some((Role::Named, FileState::Missing)) {
            add(&path, Difference::Vanished);
        }
    }
    changes
}

/// Whether the root in a record has all bytes of the root.
fn is_exact(root: &Path) -> bool {
    !root.to_string_lossy().contains(char::REPLACEMENT_CHARACTER)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

impl StoreError {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!(
            "the folder {} with the projects that you trust cannot be used: {}",
            self.path.display(),
            self.why
        );
        f.write_str(&printable::one_line(&text))
    }
}

impl std::error::Error for StoreError {}

#[cfg(test)]
mod tests;
