//! Lines that are not valid messages: log output, malformed messages, lines that are too long, batches.
//!
//! A request must not wait forever because its answer could not be read. If the id of such an answer can be recognised,
//! the request is answered with an error that explains the problem. If not, the answer belongs to one of the requests
//! that are pending at that moment. When the others have been answered, `lost_answers` finds that request.
//!
//! A line of log output must not end a request that is answered later. So if a line may not have been an answer, the
//! request stays pending.

use std::collections::BTreeSet;

use acp_wire::message::{LineScan, PartialMessage, ScanResult, error_object};
use acp_wire::{ErrorKind, Id, Json, Malformed, Message, Outcome, Rejection, Side, code};
use bytes::Bytes;
use router::pending::id_of;
use router::{Seat, SeatState};

use crate::core::Core;
use crate::input::{Line, LinkId, Outputs};

/// The description of a bad line.
#[derive(Debug)]
struct LineError {
    /// Names the component and the problem.
    why: String,
    /// What the user can do.
    remedy: &'static str,
    kind: ErrorKind,
}

impl LineError {
    /// The error message for the request whose answer the line was.
    fn answer(&self) -> String {
        let text = format!("{}; its answer could not be read; {}", self.why, self.remedy);
        self.kind.tag(text)
    }
}

/// How many methods a warning lists.
const MAX_METHODS: usize = 8;

/// The length limit of a quoted text in error messages, in bytes.
const MAX_QUOTED: usize = 2000;

impl Core {
    /// Handles a line that the dialect has rejected.
    pub(crate) fn on_rejection(
        &mut self,
        link: LinkId,
        line: &Bytes,
        rejection: Rejection,
        out: &mut Outputs,
    ) {
        let seat = link.seat;
        let name = self.chain().describe(seat);
        let why = format!("{name} sent a bad line: {}", rejection.why);
        let error = LineError {
            why,
            remedy: "send the request again; if this repeats, report it to the developers of that \
                     program",
            kind: ErrorKind::BadMessage,
        };
        let found = LineScan::of(line).result();
        let is_list = line.trim_ascii_start().starts_with(b"[");
        match rejection.why {
            Malformed::NotJson(_) | Malformed::NotAMessage { .. }
                if seat.is_component() && !found.looks_like_json =>
            {
                self.on_log_output(seat, line, &error.why, out);
            }
            Malformed::NotJson(_) if seat.is_component() => {
                self.on_lost_line(link, &found, &error, false, out);
            }
            Malformed::NotJson(_) => {
                self.warn(seat, error.why.clone(), out);
                rejection.reply.iter().for_each(|reply| self.reply(link, reply, out));
                self.answer_requests_of(link, &found, &error, out);
            }
            Malformed::NotAMessage { .. } if is_list => {
                self.on_batch(link, line, &error, rejection.reply.as_deref(), out);
            }
            Malformed::NotAMessage { .. } => {
                self.warn(seat, error.why.clone(), out);
                if !self.answer_requests_of(link, &found, &error, out) {
                    rejection.reply.iter().for_each(|reply| self.reply(link, reply, out));
                }
            }
            Malformed::AnswerWithoutId => {
                self.warn(seat, error.why, out);
                let error = Json::parse(line.clone()).ok().and_then(|it| it.member("error"));
                error
                    .into_iter()
                    .for_each(|it| self.on_error_without_id(seat, &Outcome::Error(it), out));
            }
        }
    }

    /// Handles a line that is probably log output. It is kept for the crash report.
    fn on_log_output(&mut self, seat: Seat, line: &[u8], why: &str, out: &mut Outputs) {
        let start = String::from_utf8_lossy(&line[..line.len().min(200)]);
        self.warn(seat, format!("{why}; skipped: {start:?}"), out);
        self.peer_mut(seat).add_output_line(quoted(&start).to_owned());
    }

    /// Handles a JSON-RPC batch. The answers in it are handled in order; everything else is refused.
    fn on_batch(
        &mut self,
        link: LinkId,
        line: &Bytes,
        error: &LineError,
        refusal: Option<&Message>,
        out: &mut Outputs,
    ) {
        let messages = Json::parse(line.clone()).map(|json| json.elements()).unwrap_or_default();
        let mut refused = messages.is_empty();
        for message in messages {
            let text = Bytes::copy_from_slice(message.as_bytes());
            match Message::parse(&text) {
                Ok(Message::Response { .. }) => self.on_line(link, Line::Text(text), out),
                Ok(_) => refused = true,
                Err(_) => {
                    refused |=
                        !self.answer_requests_of(link, &LineScan::of(&text).result(), error, out);
                }
            }
        }
        if refused {
            self.warn(link.seat, error.why.clone(), out);
            refusal.into_iter().for_each(|reply| self.reply(link, reply, out));
        }
    }

    /// Handles a line that exceeds the length limit.
    pub(crate) fn on_long_line(
        &mut self,
        link: LinkId,
        found: &ScanResult,
        length: usize,
        out: &mut Outputs,
    ) {
        let limit = self.setup.max_line;
        let name = self.chain().describe(link.seat);
        let error = LineError {
            why: format!(
                "{name} sent a line of {length} bytes; the limit is {limit} bytes (--max-line)"
            ),
            remedy: "start the conductor with a larger --max-line",
            kind: ErrorKind::LineTooLong,
        };
        self.on_lost_line(link, found, &error, true, out);
    }

    /// Handles a line that could not be read. If `always_reply` is set, its sender gets an error even if nothing in the
    /// line could be recognised.
    fn on_lost_line(
        &mut self,
        link: LinkId,
        found: &ScanResult,
        error: &LineError,
        always_reply: bool,
        out: &mut Outputs,
    ) {
        self.warn(link.seat, error.why.clone(), out);
        if self.answer_requests_of(link, found, error, out) {
            return;
        }
        let requests = found.messages.iter().filter(|it| it.call && !it.answer);
        let mut ids: Vec<Id> = requests.filter_map(|it| it.ids.first().cloned()).collect();
        let is_answer = found.messages.iter().any(|it| it.is_answer() && !it.ids.is_empty());
        if ids.is_empty() && always_reply && !is_answer {
            ids.push(Id::NULL);
        }
        for id in ids {
            let reply =
                Message::response(id, error.kind.outcome(code::INVALID_REQUEST, &error.why));
            self.reply(link, &reply, out);
        }
    }

    /// Sends an error of the conductor itself back to the sender of a line.
    fn reply(&mut self, link: LinkId, reply: &Message, out: &mut Outputs) {
        self.peer_mut(link.seat).null_id_errors.on_sent(reply);
        self.write(link, Side::Editor, reply, out);
    }

    /// Answers the requests whose answers were in this line. Returns whether there were any.
    fn answer_requests_of(
        &mut self,
        link: LinkId,
        found: &ScanResult,
        error: &LineError,
        out: &mut Outputs,
    ) -> bool {
        let mut ended = false;
        for message in &found.messages {
            ended |= self.answer_request_of(link, message, found.is_damaged, error, out);
        }
        let more = found.more_answers;
        ended | (more > 0 && self.on_lost_answers(link.seat, None, more, &error.answer(), out))
    }

    /// Answers the request whose answer was this part of a line. Returns whether such a request was found. If several
    /// requests are possible, the answer is recorded as lost.
    fn answer_request_of(
        &mut self,
        link: LinkId,
        message: &PartialMessage,
        damaged: bool,
        error: &LineError,
        out: &mut Outputs,
    ) -> bool {
        // Without `result` or `error`, this is an answer only if it has the member `jsonrpc` and no method.
        if !message.answer && (message.call || !message.jsonrpc) {
            return false;
        }
        let seat = link.seat;
        let pending = self.router().pending();
        let owed = message.ids.iter().filter_map(|id| Some((pending.owed_number(seat, id)?, id)));
        let owed: Vec<(u64, &Id)> = owed.collect();
        match (owed.as_slice(), message.ids.as_slice()) {
            ([(_, id)], _) => self.answer_for(link, id, &error.answer(), out),
            // The conductor itself has sent the request, in a handshake or in a session replay.
            ([], [id]) if message.is_answer() => {
                self.answer_for(link, id, &error.answer(), out);
                return false;
            }
            ([], []) if message.is_answer() && message.jsonrpc && damaged => {
                return self.on_lost_answers(seat, None, 1, &error.answer(), out);
            }
            ([], _) => return false,
            _ => {
                let among = owed.iter().map(|(number, _)| *number).collect();
                return self.on_lost_answers(seat, Some(among), 1, &error.answer(), out);
            }
        }
        true
    }

    /// Answers a request with an error, on behalf of the component whose answer could not be read.
    fn answer_for(&mut self, link: LinkId, id: &Id, text: &str, out: &mut Outputs) {
        let kind = ErrorKind::of_message(text).map(|it| Json::string(it.code()));
        let data = kind.map(|it| Json::object([("code", Some(it))]));
        let error = Outcome::Error(error_object(code::INTERNAL_ERROR, text, data.as_ref()));
        let line = Message::response(id.clone(), error).to_line();
        self.on_line(link, Line::Text(line.into()), out);
    }

    /// Records `count` unreadable answers without a known id. The requests that they belong to are in `among`. If that is
    /// `None`, they can be any requests that the component has not answered. `text` is the error message for the
    /// requesters. Returns whether there was room for them.
    fn on_lost_answers(
        &mut self,
        seat: Seat,
        among: Option<BTreeSet<u64>>,
        count: usize,
        text: &str,
        out: &mut Outputs,
    ) -> bool {
        let is_candidate = |number: &u64| among.as_ref().is_none_or(|among| among.contains(number));
        let pending = self.router().pending();
        let owed: BTreeSet<u64> = pending.owed(seat).map(|(number, _)| number).collect();
        let candidates = pending.owed(seat).filter(|(number, _)| is_candidate(number));
        let methods: Vec<String> = candidates.map(|(_, it)| it.method.clone()).collect();
        if !self.peer_mut(seat).lost.add(&owed, among, count, text) {
            return false;
        }
        let mut list = methods[..methods.len().min(MAX_METHODS)].join(", ");
        if methods.len() > MAX_METHODS {
            list.push_str(", …");
        }
        let what = match count {
            1 => "the line was the answer to one".to_owned(),
            _ => format!("the line contained {count} answers to some"),
        };
        let total = methods.len();
        self.warn(seat, format!("{what} of {total} requests ({list})"), out);
        true
    }

    /// Inspects an answer of a component before the stages handle it.
    pub(crate) fn on_answer(&mut self, seat: Seat, id: &Id, outcome: &Outcome, out: &mut Outputs) {
        self.peer_mut(seat).null_id_errors.on_answer(id);
        if id.is_null() {
            self.on_error_without_id(seat, outcome, out);
        }
    }

    /// Handles an error response without an id. If its code means that the component could not read a message, and this
    /// message can only be a request, the error is recorded as a lost answer: no other answer will come.
    fn on_error_without_id(&mut self, seat: Seat, outcome: &Outcome, out: &mut Outputs) {
        let Some(code) = outcome.error_code() else { return };
        let is_live = matches!(self.router().state(seat), Some(SeatState::Live { .. }));
        if !matches!(code, code::PARSE_ERROR | code::INVALID_REQUEST)
            || !is_live
            || !self.peer_mut(seat).null_id_errors.are_unambiguous()
        {
            return;
        }
        let Outcome::Error(error) = outcome else { return };
        let message = error.member("message");
        let message = message.as_ref().and_then(|it| it.text()).unwrap_or_default();
        let text = format!(
            "{} could not read a request, and reported this without the id of the request: {code}, {:?}; this is \
             the only request that it can mean; change the request, or use a version of that program that \
             can read it",
            self.chain().describe(seat),
            quoted(&message)
        );
        self.on_lost_answers(seat, None, 1, &ErrorKind::BadMessage.tag(text), out);
    }

    /// Answers the requests whose answers are now known to be lost.
    pub(crate) fn answer_lost(&mut self, link: LinkId, out: &mut Outputs) {
        let seat = link.seat;
        if self.peer_mut(seat).lost.is_empty() {
            return;
        }
        // The answers below call this function again. The empty table ends the recursion.
        let mut lost = std::mem::take(&mut self.peer_mut(seat).lost);
        loop {
            let pending = self.router().pending();
            let resolved =
                lost.resolve(pending.closed_count(), |number| pending.owes(seat, number));
            if resolved.is_empty() {
                break;
            }
            for (number, text) in resolved {
                self.answer_for(link, &id_of(number), &text, out);
            }
        }
        self.peer_mut(seat).lost = lost;
    }
}

/// The beginning of a text, short enough for an error message.
fn quoted(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_QUOTED)]
}
