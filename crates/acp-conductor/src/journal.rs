//! Records a chain: the text of its journal (`engine::journal`) goes to a file.
//!
//! A thread in the background writes it, so that a slow disk does not stop the chain. A journal with a gap
//! cannot be replayed. So if the disk is full, or too slow, the recording ends with a warning and the
//! chain goes on.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::journal::{JOURNAL_PREFIX, Recorder};
use engine::{Input, Outputs, Setup};
use router::Time;
use tracing::warn;

/// Names a directory. Each chain that has no `--journal` writes a journal there.
pub const VARIABLE: &str = "CONDUCTOR_JOURNAL";

/// So many bytes may wait to be written to the file.
const MAX_UNWRITTEN: usize = 256 * 1024 * 1024;

/// How long the end of a chain waits for its journal to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The file that the journal of one chain is written to.
#[derive(Debug, Clone)]
pub struct JournalFile {
    path: PathBuf,
    /// Taken by the first chain that is run.
    file: Arc<Mutex<Option<File>>>,
}

impl JournalFile {
    /// Creates the file, or replaces an older journal. Only its user can read it.
    ///
    /// # Errors
    /// The file is not a regular file of the user's own, or it holds something else than a journal, or
    /// another chain writes to it.
    pub fn create(path: &Path) -> Result<JournalFile, String> {
        let opened = open(path);
        let file =
            opened.map_err(|why| format!("cannot write the journal {}: {why}", path.display()))?;
        Ok(JournalFile { path: path.to_owned(), file: Arc::new(Mutex::new(Some(file))) })
    }

    /// A new file in the directory that the environment names.
    fn from_environment() -> Option<JournalFile> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let directory = std::env::var_os(VARIABLE).filter(|it| !it.is_empty())?;
        // Process ids are used again, so there may be a file of that name.
        let path = std::iter::repeat_with(|| COUNT.fetch_add(1, Ordering::Relaxed))
            .map(|count| format!("chain-{}-{count}.jsonl", std::process::id()))
            .map(|name| Path::new(&directory).join(name))
            .find(|path| !path.exists())?;
        JournalFile::create(&path).map_err(|why| warn!("{why}")).ok()
    }

    fn take(&self) -> Option<File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn open(path: &Path) -> Result<File, String> {
    let mut file = components::append::open_to_read(path)?;
    let text = |error: std::io::Error| error.to_string();
    if !file.metadata().map_err(text)?.is_file() {
        return Err("it is not a regular file. Name another one".to_owned());
    }
    file.try_lock().map_err(|_| "another conductor writes to it. Name another file".to_owned())?;
    let mut beginning = Vec::new();
    (&mut file).take(JOURNAL_PREFIX.len() as u64).read_to_end(&mut beginning).map_err(text)?;
    if !beginning.is_empty() && beginning != JOURNAL_PREFIX.as_bytes() {
        return Err("it holds something else than a journal. Name another file".to_owned());
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(text)?;
    Ok(file)
}

/// The journal of a chain that runs. When dropped, it waits a few seconds until everything is written.
#[derive(Debug)]
pub(crate) struct Journal {
    recorder: Recorder,
    /// To the thread that writes the file.
    texts: Option<Sender<Vec<u8>>>,
    waiting: Arc<AtomicUsize>,
    /// Closed when the thread ends.
    written: Receiver<()>,
}

impl Journal {
    /// Begins to record, if a journal is wanted.
    pub fn begin(file: Option<&JournalFile>, setup: &Setup) -> Option<Journal> {
        let file = file.cloned().or_else(JournalFile::from_environment)?;
        let out = file.take()?;
        Some(Journal::write_to(out, file.path, setup))
    }

    fn write_to(mut out: impl Write + Send + 'static, path: PathBuf, setup: &Setup) -> Journal {
        let (texts, to_write) = channel::<Vec<u8>>();
        let (end, written) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let counter = waiting.clone();
        std::thread::spawn(move || {
            let _end: Sender<()> = end;
            for text in to_write {
                if let Err(error) = out.write_all(&text) {
                    let path = path.display();
                    warn!("cannot write the journal {path}, which ends here: {error}");
                    return;
                }
                counter.fetch_sub(text.len(), Ordering::Relaxed);
            }
        });
        Journal { recorder: Recorder::new(setup), texts: Some(texts), waiting, written }
    }

    pub fn input(&mut self, now: Time, input: &Input) {
        self.recorder.input(now, input);
    }

    pub fn outputs(&mut self, out: &Outputs) {
        self.recorder.outputs(out);
    }

    /// Hands over what was recorded. Says whether the recording goes on.
    pub fn flush(&mut self) -> bool {
        let text = self.recorder.take();
        if text.is_empty() {
            return true;
        }
        let waiting = self.waiting.fetch_add(text.len(), Ordering::Relaxed) + text.len();
        if waiting > MAX_UNWRITTEN {
            warn!("the journal cannot be written fast enough and ends here: {waiting} bytes wait");
            return false;
        }
        self.texts.as_ref().is_some_and(|texts| texts.send(text).is_ok())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let goes_on = self.flush();
        self.texts = None;
        if goes_on {
            let _ = self.written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Mode, Spec};

    /// A disk with room for one text.
    struct Full(bool);

    impl Write for Full {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            match std::mem::replace(&mut self.0, true) {
                false => Ok(text.len()),
                true => Err(std::io::ErrorKind::StorageFull.into()),
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn setup() -> Setup {
        let spec = Spec::parse("agent").expect("a command");
        let config = Config::new(Mode::Agent, vec![spec]);
        config.setup(&crate::greeting_cache::GreetingCache::default(), &Default::default())
    }

    /// A file that the test can read.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no thread panics with it").write(text)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_input_on_which_the_core_panics_is_in_the_journal() {
        let file = Shared::default();
        let mut journal = Journal::write_to(file.clone(), "journal".into(), &setup());
        journal.input(Time(1), &Input::Tick);
        journal.outputs(&Outputs::default());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            journal.input(Time(2), &Input::Tick);
            panic!("the core panics");
        }));
        assert!(panicked.is_err());
        let text = file.0.lock().expect("no thread panics with it");
        assert!(text.ends_with(b"\n{\"at\":2,\"input\":\"Tick\""), "{text:?}");
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let report = engine::journal::replay(lines).expect("it replays identically");
        assert_eq!((report.inputs, report.last_input), (2, true));
    }

    #[test]
    fn a_full_disk_ends_the_journal_and_nothing_else() {
        let mut journal = Journal::write_to(Full(false), "journal".into(), &setup());
        assert!(journal.flush(), "the header is written");
        let recorded = |journal: &mut Journal| {
            journal.input(Time(1), &Input::Tick);
            journal.outputs(&Outputs::default());
            journal.flush()
        };
        recorded(&mut journal);
        // The thread has ended, so nothing is recorded any more.
        let ended = journal.written.recv_timeout(FLUSH_TIMEOUT);
        assert_eq!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
        assert!(!recorded(&mut journal));
    }
}
