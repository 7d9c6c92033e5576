//! One connected MCP client: its connection to the server, and its open requests.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Malformed, Message, Outcome, code};
use router::Time;

use super::requests::{AnswerStatus, BridgeRequest};
use super::timeouts::{MAX_OPEN_REQUESTS, Timeouts};
use super::{BRIDGE_FORM, Bridge};
use crate::broker::{Action, Context, cancelled_outcome, is_idempotent};
use crate::endpoint::{ClientId, Ticket, Transport};
use crate::form::{Address, Direction, connection_id_of};
use crate::stateless::{self, CANCELLED, DISCOVER, INITIALIZE, INITIALIZED};

/// How long a client waits for the answer to its handshake, in milliseconds. After that the bridge
/// answers in place of the server. Otherwise a session could deadlock: the provider may handle no
/// message until its set-up request is answered, and the agent may answer that request only after
/// the handshakes with all its servers.
const HANDSHAKE_TIMEOUT: u64 = 2_000;

/// How long `notifications/initialized` is delayed, in milliseconds, to be sent together with the
/// next message of the client. Some servers (`sparkle-mcp` 0.7) lose a message that arrives shortly
/// after it, unless both arrive together.
const INITIALIZED_DELAY: u64 = 200;

/// The most handshake requests that a client may have open.
const MAX_HANDSHAKES: usize = 64;

/// A connected MCP client.
#[derive(Debug)]
pub(super) struct Client {
    /// The ticket with which the client has connected.
    pub ticket: Ticket,
    /// The public id of the server.
    pub(super) server: String,
    /// The name of the server.
    pub(super) name: String,
    transport: Transport,
    pub(super) state: ClientState,
    /// The handshake requests that the server has not answered.
    handshakes: Vec<HandshakeRequest>,
    /// The bridge has answered an `initialize` in place of the server.
    answered_for_server: bool,
    /// A `notifications/initialized` that is delayed, and until when.
    delayed_initialized: Option<(Call, Time)>,
    /// Messages that the client has sent after the bridge answered its `initialize`. They wait for
    /// the answer of the server, because no server expects messages before that.
    pub(super) deferred: Vec<(Option<Id>, Call)>,
    /// How many bytes are queued until the connection is open, or until the server has answered
    /// `initialize`.
    pub(super) queued_bytes: usize,
    /// Requests that have a timeout.
    pub(super) timeouts: Timeouts,
    /// The client has sent `notifications/initialized`, which was lost with a failed connection.
    lost_initialized: bool,
    /// Requests of the server that the client has to answer, by the id they have in the chain.
    pub(super) server_requests: Vec<Id>,
}

/// The state of a client's connection to its server.
#[derive(Debug)]
pub(super) enum ClientState {
    /// The client has sent nothing yet, or its connect has failed.
    Idle,
    /// The connect is not answered yet. Messages are queued.
    Connecting(Vec<(Option<Id>, Call)>),
    /// The connection is open. This is its id.
    Connected(String),
}

/// An `initialize` of a client, or the `server/discover` before it, until the server has answered.
#[derive(Debug)]
struct HandshakeRequest {
    id: Id,
    call: Call,
    deadline: Time,
    /// The bridge has answered in place of the server.
    answered: bool,
    resend: ResendState,
}

/// Whether a handshake request has to be sent again, because it was lost in a crash.
#[derive(Debug, PartialEq)]
enum ResendState {
    /// The request is not lost, or does not have to be sent again.
    NotNeeded,
    /// The request is sent again, unless the server has received it.
    Pending,
    /// The request was sent again.
    Done,
}

impl HandshakeRequest {
    /// The request has failed. Marks it to be sent again if that is necessary, and returns whether it is.
    fn mark_for_resend(&mut self) -> bool {
        let first =
            self.answered && self.call.is(INITIALIZE) && self.resend == ResendState::NotNeeded;
        if first {
            self.resend = ResendState::Pending;
        }
        first
    }
}

impl Client {
    /// When the client needs a call of [`Bridge::tick`].
    pub(super) fn deadline(&self) -> Option<Time> {
        let handshakes = self
            .handshakes
            .iter()
            .filter(|handshake| !handshake.answered)
            .map(|handshake| handshake.deadline);
        let resend =
            self.handshakes.iter().filter(|handshake| handshake.resend == ResendState::Pending);
        let resend = resend.map(|_| Time::default());
        let delayed_initialized = self.delayed_initialized.as_ref().map(|(_, deadline)| *deadline);
        handshakes.chain(resend).chain(delayed_initialized).chain(self.timeouts.first()).min()
    }

    /// Removes the timeout of a request that is answered or cancelled.
    fn clear_timeout(&mut self, id: &Id) {
        self.timeouts.remove(id);
    }

    /// Whether a message has to wait until the server has answered `initialize`.
    fn must_be_deferred(&self, id: Option<&Id>) -> bool {
        let ours =
            |handshake: &&HandshakeRequest| handshake.answered && handshake.call.is(INITIALIZE);
        self.handshakes.iter().find(ours).is_some_and(|handshake| id != Some(&handshake.id))
    }
}

impl Bridge {
    /// An MCP client has connected with a ticket.
    pub(crate) fn on_client_connected(
        &mut self,
        ticket: Ticket,
        client_id: ClientId,
        cx: &mut Context<'_>,
    ) {
        let Some(record) = self.tickets.mark_connected(ticket) else {
            // The ticket was revoked in the meantime.
            return cx.out.push(Action::DisconnectClient(client_id));
        };
        self.agent.set_working(record.transport);
        let client = Client {
            ticket,
            server: record.server.clone(),
            name: record.name.clone(),
            transport: record.transport,
            state: ClientState::Idle,
            handshakes: Vec::new(),
            answered_for_server: false,
            delayed_initialized: None,
            deferred: Vec::new(),
            queued_bytes: 0,
            timeouts: Timeouts::default(),
            lost_initialized: false,
            server_requests: Vec::new(),
        };
        self.clients.insert(client_id, client);
    }

    /// An MCP client has sent a line.
    pub(crate) fn on_client_message(
        &mut self,
        client_id: ClientId,
        line: &bytes::Bytes,
        cx: &mut Context<'_>,
    ) {
        if self.clients.get(client_id).is_none() {
            return;
        }
        match Message::parse(line) {
            Ok(Message::Request { id, call }) => {
                let (id, call) = (id.detached(), call.detached());
                let Some(client) = self.clients.get_mut(client_id) else { return };
                let begins = call.is(INITIALIZE) || call.is(DISCOVER);
                if begins && client.handshakes.len() >= MAX_HANDSHAKES {
                    return self.refuse_excess_request(client_id, id, MAX_HANDSHAKES, cx);
                }
                if is_idempotent(&call) && client.timeouts.is_full() {
                    return self.refuse_excess_request(client_id, id, MAX_OPEN_REQUESTS, cx);
                }
                if begins {
                    let deadline = cx.now.plus(HANDSHAKE_TIMEOUT);
                    let (id, call) = (id.clone(), call.clone());
                    let (answered, resend) = (false, ResendState::NotNeeded);
                    client.handshakes.push(HandshakeRequest {
                        id,
                        call,
                        deadline,
                        answered,
                        resend,
                    });
                } else if is_idempotent(&call) {
                    client.timeouts.insert(&id, &call, cx.now);
                }
                self.forward(client_id, Some(id), call, cx);
            }
            Ok(Message::Notification(call)) if call.is(CANCELLED) => {
                self.on_client_cancelled(client_id, &call, cx);
            }
            Ok(Message::Notification(call)) if call.is(INITIALIZED) => {
                if let Some(client) = self.clients.get_mut(client_id) {
                    client.delayed_initialized =
                        Some((call.detached(), cx.now.plus(INITIALIZED_DELAY)));
                }
            }
            Ok(Message::Notification(call)) => self.forward(client_id, None, call.detached(), cx),
            Ok(Message::Response { id, outcome, .. }) => {
                self.on_client_answer(client_id, &id, outcome, cx)
            }
            Err(why) => {
                let (id, code) = match &why {
                    Malformed::NotJson(_) => (Id::NULL, code::PARSE_ERROR),
                    Malformed::NotAMessage { id, .. } => (id.clone(), code::INVALID_REQUEST),
                    Malformed::AnswerWithoutId => return,
                };
                let outcome = Outcome::error(code, &why.to_string());
                cx.out.push(Action::SendToClient {
                    client_id,
                    message: Message::response(id, outcome),
                });
            }
        }
    }

    /// Forwards a message of a client, and connects the client first if necessary.
    fn forward(&mut self, client_id: ClientId, id: Option<Id>, call: Call, cx: &mut Context<'_>) {
        self.send_delayed(client_id, cx);
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let deferred = client.must_be_deferred(id.as_ref());
        let waits = deferred || matches!(client.state, ClientState::Connecting(_));
        if waits && !self.may_queue(client_id, id.as_ref(), &call, cx) {
            return;
        }
        let Some(client) = self.clients.get_mut(client_id) else { return };
        match &mut client.state {
            ClientState::Idle => {
                let connect = BRIDGE_FORM.encode_connect(&client.server, "");
                // Handshake messages that were lost with a failed connection come first.
                let unsent = client.handshakes.iter().filter(|handshake| handshake.answered);
                let unsent =
                    unsent.map(|handshake| (Some(handshake.id.clone()), handshake.call.clone()));
                let initialized = std::mem::take(&mut client.lost_initialized);
                let initialized = initialized.then(|| (None, Call::new(INITIALIZED, None)));
                client.state = ClientState::Connecting(
                    unsent.chain(initialized).chain([(id, call)]).collect(),
                );
                client.count_queued();
                self.send_request(BridgeRequest::Connect(client_id), connect, cx);
            }
            ClientState::Connecting(queued) => queued.push((id, call)),
            ClientState::Connected(_) if deferred => client.deferred.push((id, call)),
            ClientState::Connected(connection_id) => {
                let connection_id = connection_id.clone();
                self.send_on_connection(client_id, &connection_id, id, &call, cx);
            }
        }
    }

    /// Sends the delayed `notifications/initialized`.
    fn send_delayed(&mut self, client_id: ClientId, cx: &mut Context<'_>) {
        let delayed_initialized =
            self.clients.get_mut(client_id).and_then(|client| client.delayed_initialized.take());
        if let Some((call, _)) = delayed_initialized {
            self.forward(client_id, None, call, cx);
        }
    }

    /// Sends the messages that waited for the server's answer, as far as they need not wait any
    /// longer.
    fn send_deferred(&mut self, client_id: ClientId, cx: &mut Context<'_>) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let deferred = std::mem::take(&mut client.deferred);
        client.count_queued();
        for (id, call) in deferred {
            self.forward(client_id, id, call, cx);
        }
    }

    /// Sends a message of a client on its connection.
    fn send_on_connection(
        &mut self,
        client_id: ClientId,
        connection_id: &str,
        id: Option<Id>,
        call: &Call,
        cx: &mut Context<'_>,
    ) {
        let address = Address { server: "", connection_id, request_id: "" };
        let call = BRIDGE_FORM.encode_message(Direction::ToServer, address, id.as_ref(), call);
        match id {
            Some(id) => self.send_request(
                BridgeRequest::Call { client_id, id, status: AnswerStatus::Awaited },
                call,
                cx,
            ),
            None => self.inject(Message::Notification(call), cx),
        }
    }

    /// The clients whose handshake was lost after the bridge had answered it, and their
    /// connections.
    pub(crate) fn handshakes_to_resend(&self) -> Vec<(ClientId, String)> {
        let resend = |client: &Client| {
            client.handshakes.iter().any(|handshake| handshake.resend == ResendState::Pending)
        };
        let clients = self.clients.iter().filter(|(_, client)| resend(client));
        let connected = clients.filter_map(|(client_id, client)| match &client.state {
            ClientState::Connected(connection_id) => Some((client_id, connection_id.clone())),
            _ => None,
        });
        connected.collect()
    }

    /// Sends a lost handshake again, unless the server has received it.
    pub(crate) fn resend_handshake(
        &mut self,
        client_id: ClientId,
        is_received: bool,
        cx: &mut Context<'_>,
    ) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let resend =
            client.handshakes.iter().position(|handshake| handshake.resend == ResendState::Pending);
        let Some(index) = resend else { return };
        if is_received {
            client.handshakes.swap_remove(index);
            return self.send_deferred(client_id, cx);
        }
        let handshake = &mut client.handshakes[index];
        handshake.resend = ResendState::Done;
        let (id, call) = (handshake.id.clone(), handshake.call.clone());
        self.forward(client_id, Some(id), call, cx);
    }

    /// Handles the answer to a request of the bridge.
    pub(crate) fn on_answer(&mut self, number: u64, outcome: Outcome, cx: &mut Context<'_>) {
        match self.requests.take(number) {
            Some(BridgeRequest::Connect(client_id)) => self.on_connected(client_id, outcome, cx),
            Some(BridgeRequest::Call { client_id, id, status: AnswerStatus::Awaited }) => {
                let Some(client) = self.clients.get_mut(client_id) else { return };
                client.clear_timeout(&id);
                let handshake = client.handshakes.iter().position(|handshake| handshake.id == id);
                // The client has its answer and does not send the request again. Whether the server
                // has received it depends on which component has crashed.
                if let (Some(index), Outcome::Error(_)) = (handshake, &outcome)
                    && client.handshakes[index].mark_for_resend()
                {
                    return;
                }
                match handshake.map(|index| client.handshakes.swap_remove(index)) {
                    Some(HandshakeRequest { answered: true, call, .. }) => {
                        announce_late_capabilities(client_id, &call, &outcome, cx);
                        self.send_deferred(client_id, cx);
                    }
                    _ => cx.out.push(Action::SendToClient {
                        client_id,
                        message: Message::response(id, outcome),
                    }),
                }
            }
            // A client that cancels a request does not expect an answer.
            Some(BridgeRequest::Call { client_id, id, status: AnswerStatus::Cancelled }) => {
                // Over HTTP, however, the stream of the request has to end.
                let over_http = |client: &Client| client.transport == Transport::Http;
                if self.clients.get(client_id).is_some_and(over_http) {
                    cx.out.push(Action::SendToClient {
                        client_id,
                        message: Message::response(id, outcome),
                    });
                }
            }
            Some(BridgeRequest::Call { status: AnswerStatus::Discarded, .. }) | None => {}
        }
    }

    /// Handles the answer to a connect.
    fn on_connected(&mut self, client_id: ClientId, outcome: Outcome, cx: &mut Context<'_>) {
        let connection_id = match &outcome {
            Outcome::Result(result) => connection_id_of(result),
            Outcome::Error(_) => None,
        };
        let Some(client) = self.clients.get_mut(client_id) else {
            // The client has disconnected in the meantime.
            if let Some(connection_id) = connection_id {
                self.inject(
                    Message::Notification(BRIDGE_FORM.encode_disconnect(&connection_id).0),
                    cx,
                );
            }
            return;
        };
        let ClientState::Connecting(queued) =
            std::mem::replace(&mut client.state, ClientState::Idle)
        else {
            return;
        };
        match connection_id {
            Some(connection_id) => {
                client.state = ClientState::Connected(connection_id.clone());
                client.count_queued();
                self.clients.connect(connection_id, client_id);
                for (id, call) in queued {
                    self.forward(client_id, id, call, cx);
                }
            }
            None => {
                let error = match outcome {
                    Outcome::Error(error) => error,
                    Outcome::Result(_) => {
                        let why = "the provider of the MCP server did not return a connection id";
                        error_object(code::INTERNAL_ERROR, why, None)
                    }
                };
                client.lost_initialized |= queued.iter().any(|(_, call)| call.is(INITIALIZED));
                let handshakes = std::mem::take(&mut client.handshakes);
                let answered = |id: &Id| {
                    handshakes.iter().any(|handshake| handshake.answered && handshake.id == *id)
                };
                for (id, _) in queued {
                    let Some(id) = id.filter(|id| !answered(id)) else { continue };
                    client.clear_timeout(&id);
                    let outcome = Outcome::Error(error.clone());
                    cx.out.push(Action::SendToClient {
                        client_id,
                        message: Message::response(id, outcome),
                    });
                }
                // A client that has its answer does not send the handshake again.
                let must_resend = |it: &HandshakeRequest| it.answered && it.call.is(INITIALIZE);
                client.handshakes = handshakes.into_iter().filter(must_resend).collect();
            }
        }
    }

    /// A client cancels a request. A request that is answered already, even by the bridge, is
    /// ignored.
    fn on_client_cancelled(&mut self, client_id: ClientId, call: &Call, cx: &mut Context<'_>) {
        let id = call.params.as_ref().and_then(|params| Id::new(params.member("requestId")?));
        let (Some(id), Some(client)) = (id, self.clients.get_mut(client_id)) else { return };
        if client.handshakes.iter().any(|handshake| handshake.answered && handshake.id == id) {
            return;
        }
        client.handshakes.retain(|handshake| handshake.id != id);
        client.clear_timeout(&id);
        let is_cancelled = |(waits, _): &mut (Option<Id>, Call)| waits.as_ref() == Some(&id);
        let mut unsent = client.deferred.extract_if(.., is_cancelled).count();
        if let ClientState::Connecting(queued) = &mut client.state {
            unsent += queued.extract_if(.., is_cancelled).count();
        }
        client.count_queued();
        if client.transport == Transport::Http {
            // No other answer follows, and the stream of the request has to end.
            let answer = Message::response(id.clone(), cancelled_outcome());
            cx.out.extend(
                (0..unsent).map(|_| Action::SendToClient { client_id, message: answer.clone() }),
            );
        }
        self.cancel_requests(client_id, &id, AnswerStatus::Cancelled, cx);
        self.send_deferred(client_id, cx);
    }

    /// A client has answered a request of the server.
    fn on_client_answer(
        &mut self,
        client_id: ClientId,
        id: &Id,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let Some(index) = client.server_requests.iter().position(|owed| owed == id) else { return };
        let id = client.server_requests.swap_remove(index);
        self.inject(Message::response(id, outcome), cx);
    }

    /// A client has disconnected, or was disconnected.
    pub(crate) fn on_client_disconnected(&mut self, client_id: ClientId, cx: &mut Context<'_>) {
        let Some(client) = self.clients.remove(client_id) else { return };
        for id in client.server_requests {
            let why = "the MCP client has disconnected";
            self.inject(Message::response(id, Outcome::error(code::INTERNAL_ERROR, why)), cx);
        }
        self.cancel_all_requests(client_id, cx);
        if let ClientState::Connected(connection_id) = client.state {
            self.clients.disconnect(&connection_id);
            self.inject(Message::Notification(BRIDGE_FORM.encode_disconnect(&connection_id).0), cx);
        }
    }

    /// Whether the bridge has answered the `initialize` of the client with this connection.
    pub(crate) fn has_answered_for_server(&self, connection_id: &str) -> bool {
        let client =
            self.client_of(connection_id).and_then(|client_id| self.clients.get(client_id));
        client.is_some_and(|client| client.answered_for_server)
    }

    /// The client with this connection.
    pub(crate) fn client_of(&self, connection_id: &str) -> Option<ClientId> {
        self.clients.of(connection_id)
    }

    /// Sends a message of the server to a client.
    pub(crate) fn send_server_message(
        &mut self,
        client_id: ClientId,
        id: Option<Id>,
        call: Call,
        cx: &mut Context<'_>,
    ) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let message = match id {
            Some(id) => {
                client.server_requests.push(id.detached());
                Message::Request { id, call }
            }
            None => Message::Notification(call),
        };
        cx.out.push(Action::SendToClient { client_id, message });
    }

    /// Cancels a request of the server to a client. Returns false if no client has it. In MCP a
    /// cancelled request is not answered, but in ACP every request is.
    pub(crate) fn cancel_server_request(&mut self, id: &Id, cx: &mut Context<'_>) -> bool {
        let Some((client_id, client)) = self.clients.with_server_request(id) else { return false };
        client.server_requests.retain(|owed| owed != id);
        let params = Json::object([("requestId", Some(id.json().clone()))]);
        let message = Message::notification(CANCELLED, params);
        cx.out.push(Action::SendToClient { client_id, message });
        self.inject(Message::response(id.clone(), cancelled_outcome()), cx);
        true
    }

    /// The provider has closed a connection.
    pub(crate) fn on_provider_disconnected(&mut self, connection_id: &str, cx: &mut Context<'_>) {
        let Some(client_id) = self.clients.disconnect(connection_id) else { return };
        if let Some(client) = self.clients.get_mut(client_id) {
            client.state = ClientState::Idle;
        }
        cx.out.push(Action::DisconnectClient(client_id));
        self.on_client_disconnected(client_id, cx);
    }

    /// Handles timeouts, and answers handshakes that have timed out. `initialize` gets a result that
    /// declares tools, which every server is assumed to have. `server/discover` gets the error for an
    /// unknown method.
    pub(crate) fn tick(&mut self, provider: impl Fn(&str) -> Option<String>, cx: &mut Context<'_>) {
        self.time_out(provider, cx);
        let due = |client: &Client| {
            client.delayed_initialized.as_ref().is_some_and(|(_, deadline)| *deadline <= cx.now)
        };
        for client_id in self.clients.client_ids(due) {
            self.send_delayed(client_id, cx);
        }
        for (client_id, client) in self.clients.iter_mut() {
            for handshake in
                client.handshakes.iter_mut().filter(|it| !it.answered && it.deadline <= cx.now)
            {
                handshake.answered = true;
                let outcome = if handshake.call.is(DISCOVER) {
                    Outcome::Error(stateless::method_not_found(DISCOVER))
                } else {
                    client.answered_for_server = true;
                    let info = stateless::ClientInfo::of(&handshake.call);
                    let result = stateless::initialize_result(None, &info, &client.name)
                        .with_at(&["capabilities", "tools", "listChanged"], Some(&Json::TRUE));
                    Outcome::Result(result)
                };
                let message = Message::response(handshake.id.clone(), outcome);
                cx.out.push(Action::SendToClient { client_id, message });
            }
        }
    }
}

/// Notifies a client that lists may have changed, when the server answers an `initialize` that the
/// bridge has already answered.
fn announce_late_capabilities(
    client_id: ClientId,
    request: &Call,
    outcome: &Outcome,
    cx: &mut Context<'_>,
) {
    let Some(Outcome::Result(result)) = request.is(INITIALIZE).then_some(outcome) else { return };
    for (capability, method) in [
        ("tools", "notifications/tools/list_changed"),
        ("resources", "notifications/resources/list_changed"),
        ("prompts", "notifications/prompts/list_changed"),
    ] {
        if result.at(&["capabilities", capability]).is_some() {
            let message = Message::notification(method, None);
            cx.out.push(Action::SendToClient { client_id, message });
        }
    }
}
