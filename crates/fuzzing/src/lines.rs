//! Splits bytes into lines, for all sources: pipes, the first line of `conductor mcp`, and HTTP bodies. Also writes
//! server-sent events.
//!
//! The first byte of the data chooses the test:
//!
//! | first byte | rest of the data |
//! |---|---|
//! | `s` | a choice of the maximum line length and of chunk sizes, up to a newline; then the data of a pipe |
//! | `g` | choices of chunk sizes, up to a newline; then the data of an unauthenticated connection |
//! | `i` | a secret |
//! | `b` | an HTTP body |
//! | `e` | a message to an HTTP client |
//!
//! Invariants: nothing panics. The chunks of a stream do not change its lines. A line that is too long is dropped while
//! it arrives, and its report is true. A secret is read as it was written. A body has as many messages as `serde_json`
//! finds in it, each on one line. A client reads exactly the event that was written.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::{io, slice};

use acp_conductor::lines::{Line, Lines};
use acp_conductor::mcp::framing;
use acp_wire::message::LineScan;
use acp_wire::{DamagedLine, Id, Json, Message, Outcome};
use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

/// Maximum line lengths.
const LONGEST: [usize; 6] = [0, 1, 8, 64, 5000, 1 << 20];

/// A first line up to this length must be read.
const LONGEST_GREETING: usize = 4096;

/// # Panics
/// If an invariant does not hold.
pub fn check(data: &[u8]) {
    match data.split_first() {
        Some((b's', rest)) => {
            let (choices, data) = header(rest);
            let (longest, chunks) = choices.split_first().unwrap_or((&b'5', &[]));
            let longest = LONGEST[usize::from(longest.wrapping_sub(b'0')) % LONGEST.len()];
            check_pipe(longest, chunks, data);
        }
        Some((b'g', rest)) => {
            let (chunks, data) = header(rest);
            check_greeting(chunks, data);
        }
        Some((b'i', secret)) => check_introduction(&String::from_utf8_lossy(secret)),
        Some((b'b', body)) => check_body(body),
        Some((b'e', line)) => check_event(line),
        _ => {}
    }
}

/// The choices in the first line, and the data after it.
fn header(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[]),
    }
}

/// Data in chunks. Without choices, it is one chunk.
struct Chunks<'a> {
    data: &'a [u8],
    sizes: slice::Iter<'a, u8>,
}

impl<'a> Chunks<'a> {
    fn new(sizes: &'a [u8], data: &'a [u8]) -> Chunks<'a> {
        Chunks { data, sizes: sizes.iter() }
    }
}

impl<'a> Iterator for Chunks<'a> {
    /// A chunk, and whether lines are taken out before the next chunk.
    type Item = (&'a [u8], bool);

    fn next(&mut self) -> Option<(&'a [u8], bool)> {
        if self.data.is_empty() {
            return None;
        }
        let choice = self.sizes.next();
        let size = choice.map_or(self.data.len(), |choice| 1 + usize::from(choice % 64));
        let (chunk, rest) = self.data.split_at(size.min(self.data.len()));
        self.data = rest;
        Some((chunk, choice.is_none_or(|choice| *choice < 192)))
    }
}

/// Each read gets a chunk, or the part of it that fits.
struct Stream<'a> {
    chunks: Chunks<'a>,
    chunk: &'a [u8],
}

impl AsyncRead for Stream<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.chunk.is_empty() {
            self.chunk = self.chunks.next().map_or(&[], |(chunk, _)| chunk);
        }
        let (now, later) = self.chunk.split_at(self.chunk.len().min(into.remaining()));
        into.put_slice(now);
        self.chunk = later;
        Poll::Ready(Ok(()))
    }
}

fn check_pipe(longest: usize, sizes: &[u8], data: &[u8]) {
    let mut lines = Lines::new(longest);
    let mut seen = Vec::new();
    let mut came = 0;
    let mut cx = Context::from_waker(Waker::noop());
    for (mut chunk, looked_at) in Chunks::new(sizes, data) {
        came += chunk.len();
        while !chunk.is_empty() {
            assert!(lines.poll_fill(&mut chunk, &mut cx).is_ready());
        }
        if !looked_at {
            continue;
        }
        seen.extend(std::iter::from_fn(|| lines.next_line()));
        let begun = data[..came].rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let held = !begun.is_empty() && begun.len() <= longest;
        assert!(held || lines.is_empty(), "a line that is too long is dropped while it arrives");
    }
    seen.extend(std::iter::from_fn(|| lines.next_line()));
    seen.extend(lines.last_line());
    assert!(lines.is_empty());
    let blank = |line: &&[u8]| line.len() <= longest && line.trim_ascii().is_empty();
    // The end of the data is not an additional line.
    let expected: Vec<&[u8]> =
        data.split(|&byte| byte == b'\n').filter(|line| !line.is_empty() && !blank(line)).collect();
    assert_eq!(seen.len(), expected.len(), "{seen:?}");
    for (seen, expected) in seen.iter().zip(expected) {
        check_line(longest, seen, expected);
    }
}

fn check_line(longest: usize, seen: &Line, expected: &[u8]) {
    match seen {
        Line::Text(text) => {
            assert!(expected.len() <= longest, "{text:?} is too long");
            assert_eq!(text, expected);
        }
        Line::TooLong { scan, length } => {
            assert!(expected.len() > longest, "{expected:?} is not too long");
            assert_eq!(*length, expected.len());
            assert_eq!(**scan, LineScan::of(expected), "the chunks do not change the scan");
            check_salvage(scan, expected);
            check_too_long(scan, *length, longest);
        }
    }
}

/// Checks that the report of a line that is too long is true and complete.
fn check_salvage(scan: &LineScan, line: &[u8]) {
    let Ok(message) = Message::parse(&Bytes::copy_from_slice(line)) else { return };
    let report = DamagedLine::from(scan);
    let is_true = match (&report, &message) {
        (DamagedLine::Unreadable, Message::Notification(_)) => true,
        // A long id is not stored.
        (DamagedLine::Unreadable, Message::Request { id, .. } | Message::Response { id, .. }) => {
            id.json().as_bytes().len() > 400
        }
        (
            DamagedLine::Ambiguous(reported),
            Message::Request { id, .. } | Message::Response { id, .. },
        )
        | (DamagedLine::Request(reported), Message::Request { id, .. })
        | (DamagedLine::Response(reported), Message::Response { id, .. }) => reported == id,
        _ => false,
    };
    assert!(is_true, "{report:?} is the report of {message:?}");
}

fn check_too_long(scan: &LineScan, length: usize, longest: usize) {
    let answer = framing::too_long_error(scan, length, longest);
    let Ok(Message::Response { id, outcome: Outcome::Error(_), .. }) = Message::parse(&answer)
    else {
        panic!("{answer:?} is not an error");
    };
    match DamagedLine::from(scan) {
        DamagedLine::Request(asked) | DamagedLine::Response(asked) => assert_eq!(id, asked),
        DamagedLine::Ambiguous(_) | DamagedLine::Unreadable => assert_eq!(id, Id::NULL),
    }
}

fn check_greeting(sizes: &[u8], data: &[u8]) {
    let mut stream = Stream { chunks: Chunks::new(sizes, data), chunk: &[] };
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(read) = pin!(framing::first_line(&mut stream)).poll(&mut cx) else {
        panic!("it waits although the data has arrived");
    };
    let end = data.iter().position(|&byte| byte == b'\n');
    match (read, end) {
        (Some((line, rest)), Some(end)) => {
            assert_eq!(line, data[..=end]);
            assert!(data[end + 1..].starts_with(&rest), "data after the first line is not lost");
            check_secret(&line);
        }
        (None, Some(end)) => assert!(end >= LONGEST_GREETING, "a line of {end} bytes is read"),
        (None, None) => {}
        (Some(_), None) => panic!("there is no line"),
    }
}

/// Checks that the secret of a first line is the one that `serde_json` finds.
fn check_secret(line: &[u8]) {
    let heard = framing::secret_of(Bytes::copy_from_slice(line));
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(line) {
        let said = value.get("conductor").and_then(|secret| secret.as_str());
        assert_eq!(heard.as_deref(), said);
    }
}

fn check_introduction(secret: &str) {
    let line = framing::authentication_line(secret);
    assert_eq!(line.iter().position(|&byte| byte == b'\n'), Some(line.len() - 1), "one line");
    assert_eq!(framing::secret_of(line.into()).as_deref(), Some(secret));
}

fn check_body(body: &[u8]) {
    let lines = framing::split_body(Bytes::copy_from_slice(body));
    for line in lines.iter().flatten() {
        assert!(!line.contains(&b'\n'), "one line: {line:?}");
        assert!(Message::parse(line).is_ok(), "{line:?} is not a message");
    }
    // A message that is valid as a line is also valid as a body.
    let single = !body.contains(&b'\n') && Message::parse(&Bytes::copy_from_slice(body)).is_ok();
    assert!(lines.is_some() || !single);
    let Some(lines) = lines else { return };
    match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(serde_json::Value::Array(elements)) => assert_eq!(lines.len(), elements.len()),
        Ok(_) => assert_eq!(lines.len(), 1),
        // `serde_json` supports fewer numbers and less depth.
        Err(_) => {}
    }
}

/// Parses an event as the standard requires: `\r` ends a line like `\n`.
fn check_event(line: &[u8]) {
    let Ok(line) = Json::parse(Bytes::copy_from_slice(line)) else { return };
    let written = framing::event(line.as_bytes());
    let text = std::str::from_utf8(&written).expect("a stream of events is UTF-8");
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut events = Vec::new();
    let mut data: Option<String> = None;
    for field in text.lines() {
        if field.is_empty() {
            events.extend(data.take());
        } else if let Some(value) = field.strip_prefix("data:") {
            let value = value.strip_prefix(' ').unwrap_or(value);
            data = Some(data.map_or(value.to_owned(), |data| format!("{data}\n{value}")));
        }
    }
    assert_eq!(data, None, "the event ends");
    assert_eq!(events, [line.as_str().replace(['\r', '\n'], " ")]);
}
