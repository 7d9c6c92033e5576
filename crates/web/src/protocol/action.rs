//! What a page asks the server to do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An action. The comment of each one says what `done.ok` is; otherwise it is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "op", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// Opens a new session. The result is its id.
    NewSession,
    /// Loads or resumes an earlier session.
    OpenSession {
        /// The id of the session.
        session: String,
    },
    /// Asks the agent for its earlier sessions again.
    ListSessions,
    /// Closes a session.
    CloseSession {
        /// The id of the session.
        session: String,
    },
    /// Sends a prompt. While the agent is working, the prompt waits until its turn has ended.
    Prompt {
        /// The id of the session.
        session: String,
        /// The text.
        text: String,
        /// What is attached.
        attachments: Vec<Attachment>,
    },
    /// Removes a prompt that waits. The result is an `Unqueued`, to edit it.
    Unqueue {
        /// The id of the session.
        session: String,
        /// The id of the entry.
        entry: String,
    },
    /// Sends a prompt that failed again, with what was attached.
    TryAgain {
        /// The id of the session.
        session: String,
        /// The id of the error.
        entry: String,
    },
    /// Cancels the turn, and sends the prompt that waits next.
    SendNow {
        /// The id of the session.
        session: String,
        /// The id of the entry.
        entry: String,
    },
    /// Cancels the turn.
    Cancel {
        /// The id of the session.
        session: String,
    },
    /// Ends the command of a terminal. Its output is kept.
    KillTerminal {
        /// The id of the session.
        session: String,
        /// The id of the terminal: its entry is `terminal:ID`.
        terminal: String,
    },
    /// Answers a question.
    Answer {
        /// The id of the session.
        session: String,
        /// The id of the entry.
        entry: String,
        /// The id of the choice.
        choice: String,
    },
    /// Chooses a value of `settings.selects`.
    Select {
        /// The id of the session.
        session: String,
        /// The id of the select.
        select: String,
        /// The id of the value.
        value: String,
    },
    /// Logs in at the agent.
    LogIn {
        /// The id of the login.
        login: String,
    },
    /// Keeps what the user has written and not sent.
    Draft {
        /// The id of the session.
        session: String,
        /// The text.
        text: String,
    },
    /// Lists a folder of the project. The result is a list of `FileEntry`. With more than 5,000, the folder has more, and
    /// the page says so.
    ListFiles {
        /// The path, relative to the folder; empty for the folder itself.
        path: String,
    },
    /// Reads a file of the project. The result is a `FileText`.
    ReadFile {
        /// The path, relative to the folder.
        path: String,
    },
    /// Finds files by parts of their path, for mentions. The result is a list of at most 50 `FoundFile`, best first.
    FindFiles {
        /// The text to find.
        text: String,
    },
    /// What the page shows, for `get-selection` and `list-open-files`.
    Viewing {
        /// The open files, relative to the folder.
        open: Vec<String>,
        /// The file in front.
        active: Option<String>,
        /// The first selected line and column, and the position after the selection, all from 1.
        #[cfg_attr(test, ts(type = "[number, number, number, number] | null"))]
        selection: Option<[u64; 4]>,
    },
    /// A widget of a panel was used.
    PanelEvent {
        /// The id of the panel.
        panel: String,
        /// The name of the widget.
        widget: String,
        /// `click`, `choice`, `input` or `toggle`.
        event: String,
        /// The value: a text or true or false.
        #[cfg_attr(test, ts(type = "string | boolean | null"))]
        value: serde_json::Value,
        /// The texts that a button has sent along, by the name of their input.
        #[cfg_attr(test, ts(type = "Record<string, string> | null"))]
        inputs: Option<BTreeMap<String, String>>,
    },
    /// The user has closed a panel.
    ClosePanel {
        /// The id of the panel.
        panel: String,
    },
    /// Replies to a comment.
    Reply {
        /// The id of the thread.
        thread: String,
        /// The text, Markdown.
        text: String,
    },
    /// Accepts or rejects an edit.
    AnswerEdit {
        /// The id of the edit.
        edit: String,
        /// Whether it is applied.
        accept: bool,
    },
}

/// Something that is attached to a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "attach", rename_all = "camelCase", deny_unknown_fields)]
pub enum Attachment {
    /// A file of the project.
    File {
        /// The path, relative to the folder.
        path: String,
    },
    /// An image.
    Image {
        /// Its name.
        name: String,
        /// The type, such as `image/png`.
        mime: String,
        /// The image in base64.
        data: String,
    },
    /// A text from elsewhere.
    Text {
        /// Its name.
        name: String,
        /// The text.
        text: String,
    },
}

/// A prompt that was removed before it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Unqueued {
    /// The text.
    pub text: String,
    /// What was attached.
    pub attachments: Vec<Attachment>,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FileEntry {
    /// The name.
    pub name: String,
    /// Whether it is a folder.
    pub folder: bool,
}

/// The text of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FileText {
    /// The path, relative to the folder.
    pub path: String,
    /// The text. Empty if the file is not text.
    pub text: String,
    /// Why the text is not complete: the file is too long, or is not text. Null if it is complete.
    pub note: Option<String>,
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FoundFile {
    /// The path, relative to the folder.
    pub path: String,
}
