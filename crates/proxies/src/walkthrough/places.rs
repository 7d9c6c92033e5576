//! Checks the places of a walkthrough, and reads their code.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::input::Place;
use component_base::file::{self, ReadError, ReadLimits};

/// How much of a file is read, in bytes.
const MAX_FILE: usize = 4 * 1024 * 1024;

/// How many lines of code are shown, and how many characters of each.
const MAX_LINES: usize = 20;
const MAX_LINE: usize = 300;

/// How many errors are reported at once.
const MAX_ERRORS: usize = 10;

/// A place that exists.
#[derive(Debug, Clone)]
pub(super) struct FoundPlace {
    /// The path relative to the folder of the session, with `/` between its parts.
    pub(super) path: String,
    pub(super) file: PathBuf,
    pub(super) first: u32,
    pub(super) last: u32,
    /// The lines of code. A long place is shortened.
    pub(super) code: String,
    pub(super) comment: Option<String>,
}

impl FoundPlace {
    /// The lines: `12`, or `12-15`.
    pub(super) fn lines(&self) -> String {
        match self.first == self.last {
            true => self.first.to_string(),
            false => format!("{}-{}", self.first, self.last),
        }
    }

    /// The path and the lines: `src/a.rs:12`.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.path, self.lines())
    }

    /// The language, by the end of the file's name.
    pub(super) fn language(&self) -> &str {
        match Path::new(&self.path).extension().and_then(|it| it.to_str()).unwrap_or_default() {
            "rs" => "rust",
            "py" => "python",
            "js" | "mjs" => "javascript",
            "ts" => "typescript",
            "sh" => "bash",
            "md" => "markdown",
            "yml" => "yaml",
            other => other,
        }
    }
}

/// Finds all places. The error names each place that does not exist, and what to do.
pub(super) fn find<'a>(
    folder: &Path,
    places: impl Iterator<Item = &'a Place>,
) -> Result<Vec<FoundPlace>, String> {
    let mut files = HashMap::new();
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for place in places {
        match find_one(folder, place, &mut files) {
            Ok(place) => found.push(place),
            Err(why) => errors.push(why),
        }
    }
    if errors.is_empty() {
        return Ok(found);
    }
    errors.dedup();
    let more = errors.len().saturating_sub(MAX_ERRORS);
    errors.truncate(MAX_ERRORS);
    if more > 0 {
        errors.push(format!("{more} more places are wrong"));
    }
    Err(format!(
        "nothing is shown yet. Correct these places and call the tool again:\n- {}",
        errors.join("\n- ")
    ))
}

fn find_one(
    folder: &Path,
    place: &Place,
    files: &mut HashMap<PathBuf, Result<String, String>>,
) -> Result<FoundPlace, String> {
    let given = &place.path;
    if folder.as_os_str().is_empty() {
        return Err("the folder of the session is not known; open a new session".to_owned());
    }
    let inside = relative(folder, Path::new(given)).ok_or_else(|| {
        let folder = folder.display();
        format!("{given} is not in the folder of the session; use a path relative to {folder}")
    })?;
    let read = files.entry(inside.clone()).or_insert_with(|| read(folder, &inside));
    let text = read.as_ref().map_err(Clone::clone)?;
    let count = text.lines().count();
    let (first, last) = (place.line, place.end_line.unwrap_or(place.line));
    if last < first {
        return Err(format!("{given}: `end_line` {last} is before `line` {first}"));
    }
    if first == 0 || last as usize > count {
        let wrong = if first == 0 { 0 } else { last };
        return Err(match count {
            0 => format!("{given} is empty, so it has no line {wrong}; leave the place out"),
            1 => format!("{given} has 1 line, so there is no line {wrong}; use line 1"),
            _ => format!(
                "{given} has {count} lines, so there is no line {wrong}; use lines from 1 to {count}"
            ),
        });
    }
    let length = (last - first) as usize + 1;
    let lines = text.lines().skip(first as usize - 1).take(length.min(MAX_LINES));
    let mut code: Vec<String> = lines.map(|line| line.chars().take(MAX_LINE).collect()).collect();
    if length > MAX_LINES {
        code.push(format!("… {} more lines", length - MAX_LINES));
    }
    Ok(FoundPlace {
        path: shown(&inside),
        file: folder.join(&inside),
        first,
        last,
        code: code.join("\n"),
        comment: place.comment.clone().filter(|it| !it.trim().is_empty()),
    })
}

/// A relative path with `/` between its parts.
pub(super) fn shown(inside: &Path) -> String {
    let parts = inside.components().map(|it| it.as_os_str().to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}

/// The path relative to the folder. `None` if it is outside, as far as its text tells. An absolute path may lead to the
/// folder in another way, over a symbolic link.
pub(super) fn relative(folder: &Path, path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return inside(path);
    }
    if let Ok(path) = path.strip_prefix(folder) {
        return inside(path);
    }
    let folder = folder.canonicalize().ok()?;
    if let Ok(path) = path.strip_prefix(&folder) {
        return inside(path);
    }
    inside(path.canonicalize().ok()?.strip_prefix(&folder).ok()?)
}

/// A relative path without `.` and `..`. `None` if it leads out of its folder.
fn inside(path: &Path) -> Option<PathBuf> {
    use std::path::Component;
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !inside.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(inside)
}

fn read(folder: &Path, inside: &Path) -> Result<String, String> {
    let (name, at) = (inside.display(), folder.display());
    let limits = ReadLimits { max_bytes: MAX_FILE, outside: false };
    match file::read(folder, inside, limits) {
        Ok(read) if read.truncated => {
            Err(format!("{name} is longer than {MAX_FILE} bytes; leave it out"))
        }
        Ok(read) => Ok(read.text),
        Err(ReadError::Missing) => Err(format!("{name} does not exist in {at}; check the path")),
        Err(ReadError::Outside(_)) => {
            Err(format!("{name} leads out of {at}; use a file in that folder"))
        }
        Err(ReadError::NotRegular) => Err(format!("{name} is not a file; name a file in {at}")),
        Err(ReadError::Unreadable(why)) => {
            Err(format!("{name} cannot be read: {why}; leave it out"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_relative_to_the_folder() {
        let folder = Path::new("/p");
        for (given, found) in [
            ("src/a.rs", Some("src/a.rs")),
            ("./src/../a.rs", Some("a.rs")),
            ("/p/src/a.rs", Some("src/a.rs")),
            ("/p/../etc/passwd", None),
            ("/etc/passwd", None),
            ("../p/a.rs", None),
        ] {
            assert_eq!(relative(folder, Path::new(given)), found.map(PathBuf::from), "{given}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_is_a_symbolic_link_has_two_names() {
        let base = std::env::temp_dir().join(format!("places-link-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&base);
        let real = base.join("real");
        std::fs::create_dir_all(real.join("src")).expect("a folder");
        std::fs::write(real.join("src/a.rs"), "").expect("a file");
        let [link, other] = ["link", "other"].map(|it| base.join(it));
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        std::os::unix::fs::symlink(&real, &other).expect("a link");
        for (folder, file) in [(&link, &real), (&real, &link), (&link, &other)] {
            let found = relative(folder, &file.join("src/a.rs"));
            assert_eq!(found.as_deref(), Some(Path::new("src/a.rs")), "{folder:?} {file:?}");
        }
        assert_eq!(relative(&link, &base.join("src/a.rs")), None);
    }
}
