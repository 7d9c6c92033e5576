//! Requests that set up a session, as the agent gets them: each server of the chain is declared in a way that
//! the agent understands. A server that is bridged needs a place, which the shell has to open first.

use wire::{Call, Outcome, acp, code};

use super::refusal::is_about_servers;
use super::{Bridge, Policy, Session, without_id};
use crate::capability::Native;
use crate::declaration::{Manner, Offer, Servers, Spelling};
use crate::exchange::Step;
use crate::ports::{Kind, Place, Ticket};

/// Agents that do not do what they say, and what works with them.
const HABITS: [(&str, Kind); 2] = [("openhands", Kind::Stdio), ("copilot", Kind::Http)];

/// A set-up request on its way to the agent.
#[derive(Debug)]
pub(crate) struct SetUp {
    /// As it came, to be tried again in another way.
    original: Call,
    session: Option<String>,
    tickets: Vec<Ticket>,
    kind: Option<Kind>,
    /// It was refused once already, with this error.
    refused: Option<Outcome>,
}

/// A set-up request for the agent, some of whose servers may have no place yet.
#[derive(Debug)]
pub(crate) struct Draft {
    set_up: SetUp,
    servers: Servers,
    edited: bool,
    places: Vec<Wanted>,
}

/// A place for the server with this index, and what the shell has answered.
#[derive(Debug)]
struct Wanted {
    index: usize,
    ticket: Ticket,
    answer: Option<Result<Place, String>>,
}

/// What to do with the answer to a set-up request.
pub(crate) enum Verdict {
    Answer(Outcome),
    /// Ask again, in another way.
    Again(Box<Draft>),
}

impl Draft {
    /// Whether the shell has answered for all places.
    pub fn is_complete(&self) -> bool {
        self.places.iter().all(|wanted| wanted.answer.is_some())
    }

    /// The shell has answered for one place, perhaps of this request.
    pub fn answered(&mut self, ticket: Ticket, answer: &Result<Place, String>) {
        let wanted = self.places.iter_mut().find(|wanted| wanted.ticket == ticket);
        wanted.into_iter().for_each(|wanted| wanted.answer = Some(answer.clone()));
    }

    pub fn tickets(&self) -> &[Ticket] {
        &self.set_up.tickets
    }
}

impl Bridge {
    /// Rewrites the servers of a set-up request for the agent. `scp` tells which were offered as SCP
    /// servers.
    pub(crate) fn set_up(
        &mut self,
        call: &Call,
        servers: Servers,
        scp: impl Fn(&str) -> bool,
        steps: &mut Vec<Step>,
    ) -> Result<Draft, Outcome> {
        let session = call.params.as_ref().and_then(acp::session_of);
        let set_up = SetUp {
            original: call.detached(),
            session,
            tickets: Vec::new(),
            kind: None,
            refused: None,
        };
        self.declare(set_up, servers, scp, None, steps)
    }

    fn declare(
        &mut self,
        set_up: SetUp,
        servers: Servers,
        scp: impl Fn(&str) -> bool,
        kind: Option<Kind>,
        steps: &mut Vec<Step>,
    ) -> Result<Draft, Outcome> {
        let manners = self.manners(&servers, scp, kind)?;
        let mut draft = Draft { set_up, servers, edited: false, places: Vec::new() };
        for (index, manner) in manners {
            let entry = &mut draft.servers.entries_mut()[index];
            let Some(offer) = entry.offer.clone() else { continue };
            match manner {
                Declared::As(manner) => {
                    entry.respell(&offer.name, &offer.id, &manner);
                    draft.edited = true;
                }
                Declared::Bridged(kind) => {
                    let ticket = Ticket(self.ids.fresh());
                    self.tickets.ask(ticket, kind, (&offer.id, &offer.name), steps);
                    draft.set_up.kind = Some(kind);
                    draft.set_up.tickets.push(ticket);
                    draft.places.push(Wanted { index, ticket, answer: None });
                }
            }
        }
        Ok(draft)
    }

    /// How each server is declared to the agent. Servers that stay as they are, are left out.
    fn manners(
        &self,
        servers: &Servers,
        scp: impl Fn(&str) -> bool,
        kind: Option<Kind>,
    ) -> Result<Vec<(usize, Declared)>, Outcome> {
        let takes_scp = self.abilities.as_ref().is_some_and(|it| it.scp);
        let manner = |offer: &Offer| {
            Ok(Some(match (self.native(), offer.spelling) {
                _ if takes_scp && scp(&offer.id) => Declared::As(Manner::Scp),
                (None, Spelling::Nameless) => return Err(without_id(&offer.name)),
                (
                    Some(Native::Current),
                    Spelling::ServerId | Spelling::AcpId | Spelling::Nameless,
                )
                | (Some(Native::Older), Spelling::Url | Spelling::Uuid | Spelling::Nameless) => {
                    return Ok(None);
                }
                (Some(Native::Current), _) => Declared::As(Manner::BothIds),
                (Some(Native::Older), _) => Declared::As(Manner::Url),
                (None, _) => Declared::Bridged(kind.map_or_else(|| self.choose(), Ok)?),
            }))
        };
        let offers = servers.entries().iter().enumerate();
        let offers = offers.filter_map(|(index, entry)| Some((index, entry.offer.as_ref()?)));
        let declared = offers.filter_map(|(index, offer)| {
            manner(offer).map(|it| it.map(|it| (index, it))).transpose()
        });
        declared.collect()
    }

    /// The shell has answered for all places of a set-up request. Gives the request for the agent, or the
    /// answer to it if a place could not be opened. Servers that are gone in the meantime are left out.
    pub(crate) fn complete(
        &mut self,
        draft: Draft,
        steps: &mut Vec<Step>,
    ) -> Result<(Call, SetUp), Outcome> {
        let Draft { mut set_up, mut servers, mut edited, places } = draft;
        let v2 = self.abilities.as_ref().is_some_and(|it| it.v2);
        let mut gone = Vec::new();
        for Wanted { index, ticket, answer } in places {
            let entry = &mut servers.entries_mut()[index];
            let Some(offer) = entry.offer.clone() else { continue };
            edited = true;
            match answer.filter(|_| self.tickets.get(ticket).is_some()) {
                Some(Ok(place)) => {
                    entry.respell(&offer.name, &offer.id, &Manner::Bridged { place, v2 });
                }
                Some(Err(why)) => {
                    self.release(&set_up.tickets, steps);
                    let why = format!(
                        "the MCP server '{}' cannot be offered to {}: {why}",
                        offer.name, self.agent
                    );
                    let error = || Outcome::error(code::INTERNAL_ERROR, &why);
                    return Err(set_up.refused.take().unwrap_or_else(error));
                }
                None => gone.push(index),
            }
        }
        servers.leave_out_at(&gone);
        if let (Some(kind), Some(_)) = (set_up.kind, &set_up.refused) {
            let text = format!(
                "{} refused a session with MCP servers over {}; trying {}",
                self.agent,
                kind.other().name(),
                kind.name()
            );
            self.report(text, steps);
        }
        let mut call = set_up.original.clone();
        if edited {
            call.params = call.params.as_ref().map(|params| servers.write(params));
        }
        Ok((call, set_up))
    }

    /// The kind of declaration that this agent is given.
    fn choose(&self) -> Result<Kind, Outcome> {
        let kind = match self.policy {
            Policy::Only(kind) => return Ok(kind),
            Policy::Auto => self.habit().or(self.turned),
        };
        let (http, stdio) = self
            .abilities
            .as_ref()
            .map_or((false, true), |abilities| (abilities.http, abilities.stdio));
        match kind {
            Some(kind) => Ok(kind),
            None if http => Ok(Kind::Http),
            None if stdio => Ok(Kind::Stdio),
            None => {
                let why = format!(
                    "{} takes MCP servers neither over ACP nor over HTTP nor over stdio; leave them \
                     out, or force one with --mcp-bridge",
                    self.agent
                );
                Err(Outcome::error(code::INVALID_PARAMS, &why))
            }
        }
    }

    fn habit(&self) -> Option<Kind> {
        let says = self.abilities.as_ref().map_or("", |abilities| &abilities.name);
        let known =
            HABITS.iter().find(|(name, _)| says.contains(name) || self.known_as.contains(name));
        known.map(|(_, kind)| *kind)
    }

    /// Another way to declare servers to an agent that could not do with the first.
    pub(super) fn alternative(&self, kind: Kind) -> Option<Kind> {
        let other = kind.other();
        // Only what the agent has offered; every agent of v1 has stdio.
        let offered = self.abilities.as_ref().is_some_and(|it| match other {
            Kind::Http => it.http,
            Kind::Stdio => it.stdio,
        });
        (self.policy == Policy::Auto && self.habit().is_none() && offered).then_some(other)
    }

    /// The agent has answered a set-up request.
    pub(crate) fn on_set_up(
        &mut self,
        mut set_up: SetUp,
        outcome: Outcome,
        scp: impl Fn(&str) -> bool,
        steps: &mut Vec<Step>,
    ) -> Verdict {
        let Outcome::Result(result) = &outcome else {
            let declared = set_up.tickets.iter().filter_map(|ticket| self.tickets.get(*ticket));
            let names: Vec<String> = declared.map(|declared| declared.name.clone()).collect();
            self.release(&set_up.tickets, steps);
            let because =
                |kind: &Kind| set_up.refused.is_none() && is_about_servers(&outcome, *kind, &names);
            let other = set_up.kind.filter(because).and_then(|kind| self.alternative(kind));
            let servers = set_up.original.params.as_ref().and_then(Servers::find);
            if let (Some(other), Some(servers)) = (other, servers) {
                let again = SetUp { refused: Some(outcome.clone()), tickets: Vec::new(), ..set_up };
                return match self.declare(again, servers, scp, Some(other), steps) {
                    Ok(draft) => Verdict::Again(Box::new(draft)),
                    Err(_) => Verdict::Answer(outcome),
                };
            }
            return Verdict::Answer(set_up.refused.take().unwrap_or(outcome));
        };
        if set_up.refused.is_some() {
            self.turned = set_up.kind;
        }
        let session = acp::session_of(result).or(set_up.session);
        match (session, set_up.kind) {
            (Some(session), Some(kind)) => {
                let next = Session { tickets: set_up.tickets, kind, judged: false };
                if let Some(before) = self.sessions.insert(session, next) {
                    self.release(&before.tickets, steps);
                }
            }
            (Some(session), None) => self.end_session(&session, steps),
            // Without a name it cannot be closed; it ends with the chain.
            (None, _) => {}
        }
        Verdict::Answer(outcome)
    }
}

/// How a server is declared to the agent.
enum Declared {
    As(Manner),
    /// As a place where an MCP client can connect.
    Bridged(Kind),
}
