//! Gives the built files of the pages a version, so that browsers notice new ones.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=dist");
    let mut hasher = DefaultHasher::new();
    add(Path::new("dist"), &mut hasher)?;
    println!("cargo::rustc-env=CONDUCTOR_WEB_BUILD={:016x}", hasher.finish());
    Ok(())
}

/// Adds the files of a folder, in the order of their names.
fn add(folder: &Path, hasher: &mut DefaultHasher) -> std::io::Result<()> {
    let mut paths: Vec<_> =
        folder.read_dir()?.map(|it| it.map(|it| it.path())).collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => add(&path, hasher)?,
            false => (path.as_os_str().as_encoded_bytes(), std::fs::read(&path)?).hash(hasher),
        }
    }
    Ok(())
}
