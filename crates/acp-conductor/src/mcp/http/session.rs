//! The session of an HTTP client. It chooses the response stream for each message to the client:
//!
//! - An answer goes to the POST of its request, and so does progress of that request.
//! - A request of the server is probably related to an open request of the client. It goes to the latest POST, or
//!   else to the GET stream. (Some clients reject requests on the GET stream.)
//! - Other notifications go to the GET stream, or else to the latest POST.
//! - A message without a stream is kept until the client opens one.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use acp_wire::{Call, Id, Message, Outcome, code};
use bytes::Bytes;
use mcp::{ClientId, Ticket};

use crate::mcp::ClientReceiver;

/// The limits for messages that are kept for a client without an open stream.
const MAX_KEPT: usize = 1000;
const MAX_KEPT_BYTES: usize = 8 * 1024 * 1024;

const PROGRESS: &str = "notifications/progress";

/// An HTTP client.
pub(super) struct Session {
    pub client_id: ClientId,
    pub ticket: Ticket,
    state: Mutex<SessionState>,
}

/// How long a client stays connected.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum SessionLifetime {
    /// For a single POST: the client is stateless.
    OnePost,
    /// For the POST with `initialize`, and longer once the client has read the answer.
    Requested,
    /// Until the client sends a DELETE.
    Established,
}

struct SessionState {
    outgoing: ClientReceiver,
    lifetime: SessionLifetime,
    /// The open response streams, in the order in which they were opened.
    streams: BTreeMap<u64, Stream>,
    opened: u64,
    kept: VecDeque<OutgoingMessage>,
    bytes_kept: usize,
    has_dropped: bool,
    /// Whether the client has disconnected.
    disconnected: bool,
    /// Whether the session has ended.
    ended: bool,
    delivery_task: Option<Waker>,
    /// The tasks to wake when the lock is released.
    to_wake: Vec<Waker>,
}

/// The messages for one open response.
struct Stream {
    kind: StreamKind,
    messages: VecDeque<OutgoingMessage>,
    /// Whether the response ends after these messages.
    complete: bool,
    reader: Option<Waker>,
}

enum StreamKind {
    Get,
    Post { requests: Vec<PendingRequest>, only_answers: bool },
}

/// A request of the client that has not been answered.
pub(super) struct PendingRequest {
    pub id: Id,
    progress_token: Option<Id>,
}

impl PendingRequest {
    pub(crate) fn new(id: &Id, call: &Call) -> PendingRequest {
        let progress_token = call.params.as_ref().and_then(|it| it.at(&["_meta", "progressToken"]));
        PendingRequest {
            id: id.detached(),
            progress_token: progress_token.and_then(|it| Id::new(it.detached())),
        }
    }
}

/// A message to the client.
pub(super) struct OutgoingMessage {
    pub line: Bytes,
    pub kind: OutgoingKind,
    /// Whether the message counts as unread in `ClientReceiver`.
    counted: bool,
}

/// The kind of a message to the client.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum OutgoingKind {
    Result,
    /// An error response, with its code.
    Error(i64),
    Request,
    /// A notification, or an error response without an id.
    Other,
}

impl Session {
    pub(crate) fn new(
        client_id: ClientId,
        ticket: Ticket,
        outgoing: ClientReceiver,
        lifetime: SessionLifetime,
    ) -> Arc<Session> {
        let state = SessionState {
            outgoing,
            lifetime,
            streams: BTreeMap::new(),
            opened: 0,
            kept: VecDeque::new(),
            bytes_kept: 0,
            has_dropped: false,
            disconnected: false,
            ended: false,
            delivery_task: None,
            to_wake: Vec::new(),
        };
        Arc::new(Session { client_id, ticket, state: Mutex::new(state) })
    }

    /// Opens the response to a POST with these requests. With `only_answers` it carries no other messages.
    pub(crate) fn open_post(
        self: &Arc<Session>,
        requests: Vec<PendingRequest>,
        only_answers: bool,
    ) -> ResponseReader {
        let kind = StreamKind::Post { requests, only_answers };
        ResponseReader { number: self.change(|state| state.open(kind)), session: self.clone() }
    }

    /// Opens the response to a GET. It replaces an earlier one, whose connection may be broken, and takes over
    /// its unsent messages.
    pub(crate) fn open_get(self: &Arc<Session>) -> ResponseReader {
        let number = self.change(|state| {
            let mut messages = VecDeque::new();
            for stream in state.streams.values_mut() {
                if matches!(stream.kind, StreamKind::Get) {
                    messages.append(&mut stream.messages);
                    stream.complete = true;
                    state.to_wake.extend(stream.reader.take());
                }
            }
            let number = state.open(StreamKind::Get);
            if let Some(stream) = state.streams.get_mut(&number) {
                messages.append(&mut stream.messages);
                stream.messages = messages;
            }
            number
        });
        ResponseReader { session: self.clone(), number }
    }

    /// Disconnects the client.
    pub(crate) fn disconnect(&self) {
        self.change(SessionState::disconnect);
    }

    /// Distributes the messages to the client to its streams. Ready when the client or the conductor has
    /// disconnected.
    pub(crate) fn poll_deliver(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.change(|state| {
            while !state.disconnected {
                let next = pin!(state.outgoing.next()).poll(cx);
                match next {
                    Poll::Ready(Some(line)) => state.route(line),
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => {
                        state.delivery_task = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(())
        })
    }

    /// Ends the session: answers the open requests with an error and ends the streams.
    pub(crate) fn end(&self) {
        self.change(|state| {
            state.ended = true;
            for stream in state.streams.values_mut() {
                stream.end();
                state.to_wake.extend(stream.reader.take());
            }
        });
    }

    /// Changes the state under the lock, then wakes tasks.
    fn change<T>(&self, change: impl FnOnce(&mut SessionState) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        let to_wake = std::mem::take(&mut state.to_wake);
        drop(state);
        to_wake.into_iter().for_each(Waker::wake);
        result
    }
}

impl SessionState {
    /// Opens a stream. Returns its number.
    fn open(&mut self, kind: StreamKind) -> u64 {
        let number = self.opened;
        self.opened += 1;
        let mut stream = Stream { kind, messages: VecDeque::new(), complete: false, reader: None };
        if stream.accepts_any_message() {
            self.bytes_kept = 0;
            self.has_dropped = false;
            stream.messages.append(&mut self.kept);
        }
        if self.ended {
            stream.end();
        }
        self.streams.insert(number, stream);
        number
    }

    /// Adds a message to the right stream.
    fn route(&mut self, line: Bytes) {
        match Message::parse(&line) {
            Ok(Message::Response { id, outcome, .. }) if !id.is_null() => {
                let kind = match &outcome {
                    Outcome::Result(_) => OutgoingKind::Result,
                    Outcome::Error(_) => {
                        OutgoingKind::Error(outcome.error_code().unwrap_or_default())
                    }
                };
                match self.stream(|request| request.id == id) {
                    Some(stream) => {
                        stream.close_request(&id);
                        stream.messages.push_back(OutgoingMessage { line, kind, counted: true });
                        let reader = stream.reader.take();
                        self.to_wake.extend(reader);
                    }
                    None => {
                        tracing::debug!(
                            "dropped an answer: the MCP client has closed the response"
                        );
                        self.outgoing.mark_written(line.len());
                    }
                }
            }
            Ok(Message::Notification(call)) if call.is(PROGRESS) => {
                let token = call.params.and_then(|it| it.member("progressToken")).and_then(Id::new);
                match self.stream(|request| token.is_some() && request.progress_token == token) {
                    Some(stream) if stream.accepts_any_message() => {
                        stream.messages.push_back(OutgoingMessage {
                            line,
                            kind: OutgoingKind::Other,
                            counted: true,
                        });
                        let reader = stream.reader.take();
                        self.to_wake.extend(reader);
                    }
                    // The stream carries only answers.
                    Some(_) => self.outgoing.mark_written(line.len()),
                    None => self.route_to_any_stream(line, OutgoingKind::Other),
                }
            }
            Ok(Message::Request { .. }) => self.route_to_any_stream(line, OutgoingKind::Request),
            Ok(_) => self.route_to_any_stream(line, OutgoingKind::Other),
            Err(error) => {
                tracing::warn!("dropped an invalid message to an MCP client: {error}");
                self.outgoing.mark_written(line.len());
            }
        }
    }

    /// Adds a message that does not belong to a request of the client to the best open stream.
    fn route_to_any_stream(&mut self, line: Bytes, kind: OutgoingKind) {
        let open = || self.streams.iter().rev().filter(|(_, stream)| stream.accepts_any_message());
        let wanted = |stream: &Stream| {
            matches!(stream.kind, StreamKind::Get) == (kind == OutgoingKind::Other)
        };
        let best = open().find(|(_, stream)| wanted(stream)).or_else(|| open().next());
        let number = best.map(|(number, _)| *number);
        let message = OutgoingMessage { line, kind, counted: true };
        match number.and_then(|number| self.streams.get_mut(&number)) {
            Some(stream) => {
                stream.messages.push_back(message);
                self.to_wake.extend(stream.reader.take());
            }
            None => self.keep(message),
        }
    }

    /// Keeps a message until the client opens a stream. Drops the oldest ones beyond the limits.
    fn keep(&mut self, message: OutgoingMessage) {
        self.bytes_kept += message.line.len();
        self.kept.push_back(message);
        while self.kept.len() > MAX_KEPT || self.bytes_kept > MAX_KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.bytes_kept -= oldest.line.len();
            self.outgoing.mark_written(oldest.line.len());
            if !std::mem::replace(&mut self.has_dropped, true) {
                tracing::warn!(
                    "an MCP client on HTTP has no open stream for messages from the server; only the \
                     last {MAX_KEPT} messages or {MAX_KEPT_BYTES} bytes are kept"
                );
            }
        }
    }

    /// The stream with a matching request. The oldest one, if the client has used an id twice.
    fn stream(&mut self, matches: impl Fn(&PendingRequest) -> bool) -> Option<&mut Stream> {
        self.streams.values_mut().find(|stream| match &stream.kind {
            StreamKind::Post { requests, .. } => requests.iter().any(&matches),
            StreamKind::Get => false,
        })
    }

    fn disconnect(&mut self) {
        self.disconnected = true;
        self.to_wake.extend(self.delivery_task.take());
    }
}

impl Stream {
    /// Whether the stream can carry messages that do not belong to its requests.
    fn accepts_any_message(&self) -> bool {
        !self.complete && !matches!(self.kind, StreamKind::Post { only_answers: true, .. })
    }

    fn close_request(&mut self, id: &Id) {
        if let StreamKind::Post { requests, .. } = &mut self.kind {
            if let Some(at) = requests.iter().position(|request| request.id == *id) {
                requests.remove(at);
            }
            self.complete = requests.is_empty();
        }
    }

    fn end(&mut self) {
        self.complete = true;
        let StreamKind::Post { requests, .. } = &mut self.kind else { return };
        for request in requests.drain(..) {
            let message = "the connection to the MCP server was closed";
            let answer =
                Message::response(request.id, Outcome::error(code::INTERNAL_ERROR, message));
            let kind = OutgoingKind::Error(code::INTERNAL_ERROR);
            self.messages.push_back(OutgoingMessage {
                line: answer.to_line().into(),
                kind,
                counted: false,
            });
        }
    }
}

/// Reads the messages of one response. Dropping it means that the client has closed the response.
pub(super) struct ResponseReader {
    session: Arc<Session>,
    number: u64,
}

impl ResponseReader {
    /// The next message; `None` at the end of the response.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<OutgoingMessage>> {
        self.session.change(|state| {
            let Some(stream) = state.streams.get_mut(&self.number) else {
                return Poll::Ready(None);
            };
            match stream.messages.pop_front() {
                Some(message) => {
                    if message.counted {
                        state.outgoing.mark_written(message.line.len());
                    }
                    if state.lifetime == SessionLifetime::Requested
                        && message.kind == OutgoingKind::Result
                    {
                        state.lifetime = SessionLifetime::Established;
                    }
                    Poll::Ready(Some(message))
                }
                None if stream.complete => Poll::Ready(None),
                None => {
                    stream.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    /// The next message; `None` at the end of the response.
    pub(crate) async fn next(&mut self) -> Option<OutgoingMessage> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl Drop for ResponseReader {
    fn drop(&mut self) {
        self.session.change(|state| {
            let Some(stream) = state.streams.remove(&self.number) else { return };
            for message in stream.messages {
                match message.kind {
                    // Another stream can carry it.
                    OutgoingKind::Request | OutgoingKind::Other => {
                        state.route_to_any_stream(message.line, message.kind)
                    }
                    _ if message.counted => state.outgoing.mark_written(message.line.len()),
                    _ => {}
                }
            }
            if state.lifetime != SessionLifetime::Established {
                state.disconnect();
            }
        });
    }
}
