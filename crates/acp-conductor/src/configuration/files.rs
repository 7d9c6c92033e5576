//! The configuration files: where they are, and whether they are used.

use std::path::{Path, PathBuf};

use acp_wire::{ErrorKind, printable};
use components::mentions::MentionedFile;
use config::chain::{BuiltIn, Configuration, Mentions};
use config::file::File;
use config::project::ProjectFile;
use config::source::{Diagnostic, Source};
use config::trust::{Layered, Layers, ReadFile, Store, trust_command};
use config::when::Surroundings;
use serde_json::{Map, Value};

/// The configuration files, merged.
#[derive(Debug)]
pub struct Files {
    /// The files that are used.
    pub configuration: Configuration,
    /// What the user must be told: that the file of the project is not used, why, and how to allow it.
    pub notice: Option<String>,
    /// The file of the project, whether or not it is used.
    pub project: Option<ProjectFile>,
    /// Why a chain that uses the file of the project goes on with it as it was.
    pub refusal: Option<String>,
    /// The folder in which the chain starts.
    folder: PathBuf,
}

impl Files {
    /// Reads the file of the user, and the file of the project if the user trusts it.
    ///
    /// # Errors
    /// A file that is used is wrong. A file that is not used is never the reason of an error.
    pub fn read(surroundings: &Surroundings) -> Result<Files, Diagnostic> {
        let (path, store, built_ins) = (user_file(), trust_store(), built_ins());
        let layers = Layers {
            user: user_source()?,
            user_path: path.as_deref(),
            store: store.as_ref(),
            built_ins: &built_ins,
        };
        let Layered { configuration, project, notice, refusal } = layers.load(surroundings)?;
        let folder = surroundings.folder.clone();
        Ok(Files { configuration, notice, project, refusal, folder })
    }

    /// Whether the file of the project is used.
    pub fn uses_project(&self) -> bool {
        self.project.is_some() && self.notice.is_none()
    }

    /// Whether the file of the project has a chain of this name, but is not used.
    pub(super) fn leaves_out(&self, chain: &str) -> bool {
        let project = self.project.as_ref().filter(|_| !self.uses_project());
        let file = project.and_then(|it| File::parse(&it.source).ok());
        file.is_some_and(|it| it.chains.contains_key(chain))
    }

    /// The error for a chain that does not exist.
    pub fn unknown_chain(&self, name: &str) -> Diagnostic {
        let error = self.configuration.unknown_chain(name);
        match self.untrusted_remedy() {
            Some(remedy) => error.help(remedy),
            None => error,
        }
    }

    /// What to do if the name of a chain could be one of the file that is not used.
    pub(super) fn untrusted_remedy(&self) -> Option<String> {
        self.notice.as_ref()?;
        let path = self.project.as_ref().map(|it| it.path.display().to_string());
        let path = printable::one_line(&path.unwrap_or("the file of the project".to_owned()));
        let command = trust_command(&self.folder);
        Some(format!("{path} is not used. `{command}` says why, and lets you allow it"))
    }
}

/// The path of the user's file: that of the variable `CONDUCTOR_CONFIG`, or `conductor.toml` in the folder for configuration.
/// `None` if there is no such folder.
pub fn user_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    if let Some(file) = set("CONDUCTOR_CONFIG") {
        return Some(file);
    }
    let absolute = |it: &PathBuf| it.is_absolute();
    let folder = set("XDG_CONFIG_HOME").filter(absolute);
    let folder = folder.or_else(|| {
        if cfg!(windows) {
            return set("APPDATA");
        }
        let home = set("HOME").filter(absolute)?;
        Some(match cfg!(target_os = "macos") {
            true => home.join("Library").join("Application Support"),
            false => home.join(".config"),
        })
    });
    Some(folder?.join("conductor").join("conductor.toml"))
}

/// The user's file. `None` if there is none.
///
/// # Errors
/// The file cannot be read. If `CONDUCTOR_CONFIG` names it, it must exist.
pub fn user_source() -> Result<Option<Source>, Diagnostic> {
    let Some(path) = user_file() else { return Ok(None) };
    let is_named = std::env::var_os("CONDUCTOR_CONFIG").is_some_and(|it| !it.is_empty());
    if is_named && !path.is_absolute() {
        // It would depend on the folder in which the editor starts the conductor, and so could be a file of a project.
        let error = format!("CONDUCTOR_CONFIG is not an absolute path: {}", path.display());
        let error = Diagnostic::plain(error).of_kind(ErrorKind::UnreadableFile);
        return Err(error.help("write the whole path, from the root of the file system"));
    }
    match Source::read_if_exists(&path)? {
        None if is_named => {
            let error = format!("there is no file {}", path.display());
            let error = Diagnostic::plain(error).of_kind(ErrorKind::UnreadableFile);
            Err(error.help("correct the environment variable CONDUCTOR_CONFIG"))
        }
        source => Ok(source),
    }
}

/// Which projects the user trusts. `None` if there is no folder for such files.
pub fn trust_store() -> Option<Store> {
    Some(Store::new(components::state_folder::path()?.join("trust")))
}

/// The built-in components.
pub fn built_ins() -> Vec<BuiltIn> {
    let entries = components::catalog::ALL.iter();
    entries.map(|entry| BuiltIn { name: entry.name, agent: entry.agent, mentions }).collect()
}

/// What the options of a built-in component lead to.
fn mentions(
    name: &str,
    words: &[String],
    options: &Map<String, Value>,
    folders: &[&Path],
) -> Mentions {
    let found = components::find(name).map(|it| it.mentions(words, options, folders));
    let components::mentions::Mentions { files, runs, texts } = found.unwrap_or_default();
    let read = |it: MentionedFile| ReadFile { path: it.path, bytes: it.bytes };
    Mentions { files: files.into_iter().map(read).collect(), runs, texts }
}
