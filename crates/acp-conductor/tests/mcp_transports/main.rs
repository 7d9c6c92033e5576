//! How MCP clients call a running conductor. The test plays the conductor.

mod bridge;
mod clients;
mod http;
mod stdio;

use std::collections::BTreeMap;
use std::time::Duration;

use acp_conductor::mcp::listeners::Listeners;
use acp_conductor::mcp::{ClientEvent, ClientSender};
use bytes::Bytes;
use mcp::{ClientId, Endpoint, Ticket, Transport};
use tokio::sync::mpsc::{Receiver, channel};

/// Longer than anything takes; a test that waits for it has failed.
pub const LONG: Duration = Duration::from_secs(20);

pub const TICKET: Ticket = Ticket(7);

/// The longest line that is read.
pub const LONGEST: usize = 100_000;

/// The conductor's side, played by hand.
#[derive(Debug)]
pub struct Conductor {
    pub listeners: Listeners,
    heard: Receiver<ClientEvent>,
    pub senders: BTreeMap<ClientId, ClientSender>,
}

impl Conductor {
    pub fn start() -> Conductor {
        let (hearing, heard) = channel(4);
        let listeners = Listeners::new(hearing, LONGEST);
        Conductor { listeners, heard, senders: BTreeMap::new() }
    }

    /// Admits `TICKET`: port and secret.
    pub fn stdio(&mut self) -> (u16, String) {
        match self.listeners.open_endpoint(Transport::Stdio, TICKET) {
            Ok(Endpoint::Stdio { port, secret, .. }) => (port, secret),
            other => panic!("{other:?}"),
        }
    }

    /// Admits `TICKET`: where it is, and how.
    pub fn http(&mut self) -> (String, String) {
        self.http_for(TICKET)
    }

    pub fn http_for(&mut self, ticket: Ticket) -> (String, String) {
        match self.listeners.open_endpoint(Transport::Http, ticket) {
            Ok(Endpoint::Http { url, secret }) => (url, secret),
            other => panic!("{other:?}"),
        }
    }

    async fn hear(&mut self) -> ClientEvent {
        tokio::time::timeout(LONG, self.heard.recv()).await.expect("in time").expect("a call")
    }

    pub async fn called(&mut self) -> ClientId {
        match self.hear().await {
            ClientEvent::Connected { ticket, client_id, sender } => {
                assert_eq!(ticket, TICKET);
                assert!(self.senders.insert(client_id, sender).is_none());
                client_id
            }
            other => panic!("{other:?}"),
        }
    }

    pub async fn line(&mut self, from: ClientId) -> String {
        match self.hear().await {
            ClientEvent::Line { client_id, line } => {
                assert_eq!(client_id, from);
                String::from_utf8(line.to_vec()).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Hears that it has left, and says no more.
    pub async fn hung_up(&mut self, who: ClientId) {
        match self.hear().await {
            ClientEvent::Disconnected(client_id) => assert_eq!(client_id, who),
            other => panic!("{other:?}"),
        }
        self.senders.remove(&who);
    }

    /// Nothing was heard that was not asked for.
    pub fn assert_quiet(&mut self) {
        assert!(self.heard.try_recv().is_err());
    }

    pub fn say(&self, to: ClientId, line: &str) {
        assert!(self.senders[&to].send(Bytes::copy_from_slice(line.as_bytes())));
    }
}
