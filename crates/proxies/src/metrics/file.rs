//! Writes the metrics to a file. A reader sees the whole old text or the whole new one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Replaces the content of a file. The new text is written to a file beside it, which only the user can read and which
/// then gets its name. A symbolic link with that name is replaced, not followed.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::Error::other("it is a directory. Name a file"));
    }
    let beside = beside(path)?;
    // It can be there only if an earlier process with this id was killed while it wrote.
    let _ = fs::remove_file(&beside);
    let written = create(&beside).and_then(|mut file| file.write_all(text.as_bytes()));
    let renamed = written.and_then(|()| fs::rename(&beside, path));
    if renamed.is_err() {
        let _ = fs::remove_file(&beside);
    }
    renamed
}

/// Checks that a file can be replaced. If it exists, it stays: a chain that runs may write to it.
pub(super) fn check(path: &Path, text: &str) -> io::Result<()> {
    if path.is_dir() || !path.exists() {
        return replace(path, text);
    }
    let beside = beside(path)?;
    let _ = fs::remove_file(&beside);
    create(&beside)?;
    fs::remove_file(&beside)
}

/// A name in the same folder that no other process uses.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(hidden))
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_file_is_private_and_replaces_a_link_instead_of_following_it() {
        let folder = std::env::temp_dir().join(format!("metrics-file-{}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        let (path, other) = (folder.join("metrics.prom"), folder.join("other"));
        fs::write(&other, "kept").expect("written");
        symlink(&other, &path).expect("a link");
        replace(&path, "one\n").expect("written");
        replace(&path, "two\n").expect("written");
        check(&path, "three\n").expect("it can be replaced");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "two\n");
        assert_eq!(fs::read_to_string(&other).expect("readable"), "kept");
        let metadata = fs::symlink_metadata(&path).expect("it exists");
        assert!(metadata.is_file());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).expect("ours").count(), 2, "nothing is left beside it");
        assert!(check(&folder, "x").is_err());
        assert!(replace(&folder, "x").expect_err("a folder").to_string().contains("directory"));
        assert!(replace(&folder.join("no/such"), "x").is_err());
        fs::remove_dir_all(folder).expect("ours");
    }
}
