//! Writes records: numbers and chains them, rotates files, and continues after a crash.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use super::chain::{BadLine, GENESIS, Hasher, Place, encode};
use super::files::{Names, Start, Tail};
use super::head::Head;
use super::options::AuditOptions;
use super::record::{Event, Record, content};
use super::text::fit;
use crate::append;

/// The clock of a log.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Writes one chain.
pub(super) struct Writer {
    names: Names,
    lock: File,
    file: File,
    hasher: Hasher,
    clock: Clock,
    max_bytes: u64,
    max_age: Duration,
    /// When the file began.
    since: Timestamp,
    /// The length of the file up to its last whole record.
    length: u64,
    /// The number of the next record.
    seq: u64,
    /// The hash of the last record, and its time.
    last: (String, String),
    /// Whether there are records that are perhaps not on the disk.
    pub(super) is_dirty: bool,
    /// How many records could not be written since the last that could, and why.
    pub(super) lost: u64,
    pub(super) failure: Option<String>,
}

/// The run of this program, in all of its logs.
fn run() -> &'static str {
    static RUN: OnceLock<String> = OnceLock::new();
    RUN.get_or_init(|| {
        let mut bytes = [0; 8];
        if getrandom::fill(&mut bytes).is_err() {
            bytes = u64::from(std::process::id()).to_be_bytes();
        }
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    })
}

/// Where a file begins in the chain.
struct Beginning {
    seq: u64,
    prev: String,
    record: Record,
}

impl Beginning {
    fn new() -> Beginning {
        let record = Record::new(Event::Open, "audit").detail("version", env!("CARGO_PKG_VERSION"));
        Beginning { seq: 1, prev: GENESIS.to_owned(), record }
    }

    fn after(mut self, seq: u64, prev: String, file: &Path) -> Beginning {
        (self.seq, self.prev) = (seq + 1, prev);
        self.detail("after", name(file))
    }

    fn detail(mut self, name: &str, value: impl Into<serde_json::Value>) -> Beginning {
        self.record = self.record.detail(name, value);
        self
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Writer {
    /// Opens a log, and continues the chain that earlier runs have left.
    pub(super) fn open(
        options: &AuditOptions,
        hasher: Hasher,
        clock: Clock,
    ) -> Result<Writer, String> {
        let names = Names::new(&options.file)?;
        names.create_folder()?;
        let (names, lock) = names.lock()?;
        let file = open_regular(&names.active())?;
        let mut writer = Writer {
            since: timestamp(&clock),
            names,
            lock,
            file,
            hasher,
            clock,
            max_bytes: options.max_bytes,
            max_age: options.max_age,
            length: 0,
            seq: 1,
            last: (GENESIS.to_owned(), String::new()),
            is_dirty: false,
            lost: 0,
            failure: None,
        };
        writer.begin().map_err(|error| error.to_string())?;
        Ok(writer)
    }

    /// Finds the place in the chain, and records that the log was opened.
    fn begin(&mut self) -> io::Result<()> {
        let start = Start::read(&mut self.file)?;
        let is_other = !start.algorithm().is_empty() && start.algorithm() != self.hasher.name();
        let hasher = if is_other { Hasher::default() } else { self.hasher.clone() };
        let Tail { last, whole, torn } = Tail::read(&mut self.file, &hasher)?;
        let beginning = match last {
            None => {
                self.file.set_len(0)?;
                first_file(&self.names, &self.hasher)
            }
            Some(Ok(link)) if link.event != "rotated" && !is_other => {
                self.since = start.time.parse().unwrap_or(self.since);
                self.length = whole;
                self.file.set_len(whole)?;
                let mut beginning = Beginning::new();
                if let Some(head) = missing(&self.names, link.seq) {
                    beginning = beginning.detail("missing", head);
                }
                (beginning.seq, beginning.prev) = (link.seq + 1, link.hash);
                beginning
            }
            Some(last) => {
                let aside = self.names.move_aside()?;
                self.file = open_regular(&self.names.active()).map_err(io::Error::other)?;
                match last {
                    Ok(link) => Beginning::new().after(link.seq, link.hash, &aside),
                    Err(BadLine::WrongHash(link)) if start.algorithm() == "hmac-sha256" => {
                        let beginning = Beginning::new().after(link.seq, link.hash, &aside);
                        beginning.detail("other_key", true)
                    }
                    Err(bad) => after_bad_file(&self.names, bad, &aside),
                }
            }
        };
        (self.seq, self.last.0) = (beginning.seq, beginning.prev);
        let opened = beginning.record.detail("algorithm", self.hasher.name());
        if self.length > 0 {
            // In an existing file, the bytes that a crash has left come first, at their place.
            self.keep_torn(&torn)?;
            self.append(opened)?;
        } else {
            self.put(opened)?;
            self.keep_torn(&torn)?;
        }
        self.sync()?;
        self.names.sync_folder();
        Ok(())
    }

    /// Records the bytes of a line that a crash has cut off.
    fn keep_torn(&mut self, torn: &[u8]) -> io::Result<()> {
        if torn.is_empty() {
            return Ok(());
        }
        let mut record = Record::new(Event::Recovered, "audit").detail("torn", content(torn));
        record = record.detail("text", String::from_utf8_lossy(torn));
        self.put(record)
    }

    /// Appends a record. Rotates the file first if it is full or old.
    pub(super) fn append(&mut self, record: Record) -> io::Result<()> {
        let appended = self.try_append(record);
        match &appended {
            Ok(()) => self.failure = None,
            Err(error) => {
                self.lost += 1;
                self.failure = Some(error.to_string());
            }
        }
        appended
    }

    fn try_append(&mut self, record: Record) -> io::Result<()> {
        let age = timestamp(&self.clock).duration_since(self.since);
        let is_old = age.unsigned_abs() >= self.max_age && !age.is_negative();
        if self.length >= self.max_bytes || is_old {
            self.rotate()?;
        }
        if self.lost > 0 {
            let lost = Record::new(Event::Recovered, "audit").detail("lost", self.lost);
            self.put(lost)?;
            self.lost = 0;
        }
        self.put(record)
    }

    /// Writes one line, or nothing.
    fn put(&mut self, record: Record) -> io::Result<()> {
        let time = format_time(timestamp(&self.clock));
        let place = Place { seq: self.seq, time: &time, run: run(), prev: &self.last.0 };
        let (line, hash) = encode(&fit(record), &place, &self.hasher);
        let length = self.file.metadata()?.len();
        if length > self.length {
            // The rest of a line that an earlier failure has left.
            self.file.set_len(self.length)?;
        }
        self.file.seek(SeekFrom::End(0))?;
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // The disk is full. If the rest of the line cannot be removed now, the next record tries again.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += line.len() as u64;
        self.seq += 1;
        self.last = (hash, time);
        self.is_dirty = true;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.put(Record::new(Event::Rotated, "audit"))?;
        self.file.sync_data()?;
        let aside = self.names.move_aside()?;
        self.file = open_regular(&self.names.active()).map_err(io::Error::other)?;
        self.length = 0;
        self.since = timestamp(&self.clock);
        let beginning = Beginning::new().after(self.seq - 1, self.last.0.clone(), &aside);
        self.put(beginning.record.detail("algorithm", self.hasher.name()))?;
        self.sync()?;
        self.names.sync_folder();
        Ok(())
    }

    /// Makes all records durable, and writes the head.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.is_dirty = false;
        self.head().write(&self.names.head())
    }

    /// Ends the log. Another run may write it then.
    pub(super) fn close(&mut self) -> io::Result<()> {
        let closed = self.append(Record::new(Event::Close, "audit"));
        let closed = closed.and_then(|()| self.sync());
        let _ = self.lock.unlock();
        closed
    }

    /// The file, for a thread that makes it durable.
    pub(super) fn clone_file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// The last record.
    pub(super) fn head(&self) -> Head {
        let (hash, time) = self.last.clone();
        Head { file: name(&self.names.active()), seq: self.seq - 1, hash, time }
    }

    /// The file that records are appended to.
    pub(super) fn path(&self) -> PathBuf {
        self.names.active()
    }
}

/// Checks that a log can be opened, without writing to it.
pub(super) fn check(file: &Path) -> Result<(), String> {
    let names = Names::new(file)?;
    names.create_folder()?;
    match names.active().symlink_metadata() {
        Ok(_) => open_regular(&names.active()).map(drop),
        Err(_) => names.lock().map(drop),
    }
}

fn open_regular(path: &Path) -> Result<File, String> {
    let file = append::open_to_read(path)?;
    let is_regular = file.metadata().is_ok_and(|it| it.is_file());
    if !is_regular {
        return Err("it is a device. Name a file".to_owned());
    }
    Ok(file)
}

/// The first file of a run: it continues the newest rotated file, if there is one.
fn first_file(names: &Names, hasher: &Hasher) -> Beginning {
    let mut beginning = Beginning::new();
    if let Some((_, path)) = names.rotated().pop() {
        let tail = File::open(&path).and_then(|mut file| Tail::read(&mut file, hasher));
        match tail.ok().and_then(|tail| tail.last) {
            Some(Ok(link) | Err(BadLine::WrongHash(link))) => {
                beginning = beginning.after(link.seq, link.hash, &path);
            }
            _ => beginning = beginning.detail("after", name(&path)),
        }
    }
    match missing(names, beginning.seq - 1) {
        Some(head) => beginning.detail("missing", head),
        None => beginning,
    }
}

/// A file whose last record does not verify is kept as it is. The chain continues in a new file.
fn after_bad_file(names: &Names, bad: BadLine, aside: &Path) -> Beginning {
    let head = Head::read(&names.head()).ok().flatten();
    let (beginning, why) = match (bad, head) {
        (BadLine::WrongHash(link), _) => {
            let why = "the hash of its last record is wrong";
            (Beginning::new().after(link.seq, link.hash, aside), why.to_owned())
        }
        (BadLine::NotARecord(why), Some(head)) => {
            (Beginning::new().after(head.seq, head.hash, aside), why)
        }
        (BadLine::NotARecord(why), None) => (Beginning::new().detail("after", name(aside)), why),
    };
    beginning.detail("problem", why)
}

/// The head, if it is newer than the last record of the file: the end of the file is missing.
fn missing(names: &Names, last: u64) -> Option<serde_json::Value> {
    let head = Head::read(&names.head()).ok().flatten()?;
    (head.seq > last).then(|| serde_json::to_value(head).unwrap_or_default())
}

fn timestamp(clock: &Clock) -> Timestamp {
    Timestamp::try_from(clock()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The time in RFC 3339, with milliseconds: `2026-11-15T14:03:07.123Z`.
pub fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
