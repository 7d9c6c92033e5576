//! What was said, and the rules for what may be heard.
//!
//! Every message bears the number under which it is written down here, as the first member of its
//! payload: `{"n":17,…}`. Whoever hears it can be asked: was this meant for you, is it unchanged, is
//! it the first time, has nothing overtaken it? The rules know players and their neighbours only,
//! nothing of conductors, seats or tables.

use std::collections::BTreeMap;

use acp_wire::Side;

use super::{Check, Violation};

/// The number of a message.
pub type Serial = usize;

#[derive(Debug)]
pub struct Said {
    pub from: usize,
    pub to: usize,
    /// The way it travels.
    pub toward: Side,
    pub what: What,
    /// The params, the result or the error, byte by byte.
    pub payload: String,
    /// Whoever it is for could be spoken to when it was said.
    pub fair: bool,
    /// A conductor has taken it up.
    pub taken: bool,
    pub heard: bool,
}

#[derive(Debug)]
pub enum What {
    Ask(Question),
    Note {
        method: String,
    },
    Answer {
        ask: Serial,
        error: bool,
    },
    Cancel {
        ask: Serial,
    },
    /// An answer that nobody asked for, or a cancellation of what is not the sender's. Goes nowhere.
    Nonsense,
}

#[derive(Debug, Default)]
pub struct Question {
    pub method: String,
    /// How the asker calls it.
    pub id: String,
    /// How the one who was asked calls it, once it has heard it.
    pub known_as: Option<String>,
    /// What the one who was asked has answered.
    pub answer: Option<Serial>,
    pub answered: bool,
    /// A conductor has taken up a cancellation, the one who was asked has heard of it.
    pub cancelled: bool,
    pub cancel_heard: bool,
}

#[derive(Debug, Default)]
pub struct Ledger {
    pub said: Vec<Said>,
    /// The last message that one player heard from another, on each way.
    last: BTreeMap<(usize, usize, Side), Serial>,
}

pub fn violation<T>(text: impl Into<String>) -> Result<T, Violation> {
    Err(Violation(text.into()))
}

impl Ledger {
    /// Writes down a message; `payload` makes its text of its number.
    pub fn write(
        &mut self,
        (from, to): (usize, usize),
        toward: Side,
        what: What,
        fair: bool,
        payload: impl FnOnce(Serial) -> String,
    ) -> Serial {
        let serial = self.said.len();
        let payload = payload(serial);
        self.said.push(Said { from, to, toward, what, payload, fair, taken: false, heard: false });
        serial
    }

    pub fn question(&self, serial: Serial) -> Option<&Question> {
        match &self.said.get(serial)?.what {
            What::Ask(question) => Some(question),
            _ => None,
        }
    }

    pub fn question_mut(&mut self, serial: Serial) -> Option<&mut Question> {
        match &mut self.said.get_mut(serial)?.what {
            What::Ask(question) => Some(question),
            _ => None,
        }
    }

    pub fn questions(&self) -> impl Iterator<Item = (Serial, &Said, &Question)> {
        self.said.iter().enumerate().filter_map(|(serial, said)| match &said.what {
            What::Ask(question) => Some((serial, said, question)),
            _ => None,
        })
    }

    /// Which message this payload belongs to; `None` for a conductor's own words.
    pub fn find(&self, payload: &str) -> Option<Serial> {
        let number = payload.strip_prefix("{\"n\":")?;
        let end = number.find(|it: char| !it.is_ascii_digit())?;
        number[..end].parse().ok().filter(|serial| *serial < self.said.len())
    }

    /// A conductor has taken a line from a player.
    pub fn take(&mut self, serial: Serial) {
        self.said[serial].taken = true;
        if let What::Cancel { ask } = self.said[serial].what
            && let Some(question) = self.question_mut(ask)
        {
            question.cancelled = true;
        }
    }

    /// The rules for everything that is heard: it is for this one, the first time, unchanged, in order.
    pub fn hear(&mut self, who: usize, serial: Serial, payload: &str, ordered: bool) -> Check {
        let said = &mut self.said[serial];
        if said.to != who {
            return violation(format!("{who} hears message {serial}, which is for {}", said.to));
        }
        if std::mem::replace(&mut said.heard, true) {
            return violation(format!("{who} hears message {serial} twice"));
        }
        if !matches!(said.what, What::Cancel { .. }) && said.payload != payload {
            return violation(format!(
                "message {serial} has changed from {} to {payload}",
                said.payload
            ));
        }
        if ordered {
            match self.last.insert((said.from, who, said.toward), serial) {
                Some(last) if last > serial => {
                    return violation(format!("message {last} has overtaken message {serial}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Somebody hears a request or, without an id, a notification.
    pub fn hear_call(&mut self, serial: Serial, method: &str, id: Option<&str>) -> Check {
        let said = &mut self.said[serial];
        let wanted = match (&mut said.what, id) {
            (What::Ask(question), Some(id)) => {
                question.known_as = Some(id.to_owned());
                &question.method
            }
            (What::Note { method }, None) => method,
            (what, _) => return violation(format!("message {serial} is {what:?}, not {method}")),
        };
        match wanted == method {
            true => Ok(()),
            false => violation(format!("message {serial} is called {method}, not {wanted}")),
        }
    }

    /// Somebody hears a cancellation of the question that it knows as `id`.
    pub fn hear_cancel(&mut self, serial: Serial, payload: &str, id: &str) -> Check {
        let said = &self.said[serial];
        let What::Cancel { ask } = said.what else {
            return violation(format!("message {serial} is no cancellation of anybody's question"));
        };
        let Some(question) = self.question(ask) else { return Ok(()) };
        if question.known_as.as_deref() != Some(id) {
            let known = &question.known_as;
            return violation(format!("question {ask}, known as {known:?}, is cancelled as {id}"));
        }
        if payload != said.payload.replace(&requested(&question.id), &requested(id)) {
            return violation(format!("the cancellation {serial} has changed to {payload}"));
        }
        let again = self.question_mut(ask).map(|it| std::mem::replace(&mut it.cancel_heard, true));
        match again {
            Some(true) => violation(format!("question {ask} is cancelled twice")),
            _ => Ok(()),
        }
    }

    /// The question of `who` that an answer with this id is for.
    pub fn asked(&self, who: usize, id: &str) -> Result<Serial, Violation> {
        let mut mine = self.questions().filter(|(_, said, it)| said.from == who && it.id == id);
        match mine.next() {
            None => violation(format!("{who} gets an answer {id} to a question it never asked")),
            Some((serial, _, it)) if it.answered => {
                violation(format!("{who} gets a second answer to question {serial}"))
            }
            Some((serial, ..)) => Ok(serial),
        }
    }

    /// The asker hears the answer `serial` to its question `ask`.
    pub fn hear_answer(&mut self, ask: Serial, serial: Serial, is_error: bool) -> Check {
        match self.said[serial].what {
            What::Answer { ask: of, error } if of == ask && error == is_error => Ok(()),
            ref what => violation(format!("question {ask} is answered with {serial}: {what:?}")),
        }
    }
}

/// The part of a cancellation that changes from hop to hop.
pub fn requested(id: &str) -> String {
    format!("\"requestId\":{id}")
}
