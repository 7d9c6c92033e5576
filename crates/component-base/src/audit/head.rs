//! The head of an audit log: the number and the hash of its last record. A head that is kept elsewhere shows that the
//! end of the log was cut off.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::chain::MAX_SEQ;

/// How long a head command may run.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The last record of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The name of the file with the record.
    pub file: String,
    /// The number of the record.
    pub seq: u64,
    /// The hash of the record.
    pub hash: String,
    /// The time of the record.
    pub time: String,
}

fn last_line(bytes: &[u8]) -> &[u8] {
    let text = bytes.trim_ascii_end();
    let start = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    &text[start..]
}

impl Head {
    /// Reads a head. `None` if the file does not exist. Of several lines, which a `head_command` may have appended, the
    /// last one counts.
    ///
    /// # Errors
    /// The file cannot be read, or has no head.
    pub fn read(path: &Path) -> Result<Option<Head>, String> {
        match std::fs::read(path) {
            Ok(bytes) => match serde_json::from_slice::<Head>(last_line(&bytes)) {
                Ok(head) if head.seq > MAX_SEQ => Err("its number is too large".to_owned()),
                Ok(head) => Ok(Some(head)),
                Err(error) => Err(error.to_string()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Replaces the file. A reader sees either the old head or the new one.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = Path::new(&name);
        let _ = std::fs::remove_file(new);
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(new).and_then(|mut file| file.write_all(self.line().as_bytes()));
        let written = written.and_then(|()| std::fs::rename(new, path));
        if written.is_err() {
            let _ = std::fs::remove_file(new);
        }
        written
    }

    /// Runs a shell command with the head on standard input. Returns what went wrong.
    pub(super) fn send_to(&self, command: &str) -> Result<(), String> {
        let mut shell = match cfg!(windows) {
            true => Command::new("cmd"),
            false => Command::new("sh"),
        };
        shell.arg(if cfg!(windows) { "/C" } else { "-c" }).arg(command);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = shell.spawn().map_err(|error| error.to_string())?;
        if let Some(mut input) = child.stdin.take() {
            // A command that does not read its input is no failure.
            let _ = input.write_all(self.line().as_bytes());
        }
        let since = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(status.to_string()),
                Ok(None) if since.elapsed() < COMMAND_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(format!("it did not end in {} s", COMMAND_TIMEOUT.as_secs()));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}
