//! Reads payloads of messages, and hides secrets in them.

mod secrets;

use acp_wire::Json;
use serde_json::{Map, Value};

pub use secrets::{hide_secrets, text_without_secrets, without_secrets};

/// The maximum nesting depth. Deeper values become null.
const MAX_DEPTH: usize = 64;

/// Parses a payload. Valid JSON that `serde_json` cannot represent is approximated: half of a surrogate pair becomes
/// U+FFFD, and numbers that are too large or values that are nested too deep become null.
pub fn read(json: &Json) -> Value {
    serde_json::from_slice(json.as_bytes()).unwrap_or_else(|_| approximate(json, MAX_DEPTH))
}

fn approximate(json: &Json, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    if json.is_object() {
        let members = json.members().into_iter();
        let members: Map<String, Value> =
            members.map(|(name, value)| (name, approximate(&value, depth))).collect();
        return members.into();
    }
    if json.is_array() {
        return json.elements().iter().map(|it| approximate(it, depth)).collect();
    }
    match json.text() {
        Some(text) => text.into_owned().into(),
        None => serde_json::from_slice(json.as_bytes()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: impl Into<String>) -> Json {
        Json::parse(text.into()).unwrap()
    }

    #[test]
    fn every_valid_json_text_can_be_read() {
        let deep = format!(
            r#"{{"a":"x\ud800","n":1e400,"b":true,"d":{}1{}}}"#,
            "[".repeat(500),
            "]".repeat(500)
        );
        let value = read(&json(deep));
        assert_eq!(
            (&value["a"], &value["n"], &value["b"]),
            (&"x\u{fffd}".into(), &Value::Null, &true.into())
        );
        assert!(value["d"][0][0].is_array());
        assert_eq!(read(&json("7")), 7);
    }
}
