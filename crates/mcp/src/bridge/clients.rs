//! The MCP clients that have called, and their connections to servers.

use std::collections::BTreeMap;

use acp_wire::Id;
use router::Time;

use super::client::Client;
use crate::endpoint::{ClientId, Ticket};

#[derive(Debug, Default)]
pub(super) struct Clients {
    all: BTreeMap<ClientId, Client>,
    /// The client that has a connection to a server.
    connections: BTreeMap<String, ClientId>,
}

impl Clients {
    pub fn insert(&mut self, client_id: ClientId, client: Client) {
        self.all.insert(client_id, client);
    }

    pub fn get(&self, client_id: ClientId) -> Option<&Client> {
        self.all.get(&client_id)
    }

    pub fn get_mut(&mut self, client_id: ClientId) -> Option<&mut Client> {
        self.all.get_mut(&client_id)
    }

    pub fn remove(&mut self, client_id: ClientId) -> Option<Client> {
        self.all.remove(&client_id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.all.iter().map(|(client_id, client)| (*client_id, client))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ClientId, &mut Client)> {
        self.all.iter_mut().map(|(client_id, client)| (*client_id, client))
    }

    /// The clients that fit.
    pub fn client_ids(&self, fits: impl Fn(&Client) -> bool) -> Vec<ClientId> {
        self.iter().filter(|(_, client)| fits(client)).map(|(client_id, _)| client_id).collect()
    }

    /// The clients that have called with one of these tickets.
    pub fn with_tickets(&self, tickets: &[Ticket]) -> Vec<ClientId> {
        self.client_ids(|client| tickets.contains(&client.ticket))
    }

    /// The client that has this connection.
    pub fn of(&self, connection_id: &str) -> Option<ClientId> {
        self.connections.get(connection_id).copied()
    }

    /// A client has this connection from now on.
    pub fn connect(&mut self, connection_id: String, client_id: ClientId) {
        self.connections.insert(connection_id, client_id);
    }

    pub fn disconnect(&mut self, connection_id: &str) -> Option<ClientId> {
        self.connections.remove(connection_id)
    }

    /// The client that has yet to answer a question of its server.
    pub fn with_server_request(&mut self, id: &Id) -> Option<(ClientId, &mut Client)> {
        self.iter_mut().find(|(_, client)| client.server_requests.contains(id))
    }

    pub fn deadline(&self) -> Option<Time> {
        self.all.values().filter_map(Client::deadline).min()
    }

    /// How many there are, and how many connections.
    pub fn sizes(&self) -> (usize, usize) {
        (self.all.len(), self.connections.len())
    }

    /// All have left. Gives them.
    pub fn clear(&mut self) -> Vec<ClientId> {
        self.connections.clear();
        std::mem::take(&mut self.all).into_keys().collect()
    }
}
