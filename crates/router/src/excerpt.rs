//! Finds the lines in the output of a failed program that say why it failed.
//!
//! The last lines are often not the ones that matter: Node.js ends with its version, npm with the path of a log, and a
//! stack trace is printed after the message. Each module of this directory recognises the output of some tools, and
//! returns a `Block`. The latest block is the excerpt. If nothing is recognised, the excerpt is the last lines
//! that are not trailers.

use acp_wire::printable;

mod compiler;
mod error_line;
mod npm;
mod panic;
mod python;
mod remedy;
mod stack;
mod trailer;

pub use remedy::remedy;

/// The maximum length of an excerpt, in bytes.
const MAX_LENGTH: usize = 600;
/// How many of the last lines are in the excerpt if no tool is recognised.
const LAST_LINES: usize = 3;
/// The maximum length of a line before the last one, in an excerpt that is too long. The last line matters most.
const MAX_EARLIER_LENGTH: usize = 150;
/// The lines after a block are in the excerpt if they are not longer than this. They often say what to do.
const MAX_LENGTH_AFTER: usize = 200;
/// If more lines than this follow a block, the program went on after it, and the block is not the reason.
const MAX_LINES_AFTER: usize = 8;

/// A part of the output that describes a failure.
#[derive(Debug)]
struct Block {
    /// The index of the line after the block.
    end: usize,
    /// The description, as one line.
    text: String,
}

/// Finds the last block of some tools in the lines of an output.
type Finder = fn(&[&str]) -> Option<Block>;

/// The excerpt of the output of a program that has failed, as one line. Empty if there is no output.
pub fn excerpt(output: &[String]) -> String {
    let lines: Vec<String> =
        output.iter().map(|line| printable::plain(line).trim_end().replace('\t', "    ")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let finders: [Finder; 6] =
        [compiler::find, python::find, panic::find, stack::find, npm::find, error_line::find];
    // Of two blocks that end at the same line, the one of the more specific module is the first in the list.
    let mut latest: Option<Block> = None;
    for block in finders.iter().filter_map(|find| find(&lines)) {
        if latest.as_ref().is_none_or(|it| block.end > it.end) {
            latest = Some(block);
        }
    }
    let Some(block) = latest else { return shortened(&last_lines(&lines), MAX_LENGTH) };
    let rest = &lines[block.end.min(lines.len())..];
    let after: Vec<&str> = rest.iter().copied().filter(|it| !trailer::is_trailer(it)).collect();
    let text = match after.last() {
        None => block.text,
        Some(last) if after.len() <= MAX_LINES_AFTER => {
            let all = after.iter().map(|it| it.trim()).collect::<Vec<_>>().join(" | ");
            let after = if all.len() <= MAX_LENGTH_AFTER { all.as_str() } else { last.trim() };
            format!("{} | {after}", block.text)
        }
        Some(_) => last_lines(&after),
    };
    shortened(&text, MAX_LENGTH)
}

/// The last lines that are not trailers. If none of them mentions an error, the last line that does comes first.
fn last_lines(lines: &[&str]) -> String {
    let all = || lines.iter().map(|it| it.trim()).filter(|it| !it.is_empty());
    let mut lines: Vec<&str> = all().filter(|it| !trailer::is_trailer(it)).collect();
    if lines.is_empty() {
        lines = all().collect();
    }
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let earlier = &lines[..lines.len() - last.len()];
    let error = match last.iter().any(|it| mentions_error(it)) {
        true => None,
        false => earlier.iter().rfind(|it| mentions_error(it)),
    };
    let last = if error.is_some() { &last[1..] } else { last };
    let parts: Vec<&str> = error.into_iter().chain(last).copied().collect();
    let text = parts.join(" | ");
    match parts.split_last().filter(|_| text.len() > MAX_LENGTH) {
        Some((last, earlier)) => {
            let earlier = earlier.iter().map(|it| shortened(it, MAX_EARLIER_LENGTH) + " | ");
            earlier.collect::<String>() + last
        }
        None => text,
    }
}

/// Whether a line looks like the report of an error.
fn mentions_error(line: &str) -> bool {
    const WORDS: [&str; 14] = [
        "error",
        "fatal",
        "panic",
        "exception",
        "failed",
        "cannot",
        "denied",
        "not found",
        "unable to",
        "not provided",
        "no such",
        "missing",
        "invalid",
        "refused",
    ];
    let line = line.to_lowercase();
    WORDS.iter().any(|word| line.contains(word))
}

fn shortened(text: &str, length: usize) -> String {
    match text.len() > length {
        true => format!("{}…", &text[..text.floor_char_boundary(length)]),
        false => text.to_owned(),
    }
}

/// Whether the line underlines a place in the line above it.
fn is_underline(line: &str) -> bool {
    let line = line.trim();
    line.contains(['^', '~']) && line.chars().all(|it| matches!(it, '^' | '~' | ' ' | '-'))
}

/// How many spaces the line begins with.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The text with its place in parentheses.
fn with_place(text: &str, place: Option<&str>) -> String {
    match place.filter(|it| !text.contains(it)) {
        Some(place) => format!("{text} ({place})"),
        None => text.to_owned(),
    }
}

/// How many of the first lines belong to a backtrace of Rust: `0: function`, and the place in the next line.
fn backtrace_length(lines: &[&str]) -> usize {
    let is_part = |line: &str| {
        let number = line.trim_start().split(':').next().unwrap_or_default();
        line.trim_start().starts_with("at ")
            || number.parse::<u32>().is_ok()
            || trailer::is_trailer(line)
    };
    lines.iter().take_while(|line| is_part(line)).count()
}
