//! Messages of providers: their answers, and the requests and notifications that they send.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::Seat;

use super::connection::*;
use super::connections::ConnectionNumber;
use super::input_requests::{AnswerTranslation, PendingInput};
use super::pending_request::{ProviderRequest, is_unsupported};
use super::server::Server;
use super::{ANSWER_TIMEOUT, Broker, Context, has_timeout};
use crate::bridge::not_found_error;
use crate::form::{self, Address, Answer, Direction, Form, Frame, Target, connection_id_of};
use crate::stateless::{self, INITIALIZE, StatelessOutcome};

/// A forwarded request of a consumer that its provider has answered.
struct ForwardedRequest<'a> {
    id: &'a Id,
    connection: ConnectionNumber,
    form: Form,
    inner_id: Option<Id>,
    call: Call,
    rounds: u8,
}

impl Broker {
    /// Handles the answer of a provider. Returns the outcome that goes on to the consumer.
    pub(super) fn on_provider_answer(
        &mut self,
        seat: Seat,
        id: &Id,
        request: ProviderRequest,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) -> Option<Outcome> {
        self.pending.clear_timeout(&(seat, id.clone()));
        match request {
            ProviderRequest::Connect { connection, form, connect_id, unchanged, proposed_id } => {
                self.on_connect_answer(
                    seat,
                    (connection, form, connect_id, unchanged),
                    proposed_id,
                    outcome,
                    cx,
                );
                None
            }
            ProviderRequest::Discover { connection, after } => {
                self.on_discovered(connection, after, outcome, cx);
                None
            }
            ProviderRequest::Initialize { connection, form } => {
                match self.switch_message_names(connection, form, true, &outcome) {
                    Some(_) => self.resend_initialize(connection, cx),
                    None => self.on_initialize_answer(connection, outcome, cx),
                }
                None
            }
            ProviderRequest::Forward { connection, form, inner_id, request_id, call, rounds } => {
                let forwarded = ForwardedRequest { id, connection, form, inner_id, call, rounds };
                self.on_forward_answer(seat, forwarded, request_id, outcome, cx)
            }
            ProviderRequest::StatelessProbe { server, inner_id, request_id, call } => {
                let id = Some(id.clone());
                let deadline = has_timeout(&call).then(|| cx.now.plus(ANSWER_TIMEOUT));
                let message =
                    ConsumerMessage { id, inner_id, request_id, call, original: None, deadline };
                self.on_probe_answer(&server, message, outcome, cx)
            }
            ProviderRequest::PassThrough { .. } => Some(outcome),
            ProviderRequest::LateInitialize { connection, form, call } => {
                if let Some(connection) =
                    self.connections.get_mut(connection).filter(|_| form.is_success(&outcome))
                {
                    connection.record_initialize(&call);
                    connection.initialize_unanswered = false;
                }
                None
            }
            ProviderRequest::LateConnect { form, proposed_id } => {
                if let Outcome::Result(result) = &outcome {
                    let connection_id = connection_id_of(result).unwrap_or(proposed_id);
                    if self.connections.by_provider_id(seat, &connection_id).is_none() {
                        self.disconnect_provider(seat, form, &connection_id, cx);
                    }
                }
                None
            }
            ProviderRequest::ExtraConnect { first, form, proposed_id } => {
                self.on_extra_connected((seat, first), (form, proposed_id), &outcome, cx);
                None
            }
            ProviderRequest::Disconnect => None,
        }
    }

    /// Handles the answer to a connect.
    fn on_connect_answer(
        &mut self,
        seat: Seat,
        (connection, form, connect_id, unchanged): (ConnectionNumber, Form, Option<Id>, bool),
        proposed_id: String,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) {
        let found = match &outcome {
            Outcome::Result(result) => connection_id_of(result),
            Outcome::Error(_) => None,
        };
        // A provider that accepts our id, or returns none, uses the form M3t.
        let chooses = matches!(form, Form::M2 | Form::M3 | Form::M3t);
        let taken = chooses
            && matches!(outcome, Outcome::Result(_))
            && found.as_ref().is_none_or(|it| *it == proposed_id);
        let form = if taken { Form::M3t } else { form };
        let consumer_chose_id = self
            .connections
            .get(connection)
            .is_some_and(|it| matches!(it.consumer, Consumer::Connection { form: Form::M3t, .. }));
        match (found.or(taken.then_some(proposed_id)), outcome) {
            (Some(connection_id), Outcome::Result(result)) => {
                let result = (unchanged || taken && consumer_chose_id).then_some(result);
                self.on_connection_open(
                    seat,
                    connection,
                    form,
                    connection_id,
                    connect_id,
                    result,
                    cx,
                );
            }
            (_, outcome) => self.on_connect_refused(connection, form, connect_id, outcome, cx),
        }
    }

    /// Handles the answer to a forwarded request.
    fn on_forward_answer(
        &mut self,
        seat: Seat,
        forwarded: ForwardedRequest<'_>,
        request_id: String,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) -> Option<Outcome> {
        let ForwardedRequest { id, connection, form, inner_id, call, rounds } = forwarded;
        let operation = self.operations.take(seat, request_id);
        let kept = !call.method.name().is_empty();
        let is_initialize = call.is(INITIALIZE);
        if kept && self.switch_message_names(connection, form, is_initialize, &outcome).is_some() {
            let request_id = operation.map(|it| it.request_id).unwrap_or_default();
            let id = Some(id.clone());
            let message =
                ConsumerMessage { id, inner_id, request_id, call, original: None, deadline: None };
            self.resend_message(connection, message, cx);
            return None;
        }
        let Some(open) = self.connections.get_mut(connection) else { return Some(outcome) };
        if call.is(INITIALIZE) && form.is_success(&outcome) {
            open.record_initialize(&call);
        }
        let open = &*open;
        let Some(server) = self.registry.get(&open.server) else { return Some(outcome) };
        match (&open.consumer, &open.state) {
            (Consumer::Stateless, _) => {
                let answer = match form.decode_answer(outcome) {
                    Answer::FromServer(mcp_outcome) => {
                        Answer::FromServer(stateless::with_result_type(mcp_outcome))
                    }
                    failed => failed,
                };
                Some(encode_answer_for(open, server, inner_id.as_ref(), answer))
            }
            (_, ConnectionState::Stateless(_)) => {
                let forwarded = ForwardedRequest { id, connection, form, inner_id, call, rounds };
                self.on_stateless_answer(forwarded, outcome, cx)
            }
            (
                Consumer::Connection { form: consumer_form, .. }
                | Consumer::Server { form: consumer_form, .. },
                _,
            ) if consumer_form.shares_messages_with(form)
                && !matches!(form, Form::M0 | Form::M1) =>
            {
                Some(outcome)
            }
            _ => Some(encode_answer_for(
                open,
                server,
                inner_id.as_ref(),
                form.decode_answer(outcome),
            )),
        }
    }

    /// Handles the answer of a stateless server to the request of a connection. The server may
    /// request input first.
    fn on_stateless_answer(
        &mut self,
        forwarded: ForwardedRequest<'_>,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) -> Option<Outcome> {
        let ForwardedRequest { id, connection, inner_id, call, rounds, .. } = forwarded;
        let open = self.connections.get(connection)?;
        let ConnectionState::Stateless(client) = &open.state else { return Some(outcome) };
        let server = self.registry.get(&open.server)?;
        let answered = match Form::M7.decode_answer(outcome) {
            Answer::FromServer(mcp_outcome) => mcp_outcome,
            Answer::NotDelivered(error) => Outcome::Error(as_mcp_error(&error)),
        };
        let stateless_outcome = match stateless::is_stateless_request(&call) {
            // The client uses stateless MCP itself.
            true => StatelessOutcome::Done(answered),
            false => stateless::read_outcome(answered, client),
        };
        let why = match stateless_outcome {
            StatelessOutcome::Done(mcp_outcome) => {
                return Some(encode_answer_for(
                    open,
                    server,
                    inner_id.as_ref(),
                    Answer::FromServer(mcp_outcome),
                ));
            }
            StatelessOutcome::InputRequired { .. } if rounds >= MAX_INPUT_ROUNDS => {
                "the MCP server requested input too often"
            }
            StatelessOutcome::InputRequired { .. } if call.method.name().is_empty() => {
                "the MCP server requests input, and the request is too large to be repeated"
            }
            StatelessOutcome::InputRequired { requests, state } => {
                let (id, answers) = (id.clone(), Vec::new());
                let input = PendingInput { connection, id, call, inner_id, state, rounds, answers };
                self.ask_consumer(input, requests, cx);
                return None;
            }
        };
        let error = error_object(code::INTERNAL_ERROR, why, None);
        Some(encode_answer_for(
            open,
            server,
            inner_id.as_ref(),
            Answer::FromServer(Outcome::Error(error)),
        ))
    }

    /// Handles the answer to a stateless request that also tested whether the server is stateless.
    fn on_probe_answer(
        &mut self,
        server: &str,
        message: ConsumerMessage,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) -> Option<Outcome> {
        let provider = self.registry.get_mut(server);
        if is_unsupported(&outcome)
            && provider.is_some_and(|it| it.exclude_form(Form::M7).is_some())
        {
            if stateless::prefers_connection(&message.call) {
                return Some(outcome);
            }
            self.send_stateless(server, message, cx);
            return None;
        }
        if let Some(server) = self.registry.get_mut(server) {
            server.set_form(Form::M7);
        }
        Some(outcome)
    }

    /// Handles a message that a provider sends to its consumer. Returns the message that goes on.
    pub(super) fn on_message_from_provider(
        &mut self,
        seat: Seat,
        id: Option<Id>,
        call: Call,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        let Some((form, frame)) = form::decode(&call) else {
            return Some(request_or_notification(id, call));
        };
        let (target, mcp_call, inner_id) = match frame {
            Frame::Mcp { target, call, id } => (target, call, id),
            Frame::Disconnect { connection_id } => {
                let Some(number) = self.connections.by_provider_id(seat, &connection_id) else {
                    return Some(request_or_notification(id, call));
                };
                return self.on_provider_disconnects(seat, id, number, cx);
            }
            Frame::Connect { .. } => return Some(request_or_notification(id, call)),
        };
        let (target, call) = self.with_first_request_id(seat, target, call);
        let known_as = match &target {
            Target::Connection(connection_id) => connection_id.clone(),
            Target::Server(_) | Target::Operation { .. } => String::new(),
        };
        let number = self.connection_for(seat, &target);
        let Some(connection) = number.and_then(|number| self.connections.get(number)) else {
            if self.is_undeliverable(seat, form, &target) {
                let error = match &target {
                    Target::Connection(it) => not_found_error(&format!("connection '{it}'"), form),
                    _ => not_found_error("client for this message", form),
                };
                let message = Message::response(id?, Outcome::Error(error));
                deliver(seat, Side::Editor, message, cx);
                return None;
            }
            return Some(request_or_notification(id, self.with_public_id(seat, &target, call)));
        };
        match &connection.consumer {
            Consumer::Stateless => match id {
                Some(id) => {
                    let error = stateless::method_not_found(&mcp_call.method.name());
                    let mcp_answer = Answer::FromServer(Outcome::Error(error));
                    let address = Address { server: "", connection_id: "", request_id: "" };
                    let outcome = form.encode_answer(address, inner_id.as_ref(), mcp_answer);
                    deliver(seat, Side::Editor, Message::response(id, outcome), cx);
                    None
                }
                None => self.progress_for_stateless(seat, number?, &mcp_call),
            },
            Consumer::Connection { form: consumer_form, id: visible }
                if consumer_form.shares_messages_with(form) && *visible == known_as =>
            {
                Some(request_or_notification(id, call))
            }
            consumer @ (Consumer::Connection { form: consumer_form, .. }
            | Consumer::Server { form: consumer_form, .. }) => {
                let encoded =
                    encode_call_for(consumer, &connection.server, id.as_ref(), &mcp_call)?;
                let whole = |form| matches!(form, Form::M0 | Form::M1);
                if let Some(id) = id.as_ref().filter(|_| whole(form) || whole(*consumer_form)) {
                    let server = self.registry.get(&connection.server);
                    let server = server.map(|it| it.address(form).to_owned()).unwrap_or_default();
                    let translation = AnswerTranslation {
                        provider: form,
                        consumer: *consumer_form,
                        server,
                        inner_id,
                    };
                    self.input_requests.translate_answer(seat, id, translation);
                }
                Some(request_or_notification(id, encoded))
            }
        }
    }

    /// The connection that a message of a provider belongs to.
    fn connection_for(&self, seat: Seat, target: &Target) -> Option<ConnectionNumber> {
        match target {
            Target::Connection(connection_id) => {
                self.connections.by_provider_id(seat, connection_id)
            }
            Target::Operation { request_id, .. } => self.operations.connection_of(seat, request_id),
            Target::Server(server) => {
                let leads_to_server = |connection: &Connection| {
                    let known = self.registry.get(&connection.server);
                    connection.seat == seat && known.is_some_and(|it| it.provider_id == *server)
                };
                let mut found = self.connections.iter().filter(|(_, it)| leads_to_server(it));
                found.next_back().map(|(number, _)| number)
            }
        }
    }

    /// Handles the disconnect of a provider. Returns the message for the consumer.
    fn on_provider_disconnects(
        &mut self,
        seat: Seat,
        id: Option<Id>,
        number: ConnectionNumber,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        if let Some(id) = id {
            let message = Message::response(id, Outcome::Result(Json::EMPTY_OBJECT));
            deliver(seat, Side::Editor, message, cx);
        }
        let connection = self.end_connection(number, &connection_closed_error(), cx)?;
        self.remove_if_unused(&connection.server, cx);
        let Consumer::Connection { form, id: known_as } = connection.consumer else { return None };
        Some(Message::Notification(form.encode_disconnect(&known_as).0))
    }

    /// Encodes a notification of a provider for the stateless consumer of the request that it
    /// belongs to.
    fn progress_for_stateless(
        &self,
        seat: Seat,
        number: ConnectionNumber,
        notification: &Call,
    ) -> Option<Message> {
        let request_id = self.operations.request_for(seat, number, notification)?;
        let connection = self.connections.get(number)?;
        let called =
            self.registry.get(&connection.server).and_then(|server| server.consumer_raw_id.clone());
        let server = called.unwrap_or_else(|| form::escape_acp_prefix(&connection.server));
        let address = Address { server: &server, connection_id: "", request_id: &request_id };
        Some(Message::Notification(Form::M7.encode_message(
            Direction::ToClient,
            address,
            None,
            notification,
        )))
    }

    /// Whether no consumer can receive a message of a provider. A message for another provider's
    /// consumer passes. So does a message with an unknown target, if the consumer could read it.
    fn is_undeliverable(&self, seat: Seat, form: Form, target: &Target) -> bool {
        let is_read = self
            .connections
            .last_consumer_form()
            .is_none_or(|consumer_form| consumer_form.shares_messages_with(form));
        match target {
            Target::Connection(connection_id) => {
                self.connections.by_id(connection_id).is_none() && !is_read
            }
            Target::Server(server) => {
                let of_another = |connection: &Connection| match &connection.consumer {
                    Consumer::Server { id, .. } => connection.seat != seat && id == server,
                    _ => false,
                };
                !self.connections.any(of_another)
                    && (!is_read || self.registry.has_own(seat, server))
            }
            Target::Operation { .. } => self.connections.last_consumer_form() != Some(Form::M7),
        }
    }

    /// Replaces the server id in a message of a stateless server to a stateless consumer, if the
    /// consumer knows the server by another id.
    fn with_public_id(&self, seat: Seat, target: &Target, call: Call) -> Call {
        let Target::Operation { .. } = target else { return call };
        let raw_id = form::raw_server_id(&call).unwrap_or_default();
        let own = |it: &Server| it.seat == seat && it.raw_provider_id == raw_id;
        let Some((key, server)) = self.registry.iter().find(|(_, server)| own(server)) else {
            return call;
        };
        let known =
            server.consumer_raw_id.clone().unwrap_or_else(|| match *key == server.provider_id {
                true => raw_id.clone(),
                false => form::escape_acp_prefix(key),
            });
        if known == raw_id {
            return call;
        }
        let params = call.params.map(|it| it.with_member("serverId", &Json::string(&known)));
        Call { params, ..call }
    }
}
