//! The lines of the live region.

use std::time::{Duration, Instant};

use acp_wire::printable::one_line;
use serde_json::Value;

use super::completion::{MAX_SHOWN, candidates};
use super::pieces::thought;
use super::question::{options, short_options};
use super::state::{Group, State};
use crate::markdown::render_block;
use crate::text::{Color, Line, Style, shorten_line, wrap};
use crate::transcript::tool_call::{self, Labels};
use crate::transcript::{TextKind, plan};
use crate::view::Activity;

/// The live region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) lines: Vec<Line>,
    /// The row of the cursor, from the top of the live region.
    pub(super) row: usize,
    pub(super) column: usize,
}

/// The pictures of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// How long one picture is shown.
const PICTURE: Duration = Duration::from_millis(100);

/// The lines of a running tool call's output that are shown.
const RUNNING_LINES: usize = 3;

/// The lines of a thought that is arriving, and the length of its text that is laid out for them.
const THOUGHT_LINES: usize = 5;
const THOUGHT_TEXT: usize = 4000;

/// The maximum number of queued prompts that are shown.
const QUEUED: usize = 3;

/// The prompt of the input line.
const PROMPT: &str = "> ";

impl State {
    /// Lays out the live region.
    pub(super) fn frame(&self, now: Instant) -> Frame {
        let width = self.layout.width;
        // One row stays for what is above.
        let height = self.height.saturating_sub(1).max(1);
        let (mut lower, row, column) = self.input(height.div_ceil(2));
        let menu = self.menu();
        let status = self.status(now);
        let queued = self.queued_lines();
        let taken = lower.len() + menu.len() + queued.len() + 2;
        let room = height.saturating_sub(taken);
        let question = self.question_lines(room, now);
        let is_short_of_rows = question.len() > room;
        let mut lines = Vec::new();
        self.upper(&mut lines, now);
        // What does not fit is cut from the top.
        let room = height.saturating_sub(lower.len());
        if is_short_of_rows {
            lines.extend(self.short_question(room));
        } else {
            for part in [question, queued].into_iter().filter(|part| !part.is_empty()) {
                lines.push(Line::new());
                lines.extend(part);
            }
            lines.push(Line::new());
            lines.push(status);
        }
        lines.drain(..lines.len().saturating_sub(room));
        if self.last.is_none() && lines.first().is_some_and(Line::is_blank) {
            lines.remove(0);
        }
        let row = lines.len() + row;
        lines.append(&mut lower);
        lines.extend(menu.into_iter().take(height.saturating_sub(lines.len())));
        let lines = lines.iter().map(|line| shorten_line(line, width).trimmed()).collect();
        Frame { lines, row, column: column.min(width.saturating_sub(1)) }
    }

    /// The text, tool calls and plan that can still change.
    fn upper(&self, lines: &mut Vec<Line>, now: Instant) {
        let mut add = |part: Vec<Line>, joined: bool| {
            if part.is_empty() {
                return;
            }
            if !joined {
                lines.push(Line::new());
            }
            lines.extend(part);
        };
        if let Some(open) = &self.text {
            let pending = open.stream.pending();
            let joined = pending.continues && self.last == Some(Group::Answer);
            let text = match open.kind {
                TextKind::Answer => render_block(&pending, self.layout),
                TextKind::Thought => {
                    // Only the end of a long thought is laid out.
                    let start = open.whole.len().saturating_sub(THOUGHT_TEXT);
                    let end = &open.whole[open.whole.ceil_char_boundary(start)..];
                    tail(thought(end, self.layout), THOUGHT_LINES)
                }
                TextKind::User => Vec::new(),
            };
            add(text, joined);
        }
        let calls: Vec<Line> = self
            .transcript
            .running()
            .iter()
            .filter(|call| !self.is_asked_about(call))
            .flat_map(|call| self.running_call(call, now))
            .collect();
        let joined = self.last == Some(Group::ToolCall) && self.text.is_none();
        add(calls, joined);
        for shown in self.transcript.plans().filter(|it| !plan::is_empty(it)) {
            add(plan::lines(shown, self.layout, Labels::Signs), false);
        }
    }

    /// Whether the open question is about this tool call. Then the question shows it.
    fn is_asked_about(&self, call: &Value) -> bool {
        let asked = self.question.as_ref().and_then(|open| open.question.tool_call.as_ref());
        asked.is_some_and(|asked| asked["toolCallId"] == call["toolCallId"])
    }

    fn running_call(&self, call: &Value, now: Instant) -> Vec<Line> {
        let mut lines = tool_call::head(call, self.layout, Labels::Signs);
        let time = self.running_for(call, now).as_secs();
        if time >= 1
            && let Some(last) = lines.last_mut()
            && last.width() + 8 <= self.layout.width
        {
            last.push(format!(" {time} s"), Style::DIM);
        }
        lines.extend(tool_call::locations(call, self.layout));
        let terminals = self.transcript.terminals();
        lines.extend(tool_call::running_output(call, terminals, self.layout, RUNNING_LINES));
        lines
    }

    fn question_lines(&self, room: usize, now: Instant) -> Vec<Line> {
        let Some(open) = &self.question else { return Vec::new() };
        let title = Line::styled("? ", Style::color(Color::Yellow))
            .with(one_line(&open.question.title), Style::BOLD);
        let mut lines = wrap(&title, self.layout.width, &Line::new(), &Line::from("  "));
        let choices = options(open, self.layout);
        let hint = match open.chosen.and_then(|index| open.question.options.get(index)) {
            Some(chosen) => format!("  {}…", one_line(&chosen.name)),
            None if !self.editor.is_empty() && self.editor.search().is_none() => {
                let long = "  Your text is kept. To answer, clear the line with Ctrl-U.";
                let short = "  Clear the line to answer (Ctrl-U).";
                if long.len() <= self.layout.width { long } else { short }.to_owned()
            }
            None if open.takes_answers(now) => "  Press a key to answer. Esc cancels.".to_owned(),
            None => "  …".to_owned(),
        };
        let hint = Line::styled(hint, Style::DIM);
        let details = open.details(self.layout);
        let space = room.saturating_sub(lines.len() + choices.len() + 3);
        let separated = space > 1 && !details.is_empty();
        if details.len() <= space {
            lines.extend(details);
        } else if space > 1 {
            let more = details.len() - (space - 1);
            lines.extend(details.into_iter().take(space - 1));
            let text = format!("  … {more} more lines (Ctrl-O)");
            lines.push(Line::styled(text, Style::color(Color::Yellow)));
        }
        if separated {
            lines.push(Line::new());
        }
        lines.extend(choices);
        lines.push(shorten_line(&hint, self.layout.width));
        lines
    }

    /// The question in as few rows as possible. The keys are more important than the title.
    fn short_question(&self, room: usize) -> Vec<Line> {
        let Some(open) = &self.question else { return Vec::new() };
        let title = Line::styled("? ", Style::color(Color::Yellow))
            .with(one_line(&open.question.title), Style::BOLD);
        let nothing = Line::new();
        let keys = wrap(&short_options(open), self.layout.width, &nothing, &nothing);
        let mut lines = vec![shorten_line(&title, self.layout.width)];
        lines.extend(keys.into_iter().take(room));
        lines
    }

    fn queued_lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = self
            .queued
            .iter()
            .take(QUEUED)
            .map(|prompt| Line::styled(format!("  queued: {}", one_line(prompt)), Style::DIM))
            .collect();
        if self.queued.len() > QUEUED {
            let more = self.queued.len() - QUEUED;
            lines.push(Line::styled(format!("  and {more} more"), Style::DIM));
        }
        lines
    }

    /// The line above the input.
    fn status(&self, now: Instant) -> Line {
        if let Some((query, found)) = self.editor.search() {
            let not = if found || query.is_empty() { "" } else { " (nothing found)" };
            return Line::styled(format!("search: {query}{not}"), Style::color(Color::Yellow));
        }
        let awaited = self.awaited.as_deref();
        let (since, what, help) = match self.activity {
            Activity::Idle if self.question.is_some() => {
                return Line::styled("a question waits for your answer", Style::DIM);
            }
            Activity::Idle => return self.facts_line(),
            Activity::Starting { since } => {
                let name = awaited.unwrap_or("the chain");
                (since, format!("starting {name}…"), [" · Ctrl-C stops", " · Ctrl-C"])
            }
            Activity::Working { .. } if self.question.is_some() => {
                return Line::styled("the agent waits for your answer", Style::DIM);
            }
            Activity::Working { since } => {
                let name = awaited.unwrap_or("the agent");
                (since, format!("waiting for {name}…"), [" · Ctrl-C cancels", " · Ctrl-C"])
            }
            Activity::Cancelling { since } => (since, "cancelling…".to_owned(), ["", ""]),
        };
        let elapsed = now.saturating_duration_since(since);
        let picture = (elapsed.as_millis() / PICTURE.as_millis()) as usize % SPINNER.len();
        let mut line = Line::styled(SPINNER[picture], Style::color(Color::Cyan));
        line.push(format!(" {what}"), Style::PLAIN);
        if elapsed >= Duration::from_secs(1) {
            line.push(format!(" {}", seconds(elapsed)), Style::DIM);
        }
        let room = self.layout.width.saturating_sub(line.width());
        if let Some(help) = help.iter().find(|help| crate::text::width(help) <= room) {
            line.push(*help, Style::DIM);
        }
        line
    }

    /// The facts that fit.
    fn facts_line(&self) -> Line {
        let title = self.transcript.title().map(|title| format!("“{title}”"));
        let help = self.commands.iter().any(|it| it.name == "help").then_some("/help");
        let facts = self.facts.iter().map(String::as_str).chain(help).chain(title.as_deref());
        let mut line = Line::new();
        for fact in facts.map(one_line) {
            let separator = if line.spans.is_empty() { "" } else { " · " };
            let next = format!("{separator}{fact}");
            if line.width() + crate::text::width(&next) > self.layout.width {
                break;
            }
            line.push(next, Style::DIM);
        }
        line
    }

    /// The rows of the input, and the position of the cursor in them.
    fn input(&self, height: usize) -> (Vec<Line>, usize, usize) {
        let prompt = if self.layout.width > 2 * PROMPT.len() { PROMPT } else { "" };
        let room = self.layout.width.saturating_sub(prompt.len());
        let rows = self.editor.rows(room).around_cursor(height);
        let style = Style { bold: true, ..Style::color(Color::Cyan) };
        let line = |(index, row): (usize, &String)| {
            let start = if index == 0 { prompt } else { &"  "[..prompt.len()] };
            Line::styled(start, style).with(row.as_str(), Style::PLAIN)
        };
        let lines = rows.rows.iter().enumerate().map(line).collect();
        (lines, rows.row, prompt.len() + rows.column)
    }

    /// The slash commands that the input can become.
    fn menu(&self) -> Vec<Line> {
        let found = candidates(&self.commands, self.editor.text());
        if self.editor.search().is_some() || self.height < 8 {
            return Vec::new();
        }
        let name = |it: &crate::view::SlashCommand| match it.argument.is_empty() {
            true => format!("/{}", one_line(&it.name)),
            false => format!("/{} {}", one_line(&it.name), one_line(&it.argument)),
        };
        let shown = &found[..found.len().min(MAX_SHOWN)];
        let widest = shown.iter().map(|it| crate::text::width(&name(it))).max().unwrap_or(0);
        let widest = widest.min(self.layout.width / 2);
        let mut lines: Vec<Line> = shown
            .iter()
            .map(|it| {
                let name = crate::text::shorten(&name(it), widest);
                let space = " ".repeat(widest.saturating_sub(crate::text::width(&name)));
                Line::styled(format!("  {name}{space}"), Style::BOLD)
                    .with(format!("  {}", one_line(&it.description)), Style::DIM)
            })
            .collect();
        if found.len() > MAX_SHOWN {
            let more = found.len() - MAX_SHOWN;
            lines.push(Line::styled(format!("  and {more} more"), Style::DIM));
        }
        lines
    }
}

/// The last lines.
fn tail(mut lines: Vec<Line>, count: usize) -> Vec<Line> {
    lines.drain(..lines.len().saturating_sub(count));
    lines
}

/// A duration, such as `12 s` or `3 min 5 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}
