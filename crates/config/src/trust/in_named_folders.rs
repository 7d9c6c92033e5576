//! Files that a text names in two steps: a folder, and a name that begins there.
//!
//! `cd tools && ./run.sh`, `--directory tools run.sh` and `env -C tools ../run.sh` are of this kind. Some programs also complete a
//! name: `node tools/index` runs `tools/index.js`, and `python3 tools` runs `tools/__main__.py`. This module looks at the disk, and
//! finds the files that are there. One that appears later is found when the consent is compared the next time.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::evidence::EvidenceError;
use super::names::without_dots;
use crate::project;

/// How often a text changes the folder, as in `cd a; cd b; ./run.sh`.
const MAX_STEPS: usize = 3;

/// How many paths are looked at.
const MAX_LOOKUPS: usize = 100_000;

/// The greatest folder that is listed. In a greater one, each name is looked up.
const MAX_LISTING: usize = 1_000;

/// What programs add to the name of a file.
const EXTENSIONS: [&str; 14] =
    ["js", "mjs", "cjs", "json", "node", "ts", "mts", "cts", "tsx", "jsx", "py", "rb", "sh", "pl"];

/// The files of a folder that programs use if they are given the folder, without their extension.
const ENTRIES: [&str; 3] = ["index", "package", "__main__"];

/// Adds the files inside of `root` that the names mean, if a text first changes to a folder that it names.
///
/// # Errors
/// There are too many names and folders.
pub(super) fn add(
    root: &Path,
    folders: &[&Path],
    names: &BTreeSet<String>,
    paths: &mut BTreeSet<PathBuf>,
) -> Result<(), EvidenceError> {
    let (found, listings) = (BTreeSet::new(), BTreeMap::new());
    let mut search = Search { root, left: MAX_LOOKUPS, found, listings };
    let mut known: BTreeSet<PathBuf> = folders.iter().map(|it| without_dots(it)).collect();
    let mut next: Vec<PathBuf> = known.iter().cloned().collect();
    for _ in 0..=MAX_STEPS {
        for folder in std::mem::take(&mut next) {
            for name in names {
                let path: PathBuf = folder.join(name).components().collect();
                if search.look(&path)? && known.insert(without_dots(&path)) {
                    next.push(path);
                }
            }
        }
    }
    paths.extend(search.found);
    Ok(())
}

/// Looks for files on the disk.
struct Search<'a> {
    root: &'a Path,
    left: usize,
    found: BTreeSet<PathBuf>,
    /// What is in the folders in which names were completed. None if it is much.
    listings: BTreeMap<PathBuf, Option<BTreeSet<OsString>>>,
}

impl Search<'_> {
    /// Adds the file that a path leads to, or those that programs look for in its place. Returns whether it is a folder.
    fn look(&mut self, path: &Path) -> Result<bool, EvidenceError> {
        if !project::is_local(path) || !without_dots(path).starts_with(self.root) {
            return Ok(false);
        }
        let is_folder = match self.is_folder(path)? {
            Some(false) => {
                self.found.insert(path.to_owned());
                return Ok(false);
            }
            Some(true) => {
                for entry in ENTRIES {
                    self.complete(&path.join(entry))?;
                }
                true
            }
            None => false,
        };
        self.complete(path)?;
        Ok(is_folder)
    }

    /// Adds the files with the name of this path and an extension.
    fn complete(&mut self, path: &Path) -> Result<(), EvidenceError> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        if !self.listings.contains_key(folder) {
            let entries = folder.read_dir().into_iter().flatten().flatten();
            let names: BTreeSet<OsString> =
                entries.take(MAX_LISTING + 1).map(|it| it.file_name()).collect();
            let names = (names.len() <= MAX_LISTING).then_some(names);
            self.listings.insert(folder.to_owned(), names);
        }
        for extension in EXTENSIONS {
            let mut name = name.to_owned();
            name.push(".");
            name.push(extension);
            let names = self.listings[folder].as_ref();
            let may_exist = names.is_none_or(|it| it.contains(&name));
            let file = folder.join(name);
            if may_exist && self.is_folder(&file)? == Some(false) {
                self.found.insert(file);
            }
        }
        Ok(())
    }

    /// Whether something that exists is a folder.
    fn is_folder(&mut self, path: &Path) -> Result<Option<bool>, EvidenceError> {
        self.left = self.left.checked_sub(1).ok_or(EvidenceError::TooMany)?;
        Ok(path.metadata().ok().map(|it| it.is_dir()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::tests::TestFolder;
    use crate::trust::words::names_in;

    #[test]
    fn a_file_in_a_folder_that_is_named_is_found() {
        let folder = TestFolder::new("in-named-folders");
        for name in [
            "tools/run.sh",
            "tools/deep/run.sh",
            "tools/index.js",
            "app/package.json",
            "app/__main__.py",
            "lib/start.ts",
            "server.js",
        ] {
            folder.write(name, "");
        }
        let root = folder.path("");
        let root = without_dots(&root);
        for (text, expected) in [
            ("cd tools && ./run.sh", &["tools/index.js", "tools/run.sh"][..]),
            ("-C tools run.sh", &["tools/index.js", "tools/run.sh"]),
            ("--directory=tools run.sh", &["tools/index.js", "tools/run.sh"]),
            (
                "cd tools; cd deep; ./run.sh",
                &["tools/deep/run.sh", "tools/index.js", "tools/run.sh"],
            ),
            ("cd tools; ../server.js", &["tools/../server.js", "tools/index.js"]),
            ("node tools/index", &["tools/index.js"]),
            ("node app", &["app/__main__.py", "app/package.json"]),
            ("tsx lib/start", &["lib/start.ts"]),
            ("node server", &["server.js"]),
            ("node ../server.js", &[]),
            ("cd ..; server.js", &["server.js"]),
        ] {
            let mut found = BTreeSet::new();
            add(&root, &[&root], &names_in(text), &mut found).expect("few");
            let found = found.iter().map(|it| it.strip_prefix(&root).expect("inside"));
            let found: Vec<String> = found.map(|it| it.display().to_string()).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn the_search_has_a_limit() {
        let folder = TestFolder::new("in-named-folders-limit");
        let mut names: BTreeSet<String> = (0..1500).map(|it| it.to_string()).collect();
        for name in names.iter().take(100) {
            std::fs::create_dir(folder.path(name)).expect("ours");
        }
        let root = without_dots(&folder.path(""));
        let mut found = BTreeSet::new();
        let result = add(&root, &[&root], &names, &mut found);
        assert!(matches!(result, Err(EvidenceError::TooMany)), "{result:?}");
        names.retain(|it| it.len() == 1);
        add(&root, &[&root], &names, &mut found).expect("few");
        // A great folder is none, if few names lead to it.
        for number in 0..=MAX_LISTING {
            folder.write(&format!("great/{number}"), "");
        }
        folder.write("great/index.js", "");
        let mut found = BTreeSet::new();
        add(&root, &[&root], &BTreeSet::from(["great".to_owned()]), &mut found).expect("few");
        assert_eq!(found, [root.join("great/index.js")].into());
    }
}
