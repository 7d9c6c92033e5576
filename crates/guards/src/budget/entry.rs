//! The lines of the ledger, and their sums.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::limits::Sum;
use component_base::sessions::{Sessions, session_key};
use component_base::usage::{Certainty, Cost, Reading, Tokens};

/// How many turns without an end are remembered.
const MAX_OPEN: usize = 10_000;

/// What a line of the ledger reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// The first line of a file.
    #[default]
    Day,
    /// A turn begins: the prompt is sent after this line is written.
    Open,
    /// The agent reports consumption.
    Spent,
    /// A turn has ended.
    End,
    /// A turn has no end, because the component was stopped. What it has consumed is not known.
    Lost,
    /// A prompt is refused.
    Refused,
    /// The sum of a session, in place of its earlier lines.
    Sum,
}

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// The version of the format.
    pub v: u8,
    /// What the line reports.
    pub event: Event,
    /// When it was written, in UTC.
    pub time: String,
    /// `day`: the date, in the time zone of the user.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub day: String,
    /// `day`: a random number, which tells one file from another with the same name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The turn.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub turn: String,
    /// The session.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// A random mark of the run of the chain in which the session began. Agents in different chains may give their sessions
    /// the same ids.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// `open`: whether the session is new. Earlier lines with the same id belong to another session.
    #[serde(skip_serializing_if = "is_false")]
    pub first: bool,
    /// The name and version of the agent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// The models, if the agent names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// How well the tokens are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_are: Option<Certainty>,
    /// The cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// How well the cost is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_is: Option<Certainty>,
    /// Whether the cost was calculated with the prices of the user.
    #[serde(skip_serializing_if = "is_false")]
    pub priced: bool,
    /// A model without a price, whose cost is not counted. Empty if the agent names no model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpriced: Option<String>,
    /// Whether the agent has reported it after the end of the turn.
    #[serde(skip_serializing_if = "is_false")]
    pub late: bool,
    /// The sums of the session as the agent reports them.
    #[serde(skip_serializing_if = "Reading::is_empty")]
    pub reading: Reading,
    /// `end`: why the turn has ended. `refused`: the limit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// `end`: whether the turn failed or was cancelled before the agent had reported anything. What it has consumed is
    /// not known.
    #[serde(skip_serializing_if = "is_false")]
    pub unreported: bool,
    /// `sum`: the costs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub costs: BTreeMap<String, (u64, Certainty)>,
    /// `sum`: how many turns have ended with a known consumption.
    #[serde(skip_serializing_if = "is_zero")]
    pub turns: u64,
    /// `sum`: how many turns have an unknown consumption.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// `sum`: what the turns show about the reports of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// `sum`: the last turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<LastTurn>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde needs
fn is_false(value: &bool) -> bool {
    !value
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde needs
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Entry {
    /// The line, with its line break.
    pub fn line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// The session, as the ledger tells it from others.
    pub fn key(&self) -> SessionKey {
        SessionKey { session: self.session.clone(), run: self.run.clone() }
    }

    /// Reads a line. `None` if it is torn, or of another version.
    pub fn read(line: &[u8]) -> Option<Entry> {
        serde_json::from_slice(line).ok().filter(|entry: &Entry| entry.v == 1)
    }
}

/// A session in the ledger: its id, and the run in which it began. Lines of earlier versions have no run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionKey {
    /// The id, or the hash of a long one.
    pub session: String,
    /// The run.
    pub run: String,
}

impl SessionKey {
    /// The session with this id that began in a run.
    pub fn new(session: &str, run: &str) -> SessionKey {
        SessionKey { session: session_key(session).into_owned(), run: run.to_owned() }
    }

    /// The key in a table of sessions.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self.run.as_str() {
            "" => self.session.as_str().into(),
            run => format!("{run}\n{}", self.session).into(),
        }
    }
}

impl From<&str> for SessionKey {
    fn from(session: &str) -> SessionKey {
        SessionKey::new(session, "")
    }
}

/// The last turn of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LastTurn {
    /// Its id.
    pub turn: String,
    /// What it has consumed.
    pub sum: Sum,
    /// Whether its tokens have a cost: one above zero, or one of the user's prices.
    pub is_paid: bool,
    /// Whether a prompt was refused because of it.
    pub is_refused: bool,
}

impl LastTurn {
    fn add(&mut self, entry: &Entry) {
        add(&mut self.sum, entry);
        self.is_paid |= entry.priced || entry.cost.as_ref().is_some_and(|it| it.micros > 0);
    }

    /// Whether it has consumed tokens at no cost.
    pub fn is_unpaid(&self) -> bool {
        self.sum.tokens.total() > 0 && !self.is_paid
    }
}

/// The sums of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionTotals {
    /// The session.
    pub key: SessionKey,
    /// What it has consumed.
    pub sum: Sum,
    /// How many of its turns have ended with a known consumption.
    pub turns: u64,
    /// How many of its turns are lost, or failed without a report.
    pub lost: u64,
    /// What its turns show about the reports of the agent.
    pub evidence: Evidence,
    /// The sums that the agent has reported.
    pub reading: Reading,
    /// The last turn.
    pub last: LastTurn,
    /// The agent.
    pub agent: String,
    /// When the last line about it was written.
    pub time: String,
    /// Whether the session began in these files.
    pub has_begun: bool,
    /// Whether the lines of earlier days are included.
    pub is_complete: bool,
}

impl SessionTotals {
    /// Adds a line about the session.
    pub fn apply(&mut self, entry: &Entry) {
        if entry.first {
            *self =
                SessionTotals { has_begun: true, is_complete: true, ..SessionTotals::default() };
        }
        if self.key.session.is_empty() {
            self.key = entry.key();
        }
        self.time.clone_from(&entry.time);
        if !entry.agent.is_empty() {
            self.agent.clone_from(&entry.agent);
        }
        match entry.event {
            Event::Open => {
                // A file that was made smaller repeats the lines of running turns.
                if self.last.turn != entry.turn {
                    self.last = LastTurn { turn: entry.turn.clone(), ..LastTurn::default() };
                }
            }
            Event::Spent => {
                self.evidence.add_report(entry);
                add(&mut self.sum, entry);
                if self.last.turn == entry.turn {
                    self.last.add(entry);
                }
                if !entry.reading.is_empty() {
                    self.reading.clone_from(&entry.reading);
                }
            }
            Event::End => {
                count_end(entry, &mut self.turns, &mut self.lost, &mut self.sum);
                let is_unpaid = self.last.turn == entry.turn && self.last.is_unpaid();
                self.evidence.end_turn(&entry.why, is_unpaid);
            }
            Event::Lost => self.lost = self.lost.saturating_add(1),
            Event::Refused => self.last.is_refused = true,
            Event::Sum => self.add_sum(entry),
            Event::Day => {}
        }
    }

    fn add_sum(&mut self, entry: &Entry) {
        add(&mut self.sum, entry);
        self.turns = self.turns.saturating_add(entry.turns);
        self.lost = self.lost.saturating_add(entry.lost);
        self.evidence.add(entry.evidence.as_ref().unwrap_or(&Evidence::default()));
        self.last = entry.last.clone().unwrap_or_default();
        if !entry.reading.is_empty() {
            self.reading.clone_from(&entry.reading);
        }
    }

    /// A line with these sums.
    pub fn entry(&self) -> Entry {
        Entry {
            v: 1,
            event: Event::Sum,
            time: self.time.clone(),
            session: self.key.session.clone(),
            run: self.key.run.clone(),
            agent: self.agent.clone(),
            first: self.has_begun,
            tokens: Some(self.sum.tokens),
            tokens_are: Some(self.sum.certainty),
            costs: self.sum.costs.clone(),
            turns: self.turns,
            lost: self.lost,
            evidence: Some(self.evidence.clone()),
            last: Some(self.last.clone()),
            reading: self.reading.clone(),
            ..Entry::default()
        }
    }
}

/// Counts the end of a turn.
fn count_end(entry: &Entry, turns: &mut u64, lost: &mut u64, sum: &mut Sum) {
    if entry.unreported {
        *lost = lost.saturating_add(1);
        sum.set_at_least();
    } else {
        *turns = turns.saturating_add(1);
    }
}

fn add(sum: &mut Sum, entry: &Entry) {
    if let Some(tokens) = &entry.tokens {
        sum.add_tokens(tokens, entry.tokens_are.unwrap_or_default());
    }
    if let Some(cost) = &entry.cost {
        sum.add_cost(&cost.currency, cost.micros, entry.cost_is.unwrap_or_default());
    }
    for (currency, (micros, certainty)) in &entry.costs {
        sum.add_cost(currency, *micros, *certainty);
    }
}

/// The sums of a file.
#[derive(Debug, Default)]
pub struct Totals {
    /// What was consumed.
    pub sum: Sum,
    /// How many turns have ended with a known consumption.
    pub turns: u64,
    /// How many turns are lost, or failed without a report.
    pub lost: u64,
    /// The turns without an end, with their sessions. They run, or were lost.
    pub open: BTreeMap<String, SessionKey>,
    /// The sums of the sessions.
    pub sessions: Sessions<SessionTotals>,
}

impl Totals {
    /// Adds a line.
    pub fn apply(&mut self, entry: &Entry) {
        match entry.event {
            Event::Open => {
                if self.open.len() >= MAX_OPEN {
                    self.open.pop_first();
                    self.lost = self.lost.saturating_add(1);
                }
                self.open.insert(entry.turn.clone(), entry.key());
            }
            Event::End => {
                self.open.remove(&entry.turn);
                count_end(entry, &mut self.turns, &mut self.lost, &mut self.sum);
            }
            Event::Lost => {
                self.open.remove(&entry.turn);
                self.lost = self.lost.saturating_add(1);
            }
            Event::Spent => add(&mut self.sum, entry),
            Event::Sum => {
                add(&mut self.sum, entry);
                self.turns = self.turns.saturating_add(entry.turns);
                self.lost = self.lost.saturating_add(entry.lost);
            }
            Event::Refused | Event::Day => {}
        }
        if !entry.session.is_empty() {
            self.sessions.with(&entry.key().text(), |it| it.state.apply(entry));
        }
    }
}
