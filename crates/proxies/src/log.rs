//! The component `log`: writes a line of JSON for each message.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use acp_proxy::{Call, Id, Json, LogLevel, Message, Outcome, Proxy, Side};
use acp_wire::ErrorKind;
use acp_wire::telemetry::{self, LOG, SCP_LOG};
use clap::{Parser, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::telemetry::Collector;
use component_base::append;
use component_base::audit;
use component_base::{BuiltIn, OptionError};
use secrets::{Secrets, has_secret_values, is_secret_name};

/// Logs all messages that pass, as lines of JSON.
///
/// Each line has the time, the level, the side that the message comes from, its kind, method, id and
/// size, the session, and for answers the response time. Messages `_proxy/log` and `_scp/log` of
/// components are logged with their own level.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// The file to append to. It must be a regular file that belongs to you, or a path in /dev.
    /// Other users cannot read it. Default: standard error.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// How much to log. `error`: only errors that components report with `_proxy/log` or `_scp/log`. `warn`:
    /// also requests that fail, with the error. `info`: also requests and results. `debug`: also
    /// notifications. `trace`: also the content of all messages.
    #[arg(long, value_name = "LEVEL", default_value = "info", hide_possible_values = true)]
    level: Level,

    /// Redact JSON members whose name contains WORD, wherever content is logged. Members that usually hold secrets
    /// (key, token, secret, password, authorization, cookie, environment, headers) are always redacted.
    /// Repeatable.
    #[arg(long, value_name = "WORD")]
    redact: Vec<String>,

    /// Write nothing to standard error, not even errors. For a program that uses the terminal.
    #[arg(long, hide = true, requires = "file")]
    no_stderr: bool,
}

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    ValueEnum,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
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
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Level {
        match level {
            LogLevel::Error => Level::Error,
            LogLevel::Warn => Level::Warn,
            LogLevel::Info => Level::Info,
            LogLevel::Debug => Level::Debug,
            LogLevel::Trace => Level::Trace,
        }
    }
}

/// The methods of log messages of other components.
const LOGS: [&str; 2] = [LOG, SCP_LOG];

const REDACTED: &str = "[redacted]";

/// How many requests may be open. The answers to further ones are logged without method and response time.
const MAX_OPEN: usize = 10_000;

/// Writes the log.
struct LogWriter {
    options: Log,
    out: LogOutput,
    /// The method and start time of each open request, by the side that has sent it and its id.
    open: BTreeMap<(Side, Id), (String, Instant)>,
    /// Whether a lost line has been reported.
    reported_loss: bool,
}

enum LogOutput {
    Stderr,
    File(File),
    Nowhere,
}

impl Default for Log {
    fn default() -> Log {
        Log::parse_from([Log::NAME])
    }
}

impl BuiltIn for Log {
    const NAME: &'static str = "log";
    const COLLECTS_TELEMETRY: bool = true;

    fn check(&self) -> Result<(), OptionError> {
        let unwritable = |why| OptionError { kind: ErrorKind::UnwritableFile, why };
        self.open().map(drop).map_err(unwritable)
    }

    fn build(&self) -> acp_proxy::Component {
        // If the file has become unwritable since the check, the log goes to standard error.
        let fallback = if self.no_stderr { LogOutput::Nowhere } else { LogOutput::Stderr };
        let out = self.open().unwrap_or(fallback);
        let writer =
            LogWriter { options: self.clone(), out, open: BTreeMap::new(), reported_loss: false };
        let writer = Arc::new(Mutex::new(writer));
        let observed = writer.clone();
        let proxy = Proxy::new("log").observe(move |from, message| {
            lock(&observed).on_message(from, message);
        });
        let (collector, passing) = (Collector::default(), writer.clone());
        let proxy = collector.watch(proxy, &LOGS, move |component, call| {
            lock(&passing).on_log(component, call);
        });
        // The messages of the whole chain. The conductor must not wait for the file.
        let waiting = Arc::new(WaitingLogs::default());
        let (receiver, end) = (waiting.clone(), (waiting.clone(), writer.clone()));
        proxy
            .observe_chain(move |event| {
                let log = collector.on_event(event).filter(|(_, call)| is_log(call));
                if let Some((place, call)) = log {
                    waiting.push(telemetry::sender(place, call.params.as_ref()), call);
                }
            })
            .on_start(async move |_| {
                loop {
                    receiver.arrived.notified().await;
                    receiver.write(&writer);
                }
            })
            .on_end(async move |_| end.0.write(&end.1))
            .into()
    }
}

impl Log {
    fn open(&self) -> Result<LogOutput, String> {
        let Some(path) = &self.file else { return Ok(LogOutput::Stderr) };
        let file = append::open(path);
        file.map(LogOutput::File)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }
}

impl LogWriter {
    fn on_message(&mut self, from: Side, message: &Message) {
        match message {
            Message::Request { id, call } => {
                let method = call.method.name().into_owned();
                if self.open.len() < MAX_OPEN {
                    let started = (method.clone(), Instant::now());
                    self.open.insert((from, id.detached()), started);
                }
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
        let request = self.open.remove(&(from.opposite(), id.clone()));
        let (method, took) = match &request {
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

    fn on_log(&mut self, component: Option<String>, call: &Call) {
        let text = |key: &str| {
            let value = call.params.as_ref()?.member(key)?;
            value.text().map(|text| text.into_owned())
        };
        let level = Level::from(LogLevel::from_name(&text("level").unwrap_or_default()));
        if level > self.options.level {
            return;
        }
        let data = call.params.as_ref().and_then(|params| params.member("data"));
        let line = json!({
            "time": now(),
            "level": level.name(),
            "component": component.map(|it| shown(&it)),
            "kind": "log",
            "message": text("message").map(|it| shown(&it)),
            "data": data.map(|data| self.redacted(&data)),
        });
        self.put(line);
    }

    #[allow(clippy::too_many_arguments)] // one for each member of the line
    fn write(
        &mut self,
        level: Level,
        from: Side,
        kind: &str,
        id: Option<&Id>,
        method: &str,
        payload: Option<&Json>,
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
            line.insert("method".into(), shown(method).into());
        }
        if let Some(id) = id {
            let mut id = serde_json::from_slice(id.json().as_bytes()).unwrap_or(Value::Null);
            redact(&mut id, &[], false);
            line.insert("id".into(), id);
        }
        let session = payload
            .and_then(|payload| payload.member("sessionId")?.text().map(|it| it.into_owned()));
        if let Some(session) = session {
            line.insert("session".into(), shown(&session).into());
        }
        line.insert("size".into(), payload.map_or(0, |payload| payload.as_bytes().len()).into());
        if let Some(took) = took {
            line.insert("milliseconds".into(), (took.as_micros() as f64 / 1000.0).into());
        }
        let failed = level <= Level::Warn;
        if let Some(payload) = payload.filter(|_| failed || self.options.level == Level::Trace) {
            line.insert("says".into(), self.redacted(payload));
        }
        self.put(Value::Object(line));
    }

    fn redacted(&self, json: &Json) -> Value {
        let mut value = serde_json::from_slice(json.as_bytes())
            .unwrap_or_else(|_| Value::String("[numbers that cannot be shown]".into()));
        redact(&mut value, &self.options.redact, false);
        value
    }

    /// Writes a line. An error does not stop the component; the first one is reported on standard error.
    fn put(&mut self, line: Value) {
        let line = format!("{}\n", printable(&line.to_string()));
        let written = match &mut self.out {
            LogOutput::Stderr => io::stderr().write_all(line.as_bytes()),
            LogOutput::File(file) => file.write_all(line.as_bytes()),
            LogOutput::Nowhere => Ok(()),
        };
        if let Err(error) = written
            && !self.options.no_stderr
            && !std::mem::replace(&mut self.reported_loss, true)
        {
            let _ = writeln!(io::stderr(), "log: cannot write, lines are lost: {error}");
        }
    }
}

/// JSON in which the characters that a terminal interprets are escaped. (Other control characters do not occur in
/// JSON.)
fn printable(json: &str) -> String {
    let is_unsafe = |it: char| match it {
        '\u{61c}' | '\u{200e}' | '\u{200f}' => true,
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => it.is_control(),
    };
    let mut text = String::with_capacity(json.len());
    for it in json.chars() {
        match is_unsafe(it) {
            true => text.push_str(&format!("\\u{:04x}", u32::from(it))),
            false => text.push(it),
        }
    }
    text
}

fn is_log(call: &Call) -> bool {
    LOGS.iter().any(|method| call.is(method))
}

fn lock(writer: &Mutex<LogWriter>) -> MutexGuard<'_, LogWriter> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many log messages may wait, and how many bytes they may have. Further ones are dropped and counted.
const MAX_WAITING: usize = 4096;
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;

/// Log messages of other components that are not written yet.
#[derive(Default)]
struct WaitingLogs {
    queue: Mutex<LogQueue>,
    arrived: Notify,
}

#[derive(Default)]
struct LogQueue {
    logs: VecDeque<(String, Call)>,
    bytes: usize,
    dropped: usize,
}

fn size(call: &Call) -> usize {
    call.params.as_ref().map_or(0, |params| params.as_bytes().len())
}

impl WaitingLogs {
    fn push(&self, component: String, call: &Call) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.logs.len() < MAX_WAITING && queue.bytes + size(call) <= MAX_WAITING_BYTES {
            queue.bytes += size(call);
            queue.logs.push_back((component, call.detached()));
        } else {
            queue.dropped += 1;
        }
        self.arrived.notify_one();
    }

    fn write(&self, writer: &Mutex<LogWriter>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let LogQueue { logs, dropped, .. } = std::mem::take(&mut *queue);
        drop(queue);
        let mut writer = lock(writer);
        logs.into_iter().for_each(|(component, call)| writer.on_log(Some(component), &call));
        if dropped > 0 {
            let text = format!("{dropped} log messages were dropped, because they came too fast");
            let line = json!({ "time": now(), "level": "warn", "kind": "log", "message": text });
            writer.put(line);
        }
    }
}

/// A text without secrets.
fn shown(text: &str) -> String {
    Secrets::standard().redact(text).into_owned()
}

/// Redacts the secrets in the names of members. The names stay different from each other.
fn redact_names(members: &mut Map<String, Value>) {
    if !members.keys().any(|it| matches!(Secrets::standard().redact(it), Cow::Owned(_))) {
        return;
    }
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for (name, value) in std::mem::take(members) {
        let redacted = shown(&name);
        let mut name = redacted.clone();
        let number = numbers.entry(name.clone()).or_insert(1);
        while members.contains_key(&name) {
            *number += 1;
            name = format!("{redacted} {number}");
        }
        members.insert(name, value);
    }
}

fn redact(value: &mut Value, words: &[String], in_secret: bool) {
    match value {
        Value::Object(members) => {
            redact_names(members);
            for (key, value) in members {
                let lower = key.to_lowercase();
                let secret = is_secret_name(key)
                    || lower == "key"
                    || words.iter().any(|it| lower.contains(&it.to_lowercase()));
                let plain = !value.is_object() && !value.is_array();
                if in_secret && !secret && lower == "name" {
                    // In a list of names and values, the name is not a secret.
                } else if plain && (secret || in_secret) {
                    *value = REDACTED.into();
                } else {
                    redact(value, words, in_secret || secret || has_secret_values(key));
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|it| redact(it, words, in_secret)),
        Value::String(_) if in_secret => *value = REDACTED.into(),
        Value::String(text) => {
            if let Cow::Owned(redacted) = Secrets::standard().redact(text) {
                *text = redacted;
            }
        }
        _ => {}
    }
}

/// The current time in RFC 3339: `2026-11-15T14:03:07.123Z`.
fn now() -> String {
    audit::format_time(audit::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_rfc_3339() {
        let written =
            |time| audit::format_time(audit::Timestamp::from_millisecond(time).expect("a time"));
        assert_eq!(written(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(written(951_782_399_007), "2000-02-28T23:59:59.007Z");
        assert_eq!(written(1_794_751_387_123), "2026-11-15T14:03:07.123Z");
    }

    #[test]
    fn log_messages_that_wait_are_limited_by_their_number_and_size() {
        let call = |length: usize| {
            Call::new(LOG, Json::object([("message", Some(Json::string(&"x".repeat(length))))]))
        };
        for (length, kept) in [(10, MAX_WAITING), (MAX_WAITING_BYTES / 4, 3)] {
            let (waiting, call) = (WaitingLogs::default(), call(length));
            (0..MAX_WAITING + 1).for_each(|_| waiting.push("a".to_owned(), &call));
            let queue = waiting.queue.lock().expect("not poisoned");
            assert_eq!((queue.logs.len(), queue.dropped), (kept, MAX_WAITING + 1 - kept));
        }
    }

    #[test]
    fn characters_that_a_terminal_interprets_are_escaped() {
        let payload = json!({ "text": "a\u{9b}2J\u{202e}b\u{7f}\u{1b}é" });
        let line = printable(&payload.to_string());
        assert!(line.chars().all(|it| !it.is_control()), "{line:?}");
        assert!(line.contains("\\u202eb") && line.contains('é'), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), payload);
    }

    #[test]
    fn secrets_are_redacted_at_any_depth() {
        let mut value = json!({
            "apiKey": "1", "x": { "Authorization": "2", "fine": "seen" }, "accessToken": 3,
            "env": [{ "name": "A", "value": "4" }], "headers": { "X-Any": "5" }, "mine": "6",
            "tokens": ["7"], "text": "seen",
        });
        value["shape"] = "the ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6 token".into();
        redact(&mut value, &["mine".into()], false);
        assert_eq!(value["shape"], "the [redacted:github] token");
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

    #[test]
    fn many_names_with_the_same_redaction_stay_different() {
        let token = |number: usize| format!("ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0{number:06}");
        let taken = ("[redacted:github] 2".to_owned(), "taken".into());
        let tokens = (200_001..204_001).map(|number| (token(number), number.into()));
        let mut members: Map<String, Value> = std::iter::once(taken).chain(tokens).collect();
        redact_names(&mut members);
        let expected = |number: usize| match number {
            1 => "[redacted:github]".to_owned(),
            _ => format!("[redacted:github] {number}"),
        };
        assert_eq!(members.len(), 4001);
        for number in 1..=4001 {
            assert!(members.contains_key(&expected(number)), "{number}");
        }
        assert_eq!(members["[redacted:github] 2"], "taken");
    }
}
