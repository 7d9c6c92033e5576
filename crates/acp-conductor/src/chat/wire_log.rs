//! The messages on each hop of a chain, for `--show-wire`.

use std::collections::BTreeMap;

use acp_wire::{Call, Id, Json, Message, Outcome, Side};

use super::WireDetail;
use crate::tap::TapEvent;
use client::payload::without_secrets;

/// The maximum number of open requests whose methods are remembered.
const MAX_OPEN: usize = 1000;

pub use chat::wire::{Row, RowKind};

type Methods = BTreeMap<(String, Id), String>;

/// Turns tap events into rows.
#[derive(Debug)]
pub struct WireLog {
    /// The editor and the components, in order.
    names: Vec<String>,
    detail: WireDetail,
    /// The methods of open requests, by requester and id.
    requests: Methods,
    /// The methods of open MCP requests, by responder and id. An answer may end at the conductor, which sent the
    /// request for an MCP client. Such an answer is shown when it arrives.
    mcp_requests: Methods,
    /// An MCP answer that has arrived. It is shown unless it is delivered to another component.
    pending_answer: Option<Row>,
    /// The current stream on each hop: its method, and the number of chunks that were not shown.
    streams: BTreeMap<(usize, Side), (String, usize)>,
}

impl WireLog {
    /// A log for these components.
    pub fn new(components: &[String], detail: WireDetail) -> WireLog {
        let names = std::iter::once("editor".to_owned()).chain(components.iter().cloned());
        WireLog {
            names: names.collect(),
            detail,
            requests: BTreeMap::new(),
            mcp_requests: BTreeMap::new(),
            pending_answer: None,
            streams: BTreeMap::new(),
        }
    }

    /// The rows to show for an event.
    pub fn rows(&mut self, event: &TapEvent<'_>) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let pending_answer = self.pending_answer.take();
        match event {
            // The pending answer is delivered, and shown below.
            TapEvent::Delivered { message: Message::Response { .. }, .. } => {}
            _ => rows.extend(pending_answer),
        }
        match event {
            TapEvent::Arrived { seat, message, .. } => self.arrived(seat, message),
            TapEvent::Delivered { seat, toward, message, .. } => {
                self.delivered(seat, *toward, message, &mut rows);
            }
            TapEvent::Started { .. } | TapEvent::Ended { .. } => {}
        }
        rows
    }

    fn arrived(&mut self, seat: &str, message: &Message) {
        match message {
            Message::Request { id, call } => {
                remember(&mut self.requests, seat, id, || describe(call).0);
            }
            Message::Response { id, outcome, .. } => {
                let Some(method) = self.mcp_requests.remove(&key(seat, id)) else { return };
                let position = self.position(seat);
                let to =
                    self.names.get(position + 1).map_or("conductor", String::as_str).to_owned();
                let from = self.names[position].clone();
                let (kind, json) = answer(method, outcome);
                let row =
                    Row { from, to, toward: Side::Agent, kind, id: Some(format_id(id)), json };
                self.pending_answer = Some(row);
            }
            Message::Notification(_) => {}
        }
    }

    fn position(&self, seat: &str) -> usize {
        // The tap calls the editor `outer`.
        self.names.iter().position(|name| name == seat).unwrap_or(0)
    }

    fn delivered(&mut self, seat: &str, toward: Side, message: &Message, rows: &mut Vec<Row>) {
        let position = self.position(seat);
        let from = match toward {
            Side::Agent => position.checked_sub(1),
            Side::Editor => Some(position + 1),
        };
        let from = from.and_then(|from| self.names.get(from)).map_or("conductor", String::as_str);
        let (from, to) = (from.to_owned(), self.names[position].clone());
        let (kind, id, json) = match message {
            Message::Request { id, call } => {
                let (method, json) = describe(call);
                if method.starts_with("mcp/") {
                    remember(&mut self.mcp_requests, seat, id, || method.clone());
                }
                (RowKind::Request(method), Some(format_id(id)), json)
            }
            Message::Notification(call) => {
                let (method, json) = describe(call);
                (RowKind::Notification(method), None, json)
            }
            Message::Response { id, outcome, .. } => {
                let method = self.requests.remove(&key(seat, id)).unwrap_or_default();
                let (kind, json) = answer(method, outcome);
                (kind, Some(format_id(id)), json)
            }
        };
        if self.count_chunk((position, toward), &kind) {
            return;
        }
        let row =
            |kind, id, json| Row { from: from.clone(), to: to.clone(), toward, kind, id, json };
        if let Some((method, count @ 1..)) = self.streams.remove(&(position, toward)) {
            rows.push(row(RowKind::More(method, count), None, String::new()));
        }
        if let Some(method) = self.chunk_method(&kind) {
            self.streams.insert((position, toward), (method.to_owned(), 0));
        }
        rows.push(row(kind, id, json));
    }

    /// The method of a chunk of a stream. `None` for other messages.
    fn chunk_method<'a>(&self, kind: &'a RowKind) -> Option<&'a str> {
        match kind {
            RowKind::Notification(method) if self.detail == WireDetail::Folded => {
                Some(method.as_str()).filter(|method| method.ends_with("_chunk"))
            }
            _ => None,
        }
    }

    /// Counts a message if it belongs to the current stream of a hop. Returns whether it does.
    fn count_chunk(&mut self, hop: (usize, Side), kind: &RowKind) -> bool {
        let Some(method) = self.chunk_method(kind) else { return false };
        match self.streams.get_mut(&hop) {
            Some((running, count)) if running == method => {
                *count += 1;
                true
            }
            _ => false,
        }
    }
}

fn key(seat: &str, id: &Id) -> (String, Id) {
    (seat.to_owned(), id.detached())
}

fn remember(methods: &mut Methods, seat: &str, id: &Id, method: impl FnOnce() -> String) {
    if methods.len() < MAX_OPEN {
        methods.insert(key(seat, id), method());
    }
}

fn format_id(id: &Id) -> String {
    id.json().as_str().trim_matches('"').to_owned()
}

fn answer(method: String, outcome: &Outcome) -> (RowKind, String) {
    match outcome {
        Outcome::Result(json) => (RowKind::Answer(method), format_payload(json)),
        Outcome::Error(json) => (RowKind::Failure(method), format_payload(json)),
    }
}

/// The method, with the method inside an MCP envelope or the kind of update, and the payload.
fn describe(call: &Call) -> (String, String) {
    let method = call.method.name().into_owned();
    let Some(params) = &call.params else { return (method, String::new()) };
    let inner = |path: &[&str]| params.at(path).as_ref().and_then(Json::text).map(String::from);
    match (inner(&["update", "sessionUpdate"]), inner(&["method"])) {
        (Some(kind), _) => {
            let update = params.member("update").unwrap_or(Json::NULL);
            (format!("{method} {kind}"), format_payload(&update.with_at(&["sessionUpdate"], None)))
        }
        (None, Some(inside)) if method.starts_with("mcp/") => {
            let params = params.member("params").unwrap_or(Json::EMPTY_OBJECT);
            (format!("{method} {inside}"), format_payload(&params))
        }
        _ => (method, format_payload(params)),
    }
}

/// A payload without the session id and without secrets.
fn format_payload(json: &Json) -> String {
    match json.is_object() && json.members().len() > 1 {
        true => without_secrets(&json.with_at(&["sessionId"], None)),
        false => without_secrets(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_wire::{Generation, LinkProtocol};

    fn message(text: &str) -> Message {
        Message::parse(&bytes::Bytes::from(text.to_owned())).unwrap()
    }

    fn delivered(wire: &mut WireLog, seat: &str, toward: Side, text: &str) -> Vec<Row> {
        let message = message(text);
        wire.rows(&TapEvent::Delivered {
            seat,
            toward,
            dialect: LinkProtocol::Plain,
            message: &message,
        })
    }

    fn wire(detail: WireDetail) -> WireLog {
        WireLog::new(&["proxy".to_owned(), "agent".to_owned()], detail)
    }

    #[test]
    fn the_sender_follows_from_the_receiver_and_the_direction() {
        let mut wire = wire(WireDetail::Folded);
        let ask = message(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1}}"#);
        let (seat, toward) = ("outer", Side::Agent);
        let rows = wire.rows(&TapEvent::Arrived {
            seat,
            toward,
            dialect: LinkProtocol::Plain,
            message: &ask,
        });
        assert!(rows.is_empty());
        let rows = delivered(
            &mut wire,
            "proxy",
            Side::Agent,
            r#"{"jsonrpc":"2.0","id":"c:1","method":"m","params":{"a":1}}"#,
        );
        assert_eq!((rows[0].from.as_str(), rows[0].to.as_str()), ("editor", "proxy"));
        assert_eq!(rows[0].kind, RowKind::Request("m".into()));
        assert_eq!((rows[0].id.as_deref(), rows[0].json.as_str()), (Some("c:1"), r#"{"a":1}"#));
        let answer = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        let rows = delivered(&mut wire, "outer", Side::Editor, answer);
        assert_eq!((rows[0].from.as_str(), rows[0].to.as_str()), ("proxy", "editor"));
        assert_eq!(rows[0].kind, RowKind::Answer("m".into()));
    }

    #[test]
    fn an_answer_that_ends_at_the_conductor_is_shown_when_it_arrives() {
        let mut wire = wire(WireDetail::Folded);
        let ask = r#"{"jsonrpc":"2.0","id":"m:1","method":"mcp/message","params":{"method":"tools/list","params":{"a":1}}}"#;
        let rows = delivered(&mut wire, "proxy", Side::Editor, ask);
        assert_eq!(rows[0].kind, RowKind::Request("mcp/message tools/list".into()));
        assert_eq!((rows[0].from.as_str(), rows[0].json.as_str()), ("agent", r#"{"a":1}"#));
        let answer = message(r#"{"jsonrpc":"2.0","id":"m:1","result":{"tools":[]}}"#);
        let (seat, toward) = ("proxy", Side::Agent);
        wire.rows(&TapEvent::Arrived {
            seat,
            toward,
            dialect: LinkProtocol::Generation(Generation::P5),
            message: &answer,
        });
        let rows = wire.rows(&TapEvent::Started { seat: "proxy" });
        assert_eq!(rows[0].kind, RowKind::Answer("mcp/message tools/list".into()));
        assert_eq!((rows[0].from.as_str(), rows[0].to.as_str()), ("proxy", "agent"));
    }

    #[test]
    fn the_chunks_of_a_stream_are_counted_on_each_hop() {
        const CHUNK: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk"}}}"#;
        const OTHER: &str = r#"{"jsonrpc":"2.0","method":"x"}"#;
        let mut folding = wire(WireDetail::Folded);
        assert_eq!(delivered(&mut folding, "proxy", Side::Editor, CHUNK).len(), 1);
        assert!(delivered(&mut folding, "proxy", Side::Editor, CHUNK).is_empty());
        assert_eq!(delivered(&mut folding, "outer", Side::Editor, CHUNK).len(), 1);
        assert!(delivered(&mut folding, "proxy", Side::Editor, CHUNK).is_empty());
        let rows = delivered(&mut folding, "proxy", Side::Editor, OTHER);
        let method = "session/update agent_message_chunk".to_owned();
        assert_eq!(rows[0].kind, RowKind::More(method, 2));
        assert_eq!(rows[1].kind, RowKind::Notification("x".into()));
        assert_eq!(delivered(&mut folding, "outer", Side::Editor, OTHER).len(), 1);
        let mut all = wire(WireDetail::All);
        assert_eq!(delivered(&mut all, "proxy", Side::Editor, CHUNK).len(), 1);
        assert_eq!(delivered(&mut all, "proxy", Side::Editor, CHUNK).len(), 1);
    }
}
