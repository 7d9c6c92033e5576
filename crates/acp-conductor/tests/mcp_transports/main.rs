//! How MCP clients call a running conductor. The test plays the conductor.

mod bridge;
mod clients;
mod http;
mod stdio;

use std::collections::BTreeMap;
use std::time::Duration;

use acp_conductor::mcp::ports::Listeners;
use acp_conductor::mcp::{Heard, Mouth};
use bytes::Bytes;
use mcp::{Caller, Kind, Place, Ticket};
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
    heard: Receiver<Heard>,
    pub mouths: BTreeMap<Caller, Mouth>,
}

impl Conductor {
    pub fn start() -> Conductor {
        let (hearing, heard) = channel(4);
        let listeners = Listeners::new(hearing, LONGEST);
        Conductor { listeners, heard, mouths: BTreeMap::new() }
    }

    /// Admits `TICKET`: port and secret.
    pub fn stdio(&mut self) -> (u16, String) {
        match self.listeners.admit(Kind::Stdio, TICKET) {
            Ok(Place::Stdio { port, secret, .. }) => (port, secret),
            other => panic!("{other:?}"),
        }
    }

    /// Admits `TICKET`: where it is, and how.
    pub fn http(&mut self) -> (String, String) {
        self.http_for(TICKET)
    }

    pub fn http_for(&mut self, ticket: Ticket) -> (String, String) {
        match self.listeners.admit(Kind::Http, ticket) {
            Ok(Place::Http { url, secret }) => (url, secret),
            other => panic!("{other:?}"),
        }
    }

    async fn hear(&mut self) -> Heard {
        tokio::time::timeout(LONG, self.heard.recv()).await.expect("in time").expect("a call")
    }

    pub async fn called(&mut self) -> Caller {
        match self.hear().await {
            Heard::Called { ticket, caller, mouth } => {
                assert_eq!(ticket, TICKET);
                assert!(self.mouths.insert(caller, mouth).is_none());
                caller
            }
            other => panic!("{other:?}"),
        }
    }

    pub async fn line(&mut self, from: Caller) -> String {
        match self.hear().await {
            Heard::Line { caller, line } => {
                assert_eq!(caller, from);
                String::from_utf8(line.to_vec()).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Hears that it has left, and says no more.
    pub async fn hung_up(&mut self, who: Caller) {
        match self.hear().await {
            Heard::HungUp(caller) => assert_eq!(caller, who),
            other => panic!("{other:?}"),
        }
        self.mouths.remove(&who);
    }

    /// Nothing was heard that was not asked for.
    pub fn assert_quiet(&mut self) {
        assert!(self.heard.try_recv().is_err());
    }

    pub fn say(&self, to: Caller, line: &str) {
        assert!(self.mouths[&to].say(Bytes::copy_from_slice(line.as_bytes())));
    }
}
