//! What was said, and the rules for what may be heard.
//!
//! A message bears the number under which it is written down here, wherever it is passed on. So it can
//! be told at each place whether somebody has said this, in these words, and whether it comes for the
//! first time and in order; and, at the ends of the chain, whether nothing has overtaken anything.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::{Json, Message, Outcome, Side};

use crate::pen::{Serial, is_mcp, key, number, payload_of, serial, sets_up, text};

/// Somebody at a place of the chain: 0 is the editor, then the components, at last the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    pub place: usize,
    pub number: u32,
}

#[derive(Debug)]
struct Sent {
    by: Life,
    /// Grows with each message, whoever says it.
    stamp: usize,
    payload: Json,
}

#[derive(Debug)]
struct Question {
    serial: Option<Serial>,
    method: String,
    cancelled: bool,
}

pub type Check = Result<(), String>;

#[derive(Debug)]
pub struct Ledger {
    /// The agent's place.
    far: usize,
    stamp: usize,
    /// By serial: who has said it, and who has passed it on.
    sent: BTreeMap<Serial, Vec<Sent>>,
    open: BTreeMap<(Life, String), Question>,
    heard: BTreeSet<(usize, Serial)>,
    /// What may come again, to another.
    told: BTreeSet<(Life, Serial)>,
    /// The last that a place has heard of somebody.
    last: BTreeMap<(Life, usize), usize>,
    /// The last of the agent's own words that the editor has heard.
    last_word: BTreeMap<Life, usize>,
    /// Something has happened that a conductor may have to answer for.
    pub disturbed: bool,
    /// Those who do not stop may be given up, in our own words.
    pub may_cut_short: bool,
    /// The chain ends: an update does not wait behind a barrier any more, so it may overtake others.
    pub ending: bool,
    /// How much was said to components, and in how many messages.
    pub bytes: usize,
    pub count: usize,
}

impl Ledger {
    pub fn new(far: usize) -> Ledger {
        Ledger {
            far,
            stamp: 0,
            sent: BTreeMap::new(),
            open: BTreeMap::new(),
            heard: BTreeSet::new(),
            told: BTreeSet::new(),
            last: BTreeMap::new(),
            last_word: BTreeMap::new(),
            disturbed: false,
            may_cut_short: false,
            ending: false,
            bytes: 0,
            count: 0,
        }
    }

    /// Somebody says something.
    pub fn say(&mut self, by: Life, message: &Message) -> Check {
        self.stamp += 1;
        self.bytes += message.size();
        self.count += 1;
        let payload = payload_of(message);
        let serial = payload.and_then(serial);
        if let (Some(serial), Some(payload)) = (serial, payload) {
            let sent = Sent { by, stamp: self.stamp, payload: payload.clone() };
            self.sent.entry(serial).or_default().push(sent);
        }
        match message {
            Message::Request { id, call } => {
                let method = call.method.name().into_owned();
                let question = Question { serial, method, cancelled: false };
                match self.open.insert((by, key(id)), question) {
                    Some(_) => Err(format!("{by:?} uses the id {id} twice (a fault of the test)")),
                    None => Ok(()),
                }
            }
            Message::Notification(call) if call.is("$/cancel_request") => {
                let id = call.params.as_ref().and_then(|it| it.member("requestId"));
                let id = id.map(|id| id.as_str().to_owned()).unwrap_or_default();
                if let Some(question) = self.open.get_mut(&(by, id)) {
                    question.cancelled = true;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Somebody hears something that travels toward `toward`.
    pub fn hear(&mut self, who: Life, toward: Side, message: &Message) -> Check {
        let payload = payload_of(message);
        let serial = payload.and_then(serial);
        match message {
            Message::Request { id, call } => {
                let method = call.method.name();
                let lesson = id.text().is_some_and(|id| id.starts_with("r:"));
                match (serial, payload) {
                    _ if is_mcp(&method) => Ok(()),
                    (Some(serial), Some(payload))
                        if sets_up(&method) || &*method == "initialize" =>
                    {
                        // Who is live is told once; who is new is told again.
                        match self.told.insert((who, serial)) {
                            true if lesson => Ok(()),
                            true => self.find(who, Some(toward), serial, payload, false).map(drop),
                            false => Err(format!("{who:?} hears {method} {serial} twice")),
                        }
                    }
                    (Some(serial), Some(payload)) => {
                        self.hear_once(who, Some(toward), serial, payload, true)
                    }
                    _ if &*method == "_conductor/barrier" => Ok(()),
                    // A session that nobody has is closed.
                    _ if &*method == "session/close" && self.disturbed => Ok(()),
                    _ => Err(format!("{who:?} is asked what nobody asked: {call:?}")),
                }
            }
            Message::Notification(call) => {
                let method = call.method.name();
                let exact = &*method != "$/cancel_request";
                match (serial, payload) {
                    (Some(serial), Some(payload)) => {
                        self.hear_once(who, Some(toward), serial, payload, exact)
                    }
                    _ if is_mcp(&method) || self.is_ours(&method, payload) => Ok(()),
                    _ => Err(format!("{who:?} hears what nobody said: {call:?}")),
                }
            }
            Message::Response { id, outcome, .. } => self.hear_answer(who, &key(id), outcome),
        }
    }

    /// May a conductor say this in its own name?
    fn is_ours(&self, method: &str, payload: Option<&Json>) -> bool {
        let note = || payload.is_some_and(|it| it.at(&["update", "_meta", "conductor"]).is_some());
        self.disturbed
            && match method {
                "session/cancel" | "$/cancel_request" => true,
                "session/update" => note(),
                _ => false,
            }
    }

    fn hear_answer(&mut self, who: Life, id: &str, outcome: &Outcome) -> Check {
        let Some(question) = self.open.remove(&(who, id.to_owned())) else {
            return Err(format!(
                "{who:?} gets an answer {id} that it does not wait for: {outcome:?}"
            ));
        };
        let (Outcome::Result(payload) | Outcome::Error(payload)) = outcome;
        let Question { serial: asked, method, cancelled } = question;
        if is_mcp(&method) || method == "_conductor/barrier" {
            return Ok(());
        }
        let Some(serial) = serial(payload) else {
            let cut_short = text(payload, &["stopReason"]).as_deref() == Some("cancelled");
            return match outcome {
                Outcome::Error(_) if self.disturbed => Ok(()),
                Outcome::Result(_)
                    if cut_short && self.may_cut_short && method == "session/prompt" =>
                {
                    Ok(())
                }
                Outcome::Error(_) if cancelled => Ok(()),
                // What is lost is easily closed.
                Outcome::Result(_) if self.disturbed && method == "session/close" => Ok(()),
                _ => {
                    Err(format!("{who:?} gets an answer to {method} that nobody gave: {payload:?}"))
                }
            };
        };
        if let Some(to) = number(payload, "to")
            && Some(to) != asked
        {
            return Err(format!("{who:?} asked {asked:?} ({method}) and gets the answer to {to}"));
        }
        // What those on the way have to say to these, everybody may change.
        match method == "initialize" || sets_up(&method) {
            true => Ok(()),
            false => self.hear_once(who, None, serial, payload, true),
        }
    }

    fn hear_once(
        &mut self,
        who: Life,
        toward: Option<Side>,
        serial: Serial,
        payload: &Json,
        exact: bool,
    ) -> Check {
        let (by, stamp) = self.find(who, toward, serial, payload, exact)?;
        if !self.heard.insert((who.place, serial)) {
            return Err(format!("{who:?} hears {serial} twice: {payload:?}"));
        }
        // A cancellation goes straight to who was asked, past those who have died meanwhile.
        if !exact {
            return Ok(());
        }
        if let Some(last) = self.last.insert((by, who.place), stamp)
            && last > stamp
            && !self.ending
        {
            return Err(format!("{who:?} hears {serial} of {by:?} too late: {payload:?}"));
        }
        if who.place == 0
            && let Some(first) = self.sent[&serial].first()
            && first.by.place == self.far
            && let Some(last) = self.last_word.insert(first.by, first.stamp)
            && last > first.stamp
            && !self.ending
        {
            return Err(format!("a later word of the agent has overtaken {serial}: {payload:?}"));
        }
        Ok(())
    }

    /// Who has said this, in these words; of several, the nearest.
    fn find(
        &self,
        who: Life,
        toward: Option<Side>,
        serial: Serial,
        payload: &Json,
        exact: bool,
    ) -> Result<(Life, usize), String> {
        let near = |sent: &&Sent| match toward {
            Some(Side::Agent) => sent.by.place < who.place,
            Some(Side::Editor) => sent.by.place > who.place,
            None => sent.by.place != who.place,
        };
        let all = self.sent.get(&serial).into_iter().flatten().filter(near);
        let nearest = all.min_by_key(|sent| sent.by.place.abs_diff(who.place));
        match nearest {
            None => Err(format!("{who:?} hears {serial}, which nobody on that side has said")),
            Some(sent) if exact && sent.payload.as_bytes() != payload.as_bytes() => Err(format!(
                "{serial} of {:?} has changed on its way to {who:?}: from {:?} to {payload:?}",
                sent.by, sent.payload
            )),
            Some(sent) => Ok((sent.by, sent.stamp)),
        }
    }

    /// Does anybody of these wait for an answer?
    pub fn unanswered(&self, is_there: impl Fn(Life) -> bool) -> Option<String> {
        self.unanswered_but(is_there, &[])
    }

    /// To anything but these?
    pub fn unanswered_but(
        &self,
        is_there: impl Fn(Life) -> bool,
        but: &[String],
    ) -> Option<String> {
        let mut open =
            self.open.iter().filter(|((who, id), _)| is_there(*who) && !but.contains(id));
        let ((who, id), question) = open.next()?;
        Some(format!(
            "{who:?} never gets an answer to {} {id} ({:?})",
            question.method, question.serial
        ))
    }
}
