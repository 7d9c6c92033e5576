//! Copies and compares folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tool::at;

/// Copies a folder without the entries of these names.
pub fn copy(from: &Path, to: &Path, without: &[&str]) -> Result<(), String> {
    fs::create_dir_all(to).map_err(at(to))?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if without.iter().any(|it| entry.file_name() == *it) {
            continue;
        }
        if source.is_dir() {
            copy(&source, &target, without)?;
        } else {
            fs::copy(&source, &target).map_err(at(&source))?;
        }
    }
    Ok(())
}

/// Checks that two folders have the same files with the same bytes. The error is the first difference.
pub fn same(made: &Path, kept: &Path) -> Result<(), String> {
    let (made, kept) = (contents(made)?, contents(kept)?);
    for (name, bytes) in &made {
        match kept.get(name) {
            None => return Err(format!("{} is missing", name.display())),
            Some(other) if other != bytes => {
                let at = bytes.iter().zip(other).take_while(|(one, two)| one == two).count();
                return Err(format!("{} is different from byte {at} on", name.display()));
            }
            Some(_) => {}
        }
    }
    match kept.keys().find(|name| !made.contains_key(*name)) {
        Some(name) => Err(format!("{} is not built any more", name.display())),
        None => Ok(()),
    }
}

/// The files of a folder and its subfolders.
fn contents(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).map_err(at(&next))? {
            let path = entry.map_err(at(&next))?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("listed below it").to_owned();
                found.insert(name, fs::read(&path).map_err(at(&path))?);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_of_two_folders_is_named() {
        let folder = std::env::temp_dir().join(format!("conductor-compare-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            fs::write(path, text).expect("it is written");
        };
        write("one/panel/a.js", "same");
        write("one/node_modules/a.js", "left out");
        let (one, two) = (folder.join("one"), folder.join("two"));
        copy(&one, &two, &["node_modules"]).expect("it is copied");
        fs::remove_dir_all(one.join("node_modules")).expect("it is removed");
        assert_eq!(same(&one, &two), Ok(()));
        write("one/panel/a.js", "sane");
        assert_eq!(same(&one, &two), Err("panel/a.js is different from byte 2 on".into()));
        write("one/panel/a.js", "same");
        write("two/b.js", "");
        assert_eq!(same(&one, &two), Err("b.js is not built any more".into()));
        fs::remove_dir_all(&folder).expect("it is removed");
    }
}
