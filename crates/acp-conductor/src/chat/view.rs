//! The output of a chat.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::Sender;

use acp_wire::Side;
use serde_json::Value;

use super::wire_log::{Row, RowKind};
use acp_wire::printable::{one_line, plain};

/// The width of lines in a file or pipe.
const WIDTH: usize = 100;

/// The maximum number of tool calls in a turn whose titles are remembered.
const MAX_TOOLS: usize = 1000;

/// How the output is formatted.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Whether to use colors.
    pub color: bool,
    /// Whether lines can be overwritten.
    pub terminal: bool,
    /// The maximum width of a shortened line.
    pub width: usize,
}

/// The style for the current standard output.
impl Default for Style {
    fn default() -> Style {
        let terminal = io::stdout().is_terminal();
        let set = |name: &str| std::env::var_os(name).is_some_and(|it| !it.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|it| it == "dumb");
        let columns = std::env::var("COLUMNS").ok().and_then(|it| it.parse().ok());
        let width = if terminal { columns_of_terminal() } else { columns };
        Style {
            color: terminal && !dumb && !set("NO_COLOR"),
            terminal: terminal && !dumb,
            width: width.unwrap_or(WIDTH).max(20),
        }
    }
}

#[cfg(unix)]
fn columns_of_terminal() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

#[cfg(not(unix))]
fn columns_of_terminal() -> Option<usize> {
    None
}

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const BLUE: &str = "34";
const CYAN: &str = "36";

impl Style {
    fn paint(&self, code: &str, text: &str) -> String {
        match self.color && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// The kind of a streamed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Answer,
    Thought,
}

/// Writes the output of the chat.
#[derive(Debug)]
pub struct View {
    style: Style,
    /// Whether a streamed text is held until it is complete. Set if `--show-wire` prints messages between its chunks.
    hold_text: bool,
    /// The kind of the text that is being written.
    text_kind: Option<TextKind>,
    /// Whether the current line is incomplete.
    open: bool,
    /// The text that is kept until it is complete.
    held: String,
    /// Line breaks to write if more text follows.
    breaks: String,
    /// Whether the last line is a progress line, which will be overwritten.
    progress_line: bool,
    /// While the user edits a line, output goes here, to be written above that line.
    above: Option<Sender<String>>,
    /// The titles of tool calls, by id.
    tools: BTreeMap<String, String>,
    /// The error that occurred when writing to standard output.
    write_error: Option<io::Error>,
}

impl View {
    /// A view in this style. With `hold_text`, streamed texts are written when they are complete.
    pub fn new(style: Style, hold_text: bool) -> View {
        View {
            style,
            hold_text,
            text_kind: None,
            open: false,
            held: String::new(),
            breaks: String::new(),
            progress_line: false,
            above: None,
            tools: BTreeMap::new(),
            write_error: None,
        }
    }

    /// The error that occurred when writing to standard output.
    pub fn write_error(&self) -> Option<&io::Error> {
        self.write_error.as_ref()
    }

    /// Sets where output goes while the user edits a line.
    pub fn above_prompt(&mut self, above: Option<Sender<String>>) {
        self.above = above;
        self.finish_text();
    }

    /// Shows a `session/update`.
    pub fn update(&mut self, update: &Value) {
        let text = update["content"]["text"].as_str();
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => self.text(TextKind::Answer, text.unwrap_or("[not text]")),
            "agent_thought_chunk" => self.text(TextKind::Thought, text.unwrap_or("[not text]")),
            "tool_call" | "tool_call_update" => self.tool_call(update),
            "plan" => self.plan(update),
            // Other kinds of updates are not shown.
            _ => {}
        }
    }

    /// Writes a chunk of a streamed text.
    fn text(&mut self, text_kind: TextKind, text: &str) {
        if self.text_kind.is_some_and(|before| before != text_kind) {
            self.finish_text();
        }
        let text = plain(text);
        self.text_kind = Some(text_kind);
        if self.hold_text || self.above.is_some() {
            self.held.push_str(&text);
            return;
        }
        self.clear_progress_line();
        let words = text.trim_end_matches('\n');
        if !words.is_empty() {
            let breaks = std::mem::take(&mut self.breaks);
            let painted = match text_kind {
                TextKind::Answer => words.to_owned(),
                TextKind::Thought => self.style.paint(DIM, words),
            };
            self.write(&format!("{breaks}{painted}"));
            self.open = true;
        }
        self.breaks.push_str(&text[words.len()..]);
    }

    /// Ends the text that is being written.
    pub fn finish_text(&mut self) {
        self.clear_progress_line();
        let text_kind = self.text_kind.take();
        self.breaks.clear();
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            let painted = match text_kind {
                Some(TextKind::Thought) => self.style.paint(DIM, held.trim_end()),
                _ => held.trim_end().to_owned(),
            };
            self.write(&format!("{painted}\n"));
        }
        if std::mem::take(&mut self.open) {
            self.write("\n");
        }
    }

    fn line(&mut self, line: &str) {
        self.finish_text();
        self.write(&format!("{line}\n"));
    }

    /// The title of a tool call, from this update or an earlier one.
    pub fn title(&self, call: &Value) -> String {
        let known = call["toolCallId"].as_str().and_then(|id| self.tools.get(id)).cloned();
        call["title"].as_str().map(one_line).or(known).unwrap_or_else(|| "a tool".into())
    }

    fn tool_call(&mut self, update: &Value) {
        let title = self.title(update);
        if let Some(id) = update["toolCallId"].as_str()
            && (self.tools.len() < MAX_TOOLS || self.tools.contains_key(id))
        {
            self.tools.insert(id.to_owned(), title.clone());
        }
        let (mark, code) = match update["status"].as_str() {
            Some("completed") => ("✓", GREEN),
            Some("failed") => ("✗", RED),
            Some("in_progress") => return self.show_progress(&format!("… {title}")),
            _ => return,
        };
        let room = self.style.width.saturating_sub(title.chars().count() + 4);
        let result = shorten(&first_result_line(&update["content"]), room);
        let result = if result.is_empty() { result } else { format!("  {result}") };
        let line =
            format!("{} {title}{}", self.style.paint(code, mark), self.style.paint(DIM, &result));
        self.line(&line);
    }

    fn plan(&mut self, update: &Value) {
        let entries = update["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        self.line(&self.style.paint(BOLD, "Plan"));
        for entry in entries {
            let text = one_line(entry["content"].as_str().unwrap_or_default());
            let line = match entry["status"].as_str() {
                Some("completed") => format!("  {} {text}", self.style.paint(GREEN, "✓")),
                Some("in_progress") => format!("  {} {text}", self.style.paint(YELLOW, "▸")),
                _ => format!("  · {text}"),
            };
            self.line(&line);
        }
    }

    /// Shows a request for permission with its options.
    pub fn permission_request(&mut self, title: &str, options: &[&str]) {
        self.line(&format!("{} {title}", self.style.paint(YELLOW, "?")));
        for (number, option) in (1..).zip(options) {
            self.line(&format!(
                "  {} {}",
                self.style.paint(BOLD, &number.to_string()),
                one_line(option)
            ));
        }
    }

    /// Shows the answer to a request for permission.
    pub fn permission_answer(&mut self, title: &str, choice: &str) {
        let choice = self.style.paint(BOLD, &one_line(choice));
        self.line(&format!("{} {title}: {choice}", self.style.paint(YELLOW, "?")));
    }

    /// Shows a prompt that the user did not type.
    pub fn prompt(&mut self, text: &str) {
        let text = format!("> {}", plain(text));
        self.line(&self.style.paint(BOLD, &text));
    }

    /// Shows a dimmed line.
    pub fn note(&mut self, text: &str) {
        self.line(&self.style.paint(DIM, text));
    }

    /// Shows the end of a turn.
    pub fn end_turn(&mut self, stopped: Option<&str>) {
        self.finish_text();
        match stopped {
            Some("end_turn") => {}
            Some("cancelled") => self.note("(cancelled)"),
            Some(other) => self.note(&format!("(ended: {})", one_line(other).replace('_', " "))),
            None => self.note("(ended)"),
        }
        self.tools.clear();
    }

    /// Shows an error on standard error.
    pub fn error(&mut self, why: &str) {
        self.finish_text();
        let color = self.style.color && io::stderr().is_terminal();
        let style = Style { color, ..self.style };
        let line = format!("{} {}\n", style.paint(RED, "error:"), plain(why));
        // Standard error may be closed.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    /// Shows a message on a hop.
    pub fn wire(&mut self, row: &Row) {
        let code = if row.toward == Side::Agent { CYAN } else { BLUE };
        let hop = format!("{} → {}", row.from, row.to);
        let (what, more) = match &row.kind {
            RowKind::Request(method) | RowKind::Notification(method) => {
                (method.clone(), String::new())
            }
            RowKind::Answer(method) => (format!("✓ {method}"), String::new()),
            RowKind::Failure(method) => (format!("✗ {method}"), String::new()),
            RowKind::More(method, count) => (method.clone(), format!("… {count} more")),
        };
        let id = row.id.as_ref().map(|id| format!(" #{id}")).unwrap_or_default();
        let json = if row.json.is_empty() { more } else { row.json.clone() };
        let taken =
            hop.chars().count().max(HOP_WIDTH) + what.chars().count() + id.chars().count() + 4;
        let json = shorten(&one_line(&json), self.style.width.saturating_sub(taken));
        let failed = matches!(row.kind, RowKind::Failure(_));
        let line = format!(
            "{}{} {}{} {}",
            self.style.paint(code, &format!("│ {hop}")),
            " ".repeat(HOP_WIDTH.saturating_sub(hop.chars().count())),
            self.style.paint(if failed { RED } else { BOLD }, &one_line(&what)),
            self.style.paint(DIM, &one_line(&id)),
            self.style.paint(DIM, &json),
        );
        // Texts are written only when they are complete, so this line does not interrupt one.
        self.clear_progress_line();
        self.write(&format!("{}\n", line.trim_end()));
    }

    /// Shows a progress line, which the next output overwrites.
    fn show_progress(&mut self, text: &str) {
        if !self.style.terminal || self.hold_text || self.above.is_some() {
            return;
        }
        self.finish_text();
        let text = shorten(text, self.style.width.saturating_sub(1));
        self.write(&self.style.paint(DIM, &text));
        self.progress_line = true;
    }

    fn clear_progress_line(&mut self) {
        if std::mem::take(&mut self.progress_line) {
            self.write("\r\x1b[K");
        }
    }

    fn write(&mut self, text: &str) {
        if let Some(above) = &self.above {
            if above.send(text.to_owned()).is_err() {
                self.write_error = Some(io::ErrorKind::BrokenPipe.into());
            }
            return;
        }
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        self.write_error = self.write_error.take().or(written.err());
    }
}

/// The width of the hop column.
const HOP_WIDTH: usize = 21;

/// The first line of the result of a tool.
fn first_result_line(content: &Value) -> String {
    let text = content[0]["content"]["text"].as_str().unwrap_or_default();
    one_line(text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim())
}

fn shorten(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(room.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_shortened_by_characters() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
        assert_eq!(shorten("a", 0), "…");
    }

    #[test]
    fn text_is_colored_only_if_colors_are_enabled() {
        let style = Style { color: false, terminal: false, width: 80 };
        assert_eq!(style.paint(RED, "x"), "x");
        assert_eq!(Style { color: true, ..style }.paint(RED, "x"), "\x1b[31mx\x1b[0m");
    }

    #[test]
    fn a_tool_call_without_a_title_uses_the_title_of_an_earlier_update() {
        let style = Style { color: false, terminal: false, width: 80 };
        let mut view = View::new(style, true);
        view.tool_call(&serde_json::json!({ "toolCallId": "t", "title": "Edit\nit" }));
        assert_eq!(view.title(&serde_json::json!({ "toolCallId": "t" })), "Edit it");
        assert_eq!(view.title(&serde_json::json!({})), "a tool");
        let content = serde_json::json!([{ "content": { "text": "\n  first\nsecond" } }]);
        assert_eq!(first_result_line(&content), "first");
        assert_eq!(first_result_line(&Value::Null), "");
    }
}
