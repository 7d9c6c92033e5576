//! The files of an audit log: their names, the lock, and the end of a file that an earlier run has left.
//!
//! The log `audit.jsonl` has its lock in `audit.lock` and its head in `audit.head`. Older files are
//! `audit-000001.jsonl` and so on. A second run at the same time writes `audit.2.jsonl`, with files of its own.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::chain::{BadLine, Hasher, Link, decode};
use crate::append;

/// How many runs can write beside each other.
const MAX_RUNS: u32 = 64;

/// How much of the end of a file is read. It is longer than any line.
const TAIL: u64 = 1024 * 1024;

/// The names of the files of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    folder: PathBuf,
    stem: String,
    /// The extension with its dot, or nothing.
    extension: String,
}

impl Names {
    /// The names for a log in this file.
    pub(super) fn new(file: &Path) -> Result<Names, String> {
        let file = std::path::absolute(file).map_err(|error| error.to_string())?;
        let text = |it: Option<&std::ffi::OsStr>| it.map(|it| it.to_str().map(str::to_owned));
        let stem = text(file.file_stem()).flatten();
        let stem = stem.ok_or("its name is not UTF-8 text. Name another file")?;
        let extension = match text(file.extension()) {
            None => String::new(),
            Some(Some(it)) if it != "lock" && it != "head" => format!(".{it}"),
            Some(_) => {
                return Err(
                    "this extension is not for logs. Name a file such as audit.jsonl".into()
                );
            }
        };
        let folder = file.parent().ok_or("it is a directory. Name a file")?.to_owned();
        Ok(Names { folder, stem, extension })
    }

    /// The names for a further run at the same time.
    pub(super) fn run(&self, number: u32) -> Names {
        let stem = match number {
            1 => self.stem.clone(),
            _ => format!("{}.{number}", self.stem),
        };
        Names { stem, ..self.clone() }
    }

    /// The names of all runs that have left a file.
    pub(super) fn existing_runs(&self) -> Vec<Names> {
        let runs = (1..=MAX_RUNS).map(|number| self.run(number));
        runs.filter(|names| names.active().exists() || !names.rotated().is_empty()).collect()
    }

    fn path(&self, rest: &str) -> PathBuf {
        self.folder.join(format!("{}{rest}", self.stem))
    }

    /// The file that records are appended to.
    pub(super) fn active(&self) -> PathBuf {
        self.path(&self.extension)
    }

    /// The file with the last number and hash.
    pub(super) fn head(&self) -> PathBuf {
        self.path(".head")
    }

    fn numbered(&self, number: u64) -> PathBuf {
        self.path(&format!("-{number:06}{}", self.extension))
    }

    /// The rotated files, oldest first.
    pub(super) fn rotated(&self) -> Vec<(u64, PathBuf)> {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let number = |name: &str| {
            let digits = name.strip_prefix(&self.stem)?.strip_prefix('-')?;
            let digits = digits.strip_suffix(&self.extension)?;
            let is_number = digits.len() >= 6 && digits.bytes().all(|it| it.is_ascii_digit());
            is_number.then(|| digits.parse().ok()).flatten()
        };
        let found = entries.flatten().filter_map(|entry| {
            let number = number(entry.file_name().to_str()?)?;
            Some((number, entry.path()))
        });
        let mut found: Vec<(u64, PathBuf)> = found.collect();
        found.sort();
        found
    }

    /// Gives the active file the next number. Returns its new name.
    pub(super) fn move_aside(&self) -> io::Result<PathBuf> {
        let last = self.rotated().last().map_or(0, |(number, _)| *number);
        let to = self.numbered(last + 1);
        std::fs::rename(self.active(), &to)?;
        self.sync_folder();
        Ok(to)
    }

    /// Makes new names durable, where the system can do that.
    pub(super) fn sync_folder(&self) {
        #[cfg(unix)]
        if let Ok(folder) = File::open(&self.folder) {
            let _ = folder.sync_all();
        }
    }

    /// Creates the folder if it does not exist. Only the user may enter it.
    pub(super) fn create_folder(&self) -> Result<(), String> {
        let created = crate::state_folder::create_private(&self.folder);
        created.map_err(|error| {
            format!("its directory {} cannot be created: {error}", self.folder.display())
        })
    }

    /// Locks the first chain that no other run writes. The lock ends with the file.
    pub(super) fn lock(&self) -> Result<(Names, File), String> {
        for number in 1..=MAX_RUNS {
            let names = self.run(number);
            let path = names.path(".lock");
            let failed = |why: String| format!("{}: {why}", path.display());
            let file = append::open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => return Ok((names, file)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(failed(format!("it cannot be locked: {error}")));
                }
            }
        }
        Err(format!("{MAX_RUNS} runs write it already. Name another file"))
    }
}

/// The end of a file.
#[derive(Debug)]
pub(super) struct Tail {
    /// The last line that ends with a line break. `None` if there is none.
    pub(super) last: Option<Result<Link, BadLine>>,
    /// The length of the file up to the end of that line.
    pub(super) whole: u64,
    /// The bytes after that line.
    pub(super) torn: Vec<u8>,
}

impl Tail {
    /// Reads the end of a file.
    pub(super) fn read(file: &mut File, hasher: &Hasher) -> io::Result<Tail> {
        let length = file.metadata()?.len();
        let start = length.saturating_sub(TAIL);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        let end = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
        let torn = bytes.split_off(end);
        let whole = start + end as u64;
        bytes.pop();
        let begin = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
        let last = match end {
            0 if start == 0 => None,
            0 => Some(Err(BadLine::NotARecord("its last line is too long".to_owned()))),
            _ => Some(decode(&bytes[begin..], hasher)),
        };
        Ok(Tail { last, whole, torn })
    }
}

/// The beginning of a file: the time of its first record, and how it is hashed.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Start {
    pub(super) time: String,
    details: StartDetails,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct StartDetails {
    algorithm: String,
}

impl Start {
    /// Reads the beginning of a file. What is missing is empty.
    pub(super) fn read(file: &mut File) -> io::Result<Start> {
        file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        let line = bytes.split(|it| *it == b'\n').next().unwrap_or_default();
        Ok(serde_json::from_slice(line).unwrap_or_default())
    }

    /// The algorithm of the hashes.
    pub(super) fn algorithm(&self) -> &str {
        &self.details.algorithm
    }
}
