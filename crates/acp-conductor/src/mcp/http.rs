//! Clients that speak streamable HTTP: a POST for each message of theirs, a GET for what the server
//! says on its own, and a DELETE to leave.
//!
//! # Layout
//! - here: connections, who may call, and what each request asks for
//! - `session`: one client, and which of its open responses gets what is said to it
//! - `reply`: what a response is made of
//!
//! A client of the versions up to 2025-11-25 begins with `initialize` and gets a session. One of the
//! version 2026-07-28 has none: each of its requests is a call of its own.

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

use self::reply::{EVENTS, JSON, Refusal, Reply, bare, events, json, refusal};
use self::session::{
    MessageKind, OutgoingMessage, Reader, Request as PendingRequest, Session, SessionLifetime,
};
use super::listeners::{Acceptor, Credentials, ListenerContext};
use super::{ClientEvent, ClientSender};
use crate::secret::random_token;
use crate::unauthenticated::{Slot, TIMEOUT};

pub(super) use self::reply::event;

mod reply;
mod session;

/// What every path begins with; a word that names the ticket follows.
pub(super) const PATH: &str = "/mcp/";

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const INITIALIZE: &str = "initialize";
const DISCOVER: &str = "server/discover";

/// How long a connection may be idle. Longer than clients keep one that they do not use, so that it
/// is never closed under a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// How long the rest of a body that is too long is read, for a client that does not listen before it
/// has sent everything.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the status of an answer may wait for the answer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// Errors that version 2026-07-28 wants to see in the status, too: `HeaderMismatch`,
/// `MissingRequiredClientCapability`, `UnsupportedProtocolVersion`.
const BAD_REQUEST_CODES: std::ops::RangeInclusive<i64> = -32022..=-32020;

/// Answers those who may call, until it is closed; then waits for the calls to end.
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
    // Without a listener nobody can come back to a session.
    let sessions = std::mem::take(&mut *lock(&server.sessions));
    sessions.values().for_each(|session| session.leave());
    let mut session_tasks = std::mem::take(&mut *lock(&server.session_tasks));
    while session_tasks.join_next().await.is_some() {}
}

/// One connection.
async fn serve(
    stream: TcpStream,
    slot: Slot,
    server: Arc<HttpServer>,
    mut closing: watch::Receiver<()>,
) {
    // There until the first request that shows a secret.
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
                Err(refusal) => Err(refusal),
            };
            Ok::<Reply, Infallible>(reply.unwrap_or_else(|refusal| *refusal))
        }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut patience = pin!(tokio::time::sleep(TIMEOUT));
    let (mut patient, mut open) = (true, true);
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = &mut patience, if patient => {
                patient = false;
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

/// What all connections share.
struct HttpServer {
    port: u16,
    credentials: Credentials,
    context: ListenerContext,
    sessions: Sessions,
    /// One task for each client that has called.
    session_tasks: Mutex<JoinSet<()>>,
}

/// A message from a client, or why it is none.
type Parsed = Result<(Bytes, Message), Refusal>;

impl HttpServer {
    /// Whose ticket this request shows.
    fn authorize(&self, request: &Request<Incoming>) -> Result<Ticket, Refusal> {
        let headers = request.headers();
        if !self.has_local_host(headers) || !has_local_origin(headers) {
            let words = "only for programs on this machine: the Host or Origin is another";
            return Err(refusal(StatusCode::FORBIDDEN, Id::NULL, code::INVALID_REQUEST, words));
        }
        let said = bearer(headers).unwrap_or_default();
        let word = request.uri().path().strip_prefix(PATH);
        match word.and_then(|word| self.credentials.by_path(word, said)) {
            Some((ticket, true)) => Ok(ticket),
            Some((_, false)) => {
                let words = "the Authorization header does not say the secret of this path";
                let status = StatusCode::UNAUTHORIZED;
                let mut reply = refusal(status, Id::NULL, code::INVALID_REQUEST, words);
                reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                Err(reply)
            }
            None => {
                let words = "no MCP server has this path: the session it belonged to has ended";
                Err(refusal(StatusCode::NOT_FOUND, Id::NULL, code::INVALID_REQUEST, words))
            }
        }
    }

    async fn answer(&self, ticket: Ticket, request: Request<Incoming>) -> Result<Reply, Refusal> {
        match *request.method() {
            Method::POST => self.post(ticket, request).await,
            Method::GET if request.headers().contains_key(SESSION) => {
                let session = self.session(ticket, request.headers())?;
                if !accepts(request.headers(), EVENTS) {
                    return Err(not_acceptable("a GET is answered with text/event-stream"));
                }
                Ok(events(session.open_get(), None))
            }
            Method::DELETE if request.headers().contains_key(SESSION) => {
                let session = self.session(ticket, request.headers())?;
                lock(&self.sessions).retain(|_, it| !Arc::ptr_eq(it, &session));
                session.leave();
                Ok(bare(StatusCode::NO_CONTENT))
            }
            _ => {
                let mut reply = bare(StatusCode::METHOD_NOT_ALLOWED);
                let allowed = HeaderValue::from_static("GET, POST, DELETE");
                reply.headers_mut().insert(ALLOW, allowed);
                Err(Box::new(reply))
            }
        }
    }

    async fn post(&self, ticket: Ticket, request: Request<Incoming>) -> Result<Reply, Refusal> {
        let (head, body) = request.into_parts();
        let streams = accepts(&head.headers, EVENTS);
        if !streams && !accepts(&head.headers, JSON) {
            let words = "a POST is answered with text/event-stream or application/json";
            return Err(not_acceptable(words));
        }
        let body = read(&head.headers, body, self.context.longest_line).await?;
        let (messages, batch) = split(body)?;
        let pending: Vec<PendingRequest> = messages
            .iter()
            .filter_map(|(_, message)| match message {
                Message::Request { id, call } => Some(PendingRequest::new(id, call)),
                _ => None,
            })
            .collect();
        if head.headers.contains_key(SESSION) {
            let session = self.session(ticket, &head.headers)?;
            if pending.is_empty() {
                self.hand_over(&session, messages).await?;
                return Ok(bare(StatusCode::ACCEPTED));
            }
            let reader = session.open_post(pending, !streams);
            self.hand_over(&session, messages).await?;
            return Ok(if streams {
                events(reader, None)
            } else {
                collected_reply(reader, batch).await
            });
        }
        if pending.is_empty() {
            let words =
                "the Mcp-Session-Id header is missing: it came with the answer to initialize";
            return Err(refusal(StatusCode::BAD_REQUEST, Id::NULL, code::INVALID_REQUEST, words));
        }
        let asks = |method: &str| {
            messages
                .iter()
                .any(|(_, it)| matches!(it, Message::Request { call, .. } if call.is(method)))
        };
        let (initializing, discovering) = (asks(INITIALIZE), asks(DISCOVER));
        let lifetime =
            if initializing { SessionLifetime::Requested } else { SessionLifetime::OnePost };
        let (session, reader, name) =
            self.start_session(ticket, lifetime, pending, !streams).await?;
        self.hand_over(&session, messages).await?;
        if let Some(name) = name {
            let mut reply =
                if streams { events(reader, None) } else { collected_reply(reader, batch).await };
            reply.headers_mut().insert(SESSION, name);
            return Ok(reply);
        }
        Ok(stateless_reply(reader, streams, batch, discovering).await)
    }

    /// A client that has not called before, with its first response open. It is told the name of its
    /// session if it gets one.
    async fn start_session(
        &self,
        ticket: Ticket,
        lifetime: SessionLifetime,
        pending: Vec<PendingRequest>,
        only_answers: bool,
    ) -> Result<(Arc<Session>, Reader, Option<HeaderValue>), Refusal> {
        let client_id = self.context.next_client();
        let (sender, said) = ClientSender::new();
        let session = Session::new(client_id, ticket, said, lifetime);
        let reader = session.open_post(pending, only_answers);
        let mut name = None;
        if lifetime != SessionLifetime::OnePost {
            name = Some(random_token().map_err(|_| ended())?);
        }
        let permit = self.context.events.reserve().await.map_err(|_| ended())?;
        // From here to the task nothing waits: this request may end at any point where it does, and
        // who has called must also hang up.
        permit.send(ClientEvent::Connected { ticket, client_id, sender });
        if let Some(name) = &name {
            lock(&self.sessions).insert(name.clone(), session.clone());
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
        let name = name.and_then(|name| HeaderValue::from_str(&name).ok());
        Ok((session, reader, name))
    }

    async fn hand_over(
        &self,
        session: &Session,
        messages: Vec<(Bytes, Message)>,
    ) -> Result<(), Refusal> {
        for (line, _) in messages {
            let heard = ClientEvent::Line { client_id: session.client_id, line };
            self.context.events.send(heard).await.map_err(|_| ended())?;
        }
        Ok(())
    }

    fn session(&self, ticket: Ticket, headers: &HeaderMap) -> Result<Arc<Session>, Refusal> {
        let name = headers.get(SESSION).and_then(|name| name.to_str().ok()).unwrap_or_default();
        let found = lock(&self.sessions).get(name).filter(|it| it.ticket == ticket).cloned();
        found.ok_or_else(|| {
            let words = "this Mcp-Session-Id is not known (any more): send initialize without one";
            refusal(StatusCode::NOT_FOUND, Id::NULL, code::INVALID_REQUEST, words)
        })
    }

    fn has_local_host(&self, headers: &HeaderMap) -> bool {
        let names = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let mut hosts = headers.get_all(HOST).iter().peekable();
        let ours = |host: &HeaderValue| {
            names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(host.as_bytes()))
        };
        hosts.peek().is_some() && hosts.all(ours)
    }
}

/// The answer to requests without a session. If it is a refusal, version 2026-07-28 wants to see that
/// in the status.
async fn stateless_reply(
    mut reader: Reader,
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
        // A server that has not heard of this request is an older one. Clients look for that in a 400;
        // a 404 would be a method that a server of that version does not have.
        Some(MessageKind::Error(code::METHOD_NOT_FOUND)) if discovering => StatusCode::BAD_REQUEST,
        Some(MessageKind::Error(code::METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
        Some(MessageKind::Error(code)) if BAD_REQUEST_CODES.contains(&code) => {
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

/// All answers as one text, for a client that wants no stream.
async fn collected_reply(mut reader: Reader, batch: bool) -> Reply {
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

/// Reads a body of the allowed length.
async fn read(headers: &HeaderMap, body: Incoming, longest: usize) -> Result<Bytes, Refusal> {
    let declared =
        headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse::<usize>().ok());
    let mut body = pin!(body);
    let mut text = BytesMut::new();
    let mut too_long = declared.is_some_and(|declared| declared > longest);
    while !too_long && let Some(chunk) = next_chunk(body.as_mut()).await {
        let chunk = chunk.map_err(|_| Box::new(bare(StatusCode::BAD_REQUEST)))?;
        too_long = text.len() + chunk.len() > longest;
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
    let words = format!(
        "this message is too long: the conductor reads at most {longest} bytes; start it with a \
         larger --max-line"
    );
    Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, Id::NULL, code::INVALID_REQUEST, &words))
}

async fn next_chunk(mut body: Pin<&mut Incoming>) -> Option<hyper::Result<Bytes>> {
    let frame = poll_fn(|cx| body.as_mut().poll_frame(cx)).await?;
    // Trailers say nothing to us.
    Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
}

/// The messages of a body, each as one line, and whether they came as a batch.
fn split(body: Bytes) -> Result<(Vec<(Bytes, Message)>, bool), Refusal> {
    let text = Json::parse(body).map_err(|syntax| malformed(Malformed::NotJson(syntax)))?;
    if !text.is_array() {
        return Ok((vec![parse(&text)?], false));
    }
    let messages = text.elements().iter().map(parse).collect::<Result<Vec<_>, Refusal>>()?;
    match messages.is_empty() {
        true => Err(malformed(Malformed::NotAMessage { id: Id::NULL, why: "an empty batch" })),
        false => Ok((messages, true)),
    }
}

/// The same lines, for who does not know what a refusal is made of.
pub(super) fn lines_of(body: Bytes) -> Option<Vec<Bytes>> {
    let (messages, _) = split(body).ok()?;
    Some(messages.into_iter().map(|(line, _)| line).collect())
}

fn parse(text: &Json) -> Parsed {
    let line = Bytes::copy_from_slice(text.as_bytes());
    let message = Message::parse(&line).map_err(malformed)?;
    Ok((line, message))
}

fn malformed(why: Malformed) -> Refusal {
    let words = why.to_string();
    let (id, code) = match why {
        Malformed::NotJson(_) => (Id::NULL, code::PARSE_ERROR),
        Malformed::NotAMessage { id, .. } => (id, code::INVALID_REQUEST),
        Malformed::AnswerWithoutId => (Id::NULL, code::INVALID_REQUEST),
    };
    refusal(StatusCode::BAD_REQUEST, id, code, &words)
}

fn not_acceptable(words: &str) -> Refusal {
    refusal(StatusCode::NOT_ACCEPTABLE, Id::NULL, code::INVALID_REQUEST, words)
}

/// The conductor does not listen any more.
fn ended() -> Refusal {
    let words = "the conductor is about to end";
    refusal(StatusCode::SERVICE_UNAVAILABLE, Id::NULL, code::INTERNAL_ERROR, words)
}

/// Does the client take this type? Without a word about it, any.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut said = headers.get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok()).peekable();
    let family = wanted.split('/').next().unwrap_or_default();
    let fits = |range: &str| {
        let range = range.split(';').next().unwrap_or_default().trim();
        range == "*/*"
            || range.eq_ignore_ascii_case(wanted)
            || range.strip_suffix("/*").is_some_and(|it| it.eq_ignore_ascii_case(family))
    };
    said.peek().is_none() || said.any(|value| value.split(',').any(fits))
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim().as_bytes())
}

/// A web page from elsewhere says so in its `Origin`, whatever name it has given to this machine.
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
