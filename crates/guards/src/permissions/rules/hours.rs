//! Hours of the day and days of the week in which a rule applies.

use jiff::civil::{Time, Weekday};

/// Hours such as `08:00-18:00` or `Mon-Fri 08:00-18:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hours {
    days: Option<(Weekday, Weekday)>,
    from: Time,
    /// The end. Not part of the hours.
    to: Time,
}

const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

impl Hours {
    /// Reads hours.
    ///
    /// # Errors
    /// What is wrong, with an example.
    pub(crate) fn parse(text: &str) -> Result<Hours, String> {
        let fail = || {
            format!(
                "`{text}` are not hours; write them like `08:00-18:00` or `Mon-Fri 08:00-18:00`"
            )
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (days, hours) = match words.as_slice() {
            [hours] => (None, *hours),
            [days, hours] => (Some(parse_days(days).ok_or_else(fail)?), *hours),
            _ => return Err(fail()),
        };
        let (from, to) = hours.split_once('-').ok_or_else(fail)?;
        let (from, to) = (parse_time(from).ok_or_else(fail)?, parse_time(to).ok_or_else(fail)?);
        if from == to {
            return Err(format!(
                "`{text}` is no time at all: it ends when it begins; leave `hours` out for the whole day"
            ));
        }
        Ok(Hours { days, from, to })
    }

    /// Whether this time is in the hours. Hours over midnight belong to the day on which they begin.
    pub(crate) fn contains(&self, now: &jiff::Zoned) -> bool {
        let time = now.time();
        let after_midnight = self.from > self.to && time < self.to;
        let inside = match self.from < self.to {
            true => self.from <= time && time < self.to,
            false => self.from <= time || after_midnight,
        };
        let day = if after_midnight { now.weekday().previous() } else { now.weekday() };
        inside && self.days.is_none_or(|(first, last)| is_between(day, first, last))
    }
}

fn is_between(day: Weekday, first: Weekday, last: Weekday) -> bool {
    let offset =
        |it: Weekday| (it.to_monday_zero_offset() - first.to_monday_zero_offset()).rem_euclid(7);
    offset(day) <= offset(last)
}

fn parse_days(text: &str) -> Option<(Weekday, Weekday)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let day = |name: &str| {
        let name = name.to_lowercase();
        DAYS.iter()
            .find(|(short, _)| name.len() >= 3 && name.starts_with(short))
            .map(|(_, day)| *day)
    };
    Some((day(first)?, day(last)?))
}

fn parse_time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let digits = |it: &str| it.len() <= 2 && it.chars().all(|it| it.is_ascii_digit());
    if !digits(hour) || !digits(minute) {
        return None;
    }
    match (hour.parse::<i8>().ok()?, minute.parse::<i8>().ok()?) {
        (24, 0) => Some(Time::midnight()),
        (hour, minute) => Time::new(hour, minute, 0, 0).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(hours: &str, now: &str) -> bool {
        let now: jiff::Zoned = now.parse().expect(now);
        Hours::parse(hours).expect(hours).contains(&now)
    }

    #[test]
    fn hours_begin_and_end_and_may_pass_midnight() {
        // 2026-11-16 is a Monday.
        for (hours, time, inside) in [
            ("08:00-18:00", "08:00", true),
            ("08:00-18:00", "18:00", false),
            ("08:00-18:00", "07:59", false),
            ("22:00-06:00", "23:30", true),
            ("22:00-06:00", "05:59", true),
            ("22:00-06:00", "12:00", false),
            ("00:00-24:00", "12:00", false),
            ("mon-fri 08:00-18:00", "09:00", true),
            ("Sat-Sun 08:00-18:00", "09:00", false),
            ("Sun-Tue 08:00-18:00", "09:00", true),
            ("Sun 22:00-06:00", "05:00", true),
            ("Mon 22:00-06:00", "05:00", false),
        ] {
            if hours == "00:00-24:00" {
                assert!(Hours::parse(hours).is_err());
                continue;
            }
            let now = format!("2026-11-16T{time}[Europe/Berlin]");
            assert_eq!(contains(hours, &now), inside, "{hours} {time}");
        }
    }

    #[test]
    fn hours_that_are_not_understood_are_refused() {
        for text in [
            "",
            "8-18",
            "08:00",
            "08:00-25:00",
            "08:60-09:00",
            "Foo 08:00-18:00",
            "08:00-08:00",
            "a b c",
        ] {
            assert!(Hours::parse(text).is_err(), "{text}");
        }
    }
}
