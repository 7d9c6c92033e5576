//! The keys of messages: a hash of what counts of a message, and of all messages before it in the session.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Texts that are longer have only their length and hash in the message of an entry.
const MAX_TEXT: usize = 2048;

/// The same for the parameters of a message as a whole.
const MAX_SENT: usize = 1024 * 1024;

/// Values that are nested deeper have only their hash in the message of an entry.
const MAX_DEPTH: usize = 64;

/// The first 16 digits of a hash.
pub(super) fn short_hash(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The key of a message after the one with the key `after`.
pub(super) fn key(after: &str, sent: &Value) -> String {
    short_hash(&format!("{after}\n{}", canonical(sent)))
}

/// JSON with sorted members.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let members = members.into_iter().map(|(name, value)| {
                format!("{}:{}", Value::String(name.clone()), canonical(value))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// What counts of a message of the editor's side: no metadata, of MCP servers only the names, and of long texts, deep
/// values and very long messages only the hash.
pub(super) fn reduce(value: Value) -> Value {
    let reduced = reduce_at(value, 0);
    let text = reduced.to_string();
    match text.len() > MAX_SENT {
        true => shortened(&text),
        false => reduced,
    }
}

/// The beginning, the length and the hash of a long text.
fn shortened(text: &str) -> Value {
    let start: String = text.chars().take(40).collect();
    Value::String(format!("{start}… ({} bytes, SHA-256 {})", text.len(), short_hash(text)))
}

fn reduce_at(value: Value, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return shortened(&value.to_string());
    }
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(name, _)| name != "_meta");
            let reduced = members.map(|(name, value)| {
                let value = match (name.as_str(), value) {
                    ("mcpServers", Value::Array(servers)) => servers
                        .iter()
                        .map(|it| it.get("name").cloned().unwrap_or_default())
                        .collect(),
                    (_, value) => reduce_at(value, depth + 1),
                };
                (name, value)
            });
            Value::Object(reduced.collect())
        }
        Value::Array(values) => values.into_iter().map(|it| reduce_at(it, depth + 1)).collect(),
        Value::String(text) if text.len() > MAX_TEXT => shortened(&text),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_servers_and_long_texts_are_reduced() {
        let servers = json!([{ "name": "a", "env": [{ "name": "KEY", "value": "secret" }] }]);
        let value = json!({ "_meta": { "time": 1 }, "mcpServers": servers, "text": "x".repeat(5000), "n": [{ "_meta": 1 }] });
        let reduced = reduce(value);
        assert_eq!(reduced["mcpServers"], json!(["a"]));
        assert_eq!(reduced["n"], json!([{}]));
        assert!(reduced.get("_meta").is_none());
        assert!(
            reduced["text"].as_str().is_some_and(|it| it.contains("5000 bytes") && it.len() < 100)
        );
    }

    #[test]
    fn deep_and_very_long_messages_are_reduced() {
        let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
        assert!(reduce(deep).to_string().contains("SHA-256"));
        let long: Vec<String> = (0..200_000).map(|it| it.to_string()).collect();
        assert!(reduce(json!(long)).to_string().len() < 200);
    }
}
