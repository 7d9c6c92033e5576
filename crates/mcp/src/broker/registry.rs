//! The servers that are offered in the chain, and the set-up requests that declare them.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::acp::{SessionId, session_of};
use acp_wire::{Call, Id, LinkProtocol, Outcome};
use router::Seat;

use super::Hop;
use super::server::{Server, Uses};
use crate::declaration::{Entry, Manner, Offer, Servers, Spelling};
use crate::form::Form;

#[derive(Debug, Default)]
pub struct Registry {
    /// By the id under which all but its provider know it.
    all: BTreeMap<String, Server>,
    /// How many servers were ever declared.
    declared: u64,
    /// Set-up requests of providers that are not answered: which of their servers are in them.
    setting_up: BTreeMap<(Seat, Id), Declared>,
    /// Set-up requests that a proxy has yet to answer: the ids of the servers in them.
    passing: BTreeMap<(Seat, Id), Vec<String>>,
    /// Seats whose component has died, until another has taken its place.
    away: BTreeSet<Seat>,
    /// Seats in which more than one component has provided servers.
    reborn: BTreeSet<Seat>,
}

/// Servers that a provider has declared in a set-up request.
#[derive(Debug)]
struct Declared {
    /// The session that the request names.
    session: Option<SessionId>,
    servers: Vec<String>,
    /// Of a seat that was started anew: what it declares. Only the answer says for which session.
    again: Vec<Offer>,
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
        self.all.values().any(|server| server.seat == seat && server.native == native)
    }

    pub fn is_scp(&self, key: &str) -> bool {
        self.all.get(key).is_some_and(Server::is_scp)
    }

    /// Whether no session needs a server.
    pub fn is_unused(&self, key: &str) -> bool {
        self.all.get(key).is_some_and(|server| server.uses == Uses::default())
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
    pub fn parted(&mut self, seat: Seat) -> Vec<String> {
        self.away.insert(seat);
        self.forget_set_ups(seat);
        let provided = self.all.iter_mut().filter(|(_, server)| server.seat == seat);
        let provided = provided.map(|(key, server)| {
            server.missing = true;
            server.uses.pending = 0;
            key.clone()
        });
        let provided: Vec<String> = provided.collect();
        if !provided.is_empty() {
            self.reborn.insert(seat);
        }
        provided
    }

    /// Another component has taken its place. Gives the servers that it does not offer any more, by id and
    /// name; `None` if nobody was away.
    pub fn returned(&mut self, seat: Seat) -> Option<Vec<(String, String)>> {
        self.away.remove(&seat).then(|| self.of(seat, |server| server.missing))
    }

    /// No component takes its place. Gives the servers that are gone, by id and name.
    pub fn bypassed(&mut self, seat: Seat) -> Vec<(String, String)> {
        self.away.remove(&seat);
        self.of(seat, |_| true)
    }

    /// A component has left for good.
    pub fn left(&mut self, seat: Seat) {
        self.away.remove(&seat);
        self.forget_set_ups(seat);
    }

    fn forget_set_ups(&mut self, seat: Seat) {
        self.setting_up.retain(|(whose, _), _| *whose != seat);
        self.passing.retain(|(whose, _), _| *whose != seat);
    }

    /// Whether more than one component has provided servers in this seat.
    pub fn is_reborn(&self, seat: Seat) -> bool {
        self.reborn.contains(&seat)
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
        (self.setting_up.len(), self.passing.len())
    }

    /// A set-up request is on its way to a proxy, with these servers.
    pub fn passes(&mut self, seat: Seat, id: &Id, servers: Vec<String>) {
        self.passing.insert((seat, id.detached()), servers);
    }

    /// A proxy has answered, perhaps such a request.
    pub fn passed(&mut self, seat: Seat, id: &Id) {
        if !self.passing.is_empty() {
            self.passing.remove(&(seat, id.clone()));
        }
    }

    /// The request without servers that are lost: it may be older than the end of their provider.
    pub fn without_lost(&self, call: Call) -> Call {
        let lost = |offer: &Offer| {
            offer.spelling != Spelling::Nameless && !self.all.contains_key(&offer.id)
        };
        let rest = call.params.as_ref().and_then(|params| {
            let mut servers = Servers::find(params)?;
            let any = servers.leave_out(lost);
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
        let Some(mut servers) = Servers::find(params).filter(Servers::has_offers) else { return };
        let seat = hop.seat;
        let is_own = self.own(seat, servers.entries());
        if self.away.contains(&seat) {
            let own = servers.entries().iter().zip(is_own).filter(|(_, is_own)| *is_own);
            let again = own.filter_map(|(entry, _)| entry.offer.clone()).collect();
            let (session, dialect) = (session_of(params), hop.dialect);
            let declared = Declared { session, servers: Vec::new(), again, dialect };
            self.setting_up.insert((seat, id.detached()), declared);
            return;
        }
        let mut own: Vec<String> = Vec::new();
        // The server that was there before keeps the name.
        let others = servers.entries().iter().zip(&is_own).filter(|(_, is_own)| !**is_own);
        let mut taken: Vec<String> = others.filter_map(|(entry, _)| entry.name()).collect();
        let mut edited = false;
        for (entry, is_own) in servers.entries_mut().iter_mut().zip(is_own) {
            let Some(offer) = entry.offer.clone().filter(|_| is_own) else { continue };
            let key = self.own_key(seat, &offer);
            let name = unused(&offer.name, &taken);
            taken.push(name.clone());
            self.declared += 1;
            let number = self.declared;
            let server = self
                .all
                .entry(key.clone())
                .or_insert_with(|| Server::new(seat, &offer, hop.dialect, number));
            server.name = name.clone();
            server.uses.pending += 1;
            own.push(key.clone());
            if key != offer.id || name != offer.name {
                respell_alike(entry, &name, &key, offer.spelling);
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
            self.setting_up.insert((seat, id.detached()), declared);
        }
    }

    /// The answer to a set-up request comes back to a provider whose servers were in it. Gives the servers
    /// that may be unused now.
    pub fn answered(&mut self, seat: Seat, id: &Id, outcome: &Outcome) -> Vec<String> {
        if self.setting_up.is_empty() {
            return Vec::new();
        }
        let Some(declared) = self.setting_up.remove(&(seat, id.clone())) else {
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
            self.declared_again(seat, session, &declared.again, declared.dialect);
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
    fn own(&self, seat: Seat, entries: &[Entry]) -> Vec<bool> {
        let mut others: Vec<&str> = Vec::new();
        let mut own = Vec::new();
        for entry in entries {
            let offer = entry.offer.as_ref().filter(|it| it.spelling != Spelling::Nameless);
            let other = offer.filter(|it| {
                !others.contains(&it.id.as_str()) && self.is_of_another(seat, it, entries)
            });
            others.extend(other.map(|it| it.id.as_str()));
            own.push(offer.is_some() && other.is_none());
        }
        own
    }

    /// Two providers may have the same id. The server of the one before the seat has the name that it
    /// had, unless another component has renamed it on the way. Of one that is gone in the meantime, it is
    /// known at least that it has come to the seat.
    fn is_of_another(&self, seat: Seat, offer: &Offer, entries: &[Entry]) -> bool {
        let known = self.all.get(&offer.id).filter(|known| known.seat < seat);
        let Some(known) = known else { return self.has_come_to(seat, &offer.id) };
        let kept = |it: &Offer| it.id == offer.id && it.name == known.name;
        kept(offer)
            || (!entries.iter().any(|it| it.offer.as_ref().is_some_and(kept))
                && self.has_come_to(seat, &offer.id))
    }

    /// Is there a server with this id in a set-up request that the seat has yet to answer?
    fn has_come_to(&self, seat: Seat, id: &str) -> bool {
        let mut passing = self.passing.iter().filter(|((whose, _), _)| *whose == seat);
        passing.any(|(_, servers)| servers.iter().any(|it| it == id))
    }

    /// The id under which a server of the seat's own is known to the others.
    fn own_key(&self, seat: Seat, offer: &Offer) -> String {
        // `U` and `acp:U` in one spelling are two servers.
        let same = |it: &Server| it.spelt == offer.spelt || it.spelling != offer.spelling;
        let own = |server: &Server| {
            server.seat == seat && server.native == offer.id && !server.missing && same(server)
        };
        if let Some((key, _)) = self.all.iter().find(|(_, server)| own(server)) {
            return key.clone();
        }
        let id = match offer.spelling {
            Spelling::Scp => format!("scp:{}:{}", seat.0, offer.id),
            _ => offer.id.clone(),
        };
        let mut candidates = std::iter::once(id.clone()).chain((2..).map(|n| format!("{id}#{n}")));
        candidates.find(|it| !self.all.contains_key(it)).unwrap_or_default()
    }

    /// A seat that was started anew has declared servers for a session that stands: they are those that
    /// it had before, known by their names. Of several with one name, the one with the same id is meant,
    /// or else the first. What it had not offered before, nobody in this session will ever see.
    fn declared_again(
        &mut self,
        seat: Seat,
        session: &SessionId,
        offers: &[Offer],
        dialect: LinkProtocol,
    ) {
        let of_it = |server: &Server| server.seat == seat && server.uses.sessions.contains(session);
        let has_come_back = |servers: &BTreeMap<String, Server>, offer: &Offer| {
            let same = |it: &Server| of_it(it) && !it.missing && it.native == offer.id;
            servers.values().any(same)
        };
        let mut open: Vec<&Offer> = offers.iter().collect();
        open.retain(|offer| !has_come_back(&self.all, offer));
        let alike: [fn(&Server, &Offer) -> bool; 3] = [
            |server, offer| server.native == offer.id,
            |server, offer| server.spelling == offer.spelling,
            |_, _| true,
        ];
        for alike in alike {
            open.retain(|offer| {
                let fits = |it: &&mut Server| {
                    of_it(it) && it.missing && it.offered == offer.name && alike(it, offer)
                };
                let found = self.all.values_mut().filter(fits).min_by_key(|it| it.number);
                found.map(|server| server.renew(offer, dialect)).is_none()
            });
        }
    }
}

/// Another name or id in the same spelling, as far as it can have one.
fn respell_alike(entry: &mut Entry, name: &str, key: &str, spelling: Spelling) {
    let manner = match spelling {
        Spelling::ServerId | Spelling::AcpId => Manner::ServerId,
        _ => Manner::Url,
    };
    entry.respell(name, key, &manner);
}

/// The name, or the name with a number that nobody has.
fn unused(name: &str, taken: &[String]) -> String {
    let mut candidates =
        std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}-{n}")));
    candidates.find(|it| !taken.contains(it)).unwrap_or_default()
}
