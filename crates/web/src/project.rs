//! The files of the project, as a page sees them: inside of the folder only.
//!
//! # Layout
//! - here: lists folders and reads files
//! - `search`: finds files and words
//! - `edit`: changes parts of texts

mod edit;
mod search;

use std::fs;
use std::path::{Path, PathBuf};

use client::files;
use serde_json::Value;

use crate::protocol::{FileEntry, FileText};
pub use edit::{TextEdit, apply, part};
pub use search::Hit;

/// The most entries of a folder that are listed. A page shows one less, and says that there are more.
const MAX_ENTRIES: usize = 5001;
/// The most entries of a folder that are read, to list the first ones.
const MAX_READ: usize = 200_000;
/// The most bytes of a file that a page gets.
const MAX_TEXT: u64 = 2 * 1024 * 1024;

/// The folder of the project.
#[derive(Debug, Clone)]
pub struct Project {
    folder: PathBuf,
}

impl Project {
    /// The project in this folder.
    pub fn new(folder: &Path) -> Project {
        Project { folder: fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()) }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A path as pages show it: relative to the folder, if it is inside.
    pub fn shown(&self, path: &Path) -> String {
        let resolved = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let path = resolved.strip_prefix(&self.folder).unwrap_or(path);
        path.display().to_string().replace('\\', "/")
    }

    /// The file of a `file://` URL, an absolute path, or a path relative to the folder. Symbolic links are resolved.
    ///
    /// # Errors
    /// The file is outside of the folder, or the URL is of another kind.
    pub fn locate(&self, url: &str) -> Result<PathBuf, String> {
        let path = match url.split_once("://") {
            None => PathBuf::from(url),
            Some(("file", _)) => path_of_url(url)
                .ok_or_else(|| format!("the URL {url} is not a file on this machine"))?,
            Some((scheme, _)) => return Err(format!("{url} is a {scheme} URL; use a file URL")),
        };
        self.locate_path(&path)
    }

    /// As [`Project::locate`], for a path.
    ///
    /// # Errors
    /// The file is outside of the folder.
    pub fn locate_path(&self, path: &Path) -> Result<PathBuf, String> {
        let path = self.folder.join(path);
        let located = files::locate(&self.folder, &path).map_err(|error| message(&error))?;
        match located.inside {
            true => Ok(located.path),
            false => Err(format!("{} is outside of the folder of the project", path.display())),
        }
    }

    /// The `file://` URL of a path.
    pub fn url(&self, path: &Path) -> String {
        file_url(path)
    }

    /// Lists a folder: folders first, then files, each by name. Of a large folder, it is only the first entries.
    ///
    /// # Errors
    /// It cannot be read, or is outside of the project.
    pub fn list(&self, path: &str) -> Result<Vec<FileEntry>, String> {
        let folder = self.locate(if path.is_empty() { "." } else { path })?;
        let failed = |error| format!("cannot read the folder {path}: {error}");
        let mut entries = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)?.flatten().take(MAX_READ) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // A link is what it points to.
            let folder = match entry.file_type() {
                Ok(kind) if !kind.is_symlink() => kind.is_dir(),
                _ => fs::metadata(entry.path()).is_ok_and(|it| it.is_dir()),
            };
            if !(folder && name == ".git") {
                entries.push(FileEntry { name, folder });
            }
        }
        entries.sort_by_cached_key(|it| (!it.folder, it.name.to_lowercase(), it.name.clone()));
        entries.truncate(MAX_ENTRIES);
        Ok(entries)
    }

    /// Writes the text of a file that was [located](Project::locate). No symbolic link is followed, so the file is inside of
    /// the folder, whatever has happened to the path in the meantime.
    ///
    /// # Errors
    /// It cannot be written, or a part of the path has become a link.
    pub fn write(&self, path: &Path, text: &str) -> Result<(), String> {
        let inside = path
            .strip_prefix(&self.folder)
            .map_err(|_| format!("{} is outside of the folder of the project", path.display()))?;
        files::write_text_inside(&self.folder, inside, text).map_err(|error| message(&error))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is outside of the project.
    pub fn read(&self, path: &str) -> Result<FileText, String> {
        let file = self.locate(path)?;
        let shown = self.shown(&file);
        let length = fs::metadata(&file).map_or(0, |it| it.len());
        let not_shown = |note: &str| FileText {
            path: shown.clone(),
            text: String::new(),
            note: Some(note.to_owned()),
        };
        if length > MAX_TEXT {
            return Ok(not_shown("The file is larger than 2 MiB and is not shown."));
        }
        match files::read_text(&file, None, None) {
            Ok(text) if text.contains('\0') => Ok(not_shown("The file is not text.")),
            Ok(text) => Ok(FileText { path: shown, text, note: None }),
            Err(error) if message(&error).contains("not UTF-8") => {
                Ok(not_shown("The file is not text."))
            }
            Err(error) => Err(message(&error)),
        }
    }
}

/// The text of a JSON-RPC error.
pub(crate) fn message(error: &Value) -> String {
    let data = error["data"].as_str().or(error["data"]["details"].as_str());
    data.or(error["message"].as_str()).unwrap_or("unknown error").to_owned()
}

/// The `file://` URL of a path.
pub fn file_url(path: &Path) -> String {
    let mut url = "file://".to_owned();
    let text = path.to_string_lossy();
    let text = match cfg!(windows) {
        // A resolved path begins with `\\?\`.
        true => text.strip_prefix(r"\\?\").unwrap_or(&text).replace('\\', "/"),
        false => text.into_owned(),
    };
    if !text.starts_with('/') {
        url.push('/');
    }
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b':' => {
                url.push(byte.into());
            }
            other => url.push_str(&format!("%{other:02X}")),
        }
    }
    url
}

/// The path of a `file://` URL, such as `file:///a%20b` or `file://localhost/a`. `None` for any other text.
pub fn path_of_url(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
            }
            other => bytes.push(other),
        }
    }
    let path = String::from_utf8(bytes).ok().filter(|it| !it.contains('\0'))?;
    // `/C:/a` is `C:/a` on Windows.
    match cfg!(windows) {
        true => Some(PathBuf::from(path.trim_start_matches('/'))),
        false => Some(PathBuf::from(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn folder(name: &str) -> (Folder, Project) {
        let path = std::env::temp_dir().join(format!("web-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("project/src")).expect("created");
        fs::write(path.join("project/src/a b.rs"), "fn a() {}\n").expect("written");
        fs::write(path.join("secret"), "s").expect("written");
        let project = Project::new(&path.join("project"));
        (Folder(path), project)
    }

    #[test]
    fn every_form_of_a_path_finds_the_file_and_none_leaves_the_folder() {
        let (_folder, project) = folder("locate");
        let file = project.folder().join("src/a b.rs");
        for url in ["src/a b.rs", &file.display().to_string(), &project.url(&file)] {
            assert_eq!(project.locate(url), Ok(file.clone()), "{url}");
        }
        assert!(project.url(&file).ends_with("/src/a%20b.rs"));
        for url in [
            "../secret",
            "/etc/passwd",
            "file:///etc/passwd",
            "https://example.org/a",
            "file://%zz",
            "file://host/a",
            "src/../../secret",
        ] {
            assert!(project.locate(url).is_err(), "{url}");
        }
        assert_eq!(file_url(Path::new("/p/a b#ä.rs")), "file:///p/a%20b%23%C3%A4.rs");
        #[cfg(unix)]
        {
            let link = project.folder().join("link");
            std::os::unix::fs::symlink("../secret", &link).expect("linked");
            assert!(project.locate("link").is_err());
            assert!(project.read("link").is_err());
        }
    }

    #[test]
    fn folders_are_listed_and_only_texts_are_shown() {
        let (_folder, project) = folder("list");
        fs::write(project.folder().join("z.bin"), [0, 159, 146, 150]).expect("written");
        fs::create_dir(project.folder().join(".git")).expect("created");
        let names: Vec<String> =
            project.list("").expect("listed").into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["src", "z.bin"]);
        let text = project.read("src/a b.rs").expect("read");
        assert_eq!((text.text.as_str(), text.path.as_str()), ("fn a() {}\n", "src/a b.rs"));
        assert!(project.read("z.bin").expect("read").note.is_some());
        assert!(project.read("missing").expect_err("missing").contains("missing"));
        assert!(project.list("..").is_err());
    }

    #[test]
    fn of_a_large_folder_the_first_entries_are_listed_and_one_more() {
        let (_folder, project) = folder("large");
        let large = project.folder().join("large");
        fs::create_dir_all(large.join("z-folder")).expect("created");
        for number in 0..MAX_ENTRIES + 10 {
            fs::write(large.join(format!("{number:05}")), "").expect("written");
        }
        let entries = project.list("large").expect("listed");
        assert_eq!(entries.len(), MAX_ENTRIES);
        let names: Vec<&str> = entries.iter().map(|it| it.name.as_str()).take(3).collect();
        assert_eq!(names, ["z-folder", "00000", "00001"]);
    }
}
