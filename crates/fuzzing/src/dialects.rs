//! The dialects: each alone on its link, or two of them at the ends of one.
//!
//! The first byte of a story chooses who is there; see [`alone`] and [`pair`] for what may happen
//! and what must hold.

pub mod alone;
pub mod pair;
mod shapes;

use acp_wire::Message;
use bytes::Bytes;

use crate::line::reads_the_same;
use crate::story::tell;

/// # Panics
/// If something does not hold.
pub fn check(story: &[u8]) {
    match story.split_first() {
        Some((&b'&', rest)) => pair::check(rest),
        Some((&who, rest)) => alone::check(who, rest),
        None => {}
    }
}

/// What stands in the queue of a link before a dialect appends to it.
const QUEUED: &[u8] = b"{}\n";

/// Lets a dialect write to the queue of its link: what it has written, each line a message.
fn written<T>(act: impl FnOnce(&mut Vec<u8>) -> T) -> (T, Vec<(Bytes, Message)>) {
    let mut queue = QUEUED.to_vec();
    let done = act(&mut queue);
    let new = queue.strip_prefix(QUEUED).expect("what was queued before stays as it is");
    assert!(new.is_empty() || new.ends_with(b"\n"), "a line must end");
    let lines = new.split_inclusive(|&byte| byte == b'\n').map(|line| {
        let line = Bytes::copy_from_slice(&line[..line.len() - 1]);
        tell(|| format!("  written: {}", line.escape_ascii()));
        let message = Message::parse(&line).expect("what is written is a message");
        reads_the_same(&message);
        (line, message)
    });
    (done, lines.collect())
}
