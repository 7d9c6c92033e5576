//! The lines of a private key. A key whose end was cut off must not hide the text after it, so the lines of a key are told
//! from other text.
//!
//! A line belongs to a key if it has a long run of Base64, whatever stands before it: the name of a container or of a
//! file, a number, a quote. A line of four words is other text. A few lines that are neither may stand between: an empty
//! line, a header, a short last line. They belong to the key if a line of the key or the end of the key follows.

/// How many lines that are neither Base64 nor prose may follow each other.
const MAX_LINES: usize = 6;

/// A longer line without Base64 is other text.
const MAX_LINE: usize = 512;

/// How many words make a line prose.
const PROSE: usize = 4;

/// Headers of keys. What follows them in the line may look like prose.
const HEADERS: [&str; 7] =
    ["Comment:", "Version:", "Charset:", "Hash:", "Proc-Type:", "DEK-Info:", "Encryption:"];

/// Where a key ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndMarker {
    /// What the last line of the key contains.
    pub(super) text: &'static str,
    /// What closes the marker. Without it, hexadecimal digits follow the marker.
    pub(super) close: &'static str,
}

/// Where the text after the header of a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyLines {
    /// Whether the text goes on in a line of the key.
    in_line: bool,
    /// Whether the next line follows a line of the key directly, so that it may be the short last line.
    is_adjacent: bool,
}

/// What follows the header or a line of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A line of the key. The text up to here belongs to it.
    Key(usize),
    /// The end of the key is here.
    End(usize),
    Other,
    /// More text decides.
    Open,
}

/// Whether a key follows its header: the length of its first part. `None` if more text decides.
pub(super) fn begins(text: &[u8], marker: EndMarker, is_end: bool) -> Option<Result<usize, ()>> {
    match next(text, marker, is_end) {
        Next::Key(length) => Some(Ok(length)),
        // A header without a key behind it is documentation.
        Next::End(_) | Next::Other => Some(Err(())),
        Next::Open => None,
    }
}

impl KeyLines {
    /// After the first part of a key, which ends within a line.
    pub(super) const BEGUN: KeyLines = KeyLines { in_line: true, is_adjacent: true };

    /// The key may go on at the beginning of another message.
    pub(super) const IN_NEXT_MESSAGE: KeyLines = KeyLines { in_line: false, is_adjacent: false };

    /// Continues a key. Returns the length of the text that belongs to it, and the state if the key may go on behind it.
    pub(super) fn advance(
        mut self,
        text: &[u8],
        marker: EndMarker,
        is_end: bool,
    ) -> (usize, Option<KeyLines>) {
        let mut at = 0;
        loop {
            if self.in_line {
                match rest_of_line(&text[at..], marker, is_end) {
                    Next::Key(length) => at += length,
                    Next::End(length) => return (at + length, None),
                    Next::Other | Next::Open => return (at, Some(self)),
                }
                if !is_end && !is_separator(&text[at..]) {
                    return (at, Some(self));
                }
                self = KeyLines { in_line: false, is_adjacent: true };
            }
            match next(&text[at..], marker, is_end) {
                Next::Key(length) => {
                    at += length;
                    self.in_line = true;
                }
                Next::End(length) => return (at + length, None),
                Next::Other => {
                    let last = if self.is_adjacent { last_line(&text[at..]) } else { 0 };
                    return (at + last, None);
                }
                Next::Open => return (at, Some(self)),
            }
        }
    }
}

/// Looks for the next line of a key.
fn next(text: &[u8], marker: EndMarker, is_end: bool) -> Next {
    let mut at = 0;
    for _ in 0..MAX_LINES {
        let line = line_of(&text[at..]);
        let separator = separator_length(&text[at + line.len()..]);
        match judge(line, marker, separator > 0 || is_end) {
            Some(Next::Key(length)) => return Next::Key(at + length),
            Some(Next::End(length)) => return Next::End(at + length),
            Some(other) => return other,
            None if separator == 0 => return if is_end { Next::Other } else { Next::Open },
            None => at += line.len() + separator,
        }
    }
    Next::Other
}

/// What a line is. `None` if it is neither a line of a key nor prose. The first evidence counts, so the answer does not
/// depend on how the text is cut.
fn judge(line: &[u8], marker: EndMarker, is_complete: bool) -> Option<Next> {
    let mut run = Run::default();
    let has_header = HEADERS.iter().any(|it| line.trim_ascii_start().starts_with(it.as_bytes()));
    let (mut words, mut letters, mut is_word) = (0, 0, true);
    for (at, byte) in line.iter().enumerate().take(MAX_LINE) {
        if line[at..].starts_with(marker.text.as_bytes()) {
            let end = end_of_marker(&line[at..], marker, is_complete);
            return Some(end.map_or(Next::Open, |it| Next::End(at + it)));
        }
        if run.add(*byte) {
            return Some(Next::Key(at + 1));
        }
        match byte {
            b' ' | b'\t' => {
                words += usize::from(is_word && letters > 0);
                (letters, is_word) = (0, true);
                if words >= PROSE && !has_header {
                    return Some(Next::Other);
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'\'' | 0x80.. => letters += 1,
            b',' | b'.' | b';' | b':' | b'!' | b'?' | b'(' | b')' | b'"' | b'`' | b'*' => {}
            _ => is_word = false,
        }
    }
    words += usize::from(is_word && letters > 0);
    let is_prose = is_complete && words >= PROSE && !has_header || line.len() > MAX_LINE;
    is_prose.then_some(Next::Other)
}

/// A run of Base64 letters.
#[derive(Default)]
struct Run {
    length: usize,
    has_upper: bool,
    has_lower: bool,
    has_digit: bool,
}

impl Run {
    /// Adds a byte. Whether the run is part of a key, and not a name or a path.
    fn add(&mut self, byte: u8) -> bool {
        match byte {
            b'A'..=b'Z' => self.has_upper = true,
            b'a'..=b'z' => self.has_lower = true,
            b'0'..=b'9' => self.has_digit = true,
            b'+' | b'/' | b'=' => {}
            _ => {
                *self = Run::default();
                return false;
            }
        }
        self.length += 1;
        let is_mixed = self.has_upper && self.has_lower;
        self.length >= 16 && is_mixed && self.has_digit
            || self.length >= 40 && (is_mixed || self.has_digit)
    }
}

/// The rest of a line of a key. `Key`: the length without the separator of lines, or of what can be dropped so far.
fn rest_of_line(text: &[u8], marker: EndMarker, is_end: bool) -> Next {
    let is_marker = |at: usize| text[at..].starts_with(marker.text.as_bytes());
    let stops = |at: &usize| is_line_end(&text[*at..]) || is_marker(*at);
    let at = (0..text.len()).find(stops).unwrap_or(text.len());
    if is_marker(at) {
        let line = line_of(&text[at..]);
        let is_complete = is_end || is_separator(&text[at + line.len()..]);
        return match end_of_marker(line, marker, is_complete) {
            Some(length) => Next::End(at + length),
            None => Next::Key(at),
        };
    }
    if is_end || is_separator(&text[at..]) {
        return Next::Key(at);
    }
    let line = &text[..at];
    // The beginning of a marker waits for the rest of it.
    let begins = |length: &usize| line.ends_with(&marker.text.as_bytes()[..*length]);
    let held = (1..marker.text.len()).rev().find(begins).unwrap_or(0);
    Next::Key(line.len() - held)
}

/// The length of the marker that a text begins with. `None` if more text decides.
fn end_of_marker(line: &[u8], marker: EndMarker, is_complete: bool) -> Option<usize> {
    let rest = &line[marker.text.len()..];
    let length = match marker.close {
        "" => rest.iter().position(|it| !it.is_ascii_hexdigit()),
        close => {
            let close = close.as_bytes();
            rest.windows(close.len()).position(|it| it == close).map(|it| it + close.len())
        }
    };
    match length {
        Some(length) => Some(marker.text.len() + length),
        None => (is_complete || line.len() > MAX_LINE).then_some(line.len().min(MAX_LINE + 1)),
    }
}

/// The length of the short last line of a key whose end is missing, with the separator before it.
fn last_line(text: &[u8]) -> usize {
    let before = separator_length(text);
    let line = line_of(&text[before..]);
    let is_base64 = |it: &u8| it.is_ascii_alphanumeric() || b"+/=".contains(it);
    let is_rest =
        line.iter().any(|it| it.is_ascii_digit() || b"+/=".contains(it)) || line.len() > 12;
    if before > 0 && !line.is_empty() && line.iter().all(is_base64) && is_rest {
        before + line.len()
    } else {
        0
    }
}

/// The line that a text begins with, without its separator. Of a long line, only so much that it is known to be long: a text
/// may be one line with many keys.
fn line_of(text: &[u8]) -> &[u8] {
    let text = &text[..text.len().min(MAX_LINE + 2)];
    let end = (0..text.len()).find(|at| is_line_end(&text[*at..]));
    &text[..end.unwrap_or(text.len())]
}

/// Whether a line ends here. An incomplete escape at the end of a text does not belong to a line.
fn is_line_end(text: &[u8]) -> bool {
    is_separator(text) || text == b"\\"
}

fn is_separator(text: &[u8]) -> bool {
    separator_length(text) > 0
}

/// Lines end with a line break, or with its escape in JSON.
fn separator_length(text: &[u8]) -> usize {
    match text {
        [b'\n', ..] => 1,
        [b'\\', b'n', ..] => 2,
        _ => 0,
    }
}
