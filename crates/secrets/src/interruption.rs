//! What of a candidate may be shown when another message interrupts its text.

use super::machine::Verdict;
use super::{Cursor, Search, Trigger, is_word_start};

/// How many characters of a secret may be shown when its stream is interrupted.
pub(super) const SHOWN: usize = 4;

/// How many characters of a public beginning are sent at once within a word.
const RELEASED: usize = 3;

impl Search {
    /// Where the text must be hidden from, and the detector of the secret. `None` if all of it may be shown.
    pub(super) fn hidden(
        &self,
        text: &[u8],
        candidate: usize,
        border: Option<usize>,
    ) -> Option<(usize, usize)> {
        let (mut at, mut cursor) = (candidate, Cursor::default());
        loop {
            if let Some(detector) = self.hides(text, at, border) {
                // A secret within another candidate hides both.
                let start = match at == candidate {
                    true => self.detectors[detector].secret_start(text, at),
                    false => candidate,
                };
                return Some((start, detector));
            }
            let next = self.next_candidate(text, at + 1, &mut cursor).map(|it| it.0);
            let partial = self.partial_literal(text, at + 1, border);
            at = next.unwrap_or(text.len()).min(partial);
            if at >= text.len() {
                return None;
            }
        }
    }

    /// The detector because of which the text from a position on must be hidden: it is a secret if nothing follows, or too
    /// much of one.
    fn hides(&self, text: &[u8], at: usize, border: Option<usize>) -> Option<usize> {
        let candidate = text.get(at..).filter(|it| !it.is_empty())?;
        let starts_word = is_word_start(text, at, border);
        let is_secret = |start: usize, end: usize| !self.is_allowed(&text[start..end]);
        let mut too_much = None;
        for index in self.detectors_of(candidate) {
            let detector = &self.detectors[index];
            if detector.at_word && !starts_word {
                continue;
            }
            let is_hidden = match detector.look(text, at, false) {
                Verdict::NoMatch | Verdict::Placeholder => false,
                Verdict::Match { start, end, .. } => is_secret(start, end),
                Verdict::Open => match detector.look(text, at, true) {
                    Verdict::Match { start, end, .. } => is_secret(start, end),
                    // It may become a secret only with text that is not there yet.
                    Verdict::Placeholder => false,
                    Verdict::NoMatch | Verdict::Open => {
                        if candidate.len() > detector.public_length(text, at) + SHOWN {
                            too_much.get_or_insert(index);
                        }
                        false
                    }
                },
            };
            if is_hidden {
                return Some(index);
            }
        }
        too_much
    }

    /// Whether the text from a position on is a short public beginning within a word.
    pub(super) fn tells_nothing(&self, text: &[u8], at: usize, border: Option<usize>) -> bool {
        let is_private = |index: usize| {
            let detector = &self.detectors[index];
            detector.is_own() && detector.look(text, at, false) == Verdict::Open
        };
        text.len() - at <= RELEASED
            && !is_word_start(text, at, border)
            && !self.detectors_of(&text[at..]).any(is_private)
    }

    /// The detectors whose literal stands at the beginning of a text, or begins there.
    fn detectors_of(&self, candidate: &[u8]) -> impl Iterator<Item = usize> {
        let after = self.triggers.partition_point(|it| it.literal.as_slice() <= candidate);
        let (before, after) = self.triggers.split_at(after);
        // No literal begins with another one, so only the last one can stand here.
        let complete = before.last().filter(|it| candidate.starts_with(&it.literal));
        let begun = after.iter().take_while(|it| it.literal.starts_with(candidate));
        let of = |it: &Trigger| it.detectors.clone();
        complete.into_iter().chain(begun).flat_map(of).chain(self.anywhere.iter().copied())
    }
}
