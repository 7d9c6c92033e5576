//! The client of `conductor status`: finds the sockets of this user's conductors and queries them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::{QueryResult, Status, Unresponsive, socket};

/// How often a caller is told which conductors have not answered yet.
const WAIT_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum length of an answer.
const MAX_LENGTH: u64 = 64 * 1024 * 1024;

/// Queries all conductors of this user, or the one with this process id. Conductors that do not answer within `timeout`
/// are unresponsive. Calls `waiting` once a second with the process ids of the conductors that have not answered yet.
///
/// # Errors
/// The system is not supported.
pub async fn query(
    wanted: Option<u32>,
    timeout: Duration,
    mut waiting: impl FnMut(&BTreeSet<u32>),
) -> Result<QueryResult, String> {
    let mut found = QueryResult::default();
    let mut unanswered = BTreeSet::new();
    // In parallel, so that an unresponsive conductor does not delay the others.
    let mut queries = JoinSet::new();
    for directory in socket::directories() {
        let sockets = match socket::sockets(&directory, socket::STATUS) {
            Ok(sockets) => sockets,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                found
                    .unreadable
                    .push(format!("cannot search {} for conductors: {error}", directory.display()));
                continue;
            }
        };
        for (pid, path) in sockets {
            if wanted.is_none_or(|wanted| wanted == pid) {
                unanswered.insert(pid);
                queries.spawn(async move { (pid, query_one(&path, timeout).await) });
            }
        }
    }
    loop {
        let answered = match tokio::time::timeout(WAIT_INTERVAL, queries.join_next()).await {
            Err(_) => {
                waiting(&unanswered);
                continue;
            }
            Ok(None) => break,
            Ok(Some(answered)) => answered,
        };
        if let Ok((pid, _)) = &answered {
            unanswered.remove(pid);
        }
        match answered {
            Ok((_, Ok(Some(status)))) => found.running.push(status),
            Ok((_, Ok(None))) | Err(_) => {}
            Ok((pid, Err(why))) => found.unresponsive.push(Unresponsive { pid, why }),
        }
    }
    found.running.sort_by_key(|status| status.pid);
    found.unresponsive.sort_by_key(|it| it.pid);
    Ok(found)
}

/// Queries one conductor. Returns `None` if it has exited.
async fn query_one(path: &Path, timeout: Duration) -> Result<Option<Status>, String> {
    match tokio::time::timeout(timeout, read(path)).await {
        Err(_) => Err("does not answer; its process may be stopped".into()),
        Ok(Ok(line)) if line.is_empty() => Ok(None),
        Ok(Ok(line)) => serde_json::from_slice(&line).map(Some).map_err(|error| {
            format!("sent a status that this version of conductor cannot parse: {error}")
        }),
        Ok(Err(error)) => match error.kind() {
            // The conductor was killed and left its socket behind.
            io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(path);
                Ok(None)
            }
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Ok(None),
            _ => Err(format!("cannot be queried: {error}")),
        },
    }
}

async fn read(path: &Path) -> io::Result<Vec<u8>> {
    let stream = UnixStream::connect(path).await?;
    if stream.peer_cred()?.uid() != socket::current_user() {
        return Err(io::Error::other("the socket belongs to a process of another user"));
    }
    let mut line = Vec::new();
    stream.take(MAX_LENGTH).read_to_end(&mut line).await?;
    Ok(line)
}
