//! Opens logs and journals, which only the user may read.
//!
//! The name of a log file may come from an untrusted project. A symbolic link with that name could lead to any file
//! of the user, so it is not followed. Only a regular file that belongs to the user is written. Paths in `/dev`, such
//! as `/dev/stderr` and `/dev/null`, are opened without these checks.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

/// Opens a file for appending, and creates it if it does not exist. Removes the permissions of other users.
///
/// # Errors
/// What is wrong with the file, and what to do.
pub fn open(path: &Path) -> Result<File, String> {
    system::open(path, false)
}

/// Opens a file like [`open`], but also for reading and truncating.
///
/// # Errors
/// What is wrong with the file, and what to do.
pub fn open_to_read(path: &Path) -> Result<File, String> {
    system::open(path, true)
}

/// A file that is kept open: it is opened like [`open_to_read`], and again when another file is at its path.
///
/// To open a file takes longer than to append a line to it.
#[derive(Debug, Default)]
pub struct KeptFile(Option<Kept>);

#[derive(Debug)]
struct Kept {
    path: PathBuf,
    file: File,
    identity: Option<Identity>,
}

/// The device and the number of a file, which no other file has while it is open. Not all systems have them.
pub type Identity = (u64, u64);

impl KeptFile {
    /// The file at this path, and its metadata.
    ///
    /// # Errors
    /// What is wrong with the file, and what to do.
    pub fn get(&mut self, path: &Path) -> Result<(&mut File, Metadata), String> {
        let known = self.0.take().filter(|kept| kept.path == path);
        let now = known.as_ref().and_then(|_| std::fs::symlink_metadata(path).ok());
        let (kept, metadata) = match known.zip(now) {
            Some((kept, now)) if kept.identity.is_some() && identity(&now) == kept.identity => {
                (kept, now)
            }
            _ => {
                let file = open_to_read(path)?;
                let metadata = file.metadata().map_err(|error| error.to_string())?;
                let identity = identity(&metadata);
                (Kept { path: path.to_owned(), file, identity }, metadata)
            }
        };
        Ok((&mut self.0.insert(kept).file, metadata))
    }
}

/// What tells a file from all others, if the system knows it.
pub fn identity(metadata: &Metadata) -> Option<Identity> {
    system::identity(metadata)
}

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata, Permissions};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
    use std::path::{Component, Path};

    use rustix::fs::OFlags;
    use rustix::io::Errno;

    const PRIVATE: u32 = 0o600;

    pub(super) fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
        Some((metadata.dev(), metadata.ino()))
    }

    pub(super) fn open(path: &Path, read: bool) -> Result<File, String> {
        let mut options = File::options();
        options.create(true).append(true).read(read).mode(PRIVATE);
        if is_device(path) {
            return options.open(path).map_err(|error| error.to_string());
        }
        // NONBLOCK: does not wait for the reader of a FIFO. NOCTTY: a terminal does not become the controlling one.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = options.custom_flags(flags.bits().cast_signed()).open(path);
        let file = file.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::LOOP | Errno::MLINK) => {
                "it is a symbolic link, which is not followed. Name the file that it leads to"
                    .to_owned()
            }
            // A FIFO without a reader, or a socket.
            Some(Errno::NXIO) => NOT_REGULAR.to_owned(),
            Some(Errno::NOENT) => {
                "its directory does not exist. Create the directory, or name another file"
                    .to_owned()
            }
            Some(Errno::ISDIR) => "it is a directory. Name a file".to_owned(),
            Some(Errno::ACCESS) => {
                "permission denied. Check the permissions of the file and of its directory"
                    .to_owned()
            }
            _ => error.to_string(),
        })?;
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if !metadata.is_file() {
            return Err(NOT_REGULAR.to_owned());
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err("it belongs to another user. Name another file".to_owned());
        }
        if metadata.mode() & 0o077 != 0 {
            let owner_only = Permissions::from_mode(metadata.mode() & 0o7700);
            let set = file.set_permissions(owner_only);
            set.map_err(|error| {
                format!("other users can read it, and its mode cannot be changed: {error}")
            })?;
        }
        Ok(file)
    }

    const NOT_REGULAR: &str = "it is not a regular file. Name another one, or /dev/stderr";

    /// Whether the path is in `/dev`, where only the administrator creates files.
    fn is_device(path: &Path) -> bool {
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        path.starts_with("/dev") && !path.starts_with("/dev/shm") && path.components().all(plain)
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::{File, Metadata};
    use std::path::Path;

    pub(super) fn identity(_: &Metadata) -> Option<(u64, u64)> {
        None
    }

    pub(super) fn open(path: &Path, read: bool) -> Result<File, String> {
        let mut options = File::options();
        // A file that is opened for appending cannot be truncated.
        options.create(true).append(!read).write(true).read(read);
        options.open(path).map_err(|error| error.to_string())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("it exists").permissions().mode() & 0o777
    }

    #[test]
    fn only_a_regular_file_that_belongs_to_the_user_is_opened() {
        let directory = std::env::temp_dir().join(format!("append-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a new directory");
        let log = directory.join("log");
        open(&log).expect("created").write_all(b"a").expect("written");
        assert_eq!(mode(&log), 0o600);
        // An existing file keeps its content and loses the permissions of other users.
        std::fs::set_permissions(&log, PermissionsExt::from_mode(0o666)).expect("ours");
        open(&log).expect("opened").write_all(b"b").expect("written");
        assert_eq!((mode(&log), std::fs::read(&log).expect("ours")), (0o600, b"ab".to_vec()));
        // Rejected: links (also dangling ones), a directory, and a FIFO with and without a reader.
        let (link, dangling, fifo) =
            (directory.join("link"), directory.join("new"), directory.join("fifo"));
        symlink(&log, &link).expect("a link");
        symlink(directory.join("nowhere"), &dangling).expect("a link");
        for path in [&link, &dangling] {
            let why = open(path).expect_err("a link");
            assert!(why.contains("symbolic link") && why.contains("Name the file"), "{why}");
        }
        assert!(!directory.join("nowhere").exists());
        assert!(open(&directory).is_err());
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("a program of every system").success());
        assert!(open(&fifo).expect_err("a FIFO").contains("not a regular file"));
        let reader = std::fs::File::options().read(true).write(true).open(&fifo).expect("ours");
        assert!(open(&fifo).expect_err("a FIFO").contains("not a regular file"));
        drop(reader);
        for device in ["/dev/null", "/dev/stderr"] {
            let opened = open(Path::new(device));
            // Standard error may be closed or a socket, but it is not treated as a link.
            assert!(opened.is_ok() || device == "/dev/stderr", "{device}: {opened:?}");
        }
        let around = Path::new("/dev/..").join(link.strip_prefix("/").expect("absolute"));
        assert!(open(&around).expect_err("a link").contains("symbolic link"));
        std::fs::remove_dir_all(directory).expect("ours");
    }

    #[test]
    fn a_kept_file_is_opened_again_when_it_was_replaced() {
        let path = std::env::temp_dir().join(format!("kept-{}", std::process::id()));
        let mut kept = KeptFile::default();
        let append = |kept: &mut KeptFile, text: &str| {
            let (file, metadata) = kept.get(&path).expect("it opens");
            file.write_all(text.as_bytes()).expect("written");
            metadata.len()
        };
        assert_eq!((append(&mut kept, "one"), append(&mut kept, "two")), (0, 3));
        std::fs::remove_file(&path).expect("ours");
        assert_eq!(append(&mut kept, "three"), 0);
        let new = path.with_extension("new");
        std::fs::write(&new, "another").expect("written");
        std::fs::rename(&new, &path).expect("ours");
        assert_eq!(append(&mut kept, " file"), 7);
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "another file");
        std::fs::remove_file(&path).expect("ours");
    }
}
