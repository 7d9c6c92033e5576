//! Log messages and metrics, which components send toward the editor: `_proxy/log`, `_proxy/metric` and `_scp/log`.
//!
//! They pass a chain hop by hop like every extension message. If a component of the chain collects them, only an editor
//! that asks for such a message gets it. An editor asks in the params of `initialize`:
//!
//! ```json
//! {"clientCapabilities":{"_meta":{"_proxy/log":true,"_proxy/metric":true}}}
//! ```
//!
//! An SCP editor, whose `_meta` has a member `symposium`, gets log messages as `_scp/log`.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::json::Json;
use crate::message::Call;

/// The log message of a component.
pub const LOG: &str = "_proxy/log";

/// A measured value of a component.
pub const METRIC: &str = "_proxy/metric";

/// The log message of a component in SCP.
pub const SCP_LOG: &str = "_scp/log";

/// A kind of telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telemetry {
    /// [`LOG`].
    Log,
    /// [`METRIC`].
    Metric,
    /// [`SCP_LOG`].
    ScpLog,
}

impl Telemetry {
    /// The kind of a notification. `None` for every other method.
    pub fn of(call: &Call) -> Option<Telemetry> {
        let name = call.method.name();
        match &*name {
            LOG => Some(Telemetry::Log),
            METRIC => Some(Telemetry::Metric),
            SCP_LOG => Some(Telemetry::ScpLog),
            _ => None,
        }
    }
}

/// A hash of what a message says. It is the same for all spellings of the message: the order of members, the form of
/// numbers and texts, members that have their default value, and for log messages also the method.
///
/// Values that are very long, or deep inside other values, do not count.
pub fn content_hash(kind: Telemetry, call: &Call) -> u64 {
    let params = call.params.as_ref();
    let member =
        |key: &str| params.and_then(|params| params.member(key)).filter(|it| !it.is_null());
    let mut hasher = DefaultHasher::new();
    let mut add = |value: Option<Json>| match value {
        Some(value) if value.as_bytes().len() <= MAX_HASHED => {
            hash_value(&value, MAX_HASHED_DEPTH, &mut hasher);
        }
        _ => hasher.write_u8(b'-'),
    };
    let or = |value: Option<Json>, default| value.unwrap_or_else(|| Json::trusted(default));
    match kind {
        Telemetry::Log | Telemetry::ScpLog => {
            add(Some(Json::string(scp_level(member("level").as_ref()))));
            add(member("message"));
            add(member("data"));
        }
        Telemetry::Metric => {
            add(member("name"));
            add(Some(or(member("kind"), "\"counter\"")));
            add(Some(or(member("value"), "1")));
            add(Some(or(member("labels"), "{}")));
            add(member("component"));
        }
    }
    hasher.finish()
}

/// The longest value that counts for [`content_hash`], in bytes.
const MAX_HASHED: usize = 16 * 1024;

/// How deep a value may be inside other values to count for [`content_hash`].
const MAX_HASHED_DEPTH: u8 = 16;

fn hash_value(value: &Json, depth: u8, hasher: &mut DefaultHasher) {
    let Some(depth) = depth.checked_sub(1) else { return };
    if let Some(text) = value.text() {
        (b't', text).hash(hasher);
    } else if value.is_array() {
        let elements = value.elements();
        (b'a', elements.len()).hash(hasher);
        elements.iter().for_each(|it| hash_value(it, depth, hasher));
    } else if value.is_object() {
        // A sum does not depend on the order of the members.
        let sum = value.members().iter().fold(0_u64, |sum, (key, value)| {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            hash_value(value, depth, &mut hasher);
            sum.wrapping_add(hasher.finish())
        });
        (b'o', sum).hash(hasher);
    } else {
        match value.as_str().parse::<f64>() {
            // The sum of -0 and 0 is 0.
            Ok(number) => (b'n', (number + 0.0).to_bits()).hash(hasher),
            Err(_) => (b'w', value.as_bytes()).hash(hasher),
        }
    }
}

/// The telemetry that an editor has asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    log: bool,
    metric: bool,
    scp_log: bool,
}

impl Wanted {
    /// Reads the params of `initialize`.
    pub fn of_initialize(params: &Json) -> Wanted {
        let metas = [&["clientCapabilities", "_meta"][..], &["capabilities", "_meta"], &["_meta"]];
        let metas: Vec<Json> = metas.iter().filter_map(|path| params.at(path)).collect();
        let has = |key: &str| {
            let mut values = metas.iter().filter_map(|meta| meta.member(key));
            values.any(|value| !matches!(value.as_str(), "false" | "null"))
        };
        Wanted { log: has(LOG), metric: has(METRIC), scp_log: has(SCP_LOG) || has("symposium") }
    }

    /// The message in the form that the editor has asked for. `None` if the editor has not asked for it. Log messages
    /// are translated between [`LOG`] and [`SCP_LOG`].
    pub fn translate(self, kind: Telemetry, call: &Call) -> Option<Call> {
        match kind {
            Telemetry::Log if self.log => Some(call.clone()),
            Telemetry::Log if self.scp_log => Some(to_scp(call)),
            Telemetry::ScpLog if self.scp_log => Some(call.clone()),
            Telemetry::ScpLog if self.log => Some(Call { method: LOG.into(), ..call.clone() }),
            Telemetry::Metric if self.metric => Some(call.clone()),
            _ => None,
        }
    }
}

/// A log message in the form of SCP, which has four levels and no member `component`.
fn to_scp(call: &Call) -> Call {
    let member = |key: &str| call.params.as_ref().and_then(|params| params.member(key));
    let level = scp_level(member("level").as_ref());
    let message = member("message").unwrap_or_else(|| Json::string(""));
    let params = Json::object([
        ("level", Some(Json::string(level))),
        ("message", Some(message)),
        ("data", member("data")),
    ]);
    Call::new(SCP_LOG, params)
}

/// The level of a log message in SCP.
fn scp_level(level: Option<&Json>) -> &'static str {
    match level.and_then(Json::text).as_deref() {
        Some("error") => "error",
        Some("warn") => "warn",
        Some("debug" | "trace") => "debug",
        _ => "info",
    }
}

/// The name of the component that has sent a message: the name of its place in the chain, and also the one with which it
/// names itself, if that is another. A nested chain passes on the messages of its components.
pub fn sender(place: &str, params: Option<&Json>) -> String {
    match params.and_then(component) {
        Some(name) if name != place => format!("{place}/{name}"),
        _ => place.to_owned(),
    }
}

/// The name with which the component that has sent a message names itself.
pub fn component(params: &Json) -> Option<String> {
    params.member("component")?.text().map(|name| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, params: &str) -> Call {
        Call::new(method, Json::trusted(params.to_owned()))
    }

    fn wanted(params: &str) -> Wanted {
        Wanted::of_initialize(&Json::trusted(params.to_owned()))
    }

    fn translated(wanted: Wanted, method: &str, params: &str) -> Option<(String, String)> {
        let call = call(method, params);
        let out = wanted.translate(Telemetry::of(&call)?, &call)?;
        Some((out.method.name().into_owned(), out.params?.as_str().to_owned()))
    }

    #[test]
    fn an_editor_asks_for_messages_by_their_method() {
        for params in [
            r#"{"clientCapabilities":{"_meta":{"_proxy/log":true}}}"#,
            r#"{"capabilities":{"_meta":{"_proxy/log":{}}}}"#,
        ] {
            let log = Wanted { log: true, ..Wanted::default() };
            assert_eq!(wanted(params), log, "{params}");
        }
        for params in ["{}", "null", r#"{"clientCapabilities":{"_meta":{"_proxy/log":false}}}"#] {
            assert_eq!(wanted(params), Wanted::default(), "{params}");
        }
        for params in [
            r#"{"_meta":{"symposium":{}}}"#,
            r#"{"clientCapabilities":{"_meta":{"symposium":{"version":"1.0"}}}}"#,
        ] {
            assert_eq!(wanted(params), Wanted { scp_log: true, ..Wanted::default() }, "{params}");
        }
    }

    #[test]
    fn a_log_message_is_translated_into_the_form_that_the_editor_knows() {
        let (log, scp_log) = (
            Wanted { log: true, ..Wanted::default() },
            Wanted { scp_log: true, ..Wanted::default() },
        );
        let text = r#"{"level":"trace","message":"a","data":[1.0],"component":"x","_meta":{}}"#;
        let short = r#"{"level":"debug","message":"a","data":[1.0]}"#;
        let some = |method: &str, params: &str| Some((method.to_owned(), params.to_owned()));
        assert_eq!(translated(log, LOG, text), some(LOG, text));
        assert_eq!(translated(scp_log, LOG, text), some(SCP_LOG, short));
        assert_eq!(
            translated(scp_log, LOG, "[]"),
            some(SCP_LOG, r#"{"level":"info","message":""}"#)
        );
        assert_eq!(translated(scp_log, SCP_LOG, short), some(SCP_LOG, short));
        assert_eq!(translated(log, SCP_LOG, short), some(LOG, short));
        assert_eq!(translated(log, METRIC, "{}"), None);
        assert_eq!(translated(Wanted::default(), LOG, text), None);
    }

    #[test]
    fn the_hash_of_a_message_depends_on_what_it_says_and_not_on_its_spelling() {
        let hash = |method: &str, params: &str| {
            let call = call(method, params);
            Telemetry::of(&call).map(|kind| content_hash(kind, &call))
        };
        for (method, [one, other]) in [
            (
                METRIC,
                [
                    r#"{"name":"n"}"#,
                    r#"{"value":1.0,"kind":"counter","name":"\u006e","labels":{}}"#,
                ],
            ),
            (
                METRIC,
                [
                    r#"{"name":"n","labels":{"a":"1","b":"2"}}"#,
                    r#"{"name":"n","labels": {"b":"2", "a":"1"}}"#,
                ],
            ),
            (
                METRIC,
                [r#"{"name":"n","value":1.10}"#, r#"{"name":"n","value":11e-1,"component":null}"#],
            ),
            (
                LOG,
                [
                    r#"{"message":"a","data":{"x":[1,-0.0,null]}}"#,
                    r#"{"level":"info","data":{"x":[1.0,0,null]},"message":"a","component":"c"}"#,
                ],
            ),
        ] {
            assert_eq!(hash(method, one), hash(method, other), "{one} {other}");
        }
        // A component may translate a log message.
        assert_eq!(
            hash(LOG, r#"{"level":"trace","message":"a"}"#),
            hash(SCP_LOG, r#"{"level":"debug","message":"a"}"#)
        );
        let all = [
            (METRIC, r#"{"name":"n"}"#),
            (METRIC, r#"{"name":"m"}"#),
            (METRIC, r#"{"name":"n","value":2}"#),
            (METRIC, r#"{"name":"n","kind":"gauge"}"#),
            (METRIC, r#"{"name":"n","labels":{"a":"1","b":"2"}}"#),
            (METRIC, r#"{"name":"n","labels":{"a":"2","b":"1"}}"#),
            (METRIC, r#"{"name":"n","component":"c"}"#),
            (LOG, r#"{"message":"n"}"#),
            (LOG, r#"{"message":"n","level":"warn"}"#),
            (LOG, r#"{"message":"n","data":[1,2]}"#),
            (LOG, r#"{"message":"n","data":[[1],2]}"#),
            (LOG, r#"{"message":"n","data":{"a":true}}"#),
            (LOG, r#"{"message":"n","data":{"a":"true"}}"#),
            (LOG, "7"),
        ];
        let hashes = all.map(|(method, params)| hash(method, params));
        for (index, hash) in hashes.iter().enumerate() {
            assert!(!hashes[index + 1..].contains(hash), "{:?}", all[index]);
        }
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        assert!(hash(LOG, &format!(r#"{{"message":"n","data":{deep}}}"#)).is_some());
    }
}
