//! Records a chain: writes its journal (`engine::journal`) to a file.
//!
//! A background thread writes the file, so that a slow disk does not stop the chain. A journal with a gap
//! cannot be replayed. If the disk is full or too slow, the recording ends with a warning and the chain
//! continues.

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

/// The environment variable that names a directory for journals of chains without `--journal`.
pub const VARIABLE: &str = "CONDUCTOR_JOURNAL";

/// The maximum number of bytes that wait to be written.
const MAX_UNWRITTEN: usize = 256 * 1024 * 1024;

/// How long a chain waits at its end for the journal to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The journal file of one chain.
#[derive(Debug, Clone)]
pub struct JournalFile {
    path: PathBuf,
    /// The first chain that runs takes the file.
    file: Arc<Mutex<Option<File>>>,
}

impl JournalFile {
    /// Creates the file, or overwrites an existing journal. Only its user can read it.
    ///
    /// # Errors
    /// The path is not a regular file of this user, the file is not a journal, or another chain is writing
    /// to it.
    pub fn create(path: &Path) -> Result<JournalFile, String> {
        let opened = open(path);
        let file =
            opened.map_err(|why| format!("cannot write the journal {}: {why}", path.display()))?;
        Ok(JournalFile { path: path.to_owned(), file: Arc::new(Mutex::new(Some(file))) })
    }

    /// A new file in the directory of [`VARIABLE`].
    fn from_environment() -> Option<JournalFile> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let directory = std::env::var_os(VARIABLE).filter(|it| !it.is_empty())?;
        // Process ids are reused, so a file with this name may exist.
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
    let mut file = component_base::append::open_to_read(path)?;
    let text = |error: std::io::Error| error.to_string();
    if !file.metadata().map_err(text)?.is_file() {
        return Err("it is not a regular file; choose another path".to_owned());
    }
    file.try_lock()
        .map_err(|_| "another conductor is writing to it; choose another path".to_owned())?;
    let mut beginning = Vec::new();
    (&mut file).take(JOURNAL_PREFIX.len() as u64).read_to_end(&mut beginning).map_err(text)?;
    if !beginning.is_empty() && beginning != JOURNAL_PREFIX.as_bytes() {
        return Err("the file exists and is not a journal; choose another path".to_owned());
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(text)?;
    Ok(file)
}

/// The journal of a running chain. Dropping it waits up to a few seconds until everything is written.
#[derive(Debug)]
pub(crate) struct Journal {
    recorder: Recorder,
    /// Sends text to the thread that writes the file.
    texts: Option<Sender<Vec<u8>>>,
    waiting: Arc<AtomicUsize>,
    /// Disconnected when the thread has ended.
    written: Receiver<()>,
}

impl Journal {
    /// Starts recording if a journal is configured.
    pub(crate) fn begin(file: Option<&JournalFile>, setup: &Setup) -> Option<Journal> {
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
                    warn!("cannot write the journal {path}, the recording ends: {error}");
                    return;
                }
                counter.fetch_sub(text.len(), Ordering::Relaxed);
            }
        });
        Journal { recorder: Recorder::new(setup), texts: Some(texts), waiting, written }
    }

    /// Records an input of the core.
    pub(crate) fn input(&mut self, now: Time, input: &Input) {
        self.recorder.input(now, input);
    }

    /// Records the outputs of the core.
    pub(crate) fn outputs(&mut self, out: &Outputs) {
        self.recorder.outputs(out);
    }

    /// Passes the recorded text to the thread. Returns whether the recording continues.
    pub(crate) fn flush(&mut self) -> bool {
        let text = self.recorder.take();
        if text.is_empty() {
            return true;
        }
        let waiting = self.waiting.fetch_add(text.len(), Ordering::Relaxed) + text.len();
        if waiting > MAX_UNWRITTEN {
            warn!(
                "the disk is too slow for the journal, the recording ends: {waiting} bytes are waiting"
            );
            return false;
        }
        self.texts.as_ref().is_some_and(|texts| texts.send(text).is_ok())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let recording = self.flush();
        self.texts = None;
        if recording {
            let _ = self.written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Mode, Spec};

    /// A disk that is full after the first write.
    struct FullDisk(bool);

    impl Write for FullDisk {
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

    /// A file in memory.
    #[derive(Clone, Default)]
    struct SharedFile(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedFile {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no thread panics with it").write(text)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_journal_contains_the_input_on_which_the_core_panics() {
        let file = SharedFile::default();
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
    fn a_full_disk_ends_only_the_recording() {
        let mut journal = Journal::write_to(FullDisk(false), "journal".into(), &setup());
        assert!(journal.flush(), "the header is written");
        let recorded = |journal: &mut Journal| {
            journal.input(Time(1), &Input::Tick);
            journal.outputs(&Outputs::default());
            journal.flush()
        };
        recorded(&mut journal);
        // The thread has ended, so the recording stops.
        let ended = journal.written.recv_timeout(FLUSH_TIMEOUT);
        assert_eq!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
        assert!(!recorded(&mut journal));
    }
}
