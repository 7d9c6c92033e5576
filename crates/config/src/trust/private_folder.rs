//! A folder that only the user can change.
//!
//! Another user who could write to it, or who owned it, could consent in the place of the user. A project could bring along a
//! folder with records, if it were used without these checks: Git does not keep the modes that they demand.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The maximum size of a file in the folder, in bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// A folder that only the user can change, and that is opened.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    path: PathBuf,
    inner: system::Folder,
}

impl PrivateFolder {
    /// Opens a folder. `None` if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Option<PrivateFolder>, String> {
        if !path.is_absolute() {
            return Err("its path is relative. Set XDG_STATE_HOME to an absolute path".to_owned());
        }
        let inner = system::open(path)?;
        Ok(inner.map(|inner| PrivateFolder { path: path.to_owned(), inner }))
    }

    /// Opens a folder. Creates it if it does not exist.
    pub(super) fn create(path: &Path) -> Result<PrivateFolder, String> {
        if path.is_absolute() {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(path).map_err(|why| why.to_string())?;
        }
        PrivateFolder::open(path)?.ok_or_else(|| "it was deleted".to_owned())
    }

    /// The names of the files in it that end like this.
    pub(super) fn names(&self, end: &str) -> Result<Vec<String>, String> {
        let entries = std::fs::read_dir(&self.path).map_err(|why| why.to_string())?;
        let names = entries.flatten().filter_map(|it| it.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|it| it.ends_with(end)).collect();
        names.sort();
        Ok(names)
    }

    /// The bytes of a file in it. `None` if there is no such file.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(file) = self.inner.open_file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|why| why.to_string())?;
        match bytes.len() as u64 > MAX_FILE {
            true => Err(format!("it has more than {MAX_FILE} bytes")),
            false => Ok(Some(bytes)),
        }
    }

    /// Replaces a file in it. A reader gets either the old or the new bytes. The lock must be held.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        self.inner.write(name, bytes).map_err(|why| why.to_string())
    }

    /// Deletes a file in it. Returns whether there was one.
    pub(super) fn delete(&self, name: &str) -> Result<bool, String> {
        match self.inner.delete(name) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Waits for the lock of the folder. It ends when the file is dropped. On a file system without locks, there is none.
    pub(super) fn lock(&self) -> Result<File, String> {
        let file = self.inner.lock_file().map_err(|why| why.to_string())?;
        let _ = file.lock();
        Ok(file)
    }
}

/// A name for a new file that replaces another one.
fn new_name(name: &str) -> String {
    format!(".{name}.{}.new", std::process::id())
}

#[cfg(unix)]
mod system {
    use std::fs::File;
    use std::io::{self, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, renameat, unlinkat};
    use rustix::io::Errno;

    use super::new_name;

    const FOLDER: OFlags =
        OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);
    /// NONBLOCK: does not wait for the other end of a FIFO.
    const FILE: OFlags =
        OFlags::CLOEXEC.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);

    #[derive(Debug)]
    pub(super) struct Folder(OwnedFd);

    pub(super) fn open(path: &Path) -> Result<Option<Folder>, String> {
        let folder = match openat(CWD, path, FOLDER, Mode::empty()) {
            Ok(folder) => File::from(folder),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::MLINK | Errno::NOTDIR) => {
                return Err("it is not a folder, or a symbolic link. Delete it".to_owned());
            }
            Err(why) => return Err(io::Error::from(why).to_string()),
        };
        check(&folder, 700)?;
        check_parents(path)?;
        Ok(Some(Folder(folder.into())))
    }

    /// Checks that only the user can access an opened file or folder.
    fn check(file: &File, mode: u32) -> Result<(), String> {
        let metadata = file.metadata().map_err(|why| why.to_string())?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(format!("it belongs to user {}, not to you. Delete it", metadata.uid()));
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(format!(
                "other users can access it. If conductor has created it, run `chmod {mode}` on it; otherwise delete it"
            ));
        }
        Ok(())
    }

    /// Checks that no other user can replace the folder by another one.
    fn check_parents(path: &Path) -> Result<(), String> {
        const STICKY: u32 = 0o1000;
        let path = path.canonicalize().map_err(|why| why.to_string())?;
        for parent in path.ancestors().skip(1) {
            let mode = parent.metadata().map_err(|why| why.to_string())?.mode();
            if mode & 0o002 != 0 && mode & STICKY == 0 {
                let parent = parent.display();
                return Err(format!(
                    "all users can replace it, because they can write to {parent}. Run `chmod o-w` on that folder"
                ));
            }
        }
        Ok(())
    }

    impl Folder {
        pub(super) fn open_file(&self, name: &str) -> Result<Option<File>, String> {
            let file = match openat(&self.0, name, FILE | OFlags::RDONLY, Mode::empty()) {
                Ok(file) => File::from(file),
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::LOOP | Errno::MLINK) => {
                    return Err("it is a symbolic link. Delete it".to_owned());
                }
                Err(why) => return Err(io::Error::from(why).to_string()),
            };
            if !file.metadata().map_err(|why| why.to_string())?.is_file() {
                return Err("it is not a regular file. Delete it".to_owned());
            }
            check(&file, 600)?;
            Ok(Some(file))
        }

        pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
            let new = new_name(name);
            // A process that had the same id may have left it.
            let _ = unlinkat(&self.0, &*new, AtFlags::empty());
            let flags = FILE | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let mut file = File::from(openat(&self.0, &*new, flags, Mode::RUSR | Mode::WUSR)?);
            let written = file.write_all(bytes).and_then(|()| file.sync_data());
            let written = written.and_then(|()| Ok(renameat(&self.0, &*new, &self.0, name)?));
            if written.is_err() {
                let _ = unlinkat(&self.0, &*new, AtFlags::empty());
            }
            written
        }

        pub(super) fn delete(&self, name: &str) -> io::Result<()> {
            Ok(unlinkat(&self.0, name, AtFlags::empty())?)
        }

        pub(super) fn lock_file(&self) -> io::Result<File> {
            let flags = FILE | OFlags::RDWR | OFlags::CREATE;
            Ok(openat(&self.0, "lock", flags, Mode::RUSR | Mode::WUSR)?.into())
        }
    }
}

/// Other systems keep the folder of a user private by themselves.
#[cfg(not(unix))]
mod system {
    use std::fs::{File, OpenOptions};
    use std::io::{self, ErrorKind, Write};
    use std::path::{Path, PathBuf};

    use super::new_name;

    #[derive(Debug)]
    pub(super) struct Folder(PathBuf);

    pub(super) fn open(path: &Path) -> Result<Option<Folder>, String> {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(Some(Folder(path.to_owned()))),
            Ok(_) => Err("it is not a folder. Delete it".to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    impl Folder {
        pub(super) fn open_file(&self, name: &str) -> Result<Option<File>, String> {
            let path = self.0.join(name);
            match std::fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_file() => {}
                Ok(_) => return Err("it is not a regular file. Delete it".to_owned()),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error.to_string()),
            }
            File::open(path).map(Some).map_err(|why| why.to_string())
        }

        pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
            let new = self.0.join(new_name(name));
            let mut file = File::create(&new)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            drop(file);
            std::fs::rename(new, self.0.join(name))
        }

        pub(super) fn delete(&self, name: &str) -> io::Result<()> {
            std::fs::remove_file(self.0.join(name))
        }

        pub(super) fn lock_file(&self) -> io::Result<File> {
            let path = self.0.join("lock");
            OpenOptions::new().create(true).truncate(false).write(true).open(path)
        }
    }
}
