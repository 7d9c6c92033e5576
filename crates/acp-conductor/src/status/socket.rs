//! Where the sockets are: one for each conductor, named after its process, in a directory that
//! nobody else can look into.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

/// The directories that may hold sockets, the best first.
pub fn directories() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|it| it.is_absolute()).map(|it| it.join("conductor"));
    let shared = std::env::temp_dir().join(format!("conductor-{}", current_user()));
    runtime.into_iter().chain([shared]).collect()
}

/// Who we are.
pub fn current_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes this process's socket in the directory, which is made, too, if it is not there.
pub fn bind(directory: &Path) -> io::Result<(UnixListener, PathBuf)> {
    let pid = std::process::id();
    let path = directory.join(format!("{pid}.sock"));
    // The system allows about a hundred bytes.
    SocketAddr::from_pathname(&path)?;
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => check(directory)?,
    }
    // Moved into place when it can be connected to: one that refuses belongs to nobody any more. What
    // is there already is the socket of a process whose id is ours now.
    let fresh = directory.join(format!("{pid}.new"));
    let _ = fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh)?;
    let placed = fs::set_permissions(&fresh, Permissions::from_mode(0o600))
        .and_then(|()| listener.set_nonblocking(true))
        .and_then(|()| fs::rename(&fresh, &path));
    if let Err(error) = placed {
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    Ok((listener, path))
}

/// Is this a directory that nobody but us has access to? Where anybody may write, anybody may have
/// been there first; what is not as it must be is left alone.
pub fn check(directory: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(directory)?;
    let problem = if !found.is_dir() {
        "it is not a directory"
    } else if found.uid() != current_user() {
        "it belongs to another user"
    } else if found.mode() & 0o077 != 0 {
        "it is open to other users"
    } else {
        return Ok(());
    };
    Err(io::Error::other(problem))
}

/// The sockets in a directory, with the process ids in their names.
pub fn sockets(directory: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    check(directory)?;
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_suffix(".sock")?.parse().ok());
        if let Some(pid) = pid
            && entry.file_type()?.is_socket()
        {
            found.push((pid, entry.path()));
        }
    }
    Ok(found)
}
