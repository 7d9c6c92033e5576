//! Compresses the built files of the pages, and gives them a version, so that browsers notice new ones.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=dist");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("dist");
    let mut hasher = DefaultHasher::new();
    add(Path::new("dist"), &out, &mut hasher)?;
    println!("cargo::rustc-env=CONDUCTOR_WEB_BUILD={:016x}", hasher.finish());
    Ok(())
}

/// Adds the files of a folder to the hash, in the order of their names, and writes them compressed to another folder.
fn add(folder: &Path, out: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    fs::create_dir_all(out)?;
    let mut entries: Vec<_> = folder.read_dir()?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let (path, compressed) = (entry.path(), out.join(entry.file_name()));
        if path.is_dir() {
            add(&path, &compressed, hasher)?;
            continue;
        }
        let contents = fs::read(&path)?;
        (path.as_os_str().as_encoded_bytes(), &contents).hash(hasher);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&contents)?;
        fs::write(compressed, encoder.finish()?)?;
    }
    Ok(())
}
