//! The messages of a chain, for `--show-wire`.

use acp_wire::Side;

/// A message on a hop.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// The direction.
    pub toward: Side,
    /// The kind of message, with its method.
    pub kind: RowKind,
    /// The id of the message on this hop.
    pub id: Option<String>,
    /// The payload.
    pub json: String,
}

/// The kind of a row. All variants contain the method.
#[derive(Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A request.
    Request(String),
    /// A notification.
    Notification(String),
    /// The result of a request.
    Answer(String),
    /// The error of a request.
    Failure(String),
    /// The number of further notifications that were not shown.
    More(String, usize),
}
