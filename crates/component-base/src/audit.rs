//! The audit log: what was decided, recorded as lines of JSON, each chained by a hash to the one before.
//!
//! A line is a JSON object. Its last member `hash` is the SHA-256 of the bytes of the line before `,"hash":"`, and
//! `prev` is the hash of the line before. So an edit, a missing line and a changed order are found by
//! `conductor audit verify`. `docs/audit.md` describes the format, and what the chain does not show.

mod chain;
mod files;
mod head;
mod options;
mod read;
mod record;
mod show;
mod text;
mod verify;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

pub use chain::{Hasher, sha256};
pub use head::Head;
pub use jiff::Timestamp;
pub use options::{AuditOptions, OnFailure};
pub use record::{By, Decision, Event, Record, RuleRef, content};
pub use show::{Filter, Found, parse_time, parse_time_at, rule, show, subject};
pub use verify::{Problem, Report, verify};
pub use writer::Clock;
pub use writer::format_time;

use writer::Writer;

/// Records that need not be on the disk at once are there after this time.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The head command runs at most once in this time, and at the end.
const HEAD_INTERVAL: Duration = Duration::from_secs(60);

/// The shortest key.
const MIN_KEY: usize = 16;

/// An open audit log. Clones write the same log. When the last one is dropped, the log is closed.
///
/// Components of one process that name the same file share the log.
#[derive(Clone)]
pub struct Audit {
    handle: Arc<Handle>,
    on_failure: OnFailure,
}

/// A record could not be written, and the options say that the action is denied in this case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditError {
    /// The file.
    pub file: PathBuf,
    /// Why it cannot be written.
    pub why: String,
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the audit log {} cannot be written: {}", self.file.display(), self.why)
    }
}

impl std::error::Error for AuditError {}

/// The last owner closes the log.
struct Handle {
    path: PathBuf,
    log: Arc<Log>,
}

struct Log {
    options: AuditOptions,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    writer: Writer,
    is_closed: bool,
    /// Whether a failure has been printed. The next success resets it.
    is_reported: bool,
    head_failure: Option<String>,
}

/// The open logs of this process.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<Handle>>>> = LazyLock::new(Mutex::default);

/// A log of this process has been closed.
static CLOSED: Condvar = Condvar::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Audit {
    /// Opens a log and records that it was opened. An existing log is continued.
    ///
    /// # Errors
    /// What is wrong with the file or the key, and what to do.
    pub fn open(options: &AuditOptions) -> Result<Audit, String> {
        Audit::open_with_clock(options, Arc::new(SystemTime::now))
    }

    /// Opens a log like [`Audit::open`], with a clock of the caller.
    ///
    /// # Errors
    /// What is wrong with the file or the key, and what to do.
    pub fn open_with_clock(options: &AuditOptions, clock: Clock) -> Result<Audit, String> {
        let file = options.file.clone();
        let failed = |why: String| format!("audit log {}: {why}", file.display());
        let path = std::path::absolute(&options.file).map_err(|error| failed(error.to_string()))?;
        let on_failure = options.on_failure.unwrap_or(OnFailure::Deny);
        // What all components that share a log must agree on.
        let options = AuditOptions { on_failure: None, ..options.clone() };
        let mut open = lock(&OPEN);
        while let Some(handle) = open.get(&path) {
            let Some(handle) = handle.upgrade() else {
                // The last owner is closing it.
                open = CLOSED.wait(open).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            // If the handle is the last one by now, dropping it takes the lock.
            drop(open);
            if handle.log.options != options {
                let why = "another component has opened it with other options. Use the same options, or another file";
                return Err(failed(why.to_owned()));
            }
            return Ok(Audit { handle, on_failure });
        }
        let hasher = read_key(options.key_file.as_deref())?;
        let writer = Writer::open(&options, hasher, clock).map_err(failed)?;
        let state = State { writer, is_closed: false, is_reported: false, head_failure: None };
        let log = Log { options, state: Mutex::new(state), changed: Condvar::new() };
        let log = Arc::new(log);
        let background = log.clone();
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let started = thread.spawn(move || background.sync_each_second());
        started.map_err(|error| failed(error.to_string()))?;
        let handle = Arc::new(Handle { path: path.clone(), log });
        open.insert(path, Arc::downgrade(&handle));
        Ok(Audit { handle, on_failure })
    }

    /// Checks that a log can be opened, without writing to it.
    ///
    /// # Errors
    /// What is wrong with the file or the key, and what to do.
    pub fn check(options: &AuditOptions) -> Result<(), String> {
        read_key(options.key_file.as_deref())?;
        writer::check(&options.file)
            .map_err(|why| format!("audit log {}: {why}", options.file.display()))
    }

    /// Writes a record. A denial and a question are on the disk when this returns.
    ///
    /// # Errors
    /// The record cannot be written, and `on_failure` is `deny`: the caller must deny the action.
    pub fn record(&self, record: Record) -> Result<(), AuditError> {
        let log = &self.handle.log;
        let mut state = lock(&log.state);
        let is_urgent = record.is_urgent();
        let mut written = state.writer.append(record);
        if is_urgent && written.is_ok() {
            written = state.writer.sync();
        }
        log.changed.notify_all();
        let Err(error) = written else {
            state.is_reported = false;
            return Ok(());
        };
        let error = AuditError { file: state.writer.path(), why: error.to_string() };
        match self.on_failure {
            OnFailure::Deny => Err(error),
            OnFailure::Warn => {
                if !std::mem::replace(&mut state.is_reported, true) {
                    report(&format!("{error}. Records are lost"));
                }
                Ok(())
            }
        }
    }

    /// The file that this run writes. A second run at the same time has a file of its own.
    pub fn path(&self) -> PathBuf {
        lock(&self.handle.log.state).writer.path()
    }

    /// The last record.
    pub fn head(&self) -> Head {
        lock(&self.handle.log.state).writer.head()
    }

    /// The state of the log in a few lines, for `conductor status`.
    pub fn status(&self) -> Vec<String> {
        let state = lock(&self.handle.log.state);
        let head = state.writer.head();
        let mut lines =
            vec![format!("audit log {}: {} records", state.writer.path().display(), head.seq)];
        if let Some(why) = &state.writer.failure {
            lines.push(format!(
                "audit log cannot be written ({} records lost): {why}",
                state.writer.lost
            ));
        }
        if let Some(why) = &state.head_failure {
            lines.push(format!("head command failed: {why}"));
        }
        lines
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Audit").field(&self.handle.log.options.file).finish()
    }
}

impl Log {
    /// Makes records durable within a second, and sends the head to its command.
    fn sync_each_second(&self) {
        let mut sent: Option<(u64, Instant)> = None;
        let mut state = lock(&self.state);
        while !state.is_closed {
            let is_new = sent.is_none_or(|(seq, _)| seq != state.writer.head().seq);
            let is_head_due = self.options.head_command.is_some() && is_new;
            let wait = match (state.writer.is_dirty, is_head_due, sent) {
                (true, ..) => Some(SYNC_INTERVAL),
                (false, true, Some((_, at))) => Some(HEAD_INTERVAL.saturating_sub(at.elapsed())),
                (false, true, None) => Some(Duration::ZERO),
                (false, false, _) => None,
            };
            state = match wait {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(wait) => {
                    let still = |state: &mut State| !state.is_closed;
                    let waited = self.changed.wait_timeout_while(state, wait, still);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            if state.is_closed || wait.is_none() {
                continue;
            }
            if state.writer.is_dirty {
                state = self.sync(state);
            }
            let is_time = sent.is_none_or(|(_, at)| at.elapsed() >= HEAD_INTERVAL);
            if is_head_due && is_time && !state.is_closed {
                let head = state.writer.head();
                sent = Some((head.seq, Instant::now()));
                drop(state);
                let failure = self.send_head(&head);
                state = lock(&self.state);
                state.head_failure = failure;
            }
        }
    }

    /// Makes the records durable without holding the lock, then writes the head.
    fn sync<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let file = state.writer.clone_file();
        drop(state);
        let synced = file.and_then(|file| file.sync_data());
        let mut state = lock(&self.state);
        if !state.is_closed {
            // The head must not name a record that is not on the disk yet.
            let synced = synced.and_then(|()| state.writer.sync());
            if let Err(error) = synced {
                state.writer.is_dirty = false;
                state.writer.failure = Some(error.to_string());
            }
        }
        state
    }

    fn send_head(&self, head: &Head) -> Option<String> {
        let command = self.options.head_command.as_deref()?;
        head.send_to(command).err()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let head = {
            let mut state = lock(&self.log.state);
            state.is_closed = true;
            if let Err(error) = state.writer.close() {
                report(&format!(
                    "the audit log {} cannot be closed: {error}",
                    state.writer.path().display()
                ));
            }
            state.writer.head()
        };
        self.log.changed.notify_all();
        lock(&OPEN).remove(&self.path);
        CLOSED.notify_all();
        report(&format!(
            "the audit log {} ends with record {}, hash {}",
            head.file, head.seq, head.hash
        ));
        if let Some(why) = self.log.send_head(&head) {
            report(&format!("the head command of the audit log failed: {why}"));
        }
    }
}

/// Prints a line on standard error, unless a terminal is there, which may show a chat.
fn report(line: &str) {
    let mut stderr = std::io::stderr();
    if !stderr.is_terminal() {
        let _ = writeln!(stderr, "conductor: {line}");
    }
}

/// The log that `conductor audit` reads if no file is named. `None` if the folder of the user is unknown.
pub fn default_file() -> Option<PathBuf> {
    crate::state_folder::path().map(|folder| folder.join("audit.jsonl"))
}

/// Reads the key of a log. A line break at its end is not part of it.
///
/// # Errors
/// The file cannot be read, others can read it, or the key is too short.
pub fn read_key(path: Option<&Path>) -> Result<Hasher, String> {
    let Some(path) = path else { return Ok(Hasher::default()) };
    let failed = |why: &str| format!("key file {}: {why}", path.display());
    let bytes = std::fs::read(path).map_err(|error| failed(&error.to_string()))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = path.metadata().map_err(|error| failed(&error.to_string()))?.mode();
        if mode & 0o077 != 0 {
            return Err(failed("other users can read it. Run chmod 600 on it"));
        }
    }
    let key = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let key = key.strip_suffix(b"\r").unwrap_or(key);
    if key.len() < MIN_KEY {
        return Err(failed(&format!(
            "a key has at least {MIN_KEY} bytes. Make one: openssl rand -hex 32"
        )));
    }
    Ok(Hasher::with_key(key))
}
