//! The journal of a chain: all inputs and outputs of the core, as text.
//!
//! A journal is a file with one JSON object per line. The first line has the version of the format and the [`Setup`].
//! Each further line has one input, its time in milliseconds, the outputs in order, and the bytes that were
//! appended to the queues of the links:
//!
//! ```json
//! {"journal":5,"setup":{"chain":{"mode":"Agent","components":[…]},…}}
//! {"at":12,"input":{"Line":{"link":{"seat":0,"port":"Main"},"line":{"Text":"{…}"}}},"effects":{"outputs":[…],"appended":[…]}}
//! ```
//!
//! Protocol lines are stored as strings, so the format of numbers and the order of keys are preserved. Bytes that are
//! not UTF-8 become `{"hex":"…"}`.
//!
//! The core depends only on its inputs. So a [`JournalReplay`] of a journal gives the same outputs and the same bytes,
//! unless the core has changed.
//!
//! A [`Recorder`] writes a journal. `codec` and `types` define the format, `replay` reads and compares it, and `show`
//! formats it as readable text.

use bytes::Bytes;
use router::Time;

use crate::input::{Input, LinkId, Output, Outputs, Setup};
use crate::queue::Progress;

mod codec;
mod replay;
mod show;
#[cfg(test)]
mod tests;
mod types;

pub use replay::{JournalReplay, ReplayError, ReplaySummary, ReplayedInput, replay};

use codec::{Codec, Object};

/// The version of the format. A journal of another version is not replayed.
const VERSION: u64 = 6;

/// The first bytes of every journal, in all versions of the format.
pub const JOURNAL_PREFIX: &str = "{\"journal\":";

/// The first line of a journal.
#[derive(Debug)]
struct Header {
    journal: u64,
    setup: Setup,
}

/// Any other line of a journal.
#[derive(Debug)]
struct Entry {
    at: Time,
    input: Input,
    effects: Effects,
}

/// The first part of an entry. It is written before the core handles the input.
#[derive(Debug)]
struct EntryStart {
    at: Time,
    input: Input,
}

/// The text between the input and the effects of an entry.
const EFFECTS: &[u8] = b",\"effects\":";

/// The effects of an input.
#[derive(Debug)]
pub struct Effects {
    /// The outputs, in order.
    pub outputs: Vec<Output>,
    /// The links whose queues have changed.
    pub appended: Vec<Appended>,
}

/// How the queue of a link has changed.
#[derive(Debug)]
pub struct Appended {
    /// The link.
    pub link: LinkId,
    /// How many bytes were dropped without being written.
    pub dropped: u64,
    /// The bytes that were appended.
    pub text: Bytes,
}

/// Writes the journal of one chain into a buffer. The program that drives the core writes the buffer to a file.
#[derive(Debug)]
pub struct Recorder {
    text: Vec<u8>,
    queues: Queues,
}

impl Recorder {
    /// Starts a journal with its first line.
    pub fn new(setup: &Setup) -> Recorder {
        let mut text = Vec::new();
        let mut header = Object::begin(&mut text);
        header.member("journal", &VERSION);
        header.member("setup", setup);
        header.end();
        text.push(b'\n');
        Recorder { text, queues: Queues::default() }
    }

    /// Records an input. Call this before [`Core::handle`](crate::Core::handle). If the core panics, the journal ends with
    /// this input, and a replay panics in the same place.
    pub fn input(&mut self, now: Time, input: &Input) {
        self.text.extend_from_slice(b"{\"at\":");
        now.write(&mut self.text);
        self.text.extend_from_slice(b",\"input\":");
        input.write(&mut self.text);
        self.queues.expect(input);
    }

    /// Records the effects of the input. Call this after [`Core::handle`](crate::Core::handle), before any output is
    /// taken out of the list.
    pub fn outputs(&mut self, out: &Outputs) {
        self.text.extend_from_slice(EFFECTS);
        let mut effects = Object::begin(&mut self.text);
        effects.member("outputs", &out.list);
        effects.member("appended", &self.queues.appended(out));
        effects.end();
        self.text.extend_from_slice(b"}\n");
    }

    /// Takes the text that was written since the last call. It ends with a complete line, unless the core has not returned
    /// from the last input.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }
}

/// The state of all queues after the last input.
#[derive(Debug, Default)]
struct Queues {
    progress: Vec<Progress>,
    /// The bytes that the current input reports as written.
    written: Option<(LinkId, u64)>,
}

impl Queues {
    /// Notes what the next input reports as written.
    fn expect(&mut self, input: &Input) {
        self.written = match input {
            Input::Written { link, count } => Some((*link, *count as u64)),
            _ => None,
        };
    }

    /// How the queues have changed since the last call.
    fn appended(&mut self, out: &Outputs) -> Vec<Appended> {
        let mut changed = Vec::new();
        for (index, (link, queue)) in out.queues().enumerate() {
            if index == self.progress.len() {
                self.progress.push(Progress::default());
            }
            let now = queue.progress();
            let before = std::mem::replace(&mut self.progress[index], now);
            let written = self.written.filter(|it| it.0 == link).map_or(0, |it| it.1);
            let dropped = (now.left - before.left).saturating_sub(written);
            // Bytes that were appended and dropped again are not in the queue.
            let count = (now.appended - before.appended.max(now.left)) as usize;
            if dropped > 0 || count > 0 {
                changed.push(Appended { link, dropped, text: queue.copy_end(count).into() });
            }
        }
        changed
    }
}
