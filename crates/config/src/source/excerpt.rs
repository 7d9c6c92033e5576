//! The line of a file that an error shows.

use std::ops::Range;

use acp_wire::printable;

use super::Place;

/// The longest text before a place, and of the line after its beginning, in bytes.
const BEFORE: usize = 160;
const AFTER: usize = 240;

/// The line of a place, safe to print. Text that must stay hidden is `…`.
pub(super) struct Excerpt {
    /// The line, or the part of a very long line that contains the place.
    pub text: String,
    /// The range of the place in this text. At least one character, if the line has any.
    pub span: Range<usize>,
}

impl Excerpt {
    /// The first line of a place.
    pub fn of(place: &Place) -> Excerpt {
        let text = place.source.text();
        let start = floor(text, place.span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line_end = line_end - usize::from(text[start..line_end].ends_with('\r'));
        let from = floor(text, start.saturating_sub(BEFORE)).max(line_start);
        let to = floor(text, line_end.min(start + AFTER)).max(start);
        let end = floor(text, place.span.end).clamp(start, to);
        let mut excerpt = Excerpt { text: String::new(), span: 0..0 };
        if from > line_start {
            excerpt.text.push('…');
        }
        let hidden = place.source.hidden();
        let mut was_hidden = false;
        for (offset, character) in text[from..to].char_indices() {
            let at = from + offset;
            if at == start {
                excerpt.span.start = excerpt.text.len();
            }
            if at == end {
                excerpt.span.end = excerpt.text.len();
            }
            let is_hidden = hidden.iter().any(|range| range.contains(&at));
            match character {
                _ if is_hidden && was_hidden => {}
                _ if is_hidden => excerpt.text.push('…'),
                it if printable::is_printable(it) => excerpt.text.push(it),
                _ => excerpt.text.push('\u{fffd}'),
            }
            was_hidden = is_hidden;
        }
        if start >= to {
            excerpt.span.start = excerpt.text.len();
        }
        if end >= to {
            excerpt.span.end = excerpt.text.len();
        }
        if to < line_end {
            excerpt.text.push('…');
        }
        if excerpt.span.start >= excerpt.span.end {
            let next = excerpt.text[excerpt.span.start..].chars().next();
            excerpt.span.end = excerpt.span.start + next.map_or(0, char::len_utf8);
        }
        excerpt
    }
}

/// The character boundary at or before an offset.
fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
