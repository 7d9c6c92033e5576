//! The connected MCP clients, and their connections to servers.

use std::collections::BTreeMap;

use acp_wire::Id;
use router::Time;

use super::client::Client;
use crate::endpoint::{ClientId, Ticket};

/// The table of clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    all: BTreeMap<ClientId, Client>,
    /// The client of each connection to a server.
    connections: BTreeMap<String, ClientId>,
}

impl Clients {
    pub(super) fn insert(&mut self, client_id: ClientId, client: Client) {
        self.all.insert(client_id, client);
    }

    pub(super) fn get(&self, client_id: ClientId) -> Option<&Client> {
        self.all.get(&client_id)
    }

    pub(super) fn get_mut(&mut self, client_id: ClientId) -> Option<&mut Client> {
        self.all.get_mut(&client_id)
    }

    pub(super) fn remove(&mut self, client_id: ClientId) -> Option<Client> {
        self.all.remove(&client_id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.all.iter().map(|(client_id, client)| (*client_id, client))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ClientId, &mut Client)> {
        self.all.iter_mut().map(|(client_id, client)| (*client_id, client))
    }

    /// The clients that match.
    pub(super) fn client_ids(&self, is_match: impl Fn(&Client) -> bool) -> Vec<ClientId> {
        self.iter().filter(|(_, client)| is_match(client)).map(|(client_id, _)| client_id).collect()
    }

    /// The clients that have connected with one of these tickets.
    pub(super) fn with_tickets(&self, tickets: &[Ticket]) -> Vec<ClientId> {
        self.client_ids(|client| tickets.contains(&client.ticket))
    }

    /// The client that has this connection.
    pub(super) fn of(&self, connection_id: &str) -> Option<ClientId> {
        self.connections.get(connection_id).copied()
    }

    /// Records the connection of a client.
    pub(super) fn connect(&mut self, connection_id: String, client_id: ClientId) {
        self.connections.insert(connection_id, client_id);
    }

    /// Forgets a connection. Returns its client.
    pub(super) fn disconnect(&mut self, connection_id: &str) -> Option<ClientId> {
        self.connections.remove(connection_id)
    }

    /// The client that has to answer this request of its server.
    pub(super) fn with_server_request(&mut self, id: &Id) -> Option<(ClientId, &mut Client)> {
        self.iter_mut().find(|(_, client)| client.server_requests.contains(id))
    }

    /// The earliest deadline of all clients.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.all.values().filter_map(Client::deadline).min()
    }

    /// The number of clients, and of connections.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.all.len(), self.connections.len())
    }

    /// Removes and returns all clients.
    pub(super) fn clear(&mut self) -> Vec<ClientId> {
        self.connections.clear();
        std::mem::take(&mut self.all).into_keys().collect()
    }
}
