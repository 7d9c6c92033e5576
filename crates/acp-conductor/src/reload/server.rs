//! The control socket of a chain: each client that connects asks for a reload, and is told what happens.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{Sender, unbounded_channel};
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, warn};

use super::running::ReloadRequest;
use super::{AT_REST, NOW, Progress};
use crate::status::socket::{self, CONTROL};

/// The number of clients that are served at once. Others wait in the backlog of the socket.
const MAX_CLIENTS: usize = 8;

/// The delay after a failed `accept`.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Accepts requests to reload. Dropping it disconnects the clients and removes the socket.
#[derive(Debug)]
pub(super) struct ReloadServer {
    path: PathBuf,
    listening: JoinHandle<()>,
}

impl ReloadServer {
    /// Opens the socket. If that fails, logs a warning: the signal SIGHUP still works.
    pub(super) fn open(requests: Sender<ReloadRequest>) -> Option<ReloadServer> {
        let mut errors = Vec::new();
        for directory in socket::directories() {
            match socket::bind(&directory, CONTROL)
                .and_then(|(it, path)| Ok((UnixListener::from_std(it)?, path)))
            {
                Ok((listener, path)) => {
                    debug!(path = %path.display(), "listening for `conductor reload`");
                    let listening = tokio::spawn(listen(listener, requests));
                    return Some(ReloadServer { path, listening });
                }
                Err(error) => errors.push(format!("{}: {error}", directory.display())),
            }
        }
        warn!(
            "`conductor reload` will not find this chain: cannot create a socket ({})",
            errors.join("; ")
        );
        None
    }
}

impl Drop for ReloadServer {
    fn drop(&mut self) {
        self.listening.abort();
        let _ = fs::remove_file(&self.path);
    }
}

async fn listen(listener: UnixListener, requests: Sender<ReloadRequest>) {
    // Dropping the set ends the tasks of all clients.
    let mut clients = JoinSet::new();
    loop {
        while clients.len() >= MAX_CLIENTS {
            clients.join_next().await;
        }
        let Ok((stream, _)) = listener.accept().await else {
            // For example, the process has run out of file descriptors.
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        let requests = requests.clone();
        clients.spawn(async move {
            let _ = serve(stream, requests).await;
        });
    }
}

/// Passes a request of the same user to the main loop, and writes what happens.
async fn serve(stream: UnixStream, requests: Sender<ReloadRequest>) -> Option<()> {
    stream.peer_cred().ok().filter(|peer| peer.uid() == socket::current_user())?;
    let (mut reader, mut writer) = stream.into_split();
    let now = match reader.read_u8().await.ok()? {
        NOW => true,
        AT_REST => false,
        _ => return None,
    };
    let (client, mut progress) = unbounded_channel::<Progress>();
    requests.send(ReloadRequest { client, now }).await.ok()?;
    loop {
        tokio::select! {
            next = progress.recv() => {
                let mut line = serde_json::to_vec(&next?).ok()?;
                line.push(b'\n');
                writer.write_all(&line).await.ok()?;
            }
            // A client sends nothing more: it has left.
            _ = reader.read_u8() => return None,
        }
    }
}
