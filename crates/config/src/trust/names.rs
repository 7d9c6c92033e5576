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

impl Names {
    /// The paths that the texts may mean. Each of them is absolute. `start` is the folder in which the component runs, unless it
    /// has one of its own.
    pub(super) fn paths(
        &self,
        root: &Path,
        start: &Path,
        search: Option<OsString>,
    ) -> BTreeSet<PathBuf> {
        let mut folders = vec![root];
        match &self.directory {
            Some(directory) => folders.push(directory),
            None => folders.push(start),
        }
        let mut paths = BTreeSet::new();
        let is_path = self.command.contains('/') || cfg!(windows) && self.command.contains('\\');
        if is_path {
            paths.extend(folders.iter().map(|folder| folder.join(&self.command)));
        } else if !self.command.is_empty() {
            let search = self.search_path.clone().or(search).unwrap_or_default();
            let search: Vec<PathBuf> = std::env::split_paths(&search).collect();
            for folder in &folders {
                // An entry of the PATH may be relative, and an empty entry is the working directory.
                paths.extend(search.iter().map(|entry| folder.join(entry).join(&self.command)));
            }
        }
        for text in &self.texts {
            for name in names_in(text) {
                paths.extend(folders.iter().map(|folder| folder.join(name)));
            }
        }
        paths
    }
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
            // An option of one character that has more bytes than one.
            let found = names_in(text);
            assert!(found.contains(name) || text == "-é", "{text}: {found:?}");
        }
        assert!(of("").is_empty() && of(". / ..") == [". / .."]);
    }

    #[cfg(unix)]
    #[test]
    fn a_command_is_found_as_the_system_finds_it() {
        let (root, start) = (Path::new("/p"), Path::new("/p/s"));
        let paths = |command: &str, search: &str| {
            let names = Names { command: command.into(), ..Names::default() };
            let paths = names.paths(root, start, Some(search.into())).into_iter();
            paths.map(|it| it.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths("bin/tool", "/usr/bin"), ["/p/bin/tool", "/p/s/bin/tool"]);
        assert_eq!(paths("tool", "/usr/bin:/p/bin"), ["/p/bin/tool", "/usr/bin/tool"]);
        assert_eq!(paths("tool", "bin:"), ["/p/bin/tool", "/p/s/bin/tool", "/p/s/tool", "/p/tool"]);
        let own = Names {
            command: "tool".into(),
            texts: vec!["x".into()],
            directory: Some("/d".into()),
            search_path: Some("/p/own".into()),
        };
        let found = own.paths(root, start, Some("/usr/bin".into()));
        let expected = ["/d/x", "/p/own/tool", "/p/x"].map(PathBuf::from);
        assert_eq!(found, BTreeSet::from(expected));
    }

    #[cfg(unix)]
    #[test]
    fn dots_are_removed_from_a_path() {
        for (path, plain) in [("/p/./a/../b", "/p/b"), ("/p/../../x", "/x"), ("/", "/")] {
            assert_eq!(without_dots(Path::new(path)), Path::new(plain));
        }
    }
}
