//! The status socket of a chain.

use std::fs;
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, warn};

use super::{Status, socket};

/// The time that a client has to read its answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The number of clients that are served at once. Others wait in the backlog of the socket.
const MAX_CLIENTS: usize = 8;

/// The delay after a failed `accept`.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A client waits for a snapshot, which is sent here.
pub(crate) type StatusRequest = oneshot::Sender<Status>;

/// Accepts status requests. Dropping it disconnects the clients and removes the socket.
#[derive(Debug)]
pub(crate) struct StatusServer {
    path: PathBuf,
    requests: Receiver<StatusRequest>,
    listening: JoinHandle<()>,
}

impl StatusServer {
    /// Opens the socket. If that fails, logs a warning: the chain does not depend on it.
    pub(crate) fn open() -> Option<StatusServer> {
        let mut errors = Vec::new();
        for directory in socket::directories() {
            match socket::bind(&directory, socket::STATUS)
                .and_then(|(it, path)| Ok((UnixListener::from_std(it)?, path)))
            {
                Ok((listener, path)) => {
                    debug!(path = %path.display(), errors = errors.join("; "), "listening for `conductor status`");
                    let (sender, requests) = channel(MAX_CLIENTS);
                    let listening = tokio::spawn(listen(listener, sender));
                    return Some(StatusServer { path, requests, listening });
                }
                Err(error) => errors.push(format!("{}: {error}", directory.display())),
            }
        }
        warn!(
            "`conductor status` will not show this chain: cannot create a socket ({})",
            errors.join("; ")
        );
        None
    }

    /// The next request for a snapshot.
    pub(crate) fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Option<StatusRequest>> {
        self.requests.poll_recv(cx)
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        self.listening.abort();
        let _ = fs::remove_file(&self.path);
    }
}

async fn listen(listener: UnixListener, sender: Sender<StatusRequest>) {
    // Dropping the set ends the tasks of all clients.
    let mut clients = JoinSet::new();
    loop {
        while clients.len() >= MAX_CLIENTS {
            clients.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let answered = tokio::time::timeout(TIMEOUT, answer(stream, sender.clone()));
                clients.spawn(async { drop(answered.await) });
            }
            // For example, the process has run out of file descriptors.
            Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
        }
    }
}

/// Sends a snapshot to one client, if it belongs to the same user.
async fn answer(mut stream: UnixStream, sender: Sender<StatusRequest>) -> Option<()> {
    stream.peer_cred().ok().filter(|peer| peer.uid() == socket::current_user())?;
    let (request, answer) = oneshot::channel();
    sender.send(request).await.ok()?;
    let mut line = serde_json::to_vec(&answer.await.ok()?).ok()?;
    line.push(b'\n');
    stream.write_all(&line).await.ok()?;
    stream.shutdown().await.ok()
}
