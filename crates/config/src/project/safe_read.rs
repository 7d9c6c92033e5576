//! Reads files that a project names, or brings along.
//!
//! In a project of somebody else, any name may be a link to a device, a FIFO whose reader waits for ever, or a file of
//! terabytes. So only regular files are opened, no open waits, and no file is read beyond a limit. The checks are made on the
//! opened file, so a file that is replaced in between is not read either.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// The maximum size of a configuration file and of an env-file, in bytes.
pub const MAX_FILE: u64 = 1024 * 1024;

/// Why a file is not read.
#[derive(Debug)]
pub enum ReadError {
    /// There is no such file.
    Missing,
    /// It is a folder, a FIFO, a device or a socket.
    NotRegular,
    /// It has more bytes than this limit.
    TooLarge(u64),
    /// Its path leads to another machine, or to a device.
    NotLocal,
    /// The system refuses it.
    Refused(io::Error),
}

impl ReadError {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, ReadError::Missing)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Missing => f.write_str("it does not exist"),
            ReadError::NotRegular => f.write_str("it is not a regular file"),
            ReadError::TooLarge(limit) => write!(f, "it has more than {limit} bytes"),
            ReadError::NotLocal => f.write_str("its path leads to another machine or to a device"),
            ReadError::Refused(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReadError::Missing,
            // A text with a NUL, or a text that is too long, is not the name of a file.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => ReadError::Missing,
            io::ErrorKind::IsADirectory => ReadError::NotRegular,
            _ => ReadError::Refused(error),
        }
    }
}

/// Reads a regular file of at most [`MAX_FILE`] bytes. Symbolic links are followed.
///
/// # Errors
/// The file is missing, is not a regular file, is too large, or cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    read_opened(open(path)?)
}

/// Reads at most [`MAX_FILE`] bytes of an opened file.
pub(crate) fn read_opened(file: File) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_FILE {
        true => Err(ReadError::TooLarge(MAX_FILE)),
        false => Ok(bytes),
    }
}

/// Opens a regular file for reading, and does not wait. Symbolic links are followed.
pub(crate) fn open(path: &Path) -> Result<File, ReadError> {
    if !is_local(path) {
        return Err(ReadError::NotLocal);
    }
    // Opening a device may have side effects, so it is not tried.
    if !std::fs::metadata(path)?.is_file() {
        return Err(ReadError::NotRegular);
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    // The path may lead to something else by now.
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(ReadError::NotRegular),
    }
}

/// Whether looking at a path stays on this machine. On Windows, looking at `\\server\share` sends the user's credentials to
/// that server.
pub(crate) fn is_local(path: &Path) -> bool {
    use std::path::{Component, Prefix};
    match path.components().next() {
        Some(Component::Prefix(prefix)) => {
            matches!(prefix.kind(), Prefix::Disk(_) | Prefix::VerbatimDisk(_))
        }
        _ => true,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::project::tests::TestFolder;

    #[test]
    fn only_regular_files_are_read_and_nothing_waits() {
        let folder = TestFolder::new("kinds");
        folder.write("file", "text");
        folder.link("file", "link");
        folder.link("/dev/zero", "zero");
        folder.link("nothing", "dangling");
        folder.link("loop", "loop");
        folder.fifo("fifo");
        let _socket = std::os::unix::net::UnixListener::bind(folder.path("socket")).expect("ours");
        for name in ["file", "link"] {
            assert_eq!(read(&folder.path(name)).expect("a file"), b"text", "{name}");
        }
        for name in ["fifo", "zero", "socket", "."] {
            let read = read(&folder.path(name));
            assert!(matches!(read, Err(ReadError::NotRegular)), "{name}: {read:?}");
        }
        for name in ["nothing", "dangling", "file/more", "a\0b"] {
            let read = read(&folder.path(name));
            assert!(matches!(read, Err(ReadError::Missing)), "{name}: {read:?}");
        }
        assert!(matches!(read(&folder.path("loop")), Err(ReadError::Refused(_))));
        assert!(matches!(read(&folder.path(&"x".repeat(5000))), Err(ReadError::Missing)));
    }

    #[test]
    fn a_huge_file_is_refused_without_being_read() {
        let folder = TestFolder::new("huge");
        let huge = File::create(folder.path("huge")).expect("ours");
        huge.set_len(1 << 40).expect("sparse");
        assert!(matches!(read(&folder.path("huge")), Err(ReadError::TooLarge(MAX_FILE))));
        huge.set_len(MAX_FILE).expect("sparse");
        assert_eq!(read(&folder.path("huge")).expect("fits").len() as u64, MAX_FILE);
    }
}
