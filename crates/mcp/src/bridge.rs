//! The agent's hop: servers of the chain for an agent that does not speak MCP over ACP.
//!
//! A declaration becomes a place where the agent's MCP client can call, good for one session. A
//! client that calls there is connected to the server when it says its first word, so nothing depends
//! on the session having an id, or on its set-up having been answered.

use std::collections::BTreeMap;

use router::{Level, Notice, Seat, Time};
use wire::message::error_object;
use wire::{Call, Id, Json, Message, Outcome, Side, acp, code};

use crate::capability::{Abilities, Native};
use crate::declaration::{Manner, Servers, Spelling};
use crate::exchange::Step;
use crate::form::Form;
use crate::ids::{Ids, Purpose};
use crate::ports::{Caller, Kind, Ports, Ticket};

mod client;
mod limit;
mod refusal;
mod waiting;

use client::Client;
use limit::Calls;
use refusal::is_about_servers;

/// The form in which the bridge itself speaks. Whoever is on the way to the provider passes it on,
/// of whatever generation it is: to all but the provider it is an extension they do not know.
pub(crate) const OURS: Form = Form::M3;

/// How to serve agents that do not speak MCP over ACP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// As the agent says it can, and as is known of it.
    Auto,
    Only(Kind),
}

/// Agents that do not do what they say, and what works with them.
const HABITS: [(&str, Kind); 2] = [("openhands", Kind::Stdio), ("copilot", Kind::Http)];

pub struct Bridge {
    policy: Policy,
    /// The seat beyond the last proxy.
    far: Seat,
    /// How the agent is called in a sentence, and by which names it may be known.
    agent: String,
    known_as: String,
    pub(crate) abilities: Option<Abilities>,
    ports: Box<dyn Ports>,
    /// The ids of our own questions on the agent's link.
    ids: Ids,
    tickets: BTreeMap<Ticket, Admitted>,
    sessions: BTreeMap<String, Session>,
    clients: BTreeMap<Caller, Client>,
    /// Who has which connection to a server.
    connections: BTreeMap<String, Caller>,
    /// What we have asked in the chain, for which client.
    asked: BTreeMap<u64, Asked>,
    /// The requests of clients among them.
    calls: Calls,
    last: u64,
    /// The kind that turned out to work, or is to be tried, in place of the first choice.
    turned: Option<Kind>,
    /// The kind over which the agent has called: whatever it does later, it can.
    proven: Option<Kind>,
}

/// A declaration that was given to the agent.
#[derive(Debug)]
struct Admitted {
    server: String,
    name: String,
    kind: Kind,
    called: bool,
}

#[derive(Debug)]
struct Session {
    tickets: Vec<Ticket>,
    kind: Kind,
    /// It is known whether the agent calls at all.
    judged: bool,
}

#[derive(Debug)]
enum Asked {
    Connect(Caller),
    /// A request of this client, with its own id.
    Call {
        caller: Caller,
        id: Id,
        wanted: Wanted,
    },
}

/// Whether a client still waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Yes,
    /// It has cancelled the request.
    Cancelled,
    /// It has been answered in the server's place.
    No,
}

impl Wanted {
    fn is_open(self) -> bool {
        self == Wanted::Yes
    }
}

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

/// What to do with the answer to a set-up request.
pub(crate) enum Verdict {
    Answer(Outcome),
    /// Ask again, in another way.
    Again(Call, Box<SetUp>),
}

impl Bridge {
    pub(crate) fn new(
        policy: Policy,
        far: Seat,
        agent: String,
        known_as: &str,
        ports: Box<dyn Ports>,
        ids: Ids,
    ) -> Bridge {
        Bridge {
            ids,
            policy,
            far,
            agent,
            known_as: known_as.to_lowercase(),
            abilities: None,
            ports,
            tickets: BTreeMap::new(),
            sessions: BTreeMap::new(),
            clients: BTreeMap::new(),
            connections: BTreeMap::new(),
            asked: BTreeMap::new(),
            calls: Calls::new(),
            last: 0,
            turned: None,
            proven: None,
        }
    }

    /// Speaks the agent MCP over ACP itself?
    pub fn native(&self) -> Option<Native> {
        self.abilities.as_ref()?.native
    }

    /// Is there anything of ours that the chain has to answer?
    pub fn asks(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Are there sessions of which it is not known whether the agent calls?
    pub fn wonders(&self) -> bool {
        self.policy == Policy::Auto && self.sessions.values().any(|session| !session.judged)
    }

    /// Rewrites the servers of a set-up request for the agent. `scp` tells which were offered as SCP
    /// servers.
    pub(crate) fn set_up(
        &mut self,
        call: &Call,
        servers: Servers,
        scp: impl Fn(&str) -> bool,
    ) -> Result<(Call, SetUp), Outcome> {
        let session = call.params.as_ref().and_then(session_of);
        let set_up = SetUp {
            original: call.detached(),
            session,
            tickets: Vec::new(),
            kind: None,
            refused: None,
        };
        self.declare(call, servers, scp, None, set_up)
    }

    fn declare(
        &mut self,
        call: &Call,
        mut servers: Servers,
        scp: impl Fn(&str) -> bool,
        kind: Option<Kind>,
        mut set_up: SetUp,
    ) -> Result<(Call, SetUp), Outcome> {
        let native = self.native();
        let takes_scp = self.abilities.as_ref().is_some_and(|it| it.scp);
        let v2 = self.abilities.as_ref().is_some_and(|it| it.v2);
        let mut edited = false;
        for entry in servers.entries_mut() {
            let Some(offer) = entry.offer.clone() else { continue };
            let manner = match (native, offer.spelling) {
                _ if takes_scp && scp(&offer.id) => Manner::Scp,
                (_, Spelling::Nameless) if native.is_none() => {
                    self.release(&set_up.tickets, &mut Vec::new());
                    return Err(without_id(&offer.name));
                }
                (
                    Some(Native::Current),
                    Spelling::ServerId | Spelling::AcpId | Spelling::Nameless,
                ) => continue,
                (Some(Native::Current), _) => Manner::BothIds,
                (Some(Native::Older), Spelling::Url | Spelling::Uuid | Spelling::Nameless) => {
                    continue;
                }
                (Some(Native::Older), _) => Manner::Url,
                (None, _) => {
                    let kind = match kind.map_or_else(|| self.choose(), Ok) {
                        Ok(kind) => kind,
                        Err(refusal) => {
                            self.release(&set_up.tickets, &mut Vec::new());
                            return Err(refusal);
                        }
                    };
                    set_up.kind = Some(kind);
                    self.last += 1;
                    let ticket = Ticket(self.last);
                    match self.ports.admit(kind, ticket) {
                        Ok(place) => {
                            let (server, name) = (offer.id.clone(), offer.name.clone());
                            let admitted = Admitted { server, name, kind, called: false };
                            self.tickets.insert(ticket, admitted);
                            set_up.tickets.push(ticket);
                            Manner::Bridged { place, v2 }
                        }
                        Err(why) => {
                            let why = format!(
                                "the MCP server '{}' cannot be offered to {}: {why}",
                                offer.name, self.agent
                            );
                            self.release(&set_up.tickets, &mut Vec::new());
                            return Err(Outcome::error(code::INTERNAL_ERROR, &why));
                        }
                    }
                }
            };
            entry.respell(&offer.name, &offer.id, &manner);
            edited = true;
        }
        let params = match edited {
            true => call.params.as_ref().map(|params| servers.write(params)),
            false => call.params.clone(),
        };
        Ok((Call { params, ..call.clone() }, set_up))
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
    fn alternative(&self, kind: Kind) -> Option<Kind> {
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
            let admitted = set_up.tickets.iter().filter_map(|ticket| self.tickets.get(ticket));
            let names: Vec<String> = admitted.map(|admitted| admitted.name.clone()).collect();
            self.release(&set_up.tickets, steps);
            let because =
                |kind: &Kind| set_up.refused.is_none() && is_about_servers(&outcome, *kind, &names);
            let other = set_up.kind.filter(because).and_then(|kind| self.alternative(kind));
            if let Some(other) = other {
                let servers = set_up.original.params.as_ref().and_then(Servers::find);
                let again = SetUp { refused: Some(outcome.clone()), tickets: Vec::new(), ..set_up };
                let original = again.original.clone();
                if let Some(servers) = servers
                    && let Ok((call, set_up)) =
                        self.declare(&original, servers, scp, Some(other), again)
                {
                    let text = format!(
                        "{} refused a session with MCP servers over {}; trying {}",
                        self.agent,
                        other.other().name(),
                        other.name()
                    );
                    self.report(text, steps);
                    return Verdict::Again(call, Box::new(set_up));
                }
                return Verdict::Answer(outcome);
            }
            return Verdict::Answer(set_up.refused.take().unwrap_or(outcome));
        };
        if set_up.refused.is_some() {
            self.turned = set_up.kind;
        }
        let session = session_of(result).or(set_up.session);
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

    /// A session has had its first answer. An agent that has not called by now may never do so.
    pub(crate) fn on_prompted(&mut self, session: &str, steps: &mut Vec<Step>) {
        let Some(session) = self.sessions.get_mut(session).filter(|session| !session.judged) else {
            return;
        };
        session.judged = true;
        let kind = session.kind;
        if self.proven == Some(kind) {
            return;
        }
        let admitted: Vec<_> =
            session.tickets.iter().filter_map(|ticket| self.tickets.get(ticket)).collect();
        if admitted.is_empty() || admitted.iter().any(|admitted| admitted.called) {
            return;
        }
        let names: Vec<_> = admitted.iter().map(|admitted| admitted.name.as_str()).collect();
        let text = format!(
            "{} has not connected to its MCP servers ({}) over {} in its first turn; the next session \
             offers them over {}",
            self.agent,
            names.join(", "),
            kind.name(),
            kind.other().name()
        );
        if let Some(other) = self.alternative(kind)
            && self.turned.is_none()
        {
            self.turned = Some(other);
            self.report(text, steps);
        }
    }

    pub(crate) fn end_session(&mut self, session: &str, steps: &mut Vec<Step>) {
        if let Some(session) = self.sessions.remove(session) {
            self.release(&session.tickets, steps);
        }
    }

    /// Nobody may call with these tickets any more, and who has is hung up on.
    fn release(&mut self, tickets: &[Ticket], steps: &mut Vec<Step>) {
        for ticket in tickets {
            if self.tickets.remove(ticket).is_some() {
                self.ports.revoke(*ticket);
            }
        }
        let gone = |client: &Client| tickets.contains(&client.ticket);
        let callers: Vec<Caller> = self
            .clients
            .iter()
            .filter(|(_, client)| gone(client))
            .map(|(caller, _)| *caller)
            .collect();
        for caller in callers {
            steps.push(Step::HangUp(caller));
            self.on_hung_up(caller, steps);
        }
    }

    /// The agent has died, and with it all who called in its name. What it will be given, it is given
    /// anew.
    pub(crate) fn on_parted(&mut self, steps: &mut Vec<Step>) {
        steps.extend(self.clients.keys().copied().map(Step::HangUp));
        self.clients.clear();
        self.connections.clear();
        self.asked.clear();
        self.calls.clear();
        self.sessions.clear();
        for ticket in std::mem::take(&mut self.tickets).into_keys() {
            self.ports.revoke(ticket);
        }
    }

    /// A server is gone for good.
    pub(crate) fn forget_server(&mut self, server: &str, steps: &mut Vec<Step>) {
        let tickets = self.tickets.iter().filter(|(_, admitted)| admitted.server == server);
        let tickets: Vec<Ticket> = tickets.map(|(ticket, _)| *ticket).collect();
        self.release(&tickets, steps);
    }

    fn report(&self, text: String, steps: &mut Vec<Step>) {
        steps.push(Step::Report(Notice { level: Level::Warn, seat: self.far, text }));
    }

    fn arrive(&self, message: Message, steps: &mut Vec<Step>) {
        steps.push(Step::Arrive { from: self.far, toward: Side::Editor, message });
    }

    fn our_id(&self, number: u64) -> Id {
        self.ids.id(Purpose::Client, number)
    }

    /// The number of a question of ours.
    pub(crate) fn our_number(&self, id: &Id) -> Option<u64> {
        self.ids.number(Purpose::Client, id)
    }

    /// Asks something in the chain, in the agent's place.
    fn ask(&mut self, asked: Asked, call: Call, steps: &mut Vec<Step>) {
        self.last += 1;
        if let Asked::Call { caller, id, .. } = &asked {
            self.calls.insert((*caller, id.detached(), self.last));
        }
        self.asked.insert(self.last, asked);
        let id = self.our_id(self.last);
        self.arrive(Message::Request { id, call }, steps);
    }

    /// When to call [`tick`](Bridge::tick).
    pub fn deadline(&self) -> Option<Time> {
        self.clients.values().filter_map(Client::deadline).min()
    }

    /// How much is open, for tests: tickets, sessions, clients, connections, questions.
    pub fn sizes(&self) -> [usize; 5] {
        [
            self.tickets.len(),
            self.sessions.len(),
            self.clients.len(),
            self.connections.len(),
            self.asked.len(),
        ]
    }
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge").field("sizes", &self.sizes()).finish_non_exhaustive()
    }
}

/// The session that params or a result name.
pub(crate) fn session_of(json: &Json) -> Option<String> {
    json.member("sessionId")?.text().map(|text| text.into_owned())
}

/// What is said of a connection that does not exist.
pub(crate) fn no_such(what: &str, form: Form) -> Json {
    const NO_SUCH_SERVER: i64 = -33001;
    let code = if form == Form::M7 { NO_SUCH_SERVER } else { code::INVALID_PARAMS };
    error_object(code, &format!("there is no MCP {what}"), None)
}

/// What is said of a server that has the transport acp, but nothing to address it by.
pub(crate) fn without_id(name: &str) -> Outcome {
    let why =
        format!("the MCP server '{name}' has the transport acp, but no serverId; give it one");
    Outcome::error(code::INVALID_PARAMS, &why)
}

pub(crate) fn cancel(id: &Id) -> Message {
    Message::notification(
        acp::CANCEL_REQUEST,
        Json::object([("requestId", Some(id.json().clone()))]),
    )
}
