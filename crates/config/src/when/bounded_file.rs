//! Reads a file of a project, whatever it is: a size limit, and never a wait.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The text of a file with at most `limit` bytes. None if there is no such file. An error is a clause such as `is not a
/// file`.
pub(super) fn read(path: &Path, limit: u64) -> Option<Result<String, String>> {
    // Even the opening of a device can have effects.
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Some(Err("is not a file".into())),
        Ok(_) => {}
        // A link that leads nowhere, or in a circle, is there.
        Err(_) if fs::symlink_metadata(path).is_err() => return None,
        Err(error) => return Some(Err(format!("cannot be read: {error}"))),
    }
    Some(read_existing(path, limit))
}

fn read_existing(path: &Path, limit: u64) -> Result<String, String> {
    let failed = |error| format!("cannot be read: {error}");
    let file = open(path).map_err(failed)?;
    // It can have been replaced since.
    if !file.metadata().map_err(failed)?.is_file() {
        return Err("is not a file".into());
    }
    let mut bytes = Vec::new();
    let mut limited = file.take(limit + 1);
    match limited.read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Err("is not a file".into()),
        other => other.map_err(failed)?,
    };
    if bytes.len() as u64 > limit {
        return Err(format!("has more than {} MiB", limit >> 20));
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
    // Some editors on Windows write a byte order mark.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(unix)]
fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // The opening of a FIFO without a writer would wait for one.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).open(path)
}
