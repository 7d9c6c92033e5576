//! The relay of an SCP proxy: `conductor relay PORT`.
//!
//! An SCP proxy starts its successor itself. The conductor tells it to start `conductor relay PORT`, which
//! connects its standard streams to the running conductor on loopback. The connection begins with a secret
//! from the environment, so that other users of the machine cannot connect.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use acp_wire::Json;
use acp_wire::json::write_string;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream as TcpStreamAsync};
use tokio::sync::mpsc::UnboundedSender;

use crate::own_program;
use crate::secret::{constant_time_eq, random_token};
use crate::unauthenticated::Unauthenticated;

/// The environment variable with the secret.
pub const SECRET: &str = "CONDUCTOR_SECRET";

/// The delay after a failed `accept`.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Waits for the connection of one relay.
pub struct RelayListener {
    port: u16,
    secret: String,
    waiting: tokio::task::JoinHandle<()>,
}

impl RelayListener {
    /// Opens a port on loopback. Sends the first authenticated connection to `connected`, with `tag`.
    pub fn open<T: Send + 'static>(
        tag: T,
        connected: UnboundedSender<(T, TcpStreamAsync)>,
    ) -> io::Result<RelayListener> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let listener = TcpListener::from_std(listener)?;
        let secret = random_token()?;
        let expected = secret.clone();
        let waiting = tokio::spawn(async move {
            let stream = accept(listener, &expected).await;
            // Fails if the chain has ended.
            let _ = connected.send((tag, stream));
        });
        Ok(RelayListener { port, secret, waiting })
    }

    /// The params of `_scp/proxy`, with the relay as the only successor.
    pub fn scp_proxy_params(&self) -> io::Result<Json> {
        let program = own_program::path()?;
        let mut out = b"{\"servers\":[{\"name\":\"conductor\",\"command\":".to_vec();
        write_string(&program, &mut out);
        out.extend_from_slice(
            format!(",\"args\":[\"relay\",\"{}\"],\"env\":[", self.port).as_bytes(),
        );
        out.extend_from_slice(
            format!("{{\"name\":\"{SECRET}\",\"value\":\"{}\"}}]}}]}}", self.secret).as_bytes(),
        );
        Ok(Json::trusted(out))
    }
}

/// Omits the secret.
impl std::fmt::Debug for RelayListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayListener").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Drop for RelayListener {
    fn drop(&mut self) {
        self.waiting.abort();
    }
}

/// The first connection that begins with the secret. Other connections are closed. A silent connection does
/// not delay the others.
async fn accept(listener: TcpListener, secret: &str) -> TcpStreamAsync {
    let (found, mut authenticated) = tokio::sync::mpsc::channel(1);
    let unauthenticated = Unauthenticated::default();
    loop {
        let stream = tokio::select! {
            Some(stream) = authenticated.recv() => return stream,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // For example, the process has run out of file descriptors.
                Err(_) => {
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            },
        };
        let slot = unauthenticated.add(&stream).await;
        let (found, expected) = (found.clone(), format!("{secret}\n"));
        tokio::spawn(async move {
            let mut stream = stream;
            let mut received = vec![0; expected.len()];
            let read =
                slot.authenticate(async { stream.read_exact(&mut received).await.ok() }).await;
            if read.is_some() && constant_time_eq(&received, expected.as_bytes()) {
                let _ = stream.set_nodelay(true);
                // Fails if another connection was faster or the chain has ended. Then the connection closes.
                let _ = found.send(stream).await;
            }
        });
        // Lets accepted connections authenticate before a new one can evict them.
        tokio::task::yield_now().await;
    }
}

/// `conductor relay PORT`: copies between the standard streams and a running conductor until either side
/// closes.
///
/// # Errors
/// The connection failed, or there is no secret in the environment.
pub fn run(port: u16) -> Result<(), String> {
    let secret = std::env::var(SECRET).map_err(|_| {
        format!("{SECRET} is not set; this command is only for SCP proxies, which get the secret from their conductor")
    })?;
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .map_err(|error| format!("no conductor is listening on port {port}: {error}"))?;
    let failed = |error: io::Error| format!("lost the connection to the conductor: {error}");
    stream.set_nodelay(true).map_err(failed)?;
    stream.write_all(format!("{secret}\n").as_bytes()).map_err(failed)?;
    let mut sending = stream.try_clone().map_err(failed)?;
    std::thread::spawn(move || {
        let _ = copy(&mut io::stdin().lock(), &mut sending);
        let _ = sending.shutdown(Shutdown::Write);
    });
    copy(&mut stream, &mut io::stdout().lock()).map_err(failed)
}

/// Copies and flushes each chunk as it arrives.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&buffer[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
