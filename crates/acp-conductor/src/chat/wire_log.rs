//! The messages on each hop of a chain, for `--show-wire`.
//!
//! Each request has a number, which its answer has, too. A request that a proxy passes on keeps its number on the next
//! hop, so that it can be followed through the chain.

mod requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use acp_wire::{Call, Id, Json, Message, Outcome, Side};
use client::payload::{text_without_secrets, without_secrets};

pub use chat::wire::{PayloadLayout, Row, RowKind};

use super::WireDetail;
use crate::tap::TapEvent;
use requests::{Origin, Position, Requests};

/// The position of the editor.
const EDITOR: Position = 0;

/// Turns tap events into rows.
#[derive(Debug)]
pub struct WireLog {
    /// The editor and the components, in order.
    names: Vec<String>,
    detail: WireDetail,
    payload: PayloadLayout,
    start: Instant,
    requests: Requests,
    /// The answer to a request that the conductor has created or converted. It is shown unless it is delivered to
    /// another component.
    pending_answer: Option<Row>,
    /// The sender of the last message that has arrived and was not delivered yet, and its direction.
    last_sender: Option<(Position, Side)>,
    /// The current stream on each hop: its method, and the number of chunks that were not shown.
    streams: BTreeMap<(Position, Side), (String, usize)>,
}

/// What a row says about its message.
struct Said {
    kind: RowKind,
    number: Option<u64>,
    took: Option<Duration>,
    json: String,
}

impl WireLog {
    /// A log for these components. Payloads are shortened in a terminal, unless all is shown.
    pub fn new(components: &[String], detail: WireDetail) -> WireLog {
        let payload = match (std::io::stdout().is_terminal(), detail) {
            (false, _) => PayloadLayout::OneLine,
            (true, WireDetail::Folded) => PayloadLayout::Shortened,
            (true, WireDetail::All) => PayloadLayout::Wrapped,
        };
        WireLog::with_payload(components, detail, payload)
    }

    /// A log that shows payloads in this layout.
    pub fn with_payload(
        components: &[String],
        detail: WireDetail,
        payload: PayloadLayout,
    ) -> WireLog {
        let names = std::iter::once("editor".to_owned()).chain(components.iter().cloned());
        WireLog {
            names: names.collect(),
            detail,
            payload,
            start: Instant::now(),
            requests: Requests::default(),
            pending_answer: None,
            last_sender: None,
            streams: BTreeMap::new(),
        }
    }

    /// The rows to show for an event.
    pub fn rows(&mut self, event: &TapEvent<'_>) -> Vec<Row> {
        self.rows_at(self.start.elapsed(), event)
    }

    /// The rows to show for an event at this time since the start of the chain.
    pub fn rows_at(&mut self, time: Duration, event: &TapEvent<'_>) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let pending_answer = self.pending_answer.take();
        match event {
            // The pending answer is delivered, and shown below.
            TapEvent::Delivered { message: Message::Response { .. }, .. } => {}
            _ => rows.extend(pending_answer),
        }
        match event {
            TapEvent::Arrived { seat, toward, message, .. } => {
                rows.extend(self.arrived(time, seat, *toward, message));
            }
            TapEvent::Delivered { seat, toward, message, .. } => {
                self.delivered(time, seat, *toward, message, &mut rows);
            }
            TapEvent::Started { seat } => {
                rows.push(self.component_row(time, seat, RowKind::Started));
            }
            TapEvent::Changed { components } => {
                let components = components.iter().map(|name| (*name).to_owned());
                self.names = std::iter::once("editor".to_owned()).chain(components).collect();
                // All of these are about positions in the chain.
                self.requests.forget_open();
                (self.last_sender, self.streams) = (None, BTreeMap::new());
            }
            // The other events show the message on each of its hops.
            TapEvent::Telemetry { .. } => {}
            // The end of the outer pipe is the end of the chat.
            TapEvent::Ended { seat, .. } if self.position(seat) == EDITOR => {}
            TapEvent::Ended { seat, how } => {
                self.requests.on_ended(self.position(seat));
                let how = text_without_secrets(how).into_owned();
                rows.push(self.component_row(time, seat, RowKind::Ended(how)));
            }
        }
        rows
    }

    /// Returns a row for an answer to the conductor itself. Other messages are shown when they are delivered.
    fn arrived(
        &mut self,
        time: Duration,
        seat: &str,
        toward: Side,
        message: &Message,
    ) -> Option<Row> {
        let position = self.position(seat);
        self.last_sender = Some((position, toward));
        match message {
            Message::Request { id, call } => {
                let method = describe(call).0;
                self.requests.on_sent(position, toward, (id, call), method, time);
                None
            }
            Message::Response { id, outcome, .. } => {
                let request = self.requests.on_answered(position, id)?;
                if request.origin == Origin::Component {
                    return None;
                }
                let (kind, json) = self.answer(request.method, outcome);
                let took = Some(time.saturating_sub(request.time));
                let said = Said { kind, number: Some(request.number), took, json };
                let hop = (self.names[position].clone(), request.from);
                let row = self.row(time, hop, toward, said);
                if request.origin == Origin::Conductor {
                    return Some(row);
                }
                self.pending_answer = Some(row);
                None
            }
            Message::Notification(_) => None,
        }
    }

    fn position(&self, seat: &str) -> Position {
        // The tap calls the editor `outer`. A component may be called `editor`.
        let component = self.names.iter().skip(1).position(|name| name == seat);
        component.map_or(EDITOR, |index| index + 1)
    }

    fn delivered(
        &mut self,
        time: Duration,
        seat: &str,
        toward: Side,
        message: &Message,
        rows: &mut Vec<Row>,
    ) {
        let position = self.position(seat);
        let sender = match message {
            Message::Request { call, .. } => self.requests.on_delivered(position, toward, call),
            _ => None,
        };
        let from = self.sender_name(position, toward, message, sender.map(|(_, from)| from));
        let said = match message {
            Message::Request { id, call } => {
                let (method, payload) = describe(call);
                let json = self.json(call, payload);
                let number = self.requests.remember(
                    (position, toward),
                    (id, call),
                    sender,
                    (&method, &from),
                    time,
                );
                Said { kind: RowKind::Request(method), number, took: None, json }
            }
            Message::Notification(call) => {
                let (method, payload) = describe(call);
                let json = self.json(call, payload);
                Said { kind: RowKind::Notification(method), number: None, took: None, json }
            }
            Message::Response { id, outcome, .. } => {
                self.delivered_answer(time, position, id, outcome)
            }
        };
        if self.count_chunk((position, toward), &said.kind) {
            return;
        }
        let hop = (from, self.names[position].clone());
        if let Some((method, count @ 1..)) = self.streams.remove(&(position, toward)) {
            let kind = RowKind::More(method, count);
            let more = Said { kind, number: None, took: None, json: String::new() };
            rows.push(self.row(time, hop.clone(), toward, more));
        }
        if let Some(method) = self.chunk_method(&said.kind) {
            self.streams.insert((position, toward), (method.to_owned(), 0));
        }
        rows.push(self.row(time, hop, toward, said));
    }

    fn delivered_answer(
        &mut self,
        time: Duration,
        position: Position,
        id: &Id,
        outcome: &Outcome,
    ) -> Said {
        let request = self.requests.on_answer_delivered(position, id);
        let number = request.as_ref().map(|it| it.number);
        let took = request.as_ref().map(|it| time.saturating_sub(it.time));
        let (kind, json) = self.answer(request.map(|it| it.method).unwrap_or_default(), outcome);
        Said { kind, number, took, json }
    }

    /// The name of the component that has sent a message. `known` is the position of the sender of a request.
    fn sender_name(
        &mut self,
        position: Position,
        toward: Side,
        message: &Message,
        known: Option<Position>,
    ) -> String {
        let neighbour = match toward {
            Side::Agent => position.checked_sub(1),
            Side::Editor => Some(position + 1).filter(|it| *it < self.names.len()),
        };
        let last = self.last_sender.take().filter(|(_, it)| *it == toward).map(|(it, _)| it);
        let from = match message {
            // The conductor sends requests for the MCP clients of a component.
            Message::Request { call, .. } => {
                let is_mcp = call.method.name().starts_with("mcp/");
                known.or(neighbour.filter(|_| is_mcp))
            }
            _ => last.or(neighbour),
        };
        from.and_then(|from| self.names.get(from)).map_or("conductor", String::as_str).to_owned()
    }

    fn row(&self, time: Duration, (from, to): (String, String), toward: Side, said: Said) -> Row {
        let Said { kind, number, took, json } = said;
        let (hop_width, payload) = (self.hop_width(), self.payload);
        Row { time, from, to, toward, hop_width, kind, number, took, json, payload }
    }

    fn component_row(&self, time: Duration, seat: &str, kind: RowKind) -> Row {
        let said = Said { kind, number: None, took: None, json: String::new() };
        self.row(time, (seat.to_owned(), String::new()), Side::Editor, said)
    }

    /// The width of the longest hop.
    fn hop_width(&self) -> usize {
        let width = |name: &String| chat::text::width(name);
        let pairs = self.names.windows(2).map(|pair| width(&pair[0]) + 3 + width(&pair[1]));
        pairs.max().unwrap_or_default()
    }

    /// The kind and the payload of an answer.
    fn answer(&self, method: String, outcome: &Outcome) -> (RowKind, String) {
        match outcome {
            Outcome::Result(json) => {
                let shown = match self.payload {
                    PayloadLayout::Shortened => without_session(json),
                    _ => json.clone(),
                };
                (RowKind::Answer(method), without_secrets(&shown))
            }
            Outcome::Error(json) => {
                let message = json.member("message");
                let message = message.as_ref().and_then(Json::text).unwrap_or_default();
                let message = text_without_secrets(&message).into_owned();
                let code = json.member("code").and_then(|it| it.integer());
                // The row shows code and message.
                let rest = match self.payload {
                    PayloadLayout::Shortened => json.member("data"),
                    _ => Some(json.clone()),
                };
                let rest = rest.as_ref().map(without_secrets).unwrap_or_default();
                (RowKind::Failure { method, code, message }, rest)
            }
        }
    }

    /// The payload to show: all params, or the part of them that a shortened row shows.
    fn json(&self, call: &Call, part: Option<Json>) -> String {
        let shown = match self.payload {
            PayloadLayout::Shortened => part,
            _ => call.params.clone(),
        };
        shown.as_ref().map(without_secrets).unwrap_or_default()
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
    fn count_chunk(&mut self, hop: (Position, Side), kind: &RowKind) -> bool {
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

/// The method, with the method inside an MCP envelope or the kind of update, and the part of the params that matters.
fn describe(call: &Call) -> (String, Option<Json>) {
    let method = call.method.name().into_owned();
    let Some(params) = &call.params else { return (method, None) };
    let inner = |path: &[&str]| params.at(path).as_ref().and_then(Json::text).map(String::from);
    match (inner(&["update", "sessionUpdate"]), inner(&["method"])) {
        (Some(kind), _) => {
            let update = params.member("update").unwrap_or(Json::NULL);
            (format!("{method} {kind}"), Some(update.with_at(&["sessionUpdate"], None)))
        }
        (None, Some(inside)) if method.starts_with("mcp/") => {
            let params = params.member("params").unwrap_or(Json::EMPTY_OBJECT);
            (format!("{method} {inside}"), Some(params))
        }
        _ => (method, Some(without_session(params))),
    }
}

/// A payload without the session id, unless it is all there is.
fn without_session(json: &Json) -> Json {
    match json.is_object() && json.members().len() > 1 {
        true => json.with_at(&["sessionId"], None),
        false => json.clone(),
    }
}
