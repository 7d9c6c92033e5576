//! Log: what passes, one line of JSON each.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use acp_proxy::{Call, Delivery, Id, Json, Message, Outcome, Proxy, Side};
use clap::{Parser, ValueEnum};
use serde_json::{Map, Value, json};

use crate::append;
use crate::catalog::Component;

/// Writes down what passes, as lines of JSON.
///
/// Each line has the time, the level, from which side the message came, its kind, method, id and
/// size, the session it is about, and for answers how long they took. What components send as
/// `_proxy/log` or `_scp/log` is written with its own level, and passed on to editors that say they
/// take it.
#[derive(Debug, Clone, Parser)]
pub struct Log {
    /// Where to write; what is there is kept. Only you can read the file afterwards. It has to be a regular
    /// file of yours, or something in /dev. Without this: standard error.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// How much: `error` and `warn` only what failed, `info` also requests and their answers, `debug`
    /// also notifications, `trace` also what they say.
    #[arg(long, value_name = "LEVEL", default_value = "info", hide_possible_values = true)]
    level: Level,

    /// At level `trace`, members with this in their name are left out, beside those that usually hold
    /// secrets (key, token, secret, password, authorization, cookie, environment, headers). May be
    /// given several times.
    #[arg(long, value_name = "WORD")]
    redact: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }

    fn named(name: &str) -> Level {
        Level::from_str(name, true).unwrap_or(Level::Info)
    }
}

const SECRETS: [&str; 8] =
    ["token", "secret", "password", "passwd", "authorization", "cookie", "api_key", "apikey"];

/// Objects whose values are secrets as often as not: environments and headers.
const HOLDERS: [&str; 2] = ["env", "headers"];

const REDACTED: &str = "[redacted]";

/// Where lines go, and what is needed to write the next one.
struct Writer {
    options: Log,
    out: Out,
    /// Open requests: who asked under which id, what, and when.
    open: BTreeMap<(Side, Id), (String, Instant)>,
    /// The editor says that it takes what components log.
    forwards: bool,
    /// It was said that lines are lost.
    complained: bool,
}

enum Out {
    Stderr,
    File(File),
}

impl Component for Log {
    const NAME: &'static str = "log";

    fn check(&self) -> Result<(), String> {
        self.open().map(drop)
    }

    fn make(&self) -> acp_proxy::Component {
        // If the file has become unwritable since it was checked, standard error has to do.
        let out = self.open().unwrap_or(Out::Stderr);
        let writer = Writer {
            options: self.clone(),
            out,
            open: BTreeMap::new(),
            forwards: false,
            complained: false,
        };
        let writer = Arc::new(Mutex::new(writer));
        let observed = writer.clone();
        let proxy = Proxy::new("log").observe(move |from, message| {
            let mut writer = observed.lock().unwrap_or_else(PoisonError::into_inner);
            writer.on_message(from, message);
        });
        let proxy = ["_proxy/log", "_scp/log"].into_iter().fold(proxy, |proxy, method| {
            let writer = writer.clone();
            proxy.on_raw_notification(Side::Agent, method, move |call, _| {
                let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                writer.on_log(call);
                if writer.forwards { Delivery::Forward } else { Delivery::Drop }
            })
        });
        proxy.into()
    }
}

impl Log {
    fn open(&self) -> Result<Out, String> {
        let Some(path) = &self.file else { return Ok(Out::Stderr) };
        // What passes is for its user alone.
        let file = append::open(path);
        file.map(Out::File)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }
}

impl Writer {
    fn on_message(&mut self, from: Side, message: &Message) {
        match message {
            Message::Request { id, call } => {
                if call.is("initialize") && from == Side::Editor {
                    self.forwards = takes_logs(call);
                }
                let method = call.method.name().into_owned();
                let asked = (method.clone(), Instant::now());
                self.open.insert((from, id.detached()), asked);
                self.write(
                    Level::Info,
                    from,
                    "request",
                    Some(id),
                    &method,
                    call.params.as_ref(),
                    None,
                );
            }
            Message::Notification(call) if is_log(call) => {}
            Message::Notification(call) => {
                let method = call.method.name();
                self.write(
                    Level::Debug,
                    from,
                    "notification",
                    None,
                    &method,
                    call.params.as_ref(),
                    None,
                );
            }
            Message::Response { id, outcome, .. } => self.on_answer(from, id, outcome),
        }
    }

    fn on_answer(&mut self, from: Side, id: &Id, outcome: &Outcome) {
        let asked = self.open.remove(&(from.opposite(), id.clone()));
        let (method, took) = match &asked {
            Some((method, since)) => (method.as_str(), Some(since.elapsed())),
            None => ("", None),
        };
        match outcome {
            Outcome::Result(result) => {
                self.write(Level::Info, from, "result", Some(id), method, Some(result), took);
            }
            Outcome::Error(error) => {
                self.write(Level::Warn, from, "error", Some(id), method, Some(error), took);
            }
        }
    }

    fn on_log(&mut self, call: &Call) {
        let text = |key: &str| {
            let value = call.params.as_ref()?.member(key)?;
            value.text().map(|text| text.into_owned())
        };
        let level = Level::named(&text("level").unwrap_or_default());
        if level > self.options.level {
            return;
        }
        let data = call.params.as_ref().and_then(|params| params.member("data"));
        let line = json!({
            "time": now(),
            "level": level.name(),
            "kind": "log",
            "message": text("message"),
            "data": data.map(|data| self.redacted(&data)),
        });
        self.put(line);
    }

    #[allow(clippy::too_many_arguments)] // a line of a log has this many parts
    fn write(
        &mut self,
        level: Level,
        from: Side,
        kind: &str,
        id: Option<&Id>,
        method: &str,
        said: Option<&Json>,
        took: Option<Duration>,
    ) {
        if level > self.options.level {
            return;
        }
        let mut line = Map::new();
        line.insert("time".into(), now().into());
        line.insert("level".into(), level.name().into());
        line.insert("from".into(), if from == Side::Editor { "editor" } else { "agent" }.into());
        line.insert("kind".into(), kind.into());
        if !method.is_empty() {
            line.insert("method".into(), method.into());
        }
        if let Some(id) = id {
            line.insert(
                "id".into(),
                serde_json::from_slice(id.json().as_bytes()).unwrap_or(Value::Null),
            );
        }
        let session =
            said.and_then(|said| said.member("sessionId")?.text().map(|it| it.into_owned()));
        if let Some(session) = session {
            line.insert("session".into(), session.into());
        }
        line.insert("size".into(), said.map_or(0, |said| said.as_bytes().len()).into());
        if let Some(took) = took {
            line.insert("milliseconds".into(), (took.as_micros() as f64 / 1000.0).into());
        }
        let failed = level <= Level::Warn;
        if let Some(said) = said.filter(|_| failed || self.options.level == Level::Trace) {
            line.insert("says".into(), self.redacted(said));
        }
        self.put(Value::Object(line));
    }

    fn redacted(&self, json: &Json) -> Value {
        let mut value = serde_json::from_slice(json.as_bytes())
            .unwrap_or_else(|_| Value::String("[numbers that cannot be shown]".into()));
        redact(&mut value, &self.options.redact, false);
        value
    }

    /// A log that cannot be written is no reason to stop.
    fn put(&mut self, line: Value) {
        let line = format!("{}\n", printable(&line.to_string()));
        let written = match &mut self.out {
            Out::Stderr => io::stderr().write_all(line.as_bytes()),
            Out::File(file) => file.write_all(line.as_bytes()),
        };
        if let Err(error) = written
            && !std::mem::replace(&mut self.complained, true)
        {
            let _ = writeln!(io::stderr(), "log: lines are lost: {error}");
        }
    }
}

/// JSON without characters that a terminal obeys: they are written by their numbers. (Other control
/// characters never occur in JSON.)
fn printable(json: &str) -> String {
    let obeyed = |it: char| match it {
        '\u{61c}' | '\u{200e}' | '\u{200f}' => true,
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => it.is_control(),
    };
    let mut text = String::with_capacity(json.len());
    for it in json.chars() {
        match obeyed(it) {
            true => text.push_str(&format!("\\u{:04x}", u32::from(it))),
            false => text.push(it),
        }
    }
    text
}

fn is_log(call: &Call) -> bool {
    call.is("_proxy/log") || call.is("_scp/log")
}

/// An SCP editor takes `_scp/log`, and what is like it.
fn takes_logs(call: &Call) -> bool {
    let places: [&[&str]; 2] =
        [&["_meta", "symposium"], &["clientCapabilities", "_meta", "symposium"]];
    places.iter().any(|place| call.params.as_ref().and_then(|params| params.at(place)).is_some())
}

fn redact(value: &mut Value, words: &[String], held: bool) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let lower = key.to_lowercase();
                let secret = SECRETS.iter().any(|it| lower.contains(it))
                    || lower == "key"
                    || words.iter().any(|it| lower.contains(&it.to_lowercase()));
                let plain = !value.is_object() && !value.is_array();
                if held && !secret && lower == "name" {
                    // In a list of names and values, the name is no secret.
                } else if plain && (secret || held) {
                    *value = REDACTED.into();
                } else {
                    redact(value, words, held || secret || HOLDERS.contains(&lower.as_str()));
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|it| redact(it, words, held)),
        Value::String(_) if held => *value = REDACTED.into(),
        _ => {}
    }
}

/// The time as people and programs write it: `2026-11-15T14:03:07.123Z`.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp(since.as_secs(), since.subsec_millis())
}

fn timestamp(seconds: u64, milliseconds: u32) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// The date of a day that is so many days after 1970-01-01. Years begin in March here, so that the
/// odd day is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_everybody_does() {
        assert_eq!(timestamp(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_399, 7), "2000-02-28T23:59:59.007Z");
        assert_eq!(timestamp(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(timestamp(1_794_751_387, 123), "2026-11-15T14:03:07.123Z");
    }

    #[test]
    fn what_a_terminal_obeys_is_written_by_its_number() {
        let said = json!({ "text": "a\u{9b}2J\u{202e}b\u{7f}\u{1b}é" });
        let line = printable(&said.to_string());
        assert!(line.chars().all(|it| !it.is_control()), "{line:?}");
        assert!(line.contains("\\u202eb") && line.contains('é'), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), said);
    }

    #[test]
    fn secrets_are_left_out_wherever_they_are() {
        let mut value = json!({
            "apiKey": "1", "x": { "Authorization": "2", "fine": "seen" }, "accessToken": 3,
            "env": [{ "name": "A", "value": "4" }], "headers": { "X-Any": "5" }, "mine": "6",
            "tokens": ["7"], "text": "seen",
        });
        redact(&mut value, &["mine".into()], false);
        let text = value.to_string();
        for secret in 1..=7 {
            assert!(
                !text.contains(&format!("\"{secret}\"")) && !text.contains(":3"),
                "{secret}: {text}"
            );
        }
        assert_eq!(text.matches("seen").count(), 2);
        assert!(text.contains(r#""name":"A""#));
    }
}
