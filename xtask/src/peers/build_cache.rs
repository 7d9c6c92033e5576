//! Builds peers and caches them.
//!
//! Each peer is built once for each state of its sources: the name of its directory ends with a hash of them. A build
//! is renamed to its final directory when it is complete, so every existing directory is usable.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::places::cache;
use crate::tool::at;

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("peers").join(name)
}

/// The directory that `build` makes from `sources` (folders and files). Builds it if it is missing. `also` has the
/// other inputs of the build.
pub fn built(
    name: &str,
    sources: &[PathBuf],
    also: &str,
    build: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    // Another version of Rust may hash differently, which costs one more build.
    let mut hasher = DefaultHasher::new();
    also.hash(&mut hasher);
    for source in sources {
        let listed = if source.is_file() { vec![source.clone()] } else { files(source)? };
        for file in listed {
            file.strip_prefix(source).expect("listed below it").hash(&mut hasher);
            fs::read(&file).map_err(at(&file))?.hash(&mut hasher);
        }
    }
    let place = cache().join(format!("{name}-{:016x}", hasher.finish()));
    if place.exists() {
        return Ok(place);
    }

    eprintln!("building {}", place.display());
    let fresh = place.with_extension(format!("new-{}", std::process::id()));
    fs::create_dir_all(&fresh).map_err(at(&fresh))?;
    let outcome = build(&fresh).and_then(|()| match fs::rename(&fresh, &place) {
        // Another process has built it in the meantime.
        Err(_) if place.exists() => Ok(()),
        outcome => outcome.map_err(at(&place)),
    });
    let _ = fs::remove_dir_all(&fresh);
    outcome.map(|()| place)
}

pub fn copy_files(from: &Path, to: &Path) -> Result<(), String> {
    for file in files(from)? {
        copy(&file, &to.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(|_| ()).map_err(at(from))
}

/// The sources of a peer, in a fixed order: its files and those in `src`. Packages in subfolders and generated files
/// are left out.
fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let path = entry.map_err(at(directory))?.path();
        if path.is_file() {
            found.push(path);
        } else if path.ends_with("src") || path.ends_with("bin") {
            found.extend(files(&path)?);
        }
    }
    found.sort();
    Ok(found)
}
