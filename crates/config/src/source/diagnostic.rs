//! Errors that point at a place in a file.

use std::fmt;

use acp_wire::{ErrorKind, printable};
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::Place;
use super::excerpt::Excerpt;

/// An error about a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of error.
    pub kind: ErrorKind,
    /// What is wrong.
    pub message: String,
    /// Where it is wrong.
    pub place: Option<Place>,
    /// A remark at the place.
    pub label: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn at(place: &Place, message: impl Into<String>) -> Diagnostic {
        let (kind, message) = (ErrorKind::InvalidConfiguration, message.into());
        Diagnostic { kind, message, place: Some(place.clone()), label: None, help: None }
    }

    /// An error that has no place in a file.
    pub fn plain(message: impl Into<String>) -> Diagnostic {
        let (kind, message) = (ErrorKind::InvalidConfiguration, message.into());
        Diagnostic { kind, message, place: None, label: None, help: None }
    }

    /// Sets the kind of the error.
    #[must_use]
    pub fn of_kind(self, kind: ErrorKind) -> Diagnostic {
        Diagnostic { kind, ..self }
    }

    /// Sets the remark at the place.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Diagnostic {
        Diagnostic { label: Some(label.into()), ..self }
    }

    /// Sets what to do.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Diagnostic {
        Diagnostic { help: Some(help.into()), ..self }
    }

    /// The error for a terminal: the message, `FILE:LINE:COLUMN`, the line, underlined, and what to do. Ends with the name
    /// of its section of the error page, without a line break.
    pub fn render(&self, color: bool) -> String {
        let title = printable::plain(&self.message).into_owned();
        let help = self.help.as_deref().map(|it| printable::plain(it).into_owned());
        let Some(place) = &self.place else {
            return self.kind.tag(match help {
                Some(help) => format!("{title}\n  = help: {help}"),
                None => title,
            });
        };
        let (line, column) = place.position();
        let excerpt = Excerpt::of(place);
        let path = printable::one_line(&place.source.path().display().to_string());
        let label = self.label.as_deref().map(|it| printable::plain(it).into_owned());
        let annotation = AnnotationKind::Primary.span(excerpt.span.clone()).label(label);
        let snippet = Snippet::source(excerpt.text.as_str()).line_start(line).path(path.as_str());
        let level = Level::ERROR.no_name();
        let mut group = level.primary_title(title.as_str()).element(snippet.annotation(annotation));
        if let Some(help) = &help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if color { Renderer::styled().hyperlink(false) } else { Renderer::plain() };
        let text = renderer.term_width(120).render(&[group]);
        // Text that is hidden or left out changes the columns.
        let shown = excerpt.text[..excerpt.span.start].chars().count() + 1;
        let (shown, column) = (format!("{path}:{line}:{shown}"), format!("{path}:{line}:{column}"));
        self.kind.tag(text.replacen(&shown, &column, 1).trim_end())
    }

    /// The error in one line: `FILE:LINE:COLUMN: what is wrong; what to do`.
    pub fn one_line(&self) -> String {
        let place = self.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let help = self.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
        printable::one_line(&format!("{place}{}{help}", self.message))
    }
}

/// The error in one line.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.one_line())
    }
}

impl std::error::Error for Diagnostic {}
