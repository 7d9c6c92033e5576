//! Commands on the PATH.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Surroundings, Verdict};

/// What Windows takes as the endings of programs if PATHEXT is not set.
const USUAL_ENDINGS: &str = ".COM;.EXE;.BAT;.CMD";

/// The name of a command, without a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(super) struct Program(String);

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the name of the command is empty: write a name such as \"docker\"".into());
        }
        if text.contains(['/', '\\', '\0']) {
            return Err(format!(
                "`command` takes a name that is searched on the PATH, not the path '{text}'. \
                 For a file of the project, use `file`"
            ));
        }
        Ok(Program(text.to_owned()))
    }
}

impl Program {
    pub(super) fn evaluate(&self, surroundings: &Surroundings) -> Verdict {
        let name = &self.0;
        match self.find(surroundings) {
            Some(path) => Verdict::new(true, format!("{name} is {}", path.display())),
            None => Verdict::new(false, format!("{name} is not on the PATH")),
        }
    }

    /// The file of the command. Nothing is run.
    fn find(&self, surroundings: &Surroundings) -> Option<PathBuf> {
        let path = surroundings.variable("PATH")?;
        // A relative folder would mean a folder of the project, which could then make the condition hold.
        let folders = std::env::split_paths(path).filter(|it| it.is_absolute());
        let names = self.file_names(surroundings);
        let mut files = folders.flat_map(|folder| names.iter().map(move |it| folder.join(it)));
        files.find(|file| is_program(file, surroundings))
    }

    /// The names that the file can have: on Windows with each ending of PATHEXT.
    fn file_names(&self, surroundings: &Surroundings) -> Vec<String> {
        let name = &self.0;
        if !surroundings.is_windows() {
            return vec![name.clone()];
        }
        let endings = surroundings.variable("PATHEXT").map(|it| it.to_string_lossy().into_owned());
        let endings = endings.unwrap_or_else(|| USUAL_ENDINGS.to_owned());
        let endings = endings.split(';').filter(|it| it.len() > 1 && it.starts_with('.'));
        let lower = name.to_lowercase();
        let mut names = Vec::new();
        for ending in endings {
            if lower.ends_with(&ending.to_lowercase()) {
                names.insert(0, name.clone());
            }
            names.push(format!("{name}{}", ending.to_lowercase()));
        }
        names
    }
}

fn is_program(file: &Path, surroundings: &Surroundings) -> bool {
    file.metadata()
        .is_ok_and(|it| it.is_file() && (surroundings.is_windows() || is_executable(&it)))
}

#[cfg(unix)]
fn is_executable(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &Metadata) -> bool {
    true
}
