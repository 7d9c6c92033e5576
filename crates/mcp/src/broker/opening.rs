//! Opens connections: finds a form that the provider understands, and sends the handshake.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::Seat;

use super::connection::*;
use super::connections::ConnectionNumber;
use super::pending_request::{AfterDiscover, ProviderRequest, is_unsupported};
use super::pending_requests::Resend;
use super::server::Server;
use super::{ANSWER_TIMEOUT, Broker, Context};
use crate::form::{self, Address, Answer, Direction, Form};
use crate::stateless::{self, INITIALIZED};

impl Broker {
    /// Adds a connection that is not open yet.
    pub(super) fn add_connection(
        &mut self,
        server: &str,
        seat: Seat,
        consumer: Consumer,
    ) -> ConnectionNumber {
        let known_to = match &consumer {
            Consumer::Connection { id, .. } if id.is_empty() => seat,
            // The consumer knows the id from the beginning.
            _ => self.agent_seat,
        };
        let number = ConnectionNumber(self.ids.next_number());
        let connection = Connection {
            server: server.to_owned(),
            seat,
            consumer,
            state: ConnectionState::Opening(Vec::new()),
            initialize_result: None,
            handshake: None,
            known_to,
            queued_bytes: 0,
            initialize_unanswered: false,
            is_closing: false,
        };
        self.connections.add(number, connection);
        number
    }

    /// Opens a connection to a provider in this form. `connect_id` is the id of the consumer's own
    /// connect, and `original` is that connect as it arrived.
    pub(super) fn open_connection(
        &mut self,
        number: ConnectionNumber,
        form: Form,
        connect_id: Option<Id>,
        original: Option<Call>,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get(number) else { return };
        let Some(server) = self.registry.get(&connection.server) else { return };
        if form == Form::M7 {
            if server.form_known {
                return self.on_stateless_provider(number, connect_id, cx);
            }
            let after = AfterDiscover::AnswerConnect { connect_id };
            return self.discover(number, after, cx);
        }
        if !form.has_connections() {
            let seat = connection.seat;
            return self.on_connection_open(
                seat,
                number,
                form,
                String::new(),
                connect_id,
                None,
                cx,
            );
        }
        // The consumer may know only one key of `_mcp/connect`, and the provider another.
        let encoded_id = form::raw_server_id(&form.encode_connect(server.address(form), ""));
        let original_id = original.as_ref().and_then(form::raw_server_id);
        let unchanged =
            |consumer| form == consumer && form != Form::M3 && original_id == encoded_id;
        let is_free = |id: &str| {
            !id.is_empty() && self.connections.by_provider_id(connection.seat, id).is_none()
        };
        let (unchanged, proposed_id) = match &connection.consumer {
            Consumer::Connection { form, id } if unchanged(*form) => (true, id.clone()),
            // A provider whose consumers choose the id gets the id that this consumer has chosen.
            Consumer::Connection { form: Form::M3t, id } if is_free(id) => (false, id.clone()),
            _ => (false, format!("mcp-over-acp:{number}")),
        };
        let call = match original.filter(|_| unchanged) {
            Some(call) => call,
            None => form.encode_connect(server.address(form), &proposed_id),
        };
        let seat = connection.seat;
        let resend = Resend::Connect { form, server: server.address(form).to_owned() };
        let request = ProviderRequest::Connect {
            connection: number,
            form,
            connect_id,
            unchanged,
            proposed_id,
        };
        self.send_request(seat, request, call, Some(resend), cx);
    }

    /// Sends a request of the broker itself to a provider.
    pub(super) fn send_request(
        &mut self,
        seat: Seat,
        request: ProviderRequest,
        call: Call,
        resend: Option<Resend>,
        cx: &mut Context<'_>,
    ) {
        let id = Id::string(&format!("m:{}", self.ids.next_number()));
        self.pending.insert_provider_request(
            cx.now,
            (seat, &id),
            request,
            Some(cx.now.plus(ANSWER_TIMEOUT)),
            resend,
        );
        deliver(seat, Side::Editor, Message::Request { id, call }, cx);
    }

    /// Sends `server/discover`, to find out whether a server is stateless and what it offers.
    pub(super) fn discover(
        &mut self,
        number: ConnectionNumber,
        after: AfterDiscover,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get(number) else { return };
        let Some(server) = self.registry.get(&connection.server) else { return };
        let request_id = format!("mcp-over-acp:{number}");
        let address = Address {
            server: server.address(Form::M7),
            connection_id: "",
            request_id: &request_id,
        };
        let connects = matches!(after, AfterDiscover::AnswerConnect { .. });
        let discover = stateless::discover_request(connects);
        let call =
            Form::M7.encode_message(Direction::ToServer, address, Some(&Id::NULL), &discover);
        let resend = Resend::message(Form::M7, server.address(Form::M7), "", &discover);
        let request = ProviderRequest::Discover { connection: number, after };
        self.send_request(connection.seat, request, call, resend, cx);
    }

    /// The connection to the provider is open.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_connection_open(
        &mut self,
        seat: Seat,
        number: ConnectionNumber,
        form: Form,
        connection_id: String,
        connect_id: Option<Id>,
        result: Option<Json>,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(number) else {
            // The connection is not needed any more.
            return self.disconnect_provider(seat, form, &connection_id, cx);
        };
        if let Some(server) = self.registry.get_mut(&connection.server) {
            server.set_form(form);
        }
        let opened = ConnectionState::Open { form, connection_id: connection_id.clone() };
        let ConnectionState::Opening(queued) = std::mem::replace(&mut connection.state, opened)
        else {
            return;
        };
        // A restarted provider does not know the handshake of the consumer.
        let must_initialize =
            matches!(connection.consumer, Consumer::Stateless) || connection.handshake.is_some();
        if !connection_id.is_empty() {
            self.connections.connect(seat, connection_id.clone(), number);
        }
        if must_initialize {
            return self.initialize(number, form, connection_id, queued, cx);
        }
        self.answer_connect(number, &connection_id, connect_id, result, cx);
        for message in queued {
            self.send(number, message, cx);
        }
    }

    /// Sends `initialize` to a server, in place of a consumer that does not send it, or does not
    /// send it again.
    pub(super) fn initialize(
        &mut self,
        number: ConnectionNumber,
        form: Form,
        connection_id: String,
        queued: Vec<ConsumerMessage>,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let Some(server) = self.registry.get(&connection.server) else { return };
        let initialize = match &connection.handshake {
            Some(handshake) => handshake.initialize.clone(),
            None => stateless::initialize_request(queued.first().map(|message| &message.call)),
        };
        let address =
            Address { server: server.address(form), connection_id: &connection_id, request_id: "" };
        let call = form.encode_message(
            Direction::ToServer,
            address,
            Some(&Id::string("hello")),
            &initialize,
        );
        let resend = Resend::message(form, server.address(form), &connection_id, &initialize);
        connection.state = ConnectionState::Initializing { form, connection_id, queued };
        let seat = connection.seat;
        self.send_request(
            seat,
            ProviderRequest::Initialize { connection: number, form },
            call,
            resend,
            cx,
        );
    }

    /// The provider is stateless. The consumer may still have a connection.
    pub(super) fn on_stateless_provider(
        &mut self,
        number: ConnectionNumber,
        connect_id: Option<Id>,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let stateless = ConnectionState::Stateless(connection.client());
        let ConnectionState::Opening(queued) = std::mem::replace(&mut connection.state, stateless)
        else {
            return;
        };
        self.answer_connect(number, "", connect_id, None, cx);
        for message in queued {
            self.send(number, message, cx);
        }
    }

    /// Answers a consumer's connect with the id of the connection: the provider's id, if no other
    /// connection has it. A connection that is opened again already has an id.
    pub(super) fn answer_connect(
        &mut self,
        number: ConnectionNumber,
        connection_id: &str,
        connect_id: Option<Id>,
        result: Option<Json>,
        cx: &mut Context<'_>,
    ) {
        if self.connections.has_consumer_id(number) {
            return;
        }
        let Some(connection) = self.connections.get(number) else { return };
        let (seat, is_unannounced) = (connection.seat, connection.known_to != self.agent_seat);
        let Consumer::Connection { form, id: known_as } = &connection.consumer else { return };
        let wanted = match (known_as.is_empty(), connection_id.is_empty()) {
            (false, _) => known_as.clone(),
            // A restarted provider may use ids of the previous one again, and messages with those
            // may still be on their way.
            (true, false) if !self.registry.was_restarted(seat) => connection_id.to_owned(),
            (true, _) => format!("mcp-over-acp:{number}"),
        };
        let form = *form;
        if is_unannounced {
            self.connections.mark_unannounced(number);
        }
        let free = self.connections.assign_id(number, &wanted);
        let result = result
            .filter(|_| free == connection_id)
            .unwrap_or_else(|| form.encode_connect_result(&free));
        if let Some(Consumer::Connection { id, .. }) =
            self.connections.get_mut(number).map(|connection| &mut connection.consumer)
        {
            *id = free;
        }
        if let Some(id) = connect_id {
            answer(seat, id, Outcome::Result(result), cx);
        }
    }

    /// A connection could not be opened.
    pub(super) fn on_open_failed(
        &mut self,
        number: ConnectionNumber,
        connect_id: Option<Id>,
        error: &Json,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get(number) else { return };
        let stateless = matches!(connection.consumer, Consumer::Stateless);
        let error = if stateless { backend_failed_error(error) } else { error.clone() };
        if let Some(id) = connect_id {
            answer(connection.seat, id, Outcome::Error(error.clone()), cx);
        }
        if let Some(connection) = self.close_for_consumer(number, &error, cx) {
            if let ConnectionState::Initializing { form, connection_id, .. } = &connection.state {
                self.disconnect_provider(connection.seat, *form, connection_id, cx);
            }
            self.remove_if_unused(&connection.server, cx);
        }
    }

    /// A connect was refused. The provider may use another form.
    pub(super) fn on_connect_refused(
        &mut self,
        number: ConnectionNumber,
        form: Form,
        connect_id: Option<Id>,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) {
        let server = self.connections.get(number).map(|connection| connection.server.clone());
        let server = server.and_then(|key| self.registry.get_mut(&key));
        // M1 has no connect, so a provider cannot refuse it before the first message. So the broker
        // uses M1 only for a provider that does not know the method of a connect.
        let unknown = outcome.error_code() == Some(code::METHOD_NOT_FOUND);
        let another = |server: &&mut Server| {
            is_unsupported(&outcome) && (unknown || !server.may_use(Form::M1))
        };
        let next = server.filter(another).and_then(|it| it.exclude_form(form));
        match (next, outcome) {
            (Some(form), _) => self.open_connection(number, form, connect_id, None, cx),
            (None, Outcome::Error(error)) => self.on_open_failed(number, connect_id, &error, cx),
            (None, Outcome::Result(_)) => {
                let why = "the provider of the MCP server did not return a connection id";
                let error = error_object(code::INTERNAL_ERROR, why, None);
                self.on_open_failed(number, connect_id, &error, cx);
            }
        }
    }

    /// Handles the answer to `server/discover`.
    pub(super) fn on_discovered(
        &mut self,
        number: ConnectionNumber,
        after: AfterDiscover,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let Some(server) = self.registry.get_mut(&connection.server) else { return };
        if let AfterDiscover::AnswerConnect { connect_id } = &after
            && is_unsupported(&outcome)
            && let Some(form) = server.exclude_form(Form::M7)
        {
            let connect_id = connect_id.clone();
            return self.open_connection(number, form, connect_id, None, cx);
        }
        server.set_form(Form::M7);
        if let Answer::FromServer(Outcome::Result(found)) = Form::M7.decode_answer(outcome) {
            server.discovered = Some(found.detached());
        }
        match after {
            AfterDiscover::AnswerConnect { connect_id } => {
                self.on_stateless_provider(number, connect_id, cx)
            }
            AfterDiscover::AnswerInitialize { id, inner_id } => {
                let ConnectionState::Stateless(client) = &connection.state else { return };
                let found = server.discovered.as_ref();
                let result = stateless::initialize_result(found, client, &server.name);
                let mcp_answer = Answer::FromServer(Outcome::Result(result));
                let outcome = encode_answer_for(connection, server, inner_id.as_ref(), mcp_answer);
                answer(connection.seat, id, outcome, cx);
            }
        }
    }

    /// Handles the answer of a server to the broker's own `initialize`.
    pub(super) fn on_initialize_answer(
        &mut self,
        number: ConnectionNumber,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let Some(server) = self.registry.get(&connection.server) else { return };
        let ConnectionState::Initializing { form, connection_id, queued } = &mut connection.state
        else {
            return;
        };
        let form = *form;
        let result = match form.decode_answer(outcome) {
            Answer::FromServer(Outcome::Result(result)) => result.detached(),
            Answer::FromServer(Outcome::Error(error)) | Answer::NotDelivered(error) => {
                return self.on_open_failed(number, None, &error, cx);
            }
        };
        let (connection_id, queued) = (std::mem::take(connection_id), std::mem::take(queued));
        // A consumer that has not sent `notifications/initialized` yet sends it itself.
        if connection.handshake.as_ref().is_none_or(|handshake| handshake.is_initialized) {
            let address = Address {
                server: server.address(form),
                connection_id: &connection_id,
                request_id: "",
            };
            let initialized = form.encode_message(
                Direction::ToServer,
                address,
                None,
                &Call::new(INITIALIZED, None),
            );
            deliver(connection.seat, Side::Editor, Message::Notification(initialized), cx);
        }
        connection.initialize_result = Some(result);
        connection.state = ConnectionState::Open { form, connection_id };
        for message in queued {
            self.send(number, message, cx);
        }
    }
}
