//! Reads files of a project that nobody has looked at.
//!
//! A repository from elsewhere may hold anything under a well-known name: a link to `/dev/zero` or to a
//! private key, a FIFO that blocks its reader, a file of terabytes. Only regular files are read, only up to a
//! size, and only inside the folder unless the user allows more. All checks are made on the file that is
//! open, so a file that is exchanged meanwhile passes none of them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// What may be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The most that is read of a file, in bytes. The rest is left out.
    pub most: usize,
    /// Also what is not in the folder, through links or `..`.
    pub outside: bool,
}

/// The beginning of a file.
#[derive(Debug)]
pub(crate) struct Text {
    pub text: String,
    /// The file is longer.
    pub cut: bool,
}

/// Why a file is not read.
#[derive(Debug)]
pub(crate) enum Refusal {
    Missing,
    /// It resolves to this path, which is not in the folder.
    Outside(PathBuf),
    NotRegular,
    Unreadable(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Missing => f.write_str("it does not exist"),
            Refusal::Outside(path) => {
                write!(
                    f,
                    "it leads out of its folder, to {}; --outside allows that",
                    path.display()
                )
            }
            Refusal::NotRegular => f.write_str("it is not a regular file"),
            Refusal::Unreadable(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Refusal::Missing,
            _ => Refusal::Unreadable(error),
        }
    }
}

/// Reads the beginning of a file in a folder. The folder of an absolute path is the one that the path names.
pub(crate) fn read(folder: &Path, path: &Path, bounds: Bounds) -> Result<Text, Refusal> {
    let folder = match (path.is_absolute(), path.parent()) {
        (true, Some(parent)) => parent,
        _ => folder,
    };
    let folder = folder.canonicalize()?;
    let resolved = folder.join(path).canonicalize()?;
    let file = match resolved.strip_prefix(&folder) {
        Ok(inside) => system::open_inside(&folder, inside)?,
        Err(_) if bounds.outside => system::open(&resolved)?,
        Err(_) => return Err(Refusal::Outside(resolved)),
    };
    if !file.metadata()?.is_file() {
        return Err(Refusal::NotRegular);
    }
    let most = bounds.most as u64;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    let cut = bytes.len() > bounds.most;
    bytes.truncate(bounds.most);
    Ok(Text { text: String::from_utf8_lossy(&bytes).into_owned(), cut })
}

/// The names on a path that was resolved, so that it has no other parts.
fn names(path: &Path) -> Result<Vec<&std::ffi::OsStr>, Refusal> {
    let name = |part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(Refusal::NotRegular),
    };
    path.components().map(name).collect()
}

#[cfg(unix)]
mod system {
    use super::{File, Path, Refusal, names};
    use rustix::fs::{CWD, Mode, OFlags, openat};
    use rustix::io::Errno;
    use std::os::fd::OwnedFd;

    /// Without waiting for the other end of a FIFO, and without making a terminal ours.
    const FILE: OFlags = OFlags::RDONLY
        .union(OFlags::CLOEXEC)
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
        .union(OFlags::NOFOLLOW);
    const FOLDER: OFlags =
        OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

    /// Opens a file step by step from its folder. A step that has become a link since the path was resolved
    /// is an error.
    pub fn open_inside(folder: &Path, inside: &Path) -> Result<File, Refusal> {
        let parts = names(inside)?;
        let Some((file, steps)) = parts.split_last() else { return Err(Refusal::NotRegular) };
        let mut at: OwnedFd = openat(CWD, folder, FOLDER, Mode::empty()).map_err(refusal)?;
        for step in steps {
            at = openat(&at, *step, FOLDER, Mode::empty()).map_err(refusal)?;
        }
        openat(&at, *file, FILE, Mode::empty()).map(File::from).map_err(refusal)
    }

    /// Opens a file by its resolved path.
    pub fn open(path: &Path) -> Result<File, Refusal> {
        openat(CWD, path, FILE, Mode::empty()).map(File::from).map_err(refusal)
    }

    fn refusal(error: Errno) -> Refusal {
        match error {
            // A link where there was none, or a socket.
            Errno::LOOP | Errno::NXIO | Errno::OPNOTSUPP => Refusal::NotRegular,
            error => std::io::Error::from(error).into(),
        }
    }
}

/// Here a file that is exchanged while it is being opened is not noticed.
#[cfg(not(unix))]
mod system {
    use super::{File, Path, Refusal, names};

    pub fn open_inside(folder: &Path, inside: &Path) -> Result<File, Refusal> {
        names(inside)?;
        open(&folder.join(inside))
    }

    pub fn open(path: &Path) -> Result<File, Refusal> {
        // Opening a device or a named pipe may have effects of its own.
        match std::fs::symlink_metadata(path)?.is_file() {
            true => Ok(File::open(path)?),
            false => Err(Refusal::NotRegular),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const BOUNDS: Bounds = Bounds { most: 10, outside: false };

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

        fn read(&self, path: impl AsRef<Path>) -> Result<Text, Refusal> {
            read(&self.project(), path.as_ref(), BOUNDS)
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
    fn regular_files_are_read_up_to_a_size() {
        let folder = Folder::new("size");
        assert_eq!(folder.read("docs/real").unwrap().text, "words");
        let huge = File::create(folder.project().join("huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        let read = folder.read("huge").unwrap();
        assert!(read.cut && read.text.len() == 10);
        assert!(matches!(folder.read("nothing"), Err(Refusal::Missing)));
        assert!(matches!(folder.read("docs/real/more"), Err(Refusal::Missing)));
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
            assert!(matches!(folder.read(path), Err(Refusal::Outside(_))), "{path}");
            let allowed = Bounds { outside: true, ..BOUNDS };
            assert_eq!(read(&folder.project(), path.as_ref(), allowed).unwrap().text, "key");
        }
        // A path that the user has written out is in its own folder.
        assert_eq!(folder.read(&private).unwrap().text, "key");
        // The whole project may be reached through a link.
        symlink(folder.project(), folder.0.join("alias")).unwrap();
        let alias = folder.0.join("alias");
        assert_eq!(read(&alias, "inside".as_ref(), BOUNDS).unwrap().text, "words");
        folder.link("loop", "loop");
        assert!(matches!(folder.read("loop"), Err(Refusal::Unreadable(_))));
    }

    #[test]
    fn what_is_not_a_regular_file_is_not_read() {
        let folder = Folder::new("kinds");
        let fifo = folder.project().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let _socket =
            std::os::unix::net::UnixListener::bind(folder.project().join("socket")).unwrap();
        for path in ["fifo", "socket", "docs", "."] {
            let refused = folder.read(path);
            assert!(matches!(refused, Err(Refusal::NotRegular)), "{path}: {refused:?}");
        }
        folder.link("/dev/zero", "zero");
        assert!(matches!(folder.read("zero"), Err(Refusal::Outside(_))));
        let allowed = Bounds { outside: true, ..BOUNDS };
        let refused = read(&folder.project(), "zero".as_ref(), allowed);
        assert!(matches!(refused, Err(Refusal::NotRegular)), "{refused:?}");
    }

    /// Between resolving and opening, a folder may become a link.
    #[test]
    fn a_step_that_has_become_a_link_is_not_followed() {
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
    fn a_file_that_may_not_be_read_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("mode");
        let path = folder.project().join("docs/real");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
        match folder.read("docs/real") {
            Err(Refusal::Unreadable(error)) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            }
            // The user who may read everything.
            read => assert_eq!(read.unwrap().text, "words"),
        }
    }
}
