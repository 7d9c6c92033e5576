//! The transcript of a session: a private file with one line for each message, for hooks that read it.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{append, state_folder};

/// Files of crashed runs are removed after this time.
const MAX_AGE: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// The folder of the transcripts. Removes files of earlier runs. The error says why there is none.
pub(crate) fn folder(chosen: Option<&Path>) -> Result<PathBuf, String> {
    let folder = match chosen {
        Some(folder) => folder.to_owned(),
        None => state_folder::path().ok_or("there is no home directory")?.join("hooks"),
    };
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    state_folder::create_private(&folder).map_err(|error| failed(&error))?;
    for file in std::fs::read_dir(&folder).map_err(|error| failed(&error))?.flatten() {
        let age =
            file.metadata().and_then(|it| it.modified()).ok().and_then(|it| it.elapsed().ok());
        let is_ours = file.path().extension().is_some_and(|it| it == "jsonl");
        if is_ours && age.is_some_and(|age| age > MAX_AGE) {
            let _ = std::fs::remove_file(file.path());
        }
    }
    Ok(folder)
}

/// The file of a session. Two conductors may have sessions with the same id.
pub(crate) fn path(folder: &Path, session: &str) -> PathBuf {
    let hash = Sha256::digest(session.as_bytes());
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!("{}-{hash}.jsonl", std::process::id()))
}

/// Adds a message to a transcript. Creates the file if it does not exist.
pub(crate) fn add(path: &Path, role: &str, text: Option<&str>) -> Result<(), String> {
    let mut file = append::open(path)?;
    if let Some(text) = text {
        let message = json!({ "type": role, "message": { "role": role, "content": text } });
        file.write_all(format!("{message}\n").as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(())
}
