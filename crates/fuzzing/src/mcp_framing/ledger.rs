//! What MCP clients have asked and were told.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::{Id, Malformed, Message};
use bytes::Bytes;
use mcp::{ClientId, Transport};

use crate::line::reads_the_same;

#[derive(Debug, Default)]
pub struct Ledger {
    clients: BTreeMap<ClientId, Client>,
}

#[derive(Debug, Default)]
struct Client {
    /// Each of its requests is a stream that has to end, even if it does not want the answer any more.
    http: bool,
    /// It has hung up, or was hung up on.
    gone: bool,
    /// How often it has used an id, or something with that id could not be read; how often it has got
    /// an answer to it.
    asked: BTreeMap<String, usize>,
    told: BTreeMap<String, usize>,
    /// It does not want these answers any more.
    cancelled: BTreeSet<String>,
    /// The ids of its first words. If it uses one of them again, nobody can tell which words are meant,
    /// and what it says after them may wait for good: `confused`.
    hellos: BTreeSet<String>,
    confused: bool,
    /// What servers have asked it.
    owes: Vec<Id>,
}

/// However an id is spelt, it has one name.
fn name(id: &Id) -> String {
    match id.text() {
        Some(text) => format!("text {text}"),
        None => id.json().to_string(),
    }
}

impl Ledger {
    /// Somebody new calls.
    pub fn next(&mut self, kind: Transport) -> ClientId {
        let client_id = ClientId(self.clients.len() as u64 + 1);
        self.clients
            .insert(client_id, Client { http: kind == Transport::Http, ..Client::default() });
        client_id
    }

    /// All that have ever called.
    pub fn client_ids(&self) -> Vec<ClientId> {
        self.clients.keys().copied().collect()
    }

    /// The last question of a server that a client has not answered.
    pub fn owed(&self, client_id: ClientId) -> Option<&Id> {
        self.clients.get(&client_id)?.owes.last()
    }

    /// A client that has yet to answer a server, and what.
    pub fn debtor(&self) -> Option<(ClientId, Id)> {
        let there = self.clients.iter().filter(|(_, client)| !client.gone);
        there
            .into_iter()
            .find_map(|(client_id, client)| Some((*client_id, client.owes.last()?.clone())))
    }

    /// A client says a line.
    pub fn heard(&mut self, client_id: ClientId, line: &Bytes) {
        let Some(client) = self.clients.get_mut(&client_id) else { return };
        let id = match Message::parse(line) {
            Ok(Message::Request { id, call }) => {
                let is_hello = call.is("initialize") || call.is("server/discover");
                let name = name(&id);
                client.confused |= client.hellos.contains(&name);
                client.confused |= is_hello && client.asked.contains_key(&name);
                client.hellos.extend(is_hello.then_some(name));
                id
            }
            Err(Malformed::NotAMessage { id, .. }) => id,
            Err(Malformed::NotJson(_)) => Id::NULL,
            Ok(Message::Notification(call)) => {
                let id = call.params.as_ref().and_then(|it| Id::new(it.member("requestId")?));
                client.cancelled.extend(id.as_ref().map(name));
                return;
            }
            Ok(Message::Response { id, .. }) => return client.owes.retain(|owed| *owed != id),
            Err(Malformed::AnswerWithoutId) => return,
        };
        *client.asked.entry(name(&id)).or_default() += 1;
    }

    /// A client is told something: only who is there, and only what it has asked, once.
    pub fn told(&mut self, client_id: ClientId, message: &Message) {
        reads_the_same(message);
        let client = self.clients.get_mut(&client_id).expect("a client that has called");
        assert!(!client.gone, "{client_id:?} is told something, and has gone");
        match message {
            Message::Response { id, .. } => {
                let name = name(id);
                let asked = client.asked.get(&name).copied().unwrap_or_default();
                let told = client.told.entry(name).or_default();
                *told += 1;
                assert!(
                    *told <= asked,
                    "{client_id:?} asked {asked} times and is answered {id} again"
                );
            }
            Message::Request { id, .. } => client.owes.push(id.clone()),
            Message::Notification(_) => {}
        }
    }

    /// A client leaves, or is hung up on.
    pub fn gone(&mut self, client_id: ClientId) {
        self.clients.get_mut(&client_id).expect("a client that has called").gone = true;
    }

    pub fn is_gone(&self, client_id: ClientId) -> bool {
        self.clients.get(&client_id).is_some_and(|client| client.gone)
    }

    /// Nobody waits any more. (Who uses an id twice may have meant one thing.)
    pub fn check_answered(&self) {
        let there = self.clients.iter().filter(|(_, client)| !client.gone && !client.confused);
        for (client_id, client) in there {
            for (id, _) in client.asked.iter().filter(|(_, times)| **times == 1) {
                let excused = !client.http && client.cancelled.contains(id);
                let answered = client.told.contains_key(id) || excused;
                assert!(answered, "{client_id:?} still waits for {id}");
            }
        }
    }
}
