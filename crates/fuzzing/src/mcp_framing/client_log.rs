//! The log of the requests and answers of MCP clients.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::{Id, Malformed, Message};
use bytes::Bytes;
use mcp::{ClientId, Transport};

use crate::line::assert_round_trips;

#[derive(Debug, Default)]
pub struct ClientLog {
    clients: BTreeMap<ClientId, Client>,
}

#[derive(Debug, Default)]
struct Client {
    /// Each of its requests is an HTTP stream, which must end even if the request is cancelled.
    http: bool,
    /// It has disconnected, or was disconnected.
    disconnected: bool,
    /// By id: how many requests it has sent, malformed ones included, and how many answers it has received.
    requests: BTreeMap<String, usize>,
    answers: BTreeMap<String, usize>,
    /// The ids of requests that it has cancelled.
    cancelled: BTreeSet<String>,
    /// The ids of its handshake requests. If it uses one of them again, the answer is ambiguous, and later messages may
    /// wait forever: `confused`.
    handshake_ids: BTreeSet<String>,
    confused: bool,
    /// Requests of servers that it has not answered.
    open_requests: Vec<Id>,
}

/// The canonical form of an id.
fn name(id: &Id) -> String {
    match id.text() {
        Some(text) => format!("text {text}"),
        None => id.json().to_string(),
    }
}

impl ClientLog {
    /// Adds a client.
    pub fn next(&mut self, kind: Transport) -> ClientId {
        let client_id = ClientId(self.clients.len() as u64 + 1);
        self.clients
            .insert(client_id, Client { http: kind == Transport::Http, ..Client::default() });
        client_id
    }

    /// All clients so far.
    pub fn client_ids(&self) -> Vec<ClientId> {
        self.clients.keys().copied().collect()
    }

    /// The last request of a server that a client has not answered.
    pub fn open_request(&self, client_id: ClientId) -> Option<&Id> {
        self.clients.get(&client_id)?.open_requests.last()
    }

    /// A client with an open request of a server.
    pub fn client_with_open_request(&self) -> Option<(ClientId, Id)> {
        let there = self.clients.iter().filter(|(_, client)| !client.disconnected);
        there.into_iter().find_map(|(client_id, client)| {
            Some((*client_id, client.open_requests.last()?.clone()))
        })
    }

    /// Records a line that a client sends.
    pub fn record_sent(&mut self, client_id: ClientId, line: &Bytes) {
        let Some(client) = self.clients.get_mut(&client_id) else { return };
        let id = match Message::parse(line) {
            Ok(Message::Request { id, call }) => {
                let is_handshake = call.is("initialize") || call.is("server/discover");
                let name = name(&id);
                client.confused |= client.handshake_ids.contains(&name);
                client.confused |= is_handshake && client.requests.contains_key(&name);
                client.handshake_ids.extend(is_handshake.then_some(name));
                id
            }
            Err(Malformed::NotAMessage { id, .. }) => id,
            Err(Malformed::NotJson(_)) => Id::NULL,
            Ok(Message::Notification(call)) => {
                let id = call.params.as_ref().and_then(|it| Id::new(it.member("requestId")?));
                client.cancelled.extend(id.as_ref().map(name));
                return;
            }
            Ok(Message::Response { id, .. }) => {
                return client.open_requests.retain(|owed| *owed != id);
            }
            Err(Malformed::AnswerWithoutId) => return,
        };
        *client.requests.entry(name(&id)).or_default() += 1;
    }

    /// Records a message to a client, and checks that the client is connected and that each request is answered once.
    pub fn record_received(&mut self, client_id: ClientId, message: &Message) {
        assert_round_trips(message);
        let client = self.clients.get_mut(&client_id).expect("a client that has called");
        assert!(!client.disconnected, "{client_id:?} has disconnected and gets a message");
        match message {
            Message::Response { id, .. } => {
                let name = name(id);
                let requests = client.requests.get(&name).copied().unwrap_or_default();
                let answers = client.answers.entry(name).or_default();
                *answers += 1;
                assert!(
                    *answers <= requests,
                    "{client_id:?} sent {requests} requests with the id {id} and receives another answer"
                );
            }
            Message::Request { id, .. } => client.open_requests.push(id.clone()),
            Message::Notification(_) => {}
        }
    }

    /// Records that a client has disconnected, or was disconnected.
    pub fn disconnect(&mut self, client_id: ClientId) {
        self.clients.get_mut(&client_id).expect("a client that has called").disconnected = true;
    }

    pub fn is_disconnected(&self, client_id: ClientId) -> bool {
        self.clients.get(&client_id).is_some_and(|client| client.disconnected)
    }

    /// Checks that every request is answered. (Requests that share an id may be one.)
    pub fn check_answered(&self) {
        let there =
            self.clients.iter().filter(|(_, client)| !client.disconnected && !client.confused);
        for (client_id, client) in there {
            for (id, _) in client.requests.iter().filter(|(_, times)| **times == 1) {
                let excused = !client.http && client.cancelled.contains(id);
                let answered = client.answers.contains_key(id) || excused;
                assert!(answered, "{client_id:?} still waits for {id}");
            }
        }
    }
}
