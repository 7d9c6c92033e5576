//! The messages of a chain, for `--show-wire`.

use std::time::Duration;

use acp_wire::Side;

/// A message on a hop, or the start or the end of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The time since the chain was started.
    pub time: Duration,
    /// The sender, or the component that has started or ended.
    pub from: String,
    /// The receiver. Empty for the start and the end of a component.
    pub to: String,
    /// The direction.
    pub toward: Side,
    /// The width of the longest hop of the chain, in columns.
    pub hop_width: usize,
    /// The kind of row, with the method of a message.
    pub kind: RowKind,
    /// The number of the request. A request and its answer have the same number, on each hop that the request takes.
    pub number: Option<u64>,
    /// The time between a request and this answer.
    pub took: Option<Duration>,
    /// The payload, without secrets.
    pub json: String,
    /// How the payload is shown.
    pub payload: PayloadLayout,
}

/// The kind of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowKind {
    /// A request, with its method.
    Request(String),
    /// A notification, with its method.
    Notification(String),
    /// The result of a request with this method.
    Answer(String),
    /// The error of a request.
    Failure {
        /// The method of the request.
        method: String,
        /// The code of the error.
        code: Option<i64>,
        /// The message of the error.
        message: String,
    },
    /// The method and the number of further notifications that were not shown.
    More(String, usize),
    /// A component has started.
    Started,
    /// A component has ended. The text describes how.
    Ended(String),
}

/// How a payload is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadLayout {
    /// The beginning, on the same line.
    Shortened,
    /// Whole, on the same line.
    OneLine,
    /// Whole, on the lines below.
    Wrapped,
}
