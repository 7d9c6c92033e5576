//! The client of `conductor reload`.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::{AT_REST, NOW, Progress, Report};
use crate::status::socket::{self, CONTROL};

/// The process ids of this user's chains that can be reloaded.
///
/// # Errors
/// Only on systems without Unix sockets.
pub fn chains() -> Result<Vec<u32>, String> {
    Ok(sockets().into_keys().collect())
}

fn sockets() -> BTreeMap<u32, PathBuf> {
    let found = socket::directories();
    let found = found.iter().filter_map(|directory| socket::sockets(directory, CONTROL).ok());
    found.flatten().collect()
}

/// Reloads the configuration of a chain. With `now`, components that leave or are restarted need not answer all requests
/// before. `waiting` is called with what the chain waits for. `None`: the chain has ended, or
/// never existed.
///
/// # Errors
/// The conductor cannot be asked.
pub async fn reload(
    pid: u32,
    now: bool,
    mut waiting: impl FnMut(&str),
) -> Result<Option<Report>, String> {
    let Some(path) = sockets().remove(&pid) else { return Ok(None) };
    let mut stream = match UnixStream::connect(&path).await {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            // The conductor was killed and left its socket behind.
            let _ = std::fs::remove_file(&path);
            return Ok(None);
        }
        Err(error) => return Err(format!("conductor {pid} cannot be asked: {error}")),
    };
    let owner = stream.peer_cred().map_err(|error| error.to_string())?;
    if owner.uid() != socket::current_user() {
        return Err(format!("the socket of conductor {pid} belongs to another user"));
    }
    // If the conductor ends meanwhile, reading fails.
    let _ = stream.write_u8(if now { NOW } else { AT_REST }).await;
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let progress = serde_json::from_str(&line).map_err(|error| {
            format!("conductor {pid} sent an answer that this version cannot read: {error}")
        })?;
        match progress {
            Progress::Waiting { why } => waiting(&why),
            Progress::Done(report) => return Ok(Some(*report)),
        }
    }
    Err(format!("conductor {pid} ended before it had reloaded its configuration"))
}
