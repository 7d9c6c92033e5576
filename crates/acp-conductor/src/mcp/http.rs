//! The streamable HTTP transport for MCP clients. A client sends each message as a POST, receives messages from
//! the server by a GET, and disconnects with a DELETE.
//!
//! # Layout
//! - here: connections, authentication and requests
//! - `session`: one client, and the choice of a response for each message to it
//! - `reply`: HTTP responses
//!
//! A client up to version 2025-11-25 starts with `initialize` and gets a session. A client of version 2026-07-28
//! is stateless: each of its requests is handled like a separate client.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acp_wire::{Id, Json, Malformed, Message, code};
use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue,
    ORIGIN, WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp::Ticket;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::reply::{EVENTS, ErrorReply, JSON, Reply, empty, error_reply, events, json};
use self::session::{
    OutgoingKind, OutgoingMessage, PendingRequest, ResponseReader, Session, SessionLifetime,
};
use super::listeners::{Acceptor, Credentials, ListenerContext};
use super::{ClientEvent, ClientSender};
use crate::secret::random_token;
use crate::unauthenticated::{Slot, TIMEOUT};

pub(super) use self::reply::event;

mod reply;
mod session;

/// The prefix of every path. The path token of a ticket follows.
pub(super) const PATH_PREFIX: &str = "/mcp/";

const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const INITIALIZE: &str = "initialize";
const DISCOVER: &str = "server/discover";

/// The idle timeout of a connection. It is longer than that of clients, so that the server does not close a
/// connection while a client sends a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// How long the rest of a body that is too long is read, for clients that read the response only after sending
/// the whole body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait for the first message of a stream, which determines the status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// The error codes that version 2026-07-28 maps to status 400: `HeaderMismatch`,
/// `MissingRequiredClientCapability`, `UnsupportedProtocolVersion`.
const BAD_REQUEST_CODES: std::ops::RangeInclusive<i64> = -32022..=-32020;

/// Serves HTTP requests until `closing`, then waits until all clients have disconnected.
pub(super) async fn listen(
    listener: TcpListener,
    credentials: Credentials,
    context: ListenerContext,
    mut closing: watch::Receiver<()>,
) {
    let port = listener.local_addr().map_or(0, |address| address.port());
    let server = Arc::new(HttpServer {
        port,
        credentials,
        context,
        sessions: Sessions::default(),
        session_tasks: Mutex::new(JoinSet::new()),
    });
    let acceptor = Acceptor::new(listener);
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            _ = closing.changed() => break,
            Some(_) = connections.join_next() => continue,
            accepted = acceptor.next() => accepted,
        };
        let slot = acceptor.reserve_slot(&stream).await;
        connections.spawn(serve(stream, slot, server.clone(), closing.clone()));
    }
    drop(acceptor);
    while connections.join_next().await.is_some() {}
    // Without a listener no client can continue its session.
    let sessions = std::mem::take(&mut *lock(&server.sessions));
    sessions.values().for_each(|session| session.disconnect());
    let mut session_tasks = std::mem::take(&mut *lock(&server.session_tasks));
    while session_tasks.join_next().await.is_some() {}
}

/// Serves one connection. It is closed if it does not authenticate in time.
async fn serve(
    stream: TcpStream,
    slot: Slot,
    server: Arc<HttpServer>,
    mut closing: watch::Receiver<()>,
) {
    // Released by the first authenticated request.
    let evicted = slot.evicted();
    let slot = Arc::new(Mutex::new(Some(slot)));
    let service = service_fn(|request| {
        let (server, slot) = (server.clone(), slot.clone());
        async move {
            let ticket = server.authorize(&request);
            if ticket.is_ok() {
                lock(&slot).take();
            }
            let reply = match ticket {
                Ok(ticket) => server.answer(ticket, request).await,
                Err(error) => Err(error),
            };
            Ok::<Reply, Infallible>(reply.unwrap_or_else(|error| *error))
        }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut timeout = pin!(tokio::time::sleep(TIMEOUT));
    let (mut waiting, mut open) = (true, true);
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = &mut timeout, if waiting => {
                waiting = false;
                if lock(&slot).is_some() {
                    return;
                }
            }
            () = evicted.notified() => {
                if lock(&slot).is_some() {
                    return;
                }
            }
            _ = closing.changed(), if open => {
                open = false;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

type Sessions = Arc<Mutex<BTreeMap<String, Arc<Session>>>>;

/// The state that all connections share.
struct HttpServer {
    port: u16,
    credentials: Credentials,
    context: ListenerContext,
    sessions: Sessions,
    /// One task for each client, which delivers the messages to it.
    session_tasks: Mutex<JoinSet<()>>,
}

/// A message from a client, as a line and parsed, or an error response.
type Parsed = Result<(Bytes, Message), ErrorReply>;

impl HttpServer {
    /// Authenticates a request and returns its ticket.
    fn authorize(&self, request: &Request<Incoming>) -> Result<Ticket, ErrorReply> {
        let headers = request.headers();
        if !self.has_local_host(headers) || !has_local_origin(headers) {
            let message = "unexpected Host or Origin header; only programs on this machine can use this server";
            return Err(error_reply(
                StatusCode::FORBIDDEN,
                Id::NULL,
                code::INVALID_REQUEST,
                message,
            ));
        }
        let secret = bearer_token(headers).unwrap_or_default();
        let token = request.uri().path().strip_prefix(PATH_PREFIX);
        match token.and_then(|token| self.credentials.by_path(token, secret)) {
            Some((ticket, true)) => Ok(ticket),
            Some((_, false)) => {
                let message = "the Authorization header does not contain the secret of this path";
                let status = StatusCode::UNAUTHORIZED;
                let mut reply = error_reply(status, Id::NULL, code::INVALID_REQUEST, message);
                reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                Err(reply)
            }
            None => {
                let message = "there is no MCP server at this path; its session has ended";
                Err(error_reply(StatusCode::NOT_FOUND, Id::NULL, code::INVALID_REQUEST, message))
            }
        }
    }

    async fn answer(
        &self,
        ticket: Ticket,
        request: Request<Incoming>,
    ) -> Result<Reply, ErrorReply> {
        match *request.method() {
            Method::POST => self.post(ticket, request).await,
            Method::GET if request.headers().contains_key(SESSION_HEADER) => {
                let session = self.session(ticket, request.headers())?;
                if !accepts(request.headers(), EVENTS) {
                    return Err(not_acceptable(
                        "the Accept header of a GET must allow text/event-stream",
                    ));
                }
                Ok(events(session.open_get(), None))
            }
            Method::DELETE if request.headers().contains_key(SESSION_HEADER) => {
                let session = self.session(ticket, request.headers())?;
                lock(&self.sessions).retain(|_, it| !Arc::ptr_eq(it, &session));
                session.disconnect();
                Ok(empty(StatusCode::NO_CONTENT))
            }
            _ => {
                let mut reply = empty(StatusCode::METHOD_NOT_ALLOWED);
                let allowed = HeaderValue::from_static("GET, POST, DELETE");
                reply.headers_mut().insert(ALLOW, allowed);
                Err(Box::new(reply))
            }
        }
    }

    async fn post(&self, ticket: Ticket, request: Request<Incoming>) -> Result<Reply, ErrorReply> {
        let (head, body) = request.into_parts();
        let streams = accepts(&head.headers, EVENTS);
        if !streams && !accepts(&head.headers, JSON) {
            let message =
                "the Accept header of a POST must allow text/event-stream or application/json";
            return Err(not_acceptable(message));
        }
        let body = read(&head.headers, body, self.context.max_line).await?;
        let (messages, batch) = split(body)?;
        let pending: Vec<PendingRequest> = messages
            .iter()
            .filter_map(|(_, message)| match message {
                Message::Request { id, call } => Some(PendingRequest::new(id, call)),
                _ => None,
            })
            .collect();
        if head.headers.contains_key(SESSION_HEADER) {
            let session = self.session(ticket, &head.headers)?;
            if pending.is_empty() {
                self.pass_on(&session, messages).await?;
                return Ok(empty(StatusCode::ACCEPTED));
            }
            let reader = session.open_post(pending, !streams);
            self.pass_on(&session, messages).await?;
            return Ok(if streams {
                events(reader, None)
            } else {
                collected_reply(reader, batch).await
            });
        }
        if pending.is_empty() {
            let message =
                "the Mcp-Session-Id header is missing; use the one in the response to initialize";
            return Err(error_reply(
                StatusCode::BAD_REQUEST,
                Id::NULL,
                code::INVALID_REQUEST,
                message,
            ));
        }
        let has_request = |method: &str| {
            messages
                .iter()
                .any(|(_, it)| matches!(it, Message::Request { call, .. } if call.is(method)))
        };
        let (initializing, discovering) = (has_request(INITIALIZE), has_request(DISCOVER));
        let lifetime =
            if initializing { SessionLifetime::Requested } else { SessionLifetime::OnePost };
        let (session, reader, session_id) =
            self.start_session(ticket, lifetime, pending, !streams).await?;
        self.pass_on(&session, messages).await?;
        if let Some(session_id) = session_id {
            let mut reply =
                if streams { events(reader, None) } else { collected_reply(reader, batch).await };
            reply.headers_mut().insert(SESSION_HEADER, session_id);
            return Ok(reply);
        }
        Ok(stateless_reply(reader, streams, batch, discovering).await)
    }

    /// Registers a new client and opens its first response. Returns the session id for the client, unless it is
    /// stateless.
    async fn start_session(
        &self,
        ticket: Ticket,
        lifetime: SessionLifetime,
        pending: Vec<PendingRequest>,
        only_answers: bool,
    ) -> Result<(Arc<Session>, ResponseReader, Option<HeaderValue>), ErrorReply> {
        let client_id = self.context.next_client();
        let (sender, receiver) = ClientSender::new();
        let session = Session::new(client_id, ticket, receiver, lifetime);
        let reader = session.open_post(pending, only_answers);
        let mut session_id = None;
        if lifetime != SessionLifetime::OnePost {
            session_id = Some(random_token().map_err(|_| shutting_down())?);
        }
        let permit = self.context.events.reserve().await.map_err(|_| shutting_down())?;
        // No await between this and the spawned task: hyper may drop this future at an await, and then
        // `Disconnected` would never be sent.
        permit.send(ClientEvent::Connected { ticket, client_id, sender });
        if let Some(session_id) = &session_id {
            lock(&self.sessions).insert(session_id.clone(), session.clone());
        }
        let (served, sessions) = (session.clone(), self.sessions.clone());
        let events = self.context.events.clone();
        let mut session_tasks = lock(&self.session_tasks);
        while session_tasks.try_join_next().is_some() {}
        session_tasks.spawn(async move {
            poll_fn(|cx| served.poll_deliver(cx)).await;
            lock(&sessions).retain(|_, it| !Arc::ptr_eq(it, &served));
            served.end();
            let _ = events.send(ClientEvent::Disconnected(client_id)).await;
        });
        drop(session_tasks);
        let session_id = session_id.and_then(|it| HeaderValue::from_str(&it).ok());
        Ok((session, reader, session_id))
    }

    async fn pass_on(
        &self,
        session: &Session,
        messages: Vec<(Bytes, Message)>,
    ) -> Result<(), ErrorReply> {
        for (line, _) in messages {
            let event = ClientEvent::Line { client_id: session.client_id, line };
            self.context.events.send(event).await.map_err(|_| shutting_down())?;
        }
        Ok(())
    }

    fn session(&self, ticket: Ticket, headers: &HeaderMap) -> Result<Arc<Session>, ErrorReply> {
        let session_id =
            headers.get(SESSION_HEADER).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let found = lock(&self.sessions).get(session_id).filter(|it| it.ticket == ticket).cloned();
        found.ok_or_else(|| {
            let message = "unknown or expired Mcp-Session-Id; send initialize without this header";
            error_reply(StatusCode::NOT_FOUND, Id::NULL, code::INVALID_REQUEST, message)
        })
    }

    /// Whether all Host headers name this server.
    fn has_local_host(&self, headers: &HeaderMap) -> bool {
        let names = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let mut hosts = headers.get_all(HOST).iter().peekable();
        let ours = |host: &HeaderValue| {
            names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(host.as_bytes()))
        };
        hosts.peek().is_some() && hosts.all(ours)
    }
}

/// The response to a stateless request. Version 2026-07-28 requires a matching HTTP status for errors.
async fn stateless_reply(
    mut reader: ResponseReader,
    streams: bool,
    batch: bool,
    discovering: bool,
) -> Reply {
    if batch {
        return if streams { events(reader, None) } else { collected_reply(reader, batch).await };
    }
    let first = if streams {
        tokio::time::timeout(STATUS_TIMEOUT, reader.next()).await.ok().flatten()
    } else {
        reader.next().await
    };
    let status = match first.as_ref().map(|first| first.kind) {
        // The server does not know `server/discover`, so it is of an older version. Clients expect 400 in this
        // case; 404 means that a server of this version does not have the method.
        Some(OutgoingKind::Error(code::METHOD_NOT_FOUND)) if discovering => StatusCode::BAD_REQUEST,
        Some(OutgoingKind::Error(code::METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
        Some(OutgoingKind::Error(code)) if BAD_REQUEST_CODES.contains(&code) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    };
    match first {
        Some(OutgoingMessage { line, .. }) if !streams || status != StatusCode::OK => {
            json(status, line)
        }
        first => events(reader, first),
    }
}

/// A response with all answers as one text, for a client that does not accept an event stream.
async fn collected_reply(mut reader: ResponseReader, batch: bool) -> Reply {
    let mut lines = Vec::new();
    while let Some(message) = reader.next().await {
        lines.push(message.line);
    }
    let text = match (batch, lines.pop()) {
        (false, Some(line)) => line,
        (_, last) => {
            lines.extend(last);
            [b"[", lines.join(&b","[..]).as_slice(), b"]"].concat().into()
        }
    };
    json(StatusCode::OK, text)
}

/// Reads a body up to the maximum length.
async fn read(headers: &HeaderMap, body: Incoming, max_length: usize) -> Result<Bytes, ErrorReply> {
    let declared =
        headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse::<usize>().ok());
    let mut body = pin!(body);
    let mut text = BytesMut::new();
    let mut too_long = declared.is_some_and(|declared| declared > max_length);
    while !too_long && let Some(chunk) = next_chunk(body.as_mut()).await {
        let chunk = chunk.map_err(|_| Box::new(empty(StatusCode::BAD_REQUEST)))?;
        too_long = text.len() + chunk.len() > max_length;
        if !too_long {
            text.extend_from_slice(&chunk);
        }
    }
    if !too_long {
        return Ok(text.freeze());
    }
    drop(text);
    if !headers.contains_key(EXPECT) {
        let rest = async { while let Some(Ok(_)) = next_chunk(body.as_mut()).await {} };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
    }
    let message = format!(
        "this message is too long: the limit is {max_length} bytes; start the conductor with a larger \
         --max-line"
    );
    Err(error_reply(StatusCode::PAYLOAD_TOO_LARGE, Id::NULL, code::INVALID_REQUEST, &message))
}

async fn next_chunk(mut body: Pin<&mut Incoming>) -> Option<hyper::Result<Bytes>> {
    let frame = poll_fn(|cx| body.as_mut().poll_frame(cx)).await?;
    // Trailers are ignored.
    Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
}

/// Parses the messages of a body. Also returns whether they are a batch.
fn split(body: Bytes) -> Result<(Vec<(Bytes, Message)>, bool), ErrorReply> {
    let text = Json::parse(body).map_err(|syntax| malformed(Malformed::NotJson(syntax)))?;
    if !text.is_array() {
        return Ok((vec![parse(&text)?], false));
    }
    let messages = text.elements().iter().map(parse).collect::<Result<Vec<_>, ErrorReply>>()?;
    match messages.is_empty() {
        true => Err(malformed(Malformed::NotAMessage { id: Id::NULL, why: "an empty batch" })),
        false => Ok((messages, true)),
    }
}

/// The messages of a body as lines, for the fuzzer.
pub(super) fn split_body(body: Bytes) -> Option<Vec<Bytes>> {
    let (messages, _) = split(body).ok()?;
    Some(messages.into_iter().map(|(line, _)| line).collect())
}

fn parse(text: &Json) -> Parsed {
    let line = Bytes::copy_from_slice(text.as_bytes());
    let message = Message::parse(&line).map_err(malformed)?;
    Ok((line, message))
}

fn malformed(why: Malformed) -> ErrorReply {
    let message = why.to_string();
    let (id, code) = match why {
        Malformed::NotJson(_) => (Id::NULL, code::PARSE_ERROR),
        Malformed::NotAMessage { id, .. } => (id, code::INVALID_REQUEST),
        Malformed::AnswerWithoutId => (Id::NULL, code::INVALID_REQUEST),
    };
    error_reply(StatusCode::BAD_REQUEST, id, code, &message)
}

fn not_acceptable(message: &str) -> ErrorReply {
    error_reply(StatusCode::NOT_ACCEPTABLE, Id::NULL, code::INVALID_REQUEST, message)
}

/// The response while the conductor shuts down.
fn shutting_down() -> ErrorReply {
    let message = "the conductor is shutting down";
    error_reply(StatusCode::SERVICE_UNAVAILABLE, Id::NULL, code::INTERNAL_ERROR, message)
}

/// Whether the client accepts this media type. Without an Accept header it accepts any.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut values = headers.get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok()).peekable();
    let family = wanted.split('/').next().unwrap_or_default();
    let fits = |range: &str| {
        let range = range.split(';').next().unwrap_or_default().trim();
        range == "*/*"
            || range.eq_ignore_ascii_case(wanted)
            || range.strip_suffix("/*").is_some_and(|it| it.eq_ignore_ascii_case(family))
    };
    values.peek().is_none() || values.any(|value| value.split(',').any(fits))
}

/// The token in the Authorization header.
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim().as_bytes())
}

/// Whether all Origin headers are local. A web page from another host has a different origin, even after DNS
/// rebinding.
fn has_local_origin(headers: &HeaderMap) -> bool {
    headers.get_all(ORIGIN).iter().all(|origin| {
        let Some(host) = origin.to_str().ok().and_then(|it| it.strip_prefix("http://")) else {
            return false;
        };
        ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| match host.strip_prefix(name) {
            Some("") => true,
            Some(rest) => rest.strip_prefix(':').is_some_and(|it| it.parse::<u16>().is_ok()),
            None => false,
        })
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
