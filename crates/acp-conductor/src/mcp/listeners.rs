//! The listeners for MCP clients, and the authentication of clients.
//!
//! A conductor has at most one listener for each transport. It opens the listener for the first ticket and
//! closes it after the last. The listeners are on loopback, which every user of the machine can reach. So each
//! ticket has a secret.

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
use crate::own_program;
use crate::relay::SECRET;
use crate::secret::{constant_time_eq, random_token};
use crate::unauthenticated::{Slot, Unauthenticated};

/// The delay after a failed `accept`.
pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The listeners for MCP clients. Dropping it closes them and disconnects all clients.
pub struct Listeners {
    context: ListenerContext,
    stdio: Option<OpenListener>,
    http: Option<OpenListener>,
    /// One task for each listener. The task of a closed listener runs until its clients have disconnected.
    tasks: JoinSet<()>,
}

/// What all listeners share.
#[derive(Clone)]
pub(super) struct ListenerContext {
    pub events: ClientEventSender,
    pub max_line: usize,
    client_ids: Arc<AtomicU64>,
}

impl ListenerContext {
    /// A new client id.
    pub(crate) fn next_client(&self) -> ClientId {
        ClientId(self.client_ids.fetch_add(1, Ordering::Relaxed))
    }
}

/// An open listener.
struct OpenListener {
    port: u16,
    credentials: Credentials,
    /// Dropping it closes the listener.
    _open: watch::Sender<()>,
}

/// The credentials of all tickets of a listener.
#[derive(Clone, Default)]
pub(super) struct Credentials(Arc<Mutex<BTreeMap<Ticket, Credential>>>);

/// The credential of one ticket.
struct Credential {
    secret: String,
    /// The last segment of the URL path, for HTTP.
    path_token: String,
}

impl Listeners {
    /// No open listeners. The events of all clients are sent to `events`.
    pub fn new(events: ClientEventSender, max_line: usize) -> Listeners {
        let context = ListenerContext { events, max_line, client_ids: Arc::default() };
        Listeners { context, stdio: None, http: None, tasks: JoinSet::new() }
    }

    /// The listener of a transport. Opens it if necessary.
    fn listener(&mut self, transport: Transport) -> io::Result<&OpenListener> {
        let slot = match transport {
            Transport::Stdio => &mut self.stdio,
            Transport::Http => &mut self.http,
        };
        if slot.is_none() {
            // Removes the tasks that have finished.
            while self.tasks.try_join_next().is_some() {}
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            let listener = TcpListener::from_std(listener)?;
            let credentials = Credentials::default();
            let (open, closing) = watch::channel(());
            let context = self.context.clone();
            match transport {
                Transport::Stdio => {
                    self.tasks.spawn(stdio::listen(listener, credentials.clone(), context, closing))
                }
                Transport::Http => {
                    self.tasks.spawn(http::listen(listener, credentials.clone(), context, closing))
                }
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
        let program = own_program::path()?;
        let (secret, path_token) = (random_token()?, random_token()?);
        let listener = self.listener(transport)?;
        let port = listener.port;
        let endpoint = match transport {
            Transport::Stdio => mcp::Endpoint::Stdio {
                program,
                port,
                variable: SECRET.to_owned(),
                secret: secret.clone(),
            },
            Transport::Http => mcp::Endpoint::Http {
                url: format!("http://127.0.0.1:{port}{}{path_token}", http::PATH_PREFIX),
                secret: secret.clone(),
            },
        };
        listener.credentials.table().insert(ticket, Credential { secret, path_token });
        Ok(endpoint)
    }

    /// Opens an endpoint where clients with this ticket can connect.
    ///
    /// # Errors
    /// The listener could not be opened.
    pub fn open_endpoint(
        &mut self,
        transport: Transport,
        ticket: Ticket,
    ) -> Result<mcp::Endpoint, String> {
        self.try_open_endpoint(transport, ticket).map_err(|error| {
            format!("cannot listen for MCP clients ({}): {error}", transport.name())
        })
    }

    /// Rejects new clients with this ticket from now on. Connected clients stay connected.
    pub fn revoke(&mut self, ticket: Ticket) {
        for listener in [&mut self.stdio, &mut self.http] {
            let unused = listener.as_ref().is_some_and(|open| {
                let mut credentials = open.credentials.table();
                credentials.remove(&ticket).is_some() && credentials.is_empty()
            });
            if unused {
                *listener = None;
            }
        }
    }
}

/// Omits the secrets.
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
    /// The ticket with this secret. Compares all secrets, so that the duration reveals nothing.
    pub(crate) fn by_secret(&self, secret: &[u8]) -> Option<Ticket> {
        let mut found = None;
        for (ticket, credential) in self.table().iter() {
            if constant_time_eq(credential.secret.as_bytes(), secret) {
                found = Some(*ticket);
            }
        }
        found
    }

    /// The ticket with this path token, and whether the secret is correct.
    pub(crate) fn by_path(&self, path_token: &str, secret: &[u8]) -> Option<(Ticket, bool)> {
        let table = self.table();
        let (ticket, credential) =
            table.iter().find(|(_, credential)| credential.path_token == path_token)?;
        Some((*ticket, constant_time_eq(credential.secret.as_bytes(), secret)))
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<Ticket, Credential>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts connections and limits those that have not authenticated.
pub(super) struct Acceptor {
    listener: TcpListener,
    unauthenticated: Unauthenticated,
}

impl Acceptor {
    /// Accepts the connections of a listener.
    pub(crate) fn new(listener: TcpListener) -> Acceptor {
        Acceptor { listener, unauthenticated: Unauthenticated::default() }
    }

    /// Reserves a slot for a connection until it has authenticated.
    pub(crate) async fn reserve_slot(&self, stream: &TcpStream) -> Slot {
        self.unauthenticated.add(stream).await
    }

    /// The next connection. Cancel safe.
    pub(crate) async fn next(&self) -> TcpStream {
        // Lets accepted connections authenticate before a new one can evict them.
        tokio::task::yield_now().await;
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    return stream;
                }
                // For example, the process has run out of file descriptors.
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            }
        }
    }
}
