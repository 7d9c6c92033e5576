//! Opens files that are written for the user alone: logs and journals.
//!
//! The name of a log file may come with a project that nobody has looked at. So a link with that name is not
//! followed, since it may lead to any file of the user, and only a regular file of the user's own is
//! written. Devices and links in `/dev`, such as `/dev/stderr` and `/dev/null`, are opened as they are.

use std::fs::File;
use std::path::Path;

/// Opens a file to append to it. It is created if it does not exist. Only its user can read it afterwards.
/// The error says what is wrong with the file, and what to do.
pub fn open(path: &Path) -> Result<File, String> {
    system::open(path, false)
}

/// The same, to read what is in the file and to replace it.
pub fn open_to_read(path: &Path) -> Result<File, String> {
    system::open(path, true)
}

#[cfg(unix)]
mod system {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
    use std::path::{Component, Path};

    use rustix::fs::OFlags;
    use rustix::io::Errno;

    const PRIVATE: u32 = 0o600;

    pub fn open(path: &Path, read: bool) -> Result<File, String> {
        let mut options = File::options();
        options.create(true).append(true).read(read).mode(PRIVATE);
        if is_device(path) {
            return options.open(path).map_err(|error| error.to_string());
        }
        // Without waiting for the reader of a FIFO, and without making a terminal ours.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = options.custom_flags(flags.bits().cast_signed()).open(path);
        let file = file.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::LOOP | Errno::MLINK) => {
                "it is a symbolic link, which is not followed. Name the file that it leads to"
                    .to_owned()
            }
            // A FIFO without a reader, or a socket.
            Some(Errno::NXIO) => NOT_REGULAR.to_owned(),
            _ => error.to_string(),
        })?;
        let about = file.metadata().map_err(|error| error.to_string())?;
        if !about.is_file() {
            return Err(NOT_REGULAR.to_owned());
        }
        if about.uid() != rustix::process::geteuid().as_raw() {
            return Err("it belongs to another user. Name another file".to_owned());
        }
        if about.mode() & 0o077 != 0 {
            let only_ours = Permissions::from_mode(about.mode() & 0o7700);
            let set = file.set_permissions(only_ours);
            set.map_err(|error| {
                format!("others can read it, and that cannot be changed: {error}")
            })?;
        }
        Ok(file)
    }

    const NOT_REGULAR: &str = "it is not a regular file. Name another one, or /dev/stderr";

    /// Only the administrator puts anything there.
    fn is_device(path: &Path) -> bool {
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        path.starts_with("/dev") && !path.starts_with("/dev/shm") && path.components().all(plain)
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::File;
    use std::path::Path;

    pub fn open(path: &Path, read: bool) -> Result<File, String> {
        let mut options = File::options();
        // What is opened to append cannot be cut off.
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
    fn only_a_regular_file_of_the_users_own_is_opened() {
        let folder = std::env::temp_dir().join(format!("append-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a new folder");
        let log = folder.join("log");
        open(&log).expect("created").write_all(b"a").expect("written");
        assert_eq!(mode(&log), 0o600);
        // What is there is kept, and is not for others to read.
        std::fs::set_permissions(&log, PermissionsExt::from_mode(0o666)).expect("ours");
        open(&log).expect("opened").write_all(b"b").expect("written");
        assert_eq!((mode(&log), std::fs::read(&log).expect("ours")), (0o600, b"ab".to_vec()));
        // Links, also to nowhere; a folder; a FIFO, with and without a reader.
        let (link, dangling, fifo) = (folder.join("link"), folder.join("new"), folder.join("fifo"));
        symlink(&log, &link).expect("a link");
        symlink(folder.join("nowhere"), &dangling).expect("a link");
        for path in [&link, &dangling] {
            let why = open(path).expect_err("a link");
            assert!(why.contains("symbolic link") && why.contains("Name the file"), "{why}");
        }
        assert!(!folder.join("nowhere").exists());
        assert!(open(&folder).is_err());
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("a program of every system").success());
        assert!(open(&fifo).expect_err("a FIFO").contains("not a regular file"));
        let reader = std::fs::File::options().read(true).write(true).open(&fifo).expect("ours");
        assert!(open(&fifo).expect_err("a FIFO").contains("not a regular file"));
        drop(reader);
        for device in ["/dev/null", "/dev/stderr"] {
            let opened = open(Path::new(device));
            // Standard error may be closed, or a socket; it is no link to us in any case.
            assert!(opened.is_ok() || device == "/dev/stderr", "{device}: {opened:?}");
        }
        let around = Path::new("/dev/..").join(link.strip_prefix("/").expect("absolute"));
        assert!(open(&around).expect_err("a link").contains("symbolic link"));
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
