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

#[cfg(test)]
mod tests {
    use super::super::Surroundings;
    use super::super::tests::{Folder, read};

    #[cfg(unix)]
    #[test]
    fn a_command_is_an_executable_file_on_the_path() {
        use std::fs;
        use std::os::unix::fs::{PermissionsExt, symlink};

        let folder = Folder::new().with("a/plain", "").with("b/tool", "").with("b/dir/x", "");
        let tool = folder.path().join("b/tool");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        symlink("tool", folder.path().join("b/linked")).unwrap();
        let path = format!("{0}/a:{0}/b::relative", folder.path().display());
        let line = |name: &str, path: &str| {
            let surroundings = Surroundings::new("/", [("PATH", path)], "linux");
            read(&format!("{{ command = '{name}' }}")).evaluate(&surroundings)
        };
        assert_eq!(line("tool", &path).reason, format!("tool is {}", tool.display()));
        assert!(line("linked", &path).holds);
        for name in ["plain", "dir", "TOOL", "tool.exe"] {
            assert_eq!(line(name, &path).reason, format!("{name} is not on the PATH"));
        }
        // The empty path is the folder of the process, which is that of the project.
        assert!(!line("Cargo.toml", "").holds);
    }

    #[test]
    fn endings_of_windows_are_tried() {
        let folder = Folder::new().with("tool.exe", "").with("run.cmd", "").with("plain", "");
        let path = folder.path().to_str().unwrap().to_owned();
        let holds = |name: &str, endings: Option<&str>| {
            let variables = [("Path", path.as_str())].into_iter();
            let variables = variables.chain(endings.map(|it| ("PATHEXT", it)));
            let surroundings = Surroundings::new("/", variables, "windows");
            read(&format!("{{ command = '{name}' }}")).evaluate(&surroundings).holds
        };
        assert!(holds("tool", None));
        assert!(holds("tool.exe", None));
        assert!(holds("run", Some(".EXE;;.CMD;x")));
        assert!(!holds("run", Some(".EXE")));
        assert!(!holds("plain", None));
    }
}
