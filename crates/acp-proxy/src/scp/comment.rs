//! The messages about comments on files.

use acp_proxy_core::Side;
use serde::{Deserialize, Serialize};

use super::{Done, Position, Range};
use crate::message_type::{Notification, Request};

/// Shows a comment on a part of a file: `_scp/file_comment/show`. A comment with the same id is replaced, and keeps its
/// replies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowComment {
    /// The id of the comment. Ids of different components never mix.
    pub id: String,
    /// The file.
    pub url: String,
    /// Where the part begins.
    pub start: Position,
    /// Where the part ends. If it is absent, the part is the rest of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Position>,
    /// Whether the user may reply.
    #[serde(default)]
    pub can_reply: bool,
    /// The text, as Markdown. SCP 1.0 has no text: see [`Capabilities::has_additions`](super::Capabilities::has_additions).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// The session that the comment belongs to.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

impl ShowComment {
    /// A comment that the user cannot reply to.
    pub fn new(
        id: impl Into<String>,
        url: impl Into<String>,
        range: Range,
        contents: impl Into<String>,
    ) -> ShowComment {
        ShowComment {
            id: id.into(),
            url: url.into(),
            start: range.start,
            end: range.end,
            can_reply: false,
            contents: Some(contents.into()),
            session_id: None,
        }
    }

    /// Lets the user reply.
    #[must_use]
    pub fn with_replies(mut self) -> ShowComment {
        self.can_reply = true;
        self
    }

    /// Sets the session. [`Context::show_comment`](crate::Context::show_comment) sets that of the message that is being
    /// handled, if there is one.
    #[must_use]
    pub fn in_session(mut self, session: impl Into<String>) -> ShowComment {
        self.session_id = Some(session.into());
        self
    }
}

impl Request for ShowComment {
    const METHOD: &'static str = "_scp/file_comment/show";
    const SENDER: Option<Side> = Some(Side::Agent);
    type Response = Done;
}

/// Removes a comment: `_scp/file_comment/clear`, since SCP 1.1.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClearComment {
    /// The id of the comment.
    pub id: String,
}

impl Request for ClearComment {
    const METHOD: &'static str = "_scp/file_comment/clear";
    const SENDER: Option<Side> = Some(Side::Agent);
    type Response = Done;
}

/// The user has replied to a comment: `_scp/file_comment/reply`, since SCP 1.1.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommentReply {
    /// The id of the comment.
    pub id: String,
    /// The text, as Markdown.
    pub contents: String,
    /// The session that the comment belongs to.
    #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

impl Notification for CommentReply {
    const METHOD: &'static str = "_scp/file_comment/reply";
    const SENDER: Option<Side> = Some(Side::Editor);
}
