//! Typed messages that keep what their types do not know.
//!
//! A message is read into a type of the ACP schema. When it is sent on, only what was changed is
//! written anew; all else stays as it was spelt: unknown members, big numbers, the order of keys.

use std::ops::{Deref, DerefMut};

use acp_wire::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// A value of the schema, and the text that it was read from.
#[derive(Clone)]
pub struct Typed<T> {
    value: T,
    /// The text, and how `value` was spelt when it was read.
    origin: Option<(Json, Json)>,
}

impl<T: Serialize + DeserializeOwned> Typed<T> {
    pub fn read(json: &Json) -> Result<Typed<T>> {
        Typed::read_with(json, json)
    }

    /// Reads a value from a text that says more than `text`. Only what is changed of it is written.
    pub(crate) fn read_with(text: &Json, more: &Json) -> Result<Typed<T>> {
        let value: T = serde_json::from_slice(more.as_bytes())
            .or_else(|_| serde_json::from_slice(&with_small_numbers(more.as_bytes())))
            .map_err(|error| Error::invalid_params(error.to_string()))?;
        let before = to_json(&value)?;
        Ok(Typed { value, origin: Some((text.clone(), before)) })
    }

    /// The text, with what was changed.
    pub fn write(&self) -> Result<Json> {
        let after = to_json(&self.value)?;
        Ok(match &self.origin {
            Some((text, before)) => merge(text, before, &after),
            None => after,
        })
    }
}

impl<T> Typed<T> {
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> From<T> for Typed<T> {
    fn from(value: T) -> Typed<T> {
        Typed { value, origin: None }
    }
}

impl<T> Deref for Typed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Typed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<Json> {
    let text = serde_json::to_vec(value).map_err(|error| Error::internal(error.to_string()))?;
    Json::parse(text).map_err(|error| Error::internal(error.to_string()))
}

/// The text with 0 for numbers that no type can hold, such as `1e400`: legal JSON, and no way around
/// a handler. What is sent on has them as they were.
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

/// `text` with the difference between `before` and `after`, which both are what a type understood of
/// it.
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
                // The type fills in what the text did not say; that is no change.
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

/// Elements that are still there keep their text; if none was added or taken away, each is merged.
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
    fn what_is_not_touched_stays_as_it_was_spelt() {
        let prompt = Typed::<PromptRequest>::read(&json(PROMPT)).unwrap();
        assert_eq!(prompt.write().unwrap().as_str(), PROMPT);
    }

    #[test]
    fn what_a_type_does_not_know_survives_an_edit_of_the_rest() {
        let mut prompt = Typed::<PromptRequest>::read(&json(PROMPT)).unwrap();
        prompt.prompt.insert(0, ContentBlock::from("first".to_owned()));
        let written = prompt.write().unwrap();
        assert_eq!(
            written.as_str(),
            PROMPT.replace(r#""prompt":["#, r#""prompt":[{"type":"text","text":"first"},"#)
        );

        let mut prompt = Typed::<PromptRequest>::read(&json(PROMPT)).unwrap();
        if let ContentBlock::Text(text) = &mut prompt.prompt[0] {
            text.text = "changed".into();
        }
        assert_eq!(
            prompt.write().unwrap().as_str(),
            PROMPT.replace(r#""text":"a""#, r#""text":"changed""#)
        );

        let mut prompt = Typed::<PromptRequest>::read(&json(PROMPT)).unwrap();
        prompt.prompt.remove(0);
        let without = PROMPT.replace(r#"{"type":"text","text":"a","new":1.10},"#, "");
        assert_eq!(prompt.write().unwrap().as_str(), without);
    }

    #[test]
    fn an_update_is_read_and_written() {
        let text = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"},"messageId":null,"later":[1.0]}}"#;
        let update = Typed::<SessionNotification>::read(&json(text)).unwrap();
        assert_eq!(update.write().unwrap().as_str(), text);
    }
}
