//! The servers that are offered in the chain, and the set-up requests that declare them.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::acp::{SessionId, session_of};
use acp_wire::{Call, Id, LinkProtocol, Outcome};
use router::Seat;

use super::Hop;
use super::server::{Server, ServerUses};
use crate::declaration::{AcpServer, DeclareAs, ServerEntry, ServerList, Syntax};
use crate::form::Form;

#[derive(Debug, Default)]
pub struct Registry {
    /// By the id under which all but its provider know it.
    all: BTreeMap<String, Server>,
    /// How many servers were ever declared.
    declared: u64,
    /// Set-up requests of providers that are not answered: which of their servers are in them.
    provider_set_ups: BTreeMap<(Seat, Id), Declared>,
    /// Set-up requests that a proxy has yet to answer: the ids of the servers in them.
    proxy_set_ups: BTreeMap<(Seat, Id), Vec<String>>,
    /// Seats whose component has died, until another has taken its place.
    down: BTreeSet<Seat>,
    /// Seats in which more than one component has provided servers.
    restarted: BTreeSet<Seat>,
}

/// Servers that a provider has declared in a set-up request.
#[derive(Debug)]
struct Declared {
    /// The session that the request names.
    session: Option<SessionId>,
    servers: Vec<String>,
    /// Of a seat that was started anew: what it declares. Only the answer says for which session.
    again: Vec<AcpServer>,
    dialect: LinkProtocol,
}

/// The table of servers.
impl Registry {
    pub fn get(&self, key: &str) -> Option<&Server> {
        self.all.get(key)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Server> {
        self.all.get_mut(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &Server)> {
        self.all.iter()
    }

    pub fn remove(&mut self, key: &str) {
        self.all.remove(key);
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The server that a consumer means. A consumer that speaks SCP knows it by its name.
    pub fn find(&self, form: Form, server: &str) -> Option<String> {
        let by_name = || {
            let named = self.all.iter().filter(|(_, it)| it.name == server);
            named.last().map(|(key, _)| key.clone())
        };
        match form {
            Form::M0 => by_name(),
            _ => self.all.contains_key(server).then(|| server.to_owned()),
        }
    }

    /// The provider of the server that a consumer means.
    pub fn provider_of(&self, form: Form, server: &str) -> Option<Seat> {
        self.find(form, server).and_then(|key| self.all.get(&key)).map(|server| server.seat)
    }

    /// Whether a component calls a server of its own so.
    pub fn has_own(&self, seat: Seat, native: &str) -> bool {
        self.all.values().any(|server| server.seat == seat && server.provider_id == native)
    }

    pub fn is_scp(&self, key: &str) -> bool {
        self.all.get(key).is_some_and(Server::is_scp)
    }

    /// Whether no session needs a server.
    pub fn is_unused(&self, key: &str) -> bool {
        self.all.get(key).is_some_and(|server| server.uses == ServerUses::default())
    }

    /// The servers of a component: their ids and names.
    fn of(&self, seat: Seat, fits: impl Fn(&Server) -> bool) -> Vec<(String, String)> {
        let found = self.all.iter().filter(|(_, it)| it.seat == seat && fits(it));
        found.map(|(key, server)| (key.clone(), server.name.clone())).collect()
    }
}

/// What becomes of a component's servers when it dies.
impl Registry {
    /// A component has died. Its servers are missing until the next one declares them. What only its own open
    /// requests needed is not needed any more. Gives the ids of its servers.
    pub fn component_down(&mut self, seat: Seat) -> Vec<String> {
        self.down.insert(seat);
        self.forget_set_ups(seat);
        let provided = self.all.iter_mut().filter(|(_, server)| server.seat == seat);
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

    /// Another component has taken its place. Gives the servers that it does not offer any more, by id and
    /// name; `None` if nobody was away.
    pub fn component_restarted(&mut self, seat: Seat) -> Option<Vec<(String, String)>> {
        self.down.remove(&seat).then(|| self.of(seat, |server| server.missing))
    }

    /// No component takes its place. Gives the servers that are gone, by id and name.
    pub fn component_bypassed(&mut self, seat: Seat) -> Vec<(String, String)> {
        self.down.remove(&seat);
        self.of(seat, |_| true)
    }

    /// A component has left for good.
    pub fn component_removed(&mut self, seat: Seat) {
        self.down.remove(&seat);
        self.forget_set_ups(seat);
    }

    fn forget_set_ups(&mut self, seat: Seat) {
        self.provider_set_ups.retain(|(whose, _), _| *whose != seat);
        self.proxy_set_ups.retain(|(whose, _), _| *whose != seat);
    }

    /// Whether more than one component has provided servers in this seat.
    pub fn was_restarted(&self, seat: Seat) -> bool {
        self.restarted.contains(&seat)
    }

    /// A session is over. Gives the servers that it used.
    pub fn end_session(&mut self, session: &SessionId) -> Vec<String> {
        let used = self.all.iter_mut();
        used.filter_map(|(key, server)| server.uses.sessions.remove(session).then(|| key.clone()))
            .collect()
    }
}

/// Set-up requests.
impl Registry {
    /// How many set-up requests with servers are not answered: those of providers, and those to proxies.
    pub fn open_set_ups(&self) -> (usize, usize) {
        (self.provider_set_ups.len(), self.proxy_set_ups.len())
    }

    /// A set-up request is on its way to a proxy, with these servers.
    pub fn track_proxy_set_up(&mut self, seat: Seat, id: &Id, servers: Vec<String>) {
        self.proxy_set_ups.insert((seat, id.detached()), servers);
    }

    /// A proxy has answered, perhaps such a request.
    pub fn finish_proxy_set_up(&mut self, seat: Seat, id: &Id) {
        if !self.proxy_set_ups.is_empty() {
            self.proxy_set_ups.remove(&(seat, id.clone()));
        }
    }

    /// The request without servers that are lost: it may be older than the end of their provider.
    pub fn without_lost_servers(&self, call: Call) -> Call {
        let lost = |acp_server: &AcpServer| {
            acp_server.syntax != Syntax::MissingId && !self.all.contains_key(&acp_server.id)
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

    /// A set-up request of a provider: notes which of its servers are its own, and gives them ids and names
    /// that no other server has.
    pub fn declare(&mut self, hop: Hop, id: &Id, call: &mut Call) {
        let Some(params) = &call.params else { return };
        let Some(mut servers) = ServerList::find(params).filter(ServerList::has_acp_servers) else {
            return;
        };
        let seat = hop.seat;
        let is_own = self.are_own(seat, servers.entries());
        if self.down.contains(&seat) {
            let own = servers.entries().iter().zip(is_own).filter(|(_, is_own)| *is_own);
            let again = own.filter_map(|(entry, _)| entry.acp_server.clone()).collect();
            let (session, dialect) = (session_of(params), hop.dialect);
            let declared = Declared { session, servers: Vec::new(), again, dialect };
            self.provider_set_ups.insert((seat, id.detached()), declared);
            return;
        }
        let mut own: Vec<String> = Vec::new();
        // The server that was there before keeps the name.
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
                .all
                .entry(key.clone())
                .or_insert_with(|| Server::new(seat, &acp_server, hop.dialect, number));
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
            let (again, dialect) = (Vec::new(), hop.dialect);
            let declared = Declared { session, servers: own, again, dialect };
            self.provider_set_ups.insert((seat, id.detached()), declared);
        }
    }

    /// The answer to a set-up request comes back to a provider whose servers were in it. Gives the servers
    /// that may be unused now.
    pub fn answered(&mut self, seat: Seat, id: &Id, outcome: &Outcome) -> Vec<String> {
        if self.provider_set_ups.is_empty() {
            return Vec::new();
        }
        let Some(declared) = self.provider_set_ups.remove(&(seat, id.clone())) else {
            return Vec::new();
        };
        let session = match outcome {
            // A session without a known id is never closed: its servers stay as long as the chain.
            Outcome::Result(result) => {
                Some(session_of(result).or(declared.session).unwrap_or_default())
            }
            Outcome::Error(_) => None,
        };
        if let Some(session) = &session {
            self.match_redeclared(seat, session, &declared.again, declared.dialect);
        }
        // What it had offered in this session before, it offers no more.
        let before = self.all.iter_mut().filter(|(key, server)| {
            server.seat == seat && !declared.servers.is_empty() && !declared.servers.contains(key)
        });
        let before = before.filter_map(|(key, server)| {
            let session = session.as_ref().filter(|it| !it.is_empty())?;
            server.uses.sessions.remove(session).then(|| key.clone())
        });
        let mut touched: Vec<String> = before.collect();
        for key in declared.servers {
            let Some(server) = self.all.get_mut(&key) else { continue };
            server.uses.pending -= 1;
            server.uses.sessions.extend(session.clone());
            touched.push(key);
        }
        touched
    }
}

/// Which server a declaration means.
impl Registry {
    /// Which of the servers in a seat's set-up request are its own? The others have come to it from a
    /// component nearer to the editor; and no list has the same one twice.
    fn are_own(&self, seat: Seat, entries: &[ServerEntry]) -> Vec<bool> {
        let mut others: Vec<&str> = Vec::new();
        let mut own = Vec::new();
        for entry in entries {
            let acp_server = entry.acp_server.as_ref().filter(|it| it.syntax != Syntax::MissingId);
            let other = acp_server.filter(|it| {
                !others.contains(&it.id.as_str())
                    && self.is_from_another_provider(seat, it, entries)
            });
            others.extend(other.map(|it| it.id.as_str()));
            own.push(acp_server.is_some() && other.is_none());
        }
        own
    }

    /// Two providers may have the same id. The server of the one before the seat has the name that it
    /// had, unless another component has renamed it on the way. Of one that is gone in the meantime, it is
    /// known at least that it has come to the seat.
    fn is_from_another_provider(
        &self,
        seat: Seat,
        acp_server: &AcpServer,
        entries: &[ServerEntry],
    ) -> bool {
        let known = self.all.get(&acp_server.id).filter(|known| known.seat < seat);
        let Some(known) = known else { return self.was_received_by(seat, &acp_server.id) };
        let kept = |it: &AcpServer| it.id == acp_server.id && it.name == known.name;
        kept(acp_server)
            || (!entries.iter().any(|it| it.acp_server.as_ref().is_some_and(kept))
                && self.was_received_by(seat, &acp_server.id))
    }

    /// Is there a server with this id in a set-up request that the seat has yet to answer?
    fn was_received_by(&self, seat: Seat, id: &str) -> bool {
        let mut passing = self.proxy_set_ups.iter().filter(|((whose, _), _)| *whose == seat);
        passing.any(|(_, servers)| servers.iter().any(|it| it == id))
    }

    /// The id under which a server of the seat's own is known to the others.
    fn public_id(&self, seat: Seat, acp_server: &AcpServer) -> String {
        // `U` and `acp:U` in one spelling are two servers.
        let same =
            |it: &Server| it.raw_provider_id == acp_server.raw_id || it.syntax != acp_server.syntax;
        let own = |server: &Server| {
            server.seat == seat
                && server.provider_id == acp_server.id
                && !server.missing
                && same(server)
        };
        if let Some((key, _)) = self.all.iter().find(|(_, server)| own(server)) {
            return key.clone();
        }
        let id = match acp_server.syntax {
            Syntax::Scp => format!("scp:{}:{}", seat.0, acp_server.id),
            _ => acp_server.id.clone(),
        };
        let mut candidates = std::iter::once(id.clone()).chain((2..).map(|n| format!("{id}#{n}")));
        candidates.find(|it| !self.all.contains_key(it)).unwrap_or_default()
    }

    /// A seat that was started anew has declared servers for a session that stands: they are those that
    /// it had before, known by their names. Of several with one name, the one with the same id is meant,
    /// or else the first. What it had not offered before, nobody in this session will ever see.
    fn match_redeclared(
        &mut self,
        seat: Seat,
        session: &SessionId,
        acp_servers: &[AcpServer],
        dialect: LinkProtocol,
    ) {
        let of_it = |server: &Server| server.seat == seat && server.uses.sessions.contains(session);
        let has_come_back = |servers: &BTreeMap<String, Server>, acp_server: &AcpServer| {
            let same = |it: &Server| of_it(it) && !it.missing && it.provider_id == acp_server.id;
            servers.values().any(same)
        };
        let mut open: Vec<&AcpServer> = acp_servers.iter().collect();
        open.retain(|acp_server| !has_come_back(&self.all, acp_server));
        let alike: [fn(&Server, &AcpServer) -> bool; 3] = [
            |server, acp_server| server.provider_id == acp_server.id,
            |server, acp_server| server.syntax == acp_server.syntax,
            |_, _| true,
        ];
        for alike in alike {
            open.retain(|acp_server| {
                let fits = |it: &&mut Server| {
                    of_it(it)
                        && it.missing
                        && it.declared_name == acp_server.name
                        && alike(it, acp_server)
                };
                let found = self.all.values_mut().filter(fits).min_by_key(|it| it.order);
                found.map(|server| server.redeclare(acp_server, dialect)).is_none()
            });
        }
    }
}

/// Another name or id in the same spelling, as far as it can have one.
fn rewrite_same_syntax(entry: &mut ServerEntry, name: &str, key: &str, syntax: Syntax) {
    let declare_as = match syntax {
        Syntax::ServerId | Syntax::AcpId => DeclareAs::ServerId,
        _ => DeclareAs::Url,
    };
    entry.rewrite(name, key, &declare_as);
}

/// The name, or the name with a number that nobody has.
fn unique_name(name: &str, taken: &[String]) -> String {
    let mut candidates =
        std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}-{n}")));
    candidates.find(|it| !taken.contains(it)).unwrap_or_default()
}
