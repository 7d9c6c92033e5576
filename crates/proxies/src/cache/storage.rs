//! Writes the file of a recording.
//!
//! Each complete turn is appended. So a recording is complete up to the last turn when the program is killed, and several
//! chains can record into one file.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::time::Duration;

use super::recording::{MAX_BYTES, Recording};
use component_base::append;

/// How often the file may be replaced by other runs while this one waits for it.
const MAX_ATTEMPTS: usize = 10;

/// How often and how long another run may keep the lock while the chain waits. It is short, because it blocks.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_WAIT: Duration = Duration::from_millis(1);

impl Recording {
    /// Appends what is not saved to the file.
    pub(super) fn save(&mut self) -> io::Result<()> {
        if !self.has_unsaved() {
            return Ok(());
        }
        self.locked(Recording::append_to)
    }

    fn append_to(&mut self, file: &mut File, metadata: &Metadata) -> io::Result<()> {
        let is_known = metadata.len() == self.length;
        self.read_changes(file, metadata)?;
        let mut text = self.unsaved_text();
        if self.length == 0 {
            text.insert_str(0, &Recording::header());
        }
        let mut end = self.length;
        if self.whole < self.length {
            // A run was killed while it wrote the last line.
            file.set_len(self.whole)?;
            end = self.whole;
        } else if end > 0 && !(is_known && self.ends_with_line) && last_byte(file)? != Some(b'\n') {
            text.insert(0, '\n');
        }
        if end + text.len() as u64 > MAX_BYTES {
            self.is_full = true;
            return Ok(());
        }
        file.seek(SeekFrom::End(0))?;
        file.write_all(text.as_bytes())?;
        self.note_saved(end + text.len() as u64);
        self.ends_with_line = true;
        Ok(())
    }

    /// Saves, and writes the file anew if it has entries that were replaced or continued.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let has_changed = self.has_unsaved() || self.has_recorded();
        self.save()?;
        if !self.is_untidy || !has_changed {
            return Ok(());
        }
        self.locked(Recording::write_anew)
    }

    fn write_anew(&mut self, file: &mut File, metadata: &Metadata) -> io::Result<()> {
        self.read_changes(file, metadata)?;
        let text = self.text();
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = self.path.with_file_name(format!(".{name}.{}.new", std::process::id()));
        // It is left over from a run that was killed.
        drop(std::fs::remove_file(&temporary));
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut new = options.open(&temporary)?;
        new.write_all(text.as_bytes())?;
        new.sync_data()?;
        drop(new);
        std::fs::rename(&temporary, &self.path)?;
        self.note_saved(text.len() as u64);
        self.is_untidy = false;
        Ok(())
    }

    /// Reads what other runs have written. A file that is not a recording is an error, so that it is not overwritten.
    fn read_changes(&mut self, file: &mut File, metadata: &Metadata) -> io::Result<()> {
        let length = metadata.len();
        if length == self.length {
            return Ok(());
        }
        if length > MAX_BYTES {
            return Err(io::Error::other("it has reached its maximum size"));
        }
        let mut text = String::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_string(&mut text)?;
        let other = match text.is_empty() {
            true => Recording::new(&self.path),
            false => Recording::parse(&self.path, &text).map_err(|it| io::Error::other(it.why))?,
        };
        self.merge(other);
        Ok(())
    }

    /// Calls the function with the file, while no other run writes it.
    fn locked(
        &mut self,
        act: impl FnOnce(&mut Recording, &mut File, &Metadata) -> io::Result<()>,
    ) -> io::Result<()> {
        let path = self.path.clone();
        for _ in 0..MAX_ATTEMPTS {
            let mut kept = std::mem::take(&mut self.file);
            let (file, before) = kept.get(&path).map_err(io::Error::other)?;
            lock(file)?;
            // Another run may have put a new file there. The old one is closed, which releases its lock.
            let now = std::fs::symlink_metadata(&path)?;
            if append::identity(&now) != append::identity(&before) {
                continue;
            }
            let done = act(self, file, &now);
            if file.unlock().is_ok() {
                self.file = kept;
            }
            return done;
        }
        Err(io::Error::other("other programs replace it again and again"))
    }
}

/// Locks the file. Another run that writes it needs a moment; one that hangs must not stop this chain.
fn lock(file: &File) -> io::Result<()> {
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_WAIT),
            // Some file systems have no locks.
            Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Unsupported => {
                return Err(error);
            }
            _ => return Ok(()),
        }
    }
    Err(io::Error::other("another process keeps its lock; end the process that hangs"))
}

fn last_byte(file: &mut File) -> io::Result<Option<u8>> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    Ok((file.read(&mut last)? == 1).then_some(last[0]))
}
