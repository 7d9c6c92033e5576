//! The client of `conductor status`: finds the sockets of this user's conductors and queries them.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::{QueryResult, Status, socket};

/// The time that a conductor has to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum length of an answer.
const MAX_LENGTH: u64 = 64 * 1024 * 1024;

/// Queries all conductors of this user, or the one with this process id.
///
/// # Errors
/// The conductor with this process id does not answer.
pub fn query(pid: Option<u32>) -> Result<QueryResult, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime.map_err(|error| error.to_string())?.block_on(query_all(pid));
    match pid {
        Some(pid) if found.running.is_empty() => Err(no_answer(pid, &found)),
        _ => Ok(found),
    }
}

/// The error message if the conductor with this process id did not answer.
fn no_answer(pid: u32, found: &QueryResult) -> String {
    if !found.unresponsive.is_empty() {
        return found.unresponsive.join("; ");
    }
    let text = format!(
        "no conductor with process id {pid} is running, or it was started with --status off; \
         `conductor status` lists the running conductors"
    );
    [&[text], &*found.unreadable].concat().join("; ")
}

async fn query_all(wanted: Option<u32>) -> QueryResult {
    let mut found = QueryResult::default();
    // In parallel, so that an unresponsive conductor does not delay the others.
    let mut queries = JoinSet::new();
    for directory in socket::directories() {
        let sockets = match socket::sockets(&directory) {
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
                queries.spawn(async move { (pid, query_one(&path).await) });
            }
        }
    }
    while let Some(answered) = queries.join_next().await {
        match answered {
            Ok((_, Ok(Some(status)))) => found.running.push(status),
            Ok((_, Ok(None))) | Err(_) => {}
            Ok((pid, Err(why))) => found.unresponsive.push(format!("conductor {pid} {why}")),
        }
    }
    found.running.sort_by_key(|status| status.pid);
    found.unresponsive.sort();
    found
}

/// Queries one conductor. Returns `None` if it has exited.
async fn query_one(path: &Path) -> Result<Option<Status>, String> {
    match tokio::time::timeout(TIMEOUT, read(path)).await {
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
