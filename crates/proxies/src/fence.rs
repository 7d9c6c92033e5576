//! Blocks of code in Markdown.

/// A block of code. Its fence is longer than each fence in the code, so that all of it is shown as it is.
pub(crate) fn fenced(language: &str, code: &str) -> String {
    let longest = code.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", code.trim_end_matches('\n'))
}
