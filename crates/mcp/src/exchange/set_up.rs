//! Requests that set a session up: whose servers are in them, and how the next one reads them.

use router::{Seat, Time};
use wire::acp::session_of;
use wire::{Call, Generation, Id, Message, Outcome, Side, Spoken};

use super::server::Server;
use super::{Declared, Exchange, Hop, Step, Watch};
use crate::bridge::without_id;
use crate::declaration::{Entry, Manner, Offer, Servers, Spelling};

/// The dialect of components that take servers with the transport acp.
const CURRENT: Spoken = Spoken::Generation(Generation::P5);

impl Exchange {
    /// A set-up request on its way to the agent.
    pub(super) fn on_set_up(
        &mut self,
        id: Id,
        call: Call,
        steps: &mut Vec<Step>,
    ) -> Option<Message> {
        let call = self.without_lost(call);
        let Some(servers) = call.params.as_ref().and_then(Servers::find) else {
            return Some(Message::Request { id, call });
        };
        if !servers.has_offers() {
            return Some(Message::Request { id, call });
        }
        let known = &self.servers;
        let scp = |id: &str| known.get(id).is_some_and(Server::is_scp);
        match self.bridge.set_up(&call, servers, scp, steps) {
            Ok(draft) => self.place(id, draft, steps),
            Err(outcome) => {
                let message = Message::response(id, outcome);
                steps.push(Step::Arrive { from: self.far, toward: Side::Editor, message });
                None
            }
        }
    }

    /// The set-up request of a session may be older than the end of somebody whose servers are in it.
    fn without_lost(&self, call: Call) -> Call {
        let lost = |offer: &Offer| {
            offer.spelling != Spelling::Nameless && !self.servers.contains_key(&offer.id)
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

    /// A set-up request of a provider: which of its servers are its own, and how are they called?
    pub(super) fn on_declared(&mut self, hop: Hop, id: &Id, call: &mut Call) {
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
        // Whoever was there before keeps the name.
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
                .servers
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

    /// The answer to a set-up request comes back to a provider whose servers were in it.
    pub(super) fn on_set_up_answered(
        &mut self,
        now: Time,
        seat: Seat,
        id: &Id,
        outcome: &Outcome,
        steps: &mut Vec<Step>,
    ) {
        if self.setting_up.is_empty() {
            return;
        }
        let Some(declared) = self.setting_up.remove(&(seat, id.clone())) else { return };
        let session = match outcome {
            // One that nobody has named is never closed: its servers stay as long as the chain.
            Outcome::Result(result) => {
                Some(session_of(result).or(declared.session).unwrap_or_default())
            }
            Outcome::Error(_) => None,
        };
        if let Some(session) = &session {
            self.declared_again(seat, session, &declared.again, declared.dialect);
        }
        // What it had offered in this session before, it offers no more.
        let before = self.servers.iter_mut().filter(|(key, server)| {
            server.seat == seat && !declared.servers.is_empty() && !declared.servers.contains(key)
        });
        let before = before.filter_map(|(key, server)| {
            let session = session.as_ref().filter(|it| !it.is_empty())?;
            server.uses.sessions.remove(session).then(|| key.clone())
        });
        for key in before.collect::<Vec<String>>() {
            self.drop_if_unused(now, &key, steps);
        }
        for key in declared.servers {
            let Some(server) = self.servers.get_mut(&key) else { continue };
            server.uses.pending -= 1;
            server.uses.sessions.extend(session.clone());
            self.drop_if_unused(now, &key, steps);
        }
    }

    /// A set-up request on its way to a proxy, or beyond us.
    pub(super) fn pass_set_up(
        &mut self,
        hop: Hop,
        to_agent: bool,
        id: &Id,
        call: &mut Call,
    ) -> Result<(), Outcome> {
        let found = call.params.as_ref().and_then(Servers::find).filter(Servers::has_offers);
        let Some(servers) = found else { return Ok(()) };
        let offers: Vec<&Offer> =
            servers.entries().iter().filter_map(|entry| entry.offer.as_ref()).collect();
        // Older components choke on the transport, and without an id there is no other spelling.
        let nameless = |it: &&&Offer| it.spelling == Spelling::Nameless && hop.dialect != CURRENT;
        if let Some(offer) = offers.iter().find(nameless) {
            return Err(without_id(&offer.name));
        }
        if !to_agent {
            let ids = offers.iter().map(|offer| offer.id.clone()).collect();
            self.watched.insert((hop.seat, id.detached()), Watch::Passing(ids));
        }
        in_transit(hop.dialect, servers, call);
        Ok(())
    }
}

/// Spells servers in a way that the next component understands, or at least passes on.
fn in_transit(dialect: Spoken, mut servers: Servers, call: &mut Call) {
    let Some(params) = &call.params else { return };
    let current = dialect == CURRENT;
    let mut edited = false;
    for entry in servers.entries_mut() {
        let Some(offer) = entry.offer.clone() else { continue };
        let manner = match (current, offer.spelling) {
            (true, Spelling::ServerId) | (false, Spelling::Url) | (_, Spelling::Nameless) => {
                continue;
            }
            (true, _) => Manner::ServerId,
            (false, _) => Manner::Url,
        };
        entry.respell(&offer.name, &offer.id, &manner);
        edited = true;
    }
    if edited {
        call.params = Some(servers.write(params));
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
