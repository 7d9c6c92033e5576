//! Files that a program writes line by line.

/// The number of spaces at the beginning of a line, and the rest without the white space around it.
pub(super) fn indented(line: &str) -> (usize, &str) {
    let text = line.trim_start_matches(' ');
    (line.len() - text.len(), text.trim())
}

/// A scalar of YAML: plain, or in quotes.
pub(super) fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote).and_then(|it| it.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}
