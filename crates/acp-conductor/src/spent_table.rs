//! The tables of `conductor spent`.

use acp_wire::printable::one_line;
use components::budget::report::{DayReport, Spent};

use crate::columns::{Columns, shorten};

/// The widest name of an agent or a session.
const MAX_NAME: usize = 40;

/// A day: a line for each session, and the sum.
pub fn of_day(day: &DayReport) -> Vec<String> {
    if day.sessions.is_empty() {
        return vec![format!("{}: nothing is recorded", day.day)];
    }
    let name = |text: &str| shorten(&one_line(text), MAX_NAME);
    let mut rows = vec![["SESSION", "AGENT", "TURNS", "CONSUMED"].map(str::to_owned)];
    for session in &day.sessions {
        let (turns, consumed) = cells(&session.spent);
        rows.push([name(&session.session), name(&session.agent), turns, consumed]);
    }
    let (turns, consumed) = cells(&day.spent);
    rows.push([day.day.clone(), "all".to_owned(), turns, consumed]);
    lines(&rows)
}

/// A line for each day.
pub fn of_days(days: &[DayReport]) -> Vec<String> {
    if days.is_empty() {
        return vec!["nothing is recorded".to_owned()];
    }
    let mut rows = vec![["DAY", "TURNS", "CONSUMED"].map(str::to_owned)];
    for day in days {
        let (turns, consumed) = cells(&day.spent);
        rows.push([day.day.clone(), turns, consumed]);
    }
    lines(&rows)
}

fn cells(spent: &Spent) -> (String, String) {
    let unknown = match spent.unknown_turns {
        0 => String::new(),
        1 => ", and 1 turn of unknown consumption".to_owned(),
        number => format!(", and {number} turns of unknown consumption"),
    };
    (spent.turns.to_string(), format!("{}{unknown}", spent.text))
}

fn lines(rows: &[impl AsRef<[String]>]) -> Vec<String> {
    let columns = Columns::of(rows);
    rows.iter().map(|row| columns.line(row.as_ref()).trim_end().to_owned()).collect()
}
