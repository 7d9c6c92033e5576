//! Clients behind `conductor mcp PORT`, and that command itself.
//!
//! An agent without MCP over ACP is told to start `conductor mcp PORT` as if it were the MCP server.
//! It joins its standard streams to the running conductor on loopback. A connection begins with one
//! line each way: `{"conductor":"SECRET"}`, and the answer `{"conductor":"welcome"}`. Then lines of
//! MCP travel both ways until either side closes.

use std::future::poll_fn;
use std::io::{self, Cursor, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use acp_wire::json::write_string;
use acp_wire::message::Scan;
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

pub(super) const WELCOME: &str = "{\"conductor\":\"welcome\"}\n";

/// The longest first line that is read.
pub(super) const LONGEST_GREETING: usize = 4096;

/// How much is gathered before it is written.
const BATCH: usize = 64 * 1024;

/// How long a client may take to notice that we have closed.
const FAREWELL: Duration = Duration::from_secs(1);

/// Lets in who knows a secret, until it is closed; then waits for the calls to end.
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
    // What comes the short way is known to be the same user's.
    #[cfg(target_os = "linux")]
    let ours = Unauthenticated::default();
    let mut calls = JoinSet::new();
    loop {
        #[cfg(target_os = "linux")]
        let handed_over = accept(handover_listener.as_ref(), &ours);
        #[cfg(not(target_os = "linux"))]
        let handed_over = std::future::pending::<()>();
        let stream = tokio::select! {
            _ = closing.changed() => break,
            Some(_) = calls.join_next() => continue,
            accepted = acceptor.next() => accepted,
            _stream = handed_over => {
                #[cfg(target_os = "linux")]
                calls.spawn(take_over(_stream, credentials.clone(), context.clone()));
                continue;
            }
        };
        let slot = acceptor.reserve_slot(&stream).await;
        let (credentials, context) = (credentials.clone(), context.clone());
        calls.spawn(async move {
            let (mut from, mut to) = stream.into_split();
            let greeted = slot.authenticate(greet(&mut from, &credentials)).await;
            let Some((ticket, rest)) = greeted else { return };
            if to.write_all(WELCOME.as_bytes()).await.is_ok() {
                call(ticket, AsyncReadExt::chain(Cursor::new(rest), from), to, context).await;
            }
        });
    }
    drop(acceptor);
    #[cfg(target_os = "linux")]
    drop(handover_listener);
    while calls.join_next().await.is_some() {}
}

/// The next client that comes the short way, where there is one.
#[cfg(target_os = "linux")]
async fn accept(
    handover_listener: Option<&tokio::net::UnixListener>,
    ours: &Unauthenticated,
) -> (tokio::net::UnixStream, Slot) {
    let Some(listener) = handover_listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            // Names of this kind can be reached by every user.
            Ok((stream, _)) if !super::handover::is_of_our_user(&stream) => {}
            Ok((stream, _)) => return (stream, ours.add_same_user()),
            // Out of descriptors, perhaps; that may pass.
            Err(_) => tokio::time::sleep(super::listeners::ACCEPT_RETRY).await,
        }
    }
}

/// A call that came the short way.
#[cfg(target_os = "linux")]
async fn take_over(
    (holder, slot): (tokio::net::UnixStream, Slot),
    credentials: Credentials,
    context: ListenerContext,
) {
    use super::handover::{Held, receive};
    let taken = slot.authenticate(async {
        let (line, streams) = receive(&holder).await?;
        let ticket = ticket_of(line, &credentials)?;
        Some((ticket, Held::take(streams, holder).await?))
    });
    if let Some((ticket, (from, to))) = taken.await {
        call(ticket, from, to, context).await;
    }
}

/// Whose secret the first line says.
fn ticket_of(line: impl Into<Bytes>, credentials: &Credentials) -> Option<Ticket> {
    credentials.by_secret(secret_of(line)?.as_bytes())
}

/// The secret that the first line says.
pub(super) fn secret_of(line: impl Into<Bytes>) -> Option<String> {
    let secret = Json::parse(line).ok()?.member("conductor")?;
    secret.text().map(|secret| secret.into_owned())
}

/// Reads the first line. Gives whose secret it says, and what was read beyond it.
async fn greet(from: &mut OwnedReadHalf, credentials: &Credentials) -> Option<(Ticket, Vec<u8>)> {
    let (line, rest) = first_line(from).await?;
    Some((ticket_of(line, credentials)?, rest))
}

/// Reads the first line, and what comes along with it.
pub(super) async fn first_line(from: &mut (impl AsyncRead + Unpin)) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(end) = memchr::memchr(b'\n', &read) {
            break end;
        }
        if read.len() >= LONGEST_GREETING || from.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let rest = read.split_off(end + 1);
    Some((read, rest))
}

/// One call, from `Called` to `HungUp`.
async fn call(
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
    let (complain, mut complaints) = channel(1);
    let hung_up = {
        let mut writing = std::pin::pin!(write(&mut receiver, &mut complaints, &mut to));
        tokio::select! {
            ended = read(&mut from, client_id, &context, complain) => {
                let _ = context.events.send(ClientEvent::Disconnected(client_id)).await;
                if ended.is_ok() {
                    // It has only closed its side: it still listens to what was on the way, until
                    // the conductor, who knows that it has left, says no more.
                    let _ = writing.await;
                }
                true
            }
            _ = &mut writing => false,
        }
    };
    let _ = to.shutdown().await;
    if !hung_up {
        // Closing with something unread would take from the client what it has not read itself.
        let _ = tokio::time::timeout(FAREWELL, discard(&mut from)).await;
        let _ = context.events.send(ClientEvent::Disconnected(client_id)).await;
    }
}

/// Hands over what the client says, until it closes its side or (an error) the connection breaks.
async fn read(
    from: &mut (impl AsyncRead + Unpin),
    client_id: ClientId,
    context: &ListenerContext,
    complain: Sender<Bytes>,
) -> io::Result<()> {
    let mut lines = Lines::new(context.longest_line);
    loop {
        let count = poll_fn(|cx| lines.poll_fill(from, cx)).await?;
        while let Some(line) = lines.next_line() {
            hand_over(line, client_id, context, &complain).await?;
        }
        if count == 0 {
            if let Some(line) = lines.last_line() {
                hand_over(line, client_id, context, &complain).await?;
            }
            return Ok(());
        }
    }
}

async fn hand_over(
    line: Line,
    client_id: ClientId,
    context: &ListenerContext,
    complain: &Sender<Bytes>,
) -> io::Result<()> {
    let gone = || io::Error::other("nobody listens any more");
    match line {
        Line::Text(line) => {
            context.events.send(ClientEvent::Line { client_id, line }).await.map_err(|_| gone())
        }
        Line::TooLong { scan, length } => {
            let complaint = too_long(&scan, length, context.longest_line);
            // An answer is not answered: the error takes its place.
            if let DamagedLine::Response(_) = DamagedLine::from(&*scan) {
                let heard = ClientEvent::Line { client_id, line: complaint };
                return context.events.send(heard).await.map_err(|_| gone());
            }
            complain.send(complaint).await.map_err(|_| gone())
        }
    }
}

/// The answer to a line that was not read, for the request that it was, or in place of the answer that
/// it was, if that can be told.
pub(super) fn too_long(scan: &Scan, length: usize, longest: usize) -> Bytes {
    let id = match DamagedLine::from(scan) {
        DamagedLine::Request(id) | DamagedLine::Response(id) => id,
        DamagedLine::Ambiguous(_) | DamagedLine::Unreadable => Id::NULL,
    };
    let words = format!(
        "this line of {length} bytes is too long: the conductor reads at most {longest}; start it \
         with a larger --max-line"
    );
    Message::response(id, Outcome::error(code::INVALID_REQUEST, &words)).to_line().into()
}

/// Writes what is receiver to the client, and our complaints, until there is nothing more to say.
async fn write(
    receiver: &mut ClientReceiver,
    complaints: &mut Receiver<Bytes>,
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut batch = Vec::new();
    loop {
        let (first, mut read) = tokio::select! {
            Some(line) = complaints.recv() => (line, 0),
            line = receiver.next() => match line {
                Some(line) => (line.clone(), line.len()),
                None => return to.flush().await,
            },
        };
        add(&mut batch, &first);
        while batch.len() < BATCH
            && let Some(line) = receiver.try_next()
        {
            read += line.len();
            add(&mut batch, &line);
        }
        write_all(&batch, receiver, to).await?;
        receiver.mark_written(read);
        batch.clear();
        // A long line does not keep its room.
        batch.shrink_to(BATCH);
    }
}

/// Writes it all; a client that takes nothing is given up when the call is over.
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

fn add(batch: &mut Vec<u8>, line: &[u8]) {
    batch.reserve(line.len() + 1);
    batch.extend_from_slice(line);
    batch.push(b'\n');
}

async fn discard(from: &mut (impl AsyncRead + Unpin)) {
    let _ = tokio::io::copy(from, &mut tokio::io::sink()).await;
}

/// How long connecting may take, and connecting and the conductor's first words together: together
/// less than a second.
const TO_CONNECT: Duration = Duration::from_millis(500);
const TO_BE_WELCOME: Duration = Duration::from_millis(900);

/// `conductor mcp PORT`: joins our standard streams to the conductor that waits there, until either
/// side closes. Without a secret it joins them to whatever listens there.
pub fn run(port: u16) -> Result<(), String> {
    let secret = std::env::var(SECRET).unwrap_or_default();
    let started = Instant::now();
    #[cfg(target_os = "linux")]
    if !secret.is_empty()
        && super::handover::hand_over(port, &secret, started + TO_CONNECT).is_some()
    {
        return Ok(());
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, TO_CONNECT).map_err(|error| {
        format!(
            "no conductor listens on port {port}: {error}; the conductor that declared this MCP \
             server has ended, or the port is wrong"
        )
    })?;
    let failed =
        |error: io::Error| format!("the connection to the conductor on port {port} broke: {error}");
    stream.set_nodelay(true).map_err(failed)?;
    if !secret.is_empty() {
        introduce(&mut stream, &secret, started + TO_BE_WELCOME).map_err(|why| match why {
            Refusal::Unknown => format!(
                "the conductor on port {port} does not know this secret: the session it belonged \
                 to has ended"
            ),
            Refusal::Stranger => format!(
                "what listens on port {port} is not a conductor: the conductor that declared this \
                 MCP server has ended, or the port is wrong"
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
        // Whoever started us does not listen any more.
        Err(Broken::To) => Ok(()),
        // The conductor has closed while something was on its way to it.
        Err(Broken::From(error)) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(Broken::From(error)) => Err(failed(error)),
        Ok(()) => Ok(()),
    }
}

/// The first line of a connection.
pub(super) fn introduction(secret: &str) -> Vec<u8> {
    let mut line = b"{\"conductor\":".to_vec();
    write_string(secret, &mut line);
    line.extend_from_slice(b"}\n");
    line
}

enum Refusal {
    /// A conductor, but not for us.
    Unknown,
    /// Something else.
    Stranger,
}

/// Says the secret and waits for the welcome, not a byte more.
fn introduce(stream: &mut TcpStream, secret: &str, until: Instant) -> Result<(), Refusal> {
    stream.write_all(&introduction(secret)).map_err(|_| Refusal::Unknown)?;
    let mut welcome = vec![0; WELCOME.len()];
    let mut read = 0;
    while read < welcome.len() {
        let left = until.saturating_duration_since(Instant::now());
        // A timeout of zero would be none at all.
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(Refusal::Stranger);
        }
        match stream.read(&mut welcome[read..]) {
            Ok(0) if read == 0 => return Err(Refusal::Unknown),
            Ok(0) => return Err(Refusal::Stranger),
            Ok(count) => read += count,
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::ConnectionReset if read == 0 => return Err(Refusal::Unknown),
                _ => return Err(Refusal::Stranger),
            },
        }
        if !WELCOME.as_bytes().starts_with(&welcome[..read]) {
            return Err(Refusal::Stranger);
        }
    }
    Ok(())
}

/// Which end of a copy failed.
enum Broken {
    From(io::Error),
    To,
}

/// Copies what is there as it comes, without waiting for more.
fn copy(from: &mut impl Read, to: &mut impl Write) -> Result<(), Broken> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&buffer[..count]).map_err(|_| Broken::To)?;
                to.flush().map_err(|_| Broken::To)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Broken::From(error)),
        }
    }
}
