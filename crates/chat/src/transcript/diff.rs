//! Changes of files, as a unified diff.

use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::markdown::Layout;
use crate::text::{Color, Line, Style, clean, wrap};

/// The maximum time to search for the smallest diff of a large file.
const SEARCH: Duration = Duration::from_millis(200);

/// The lines of a diff, of either version of ACP.
pub fn lines(diff: &Value, layout: Layout) -> Vec<Line> {
    match diff["changes"].is_array() || diff["patch"].is_object() {
        true => changes(diff, layout),
        false => texts(diff, layout),
    }
}

/// The paths of a diff.
pub fn paths(diff: &Value) -> Vec<String> {
    let changes = diff["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let paths = changes.iter().map(|change| &change["path"]).chain([&diff["path"]]);
    paths.filter_map(Value::as_str).map(acp_wire::printable::one_line).collect()
}

/// A diff of ACP version 1: the old and the new text of a file.
fn texts(diff: &Value, layout: Layout) -> Vec<Line> {
    let path = acp_wire::printable::one_line(diff["path"].as_str().unwrap_or("a file"));
    let old = clean(diff["oldText"].as_str().unwrap_or_default());
    let new = clean(diff["newText"].as_str().unwrap_or_default());
    let compared = TextDiff::configure().timeout(SEARCH).diff_lines(&old, &new);
    let mut added = 0;
    let mut removed = 0;
    let mut body = Vec::new();
    for (index, hunk) in compared.unified_diff().context_radius(3).iter_hunks().enumerate() {
        if index > 0 {
            body.push(Line::styled("⋯", Style::DIM));
        }
        for change in hunk.iter_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => {
                    removed += 1;
                    ("- ", Style::color(Color::Red))
                }
                ChangeTag::Insert => {
                    added += 1;
                    ("+ ", Style::color(Color::Green))
                }
                ChangeTag::Equal => ("  ", Style::PLAIN),
            };
            let text = change.value().trim_end_matches('\n');
            body.extend(row(sign, text, style, layout));
        }
    }
    let new_file = if diff["oldText"].is_string() { "" } else { "new file, " };
    let summary = format!(" ({new_file}+{added} -{removed})");
    let head = Line::styled(path, Style::BOLD).with(summary, Style::DIM);
    let nothing = Line::new();
    let mut lines = wrap(&head, layout.width, &nothing, &Line::from("  "));
    lines.extend(body);
    lines
}

/// A diff of ACP version 2: a list of changes, and perhaps a patch.
fn changes(diff: &Value, layout: Layout) -> Vec<Line> {
    let nothing = Line::new();
    let text = |value: &Value| acp_wire::printable::one_line(value.as_str().unwrap_or_default());
    let mut lines = Vec::new();
    for change in diff["changes"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let from = match text(&change["oldPath"]) {
            old if old.is_empty() => String::new(),
            old => format!("{old} → "),
        };
        let head = Line::styled(format!("{from}{}", text(&change["path"])), Style::BOLD)
            .with(format!(" ({})", text(&change["operation"])), Style::DIM);
        lines.extend(wrap(&head, layout.width, &nothing, &Line::from("  ")));
    }
    for line in clean(diff["patch"]["text"].as_str().unwrap_or_default()).lines() {
        let header = ["diff ", "index ", "--- ", "+++ ", "new file", "deleted file"];
        if header.iter().any(|start| line.starts_with(start)) {
            continue;
        }
        let (sign, text, style) = match line.split_at_checked(1) {
            Some(("+", text)) => ("+ ", text, Style::color(Color::Green)),
            Some(("-", text)) => ("- ", text, Style::color(Color::Red)),
            Some((" ", text)) => ("  ", text, Style::PLAIN),
            _ if line.starts_with("@@") => ("", "⋯", Style::DIM),
            _ => ("", line, Style::DIM),
        };
        lines.extend(row(sign, text, style, layout));
    }
    lines
}

fn row(sign: &str, text: &str, style: Style, layout: Layout) -> Vec<Line> {
    let next = " ".repeat(sign.len() + 2);
    wrap(
        &Line::styled(text, style),
        layout.width,
        &Line::styled(sign, style),
        &Line::from(next.as_str()),
    )
}
