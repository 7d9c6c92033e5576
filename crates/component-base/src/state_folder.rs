//! The folder for files that outlive a run.

use std::io;
use std::path::{Path, PathBuf};

/// The folder of conductor for files that outlive a run: `conductor` in `$XDG_STATE_HOME`, in `%LOCALAPPDATA%`, or in
/// `~/.local/state`. The first of these whose variable is set counts. `None` if none is.
pub fn path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let folder = set("XDG_STATE_HOME")
        .or_else(|| set("LOCALAPPDATA"))
        .or_else(|| Some(set("HOME")?.join(".local").join("state")))?;
    Some(folder.join("conductor"))
}

/// Creates a folder and its parents, if they do not exist. Other users cannot read the new folders.
///
/// # Errors
/// The folder cannot be created.
pub fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
