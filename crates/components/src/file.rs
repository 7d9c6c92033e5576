//! Reads files of untrusted projects.
//!
//! In a hostile repository, a well-known file name may be a link to `/dev/zero` or to a private key, a FIFO that blocks
//! its reader, or a file of terabytes. Only regular files are read, only up to a limit, and only inside the folder
//! unless the user allows more. All checks are made on the opened file, so replacing the file between check and read
//! does not help an attacker.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Limits for reading a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLimits {
    /// The maximum number of bytes. The rest of the file is left out.
    pub max_bytes: usize,
    /// Whether a file outside the folder may be read, through symbolic links or `..`.
    pub outside: bool,
}

/// The beginning of a file.
#[derive(Debug)]
pub(crate) struct FileStart {
    pub text: String,
    /// Whether the file is longer.
    pub truncated: bool,
}

/// Why a file is not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Missing,
    /// It resolves to this path, which is not in the folder.
    Outside(PathBuf),
    NotRegular,
    Unreadable(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Missing => f.write_str("it does not exist"),
            ReadError::Outside(path) => {
                write!(
                    f,
                    "it leads out of its folder, to {}; --outside allows this",
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

/// Reads the beginning of a file in a folder. For an absolute path, the folder is the parent of the file.
pub(crate) fn read(folder: &Path, path: &Path, limits: ReadLimits) -> Result<FileStart, ReadError> {
    let folder = match (path.is_absolute(), path.parent()) {
        (true, Some(parent)) => parent,
        _ => folder,
    };
    let folder = folder.canonicalize()?;
    let resolved = folder.join(path).canonicalize()?;
    let file = match resolved.strip_prefix(&folder) {
        Ok(inside) => system::open_inside(&folder, inside)?,
        Err(_) if limits.outside => system::open(&resolved)?,
        Err(_) => return Err(ReadError::Outside(resolved)),
    };
    if !file.metadata()?.is_file() {
        return Err(ReadError::NotRegular);
    }
    let most = limits.max_bytes as u64;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    let truncated = bytes.len() > limits.max_bytes;
    bytes.truncate(limits.max_bytes);
    Ok(FileStart { text: String::from_utf8_lossy(&bytes).into_owned(), truncated })
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
    const FILE: OFlags = OFlags::RDONLY
        .union(OFlags::CLOEXEC)
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
        .union(OFlags::NOFOLLOW);
    const FOLDER: OFlags =
        OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

    /// Opens a file directory by directory, beginning with the folder. If one of them has become a link since the path
    /// was resolved, this fails.
    pub(super) fn open_inside(folder: &Path, inside: &Path) -> Result<File, ReadError> {
        let parts = names(inside)?;
        let Some((file, steps)) = parts.split_last() else { return Err(ReadError::NotRegular) };
        let mut at: OwnedFd = openat(CWD, folder, FOLDER, Mode::empty()).map_err(read_error)?;
        for step in steps {
            at = openat(&at, *step, FOLDER, Mode::empty()).map_err(read_error)?;
        }
        openat(&at, *file, FILE, Mode::empty()).map(File::from).map_err(read_error)
    }

    /// Opens a file by its resolved path.
    pub(super) fn open(path: &Path) -> Result<File, ReadError> {
        openat(CWD, path, FILE, Mode::empty()).map(File::from).map_err(read_error)
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

    pub(super) fn open_inside(folder: &Path, inside: &Path) -> Result<File, ReadError> {
        names(inside)?;
        open(&folder.join(inside))
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

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("files-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("project/docs")).unwrap();
            std::fs::write(path.join("private"), "key").unwrap();
            std::fs::write(path.join("project/docs/real"), "words").unwrap();
            Folder(path)
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

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_regular_file_is_read_up_to_the_limit() {
        let folder = Folder::new("size");
        assert_eq!(folder.read("docs/real").unwrap().text, "words");
        let huge = File::create(folder.project().join("huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        let read = folder.read("huge").unwrap();
        assert!(read.truncated && read.text.len() == 10);
        assert!(matches!(folder.read("nothing"), Err(ReadError::Missing)));
        assert!(matches!(folder.read("docs/real/more"), Err(ReadError::Missing)));
    }

    #[test]
    fn links_are_followed_only_inside_the_folder() {
        let folder = Folder::new("links");
        folder.link("docs/real", "inside");
        folder.link("docs", "folder");
        assert_eq!(folder.read("inside").unwrap().text, "words");
        assert_eq!(folder.read("folder/real").unwrap().text, "words");
        folder.link("../private", "out");
        folder.link(&folder.0, "parent");
        folder.link("inside-out", "twice");
        folder.link("../project/../private", "inside-out");
        let private = folder.0.join("private");
        for path in ["out", "parent/private", "twice", "../private", "docs/../../private"] {
            assert!(matches!(folder.read(path), Err(ReadError::Outside(_))), "{path}");
            let allowed = ReadLimits { outside: true, ..LIMITS };
            assert_eq!(read(&folder.project(), path.as_ref(), allowed).unwrap().text, "key");
        }
        // The folder of an absolute path is its parent.
        assert_eq!(folder.read(&private).unwrap().text, "key");
        // The project folder itself may be a link.
        symlink(folder.project(), folder.0.join("alias")).unwrap();
        let alias = folder.0.join("alias");
        assert_eq!(read(&alias, "inside".as_ref(), LIMITS).unwrap().text, "words");
        folder.link("loop", "loop");
        assert!(matches!(folder.read("loop"), Err(ReadError::Unreadable(_))));
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = Folder::new("kinds");
        let fifo = folder.project().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let _socket =
            std::os::unix::net::UnixListener::bind(folder.project().join("socket")).unwrap();
        for path in ["fifo", "socket", "docs", "."] {
            let refused = folder.read(path);
            assert!(matches!(refused, Err(ReadError::NotRegular)), "{path}: {refused:?}");
        }
        folder.link("/dev/zero", "zero");
        assert!(matches!(folder.read("zero"), Err(ReadError::Outside(_))));
        let allowed = ReadLimits { outside: true, ..LIMITS };
        let refused = read(&folder.project(), "zero".as_ref(), allowed);
        assert!(matches!(refused, Err(ReadError::NotRegular)), "{refused:?}");
    }

    /// Between resolving and opening, an attacker may replace a directory by a link.
    #[test]
    fn a_directory_that_has_become_a_link_is_not_followed() {
        let folder = Folder::new("race");
        folder.link(&folder.0, "parent");
        folder.link("../private", "out");
        let project = folder.project().canonicalize().unwrap();
        for path in ["parent/private", "out"] {
            let opened = system::open_inside(&project, path.as_ref());
            assert!(opened.is_err(), "{path}");
        }
    }

    #[test]
    fn a_file_without_read_permission_is_an_error() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("mode");
        let path = folder.project().join("docs/real");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
        match folder.read("docs/real") {
            Err(ReadError::Unreadable(error)) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            }
            // Root may read every file.
            read => assert_eq!(read.unwrap().text, "words"),
        }
    }
}
