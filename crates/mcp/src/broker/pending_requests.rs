//! Requests whose answers are waited for, by the component that gives them and by their ids; and the retries
//! of those that may be asked twice.

use std::collections::BTreeMap;

use acp_wire::{Call, Id, Outcome};
use router::{Seat, Time};

use super::is_idempotent;
use super::pending_request::{PendingRequest, ProviderRequest};
use crate::deadlines::Deadlines;
use crate::form::{Address, Direction, Form};
use crate::stateless::INITIALIZE;

/// The pauses before each retry, in milliseconds.
const RETRY_DELAYS: [u64; 4] = [1_000, 2_000, 4_000, 8_000];

/// The same for a connect. There are fewer, because each one opens a connection: the first that is
/// opened is used, and the others are closed.
const CONNECT_RETRY_DELAYS: [u64; 2] = [5_000, 10_000];

/// The same for `initialize`, which needs a new connection for each retry.
const INITIALIZE_RETRY_DELAYS: [u64; 2] = [5_000, 5_000];

/// A larger request is not kept for a retry.
const MAX_RETRY_BYTES: usize = 64 * 1024;

/// A request: the component that was asked, and the id.
pub type Key = (Seat, Id);

#[derive(Debug, Default)]
pub struct PendingRequests {
    open: BTreeMap<Key, PendingRequest>,
    /// Until when questions may be answered, if they have a limit.
    timeouts: Deadlines<Key>,
    /// Questions that are asked again, by the id of the first try.
    retries: BTreeMap<Key, Retry>,
    /// When the next retry of each is due.
    retry_deadlines: Deadlines<Key>,
    /// The first try of each retry.
    attempts: BTreeMap<Key, Id>,
}

/// A request that is asked again while its provider stays silent.
#[derive(Debug)]
pub struct Retry {
    pub resend: Resend,
    /// The pauses before the next retries.
    delays: &'static [u64],
    /// The retries so far: their ids, and the `requestId` or the connection id that each has.
    pub attempts: Vec<(Id, String)>,
    /// The error to a retry of `initialize`: a server may refuse a second one, and still answer the
    /// first.
    pub refused: Option<Outcome>,
}

/// How to send a request again.
#[derive(Debug)]
pub enum Resend {
    Message {
        form: Form,
        server: String,
        connection_id: String,
        call: Call,
    },
    Connect {
        form: Form,
        server: String,
    },
    /// `initialize`, on a new connection.
    Initialize {
        form: Form,
        server: String,
        call: Call,
    },
}

impl Resend {
    /// A request that may be sent to the provider again. `None` if it may not.
    pub fn message(form: Form, server: &str, connection_id: &str, call: &Call) -> Option<Resend> {
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

    /// The request once more, and the id of its operation or connection, which is a new one. For
    /// `initialize` it is the request to open another connection.
    pub fn build(&self, number: u64, id: &Id) -> (Call, String) {
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
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Waits for the answer to a request.
    pub fn insert(&mut self, seat: Seat, id: &Id, pending_request: PendingRequest) {
        self.open.insert((seat, id.detached()), pending_request);
    }

    /// Waits for the answer to a question: until `limit`, and with retries if it may be asked again.
    pub fn insert_provider_request(
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

    /// The same for a question that is not asked again.
    pub fn insert_without_retry(
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

    pub fn get(&self, key: &Key) -> Option<&ProviderRequest> {
        match self.open.get(key)? {
            PendingRequest::Provider(request) => Some(request),
            _ => None,
        }
    }

    /// All questions to providers.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &ProviderRequest)> {
        self.open.iter().filter_map(|(key, pending_request)| match pending_request {
            PendingRequest::Provider(request) => Some((key, request)),
            _ => None,
        })
    }

    /// A request is answered, or its answer is not waited for any more.
    pub fn take(&mut self, key: &Key) -> Option<PendingRequest> {
        self.open.remove(key)
    }

    /// The same for a question to a provider.
    pub fn take_provider_request(&mut self, key: &Key) -> Option<ProviderRequest> {
        match self.open.remove(key)? {
            PendingRequest::Provider(request) => Some(request),
            _ => None,
        }
    }

    /// Takes the questions that fit. Their limits and retries stay.
    pub fn take_all(
        &mut self,
        fits: impl Fn(&ProviderRequest) -> bool,
    ) -> Vec<(Key, ProviderRequest)> {
        let fits = |pending_request: &PendingRequest| matches!(pending_request, PendingRequest::Provider(it) if fits(it));
        let taken = self.open.extract_if(.., |_, pending_request| fits(pending_request));
        let taken = taken.filter_map(|(key, pending_request)| match pending_request {
            PendingRequest::Provider(request) => Some((key, request)),
            _ => None,
        });
        taken.collect()
    }

    /// A question has no limit any more.
    pub fn clear_timeout(&mut self, key: &Key) {
        self.timeouts.remove(key);
    }

    /// A component is gone, and answers nothing any more. Gives the questions that it has left open.
    pub fn forget(&mut self, seat: Seat) -> Vec<ProviderRequest> {
        self.timeouts.retain(|(whose, _)| *whose != seat);
        self.retry_deadlines.retain(|(whose, _)| *whose != seat);
        self.retries.retain(|(whose, _), _| *whose != seat);
        self.attempts.retain(|(whose, _), _| *whose != seat);
        let gone = self.open.extract_if(.., |(whose, _), _| *whose == seat);
        let gone = gone.filter_map(|(_, pending_request)| match pending_request {
            PendingRequest::Provider(request) => Some(request),
            _ => None,
        });
        gone.collect()
    }

    /// When something of this is due.
    pub fn deadline(&self) -> Option<Time> {
        [self.timeouts.first(), self.retry_deadlines.first()].into_iter().flatten().min()
    }

    /// Takes the questions whose time is over, without those that have been answered.
    pub fn take_timed_out(&mut self, now: Time) -> Vec<Key> {
        self.timeouts.take_due(now)
    }

    /// Takes the questions that are to be asked again now.
    pub fn take_due_retries(&mut self, now: Time) -> Vec<Key> {
        self.retry_deadlines.take_due(now)
    }

    /// Whether a request, or a retry of one, is sent again if it is not answered.
    pub fn is_retried(&self, key: &Key) -> bool {
        self.retries.contains_key(key) || self.attempts.contains_key(key)
    }

    /// The first try of a retry.
    pub fn first_attempt_of(&self, key: &Key) -> Option<&Id> {
        self.attempts.get(key)
    }

    pub fn retry_mut(&mut self, first: &Key) -> Option<&mut Retry> {
        self.retries.get_mut(first)
    }

    /// The first try of the retry that a provider knows by this `requestId`.
    pub fn first_attempts_with_tag(&self, seat: Seat, request_id: &str) -> Vec<&Id> {
        let has_tag = |retry: &Retry| retry.attempts.iter().any(|(_, tag)| tag == request_id);
        let of_seat = self.retries.iter().filter(|((whose, _), _)| *whose == seat);
        of_seat.filter(|(_, retry)| has_tag(retry)).map(|((_, first), _)| first).collect()
    }

    /// What is asked again on one connection of a seat is asked on another one from now on.
    pub fn move_retries(&mut self, seat: Seat, before: &str, after: &str) {
        let of_seat = self.retries.iter_mut().filter(|((whose, _), _)| *whose == seat);
        for (_, retry) in of_seat {
            if let Resend::Message { connection_id, .. } = &mut retry.resend
                && connection_id == before
            {
                *connection_id = after.to_owned();
            }
        }
    }

    /// A request is asked again, under this id; `tag` is its `requestId` or connection id.
    pub fn add_attempt(&mut self, first: &Key, id: &Id, tag: String) {
        let Some(retry) = self.retries.get_mut(first) else { return };
        retry.attempts.push((id.detached(), tag));
        self.attempts.insert((first.0, id.detached()), first.1.clone());
    }

    /// Waits for the next retry of a request, if there is one.
    pub fn schedule_retry(&mut self, now: Time, first: &Key) {
        let Some(retry) = self.retries.get_mut(first) else { return };
        if let Some((delay, rest)) = retry.delays.split_first() {
            retry.delays = rest;
            self.retry_deadlines.insert(first.clone(), now.plus(*delay));
        }
    }

    /// A request is not asked again.
    pub fn stop_retrying(&mut self, first: &Key) -> Option<Retry> {
        let retry = self.retries.remove(first)?;
        self.retry_deadlines.remove(first);
        for (attempt, _) in &retry.attempts {
            self.attempts.remove(&(first.0, attempt.clone()));
        }
        Some(retry)
    }
}
