//! The sessions that have the identity, in a file: a component that is restarted in a process of its own knows nothing else
//! of before.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::store::{self, NoteFile};

/// How many sessions are remembered.
const MAX_SESSIONS: usize = 1000;

/// Whether a session has the identity. A file that cannot be read has no sessions.
pub(super) fn contains(folder: &Path, session: &str) -> bool {
    let key = key(session);
    file(folder).read().is_ok_and(|text| text.lines().any(|it| it == key))
}

/// Notes whether a session has the identity.
pub(super) async fn set(folder: &Path, session: &str, is_loaded: bool) -> Result<(), String> {
    let key = key(session);
    let _lock = store::lock(folder).await?;
    let file = file(folder);
    let text = file.read()?;
    let mut lines: Vec<&str> = text.lines().filter(|it| *it != key).collect();
    lines.extend(is_loaded.then_some(key.as_str()));
    let first = lines.len().saturating_sub(MAX_SESSIONS);
    file.write(&lines[first..].iter().map(|it| format!("{it}\n")).collect::<String>())
}

fn file(folder: &Path) -> NoteFile {
    NoteFile { root: folder.to_owned(), inside: "loaded".into() }
}

/// What is written of a session: nobody can resume it with that.
fn key(session: &str) -> String {
    let hash = Sha256::digest(session.as_bytes());
    hash.iter().take(12).map(|it| format!("{it:02x}")).collect()
}
