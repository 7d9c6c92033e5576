//! Reads and writes the files with notes.
//!
//! A file may be in an untrusted project, whose folders and files may be links to anywhere. So no link is followed below
//! the root of a file. A file is written to a new file first, which then replaces it. A lock keeps other processes from
//! writing at the same time.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use component_base::append;
use component_base::state_folder;

/// The maximum size of a file, in bytes.
pub(super) const MAX_FILE: usize = 1024 * 1024;

/// How often the lock is tried, and the pause between.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// A file with notes: a trusted folder, and the path in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoteFile {
    pub(super) root: PathBuf,
    pub(super) inside: PathBuf,
}

impl NoteFile {
    pub(super) fn path(&self) -> PathBuf {
        self.root.join(&self.inside)
    }

    /// The text. Empty if there is no file.
    pub(super) fn read(&self) -> Result<String, String> {
        let bytes = system::read(&self.root, &self.inside).map_err(|why| self.describe(&why))?;
        if bytes.len() > MAX_FILE {
            return Err(self.describe(&format!("it is longer than {MAX_FILE} bytes. Shorten it")));
        }
        String::from_utf8(bytes)
            .map_err(|_| self.describe("it is not UTF-8. Save it with this encoding"))
    }

    /// Changes the text. The lock must be held.
    pub(super) fn write(&self, text: &str) -> Result<(), String> {
        if text.len() > MAX_FILE {
            return Err(self.describe(&format!("it would be longer than {MAX_FILE} bytes")));
        }
        system::write(&self.root, &self.inside, text.as_bytes()).map_err(|why| self.describe(&why))
    }

    fn describe(&self, why: &str) -> String {
        format!("the file {} cannot be used: {why}", self.path().display())
    }
}

/// A lock that ends when it is dropped.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code)] File);

/// Waits for the lock of all files.
pub(super) async fn lock(folder: &Path) -> Result<Lock, String> {
    let failed = |why: &str| format!("{} cannot be used: {why}", folder.display());
    state_folder::create_private(folder).map_err(|why| failed(&why.to_string()))?;
    let file = append::open(&folder.join("lock")).map_err(|why| failed(&why))?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_WAIT).await,
            // File systems without locks.
            Err(TryLockError::Error(_)) => return Ok(Lock(file)),
        }
    }
    Err(failed("another process keeps it locked; call the tool again"))
}

/// A name for the new file that no other process uses.
fn new_name(file: &std::ffi::OsStr) -> std::ffi::OsString {
    let mut name = std::ffi::OsString::from(".");
    name.push(file);
    name.push(format!(".{}.new", std::process::id()));
    name
}

const LINK: &str = "it, or a folder on the way to it, is a symbolic link, which is not followed. Name another file";
const NOT_REGULAR: &str = "it is not a regular file. Name another file";

#[cfg(unix)]
mod system {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::path::{Component, Path};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
    use rustix::io::Errno;

    use super::{LINK, MAX_FILE, NOT_REGULAR, new_name};

    const FOLDER: OFlags =
        OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);
    /// NONBLOCK: does not wait for the writer of a FIFO.
    const READ: OFlags = OFlags::RDONLY
        .union(OFlags::CLOEXEC)
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
        .union(OFlags::NOFOLLOW);
    const CREATE: OFlags = OFlags::WRONLY
        .union(OFlags::CLOEXEC)
        .union(OFlags::CREATE)
        .union(OFlags::EXCL)
        .union(OFlags::NOFOLLOW);

    pub(super) fn read(root: &Path, inside: &Path) -> Result<Vec<u8>, String> {
        let file = match open(root, inside, false)
            .and_then(|(folder, name)| openat(&folder, name, READ, Mode::empty()).map_err(Some))
        {
            Ok(file) => File::from(file),
            Err(Some(Errno::NOENT)) => return Ok(Vec::new()),
            Err(why) => return Err(describe(why)),
        };
        let metadata = file.metadata().map_err(|why| why.to_string())?;
        if !metadata.is_file() {
            return Err(NOT_REGULAR.to_owned());
        }
        let mut bytes = Vec::new();
        let read = file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|why| why.to_string())?;
        Ok(bytes)
    }

    pub(super) fn write(root: &Path, inside: &Path, text: &[u8]) -> Result<(), String> {
        let (folder, name) = open(root, inside, true).map_err(describe)?;
        let new = new_name(name);
        // A process with this id may have left it.
        let _ = unlinkat(&folder, &*new, AtFlags::empty());
        let private = Mode::RUSR | Mode::WUSR;
        let file = openat(&folder, &*new, CREATE, private).map_err(|why| describe(Some(why)))?;
        let mut file = File::from(file);
        let written = file.write_all(text).and_then(|()| file.sync_data());
        let written = written.map_err(|why| why.to_string()).and_then(|()| {
            renameat(&folder, &*new, &folder, name).map_err(|why| describe(Some(why)))
        });
        if written.is_err() {
            let _ = unlinkat(&folder, &*new, AtFlags::empty());
        }
        written
    }

    /// Opens the folder of a file, one step after the other. `None` as an error: the path has other parts than names.
    fn open<'a>(
        root: &Path,
        inside: &'a Path,
        creates: bool,
    ) -> Result<(OwnedFd, &'a OsStr), Option<Errno>> {
        let name = |part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(None),
        };
        let parts: Vec<&OsStr> = inside.components().map(name).collect::<Result<_, _>>()?;
        let (file, steps) = parts.split_last().ok_or(None)?;
        // The root itself may be a link: the user has chosen it.
        let follow = FOLDER.difference(OFlags::NOFOLLOW);
        let mut at = openat(CWD, root, follow, Mode::empty()).map_err(Some)?;
        for step in steps {
            if creates {
                match mkdirat(&at, *step, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(why) => return Err(Some(why)),
                }
            }
            at = openat(&at, *step, FOLDER, Mode::empty()).map_err(Some)?;
        }
        Ok((at, file))
    }

    fn describe(why: Option<Errno>) -> String {
        match why {
            None => "its path must not contain `..`".to_owned(),
            Some(Errno::LOOP | Errno::MLINK | Errno::NOTDIR) => LINK.to_owned(),
            Some(Errno::NXIO | Errno::ISDIR | Errno::OPNOTSUPP) => NOT_REGULAR.to_owned(),
            Some(why) => std::io::Error::from(why).to_string(),
        }
    }
}

/// Without `openat`, a folder that is replaced by a link at the same moment is not detected.
#[cfg(not(unix))]
mod system {
    use std::fs::File;
    use std::io::{ErrorKind, Read, Write};
    use std::path::{Component, Path, PathBuf};

    use super::{LINK, MAX_FILE, NOT_REGULAR, new_name};

    pub(super) fn read(root: &Path, inside: &Path) -> Result<Vec<u8>, String> {
        let path = checked(root, inside)?;
        let metadata = match std::fs::symlink_metadata(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            metadata => metadata.map_err(|why| why.to_string())?,
        };
        if !metadata.is_file() {
            return Err(NOT_REGULAR.to_owned());
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|why| why.to_string())?;
        let read = file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|why| why.to_string())?;
        Ok(bytes)
    }

    pub(super) fn write(root: &Path, inside: &Path, text: &[u8]) -> Result<(), String> {
        let path = checked(root, inside)?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(NOT_REGULAR.to_owned());
        };
        let write = || {
            std::fs::create_dir_all(folder)?;
            let new = folder.join(new_name(name));
            let mut file = File::create(&new)?;
            file.write_all(text)?;
            file.sync_data()?;
            drop(file);
            std::fs::rename(new, &path)
        };
        write().map_err(|why| why.to_string())
    }

    /// The path, if no part of it is a link.
    fn checked(root: &Path, inside: &Path) -> Result<PathBuf, String> {
        let mut path = root.to_owned();
        for part in inside.components() {
            let Component::Normal(name) = part else {
                return Err("its path must not contain `..`".to_owned());
            };
            path.push(name);
            if std::fs::symlink_metadata(&path).is_ok_and(|it| it.is_symlink()) {
                return Err(LINK.to_owned());
            }
        }
        Ok(path)
    }
}
