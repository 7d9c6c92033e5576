//! The messages of a chain, for `--show-wire`.

use std::time::Duration;

use acp_wire::{Json, Side};

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

impl Row {
    /// The row as an object on one line. The payload keeps its text.
    pub fn to_json(&self) -> String {
        let (kind, method) = match &self.kind {
            RowKind::Request(method) => ("request", method.as_str()),
            RowKind::Notification(method) => ("notification", method.as_str()),
            RowKind::Answer(method) => ("answer", method.as_str()),
            RowKind::Failure { method, .. } => ("error", method.as_str()),
            RowKind::More(method, _) => ("more", method.as_str()),
            RowKind::Started => ("started", ""),
            RowKind::Ended(_) => ("ended", ""),
        };
        let text = |text: &str| (!text.is_empty()).then(|| Json::string(text));
        let number = |number: u128| Json::trusted(number.to_string());
        let (count, how) = match &self.kind {
            RowKind::More(_, count) => (Some(number(*count as u128)), None),
            RowKind::Ended(how) => (None, text(how)),
            _ => (None, None),
        };
        // Empty for a message without params.
        let payload = Json::parse(self.json.clone()).ok();
        let row = Json::object([
            ("type", Some(Json::string("wire"))),
            ("timeMs", Some(number(self.time.as_millis()))),
            ("from", Some(Json::string(&self.from))),
            ("to", text(&self.to)),
            ("kind", Some(Json::string(kind))),
            ("method", text(method)),
            ("number", self.number.map(|it| number(it.into()))),
            ("durationMs", self.took.map(|it| number(it.as_millis()))),
            ("count", count),
            ("how", how),
            ("payload", payload),
        ]);
        row.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_an_object_whose_payload_keeps_its_text() {
        let row = Row {
            time: Duration::from_millis(214),
            from: "agent".into(),
            to: "editor".into(),
            toward: Side::Editor,
            hop_width: 14,
            kind: RowKind::Answer("m".into()),
            number: Some(3),
            took: Some(Duration::from_millis(7)),
            json: r#"{"n":1.10}"#.into(),
            payload: PayloadLayout::OneLine,
        };
        assert_eq!(
            row.to_json(),
            r#"{"type":"wire","timeMs":214,"from":"agent","to":"editor","kind":"answer","method":"m","number":3,"durationMs":7,"payload":{"n":1.10}}"#
        );
        let ended = RowKind::Ended("exited".into());
        let (to, json) = (String::new(), String::new());
        let ended = Row { kind: ended, to, number: None, took: None, json, ..row };
        assert_eq!(
            ended.to_json(),
            r#"{"type":"wire","timeMs":214,"from":"agent","kind":"ended","how":"exited"}"#
        );
    }
}
