//! The files of one component to which the user has agreed, compared again before each start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use acp_wire::printable;

use super::evidence::{FileState, MAX_BYTES};
use super::record::state;
use super::store::Difference;

/// The files that a component of a project's file names, as they were when the user's consent was compared.
///
/// A component can start long after that: after a crash, for example. The bytes of the project's file and of env-files are kept in
/// memory, so they are not part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgreedFiles {
    pub(super) root: PathBuf,
    pub(super) files: BTreeMap<PathBuf, FileState>,
}

impl AgreedFiles {
    /// The folder of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Compares the files with what is on the disk now.
    ///
    /// # Errors
    /// The first file that is not the same any more, such as `run.sh has changed since you agreed to it`.
    pub fn check(&self) -> Result<(), String> {
        let mut left = MAX_BYTES;
        for (path, agreed) in &self.files {
            let now = FileState::read(path, &mut left).map_err(|why| why.to_string())?;
            let difference = match (agreed, now) {
                (agreed, now) if *agreed == now => continue,
                (FileState::Missing, _) => Difference::Appeared,
                (_, FileState::Missing) => Difference::Vanished,
                (_, _) => Difference::Changed,
            };
            let name = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
            return Err(format!(
                "{} {difference} since you agreed to it",
                printable::one_line(&name)
            ));
        }
        Ok(())
    }

    /// What is in each file: a SHA-256, `missing`, `folder` or `special`.
    pub fn states(&self) -> BTreeMap<PathBuf, String> {
        self.files.iter().map(|(path, it)| (path.clone(), state(*it))).collect()
    }
}
