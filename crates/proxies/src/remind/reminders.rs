//! The reminders that are set.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// How many reminders there may be in a session, and in all. As many texts of a session can wait to be shown.
const MAX_IN_SESSION: usize = 64;
const MAX_IN_ALL: usize = 6400;

/// The maximum length of a text, in bytes.
const MAX_TEXT: usize = 4096;

/// How many sessions have texts for their next prompt, and how many texts each.
const MAX_SESSIONS: usize = 1000;

/// How many turns reminders may start in a session without a prompt of the user between them. An agent that sets a
/// reminder in each of these turns would otherwise work for ever.
const MAX_TURNS: u32 = 10;

const SECOND: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// All reminders. It is a handle: clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Reminders {
    table: Arc<Mutex<Table>>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Table {
    reminders: Vec<Reminder>,
    last_number: u64,
    /// Texts for the next prompt of a session.
    for_prompt: HashMap<String, Vec<String>>,
    /// How many turns reminders have started in a session since the last prompt of the user.
    turns: HashMap<String, u32>,
}

#[derive(Debug)]
struct Reminder {
    number: u64,
    session: String,
    set: Duration,
    due: Duration,
    text: String,
    /// Whether it is due, and the component is about to show it.
    is_taken: bool,
    /// Whether its text is kept for the next prompt.
    is_for_prompt: bool,
}

/// A reminder that is due.
#[derive(Debug, PartialEq)]
pub(super) struct Due {
    pub(super) number: u64,
    pub(super) session: String,
    pub(super) text: String,
    /// How long ago it was set.
    pub(super) set_before: Duration,
}

impl Reminders {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals each new reminder.
    pub(super) fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    /// Sets a reminder. Returns its number.
    pub(super) fn add(
        &self,
        session: &str,
        time: Duration,
        text: &str,
        now: Duration,
    ) -> Result<u64, String> {
        if text.trim().is_empty() || text.len() > MAX_TEXT {
            return Err(format!("the text must have between 1 and {MAX_TEXT} bytes"));
        }
        let mut table = self.table();
        let count = table.reminders.iter().filter(|it| it.session == session).count();
        if count >= MAX_IN_SESSION || table.reminders.len() >= MAX_IN_ALL {
            return Err(format!(
                "there are too many reminders (at most {MAX_IN_SESSION} in a session); cancel one with cancel_reminder"
            ));
        }
        table.last_number += 1;
        let number = table.last_number;
        table.reminders.push(Reminder {
            number,
            session: session.to_owned(),
            set: now,
            due: now + time,
            text: text.trim().to_owned(),
            is_taken: false,
            is_for_prompt: false,
        });
        self.changed.notify_one();
        Ok(number)
    }

    /// Takes the reminders that are due, in order. Also returns the time until the next one. A reminder stays in the
    /// table until [`remove`](Self::remove), so that a restart of the component does not lose it.
    pub(super) fn take_due(&self, now: Duration) -> (Vec<Due>, Option<Duration>) {
        let mut table = self.table();
        let is_due = |it: &&mut Reminder| !it.is_taken && it.due <= now;
        let mut due: Vec<&mut Reminder> = table.reminders.iter_mut().filter(is_due).collect();
        due.sort_by_key(|it| (it.due, it.number));
        let due = due.into_iter().map(|it| {
            it.is_taken = true;
            let (number, session, text) = (it.number, it.session.clone(), it.text.clone());
            Due { number, session, text, set_before: now.saturating_sub(it.set) }
        });
        (due.collect(), table.next(now))
    }

    /// A reminder was shown.
    pub(super) fn remove(&self, number: u64) {
        self.table().reminders.retain(|it| it.number != number);
    }

    /// The reminders that were taken, but not shown, are due again: those of a session, or all.
    pub(super) fn release(&self, session: Option<&str>) {
        for it in &mut self.table().reminders {
            it.is_taken &= session.is_some_and(|session| it.session != session);
        }
        self.changed.notify_one();
    }

    /// The reminders of a session, as a text.
    pub(super) fn list(&self, session: &str, now: Duration) -> String {
        let table = self.table();
        let own = table.reminders.iter().filter(|it| it.session == session && !it.is_taken);
        let lines: Vec<String> = own
            .map(|it| {
                format!("{}: in {}: {}", it.number, describe(it.due.saturating_sub(now)), it.text)
            })
            .collect();
        match lines.is_empty() {
            true => "No reminder is set.".to_owned(),
            false => lines.join("\n"),
        }
    }

    /// Cancels a reminder.
    pub(super) fn cancel(&self, session: &str, number: u64) -> Result<(), String> {
        let mut table = self.table();
        let is_meant = |it: &Reminder| it.session == session && it.number == number && !it.is_taken;
        let index = table.reminders.iter().position(is_meant);
        let index =
            index.ok_or_else(|| format!("there is no reminder {number} in this session"))?;
        table.reminders.remove(index);
        Ok(())
    }

    /// A session has ended.
    pub(super) fn forget(&self, session: &str) {
        let mut table = self.table();
        table.reminders.retain(|it| it.session != session);
        table.for_prompt.remove(session);
        table.turns.remove(session);
    }

    /// A reminder is about to start a turn. Returns whether it may: there is a limit for those without a prompt of the
    /// user between them.
    pub(super) fn may_start_turn(&self, session: &str) -> bool {
        let mut table = self.table();
        if table.turns.len() >= MAX_SESSIONS && !table.turns.contains_key(session) {
            return false;
        }
        let turns = table.turns.entry(session.to_owned()).or_default();
        *turns += 1;
        *turns <= MAX_TURNS
    }

    /// Keeps the text of a reminder for the next prompt of its session. Returns whether there is room for it.
    pub(super) fn keep_for_prompt(&self, number: u64, session: &str, text: String) -> bool {
        let mut table = self.table();
        let reminder = table.reminders.iter_mut().find(|it| it.number == number);
        if reminder.is_some_and(|it| std::mem::replace(&mut it.is_for_prompt, true)) {
            return true;
        }
        if table.for_prompt.len() >= MAX_SESSIONS && !table.for_prompt.contains_key(session) {
            return false;
        }
        let texts = table.for_prompt.entry(session.to_owned()).or_default();
        let has_room = texts.len() < MAX_IN_SESSION;
        if has_room {
            texts.push(text);
        }
        has_room
    }

    /// The user prompts the agent. Returns the texts for this prompt, the last one first.
    pub(super) fn on_prompt(&self, session: &str) -> Vec<String> {
        let mut table = self.table();
        table.turns.remove(session);
        table.for_prompt.remove(session).unwrap_or_default()
    }

    /// What `conductor status` shows.
    pub(super) fn status(&self, now: Duration) -> Vec<String> {
        let table = self.table();
        let count = table.reminders.iter().filter(|it| !it.is_taken).count();
        vec![match table.next(now) {
            Some(next) => format!("{count} reminders, the next in {}", describe(next)),
            None => "no reminders".to_owned(),
        }]
    }
}

impl Table {
    /// The time until the next reminder.
    fn next(&self, now: Duration) -> Option<Duration> {
        let waiting = self.reminders.iter().filter(|it| !it.is_taken);
        waiting.map(|it| it.due.saturating_sub(now)).min()
    }
}

/// Reads a time such as `10m`, `1h30m` or `2 hours`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "`{text}` is not a time; write a number with a unit, such as 30s, 10m, 2h, 1h30m or 1d"
        )
    };
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.len() - after.trim_start_matches(char::is_alphabetic).len();
        let (unit, after) = after.split_at(letters);
        let seconds: u64 = match unit.to_lowercase().as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
            "d" | "day" | "days" => 86_400,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let part = number.checked_mul(seconds).ok_or_else(wrong)?;
        sum = sum.checked_add(Duration::from_secs(part)).ok_or_else(wrong)?;
        rest = after.trim_start_matches([' ', ',']);
    }
    match sum {
        sum if sum < SECOND => Err(wrong()),
        sum if sum > LONGEST => Err("a reminder can be at most 30 days away".to_owned()),
        sum => Ok(sum),
    }
}

/// A time in words of the units, such as `1h 30m`.
pub(super) fn describe(time: Duration) -> String {
    let mut seconds = time.as_secs();
    let mut parts = Vec::new();
    for (unit, length) in [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)] {
        if seconds >= length {
            parts.push(format!("{}{unit}", seconds / length));
            seconds %= length;
        }
    }
    match parts.is_empty() {
        true => "0s".to_owned(),
        false => parts.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_many_forms() {
        for (text, seconds) in [
            ("30s", 30),
            ("10m", 600),
            ("2h", 7200),
            ("1h30m", 5400),
            ("1h 30m", 5400),
            ("2 hours, 5 minutes", 7500),
            ("1 day", 86_400),
            (" 90 Seconds ", 90),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "10",
            "m",
            "0s",
            "10x",
            "-5m",
            "1.5h",
            "tomorrow",
            "31d",
            "99999999999999999999h",
            "5m ago",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(describe(Duration::from_secs(93_784)), "1d 2h 3m 4s");
        assert_eq!(describe(Duration::ZERO), "0s");
    }

    #[test]
    fn a_text_for_which_there_is_no_room_is_reported() {
        let reminders = Reminders::default();
        for session in 0..MAX_SESSIONS {
            assert!(reminders.keep_for_prompt(0, &session.to_string(), "x".to_owned()));
        }
        assert!(!reminders.keep_for_prompt(0, "one more", "x".to_owned()));
        for _ in 1..MAX_IN_SESSION {
            assert!(reminders.keep_for_prompt(0, "0", "x".to_owned()));
        }
        assert!(!reminders.keep_for_prompt(0, "0", "x".to_owned()));
    }

    #[test]
    fn reminders_are_due_in_order_and_their_number_is_limited() {
        let reminders = Reminders::default();
        let now = Duration::from_secs(1000);
        let add = |session: &str, seconds: u64| {
            reminders.add(session, Duration::from_secs(seconds), "x", now)
        };
        assert_eq!((add("a", 20), add("b", 10)), (Ok(1), Ok(2)));
        let (due, next) = reminders.take_due(now + Duration::from_secs(9));
        assert_eq!((due, next), (Vec::new(), Some(SECOND)));
        let (due, next) = reminders.take_due(now + Duration::from_secs(30));
        assert_eq!(due.iter().map(|it| it.session.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(next, None);
        // One is shown. The component restarts and takes the other one again.
        reminders.remove(2);
        assert_eq!(reminders.take_due(now + SECOND).0, []);
        reminders.release(None);
        let (due, _) = reminders.take_due(now + Duration::from_secs(30));
        assert_eq!(due.iter().map(|it| it.number).collect::<Vec<_>>(), [1]);
        reminders.remove(1);
        for _ in 0..MAX_IN_SESSION {
            add("a", 10).expect("below the limit");
        }
        assert!(add("a", 10).is_err());
        for session in 1..MAX_IN_ALL / MAX_IN_SESSION {
            for _ in 0..MAX_IN_SESSION {
                add(&session.to_string(), 10).expect("below the limit");
            }
        }
        assert!(add("one more session", 10).is_err());
        reminders.forget("1");
        assert!(add("one more session", 10).is_ok());
    }
}
