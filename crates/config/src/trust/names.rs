//! The files that the texts of a component may name.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use super::evidence::{EvidenceError, ReadFile};
use super::in_named_folders;
use super::words::{names_in, words_in};
use crate::source::Source;
use crate::variables::parse_env_file;

/// What a component of the file of a project names, after `${VAR}` was replaced.
///
/// If the file changes a component of the user, these are the texts of the component with both files merged.
#[derive(Clone, Default)]
pub struct Names {
    /// The name of the component.
    pub component: String,
    /// The program. If it contains a slash and is relative, it begins at the root of the project.
    pub command: String,
    /// All other texts: the arguments, the texts in the options, and the values of environment variables.
    pub texts: Vec<String>,
    /// The working directory of the component, if the file sets one.
    pub directory: Option<PathBuf>,
    /// The variable `PATH` of the component, if it has its own.
    pub search_path: Option<OsString>,
    /// The files that a built-in component reads.
    pub files: Vec<ReadFile>,
    /// What a built-in component runs because of its options and files, for the user.
    pub runs: Vec<String>,
}

/// What all components of a file have in common.
pub(super) struct Common<'a> {
    /// The root of the project.
    pub root: &'a Path,
    /// The folder in which a component runs, unless it has one of its own.
    pub start: &'a Path,
    /// The variable `PATH` of this process.
    pub search_path: OsString,
    /// The texts of the env-files.
    pub env_files: Vec<EnvTexts>,
}

/// The texts of an env-file.
#[derive(Default)]
pub(super) struct EnvTexts {
    /// The values of its variables, or the whole file if it is wrong: no component with a wrong env-file is started.
    texts: Vec<String>,
    /// The entries of its variables `PATH`.
    search: Vec<PathBuf>,
}

impl EnvTexts {
    /// The texts of a file with these bytes, read as a component reads it.
    pub(super) fn of(path: &Path, bytes: &[u8]) -> EnvTexts {
        let variables = Source::from_bytes(path, bytes.to_vec()).and_then(|it| parse_env_file(&it));
        let Ok(variables) = variables else {
            let texts = vec![String::from_utf8_lossy(bytes).into_owned()];
            return EnvTexts { texts, search: Vec::new() };
        };
        let paths = variables.iter().filter(|(name, _)| is_search_path(name));
        let search = paths.flat_map(|(_, value)| std::env::split_paths(value).collect::<Vec<_>>());
        let search = search.collect();
        EnvTexts { search, texts: variables.into_iter().map(|(_, value)| value).collect() }
    }
}

/// Whether a variable is the one with the folders of programs. The names of variables have no case on Windows.
pub(crate) fn is_search_path(name: &str) -> bool {
    name == "PATH" || cfg!(windows) && name.eq_ignore_ascii_case("PATH")
}

impl Names {
    /// Adds the paths that the texts may mean. Each of them is absolute.
    ///
    /// # Errors
    /// There are more than `limit`.
    pub(super) fn add_paths(
        &self,
        common: &Common<'_>,
        limit: usize,
        paths: &mut BTreeSet<PathBuf>,
    ) -> Result<(), EvidenceError> {
        let folders = [common.root, self.directory.as_deref().unwrap_or(common.start)];
        let own: Vec<PathBuf> = self.search_path.iter().flat_map(std::env::split_paths).collect();
        let in_files = common.env_files.iter().flat_map(|it| &it.search);
        let own: Vec<&PathBuf> = own.iter().chain(in_files).collect();
        let is_path = self.command.contains('/') || cfg!(windows) && self.command.contains('\\');
        if is_path {
            let programs = folders.map(|folder| folder.join(&self.command));
            paths.extend(programs.into_iter().flat_map(with_extensions));
        } else if !self.command.is_empty() {
            let inherited: Vec<PathBuf> = match self.search_path {
                Some(_) => Vec::new(),
                None => std::env::split_paths(&common.search_path).collect(),
            };
            for folder in folders {
                // An entry of the PATH may be relative, and an empty entry is the working directory.
                let search = inherited.iter().chain(own.iter().copied());
                let programs = search.map(|entry| folder.join(entry).join(&self.command));
                paths.extend(programs.flat_map(with_extensions));
            }
        }
        let in_files = common.env_files.iter().flat_map(|it| &it.texts);
        let mut names = BTreeSet::new();
        for text in self.texts.iter().chain(in_files) {
            for name in names_in(text) {
                if paths.len() > limit {
                    return Err(EvidenceError::TooMany);
                }
                paths.extend(folders.map(|folder| folder.join(&name)));
                names.insert(name);
            }
            // A shell finds a command in the folders of the component's own PATH.
            for entry in folders.iter().flat_map(|folder| own.iter().map(|it| folder.join(it))) {
                if paths.len() <= limit && without_dots(&entry).starts_with(common.root) {
                    let commands = words_in(text).into_iter().map(|it| entry.join(it));
                    paths.extend(commands.flat_map(with_extensions));
                }
            }
        }
        in_named_folders::add(common.root, &folders, &names, paths)
    }
}

/// The files that the system may start for the path of a program. Windows adds the extension by itself.
fn with_extensions(program: PathBuf) -> Vec<PathBuf> {
    let mut programs = vec![program.clone()];
    if cfg!(windows) {
        programs.extend(["exe", "com", "bat", "cmd"].map(|extension| {
            let mut name = program.clone().into_os_string();
            name.push(".");
            name.push(extension);
            PathBuf::from(name)
        }));
    }
    programs
}

/// Omits the texts, which may be secrets.
impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("command", &self.command).finish_non_exhaustive()
    }
}

/// The path without `.` and `..`, as if no part were a symbolic link.
pub(super) fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_command_is_found_as_the_system_finds_it() {
        let paths = |names: Names, search: &str, env_file: &str| {
            let common = Common {
                root: Path::new("/p"),
                start: Path::new("/p/s"),
                search_path: search.into(),
                env_files: vec![EnvTexts::of(Path::new("/p/.env"), env_file.as_bytes())],
            };
            let mut paths = BTreeSet::new();
            names.add_paths(&common, 1000, &mut paths).expect("few");
            paths.into_iter().map(|it| it.display().to_string()).collect::<Vec<_>>()
        };
        let command = |it: &str| Names { command: it.into(), ..Names::default() };
        assert_eq!(paths(command("bin/tool"), "/usr/bin", ""), ["/p/bin/tool", "/p/s/bin/tool"]);
        let tool = || command("tool");
        assert_eq!(paths(tool(), "/usr/bin:/p/bin", ""), ["/p/bin/tool", "/usr/bin/tool"]);
        let relative = ["/p/bin/tool", "/p/s/bin/tool", "/p/s/tool", "/p/tool"];
        assert_eq!(paths(tool(), "bin:", ""), relative);
        let own = Names {
            command: "tool".into(),
            texts: vec!["x".into()],
            directory: Some("/d".into()),
            search_path: Some("/p/own".into()),
            ..Names::default()
        };
        assert_eq!(paths(own, "/usr/bin", ""), ["/d/x", "/p/own/tool", "/p/own/x", "/p/x"]);
        let found = paths(
            tool(),
            "/usr/bin",
            "export  PATH = \"/p/evil:/x\" # mine\nLD_PRELOAD=/p/evil.so\n",
        );
        for path in ["/p/evil/tool", "/x/tool", "/usr/bin/tool", "/p/evil.so"] {
            assert!(found.contains(&path.to_owned()), "{path}: {found:?}");
        }
        // A shell finds other commands there, too.
        let shell = Names {
            command: "sh".into(),
            texts: vec!["exec tool --x".into()],
            search_path: Some("/p/bin:/usr/bin".into()),
            ..Names::default()
        };
        let found = paths(shell, "/other", "");
        let tools = found.iter().filter(|it| it.ends_with("/tool"));
        assert_eq!(tools.collect::<Vec<_>>(), ["/p/bin/tool", "/p/s/tool", "/p/tool"]);
    }

    #[cfg(unix)]
    #[test]
    fn dots_are_removed_from_a_path() {
        for (path, plain) in [("/p/./a/../b", "/p/b"), ("/p/../../x", "/x"), ("/", "/")] {
            assert_eq!(without_dots(Path::new(path)), Path::new(plain));
        }
    }
}
