//! The test programs of the workspace, and what each of them needs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tool::at;

/// A test program, by the name that `cargo test --test` takes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub name: String,
    /// Needs third-party programs, because it reads their index.
    pub peers: bool,
    /// Uses the release build, or runs for minutes.
    pub slow: bool,
}

/// All test programs, in order. Two programs of the same name are merged.
pub fn all() -> Result<Vec<Target>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let crates = list(&root.join("crates"))?;
    let folders = crates.iter().map(|it| it.join("tests")).chain([root.join("examples/tests")]);
    let mut targets: Vec<Target> = Vec::new();
    for folder in folders.filter(|it| it.is_dir()) {
        for path in list(&folder)? {
            let Some(target) = target(&path)? else { continue };
            match targets.iter_mut().find(|it| it.name == target.name) {
                Some(same) => {
                    same.peers |= target.peers;
                    same.slow |= target.slow;
                }
                None => targets.push(target),
            }
        }
    }
    targets.sort();
    Ok(targets)
}

/// The test program of a file or folder in `tests`, if it is one.
fn target(path: &Path) -> Result<Option<Target>, String> {
    let files = if path.join("main.rs").is_file() {
        list(path)?
    } else if path.extension().is_some_and(|it| it == "rs") {
        vec![path.to_owned()]
    } else {
        return Ok(None);
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut target = Target { slow: name == "endurance", peers: false, name };
    for file in files.iter().filter(|it| it.extension().is_some_and(|it| it == "rs")) {
        let text = fs::read_to_string(file).map_err(at(file))?;
        target.peers |= text.contains("Peers::load");
        target.slow |= text.contains("release_binary(\"");
    }
    Ok(Some(target))
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    entries.map(|it| it.map(|it| it.path()).map_err(at(folder))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_needs_of_each_test_program_are_found() {
        let all = all().expect("the project has tests");
        let find = |name: &str| all.iter().find(|it| it.name == name).expect(name);
        assert!(find("interop").peers && !find("chain").peers);
        assert!(find("limits").slow && find("endurance").slow && !find("chain").slow);
    }
}
