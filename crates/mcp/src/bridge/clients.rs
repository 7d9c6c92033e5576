//! The MCP clients that have called, and their connections to servers.

use std::collections::BTreeMap;

use acp_wire::Id;
use router::Time;

use super::client::Client;
use crate::ports::{Caller, Ticket};

#[derive(Debug, Default)]
pub(super) struct Clients {
    all: BTreeMap<Caller, Client>,
    /// The client that has a connection to a server.
    connections: BTreeMap<String, Caller>,
}

impl Clients {
    pub fn insert(&mut self, caller: Caller, client: Client) {
        self.all.insert(caller, client);
    }

    pub fn get(&self, caller: Caller) -> Option<&Client> {
        self.all.get(&caller)
    }

    pub fn get_mut(&mut self, caller: Caller) -> Option<&mut Client> {
        self.all.get_mut(&caller)
    }

    pub fn remove(&mut self, caller: Caller) -> Option<Client> {
        self.all.remove(&caller)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Caller, &Client)> {
        self.all.iter().map(|(caller, client)| (*caller, client))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Caller, &mut Client)> {
        self.all.iter_mut().map(|(caller, client)| (*caller, client))
    }

    /// The clients that fit.
    pub fn callers(&self, fits: impl Fn(&Client) -> bool) -> Vec<Caller> {
        self.iter().filter(|(_, client)| fits(client)).map(|(caller, _)| caller).collect()
    }

    /// The clients that have called with one of these tickets.
    pub fn with_tickets(&self, tickets: &[Ticket]) -> Vec<Caller> {
        self.callers(|client| tickets.contains(&client.ticket))
    }

    /// The client that has this connection.
    pub fn of(&self, connection: &str) -> Option<Caller> {
        self.connections.get(connection).copied()
    }

    /// A client has this connection from now on.
    pub fn connect(&mut self, connection: String, caller: Caller) {
        self.connections.insert(connection, caller);
    }

    pub fn disconnect(&mut self, connection: &str) -> Option<Caller> {
        self.connections.remove(connection)
    }

    /// The client that has yet to answer a question of its server.
    pub fn debtor(&mut self, id: &Id) -> Option<(Caller, &mut Client)> {
        self.iter_mut().find(|(_, client)| client.owes.contains(id))
    }

    pub fn deadline(&self) -> Option<Time> {
        self.all.values().filter_map(Client::deadline).min()
    }

    /// How many there are, and how many connections.
    pub fn sizes(&self) -> (usize, usize) {
        (self.all.len(), self.connections.len())
    }

    /// All have left. Gives them.
    pub fn clear(&mut self) -> Vec<Caller> {
        self.connections.clear();
        std::mem::take(&mut self.all).into_keys().collect()
    }
}
