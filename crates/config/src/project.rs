//! Finds and reads the file of a project.
//!
//! The file is `.conductor.toml`, or `.conductor/conductor.toml`, in a folder or in one of its parents. The nearest one counts.
//! The file is read once: what is parsed is what [trust](mod@crate::trust) has hashed.

mod access;
mod safe_read;

use std::fmt;
use std::path::{Path, PathBuf};

use acp_wire::{ErrorKind, printable};

use crate::source::{Diagnostic, Source};

pub use access::{Access, Owner};
pub use safe_read::{MAX_FILE, ReadError, read};
pub(crate) use safe_read::{is_local, open};

/// The two places of the file of a project, from its root.
pub const NAMES: [&str; 2] = [".conductor.toml", ".conductor/conductor.toml"];

/// The file of a project.
#[derive(Debug, Clone)]
pub struct ProjectFile {
    /// The folder of the project, without symbolic links. Relative paths of the file begin here.
    pub root: PathBuf,
    /// The file: one of [`NAMES`] in the root.
    pub path: PathBuf,
    /// The file that `path` leads to, if it is or contains a symbolic link.
    pub target: Option<PathBuf>,
    /// The users who can change the file.
    pub access: Access,
    /// The bytes of the file, which are both hashed and parsed.
    pub source: Source,
}

/// Why there is a file of a project that cannot be used.
#[derive(Debug)]
pub struct ProjectError {
    /// The folder of the project.
    pub root: PathBuf,
    /// The file.
    pub path: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Two,
    Read(ReadError),
    NotText(Box<Diagnostic>),
}

/// Finds and reads the file of the project that contains a folder. `None` if there is no such file.
///
/// The user's own configuration file is never the file of a project.
///
/// # Errors
/// There is a file, or two, that cannot be used. It does not matter which file is in a parent folder.
pub fn find(folder: &Path, user_file: Option<&Path>) -> Result<Option<ProjectFile>, ProjectError> {
    let user_file = user_file.and_then(|it| it.canonicalize().ok());
    let Ok(folder) = folder.canonicalize() else { return Ok(None) };
    for root in folder.ancestors() {
        let is_there = |path: &PathBuf| {
            let own = || user_file.is_some() && path.canonicalize().ok() == user_file;
            // Also a link that leads nowhere: it is an error, and no reason to look further.
            path.symlink_metadata().is_ok_and(|it| !it.is_dir()) && !own()
        };
        let mut found = NAMES.map(|name| root.join(name)).into_iter().filter(is_there);
        let Some(path) = found.next() else { continue };
        let failed = |path, why| ProjectError { root: root.to_owned(), path, why };
        if found.next().is_some() {
            return Err(failed(path, Why::Two));
        }
        return load(root, &path).map(Some).map_err(|why| failed(path, why));
    }
    Ok(None)
}

fn load(root: &Path, path: &Path) -> Result<ProjectFile, Why> {
    let read = || {
        let file = open(path)?;
        let folder = path.parent().and_then(|it| it.metadata().ok());
        let access = Access::of(&file.metadata()?, folder.as_ref());
        Ok((access, safe_read::read_opened(file)?))
    };
    let (access, bytes) = read().map_err(Why::Read)?;
    let source = Source::from_bytes(path, bytes).map_err(|it| Why::NotText(Box::new(it)))?;
    let source = source.in_folder(root);
    let target = path.canonicalize().ok().filter(|it| it != path);
    Ok(ProjectFile { root: root.to_owned(), path: path.to_owned(), target, access, source })
}

impl ProjectError {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::UnreadableFile
    }
}

impl fmt::Display for ProjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = printable::one_line(&self.path.display().to_string());
        match &self.why {
            Why::Two => {
                let root = printable::one_line(&self.root.display().to_string());
                let [one, other] = NAMES;
                write!(
                    f,
                    "the project {root} has two configuration files. Keep {one} or {other}, and delete the other one"
                )
            }
            Why::Read(why) => {
                write!(f, "the configuration file {path} of the project is not used: {why}. ")?;
                match why {
                    ReadError::TooLarge(_) => f.write_str("Shorten it"),
                    _ => f.write_str("Make it a regular file that you can read, or delete it"),
                }
            }
            Why::NotText(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for ProjectError {}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;

    /// A folder that is removed after the test.
    pub(crate) struct TestFolder(PathBuf);

    impl TestFolder {
        pub(crate) fn new(name: &str) -> TestFolder {
            let path = format!("conductor-config-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(path);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("a new folder");
            TestFolder(path.canonicalize().expect("it exists"))
        }

        pub(crate) fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().expect("in the folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }

        #[cfg(unix)]
        pub(crate) fn link(&self, to: impl AsRef<Path>, name: &str) {
            std::os::unix::fs::symlink(to, self.path(name)).expect("a link");
        }

        #[cfg(unix)]
        pub(crate) fn fifo(&self, name: &str) {
            let made = std::process::Command::new("mkfifo").arg(self.path(name)).status();
            assert!(made.expect("mkfifo").success());
        }

        fn find(&self, name: &str) -> Result<Option<ProjectFile>, ProjectError> {
            find(&self.path(name), None)
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_nearest_file_upward_is_found() {
        let folder = TestFolder::new("nearest");
        folder.write("a/b/c/file", "");
        folder.write(".conductor/conductor.toml", "outer");
        let found = folder.find("a/b/c").expect("readable").expect("found");
        assert_eq!((found.root.as_path(), found.source.text()), (folder.0.as_path(), "outer"));
        assert_eq!(found.path, folder.path(".conductor/conductor.toml"));
        folder.write("a/b/.conductor.toml", "inner");
        let found = folder.find("a/b/c").expect("readable").expect("found");
        assert_eq!((found.root, found.source.text()), (folder.path("a/b"), "inner"));
        // From inside of the folder of the file, the root is the same.
        let found = folder.find(".conductor").expect("readable").expect("found");
        assert_eq!(found.root, folder.0);
        assert!(folder.find("nothing").expect("no error").is_none());
    }

    #[test]
    fn two_files_in_one_folder_are_an_error() {
        let folder = TestFolder::new("two");
        folder.write(".conductor.toml", "");
        folder.write(".conductor/conductor.toml", "");
        let error = folder.find(".").expect_err("two files").to_string();
        assert!(error.contains("two configuration files"), "{error}");
        // A folder alone, in which other programs may keep files, is not a file of a project.
        fs::remove_file(folder.path(".conductor/conductor.toml")).expect("ours");
        assert!(folder.find(".").expect("one file").is_some());
    }

    #[test]
    fn the_users_own_file_is_not_the_file_of_a_project() {
        let folder = TestFolder::new("own");
        folder.write(".conductor.toml", "outer");
        folder.write("a/.conductor.toml", "own");
        let own = folder.path("a/../a/.conductor.toml");
        let found = find(&folder.path("a"), Some(&own)).expect("readable").expect("found");
        assert_eq!(found.source.text(), "outer");
        assert!(
            find(&folder.path("a"), Some(&folder.path("nothing"))).is_ok_and(|it| it.is_some())
        );
    }

    #[test]
    fn a_file_that_is_not_utf8_is_an_error() {
        let folder = TestFolder::new("utf8");
        folder.write(".conductor.toml", b"default = '\xff'");
        let error = folder.find(".").expect_err("not UTF-8").to_string();
        assert!(error.contains("not UTF-8"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_the_text_and_what_is_no_file_is_an_error() {
        let folder = TestFolder::new("links");
        folder.write("elsewhere/file", "text");
        folder.write("project/file", "");
        folder.link("../elsewhere/file", "project/.conductor.toml");
        folder.link("project", "alias");
        let found = folder.find("alias").expect("readable").expect("found");
        assert_eq!(found.root, folder.path("project"));
        assert_eq!(found.target, Some(folder.path("elsewhere/file")));
        for to in ["nothing", "/dev/zero", ".conductor.toml"] {
            fs::remove_file(folder.path("project/.conductor.toml")).expect("ours");
            folder.link(to, "project/.conductor.toml");
            assert!(folder.find("project").is_err(), "{to}");
        }
        fs::remove_file(folder.path("project/.conductor.toml")).expect("ours");
        folder.fifo("project/.conductor.toml");
        let error = folder.find("project").expect_err("a FIFO").to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn control_characters_in_a_path_are_not_printed() {
        let folder = TestFolder::new("printed");
        folder.write("a\u{1b}[2J\u{202e}b/.conductor.toml", [0xff]);
        let error = folder.find("a\u{1b}[2J\u{202e}b").expect_err("not UTF-8").to_string();
        assert!(error.chars().all(|it| printable::is_printable(it) && it != '\n'), "{error:?}");
    }
}
