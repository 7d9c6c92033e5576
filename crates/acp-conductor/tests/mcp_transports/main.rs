//! The listeners that MCP clients connect to. The test is the conductor behind them.

mod clients;
mod http;
mod server;
mod stdio;

use std::collections::BTreeMap;
use std::time::Duration;

use acp_conductor::mcp::listeners::Listeners;
use acp_conductor::mcp::{ClientEvent, ClientSender};
use bytes::Bytes;
use mcp::{ClientId, Endpoint, Ticket, Transport};
use tokio::sync::mpsc::{Receiver, channel};

/// A timeout that only a failed test reaches.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub const TICKET: Ticket = Ticket(7);

/// The limit for the length of a line.
pub const MAX_LINE: usize = 100_000;

/// The conductor's side, scripted by the test.
#[derive(Debug)]
pub struct Conductor {
    pub listeners: Listeners,
    events: Receiver<ClientEvent>,
    pub senders: BTreeMap<ClientId, ClientSender>,
}

impl Conductor {
    pub fn start() -> Conductor {
        let (sender, events) = channel(4);
        let listeners = Listeners::new(sender, MAX_LINE);
        Conductor { listeners, events, senders: BTreeMap::new() }
    }

    /// Opens an endpoint for `TICKET`. Returns its port and secret.
    pub fn stdio(&mut self) -> (u16, String) {
        match self.listeners.open_endpoint(Transport::Stdio, TICKET) {
            Ok(Endpoint::Stdio { port, secret, .. }) => (port, secret),
            other => panic!("{other:?}"),
        }
    }

    /// Opens an endpoint for `TICKET`. Returns its URL and secret.
    pub fn http(&mut self) -> (String, String) {
        self.http_for(TICKET)
    }

    pub fn http_for(&mut self, ticket: Ticket) -> (String, String) {
        match self.listeners.open_endpoint(Transport::Http, ticket) {
            Ok(Endpoint::Http { url, secret }) => (url, secret),
            other => panic!("{other:?}"),
        }
    }

    async fn next_event(&mut self) -> ClientEvent {
        tokio::time::timeout(TIMEOUT, self.events.recv()).await.expect("in time").expect("a call")
    }

    pub async fn expect_connected(&mut self) -> ClientId {
        match self.next_event().await {
            ClientEvent::Connected { ticket, client_id, sender } => {
                assert_eq!(ticket, TICKET);
                assert!(self.senders.insert(client_id, sender).is_none());
                client_id
            }
            other => panic!("{other:?}"),
        }
    }

    pub async fn expect_line(&mut self, from: ClientId) -> String {
        match self.next_event().await {
            ClientEvent::Line { client_id, line } => {
                assert_eq!(client_id, from);
                String::from_utf8(line.to_vec()).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    /// The client must have disconnected.
    pub async fn expect_disconnected(&mut self, client: ClientId) {
        match self.next_event().await {
            ClientEvent::Disconnected(client_id) => assert_eq!(client_id, client),
            other => panic!("{other:?}"),
        }
        self.senders.remove(&client);
    }

    /// Checks that no event is pending.
    pub fn assert_no_event(&mut self) {
        assert!(self.events.try_recv().is_err());
    }

    pub fn send(&self, to: ClientId, line: &str) {
        assert!(self.senders[&to].send(Bytes::copy_from_slice(line.as_bytes())));
    }
}
