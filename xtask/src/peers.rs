//! `cargo xtask peers`: builds the programs under `peers/` and the reference conductor into the cache,
//! and writes down their command lines for the tests (`testkit::peers`).

mod place;
mod rust;
mod scripts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, thread};

pub use rust::optimised_proxy;
use testkit::peers::{cache, index, quote};

use crate::cache::Workshop;
use crate::tool::at;

/// Builds what is missing and writes the index. Returns the index's path.
pub fn ensure() -> Result<PathBuf, String> {
    let workshop = Workshop::open()?;
    let index = build(&workshop)?;
    workshop.close();
    Ok(index)
}

/// As [`ensure`], in a workshop that is used for other programs, too.
pub fn build(workshop: &Workshop) -> Result<PathBuf, String> {
    let mut commands = Commands::new();
    let (compiled, scripts) = thread::scope(|scope| {
        // These wait for the network most of the time, and leave the processors to the compiler.
        let scripts = scope.spawn(|| {
            let mut commands = Commands::new();
            scripts::typescript(&mut commands)?;
            scripts::python(&mut commands)?;
            Ok::<Commands, String>(commands)
        });
        let compiled = rust::ensure(workshop, &mut commands);
        (compiled, scripts.join().unwrap_or_else(|_| Err("the scripts' thread panicked".into())))
    });
    compiled?;
    commands.extend(scripts?);

    let text = serde_json::to_string_pretty(&commands).expect("strings are JSON");
    // Moved into place, so that a test never reads half of it.
    let fresh = cache().join(format!("peers.json.{}", std::process::id()));
    fs::write(&fresh, text + "\n").map_err(at(&fresh))?;
    fs::rename(&fresh, index()).map_err(at(&index()))?;
    Ok(index())
}

/// The command line of each peer by its name.
type Commands = BTreeMap<&'static str, String>;

fn quoted<const N: usize>(words: [impl AsRef<Path>; N]) -> String {
    words.map(|it| quote(&it.as_ref().display().to_string())).join(" ")
}
