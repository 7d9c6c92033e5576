//! The transcript of a session: a private file with one line for each message, for hooks that read it.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};

use component_base::{append, state_folder};

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
        let is_over = process_of(&file.path()).is_some_and(|it| !is_running(it));
        if is_over && age.is_some_and(|age| age > MAX_AGE) {
            let _ = std::fs::remove_file(file.path());
        }
    }
    Ok(folder)
}

/// The process that has written a transcript. `None` if the file is not one: the user may have chosen a folder with other
/// files.
fn process_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    let (process, hash) = name.split_once('-')?;
    let is_hash =
        hash.len() == 16 && hash.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    let process = process.parse().ok().filter(|it: &u32| it.to_string() == process)?;
    is_hash.then_some(process)
}

/// Whether a process runs. Sessions of a long run may be older than the files that are removed.
#[cfg(unix)]
fn is_running(process: u32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|it| !matches!(test_kill_process(it), Err(Errno::SRCH)))
}

/// Whether a process runs. An open file cannot be removed, so the answer matters less.
#[cfg(not(unix))]
fn is_running(process: u32) -> bool {
    process == std::process::id()
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_transcripts_of_earlier_runs_are_removed() {
        let chosen = std::env::temp_dir().join(format!("transcripts-{}", std::process::id()));
        std::fs::create_dir_all(&chosen).unwrap();
        let ours = path(&chosen, "s").file_name().unwrap().to_str().unwrap().to_owned();
        let hash = "0123456789abcdef";
        // No process has such a number.
        let old = format!("4194305000-{hash}.jsonl");
        let names = [
            "notes.jsonl",
            "2026-11.jsonl",
            "1-x.jsonl",
            "sub-0123456789abcdef.jsonl",
            &ours,
            &old,
        ];
        for name in names {
            let file = std::fs::File::create(chosen.join(name)).unwrap();
            file.set_modified(SystemTime::now() - 2 * MAX_AGE).unwrap();
        }
        let recent = format!("4194305001-{hash}.jsonl");
        std::fs::write(chosen.join(&recent), "").unwrap();
        folder(Some(&chosen)).unwrap();
        let mut left: Vec<String> = std::fs::read_dir(&chosen)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = [&names[..5], &[&recent]].concat();
        expected.sort_unstable();
        assert_eq!(left, expected);
        std::fs::remove_dir_all(&chosen).unwrap();
    }
}
