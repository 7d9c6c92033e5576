//! The open question.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use acp_wire::printable::one_line;
use serde_json::Value;

use crate::markdown::Layout;
use crate::text::{Color, Line, Style, clean, wrap};
use crate::transcript::{diff, tool_call};
use crate::view::{Choice, Question};

/// How long a question that interrupts the user's typing takes no answers. Keys that were pressed before the user could
/// read it are text.
const GRACE: Duration = Duration::from_millis(500);

/// How long after a key the user is considered to be typing.
pub(super) const TYPING: Duration = Duration::from_secs(1);

/// A question that the user has not answered.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    pub(super) question: Question,
    /// From when on keys answer it. Set when it is first drawn.
    answers_from: Option<Instant>,
    /// The index of the answer, which the conversation has not confirmed.
    pub(super) chosen: Option<usize>,
    /// What the question is about, in the layout in which it was drawn last. To compare large files takes time.
    details: RefCell<Option<(Layout, Vec<Line>)>>,
}

impl OpenQuestion {
    pub(super) fn new(question: Question) -> OpenQuestion {
        OpenQuestion { question, answers_from: None, chosen: None, details: RefCell::new(None) }
    }

    /// What the question is about: paths, command and changes.
    pub(super) fn details(&self, layout: Layout) -> Vec<Line> {
        let mut details = self.details.borrow_mut();
        match &*details {
            Some((known, lines)) if *known == layout => lines.clone(),
            _ => {
                let lines = details_of(&self.question, layout);
                *details = Some((layout, lines.clone()));
                lines
            }
        }
    }

    /// The question was drawn. `typing` says whether the user is typing.
    pub(super) fn drawn(&mut self, now: Instant, typing: bool) {
        let wait = if typing { GRACE } else { Duration::ZERO };
        self.answers_from.get_or_insert(now + wait);
    }

    /// Whether a key can answer the question.
    pub(super) fn takes_answers(&self, now: Instant) -> bool {
        self.chosen.is_none() && self.answers_from.is_some_and(|from| now >= from)
    }

    /// The index of the option that a key chooses.
    pub(super) fn of_key(&self, key: char) -> Option<usize> {
        let options = &self.question.options;
        if let Some(number) = key.to_digit(10) {
            let index = (number as usize).checked_sub(1)?;
            return (index < options.len()).then_some(index);
        }
        (0..options.len()).find(|index| letter(options, *index) == Some(key.to_ascii_lowercase()))
    }

    /// The index of the option that an entered text names: a number, a letter, or the start of its name.
    pub(super) fn of_text(&self, text: &str) -> Option<usize> {
        answer(&self.question.options, text)
    }
}

/// The index of the option that a text names. `None` if it names none, or several.
pub(crate) fn answer(options: &[Choice], text: &str) -> Option<usize> {
    let text = text.trim().to_lowercase();
    if text.is_empty() {
        return None;
    }
    if let Ok(number) = text.parse::<usize>() {
        return number.checked_sub(1).filter(|index| *index < options.len());
    }
    let mut characters = text.chars();
    if let (Some(key), None) = (characters.next(), characters.next())
        && let Some(index) = (0..options.len()).find(|index| letter(options, *index) == Some(key))
    {
        return Some(index);
    }
    let exact = options.iter().position(|it| it.name.to_lowercase() == text);
    let mut starts =
        (0..options.len()).filter(|index| options[*index].name.to_lowercase().starts_with(&text));
    exact.or_else(|| starts.next().filter(|_| starts.next().is_none()))
}

/// The letter of an option. Only the first option of each kind has one.
pub(crate) fn letter(options: &[Choice], index: usize) -> Option<char> {
    let kind = &options.get(index)?.kind;
    let letter = match kind.as_str() {
        "allow_once" => 'y',
        "allow_always" => 'a',
        "reject_once" => 'n',
        "reject_always" => 'd',
        _ => return None,
    };
    let first = options.iter().position(|it| it.kind == *kind);
    (first == Some(index)).then_some(letter)
}

/// What the question is about: paths, command and changes.
pub(crate) fn details_of(question: &Question, layout: Layout) -> Vec<Line> {
    let Some(call) = &question.tool_call else { return Vec::new() };
    let inner = layout.narrower(2);
    let mut lines = Vec::new();
    if let Some(command) = tool_call::command(call) {
        for (index, line) in command.lines().enumerate() {
            let sign = if index == 0 { "$ " } else { "  " };
            let styled = Line::styled(line, Style::color(Color::Cyan));
            lines.extend(wrap(&styled, inner.width, &Line::from(sign), &Line::from("    ")));
        }
    }
    let blocks = call["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut paths: Vec<String> = Vec::new();
    for location in call["locations"].as_array().into_iter().flatten() {
        paths.extend(location["path"].as_str().map(one_line));
    }
    let changed: Vec<String> = blocks.iter().flat_map(diff::paths).collect();
    paths.retain(|path| !changed.contains(path));
    paths.dedup();
    for path in paths {
        lines.extend(wrap(&Line::from(path.as_str()), inner.width, &Line::new(), &Line::new()));
    }
    for block in blocks {
        match block["type"].as_str() {
            Some("diff") => lines.extend(diff::lines(block, inner)),
            Some("content") => {
                let text = clean(&crate::transcript::content::text_of(&block["content"]));
                lines.extend(crate::markdown::render(&text, inner));
            }
            _ => {}
        }
    }
    if lines.is_empty() {
        lines.extend(raw_input(call, inner));
    }
    tool_call::indented(lines, layout)
}

/// The input of a tool that shows nothing else.
fn raw_input(call: &Value, layout: Layout) -> Vec<Line> {
    let Some(members) = call["rawInput"].as_object() else { return Vec::new() };
    let mut lines = Vec::new();
    for (name, value) in members {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let line = Line::styled(format!("{}: ", one_line(name)), Style::DIM)
            .with(clean(&value), Style::PLAIN);
        lines.extend(wrap(&line, layout.width, &Line::new(), &Line::from("  ")));
    }
    lines
}

/// The options, each with its keys.
pub(super) fn options(open: &OpenQuestion, layout: Layout) -> Vec<Line> {
    let options = &open.question.options;
    let mut lines = Vec::new();
    for (index, option) in options.iter().enumerate() {
        let keys = match letter(options, index) {
            Some(letter) => format!("  {} or {letter}  ", index + 1),
            None => format!("  {}       ", index + 1),
        };
        let next = " ".repeat(keys.len());
        let name = Line::from(one_line(&option.name).as_str());
        let first = Line::styled(keys, Style::BOLD);
        lines.extend(wrap(&name, layout.width, &first, &Line::from(next.as_str())));
    }
    lines
}

/// The options in one line, each with one key.
pub(super) fn short_options(open: &OpenQuestion) -> Line {
    let options = &open.question.options;
    let mut line = Line::new();
    for (index, option) in options.iter().enumerate() {
        let key = letter(options, index).map_or((index + 1).to_string(), String::from);
        line.push(if index > 0 { " · " } else { "" }, Style::DIM);
        line.push(key, Style::BOLD);
        line.push(format!(" {}", one_line(&option.name)), Style::PLAIN);
    }
    line
}
