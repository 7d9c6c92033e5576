//! The servers that sessions declare, and the connections of the agent to them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use acp_proxy_core::{Call, Json};
use acp_wire::mcp::{self, Frame};

use super::text;

/// How many servers and connections are remembered.
const MAX_ENTRIES: usize = 50_000;

/// A server that sessions have.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// `None` if sessions declare it with different names.
    pub(super) name: Option<String>,
    declared_by: DeclaredBy,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeclaredBy {
    /// A request that sets up a session and is not answered yet, by its number.
    OpenRequest(u64),
    Session(String),
    /// Several sessions declare the same server, or servers with the same name.
    Several,
}

impl Server {
    pub(super) fn session(&self) -> Option<&str> {
        match &self.declared_by {
            DeclaredBy::Session(session) => Some(session),
            DeclaredBy::OpenRequest(_) | DeclaredBy::Several => None,
        }
    }
}

/// What a message is addressed to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// A server by its id, without `acp:`.
    Server(String),
    /// A server by its name. SCP has no ids.
    Name(String),
    Connection(String),
}

#[derive(Debug)]
enum Entry {
    Server(Server),
    /// A connection to the server with this id.
    Connection(String),
}

#[derive(Debug, Default)]
pub(super) struct KnownServers(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// Each with its number in `order`.
    entries: BTreeMap<Key, (u64, Entry)>,
    /// In the order in which they were added.
    order: BTreeMap<u64, Key>,
    last_number: u64,
}

impl KnownServers {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, key: &Key) -> Option<Server> {
        self.table().find(key).cloned()
    }

    /// Adds the servers of a request that sets up a session: this one, or one that has no id yet.
    pub(super) fn declare(&self, params: &Json, session: Option<String>) -> DeclaredBy {
        let mut table = self.table();
        let number = table.next_number();
        let by = session.map_or(DeclaredBy::OpenRequest(number), DeclaredBy::Session);
        for (id, name) in declared(params) {
            table.declare(Key::Server(id), &name, &by);
            table.declare(Key::Name(name.clone()), &name, &by);
        }
        by
    }

    /// A request that sets up a session is answered: with the id of the session, or it has failed.
    pub(super) fn on_answered(&self, params: &Json, by: &DeclaredBy, session: Option<String>) {
        if !matches!(by, DeclaredBy::OpenRequest(_)) {
            return;
        }
        let mut table = self.table();
        let keys = declared(params).into_iter();
        for key in keys.flat_map(|(id, name)| [Key::Server(id), Key::Name(name)]) {
            let Some((_, Entry::Server(server))) = table.entries.get_mut(&key) else { continue };
            match &session {
                _ if server.declared_by != *by => {}
                Some(session) => server.declared_by = DeclaredBy::Session(session.clone()),
                None => table.remove(&key),
            }
        }
    }

    /// The agent opens a connection. It may use an id that it proposes before the answer.
    pub(super) fn connect(&self, server: &str, proposed_id: Option<String>) {
        let Some(id) = proposed_id else { return };
        let mut table = self.table();
        let key = Key::Connection(id);
        match table.entries.get(&key) {
            // Until the answer comes, the id may lead to either server.
            Some((_, Entry::Connection(other))) if other != server => table.remove(&key),
            _ => table.insert(key, Entry::Connection(server.to_owned())),
        }
    }

    /// A connect is answered. `answer` is `None` if it has failed.
    pub(super) fn on_connected(
        &self,
        server: &str,
        proposed_id: Option<String>,
        answer: Option<&Json>,
    ) {
        let mut table = self.table();
        let id = answer.and_then(|it| mcp::connection_id_of(it).or_else(|| proposed_id.clone()));
        if id != proposed_id {
            proposed_id.into_iter().for_each(|it| table.remove(&Key::Connection(it)));
        }
        if let Some(id) = id {
            table.insert(Key::Connection(id), Entry::Connection(server.to_owned()));
        }
    }

    /// The agent closes a connection. Another connection may get its id.
    pub(super) fn disconnect(&self, call: &Call) {
        if let Some((_, Frame::Disconnect { connection_id })) = mcp::decode(call) {
            self.table().remove(&Key::Connection(connection_id));
        }
    }

    pub(super) fn forget_session(&self, session: &str) {
        let mut table = self.table();
        let keys = table.entries.keys();
        let gone =
            keys.filter(|key| table.find(key).is_none_or(|it| it.session() == Some(session)));
        let gone: Vec<Key> = gone.cloned().collect();
        gone.iter().for_each(|key| table.remove(key));
    }
}

impl Table {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn find(&self, key: &Key) -> Option<&Server> {
        match &self.entries.get(key)?.1 {
            Entry::Server(server) => Some(server),
            Entry::Connection(server) => match &self.entries.get(&Key::Server(server.clone()))?.1 {
                Entry::Server(server) => Some(server),
                Entry::Connection(_) => None,
            },
        }
    }

    fn declare(&mut self, key: Key, name: &str, by: &DeclaredBy) {
        let name = Some(name.to_owned());
        match self.entries.get_mut(&key) {
            Some((_, Entry::Server(server))) if server.declared_by == *by => server.name = name,
            Some((_, Entry::Server(server))) => {
                server.declared_by = DeclaredBy::Several;
                server.name = name.filter(|it| server.name.as_ref() == Some(it));
            }
            _ => self.insert(key, Entry::Server(Server { name, declared_by: by.clone() })),
        }
    }

    fn insert(&mut self, key: Key, entry: Entry) {
        self.remove(&key);
        let number = self.next_number();
        self.entries.insert(key.clone(), (number, entry));
        self.order.insert(number, key);
        if self.order.len() > MAX_ENTRIES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some((number, _)) = self.entries.remove(key) {
            self.order.remove(&number);
        }
    }
}

/// The servers whose transport is the ACP channel: id and name.
fn declared(params: &Json) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in [&["mcpServers"][..], &["tools", "mcpServers"]] {
        let Some(list) = params.at(path) else { continue };
        let members = list.members().into_iter().map(|(name, entry)| (Some(name), entry));
        let elements = list.elements().into_iter().map(|entry| (None, entry));
        for (key, entry) in members.chain(elements) {
            let kind = text(&entry, "type").or_else(|| text(&entry, "transport"));
            let url = text(&entry, "url").filter(|url| url.starts_with("acp:"));
            let Some(name) = key.or_else(|| text(&entry, "name")) else { continue };
            let id = match kind.as_deref() {
                Some("acp") => {
                    let id = ["serverId", "id", "uuid"].iter().find_map(|key| text(&entry, key));
                    id.or(url).unwrap_or_else(|| name.clone())
                }
                Some("scp") => name.clone(),
                _ => match url {
                    Some(url) => url,
                    None => continue,
                },
            };
            found.push((mcp::strip_acp_prefix(&id).to_owned(), name));
        }
    }
    found
}
