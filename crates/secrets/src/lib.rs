//! Finds secrets in texts: by the shapes of well-known tokens, by patterns of the user, and by exact values.
//!
//! [`Secrets::standard`] has the detectors of well-known tokens. [`Secrets::redact`] replaces each secret in a text by a
//! placeholder such as `[redacted:github]`. A [`SecretStream`] does the same for a text that comes in pieces: its output
//! does not depend on how the text is cut.
//!
//! A search looks for the literals that secrets begin with, all at once. Only where one of them stands, the detectors of
//! this literal run. So a text without such a literal costs about a nanosecond per byte.

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

mod detectors;
mod interruption;
mod key;
mod machine;
mod spellings;
mod stream;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};
use regex_syntax::hir::literal::{Extractor, Seq};

use detectors::{CONTEXT, Description, REST, STANDARD};
use machine::{Detector, Table, Verdict};

pub use acp_wire::secret_names::{has_secret_values, is_secret_name};
pub use stream::SecretStream;

/// The shortest exact value. A shorter one would occur in ordinary text.
pub const MIN_VALUE: usize = 8;

/// The longest exact value.
pub const MAX_VALUE: usize = 4096;

/// The greatest `max` of a pattern without a literal prefix.
pub const MAX_PATTERN: usize = 1024;

/// The longest text in which each literal is searched for separately.
const SHORT_TEXT: usize = 4096;

/// What every placeholder begins with.
pub const PLACEHOLDER: &str = "[redacted:";

/// A set of detectors. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Secrets(Arc<Search>);

/// The detectors, and how they are found.
#[derive(Debug)]
struct Search {
    detectors: Vec<Arc<Detector>>,
    /// Finds the literals. No literal is the beginning of another one.
    literals: AhoCorasick,
    /// The literals in order, with the detectors that may match there.
    triggers: Vec<Trigger>,
    longest_literal: usize,
    /// Finds the literals in the text of JSON, and escapes that could hide one.
    in_json: AhoCorasick,
    /// Whether JSON never escapes a character of a literal, except by a number.
    has_plain_literals: bool,
    /// The detector of the rest of a secret, for [`SecretStream::resumed`].
    rest: usize,
    /// The detectors without a literal, and the bytes that their matches begin with.
    anywhere: Vec<usize>,
    anywhere_first: [bool; 256],
    /// Finds the first end of one of their matches, so that long texts without a match cost little.
    anywhere_ends: Option<Table>,
    /// The length of their longest match.
    anywhere_max: usize,
    /// Texts that are not secret.
    allowed: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Trigger {
    literal: Vec<u8>,
    detectors: Vec<usize>,
    /// Whether all its detectors count only at the beginning of a word.
    at_word: bool,
}

/// Built-in detectors. Their tables are built once, when they are needed.
type BuiltDetectors = LazyLock<Vec<Arc<Detector>>>;

static BUILT_STANDARD: BuiltDetectors = LazyLock::new(|| STANDARD.iter().map(built).collect());
static BUILT_CONTEXT: BuiltDetectors = LazyLock::new(|| CONTEXT.iter().map(built).collect());
static BUILT_REST: LazyLock<Arc<Detector>> = LazyLock::new(|| built(&REST));

fn built(description: &Description) -> Arc<Detector> {
    Arc::new(Detector::new(description))
}

/// Collects the detectors of a [`Secrets`].
#[derive(Debug, Default)]
pub struct SecretsBuilder {
    detectors: Vec<(Arc<Detector>, Vec<Vec<u8>>)>,
    /// The patterns without a literal.
    anywhere: Vec<String>,
    allowed: Vec<Vec<u8>>,
}

/// How often each detector has found a secret, by its name. The secrets themselves are not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(BTreeMap<String, u64>);

impl Findings {
    /// Counts one more.
    pub fn add(&mut self, name: &str) {
        match self.0.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(self.0.insert(name.to_owned(), 1)),
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the detectors and their counts, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// How many secrets were found.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Adds the counts of another search.
    pub fn merge(&mut self, other: &Findings) {
        for (name, count) in other.iter() {
            *self.0.entry(name.to_owned()).or_default() += count;
        }
    }
}

impl Secrets {
    /// The detectors of well-known tokens.
    pub fn standard() -> &'static Secrets {
        static STANDARD_SECRETS: LazyLock<Secrets> =
            LazyLock::new(|| SecretsBuilder::default().standard(|_| true).build());
        &STANDARD_SECRETS
    }

    /// Where the well-known tokens of a text are. The tables of the detectors take milliseconds to build, so they are not
    /// built for a short text that has none of their literals, such as the command line of a component.
    pub fn standard_ranges(text: &str) -> Vec<std::ops::Range<usize>> {
        let mut literals = STANDARD.iter().flat_map(|it| it.literals);
        if text.len() <= SHORT_TEXT && !literals.any(|it| text.contains(it)) {
            return Vec::new();
        }
        Secrets::standard().ranges(text)
    }

    /// Collects other detectors.
    pub fn builder() -> SecretsBuilder {
        SecretsBuilder::default()
    }

    /// The names of the detectors that are always on.
    pub fn standard_names() -> Vec<&'static str> {
        names(&STANDARD)
    }

    /// The names of the detectors that look at the text around a secret.
    pub fn context_names() -> Vec<&'static str> {
        names(&CONTEXT)
    }

    /// The text with a placeholder in place of each secret.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact_bytes(text.as_bytes(), &mut Findings::default()) {
            None => Cow::Borrowed(text),
            // The borders of a match may be within a character only for a pattern of the user that matches bytes.
            Some(redacted) => Cow::Owned(String::from_utf8_lossy(&redacted).into_owned()),
        }
    }

    /// The text with placeholders, for a text that need not be UTF-8. `None` if there is no secret.
    pub fn redact_bytes(&self, text: &[u8], findings: &mut Findings) -> Option<Vec<u8>> {
        if !self.has_candidate(text) {
            return None;
        }
        let (mut stream, mut out, mut found) =
            (SecretStream::default(), Vec::with_capacity(text.len()), Findings::default());
        stream.push(self, text, &mut out, &mut found);
        stream.finish(self, &mut out, &mut found);
        findings.merge(&found);
        (!found.is_empty()).then_some(out)
    }

    /// Like [`redact_bytes`](Secrets::redact_bytes), for a text that may go on later. A secret that is cut off at
    /// the end is replaced, too, unless only its beginning is there, which is the same for all secrets of its kind.
    pub fn redact_unfinished(&self, text: &[u8], findings: &mut Findings) -> Option<Vec<u8>> {
        if !self.may_go_on(text) {
            return None;
        }
        let (mut stream, mut out, mut found) =
            (SecretStream::default(), Vec::with_capacity(text.len()), Findings::default());
        stream.push(self, text, &mut out, &mut found);
        stream.interrupt(self, &mut out, &mut found);
        findings.merge(&found);
        (!found.is_empty()).then_some(out)
    }

    /// Where the secrets of a text are.
    pub fn ranges(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        let (search, text, mut at, mut found) = (&*self.0, text.as_bytes(), 0, Vec::new());
        let mut cursor = Cursor::default();
        while let Some((candidate, trigger)) = search.next_candidate(text, at, &mut cursor) {
            at = match search.decide(text, candidate, trigger, None, true) {
                Decision::Secret(Found { detector, start, end, then }) => {
                    let more = |it| search.detectors[detector].swallow(it, &text[end..], true).0;
                    let end = end + then.map_or(0, more);
                    found.push(start..end);
                    end
                }
                Decision::Open | Decision::NoSecret => candidate + 1,
            };
        }
        found
    }

    /// Whether values or patterns of the user are searched, whose first characters are secret, too.
    pub fn has_own(&self) -> bool {
        self.0.detectors[..self.0.rest].iter().any(|it| it.is_own())
    }

    /// Whether a string in this JSON may have a secret. Cheap, and wrong only in this direction. A secret that is cut
    /// off does not count.
    pub fn may_be_in_json(&self, json: &[u8]) -> bool {
        !self.0.anywhere.is_empty()
            || self.0.in_json.is_match(json)
            || !self.0.has_plain_literals && json.contains(&b'\\')
    }

    /// The secrets in a text, without a new text.
    pub fn find(&self, text: &[u8]) -> Findings {
        let mut findings = Findings::default();
        self.redact_bytes(text, &mut findings);
        findings
    }

    /// Whether this text, or this text with more text, may have a secret.
    fn may_go_on(&self, text: &[u8]) -> bool {
        self.has_candidate(text) || self.0.partial_literal(text, 0, None) < text.len()
    }

    fn has_candidate(&self, text: &[u8]) -> bool {
        !self.0.anywhere.is_empty() || self.0.literals.is_match(text)
    }
}

impl SecretsBuilder {
    /// Adds the detectors of well-known tokens whose name is chosen.
    #[must_use]
    pub fn standard(mut self, is_chosen: impl Fn(&str) -> bool) -> SecretsBuilder {
        self.add_all(&STANDARD, &BUILT_STANDARD, is_chosen);
        self
    }

    /// Adds the detectors that look at the text around a secret, whose name is chosen.
    #[must_use]
    pub fn context(mut self, is_chosen: impl Fn(&str) -> bool) -> SecretsBuilder {
        self.add_all(&CONTEXT, &BUILT_CONTEXT, is_chosen);
        self
    }

    fn add_all(
        &mut self,
        descriptions: &[Description],
        built: &BuiltDetectors,
        is_chosen: impl Fn(&str) -> bool,
    ) {
        let chosen = descriptions.iter().enumerate().filter(|(_, it)| is_chosen(it.name));
        for (index, description) in chosen {
            let literals = description.literals.iter().map(|it| it.as_bytes().to_vec()).collect();
            self.detectors.push((built[index].clone(), literals));
        }
    }

    /// Adds a detector for an exact value, also as a part of JSON and of an address.
    ///
    /// # Errors
    /// If the value is shorter than [`MIN_VALUE`] or longer than [`MAX_VALUE`].
    pub fn value(mut self, name: &str, value: &str) -> Result<SecretsBuilder, String> {
        if value.len() < MIN_VALUE {
            return Err(format!(
                "it has {} characters, and a value of fewer than {MIN_VALUE} occurs in ordinary text",
                value.len()
            ));
        }
        if value.len() > MAX_VALUE {
            return Err(format!("it is longer than {MAX_VALUE} bytes"));
        }
        for spelling in spellings::of(value) {
            self.detectors.push((Detector::value(name, &spelling).into(), vec![spelling]));
        }
        Ok(self)
    }

    /// Adds a detector for a regular expression. A pattern whose matches do not begin with a literal of at least
    /// two characters needs `max`: the length of the longest match in bytes.
    ///
    /// # Errors
    /// Why the pattern cannot be used.
    pub fn pattern(
        mut self,
        name: &str,
        pattern: &str,
        max: Option<usize>,
    ) -> Result<SecretsBuilder, String> {
        if let Some(max) = max.filter(|max| *max == 0 || *max > MAX_PATTERN) {
            return Err(format!("max is {max}; choose a length from 1 to {MAX_PATTERN}"));
        }
        let detector = Detector::pattern(name, pattern, max)?;
        let pattern = machine::with_ascii_words(pattern);
        let literals = literals_of(&pattern)?;
        if literals.is_none() && max.is_none() {
            return Err(format!(
                "it does not begin with fixed text, so all text would be held back; add max = N, the length of \
                 the longest match (at most {MAX_PATTERN}), or begin the pattern with at least two fixed characters"
            ));
        }
        if literals.is_none() {
            self.anywhere.push(pattern);
        }
        self.detectors.push((detector.into(), literals.unwrap_or_default()));
        Ok(self)
    }

    /// Adds a text that is not secret, whatever the detectors say about it.
    #[must_use]
    pub fn allow(mut self, text: &str) -> SecretsBuilder {
        self.allowed.push(text.as_bytes().to_vec());
        self
    }

    /// Builds the search.
    pub fn build(self) -> Secrets {
        let triggers = triggers(&self.detectors);
        let anywhere: Vec<usize> =
            (0..self.detectors.len()).filter(|it| self.detectors[*it].1.is_empty()).collect();
        let mut anywhere_first = [false; 256];
        for index in &anywhere {
            let first = self.detectors[*index].0.first_bytes();
            anywhere_first.iter_mut().zip(first).for_each(|(all, one)| *all |= one);
        }
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(triggers.iter().map(|it| &it.literal))
            // Only for gigabytes of literals.
            .unwrap_or_else(|error| panic!("the literals of the detectors do not fit: {error}"));
        let escapes: [&[u8]; 2] = [b"\\u", b"\\/"];
        let in_json =
            AhoCorasick::new(triggers.iter().map(|it| it.literal.as_slice()).chain(escapes));
        let is_plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
        let rest = BUILT_REST.clone();
        Secrets(Arc::new(Search {
            literals: search,
            in_json: in_json.unwrap_or_else(|error| {
                panic!("the literals of the detectors do not fit: {error}")
            }),
            has_plain_literals: triggers.iter().all(|it| it.literal.iter().all(is_plain)),
            rest: self.detectors.len(),
            longest_literal: triggers.iter().map(|it| it.literal.len()).max().unwrap_or(0),
            triggers,
            anywhere_ends: (!anywhere.is_empty())
                .then(|| machine::table_of_ends(&self.anywhere))
                .flatten(),
            anywhere_max: anywhere.iter().map(|it| self.detectors[*it].0.max()).max().unwrap_or(0),
            anywhere,
            anywhere_first,
            detectors: self
                .detectors
                .into_iter()
                .map(|(detector, _)| detector)
                .chain(std::iter::once(rest))
                .collect(),
            allowed: self.allowed,
        }))
    }
}

/// The literals in order, with their detectors. A literal that begins with another one belongs to that one.
fn triggers(detectors: &[(Arc<Detector>, Vec<Vec<u8>>)]) -> Vec<Trigger> {
    let all = detectors.iter().enumerate();
    let mut literals: Vec<(&Vec<u8>, usize)> =
        all.flat_map(|(index, (_, literals))| literals.iter().map(move |it| (it, index))).collect();
    literals.sort_unstable();
    let mut triggers: Vec<Trigger> = Vec::new();
    for (literal, index) in literals {
        let at_word = detectors[index].0.at_word;
        // In order, a literal follows right after its beginnings.
        match triggers.last_mut().filter(|last| literal.starts_with(&last.literal)) {
            Some(last) => {
                last.at_word &= at_word;
                if !last.detectors.contains(&index) {
                    last.detectors.push(index);
                }
            }
            None => {
                triggers.push(Trigger {
                    literal: literal.clone(),
                    detectors: vec![index],
                    at_word,
                });
            }
        }
    }
    triggers.iter_mut().for_each(|it| it.detectors.sort_unstable());
    triggers
}

/// What the search for candidates knows about the rest of a text, so that it reads no part of the text twice.
#[derive(Debug, Default)]
struct Cursor {
    /// The next literal, if it was searched: its position and its trigger.
    literal: Option<Option<(usize, usize)>>,
    /// No match of a detector without a literal ends before this position.
    anywhere_end: usize,
}

/// Below this length, the search for a match of any detector without a literal costs more than it saves.
const MIN_SKIPPED: usize = 64;

/// What the detectors say about a position.
enum Decision {
    /// More text decides.
    Open,
    NoSecret,
    Secret(Found),
}

/// A secret in a text.
#[derive(Debug, Clone, Copy)]
struct Found {
    detector: usize,
    start: usize,
    end: usize,
    /// How the secret goes on.
    then: Option<machine::Swallow>,
}

impl Search {
    /// The first position from `at` on where a detector may match, with the detectors of the literal there.
    fn next_candidate(
        &self,
        text: &[u8],
        at: usize,
        cursor: &mut Cursor,
    ) -> Option<(usize, Option<usize>)> {
        let literal = match cursor.literal {
            Some(known) if known.is_none_or(|it| it.0 >= at) => known,
            _ => {
                let input = aho_corasick::Input::new(text).span(at..text.len());
                let found = self.literals.find(input);
                *cursor.literal.insert(found.map(|it| (it.start(), it.pattern().as_usize())))
            }
        };
        let literal = literal.map(|(at, trigger)| (at, Some(trigger)));
        if self.anywhere.is_empty() {
            return literal;
        }
        let end = literal.map_or(text.len(), |(at, _)| at);
        let from = self.skip(text, at, cursor);
        let is_first = |byte: &u8| self.anywhere_first[usize::from(*byte)];
        let rest = text.get(from..end).unwrap_or_default();
        let anywhere = rest.iter().position(is_first).map(|it| (from + it, None));
        anywhere.or(literal)
    }

    /// The first position from `at` on where a detector without a literal may match.
    fn skip(&self, text: &[u8], at: usize, cursor: &mut Cursor) -> usize {
        let Some(table) = self.anywhere_ends.as_ref().filter(|_| text.len() - at > MIN_SKIPPED)
        else {
            return at;
        };
        if cursor.anywhere_end <= at {
            // Without a match, the rest of the text may be the beginning of one.
            let end = machine::first_end(table, text, at);
            cursor.anywhere_end = end.unwrap_or(text.len());
        }
        at.max(cursor.anywhere_end.saturating_sub(self.anywhere_max))
    }

    /// Decides about a candidate. Several detectors may match: the longest match counts.
    fn decide(
        &self,
        text: &[u8],
        at: usize,
        trigger: Option<usize>,
        border: Option<usize>,
        is_end: bool,
    ) -> Decision {
        let of_trigger = trigger.map_or(&[][..], |it| &self.triggers[it].detectors);
        let starts_word = is_word_start(text, at, border);
        let mut best = Decision::NoSecret;
        let mut best_end = 0;
        for index in of_trigger.iter().chain(&self.anywhere) {
            let detector = &self.detectors[*index];
            if detector.at_word && !starts_word {
                continue;
            }
            match detector.look(text, at, is_end) {
                Verdict::Open => return Decision::Open,
                Verdict::NoMatch | Verdict::Placeholder => {}
                Verdict::Match { start, end, then } => {
                    if end > best_end && !self.is_allowed(&text[start..end]) {
                        best_end = end;
                        best = Decision::Secret(Found { detector: *index, start, end, then });
                    }
                }
            }
        }
        best
    }

    fn is_allowed(&self, text: &[u8]) -> bool {
        self.allowed.iter().any(|it| *it == text)
    }

    /// The first position from `at` on from which the rest of the text is the beginning of a literal. The length of
    /// the text if there is none.
    fn partial_literal(&self, text: &[u8], at: usize, border: Option<usize>) -> usize {
        let first = at.max((text.len() + 1).saturating_sub(self.longest_literal));
        (first..text.len())
            .find(|start| {
                let rest = &text[*start..];
                let from = self.triggers.partition_point(|it| it.literal.as_slice() < rest);
                let begins = self.triggers[from..]
                    .iter()
                    .take_while(|it| it.literal.starts_with(rest))
                    .filter(|it| it.literal.len() > rest.len());
                let starts_word = is_word_start(text, *start, border);
                begins.into_iter().any(|it| starts_word || !it.at_word)
            })
            .unwrap_or(text.len())
    }
}

/// How many bytes before a position show whether a word begins there.
const WORD_CONTEXT: usize = 32;

/// Whether a word begins at a position. After an underscore, an escape such as `\n`, `%3D` or `\u0022`, after an escape sequence of a
/// terminal, and at the border of a message, one does.
fn is_word_start(text: &[u8], at: usize, border: Option<usize>) -> bool {
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    if border == Some(at) {
        return true;
    }
    let before = &text[at.saturating_sub(WORD_CONTEXT)..at];
    match before {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', high, low] | [.., b'\\', b'x', high, low] if is_hex(&[*high, *low]) => true,
        [.., b'\\', b'u', a, b, c, d] if is_hex(&[*a, *b, *c, *d]) => true,
        [.., last] => !last.is_ascii_alphanumeric() || ends_terminal_sequence(before),
        [] => true,
    }
}

/// Whether a text ends with an escape sequence of a terminal, such as a colour.
fn ends_terminal_sequence(text: &[u8]) -> bool {
    const ESCAPES: [&[u8]; 6] = [b"\x1b", b"\\u001b", b"\\u001B", b"\\x1b", b"\\033", b"\\e"];
    let Some((_, rest)) = text.split_last() else { return false };
    let is_parameter = |it: &u8| (b' '..=b'?').contains(it);
    let length = rest.iter().rposition(|it| !is_parameter(it)).map_or(0, |it| it + 1);
    let introducer = rest[..length].strip_suffix(b"[").unwrap_or(&rest[..length]);
    ESCAPES.iter().any(|it| introducer.ends_with(it))
}

fn names(descriptions: &[Description]) -> Vec<&'static str> {
    let mut names: Vec<&str> = descriptions.iter().map(|it| it.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The literals that every match of a pattern begins with. `None` if there are none.
fn literals_of(pattern: &str) -> Result<Option<Vec<Vec<u8>>>, String> {
    let hir = regex_syntax::ParserBuilder::new().utf8(false).build().parse(pattern);
    let hir = hir.map_err(|error| error.to_string())?;
    // A class of many characters ends a literal.
    let mut found: Seq = Extractor::new().limit_class(3).limit_total(32).extract(&hir);
    found.keep_first_bytes(16);
    let literals = found.literals().unwrap_or_default();
    // Many short literals are a class of characters.
    let is_usable =
        (1..=16).contains(&literals.len()) && literals.iter().all(|it| it.as_bytes().len() >= 2);
    Ok(is_usable.then(|| literals.iter().map(|it| it.as_bytes().to_vec()).collect()))
}
