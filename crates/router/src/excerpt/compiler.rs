//! Compilers: the first error with its place. The errors after it are often consequences.

use super::Block;

pub(super) fn find(lines: &[&str]) -> Option<Block> {
    let text = lines.iter().enumerate().find_map(|(index, line)| {
        rustc(lines, index)
            .or_else(|| line_with_place(line))
            .or_else(|| go(lines, index))
            .or_else(|| esbuild(lines, index))
    })?;
    // A program that does not compile is not run, so nothing after the first error matters.
    Some(Block { end: lines.len(), text })
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
