//! Brace expansion: `{a,b}` is two words.

use super::words::{Unit, Word};

/// The most words that one word becomes.
const MAX_WORDS: usize = 256;

/// The most braces of one word.
const MAX_BRACES: usize = 64;

/// A piece of a word in which braces are not expanded yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Raw {
    /// A finished piece.
    Unit(Unit),
    /// An unquoted brace or comma, and its place.
    Mark(char),
}

/// The words that a word becomes. A word with too many of them is unknown.
pub(super) fn expand(raw: &[Raw]) -> Vec<Vec<Unit>> {
    if !raw.contains(&Raw::Mark('{')) {
        return vec![plain(raw)];
    }
    if raw.iter().filter(|it| **it == Raw::Mark('{')).count() > MAX_BRACES {
        return vec![vec![Unit::Unknown]];
    }
    expand_bounded(raw, &mut 0).unwrap_or_else(|| vec![vec![Unit::Unknown]])
}

/// The patterns that a pattern with braces stands for. `None` if there are too many, or if one is not known.
pub(crate) fn of_pattern(pattern: &str) -> Option<Vec<String>> {
    let pieces = pattern.split_inclusive(['{', ',', '}']).flat_map(|piece| {
        let mark = piece.chars().last().filter(|it| "{,}".contains(*it));
        let text = piece.trim_end_matches(['{', ',', '}']);
        let text = (!text.is_empty()).then(|| Raw::Unit(Unit::Text(text.to_owned())));
        text.into_iter().chain(mark.map(Raw::Mark))
    });
    let raw: Vec<Raw> = pieces.collect();
    let words = expand(&raw).into_iter().map(|units| Word { units, ..Word::default() });
    words.map(|it| it.text().map(str::to_owned)).collect()
}

/// The pieces, with braces as text.
fn plain(raw: &[Raw]) -> Vec<Unit> {
    let mut word = Word::default();
    for piece in raw {
        match piece {
            Raw::Unit(unit) => word.push(unit.clone()),
            Raw::Mark(mark) => word.push_text(mark.encode_utf8(&mut [0; 4])),
        }
    }
    word.units
}

/// Expands the first brace expression, and then the rest. `None` if it takes too many steps.
fn expand_bounded(raw: &[Raw], steps: &mut usize) -> Option<Vec<Vec<Unit>>> {
    *steps += 1;
    if *steps > MAX_WORDS {
        return None;
    }
    let Some((open, commas, close)) = first_group(raw) else { return Some(vec![plain(raw)]) };
    if commas.is_empty() {
        // A range such as {1..3}.
        let units = [&raw[..open], &[Raw::Unit(Unit::Unknown)], &raw[close + 1..]].concat();
        return expand_bounded(&units, steps);
    }
    let mut words = Vec::new();
    let mut start = open + 1;
    for end in commas.into_iter().chain([close]) {
        let one = [&raw[..open], &raw[start..end], &raw[close + 1..]].concat();
        words.extend(expand_bounded(&one, steps)?);
        if words.len() > MAX_WORDS {
            return None;
        }
        start = end + 1;
    }
    Some(words)
}

/// The first brace expression: its opening brace, its commas, its closing brace.
fn first_group(raw: &[Raw]) -> Option<(usize, Vec<usize>, usize)> {
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut found: Option<(usize, Vec<usize>, usize)> = None;
    for (at, piece) in raw.iter().enumerate() {
        match piece {
            Raw::Mark('{') => open.push((at, Vec::new())),
            Raw::Mark(',') => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            Raw::Mark('}') => {
                let Some((start, commas)) = open.pop() else { continue };
                let valid = !commas.is_empty() || is_range(&raw[start + 1..at]);
                if valid && found.as_ref().is_none_or(|(first, _, _)| start < *first) {
                    found = Some((start, commas, at));
                }
            }
            _ => {}
        }
    }
    found
}

fn is_range(raw: &[Raw]) -> bool {
    matches!(raw, [Raw::Unit(Unit::Text(text))] if text.contains("..") && !text.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Vec<String> {
        of_pattern(text).unwrap_or_else(|| vec!["?".to_owned()])
    }

    #[test]
    fn braces_are_several_words() {
        assert_eq!(expanded("git{,}"), ["git", "git"]);
        assert_eq!(expanded("{git,push,-f}"), ["git", "push", "-f"]);
        assert_eq!(expanded("a{b,c{d,e}}f"), ["abf", "acdf", "acef"]);
        assert_eq!(expanded("{a,b}{c,d}"), ["ac", "ad", "bc", "bd"]);
        assert_eq!(expanded("{}"), ["{}"]);
        assert_eq!(expanded("{a"), ["{a"]);
        assert_eq!(expanded("a,b}"), ["a,b}"]);
        assert_eq!(expanded("{{a,b}"), ["{a", "{b"]);
        assert_eq!(expanded("{1..3}"), ["?"]);
        assert_eq!(expanded(&"{a,b}".repeat(30)), ["?"]);
        assert_eq!(expanded(&"{a,".repeat(2000)).len(), 1);
    }
}
