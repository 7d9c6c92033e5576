//! The folder, the environment and the operating system that conditions are about.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::lock_files::{self, Found, Language};

/// What conditions are evaluated on.
///
/// It remembers what it has read, so that each file is read once and all conditions of a chain see the same bytes.
/// Make a new one for each evaluation of a chain.
#[derive(Debug)]
pub struct Surroundings {
    /// The folder in which the editor starts the chain. It is absolute.
    pub folder: PathBuf,
    /// The environment variables. `PATH` is where commands are searched.
    pub environment: BTreeMap<OsString, OsString>,
    /// The operating system, as [`std::env::consts::OS`] names it.
    pub os: String,
    /// The lock files that were read.
    read: Mutex<BTreeMap<Language, Arc<Found>>>,
}

impl Surroundings {
    /// The environment and the operating system of this process, with a folder.
    pub fn of_process(folder: impl AsRef<Path>) -> Self {
        Surroundings::new(folder, std::env::vars_os(), std::env::consts::OS)
    }

    /// Surroundings with this environment and operating system. A relative folder is relative to the folder of this
    /// process.
    pub fn new(
        folder: impl AsRef<Path>,
        environment: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
        os: &str,
    ) -> Self {
        let folder = folder.as_ref();
        let environment = environment.into_iter();
        Surroundings {
            folder: std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()),
            environment: environment.map(|(name, value)| (name.into(), value.into())).collect(),
            os: os.to_owned(),
            read: Mutex::default(),
        }
    }

    /// The value of an environment variable. The names have no case on Windows.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        let exact = self.environment.get(OsStr::new(name));
        let any_case = || {
            let mut all = self.environment.iter();
            all.find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        exact.or_else(|| if self.is_windows() { any_case() } else { None }).map(OsString::as_os_str)
    }

    /// The lock files of a language. They are read at the first call.
    pub(super) fn lock_files(&self, language: Language) -> Arc<Found> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let find = || Arc::new(lock_files::find(language, &self.folder));
        read.entry(language).or_insert_with(find).clone()
    }

    pub(super) fn is_windows(&self) -> bool {
        self.os == "windows"
    }
}
