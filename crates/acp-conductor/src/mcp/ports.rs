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

use super::{Hearing, http, stdio};
use crate::relay::SECRET;
use crate::secret::{random_word, same};
use crate::strangers::{Place, Strangers};

/// After a failure to accept.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// Opens the places where MCP clients call. Dropping it closes them and ends all calls.
pub struct Listeners {
    desk: Desk,
    stdio: Option<Door>,
    http: Option<Door>,
    /// One task for each listener that was opened. One that is closed stays until its calls are over.
    listening: JoinSet<()>,
}

/// What every listener needs.
#[derive(Clone)]
pub(super) struct Desk {
    pub hearing: Hearing,
    pub longest_line: usize,
    client_ids: Arc<AtomicU64>,
}

impl Desk {
    pub fn next_caller(&self) -> ClientId {
        ClientId(self.client_ids.fetch_add(1, Ordering::Relaxed))
    }
}

/// An open listener.
struct Door {
    port: u16,
    guests: Guests,
    /// Dropped to close it.
    _open: watch::Sender<()>,
}

/// Who may call.
#[derive(Clone, Default)]
pub(super) struct Guests(Arc<Mutex<BTreeMap<Ticket, Pass>>>);

struct Pass {
    secret: String,
    /// The end of the path, for HTTP.
    word: String,
}

impl Listeners {
    pub fn new(hearing: Hearing, longest_line: usize) -> Listeners {
        let desk = Desk { hearing, longest_line, client_ids: Arc::default() };
        Listeners { desk, stdio: None, http: None, listening: JoinSet::new() }
    }

    /// The door for this way to call. Opened now if it is not.
    fn door(&mut self, kind: Transport) -> io::Result<&Door> {
        let door = match kind {
            Transport::Stdio => &mut self.stdio,
            Transport::Http => &mut self.http,
        };
        if door.is_none() {
            // Those that are over need no place any more.
            while self.listening.try_join_next().is_some() {}
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            let listener = TcpListener::from_std(listener)?;
            let guests = Guests::default();
            let (open, closing) = watch::channel(());
            let desk = self.desk.clone();
            match kind {
                Transport::Stdio => {
                    self.listening.spawn(stdio::listen(listener, guests.clone(), desk, closing))
                }
                Transport::Http => {
                    self.listening.spawn(http::listen(listener, guests.clone(), desk, closing))
                }
            };
            *door = Some(Door { port, guests, _open: open });
        }
        door.as_ref().ok_or_else(|| io::Error::other("the door did not open"))
    }

    fn place(&mut self, kind: Transport, ticket: Ticket) -> io::Result<mcp::Endpoint> {
        let program = std::env::current_exe()?;
        let program =
            program.to_str().ok_or_else(|| io::Error::other("our own path is not UTF-8"))?;
        let (secret, word) = (random_word()?, random_word()?);
        let door = self.door(kind)?;
        let port = door.port;
        let place = match kind {
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
        door.guests.table().insert(ticket, Pass { secret, word });
        Ok(place)
    }

    /// Opens a place where the holder of this ticket may call, from now on.
    pub fn admit(&mut self, kind: Transport, ticket: Ticket) -> Result<mcp::Endpoint, String> {
        self.place(kind, ticket)
            .map_err(|error| format!("cannot listen for MCP clients ({}): {error}", kind.name()))
    }

    /// Turns away who comes with this ticket from now on. Those who have called stay.
    pub fn revoke(&mut self, ticket: Ticket) {
        for door in [&mut self.stdio, &mut self.http] {
            let last = door.as_ref().is_some_and(|open| {
                let mut guests = open.guests.table();
                guests.remove(&ticket).is_some() && guests.is_empty()
            });
            if last {
                *door = None;
            }
        }
    }
}

/// Without the secrets.
impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let port = |door: &Option<Door>| door.as_ref().map(|door| door.port);
        f.debug_struct("Listeners")
            .field("stdio", &port(&self.stdio))
            .field("http", &port(&self.http))
            .finish_non_exhaustive()
    }
}

impl Guests {
    /// Whose secret this is. Looks at every one, so that its time tells nothing.
    pub fn by_secret(&self, said: &[u8]) -> Option<Ticket> {
        let mut found = None;
        for (ticket, pass) in self.table().iter() {
            if same(pass.secret.as_bytes(), said) {
                found = Some(*ticket);
            }
        }
        found
    }

    /// Whose path this is, and whether the secret is right, too.
    pub fn by_word(&self, word: &str, said: &[u8]) -> Option<(Ticket, bool)> {
        let table = self.table();
        let (ticket, pass) = table.iter().find(|(_, pass)| pass.word == word)?;
        Some((*ticket, same(pass.secret.as_bytes(), said)))
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<Ticket, Pass>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts connections.
pub(super) struct Entrance {
    listener: TcpListener,
    strangers: Strangers,
}

impl Entrance {
    pub fn new(listener: TcpListener) -> Entrance {
        Entrance { listener, strangers: Strangers::default() }
    }

    /// The place that a connection has until it has shown that it may call.
    pub async fn enter(&self, stream: &TcpStream) -> Place {
        self.strangers.enter(stream).await
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
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}
