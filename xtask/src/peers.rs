//! `cargo xtask peers`: builds the programs in `peers/` and the reference conductor into the cache, and writes an index
//! of their command lines for the tests (`testkit::peers`).

pub mod build_cache;
mod rust;
mod scripts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, thread};

pub use rust::optimised_proxy;

use crate::cache::ThirdPartyBuilds;
use crate::places::{cache, index, quote};
use crate::tool::at;

/// Builds the missing peers and writes the index. Returns the path of the index.
pub fn ensure() -> Result<PathBuf, String> {
    let builds = ThirdPartyBuilds::open()?;
    let index = build(&builds)?;
    builds.close();
    Ok(index)
}

/// As [`ensure`], in a builds that is used for other programs, too.
pub fn build(builds: &ThirdPartyBuilds) -> Result<PathBuf, String> {
    let mut commands = Commands::new();
    let (compiled, scripts) = thread::scope(|scope| {
        // The scripts mostly wait for the network, so they run while the Rust peers compile.
        let scripts = scope.spawn(|| {
            let mut commands = Commands::new();
            scripts::typescript(&mut commands)?;
            scripts::python(&mut commands)?;
            Ok::<Commands, String>(commands)
        });
        let compiled = rust::ensure(builds, &mut commands);
        (compiled, scripts.join().unwrap_or_else(|_| Err("the scripts' thread panicked".into())))
    });
    compiled?;
    commands.extend(scripts?);

    let text = serde_json::to_string_pretty(&commands).expect("strings are JSON");
    // Renamed after writing, so that a test never reads an incomplete file.
    let fresh = cache().join(format!("peers.json.{}", std::process::id()));
    fs::write(&fresh, text + "\n").map_err(at(&fresh))?;
    fs::rename(&fresh, index()).map_err(at(&index()))?;
    Ok(index())
}

/// The command lines of the peers, by name.
type Commands = BTreeMap<&'static str, String>;

fn quoted<const N: usize>(words: [impl AsRef<Path>; N]) -> String {
    words.map(|it| quote(&it.as_ref().display().to_string())).join(" ")
}
