//! The chain's end of the socket.

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

/// How long a client may take to read its answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How many clients are served at once. More wait to be accepted.
const MAX_CLIENTS: usize = 8;

/// After a failure to accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Somebody asks how we are.
pub type StatusRequest = oneshot::Sender<Status>;

/// Takes the requests. Dropping it ends everything about it and removes the socket.
#[derive(Debug)]
pub struct StatusServer {
    path: PathBuf,
    requests: Receiver<StatusRequest>,
    listening: JoinHandle<()>,
}

impl StatusServer {
    /// Opens the socket. The chain does as well without one.
    pub fn open() -> Option<StatusServer> {
        let mut errors = Vec::new();
        for directory in socket::directories() {
            match socket::bind(&directory)
                .and_then(|(it, path)| Ok((UnixListener::from_std(it)?, path)))
            {
                Ok((listener, path)) => {
                    debug!(path = %path.display(), errors = errors.join("; "), "conductor status asks here");
                    let (sender, requests) = channel(MAX_CLIENTS);
                    let listening = tokio::spawn(listen(listener, sender));
                    return Some(StatusServer { path, requests, listening });
                }
                Err(error) => errors.push(format!("{}: {error}", directory.display())),
            }
        }
        warn!(
            "conductor status cannot show this chain: there is no place for a socket ({})",
            errors.join("; ")
        );
        None
    }

    pub fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Option<StatusRequest>> {
        self.requests.poll_recv(cx)
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        self.listening.abort();
        // It may be gone, and that is what we want.
        let _ = fs::remove_file(&self.path);
    }
}

async fn listen(listener: UnixListener, sender: Sender<StatusRequest>) {
    // Those who are served end with us.
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
            // Out of descriptors, perhaps; that may pass.
            Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
        }
    }
}

/// Tells one client, if it is of our own user.
async fn answer(mut stream: UnixStream, sender: Sender<StatusRequest>) -> Option<()> {
    stream.peer_cred().ok().filter(|peer| peer.uid() == socket::current_user())?;
    let (request, answer) = oneshot::channel();
    sender.send(request).await.ok()?;
    let mut line = serde_json::to_vec(&answer.await.ok()?).ok()?;
    line.push(b'\n');
    stream.write_all(&line).await.ok()?;
    stream.shutdown().await.ok()
}
