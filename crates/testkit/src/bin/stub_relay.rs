//! The benchmark's floor: a conductor that copies bytes without parsing them, `stub_relay [--through] PROXIES`.
//!
//! It starts PROXIES times `stub_proxy --raw` and one `stub_agent`, all from its own folder. It moves bytes along the chain
//! as a conductor does: one process, one thread, one pipe to and one pipe from each component, and every proxy is passed in
//! both directions. So a message crosses the same pipes and wakes the same processes in the same order as with a real
//! conductor. Each hop costs one `poll`, one `read` and one `write` here, and one `read` and one `write` in the proxy. The
//! floor does not do the rest of a conductor's work: it does not find lines, parse JSON, add or remove envelopes, or
//! replace ids.
//!
//! A proxy has one output for both directions. The relay must know the direction of a proxy's bytes without parsing them,
//! so it sends them in pieces with a header of five bytes (direction and length). The raw proxy copies the headers like
//! all other bytes.
//!
//! Long messages travel through the floor in pieces, while a conductor needs a whole line before it can pass it on. So
//! no conductor can reach this floor with big prompts.
//!
//! With `--through`, another process before the relay copies bytes both ways, as `conductor mcp` does between an MCP client and
//! the conductor. This is the floor of a tool call: the client, the copying process, the relay, the raw proxies between the
//! agent and the proxy with the tools, and instead of that proxy the stub agent, which answers.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use testkit::stub::{copy, stdio};

/// A little less than the capacity of a pipe, so that a piece and its header fit into one write.
const CHUNK: usize = 63 * 1024;
const HEADER: usize = 5;
/// The maximum number of bytes in the whole chain that wait for full pipes.
const MAX_WAITING: usize = 4 * CHUNK;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let through = arguments.next_if(|it| it == "--through").is_some();
    let proxies: usize = arguments.next().and_then(|it| it.parse().ok()).unwrap_or(0);
    let (input, output) = stdio()?;
    if through {
        return copy_to_relay(proxies, input, output);
    }
    let mut seats = vec![Seat::new(input, output)?];
    for _ in 0..proxies {
        seats.push(Seat::start("stub_proxy", &["--raw"])?);
    }
    seats.push(Seat::start("stub_agent", &[])?);
    Relay { seats, chunk: vec![0; CHUNK] }.run()
}

/// Copies bytes to and from a relay process, with one thread for each direction. So a message costs only one `read` and one
/// `write`.
fn copy_to_relay(proxies: usize, input: OwnedFd, output: OwnedFd) -> io::Result<()> {
    let mut relay = Command::new(std::env::current_exe()?)
        .arg(proxies.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(from), Some(to)) = (relay.stdout.take(), relay.stdin.take()) else {
        return Err(io::Error::other("a relay without pipes"));
    };
    std::thread::spawn(move || copy(input, to));
    copy(from, output)
}

/// Moves bytes between the seats. The first seat is the editor, the last one the agent.
struct Relay {
    seats: Vec<Seat>,
    chunk: Vec<u8>,
}

impl Relay {
    /// Copies until a seat closes its pipe. The components exit when their pipes are closed.
    fn run(&mut self) -> io::Result<()> {
        loop {
            let ready = self.wait()?;
            for (seat, flags) in ready.into_iter().enumerate() {
                if flags.writable {
                    self.seats[seat].flush()?;
                }
                if flags.readable && !self.read(seat)? {
                    return Ok(());
                }
            }
        }
    }

    fn wait(&self) -> io::Result<Vec<Ready>> {
        let mut ready = vec![Ready::default(); self.seats.len()];
        let mut polled = Vec::with_capacity(self.seats.len());
        let mut owners = Vec::with_capacity(self.seats.len());
        let waiting: usize = self.seats.iter().map(|it| it.pending.len()).sum();
        for (seat, it) in self.seats.iter().enumerate() {
            // Proxies are always read: otherwise two proxies that wait for each other could block forever. The editor and
            // the agent are not read while too many bytes wait.
            let is_end = seat == 0 || seat + 1 == self.seats.len();
            if !is_end || waiting < MAX_WAITING {
                polled.push(PollFd::new(&it.from, PollFlags::IN));
                owners.push((seat, false));
            }
            if !it.pending.is_empty() {
                polled.push(PollFd::new(&it.to, PollFlags::OUT));
                owners.push((seat, true));
            }
        }
        poll(&mut polled, None)?;
        for (poll, (seat, writing)) in polled.iter().zip(owners) {
            let flag = if writing { &mut ready[seat].writable } else { &mut ready[seat].readable };
            *flag = !poll.revents().is_empty();
        }
        Ok(ready)
    }

    /// Reads once from a seat, and writes once to each neighbour that gets bytes.
    fn read(&mut self, seat: usize) -> io::Result<bool> {
        let last = self.seats.len() - 1;
        let read = self.seats[seat].from.read(&mut self.chunk)?;
        let chunk = std::mem::take(&mut self.chunk);
        if seat == 0 {
            self.queue(1, TO_AGENT, &chunk[..read]);
        } else if seat == last {
            self.queue(last - 1, TO_EDITOR, &chunk[..read]);
        } else {
            let mut rest = &chunk[..read];
            while let Some((direction, piece)) = self.seats[seat].piece.next(&mut rest) {
                self.queue(
                    if direction == TO_AGENT { seat + 1 } else { seat - 1 },
                    direction,
                    piece,
                );
            }
        }
        self.chunk = chunk;
        for neighbour in [seat.wrapping_sub(1), seat + 1] {
            if let Some(it) = self.seats.get_mut(neighbour) {
                it.flush()?;
            }
        }
        Ok(read > 0)
    }

    fn queue(&mut self, to: usize, direction: u8, piece: &[u8]) {
        let is_proxy = to != 0 && to != self.seats.len() - 1;
        let pending = &mut self.seats[to].pending;
        if is_proxy {
            pending.push(direction);
            pending.extend_from_slice(&(piece.len() as u32).to_le_bytes());
        }
        pending.extend_from_slice(piece);
    }
}

#[derive(Clone, Copy, Default)]
struct Ready {
    readable: bool,
    writable: bool,
}

struct Seat {
    from: File,
    to: File,
    pending: Vec<u8>,
    piece: Piece,
}

impl Seat {
    fn new(from: impl Into<OwnedFd>, to: impl Into<OwnedFd>) -> io::Result<Self> {
        let (from, to) = (File::from(from.into()), File::from(to.into()));
        fcntl_setfl(&to, fcntl_getfl(&to)? | OFlags::NONBLOCK)?;
        Ok(Self { from, to, pending: Vec::with_capacity(2 * CHUNK), piece: Piece::default() })
    }

    fn start(name: &str, arguments: &[&str]) -> io::Result<Self> {
        let program = std::env::current_exe()?.with_file_name(name);
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        match (child.stdout.take(), child.stdin.take()) {
            (Some(from), Some(to)) => Self::new(from, to),
            _ => Err(io::Error::other("a component without pipes")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        match self.to.write(&self.pending) {
            Ok(written) => {
                self.pending.drain(..written);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

const TO_AGENT: u8 = b'>';
const TO_EDITOR: u8 = b'<';

/// The position in the output of a raw proxy: in a header, or in a piece of which `left` bytes are missing.
#[derive(Default)]
struct Piece {
    header: Vec<u8>,
    left: usize,
}

impl Piece {
    /// Splits the next bytes with one direction off `rest`.
    fn next<'a>(&mut self, rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
        if self.left == 0 {
            if self.header.len() == HEADER {
                self.header.clear();
            }
            let (header, after) = rest.split_at(rest.len().min(HEADER - self.header.len()));
            self.header.extend_from_slice(header);
            *rest = after;
            let length = self.header.get(1..HEADER)?;
            self.left = u32::from_le_bytes(length.try_into().ok()?) as usize;
        }
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(rest.len().min(self.left));
        *rest = after;
        self.left -= piece.len();
        Some((self.header[0], piece))
    }
}
