//! Compilers: the first error with its place. The errors after it are often consequences.

use super::{Block, MAX_LINES_AFTER, indent, trailer};

pub(super) fn find(lines: &[&str]) -> Option<Block> {
    let mut errors = (0..lines.len()).filter_map(|index| Some((index, error(lines, index)?)));
    let (first, text) = errors.next()?;
    let last = errors.next_back().map_or(first, |(index, _)| index);
    // A program that does not compile is not run, so nothing after the first error matters. An agent that runs a
    // compiler for the user goes on and prints other lines.
    let others = lines[last + 1..].iter().filter(|line| is_other_output(line)).count();
    let end = if others > MAX_LINES_AFTER { last + 1 } else { lines.len() };
    Some(Block { end, text })
}

/// The error that begins at this line.
fn error(lines: &[&str], index: usize) -> Option<String> {
    rustc(lines, index)
        .or_else(|| line_with_place(lines[index]))
        .or_else(|| go(lines, index))
        .or_else(|| esbuild(lines, index))
}

/// Whether a line after an error is not a part of its description. Compilers indent the source, or number its lines.
fn is_other_output(line: &str) -> bool {
    indent(line) == 0
        && !line.starts_with(|it: char| it.is_ascii_digit() || "=|^~".contains(it))
        && !trailer::is_trailer(line)
}

/// `error[E0425]: message`, then ` --> src/main.rs:3:5`.
fn rustc(lines: &[&str], index: usize) -> Option<String> {
    let line = lines[index];
    let is_error = line.starts_with("error: ") || line.starts_with("error[");
    let next = lines.get(index + 1)?.trim_start();
    let place = next.strip_prefix("--> ").filter(|_| is_error)?;
    Some(format!("{line} ({place})"))
}

/// `a.c:1:2: error: message` (gcc, clang), `a.ts(1,2): error TS1: message` and `a.ts:1:2 - error TS1: message` (tsc), and
/// `a.ts:1:2: ERROR: message` (esbuild).
fn line_with_place(line: &str) -> Option<String> {
    const MARKS: [&str; 5] =
        [": error: ", ": fatal error: ", ": error TS", " - error TS", ": ERROR: "];
    let (place, _) = MARKS.iter().find_map(|mark| line.split_once(mark))?;
    let digits = place.trim_end_matches(')').rsplit([':', ',', '(']);
    let numbers =
        digits.take_while(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()));
    (numbers.count() > 0).then(|| line.trim().to_owned())
}

/// `./a.go:1:2: message` after the name of the package: `# package`.
fn go(lines: &[&str], index: usize) -> Option<String> {
    let line = lines[index];
    let (place, _) = line.split_once(": ")?;
    let (path, _) = place.split_once(".go:")?;
    let follows =
        index > 0 && (lines[index - 1].starts_with("# ") || lines[index - 1].starts_with("go: "));
    (follows && !path.contains(' ')).then(|| line.trim().to_owned())
}

/// `✘ [ERROR] message`, then `    a.ts:1:2:`.
fn esbuild(lines: &[&str], index: usize) -> Option<String> {
    let message = lines[index].strip_prefix("✘ [ERROR] ")?;
    let place = lines[index + 1..].iter().take(3).find_map(|line| line.trim().strip_suffix(':'));
    Some(super::with_place(message, place))
}
