//! Reads a file of a project, whatever it is: a size limit, and never a wait.

use std::io::Read;
use std::path::Path;

use crate::project::{self, ReadError};

/// The text of a file with at most `limit` bytes. None if there is no such file. An error is a clause such as `is not a
/// regular file`.
pub(super) fn read(path: &Path, limit: u64) -> Option<Result<String, String>> {
    let mut bytes = Vec::new();
    let file = match project::open(path) {
        Ok(file) => file,
        Err(ReadError::Missing) if path.symlink_metadata().is_err() => return None,
        Err(ReadError::Missing) => return Some(Err("is a link to nothing".into())),
        Err(ReadError::NotRegular) => return Some(Err("is not a regular file".into())),
        Err(error) => return Some(Err(format!("cannot be read: {error}"))),
    };
    Some(match file.take(limit + 1).read_to_end(&mut bytes) {
        Err(error) => Err(format!("cannot be read: {error}")),
        Ok(_) if bytes.len() as u64 > limit => Err(format!("has more than {} MiB", limit >> 20)),
        Ok(_) => text(bytes),
    })
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
    // Some editors on Windows write a byte order mark.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
