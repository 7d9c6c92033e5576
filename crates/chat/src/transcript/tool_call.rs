//! A tool call and its output.

use std::borrow::Cow;
use std::collections::BTreeMap;

use acp_wire::printable::one_line;
use serde_json::Value;

use super::{TerminalOutput, content, diff};
use crate::markdown::Layout;
use crate::text::{Color, Line, Style, clean, shorten, wrap};

/// How states are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Labels {
    /// A sign and a word, for a terminal.
    Signs,
    /// A sign, and the first line of the output, for a pipe.
    Short,
    /// Words, for a screen reader.
    Words,
}

/// The title of a tool call.
pub fn title(call: &Value) -> String {
    let text = |name: &str| call[name].as_str().map(one_line).filter(|it| !it.trim().is_empty());
    text("title").or_else(|| text("name")).unwrap_or_else(|| "a tool".to_owned())
}

/// Whether a tool call has ended.
pub fn has_ended(call: &Value) -> bool {
    matches!(call["status"].as_str(), Some("completed" | "failed" | "cancelled"))
}

/// Whether a call that has ended shows more than before.
pub fn shows_more(before: &Value, now: &Value) -> bool {
    let has_content = now["content"].as_array().is_some_and(|content| !content.is_empty());
    before["status"] != now["status"] || (has_content && before["content"] != now["content"])
}

/// The first line of a tool call.
pub fn head(call: &Value, layout: Layout, labels: Labels) -> Vec<Line> {
    let (sign, word, color) = match call["status"].as_str() {
        Some("completed") => ("✓", "done", Some(Color::Green)),
        Some("failed") => ("✗", "failed", Some(Color::Red)),
        Some("cancelled") => ("✗", "cancelled", Some(Color::Yellow)),
        Some("in_progress") => ("…", "running", Some(Color::Yellow)),
        Some("paused") => ("…", "paused", Some(Color::Yellow)),
        _ => ("…", "waiting", None),
    };
    let sign_style = Style { color, ..Style::PLAIN };
    let title = title(call);
    let kind = match call["kind"].as_str().map(one_line) {
        Some(kind) if !kind.is_empty() && kind != "other" => {
            format!("{}, ", kind.replace('_', " "))
        }
        _ => String::new(),
    };
    let nothing = Line::new();
    match labels {
        Labels::Signs => {
            let line = Line::styled(sign, sign_style)
                .with(" ", Style::PLAIN)
                .with(title, Style::BOLD)
                .with(format!(" ({kind}{word})"), Style::DIM);
            wrap(&line, layout.width, &nothing, &Line::from("  "))
        }
        Labels::Short => {
            let mut line = Line::styled(sign, sign_style).with(format!(" {title}"), Style::PLAIN);
            let room = layout.width.saturating_sub(line.width() + 2);
            let result = shorten(&first_line(&call["content"]), room);
            if !result.is_empty() {
                line.push(format!("  {result}"), Style::DIM);
            }
            vec![line]
        }
        Labels::Words => {
            let line = Line::from(format!("Tool: {title} ({kind}{word})").as_str());
            wrap(&line, layout.width, &nothing, &Line::from("  "))
        }
    }
}

/// The first line of the output.
fn first_line(content: &Value) -> String {
    let text = content[0]["content"]["text"].as_str().unwrap_or_default();
    let line =
        text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("```"));
    one_line(line.unwrap_or_default())
}

/// The files of a tool call that its title does not name.
pub fn locations(call: &Value, layout: Layout) -> Vec<Line> {
    let title = title(call);
    let locations = call["locations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let diffs: Vec<String> = blocks(call).iter().flat_map(diff::paths).collect();
    let mut shown = Vec::new();
    for location in locations.iter().take(MAX_LOCATIONS) {
        let Some(path) = location["path"].as_str().map(one_line) else { continue };
        let name = path.rsplit(['/', '\\']).next().unwrap_or(&path);
        if title.contains(name) || diffs.contains(&path) {
            continue;
        }
        let line = location["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
        let text = Line::styled(format!("{path}{line}"), Style::DIM);
        shown.extend(wrap(&text, layout.width, &Line::from("  "), &Line::from("    ")));
    }
    shown
}

/// The maximum number of locations that are shown.
const MAX_LOCATIONS: usize = 5;

fn blocks(call: &Value) -> &[Value] {
    call["content"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether a tool call changes files.
pub fn has_diff(call: &Value) -> bool {
    blocks(call).iter().any(|block| block["type"] == "diff")
}

/// The command that a tool call runs.
pub fn command(call: &Value) -> Option<String> {
    let input = &call["rawInput"];
    let command = ["command", "cmd", "script"].iter().find_map(|name| match &input[*name] {
        Value::String(command) => Some(clean(command)),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            Some(clean(&words.join(" ")))
        }
        _ => None,
    })?;
    let arguments: Vec<&str> =
        input["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    Some(match arguments.is_empty() {
        true => command,
        false => format!("{command} {}", clean(&arguments.join(" "))),
    })
}

/// The length of a text whose end is shown while a tool call is running.
const RUNNING_TEXT: usize = 2000;

/// The last lines of the output of a running tool call. It is laid out many times in a second, so that long texts are
/// cut first, and changes of files are shown later.
pub fn running_output(
    call: &Value,
    terminals: &BTreeMap<String, TerminalOutput>,
    layout: Layout,
    count: usize,
) -> Vec<Line> {
    let inner = layout.narrower(2);
    let mut lines = Vec::new();
    for block in blocks(call) {
        match block["type"].as_str() {
            Some("diff") => {
                let paths = diff::paths(block);
                lines.extend(paths.iter().map(|path| Line::styled(path.as_str(), Style::DIM)));
            }
            Some("terminal") => {
                let id = block["terminalId"].as_str().unwrap_or_default();
                let output = terminals.get(id).map_or("", |terminal| terminal.output.as_str());
                lines.extend(text_lines(super::tail(output, RUNNING_TEXT), inner));
            }
            _ => {
                let block = if block["content"].is_object() { &block["content"] } else { block };
                let text = match block["text"].as_str().filter(|_| block["type"] == "text") {
                    Some(text) => Cow::Borrowed(text),
                    None => Cow::Owned(content::describe(block)),
                };
                lines.extend(text_lines(super::tail(&text, RUNNING_TEXT), inner));
            }
        }
    }
    lines.drain(..lines.len().saturating_sub(count));
    indented(lines, layout)
}

/// The output of a tool call, without its title. Every line is indented.
pub fn output(
    call: &Value,
    terminals: &BTreeMap<String, TerminalOutput>,
    layout: Layout,
) -> Vec<Line> {
    let inner = layout.narrower(2);
    let mut lines = Vec::new();
    for block in blocks(call) {
        match block["type"].as_str() {
            Some("diff") => lines.extend(diff::lines(block, inner)),
            Some("terminal") => {
                let id = block["terminalId"].as_str().unwrap_or_default();
                if let Some(terminal) = terminals.get(id) {
                    lines.extend(terminal_lines(terminal, call, inner));
                }
            }
            _ => {
                let block = if block["content"].is_object() { &block["content"] } else { block };
                lines.extend(text_lines(&content::text_of(block), inner));
            }
        }
    }
    if lines.is_empty() {
        lines.extend(raw_output(call, inner));
    }
    while lines.last().is_some_and(Line::is_blank) {
        lines.pop();
    }
    indented(lines, layout)
}

/// Lines that are indented by two columns.
pub(crate) fn indented(lines: Vec<Line>, layout: Layout) -> Vec<Line> {
    let indented = |line: Line| {
        let mut indented = Line::from("  ");
        indented.append(&line);
        crate::text::shorten_line(&indented, layout.width)
    };
    lines.into_iter().map(indented).collect()
}

/// Text as it is. A code fence around it is dropped.
fn text_lines(text: &str, layout: Layout) -> Vec<Line> {
    let text = clean(text);
    let text = text.trim_end();
    let fenced = text.strip_prefix("```").and_then(|it| it.strip_suffix("\n```"));
    let text = match fenced.and_then(|it| it.split_once('\n')) {
        Some((_, code)) => code,
        None => text,
    };
    let nothing = Line::new();
    let lines = text.trim_start_matches('\n').lines();
    lines
        .flat_map(|line| wrap(&Line::styled(line, Style::DIM), layout.width, &nothing, &nothing))
        .collect()
}

fn terminal_lines(terminal: &TerminalOutput, call: &Value, layout: Layout) -> Vec<Line> {
    let nothing = Line::new();
    let mut lines = Vec::new();
    if !terminal.command.is_empty() && !title(call).contains(&terminal.command) {
        let command = Line::from(format!("$ {}", terminal.command).as_str());
        lines.extend(wrap(&command, layout.width, &nothing, &Line::from("  ")));
    }
    lines.extend(text_lines(&terminal.output, layout));
    if let Some(exit) = terminal.exit.as_ref().filter(|it| !it.ends_with("status 0")) {
        let exit = Line::styled(format!("({})", one_line(exit)), Style::DIM);
        lines.extend(wrap(&exit, layout.width, &nothing, &nothing));
    }
    lines
}

/// The raw output of a call that has no other output.
fn raw_output(call: &Value, layout: Layout) -> Vec<Line> {
    let raw = &call["rawOutput"];
    let known = ["output", "stdout", "text", "error", "message", "stderr"];
    let text = match raw {
        Value::String(text) => text.clone(),
        Value::Null => return Vec::new(),
        _ => match known.iter().find_map(|name| raw[*name].as_str()) {
            Some(text) => text.to_owned(),
            None if call["status"] == "failed" => raw.to_string(),
            None => return Vec::new(),
        },
    };
    text_lines(&text, layout)
}
