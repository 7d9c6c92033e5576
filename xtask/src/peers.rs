//! `cargo xtask peers`: builds the programs under `peers/` and the reference conductor into the cache,
//! and writes down their command lines for the tests (`testkit::peers`).

mod place;
mod rust;
mod scripts;
mod tool;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::peers::{cache, index, quote};

use place::at;
pub use tool::need;

const REFERENCE: &str = "agent-client-protocol-conductor";
const REFERENCE_VERSION: &str = "5.0.0";

/// Builds what is missing and writes the index. Returns the index's path.
pub fn ensure() -> Result<PathBuf, String> {
    let mut commands = Commands::new();
    rust::current(&mut commands)?;
    rust::generations(&mut commands)?;
    scripts::typescript(&mut commands)?;
    scripts::python(&mut commands)?;
    let reference = crate::cache::install(REFERENCE, REFERENCE_VERSION, REFERENCE)?;
    commands.insert("reference", quoted([reference]));

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
