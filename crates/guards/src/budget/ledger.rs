//! The ledger: what was consumed, in a file for each day.
//!
//! A file has lines of JSON and is only appended to. A turn belongs to the day on which it begins, in the time zone of
//! the user. Several processes write at the same time, one at a time by a lock. A line that a crash has cut off is
//! ignored. The files are the only state that counts: a process reads the lines of the others before each decision.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{File, Metadata, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aho_corasick::AhoCorasick;
use jiff::Zoned;
use jiff::civil::Date;

use super::entry::{Entry, Event, SessionKey, SessionTotals, Totals};
use component_base::append::{self, Identity, KeptFile};
use component_base::sessions::{Sessions, session_key};

/// The size at which the lines of a file are replaced by the sums of its sessions.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// How much of earlier days is searched for a session.
const MAX_SEARCH: u64 = 64 * 1024 * 1024;

/// The maximum length of a line. Longer ones are not of this program.
const MAX_LINE: usize = 64 * 1024;

/// How often and how long another process may keep the lock while the chain waits. It is short, because it blocks.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_WAIT: Duration = Duration::from_millis(1);

/// How many lines wait to be written. Until they are written, no prompt is sent, so only the running turns add lines.
const MAX_UNWRITTEN: usize = 10_000;

/// The first bytes of a file, which tell it from a file that replaces it.
const HEAD: usize = 128;

/// A clock in the time zone of the user.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Zoned + Send + Sync>);

impl Clock {
    /// A clock that calls this function.
    pub fn new(now: impl Fn() -> Zoned + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    /// The clock of the system.
    pub fn system() -> Clock {
        Clock::new(Zoned::now)
    }

    /// The current time.
    pub fn now(&self) -> Zoned {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Why the ledger cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerError {
    /// The reason.
    pub why: String,
    /// Whether another process has the lock. It may end that soon.
    pub is_locked: bool,
}

impl LedgerError {
    fn new(why: String) -> LedgerError {
        LedgerError { why, is_locked: false }
    }
}

/// The files of a folder.
#[derive(Debug)]
pub struct Ledger {
    folder: PathBuf,
    clock: Clock,
    /// The day whose file is read.
    day: Date,
    /// The beginning of the file, and how much of it was read.
    head: Vec<u8>,
    offset: u64,
    /// The file that was read so far.
    read: Option<Identity>,
    totals: Totals,
    lock: KeptFile,
    file: KeptFile,
    /// Lines that could not be written yet.
    unwritten: VecDeque<(Date, Entry)>,
    /// The day whose lines were replaced by sums, and the size above which that is done again: the sums of very many
    /// sessions are long, too.
    compacted: (Date, u64),
}

impl Ledger {
    /// The ledger in a folder.
    pub fn new(folder: PathBuf, clock: Clock) -> Ledger {
        let day = clock.now().date();
        Ledger {
            folder,
            clock,
            day,
            head: Vec::new(),
            offset: 0,
            read: None,
            totals: Totals::default(),
            lock: KeptFile::default(),
            file: KeptFile::default(),
            unwritten: VecDeque::new(),
            compacted: (day, MAX_FILE),
        }
    }

    /// Creates the folder, and checks that it can be written.
    ///
    /// # Errors
    /// Why not.
    pub fn check(folder: &Path) -> Result<(), String> {
        let fail = |why: String| format!("{} cannot be written: {why}", folder.display());
        component_base::state_folder::create_private(folder)
            .map_err(|error| fail(error.to_string()))?;
        append::open(&folder.join("lock")).map(drop).map_err(fail)
    }

    /// The current day.
    pub fn today(&self) -> Date {
        self.clock.now().date()
    }

    /// When the next day begins.
    pub fn next_day(&self) -> Option<Zoned> {
        self.clock.now().tomorrow().ok()?.start_of_day().ok()
    }

    /// The sums of the current day, as read last.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Reads what this and other processes have written since the last time. Lines that could not be written are
    /// written first.
    ///
    /// # Errors
    /// The ledger cannot be read or written.
    pub fn refresh(&mut self) -> Result<(), LedgerError> {
        self.write_waiting()?;
        let today = self.today();
        let is_other_day = today != self.day;
        if is_other_day {
            self.totals = Totals::default();
            (self.day, self.offset, self.head, self.read) = (today, 0, Vec::new(), None);
        }
        let path = self.path(today);
        self.read_new_lines(&path).map_err(|error| {
            LedgerError::new(format!("cannot read {}: {error}", path.display()))
        })?;
        if is_other_day {
            // The sums of the sessions are searched again when they are needed. If the clock or the time zone was
            // changed, the files of other days, also of later ones, have lines about them.
            self.totals.sessions.for_each(|_, it| it.state.is_complete = false);
        }
        Ok(())
    }

    /// Writes the lines that could not be written before.
    fn write_waiting(&mut self) -> Result<(), LedgerError> {
        while let Some((day, entry)) = self.unwritten.front().cloned() {
            self.write(day, &entry, 1)?;
            self.unwritten.pop_front();
            self.note(day, &entry);
        }
        Ok(())
    }

    /// Writes a line to the file of a day. The line is kept and written later if it cannot be written now.
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn append(&mut self, day: Date, mut entry: Entry) -> Result<(), LedgerError> {
        entry.v = 1;
        entry.session = session_key(&entry.session).into_owned();
        if entry.time.is_empty() {
            entry.time = format!("{:.3}", self.clock.now().timestamp());
        }
        let written = self.write_waiting().and_then(|()| self.write(day, &entry, LOCK_ATTEMPTS));
        match written {
            Ok(()) => self.note(day, &entry),
            // A turn that is not recorded does not begin.
            Err(_) if entry.event == Event::Open => {}
            Err(_) if self.unwritten.len() < MAX_UNWRITTEN => {
                self.unwritten.push_back((day, entry));
            }
            Err(_) => {}
        }
        written
    }

    /// Adds a line to the sums if its file is not read any more.
    fn note(&self, day: Date, entry: &Entry) {
        if day != self.day && !entry.session.is_empty() {
            self.totals.sessions.with(&entry.key().text(), |it| it.state.apply(entry));
        }
    }

    /// The sums of a session, on all days.
    pub fn session(&mut self, key: impl Into<SessionKey>) -> SessionTotals {
        let key = key.into();
        let known = self.totals.sessions.with_known(&key.text(), |it| it.state.clone());
        if let Some(totals) = known.filter(|totals| totals.is_complete) {
            return totals;
        }
        let mut totals = SessionTotals { key: key.clone(), ..SessionTotals::default() };
        for day in self.days_to_search() {
            let is_today = day == self.day;
            let lines = self.search(day, &key.session, is_today);
            lines.iter().filter(|it| it.run == key.run).for_each(|it| totals.apply(it));
        }
        totals.is_complete = true;
        self.totals.sessions.with(&key.text(), |it| it.state = totals.clone());
        totals
    }

    /// A new session begins, whatever the ledger says about this id.
    pub fn begin_session(&mut self, key: &SessionKey) {
        let (key, text) = (key.clone(), key.text());
        let begun =
            SessionTotals { key, is_complete: true, has_begun: true, ..SessionTotals::default() };
        self.totals.sessions.with(&text, |it| it.state = begun);
    }

    /// The run in which a session began that this process has not begun: `own` if the ledger knows the session in it,
    /// or else the last one in which an agent of this name had such a session.
    pub fn run_of(&self, session: &str, own: &str, agent: &str) -> Option<String> {
        let session = session_key(session);
        let is_agent = |entry: &Entry| {
            let version = entry.agent.strip_prefix(agent);
            version.is_some_and(|it| it.is_empty() || it.starts_with(' '))
        };
        let mut last = None;
        for day in self.days_to_search() {
            for entry in self.search(day, &session, false) {
                if entry.run == own {
                    return Some(entry.run);
                }
                if agent.is_empty() || is_agent(&entry) {
                    last = Some(entry.run);
                }
            }
        }
        last
    }

    /// Deletes files that are older than this number of days.
    pub fn prune(&self, keep: Duration) {
        let days = i64::try_from(keep.as_secs() / 86_400).unwrap_or(i64::MAX).clamp(1, 36_500);
        let Ok(oldest) = self.today().checked_sub(jiff::Span::new().days(days)) else { return };
        for day in days_in(&self.folder).into_iter().filter(|day| *day < oldest) {
            // Another process may have deleted it.
            let _ = std::fs::remove_file(self.path(day));
        }
    }

    fn path(&self, day: Date) -> PathBuf {
        path_of(&self.folder, day)
    }

    /// The days whose files may have lines about a session, from the oldest.
    fn days_to_search(&self) -> Vec<Date> {
        let mut size = 0;
        let newest_first = days_in(&self.folder).into_iter().rev();
        let mut days: Vec<Date> = newest_first
            .take_while(|day| {
                size += std::fs::metadata(self.path(*day)).map_or(0, |it| it.len());
                size <= MAX_SEARCH
            })
            .collect();
        days.reverse();
        days
    }

    /// The lines about a session in the file of a day. `only_read`: without those that the next refresh reads.
    fn search(&self, day: Date, id: &str, only_read: bool) -> Vec<Entry> {
        let mut text = read_all(&self.path(day)).unwrap_or_default();
        if only_read {
            text.truncate(usize::try_from(self.offset).unwrap_or(usize::MAX));
        }
        // A session id with special characters is escaped in the file.
        let written = serde_json::to_string(id).unwrap_or_default();
        let finder = AhoCorasick::new([written]).ok();
        let is_about = |line: &&[u8]| {
            line.len() <= MAX_LINE && finder.as_ref().is_some_and(|it| it.is_match(*line))
        };
        let lines = text.split(|it| *it == b'\n').filter(is_about).filter_map(Entry::read);
        lines.filter(|it| it.session == id).collect()
    }

    fn read_new_lines(&mut self, path: &Path) -> std::io::Result<()> {
        if std::fs::symlink_metadata(path).is_ok_and(|it| self.is_read_to_its_end(&it)) {
            return Ok(());
        }
        let mut file = match open_to_read(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.forget_file();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut head = vec![0; HEAD];
        let length = read_up_to(&mut file, &mut head)?;
        head.truncate(length);
        let metadata = file.metadata()?;
        let size = metadata.len();
        if size < self.offset || !head.starts_with(&self.head) {
            self.forget_file();
        }
        if self.head.len() < HEAD && self.offset == 0 {
            self.head = head;
        }
        self.read = append::identity(&metadata);
        if size == self.offset {
            return Ok(());
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut text = Vec::new();
        file.take(size - self.offset).read_to_end(&mut text)?;
        // The last line may not be complete yet.
        let Some(end) = text.iter().rposition(|it| *it == b'\n') else { return Ok(()) };
        for line in text[..end].split(|it| *it == b'\n').filter(|it| it.len() <= MAX_LINE) {
            if let Some(entry) = Entry::read(line) {
                self.totals.apply(&entry);
            }
        }
        self.offset += end as u64 + 1;
        Ok(())
    }

    /// The file was deleted or replaced. All sums are read again.
    fn forget_file(&mut self) {
        if self.offset > 0 {
            self.totals = Totals::default();
            (self.offset, self.head) = (0, Vec::new());
        }
        self.read = None;
    }

    /// Whether this is the file that was read, and nothing was written to it since.
    fn is_read_to_its_end(&self, metadata: &Metadata) -> bool {
        let is_same = self.read.is_some() && append::identity(metadata) == self.read;
        is_same && metadata.len() == self.offset
    }

    fn write(&mut self, day: Date, entry: &Entry, attempts: u32) -> Result<(), LedgerError> {
        let path = self.path(day);
        let fail =
            |why: String| LedgerError::new(format!("{} cannot be written: {why}", path.display()));
        let mut kept = std::mem::take(&mut self.lock);
        let (lock, _) = kept.get(&self.folder.join("lock")).map_err(fail)?;
        if !acquire(lock, attempts) {
            let why = "another process keeps the lock. End the process that hangs";
            return Err(LedgerError { is_locked: true, ..fail(why.to_owned()) });
        }
        let written = self.write_locked(day, &path, entry).map_err(fail);
        // If that fails, the file is closed, which releases the lock, too.
        if lock.unlock().is_ok() {
            self.lock = kept;
        }
        written
    }

    fn write_locked(&mut self, day: Date, path: &Path, entry: &Entry) -> Result<(), String> {
        let mut kept = std::mem::take(&mut self.file);
        let (file, metadata) = kept.get(path)?;
        let is_read = day == self.day && self.is_read_to_its_end(&metadata);
        let mut text = match metadata.len() {
            0 => head_line(day, &entry.time),
            // What was read ends with a line.
            _ if is_read || ends_with_line_break(file) => String::new(),
            // A crash has cut off the last line.
            _ => "\n".to_owned(),
        };
        text += &entry.line();
        let written = file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(text.as_bytes()));
        written.map_err(|error| error.to_string())?;
        if is_read && metadata.len() > 0 && text.len() <= MAX_LINE {
            // The line need not be read again.
            self.totals.apply(entry);
            self.offset += text.len() as u64;
        }
        if self.compacted.0 != day {
            self.compacted = (day, MAX_FILE);
        }
        if metadata.len() > self.compacted.1 {
            let size = compact(path, day).map_err(|error| error.to_string())?;
            self.compacted.1 = self.compacted.1.max(2 * size);
        }
        self.file = kept;
        Ok(())
    }
}

/// The file of a day.
pub fn path_of(folder: &Path, day: Date) -> PathBuf {
    folder.join(format!("{day}.jsonl"))
}

/// The days that have a file, from the oldest.
pub fn days_in(folder: &Path) -> Vec<Date> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut days: Vec<Date> = files
        .filter_map(|file| file.file_name().to_str()?.strip_suffix(".jsonl")?.parse().ok())
        .collect();
    days.sort_unstable();
    days
}

/// The sums of a file.
///
/// # Errors
/// The file cannot be read. A file that does not exist is empty.
pub fn totals_of(path: &Path, max_sessions: usize) -> std::io::Result<Totals> {
    let text = match read_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        text => text?,
    };
    let mut totals = Totals { sessions: Sessions::new(max_sessions), ..Totals::default() };
    let lines = text.split(|it| *it == b'\n').filter(|it| it.len() <= MAX_LINE);
    lines.filter_map(Entry::read).for_each(|entry| totals.apply(&entry));
    Ok(totals)
}

/// Replaces the lines of a file by the sums of its sessions. Returns the new size.
fn compact(path: &Path, day: Date) -> std::io::Result<u64> {
    let totals = totals_of(path, usize::MAX)?;
    let mut sums = Vec::new();
    totals
        .sessions
        .for_each(|_, session| sums.push((session.state.time.clone(), session.state.entry())));
    sums.sort_by(|(one, _), (other, _)| one.cmp(other));
    let time = sums.last().map(|(time, _)| time.clone()).unwrap_or_default();
    let mut text = head_line(day, &time);
    sums.iter().for_each(|(_, entry)| text += &entry.line());
    for (turn, key) in &totals.open {
        let open = Entry {
            v: 1,
            event: Event::Open,
            time: time.clone(),
            turn: turn.clone(),
            session: key.session.clone(),
            run: key.run.clone(),
            ..Entry::default()
        };
        text += &open.line();
    }
    let new = path.with_extension("new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = append::open(&new).map_err(std::io::Error::other)?;
    file.write_all(text.as_bytes())?;
    // A crash of the machine must not leave an empty file in place of the day.
    file.sync_data()?;
    std::fs::rename(&new, path)?;
    Ok(text.len() as u64)
}

/// A random mark. Without random numbers, the number of the process is all that there is.
pub(super) fn random() -> String {
    let mut random = [0; 8];
    match getrandom::fill(&mut random) {
        Ok(()) => random.iter().map(|it| format!("{it:02x}")).collect(),
        Err(_) => std::process::id().to_string(),
    }
}

fn head_line(day: Date, time: &str) -> String {
    let id = random();
    let (day, time) = (day.to_string(), time.to_owned());
    Entry { v: 1, event: Event::Day, day, id, time, ..Entry::default() }.line()
}

/// Locks the ledger.
fn acquire(lock: &File, attempts: u32) -> bool {
    for attempt in 1..=attempts {
        match lock.try_lock() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) if attempt == attempts => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_WAIT),
            // File systems without locks: a line is written at once, at the end of the file.
            Err(TryLockError::Error(_)) => return true,
        }
    }
    false
}

fn ends_with_line_break(file: &mut File) -> bool {
    let mut last = [0];
    let read = file.seek(SeekFrom::End(-1)).and_then(|_| file.read(&mut last));
    matches!(read, Ok(1)) && last == *b"\n"
}

fn read_all(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open_to_read(path)?.take(4 * MAX_SEARCH).read_to_end(&mut text)?;
    Ok(text)
}

/// Opens a regular file.
fn open_to_read(path: &Path) -> std::io::Result<File> {
    match std::fs::symlink_metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(std::io::Error::other("it is not a regular file")),
    }
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..])? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_many_sessions_are_not_written_again_for_each_line() {
        let folder = std::env::temp_dir().join(format!("ledger-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a new folder");
        let mut ledger = Ledger::new(folder.clone(), Clock::system());
        let day = ledger.today();
        ledger.compacted = (day, 5_000);
        let mut written = 0;
        let mut head = String::new();
        for number in 0..400 {
            let session = format!("session {number}");
            let entry = Entry { event: Event::Spent, session, ..Entry::default() };
            ledger.append(day, entry).expect("written");
            let text = std::fs::read_to_string(path_of(&folder, day)).expect("a file");
            // Each compaction writes a new first line.
            let first = text.lines().next().unwrap_or_default().to_owned();
            written += usize::from(std::mem::replace(&mut head, first) != head);
        }
        let size = std::fs::metadata(path_of(&folder, day)).expect("a file").len();
        assert!(size > 20_000, "{size}");
        // The first line of the file, and each time that the file has doubled.
        assert!((2..=6).contains(&written), "{written}");
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
