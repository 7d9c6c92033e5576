//! Replays a journal: feeds its inputs to a new core and compares the effects.

use std::collections::VecDeque;
use std::fmt;

use acp_wire::Json;
use router::Time;

use super::codec::Codec;
use super::{EFFECTS, Effects, Entry, EntryStart, Header, JOURNAL_PREFIX, Queues, VERSION, show};
use crate::core::Core;
use crate::input::{Input, Outputs};

/// How many inputs before a difference are shown.
const RECENT: usize = 5;

/// A replay of a journal, line by line.
#[derive(Debug)]
pub struct JournalReplay {
    core: Core,
    out: Outputs,
    queues: Queues,
    /// The number of the last line.
    line: usize,
    recent: VecDeque<(usize, Time, Input)>,
}

/// One input of a journal and its effects.
#[derive(Debug)]
pub struct ReplayedInput {
    /// The number of its line.
    pub line: usize,
    /// Its time.
    pub at: Time,
    /// The input.
    pub input: Input,
    /// Its effects in the replay.
    pub effects: Effects,
    /// Whether the effects were compared with the journal. The last input of a core that panicked has no recorded
    /// effects.
    pub compared: bool,
}

/// The summary of a journal that replays identically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// How many inputs were replayed.
    pub inputs: usize,
    /// How many outputs there were.
    pub outputs: usize,
    /// How many bytes were appended to the queues.
    pub bytes: usize,
    /// Whether the last line is incomplete: the program that wrote the journal was killed, or panicked.
    pub cut_off: bool,
    /// Whether the last line is incomplete but its input is complete. This input was replayed, but its effects could not
    /// be compared.
    pub last_input: bool,
}

/// Why a journal does not replay identically.
#[derive(Debug)]
pub enum ReplayError {
    /// A line cannot be read.
    Unreadable {
        /// The number of the line.
        line: usize,
        /// The reason.
        why: String,
    },
    /// The effects of an input differ. All texts are readable descriptions.
    Different {
        /// The number of the line.
        line: usize,
        /// The input.
        input: String,
        /// The first effect that differs, as recorded.
        recorded: String,
        /// The same effect in the replay.
        replayed: String,
        /// The inputs before it.
        before: Vec<String>,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Unreadable { line, why } => {
                write!(f, "line {line} of the journal cannot be read: {why}")
            }
            ReplayError::Different { line, input, recorded, replayed, before } => {
                writeln!(f, "the replay differs from the journal at line {line}")?;
                before.iter().try_for_each(|it| writeln!(f, "  before:   {it}"))?;
                writeln!(f, "  input:    {input}")?;
                writeln!(f, "  recorded: {recorded}")?;
                write!(f, "  replayed: {replayed}")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// Replays a whole journal. Each line includes its line break.
pub fn replay<T: AsRef<[u8]>>(
    lines: impl IntoIterator<Item = T>,
) -> Result<ReplaySummary, ReplayError> {
    let mut lines = lines.into_iter();
    let first = lines.next();
    let mut summary = ReplaySummary::default();
    let Some(mut replay) = JournalReplay::new(first.as_ref().map_or(&[], AsRef::as_ref))? else {
        summary.cut_off = true;
        return Ok(summary);
    };
    for line in lines {
        summary.add(replay.step(line.as_ref())?.as_ref());
    }
    Ok(summary)
}

impl ReplaySummary {
    /// Adds a result of [`JournalReplay::step`].
    pub fn add(&mut self, step: Option<&ReplayedInput>) {
        let Some(step) = step else {
            self.cut_off = true;
            return;
        };
        self.cut_off |= !step.compared;
        self.last_input |= !step.compared;
        self.inputs += 1;
        self.outputs += step.effects.outputs.len();
        self.bytes += step.effects.appended.iter().map(|it| it.text.len()).sum::<usize>();
    }
}

impl JournalReplay {
    /// Starts with the first line of a journal. Returns `None` if the line is incomplete.
    pub fn new(line: &[u8]) -> Result<Option<JournalReplay>, ReplayError> {
        let unreadable = |why| ReplayError::Unreadable { line: 1, why };
        let is_cut_off = !line.ends_with(b"\n");
        if line.is_empty() || is_cut_off && line.starts_with(JOURNAL_PREFIX.as_bytes()) {
            return Ok(None);
        }
        let json = Json::parse(line.to_vec()).map_err(|why| unreadable(why.to_string()))?;
        let version = json.member("journal").and_then(|it| it.integer());
        if version != Some(VERSION.cast_signed()) {
            let why = match version {
                Some(other) => format!(
                    "the journal has format version {other}, and this program replays only version {VERSION}; \
                     replay it with the version of the source that recorded it"
                ),
                None => {
                    "this is not a journal: a journal starts with its format version".to_owned()
                }
            };
            return Err(unreadable(why));
        }
        let header = Header::read(&json).map_err(unreadable)?;
        Ok(Some(JournalReplay {
            core: Core::new(header.setup),
            out: Outputs::default(),
            queues: Queues::default(),
            line: 1,
            recent: VecDeque::new(),
        }))
    }

    /// Replays the next line. An incomplete line is replayed if its input is complete. Otherwise returns `None`.
    pub fn step(&mut self, line: &[u8]) -> Result<Option<ReplayedInput>, ReplayError> {
        self.line += 1;
        let number = self.line;
        let (at, input, recorded) = if line.ends_with(b"\n") {
            let entry = Json::parse(line.to_vec()).map_err(|why| why.to_string());
            let entry = entry.and_then(|json| Entry::read(&json));
            let Entry { at, input, effects } =
                entry.map_err(|why| ReplayError::Unreadable { line: number, why })?;
            (at, input, Some(effects))
        } else {
            let Some(EntryStart { at, input }) = read_input(line) else { return Ok(None) };
            (at, input, None)
        };
        self.queues.expect(&input);
        self.core.handle(at, input.clone(), &mut self.out);
        let outputs = std::mem::take(&mut self.out.list);
        let effects = Effects { outputs, appended: self.queues.appended(&self.out) };
        let compared = recorded.is_some();
        if let Some((recorded, replayed)) = recorded.and_then(|it| difference(&it, &effects)) {
            let chain = self.core.chain();
            let before = self.recent.iter().map(|(line, at, input)| {
                format!("line {line}: {}", show::input(chain, *at, input))
            });
            return Err(ReplayError::Different {
                line: number,
                input: show::input(chain, at, &input),
                recorded,
                replayed,
                before: before.collect(),
            });
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((number, at, input.clone()));
        Ok(Some(ReplayedInput { line: number, at, input, effects, compared }))
    }

    /// A step as readable lines: the input, then its effects.
    pub fn show(&self, step: &ReplayedInput) -> Vec<String> {
        let chain = self.core.chain();
        let mut lines = vec![show::input(chain, step.at, &step.input)];
        show::effects(chain, &step.effects, &mut lines);
        lines
    }
}

/// Reads the input of an incomplete line, if the input is complete.
fn read_input(line: &[u8]) -> Option<EntryStart> {
    // The input may contain the same text. Cut off there, the line is not valid JSON.
    let found = line.windows(EFFECTS.len()).enumerate().filter(|(_, part)| *part == EFFECTS);
    let mut ends = found.map(|(at, _)| at).chain([line.len()]);
    ends.find_map(|end| {
        let json = Json::parse([&line[..end], b"}"].concat()).ok()?;
        EntryStart::read(&json).ok()
    })
}

/// The first difference, in the format of the journal.
fn difference(recorded: &Effects, replayed: &Effects) -> Option<(String, String)> {
    first_difference(&recorded.outputs, &replayed.outputs)
        .or_else(|| first_difference(&recorded.appended, &replayed.appended))
}

fn first_difference<T: Codec>(recorded: &[T], replayed: &[T]) -> Option<(String, String)> {
    let text = |value: Option<&T>| {
        let mut text = Vec::new();
        value.into_iter().for_each(|it| it.write(&mut text));
        text
    };
    for index in 0..recorded.len().max(replayed.len()) {
        let (old, new) = (text(recorded.get(index)), text(replayed.get(index)));
        if old != new {
            let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
            return Some((excerpt(&old, same), excerpt(&new, same)));
        }
    }
    None
}

/// The text around a position.
fn excerpt(text: &[u8], position: usize) -> String {
    const AROUND: usize = 200;
    if text.is_empty() {
        return "nothing".to_owned();
    }
    let (start, end) = (position.saturating_sub(AROUND), text.len().min(position + AROUND));
    let before = if start > 0 { "… " } else { "" };
    let after = if end < text.len() { " …" } else { "" };
    format!("{before}{}{after}", String::from_utf8_lossy(&text[start..end]))
}
