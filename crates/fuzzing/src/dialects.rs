//! The dialects: a single one on its link, or two at the ends of a link.
//!
//! The first byte of a scenario chooses the test. [`single`] and [`pair`] describe the steps and the invariants.

pub mod pair;
mod shapes;
pub mod single;

use acp_wire::Message;
use bytes::Bytes;

use crate::line::assert_round_trips;
use crate::scenario::trace;

/// # Panics
/// If something does not hold.
pub fn check(scenario: &[u8]) {
    match scenario.split_first() {
        Some((&b'&', rest)) => pair::check(rest),
        Some((&choice, rest)) => single::check(choice, rest),
        None => {}
    }
}

/// The content of a link's queue before a dialect appends to it.
const QUEUED: &[u8] = b"{}\n";

/// Lets a dialect append to the queue of its link. Returns the new lines, each of which must be a message.
fn written<T>(act: impl FnOnce(&mut Vec<u8>) -> T) -> (T, Vec<(Bytes, Message)>) {
    let mut queue = QUEUED.to_vec();
    let done = act(&mut queue);
    let new = queue.strip_prefix(QUEUED).expect("the queued bytes stay unchanged");
    assert!(new.is_empty() || new.ends_with(b"\n"), "a line must end");
    let lines = new.split_inclusive(|&byte| byte == b'\n').map(|line| {
        let line = Bytes::copy_from_slice(&line[..line.len() - 1]);
        trace(|| format!("  written: {}", line.escape_ascii()));
        let message = Message::parse(&line).expect("a written line is a message");
        assert_round_trips(&message);
        (line, message)
    });
    (done, lines.collect())
}
