//! What a participant sends by itself and in reply.
//!
//! Each participant counts its ids from 0, so that the ids of different participants collide. A participant does its
//! part of a handshake at once. It answers all other requests when the schedule says so.

use acp_wire::Side;
use router::Seat;

use super::message_log::{MessageKind, RequestState, Serial, requested, violation};
use super::simulation::Simulation;
use super::{Check, Violation};
use crate::stub::Frame;
use crate::topology::ParticipantRole;

/// The state of a participant.
#[derive(Debug, Default)]
pub struct ParticipantState {
    /// It was sent `initialize`, or is at the outer pipe and has sent it. So other messages may be sent to it.
    pub greeted: bool,
    /// Its conductor has started it.
    pub started: bool,
    /// It has accepted `initialize`, and the sender has received the answer.
    pub live: bool,
    /// It sends nothing any more.
    pub silent: bool,
    /// It reads nothing any more.
    pub gone: bool,
    /// Its conductor has given up waiting for its part of the handshake.
    pub timed_out: bool,
    /// It is a proxy that does not initialize its successor. The conductor does it instead.
    pub skips_successor: bool,
    next_id: usize,
    /// The requests that it has received and not answered.
    pub unanswered: Vec<Serial>,
    /// Requests `initialize` that it answers when its successor has answered: (received, sent).
    relayed: Vec<(Serial, Serial)>,
}

impl ParticipantState {
    fn fresh_id(&mut self) -> String {
        self.next_id += 1;
        match self.next_id {
            id if id % 5 == 0 => format!("\"{}\"", id - 1),
            id => (id - 1).to_string(),
        }
    }
}

/// A payload whose text would change if it were parsed and written again.
fn payload(serial: Serial) -> String {
    match serial % 4 {
        0 => format!(r#"{{"n":{serial}}}"#),
        1 => format!(r#"{{"n":{serial},"x": 1.10,"protocolVersion":1,"e":"\u00e9é"}}"#),
        2 => format!(r#"{{"n":{serial},"b":[{{"id":0}} ,1e400],"a":{{"method":"x"}}}}"#),
        _ => format!(r#"{{"n":{serial},"big":123456789012345678901234567890,"_meta":null}}"#),
    }
}

/// The payload of `initialize` and of its answer.
fn greeting(serial: Serial) -> String {
    format!(r#"{{"n":{serial},"protocolVersion":1,"x": 1.10}}"#)
}

impl Simulation {
    pub(super) fn send_request(
        &mut self,
        index: usize,
        toward: Side,
        method: &str,
    ) -> Result<Option<Serial>, Violation> {
        let Some(to) = self.receiver_of(index, toward) else { return Ok(None) };
        let id = self.participants[index].fresh_id();
        let request =
            RequestState { method: method.to_owned(), id: id.clone(), ..RequestState::default() };
        let must_arrive = self.must_receive(to);
        let text = if method == "initialize" { greeting } else { payload };
        let kind = MessageKind::Request(request);
        let serial = self.messages.add((index, to), toward, kind, must_arrive, text);
        let line = self.call(index, toward, serial, method, Some(&id));
        self.send(index, line);
        Ok(Some(serial))
    }

    pub(super) fn send_notification(&mut self, index: usize, toward: Side, method: &str) {
        let Some(to) = self.receiver_of(index, toward) else { return };
        let kind = MessageKind::Notification { method: method.to_owned() };
        let must_arrive = self.must_receive(to);
        let serial = self.messages.add((index, to), toward, kind, must_arrive, payload);
        let line = self.call(index, toward, serial, method, None);
        self.send(index, line);
    }

    /// Answers a request that is unanswered.
    pub(super) fn send_answer(&mut self, index: usize, request: Serial, error: bool) {
        self.participants[index].unanswered.retain(|unanswered| *unanswered != request);
        let message = &self.messages.sent[request];
        let (requester, toward) = (message.from, message.toward.opposite());
        let Some(state) = self.messages.request(request) else { return };
        let id = state.received_id.clone().unwrap_or_default();
        let greets = state.method == "initialize";
        let text = |serial| match (greets, error) {
            (true, _) => greeting(serial),
            (_, true) => format!(r#"{{"n":{serial},"code":7,"message":"no","data":null}}"#),
            (_, false) => payload(serial),
        };
        let kind = MessageKind::Response { request, error };
        let serial = self.messages.add((index, requester), toward, kind, true, text);
        if let Some(request) = self.messages.request_mut(request) {
            request.answer = Some(serial);
        }
        self.reply(index, serial, &id, error);
    }

    /// Cancels its own request.
    pub(super) fn send_cancel(&mut self, index: usize, request: Serial, wrapped: bool) {
        let message = &self.messages.sent[request];
        let (to, toward) = (message.to, message.toward);
        let Some(state) = self.messages.request(request) else { return };
        let id = requested(&state.id);
        let text = |serial| format!(r#"{{"n":{serial},{id},"_meta":{{"why": 1.0}}}}"#);
        let serial =
            self.messages.add((index, to), toward, MessageKind::Cancel { request }, true, text);
        self.write_cancel(index, serial, wrapped);
    }

    /// Cancels a request that it has received, with the id that the conductor gave it. A confused proxy does this.
    pub(super) fn send_foreign_cancel(&mut self, index: usize, request: Serial, wrapped: bool) {
        let Some(received_id) =
            self.messages.request(request).and_then(|it| it.received_id.clone())
        else {
            return;
        };
        let text = |serial| format!(r#"{{"n":{serial},{}}}"#, requested(&received_id));
        let nowhere = (index, usize::MAX);
        let serial = self.messages.add(nowhere, Side::Agent, MessageKind::Stray, false, text);
        self.write_cancel(index, serial, wrapped);
    }

    fn write_cancel(&mut self, index: usize, serial: Serial, wrapped: bool) {
        let params = &self.messages.sent[serial].payload;
        let call = format!(r#""method":"$/cancel_request","params":{params}"#);
        let line = match wrapped && self.topology.participants[index].role == ParticipantRole::Proxy
        {
            true => {
                format!(r#"{{"jsonrpc":"2.0","method":"proxy/successor","params":{{{call}}}}}"#)
            }
            false => format!(r#"{{"jsonrpc":"2.0",{call}}}"#),
        };
        self.send(index, line);
    }

    /// Sends an answer to a request that it has answered before, to another participant's request, or to none.
    pub(super) fn send_stray_answer(&mut self, index: usize, number: u8) {
        let conductor = self.topology.participants[index].conductor;
        let foreign = self.messages.requests().filter(|(_, message, request)| {
            let here = self.topology.participants[message.to].conductor == conductor;
            here && (message.to != index || request.answer.is_some())
        });
        let ids: Vec<_> = foreign.filter_map(|(.., request)| request.received_id.clone()).collect();
        let id = match ids.get(usize::from(number) % (ids.len() + 1)) {
            Some(id) => id.clone(),
            None => number.to_string(),
        };
        let nowhere = (index, usize::MAX);
        let serial = self.messages.add(nowhere, Side::Agent, MessageKind::Stray, false, payload);
        self.reply(index, serial, &id, number.is_multiple_of(3));
    }

    fn reply(&mut self, index: usize, serial: Serial, id: &str, error: bool) {
        let key = if error { "error" } else { "result" };
        let text = &self.messages.sent[serial].payload;
        let line = match serial % 2 {
            0 => format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":{text}}}"#),
            _ => format!(r#"{{"{key}": {text} ,"id":{id},"jsonrpc":"2.0"}}"#),
        };
        self.send(index, line);
    }

    /// A request or notification as this participant writes it.
    fn call(
        &self,
        index: usize,
        toward: Side,
        serial: Serial,
        method: &str,
        id: Option<&str>,
    ) -> String {
        let role = self.topology.participants[index].role;
        let id = id.map_or_else(String::new, |id| format!(r#""id":{id},"#));
        let params = &self.messages.sent[serial].payload;
        if role.sends_wrapped(toward) == Some(true) {
            let meta = if serial.is_multiple_of(3) { r#""_meta":{"this":"hop"},"# } else { "" };
            return format!(
                r#"{{"jsonrpc":"2.0",{id}"method":"proxy/successor","params":{{{meta}"method":"{method}","params":{params}}}}}"#
            );
        }
        let method = match (role, method) {
            (ParticipantRole::Outer, "initialize") => "proxy/initialize",
            _ => method,
        };
        match serial % 3 {
            0 => format!(r#"{{"params":{params},"method":"{method}",{id}"jsonrpc":"2.0"}}"#),
            _ => format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{params}}}"#),
        }
    }

    /// The neighbour that receives what this participant sends. `None` if it cannot send.
    fn receiver_of(&self, index: usize, toward: Side) -> Option<usize> {
        let participant = &self.participants[index];
        if participant.silent || !participant.started {
            return None;
        }
        self.topology.neighbour(index, toward)
    }

    /// A participant receives a line: checks it, and does the participant's part of a handshake.
    pub(super) fn receive(&mut self, index: usize, line: &[u8]) -> Check {
        let Some(frame) = Frame::split(line) else {
            return violation(format!("{index} cannot read {}", String::from_utf8_lossy(line)));
        };
        let text = |bytes: Option<&[u8]>| {
            bytes.map(|it| String::from_utf8_lossy(it).into_owned()).unwrap_or_default()
        };
        let id = frame.id.map(|it| text(Some(it)));
        let Some(method) = frame.method else {
            let is_error = frame.error.is_some();
            let payload = text(if is_error { frame.error } else { frame.result });
            return self.receive_answer(index, &id.unwrap_or_default(), is_error, &payload);
        };
        let wrapped = method == b"\"proxy/successor\"";
        let inner =
            if wrapped { frame.params.and_then(Frame::split).unwrap_or_default() } else { frame };
        let method = text(inner.method).trim_matches('"').to_owned();
        let payload = text(inner.params);
        // The conductor sends a proxy that has not answered its greeting a line without meaning.
        let is_proxy = self.topology.participants[index].role == ParticipantRole::Proxy;
        if is_proxy && method == "$/cancel_request" && payload == r#"{"requestId":"none"}"# {
            return Ok(());
        }
        let Some(serial) = self.messages.find(&payload) else {
            return violation(format!(
                "{index} receives a message that nobody sent: {}",
                text(Some(line))
            ));
        };
        if method == "$/cancel_request" {
            if wrapped {
                return violation("a cancellation in an envelope");
            }
            let id = Frame::split(payload.as_bytes()).and_then(|_| requested_id(&payload));
            self.messages.receive(index, serial, &payload, true)?;
            return self.messages.receive_cancel(serial, &payload, &id.unwrap_or_default());
        }
        self.receive_call(index, serial, wrapped, &method, id.as_deref(), &payload)
    }

    fn receive_call(
        &mut self,
        index: usize,
        serial: Serial,
        wrapped: bool,
        method: &str,
        id: Option<&str>,
        payload: &str,
    ) -> Check {
        let role = self.topology.participants[index].role;
        let toward = role.receives_toward(wrapped);
        let greets = role == ParticipantRole::Proxy && !wrapped && method == "proxy/initialize";
        let unoffered;
        let payload = if greets {
            // The conductor adds only the offer of MCP over ACP to a proxy's greeting.
            let Some(before) = payload.strip_suffix(r#","_meta":{"mcp_acp_transport":true}}"#)
            else {
                return violation(format!("{index} is not offered MCP over ACP: {payload}"));
            };
            unoffered = format!("{before}}}");
            unoffered.as_str()
        } else {
            payload
        };
        if toward == Some(Side::Agent) && self.is_substitute(index, serial) {
            return self.receive_substitute(index, payload, id);
        }
        if toward != Some(self.messages.sent[serial].toward) {
            return violation(format!("{index} receives message {serial} from the wrong side"));
        }
        self.messages.receive(index, serial, payload, true)?;
        self.messages.receive_call(serial, if greets { "initialize" } else { method }, id)?;
        let received_id = |unanswered: &Serial| {
            self.messages.request(*unanswered).and_then(|it| it.received_id.clone())
        };
        if id.is_some()
            && self.participants[index].unanswered.iter().any(|it| received_id(it).as_deref() == id)
        {
            return violation(format!("{index} receives two requests with the id {id:?}"));
        }
        if id.is_none() {
            return Ok(());
        }
        self.participants[index].unanswered.push(serial);
        let greets = matches!(method, "initialize" | "proxy/initialize");
        if greets && toward == Some(Side::Agent) {
            self.handshake(index, serial)?;
        }
        Ok(())
    }

    /// Does a participant's part of the handshake: a proxy initializes its successor first.
    fn handshake(&mut self, index: usize, greeting: Serial) -> Check {
        let state = &self.participants[index];
        if state.silent {
            return Ok(());
        }
        let refuses = self.refuses_greetings && greeting.is_multiple_of(3);
        if self.topology.participants[index].role != ParticipantRole::Proxy
            || state.skips_successor
            || refuses
        {
            self.send_answer(index, greeting, refuses);
        } else if let Some(own) = self.send_request(index, Side::Agent, "initialize")? {
            self.participants[index].relayed.push((greeting, own));
        }
        Ok(())
    }

    /// Whether this is the greeting that the participant's predecessor should have passed on and the conductor has sent
    /// in its place.
    fn is_substitute(&self, index: usize, serial: Serial) -> bool {
        let message = &self.messages.sent[serial];
        let greets = matches!(&message.kind, MessageKind::Request(it) if it.method == "initialize");
        greets
            && message.toward == Side::Agent
            && self.participants.get(message.to).is_some_and(|it| it.skips_successor)
            && self.topology.neighbour(message.to, Side::Agent) == Some(index)
    }

    /// Receives a greeting that the conductor has sent in the place of a proxy. The log has it as answered, since no
    /// participant waits for the answer.
    fn receive_substitute(&mut self, index: usize, payload: &str, id: Option<&str>) -> Check {
        let request = RequestState {
            method: "initialize".into(),
            received_id: id.map(str::to_owned),
            answered: true,
            ..RequestState::default()
        };
        let parties = (usize::MAX, index);
        let copy = |_| payload.to_owned();
        let serial =
            self.messages.add(parties, Side::Agent, MessageKind::Request(request), false, copy);
        self.messages.accept(serial);
        self.participants[index].unanswered.push(serial);
        self.handshake(index, serial)
    }

    fn receive_answer(&mut self, index: usize, id: &str, is_error: bool, payload: &str) -> Check {
        let request = self.messages.request_of(index, id)?;
        match self.messages.find(payload) {
            Some(serial) => {
                self.messages.receive_answer(request, serial, is_error)?;
                // The answer of a proxy that skips its successor is held until the conductor has initialized the
                // successor.
                let greets =
                    self.messages.request(request).is_some_and(|it| it.method == "initialize");
                let held =
                    greets && self.participants[self.messages.sent[serial].from].skips_successor;
                self.messages.receive(index, serial, payload, !held)?;
                let answerer = self.messages.sent[serial].from;
                self.participants[answerer].live |= greets && !is_error;
            }
            None if is_error && self.may_fail(request) => {}
            None => {
                return violation(format!(
                    "request {request} is answered by the conductor without a reason: {payload}"
                ));
            }
        }
        if let Some(state) = self.messages.request_mut(request) {
            state.answered = true;
        }
        let relayed = &mut self.participants[index].relayed;
        if let Some(at) = relayed.iter().position(|(_, own)| *own == request) {
            let (received, _) = relayed.swap_remove(at);
            if !self.participants[index].silent {
                self.send_answer(index, received, is_error && self.refuses_greetings);
            }
        }
        Ok(())
    }

    /// Whether a message that is sent to this participant now must reach it, as long as no process exits.
    fn must_receive(&self, index: usize) -> bool {
        let flat = self.topology.conductors.len() == 1;
        let participant = &self.participants[index];
        if self.refuses_greetings { participant.live && flat } else { participant.greeted }
    }

    /// Whether a conductor may answer this request with an error of its own.
    fn may_fail(&self, request: Serial) -> bool {
        let message = &self.messages.sent[request];
        let nested = self.topology.conductors.len() > 1;
        !message.must_arrive
            || self.participants[message.to].silent
            || self.anyone_finished()
            || self.disturbed && (nested || message.from == 0)
    }

    pub(super) fn seat(&self, index: usize) -> (usize, Seat) {
        (self.topology.participants[index].conductor, self.topology.participants[index].seat)
    }
}

fn requested_id(params: &str) -> Option<String> {
    let (_, rest) = params.split_once("\"requestId\":")?;
    let end = rest.find([',', '}'])?;
    Some(rest[..end].to_owned())
}
