//! The stdio transport for MCP clients: the command `conductor mcp PORT` and its listener.
//!
//! The conductor declares `conductor mcp PORT` as a stdio MCP server to an agent without MCP over ACP. The
//! command connects its standard streams to the running conductor on loopback. The connection begins with a
//! line from each side: `{"conductor":"SECRET"}`, and the answer `{"conductor":"welcome"}`. Lines of MCP
//! follow until either side closes the connection.

use std::future::poll_fn;
use std::io::{self, Cursor, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use acp_wire::json::write_string;
use acp_wire::message::LineScan;
use acp_wire::{DamagedLine, Id, Json, Message, Outcome, code};
use bytes::Bytes;
use mcp::{ClientId, Ticket};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::listeners::{Acceptor, Credentials, ListenerContext};
use super::{ClientEvent, ClientReceiver, ClientSender};
use crate::lines::{Line, Lines};
use crate::relay::SECRET;
use crate::unauthenticated::TIMEOUT;
#[cfg(target_os = "linux")]
use crate::unauthenticated::{Slot, Unauthenticated};

/// The answer to a client that has authenticated.
pub(super) const ACCEPTED: &str = "{\"conductor\":\"welcome\"}\n";

/// The maximum length of the first line.
pub(super) const MAX_FIRST_LINE: usize = 4096;

/// Lines are collected up to this size before they are written.
const BATCH: usize = 64 * 1024;

/// How long to wait for a client to close its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves authenticated clients until `closing`, then waits until all clients have disconnected.
pub(super) async fn listen(
    listener: TcpListener,
    credentials: Credentials,
    context: ListenerContext,
    mut closing: watch::Receiver<()>,
) {
    #[cfg(target_os = "linux")]
    let handover_listener =
        listener.local_addr().and_then(|it| super::handover::listen(it.port())).ok();
    let acceptor = Acceptor::new(listener);
    // Handover connections are accepted from the same user only.
    #[cfg(target_os = "linux")]
    let same_user = Unauthenticated::default();
    let mut connections = JoinSet::new();
    loop {
        #[cfg(target_os = "linux")]
        let handover = accept(handover_listener.as_ref(), &same_user);
        #[cfg(not(target_os = "linux"))]
        let handover = std::future::pending::<()>();
        let stream = tokio::select! {
            _ = closing.changed() => break,
            Some(_) = connections.join_next() => continue,
            accepted = acceptor.next() => accepted,
            _stream = handover => {
                #[cfg(target_os = "linux")]
                connections.spawn(take_over(_stream, credentials.clone(), context.clone()));
                continue;
            }
        };
        let slot = acceptor.reserve_slot(&stream).await;
        let (credentials, context) = (credentials.clone(), context.clone());
        connections.spawn(async move {
            let (mut from, mut to) = stream.into_split();
            let authenticated =
                slot.authenticate(authenticate_client(&mut from, &credentials)).await;
            let Some((ticket, rest)) = authenticated else { return };
            if to.write_all(ACCEPTED.as_bytes()).await.is_ok() {
                serve(ticket, AsyncReadExt::chain(Cursor::new(rest), from), to, context).await;
            }
        });
    }
    drop(acceptor);
    #[cfg(target_os = "linux")]
    drop(handover_listener);
    while connections.join_next().await.is_some() {}
}

/// The next handover connection.
#[cfg(target_os = "linux")]
async fn accept(
    handover_listener: Option<&tokio::net::UnixListener>,
    same_user: &Unauthenticated,
) -> (tokio::net::UnixStream, Slot) {
    let Some(listener) = handover_listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            // Every user can connect to an abstract socket.
            Ok((stream, _)) if !super::handover::is_same_user(&stream) => {}
            Ok((stream, _)) => return (stream, same_user.add_same_user()),
            // For example, the process has run out of file descriptors.
            Err(_) => tokio::time::sleep(super::listeners::ACCEPT_RETRY).await,
        }
    }
}

/// Serves a client that hands over its standard streams.
#[cfg(target_os = "linux")]
async fn take_over(
    (connection, slot): (tokio::net::UnixStream, Slot),
    credentials: Credentials,
    context: ListenerContext,
) {
    use super::handover::{HandedOverReader, receive};
    let taken = slot.authenticate(async {
        let (line, streams) = receive(&connection).await?;
        let ticket = ticket_of(line, &credentials)?;
        Some((ticket, HandedOverReader::take(streams, connection).await?))
    });
    if let Some((ticket, (from, to))) = taken.await {
        serve(ticket, from, to, context).await;
    }
}

/// The ticket with the secret in the first line.
fn ticket_of(line: impl Into<Bytes>, credentials: &Credentials) -> Option<Ticket> {
    credentials.by_secret(secret_of(line)?.as_bytes())
}

/// The secret in the first line.
pub(super) fn secret_of(line: impl Into<Bytes>) -> Option<String> {
    let secret = Json::parse(line).ok()?.member("conductor")?;
    secret.text().map(|secret| secret.into_owned())
}

/// Reads the first line. Returns the ticket, and the bytes that were read after the line.
async fn authenticate_client(
    from: &mut OwnedReadHalf,
    credentials: &Credentials,
) -> Option<(Ticket, Vec<u8>)> {
    let (line, rest) = first_line(from).await?;
    Some((ticket_of(line, credentials)?, rest))
}

/// Reads the first line. Also returns the bytes that were read after it.
pub(super) async fn first_line(from: &mut (impl AsyncRead + Unpin)) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(end) = memchr::memchr(b'\n', &read) {
            break end;
        }
        if read.len() >= MAX_FIRST_LINE || from.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let rest = read.split_off(end + 1);
    Some((read, rest))
}

/// Serves a client until it disconnects or the conductor disconnects it.
async fn serve(
    ticket: Ticket,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    context: ListenerContext,
) {
    let client_id = context.next_client();
    let (sender, mut receiver) = ClientSender::new();
    if context.events.send(ClientEvent::Connected { ticket, client_id, sender }).await.is_err() {
        return;
    }
    let (errors, mut error_receiver) = channel(1);
    let disconnected = {
        let mut writing = std::pin::pin!(write(&mut receiver, &mut error_receiver, &mut to));
        tokio::select! {
            ended = read(&mut from, client_id, &context, errors) => {
                let _ = context.events.send(ClientEvent::Disconnected(client_id)).await;
                if ended.is_ok() {
                    // The client has closed only its output. It still reads the pending answers, until the
                    // conductor closes the connection.
                    let _ = writing.await;
                }
                true
            }
            _ = &mut writing => false,
        }
    };
    let _ = to.shutdown().await;
    if !disconnected {
        // Closing a socket with unread data would discard the data that the client has not read.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, discard(&mut from)).await;
        let _ = context.events.send(ClientEvent::Disconnected(client_id)).await;
    }
}

/// Reads lines from the client until it closes its output. A broken connection is an error.
async fn read(
    from: &mut (impl AsyncRead + Unpin),
    client_id: ClientId,
    context: &ListenerContext,
    errors: Sender<Bytes>,
) -> io::Result<()> {
    let mut lines = Lines::new(context.max_line);
    loop {
        let count = poll_fn(|cx| lines.poll_fill(from, cx)).await?;
        while let Some(line) = lines.next_line() {
            pass_on(line, client_id, context, &errors).await?;
        }
        if count == 0 {
            if let Some(line) = lines.last_line() {
                pass_on(line, client_id, context, &errors).await?;
            }
            return Ok(());
        }
    }
}

async fn pass_on(
    line: Line,
    client_id: ClientId,
    context: &ListenerContext,
    errors: &Sender<Bytes>,
) -> io::Result<()> {
    let shutting_down = || io::Error::other("the conductor is shutting down");
    match line {
        Line::Text(line) => context
            .events
            .send(ClientEvent::Line { client_id, line })
            .await
            .map_err(|_| shutting_down()),
        Line::TooLong { scan, length } => {
            let error = too_long_error(&scan, length, context.max_line);
            // A response is replaced by the error. Other messages are answered with it.
            if let DamagedLine::Response(_) = DamagedLine::from(&*scan) {
                let event = ClientEvent::Line { client_id, line: error };
                return context.events.send(event).await.map_err(|_| shutting_down());
            }
            errors.send(error).await.map_err(|_| shutting_down())
        }
    }
}

/// The error for a line that is too long. It has the id of the request or response, if that can be determined.
pub(super) fn too_long_error(scan: &LineScan, length: usize, max_line: usize) -> Bytes {
    let id = match DamagedLine::from(scan) {
        DamagedLine::Request(id) | DamagedLine::Response(id) => id,
        DamagedLine::Ambiguous(_) | DamagedLine::Unreadable => Id::NULL,
    };
    let message = format!(
        "this line of {length} bytes is too long: the limit is {max_line} bytes; start the conductor \
         with a larger --max-line"
    );
    Message::response(id, Outcome::error(code::INVALID_REQUEST, &message)).to_line().into()
}

/// Writes the lines for the client, and errors, until the sender is dropped.
async fn write(
    receiver: &mut ClientReceiver,
    error_receiver: &mut Receiver<Bytes>,
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut batch = Vec::new();
    loop {
        let (first, mut read) = tokio::select! {
            Some(line) = error_receiver.recv() => (line, 0),
            line = receiver.next() => match line {
                Some(line) => (line.clone(), line.len()),
                None => return to.flush().await,
            },
        };
        append_line(&mut batch, &first);
        while batch.len() < BATCH
            && let Some(line) = receiver.try_next()
        {
            read += line.len();
            append_line(&mut batch, &line);
        }
        write_all(&batch, receiver, to).await?;
        receiver.mark_written(read);
        batch.clear();
        // Releases the memory of a long line.
        batch.shrink_to(BATCH);
    }
}

/// Writes the whole text. Once the sender is dropped, a client that does not read is given up.
async fn write_all(
    mut text: &[u8],
    receiver: &ClientReceiver,
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    while !text.is_empty() {
        match tokio::time::timeout(TIMEOUT, to.write(text)).await {
            Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => text = &text[count?..],
            Err(_) if receiver.lines.is_closed() => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => {}
        }
    }
    Ok(())
}

fn append_line(batch: &mut Vec<u8>, line: &[u8]) {
    batch.reserve(line.len() + 1);
    batch.extend_from_slice(line);
    batch.push(b'\n');
}

async fn discard(from: &mut (impl AsyncRead + Unpin)) {
    let _ = tokio::io::copy(from, &mut tokio::io::sink()).await;
}

/// The time that `conductor mcp` has to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// The time that `conductor mcp` has to connect and authenticate.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_millis(900);

/// `conductor mcp PORT`: copies between the standard streams and a running conductor until either side closes.
/// Without a secret in the environment it connects to any service on that port.
///
/// # Errors
/// The connection or authentication failed.
pub fn run(port: u16) -> Result<(), String> {
    let secret = std::env::var(SECRET).unwrap_or_default();
    let started = Instant::now();
    #[cfg(target_os = "linux")]
    if !secret.is_empty()
        && super::handover::hand_over(port, &secret, started + CONNECT_TIMEOUT).is_some()
    {
        return Ok(());
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(|error| {
        format!(
            "no conductor is listening on port {port}: {error}; the conductor that declared this \
             MCP server has exited, or the port is wrong"
        )
    })?;
    let failed =
        |error: io::Error| format!("lost the connection to the conductor on port {port}: {error}");
    stream.set_nodelay(true).map_err(failed)?;
    if !secret.is_empty() {
        authenticate(&mut stream, &secret, started + AUTHENTICATION_TIMEOUT).map_err(|why| match why {
            Rejection::UnknownSecret => format!(
                "the conductor on port {port} rejected the secret in {SECRET}; the session that \
                 declared this MCP server has ended"
            ),
            Rejection::NotAConductor => format!(
                "the service on port {port} is not a conductor; the conductor that declared this \
                 MCP server has exited, or the port is wrong"
            ),
        })?;
        stream.set_read_timeout(None).map_err(failed)?;
    }
    let mut sending = stream.try_clone().map_err(failed)?;
    std::thread::spawn(move || {
        let _ = copy(&mut io::stdin().lock(), &mut sending);
        let _ = sending.shutdown(Shutdown::Write);
    });
    match copy(&mut stream, &mut io::stdout().lock()) {
        // The MCP client has closed the standard output of this command.
        Err(CopyError::Write) => Ok(()),
        // The conductor closed the connection while data was in transit.
        Err(CopyError::Read(error)) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(CopyError::Read(error)) => Err(failed(error)),
        Ok(()) => Ok(()),
    }
}

/// The first line of a connection, with the secret.
pub(super) fn authentication_line(secret: &str) -> Vec<u8> {
    let mut line = b"{\"conductor\":".to_vec();
    write_string(secret, &mut line);
    line.extend_from_slice(b"}\n");
    line
}

/// Why authentication failed.
enum Rejection {
    /// A conductor closed the connection.
    UnknownSecret,
    /// The service did not answer like a conductor.
    NotAConductor,
}

/// Sends the secret and reads the answer. Does not read beyond it.
fn authenticate(stream: &mut TcpStream, secret: &str, until: Instant) -> Result<(), Rejection> {
    stream.write_all(&authentication_line(secret)).map_err(|_| Rejection::UnknownSecret)?;
    let mut answer = vec![0; ACCEPTED.len()];
    let mut read = 0;
    while read < answer.len() {
        let left = until.saturating_duration_since(Instant::now());
        // A read timeout of zero is not allowed.
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(Rejection::NotAConductor);
        }
        match stream.read(&mut answer[read..]) {
            Ok(0) if read == 0 => return Err(Rejection::UnknownSecret),
            Ok(0) => return Err(Rejection::NotAConductor),
            Ok(count) => read += count,
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::ConnectionReset if read == 0 => {
                    return Err(Rejection::UnknownSecret);
                }
                _ => return Err(Rejection::NotAConductor),
            },
        }
        if !ACCEPTED.as_bytes().starts_with(&answer[..read]) {
            return Err(Rejection::NotAConductor);
        }
    }
    Ok(())
}

/// Which side of a copy failed.
enum CopyError {
    Read(io::Error),
    Write,
}

/// Copies and flushes each chunk as it arrives.
fn copy(from: &mut impl Read, to: &mut impl Write) -> Result<(), CopyError> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&buffer[..count]).map_err(|_| CopyError::Write)?;
                to.flush().map_err(|_| CopyError::Write)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CopyError::Read(error)),
        }
    }
}
