//! Writes a text below a folder. No symbolic link is followed, so that a folder which is replaced by a link at the same
//! moment does not lead to another place.

use std::io;
use std::path::{Component, Path};

use serde_json::Value;

use super::io_error;

const LINK: &str = "a part of the path is a symbolic link, which is not followed";

/// Writes a text, as [`write_text`](super::write_text), to a path relative to a folder. The folder itself may be a link.
///
/// # Errors
/// A JSON-RPC error: the file cannot be written, or a part of the path is a symbolic link.
pub fn write_text_inside(folder: &Path, inside: &Path, content: &str) -> Result<(), Value> {
    let is_name = |part| matches!(part, Component::Normal(_));
    let written = match inside.components().all(is_name) && inside.file_name().is_some() {
        true => system::write(folder, inside, content),
        false => Err(io::Error::other("the path must not contain `..`")),
    };
    written.map_err(|error| io_error("write", &folder.join(inside), &error))
}

#[cfg(unix)]
mod system {
    use std::ffi::OsStr;
    use std::fs::{File, Metadata};
    use std::io::{self, Write};
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
    use rustix::io::Errno;

    use super::super::{cannot_replace, overwrite};
    use super::LINK;

    const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);
    /// NONBLOCK: does not wait for the reader of a FIFO.
    const WRITE: OFlags = OFlags::WRONLY
        .union(OFlags::CLOEXEC)
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
        .union(OFlags::NOFOLLOW);
    const CREATE: OFlags = OFlags::WRONLY
        .union(OFlags::CLOEXEC)
        .union(OFlags::CREATE)
        .union(OFlags::EXCL)
        .union(OFlags::NOFOLLOW);

    pub(super) fn write(root: &Path, inside: &Path, content: &str) -> io::Result<()> {
        let (folder, name) = open_folder(root, inside)?;
        let current = match openat(&folder, name, WRITE, Mode::empty()) {
            Ok(file) => Some(File::from(file)),
            Err(Errno::NOENT) => None,
            Err(why) => return Err(describe(why)),
        };
        let existing = current.as_ref().map(File::metadata).transpose()?;
        if existing.as_ref().is_some_and(|it| !it.is_file()) {
            return Err(io::Error::other("it is not a regular file"));
        }
        match (replace(&folder, name, existing.as_ref(), content), current) {
            (Err(error), Some(current)) if cannot_replace(&error) => overwrite(current, content),
            (written, _) => written,
        }
    }

    /// Opens the folder of a file, one step after the other, and creates what is missing.
    fn open_folder<'a>(root: &Path, inside: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let parts: Vec<&OsStr> = inside.iter().collect();
        let (name, steps) =
            parts.split_last().ok_or_else(|| io::Error::other("the path is empty"))?;
        let mut at = openat(CWD, root, FOLDER, Mode::empty())?;
        for step in steps {
            match mkdirat(&at, *step, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                Ok(()) | Err(Errno::EXIST) => {}
                // The folder may exist all the same, in one that cannot be written.
                Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {}
                Err(why) => return Err(why.into()),
            }
            let flags = FOLDER.union(OFlags::NOFOLLOW);
            at = openat(&at, *step, flags, Mode::empty()).map_err(describe)?;
        }
        Ok((at, name))
    }

    /// Writes a new file, which then replaces the old one.
    fn replace(
        folder: &OwnedFd,
        name: &OsStr,
        existing: Option<&Metadata>,
        content: &str,
    ) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let new = format!(".conductor-{}-edit-{number}.tmp", std::process::id());
        // A process with this id may have left it.
        let _ = unlinkat(folder, &*new, AtFlags::empty());
        let mode = match existing {
            // It is private until it has its mode.
            Some(_) => Mode::RUSR | Mode::WUSR,
            None => Mode::from_raw_mode(0o666),
        };
        let mut file = File::from(openat(folder, &*new, CREATE, mode)?);
        let permissions = existing.map(Metadata::permissions);
        let written = permissions
            .map_or(Ok(()), |it| file.set_permissions(it))
            .and_then(|()| file.write_all(content.as_bytes()))
            .and_then(|()| file.sync_data())
            .and_then(|()| Ok(renameat(folder, &*new, folder, name)?));
        if written.is_err() {
            let _ = unlinkat(folder, &*new, AtFlags::empty());
        }
        written
    }

    fn describe(why: Errno) -> io::Error {
        match why {
            Errno::LOOP | Errno::MLINK | Errno::NOTDIR => io::Error::other(LINK),
            why => why.into(),
        }
    }
}

/// Without `openat`, a folder that is replaced by a link at the same moment is not detected.
#[cfg(not(unix))]
mod system {
    use std::io;
    use std::path::Path;

    use super::LINK;

    pub(super) fn write(root: &Path, inside: &Path, content: &str) -> io::Result<()> {
        let mut path = root.to_owned();
        for part in inside.iter() {
            path.push(part);
            if std::fs::symlink_metadata(&path).is_ok_and(|it| it.is_symlink()) {
                return Err(io::Error::other(LINK));
            }
        }
        super::super::write_text(&path, content).map_err(|error| {
            io::Error::other(error["message"].as_str().unwrap_or("it failed").to_owned())
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_text_is_written_below_the_folder_and_never_through_a_link() {
        let folder = std::env::temp_dir().join(format!("files-inside-{}", std::process::id()));
        let (root, outside) = (folder.join("root"), folder.join("outside"));
        fs::create_dir_all(&root).expect("created");
        fs::create_dir_all(&outside).expect("created");
        fs::write(outside.join("file"), "old").expect("written");
        write_text_inside(&root, Path::new("new/folder/a"), "one").expect("written");
        let path = root.join("new/folder/a");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).expect("set");
        write_text_inside(&root, Path::new("new/folder/a"), "two").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "two");
        assert_eq!(fs::metadata(&path).expect("read").permissions().mode() & 0o777, 0o751);
        assert_eq!(fs::read_dir(root.join("new/folder")).expect("read").count(), 1);
        symlink(&outside, root.join("link")).expect("linked");
        symlink(outside.join("file"), root.join("file")).expect("linked");
        for inside in ["link/b", "link/file", "file", "../outside/b", "/etc/b", "", "new"] {
            assert!(write_text_inside(&root, Path::new(inside), "evil").is_err(), "{inside}");
        }
        assert_eq!(fs::read_to_string(outside.join("file")).expect("read"), "old");
        assert_eq!(fs::read_dir(&outside).expect("read").count(), 1);
        fs::remove_dir_all(folder).expect("removed");
    }
}
