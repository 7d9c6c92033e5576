//! The files of a project to which a consent applies, as they are now.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use acp_wire::{ErrorKind, printable};

use super::agreed::AgreedFiles;
use super::digest::Digest;
use super::names::{Common, EnvTexts, Names, without_dots};
use crate::chain::Configuration;
use crate::project::{self, ProjectFile, ReadError};
use crate::source::{Diagnostic, Source};
use crate::when::Surroundings;

/// How many bytes of named files are hashed.
pub(super) const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// How many paths the texts of a file may mean.
const MAX_PATHS: usize = 20_000;

/// The file of a project and the files that it names, as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    root: PathBuf,
    config: PathBuf,
    files: BTreeMap<PathBuf, CoveredFile>,
    /// The files that each component names, by its name.
    named: BTreeMap<String, BTreeSet<PathBuf>>,
    /// What each built-in component runs because of its options and files, by its name.
    runs: BTreeMap<String, Vec<String>>,
}

/// A file to which a consent applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveredFile {
    /// Its path.
    pub path: PathBuf,
    /// Why the consent applies to it.
    pub role: Role,
    /// Its content.
    pub state: FileState,
}

/// Why a consent applies to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is the file of the project.
    Config,
    /// It is an env-file.
    EnvFile,
    /// A component names it.
    Named,
}

/// The content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// There is no such file.
    Missing,
    /// A regular file.
    Regular {
        /// The hash of its bytes.
        digest: Digest,
        /// Their number.
        bytes: u64,
    },
    /// A folder. Its content is not compared.
    Folder,
    /// A device, a FIFO or a socket. It is not read.
    Special,
}

/// A file that was read already.
#[derive(Clone)]
pub struct ReadFile {
    /// Its path.
    pub path: PathBuf,
    /// Its bytes. `None` if there is no such file.
    pub bytes: Option<Vec<u8>>,
}

/// Why no consent can be given to a project.
#[derive(Debug)]
pub enum EvidenceError {
    /// A file of the project cannot be read.
    Unreadable(PathBuf, ReadError),
    /// An env-file is not UTF-8.
    NotText(Box<Diagnostic>),
    /// The named files have too many bytes. This is the file that exceeds the limit.
    TooLarge(PathBuf),
    /// The texts of the file name too many files.
    TooMany,
}

impl Evidence {
    /// Hashes the text of a project's file, its env-files, and the files inside of the project that its components name.
    ///
    /// `start` is the folder in which the components run. The bytes of the file and of the env-files must be the ones that are
    /// used: they are not read again.
    ///
    /// # Errors
    /// A named file cannot be read, or there are too many or too large ones.
    pub fn collect(
        project: &ProjectFile,
        start: &Path,
        env_files: &[ReadFile],
        components: &[Names],
    ) -> Result<Evidence, EvidenceError> {
        let mut evidence = Evidence::of_config(project);
        for ReadFile { path, bytes } in env_files {
            let state = match bytes {
                None => FileState::Missing,
                Some(bytes) => FileState::of(bytes),
            };
            evidence.add(path.clone(), Role::EnvFile, state);
        }
        let texts = |it: &ReadFile| Some(EnvTexts::of(&it.path, it.bytes.as_ref()?));
        let common = Common {
            root: &project.root,
            start: &start.canonicalize().unwrap_or_else(|_| start.to_owned()),
            search_path: std::env::var_os("PATH").unwrap_or_default(),
            env_files: env_files.iter().filter_map(texts).collect(),
        };
        let (mut all, mut left) = (BTreeSet::new(), MAX_BYTES);
        for names in components {
            let mut named = BTreeSet::new();
            // The bytes in which other names were found are those that are hashed.
            for ReadFile { path, bytes } in &names.files {
                if is_inside(path, &project.root) {
                    let state = bytes.as_ref().map_or(FileState::Missing, |it| FileState::of(it));
                    evidence.add(path.clone(), Role::Named, state);
                    named.insert(path.clone());
                }
            }
            names.add_paths(&common, MAX_PATHS, &mut named)?;
            all.extend(named.iter().cloned());
            if all.len() > MAX_PATHS {
                return Err(EvidenceError::TooMany);
            }
            named.retain(|path| is_inside(path, &project.root));
            for path in &named {
                // The bytes of the file and of the env-files are hashed already.
                if !evidence.files.contains_key(path) {
                    let state = FileState::read(path, &mut left)?;
                    evidence.add(path.clone(), Role::Named, state);
                }
            }
            evidence.runs.insert(names.component.clone(), names.runs.clone());
            evidence.named.entry(names.component.clone()).or_default().extend(named);
        }
        Ok(evidence)
    }

    /// What a built-in component runs because of its options and of the files that it reads, for the user.
    pub fn runs(&self, component: &str) -> &[String] {
        self.runs.get(component).map(Vec::as_slice).unwrap_or_default()
    }

    /// The files that a component names, to compare them again before it starts.
    pub fn agreed_files(&self, component: &str) -> AgreedFiles {
        let named = self.named.get(component).into_iter().flatten();
        let files = named.filter_map(|path| self.files.get(path));
        let files = files.filter(|it| it.role == Role::Named).map(|it| (it.path.clone(), it.state));
        AgreedFiles { root: self.root.clone(), files: files.collect() }
    }

    /// The evidence of a project whose file is part of a configuration.
    ///
    /// Reads the env-files of the project and puts them into the configuration, which then uses the bytes that are hashed here.
    ///
    /// # Errors
    /// As [`collect`](Evidence::collect), or an env-file cannot be read.
    pub fn gather(
        project: &ProjectFile,
        configuration: &mut Configuration,
        surroundings: &Surroundings,
    ) -> Result<Evidence, EvidenceError> {
        let mut env_files = Vec::new();
        for path in configuration.env_files_of(&project.source, surroundings) {
            let bytes = match project::read(&path) {
                Ok(bytes) => Some(bytes),
                Err(ReadError::Missing) => None,
                Err(why) => return Err(EvidenceError::Unreadable(path, why)),
            };
            match &bytes {
                None => configuration.add_missing_env_file(path.clone()),
                Some(bytes) => {
                    let source = Source::from_bytes(&path, bytes.clone());
                    let source = source.map_err(|it| EvidenceError::NotText(Box::new(it)))?;
                    configuration.add_env_file(source);
                }
            }
            env_files.push(ReadFile { path, bytes });
        }
        let names = configuration.names_of(&project.source, surroundings);
        Evidence::collect(project, &surroundings.folder, &env_files, &names)
    }

    /// The evidence of the text alone.
    pub(super) fn of_config(project: &ProjectFile) -> Evidence {
        let mut evidence = Evidence {
            root: project.root.clone(),
            config: project.path.clone(),
            files: BTreeMap::new(),
            named: BTreeMap::new(),
            runs: BTreeMap::new(),
        };
        let state = FileState::of(project.source.bytes());
        evidence.add(project.path.clone(), Role::Config, state);
        evidence
    }

    fn add(&mut self, path: PathBuf, role: Role, state: FileState) {
        self.files.entry(path.clone()).or_insert(CoveredFile { path, role, state });
    }

    /// The root of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of the project.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// The files to which a consent applies: those that exist, and the env-files that do not.
    pub fn files(&self) -> impl Iterator<Item = &CoveredFile> {
        let recorded = |it: &&CoveredFile| it.role != Role::Named || it.state != FileState::Missing;
        self.files.values().filter(recorded)
    }

    /// The file that a path leads to, if this is another one than the path says: through a symbolic link.
    pub fn target(file: &CoveredFile) -> Option<PathBuf> {
        file.path.canonicalize().ok().filter(|it| *it != without_dots(&file.path))
    }

    /// Whether the path of a file is outside of the project, as it is written.
    pub fn is_outside(&self, file: &CoveredFile) -> bool {
        !without_dots(&file.path).starts_with(&self.root)
    }

    /// The file at this path. `None` if the project does not name it.
    pub(super) fn file(&self, path: &Path) -> Option<&CoveredFile> {
        self.files.get(path)
    }
}

/// Whether a path is inside of a folder: as it is written, or where it leads to.
fn is_inside(path: &Path, root: &Path) -> bool {
    project::is_local(path)
        && (without_dots(path).starts_with(root)
            || path.canonicalize().is_ok_and(|it| it.starts_with(root)))
}

impl FileState {
    fn of(bytes: &[u8]) -> FileState {
        FileState::Regular { digest: Digest::of(bytes), bytes: bytes.len() as u64 }
    }

    pub(super) fn read(path: &Path, left: &mut u64) -> Result<FileState, EvidenceError> {
        let failed = |why| EvidenceError::Unreadable(path.to_owned(), why);
        match project::open(path) {
            // A huge file is not read at all.
            Ok(file) if file.metadata().is_ok_and(|it| it.len() > *left) => {
                Err(EvidenceError::TooLarge(path.to_owned()))
            }
            Ok(file) => match Digest::of_reader(file, *left).map_err(|it| failed(it.into()))? {
                Some((digest, bytes)) => {
                    *left -= bytes;
                    Ok(FileState::Regular { digest, bytes })
                }
                None => Err(EvidenceError::TooLarge(path.to_owned())),
            },
            Err(ReadError::Missing) => Ok(FileState::Missing),
            Err(ReadError::NotRegular) if path.is_dir() => Ok(FileState::Folder),
            Err(ReadError::NotRegular) => Ok(FileState::Special),
            Err(ReadError::Refused(error)) if is_loop(&error) => Ok(FileState::Missing),
            Err(why) => Err(failed(why)),
        }
    }
}

/// Whether a path leads to no file, because its symbolic links form a loop.
#[cfg(unix)]
fn is_loop(error: &std::io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}

/// Whether a path leads to no file, because its symbolic links form a loop. This system has no such error.
#[cfg(not(unix))]
fn is_loop(_: &std::io::Error) -> bool {
    false
}

/// Omits the bytes, which may be secrets.
impl fmt::Debug for ReadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl EvidenceError {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::UnreadableFile
    }
}

impl fmt::Display for EvidenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |path: &Path| printable::one_line(&path.display().to_string());
        match self {
            EvidenceError::Unreadable(path, why) => write!(
                f,
                "the file {} that the project names cannot be compared: {why}. Make it readable, or delete it",
                shown(path)
            ),
            EvidenceError::NotText(why) => write!(f, "{why}"),
            EvidenceError::TooLarge(path) => write!(
                f,
                "the files that the project names have more than {} MiB; {} exceeds this. Move large files out of the project",
                MAX_BYTES >> 20,
                shown(path)
            ),
            EvidenceError::TooMany => write!(
                f,
                "the configuration file of the project may name more than {MAX_PATHS} files. Shorten its arguments"
            ),
        }
    }
}

impl std::error::Error for EvidenceError {}
