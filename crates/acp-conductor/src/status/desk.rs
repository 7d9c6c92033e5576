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
const PATIENCE: Duration = Duration::from_secs(2);

/// How many clients are served at once. More wait to be accepted.
const MOST_AT_ONCE: usize = 8;

/// After a failure to accept.
const RETRY: Duration = Duration::from_millis(100);

/// Somebody asks how we are.
pub type Question = oneshot::Sender<Status>;

/// Takes the questions. Dropping it ends everything about it and removes the socket.
#[derive(Debug)]
pub struct Desk {
    path: PathBuf,
    questions: Receiver<Question>,
    listening: JoinHandle<()>,
}

impl Desk {
    /// Opens the socket. The chain does as well without one.
    pub fn open() -> Option<Desk> {
        let mut flaws = Vec::new();
        for directory in socket::directories() {
            match socket::bind(&directory)
                .and_then(|(it, path)| Ok((UnixListener::from_std(it)?, path)))
            {
                Ok((listener, path)) => {
                    debug!(path = %path.display(), flaws = flaws.join("; "), "conductor status asks here");
                    let (ask, questions) = channel(MOST_AT_ONCE);
                    let listening = tokio::spawn(listen(listener, ask));
                    return Some(Desk { path, questions, listening });
                }
                Err(error) => flaws.push(format!("{}: {error}", directory.display())),
            }
        }
        warn!(
            "conductor status cannot show this chain: there is no place for a socket ({})",
            flaws.join("; ")
        );
        None
    }

    pub fn poll_question(&mut self, cx: &mut Context<'_>) -> Poll<Option<Question>> {
        self.questions.poll_recv(cx)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.listening.abort();
        // It may be gone, and that is what we want.
        let _ = fs::remove_file(&self.path);
    }
}

async fn listen(listener: UnixListener, ask: Sender<Question>) {
    // Those who are served end with us.
    let mut clients = JoinSet::new();
    loop {
        while clients.len() >= MOST_AT_ONCE {
            clients.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let answered = tokio::time::timeout(PATIENCE, answer(stream, ask.clone()));
                clients.spawn(async { drop(answered.await) });
            }
            // Out of descriptors, perhaps; that may pass.
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Tells one client, if it is of our own user.
async fn answer(mut stream: UnixStream, ask: Sender<Question>) -> Option<()> {
    stream.peer_cred().ok().filter(|peer| peer.uid() == socket::user())?;
    let (question, answer) = oneshot::channel();
    ask.send(question).await.ok()?;
    let mut line = serde_json::to_vec(&answer.await.ok()?).ok()?;
    line.push(b'\n');
    stream.write_all(&line).await.ok()?;
    stream.shutdown().await.ok()
}
