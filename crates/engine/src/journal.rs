//! The journal of a chain: everything that the core was told and everything that came of it, as text.
//!
//! A journal is a file with one JSON object a line. The first line has the version of the format and the
//! [`Setup`]. Each further line has one input, its time in milliseconds, the outputs in their order, and the
//! bytes that were appended to the queues of the links:
//!
//! ```json
//! {"journal":3,"setup":{"chain":{"mode":"Agent","components":[…]},…}}
//! {"at":12,"input":{"Line":{"link":{"seat":0,"port":"Main"},"line":{"Text":"{…}"}}},"effects":{"outputs":[…],"appended":[…]}}
//! ```
//!
//! Lines of the protocol are strings, so the spelling of numbers and the order of keys are kept. Bytes that are not UTF-8
//! become `{"hex":"…"}`.
//!
//! The core depends on nothing but its inputs. So a [`Replay`] of a journal into a fresh core gives
//! the same outputs and the same bytes, or the core has changed.
//!
//! Layout: `codec` and `types` (how values are written and read), [`Recorder`], `replay`, `show` (for people).

use bytes::Bytes;
use router::Time;

use crate::input::{Input, Link, Output, Outputs, Setup};
use crate::queue::Progress;

mod codec;
mod replay;
mod show;
#[cfg(test)]
mod tests;
mod types;

pub use replay::{JournalReplay, ReplayError, ReplaySummary, Step, replay};

use codec::{Codec, Object};

/// The version of the format. A journal of another version is not replayed.
const VERSION: u64 = 3;

/// What each journal begins with, whatever its version.
pub const JOURNAL_PREFIX: &str = "{\"journal\":";

/// The first line.
#[derive(Debug)]
struct Header {
    journal: u64,
    setup: Setup,
}

/// Any other line.
#[derive(Debug)]
struct Entry {
    at: Time,
    input: Input,
    effects: Effects,
}

/// The beginning of an entry, which is written before the core handles the input.
#[derive(Debug)]
struct Begun {
    at: Time,
    input: Input,
}

/// What an entry has between its input and its effects.
const EFFECTS: &[u8] = b",\"effects\":";

/// What came of an input.
#[derive(Debug)]
pub struct Effects {
    pub outputs: Vec<Output>,
    /// By link, those that changed.
    pub appended: Vec<Appended>,
}

/// What happened to the queue of a link.
#[derive(Debug)]
pub struct Appended {
    pub link: Link,
    /// So many bytes were dropped without being written.
    pub dropped: u64,
    pub text: Bytes,
}

/// Writes the journal of one chain. It writes text to a buffer; the program that drives the core
/// writes that to a file.
#[derive(Debug)]
pub struct Recorder {
    text: Vec<u8>,
    queues: Queues,
}

impl Recorder {
    pub fn new(setup: &Setup) -> Recorder {
        let mut text = Vec::new();
        let mut header = Object::begin(&mut text);
        header.member("journal", &VERSION);
        header.member("setup", setup);
        header.end();
        text.push(b'\n');
        Recorder { text, queues: Queues::default() }
    }

    /// To be called before [`Core::handle`](crate::Core::handle). If that panics, the journal ends with this input, and a
    /// replay ends in the same panic.
    pub fn input(&mut self, now: Time, input: &Input) {
        self.text.extend_from_slice(b"{\"at\":");
        now.write(&mut self.text);
        self.text.extend_from_slice(b",\"input\":");
        input.write(&mut self.text);
        self.queues.expect(input);
    }

    /// To be called after it, before any output is taken out of the list.
    pub fn outputs(&mut self, out: &Outputs) {
        self.text.extend_from_slice(EFFECTS);
        let mut effects = Object::begin(&mut self.text);
        effects.member("outputs", &out.list);
        effects.member("appended", &self.queues.appended(out));
        effects.end();
        self.text.extend_from_slice(b"}\n");
    }

    /// What was written since the last call: whole lines, unless the core has not returned from the last input.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }
}

/// How far the queues of all links had got after the last input.
#[derive(Debug, Default)]
struct Queues {
    seen: Vec<Progress>,
    /// The input at hand says that so much was written.
    written: Option<(Link, u64)>,
}

impl Queues {
    fn expect(&mut self, input: &Input) {
        self.written = match input {
            Input::Written { link, count } => Some((*link, *count as u64)),
            _ => None,
        };
    }

    /// What has changed since the last call.
    fn appended(&mut self, out: &Outputs) -> Vec<Appended> {
        let mut changed = Vec::new();
        for (index, (link, queue)) in out.queues().enumerate() {
            if index == self.seen.len() {
                self.seen.push(Progress::default());
            }
            let now = queue.progress();
            let before = std::mem::replace(&mut self.seen[index], now);
            let written = self.written.filter(|it| it.0 == link).map_or(0, |it| it.1);
            let dropped = (now.left - before.left).saturating_sub(written);
            // Some of what was appended may be dropped again.
            let fresh = (now.appended - before.appended.max(now.left)) as usize;
            if dropped > 0 || fresh > 0 {
                changed.push(Appended { link, dropped, text: queue.copy_end(fresh).into() });
            }
        }
        changed
    }
}
