//! Retries and timeouts of requests to a provider.
//!
//! Some old SDKs (sacp 10) lose the answer to a request that arrives right after
//! `notifications/initialized`. So a request that is safe to repeat is sent again if its provider
//! does not answer, and the first answer counts. If there is no answer at all, the consumer gets an
//! error that names the provider. All other requests, such as `tools/call`, are sent once and have
//! no timeout.
//!
//! `initialize` is sent once on each connection, because MCP servers (rmcp) exit when they get a
//! second one. It is sent again on a new connection; see
//! [`initialize_retry`](super::initialize_retry).

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::{Diagnostic, Level, Seat, Time};

use super::connection::*;
use super::connections::ConnectionNumber;
use super::pending_request::{AfterDiscover, ProviderRequest};
use super::pending_requests::{Resend, Retry};
use super::{Action, Broker, Context};
use crate::form::{Answer, Target};
use crate::stateless::{DISCOVER, INITIALIZE, PING};

/// How long a provider may take to answer, in milliseconds. The MCP clients of most agents wait 30
/// s. The broker answers earlier, so that users see an error that names the provider.
pub(crate) const ANSWER_TIMEOUT: u64 = 25_000;

/// How long the broker waits for late answers, in milliseconds: to a connect whose connection it
/// then closes, and to an `initialize` that has timed out.
pub(super) const LATE_ANSWER_TIMEOUT: u64 = 600_000;

/// Whether a request has the same effect if it is sent twice on one connection.
pub(crate) fn is_idempotent(call: &Call) -> bool {
    let method = call.method.name();
    method == PING || method == DISCOVER || method.ends_with("/list")
}

/// Whether a request has to be answered within [`ANSWER_TIMEOUT`].
pub(crate) fn has_timeout(call: &Call) -> bool {
    is_idempotent(call) || call.is(INITIALIZE)
}

/// The error for a client whose server has not answered.
pub(crate) fn timeout_error(provider: &str, method: &str, server: &str) -> Json {
    let why = format!(
        "{provider} did not answer {method} for its MCP server '{server}' within {} s; continue without \
         this server, or restart the chain",
        ANSWER_TIMEOUT / 1000
    );
    error_object(code::INTERNAL_ERROR, &why, None)
}

impl Broker {
    /// Whether this is the first attempt or a retry of a request that is retried. For tests.
    pub fn is_retried(&self, seat: Seat, id: &Id) -> bool {
        self.pending.is_retried(&(seat, id.clone()))
    }

    /// Finds the request that an answer completes: the request with this id, or the first attempt
    /// of a retry. Returns its id, or `None` if the answer is ignored.
    pub(super) fn find_first_attempt(
        &mut self,
        seat: Seat,
        id: Id,
        outcome: &Outcome,
        cx: &mut Context<'_>,
    ) -> Option<Id> {
        let key = (seat, id.clone());
        let attempt = self.pending.first_attempt_of(&key).cloned();
        let first = (seat, attempt.clone().unwrap_or_else(|| key.1.clone()));
        let Some(retry) = self.pending.retry_mut(&first) else { return Some(id) };
        let failed = matches!(outcome, Outcome::Error(_));
        if attempt.is_some() && matches!(retry.resend, Resend::Initialize { .. }) && failed {
            retry.refused = Some(outcome.clone());
            return None;
        }
        let retry = self.pending.stop_retrying(&first)?;
        match retry.resend {
            Resend::Connect { .. } => {
                if let Some(request) = self.pending.take_provider_request(&first) {
                    self.expect_late_connects(
                        cx.now,
                        &first,
                        retry.attempts,
                        request,
                        Some(&key.1),
                    );
                }
                Some(id)
            }
            Resend::Initialize { .. } => {
                self.use_answered_connection(&first, retry, &key.1, cx);
                Some(first.1.clone())
            }
            Resend::Message { .. } => Some(first.1.clone()),
        }
    }

    /// Expects late answers to the other attempts of a connect, after one was answered or all have
    /// timed out. Their connections are closed.
    pub(super) fn expect_late_connects(
        &mut self,
        now: Time,
        first: &(Seat, Id),
        attempts: Vec<(Id, String)>,
        request: ProviderRequest,
        answered: Option<&Id>,
    ) {
        let ProviderRequest::Connect { connection, form, connect_id, unchanged, proposed_id } =
            request
        else {
            return;
        };
        let tries = attempts.into_iter().chain([(first.1.clone(), proposed_id)]);
        for (id, proposed_id) in tries {
            let key = (first.0, id);
            if answered == Some(&key.1) {
                let (connect_id, unchanged) = (connect_id.clone(), unchanged && key == *first);
                let request = ProviderRequest::Connect {
                    connection,
                    form,
                    connect_id,
                    unchanged,
                    proposed_id,
                };
                self.pending.insert_without_retry(key, request, None);
            } else {
                self.pending.insert_without_retry(
                    key,
                    ProviderRequest::LateConnect { form, proposed_id },
                    Some(now.plus(LATE_ANSWER_TIMEOUT)),
                );
            }
        }
    }

    /// Replaces the `requestId` of a retry in a message of a provider by that of the first attempt.
    pub(super) fn with_first_request_id(
        &self,
        seat: Seat,
        target: Target,
        call: Call,
    ) -> (Target, Call) {
        let Target::Operation { server, request_id } = target else { return (target, call) };
        let firsts = self.pending.first_attempts_with_tag(seat, &request_id);
        let found = firsts.into_iter().find_map(|first| self.request_of(seat, first));
        let Some(request_id) = found else {
            return (Target::Operation { server, request_id }, call);
        };
        let params = call.params.map(|it| it.with_member("requestId", &Json::string(&request_id)));
        (Target::Operation { server, request_id }, Call { params, ..call })
    }

    /// The `requestId` of a pending request.
    fn request_of(&self, seat: Seat, id: &Id) -> Option<String> {
        match self.pending.get(&(seat, id.clone()))? {
            ProviderRequest::Forward { request_id, .. }
            | ProviderRequest::StatelessProbe { request_id, .. }
            | ProviderRequest::PassThrough { request_id, .. } => Some(request_id.clone()),
            _ => None,
        }
    }

    /// Handles timeouts and retries that are due.
    pub(super) fn tick_requests(&mut self, cx: &mut Context<'_>) {
        for key in self.pending.take_timed_out(cx.now) {
            self.time_out(key, cx);
        }
        self.time_out_queued(cx);
        for first in self.pending.take_due_retries(cx.now) {
            self.resend(first, cx);
        }
    }

    /// Sends a request again.
    fn resend(&mut self, first: (Seat, Id), cx: &mut Context<'_>) {
        let number = self.ids.next_number();
        let id = Id::string(&format!("m:{number}"));
        self.pending.schedule_retry(cx.now, &first);
        let Some(retry) = self.pending.retry_mut(&first) else { return };
        let (call, tag) = retry.resend.build(number, &id);
        let seat = first.0;
        if let Resend::Initialize { form, .. } = retry.resend {
            return self.open_extra_connection(first, (id, form, tag), call, cx);
        }
        self.pending.add_attempt(&first, &id, tag);
        let text = format!(
            "{} does not answer; sending {} again",
            self.chain.describe(seat),
            call.method.name()
        );
        cx.out.push(Action::Report(Diagnostic { level: Level::Debug, seat, text }));
        deliver(seat, Side::Editor, Message::Request { id, call }, cx);
    }

    /// Answers a request that has timed out.
    fn time_out(&mut self, key: (Seat, Id), cx: &mut Context<'_>) {
        self.pending.clear_timeout(&key);
        let retry = self.pending.stop_retrying(&key);
        if let Some(retry) = &retry {
            self.close_extra_connections(key.0, retry, cx);
        }
        let Some(request) = self.pending.take_provider_request(&key) else { return };
        let (seat, id) = (key.0, key.1.clone());
        let server = &self.server_name_of(&request);
        let method = match (&retry, &request) {
            (Some(Retry { resend: Resend::Message { call, .. }, .. }), _) => {
                call.method.name().into_owned()
            }
            (_, ProviderRequest::Initialize { .. }) => INITIALIZE.to_owned(),
            (_, ProviderRequest::Forward { call, .. }) if call.is(INITIALIZE) => {
                INITIALIZE.to_owned()
            }
            _ => "a request".to_owned(),
        };
        let error = timeout_error(&self.chain.describe(seat), &method, server);
        let refused = retry.as_ref().and_then(|retry| retry.refused.clone());
        let outcome = refused.unwrap_or_else(|| Outcome::Error(error.clone()));
        match request {
            ProviderRequest::LateInitialize { .. }
            | ProviderRequest::LateConnect { .. }
            | ProviderRequest::ExtraConnect { .. }
            | ProviderRequest::Disconnect => {}
            ProviderRequest::Connect { connection, ref connect_id, .. } => {
                let connect_id = connect_id.clone();
                let attempts = retry.map(|retry| retry.attempts).unwrap_or_default();
                self.expect_late_connects(cx.now, &key, attempts, request, None);
                let error =
                    timeout_error(&self.chain.describe(seat), "the request to connect", server);
                self.on_open_failed(connection, connect_id, &error, cx);
            }
            ProviderRequest::Discover {
                connection,
                after: AfterDiscover::AnswerConnect { connect_id },
            } => {
                self.on_open_failed(connection, connect_id, &error, cx);
            }
            ProviderRequest::Discover {
                connection,
                after: AfterDiscover::AnswerInitialize { id, inner_id },
            } => {
                let outcome = self.encode_failure(connection, inner_id.as_ref(), &error);
                answer(seat, id, outcome, cx);
            }
            ProviderRequest::Initialize { connection, .. } => {
                self.on_initialize_answer(connection, outcome, cx)
            }
            ProviderRequest::Forward { connection, form, inner_id, request_id, call, .. } => {
                self.operations.take(seat, request_id);
                if call.is(INITIALIZE) {
                    if let Some(connection) = self.connections.get_mut(connection) {
                        connection.initialize_unanswered = true;
                    }
                    let late = ProviderRequest::LateInitialize { connection, form, call };
                    self.pending.insert_provider_request(
                        cx.now,
                        (seat, &id),
                        late,
                        Some(cx.now.plus(LATE_ANSWER_TIMEOUT)),
                        None,
                    );
                }
                let Outcome::Error(error) = outcome else { return };
                let outcome = self.encode_failure(connection, inner_id.as_ref(), &error);
                answer(seat, id, outcome, cx);
            }
            ProviderRequest::StatelessProbe { .. } | ProviderRequest::PassThrough { .. } => {
                answer(seat, id, Outcome::Error(backend_failed_error(&error)), cx);
            }
        }
    }

    /// The name of the server that a request is for, or an empty name.
    fn server_name_of(&self, request: &ProviderRequest) -> String {
        let id = match request {
            ProviderRequest::StatelessProbe { server, .. }
            | ProviderRequest::PassThrough { server, .. } => Some(server),
            _ => {
                let connection = request.connection().and_then(|it| self.connections.get(it));
                connection.map(|connection| &connection.server)
            }
        };
        id.and_then(|id| self.registry.get(id)).map(|it| it.name.clone()).unwrap_or_default()
    }

    /// Answers queued requests that have timed out before they were sent to the provider.
    fn time_out_queued(&mut self, cx: &mut Context<'_>) {
        for (number, message) in self.connections.take_expired(cx.now) {
            let (Some(id), Some(connection)) = (message.id, self.connections.get(number)) else {
                continue;
            };
            let seat = connection.seat;
            let server = self.registry.get(&connection.server).map_or("", |server| &server.name);
            let provider = self.chain.describe(seat);
            let error = timeout_error(&provider, &message.call.method.name(), server);
            let outcome = self.encode_failure(number, message.inner_id.as_ref(), &error);
            answer(seat, id, outcome, cx);
        }
    }

    /// The answer to a consumer whose request has failed with this error.
    fn encode_failure(
        &self,
        connection: ConnectionNumber,
        inner_id: Option<&Id>,
        error: &Json,
    ) -> Outcome {
        let connection = self.connections.get(connection);
        let server = connection.and_then(|connection| self.registry.get(&connection.server));
        match (connection, server) {
            (Some(connection), Some(server))
                if !matches!(connection.consumer, Consumer::Stateless) =>
            {
                encode_answer_for(
                    connection,
                    server,
                    inner_id,
                    Answer::FromServer(Outcome::Error(error.clone())),
                )
            }
            _ => Outcome::Error(backend_failed_error(error)),
        }
    }
}
