//! SCP: panels, comments on files, and operations of the editor, for components that show more than text.
//!
//! An editor that supports SCP says so in `initialize`. [`Context::editor_capabilities`](crate::Context::editor_capabilities) returns what it offers. A
//! component shows a panel or a comment with an id of its own. When the user uses a panel or replies to a comment, the
//! component gets an event with this id.
//!
//! ```
//! use acp_proxy::prelude::*;
//! use acp_proxy::scp::ShowPanel;
//!
//! let proxy = Proxy::new("hello")
//!     .on_prompt(async |prompt, next| {
//!         if next.editor_capabilities().html_panel {
//!             let html = r#"<button class="c-button" data-widget="more">More</button>"#;
//!             next.show_panel(ShowPanel::new("hello", "Hello", html)).await?;
//!         }
//!         next.run(prompt).await
//!     })
//!     .on_panel_event(|event, context| {
//!         let is_own = event.id == "hello";
//!         if is_own {
//!             context.log(format!("{} was used", event.widget));
//!         }
//!         is_own
//!     });
//! ```
//!
//! A component that provides panels, comments or operations itself adds them with [`Capabilities::add_to`], and handles
//! the requests as any other type: `proxy.on_request(async |panel: ShowPanel, next| …)`.
//!
//! Lines and columns begin with 1. Columns count characters. A URL is a `file://` URL, an absolute path, or a path
//! relative to the folder of the session.

mod capabilities;
mod comment;
mod ide;
mod panel;
mod sending;

pub use capabilities::{Capabilities, IdeOperations, Version};
pub use comment::{ClearComment, CommentReply, ShowComment};
pub use ide::{
    Applied, ApplyEdit, Diagnostic, Diagnostics, DiagnosticsFound, Edit, FindAllReferences,
    FindDefinition, GetSelection, IdeOperation, ListOpenFiles, Location, Locations, OpenFile,
    OpenFiles, OpenedFile, Selection, Severity,
};
pub use panel::{ClearPanel, GetPanel, PanelClosed, PanelEvent, PanelEventKind, ShowPanel};

use serde::{Deserialize, Serialize};

/// The answer to a request that returns nothing: `{}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Done {}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The line. The first one is 1.
    pub line: u32,
    /// The column, in characters. The first one is 1. If it is absent, a start is at the beginning of its line, and an
    /// end at the end of its line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl Position {
    /// A whole line.
    pub fn line(line: u32) -> Position {
        Position { line, column: None }
    }

    /// A line and a column.
    pub fn new(line: u32, column: u32) -> Position {
        Position { line, column: Some(column) }
    }
}

/// A part of a file. The column of `end` is not part of it. Without an `end`, it is the rest of the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Range {
    /// Where it begins.
    pub start: Position,
    /// Where it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Position>,
}

impl Range {
    /// A whole line.
    pub fn line(line: u32) -> Range {
        Range { start: Position::line(line), end: None }
    }

    /// Whole lines, from the first to the last one.
    pub fn lines(first: u32, last: u32) -> Range {
        Range { start: Position::line(first), end: Some(Position::line(last)) }
    }
}

impl std::fmt::Display for Range {
    /// The lines: `12`, or `12-15`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.end.filter(|end| end.line > self.start.line) {
            Some(end) => write!(f, "{}-{}", self.start.line, end.line),
            None => write!(f, "{}", self.start.line),
        }
    }
}
