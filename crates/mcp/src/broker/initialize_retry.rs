//! Retries of `initialize`, each on an extra connection.
//!
//! An MCP server accepts `initialize` once on a connection, and some (rmcp) exit when they get it
//! twice. So if a provider does not answer `initialize`, the broker opens another connection for
//! the same request. It uses the first connection on which the server answers, and closes the
//! others. Forms without connections (M0, M1) get `initialize` once.

use acp_wire::{Call, Id, Message, Outcome, Side};
use router::{Diagnostic, Level, Seat};

use super::connection::*;
use super::connections::ConnectionNumber;
use super::pending_request::ProviderRequest;
use super::pending_requests::{Resend, Retry};
use super::retry::LATE_ANSWER_TIMEOUT;
use super::{Action, Broker, Context};
use crate::form::{Address, Direction, Form, connection_id_of};

impl Broker {
    /// Opens another connection for the `initialize` that was sent as `first`.
    pub(super) fn open_extra_connection(
        &mut self,
        first: (Seat, Id),
        (id, form, proposed_id): (Id, Form, String),
        connect: Call,
        cx: &mut Context<'_>,
    ) {
        let (seat, first) = first;
        let component = self.chain.describe(seat);
        let text =
            format!("{component} does not answer; sending initialize again on another connection");
        cx.out.push(Action::Report(Diagnostic { level: Level::Debug, seat, text }));
        let request = ProviderRequest::ExtraConnect { first, form, proposed_id };
        self.pending.insert_provider_request(
            cx.now,
            (seat, &id),
            request,
            Some(cx.now.plus(LATE_ANSWER_TIMEOUT)),
            None,
        );
        deliver(seat, Side::Editor, Message::Request { id, call: connect }, cx);
    }

    /// An extra connection is open, or could not be opened. If `initialize` is still not answered,
    /// it is sent there.
    pub(super) fn on_extra_connected(
        &mut self,
        first: (Seat, Id),
        (form, proposed_id): (Form, String),
        outcome: &Outcome,
        cx: &mut Context<'_>,
    ) {
        let Outcome::Result(result) = outcome else { return };
        let seat = first.0;
        let connection_id = connection_id_of(result).unwrap_or(proposed_id);
        if self.connections.by_provider_id(seat, &connection_id).is_some() {
            // The provider has only one connection, which must not get `initialize` twice.
            return;
        }
        let connection = self.pending.get(&first).and_then(ProviderRequest::connection);
        let id = Id::string(&format!("m:{}", self.ids.next_number()));
        let retry = self.pending.retry_mut(&first);
        let (Some(connection), Some(Retry { resend: Resend::Initialize { server, call, .. }, .. })) =
            (connection, retry)
        else {
            return self.disconnect_provider(seat, form, &connection_id, cx);
        };
        let address = Address { server, connection_id: &connection_id, request_id: "" };
        let call = form.encode_message(Direction::ToServer, address, Some(&id), call);
        self.pending.add_attempt(&first, &id, connection_id.clone());
        self.connections.connect(seat, connection_id, connection);
        deliver(seat, Side::Editor, Message::Request { id, call }, cx);
    }

    /// Uses the connection on which `initialize` was answered, and closes the others.
    pub(super) fn use_answered_connection(
        &mut self,
        first: &(Seat, Id),
        mut retry: Retry,
        answered: &Id,
        cx: &mut Context<'_>,
    ) {
        let seat = first.0;
        let proposed_id = retry.attempts.iter().position(|(id, _)| id == answered);
        let proposed_id = proposed_id.map(|index| retry.attempts.swap_remove(index).1);
        self.close_extra_connections(seat, &retry, cx);
        let (Some(proposed_id), Some(request)) = (proposed_id, self.pending.get(first)) else {
            return;
        };
        let connection = request.connection().and_then(|number| self.connections.get_mut(number));
        let Some(connection) = connection else { return };
        if let ConnectionState::Open { form, connection_id }
        | ConnectionState::Initializing { form, connection_id, .. } = &mut connection.state
        {
            let before = std::mem::replace(connection_id, proposed_id.clone());
            let form = *form;
            self.pending.move_retries(seat, &before, &proposed_id);
            self.close_provider_connection(seat, form, &before, cx);
        }
    }

    /// Closes the extra connections of an `initialize`.
    pub(super) fn close_extra_connections(
        &mut self,
        seat: Seat,
        retry: &Retry,
        cx: &mut Context<'_>,
    ) {
        let Resend::Initialize { form, .. } = retry.resend else { return };
        for (_, connection_id) in &retry.attempts {
            self.close_provider_connection(seat, form, connection_id, cx);
        }
    }

    /// Closes a connection of a provider and forgets its id.
    fn close_provider_connection(
        &mut self,
        seat: Seat,
        form: Form,
        connection_id: &str,
        cx: &mut Context<'_>,
    ) {
        self.connections.disconnect(seat, connection_id);
        self.disconnect_provider(seat, form, connection_id, cx);
    }

    /// Stops the retries of a request. Returns the ids of the attempts that have to be cancelled.
    /// Attempts of `initialize` end with their connections.
    pub(super) fn cancel_retries(&mut self, first: &(Seat, Id), cx: &mut Context<'_>) -> Vec<Id> {
        let Some(retry) = self.pending.stop_retrying(first) else { return Vec::new() };
        self.close_extra_connections(first.0, &retry, cx);
        match retry.resend {
            Resend::Initialize { .. } => Vec::new(),
            _ => retry.attempts.iter().map(|(id, _)| id.clone()).collect(),
        }
    }

    /// Opens another connection if a consumer sends `initialize` and the server has not answered an
    /// earlier one. Returns the message if it may be sent on the open connection.
    pub(super) fn open_for_second_initialize(
        &mut self,
        number: ConnectionNumber,
        message: ConsumerMessage,
        cx: &mut Context<'_>,
    ) -> Option<ConsumerMessage> {
        let Some(connection) = self.connections.get_mut(number) else { return Some(message) };
        let ConnectionState::Open { form, connection_id } = &connection.state else {
            return Some(message);
        };
        if !connection.initialize_unanswered || !form.has_connections() {
            return Some(message);
        }
        connection.initialize_unanswered = false;
        let (seat, form, connection_id) = (connection.seat, *form, connection_id.clone());
        let deadline = message.deadline;
        connection.state = ConnectionState::Opening(vec![message]);
        self.connections.set_queue_deadline(number, deadline);
        let late = |request: &ProviderRequest| matches!(request, ProviderRequest::LateInitialize { connection, .. } if *connection == number);
        for (key, _) in self.pending.take_all(late) {
            self.pending.clear_timeout(&key);
        }
        self.close_provider_connection(seat, form, &connection_id, cx);
        self.open_connection(number, form, None, None, cx);
        None
    }

    /// Whether a server may still answer an `initialize` that has timed out, and must not get
    /// another one.
    pub(super) fn may_still_initialize(&self, connection_id: &str) -> bool {
        let Some(number) = self.connections.number_of(connection_id) else { return false };
        let connects =
            self.connections.get(number).is_some_and(|connection| match &connection.state {
                ConnectionState::Open { form, .. } => form.has_connections(),
                _ => true,
            });
        let late = |request: &ProviderRequest| matches!(request, ProviderRequest::LateInitialize { connection, .. } if *connection == number);
        !connects && self.pending.iter().any(|(_, request)| late(request))
    }
}
