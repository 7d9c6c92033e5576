//! Reads payloads of messages, and hides secrets in them.

use acp_wire::Json;
use serde_json::{Map, Value};

/// The maximum nesting depth. Deeper values become null.
const MAX_DEPTH: usize = 64;

/// The replacement for a secret.
const HIDDEN: &str = "…";

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

/// Hides the values of environment variables and HTTP headers in a payload, because the declarations of MCP servers
/// contain secrets there.
pub fn without_secrets(json: &Json) -> String {
    let text = json.as_str();
    // A name may be written with escapes.
    if !["env", "headers", "\\u"].iter().any(|it| text.contains(it)) {
        return text.to_owned();
    }
    let mut value = read(json);
    if hide_in(&mut value) { value.to_string() } else { text.to_owned() }
}

/// Hides the values of environment variables and HTTP headers in a value.
pub fn hide_secrets(value: &mut Value) {
    hide_in(value);
}

/// Hides the secrets in a value. Returns whether there were any. `read` has limited the depth.
fn hide_in(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => {
            let mut hidden = false;
            for (name, value) in members {
                hidden |= match name.as_str() {
                    "env" | "headers" => hide_all(value),
                    _ => hide_in(value),
                };
            }
            hidden
        }
        Value::Array(elements) => {
            elements.iter_mut().fold(false, |hidden, it| hide_in(it) | hidden)
        }
        _ => false,
    }
}

/// Hides all values of variables or headers, which are an array of names and values, or an object.
fn hide_all(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(|value| *value = HIDDEN.into());
            !members.is_empty()
        }
        Value::Array(elements) => {
            for element in elements.iter_mut() {
                match element.get_mut("value") {
                    Some(value) => *value = HIDDEN.into(),
                    None => *element = HIDDEN.into(),
                }
            }
            !elements.is_empty()
        }
        _ => false,
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

    #[test]
    fn secrets_are_hidden() {
        let text = r#"{"cwd":"/","mcpServers":[{"name":"a","env":[{"name":"S","value":"x1"}]},{"e\u006ev":{"S":"x2"},"headers":[{"name":"Authorization","value":"Bearer x3"}]}],"n":1e400}"#;
        let shown = without_secrets(&json(text));
        assert!(!["x1", "x2", "x3"].iter().any(|it| shown.contains(it)), "{shown}");
        assert!(shown.contains(r#""cwd":"/""#) && shown.contains("Authorization"), "{shown}");
        assert_eq!(without_secrets(&json(r#"{"n":1.10,"env":[]}"#)), r#"{"n":1.10,"env":[]}"#);
    }
}
