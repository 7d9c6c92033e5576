//! What is written, and how.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use acp_wire::printable::{one_line, plain};
use serde_json::Value;

use super::Options;
use crate::markdown::{Block, Layout, MarkdownStream, render_block};
use crate::terminal::{Fold, Folds, question};
use crate::text::{Color, Line, Style, wrap};
use crate::transcript::tool_call::{self, Labels};
use crate::transcript::{Piece, TextKind, Transcript, end_note, plan};
use crate::view::{Activity, Question, UserInput};
use crate::wire::Row;

/// The width of lines in a pipe.
const PIPE_WIDTH: usize = 100;

/// The lines of an output that are shown at first.
const OUTPUT_LINES: usize = 4;
/// The lines of a diff that are shown at first.
const DIFF_LINES: usize = 100;

/// The characters with which Markdown marks a part of a text.
const MARKUP: [char; 13] = ['*', '_', '`', '[', ']', '~', '<', '|', '#', '>', '\\', '&', '\n'];

/// How long to wait before a remark, and between two remarks.
const REMARK: Duration = Duration::from_secs(10);

/// Writes the conversation.
pub(super) struct Output {
    options: Options,
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    transcript: Transcript,
    /// The kind of the text that is being written.
    text: Option<TextKind>,
    /// Whether a thought was written last. An answer is told from it.
    after_thought: bool,
    /// The text of which complete blocks are written.
    stream: MarkdownStream,
    /// Whether a block of the text is written.
    has_block: bool,
    /// The lines of the incomplete block that are written, and the length of the block when they were.
    block_lines: usize,
    block_length: usize,
    /// Whether the current line is incomplete.
    open: bool,
    /// Line breaks to write if more text follows.
    breaks: String,
    /// Whether messages of the chain are shown. Then text is written line by line.
    wire: bool,
    /// The incomplete line of a text.
    held: String,
    /// Whether the sign before the input is written.
    asks: bool,
    input_ended: bool,
    activity: Activity,
    awaited: Option<String>,
    question: Option<Question>,
    /// The lines that the user has typed, and that the terminal has echoed.
    typed: VecDeque<String>,
    queued: usize,
    folds: Folds,
    /// The plans that were written last.
    plans: Vec<Value>,
    /// When something was written last.
    written: Instant,
    finished: bool,
    error: Option<io::Error>,
    failed: bool,
}

impl Output {
    pub(super) fn new(
        options: Options,
        out: Box<dyn Write + Send>,
        err: Box<dyn Write + Send>,
    ) -> Output {
        Output {
            transcript: Transcript::new(&options.folder),
            options,
            out,
            err,
            text: None,
            after_thought: false,
            stream: MarkdownStream::default(),
            has_block: false,
            block_lines: 0,
            block_length: 0,
            open: false,
            breaks: String::new(),
            wire: false,
            held: String::new(),
            asks: false,
            input_ended: false,
            activity: Activity::Idle,
            awaited: None,
            question: None,
            typed: VecDeque::new(),
            queued: 0,
            folds: Folds::default(),
            plans: Vec::new(),
            written: Instant::now(),
            finished: false,
            error: None,
            failed: false,
        }
    }

    /// The width is that of the terminal now.
    fn layout(&self) -> Layout {
        let width = match self.options.width {
            0 if self.options.terminal => crate::terminal::size().0,
            0 => PIPE_WIDTH,
            width => width,
        };
        Layout { width: width.max(1), color: self.options.color, linear: true }
    }

    fn labels(&self) -> Labels {
        if self.options.terminal { Labels::Words } else { Labels::Short }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    pub(super) fn set_activity(&mut self, activity: Activity) {
        if activity == Activity::Idle {
            self.end_turn();
            self.awaited = None;
        }
        self.activity = activity;
        self.written = Instant::now();
        self.ask();
    }

    pub(super) fn set_awaited(&mut self, component: Option<&str>) {
        self.awaited = component.map(one_line);
    }

    pub(super) fn set_queued(&mut self, prompts: &[String]) {
        if self.options.terminal && prompts.len() > self.queued {
            self.note("The prompt is sent when the agent has finished.");
        }
        self.queued = prompts.len();
    }

    pub(super) fn set_terminal(&mut self, terminal: &str, output: &str, exit: Option<&str>) {
        self.transcript.set_terminal(terminal, output, exit);
    }

    /// The sign before the input, when the chat waits for a prompt.
    fn ask(&mut self) {
        let waits = self.activity == Activity::Idle && self.question.is_none() && self.queued == 0;
        let terminal = self.options.input_terminal && self.options.terminal;
        let person = terminal && self.options.read_input && !self.input_ended;
        if waits && person && !self.asks {
            self.end_text();
            self.write("> ");
            self.asks = true;
        }
    }

    /// The input has ended: the user is not asked again.
    pub(super) fn end_of_input(&mut self) {
        self.input_ended = true;
    }

    /// Handles a line of the input. `None` if it is empty or no answer to the open question.
    pub(super) fn entered(&mut self, line: &str) -> Option<UserInput> {
        self.asks = false;
        if line.trim().is_empty() {
            self.ask();
            return None;
        }
        if let Some(open) = self.question.as_ref().filter(|_| !line.starts_with('/')) {
            if let Some(index) = question::answer(&open.options, line) {
                return Some(UserInput::Choice(index));
            }
            let last = open.options.len();
            self.note(&format!("Answer with a number from 1 to {last}, or the start of a name."));
            return None;
        }
        if self.options.input_terminal && self.options.terminal {
            self.typed.push_back(line.to_owned());
        }
        Some(UserInput::Line(line.to_owned()))
    }

    pub(super) fn prompt(&mut self, text: &str) {
        self.end_turn();
        // The terminal has echoed what the user has typed.
        if let Some(at) = self.typed.iter().position(|typed| typed == text) {
            self.typed.drain(..=at);
            return;
        }
        let text = format!("> {}", plain(text));
        self.line(&Line::styled(text, Style::BOLD));
    }

    pub(super) fn note(&mut self, text: &str) {
        self.paragraphs(text, Style::DIM);
        self.ask();
    }

    fn paragraphs(&mut self, text: &str, style: Style) {
        self.end_text();
        let lines: Vec<Line> = match self.options.terminal {
            true => crate::terminal::paragraphs(text, self.layout(), style),
            false => plain(text).trim_end().lines().map(|it| Line::styled(it, style)).collect(),
        };
        lines.iter().for_each(|line| self.line(line));
    }

    /// Errors go to standard error.
    pub(super) fn error(&mut self, text: &str) {
        self.end_text();
        self.end_input();
        let label = Line::styled("error:", Style::color(Color::Red)).painted(self.options.color);
        let text = format!("{label} {}\n", plain(text).trim_end());
        // Standard error may be closed.
        let _ = self.err.write_all(text.as_bytes()).and_then(|()| self.err.flush());
        self.ask();
    }

    pub(super) fn update(&mut self, update: &Value, replayed: bool) {
        let known = self.transcript.running().len();
        for piece in self.transcript.update(update, replayed) {
            self.piece(piece);
        }
        self.running_call(known);
        self.show_plans();
    }

    fn piece(&mut self, piece: Piece) {
        match piece {
            Piece::Text(kind, text) => self.text(kind, &text),
            Piece::EndOfText => self.end_text(),
            Piece::ToolCall(call) => self.tool_call(&call),
            Piece::Notice { is_error: true, text } => self.error(&text),
            Piece::Notice { is_error: false, text } => self.note(&text),
        }
    }

    /// A tool call that has started, on a terminal.
    fn running_call(&mut self, known: usize) {
        if self.options.terminal
            && self.transcript.running().len() > known
            && let Some(call) = self.transcript.running().last().cloned()
        {
            self.lines(tool_call::head(&call, self.layout(), self.labels()));
        }
    }

    fn tool_call(&mut self, call: &Value) {
        let layout = self.layout();
        let mut lines = tool_call::head(call, layout, self.labels());
        let has_diff = tool_call::has_diff(call);
        if has_diff || self.labels() == Labels::Words {
            lines.extend(tool_call::locations(call, layout));
            let mut output = tool_call::output(call, self.transcript.terminals(), layout);
            let limit = if has_diff { DIFF_LINES } else { OUTPUT_LINES };
            if output.len() > limit + 1 {
                let more = output.len() - limit;
                output.truncate(limit);
                let number = self.folds.add(Fold::ToolCall(call.clone()));
                output.push(match self.options.terminal {
                    true => Line::from(format!("  {more} more lines: /unfold {number}").as_str()),
                    false => Line::from(format!("  … {more} more lines").as_str()),
                });
            }
            lines.extend(output);
        }
        self.lines(lines);
    }

    /// Writes the plans that have changed.
    fn show_plans(&mut self) {
        let plans: Vec<Value> = self.transcript.plans().cloned().collect();
        let changed: Vec<Value> = plans
            .iter()
            .filter(|it| !plan::is_empty(it) && !self.plans.contains(it))
            .cloned()
            .collect();
        for it in changed {
            self.lines(plan::lines(&it, self.layout(), self.labels()));
        }
        self.plans = plans;
    }

    pub(super) fn set_question(&mut self, question: Option<&Question>) {
        self.question = question.cloned();
        let Some(question) = question else { return self.ask() };
        let call = question.tool_call.as_ref();
        let tool_call = call.map(|call| self.transcript.with_relative_paths(call));
        let question = &Question { tool_call, ..question.clone() };
        let layout = self.layout();
        let title = one_line(&question.title);
        let mut lines = match self.labels() {
            Labels::Words => vec![Line::from(format!("Permission: {title}").as_str())],
            _ => vec![
                Line::styled("?", Style::color(Color::Yellow))
                    .with(format!(" {title}"), Style::PLAIN),
            ],
        };
        lines.extend(question::details_of(question, layout));
        for (index, option) in question.options.iter().enumerate() {
            let letter = question::letter(&question.options, index);
            let letter = letter.map(|it| format!(" ({it})")).unwrap_or_default();
            let text = format!("  {}) {}{letter}", index + 1, one_line(&option.name));
            lines.push(Line::from(text.as_str()));
        }
        self.lines(lines);
        if self.options.input_terminal && self.options.terminal {
            self.write("Answer: ");
            self.asks = true;
        }
    }

    pub(super) fn answered(&mut self, question: &Question, answer: &str) {
        let label = if self.labels() == Labels::Words { "Permission:" } else { "?" };
        let line = Line::styled(label, Style::color(Color::Yellow))
            .with(format!(" {}: ", one_line(&question.title)), Style::PLAIN)
            .with(one_line(answer), Style::BOLD);
        self.line(&line);
    }

    pub(super) fn turn_ended(&mut self, stop_reason: Option<&str>) {
        self.end_turn();
        if let Some(note) = end_note(stop_reason) {
            self.note(&note);
        }
    }

    fn end_turn(&mut self) {
        self.end_text();
        let (calls, _) = self.transcript.end_turn();
        calls.iter().for_each(|call| self.tool_call(call));
        self.plans.clear();
    }

    pub(super) fn unfold(&mut self, number: Option<usize>) {
        match self.folds.find(number).cloned() {
            Some(Fold::ToolCall(call)) => {
                let mut lines = tool_call::head(&call, self.layout(), self.labels());
                lines.extend(tool_call::output(&call, self.transcript.terminals(), self.layout()));
                self.lines(lines);
            }
            Some(Fold::Thought(text)) => self.note(&text),
            None => self.note("There is no such folded output."),
        }
        self.ask();
    }

    pub(super) fn wire(&mut self, row: &Row) {
        self.wire = true;
        // Texts are written line by line now. A line that was begun before is ended.
        if std::mem::take(&mut self.open) {
            self.breaks.clear();
            self.write("\n");
        }
        let layout = self.layout();
        for line in crate::wire_lines::lines(row, layout) {
            self.end_input();
            let text = format!("{}\n", line.trimmed().painted(layout.color));
            self.write(&text);
        }
    }

    pub(super) fn finish(&mut self) {
        if !self.finished {
            self.end_turn();
            self.end_input();
            self.finished = true;
        }
    }

    /// Writes a part of a text.
    fn text(&mut self, kind: TextKind, text: &str) {
        if self.text.is_some_and(|before| before != kind) {
            self.end_text();
        }
        let label = match kind {
            TextKind::Thought => "Thought: ",
            TextKind::User => "> ",
            TextKind::Answer => "",
        };
        let text = match self.text {
            Some(_) => text.to_owned(),
            None => {
                // A text does not start with empty lines.
                let text = text.trim_start_matches('\n');
                if text.is_empty() {
                    return;
                }
                if self.after_thought && kind == TextKind::Answer && self.options.terminal {
                    self.line(&Line::styled("(end of the thought)", Style::DIM));
                }
                format!("{label}{text}")
            }
        };
        self.text = Some(kind);
        if self.options.terminal {
            match kind {
                TextKind::User => self.held.push_str(&text),
                _ => {
                    let blocks = self.stream.push(&text.replace('\t', "    "));
                    blocks.iter().for_each(|block| self.block(block));
                    self.incomplete_block();
                }
            }
            return;
        }
        let mut text = format!("{}{text}", std::mem::take(&mut self.held));
        if self.wire {
            break_long_line(&mut text, self.layout().width);
            let complete = text.rfind('\n').map_or(0, |at| at + 1);
            self.held = text.split_off(complete);
        }
        self.raw(&text);
    }

    /// Writes a part of a text as it is. Line breaks at its end are written when more follows.
    fn raw(&mut self, text: &str) {
        let words = text.trim_end_matches('\n');
        if !words.is_empty() {
            let breaks = std::mem::take(&mut self.breaks);
            let style =
                if self.text == Some(TextKind::Thought) { Style::DIM } else { Style::PLAIN };
            let painted: Vec<String> = words
                .split('\n')
                .map(|line| match style == Style::PLAIN || line.is_empty() {
                    true => line.to_owned(),
                    false => Line::styled(line, style).painted(self.options.color),
                })
                .collect();
            self.end_input();
            self.write(&format!("{breaks}{}", painted.join("\n")));
            self.open = true;
        }
        self.breaks.push_str(&text[words.len()..]);
        if self.wire && self.open && !self.breaks.is_empty() {
            // A line of the chain may follow.
            let breaks = std::mem::take(&mut self.breaks);
            self.write(&breaks);
            self.open = false;
        }
    }

    /// Writes a block of a text on a terminal.
    fn block(&mut self, block: &Block) {
        let lines = render_block(block, self.layout());
        self.block_lines(block, lines);
        (self.block_lines, self.block_length) = (0, 0);
    }

    /// Writes the complete lines of a block that is not complete, so that a long paragraph streams. Markup may change
    /// the layout of earlier lines when it is complete, so lines are written only up to the first markup.
    fn incomplete_block(&mut self) {
        let layout = self.layout();
        let block = self.stream.pending();
        let has_markup = block.markdown.contains(MARKUP);
        if has_markup || block.markdown.len() < self.block_length + layout.width {
            return;
        }
        self.block_length = block.markdown.len();
        let mut lines = render_block(&block, layout);
        // The last line may still grow.
        lines.pop();
        self.block_lines(&block, lines);
    }

    /// Writes the lines of a block that are not written yet.
    fn block_lines(&mut self, block: &Block, lines: Vec<Line>) {
        let written = std::mem::replace(&mut self.block_lines, lines.len());
        if lines.len() <= written {
            self.block_lines = written;
            return;
        }
        self.end_input();
        if written == 0 && !block.continues && std::mem::replace(&mut self.has_block, true) {
            self.write("\n");
        }
        for line in lines.into_iter().skip(written) {
            let text = format!("{}\n", line.trimmed().painted(self.options.color));
            self.write(&text);
        }
    }

    /// Ends the text that is being written.
    fn end_text(&mut self) {
        if self.text.is_none() {
            return;
        }
        self.after_thought = self.text == Some(TextKind::Thought);
        if let Some(block) = self.stream.finish() {
            self.block(&block);
        }
        self.has_block = false;
        let held = std::mem::take(&mut self.held);
        if self.options.terminal && !held.is_empty() {
            self.text = None;
            return self.line(&Line::styled(held.trim_end(), Style::BOLD));
        }
        self.raw(&held);
        self.text = None;
        self.breaks.clear();
        if std::mem::take(&mut self.open) {
            self.write("\n");
        }
    }

    fn lines(&mut self, lines: Vec<Line>) {
        lines.iter().for_each(|line| self.line(line));
    }

    fn line(&mut self, line: &Line) {
        self.end_text();
        self.after_thought = false;
        self.end_input();
        let layout = self.layout();
        let rows = match self.options.terminal {
            true => wrap(line, layout.width, &Line::new(), &Line::new()),
            false => vec![line.clone()],
        };
        for row in rows {
            let text = format!("{}\n", row.trimmed().painted(layout.color));
            self.write(&text);
        }
    }

    /// Ends the line with the sign before the input.
    fn end_input(&mut self) {
        if std::mem::take(&mut self.asks) {
            self.write("\n");
        }
    }

    fn write(&mut self, text: &str) {
        if self.failed || text.is_empty() {
            return;
        }
        self.written = Instant::now();
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        if let Err(error) = written {
            self.failed = true;
            self.error = Some(error);
        }
    }

    /// Whether the chat waits for a component.
    pub(super) fn is_waiting(&self) -> bool {
        self.activity != Activity::Idle && self.question.is_none() && !self.finished
    }

    /// Writes which component the chat waits for, if nothing was written for a while.
    pub(super) fn remark(&mut self) {
        if !self.is_waiting() || self.written.elapsed() < REMARK {
            return;
        }
        let (since, name) = match self.activity {
            Activity::Starting { since } => (since, self.awaited.as_deref().unwrap_or("the chain")),
            Activity::Working { since } | Activity::Cancelling { since } => {
                (since, self.awaited.as_deref().unwrap_or("the agent"))
            }
            Activity::Idle => return,
        };
        let text =
            format!("still waiting for {name}, {}", crate::terminal::seconds(since.elapsed()));
        self.note(&text);
    }
}

/// Breaks the last line of a text at spaces, so that no line is longer than this width.
fn break_long_line(text: &mut String, width: usize) {
    loop {
        let start = text.rfind('\n').map_or(0, |at| at + 1);
        let Some((end, _)) = text[start..].char_indices().nth(width) else { return };
        let Some(space) = text[start..start + end].rfind(' ').filter(|at| *at > 0) else { return };
        text.replace_range(start + space..=start + space, "\n");
    }
}
