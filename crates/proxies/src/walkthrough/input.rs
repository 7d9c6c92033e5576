//! The arguments of the tools, and their limits.

use acp_proxy::{JsonSchema, schemars};
use serde::Deserialize;

/// A tour through code.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Tour {
    /// The title. A walkthrough with the same title in the same session is replaced.
    pub(super) title: String,
    /// The parts of the walkthrough, in order.
    pub(super) sections: Vec<Section>,
    /// Whether to wait until the user has answered. The default is true if there is a question. Otherwise, and after the
    /// waiting time, answers are added to the next prompt.
    pub(super) wait: Option<bool>,
}

/// A part of a walkthrough. Each member is optional.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Section {
    /// A heading.
    pub(super) heading: Option<String>,
    /// A text in Markdown. HTML in it is shown as text. Links such as `src/a.rs#L2` open the file.
    pub(super) markdown: Option<String>,
    /// Places in the code.
    pub(super) code: Vec<Place>,
    /// A unified diff.
    pub(super) diff: Option<String>,
    /// A diagram in the language of Mermaid.
    pub(super) mermaid: Option<String>,
    /// A question to the user.
    pub(super) question: Option<Question>,
}

/// A place in the code.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Place {
    /// The file, relative to the folder of the session.
    pub(super) path: String,
    /// The first line. The first line of a file is 1.
    pub(super) line: u32,
    /// The last line. Without it, the place is one line.
    pub(super) end_line: Option<u32>,
    /// A comment in Markdown, which the editor shows at the place. The user can reply to it.
    pub(super) comment: Option<String>,
}

/// A question to the user.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Question {
    /// The question.
    pub(super) text: String,
    /// Answers to choose from.
    #[serde(default)]
    pub(super) choices: Vec<String>,
    /// Whether the user may also enter a text. The default is true if there are no choices.
    pub(super) free_text: Option<bool>,
}

/// A walkthrough that is shown.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Title {
    /// The title of the walkthrough.
    pub(super) title: String,
}

const MAX_TITLE: usize = 200;
const MAX_SECTIONS: usize = 50;
const MAX_PLACES: usize = 100;
const MAX_QUESTIONS: usize = 20;
const MAX_CHOICES: usize = 12;
const MAX_CHOICE: usize = 200;

/// The maximum size of all texts together, in bytes.
const MAX_TEXT: usize = 256 * 1024;

impl Question {
    pub(super) fn has_free_text(&self) -> bool {
        self.free_text.unwrap_or(false) || self.choices.is_empty()
    }
}

impl Tour {
    pub(super) fn questions(&self) -> impl Iterator<Item = &Question> {
        self.sections.iter().filter_map(|it| it.question.as_ref())
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.sections.iter().flat_map(|it| &it.code)
    }

    /// What is wrong with the arguments, apart from the places.
    pub(super) fn check(&self) -> Result<(), String> {
        check_title(&self.title)?;
        let count = |what: &str, count: usize, max: usize| match count > max {
            true => Err(format!(
                "there are {count} {what}, but at most {max} are shown; leave some out"
            )),
            false => Ok(()),
        };
        if self.sections.is_empty() {
            return Err("`sections` is empty; add at least one section".to_owned());
        }
        count("sections", self.sections.len(), MAX_SECTIONS)?;
        count("places in the code", self.places().count(), MAX_PLACES)?;
        count("questions", self.questions().count(), MAX_QUESTIONS)?;
        for question in self.questions() {
            if question.text.trim().is_empty() {
                return Err("a question has no text; fill in `question.text`".to_owned());
            }
            count("choices of a question", question.choices.len(), MAX_CHOICES)?;
            let is_bad = |it: &String| it.trim().is_empty() || it.chars().count() > MAX_CHOICE;
            if question.choices.iter().any(is_bad) {
                return Err(format!("each choice must have between 1 and {MAX_CHOICE} characters"));
            }
        }
        let size: usize = self.sections.iter().map(Section::size).sum();
        count("bytes of text", size, MAX_TEXT)
    }
}

pub(super) fn check_title(title: &str) -> Result<(), String> {
    let length = title.chars().count();
    match title.trim().is_empty() || length > MAX_TITLE {
        true => Err(format!("the title must have between 1 and {MAX_TITLE} characters")),
        false => Ok(()),
    }
}

impl Section {
    fn size(&self) -> usize {
        let texts = [&self.heading, &self.markdown, &self.diff, &self.mermaid];
        let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
        let comments = self.code.iter().flat_map(|it| &it.comment).map(String::len).sum::<usize>();
        texts + comments + self.question.as_ref().map_or(0, |it| it.text.len())
    }
}
