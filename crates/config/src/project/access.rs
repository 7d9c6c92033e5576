//! Who can change a file.

use std::fmt;
use std::fs::Metadata;

/// The users who can change a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The owner of the file.
    pub owner: Owner,
    /// Whether users other than the owner can write to the file, or replace it in its folder.
    pub others: bool,
}

/// The owner of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The user of this process.
    You,
    /// The administrator.
    Root,
    /// The user with this number.
    Other(u32),
    /// The system has other rules.
    Unknown,
}

impl Access {
    /// The users who can change a file in a folder.
    #[cfg(unix)]
    pub(crate) fn of(file: &Metadata, folder: Option<&Metadata>) -> Access {
        use std::os::unix::fs::MetadataExt;
        const STICKY: u32 = 0o1000;
        let owner = Owner::of(file.uid());
        // In a folder with the sticky bit, only the owner of a file can replace it.
        let folder = folder.map_or(0, Metadata::mode);
        let replaceable = folder & 0o002 != 0 && folder & STICKY == 0;
        Access { owner, others: file.mode() & 0o002 != 0 || replaceable }
    }

    /// The users who can change a file in a folder.
    #[cfg(not(unix))]
    pub(crate) fn of(_: &Metadata, _: Option<&Metadata>) -> Access {
        Access { owner: Owner::Unknown, others: false }
    }

    /// A warning for the user, if another user can change the file.
    pub fn warning(self) -> Option<String> {
        let others = match (self.owner, self.others) {
            (Owner::Other(_), true) => format!("{} and all other users", self.owner),
            (Owner::Other(_), false) => self.owner.to_string(),
            (_, true) => "all users of this machine".to_owned(),
            (_, false) => return None,
        };
        Some(format!("{others} can change it"))
    }
}

impl Owner {
    #[cfg(unix)]
    fn of(uid: u32) -> Owner {
        match uid {
            _ if uid == rustix::process::geteuid().as_raw() => Owner::You,
            0 => Owner::Root,
            _ => Owner::Other(uid),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::You => f.write_str("you"),
            Owner::Root => f.write_str("root"),
            Owner::Other(uid) => write!(f, "user {uid}"),
            Owner::Unknown => f.write_str("unknown"),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::project::tests::TestFolder;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_others_can_change_is_reported() {
        let folder = TestFolder::new("access");
        folder.write("file", "text");
        let access = |file: u32, directory: u32| {
            let set = |path, mode| {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours")
            };
            set(folder.path("file"), file);
            set(folder.path("."), directory);
            let of = |name| std::fs::metadata(folder.path(name)).expect("ours");
            Access::of(&of("file"), Some(&of(".")))
        };
        assert_eq!(access(0o644, 0o755), Access { owner: Owner::You, others: false });
        assert_eq!(access(0o644, 0o755).warning(), None);
        assert!(access(0o666, 0o755).others && access(0o644, 0o777).others);
        assert!(!access(0o644, 0o1777).others);
        assert_eq!(
            access(0o666, 0o755).warning().as_deref(),
            Some("all users of this machine can change it")
        );
        let other = Access { owner: Owner::Other(1234), others: false };
        assert_eq!(other.warning().as_deref(), Some("user 1234 can change it"));
    }
}
