//! The [`Broker`], and the path of a message through its parts.
//!
//! [`Broker::arrived`] handles a message on its way to the router, and [`Broker::deliver`] a message
//! on its way to a component. Both decode the method and call the handler in one of the modules.

use acp_wire::acp::SessionId;
use acp_wire::{Call, Id, LinkProtocol, Message, Outcome, Side, acp, code};
use router::{Chain, Diagnostic, Mode, Role, Seat, Time};

use crate::bridge::{Bridge, BridgePolicy, SetUpDecision, not_found_error};
use crate::capability::AgentCapabilities;
use crate::declaration::may_carry_servers;
use crate::endpoint::{ClientId, Ticket, Transport};
use crate::form::{self, Form, Frame, Target};
use crate::ids::{Purpose, RequestIds};

mod closing;
mod component_events;
mod connection;
mod connections;
mod consumer;
mod foreign_ids;
mod foreign_mark;
mod held_deliveries;
mod initialize_retry;
mod input_requests;
mod input_rounds;
mod message_names;
mod opening;
mod operations;
mod pending_initializes;
mod pending_request;
mod pending_requests;
mod permissions;
mod provider;
mod registry;
mod retry;
mod server;
mod set_up;

pub(crate) use connection::{MAX_QUEUED_BYTES, cancelled_outcome, memory_size};
pub(crate) use retry::{ANSWER_TIMEOUT, has_timeout, is_idempotent, timeout_error};

use connection::{answer, deliver, request_or_notification};
use connections::Connections;
use foreign_ids::strip_mark;
use held_deliveries::HeldDeliveries;
use input_requests::InputRequests;
use operations::Operations;
use pending_initializes::PendingInitializes;
use pending_request::PendingRequest;
use pending_requests::PendingRequests;
use registry::Registry;

/// The current time, and the list to which the broker appends the actions that the caller performs.
#[derive(Debug)]
pub struct Context<'a> {
    /// The current time.
    pub now: Time,
    /// The actions to perform, in this order.
    pub out: &'a mut Vec<Action>,
}

/// An action that the caller performs for the broker.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Pass a message to the router, as if a component had sent it.
    Inject {
        /// The seat that appears to send the message.
        from: Seat,
        /// The side that the message travels toward.
        toward: Side,
        /// The message.
        message: Message,
    },
    /// Write a message to the link of a seat.
    Deliver {
        /// The seat that receives the message.
        to: Seat,
        /// The side that the message travels toward.
        toward: Side,
        /// The message.
        message: Message,
    },
    /// Send a message to an MCP client.
    SendToClient {
        /// The client that receives the message.
        client_id: ClientId,
        /// The message.
        message: Message,
    },
    /// Disconnect an MCP client.
    DisconnectClient(ClientId),
    /// Open an endpoint where MCP clients with this ticket can connect, and answer with
    /// [`Broker::endpoint_opened`]. The shell chooses the address and the secret.
    OpenEndpoint {
        /// The ticket that the endpoint is for.
        ticket: Ticket,
        /// The transport that the agent uses.
        transport: Transport,
    },
    /// Accept no more MCP clients with this ticket. Clients that are connected stay connected.
    RevokeTicket(Ticket),
    /// Write a diagnostic to the log.
    Report(Diagnostic),
}

/// The position of a message: the link it is on, and its direction.
#[derive(Debug, Clone, Copy)]
pub struct Hop {
    /// The seat of the link.
    pub seat: Seat,
    /// The side that the message travels toward.
    pub toward: Side,
    /// The protocol of the link.
    pub protocol: LinkProtocol,
}

/// Translates and bridges MCP over ACP, between the links of a chain and its router. See the [crate
/// documentation](crate).
#[derive(Debug)]
pub struct Broker {
    chain: Chain,
    /// The seat of the agent. In proxy mode, the agent is behind the outer pipe.
    agent_seat: Seat,
    ids: RequestIds,
    /// Serves an agent that does not support MCP over ACP.
    bridge: Bridge,
    /// Messages for the agent that wait for an endpoint.
    held: HeldDeliveries,
    pending_initializes: PendingInitializes,
    /// The servers, and the set-up requests that declare them.
    registry: Registry,
    /// Connections between consumers and servers.
    connections: Connections,
    /// Open requests between a stateless side and a side with connections.
    operations: Operations,
    /// Requests of servers that consumers have to answer.
    input_requests: InputRequests,
    /// Requests that are not answered yet, with their timeouts and retries.
    pending: PendingRequests,
}

/// The kind of a message, for the messages that the broker acts on. It ignores all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Initialize,
    SetUp,
    Close,
    Prompt,
    Cancel,
    Mcp,
}

fn kind_of(call: &Call) -> Option<Kind> {
    let method = call.method.name();
    match &*method {
        acp::UPDATE => None,
        acp::PROMPT => Some(Kind::Prompt),
        acp::CLOSE_SESSION | acp::DELETE_SESSION => Some(Kind::Close),
        acp::INITIALIZE => Some(Kind::Initialize),
        acp::CANCEL_REQUEST => Some(Kind::Cancel),
        _ if form::is_mcp_method(&method) => Some(Kind::Mcp),
        _ if may_carry_servers(call) => Some(Kind::SetUp),
        _ => None,
    }
}

impl Broker {
    /// Creates the broker of a chain. `secret` is a random word that no peer can guess. It is part
    /// of the ids of requests that the broker sends on behalf of peers.
    pub fn new(chain: Chain, policy: BridgePolicy, secret: &str) -> Broker {
        let ids = RequestIds::new(secret);
        let agent_seat = match chain.mode {
            Mode::Agent => chain.last().unwrap_or(Seat::OUTER),
            Mode::Proxy => Seat::OUTER,
        };
        let command = chain.component(agent_seat).map_or("", |component| &component.command);
        let agent = match chain.mode {
            Mode::Agent => chain.describe(agent_seat),
            Mode::Proxy => "the agent".to_owned(),
        };
        Broker {
            bridge: Bridge::new(policy, agent_seat, agent, command, ids.clone()),
            held: HeldDeliveries::default(),
            chain,
            agent_seat,
            ids,
            pending_initializes: PendingInitializes::default(),
            registry: Registry::default(),
            connections: Connections::default(),
            operations: Operations::default(),
            input_requests: InputRequests::default(),
            pending: PendingRequests::default(),
        }
    }

    /// Whether a chain needs a broker. In proxy mode it needs one only if it contains a proxy,
    /// because only a proxy could provide a server.
    pub fn is_needed(chain: &Chain) -> bool {
        match chain.mode {
            Mode::Agent => true,
            Mode::Proxy => chain.seats().any(|seat| chain.role(seat) == Role::Proxy),
        }
    }

    /// Whether the broker has to see a message before it is delivered to this seat.
    pub fn is_relevant_delivery(&self, to: Seat, message: &Message) -> bool {
        self.is_held(to) || self.is_relevant(message)
    }

    /// Whether the broker has to see a message that has arrived from a component.
    pub fn is_relevant(&self, message: &Message) -> bool {
        match message {
            Message::Request { call, .. } | Message::Notification(call) => kind_of(call).is_some(),
            Message::Response { id, .. } => {
                !self.pending.is_empty()
                    || !self.pending_initializes.is_empty()
                    || self.registry.open_set_ups() != (0, 0)
                    || !self.input_requests.is_empty()
                    || self.connections.has_unannounced()
                    || self.ids.number(Purpose::Input, id).is_some()
                    || self.bridge.has_open_requests()
            }
        }
    }

    /// Handles a message that has arrived from a component. Returns the message that goes on to the
    /// router, if any. The caller performs the actions after that.
    pub fn arrived(&mut self, hop: Hop, message: Message, cx: &mut Context<'_>) -> Option<Message> {
        self.after_held(cx, |broker, cx| broker.on_arrived(hop, message, cx))
    }

    fn on_arrived(&mut self, hop: Hop, message: Message, cx: &mut Context<'_>) -> Option<Message> {
        let (message, is_marked) = match strip_mark(&message) {
            Some(unmarked) => (unmarked, true),
            None => (message, false),
        };
        if hop.toward == Side::Agent && !self.may_send(hop.seat, &message, is_marked) {
            self.refuse_message(hop.seat, message, cx);
            return None;
        }
        if is_marked {
            return Some(message);
        }
        match message {
            Message::Response { id, outcome, extras } => {
                let id = self.find_first_attempt(hop.seat, id, &outcome, cx)?;
                self.registry.finish_proxy_set_up(hop.seat, &id);
                let Some(pending_request) = self.pending.take(&(hop.seat, id.clone())) else {
                    return Some(Message::Response { id, outcome, extras });
                };
                let outcome =
                    self.on_pending_answered(hop.seat, &id, pending_request, outcome, cx)?;
                Some(Message::Response { id, outcome, extras })
            }
            Message::Request { id, mut call } => {
                match (kind_of(&call), hop.toward) {
                    (Some(Kind::Initialize), Side::Agent) => {
                        self.pending_initializes.insert(hop.seat, &id);
                    }
                    (Some(Kind::SetUp), Side::Agent) => {
                        self.registry.declare(&self.chain, hop, &id, &mut call);
                    }
                    (Some(Kind::Mcp), Side::Agent) => {
                        return self.on_message_from_provider(hop.seat, Some(id), call, cx);
                    }
                    (Some(Kind::Mcp), Side::Editor) if form::validation_error(&call).is_some() => {
                        let why = form::validation_error(&call).unwrap_or_default();
                        let why = format!("this mcp/message cannot be delivered: {why}");
                        let outcome = Outcome::error(code::INVALID_PARAMS, &why);
                        deliver(hop.seat, Side::Agent, Message::response(id, outcome), cx);
                        return None;
                    }
                    (Some(Kind::Mcp), Side::Editor) if self.belongs_to(hop.seat, &call) => {
                        // The component passes on a message that is for itself, so it does not know
                        // this form.
                        let why =
                            format!("{} does not know this method", self.chain.describe(hop.seat));
                        let outcome = Outcome::error(code::METHOD_NOT_FOUND, &why);
                        deliver(hop.seat, Side::Agent, Message::response(id, outcome), cx);
                        return None;
                    }
                    (Some(Kind::Mcp), Side::Editor) => self.note_known_connection(hop.seat, &call),
                    _ => {}
                }
                Some(Message::Request { id, call })
            }
            Message::Notification(call) => match (kind_of(&call), hop.toward) {
                (Some(Kind::Mcp), Side::Agent) => {
                    self.on_message_from_provider(hop.seat, None, call, cx)
                }
                (Some(Kind::Mcp), Side::Editor)
                    if form::validation_error(&call).is_some()
                        || self.belongs_to(hop.seat, &call) =>
                {
                    None
                }
                (Some(Kind::Mcp), Side::Editor) => {
                    self.note_known_connection(hop.seat, &call);
                    Some(Message::Notification(call))
                }
                _ => Some(Message::Notification(call)),
            },
        }
    }

    /// Handles a message that the router delivers to a component. Returns the message to write to
    /// the link, if any. The caller performs the actions after that.
    pub fn deliver(&mut self, hop: Hop, message: Message, cx: &mut Context<'_>) -> Option<Message> {
        if self.is_held(hop.seat) {
            self.held.push(hop, message);
            return None;
        }
        self.after_held(cx, |broker, cx| broker.deliver_now(hop, message, cx))
    }

    fn deliver_now(&mut self, hop: Hop, message: Message, cx: &mut Context<'_>) -> Option<Message> {
        let to_agent = hop.seat == self.agent_seat && hop.toward == Side::Agent;
        match message {
            Message::Response { id, outcome, extras } => {
                self.on_connect_result_delivered(hop, &outcome);
                if hop.seat == self.agent_seat
                    && let Some(number) = self.bridge.request_number(&id)
                {
                    self.bridge.on_answer(number, outcome, cx);
                    return None;
                }
                let outcome = self.on_initialize_result(hop.seat, &id, outcome);
                for key in self.registry.answered(hop.seat, &id, &outcome) {
                    self.remove_if_unused(&key, cx);
                }
                let outcome = self.on_consumer_answer(hop.seat, &id, outcome, cx)?;
                Some(Message::Response { id, outcome, extras })
            }
            Message::Request { id, mut call } => {
                match (kind_of(&call), hop.toward) {
                    (Some(Kind::Initialize), _) if to_agent => {
                        self.pending.insert(hop.seat, &id, PendingRequest::Initialize);
                    }
                    (Some(Kind::SetUp), _) if to_agent && !self.is_bridged_outside() => {
                        return self.on_set_up_for_agent(id, call, cx);
                    }
                    (Some(Kind::SetUp), Side::Agent) => {
                        if let Err(outcome) = self.pass_set_up(hop, to_agent, &id, &mut call) {
                            answer(hop.seat, id, outcome, cx);
                            return None;
                        }
                    }
                    (Some(Kind::Close), _) if to_agent => {
                        if let Some(session) = call.params.as_ref().and_then(acp::session_of) {
                            self.pending.insert(hop.seat, &id, PendingRequest::Close(session));
                        }
                    }
                    (Some(Kind::Prompt), _) if to_agent && self.bridge.is_probing() => {
                        if let Some(session) = call.params.as_ref().and_then(acp::session_of) {
                            self.pending.insert(hop.seat, &id, PendingRequest::Prompt(session));
                        }
                    }
                    (Some(Kind::Mcp), Side::Agent) if to_agent => {
                        return self.deliver_to_client(Some(id), call, cx);
                    }
                    (Some(Kind::Mcp), Side::Agent) => call = self.mark_if_ambiguous(hop.seat, call),
                    (Some(Kind::Mcp), Side::Editor) => {
                        return self.on_message_from_consumer(hop.seat, Some(id), call, cx);
                    }
                    _ => {}
                }
                Some(Message::Request { id, call })
            }
            Message::Notification(call) => match (kind_of(&call), hop.toward) {
                (Some(Kind::Cancel), _) => {
                    let id = call.params.as_ref().and_then(acp::cancelled_id);
                    if let Some(id) = id {
                        if self.bridge.cancel_server_request(&id, cx) {
                            return None;
                        }
                        if self.on_cancel(hop.seat, &id, cx) {
                            return None;
                        }
                    }
                    Some(Message::Notification(call))
                }
                (Some(Kind::Mcp), Side::Agent) if to_agent => {
                    self.deliver_to_client(None, call, cx)
                }
                (Some(Kind::Mcp), Side::Agent) => {
                    Some(Message::Notification(self.mark_if_ambiguous(hop.seat, call)))
                }
                (Some(Kind::Mcp), Side::Editor) => {
                    self.on_message_from_consumer(hop.seat, None, call, cx)
                }
                _ => Some(Message::Notification(call)),
            },
        }
    }

    /// An MCP client has connected with a ticket.
    pub fn client_connected(&mut self, ticket: Ticket, client_id: ClientId, cx: &mut Context<'_>) {
        self.bridge.on_client_connected(ticket, client_id, cx);
    }

    /// An MCP client has sent a line.
    pub fn client_message(
        &mut self,
        client_id: ClientId,
        line: &bytes::Bytes,
        cx: &mut Context<'_>,
    ) {
        self.after_held(cx, |it, cx| it.bridge.on_client_message(client_id, line, cx));
    }

    /// An MCP client has disconnected.
    pub fn client_disconnected(&mut self, client_id: ClientId, cx: &mut Context<'_>) {
        self.after_held(cx, |it, cx| it.bridge.on_client_disconnected(client_id, cx));
    }

    /// A session has ended without a request that closes it.
    pub fn session_lost(&mut self, session: &SessionId, cx: &mut Context<'_>) {
        self.after_held(cx, |broker, cx| {
            broker.bridge.end_session(session, cx);
            broker.end_session(session, cx);
        });
    }

    /// When to call [`tick`](Broker::tick) next.
    pub fn deadline(&self) -> Option<Time> {
        let deadlines =
            [self.bridge.deadline(), self.connections.deadline(), self.pending.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Handles timeouts and retries that are due.
    pub fn tick(&mut self, cx: &mut Context<'_>) {
        self.after_held(cx, |broker, cx| broker.on_tick(cx));
    }

    fn on_tick(&mut self, cx: &mut Context<'_>) {
        self.resend_lost_handshakes(cx);
        let (registry, chain) = (&self.registry, &self.chain);
        let provider = |key: &str| registry.get(key).map(|server| chain.describe(server.seat));
        self.bridge.tick(provider, cx);
        self.tick_requests(cx);
    }

    /// A component has left and is not restarted, or was replaced before the chain was up. The
    /// broker forgets its requests and the connections to its servers. The router answers the requests
    /// that the component has not answered.
    pub fn component_removed(&mut self, seat: Seat, cx: &mut Context<'_>) {
        if seat == self.agent_seat {
            let tickets = self.held.clear();
            self.bridge.release(&tickets, cx);
        }
        self.pending.forget(seat);
        self.registry.component_removed(seat);
        self.pending_initializes.forget(seat);
        self.forget_provider_ids(seat);
        self.connections.forget(seat);
        let connections = &self.connections;
        self.input_requests.take(|input| connections.get(input.connection).is_none());
    }

    /// How many MCP servers are declared in the chain.
    pub fn server_count(&self) -> usize {
        self.registry.len()
    }

    /// The sizes of the tables, for tests: the sizes of the bridge, then servers, held messages,
    /// set-up requests, connections, and pending requests.
    pub fn sizes(&self) -> [usize; 10] {
        let (provider_set_ups, proxy_set_ups) = self.registry.open_set_ups();
        let connections =
            self.connections.len() + self.operations.len() + self.input_requests.len();
        let pending = self.pending.len() + proxy_set_ups;
        let (servers, held) = (self.registry.len(), self.held.len());
        let mut sizes = [0; 10];
        sizes[..5].copy_from_slice(&self.bridge.sizes());
        sizes[5..].copy_from_slice(&[servers, held, provider_set_ups, connections, pending]);
        sizes
    }

    /// Whether the bridging happens outside this chain: in proxy mode, if the outer conductor or the
    /// agent supports MCP over ACP.
    fn is_bridged_outside(&self) -> bool {
        self.chain.mode == Mode::Proxy && self.bridge.native().is_some()
    }

    /// Whether this is the seat of the editor, where messages toward the editor end. In proxy mode
    /// the outer seat leads to another conductor.
    fn is_editor(&self, seat: Seat) -> bool {
        seat == Seat::OUTER && self.chain.mode == Mode::Agent
    }

    /// A request in the table of pending requests is answered. Returns the answer that goes on.
    fn on_pending_answered(
        &mut self,
        seat: Seat,
        id: &Id,
        pending_request: PendingRequest,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) -> Option<Outcome> {
        match (pending_request, outcome) {
            (PendingRequest::Provider(request), outcome) => {
                self.on_provider_answer(seat, id, request, outcome, cx)
            }
            (PendingRequest::Initialize, Outcome::Result(result)) => {
                self.bridge.set_capabilities(AgentCapabilities::of(&result));
                Some(Outcome::Result(result))
            }
            (PendingRequest::SetUp(set_up), outcome) => {
                let registry = &self.registry;
                match self.bridge.on_set_up_answer(*set_up, outcome, |id| registry.is_scp(id), cx) {
                    SetUpDecision::Answer(outcome) => Some(outcome),
                    SetUpDecision::Retry(draft) => {
                        self.resend_set_up(id.clone(), draft, cx);
                        None
                    }
                }
            }
            (PendingRequest::Close(session), outcome) => {
                if matches!(outcome, Outcome::Result(_)) {
                    self.bridge.end_session(&session, cx);
                    self.end_session(&session, cx);
                }
                Some(outcome)
            }
            (PendingRequest::Prompt(session), outcome) => {
                self.bridge.on_turn_ended(&session, cx);
                Some(outcome)
            }
            (PendingRequest::Initialize, outcome) => Some(outcome),
        }
    }

    /// Removes the servers that only this session used.
    fn end_session(&mut self, session: &SessionId, cx: &mut Context<'_>) {
        for key in self.registry.end_session(session) {
            self.remove_if_unused(&key, cx);
        }
    }

    /// Removes a server that no session uses. The connections of bridged clients end when the
    /// client disconnects, because that message travels through the chain like all others.
    fn remove_if_unused(&mut self, key: &str, cx: &mut Context<'_>) {
        if self.registry.is_unused(key) {
            self.bridge.forget_server(key, cx);
            self.close_connections_to(key, cx);
            if !self.connections.any(|connection| connection.server == key) {
                self.registry.remove(key);
            }
        }
    }

    /// Handles a provider's message that is delivered to the agent: for a bridged agent it goes to
    /// the MCP client.
    fn deliver_to_client(
        &mut self,
        id: Option<Id>,
        call: Call,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        if self.bridge.native().is_some() {
            return Some(request_or_notification(id, call));
        }
        let connection_id = match form::decode(&call) {
            Some((
                _,
                Frame::Mcp { target: Target::Connection(connection_id), call: mcp_call, .. },
            )) => {
                if let Some(client_id) = self.bridge.client_of(&connection_id) {
                    self.bridge.send_server_message(client_id, id, mcp_call, cx);
                    return None;
                }
                connection_id
            }
            Some((_, Frame::Disconnect { connection_id })) => {
                self.bridge.on_provider_disconnected(&connection_id, cx);
                connection_id
            }
            _ => return Some(request_or_notification(id, call)),
        };
        let outcome =
            Outcome::Error(not_found_error(&format!("connection '{connection_id}'"), Form::M3));
        let message = Message::response(id?, outcome);
        cx.out.push(Action::Inject { from: self.agent_seat, toward: Side::Editor, message });
        None
    }
}
