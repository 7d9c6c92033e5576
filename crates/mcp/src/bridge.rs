//! The bridge: serves an agent that does not support MCP over ACP.
//!
//! Each declaration becomes an endpoint where the agent's MCP client can connect, valid for one
//! session. The bridge connects a client to the server when the client sends its first message. So
//! a client can use its server before the set-up request is answered and the id of the session is
//! known.

use acp_wire::acp::SessionId;
use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};
use router::{Diagnostic, Level, Seat, Time};

use crate::broker::{Action, Context};
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

/// The form of the messages that the bridge sends. Components between the bridge and the provider
/// do not know these methods, and components of every generation pass unknown extension methods on.
pub(crate) const BRIDGE_FORM: Form = Form::M3;

/// How to bridge MCP servers to an agent that does not support MCP over ACP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BridgePolicy {
    /// Use a transport that the agent declares, with exceptions for known agents.
    Auto,
    /// Always use this transport.
    Only(Transport),
}

/// Serves the MCP clients of the agent.
pub(crate) struct Bridge {
    /// The seat of the agent.
    agent_seat: Seat,
    /// The ids of requests that the bridge sends on behalf of the agent.
    ids: RequestIds,
    /// What is known about the agent.
    agent: AgentProfile,
    tickets: Tickets,
    sessions: Sessions,
    clients: Clients,
    /// The requests that the bridge has sent into the chain, and for which client.
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

    /// Records the capabilities of the agent.
    pub(crate) fn set_capabilities(&mut self, capabilities: AgentCapabilities) {
        self.agent.set_capabilities(capabilities);
    }

    /// How the agent supports MCP over ACP, if it does.
    pub(crate) fn native(&self) -> Option<NativeSupport> {
        self.agent.native()
    }

    /// Whether a request of the bridge is not answered yet.
    pub(crate) fn has_open_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Whether the bridge is still finding out if the agent connects to its endpoints.
    pub(crate) fn is_probing(&self) -> bool {
        self.agent.may_change() && self.sessions.has_unprobed()
    }

    /// The first turn of a session has ended. If the agent has not connected by now, it may never
    /// do so with this transport.
    pub(crate) fn on_turn_ended(&mut self, session: &SessionId, cx: &mut Context<'_>) {
        let Some((tickets, transport)) = self.sessions.finish_probe(session) else { return };
        let records: Vec<_> =
            tickets.iter().filter_map(|ticket| self.tickets.get(*ticket)).collect();
        if records.is_empty() || records.iter().any(|record| record.connected) {
            return;
        }
        let names: Vec<_> = records.iter().map(|record| record.name.as_str()).collect();
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

    /// Releases the tickets of a session.
    pub(crate) fn end_session(&mut self, session: &SessionId, cx: &mut Context<'_>) {
        let tickets = self.sessions.end(session);
        self.release(&tickets, cx);
    }

    /// The shell has opened the endpoint of a ticket, or could not.
    pub(crate) fn endpoint_opened(
        &mut self,
        ticket: Ticket,
        endpoint: &Result<Endpoint, String>,
        cx: &mut Context<'_>,
    ) {
        self.tickets.endpoint_opened(ticket, endpoint.is_ok(), cx);
    }

    /// Releases tickets: no client can connect with them any more, and connected clients are
    /// disconnected.
    pub(crate) fn release(&mut self, tickets: &[Ticket], cx: &mut Context<'_>) {
        for ticket in tickets {
            self.tickets.release(*ticket, cx);
        }
        for client_id in self.clients.with_tickets(tickets) {
            cx.out.push(Action::DisconnectClient(client_id));
            self.on_client_disconnected(client_id, cx);
        }
    }

    /// The agent is down, and so are its MCP clients. A restarted agent gets new tickets.
    pub(crate) fn on_agent_down(&mut self, cx: &mut Context<'_>) {
        cx.out.extend(self.clients.clear().into_iter().map(Action::DisconnectClient));
        self.requests.clear();
        self.sessions.clear();
        self.tickets.release_all(cx);
    }

    /// Releases the tickets of a server that is gone.
    pub(crate) fn forget_server(&mut self, server: &str, cx: &mut Context<'_>) {
        self.release(&self.tickets.of_server(server), cx);
    }

    /// Writes a warning to the log.
    fn report(&self, text: String, cx: &mut Context<'_>) {
        cx.out.push(Action::Report(Diagnostic { level: Level::Warn, seat: self.agent_seat, text }));
    }

    /// Sends a message into the chain on behalf of the agent.
    fn inject(&self, message: Message, cx: &mut Context<'_>) {
        cx.out.push(Action::Inject { from: self.agent_seat, toward: Side::Editor, message });
    }

    /// The id of a request of the bridge.
    fn request_id(&self, number: u64) -> Id {
        self.ids.id(Purpose::Client, number)
    }

    /// The number of a request of the bridge.
    pub(crate) fn request_number(&self, id: &Id) -> Option<u64> {
        self.ids.number(Purpose::Client, id)
    }

    /// Sends a request into the chain on behalf of the agent.
    fn send_request(&mut self, request: BridgeRequest, call: Call, cx: &mut Context<'_>) {
        let number = self.ids.next_number();
        self.requests.insert(number, request);
        let id = self.request_id(number);
        self.inject(Message::Request { id, call }, cx);
    }

    /// When to call [`tick`](Bridge::tick) next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.clients.deadline()
    }

    /// The sizes of the tables, for tests: tickets, sessions, clients, connections, requests.
    pub(crate) fn sizes(&self) -> [usize; 5] {
        let (clients, connections) = self.clients.sizes();
        [self.tickets.len(), self.sessions.len(), clients, connections, self.requests.len()]
    }
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge").field("sizes", &self.sizes()).finish_non_exhaustive()
    }
}

/// The error for a server or connection that does not exist.
pub(crate) fn not_found_error(what: &str, form: Form) -> Json {
    let code = if form == Form::M7 { code::NO_SUCH_SERVER } else { code::INVALID_PARAMS };
    error_object(code, &format!("there is no MCP {what}"), None)
}

/// The error for a declared server that has the transport `acp` and no id.
pub(crate) fn missing_id_error(name: &str) -> Outcome {
    let why =
        format!("the MCP server '{name}' has the transport acp, but no serverId; give it one");
    Outcome::error(code::INVALID_PARAMS, &why)
}

/// A `$/cancel_request` for the request with this id.
pub(crate) fn cancel_notification(id: &Id) -> Message {
    Message::notification(
        acp::CANCEL_REQUEST,
        Json::object([("requestId", Some(id.json().clone()))]),
    )
}
