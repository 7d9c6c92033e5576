//! Lines that cannot be taken: noise, broken messages, lines that are too long, batches.
//!
//! A request whose answer is such a line must not wait for ever. If the id can be made out, the request
//! is answered with an error that tells what is wrong. If it cannot, the answer belongs to one of the
//! requests that are open at this moment. Which one, turns out when the others are answered.

use bytes::Bytes;
use router::Seat;
use tracing::warn;
use wire::message::{Remains, Scan};
use wire::{Id, Json, Malformed, Message, Outcome, Rejection, Side, code};

use crate::host::process::shortened;
use crate::lines::Line;
use crate::place::Port;
use crate::run::Shell;

/// An answer that could not be read, nor matched with a request.
#[derive(Debug)]
pub struct Lost {
    /// It was the answer to one of these requests.
    requests: Vec<Id>,
    why: String,
}

/// How many of them are kept for a component. What is more is only logged.
const MOST_LOST: usize = 64;

/// To so many open requests an answer that could not be read is matched.
const MOST_REQUESTS: usize = 1024;

impl Shell {
    /// A line that is no message: noise, a broken message, or one that is not allowed.
    pub(crate) fn on_rejection(
        &mut self,
        seat: Seat,
        port: Port,
        line: &Bytes,
        rejection: Rejection,
    ) {
        let why =
            format!("{} sent a bad line: {}", self.router().chain().describe(seat), rejection.why);
        let first = line.trim_ascii_start().first().copied();
        let json_like = matches!(first, Some(b'{' | b'['));
        match rejection.why {
            Malformed::NotJson(_) | Malformed::NotAMessage { .. }
                if seat.is_component() && !json_like =>
            {
                self.on_noise(seat, line, &why);
            }
            Malformed::NotJson(_) if seat.is_component() => {
                self.on_lost_line(seat, port, &Scan::of(line), &why, false);
            }
            Malformed::NotJson(_) => {
                warn!(seat = self.router().chain().name(seat), "{why}");
                rejection.reply.iter().for_each(|reply| self.reply(seat, port, reply));
                self.end_waits(seat, port, &Scan::of(line), &why);
            }
            Malformed::NotAMessage { .. } if first == Some(b'[') => {
                self.on_batch(seat, port, line, &why, rejection.reply.as_deref());
            }
            Malformed::NotAMessage { .. } | Malformed::AnswerWithoutId => {
                warn!(seat = self.router().chain().name(seat), "{why}");
                if !self.end_waits(seat, port, &Scan::of(line), &why) {
                    rejection.reply.iter().for_each(|reply| self.reply(seat, port, reply));
                }
            }
        }
    }

    fn on_noise(&mut self, seat: Seat, line: &[u8], why: &str) {
        let start = String::from_utf8_lossy(&line[..line.len().min(200)]);
        warn!(seat = self.router().chain().name(seat), "{why}; skipped: {start:?}");
        self.place(seat).words.push(format!("(on stdout) {}", shortened(&start)));
    }

    /// Answers are taken out of a batch, in their order. All else in it is refused.
    fn on_batch(
        &mut self,
        seat: Seat,
        port: Port,
        line: &Bytes,
        why: &str,
        refusal: Option<&Message>,
    ) {
        let messages = Json::parse(line.clone()).map(|json| json.elements()).unwrap_or_default();
        let mut refused = messages.is_empty();
        for message in messages {
            let text = Bytes::copy_from_slice(message.as_bytes());
            match Message::parse(&text) {
                Ok(Message::Response { .. }) => self.on_line(seat, port, Line::Text(text)),
                Ok(_) => refused = true,
                Err(_) => refused |= !self.end_waits(seat, port, &Scan::of(&text), why),
            }
        }
        if refused {
            warn!(seat = self.router().chain().name(seat), "{why}");
            refusal.into_iter().for_each(|reply| self.reply(seat, port, reply));
        }
    }

    /// A line that could not be read. `tell`: its sender is told even if it is not clear what it was.
    pub(crate) fn on_lost_line(
        &mut self,
        seat: Seat,
        port: Port,
        scan: &Scan,
        why: &str,
        tell: bool,
    ) {
        warn!(seat = self.router().chain().name(seat), "{why}");
        if self.end_waits(seat, port, scan, why) {
            return;
        }
        let requests = scan.messages().into_iter().filter(|it| it.call && !it.answer);
        let mut ids: Vec<Id> = requests.filter_map(|it| it.ids.into_iter().next()).collect();
        let is_answer =
            scan.messages().iter().any(|it| it.answer && !it.call && !it.ids.is_empty());
        if ids.is_empty() && tell && !is_answer {
            ids.push(Id::NULL);
        }
        for id in ids {
            let reply = Message::response(id, Outcome::error(code::INVALID_REQUEST, why));
            self.reply(seat, port, &reply);
        }
    }

    /// Answers a line in our own name, where it came from.
    fn reply(&mut self, seat: Seat, port: Port, reply: &Message) {
        if let Some(link) = self.place(seat).port(port) {
            link.send(Side::Editor, reply);
        }
    }

    /// Ends the wait for each answer that this line was. Says whether there was any.
    fn end_waits(&mut self, seat: Seat, port: Port, scan: &Scan, why: &str) -> bool {
        let mut ended = false;
        for message in scan.messages() {
            ended |= self.end_wait(seat, port, &message, scan.is_damaged(), why);
        }
        ended
    }

    fn end_wait(
        &mut self,
        seat: Seat,
        port: Port,
        message: &Remains,
        damaged: bool,
        why: &str,
    ) -> bool {
        if message.call && !message.answer {
            return false;
        }
        let is_answer = message.answer && !message.call;
        let owed = |id: &&Id| self.router().owes(seat, id);
        let requests: Vec<Id> = message.ids.iter().filter(owed).cloned().collect();
        match (requests.as_slice(), message.ids.as_slice()) {
            ([id], _) => self.answer_for(seat, port, id, why),
            // A request of our own: of the handshake, or to one that was started again.
            ([], [id]) if is_answer => {
                self.answer_for(seat, port, id, why);
                return false;
            }
            ([], []) if is_answer && damaged => return self.on_lost_answer(seat, None, why),
            ([], _) => return false,
            _ => return self.on_lost_answer(seat, Some(requests), why),
        }
        true
    }

    /// Answers in the name of a component whose answer cannot be read.
    fn answer_for(&mut self, seat: Seat, port: Port, id: &Id, why: &str) {
        let error = Outcome::error(code::INTERNAL_ERROR, why);
        let line = Message::response(id.clone(), error).to_line();
        self.on_line(seat, port, Line::Text(line.into()));
    }

    /// An answer of which it is not known to which request it was: to one of these, or of all.
    fn on_lost_answer(&mut self, seat: Seat, requests: Option<Vec<Id>>, why: &str) -> bool {
        let open = self.router().questions().filter(|(_, ask)| ask.answerer == seat);
        let open: Vec<(Id, String)> = open.map(|(id, ask)| (id, ask.method.clone())).collect();
        let is_meant = |id: &Id| requests.as_ref().is_none_or(|requests| requests.contains(id));
        let open: Vec<_> = open.into_iter().filter(|(id, _)| is_meant(id)).collect();
        let lost = &mut self.place(seat).lost;
        if open.is_empty() || open.len() > MOST_REQUESTS || lost.len() >= MOST_LOST {
            return false;
        }
        let methods: Vec<&str> = open.iter().map(|(_, method)| method.as_str()).take(8).collect();
        let text = format!("the line was the answer to one of {} requests", open.len());
        let methods = methods.join(", ");
        lost.push(Lost {
            requests: open.into_iter().map(|(id, _)| id).collect(),
            why: why.to_owned(),
        });
        warn!(seat = self.router().chain().name(seat), "{text} ({methods}, …)");
        true
    }

    /// Answers the requests of which it is clear by now that their answers could not be read: as many
    /// as there are such answers.
    pub(crate) fn settle_lost(&mut self, seat: Seat, port: Port) {
        while !self.seats[seat.index()].lost.is_empty() {
            let mut lost = std::mem::take(&mut self.place(seat).lost);
            for answer in &mut lost {
                answer.requests.retain(|id| self.router().owes(seat, id));
            }
            lost.retain(|answer| !answer.requests.is_empty());
            let clear = lost.iter().position(|it| {
                let within =
                    |other: &&Lost| other.requests.iter().all(|id| it.requests.contains(id));
                lost.iter().filter(within).count() >= it.requests.len()
            });
            let Lost { requests, why } = match clear {
                Some(index) => lost.remove(index),
                None => {
                    self.place(seat).lost = lost;
                    return;
                }
            };
            self.place(seat).lost = lost;
            requests.iter().for_each(|id| self.answer_for(seat, port, id, &why));
        }
    }
}
