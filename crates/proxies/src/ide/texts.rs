//! The results of the operations as text for the model. Long lists and texts are shortened.

use acp_proxy::scp::{Applied, Diagnostic, Location, OpenedFile, Range, Selection};
use web::project::path_of_url;

/// How many lines a list has.
const MAX_LINES: usize = 200;

/// The maximum length of a selected text, in bytes.
const MAX_TEXT: usize = 64 * 1024;

/// The maximum number of characters of a line of code or a message.
const MAX_LINE: usize = 500;

/// What a result leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    None,
    /// So many entries of a list.
    Entries(usize),
    /// The rest of a text.
    Text,
}

/// A selection, which is shortened.
pub(super) fn selection(selection: Option<&mut Selection>) -> (String, More) {
    let Some(it) = selection else {
        return ("The user has selected nothing.".to_owned(), More::None);
    };
    let place = place(&it.url, Range { start: it.start, end: it.end });
    let length = beginning(&it.text, MAX_TEXT).len();
    let (rest, more) = match length < it.text.len() {
        true => ("\n(The rest of the selection is left out.)", More::Text),
        false => ("", More::None),
    };
    it.text.truncate(length);
    (format!("The user has selected {place}:\n\n{}{rest}", it.text), more)
}

pub(super) fn opened(path: &str, line: Option<u32>) -> String {
    match line {
        Some(line) => format!("{path} is open at line {line}."),
        None => format!("{path} is open."),
    }
}

pub(super) fn locations(what: &str, locations: &mut Vec<Location>) -> (String, More) {
    let texts = locations.iter_mut().filter_map(|it| it.text.as_mut());
    texts.for_each(shorten);
    let line = |it: &Location| {
        let place = place(&it.url, Range { start: it.start, end: None });
        match it.text.as_deref().map(one_line).filter(|it| !it.is_empty()) {
            Some(text) => format!("{place}: {text}"),
            None => place,
        }
    };
    match locations.is_empty() {
        true => (format!("The editor has found no {what}."), More::None),
        false => lines(locations, line),
    }
}

pub(super) fn diagnostics(diagnostics: &mut Vec<Diagnostic>) -> (String, More) {
    diagnostics.iter_mut().for_each(|it| shorten(&mut it.message));
    let line = |it: &Diagnostic| {
        let place = place(&it.url, Range { start: it.start, end: None });
        let source = it.source.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
        format!("{place}: {}: {}{source}", it.severity.name(), one_line(&it.message))
    };
    match diagnostics.is_empty() {
        true => ("The editor shows no errors or warnings.".to_owned(), More::None),
        false => lines(diagnostics, line),
    }
}

pub(super) fn open_files(files: &mut Vec<OpenedFile>) -> (String, More) {
    let line = |it: &OpenedFile| {
        let active = if it.active { " (active)" } else { "" };
        let modified = if it.modified { " (not saved)" } else { "" };
        format!("{}{active}{modified}", path_of(&it.url))
    };
    match files.is_empty() {
        true => ("No file is open.".to_owned(), More::None),
        false => lines(files, line),
    }
}

pub(super) fn applied(applied: &Applied) -> String {
    match (applied.applied, applied.reason.as_deref().filter(|it| !it.is_empty())) {
        (true, _) => "The user has accepted the changes.".to_owned(),
        (false, Some(reason)) => format!("The changes were not made: {}", one_line(reason)),
        (false, None) => "The user has refused the changes.".to_owned(),
    }
}

/// One line for each entry. Shortens the list, which also becomes the structured result.
fn lines<T>(all: &mut Vec<T>, line: impl Fn(&T) -> String) -> (String, More) {
    let more = all.len().saturating_sub(MAX_LINES);
    all.truncate(MAX_LINES);
    let mut lines: Vec<String> = all.iter().map(line).collect();
    if more == 0 {
        return (lines.join("\n"), More::None);
    }
    lines.push(format!("({more} more)"));
    (lines.join("\n"), More::Entries(more))
}

fn place(url: &str, range: Range) -> String {
    format!("{}:{range}", path_of(url))
}

/// The path of a `file://` URL. Any other text stays.
fn path_of(url: &str) -> String {
    path_of_url(url).map_or_else(|| url.to_owned(), |path| path.display().to_string())
}

/// A text in one line of limited length.
fn one_line(text: &str) -> String {
    let mut joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    shorten(&mut joined);
    joined
}

/// Limits the length of a text.
fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_LINE) {
        text.truncate(end);
        text.push('…');
    }
}

/// The beginning of a text, of at most this many bytes.
fn beginning(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
