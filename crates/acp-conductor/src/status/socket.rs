//! The status sockets: one for each conductor, named after its process id, in a directory that only its
//! user can access.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

/// The ending of the names of the sockets for `conductor status`.
pub(crate) const STATUS: &str = "sock";

/// The ending of the names of the sockets for `conductor reload`.
pub(crate) const CONTROL: &str = "control";

/// The directories for sockets, in order of preference.
pub(crate) fn directories() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|it| it.is_absolute()).map(|it| it.join("conductor"));
    let shared = std::env::temp_dir().join(format!("conductor-{}", current_user()));
    runtime.into_iter().chain([shared]).collect()
}

/// The user id of this process.
pub(crate) fn current_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Creates a socket of this process in the directory. Creates the directory if it does not exist.
pub(crate) fn bind(directory: &Path, ending: &str) -> io::Result<(UnixListener, PathBuf)> {
    let pid = std::process::id();
    let path = directory.join(format!("{pid}.{ending}"));
    // Socket paths are limited to about 100 bytes.
    SocketAddr::from_pathname(&path)?;
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => check(directory)?,
    }
    // The socket is renamed once it accepts connections, because clients delete sockets that refuse them.
    // An existing socket belongs to an earlier process with the same id.
    let temporary = directory.join(format!("{pid}.{ending}.new"));
    let _ = fs::remove_file(&temporary);
    let listener = UnixListener::bind(&temporary)?;
    let placed = fs::set_permissions(&temporary, Permissions::from_mode(0o600))
        .and_then(|()| listener.set_nonblocking(true))
        .and_then(|()| fs::rename(&temporary, &path));
    if let Err(error) = placed {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok((listener, path))
}

/// Checks that only this user can access the directory. In a shared temporary directory another user may
/// have created it.
pub(crate) fn check(directory: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(directory)?;
    let problem = if !found.is_dir() {
        "it is not a directory"
    } else if found.uid() != current_user() {
        "it belongs to another user"
    } else if found.mode() & 0o077 != 0 {
        "other users can access it"
    } else {
        return Ok(());
    };
    Err(io::Error::other(problem))
}

/// The sockets with this ending in a directory, with their process ids.
pub(crate) fn sockets(directory: &Path, ending: &str) -> io::Result<Vec<(u32, PathBuf)>> {
    check(directory)?;
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_suffix(ending)?.strip_suffix('.')?.parse().ok());
        if let Some(pid) = pid
            && entry.file_type()?.is_socket()
        {
            found.push((pid, entry.path()));
        }
    }
    Ok(found)
}
