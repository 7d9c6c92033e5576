//! The file methods of a client: `fs/read_text_file` and `fs/write_text_file`.
//!
//! Some agents recognise a missing file by the text of the error, so that error always contains `Resource not found`
//! and the system's text.

mod inside;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::rpc_error;
pub use inside::write_text_inside;

/// The maximum size of a text that is read.
pub const MAX_TEXT: u64 = 10 * 1024 * 1024;

/// A path with its symbolic links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The resolved path. The file may not exist.
    pub path: PathBuf,
    /// Whether the path is inside the folder.
    pub inside: bool,
}

/// Resolves the symbolic links of a path, of which the last parts may not exist, and tells whether it is inside a
/// folder.
///
/// # Errors
/// A JSON-RPC error: the path is not absolute, or a part of it cannot be resolved.
pub fn locate(folder: &Path, path: &Path) -> Result<Located, Value> {
    if !path.is_absolute() {
        let why = format!("the path must be absolute: {}", path.display());
        return Err(rpc_error::invalid_params(&why));
    }
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let path = resolve(path).map_err(|error| io_error("access", path, &error))?;
    let inside = path.starts_with(&folder);
    Ok(Located { path, inside })
}

/// Resolves the part of the path that exists, and appends the rest.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = path;
    loop {
        match fs::canonicalize(existing) {
            Ok(mut resolved) => {
                resolved.extend(missing.iter().rev());
                return Ok(resolved);
            }
            // A link to a missing file must not be taken for a missing file.
            Err(error) if fs::symlink_metadata(existing).is_ok() => return Err(error),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(error) => match (existing.components().next_back(), existing.parent()) {
                (Some(Component::Normal(name)), Some(parent)) => {
                    missing.push(name.to_owned());
                    existing = parent;
                }
                // `..` in a folder that does not exist.
                _ => return Err(error),
            },
        }
    }
}

/// Reads a text, from a line (1 is the first) and at most a number of lines. Line endings are kept.
///
/// # Errors
/// A JSON-RPC error: the file cannot be read, is not text, or is too large.
pub fn read_text(path: &Path, line: Option<u64>, limit: Option<u64>) -> Result<String, Value> {
    // Before the file is opened: that could wait for the other end of a pipe.
    let metadata = fs::metadata(path).map_err(|error| io_error("read", path, &error))?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "is a directory" } else { "is not a regular file" };
        let why = format!("cannot read {}: it {what}", path.display());
        return Err(rpc_error::internal(&why));
    }
    let too_large = || {
        let limit = MAX_TEXT / 1024 / 1024;
        let why = format!(
            "cannot read {}: the text is larger than {limit} MiB; use `line` and `limit` to read a part",
            path.display()
        );
        rpc_error::internal(&why)
    };
    if line.is_none() && limit.is_none() && metadata.len() > MAX_TEXT {
        return Err(too_large());
    }
    let file = File::open(path).map_err(|error| io_error("read", path, &error))?;
    let bytes = match read_lines(BufReader::new(file), line.unwrap_or(1).max(1), limit) {
        Ok(Lines::Read(bytes)) => bytes,
        Ok(Lines::TooLarge) => return Err(too_large()),
        Ok(Lines::BeyondEnd(lines)) => {
            let why = format!(
                "cannot read {} from line {}: the file has {lines} lines",
                path.display(),
                line.unwrap_or(1)
            );
            return Err(rpc_error::invalid_params(&why));
        }
        Err(error) => return Err(io_error("read", path, &error)),
    };
    String::from_utf8(bytes).map_err(|_| {
        rpc_error::internal(&format!("cannot read {}: it is not UTF-8 text", path.display()))
    })
}

enum Lines {
    Read(Vec<u8>),
    TooLarge,
    /// The first line is behind the end of the file, which has this many lines.
    BeyondEnd(u64),
}

fn read_lines(mut file: impl BufRead, first: u64, limit: Option<u64>) -> io::Result<Lines> {
    for skipped in 1..first {
        if file.skip_until(b'\n')? == 0 {
            return Ok(Lines::BeyondEnd(skipped - 1));
        }
    }
    let mut bytes = Vec::new();
    let mut rest = file.take(MAX_TEXT + 1);
    match limit {
        None => drop(rest.read_to_end(&mut bytes)?),
        Some(limit) => {
            for _ in 0..limit {
                if rest.read_until(b'\n', &mut bytes)? == 0 {
                    break;
                }
            }
        }
    }
    match u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_TEXT) {
        true => Ok(Lines::Read(bytes)),
        false => Ok(Lines::TooLarge),
    }
}

/// Writes a text: the whole file, or nothing if there is an error. Creates missing folders, and keeps the mode of an
/// existing file. A file that cannot be replaced is overwritten: its folder may not be written, or it is a mount point.
///
/// # Errors
/// A JSON-RPC error: the file cannot be written.
pub fn write_text(path: &Path, content: &str) -> Result<(), Value> {
    let failed = |error: io::Error| io_error("write", path, &error);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let existing = match fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if existing.as_ref().is_some_and(|it| !it.is_file()) {
        return Err(rpc_error::internal(&format!(
            "cannot write {}: it is not a regular file",
            path.display()
        )));
    }
    // A file that may not be written is not replaced.
    let current = match existing {
        Some(_) => Some(OpenOptions::new().write(true).open(path).map_err(failed)?),
        None => None,
    };
    match (write_and_replace(path, existing.as_ref(), content), current) {
        (Err(error), Some(current)) if cannot_replace(&error) => overwrite(current, content),
        (written, _) => written,
    }
    .map_err(failed)
}

fn write_and_replace(
    path: &Path,
    existing: Option<&fs::Metadata>,
    content: &str,
) -> io::Result<()> {
    let (temporary, file) = create_temporary(path, existing.is_some())?;
    let written = replace(path, &temporary, file, existing, content);
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn cannot_replace(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | ResourceBusy | CrossesDevices)
}

fn overwrite(mut file: File, content: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(content.as_bytes())?;
    file.sync_data()
}

fn replace(
    path: &Path,
    temporary: &Path,
    mut file: File,
    existing: Option<&fs::Metadata>,
    content: &str,
) -> io::Result<()> {
    if let Some(existing) = existing {
        file.set_permissions(existing.permissions())?;
    }
    file.write_all(content.as_bytes())?;
    file.sync_data()?;
    drop(file);
    fs::rename(temporary, path)
}

/// Creates a file next to the path. A file that replaces an existing one is private until it has its mode.
fn create_temporary(path: &Path, private: bool) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = private;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary =
            path.with_file_name(format!(".conductor-{}-{number}.tmp", std::process::id()));
        match options.open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (temporary, file)),
        }
    }
}

fn io_error(what: &str, path: &Path, error: &io::Error) -> Value {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => json!({
            "code": rpc_error::RESOURCE_NOT_FOUND,
            "message": format!("Resource not found: {path}: {error}"),
            "data": { "uri": path.to_string() },
        }),
        _ => rpc_error::internal(&format!("cannot {what} {path}: {error}")),
    }
}
