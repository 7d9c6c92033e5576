//! Reads files of untrusted projects.
//!
//! In a hostile repository, a well-known file name may be a link to `/dev/zero` or to a private key, a FIFO that blocks
//! its reader, or a file of terabytes. Only regular files are read, only up to a limit, and only inside a given
//! directory unless the user allows more. All checks are made on the opened file, so replacing the file between check and read
//! does not help an attacker.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Limits for reading a file.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimits {
    /// The maximum number of bytes. The rest of the file is left out.
    pub max_bytes: usize,
    /// Whether a file outside the directory may be read, through symbolic links or `..`.
    pub outside: bool,
}

/// The beginning of a file.
#[derive(Debug)]
pub struct FileStart {
    /// Its text. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Whether the file is longer.
    pub truncated: bool,
}

/// Why a file is not read.
#[derive(Debug)]
pub enum ReadError {
    /// It does not exist.
    Missing,
    /// It resolves to this path, which is not in the directory.
    Outside(PathBuf),
    /// It is not a regular file.
    NotRegular,
    /// The system reports an error.
    Unreadable(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Missing => f.write_str("it does not exist"),
            ReadError::Outside(path) => {
                write!(
                    f,
                    "it leads out of its directory, to {}; --outside allows this",
                    path.display()
                )
            }
            ReadError::NotRegular => f.write_str("it is not a regular file"),
            ReadError::Unreadable(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReadError::Missing,
            _ => ReadError::Unreadable(error),
        }
    }
}

/// Reads the beginning of a file in a directory. For an absolute path, the directory is the parent of the file.
///
/// # Errors
/// Why the file is not read.
pub fn read(directory: &Path, path: &Path, limits: ReadLimits) -> Result<FileStart, ReadError> {
    let (bytes, truncated) = read_bytes(directory, path, limits)?;
    Ok(FileStart { text: String::from_utf8_lossy(&bytes).into_owned(), truncated })
}

/// Like [`read`], for bytes. Also returns whether the file is longer.
///
/// # Errors
/// Why the file is not read.
pub fn read_bytes(
    directory: &Path,
    path: &Path,
    limits: ReadLimits,
) -> Result<(Vec<u8>, bool), ReadError> {
    let directory = match (path.is_absolute(), path.parent()) {
        (true, Some(parent)) => parent,
        _ => directory,
    };
    let directory = directory.canonicalize()?;
    let resolved = directory.join(path).canonicalize()?;
    let file = match resolved.strip_prefix(&directory) {
        Ok(inside) => system::open_inside(&directory, inside)?,
        Err(_) if limits.outside => system::open(&resolved)?,
        Err(_) => return Err(ReadError::Outside(resolved)),
    };
    if !file.metadata()?.is_file() {
        return Err(ReadError::NotRegular);
    }
    let max_bytes = limits.max_bytes as u64;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    let truncated = bytes.len() > limits.max_bytes;
    bytes.truncate(limits.max_bytes);
    Ok((bytes, truncated))
}

/// The names in a resolved path, which has no other parts.
fn names(path: &Path) -> Result<Vec<&std::ffi::OsStr>, ReadError> {
    let name = |part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(ReadError::NotRegular),
    };
    path.components().map(name).collect()
}

#[cfg(unix)]
mod system {
    use super::{File, Path, ReadError, names};
    use rustix::fs::{CWD, Mode, OFlags, openat};
    use rustix::io::Errno;
    use std::os::fd::OwnedFd;

    /// NONBLOCK: does not wait for the other end of a FIFO. NOCTTY: a terminal does not become the controlling one.
    const OPEN_FILE: OFlags = OFlags::RDONLY
        .union(OFlags::CLOEXEC)
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
        .union(OFlags::NOFOLLOW);
    const OPEN_DIRECTORY: OFlags =
        OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

    /// Opens one path component after the other, starting at `directory`. Fails if one of them has become a link since the
    /// path was resolved.
    pub(super) fn open_inside(directory: &Path, inside: &Path) -> Result<File, ReadError> {
        let parts = names(inside)?;
        let Some((file, steps)) = parts.split_last() else { return Err(ReadError::NotRegular) };
        let mut at: OwnedFd =
            openat(CWD, directory, OPEN_DIRECTORY, Mode::empty()).map_err(read_error)?;
        for step in steps {
            at = openat(&at, *step, OPEN_DIRECTORY, Mode::empty()).map_err(read_error)?;
        }
        openat(&at, *file, OPEN_FILE, Mode::empty()).map(File::from).map_err(read_error)
    }

    /// Opens a file by its resolved path.
    pub(super) fn open(path: &Path) -> Result<File, ReadError> {
        openat(CWD, path, OPEN_FILE, Mode::empty()).map(File::from).map_err(read_error)
    }

    fn read_error(error: Errno) -> ReadError {
        match error {
            // A link that is new since the path was resolved, or a socket.
            Errno::LOOP | Errno::NXIO | Errno::OPNOTSUPP => ReadError::NotRegular,
            error => std::io::Error::from(error).into(),
        }
    }
}

/// Without `openat`, a file that is replaced while it is being opened is not detected.
#[cfg(not(unix))]
mod system {
    use super::{File, Path, ReadError, names};

    pub(super) fn open_inside(directory: &Path, inside: &Path) -> Result<File, ReadError> {
        names(inside)?;
        open(&directory.join(inside))
    }

    pub(super) fn open(path: &Path) -> Result<File, ReadError> {
        // Opening a device or a named pipe may have side effects.
        match std::fs::symlink_metadata(path)?.is_file() {
            true => Ok(File::open(path)?),
            false => Err(ReadError::NotRegular),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const LIMITS: ReadLimits = ReadLimits { max_bytes: 10, outside: false };

    struct TestDirectory(PathBuf);

    impl TestDirectory {
        fn new(name: &str) -> TestDirectory {
            let path = std::env::temp_dir().join(format!("files-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("project/docs")).unwrap();
            std::fs::write(path.join("private"), "key").unwrap();
            std::fs::write(path.join("project/docs/real"), "words").unwrap();
            TestDirectory(path)
        }

        fn project(&self) -> PathBuf {
            self.0.join("project")
        }

        fn read(&self, path: impl AsRef<Path>) -> Result<FileStart, ReadError> {
            read(&self.project(), path.as_ref(), LIMITS)
        }

        fn link(&self, to: impl AsRef<Path>, name: &str) {
            symlink(to, self.project().join(name)).unwrap();
        }
    }

    impl Drop for TestDirectory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_regular_file_is_read_up_to_the_limit() {
        let directory = TestDirectory::new("size");
        assert_eq!(directory.read("docs/real").unwrap().text, "words");
        let huge = File::create(directory.project().join("huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        let read = directory.read("huge").unwrap();
        assert!(read.truncated && read.text.len() == 10);
        assert!(matches!(directory.read("nothing"), Err(ReadError::Missing)));
        assert!(matches!(directory.read("docs/real/more"), Err(ReadError::Missing)));
    }

    #[test]
    fn links_are_followed_only_inside_the_directory() {
        let directory = TestDirectory::new("links");
        directory.link("docs/real", "inside");
        directory.link("docs", "subdirectory");
        assert_eq!(directory.read("inside").unwrap().text, "words");
        assert_eq!(directory.read("subdirectory/real").unwrap().text, "words");
        directory.link("../private", "out");
        directory.link(&directory.0, "parent");
        directory.link("inside-out", "twice");
        directory.link("../project/../private", "inside-out");
        let private = directory.0.join("private");
        for path in ["out", "parent/private", "twice", "../private", "docs/../../private"] {
            assert!(matches!(directory.read(path), Err(ReadError::Outside(_))), "{path}");
            let allowed = ReadLimits { outside: true, ..LIMITS };
            assert_eq!(read(&directory.project(), path.as_ref(), allowed).unwrap().text, "key");
        }
        // The directory of an absolute path is its parent.
        assert_eq!(directory.read(&private).unwrap().text, "key");
        // The project directory itself may be a link.
        symlink(directory.project(), directory.0.join("alias")).unwrap();
        let alias = directory.0.join("alias");
        assert_eq!(read(&alias, "inside".as_ref(), LIMITS).unwrap().text, "words");
        directory.link("loop", "loop");
        assert!(matches!(directory.read("loop"), Err(ReadError::Unreadable(_))));
    }

    #[test]
    fn only_regular_files_are_read() {
        let directory = TestDirectory::new("kinds");
        let fifo = directory.project().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let _socket =
            std::os::unix::net::UnixListener::bind(directory.project().join("socket")).unwrap();
        for path in ["fifo", "socket", "docs", "."] {
            let refused = directory.read(path);
            assert!(matches!(refused, Err(ReadError::NotRegular)), "{path}: {refused:?}");
        }
        directory.link("/dev/zero", "zero");
        assert!(matches!(directory.read("zero"), Err(ReadError::Outside(_))));
        let allowed = ReadLimits { outside: true, ..LIMITS };
        let refused = read(&directory.project(), "zero".as_ref(), allowed);
        assert!(matches!(refused, Err(ReadError::NotRegular)), "{refused:?}");
    }

    /// Between resolving and opening, an attacker may replace a directory by a link.
    #[test]
    fn a_directory_that_has_become_a_link_is_not_followed() {
        let directory = TestDirectory::new("race");
        directory.link(&directory.0, "parent");
        directory.link("../private", "out");
        let project = directory.project().canonicalize().unwrap();
        for path in ["parent/private", "out"] {
            let opened = system::open_inside(&project, path.as_ref());
            assert!(opened.is_err(), "{path}");
        }
    }

    #[test]
    fn a_file_without_read_permission_is_an_error() {
        use std::os::unix::fs::PermissionsExt;
        let directory = TestDirectory::new("mode");
        let path = directory.project().join("docs/real");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
        match directory.read("docs/real") {
            Err(ReadError::Unreadable(error)) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            }
            // Root may read every file.
            read => assert_eq!(read.unwrap().text, "words"),
        }
    }
}
