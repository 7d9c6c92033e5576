//! Changes parts of texts. Lines and columns begin with 1, and columns count characters.

use std::ops::Range;

use acp_proxy::scp::Position;

/// A part of a text, and the text that replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEdit {
    /// Where the part begins.
    pub start: Position,
    /// Where the part ends. Without it, it is the rest of the line.
    pub end: Option<Position>,
    /// The new text.
    pub new: String,
}

/// The text with these changes. All positions are those of the text before.
///
/// # Errors
/// A position does not exist, or two changes overlap.
pub fn apply(text: &str, edits: &[TextEdit]) -> Result<String, String> {
    let mut parts: Vec<(Range<usize>, &str)> = Vec::new();
    for edit in edits {
        parts.push((part(text, edit.start, edit.end)?, &edit.new));
    }
    parts.sort_by_key(|(range, _)| (range.start, range.end));
    let mut result = String::with_capacity(text.len());
    let mut at = 0;
    for (range, new) in parts {
        if range.start < at {
            return Err("two changes overlap".to_owned());
        }
        result.push_str(&text[at..range.start]);
        result.push_str(new);
        at = range.end;
    }
    result.push_str(&text[at..]);
    Ok(result)
}

/// The bytes of a part of a text. Without an end, it is the rest of the line.
///
/// # Errors
/// A position does not exist.
pub fn part(text: &str, start: Position, end: Option<Position>) -> Result<Range<usize>, String> {
    let from = offset(text, start.line, start.column.unwrap_or(1))?;
    let to = match end {
        Some(Position { line, column: Some(column) }) => offset(text, line, column)?,
        Some(Position { line, column: None }) => line_range(text, line)?.end,
        None => line_range(text, start.line)?.end,
    };
    match to < from {
        true => Err(format!("line {}: the end is before the start", start.line)),
        false => Ok(from..to),
    }
}

/// The bytes of a line, without its end. The line after the last one is empty, so that text can be added.
fn line_range(text: &str, line: u32) -> Result<Range<usize>, String> {
    let mut start = 0;
    for _ in 1..line.max(1) {
        match text[start..].find('\n') {
            Some(length) => start += length + 1,
            None => {
                let lines = text.lines().count();
                return Err(format!("line {line} does not exist: the file has {lines} lines"));
            }
        }
    }
    if line == 0 {
        return Err("line 0 does not exist: lines begin with 1".to_owned());
    }
    let length = text[start..].find('\n').unwrap_or(text.len() - start);
    let line = &text[start..start + length];
    Ok(start..start + line.strip_suffix('\r').unwrap_or(line).len())
}

fn offset(text: &str, line: u32, column: u32) -> Result<usize, String> {
    let range = line_range(text, line)?;
    let content = &text[range.clone()];
    let wanted = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
    let starts = content.char_indices().map(|(at, _)| at).chain([content.len()]);
    match starts.clone().nth(wanted) {
        Some(at) if column > 0 => Ok(range.start + at),
        _ => {
            let last = starts.count();
            Err(format!("line {line} has no column {column}: the last one is {last}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(start: (u32, u32), end: Option<(u32, u32)>, new: &str) -> TextEdit {
        TextEdit {
            start: Position::new(start.0, start.1),
            end: end.map(|(line, column)| Position::new(line, column)),
            new: new.to_owned(),
        }
    }

    #[test]
    fn changes_are_made_at_the_positions_of_the_text_before() {
        let text = "äb🎉d\r\nsecond\n";
        let edits = [edit((2, 1), Some((2, 7)), "zwei"), edit((1, 2), Some((1, 4)), "X")];
        assert_eq!(apply(text, &edits).as_deref(), Ok("äXd\r\nzwei\n"));
        assert_eq!(apply(text, &[edit((1, 3), None, "")]).as_deref(), Ok("äb\r\nsecond\n"));
        assert_eq!(
            apply(text, &[edit((3, 1), None, "third")]).as_deref(),
            Ok("äb🎉d\r\nsecond\nthird")
        );
        assert_eq!(apply("", &[edit((1, 1), None, "new")]).as_deref(), Ok("new"));
        let lines =
            TextEdit { start: Position::line(1), end: Some(Position::line(2)), new: "one".into() };
        assert_eq!(apply(text, &[lines]).as_deref(), Ok("one\n"));
    }

    #[test]
    fn positions_that_do_not_exist_are_named() {
        let why = |edits: &[TextEdit]| apply("ab\ncd", edits).expect_err("refused");
        assert!(why(&[edit((3, 1), None, "")]).contains("line 3 does not exist"));
        assert!(why(&[edit((0, 1), None, "")]).contains("line 0"));
        assert!(why(&[edit((1, 4), None, "")]).contains("column 4"));
        assert!(why(&[edit((1, 0), None, "")]).contains("column 0"));
        assert!(why(&[edit((2, 1), Some((1, 1)), "")]).contains("before the start"));
        let overlapping = [edit((1, 1), Some((1, 3)), ""), edit((1, 2), Some((2, 1)), "")];
        assert!(why(&overlapping).contains("overlap"));
    }
}
