//! Requests that set up a session, as the agent gets them: each server of the chain is declared in a way that
//! the agent understands. A server that is bridged needs a place, which the shell has to open first.

use acp_wire::acp::SessionId;
use acp_wire::{Call, Outcome, acp, code};

use super::refusal::is_about_servers;
use super::{Bridge, without_id};
use crate::broker::Cx;
use crate::capability::Native;
use crate::declaration::{Manner, Offer, Servers, Spelling};
use crate::endpoint::{Endpoint, Ticket, Transport};

/// A set-up request on its way to the agent.
#[derive(Debug)]
pub(crate) struct SetUp {
    /// As it came, to be tried again in another way.
    original: Call,
    session: Option<SessionId>,
    tickets: Vec<Ticket>,
    kind: Option<Transport>,
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
    answer: Option<Result<Endpoint, String>>,
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
    pub fn answered(&mut self, ticket: Ticket, answer: &Result<Endpoint, String>) {
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
        cx: &mut Cx<'_>,
    ) -> Result<Draft, Outcome> {
        let session = call.params.as_ref().and_then(acp::session_of);
        let set_up = SetUp {
            original: call.detached(),
            session,
            tickets: Vec::new(),
            kind: None,
            refused: None,
        };
        self.declare(set_up, servers, scp, None, cx)
    }

    fn declare(
        &mut self,
        set_up: SetUp,
        servers: Servers,
        scp: impl Fn(&str) -> bool,
        kind: Option<Transport>,
        cx: &mut Cx<'_>,
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
                    self.tickets.ask(ticket, kind, (&offer.id, &offer.name), cx);
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
        kind: Option<Transport>,
    ) -> Result<Vec<(usize, Declared)>, Outcome> {
        let manner = |offer: &Offer| {
            Ok(Some(match (self.native(), offer.spelling) {
                _ if self.agent.takes_scp() && scp(&offer.id) => Declared::As(Manner::Scp),
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
                (None, _) => Declared::Bridged(kind.map_or_else(|| self.agent.choose(), Ok)?),
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
        cx: &mut Cx<'_>,
    ) -> Result<(Call, SetUp), Outcome> {
        let Draft { mut set_up, mut servers, mut edited, places } = draft;
        let v2 = self.agent.is_v2();
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
                    self.release(&set_up.tickets, cx);
                    let why = format!(
                        "the MCP server '{}' cannot be offered to {}: {why}",
                        offer.name,
                        self.agent.name()
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
                self.agent.name(),
                kind.other().name(),
                kind.name()
            );
            self.report(text, cx);
        }
        let mut call = set_up.original.clone();
        if edited {
            call.params = call.params.as_ref().map(|params| servers.write(params));
        }
        Ok((call, set_up))
    }

    /// The agent has answered a set-up request.
    pub(crate) fn on_set_up(
        &mut self,
        mut set_up: SetUp,
        outcome: Outcome,
        scp: impl Fn(&str) -> bool,
        cx: &mut Cx<'_>,
    ) -> Verdict {
        let Outcome::Result(result) = &outcome else {
            let declared = set_up.tickets.iter().filter_map(|ticket| self.tickets.get(*ticket));
            let names: Vec<String> = declared.map(|declared| declared.name.clone()).collect();
            self.release(&set_up.tickets, cx);
            let because = |kind: &Transport| {
                set_up.refused.is_none() && is_about_servers(&outcome, *kind, &names)
            };
            let other = set_up.kind.filter(because).and_then(|kind| self.agent.alternative(kind));
            let servers = set_up.original.params.as_ref().and_then(Servers::find);
            if let (Some(other), Some(servers)) = (other, servers) {
                let again = SetUp { refused: Some(outcome.clone()), tickets: Vec::new(), ..set_up };
                return match self.declare(again, servers, scp, Some(other), cx) {
                    Ok(draft) => Verdict::Again(Box::new(draft)),
                    Err(_) => Verdict::Answer(outcome),
                };
            }
            return Verdict::Answer(set_up.refused.take().unwrap_or(outcome));
        };
        if set_up.refused.is_some() {
            self.agent.works(set_up.kind);
        }
        let session = acp::session_of(result).or(set_up.session);
        match (session, set_up.kind) {
            (Some(session), Some(kind)) => {
                let before = self.sessions.begin(session, set_up.tickets, kind);
                self.release(&before, cx);
            }
            (Some(session), None) => self.end_session(&session, cx),
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
    Bridged(Transport),
}
