//! The table of requests that are not answered yet, and the retries of those that are safe to
//! repeat.

use std::collections::BTreeMap;

use acp_wire::{Call, Id, Outcome};
use router::{Seat, Time};

use super::is_idempotent;
use super::pending_request::{PendingRequest, ProviderRequest};
use crate::deadlines::Deadlines;
use crate::form::{Address, Direction, Form};
use crate::stateless::INITIALIZE;

/// The delays before each retry, in milliseconds.
const RETRY_DELAYS: [u64; 4] = [1_000, 2_000, 4_000, 8_000];

/// The delays before each retry of a connect. There are fewer, because each retry opens a connection. The first
/// connection that opens is used, and the others are closed.
const CONNECT_RETRY_DELAYS: [u64; 2] = [5_000, 10_000];

/// The delays before each retry of `initialize`. Each retry needs a new connection.
const INITIALIZE_RETRY_DELAYS: [u64; 2] = [5_000, 5_000];

/// The largest params, in bytes, of a request that is kept for a retry.
const MAX_RETRY_BYTES: usize = 64 * 1024;

/// Identifies a request: the component that answers it, and its id.
pub(super) type Key = (Seat, Id);

/// The requests that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    open: BTreeMap<Key, PendingRequest>,
    /// When requests time out. Some requests have no timeout.
    timeouts: Deadlines<Key>,
    /// Requests with retries, by the key of the first attempt.
    retries: BTreeMap<Key, Retry>,
    /// When the next retry of each request is due.
    retry_deadlines: Deadlines<Key>,
    /// The id of the first attempt, by the key of each retry.
    attempts: BTreeMap<Key, Id>,
}

/// The retries of a request.
#[derive(Debug)]
pub(super) struct Retry {
    /// How to send the request again.
    pub resend: Resend,
    /// The delays before the next retries.
    delays: &'static [u64],
    /// The retries so far: the id of each, and its `requestId` or connection id.
    pub attempts: Vec<(Id, String)>,
    /// The error that a retry of `initialize` got. A server may refuse a second one and still
    /// answer the first.
    pub refused: Option<Outcome>,
}

/// How to send a request again.
#[derive(Debug)]
pub(super) enum Resend {
    /// An MCP request on an open connection.
    Message { form: Form, server: String, connection_id: String, call: Call },
    /// A connect.
    Connect { form: Form, server: String },
    /// `initialize`, on a new connection.
    Initialize { form: Form, server: String, call: Call },
}

impl Resend {
    /// How to send an MCP request again. `None` if that is not safe, or the request is too large.
    pub(super) fn message(
        form: Form,
        server: &str,
        connection_id: &str,
        call: &Call,
    ) -> Option<Resend> {
        let small = |call: &Call| {
            call.params.as_ref().is_none_or(|it| it.as_str().len() <= MAX_RETRY_BYTES)
        };
        if !small(call) {
            return None;
        }
        let server = server.to_owned();
        if call.is(INITIALIZE) {
            let call = call.detached();
            return form.has_connections().then_some(Resend::Initialize { form, server, call });
        }
        is_idempotent(call).then(|| Resend::Message {
            form,
            server,
            connection_id: connection_id.to_owned(),
            call: call.detached(),
        })
    }

    /// Builds a retry. Returns the request, and its new `requestId` or connection id. For
    /// `initialize` the request is a connect.
    pub(super) fn build(&self, number: u64, id: &Id) -> (Call, String) {
        let tag = format!("mcp-over-acp:{number}");
        let call = match self {
            Resend::Message { form, server, connection_id, call } => {
                let address = Address { server, connection_id, request_id: &tag };
                form.encode_message(Direction::ToServer, address, Some(id), call)
            }
            Resend::Connect { form, server } | Resend::Initialize { form, server, .. } => {
                form.encode_connect(server, &tag)
            }
        };
        (call, tag)
    }
}

impl PendingRequests {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Adds a request.
    pub(super) fn insert(&mut self, seat: Seat, id: &Id, pending_request: PendingRequest) {
        self.open.insert((seat, id.detached()), pending_request);
    }

    /// Adds a request to a provider, with its timeout, and with retries if `resend` is given.
    pub(super) fn insert_provider_request(
        &mut self,
        now: Time,
        (seat, id): (Seat, &Id),
        request: ProviderRequest,
        limit: Option<Time>,
        resend: Option<Resend>,
    ) {
        let key = (seat, id.detached());
        if let Some(limit) = limit {
            self.timeouts.insert(key.clone(), limit);
        }
        if let Some(resend) = resend {
            let delays: &[u64] = match resend {
                Resend::Connect { .. } => &CONNECT_RETRY_DELAYS,
                Resend::Initialize { .. } => &INITIALIZE_RETRY_DELAYS,
                Resend::Message { .. } => &RETRY_DELAYS,
            };
            let retry = Retry { resend, delays, attempts: Vec::new(), refused: None };
            self.retries.insert(key.clone(), retry);
            self.schedule_retry(now, &key);
        }
        self.open.insert(key, PendingRequest::Provider(request));
    }

    /// Adds a request to a provider without retries.
    pub(super) fn insert_without_retry(
        &mut self,
        key: Key,
        request: ProviderRequest,
        limit: Option<Time>,
    ) {
        if let Some(limit) = limit {
            self.timeouts.insert(key.clone(), limit);
        }
        self.open.insert(key, PendingRequest::Provider(request));
    }

    /// The request to a provider with this key.
    pub(super) fn get(&self, key: &Key) -> Option<&ProviderRequest> {
        match self.open.get(key)? {
            PendingRequest::Provider(request) => Some(request),
            _ => None,
        }
    }

    /// All requests to providers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &ProviderRequest)> {
        self.open.iter().filter_map(|(key, pending_request)| match pending_request {
            PendingRequest::Provider(request) => Some((key, request)),
            _ => None,
        })
    }

    /// Removes and returns a request that is answered or not needed any more.
    pub(super) fn take(&mut self, key: &Key) -> Option<PendingRequest> {
        self.open.remove(key)
    }

    /// Removes and returns a request to a provider.
    pub(super) fn take_provider_request(&mut self, key: &Key) -> Option<ProviderRequest> {
        match self.open.remove(key)? {
            PendingRequest::Provider(request) => Some(request),
            _ => None,
        }
    }

    /// Removes and returns the matching requests to providers. Their timeouts and retries stay.
    pub(super) fn take_all(
        &mut self,
        is_match: impl Fn(&ProviderRequest) -> bool,
    ) -> Vec<(Key, ProviderRequest)> {
        let is_match = |pending_request: &PendingRequest| matches!(pending_request, PendingRequest::Provider(it) if is_match(it));
        let taken = self.open.extract_if(.., |_, pending_request| is_match(pending_request));
        let taken = taken.filter_map(|(key, pending_request)| match pending_request {
            PendingRequest::Provider(request) => Some((key, request)),
            _ => None,
        });
        taken.collect()
    }

    /// Removes the timeout of a request.
    pub(super) fn clear_timeout(&mut self, key: &Key) {
        self.timeouts.remove(key);
    }

    /// Removes the requests to a component that is down or has left. Returns the
    /// provider requests among them.
    pub(super) fn forget(&mut self, seat: Seat) -> Vec<ProviderRequest> {
        self.timeouts.retain(|(key_seat, _)| *key_seat != seat);
        self.retry_deadlines.retain(|(key_seat, _)| *key_seat != seat);
        self.retries.retain(|(key_seat, _), _| *key_seat != seat);
        self.attempts.retain(|(key_seat, _), _| *key_seat != seat);
        let gone = self.open.extract_if(.., |(key_seat, _), _| *key_seat == seat);
        let gone = gone.filter_map(|(_, pending_request)| match pending_request {
            PendingRequest::Provider(request) => Some(request),
            _ => None,
        });
        gone.collect()
    }

    /// When the next timeout or retry is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        [self.timeouts.first(), self.retry_deadlines.first()].into_iter().flatten().min()
    }

    /// Removes and returns the timeouts that are due. The request may be answered already.
    pub(super) fn take_timed_out(&mut self, now: Time) -> Vec<Key> {
        self.timeouts.take_due(now)
    }

    /// Removes and returns the retries that are due.
    pub(super) fn take_due_retries(&mut self, now: Time) -> Vec<Key> {
        self.retry_deadlines.take_due(now)
    }

    /// Whether this is the first attempt or a retry of a request that is retried.
    pub(super) fn is_retried(&self, key: &Key) -> bool {
        self.retries.contains_key(key) || self.attempts.contains_key(key)
    }

    /// The id of the first attempt of a retry.
    pub(super) fn first_attempt_of(&self, key: &Key) -> Option<&Id> {
        self.attempts.get(key)
    }

    /// The retries of a request, by its first attempt.
    pub(super) fn retry_mut(&mut self, first: &Key) -> Option<&mut Retry> {
        self.retries.get_mut(first)
    }

    /// The first attempts of the retries that a provider knows by this `requestId`.
    pub(super) fn first_attempts_with_tag(&self, seat: Seat, request_id: &str) -> Vec<&Id> {
        let has_tag = |retry: &Retry| retry.attempts.iter().any(|(_, tag)| tag == request_id);
        let of_seat = self.retries.iter().filter(|((key_seat, _), _)| *key_seat == seat);
        of_seat.filter(|(_, retry)| has_tag(retry)).map(|((_, first), _)| first).collect()
    }

    /// Moves the retries on one connection of a seat to another connection.
    pub(super) fn move_retries(&mut self, seat: Seat, before: &str, after: &str) {
        let of_seat = self.retries.iter_mut().filter(|((key_seat, _), _)| *key_seat == seat);
        for (_, retry) in of_seat {
            if let Resend::Message { connection_id, .. } = &mut retry.resend
                && connection_id == before
            {
                *connection_id = after.to_owned();
            }
        }
    }

    /// Records a retry. `tag` is its `requestId` or connection id.
    pub(super) fn add_attempt(&mut self, first: &Key, id: &Id, tag: String) {
        let Some(retry) = self.retries.get_mut(first) else { return };
        retry.attempts.push((id.detached(), tag));
        self.attempts.insert((first.0, id.detached()), first.1.clone());
    }

    /// Schedules the next retry of a request, if there is one.
    pub(super) fn schedule_retry(&mut self, now: Time, first: &Key) {
        let Some(retry) = self.retries.get_mut(first) else { return };
        if let Some((delay, rest)) = retry.delays.split_first() {
            retry.delays = rest;
            self.retry_deadlines.insert(first.clone(), now.plus(*delay));
        }
    }

    /// Removes and returns the retries of a request.
    pub(super) fn stop_retrying(&mut self, first: &Key) -> Option<Retry> {
        let retry = self.retries.remove(first)?;
        self.retry_deadlines.remove(first);
        for (attempt, _) in &retry.attempts {
            self.attempts.remove(&(first.0, attempt.clone()));
        }
        Some(retry)
    }
}
