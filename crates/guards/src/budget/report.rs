//! What the ledger says about some days, for `conductor spent`.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::civil::Date;
use serde::Serialize;

use super::describe;
use super::entry::SessionKey;
use super::ledger::{Clock, days_in, path_of, totals_of};
use super::limits::{Sum, amount};
use component_base::usage::{Certainty, Tokens};

/// Days of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Days {
    /// One day.
    One(Day),
    /// The last days that have entries, at most this number.
    Last(usize),
}

/// A day: a date such as 2026-11-16, `today` or `yesterday`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day(Date);

impl Day {
    /// The current day in the time zone of the user.
    pub fn today() -> Day {
        Day(Clock::system().now().date())
    }
}

impl std::str::FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Day, String> {
        let today = Day::today();
        match text {
            "today" => Ok(today),
            "yesterday" => Ok(Day(today.0.yesterday().unwrap_or(today.0))),
            date => date.parse().map(Day).map_err(|_| {
                format!(
                    "`{text}` is not a day; write a date such as 2026-11-16, today or yesterday"
                )
            }),
        }
    }
}

/// What was consumed on a day.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DayReport {
    /// The date.
    pub day: String,
    /// The sum.
    #[serde(flatten)]
    pub spent: Spent,
    /// The sessions, the one that was used last at the end.
    pub sessions: Vec<SessionReport>,
}

/// What was consumed in a session on a day.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionReport {
    /// The session.
    pub session: String,
    /// The agent.
    pub agent: String,
    /// The time of its last entry.
    pub time: String,
    /// The sum.
    #[serde(flatten)]
    pub spent: Spent,
}

/// A sum.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Spent {
    /// How many turns have ended with a known consumption.
    pub turns: u64,
    /// How many turns have an unknown consumption: they run, were lost, or failed before the agent had reported anything.
    #[serde(rename = "unknownTurns")]
    pub unknown_turns: u64,
    /// All tokens.
    #[serde(rename = "totalTokens")]
    pub total_tokens: u64,
    /// The tokens by kind.
    pub tokens: Tokens,
    /// How well they are known.
    #[serde(rename = "tokensAre")]
    pub tokens_are: Certainty,
    /// The cost by currency, as decimal numbers.
    pub cost: BTreeMap<String, String>,
    /// The sum in words.
    #[serde(skip)]
    pub text: String,
}

impl Spent {
    fn new(sum: &Sum, turns: u64, unknown_turns: u64) -> Spent {
        let cost =
            sum.costs.iter().map(|(currency, (micros, _))| (currency.clone(), amount(*micros)));
        Spent {
            turns,
            unknown_turns,
            total_tokens: sum.tokens.total(),
            tokens: sum.tokens,
            tokens_are: sum.certainty,
            cost: cost.collect(),
            text: describe(sum),
        }
    }
}

/// Reads days of a ledger. With `session`, only that session.
///
/// # Errors
/// A file cannot be read.
pub fn read(folder: &Path, days: Days, session: Option<&str>) -> Result<Vec<DayReport>, String> {
    let days = match days {
        Days::One(Day(day)) => vec![day],
        Days::Last(number) => {
            let all = days_in(folder);
            all[all.len().saturating_sub(number)..].to_vec()
        }
    };
    days.into_iter().map(|day| read_day(folder, day, session)).collect()
}

fn read_day(folder: &Path, day: Date, only: Option<&str>) -> Result<DayReport, String> {
    let path = path_of(folder, day);
    let totals = totals_of(&path, usize::MAX)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let open = |key: &SessionKey| totals.open.values().filter(|it| *it == key).count() as u64;
    let mut sessions = Vec::new();
    // Several chains may have a session with this id.
    let (mut sum, mut turns, mut unknown) = (Sum::default(), 0_u64, 0_u64);
    totals.sessions.for_each(|_, session| {
        let state = &session.state;
        if only.is_some_and(|only| only != state.key.session) {
            return;
        }
        let state_unknown = state.lost.saturating_add(open(&state.key));
        let spent = Spent::new(&state.sum, state.turns, state_unknown);
        sum.add(&state.sum);
        turns = turns.saturating_add(state.turns);
        unknown = unknown.saturating_add(state_unknown);
        sessions.push(SessionReport {
            session: state.key.session.clone(),
            agent: state.agent.clone(),
            time: state.time.clone(),
            spent,
        });
    });
    let spent = match only {
        Some(_) => Spent::new(&sum, turns, unknown),
        None => {
            let unknown = totals.lost.saturating_add(totals.open.len() as u64);
            Spent::new(&totals.sum, totals.turns, unknown)
        }
    };
    sessions.sort_by(|one, other| (&one.time, &one.session).cmp(&(&other.time, &other.session)));
    Ok(DayReport { day: day.to_string(), spent, sessions })
}
