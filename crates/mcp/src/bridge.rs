//! The agent's hop: servers of the chain for an agent that does not speak MCP over ACP.
//!
//! A declaration becomes a place where the agent's MCP client can call, good for one session. A
//! client that calls there is connected to the server when it says its first word, so nothing depends
//! on the session having an id, or on its set-up having been answered.

use acp_wire::acp::SessionId;
use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};
use router::{Diagnostic, Level, Seat, Time};

use crate::broker::{Context, Step};
use crate::capability::{AgentCapabilities, NativeSupport};
use crate::endpoint::{Endpoint, Ticket, Transport};
use crate::form::Form;
use crate::ids::{Purpose, RequestIds};

mod agent_profile;
mod client;
mod client_queue;
mod clients;
mod refusal;
mod requests;
mod sessions;
mod set_up;
mod tickets;
mod timeouts;

use agent_profile::AgentProfile;
use clients::Clients;
use requests::{BridgeRequest, Requests};
use sessions::Sessions;
use tickets::Tickets;

pub(crate) use set_up::{SetUp, SetUpDecision, SetUpDraft};

/// The form in which the bridge itself speaks. Whoever is on the way to the provider passes it on,
/// of whatever generation it is: to all but the provider it is an extension they do not know.
pub(crate) const BRIDGE_FORM: Form = Form::M3;

/// How to serve agents that do not speak MCP over ACP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BridgePolicy {
    /// As the agent says it can, and as is known of it.
    Auto,
    Only(Transport),
}

pub struct Bridge {
    /// The seat beyond the last proxy.
    agent_seat: Seat,
    /// The ids of our own questions on the agent's link.
    ids: RequestIds,
    /// What is known of the agent.
    agent: AgentProfile,
    tickets: Tickets,
    sessions: Sessions,
    clients: Clients,
    /// What we have asked in the chain, for which client.
    requests: Requests,
}

impl Bridge {
    pub(crate) fn new(
        policy: BridgePolicy,
        agent_seat: Seat,
        agent: String,
        command: &str,
        ids: RequestIds,
    ) -> Bridge {
        Bridge {
            agent_seat,
            ids,
            agent: AgentProfile::new(policy, agent, command),
            tickets: Tickets::default(),
            sessions: Sessions::default(),
            clients: Clients::default(),
            requests: Requests::default(),
        }
    }

    /// The agent has said what it can do.
    pub(crate) fn set_capabilities(&mut self, capabilities: AgentCapabilities) {
        self.agent.set_capabilities(capabilities);
    }

    /// How the agent speaks MCP over ACP itself, if it does.
    pub fn native(&self) -> Option<NativeSupport> {
        self.agent.native()
    }

    /// Is there anything of ours that the chain has to answer?
    pub fn has_open_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Are there sessions of which it is not known whether the agent calls?
    pub fn is_probing(&self) -> bool {
        self.agent.may_change() && self.sessions.has_unprobed()
    }

    /// A session has had its first answer. An agent that has not called by now may never do so.
    pub(crate) fn on_turn_ended(&mut self, session: &SessionId, cx: &mut Context<'_>) {
        let Some((tickets, transport)) = self.sessions.finish_probe(session) else { return };
        let record: Vec<_> =
            tickets.iter().filter_map(|ticket| self.tickets.get(*ticket)).collect();
        if record.is_empty() || record.iter().any(|record| record.connected) {
            return;
        }
        let names: Vec<_> = record.iter().map(|record| record.name.as_str()).collect();
        let text = format!(
            "{} has not connected to its MCP servers ({}) over {} in its first turn; the next session \
             offers them over {}",
            self.agent.name(),
            names.join(", "),
            transport.name(),
            transport.other().name()
        );
        if self.agent.on_never_connected(transport).is_some() {
            self.report(text, cx);
        }
    }

    pub(crate) fn end_session(&mut self, session: &SessionId, cx: &mut Context<'_>) {
        let tickets = self.sessions.end(session);
        self.release(&tickets, cx);
    }

    /// The shell has opened the place of a ticket, or could not.
    pub(crate) fn endpoint_opened(
        &mut self,
        ticket: Ticket,
        endpoint: &Result<Endpoint, String>,
        cx: &mut Context<'_>,
    ) {
        self.tickets.endpoint_opened(ticket, endpoint.is_ok(), cx);
    }

    /// No client may connect with these tickets any more, and those that have are disconnected.
    pub(crate) fn release(&mut self, tickets: &[Ticket], cx: &mut Context<'_>) {
        for ticket in tickets {
            self.tickets.release(*ticket, cx);
        }
        for client_id in self.clients.with_tickets(tickets) {
            cx.out.push(Step::DisconnectClient(client_id));
            self.on_client_disconnected(client_id, cx);
        }
    }

    /// The agent has died, and with it all who called in its name. What it will be given, it is given
    /// anew.
    pub(crate) fn on_agent_down(&mut self, cx: &mut Context<'_>) {
        cx.out.extend(self.clients.clear().into_iter().map(Step::DisconnectClient));
        self.requests.clear();
        self.sessions.clear();
        self.tickets.release_all(cx);
    }

    /// A server is gone for good.
    pub(crate) fn forget_server(&mut self, server: &str, cx: &mut Context<'_>) {
        self.release(&self.tickets.of_server(server), cx);
    }

    fn report(&self, text: String, cx: &mut Context<'_>) {
        cx.out.push(Step::Report(Diagnostic { level: Level::Warn, seat: self.agent_seat, text }));
    }

    fn arrive(&self, message: Message, cx: &mut Context<'_>) {
        cx.out.push(Step::Inject { from: self.agent_seat, toward: Side::Editor, message });
    }

    fn request_id(&self, number: u64) -> Id {
        self.ids.id(Purpose::Client, number)
    }

    /// The number of a question of ours.
    pub(crate) fn request_number(&self, id: &Id) -> Option<u64> {
        self.ids.number(Purpose::Client, id)
    }

    /// Asks something in the chain, in the agent's place.
    fn send_request(&mut self, request: BridgeRequest, call: Call, cx: &mut Context<'_>) {
        let number = self.ids.next_number();
        self.requests.insert(number, request);
        let id = self.request_id(number);
        self.arrive(Message::Request { id, call }, cx);
    }

    /// When to call [`tick`](Bridge::tick).
    pub fn deadline(&self) -> Option<Time> {
        self.clients.deadline()
    }

    /// How much is open, for tests: tickets, sessions, clients, connections, questions.
    pub fn sizes(&self) -> [usize; 5] {
        let (clients, connections) = self.clients.sizes();
        [self.tickets.len(), self.sessions.len(), clients, connections, self.requests.len()]
    }
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge").field("sizes", &self.sizes()).finish_non_exhaustive()
    }
}

/// What is said of a connection that does not exist.
pub(crate) fn not_found_error(what: &str, form: Form) -> Json {
    let code = if form == Form::M7 { code::NO_SUCH_SERVER } else { code::INVALID_PARAMS };
    error_object(code, &format!("there is no MCP {what}"), None)
}

/// What is said of a server that has the transport acp, but nothing to address it by.
pub(crate) fn missing_id_error(name: &str) -> Outcome {
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
