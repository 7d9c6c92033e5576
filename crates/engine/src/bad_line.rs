//! Lines that cannot be taken: noise, broken messages, lines that are too long, batches.
//!
//! A request whose answer is such a line must not wait for ever. If the id can be made out, the request
//! is answered with an error that tells what is wrong. If it cannot, the answer belongs to one of the
//! requests that are open at this moment. Which one, turns out when the others are answered (see `lost`).
//!
//! A log line must not end a request that is answered later. So where it is in null_id_errors whether a line was an
//! answer, the request waits on.

use std::collections::BTreeSet;

use acp_wire::message::{Findings, PartialMessage, Scan};
use acp_wire::{Id, Json, Malformed, Message, Outcome, Rejection, Side, code};
use bytes::Bytes;
use router::pending::id_of;
use router::{Seat, SeatState};

use crate::core::Core;
use crate::input::{Line, Link, Outputs};

/// What is wrong with a line, and what to do about it.
#[derive(Debug)]
struct Fault {
    /// Names the component.
    why: String,
    remedy: &'static str,
}

impl Fault {
    /// What the asker is told whose answer the line was.
    fn answer(&self) -> String {
        format!("{}; so its answer could not be read; {}", self.why, self.remedy)
    }
}

/// How many methods a warning names.
const MAX_METHODS: usize = 8;

/// A longer line is cut in error messages, in bytes.
const LONGEST_WORDS: usize = 2000;

impl Core {
    /// A line that is no message: noise, a broken message, or one that is not allowed.
    pub(crate) fn on_rejection(
        &mut self,
        link: Link,
        line: &Bytes,
        rejection: Rejection,
        out: &mut Outputs,
    ) {
        let seat = link.seat;
        let whose = self.chain().describe(seat);
        let why = format!("{whose} sent a bad line: {}", rejection.why);
        let fault = Fault {
            why,
            remedy: "send the request again; if it happens again, it is a fault for the developers of \
                     that program",
        };
        let found = Scan::of(line).findings();
        let is_list = line.trim_ascii_start().starts_with(b"[");
        match rejection.why {
            Malformed::NotJson(_) | Malformed::NotAMessage { .. }
                if seat.is_component() && !found.looks_like_json =>
            {
                self.on_noise(seat, line, &fault.why, out);
            }
            Malformed::NotJson(_) if seat.is_component() => {
                self.on_lost_line(link, &found, &fault, false, out);
            }
            Malformed::NotJson(_) => {
                self.warn(seat, fault.why.clone(), out);
                rejection.reply.iter().for_each(|reply| self.reply(link, reply, out));
                self.end_waits(link, &found, &fault, out);
            }
            Malformed::NotAMessage { .. } if is_list => {
                self.on_batch(link, line, &fault, rejection.reply.as_deref(), out);
            }
            Malformed::NotAMessage { .. } => {
                self.warn(seat, fault.why.clone(), out);
                if !self.end_waits(link, &found, &fault, out) {
                    rejection.reply.iter().for_each(|reply| self.reply(link, reply, out));
                }
            }
            Malformed::AnswerWithoutId => {
                self.warn(seat, fault.why, out);
                let error = Json::parse(line.clone()).ok().and_then(|it| it.member("error"));
                error
                    .into_iter()
                    .for_each(|it| self.on_error_without_id(seat, &Outcome::Error(it), out));
            }
        }
    }

    fn on_noise(&mut self, seat: Seat, line: &[u8], why: &str, out: &mut Outputs) {
        let start = String::from_utf8_lossy(&line[..line.len().min(200)]);
        self.warn(seat, format!("{why}; skipped: {start:?}"), out);
        self.peer_mut(seat).add_output_line(format!("(on stdout) {}", shortened(&start)));
    }

    /// Answers are taken out of a batch, in their order. All else in it is refused.
    fn on_batch(
        &mut self,
        link: Link,
        line: &Bytes,
        fault: &Fault,
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
                    refused |= !self.end_waits(link, &Scan::of(&text).findings(), fault, out);
                }
            }
        }
        if refused {
            self.warn(link.seat, fault.why.clone(), out);
            refusal.into_iter().for_each(|reply| self.reply(link, reply, out));
        }
    }

    /// A line that is longer than allowed.
    pub(crate) fn on_long_line(
        &mut self,
        link: Link,
        found: &Findings,
        length: usize,
        out: &mut Outputs,
    ) {
        let most = self.setup.max_line;
        let whose = self.chain().describe(link.seat);
        let fault = Fault {
            why: format!(
                "{whose} sent a line of {length} bytes, and {most} are allowed (--max-line)"
            ),
            remedy: "start the conductor with a larger --max-line",
        };
        self.on_lost_line(link, found, &fault, true, out);
    }

    /// A line that could not be read. `tell`: its sender is told even if it is not clear what it was.
    fn on_lost_line(
        &mut self,
        link: Link,
        found: &Findings,
        fault: &Fault,
        tell: bool,
        out: &mut Outputs,
    ) {
        self.warn(link.seat, fault.why.clone(), out);
        if self.end_waits(link, found, fault, out) {
            return;
        }
        let requests = found.messages.iter().filter(|it| it.call && !it.answer);
        let mut ids: Vec<Id> = requests.filter_map(|it| it.ids.first().cloned()).collect();
        let is_answer = found.messages.iter().any(|it| it.is_answer() && !it.ids.is_empty());
        if ids.is_empty() && tell && !is_answer {
            ids.push(Id::NULL);
        }
        for id in ids {
            let reply = Message::response(id, Outcome::error(code::INVALID_REQUEST, &fault.why));
            self.reply(link, &reply, out);
        }
    }

    /// Answers a line in our own name, where it came from.
    fn reply(&mut self, link: Link, reply: &Message, out: &mut Outputs) {
        self.peer_mut(link.seat).null_id_errors.on_sent(reply);
        self.write(link, Side::Editor, reply, out);
    }

    /// Ends the wait for each answer that this line was. Says whether there was any.
    fn end_waits(
        &mut self,
        link: Link,
        found: &Findings,
        fault: &Fault,
        out: &mut Outputs,
    ) -> bool {
        let mut ended = false;
        for message in &found.messages {
            ended |= self.end_wait(link, message, found.is_damaged, fault, out);
        }
        let more = found.more_answers;
        ended | (more > 0 && self.on_lost_answers(link.seat, None, more, &fault.answer(), out))
    }

    fn end_wait(
        &mut self,
        link: Link,
        message: &PartialMessage,
        damaged: bool,
        fault: &Fault,
        out: &mut Outputs,
    ) -> bool {
        // What has no member of an answer is one only if it says that it is JSON-RPC.
        if !message.answer && (message.call || !message.jsonrpc) {
            return false;
        }
        let seat = link.seat;
        let pending = self.router().pending();
        let owed = message.ids.iter().filter_map(|id| Some((pending.owed_number(seat, id)?, id)));
        let owed: Vec<(u64, &Id)> = owed.collect();
        match (owed.as_slice(), message.ids.as_slice()) {
            ([(_, id)], _) => self.answer_for(link, id, &fault.answer(), out),
            // A request of our own: of the handshake, or to one that was started again.
            ([], [id]) if message.is_answer() => {
                self.answer_for(link, id, &fault.answer(), out);
                return false;
            }
            ([], []) if message.is_answer() && message.jsonrpc && damaged => {
                return self.on_lost_answers(seat, None, 1, &fault.answer(), out);
            }
            ([], _) => return false,
            _ => {
                let among = owed.iter().map(|(number, _)| *number).collect();
                return self.on_lost_answers(seat, Some(among), 1, &fault.answer(), out);
            }
        }
        true
    }

    /// Answers in the name of a component whose answer cannot be read.
    fn answer_for(&mut self, link: Link, id: &Id, text: &str, out: &mut Outputs) {
        let error = Outcome::error(code::INTERNAL_ERROR, text);
        let line = Message::response(id.clone(), error).to_line();
        self.on_line(link, Line::Text(line.into()), out);
    }

    /// Answers of which it is not known to which requests they were: to some of these, or of all. `text` is
    /// what the askers are told.
    fn on_lost_answers(
        &mut self,
        seat: Seat,
        among: Option<BTreeSet<u64>>,
        count: usize,
        text: &str,
        out: &mut Outputs,
    ) -> bool {
        let is_meant = |number: &u64| among.as_ref().is_none_or(|among| among.contains(number));
        let pending = self.router().pending();
        let owed: BTreeSet<u64> = pending.owed(seat).map(|(number, _)| number).collect();
        let meant = pending.owed(seat).filter(|(number, _)| is_meant(number));
        let methods: Vec<String> = meant.map(|(_, ask)| ask.method.clone()).collect();
        if !self.peer_mut(seat).lost.add(&owed, among, count, text) {
            return false;
        }
        let mut list = methods[..methods.len().min(MAX_METHODS)].join(", ");
        if methods.len() > MAX_METHODS {
            list.push_str(", …");
        }
        let what = match count {
            1 => "the line was the answer to one".to_owned(),
            _ => format!("in the line were {count} answers to some"),
        };
        let total = methods.len();
        self.warn(seat, format!("{what} of {total} requests ({list})"), out);
        true
    }

    /// Looks at an answer of a component before it is handled.
    pub(crate) fn on_answer(&mut self, seat: Seat, id: &Id, outcome: &Outcome, out: &mut Outputs) {
        self.peer_mut(seat).null_id_errors.on_answer(id);
        if id.is_null() {
            self.on_error_without_id(seat, outcome, out);
        }
    }

    /// An error that names no request. If it says that the component could not read what it was sent, and
    /// this can only be a request, the request is not answered otherwise.
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
            "{} could not read a request, and said so without its id: {code}, {:?}; it is taken for this \
             one, which is not answered otherwise; change what is sent, or use a version of that program \
             that can read it",
            self.chain().describe(seat),
            shortened(&message)
        );
        self.on_lost_answers(seat, None, 1, &text, out);
    }

    /// Answers the requests of which it is clear by now that their answers could not be read: as many
    /// as there are such answers.
    pub(crate) fn settle_lost(&mut self, link: Link, out: &mut Outputs) {
        let seat = link.seat;
        if self.peer_mut(seat).lost.is_empty() {
            return;
        }
        // While it is taken out, the answers in the component's name do not come back to here.
        let mut lost = std::mem::take(&mut self.peer_mut(seat).lost);
        loop {
            let pending = self.router().pending();
            let settled = lost.settle(pending.closed(), |number| pending.owes(seat, number));
            if settled.is_empty() {
                break;
            }
            for (number, text) in settled {
                self.answer_for(link, &id_of(number), &text, out);
            }
        }
        self.peer_mut(seat).lost = lost;
    }
}

/// At most so much of a line as a person would read.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_WORDS)]
}
