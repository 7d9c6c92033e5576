//! Messages of consumers. The broker delivers them in the form of the provider, or answers them.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::{Diagnostic, Level, Seat};

use super::connection::*;
use super::connections::ConnectionNumber;
use super::foreign_mark::mark_as_foreign;
use super::operations::Operation;
use super::pending_request::{AfterDiscover, ProviderRequest};
use super::pending_requests::{Key, Resend};
use super::{ANSWER_TIMEOUT, Action, Broker, Context, has_timeout};
use crate::bridge::{cancel_notification, not_found_error};
use crate::form::{self, Address, Answer, Direction, Form, Frame, Subject, Target, raw_server_id};
use crate::stateless::{self, CANCELLED, ClientInfo, DISCOVER, INITIALIZE, INITIALIZED, PING};

impl Broker {
    /// Handles a consumer's message that is delivered to a seat on its way to the provider. Returns
    /// the message that goes on to that seat.
    pub(super) fn on_message_from_consumer(
        &mut self,
        seat: Seat,
        id: Option<Id>,
        call: Call,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        let Some((form, frame)) = form::decode(&call) else {
            return Some(request_or_notification(id, call));
        };
        let form = self.connections.update_consumer_form(form, &frame);
        match frame {
            Frame::Connect { server, proposed_id } => {
                let Some(key) = self.provided_server(seat, form, &server) else {
                    let what = format!("server '{server}'");
                    let call = form.with_all_server_keys(call, &server);
                    return self.pass_on_or_refuse(seat, id, form, &what, call, cx);
                };
                let id = id?;
                let consumer = Consumer::Connection { form, id: proposed_id.unwrap_or_default() };
                let number = self.add_connection(&key, seat, consumer);
                let form = self.registry.get(&key)?.form_for(form);
                self.open_connection(number, form, Some(id), Some(call), cx);
                None
            }
            Frame::Disconnect { connection_id } => {
                let number = self.connections.number_of(&connection_id);
                let Some(number) = number.filter(|it| self.is_at(seat, *it)) else {
                    let what = format!("connection '{connection_id}'");
                    return self.pass_on_or_refuse(seat, id, form, &what, call, cx);
                };
                self.close_connection(number, id, cx);
                None
            }
            Frame::Mcp { target, call: mcp_call, id: inner_id } => {
                let deadline = has_timeout(&mcp_call).then(|| cx.now.plus(ANSWER_TIMEOUT));
                let (request_id, original) = (String::new(), Some(call));
                let call = mcp_call;
                let message =
                    ConsumerMessage { id, inner_id, request_id, call, original, deadline };
                self.on_mcp_message_from_consumer(seat, form, target, message, cx)
            }
        }
    }

    /// The public id of the server that a consumer names, if this seat provides it.
    fn provided_server(&self, seat: Seat, form: Form, server: &str) -> Option<String> {
        // The outer conductor translates for the providers outside this chain.
        let is_outside = seat == Seat::OUTER && self.is_bridged_outside();
        let provider = self.registry.provider_of(form, server);
        self.registry.find(form, server).filter(|_| provider == Some(seat) && !is_outside)
    }

    /// Handles an MCP message of a consumer. `message.original` is the message as it arrived.
    fn on_mcp_message_from_consumer(
        &mut self,
        seat: Seat,
        form: Form,
        target: Target,
        mut message: ConsumerMessage,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        match target {
            Target::Connection(connection_id) => {
                let number = self.connections.number_of(&connection_id);
                let Some(number) = number.filter(|it| self.is_at(seat, *it)) else {
                    let what = format!("connection '{connection_id}'");
                    return self.pass_on_or_refuse(
                        seat,
                        message.id,
                        form,
                        &what,
                        message.original?,
                        cx,
                    );
                };
                self.send(number, message, cx);
                None
            }
            Target::Server(server) => {
                let Some(key) = self.provided_server(seat, form, &server) else {
                    let what = format!("server '{server}'");
                    return self.pass_on_or_refuse(
                        seat,
                        message.id,
                        form,
                        &what,
                        message.original?,
                        cx,
                    );
                };
                let number = self.connection_to_server(seat, &key, form, server, cx)?;
                self.send(number, message, cx);
                None
            }
            Target::Operation { server, request_id } => {
                let Some(key) = self.provided_server(seat, form, &server) else {
                    let what = format!("server '{server}'");
                    return self.pass_on_or_refuse(
                        seat,
                        message.id,
                        form,
                        &what,
                        message.original?,
                        cx,
                    );
                };
                message.request_id = request_id;
                self.on_operation(seat, key, message, cx)
            }
        }
    }

    /// The connection of a consumer that addresses a server directly (M0, M1). Opens it if there is
    /// none.
    fn connection_to_server(
        &mut self,
        seat: Seat,
        key: &str,
        form: Form,
        server: String,
        cx: &mut Context<'_>,
    ) -> Option<ConnectionNumber> {
        let open = self.connections.iter().find(|(_, connection)| {
            connection.server == key && matches!(connection.consumer, Consumer::Server { .. })
        });
        if let Some((number, _)) = open {
            return Some(number);
        }
        let number = self.add_connection(key, seat, Consumer::Server { form, id: server });
        let form = self.registry.get(key)?.form_for(form);
        self.open_connection(number, form, None, None, cx);
        Some(number)
    }

    /// Handles a message of a stateless consumer. `message.original` is the message as it arrived.
    fn on_operation(
        &mut self,
        seat: Seat,
        key: String,
        mut message: ConsumerMessage,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        let call = message.original.take()?;
        let server = self.registry.get_mut(&key)?;
        server.consumer_raw_id = raw_server_id(&call);
        if server.form_for(Form::M7) == Form::M7 {
            let ConsumerMessage { id, inner_id, request_id, call: mcp_call, deadline, .. } =
                message;
            let form_known = server.form_known;
            let call = match server.consumer_raw_id.as_ref() == Some(&server.raw_provider_id) {
                true => call,
                false => {
                    let native = Json::string(&server.raw_provider_id);
                    let params = call.params.map(|it| it.with_member("serverId", &native));
                    Call { params, ..call }
                }
            };
            if let Some(id) = id.as_ref().filter(|_| !form_known || deadline.is_some()) {
                let resend = Resend::message(Form::M7, server.address(Form::M7), "", &mcp_call);
                let request = match form_known {
                    true => ProviderRequest::PassThrough { server: key, request_id },
                    false => ProviderRequest::StatelessProbe {
                        server: key,
                        inner_id,
                        request_id,
                        call: mcp_call,
                    },
                };
                self.pending.insert_provider_request(cx.now, (seat, id), request, deadline, resend);
            }
            return Some(request_or_notification(id, call));
        }
        if let Some(id) =
            message.id.as_ref().filter(|_| stateless::prefers_connection(&message.call))
        {
            let error = stateless::method_not_found(DISCOVER);
            answer(seat, id.clone(), Outcome::Error(error), cx);
            return None;
        }
        self.send_stateless(&key, message, cx);
        None
    }

    /// Whether a connection leads to the provider in this seat.
    fn is_at(&self, seat: Seat, number: ConnectionNumber) -> bool {
        self.connections.get(number).is_some_and(|connection| connection.seat == seat)
    }

    /// Handles a message that is delivered to a seat that is not its provider. Passes it on, or
    /// answers it with an error at the last seat.
    pub(super) fn pass_on_or_refuse(
        &self,
        seat: Seat,
        id: Option<Id>,
        form: Form,
        what: &str,
        call: Call,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        if !self.is_editor(seat) {
            let call = match self.registry.was_restarted(seat) && !self.is_known(&call) {
                true => mark_as_foreign(&call),
                false => self.mark_if_ambiguous(seat, call),
            };
            return Some(request_or_notification(id, call));
        }
        answer(seat, id?, Outcome::Error(not_found_error(what, form)), cx);
        None
    }

    /// Whether the server or connection that a message names exists. If not, the message may be for
    /// a previous component of a seat, and its id may belong to another server now.
    fn is_known(&self, call: &Call) -> bool {
        let Some((form, frame)) = form::decode(call) else { return false };
        match frame.subject() {
            Subject::Connection(it) => self.connections.number_of(it).is_some(),
            Subject::Server(it) => self.registry.find(form, it).is_some(),
        }
    }

    /// Sends a message of a stateless consumer to a server with connections. All such messages use
    /// one connection.
    pub(super) fn send_stateless(
        &mut self,
        key: &str,
        message: ConsumerMessage,
        cx: &mut Context<'_>,
    ) {
        let open = |connection: &Connection| {
            connection.server == key && matches!(connection.consumer, Consumer::Stateless)
        };
        let found = self
            .connections
            .iter()
            .find(|(_, connection)| open(connection))
            .map(|(number, _)| number);
        let number = match found {
            Some(number) => number,
            None => {
                let Some(server) = self.registry.get(key) else { return };
                let (seat, form) = (server.seat, server.form_for(Form::M7));
                let number = self.add_connection(key, seat, Consumer::Stateless);
                self.open_connection(number, form, None, None, cx);
                number
            }
        };
        if let Some(id) =
            message.id.as_ref().filter(|_| self.is_active(number, &message.request_id))
        {
            let why = format!(
                "the requestId '{}' is in use by a request that is not answered",
                message.request_id
            );
            let Some(connection) = self.connections.get(number) else { return };
            return answer(
                connection.seat,
                id.clone(),
                Outcome::error(code::INVALID_PARAMS, &why),
                cx,
            );
        }
        self.send(number, message, cx);
    }

    /// Whether a stateless consumer has an open request with this `requestId`.
    fn is_active(&self, number: ConnectionNumber, request_id: &str) -> bool {
        let queued = self.connections.get(number).and_then(Connection::queued);
        self.operations.is_active(number, request_id)
            || queued.into_iter().flatten().any(|message| message.request_id == request_id)
    }

    /// Sends a message to the provider, queues it, or answers it.
    pub(super) fn send(
        &mut self,
        number: ConnectionNumber,
        message: ConsumerMessage,
        cx: &mut Context<'_>,
    ) {
        let message = match message.call.is(INITIALIZE) {
            true => self.open_for_second_initialize(number, message, cx),
            false => Some(message),
        };
        let Some(message) = message else { return };
        let Some(connection) = self.connections.get_mut(number) else { return };
        if self.registry.get(&connection.server).is_none() {
            return;
        }
        match &mut connection.state {
            ConnectionState::Opening(queued) | ConnectionState::Initializing { queued, .. } => {
                if queued.is_empty() {
                    connection.queued_bytes = 0;
                }
                let size =
                    memory_size(&message.call) + message.original.as_ref().map_or(0, memory_size);
                if connection.queued_bytes + size > MAX_QUEUED_BYTES {
                    return self.refuse_queued(number, message, cx);
                }
                connection.queued_bytes += size;
                let call = message.call.detached();
                let original = message.original.as_ref().map(Call::detached);
                let deadline = message.deadline;
                queued.push(ConsumerMessage { call, original, ..message });
                self.connections.set_queue_deadline(number, deadline);
            }
            ConnectionState::Open { .. } => self.send_on_open_connection(number, message, cx),
            ConnectionState::Stateless(_) => self.send_to_stateless_server(number, message, 0, cx),
        }
    }

    /// Sends a message on an open connection, or answers it.
    fn send_on_open_connection(
        &mut self,
        number: ConnectionNumber,
        message: ConsumerMessage,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let Some(server) = self.registry.get(&connection.server) else { return };
        let ConnectionState::Open { form, connection_id } = &connection.state else { return };
        let (form, connection_id) = (*form, connection_id.clone());
        if message.call.is(INITIALIZED) {
            connection.record_initialized();
        }
        if matches!(connection.consumer, Consumer::Stateless) {
            return self.send_stateless_on_connection(number, form, &connection_id, message, cx);
        }
        let (seat, unchanged) = (connection.seat, connection.passes_unchanged(server));
        let kept = server.must_keep_request(form);
        let ConsumerMessage { id, inner_id, request_id, call, original, deadline } = message;
        if let Some(id) = id.as_ref().filter(|_| call.is(DISCOVER)) {
            // MCP with connections does not have this method, and not every server answers
            // an unknown method.
            let error = stateless::method_not_found(DISCOVER);
            let outcome = encode_answer_for(
                connection,
                server,
                inner_id.as_ref(),
                Answer::FromServer(Outcome::Error(error)),
            );
            return answer(seat, id.clone(), outcome, cx);
        }
        let address =
            Address { server: server.address(form), connection_id: &connection_id, request_id: "" };
        let encoded_by_server = || {
            let by_server = matches!(connection.consumer, Consumer::Server { .. });
            by_server.then(|| form.encode_message(Direction::ToServer, address, id.as_ref(), &call))
        };
        let has_same_server_id = |original: &Call| {
            encoded_by_server().is_none_or(|it| raw_server_id(&it) == raw_server_id(original))
        };
        let encoded = match original.filter(|it| unchanged && has_same_server_id(it)) {
            Some(original) => original,
            None => {
                let call = self.find_cancelled_request(number, &call).map_or(call.clone(), |id| {
                    let params = Json::object([("requestId", Some(id.json().clone()))]);
                    Call::new(CANCELLED, params)
                });
                form.encode_message(Direction::ToServer, address, id.as_ref(), &call)
            }
        };
        if let Some(id) = &id {
            let resend = Resend::message(form, server.address(form), &connection_id, &call);
            let call = match call.is(INITIALIZE) || kept {
                true => call.detached(),
                false => Call::new("", None),
            };
            let request = ProviderRequest::Forward {
                connection: number,
                form,
                inner_id,
                request_id,
                call,
                rounds: 0,
            };
            self.pending.insert_provider_request(cx.now, (seat, id), request, deadline, resend);
        }
        deliver(seat, Side::Editor, request_or_notification(id, encoded), cx);
    }

    /// Sends a message of a connection to a stateless server.
    pub(super) fn send_to_stateless_server(
        &mut self,
        number: ConnectionNumber,
        message: ConsumerMessage,
        rounds: u8,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let Some(server) = self.registry.get(&connection.server) else { return };
        let ConnectionState::Stateless(client) = &mut connection.state else { return };
        let seat = connection.seat;
        let ConsumerMessage { id: Some(id), inner_id, call, deadline, .. } = message else {
            if message.call.is(INITIALIZED) {
                connection.record_initialized();
            }
            // A stateless server gets no notifications, except that a request is cancelled.
            if let Some(id) = self.find_cancelled_request(number, &message.call) {
                deliver(seat, Side::Editor, cancel_notification(&id), cx);
            }
            return;
        };
        if call.is(INITIALIZE) {
            *client = ClientInfo::of(&call);
            connection.record_initialize(&call);
            match server.discovered.clone() {
                Some(found) => {
                    let result = stateless::initialize_result(
                        Some(&found),
                        &connection.client(),
                        &server.name,
                    );
                    let mcp_answer = Answer::FromServer(Outcome::Result(result));
                    let outcome =
                        encode_answer_for(connection, server, inner_id.as_ref(), mcp_answer);
                    answer(seat, id, outcome, cx);
                }
                None => self.discover(number, AfterDiscover::AnswerInitialize { id, inner_id }, cx),
            }
            return;
        }
        if call.is(PING) || call.is(INITIALIZED) {
            let mcp_answer = Answer::FromServer(Outcome::Result(Json::EMPTY_OBJECT));
            let outcome = encode_answer_for(connection, server, inner_id.as_ref(), mcp_answer);
            return answer(seat, id, outcome, cx);
        }
        let stateless_request = stateless::to_stateless_request(&call, client);
        let request_id = format!("r-{}", self.ids.next_number());
        let token = stateless::progress_token(&call);
        let operation = Operation { connection: number, token, request_id: String::new() };
        self.operations.insert(seat, request_id.clone(), operation);
        let address = Address {
            server: server.address(Form::M7),
            connection_id: "",
            request_id: &request_id,
        };
        let encoded =
            Form::M7.encode_message(Direction::ToServer, address, Some(&id), &stateless_request);
        let resend = Resend::message(Form::M7, server.address(Form::M7), "", &stateless_request);
        let call = self.keep_request(seat, &call);
        let request = ProviderRequest::Forward {
            connection: number,
            form: Form::M7,
            inner_id,
            request_id,
            call,
            rounds,
        };
        self.pending.insert_provider_request(cx.now, (seat, &id), request, deadline, resend);
        deliver(seat, Side::Editor, Message::Request { id, call: encoded }, cx);
    }

    /// Refuses a message because too many bytes are queued for its server.
    fn refuse_queued(
        &self,
        number: ConnectionNumber,
        message: ConsumerMessage,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get(number) else { return };
        let Some(server) = self.registry.get(&connection.server) else { return };
        let why = format!(
            "{} MiB are queued for the MCP server '{}' of {}, which does not answer",
            MAX_QUEUED_BYTES >> 20,
            server.name,
            self.chain.describe(connection.seat)
        );
        match message.id {
            Some(id) => {
                let error = error_object(code::INTERNAL_ERROR, &why, None);
                let mcp_answer = Answer::FromServer(Outcome::Error(error));
                answer(
                    connection.seat,
                    id,
                    encode_answer_for(connection, server, message.inner_id.as_ref(), mcp_answer),
                    cx,
                );
            }
            None => {
                let text = format!("{} dropped: {why}", message.call.method.name());
                cx.out.push(Action::Report(Diagnostic {
                    level: Level::Warn,
                    seat: connection.seat,
                    text,
                }));
            }
        }
    }

    /// Copies a request, to repeat it if its server requests input. Returns an empty call if the
    /// request is too large to keep.
    fn keep_request(&self, seat: Seat, call: &Call) -> Call {
        const SMALL: usize = 64 * 1024;
        let size = memory_size(call);
        let kept = |((key_seat, _), request): (&Key, &ProviderRequest)| match request {
            ProviderRequest::Forward { call, .. } if *key_seat == seat => Some(memory_size(call)),
            _ => None,
        };
        let fits = size <= SMALL
            || size + self.pending.iter().filter_map(kept).sum::<usize>() <= MAX_KEPT_BYTES;
        match fits {
            true => call.detached(),
            false => Call::new("", None),
        }
    }

    /// Sends a stateless request on a connection.
    pub(super) fn send_stateless_on_connection(
        &mut self,
        number: ConnectionNumber,
        form: Form,
        connection_id: &str,
        message: ConsumerMessage,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get(number) else { return };
        let Some(server) = self.registry.get(&connection.server) else { return };
        let ConsumerMessage { id: Some(id), inner_id, request_id, call, deadline, .. } = message
        else {
            return;
        };
        let seat = connection.seat;
        if call.is(DISCOVER) {
            let found = connection
                .initialize_result
                .as_ref()
                .map(stateless::discover_result)
                .unwrap_or(Json::EMPTY_OBJECT);
            let mcp_answer = Answer::FromServer(Outcome::Result(found));
            let outcome = encode_answer_for(connection, server, inner_id.as_ref(), mcp_answer);
            return answer(seat, id, outcome, cx);
        }
        let connection_request = stateless::to_connection_request(&call);
        let token = stateless::progress_token(&call);
        let operation = Operation { connection: number, token, request_id: request_id.clone() };
        let key = id.to_string();
        self.operations.insert(seat, key.clone(), operation);
        let address = Address { server: server.address(form), connection_id, request_id: "" };
        let encoded =
            form.encode_message(Direction::ToServer, address, Some(&id), &connection_request);
        let resend =
            Resend::message(form, server.address(form), connection_id, &connection_request);
        let call = match server.must_keep_request(form) {
            true => call.detached(),
            false => Call::new("", None),
        };
        let request = ProviderRequest::Forward {
            connection: number,
            form,
            inner_id,
            request_id: key,
            call,
            rounds: 0,
        };
        self.pending.insert_provider_request(cx.now, (seat, &id), request, deadline, resend);
        deliver(seat, Side::Editor, Message::Request { id, call: encoded }, cx);
    }

    /// The request that a consumer cancels with `notifications/cancelled`, by the id that its
    /// provider knows. The request is found only in forms whose inner messages have ids.
    fn find_cancelled_request(&self, number: ConnectionNumber, call: &Call) -> Option<Id> {
        if !call.is(CANCELLED) {
            return None;
        }
        let cancelled_id = Id::new(call.params.as_ref()?.member("requestId")?)?;
        self.pending.iter().find_map(|((_, name), request)| match request {
            ProviderRequest::Forward { connection, inner_id: Some(inner_id), .. }
                if *connection == number && *inner_id == cancelled_id =>
            {
                Some(name.clone())
            }
            _ => None,
        })
    }
}
