//! A walkthrough as the HTML of a panel, and as Markdown for the chat.

use std::collections::BTreeMap;
use std::path::Path;

use super::input::{Question, Section, Tour};
use super::markdown::{code_block, escape, file_link, to_html};
use super::places::FoundPlace;
use crate::fence::fenced;

/// The answers of the user, by the number of the question.
pub(super) type Answers = BTreeMap<usize, String>;

/// The name of the button that ends the wait.
pub(super) const DONE: &str = "done";

/// Code with more lines is folded.
const FOLDED_LINES: u32 = 8;

/// How a panel is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Widgets {
    /// The user answers in the panel.
    Ask,
    /// As `Ask`, and a button ends the wait.
    AskAndWait,
    /// The questions are text.
    None,
}

/// The name of the widget of a question. That of the text field has `-text` at its end.
pub(super) fn widget(number: usize) -> String {
    format!("q{number}")
}

/// The number of the question that a widget belongs to.
pub(super) fn question_of(widget: &str) -> Option<usize> {
    let name = widget.strip_suffix("-text").unwrap_or(widget);
    name.strip_prefix('q')?.parse().ok().filter(|number| *number > 0)
}

/// The HTML of a panel. Links to files in the folder open them.
pub(super) fn html(
    tour: &Tour,
    folder: &Path,
    places: &[FoundPlace],
    answers: &Answers,
    widgets: Widgets,
) -> String {
    let mut html = String::new();
    let (mut places, mut number) = (places.iter(), 0);
    for section in &tour.sections {
        html.push_str("<div class=\"c-section\">\n");
        if let Some(heading) = &section.heading {
            html.push_str(&format!("<h2>{}</h2>\n", escape(heading.trim())));
        }
        section.markdown.iter().for_each(|it| html.push_str(&to_html(it, folder)));
        places
            .by_ref()
            .take(section.code.len())
            .for_each(|it| html.push_str(&place_html(it, folder)));
        section.diff.iter().for_each(|it| html.push_str(&code_block("diff", it)));
        section.mermaid.iter().for_each(|it| html.push_str(&code_block("mermaid", it)));
        if let Some(question) = &section.question {
            number += 1;
            let text = to_html(&question.text, folder);
            html.push_str(&question_html(question, &text, number, answers.get(&number), widgets));
        }
        html.push_str("</div>\n");
    }
    if widgets == Widgets::AskAndWait {
        html.push_str(&format!(
            "<div class=\"c-row\"><button class=\"c-button\" data-widget=\"{DONE}\" data-submit=\"\">Done</button></div>\n"
        ));
    }
    html
}

fn place_html(place: &FoundPlace, folder: &Path) -> String {
    let link = file_link(&place.path, Some(place.first));
    let code = code_block(place.language(), &place.code);
    let count = place.last - place.first + 1;
    // Long code can be folded away.
    let code = match count > FOLDED_LINES {
        true => format!(
            "<details class=\"c-collapsible\"><summary>{count} lines</summary>\n{code}</details>\n"
        ),
        false => code,
    };
    let comment = place.comment.as_deref().map(|it| to_html(it, folder));
    let comment = comment.unwrap_or_default();
    format!(
        "<div class=\"c-card\">\n<p>{link}{}</a></p>\n{code}{comment}</div>\n",
        escape(&place.name())
    )
}

fn question_html(
    question: &Question,
    text: &str,
    number: usize,
    answer: Option<&String>,
    widgets: Widgets,
) -> String {
    let name = widget(number);
    let body = match answer {
        Some(answer) => {
            format!("<p><span class=\"c-badge c-ok\">Your answer</span> {}</p>\n", escape(answer))
        }
        None if widgets == Widgets::None => {
            let items = question.choices.iter().map(|it| format!("<li>{}</li>", escape(it)));
            let items: String = items.collect();
            let list = if items.is_empty() { items } else { format!("<ul>{items}</ul>\n") };
            format!("{list}<p class=\"c-muted\">Answer in the chat.</p>\n")
        }
        None => {
            let button = |it: &String| {
                let choice = escape(it);
                format!("<button data-value=\"{choice}\">{choice}</button>")
            };
            let choices: String = question.choices.iter().map(button).collect();
            let choices = match choices.is_empty() {
                true => choices,
                false => {
                    format!("<div class=\"c-choice\" data-widget=\"{name}\">{choices}</div>\n")
                }
            };
            let input = match question.has_free_text() {
                true => format!(
                    "<input class=\"c-input\" data-widget=\"{name}-text\" placeholder=\"Your answer\">\n"
                ),
                false => String::new(),
            };
            choices + &input
        }
    };
    format!(
        "<div class=\"c-card\">\n<p><strong>Question {number}</strong></p>\n{text}{body}</div>\n"
    )
}

/// The walkthrough as Markdown, for an editor without panels.
pub(super) fn markdown(tour: &Tour, places: &[FoundPlace]) -> String {
    let mut text = format!("\n\n# {}\n\n", tour.title.trim());
    let (mut places, mut number) = (places.iter(), 0);
    for section in &tour.sections {
        let places = places.by_ref().take(section.code.len()).map(place_markdown);
        let question = section.question.as_ref().map(|question| {
            number += 1;
            question_markdown(question, number)
        });
        let blocks = section_blocks(section, places.collect(), question);
        blocks.into_iter().for_each(|block| {
            text.push_str(block.trim_end());
            text.push_str("\n\n");
        });
    }
    text
}

fn section_blocks(section: &Section, places: Vec<String>, question: Option<String>) -> Vec<String> {
    let mut blocks = Vec::new();
    blocks.extend(section.heading.iter().map(|it| format!("## {}", it.trim())));
    blocks.extend(section.markdown.clone());
    blocks.extend(places);
    blocks.extend(section.diff.iter().map(|it| fenced("diff", it)));
    blocks.extend(section.mermaid.iter().map(|it| fenced("mermaid", it)));
    blocks.extend(question);
    blocks
}

fn place_markdown(place: &FoundPlace) -> String {
    let code = fenced(place.language(), &place.code);
    let comment = place.comment.as_ref().map(|it| format!("\n\n{it}")).unwrap_or_default();
    format!("`{}`\n\n{code}{comment}", place.name())
}

fn question_markdown(question: &Question, number: usize) -> String {
    let choices = question.choices.iter().zip('a'..);
    let choices: String = choices.map(|(it, letter)| format!("\n- {letter}) {it}")).collect();
    let choices = if choices.is_empty() { choices } else { format!("\n{choices}") };
    format!("**Question {number}:** {}{choices}", question.text.trim())
}
