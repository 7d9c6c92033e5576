//! Finds records in an audit log, for a reader.

use std::collections::VecDeque;
use std::path::Path;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::files::Names;
use super::read::{ChainFiles, Line, Lines};
use crate::options::Interval;

/// Which records are wanted. A record must fit all that is set.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The id of the session, or its beginning.
    pub session: Option<String>,
    /// `allow`, `deny` or `ask`.
    pub decision: Option<String>,
    /// A part of the name of the rule, or of `FILE:LINE`.
    pub rule: Option<String>,
    /// The event, such as `decision`.
    pub event: Option<String>,
    /// Not before this time.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
}

/// The records that were found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The newest of them, oldest first.
    pub records: Vec<Value>,
    /// How many older ones were left out.
    pub left_out: u64,
    /// How many lines are not records.
    pub unreadable: u64,
}

/// Finds the newest `limit` records in a log and in those of further runs beside it.
///
/// # Errors
/// There is no log, or it cannot be read.
pub fn show(file: &Path, filter: &Filter, limit: usize) -> Result<Found, String> {
    let chains = Names::new(file)?.existing_runs();
    if chains.is_empty() {
        return Err(format!("there is no audit log {}", file.display()));
    }
    let mut found = Found::default();
    for names in &chains {
        let mut newest = VecDeque::new();
        for file in ChainFiles::open(names)? {
            let (path, lines) = file?;
            read(&path, lines, filter, limit, &mut newest, &mut found)?;
        }
        found.records.extend(newest);
    }
    // The records of one run are in order. Those of different runs are sorted by time.
    if chains.len() > 1 {
        found.records.sort_by(|a, b| text(a, "time").cmp(&text(b, "time")));
        let extra = found.records.len().saturating_sub(limit);
        found.records.drain(..extra);
        found.left_out += extra as u64;
    }
    Ok(found)
}

fn read(
    path: &Path,
    mut lines: Lines,
    filter: &Filter,
    limit: usize,
    newest: &mut VecDeque<Value>,
    found: &mut Found,
) -> Result<(), String> {
    loop {
        let line = lines.next();
        match line.map_err(|error| format!("cannot read {}: {error}", path.display()))? {
            None => return Ok(()),
            Some(Line::Whole(line)) => match serde_json::from_slice::<Value>(&line) {
                Ok(record) if record.is_object() => {
                    if filter.fits(&record) {
                        newest.push_back(record);
                    }
                    if newest.len() > limit {
                        newest.pop_front();
                        found.left_out += 1;
                    }
                }
                _ => found.unreadable += 1,
            },
            Some(Line::Torn(_) | Line::TooLong) => found.unreadable += 1,
        }
    }
}

fn text<'a>(record: &'a Value, member: &str) -> Option<&'a str> {
    record.get(member)?.as_str()
}

impl Filter {
    fn fits(&self, record: &Value) -> bool {
        let is = |wanted: &Option<String>, member: &str| {
            wanted.as_deref().is_none_or(|wanted| text(record, member) == Some(wanted))
        };
        let session = self.session.as_deref().is_none_or(|wanted| {
            text(record, "session").is_some_and(|session| session.starts_with(wanted))
        });
        let rule = self.rule.as_deref().is_none_or(|wanted| rule(record).contains(wanted));
        is(&self.decision, "decision")
            && is(&self.event, "event")
            && session
            && rule
            && self.fits_time(record)
    }

    fn fits_time(&self, record: &Value) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        let time = text(record, "time").and_then(|time| time.parse::<Timestamp>().ok());
        time.is_some_and(|time| {
            self.since.is_none_or(|since| time >= since)
                && self.until.is_none_or(|until| time < until)
        })
    }
}

/// What a record is about, in one text: the action, or the details of the event.
pub fn subject(record: &Value) -> String {
    let what = record.get("what").or(record.get("details")).unwrap_or(&Value::Null);
    let main =
        ["command", "path", "url", "text", "message"].iter().find_map(|member| text(what, member));
    match (main, what) {
        (Some(main), Value::Object(members)) if members.len() == 1 => main.to_owned(),
        (_, Value::Null) => String::new(),
        _ => what.to_string(),
    }
}

/// The rule of a record: its name, and where it is written.
pub fn rule(record: &Value) -> String {
    let Some(rule) = record.get("rule") else { return String::new() };
    let place = text(rule, "file").map(|file| match rule.get("line") {
        Some(line) => format!("{file}:{line}"),
        None => file.to_owned(),
    });
    match (text(rule, "name"), place) {
        (Some(name), Some(place)) => format!("{name} ({place})"),
        (Some(name), None) => name.to_owned(),
        (None, place) => place.unwrap_or_default(),
    }
}

/// Reads a time like [`parse_time_at`], now.
///
/// # Errors
/// The text is not a time.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    parse_time_at(text, Timestamp::now())
}

/// Reads a time: RFC 3339, a date or a time without a zone (in the zone of the user), or an age such as `2h`.
///
/// # Errors
/// The text is none of these.
pub fn parse_time_at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(Interval(age)) = text.parse() {
        let age = SignedDuration::try_from(age).map_err(|error| error.to_string())?;
        return now.checked_sub(age).map_err(|error| error.to_string());
    }
    let local = match text.parse::<DateTime>() {
        Ok(time) => Some(time),
        Err(_) => text.parse::<Date>().ok().map(|date| date.at(0, 0, 0, 0)),
    };
    let zoned = local.and_then(|time| time.to_zoned(TimeZone::system()).ok());
    zoned.map(|time| time.timestamp()).ok_or_else(|| {
        format!("'{text}' is not a time; write 2026-11-16T14:00:00Z, 2026-11-16T14:00, 2026-11-16, or an age such as 2h")
    })
}
