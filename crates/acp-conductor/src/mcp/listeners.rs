//! The listeners, opened when the first ticket of their kind is admitted, and who may call.
//!
//! There is one listener for each way to call, for the whole conductor. It is on loopback, but so
//! is everybody else on the machine: each ticket has a secret of its own.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp::{ClientId, Ticket, Transport};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{ClientEventSender, http, stdio};
use crate::relay::SECRET;
use crate::secret::{constant_time_eq, random_token};
use crate::unauthenticated::{Slot, Unauthenticated};

/// After a failure to accept.
pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Opens the places where MCP clients call. Dropping it closes them and ends all calls.
pub struct Listeners {
    context: ListenerContext,
    stdio: Option<OpenListener>,
    http: Option<OpenListener>,
    /// One task for each listener that was opened. One that is closed stays until its calls are over.
    listening: JoinSet<()>,
}

/// What every listener needs.
#[derive(Clone)]
pub(super) struct ListenerContext {
    pub events: ClientEventSender,
    pub longest_line: usize,
    client_ids: Arc<AtomicU64>,
}

impl ListenerContext {
    pub fn next_client(&self) -> ClientId {
        ClientId(self.client_ids.fetch_add(1, Ordering::Relaxed))
    }
}

/// An open listener.
struct OpenListener {
    port: u16,
    credentials: Credentials,
    /// Dropped to close it.
    _open: watch::Sender<()>,
}

/// Who may call.
#[derive(Clone, Default)]
pub(super) struct Credentials(Arc<Mutex<BTreeMap<Ticket, Credential>>>);

struct Credential {
    secret: String,
    /// The end of the path, for HTTP.
    word: String,
}

impl Listeners {
    pub fn new(events: ClientEventSender, longest_line: usize) -> Listeners {
        let context = ListenerContext { events, longest_line, client_ids: Arc::default() };
        Listeners { context, stdio: None, http: None, listening: JoinSet::new() }
    }

    /// The listener for this way to call. Opened now if it is not.
    fn listener(&mut self, transport: Transport) -> io::Result<&OpenListener> {
        let slot = match transport {
            Transport::Stdio => &mut self.stdio,
            Transport::Http => &mut self.http,
        };
        if slot.is_none() {
            // Those that are over need no place any more.
            while self.listening.try_join_next().is_some() {}
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            let listener = TcpListener::from_std(listener)?;
            let credentials = Credentials::default();
            let (open, closing) = watch::channel(());
            let context = self.context.clone();
            match transport {
                Transport::Stdio => self.listening.spawn(stdio::listen(
                    listener,
                    credentials.clone(),
                    context,
                    closing,
                )),
                Transport::Http => self.listening.spawn(http::listen(
                    listener,
                    credentials.clone(),
                    context,
                    closing,
                )),
            };
            *slot = Some(OpenListener { port, credentials, _open: open });
        }
        slot.as_ref().ok_or_else(|| io::Error::other("the listener did not open"))
    }

    fn try_open_endpoint(
        &mut self,
        transport: Transport,
        ticket: Ticket,
    ) -> io::Result<mcp::Endpoint> {
        let program = std::env::current_exe()?;
        let program =
            program.to_str().ok_or_else(|| io::Error::other("our own path is not UTF-8"))?;
        let (secret, word) = (random_token()?, random_token()?);
        let listener = self.listener(transport)?;
        let port = listener.port;
        let place = match transport {
            Transport::Stdio => mcp::Endpoint::Stdio {
                program: program.to_owned(),
                port,
                variable: SECRET.to_owned(),
                secret: secret.clone(),
            },
            Transport::Http => mcp::Endpoint::Http {
                url: format!("http://127.0.0.1:{port}{}{word}", http::PATH),
                secret: secret.clone(),
            },
        };
        listener.credentials.table().insert(ticket, Credential { secret, word });
        Ok(place)
    }

    /// Opens a place where the holder of this ticket may call, from now on.
    pub fn open_endpoint(
        &mut self,
        transport: Transport,
        ticket: Ticket,
    ) -> Result<mcp::Endpoint, String> {
        self.try_open_endpoint(transport, ticket).map_err(|error| {
            format!("cannot listen for MCP clients ({}): {error}", transport.name())
        })
    }

    /// Turns away who comes with this ticket from now on. Those who have called stay.
    pub fn revoke(&mut self, ticket: Ticket) {
        for listener in [&mut self.stdio, &mut self.http] {
            let last = listener.as_ref().is_some_and(|open| {
                let mut credentials = open.credentials.table();
                credentials.remove(&ticket).is_some() && credentials.is_empty()
            });
            if last {
                *listener = None;
            }
        }
    }
}

/// Without the secrets.
impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let port =
            |listener: &Option<OpenListener>| listener.as_ref().map(|listener| listener.port);
        f.debug_struct("Listeners")
            .field("stdio", &port(&self.stdio))
            .field("http", &port(&self.http))
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Whose secret this is. Looks at every one, so that its time tells nothing.
    pub fn by_secret(&self, said: &[u8]) -> Option<Ticket> {
        let mut found = None;
        for (ticket, credential) in self.table().iter() {
            if constant_time_eq(credential.secret.as_bytes(), said) {
                found = Some(*ticket);
            }
        }
        found
    }

    /// Whose path this is, and whether the secret is right, too.
    pub fn by_path(&self, word: &str, said: &[u8]) -> Option<(Ticket, bool)> {
        let table = self.table();
        let (ticket, credential) = table.iter().find(|(_, credential)| credential.word == word)?;
        Some((*ticket, constant_time_eq(credential.secret.as_bytes(), said)))
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<Ticket, Credential>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts connections.
pub(super) struct Acceptor {
    listener: TcpListener,
    unauthenticated: Unauthenticated,
}

impl Acceptor {
    pub fn new(listener: TcpListener) -> Acceptor {
        Acceptor { listener, unauthenticated: Unauthenticated::default() }
    }

    /// The place that a connection has until it has shown that it may call.
    pub async fn reserve_slot(&self, stream: &TcpStream) -> Slot {
        self.unauthenticated.add(stream).await
    }

    /// The next connection. Nothing is lost if this is not waited for to the end.
    pub async fn next(&self) -> TcpStream {
        // Those that were accepted before have their turn first: they may have shown it already.
        tokio::task::yield_now().await;
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    return stream;
                }
                // Out of descriptors, perhaps; that may pass.
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            }
        }
    }
}
