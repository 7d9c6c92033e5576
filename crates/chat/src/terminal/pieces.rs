//! What is printed above the live region.

use acp_wire::printable::one_line;
use serde_json::Value;

use super::folds::Fold;
use super::state::{Group, OpenText, State};
use crate::markdown::{Block, Layout, MarkdownStream, render, render_block};
use crate::text::{Color, Line, Style, clean, wrap};
use crate::transcript::tool_call::{self, Labels};
use crate::transcript::{Piece, TextKind, end_note, plan};
use crate::view::Question;
use crate::wire::Row;

/// The lines of an output that are shown at first.
const OUTPUT_LINES: usize = 4;
/// The lines of a diff that are shown at first.
const DIFF_LINES: usize = 20;
/// The lines of a thought that are shown at first.
const THOUGHT_LINES: usize = 4;

impl State {
    /// Prints lines, after an empty line if they are of another kind.
    fn print(&mut self, group: Group, lines: Vec<Line>, continues: bool) {
        if lines.is_empty() {
            return;
        }
        let joined = continues
            || match group {
                Group::ToolCall | Group::Wire | Group::Header => self.last == Some(group),
                Group::Question => self.last == Some(Group::ToolCall),
                _ => false,
            };
        // The result of a call follows the answer to its question.
        let joined = joined || (group == Group::ToolCall && self.last == Some(Group::Question));
        if !joined && self.last.is_some() {
            self.finished.push(Line::new());
        }
        self.finished.extend(lines.into_iter().map(Line::trimmed));
        self.last = Some(group);
    }

    /// The first line: the chain.
    pub(super) fn header(&mut self, chain: &[String]) {
        if chain.is_empty() {
            return;
        }
        let mut line = Line::styled("you", Style::DIM);
        for name in chain {
            line.push(" → ", Style::DIM);
            line.push(one_line(name), Style::BOLD);
        }
        let lines = wrap(&line, self.layout.width, &Line::new(), &Line::from("  "));
        self.print(Group::Header, lines, false);
    }

    pub(super) fn note(&mut self, text: &str) {
        self.end_text();
        let lines = paragraphs(text, self.layout, Style::DIM);
        self.print(Group::Note, lines, false);
    }

    pub(super) fn error(&mut self, text: &str) {
        self.end_text();
        let head = Style { bold: true, ..Style::color(Color::Red) };
        let lines = paragraphs(&format!("error: {text}"), self.layout, Style::PLAIN);
        let lines = lines.into_iter().enumerate().map(|(index, line)| {
            let text = line.text();
            match text.strip_prefix("error:").filter(|_| index == 0) {
                Some(rest) => Line::styled("error:", head).with(rest, Style::PLAIN),
                None => line,
            }
        });
        let lines = lines.collect();
        self.print(Group::Error, lines, false);
    }

    pub(super) fn prompt(&mut self, text: &str) {
        self.end_turn();
        self.print_prompt(text);
    }

    fn print_prompt(&mut self, text: &str) {
        let line = Line::styled(clean(text).trim_end(), Style::BOLD);
        let first = Line::styled("> ", Style::BOLD);
        let lines = wrap(&line, self.layout.width, &first, &Line::from("  "));
        self.print(Group::Prompt, lines, false);
    }

    pub(super) fn wire(&mut self, row: &Row) {
        let lines = crate::wire_lines::lines(row, self.layout);
        self.print(Group::Wire, lines, false);
    }

    pub(super) fn answered(&mut self, question: &Question, answer: &str) {
        let line = Line::styled("? ", Style::color(Color::Yellow))
            .with(one_line(&question.title), Style::PLAIN)
            .with(": ", Style::PLAIN)
            .with(one_line(answer), Style::BOLD);
        let lines = wrap(&line, self.layout.width, &Line::new(), &Line::from("  "));
        self.end_text();
        self.print(Group::Question, lines, false);
    }

    pub(super) fn turn_ended(&mut self, stop_reason: Option<&str>) {
        self.end_turn();
        if let Some(note) = end_note(stop_reason) {
            self.note(&note);
        }
    }

    /// Prints everything that belongs to a turn.
    pub(super) fn end_turn(&mut self) {
        self.end_text();
        let (calls, plans) = self.transcript.end_turn();
        for call in calls {
            self.print_call(&call);
        }
        for shown in plans.iter().filter(|it| !plan::is_empty(it)) {
            let lines = plan::lines(shown, self.layout, Labels::Signs);
            self.print(Group::Plan, lines, false);
        }
        self.call_starts.clear();
    }

    pub(super) fn piece(&mut self, piece: Piece) {
        match piece {
            Piece::Text(kind, text) => self.push_text(kind, &text),
            Piece::EndOfText => self.end_text(),
            Piece::ToolCall(call) => self.print_call(&call),
            Piece::Notice { is_error: true, text } => self.error(&text),
            Piece::Notice { is_error: false, text } => self.note(&text),
        }
    }

    fn push_text(&mut self, kind: TextKind, text: &str) {
        if self.text.as_ref().is_some_and(|open| open.kind != kind) {
            self.end_text();
        }
        let open = self.text.get_or_insert_with(|| OpenText {
            kind,
            stream: MarkdownStream::default(),
            whole: String::new(),
        });
        let text = text.replace('\t', "    ");
        let blocks = match kind {
            TextKind::Answer => open.stream.push(&text),
            _ => {
                open.whole.push_str(&text);
                Vec::new()
            }
        };
        blocks.iter().for_each(|block| self.print_block(block));
    }

    fn print_block(&mut self, block: &Block) {
        let lines = render_block(block, self.layout);
        let continues = block.continues && self.last == Some(Group::Answer);
        self.print(Group::Answer, lines, continues);
    }

    /// Prints the text that is arriving.
    pub(super) fn end_text(&mut self) {
        let Some(mut open) = self.text.take() else { return };
        match open.kind {
            TextKind::Answer => {
                if let Some(block) = open.stream.finish() {
                    self.print_block(&block);
                }
            }
            TextKind::User => {
                if !open.whole.trim().is_empty() {
                    self.print_prompt(&open.whole);
                }
            }
            TextKind::Thought => self.print_thought(&open.whole),
        }
    }

    fn print_thought(&mut self, text: &str) {
        let lines = thought(text, self.layout);
        if lines.len() <= THOUGHT_LINES + 1 {
            return self.print(Group::Thought, lines, false);
        }
        let number = self.folds.add(Fold::Thought(text.to_owned()));
        let lines = folded(lines, THOUGHT_LINES, number, thought_gutter(), self.layout);
        self.print(Group::Thought, lines, false);
    }

    fn print_call(&mut self, call: &Value) {
        self.end_text();
        let mut lines = tool_call::head(call, self.layout, Labels::Signs);
        lines.extend(tool_call::locations(call, self.layout));
        let output = tool_call::output(call, self.transcript.terminals(), self.layout);
        let limit = if tool_call::has_diff(call) { DIFF_LINES } else { OUTPUT_LINES };
        if output.len() <= limit + 1 {
            lines.extend(output);
        } else {
            let number = self.folds.add(Fold::ToolCall(call.clone()));
            lines.extend(folded(output, limit, number, Line::from("  "), self.layout));
        }
        self.print(Group::ToolCall, lines, false);
    }

    /// Prints a folded part in full.
    pub(super) fn unfold(&mut self, number: Option<usize>) {
        self.end_text();
        match self.folds.find(number).cloned() {
            None => {
                let text = match number {
                    Some(number) => format!("there is no folded output {number}"),
                    None => "nothing is folded".to_owned(),
                };
                self.note(&text);
            }
            Some(Fold::Thought(text)) => {
                let lines = thought(&text, self.layout);
                self.print(Group::Thought, lines, false);
            }
            Some(Fold::ToolCall(call)) => {
                let mut lines = tool_call::head(&call, self.layout, Labels::Signs);
                lines.extend(tool_call::output(&call, self.transcript.terminals(), self.layout));
                self.print(Group::Note, lines, false);
            }
        }
    }

    /// Prints what an open question is about, in full.
    pub(super) fn unfold_question(&mut self) {
        let Some(open) = &self.question else { return };
        let title = Line::styled(one_line(&open.question.title), Style::BOLD);
        let mut lines = wrap(&title, self.layout.width, &Line::new(), &Line::from("  "));
        lines.extend(open.details(self.layout));
        self.print(Group::Note, lines, false);
    }
}

/// The first lines, and a last line that says how many are not shown. It begins with `indentation`.
fn folded(
    mut lines: Vec<Line>,
    limit: usize,
    number: usize,
    indentation: Line,
    layout: Layout,
) -> Vec<Line> {
    let more = lines.len() - limit;
    lines.truncate(limit);
    let room = layout.width.saturating_sub(indentation.width());
    let long = format!("… {more} more lines (Ctrl-O or /unfold {number})");
    let short = format!("… {more} more (/unfold {number})");
    let text = if crate::text::width(&long) <= room { long } else { short };
    let last = indentation.with(text, Style::DIM);
    lines.push(crate::text::shorten_line(&last, layout.width));
    lines
}

fn thought_gutter() -> Line {
    Line::styled("┊ ", Style::DIM)
}

/// A thought: a label and a gutter tell it from an answer.
pub(super) fn thought(text: &str, layout: Layout) -> Vec<Line> {
    let text = text.trim();
    if text.is_empty() {
        return Vec::new();
    }
    let rendered = render(text, layout.narrower(2));
    let style = Style { italic: true, ..Style::DIM };
    let mut label = thought_gutter();
    label.push("thought", Style::DIM);
    let mut lines = vec![crate::text::shorten_line(&label, layout.width)];
    for line in rendered {
        let mut shown = thought_gutter();
        shown.append(&line.restyled(style));
        lines.push(crate::text::shorten_line(&shown, layout.width));
    }
    lines
}

/// Text as it is, with word wrap. Wrapped lines are indented like their first line, and a little more.
pub(crate) fn paragraphs(text: &str, layout: Layout, style: Style) -> Vec<Line> {
    let text = clean(text);
    let mut lines = Vec::new();
    for line in text.trim_end().split('\n') {
        let rest = line.trim_start_matches(' ');
        let indent = line.len() - rest.len();
        let first = Line::from(" ".repeat(indent).as_str());
        let next = Line::from(" ".repeat(if indent == 0 { 0 } else { indent + 2 }).as_str());
        lines.extend(wrap(&Line::styled(rest, style), layout.width, &first, &next));
    }
    lines
}
