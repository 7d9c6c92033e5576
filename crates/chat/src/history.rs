//! The file with the prompts of earlier runs.
//!
//! Each line is a JSON string, so that an entry can have several lines. Prompts can be private: only the user can read
//! the file, and a symbolic link is not followed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The maximum number of entries.
const MAX_ENTRIES: usize = 1000;

/// The maximum length of an entry.
const MAX_ENTRY: usize = 64 * 1024;

/// The maximum length of the file that is read. The end is read.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The file with the history.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
}

impl History {
    /// Opens the file, and returns its entries, oldest first. Creates its folder.
    ///
    /// # Errors
    /// The file cannot be read, or is not a regular file.
    pub fn open(path: &Path) -> io::Result<(History, Vec<String>)> {
        if let Some(parent) = path.parent() {
            create_private_folder(parent)?;
        }
        let mut file = open_private(path)?;
        let (mut entries, lines) = read(&mut file)?;
        let excess = entries.len().saturating_sub(MAX_ENTRIES);
        entries.drain(..excess);
        let history = History { path: path.to_owned() };
        if lines > 2 * MAX_ENTRIES {
            history.rewrite(&entries)?;
        }
        Ok((history, entries))
    }

    /// Appends an entry. Long entries are not kept.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, entry: &str) -> io::Result<()> {
        if entry.len() > MAX_ENTRY {
            return Ok(());
        }
        let line = format!("{}\n", serde_json::Value::from(entry));
        open_private(&self.path)?.write_all(line.as_bytes())
    }

    /// Replaces the file.
    fn rewrite(&self, entries: &[String]) -> io::Result<()> {
        let temporary = self.path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file = new_private(&temporary)?;
        let lines: String = entries
            .iter()
            .map(|it| format!("{}\n", serde_json::Value::from(it.as_str())))
            .collect();
        let written =
            file.write_all(lines.as_bytes()).and_then(|()| fs::rename(&temporary, &self.path));
        if written.is_err() {
            // The rename has failed, so the temporary file is still there.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// The entries of a file, and the number of its lines.
fn read(file: &mut File) -> io::Result<(Vec<String>, usize)> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_FILE)))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // A line that is not a JSON string is skipped.
    let entries = text.lines().filter_map(|line| serde_json::from_str::<String>(line).ok());
    Ok((entries.collect(), text.lines().count()))
}

/// Opens a file for reading and appending, which only the user can access.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    private(&mut options);
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata()?.permissions().mode();
        if mode & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(file)
}

/// Creates a file that only the user can access.
fn new_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    private(&mut options);
    options.open(path)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.mode(0o600).custom_flags(flags.bits().cast_signed());
}

#[cfg(not(unix))]
fn private(_: &mut OpenOptions) {}

fn create_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

#[cfg(test)]
mod tests;
