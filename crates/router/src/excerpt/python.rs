//! Python: tracebacks with chained exceptions and exception groups, and syntax errors.

use super::{Block, indent, is_underline, with_place};

const TRACEBACK: &str = "Traceback (most recent call last):";
const CAUSE: &str = "The above exception was the direct cause of the following exception:";
const CONTEXT: &str = "During handling of the above exception, another exception occurred:";

/// One exception.
struct Exception {
    end: usize,
    text: String,
    place: Option<String>,
}

pub(super) fn find(lines: &[&str]) -> Option<Block> {
    let lines: Vec<&str> = lines.iter().map(|line| without_group_margin(line)).collect();
    let mut last: Option<Exception> = None;
    let mut cause: Option<(&str, String)> = None;
    let mut index = 0;
    while index < lines.len() {
        let line = lines[index].trim();
        match line {
            CAUSE => cause = last.as_ref().map(|it| ("caused by", it.text.clone())),
            CONTEXT => cause = last.as_ref().map(|it| ("after", it.text.clone())),
            _ => {}
        }
        let starts = line.ends_with(TRACEBACK) || is_file_line(lines[index]);
        match starts.then(|| exception(&lines, index)).flatten() {
            Some(exception) => {
                let follows = index > 0
                    && lines[..index]
                        .iter()
                        .rev()
                        .take(2)
                        .any(|it| matches!(it.trim(), CAUSE | CONTEXT));
                if !follows {
                    cause = None;
                }
                index = exception.end;
                last = Some(exception);
            }
            None => index += 1,
        }
    }
    let Exception { end, text, place } = last?;
    let text = with_place(&text, place.as_deref());
    let text = match cause {
        Some((how, cause)) => format!("{text}; {how} {cause}"),
        None => text,
    };
    Some(Block { end, text })
}

/// The lines of an exception group have a margin: `  | `.
fn without_group_margin(line: &str) -> &str {
    let rest = line.trim_start_matches([' ', '+', '-']);
    match rest.strip_prefix("| ") {
        Some(rest) => rest,
        None => line.trim_start().strip_prefix("+ ").unwrap_or(line),
    }
}

fn is_file_line(line: &str) -> bool {
    line.trim_start().starts_with("File \"") && line.contains("\", line ") && indent(line) > 0
}

/// The exception whose traceback begins at `start`: the frames are indented, the exception is not.
fn exception(lines: &[&str], start: usize) -> Option<Exception> {
    let mut place = None;
    for (index, line) in lines.iter().enumerate().skip(start) {
        if is_file_line(line) {
            place = file_place(line).filter(|it| place.is_none() || !is_library(it)).or(place);
        } else if index > start && indent(line) == 0 && !line.is_empty() && !is_underline(line) {
            let name = line.split([':', ' ']).next().unwrap_or_default();
            let is_name = |it: char| it.is_alphanumeric() || matches!(it, '.' | '_');
            if name.is_empty() || !name.chars().all(is_name) {
                return None;
            }
            // A message may have several lines. A line of a log begins with a time or with a level in brackets.
            let is_log = |line: &str| line.starts_with(|it: char| it.is_ascii_digit() || it == '[');
            let more = |line: &&&str| {
                !line.trim().is_empty() && !line.trim_start().starts_with('+') && !is_log(line)
            };
            let rest = lines[index + 1..].iter().take_while(more).take(2);
            let message: Vec<&str> =
                std::iter::once(line).chain(rest).map(|it| it.trim()).collect();
            return Some(Exception { end: index + message.len(), text: message.join(" "), place });
        }
    }
    None
}

/// `  File "a.py", line 3, in f` as `a.py:3`.
fn file_place(line: &str) -> Option<String> {
    let (path, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(format!("{path}:{number}"))
}

/// Whether a file belongs to Python or to an installed package. The caller of the library is more interesting.
fn is_library(place: &str) -> bool {
    place.contains("/site-packages/") || place.contains("/lib/python") || place.starts_with('<')
}
