//! Finds files by their path, and words in files. Files that `.gitignore` names are left out.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::files;
use ignore::WalkBuilder;

use super::{Project, message};

/// The most files that are looked at.
const MAX_FILES: usize = 100_000;
/// The longest time of a search.
const MAX_TIME: Duration = Duration::from_secs(5);
/// The most bytes of a file in which words are searched.
const MAX_FILE: u64 = 1024 * 1024;
/// The most places of a word that are found.
const MAX_HITS: usize = 500;

/// The longest line in which words are searched, in bytes.
const MAX_LINE: usize = 2000;

/// A place of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// The column of the first character, from 1.
    pub column: u32,
    /// The line as text.
    pub text: String,
    /// Whether the line looks like the definition of the word.
    pub is_definition: bool,
}

/// Words before the name of something that is defined.
const DEFINING: [&str; 24] = [
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "union",
    "const",
    "static",
    "mod",
    "macro_rules!",
    "class",
    "interface",
    "def",
    "function",
    "function*",
    "func",
    "let",
    "var",
    "val",
    "module",
    "package",
    "namespace",
    "record",
    "protocol",
];

impl Project {
    /// The files of the project, relative to the folder.
    fn files(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let walk = WalkBuilder::new(&self.folder).hidden(false).require_git(false).build();
        let started = Instant::now();
        let entries = walk.flatten().filter(|it| {
            it.file_type().is_some_and(|kind| kind.is_file())
                && !it.path().components().any(|part| part.as_os_str() == ".git")
        });
        let in_time = entries.take_while(move |_| started.elapsed() < MAX_TIME);
        in_time.take(MAX_FILES).map(ignore::DirEntry::into_path)
    }

    /// The paths that contain all parts of a text, best first.
    pub fn find_files(&self, text: &str, limit: usize) -> Vec<String> {
        let text = text.to_lowercase();
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut found: Vec<(usize, String)> = Vec::new();
        for path in self.files() {
            let Ok(relative) = path.strip_prefix(&self.folder) else { continue };
            let shown = relative.display().to_string().replace('\\', "/");
            let lower = shown.to_lowercase();
            let name = lower.rsplit('/').next().unwrap_or(&lower);
            if !words.iter().all(|word| is_subsequence(word, &lower)) {
                continue;
            }
            let word = words.first().copied().unwrap_or_default();
            let rank = match () {
                () if name.starts_with(word) => 0,
                () if name.contains(word) => 1,
                () if lower.contains(word) => 2,
                () => 3,
            };
            found.push((rank * 10_000 + shown.len(), shown));
        }
        found.sort();
        found.truncate(limit);
        found.into_iter().map(|(_, path)| path).collect()
    }

    /// The places of a word in all files, or only those that look like its definition. Long lines are left out: they are
    /// made by programs.
    pub fn find_word(&self, word: &str, only_definitions: bool) -> Vec<Hit> {
        let mut hits = Vec::new();
        let started = Instant::now();
        for path in self.files() {
            if std::fs::metadata(&path).map_or(u64::MAX, |it| it.len()) > MAX_FILE {
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            if hits.len() >= MAX_HITS || started.elapsed() > MAX_TIME {
                break;
            }
            for (number, line) in (1..).zip(text.lines()).filter(|it| it.1.len() <= MAX_LINE) {
                for at in word_starts(line, word) {
                    let before = line[..at].trim_end();
                    let is_definition = DEFINING.iter().any(|it| {
                        let rest = before.strip_suffix(it);
                        rest.is_some_and(|rest| !rest.ends_with(is_word))
                    });
                    if only_definitions && !is_definition {
                        continue;
                    }
                    let column = u32::try_from(line[..at].chars().count() + 1).unwrap_or(u32::MAX);
                    let text = line.chars().take(400).collect();
                    hits.push(Hit {
                        path: path.clone(),
                        line: number,
                        column,
                        text,
                        is_definition,
                    });
                }
            }
        }
        hits.truncate(MAX_HITS);
        hits
    }

    /// The word at a place of a file.
    ///
    /// # Errors
    /// The file cannot be read, or there is no word.
    pub fn word_at(&self, url: &str, line: u32, column: u32) -> Result<String, String> {
        let path = self.locate(url)?;
        let text = files::read_text(&path, None, None).map_err(|error| message(&error))?;
        let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        let content: Vec<char> = text.lines().nth(index).unwrap_or_default().chars().collect();
        let mut at = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
        // The place after a word belongs to it.
        if at > 0 && content.get(at).is_none_or(|it| !is_word(*it)) {
            at -= 1;
        }
        if content.get(at).is_none_or(|it| !is_word(*it)) {
            return Err(format!("there is no symbol at line {line}, column {column}"));
        }
        let start = content[..at].iter().rposition(|it| !is_word(*it)).map_or(0, |it| it + 1);
        let rest = content[at..].iter().position(|it| !is_word(*it));
        let end = rest.map_or(content.len(), |it| at + it);
        Ok(content[start..end].iter().collect())
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// Where a word begins in a line.
fn word_starts<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = line[..*at].chars().next_back();
        let after = line[*at + word.len()..].chars().next();
        !word.is_empty()
            && before.is_none_or(|it| !is_word(it))
            && after.is_none_or(|it| !is_word(it))
    })
}

fn is_subsequence(word: &str, text: &str) -> bool {
    let mut rest = text.chars();
    word.chars().all(|wanted| rest.any(|it| it == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_words_are_found_and_ignored_files_are_not() {
        let folder = std::env::temp_dir().join(format!("web-search-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("src")).expect("created");
        std::fs::create_dir_all(folder.join("target")).expect("created");
        let write =
            |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
        write(".gitignore", "target\n");
        write("target/router.rs", "fn route() {}\n");
        write("src/router.rs", "pub fn route(x: u8) {}\n// ä route, rerouted\n");
        write("src/main.rs", "fn main() { route(1); }\n");
        let project = Project::new(&folder);
        assert_eq!(project.find_files("router", 5), ["src/router.rs"]);
        assert_eq!(project.find_files("srmn", 5), ["src/main.rs"]);
        let mut hits = project.find_word("route", false);
        hits.sort_by_key(|it| (!it.is_definition, it.path.clone(), it.line));
        let places: Vec<(u32, u32, bool)> =
            hits.iter().map(|it| (it.line, it.column, it.is_definition)).collect();
        assert_eq!(places, [(1, 8, true), (1, 13, false), (2, 6, false)]);
        assert_eq!(project.word_at("src/main.rs", 1, 14).as_deref(), Ok("route"));
        assert_eq!(project.word_at("src/main.rs", 1, 18).as_deref(), Ok("route"));
        assert!(project.word_at("src/main.rs", 1, 12).is_err());
        assert!(project.word_at("src/main.rs", 9, 1).is_err());
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
