//! The path of this program. Agents and proxies start it: `conductor mcp` and `conductor relay`.

use std::io;
use std::path::{Path, PathBuf};

/// What Linux appends to the path of a program whose file was removed or replaced.
const REPLACED: &str = " (deleted)";

/// The path of this program. After an upgrade has replaced the file, it is the path of the new program.
pub(crate) fn path() -> io::Result<String> {
    let path = current(std::env::current_exe()?, |it| it.exists());
    let path = path.into_os_string().into_string();
    path.map_err(|_| io::Error::other("the path of the conductor program is not valid UTF-8"))
}

fn current(path: PathBuf, exists: impl Fn(&Path) -> bool) -> PathBuf {
    if exists(&path) {
        return path;
    }
    let new = path.to_str().and_then(|it| it.strip_suffix(REPLACED)).map(PathBuf::from);
    new.filter(|it| exists(it)).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_program_is_found_under_its_old_path() {
        let files = ["/bin/conductor", "/bin/odd (deleted)"];
        let found = |path: &str| current(path.into(), |it| files.iter().any(|file| it == *file));
        assert_eq!(found("/bin/conductor"), PathBuf::from("/bin/conductor"));
        assert_eq!(found("/bin/conductor (deleted)"), PathBuf::from("/bin/conductor"));
        assert_eq!(found("/bin/odd (deleted)"), PathBuf::from("/bin/odd (deleted)"));
        assert_eq!(found("/bin/gone (deleted)"), PathBuf::from("/bin/gone (deleted)"));
    }
}
