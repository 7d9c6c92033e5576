//! Files of the project, by name or glob.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Surroundings, Verdict};

/// The longest pattern, in bytes.
const MAX_LENGTH: usize = 1024;

/// How many folders below the folder in which the chain starts are searched for a glob with `**`.
const MAX_LEVELS: usize = 16;

/// How many files and folders are searched for a glob. A test makes as many.
const MAX_ENTRIES: usize = if cfg!(test) { 500 } else { 50_000 };

/// Folders that a search does not enter: a repository's data and what is built or installed.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

/// A path or a glob in the folder in which the chain starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(super) struct FilePattern(String);

/// The end of a search.
enum Search {
    Found(PathBuf),
    /// All files were compared.
    Nothing,
    /// There are more files.
    Limit,
}

impl FromStr for FilePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the path is empty: write a path such as \"Cargo.toml\"".into());
        }
        if text.len() > MAX_LENGTH || text.contains('\0') {
            return Err(format!("this is no path: it has more than {MAX_LENGTH} bytes, or a NUL"));
        }
        let drive = text.as_bytes().get(1) == Some(&b':');
        if text.starts_with(['/', '\\', '~']) || drive {
            return Err(format!(
                "'{text}' is not relative: write a path in the folder in which the chain starts, such as \"src/main.rs\""
            ));
        }
        if text.split(['/', '\\', '{', '}', ',']).any(|it| it == "..") {
            return Err(format!(
                "'{text}' leads out of the folder in which the chain starts: a condition sees only files in it"
            ));
        }
        let pattern = FilePattern(text.to_owned());
        if pattern.is_glob() {
            let invalid = |why| format!("'{text}' is not a valid glob: {why}");
            pattern.matcher().map_err(|error| invalid(error.kind().to_string()))?;
        }
        Ok(pattern)
    }
}

impl FilePattern {
    pub(super) fn evaluate(&self, surroundings: &Surroundings) -> Verdict {
        if self.is_glob() {
            return self.search(&surroundings.folder);
        }
        let path = &self.0;
        let file = surroundings.folder.join(self.parts().collect::<PathBuf>());
        if let Err(reason) = inside(&file, &surroundings.folder) {
            return Verdict::new(false, format!("{path} {reason}"));
        }
        match self.is_folder() && !file.is_dir() {
            true => Verdict::new(false, format!("{path} is not a folder")),
            false => Verdict::new(true, format!("{path} exists")),
        }
    }

    /// Whether only a folder fits.
    fn is_folder(&self) -> bool {
        self.0.ends_with('/')
    }

    fn is_glob(&self) -> bool {
        self.0.contains(['*', '?', '[', '{'])
    }

    /// The parts of the path, without `.` and empty ones.
    fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|it| !it.is_empty() && *it != ".")
    }

    fn matcher(&self) -> Result<GlobMatcher, globset::Error> {
        let text = self.parts().collect::<Vec<_>>().join("/");
        let glob = GlobBuilder::new(&text).literal_separator(true).build()?;
        Ok(glob.compile_matcher())
    }

    fn search(&self, folder: &Path) -> Verdict {
        let pattern = &self.0;
        let matcher = match self.matcher() {
            Ok(matcher) => matcher,
            Err(error) => return Verdict::new(false, format!("{pattern}: {}", error.kind())),
        };
        match self.first_match(folder, &matcher) {
            Search::Found(file) => {
                let file = file.to_string_lossy().replace('\\', "/");
                Verdict::new(true, format!("{file} matches {pattern}"))
            }
            Search::Nothing if self.is_folder() => {
                Verdict::new(false, format!("no folder matches {pattern}"))
            }
            Search::Nothing => Verdict::new(false, format!("no file matches {pattern}")),
            Search::Limit => Verdict::new(
                false,
                format!("none of the first {MAX_ENTRIES} files and folders matches {pattern}"),
            ),
        }
    }

    /// Searches the folders that the pattern can match, one level after the other. Links to folders are not followed.
    fn first_match(&self, folder: &Path, matcher: &GlobMatcher) -> Search {
        let start: PathBuf =
            self.parts().take_while(|it| !it.contains(['*', '?', '[', '{'])).collect();
        let levels = match self.0.contains("**") {
            true => MAX_LEVELS,
            // Alternatives such as `{a,b/c}` make this more than is needed.
            false => self.0.matches('/').count() + 1 - start.components().count(),
        };
        if inside(&folder.join(&start), folder).is_err() {
            return Search::Nothing;
        }
        let mut entries = 0;
        let mut level = vec![start];
        for _ in 0..levels {
            let mut next = Vec::new();
            for relative in level {
                let Ok(found) = fs::read_dir(folder.join(&relative)) else { continue };
                // In order, so that the same file is found each time.
                let mut found: Vec<_> = found.flatten().take(MAX_ENTRIES - entries).collect();
                entries += found.len();
                found.sort_by_key(fs::DirEntry::file_name);
                for entry in found {
                    let path = relative.join(entry.file_name());
                    let real = folder.join(&path);
                    let fits = matcher.is_match(&path) && (!self.is_folder() || real.is_dir());
                    if fits && inside(&real, folder).is_ok() {
                        return Search::Found(path);
                    }
                    let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
                    if is_folder && !SKIPPED.iter().any(|it| entry.file_name() == *it) {
                        next.push(path);
                    }
                }
                if entries >= MAX_ENTRIES {
                    return Search::Limit;
                }
            }
            level = next;
        }
        Search::Nothing
    }
}

/// Checks that a file exists and that no link on its path leads out of the folder.
fn inside(file: &Path, folder: &Path) -> Result<(), &'static str> {
    let real = fs::canonicalize(file).map_err(|_| "does not exist")?;
    let folder = fs::canonicalize(folder).map_err(|_| "does not exist")?;
    if real.starts_with(folder) { Ok(()) } else { Err("is a link out of the folder") }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::Folder;
    use super::*;

    #[test]
    fn globs_are_searched_in_the_folder() {
        let folder = Folder::new()
            .with("app.csproj", "")
            .with("src/a/schema.sql", "")
            .with(".github/ci.yml", "")
            .with("target/x.rs", "")
            .with("node_modules/p/index.ts", "")
            .with(".git/HEAD", "");
        for (pattern, expected) in [
            ("*.csproj", "yes: app.csproj matches *.csproj"),
            ("*.sln", "no: no file matches *.sln"),
            ("*.sql", "no: no file matches *.sql"),
            ("**/*.sql", "yes: src/a/schema.sql matches **/*.sql"),
            ("src/*/*.sql", "yes: src/a/schema.sql matches src/*/*.sql"),
            ("./src/**/schema.*", "yes: src/a/schema.sql matches ./src/**/schema.*"),
            ("src/{b,a}/schema.sql", "yes: src/a/schema.sql matches src/{b,a}/schema.sql"),
            ("{x,src/a/schema}.sql", "yes: src/a/schema.sql matches {x,src/a/schema}.sql"),
            ("src/*", "yes: src/a matches src/*"),
            ("src/*/", "yes: src/a matches src/*/"),
            ("src/*/*/", "no: no folder matches src/*/*/"),
            ("*.csproj/", "no: no folder matches *.csproj/"),
            (".github/*.y*ml", "yes: .github/ci.yml matches .github/*.y*ml"),
            ("app.[cf]sproj", "yes: app.csproj matches app.[cf]sproj"),
            // What is built or installed is found only by its name.
            ("**/*.rs", "no: no file matches **/*.rs"),
            ("**/*.ts", "no: no file matches **/*.ts"),
            ("target/*.rs", "yes: target/x.rs matches target/*.rs"),
            ("nothing/*.rs", "no: no file matches nothing/*.rs"),
        ] {
            assert_eq!(folder.line(&format!("{{ file = '{pattern}' }}")), expected);
        }
    }

    #[test]
    fn a_search_is_limited() {
        let folder = Folder::new();
        let deep = "d/".repeat(MAX_LEVELS - 1);
        folder.write(&format!("{deep}found"), "");
        folder.write(&format!("{deep}d/lost"), "");
        assert!(folder.evaluate("{ file = '**/found' }").holds);
        assert!(!folder.evaluate("{ file = '**/lost' }").holds);
        let folder = Folder::new();
        for number in 0..=MAX_ENTRIES {
            fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(
            folder.line("{ file = '*.x' }"),
            "no: none of the first 500 files and folders matches *.x"
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_lead_out_of_the_folder() {
        use std::os::unix::fs::symlink;

        let outside = Folder::new().with("secret.txt", "").with("sub/secret.txt", "");
        let folder = Folder::new().with("real/a.rs", "");
        let link = |target: &Path, name: &str| symlink(target, folder.path().join(name)).unwrap();
        link(outside.path(), "out");
        link(&outside.path().join("secret.txt"), "secret.txt");
        link(Path::new("real"), "inner");
        link(Path::new("."), "circle");
        link(Path::new("nothing"), "dangling");
        for (pattern, expected) in [
            ("secret.txt", "no: secret.txt is a link out of the folder"),
            ("out/secret.txt", "no: out/secret.txt is a link out of the folder"),
            ("out/*.txt", "no: no file matches out/*.txt"),
            ("**/secret.*", "no: no file matches **/secret.*"),
            ("*.txt", "no: no file matches *.txt"),
            ("dangling", "no: dangling does not exist"),
            ("inner/a.rs", "yes: inner/a.rs exists"),
            ("circle/circle/real/a.rs", "yes: circle/circle/real/a.rs exists"),
            ("**/a.rs", "yes: real/a.rs matches **/a.rs"),
        ] {
            assert_eq!(folder.line(&format!("{{ file = '{pattern}' }}")), expected);
        }
    }
}
