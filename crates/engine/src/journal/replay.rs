//! Feeds the inputs of a journal to a fresh core and compares what comes of them.

use std::collections::VecDeque;
use std::fmt;

use acp_wire::Json;
use router::Time;

use super::codec::Codec;
use super::{Begun, EFFECTS, Effects, Entry, Header, JOURNAL_PREFIX, Queues, VERSION, show};
use crate::core::Core;
use crate::input::{Input, Outputs};

/// So many inputs before a difference are shown.
const RECENT: usize = 5;

/// A replay that can be stepped through.
#[derive(Debug)]
pub struct JournalReplay {
    core: Core,
    out: Outputs,
    queues: Queues,
    /// The number of the line that was read last.
    line: usize,
    recent: VecDeque<(usize, Time, Input)>,
}

/// One input of a journal and what came of it.
#[derive(Debug)]
pub struct Step {
    /// The number of its line.
    pub line: usize,
    pub at: Time,
    pub input: Input,
    /// What the replay came to.
    pub effects: Effects,
    /// Whether the journal has the effects, too. The last input of a core that panicked has none.
    pub compared: bool,
}

/// A journal that replays identically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    pub inputs: usize,
    pub outputs: usize,
    /// How many bytes were appended to the queues.
    pub bytes: usize,
    /// The last line has no end: the program that wrote the journal was killed or panicked.
    pub cut_off: bool,
    /// The input of that line is whole. It was replayed, and there was nothing to compare its effects with.
    pub last_input: bool,
}

/// Why a journal does not replay identically.
#[derive(Debug)]
pub enum ReplayError {
    /// A line that cannot be read, by its number.
    Unreadable { line: usize, why: String },
    /// The first difference. All texts are for people.
    Different {
        line: usize,
        input: String,
        recorded: String,
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
                writeln!(f, "the replay differs from line {line} of the journal on")?;
                before.iter().try_for_each(|it| writeln!(f, "  before:   {it}"))?;
                writeln!(f, "  input:    {input}")?;
                writeln!(f, "  recorded: {recorded}")?;
                write!(f, "  replayed: {replayed}")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// Replays a whole journal. The lines come with their line breaks.
pub fn replay<T: AsRef<[u8]>>(
    lines: impl IntoIterator<Item = T>,
) -> Result<ReplaySummary, ReplayError> {
    let mut lines = lines.into_iter();
    let first = lines.next();
    let mut report = ReplaySummary::default();
    let Some(mut replay) = JournalReplay::new(first.as_ref().map_or(&[], AsRef::as_ref))? else {
        report.cut_off = true;
        return Ok(report);
    };
    for line in lines {
        report.add(replay.step(line.as_ref())?.as_ref());
    }
    Ok(report)
}

impl ReplaySummary {
    /// Counts what [`Replay::step`] gave.
    pub fn add(&mut self, step: Option<&Step>) {
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
    /// Begins with the first line of a journal. `None` if it has no end.
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
                Some(other) => format!("it is of version {other}, and {VERSION} is understood"),
                None => "it does not begin as a journal does".to_owned(),
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

    /// Replays the next line. A line without an end is replayed if its input is whole, otherwise `None`.
    pub fn step(&mut self, line: &[u8]) -> Result<Option<Step>, ReplayError> {
        self.line += 1;
        let number = self.line;
        let (at, input, recorded) = if line.ends_with(b"\n") {
            let entry = Json::parse(line.to_vec()).map_err(|why| why.to_string());
            let entry = entry.and_then(|json| Entry::read(&json));
            let Entry { at, input, effects } =
                entry.map_err(|why| ReplayError::Unreadable { line: number, why })?;
            (at, input, Some(effects))
        } else {
            let Some(Begun { at, input }) = begun(line) else { return Ok(None) };
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
        Ok(Some(Step { line: number, at, input, effects, compared }))
    }

    /// A step in readable lines: the input, then what came of it.
    pub fn show(&self, step: &Step) -> Vec<String> {
        let chain = self.core.chain();
        let mut lines = vec![show::input(chain, step.at, &step.input)];
        show::effects(chain, &step.effects, &mut lines);
        lines
    }
}

/// The input of a line that has no end, if that is whole.
fn begun(line: &[u8]) -> Option<Begun> {
    // JSON inside the input may have a member of that name. Cut off there, the line is no JSON.
    let found = line.windows(EFFECTS.len()).enumerate().filter(|(_, part)| *part == EFFECTS);
    let mut ends = found.map(|(at, _)| at).chain([line.len()]);
    ends.find_map(|end| {
        let json = Json::parse([&line[..end], b"}"].concat()).ok()?;
        Begun::read(&json).ok()
    })
}

/// The first difference, as the journal spells it.
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
        let (ours, theirs) = (text(recorded.get(index)), text(replayed.get(index)));
        if ours != theirs {
            let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
            return Some((excerpt(&ours, same), excerpt(&theirs, same)));
        }
    }
    None
}

/// What stands around a place of a text.
fn excerpt(text: &[u8], place: usize) -> String {
    const AROUND: usize = 200;
    if text.is_empty() {
        return "nothing".to_owned();
    }
    let (start, end) = (place.saturating_sub(AROUND), text.len().min(place + AROUND));
    let before = if start > 0 { "… " } else { "" };
    let after = if end < text.len() { " …" } else { "" };
    format!("{before}{}{after}", String::from_utf8_lossy(&text[start..end]))
}
