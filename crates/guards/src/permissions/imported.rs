//! The rules that are imported from the settings of a project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::rules::{Rules, Source};

/// How many projects are remembered.
const MAX_PROJECTS: usize = 64;

/// The rules of each project, as they were when its last session began.
#[derive(Debug, Default)]
pub(super) struct Imported(Mutex<BTreeMap<PathBuf, Result<Arc<Rules>, String>>>);

impl Imported {
    fn table(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Result<Arc<Rules>, String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules for a project. `None` if nothing is imported.
    ///
    /// # Errors
    /// The settings of the project cannot be read.
    pub(super) fn of(&self, rules: &Rules, project: &Path) -> Result<Option<Arc<Rules>>, String> {
        if !rules.imports() {
            return Ok(None);
        }
        if let Some(known) = self.table().get(project) {
            return known.clone().map(Some);
        }
        self.read(rules, project).map(Some)
    }

    /// Reads the settings of a project, when a session begins there. Returns what could not be imported, and the files
    /// if they are others than before.
    pub(super) fn refresh(
        &self,
        rules: &Rules,
        project: &Path,
    ) -> (Vec<String>, Option<Vec<Source>>) {
        if !rules.imports() {
            return (Vec::new(), None);
        }
        let sources = |it: &Result<Arc<Rules>, String>| {
            it.as_ref().map(|it| it.sources().to_vec()).unwrap_or_default()
        };
        let before = self.table().get(project).map(sources);
        let read = self.read(rules, project);
        let now = sources(&read);
        let changed = before.is_some_and(|before| before != now).then_some(now);
        match read {
            Ok(imported) => (imported.notes().to_vec(), changed),
            Err(why) => (vec![why], changed),
        }
    }

    fn read(&self, rules: &Rules, project: &Path) -> Result<Arc<Rules>, String> {
        let read = rules.import(project).map(Arc::new).map_err(|error| error.why);
        let mut table = self.table();
        if table.len() >= MAX_PROJECTS && !table.contains_key(project) {
            table.pop_first();
        }
        table.insert(project.to_path_buf(), read.clone());
        read
    }

    /// The hash of a file with rules.
    pub(super) fn hash_of(&self, rules: &Rules, file: &Path) -> Option<String> {
        let find = |sources: &[Source]| {
            sources.iter().find(|it| it.file == file).map(|it| it.sha256.clone())
        };
        find(rules.sources()).or_else(|| {
            self.table().values().flatten().find_map(|imported| find(imported.sources()))
        })
    }
}
