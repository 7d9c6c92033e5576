//! The files that the texts of a component may name.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// What a component of the file of a project names, after `${VAR}` was replaced.
///
/// If the file changes a component of the user, these are the texts of the component with both files merged.
#[derive(Clone, Default)]
pub struct Names {
    /// The program. If it contains a slash and is relative, it begins at the root of the project.
    pub command: String,
    /// All other texts: the arguments, the texts in the options, and the values of environment variables.
    pub texts: Vec<String>,
    /// The working directory of the component, if the file sets one.
    pub directory: Option<PathBuf>,
    /// The variable `PATH` of the component, if it has its own.
    pub search_path: Option<OsString>,
}

/// Characters between which a text may contain the name of a file: those that separate words in a shell, and those before a
/// value, as in `--file=NAME`, `KEY:NAME` and `@NAME`.
const SEPARATORS: [char; 22] = [
    ' ', '\t', '\n', '\r', '\'', '"', '`', ';', '&', '|', '(', ')', '<', '>', '{', '}', '[', ']',
    '=', ':', ',', '@',
];

/// What all components of a file have in common.
pub(super) struct Common<'a> {
    /// The root of the project.
    pub root: &'a Path,
    /// The folder in which a component runs, unless it has one of its own.
    pub start: &'a Path,
    /// The variable `PATH` of this process.
    pub search_path: OsString,
    /// The texts of the env-files.
    pub env_files: Vec<String>,
}

impl Names {
    /// Adds the paths that the texts may mean. Each of them is absolute. Stops when there are more than `limit`.
    pub(super) fn add_paths(
        &self,
        common: &Common<'_>,
        limit: usize,
        paths: &mut BTreeSet<PathBuf>,
    ) {
        let folders = [common.root, self.directory.as_deref().unwrap_or(common.start)];
        let is_path = self.command.contains('/') || cfg!(windows) && self.command.contains('\\');
        if is_path {
            paths.extend(folders.map(|folder| folder.join(&self.command)));
        } else if !self.command.is_empty() {
            let own = self.search_path.as_ref().unwrap_or(&common.search_path);
            let env_files = common.env_files.iter().flat_map(|it| search_paths(it));
            let search: Vec<PathBuf> = std::env::split_paths(own).chain(env_files).collect();
            for folder in folders {
                // An entry of the PATH may be relative, and an empty entry is the working directory.
                paths.extend(search.iter().map(|entry| folder.join(entry).join(&self.command)));
            }
        }
        for name in self.texts.iter().chain(&common.env_files).flat_map(|it| names_in(it)) {
            if paths.len() > limit {
                return;
            }
            paths.extend(folders.map(|folder| folder.join(name)));
        }
    }
}

/// The entries of each variable `PATH` in an env-file.
fn search_paths(env_file: &str) -> Vec<PathBuf> {
    let values = env_file.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("export ").trim_start();
        let (name, value) = line.split_once('=')?;
        (name.trim_end() == "PATH").then(|| value.trim().trim_matches(['\'', '"']).to_owned())
    });
    values.flat_map(|it| std::env::split_paths(&it).collect::<Vec<_>>()).collect()
}

/// Omits the texts, which may be secrets.
impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("command", &self.command).finish_non_exhaustive()
    }
}

/// The parts of a text that may be the name of a file. Most are not: the caller looks which of them exist.
fn names_in(text: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::from([text]);
    if let Some((_, value)) = text.split_once('=') {
        names.insert(value);
    }
    for word in text.split(SEPARATORS) {
        names.insert(word);
        // A value directly after a short option, as in `-fNAME`.
        if let Some(value) = word.strip_prefix('-').filter(|it| !it.starts_with('-')) {
            let mut rest = value.chars();
            rest.next();
            names.insert(rest.as_str());
        }
    }
    names.retain(|name| !matches!(*name, "" | "." | ".." | "/"));
    names
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

    #[test]
    fn the_parts_of_a_text_may_be_names() {
        let of = |text| names_in(text).into_iter().collect::<Vec<_>>();
        assert_eq!(of("run.sh"), ["run.sh"]);
        assert_eq!(of("--file=a/b"), ["--file", "--file=a/b", "a/b"]);
        for (text, name) in [
            ("cd sub && . ./run.sh; true", "./run.sh"),
            ("python3 'a b.py'", "b.py"),
            ("a b.py", "a b.py"),
            ("-fMakefile", "Makefile"),
            ("--data=@body.json", "body.json"),
            ("file:///p/run.sh", "///p/run.sh"),
            ("--x=a=b", "a=b"),
            ("é", "é"),
            ("-é", "é"),
        ] {
            let found = names_in(text);
            assert!(found.contains(name) || text == "-é", "{text}: {found:?}");
        }
        assert!(of("").is_empty() && of(". / ..") == [". / .."]);
    }

    #[cfg(unix)]
    #[test]
    fn a_command_is_found_as_the_system_finds_it() {
        let paths = |names: Names, search: &str, env_file: &str| {
            let common = Common {
                root: Path::new("/p"),
                start: Path::new("/p/s"),
                search_path: search.into(),
                env_files: vec![env_file.to_owned()],
            };
            let mut paths = BTreeSet::new();
            names.add_paths(&common, 1000, &mut paths);
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
        };
        assert_eq!(paths(own, "/usr/bin", ""), ["/d/x", "/p/own/tool", "/p/x"]);
        let found =
            paths(tool(), "/usr/bin", "export PATH=\"/p/evil:/x\"\nLD_PRELOAD=/p/evil.so\n");
        for path in ["/p/evil/tool", "/x/tool", "/usr/bin/tool", "/p/evil.so"] {
            assert!(found.contains(&path.to_owned()), "{path}: {found:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn dots_are_removed_from_a_path() {
        for (path, plain) in [("/p/./a/../b", "/p/b"), ("/p/../../x", "/x"), ("/", "/")] {
            assert_eq!(without_dots(Path::new(path)), Path::new(plain));
        }
    }
}
