//! Crashes, restarts and bypasses of components.
//!
//! The other components keep the ids of the servers and connections that a crashed component
//! provided, and MCP clients keep their endpoints. The restarted component has new ids and no
//! state. So it declares its servers again, and the broker opens each connection again, with the
//! handshake of its consumer, before any other message reaches it.

use acp_wire::message::error_object;
use acp_wire::{Call, Json, Outcome, Side, code};
use router::{Chain, Diagnostic, Level, Seat};

use super::connection::*;
use super::connections::ConnectionNumber;
use super::pending_request::ProviderRequest;
use super::{Action, Broker, Context, Hop};
use crate::form::{self, Form, Frame, Subject, connection_id_of};
use crate::stateless::{INITIALIZE, INITIALIZED};

impl Broker {
    /// A component is down. The router answers the requests that it has not answered.
    /// Its servers wait for [`component_restarted`](Broker::component_restarted) or
    /// [`component_bypassed`](Broker::component_bypassed).
    pub fn component_down(&mut self, seat: Seat, cx: &mut Context<'_>) {
        self.after_held(cx, |broker, cx| broker.on_component_down(seat, cx));
    }

    fn on_component_down(&mut self, seat: Seat, cx: &mut Context<'_>) {
        self.pending_initializes.forget(seat);
        let provided = self.registry.component_down(seat);
        let owed = self.pending.forget(seat);
        self.keep_handshakes(owed);
        self.suspend_connections(seat);
        for key in provided {
            self.remove_if_unused(&key, cx);
        }
        if seat == self.agent_seat {
            // The router counts the held messages as delivered, so it answers their requests.
            self.held.clear();
            self.bridge.on_agent_down(cx);
        }
        self.close_connections_through(seat, cx);
        self.resend_lost_handshakes(cx);
    }

    /// Sends the lost handshakes of bridged clients again.
    pub(super) fn resend_lost_handshakes(&mut self, cx: &mut Context<'_>) {
        for (client_id, connection_id) in self.bridge.handshakes_to_resend() {
            let is_received = self
                .connections
                .by_id(&connection_id)
                .is_none_or(|connection| connection.handshake.is_some())
                || self.may_still_initialize(&connection_id);
            self.bridge.resend_handshake(client_id, is_received, cx);
        }
    }

    /// A component was restarted, and its sessions were replayed.
    pub fn component_restarted(&mut self, seat: Seat, cx: &mut Context<'_>) {
        self.after_held(cx, |broker, cx| broker.on_component_restarted(seat, cx));
    }

    fn on_component_restarted(&mut self, seat: Seat, cx: &mut Context<'_>) {
        let Some(missing) = self.registry.component_restarted(seat) else { return };
        let component = self.chain.describe(seat);
        for (key, name) in missing {
            let text =
                format!("{component} was restarted and no longer offers the MCP server '{name}'");
            self.remove_server(&key, &text, cx);
            cx.out.push(Action::Report(Diagnostic { level: Level::Warn, seat, text }));
        }
        for number in self.connections.numbers(|connection| connection.seat == seat) {
            self.reopen(number, cx);
        }
        self.resend_lost_handshakes(cx);
    }

    /// The open connections that pass a component between a consumer and a provider: the request
    /// that opens each, and its result. A restarted component does not know them.
    pub fn connections_through(&self, seat: Seat) -> Vec<(Call, Json)> {
        let here = self.distance(seat);
        let passing = self.connections.iter().filter(|(_, connection)| {
            self.distance(connection.seat) < here && here < self.distance(connection.known_to)
        });
        let encoded = passing.filter_map(|(number, connection)| {
            let Consumer::Connection { form, id } = &connection.consumer else { return None };
            if connection.is_closing || !self.connections.has_consumer_id(number) {
                return None;
            }
            let proposed_id = if *form == Form::M3t { id.as_str() } else { "" };
            let connect = form.encode_connect(&connection.server, proposed_id);
            Some((connect, form.encode_connect_result(id)))
        });
        encoded.collect()
    }

    /// A component is bypassed: it is not restarted, and its servers are gone.
    pub fn component_bypassed(&mut self, seat: Seat, cx: &mut Context<'_>) {
        self.after_held(cx, |broker, cx| broker.on_component_bypassed(seat, cx));
    }

    fn on_component_bypassed(&mut self, seat: Seat, cx: &mut Context<'_>) {
        self.on_component_down(seat, cx);
        let component = self.chain.describe(seat);
        for (key, name) in self.registry.component_bypassed(seat) {
            let text = format!("{component} was bypassed, so its MCP server '{name}' is gone");
            self.remove_server(&key, &text, cx);
        }
    }

    /// The chain has another configuration from now on. The agent keeps its seat. A connection ends if its consumer is no
    /// longer behind its provider, because requests of MCP clients travel toward the editor.
    pub fn chain_changed(&mut self, chain: Chain, cx: &mut Context<'_>) {
        self.after_held(cx, |broker, cx| {
            broker.chain = chain;
            let lost = broker.connections.numbers(|connection| {
                let provider = broker.chain.position(connection.seat);
                broker.distance(connection.known_to) < provider
            });
            let error = error_object(
                code::INTERNAL_ERROR,
                "the MCP server is now behind its client in the chain",
                None,
            );
            for number in lost {
                broker.close_for_consumer(number, &error, cx);
            }
        });
    }

    /// A component joins the chain. Its declarations for the live sessions are ignored, because the agent cannot see them.
    pub fn component_added(&mut self, seat: Seat) {
        self.registry.component_down(seat);
    }

    /// Keeps the `initialize` of a client that the bridge has answered in place of the server. Such a
    /// client does not send it again.
    fn keep_handshakes(&mut self, owed: Vec<ProviderRequest>) {
        for request in owed {
            let ProviderRequest::Forward { connection, call, .. } = request else { continue };
            if let Some(connection) =
                self.connections.get_mut(connection).filter(|_| call.is(INITIALIZE))
                && let Consumer::Connection { id, .. } = &connection.consumer
                && self.bridge.has_answered_for_server(id)
            {
                connection.record_initialize(&call);
            }
        }
    }

    /// Forgets all ids that only a provider knew.
    pub(super) fn forget_provider_ids(&mut self, seat: Seat) {
        self.connections.forget_provider_ids(seat);
        self.operations.forget_provider(seat);
        self.input_requests.forget_provider(seat);
    }

    /// Suspends the connections to a provider that is down. The router answers the queued requests,
    /// because it has delivered them.
    fn suspend_connections(&mut self, seat: Seat) {
        self.forget_provider_ids(seat);
        let here = self.connections.numbers(|connection| connection.seat == seat);
        self.input_requests.take(|input| here.contains(&input.connection));
        for number in here {
            let announced = self.connections.has_consumer_id(number);
            let Some(connection) = self.connections.get_mut(number) else { continue };
            let has_queued_initialized = connection
                .queued_mut()
                .is_some_and(|it| it.iter().any(|it| it.call.is(INITIALIZED)));
            if has_queued_initialized {
                connection.record_initialized();
            }
            connection.state = ConnectionState::Opening(Vec::new());
            connection.initialize_unanswered = false;
            // If no consumer knows the connection, the next message opens another one.
            let has_begun = connection.handshake.is_some()
                && !matches!(connection.consumer, Consumer::Stateless);
            if !announced && !has_begun {
                self.remove_connection(number);
            }
        }
    }

    /// Closes the connections whose id has not travelled beyond a seat that is down, and those
    /// whose disconnect may have been lost there.
    fn close_connections_through(&mut self, seat: Seat, cx: &mut Context<'_>) {
        let bridged = self.bridge.native().is_none();
        let has_left = |connection: &Connection| match &connection.consumer {
            Consumer::Connection { id, .. } => {
                let is_disconnected = || bridged && self.bridge.client_of(id).is_none();
                connection.is_closing || connection.known_to == self.agent_seat && is_disconnected()
            }
            _ => false,
        };
        let beyond = self.distance(seat);
        let over = self.connections.numbers(|connection| {
            let through = connection.seat != seat && beyond > self.chain.position(connection.seat);
            through && (self.distance(connection.known_to) <= beyond || has_left(connection))
        });
        for number in over {
            self.close_connection(number, None, cx);
        }
    }

    /// The distance of a seat from the editor.
    fn distance(&self, seat: Seat) -> usize {
        if seat == self.agent_seat { usize::MAX } else { self.chain.position(seat) }
    }

    /// Opens a connection to a restarted provider again.
    fn reopen(&mut self, number: ConnectionNumber, cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get(number) else { return };
        let Some(server) = self.registry.get(&connection.server) else { return };
        let consumer_form = match &connection.consumer {
            Consumer::Connection { form, .. } | Consumer::Server { form, .. } => *form,
            Consumer::Stateless => Form::M7,
        };
        let form = server.form_for(consumer_form);
        self.open_connection(number, form, None, None, cx);
    }

    /// Removes a server and closes its connections, with this error.
    fn remove_server(&mut self, key: &str, why: &str, cx: &mut Context<'_>) {
        let error = error_object(code::INTERNAL_ERROR, why, None);
        self.bridge.forget_server(key, cx);
        for number in self.connections.numbers(|connection| connection.server == key) {
            self.close_for_consumer(number, &error, cx);
        }
        self.registry.remove(key);
    }

    /// Records which component has received the id of a connection.
    pub(super) fn on_connect_result_delivered(&mut self, hop: Hop, outcome: &Outcome) {
        if !self.connections.has_unannounced() || hop.toward != Side::Agent {
            return;
        }
        let connection_id = match outcome {
            Outcome::Result(result) => connection_id_of(result),
            Outcome::Error(_) => None,
        };
        if let Some(connection_id) = connection_id {
            self.connection_known_to(hop.seat, &connection_id);
        }
    }

    /// Records that a component knows a connection, because it has sent a message about it.
    pub(super) fn note_known_connection(&mut self, seat: Seat, call: &Call) {
        let is_disconnect = call.method.name().ends_with("mcp/disconnect");
        if !self.connections.has_unannounced() && !is_disconnect {
            return;
        }
        let Some((_, frame)) = form::decode(call) else { return };
        let Subject::Connection(connection_id) = frame.subject() else { return };
        self.connection_known_to(seat, connection_id);
        let number = self.connections.number_of(connection_id);
        if let Some(connection) = number.and_then(|it| self.connections.get_mut(it)) {
            connection.is_closing |= matches!(frame, Frame::Disconnect { .. });
        }
    }

    /// Records that a component knows the id of a connection.
    fn connection_known_to(&mut self, seat: Seat, connection_id: &str) {
        let Some(number) = self.connections.number_of(connection_id) else { return };
        let distance = self.distance(seat);
        let Some(connection) = self.connections.get(number) else { return };
        if distance <= self.distance(connection.known_to) {
            return;
        }
        if let Some(connection) = self.connections.get_mut(number) {
            connection.known_to = seat;
        }
        if seat == self.agent_seat {
            self.connections.mark_announced(number);
        }
    }
}
