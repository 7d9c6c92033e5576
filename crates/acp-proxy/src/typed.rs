//! Typed values that keep what their types do not know.
//!
//! A message is read into a Rust type. When the value is written, only the changed parts are written anew. The
//! rest keeps its text: unknown members, big numbers, the order of keys.

use acp_wire::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// The text that a value was read from, to write the value back with as few changes as possible.
#[derive(Debug, Clone)]
pub struct Origin {
    text: Json,
    /// The value as it was written right after it was read.
    before: Json,
}

impl Origin {
    /// The text with the changes that were made to the value.
    pub(crate) fn write(&self, value: &impl Serialize) -> Result<Json> {
        Ok(merge(&self.text, &self.before, &to_json(value)?))
    }

    /// Whether the value is the same as when it was read.
    pub(crate) fn is_unchanged(&self, value: &Json) -> bool {
        self.before == *value
    }
}

/// Reads a value.
pub(crate) fn read<T: Serialize + DeserializeOwned>(text: &Json) -> Result<(T, Origin)> {
    read_with(text, text)
}

/// Reads a value from `more`, a text that adds to `text`. The additions are written only where they change.
pub(crate) fn read_with<T: Serialize + DeserializeOwned>(
    text: &Json,
    more: &Json,
) -> Result<(T, Origin)> {
    let value: T = serde_json::from_slice(more.as_bytes())
        .or_else(|_| serde_json::from_slice(&with_small_numbers(more.as_bytes())))
        .map_err(|error| Error::invalid_params(error.to_string()))?;
    let before = to_json(&value)?;
    Ok((value, Origin { text: text.clone(), before }))
}

/// Reads a value from parameters or a result that may be absent or `null`, which count as an empty object.
pub(crate) fn read_or_empty<T: Serialize + DeserializeOwned>(text: &Json) -> Result<(T, Origin)> {
    match text.is_null() {
        true => read(text).or_else(|_| read_with(text, &Json::EMPTY_OBJECT)),
        false => read(text),
    }
}

/// Converts a value to JSON: parameters, or the answer of a handler that is not typed.
///
/// ```
/// use acp_proxy::{serde_json::json, to_json};
///
/// assert_eq!(to_json(&json!({ "protocolVersion": 1 }))?.as_str(), r#"{"protocolVersion":1}"#);
/// # Ok::<(), acp_proxy::Error>(())
/// ```
pub fn to_json(value: &impl Serialize) -> Result<Json> {
    let text = serde_json::to_vec(value).map_err(|error| Error::internal(error.to_string()))?;
    Json::parse(text).map_err(|error| Error::internal(error.to_string()))
}

/// The text with 0 for numbers that no Rust number can hold, such as `1e400`. They are legal JSON, so a message
/// must not bypass a handler because of them. The text that is forwarded keeps them.
fn with_small_numbers(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut quoted) = (0, false);
    while at < text.len() {
        let byte = text[at];
        let digits = text[at..].iter().take_while(|it| b"+-.eE0123456789".contains(it)).count();
        if !quoted && (byte == b'-' || byte.is_ascii_digit()) {
            let number = &text[at..at + digits];
            let value = std::str::from_utf8(number).ok().and_then(|it| it.parse::<f64>().ok());
            out.extend_from_slice(if value.is_some_and(f64::is_finite) { number } else { b"0" });
            at += digits;
            continue;
        }
        let escaped = quoted && byte == b'\\';
        quoted ^= byte == b'"';
        let length = if escaped { 2.min(text.len() - at) } else { 1 };
        out.extend_from_slice(&text[at..at + length]);
        at += length;
    }
    out
}

/// Applies the difference between `before` and `after` to `text`. `before` is what the type has read of `text`.
fn merge(text: &Json, before: &Json, after: &Json) -> Json {
    if before == after {
        return text.clone();
    }
    if text.is_object() && before.is_object() && after.is_object() {
        let mut merged = text.clone();
        let (was, is) = (before.members(), after.members());
        for (key, _) in was.iter().filter(|(key, _)| !is.iter().any(|(it, _)| it == key)) {
            merged = merged.with_at(&[key], None);
        }
        for (key, value) in &is {
            let old = was.iter().find(|(it, _)| it == key).map(|(_, old)| old);
            let new = match (text.member(key), old) {
                (Some(text), Some(old)) => merge(&text, old, value),
                // A default that the type has filled in is not a change.
                (None, Some(old)) if old == value => continue,
                _ => value.clone(),
            };
            merged = merged.with_at(&[key], Some(&new));
        }
        return merged;
    }
    let (texts, was, is) = (text.elements(), before.elements(), after.elements());
    if after.is_array() && texts.len() == was.len() {
        return Json::array(&merge_lists(&texts, &was, &is));
    }
    after.clone()
}

/// Elements that are still there keep their text. If the length is the same, each element is merged.
fn merge_lists(texts: &[Json], was: &[Json], is: &[Json]) -> Vec<Json> {
    if was.len() == is.len() {
        let all = texts.iter().zip(was).zip(is);
        return all.map(|((text, before), after)| merge(text, before, after)).collect();
    }
    let mut next = 0;
    let kept = |after: &Json| {
        let found = was[next..].iter().position(|before| before == after);
        found.map_or_else(
            || after.clone(),
            |offset| {
                next += offset + 1;
                texts[next - 1].clone()
            },
        )
    };
    is.iter().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol_schema::v1::{ContentBlock, PromptRequest, SessionNotification};

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    const PROMPT: &str = r#"{"x":123456789012345678901234567890,"sessionId":"s","prompt":[{"type":"text","text":"a","new":1.10},{"type":"text","text":"b","_meta":{"k":1e400}}],"_meta":{"t": "u"}}"#;

    #[test]
    fn an_unchanged_value_is_written_byte_for_byte() {
        let (prompt, origin) = read::<PromptRequest>(&json(PROMPT)).unwrap();
        assert_eq!(origin.write(&prompt).unwrap().as_str(), PROMPT);
    }

    #[test]
    fn an_edit_keeps_the_members_that_the_type_does_not_know() {
        let (mut prompt, origin) = read::<PromptRequest>(&json(PROMPT)).unwrap();
        prompt.prompt.insert(0, ContentBlock::from("first".to_owned()));
        let written = origin.write(&prompt).unwrap();
        assert_eq!(
            written.as_str(),
            PROMPT.replace(r#""prompt":["#, r#""prompt":[{"type":"text","text":"first"},"#)
        );

        let (mut prompt, origin) = read::<PromptRequest>(&json(PROMPT)).unwrap();
        if let ContentBlock::Text(text) = &mut prompt.prompt[0] {
            text.text = "changed".into();
        }
        assert_eq!(
            origin.write(&prompt).unwrap().as_str(),
            PROMPT.replace(r#""text":"a""#, r#""text":"changed""#)
        );

        let (mut prompt, origin) = read::<PromptRequest>(&json(PROMPT)).unwrap();
        prompt.prompt.remove(0);
        let without = PROMPT.replace(r#"{"type":"text","text":"a","new":1.10},"#, "");
        assert_eq!(origin.write(&prompt).unwrap().as_str(), without);
    }

    #[test]
    fn an_unchanged_update_is_written_byte_for_byte() {
        let text = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"},"messageId":null,"later":[1.0]}}"#;
        let (update, origin) = read::<SessionNotification>(&json(text)).unwrap();
        assert_eq!(origin.write(&update).unwrap().as_str(), text);
    }
}
