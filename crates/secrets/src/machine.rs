//! One detector: decides whether a secret begins at a position.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use super::detectors::{Description, STOP_WORDS};
use super::key::{self, EndMarker, KeyLines};

/// The longest text that is held back for one candidate, in bytes.
pub(crate) const MAX_CANDIDATE: usize = 4096;

/// The maximum size of the tables of one pattern, in bytes.
const MAX_TABLE: usize = 4 << 20;

pub(super) type Table = dense::DFA<Vec<u32>>;

/// Finds one kind of secret.
#[derive(Debug)]
pub(super) struct Detector {
    /// The name in placeholders and reports.
    pub(super) name: String,
    /// Whether it counts only at the beginning of a word.
    pub(super) at_word: bool,
    /// The text before the secret, which stays.
    head: Option<Table>,
    body: Body,
    /// The secret is a private key: its lines up to this end belong to it.
    key_end: Option<EndMarker>,
    /// What secrets of this kind begin with. It is no part of the secret.
    literals: &'static [&'static str],
    keep_end: usize,
    min_entropy: f32,
    /// Whether a candidate that is longer than `max` is no match. Otherwise all of it is redacted.
    is_bounded: bool,
    max: usize,
}

#[derive(Debug)]
enum Body {
    Pattern(Box<Table>),
    /// An exact value.
    Value(Vec<u8>),
}

/// What a detector says about a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More text decides.
    Open,
    NoMatch,
    /// A match that is a placeholder of a documentation.
    Placeholder,
    /// A secret from `start` to `end`, and how it goes on.
    Match {
        start: usize,
        end: usize,
        then: Option<Swallow>,
    },
}

/// The state of a secret whose end is not known. Its text is dropped until the end comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Swallow {
    /// A token that is longer than the text that is held for it.
    Token(StateID),
    Key(KeyLines),
}

/// The state of a table after a text.
enum Run {
    /// Every longer text could match, too.
    Open(StateID),
    /// The ends of the shortest and of the longest match.
    Done(Option<Ends>),
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    shortest: usize,
    longest: usize,
}

impl Ends {
    /// Adds a longer match.
    fn add(ends: Option<Ends>, end: usize) -> Option<Ends> {
        Some(Ends { shortest: ends.map_or(end, |it| it.shortest), longest: end })
    }
}

impl Detector {
    /// A built-in detector.
    pub(super) fn new(description: &Description) -> Detector {
        let table = |pattern: &str| match pattern {
            "" => None,
            // A test builds all of them.
            pattern => table(pattern, false).ok(),
        };
        let never = || Body::Value(vec![0; MAX_CANDIDATE]);
        Detector {
            name: description.name.to_owned(),
            at_word: description.at_word,
            head: table(description.head),
            body: table(description.body).map_or_else(never, |it| Body::Pattern(it.into())),
            key_end: description.key_end,
            literals: description.literals,
            keep_end: description.keep_end,
            min_entropy: description.min_entropy,
            is_bounded: false,
            max: MAX_CANDIDATE,
        }
    }

    /// A detector for an exact value.
    pub(super) fn value(name: &str, value: &[u8]) -> Detector {
        Detector { body: Body::Value(value.to_owned()), ..Detector::plain(name) }
    }

    /// A detector for a pattern of the user. With `max`, no match is longer.
    ///
    /// # Errors
    /// Why the pattern cannot be used.
    pub(super) fn pattern(
        name: &str,
        pattern: &str,
        max: Option<usize>,
    ) -> Result<Detector, String> {
        let table = table(&with_ascii_words(pattern), true)?;
        if matches!(run(&table, b"", 0, true), Run::Done(Some(_))) {
            return Err("it matches the empty text".to_owned());
        }
        Ok(Detector {
            body: Body::Pattern(table.into()),
            is_bounded: max.is_some(),
            max: max.unwrap_or(MAX_CANDIDATE),
            ..Detector::plain(name)
        })
    }

    fn plain(name: &str) -> Detector {
        Detector {
            name: name.to_owned(),
            at_word: false,
            head: None,
            body: Body::Value(Vec::new()),
            key_end: None,
            literals: &[],
            keep_end: 0,
            min_entropy: 0.0,
            is_bounded: false,
            max: MAX_CANDIDATE,
        }
    }

    /// How many bytes of a candidate are the same for all secrets of its kind. Of a value or a pattern of the user, nothing
    /// is.
    pub(super) fn public_length(&self, text: &[u8], at: usize) -> usize {
        let candidate = &text[at..];
        if let Some(head) = &self.head {
            return match run(head, text, at, false) {
                Run::Open(_) => candidate.len(),
                Run::Done(ends) => ends.map_or(0, |it| it.longest - at),
            };
        }
        let common = |literal: &&str| match literal.as_bytes() {
            literal if candidate.starts_with(literal) => literal.len(),
            literal if literal.starts_with(candidate) => candidate.len(),
            _ => 0,
        };
        self.literals.iter().map(common).max().unwrap_or(0)
    }

    /// Whether this is a value or a pattern of the user.
    pub(super) fn is_own(&self) -> bool {
        self.literals.is_empty()
    }

    /// The length of the longest match of a pattern with `max`.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Where the secret of a candidate begins: after `password = `.
    pub(super) fn secret_start(&self, text: &[u8], at: usize) -> usize {
        match &self.head {
            Some(_) => at + self.public_length(text, at),
            None => at,
        }
    }

    /// The bytes that a match can begin with.
    pub(super) fn first_bytes(&self) -> [bool; 256] {
        let table = match (&self.head, &self.body) {
            (Some(table), _) => table,
            (None, Body::Pattern(table)) => table,
            (None, Body::Value(value)) => {
                return std::array::from_fn(|byte| {
                    value.first().is_some_and(|it| usize::from(*it) == byte)
                });
            }
        };
        // What stands before a match decides, too.
        let begins = |byte: u8| {
            [&b"\n"[..], b"a", b" ", b"", b"\r", b"\xff"].iter().any(|before| {
                let text = [before, &[byte][..]].concat();
                !matches!(run(table, &text, before.len(), false), Run::Done(None))
            })
        };
        std::array::from_fn(|byte| u8::try_from(byte).is_ok_and(begins))
    }

    /// Whether a secret begins at a position of a text. `is_end`: no more text follows.
    pub(super) fn look(&self, text: &[u8], at: usize, is_end: bool) -> Verdict {
        let mut start = at;
        if let Some(head) = &self.head {
            match self.bounded_run(head, text, at, at, is_end) {
                Ok(Run::Open(_)) => return Verdict::Open,
                Ok(Run::Done(Some(ends))) => start = ends.longest,
                Ok(Run::Done(None)) | Err(_) => return Verdict::NoMatch,
            }
        }
        let table = match &self.body {
            Body::Value(value) => return look_for_value(value, text, at, is_end),
            Body::Pattern(table) => table,
        };
        let ends = match self.bounded_run(table, text, start, at, is_end) {
            Ok(Run::Open(_)) => return Verdict::Open,
            Ok(Run::Done(Some(ends))) => ends,
            Ok(Run::Done(None)) => return Verdict::NoMatch,
            Err((state, end)) => {
                return Verdict::Match { start, end, then: Some(Swallow::Token(state)) };
            }
        };
        let end = ends.longest - self.keep_end;
        if let Some(marker) = self.key_end {
            return match key::begins(&text[end..], marker, is_end) {
                None => Verdict::Open,
                Some(Err(())) => Verdict::NoMatch,
                Some(Ok(length)) => {
                    let then = Some(Swallow::Key(KeyLines::BEGUN));
                    Verdict::Match { start, end: end + length, then }
                }
            };
        }
        let shortest = ends.shortest - self.keep_end - start;
        match self.is_plausible(&text[start..end], shortest) {
            true => Verdict::Match { start, end, then: None },
            false => Verdict::Placeholder,
        }
    }

    /// Runs a table over a candidate that begins at `candidate`. The error is the state at the maximum length.
    fn bounded_run(
        &self,
        table: &Table,
        text: &[u8],
        at: usize,
        candidate: usize,
        is_end: bool,
    ) -> Result<Run, (StateID, usize)> {
        let limit = candidate + self.max;
        if text.len() <= limit {
            return Ok(run(table, text, at, is_end));
        }
        if self.is_bounded {
            // The byte after the limit counts only for what stands after a match.
            return Ok(match run(table, &text[..=limit], at, false) {
                Run::Open(_) => Run::Done(matches_before_end(table, &text[..=limit], at)),
                done => done,
            });
        }
        match run(table, &text[..limit], at, false) {
            Run::Open(state) => Err((state, limit)),
            done => Ok(done),
        }
    }

    /// Whether a match is more than a placeholder of a documentation. What follows a token of the minimum length does not
    /// change that: it may be text that stands beside a real token.
    fn is_plausible(&self, secret: &[u8], shortest: usize) -> bool {
        if self.min_entropy == 0.0 {
            return true;
        }
        let lower = secret.to_ascii_lowercase();
        let begins = |at: usize| STOP_WORDS.iter().any(|it| lower[at..].starts_with(it.as_bytes()));
        let is_random = |text: &[u8]| entropy(text) >= self.min_entropy;
        (is_random(&secret[..shortest]) || is_random(secret)) && !(0..shortest).any(begins)
    }

    /// Continues a secret whose end is not known. Returns the length of the text that belongs to it, and the state if the
    /// secret may go on behind it.
    pub(super) fn swallow(
        &self,
        swallow: Swallow,
        text: &[u8],
        is_end: bool,
    ) -> (usize, Option<Swallow>) {
        match (swallow, self.key_end, &self.body) {
            (Swallow::Key(lines), Some(marker), _) => {
                let (length, lines) = lines.advance(text, marker, is_end);
                (length, lines.map(Swallow::Key))
            }
            (Swallow::Token(state), _, Body::Pattern(table)) => swallow_token(table, state, text),
            _ => (0, None),
        }
    }
}

fn swallow_token(table: &Table, mut state: StateID, text: &[u8]) -> (usize, Option<Swallow>) {
    let mut continues = None;
    for (at, byte) in text.iter().enumerate() {
        state = table.next_state(state, *byte);
        if !table.is_special_state(state) {
            continue;
        }
        if table.is_dead_state(state) || table.is_quit_state(state) {
            return (at, None);
        }
        // A match is reported one byte after its end. The secret goes on if a longer match is possible.
        if table.is_match_state(state) && continues != Some(state) {
            if !goes_on(table, state) {
                return (at, None);
            }
            continues = Some(state);
        }
    }
    (text.len(), Some(Swallow::Token(state)))
}

fn look_for_value(value: &[u8], text: &[u8], at: usize, is_end: bool) -> Verdict {
    let rest = &text[at..];
    if rest.starts_with(value) {
        return Verdict::Match { start: at, end: at + value.len(), then: None };
    }
    match !is_end && value.starts_with(rest) {
        true => Verdict::Open,
        false => Verdict::NoMatch,
    }
}

fn builder(start: StartKind, limit: usize, is_unicode: bool) -> dense::Builder {
    let config = dense::Config::new()
        .start_kind(start)
        .dfa_size_limit(Some(limit))
        .determinize_size_limit(Some(2 * limit));
    let mut builder = dense::Builder::new();
    builder.configure(config).syntax(syntax::Config::new().unicode(is_unicode).utf8(false));
    builder
}

/// The table that finds the first end of a match of several patterns. `None` if it would be too big.
pub(super) fn table_of_ends(patterns: &[String]) -> Option<Table> {
    builder(StartKind::Unanchored, MAX_TABLE, true).build_many(patterns).ok()
}

/// The first position where a match from `at` on ends. `None` if there is no match.
pub(super) fn first_end(table: &Table, text: &[u8], at: usize) -> Option<usize> {
    let input = Input::new(text).span(at..text.len()).earliest(true);
    // A table without Unicode words never gives up.
    table.try_search_fwd(&input).ok().flatten().map(|it| it.offset())
}

/// Builds the table of a pattern.
fn table(pattern: &str, is_unicode: bool) -> Result<Table, String> {
    builder(StartKind::Anchored, MAX_TABLE, is_unicode).build(pattern).map_err(|error| {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    })
}

fn start_state(table: &Table, text: &[u8], at: usize) -> Option<StateID> {
    let input = Input::new(text).span(at..text.len()).anchored(Anchored::Yes);
    table.start_state_forward(&input).ok()
}

fn run(table: &Table, text: &[u8], at: usize, is_end: bool) -> Run {
    let Some(mut state) = start_state(table, text, at) else { return Run::Done(None) };
    let mut ends = None;
    for (index, byte) in text.iter().enumerate().skip(at) {
        state = table.next_state(state, *byte);
        if table.is_special_state(state) {
            // A match is reported one byte after its end.
            if table.is_match_state(state) {
                ends = Ends::add(ends, index);
            } else if table.is_dead_state(state) || table.is_quit_state(state) {
                return Run::Done(ends);
            }
        }
    }
    if !is_end {
        // The text has gone past the end of the match.
        let is_over = ends.is_some_and(|it| it.longest + 1 == text.len());
        return match is_over && !goes_on(table, state) {
            true => Run::Done(ends),
            false => Run::Open(state),
        };
    }
    if table.is_match_state(table.next_eoi_state(state)) {
        ends = Ends::add(ends, text.len());
    }
    Run::Done(ends)
}

/// Whether a longer text may match, too.
fn goes_on(table: &Table, state: StateID) -> bool {
    (0..=255).any(|byte| !table.is_dead_state(table.next_state(state, byte)))
}

/// The matches before the last byte of a text.
fn matches_before_end(table: &Table, text: &[u8], at: usize) -> Option<Ends> {
    let mut state = start_state(table, text, at)?;
    let mut ends = None;
    for (index, byte) in text.iter().enumerate().skip(at) {
        state = table.next_state(state, *byte);
        if table.is_match_state(state) {
            ends = Ends::add(ends, index);
        }
    }
    ends
}

/// A pattern whose `\b` and `\B` look at ASCII letters only, because a table cannot look at others.
pub(super) fn with_ascii_words(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match rest.as_bytes() {
            [_, b'b' | b'B', b'{', ..] => rest.find('}').map_or(2, |it| it + 1),
            _ => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        let (escape, after) = rest.split_at(length);
        match escape.starts_with("\\b") || escape.starts_with("\\B") {
            true => out.push_str(&format!("(?-u:{escape})")),
            false => out.push_str(escape),
        }
        rest = after;
    }
    out + rest
}

/// The Shannon entropy of a text, in bits per byte.
fn entropy(text: &[u8]) -> f32 {
    let mut counts = [0_u32; 256];
    text.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let total = text.len() as f32;
    let part = |count: &u32| {
        let share = *count as f32 / total;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::super::Secrets;
    use super::super::detectors::{CONTEXT, STANDARD};
    use super::*;

    #[test]
    fn every_pattern_of_the_built_in_detectors_can_be_built() {
        for description in STANDARD.iter().chain(&CONTEXT) {
            for pattern in [description.head, description.body] {
                if !pattern.is_empty() {
                    let built = table(pattern, false);
                    assert!(built.is_ok(), "{}: {:?}", description.name, built.err());
                }
            }
            assert!(description.literals.iter().all(|it| it.len() >= 3), "{}", description.name);
        }
    }

    #[test]
    fn the_entropy_of_one_letter_is_zero() {
        assert_eq!(entropy(b"aaaaaaaa"), 0.0);
        assert_eq!(entropy(b"abab"), 1.0);
        assert_eq!(entropy(b"0123456789abcdef"), 4.0);
    }

    #[test]
    fn a_word_boundary_looks_at_ascii_letters() {
        let secrets = Secrets::builder().pattern("id", r"\bEMP-\d{6}\b", None).unwrap().build();
        assert_eq!(secrets.redact("EMP-123456é, aEMP-123456"), "[redacted:id]é, aEMP-123456");
        let pattern = with_ascii_words(r"\\b\b\B\b{start}\d\");
        assert_eq!(pattern, r"\\b(?-u:\b)(?-u:\B)(?-u:\b{start})\d\");
    }
}
