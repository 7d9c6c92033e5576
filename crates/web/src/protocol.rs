//! The messages between the server and a page.
//!
//! The server owns all state. A page has a copy of some *topics*. A topic is an ordered list of [`Entry`]s with ids. It
//! changes by [`Change`]s, and its position `at` grows by one with each. After a lost connection, a page names its
//! position and gets the changes since then, or a snapshot.
//!
//! The TypeScript types in `clients/typescript/src/link/types.ts` are made from this file by a test.

mod action;
mod entry;
#[cfg(test)]
mod tests;

pub use action::{Action, Attachment, FileEntry, FileText, FoundFile, Unqueued};
pub use entry::*;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of these messages.
pub const VERSION: u32 = 1;

/// A message from the page.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "t", rename_all = "camelCase", deny_unknown_fields)]
pub enum ToServer {
    /// The first message of a connection.
    Hello {
        /// The version of the protocol.
        v: u32,
        /// The secret that the page got when it logged in.
        token: String,
        /// The run of the server that the positions belong to. Empty for a new page.
        run: String,
        /// The topics to follow, each with the position of the page, or null.
        want: Vec<Want>,
    },
    /// Follows a topic, or asks for a snapshot of it (position null).
    Want(Want),
    /// Does not follow a topic any more.
    Drop {
        /// The topic.
        topic: String,
    },
    /// Asks the server to do something. The id is made by the page. The server does each id once, and answers again
    /// if it is asked again.
    Do {
        /// The id of the action.
        id: String,
        /// What to do.
        action: Action,
    },
    /// How many frames the page has handled.
    Ack {
        /// The number of frames since the connection was opened.
        #[cfg_attr(test, ts(type = "number"))]
        frames: u64,
    },
}

/// A topic, and the position of the page in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub struct Want {
    /// `chain`, `sessions`, `session/ID`, `panels`, `comments`, `edits` or `files`.
    pub topic: String,
    /// The position of the page, or null for a snapshot.
    #[cfg_attr(test, ts(type = "number | null"))]
    pub at: Option<u64>,
}

/// A message to the page. A frame of the connection is an array of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "t", rename_all = "camelCase")]
pub enum ToPage {
    /// The answer to `hello`.
    Welcome {
        /// The version of the protocol.
        v: u32,
        /// Random for each run of the server. In another run, all positions are void.
        run: String,
        /// What the page shows.
        features: Features,
    },
    /// The whole topic.
    Snap {
        /// The topic.
        topic: String,
        /// Its position.
        #[cfg_attr(test, ts(type = "number"))]
        at: u64,
        /// The entries in their order.
        entries: Vec<(String, Entry)>,
    },
    /// What has changed in a topic.
    Inc {
        /// The topic.
        topic: String,
        /// The position before the first change.
        #[cfg_attr(test, ts(type = "number"))]
        from: u64,
        /// The position after the last change.
        #[cfg_attr(test, ts(type = "number"))]
        at: u64,
        /// The changes. There may be fewer than positions, because changes are joined.
        changes: Vec<Change>,
    },
    /// An action is done, or has failed.
    Done {
        /// The id of the action.
        id: String,
        /// The result, if it is done.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(type = "unknown", optional))]
        ok: Option<Value>,
        /// Why it has failed, for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        error: Option<String>,
    },
}

/// A change of a topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "c", rename_all = "camelCase")]
pub enum Change {
    /// An entry is new, and becomes the last one, or has changed and keeps its place.
    Put {
        /// The id of the entry.
        id: String,
        /// The whole entry.
        entry: Box<Entry>,
    },
    /// The member `text` of an entry became longer.
    Append {
        /// The id of the entry.
        id: String,
        /// The length of the text before, in UTF-16 units, as JavaScript counts.
        #[cfg_attr(test, ts(type = "number"))]
        offset: u64,
        /// The text to add.
        text: String,
    },
    /// An entry is gone.
    Del {
        /// The id of the entry.
        id: String,
    },
}

/// What a page shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Features {
    /// Whether the page has a chat. A companion of another editor has none.
    pub chat: bool,
    /// The name of the chain, for the title.
    pub title: String,
    /// The folder of the project.
    pub folder: String,
}
