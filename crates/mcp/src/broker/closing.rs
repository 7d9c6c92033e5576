//! Cancellation of requests, and the end of connections.

use acp_wire::{Call, Id, Json, Message, Outcome, Side};
use router::Seat;

use super::connection::*;
use super::connections::ConnectionNumber;
use super::pending_request::{AfterDiscover, ProviderRequest};
use super::{Action, Broker, Context};
use crate::bridge::cancel_notification;
use crate::form::{Address, Direction, Form};
use crate::stateless::CANCELLED;

impl Broker {
    /// Cancels a request that was delivered to a provider. An MCP server with connections also gets
    /// `notifications/cancelled`. The server does not answer after that, so the broker does. Returns
    /// true if the provider does not know a request with this id, so that the cancellation must not
    /// be passed on.
    pub(super) fn on_cancel(&mut self, seat: Seat, id: &Id, cx: &mut Context<'_>) -> bool {
        if self.cancel_opening(seat, id, cx) {
            return true;
        }
        let key = (seat, id.clone());
        let attempts = self.cancel_retries(&key, cx);
        for attempt in &attempts {
            deliver(seat, Side::Editor, cancel_notification(attempt), cx);
        }
        if !matches!(self.pending.get(&key), Some(ProviderRequest::Forward { .. })) {
            return self.cancel_queued(seat, id, cx);
        }
        let Some(ProviderRequest::Forward { connection, form, inner_id, request_id, .. }) =
            self.pending.take_provider_request(&key)
        else {
            return false;
        };
        self.pending.clear_timeout(&key);
        self.operations.take(seat, request_id);
        if let Some(connection) = self.connections.get(connection)
            && let ConnectionState::Open { connection_id, .. } = &connection.state
            && let Some(server) = self.registry.get(&connection.server)
        {
            let provider_request_id = inner_id
                .filter(|_| connection.passes_unchanged(server))
                .unwrap_or_else(|| id.clone());
            let address = Address { server: server.address(form), connection_id, request_id: "" };
            for id in [provider_request_id].iter().chain(&attempts) {
                let params = Json::object([("requestId", Some(id.json().clone()))]);
                let encoded = form.encode_message(
                    Direction::ToServer,
                    address,
                    None,
                    &Call::new(CANCELLED, params),
                );
                deliver(seat, Side::Editor, Message::Notification(encoded), cx);
            }
        }
        answer(seat, id.clone(), cancelled_outcome(), cx);
        false
    }

    /// Cancels a consumer's connect. If the provider opens the connection nevertheless, the broker
    /// closes it. Returns whether the request was a connect.
    fn cancel_opening(&mut self, seat: Seat, id: &Id, cx: &mut Context<'_>) -> bool {
        let opens = |connection: &Connection| {
            connection.seat == seat && matches!(connection.state, ConnectionState::Opening(_))
        };
        if !self.connections.any(opens) {
            return false;
        }
        let found = self.pending.iter().find_map(|((key_seat, _), request)| {
            let connect_id = *key_seat == seat && request.connect_id() == Some(id);
            request.connection().filter(|_| connect_id)
        });
        let Some(connection) = found.and_then(|it| self.end_connection(it, &cancelled_error(), cx))
        else {
            return false;
        };
        self.remove_if_unused(&connection.server, cx);
        true
    }

    /// Cancels a request that is queued, or that waits for input of the consumer. Returns whether it
    /// was found.
    fn cancel_queued(&mut self, seat: Seat, id: &Id, cx: &mut Context<'_>) -> bool {
        let waits = |message: &ConsumerMessage| message.id.as_ref() == Some(id);
        let here = self.connections.numbers(|connection| connection.seat == seat);
        let found = here.iter().find_map(|number| {
            let queued = self.connections.get_mut(*number)?.queued_mut()?;
            queued.iter().position(waits).map(|index| queued.remove(index))
        });
        let input_requests =
            self.input_requests.take(|it| it.id == *id && here.contains(&it.connection));
        for input in &input_requests {
            cancel_input_requests(&self.ids, seat, input, cx);
        }
        let known = found.is_some() || !input_requests.is_empty();
        if known {
            answer(seat, id.clone(), cancelled_outcome(), cx);
        }
        known
    }

    /// Closes a connection at the request of its consumer. `disconnect_id` is the id of the
    /// consumer's disconnect, if that is a request.
    pub(super) fn close_connection(
        &mut self,
        number: ConnectionNumber,
        disconnect_id: Option<Id>,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.end_connection(number, &connection_closed_error(), cx) else {
            return;
        };
        if let ConnectionState::Open { form, connection_id }
        | ConnectionState::Initializing { form, connection_id, .. } = &connection.state
        {
            self.disconnect_provider(connection.seat, *form, connection_id, cx);
        }
        if let Some(id) = disconnect_id {
            answer(connection.seat, id, Outcome::Result(Json::EMPTY_OBJECT), cx);
        }
        self.remove_if_unused(&connection.server, cx);
    }

    /// Closes a connection at the side of the provider, if its form has connections.
    pub(super) fn disconnect_provider(
        &mut self,
        seat: Seat,
        form: Form,
        connection_id: &str,
        cx: &mut Context<'_>,
    ) {
        if !form.has_connections() {
            return;
        }
        match form.encode_disconnect(connection_id) {
            (call, true) => {
                self.send_request(seat, ProviderRequest::Disconnect, call, None, cx);
            }
            (call, false) => deliver(seat, Side::Editor, Message::Notification(call), cx),
        }
    }

    /// Removes a connection from the tables.
    pub(super) fn remove_connection(&mut self, number: ConnectionNumber) -> Option<Connection> {
        self.operations.forget_connection(number);
        self.connections.remove(number)
    }

    /// Ends a connection. All its open requests are answered with this error.
    pub(super) fn end_connection(
        &mut self,
        number: ConnectionNumber,
        error: &Json,
        cx: &mut Context<'_>,
    ) -> Option<Connection> {
        let mut connection = self.remove_connection(number)?;
        let seat = connection.seat;
        let mut queued: Vec<Id> = Vec::new();
        queued.extend(connection.queued_mut().into_iter().flatten().filter_map(|it| it.id.take()));
        for input in self.input_requests.take(|it| it.connection == number) {
            cancel_input_requests(&self.ids, seat, &input, cx);
            queued.push(input.id);
        }
        for (key, request) in self.pending.take_all(|it| it.connection() == Some(number)) {
            match request {
                ProviderRequest::Connect { ref connect_id, .. } => {
                    queued.extend(connect_id.clone());
                    let retry = self.pending.stop_retrying(&key);
                    let attempts = retry.map(|retry| retry.attempts).unwrap_or_default();
                    self.expect_late_connects(cx.now, &key, attempts, request, None);
                    continue;
                }
                ProviderRequest::Discover {
                    after: AfterDiscover::AnswerConnect { connect_id },
                    ..
                } => queued.extend(connect_id),
                ProviderRequest::Discover {
                    after: AfterDiscover::AnswerInitialize { id, .. },
                    ..
                } => queued.push(id),
                ProviderRequest::Forward { form, .. } => {
                    let id = key.1.clone();
                    let attempts = self.cancel_retries(&key, cx);
                    if form == Form::M7 {
                        deliver(seat, Side::Editor, cancel_notification(&id), cx);
                        for attempt in attempts {
                            deliver(seat, Side::Editor, cancel_notification(&attempt), cx);
                        }
                    }
                    queued.push(id);
                }
                ProviderRequest::Initialize { .. }
                | ProviderRequest::LateInitialize { .. }
                | ProviderRequest::StatelessProbe { .. }
                | ProviderRequest::PassThrough { .. }
                | ProviderRequest::LateConnect { .. }
                | ProviderRequest::ExtraConnect { .. }
                | ProviderRequest::Disconnect => {}
            }
            self.pending.clear_timeout(&key);
            self.cancel_retries(&key, cx);
        }
        for id in queued {
            answer(seat, id, Outcome::Error(error.clone()), cx);
        }
        Some(connection)
    }

    /// Ends a connection. Sends a disconnect to the consumer, if it has an id for the
    /// connection.
    pub(super) fn close_for_consumer(
        &mut self,
        number: ConnectionNumber,
        error: &Json,
        cx: &mut Context<'_>,
    ) -> Option<Connection> {
        let announced = self.connections.has_consumer_id(number);
        let connection = self.end_connection(number, error, cx)?;
        if let Consumer::Connection { form, id } = &connection.consumer
            && announced
        {
            let message = Message::Notification(form.encode_disconnect(id).0);
            cx.out.push(Action::Inject { from: connection.seat, toward: Side::Agent, message });
        }
        Some(connection)
    }

    /// Closes the connections to a server. An open connection of a bridged client ends when the
    /// client disconnects.
    pub(super) fn close_connections_to(&mut self, server: &str, cx: &mut Context<'_>) {
        let (bridged, agent_seat) = (self.bridge.native().is_none(), self.agent_seat);
        let ends_itself = |connection: &Connection| {
            bridged
                && matches!(connection.consumer, Consumer::Connection { .. })
                && !matches!(connection.state, ConnectionState::Opening(_))
                && connection.known_to == agent_seat
        };
        for number in self.connections.numbers(|it| it.server == server && !ends_itself(it)) {
            self.close_connection(number, None, cx);
        }
    }
}
