//! The messages of a chain, hop by hop.

use std::collections::BTreeMap;

use acp_wire::{Call, Id, Json, Message, Outcome, Side};

use super::Fold;
use super::payload::without_secrets;
use crate::tap::Sighting;

/// How many open requests are remembered by name.
const MOST_OPEN: usize = 1000;

/// A message that goes from one to the next, or something else that happened.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub from: String,
    pub to: String,
    pub toward: Side,
    pub what: What,
    /// The id that it has on this hop.
    pub id: Option<String>,
    /// The beginning of its payload, at least as much as fits in a line.
    pub json: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum What {
    Request(String),
    Notification(String),
    /// The answer to a request with this method.
    Answer(String),
    Failure(String),
    /// So many more of the notification that was shown before.
    More(String, usize),
}

type Methods = BTreeMap<(String, Id), String>;

/// What was seen so far.
#[derive(Debug)]
pub struct Wire {
    /// The editor and the components, in their order.
    names: Vec<String>,
    fold: Fold,
    /// The methods of open requests, by who asked and under which id.
    asked: Methods,
    /// Those of MCP, by who was asked. An answer may end at the conductor, which asked on behalf of an
    /// MCP client: then it is shown when it arrives.
    mcp: Methods,
    parked: Option<Row>,
    /// The stream that runs on each hop: what it is, and how many pieces were not shown.
    streams: BTreeMap<(usize, Side), (String, usize)>,
}

impl Wire {
    pub fn new(components: &[String], fold: Fold) -> Wire {
        let names = std::iter::once("editor".to_owned()).chain(components.iter().cloned());
        Wire {
            names: names.collect(),
            fold,
            asked: BTreeMap::new(),
            mcp: BTreeMap::new(),
            parked: None,
            streams: BTreeMap::new(),
        }
    }

    /// What there is to show for a sighting.
    pub fn see(&mut self, sighting: &Sighting<'_>) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let parked = self.parked.take();
        match sighting {
            // It goes on, and is shown below.
            Sighting::Delivered { message: Message::Response { .. }, .. } => {}
            _ => rows.extend(parked),
        }
        match sighting {
            Sighting::Arrived { seat, message, .. } => self.arrived(seat, message),
            Sighting::Delivered { seat, toward, message, .. } => {
                self.delivered(seat, *toward, message, &mut rows);
            }
            Sighting::Started { .. } | Sighting::Left { .. } => {}
        }
        rows
    }

    fn arrived(&mut self, seat: &str, message: &Message) {
        match message {
            Message::Request { id, call } => {
                remember(&mut self.asked, seat, id, || telling(call).0);
            }
            Message::Response { id, outcome, .. } => {
                let Some(method) = self.mcp.remove(&key(seat, id)) else { return };
                let place = self.place(seat);
                let to = self.names.get(place + 1).map_or("conductor", String::as_str).to_owned();
                let from = self.names[place].clone();
                let (what, json) = answer(method, outcome);
                let row = Row { from, to, toward: Side::Agent, what, id: Some(shown(id)), json };
                self.parked = Some(row);
            }
            Message::Notification(_) => {}
        }
    }

    fn place(&self, seat: &str) -> usize {
        // The editor sits in a place that goes by another name.
        self.names.iter().position(|name| name == seat).unwrap_or(0)
    }

    fn delivered(&mut self, seat: &str, toward: Side, message: &Message, rows: &mut Vec<Row>) {
        let place = self.place(seat);
        let from = match toward {
            Side::Agent => place.checked_sub(1),
            Side::Editor => Some(place + 1),
        };
        let from = from.and_then(|from| self.names.get(from)).map_or("conductor", String::as_str);
        let (from, to) = (from.to_owned(), self.names[place].clone());
        let (what, id, json) = match message {
            Message::Request { id, call } => {
                let (method, json) = telling(call);
                if method.starts_with("mcp/") {
                    remember(&mut self.mcp, seat, id, || method.clone());
                }
                (What::Request(method), Some(shown(id)), json)
            }
            Message::Notification(call) => {
                let (method, json) = telling(call);
                (What::Notification(method), None, json)
            }
            Message::Response { id, outcome, .. } => {
                let method = self.asked.remove(&key(seat, id)).unwrap_or_default();
                let (what, json) = answer(method, outcome);
                (what, Some(shown(id)), json)
            }
        };
        if self.goes_on((place, toward), &what) {
            return;
        }
        let row =
            |what, id, json| Row { from: from.clone(), to: to.clone(), toward, what, id, json };
        if let Some((method, count @ 1..)) = self.streams.remove(&(place, toward)) {
            rows.push(row(What::More(method, count), None, String::new()));
        }
        if let Some(method) = self.piece(&what) {
            self.streams.insert((place, toward), (method.to_owned(), 0));
        }
        rows.push(row(what, id, json));
    }

    /// What a piece of a stream is called.
    fn piece<'a>(&self, what: &'a What) -> Option<&'a str> {
        match what {
            What::Notification(method) if self.fold == Fold::Streams => {
                Some(method.as_str()).filter(|method| method.ends_with("_chunk"))
            }
            _ => None,
        }
    }

    /// Counts one more piece of the stream that runs on a hop, if it is one.
    fn goes_on(&mut self, hop: (usize, Side), what: &What) -> bool {
        let Some(method) = self.piece(what) else { return false };
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
    if methods.len() < MOST_OPEN {
        methods.insert(key(seat, id), method());
    }
}

fn shown(id: &Id) -> String {
    id.json().as_str().trim_matches('"').to_owned()
}

fn answer(method: String, outcome: &Outcome) -> (What, String) {
    match outcome {
        Outcome::Result(json) => (What::Answer(method), brief(json)),
        Outcome::Error(json) => (What::Failure(method), brief(json)),
    }
}

/// A method, with the one inside where there is one, and what is worth reading of its payload.
fn telling(call: &Call) -> (String, String) {
    let method = call.method.name().into_owned();
    let Some(params) = &call.params else { return (method, String::new()) };
    let inner = |path: &[&str]| params.at(path).as_ref().and_then(Json::text).map(String::from);
    match (inner(&["update", "sessionUpdate"]), inner(&["method"])) {
        (Some(kind), _) => {
            let update = params.member("update").unwrap_or(Json::NULL);
            (format!("{method} {kind}"), brief(&update.with_at(&["sessionUpdate"], None)))
        }
        (None, Some(inside)) if method.starts_with("mcp/") => {
            let params = params.member("params").unwrap_or(Json::EMPTY);
            (format!("{method} {inside}"), brief(&params))
        }
        _ => (method, brief(params)),
    }
}

/// Without the session, which is the same in all of them, and without secrets.
fn brief(json: &Json) -> String {
    match json.is_object() && json.members().len() > 1 {
        true => without_secrets(&json.with_at(&["sessionId"], None)),
        false => without_secrets(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_wire::{Generation, Spoken};

    fn message(text: &str) -> Message {
        Message::parse(&bytes::Bytes::from(text.to_owned())).unwrap()
    }

    fn delivered(wire: &mut Wire, seat: &str, toward: Side, text: &str) -> Vec<Row> {
        let message = message(text);
        wire.see(&Sighting::Delivered { seat, toward, dialect: Spoken::Plain, message: &message })
    }

    fn wire(fold: Fold) -> Wire {
        Wire::new(&["proxy".to_owned(), "agent".to_owned()], fold)
    }

    #[test]
    fn a_hop_is_told_by_who_gets_it_and_which_way_it_goes() {
        let mut wire = wire(Fold::Streams);
        let ask = message(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1}}"#);
        let (seat, toward) = ("outer", Side::Agent);
        let rows =
            wire.see(&Sighting::Arrived { seat, toward, dialect: Spoken::Plain, message: &ask });
        assert!(rows.is_empty());
        let rows = delivered(
            &mut wire,
            "proxy",
            Side::Agent,
            r#"{"jsonrpc":"2.0","id":"c:1","method":"m","params":{"a":1}}"#,
        );
        assert_eq!((rows[0].from.as_str(), rows[0].to.as_str()), ("editor", "proxy"));
        assert_eq!(rows[0].what, What::Request("m".into()));
        assert_eq!((rows[0].id.as_deref(), rows[0].json.as_str()), (Some("c:1"), r#"{"a":1}"#));
        let answer = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        let rows = delivered(&mut wire, "outer", Side::Editor, answer);
        assert_eq!((rows[0].from.as_str(), rows[0].to.as_str()), ("proxy", "editor"));
        assert_eq!(rows[0].what, What::Answer("m".into()));
    }

    #[test]
    fn an_answer_that_ends_at_the_conductor_is_shown_when_it_arrives() {
        let mut wire = wire(Fold::Streams);
        let ask = r#"{"jsonrpc":"2.0","id":"m:1","method":"mcp/message","params":{"method":"tools/list","params":{"a":1}}}"#;
        let rows = delivered(&mut wire, "proxy", Side::Editor, ask);
        assert_eq!(rows[0].what, What::Request("mcp/message tools/list".into()));
        assert_eq!((rows[0].from.as_str(), rows[0].json.as_str()), ("agent", r#"{"a":1}"#));
        let answer = message(r#"{"jsonrpc":"2.0","id":"m:1","result":{"tools":[]}}"#);
        let (seat, toward) = ("proxy", Side::Agent);
        wire.see(&Sighting::Arrived {
            seat,
            toward,
            dialect: Spoken::Generation(Generation::P5),
            message: &answer,
        });
        let rows = wire.see(&Sighting::Started { seat: "proxy" });
        assert_eq!(rows[0].what, What::Answer("mcp/message tools/list".into()));
        assert_eq!((rows[0].from.as_str(), rows[0].to.as_str()), ("proxy", "agent"));
    }

    #[test]
    fn the_pieces_of_a_stream_are_counted_on_each_hop() {
        const CHUNK: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk"}}}"#;
        const OTHER: &str = r#"{"jsonrpc":"2.0","method":"x"}"#;
        let mut folding = wire(Fold::Streams);
        assert_eq!(delivered(&mut folding, "proxy", Side::Editor, CHUNK).len(), 1);
        assert!(delivered(&mut folding, "proxy", Side::Editor, CHUNK).is_empty());
        assert_eq!(delivered(&mut folding, "outer", Side::Editor, CHUNK).len(), 1);
        assert!(delivered(&mut folding, "proxy", Side::Editor, CHUNK).is_empty());
        let rows = delivered(&mut folding, "proxy", Side::Editor, OTHER);
        let method = "session/update agent_message_chunk".to_owned();
        assert_eq!(rows[0].what, What::More(method, 2));
        assert_eq!(rows[1].what, What::Notification("x".into()));
        assert_eq!(delivered(&mut folding, "outer", Side::Editor, OTHER).len(), 1);
        let mut all = wire(Fold::Nothing);
        assert_eq!(delivered(&mut all, "proxy", Side::Editor, CHUNK).len(), 1);
        assert_eq!(delivered(&mut all, "proxy", Side::Editor, CHUNK).len(), 1);
    }
}
