//! The servers of the chain, and the set-up requests that declare them.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::acp::{SessionId, session_of};
use acp_wire::{Call, Id, LinkProtocol, Outcome};
use router::{Chain, Seat};

use super::Hop;
use super::server::{Server, ServerUses};
use crate::declaration::{AcpServer, DeclareAs, ServerEntry, ServerList, Syntax};
use crate::form::Form;

/// The table of servers and of open set-up requests.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// The servers by their public id: the id that all components except the provider use.
    servers: BTreeMap<String, Server>,
    /// How many servers were ever declared.
    declared: u64,
    /// Open set-up requests of providers, with the servers that they declare.
    provider_set_ups: BTreeMap<(Seat, Id), ProviderSetUp>,
    /// Open set-up requests to proxies, with the ids of the servers in them.
    proxy_set_ups: BTreeMap<(Seat, Id), Vec<String>>,
    /// Seats whose component is down.
    down: BTreeSet<Seat>,
    /// Seats whose component was restarted after it had provided servers.
    restarted: BTreeSet<Seat>,
}

/// An open set-up request of a provider.
#[derive(Debug)]
struct ProviderSetUp {
    /// The session that the request names.
    session: Option<SessionId>,
    /// The public ids of the declared servers.
    servers: Vec<String>,
    /// The servers that a restarted provider declares. Only the answer shows to which session they
    /// belong.
    redeclared: Vec<AcpServer>,
    protocol: LinkProtocol,
}

/// The table of servers.
impl Registry {
    pub(super) fn get(&self, key: &str) -> Option<&Server> {
        self.servers.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Server> {
        self.servers.get_mut(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Server)> {
        self.servers.iter()
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.servers.remove(key);
    }

    pub(super) fn len(&self) -> usize {
        self.servers.len()
    }

    /// The public id of the server that a consumer names. An SCP consumer uses the name of the
    /// server.
    pub(super) fn find(&self, form: Form, server: &str) -> Option<String> {
        let by_name = || {
            let named = self.servers.iter().filter(|(_, it)| it.name == server);
            named.last().map(|(key, _)| key.clone())
        };
        match form {
            Form::M0 => by_name(),
            _ => self.servers.contains_key(server).then(|| server.to_owned()),
        }
    }

    /// The provider of the server that a consumer names.
    pub(super) fn provider_of(&self, form: Form, server: &str) -> Option<Seat> {
        self.find(form, server).and_then(|key| self.servers.get(&key)).map(|server| server.seat)
    }

    /// Whether a component provides a server that it calls by this id.
    pub(super) fn has_own(&self, seat: Seat, provider_id: &str) -> bool {
        self.servers.values().any(|server| server.seat == seat && server.provider_id == provider_id)
    }

    /// Whether a server is an SCP server.
    pub(super) fn is_scp(&self, key: &str) -> bool {
        self.servers.get(key).is_some_and(Server::is_scp)
    }

    /// Whether no session needs a server.
    pub(super) fn is_unused(&self, key: &str) -> bool {
        self.servers.get(key).is_some_and(|server| server.uses == ServerUses::default())
    }

    /// The matching servers of a component, by public id and name.
    fn servers_of(&self, seat: Seat, is_match: impl Fn(&Server) -> bool) -> Vec<(String, String)> {
        let found = self.servers.iter().filter(|(_, it)| it.seat == seat && is_match(it));
        found.map(|(key, server)| (key.clone(), server.name.clone())).collect()
    }
}

/// Crashes and restarts of providers.
impl Registry {
    /// A component is down. Marks its servers as missing until the restarted component declares them
    /// again, and forgets its open set-up requests. Returns the public ids of its servers.
    pub(super) fn component_down(&mut self, seat: Seat) -> Vec<String> {
        self.down.insert(seat);
        self.forget_set_ups(seat);
        let provided = self.servers.iter_mut().filter(|(_, server)| server.seat == seat);
        let provided = provided.map(|(key, server)| {
            server.missing = true;
            server.uses.pending = 0;
            key.clone()
        });
        let provided: Vec<String> = provided.collect();
        if !provided.is_empty() {
            self.restarted.insert(seat);
        }
        provided
    }

    /// A component was restarted. Returns the servers that it no longer declares, by public id and
    /// name. `None` if it was not down.
    pub(super) fn component_restarted(&mut self, seat: Seat) -> Option<Vec<(String, String)>> {
        self.down.remove(&seat).then(|| self.servers_of(seat, |server| server.missing))
    }

    /// A component is bypassed. Returns its servers, by public id and name.
    pub(super) fn component_bypassed(&mut self, seat: Seat) -> Vec<(String, String)> {
        self.down.remove(&seat);
        self.servers_of(seat, |_| true)
    }

    /// A component has left and is not restarted.
    pub(super) fn component_removed(&mut self, seat: Seat) {
        self.down.remove(&seat);
        self.forget_set_ups(seat);
    }

    fn forget_set_ups(&mut self, seat: Seat) {
        self.provider_set_ups.retain(|(key_seat, _), _| *key_seat != seat);
        self.proxy_set_ups.retain(|(key_seat, _), _| *key_seat != seat);
    }

    /// Whether the component of this seat was restarted after it had provided servers.
    pub(super) fn was_restarted(&self, seat: Seat) -> bool {
        self.restarted.contains(&seat)
    }

    /// A session has ended. Returns the servers that it used.
    pub(super) fn end_session(&mut self, session: &SessionId) -> Vec<String> {
        let used = self.servers.iter_mut();
        used.filter_map(|(key, server)| server.uses.sessions.remove(session).then(|| key.clone()))
            .collect()
    }
}

/// Set-up requests.
impl Registry {
    /// The number of open set-up requests with servers: of providers, and to proxies.
    pub(super) fn open_set_ups(&self) -> (usize, usize) {
        (self.provider_set_ups.len(), self.proxy_set_ups.len())
    }

    /// Records a set-up request that is delivered to a proxy, with the servers in it.
    pub(super) fn track_proxy_set_up(&mut self, seat: Seat, id: &Id, servers: Vec<String>) {
        self.proxy_set_ups.insert((seat, id.detached()), servers);
    }

    /// Forgets a set-up request that a proxy has answered.
    pub(super) fn finish_proxy_set_up(&mut self, seat: Seat, id: &Id) {
        if !self.proxy_set_ups.is_empty() {
            self.proxy_set_ups.remove(&(seat, id.clone()));
        }
    }

    /// Removes servers that do not exist any more from a request. The request may be older than the
    /// crash of their provider.
    pub(super) fn without_lost_servers(&self, call: Call) -> Call {
        let lost = |acp_server: &AcpServer| {
            acp_server.syntax != Syntax::MissingId && !self.servers.contains_key(&acp_server.id)
        };
        let rest = call.params.as_ref().and_then(|params| {
            let mut servers = ServerList::find(params)?;
            let any = servers.remove_matching(lost);
            any.then(|| servers.write(params))
        });
        match rest {
            Some(params) => Call { params: Some(params), ..call },
            None => call,
        }
    }

    /// Registers the servers that a provider declares in a set-up request, and gives them ids and
    /// names that no other server has.
    pub(super) fn declare(&mut self, chain: &Chain, hop: Hop, id: &Id, call: &mut Call) {
        let Some(params) = &call.params else { return };
        let Some(mut servers) = ServerList::find(params).filter(ServerList::has_acp_servers) else {
            return;
        };
        let seat = hop.seat;
        let is_own = self.are_own(chain, seat, servers.entries());
        if self.down.contains(&seat) {
            let own = servers.entries().iter().zip(is_own).filter(|(_, is_own)| *is_own);
            let redeclared = own.filter_map(|(entry, _)| entry.acp_server.clone()).collect();
            let (session, protocol) = (session_of(params), hop.protocol);
            let declared = ProviderSetUp { session, servers: Vec::new(), redeclared, protocol };
            self.provider_set_ups.insert((seat, id.detached()), declared);
            return;
        }
        let mut own: Vec<String> = Vec::new();
        // A server that was declared earlier keeps its name.
        let others = servers.entries().iter().zip(&is_own).filter(|(_, is_own)| !**is_own);
        let mut taken: Vec<String> = others.filter_map(|(entry, _)| entry.name()).collect();
        let mut edited = false;
        for (entry, is_own) in servers.entries_mut().iter_mut().zip(is_own) {
            let Some(acp_server) = entry.acp_server.clone().filter(|_| is_own) else { continue };
            let key = self.public_id(seat, &acp_server);
            let name = unique_name(&acp_server.name, &taken);
            taken.push(name.clone());
            self.declared += 1;
            let number = self.declared;
            let server = self
                .servers
                .entry(key.clone())
                .or_insert_with(|| Server::new(seat, &acp_server, hop.protocol, number));
            server.name = name.clone();
            server.uses.pending += 1;
            own.push(key.clone());
            if key != acp_server.id || name != acp_server.name {
                rewrite_same_syntax(entry, &name, &key, acp_server.syntax);
                edited = true;
            }
        }
        let session = session_of(params);
        if edited {
            call.params = Some(servers.write(params));
        }
        if !own.is_empty() {
            let (redeclared, protocol) = (Vec::new(), hop.protocol);
            let declared = ProviderSetUp { session, servers: own, redeclared, protocol };
            self.provider_set_ups.insert((seat, id.detached()), declared);
        }
    }

    /// Handles the answer to the set-up request of a provider. Returns the servers that may be
    /// unused now.
    pub(super) fn answered(&mut self, seat: Seat, id: &Id, outcome: &Outcome) -> Vec<String> {
        if self.provider_set_ups.is_empty() {
            return Vec::new();
        }
        let Some(declared) = self.provider_set_ups.remove(&(seat, id.clone())) else {
            return Vec::new();
        };
        let session = match outcome {
            // A session without an id is never closed, so its servers stay until the chain ends.
            Outcome::Result(result) => {
                Some(session_of(result).or(declared.session).unwrap_or_default())
            }
            Outcome::Error(_) => None,
        };
        if let Some(session) = &session {
            self.match_redeclared(seat, session, &declared.redeclared, declared.protocol);
        }
        // The request replaces the servers that the provider had declared for this session.
        let before = self.servers.iter_mut().filter(|(key, server)| {
            server.seat == seat && !declared.servers.is_empty() && !declared.servers.contains(key)
        });
        let before = before.filter_map(|(key, server)| {
            let session = session.as_ref().filter(|it| !it.is_empty())?;
            server.uses.sessions.remove(session).then(|| key.clone())
        });
        let mut touched: Vec<String> = before.collect();
        for key in declared.servers {
            let Some(server) = self.servers.get_mut(&key) else { continue };
            server.uses.pending -= 1;
            server.uses.sessions.extend(session.clone());
            touched.push(key);
        }
        touched
    }
}

/// Which server a declaration refers to.
impl Registry {
    /// Which servers in the set-up request of a seat are its own. The others come from a component
    /// nearer to the editor. No list contains the same server twice.
    fn are_own(&self, chain: &Chain, seat: Seat, entries: &[ServerEntry]) -> Vec<bool> {
        let mut others: Vec<&str> = Vec::new();
        let mut own = Vec::new();
        for entry in entries {
            let acp_server = entry.acp_server.as_ref().filter(|it| it.syntax != Syntax::MissingId);
            let other = acp_server.filter(|it| {
                !others.contains(&it.id.as_str())
                    && self.is_from_another_provider(chain, seat, it, entries)
            });
            others.extend(other.map(|it| it.id.as_str()));
            own.push(acp_server.is_some() && other.is_none());
        }
        own
    }

    /// Whether a declared server belongs to a provider nearer to the editor. Two providers may use
    /// the same id, so the name decides, unless a component in between has renamed the server. A
    /// server that is gone is recognized by the set-up request in which the seat received it.
    fn is_from_another_provider(
        &self,
        chain: &Chain,
        seat: Seat,
        acp_server: &AcpServer,
        entries: &[ServerEntry],
    ) -> bool {
        let is_nearer = |known: &&Server| chain.position(known.seat) < chain.position(seat);
        let known = self.servers.get(&acp_server.id).filter(is_nearer);
        let Some(known) = known else { return self.was_received_by(seat, &acp_server.id) };
        let kept = |it: &AcpServer| it.id == acp_server.id && it.name == known.name;
        kept(acp_server)
            || (!entries.iter().any(|it| it.acp_server.as_ref().is_some_and(kept))
                && self.was_received_by(seat, &acp_server.id))
    }

    /// Whether an open set-up request to this seat contains a server with this id.
    fn was_received_by(&self, seat: Seat, id: &str) -> bool {
        let mut passing = self.proxy_set_ups.iter().filter(|((key_seat, _), _)| *key_seat == seat);
        passing.any(|(_, servers)| servers.iter().any(|it| it == id))
    }

    /// The public id of a server that the seat provides.
    fn public_id(&self, seat: Seat, acp_server: &AcpServer) -> String {
        // `U` and `acp:U` in the same syntax are two servers.
        let same =
            |it: &Server| it.raw_provider_id == acp_server.raw_id || it.syntax != acp_server.syntax;
        let own = |server: &Server| {
            server.seat == seat
                && server.provider_id == acp_server.id
                && !server.missing
                && same(server)
        };
        if let Some((key, _)) = self.servers.iter().find(|(_, server)| own(server)) {
            return key.clone();
        }
        let id = match acp_server.syntax {
            Syntax::Scp => format!("scp:{}:{}", seat.0, acp_server.id),
            _ => acp_server.id.clone(),
        };
        let mut candidates = std::iter::once(id.clone()).chain((2..).map(|n| format!("{id}#{n}")));
        candidates.find(|it| !self.servers.contains_key(it)).unwrap_or_default()
    }

    /// Matches the declarations of a restarted provider for a live session with the servers that it
    /// had before, by name. Among several servers with the same name, the same id wins, then the
    /// same syntax, then the first. New servers are ignored, because the consumers of the session
    /// cannot see them.
    fn match_redeclared(
        &mut self,
        seat: Seat,
        session: &SessionId,
        acp_servers: &[AcpServer],
        protocol: LinkProtocol,
    ) {
        let is_in_session =
            |server: &Server| server.seat == seat && server.uses.sessions.contains(session);
        let is_redeclared = |servers: &BTreeMap<String, Server>, acp_server: &AcpServer| {
            let same =
                |it: &Server| is_in_session(it) && !it.missing && it.provider_id == acp_server.id;
            servers.values().any(same)
        };
        let mut open: Vec<&AcpServer> = acp_servers.iter().collect();
        open.retain(|acp_server| !is_redeclared(&self.servers, acp_server));
        let criteria: [fn(&Server, &AcpServer) -> bool; 3] = [
            |server, acp_server| server.provider_id == acp_server.id,
            |server, acp_server| server.syntax == acp_server.syntax,
            |_, _| true,
        ];
        for is_similar in criteria {
            open.retain(|acp_server| {
                let is_match = |it: &&mut Server| {
                    is_in_session(it)
                        && it.missing
                        && it.declared_name == acp_server.name
                        && is_similar(it, acp_server)
                };
                let found = self.servers.values_mut().filter(is_match).min_by_key(|it| it.order);
                found.map(|server| server.redeclare(acp_server, protocol)).is_none()
            });
        }
    }
}

/// Rewrites the name and id of a declaration. Keeps its syntax if that can express them.
fn rewrite_same_syntax(entry: &mut ServerEntry, name: &str, key: &str, syntax: Syntax) {
    let declare_as = match syntax {
        Syntax::ServerId | Syntax::AcpId => DeclareAs::ServerId,
        _ => DeclareAs::Url,
    };
    entry.rewrite(name, key, &declare_as);
}

/// The name, with a number appended if the name is taken.
fn unique_name(name: &str, taken: &[String]) -> String {
    let mut candidates =
        std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}-{n}")));
    candidates.find(|it| !taken.contains(it)).unwrap_or_default()
}
