//! Describes what is not in a recording, and what is nearest to it.

use std::collections::BTreeSet;

use acp_proxy::Error;
use acp_wire::ErrorKind;
use serde_json::{Value, json};

use super::lane::Lane;
use super::recording::{Entry, Recording};

/// How much of a text is quoted.
const MAX_QUOTE: usize = 120;

/// The error that answers a request.
pub(super) fn error(component: &str, method: &str, why: &str, recording: &Recording) -> Error {
    let kind = ErrorKind::NotRecorded;
    let file = recording.path().display().to_string();
    let text = format!(
        "{component}: {method} is not recorded in {file}: {why}. Record it: run the same messages with \
         `cache --mode record --file {file}` before the agent"
    );
    let data = json!({ "component": component, "code": kind.code(), "method": method, "file": file, "why": why });
    Error::with_data(component_base::refusal::TO_EDITOR, kind.tag(text), &data)
}

/// Why a request is missing: what was sent, and the nearest recorded message.
pub(super) fn missing(sent: &Value, lane: &Lane, recording: &Recording) -> String {
    let is_same = |entry: &&Entry| entry.sent()["request"] == sent["request"];
    let here: Vec<&Entry> = recording.children(&lane.at).filter(is_same).collect();
    let position = match lane.length {
        0 => String::new(),
        1 => " after 1 recorded message".to_owned(),
        length => format!(" after {length} recorded messages"),
    };
    let what = format!("{} was sent{position}", quote(&sent["params"]));
    if let Some(nearest) = nearest(sent, here.into_iter()) {
        return format!("{what}; {}", difference(&nearest.sent()["params"], &sent["params"]));
    }
    match nearest(sent, recording.entries().filter(is_same)) {
        Some(other) if other.sent() == *sent => {
            format!("{what}; the recording has the same message, but after other messages")
        }
        Some(other) => {
            format!(
                "{what}; the nearest recorded one, after other messages, is {}",
                quote(&other.sent()["params"])
            )
        }
        None => format!(
            "{what}; the recording has no {} at all",
            sent["request"].as_str().unwrap_or_default()
        ),
    }
}

/// Why a session cannot be replayed any further: the editor's side has answered a request of the agent differently.
pub(super) fn other_answer<'a>(
    method: &str,
    sent: &Value,
    recorded: impl Iterator<Item = &'a Entry>,
) -> String {
    let nearest = nearest(sent, recorded).map(|entry| quote(payload(&entry.sent())));
    let nearest = nearest.unwrap_or_else(|| "nothing".to_owned());
    format!(
        "{method} was answered with {}, and in the recording with {nearest}",
        quote(payload(sent))
    )
}

/// Why a turn does not end: the recorded one went on with another message.
pub(super) fn other_course<'a>(recorded: impl Iterator<Item = &'a Entry>) -> String {
    let next = recorded.map(|entry| {
        let sent = entry.sent();
        let method = |name: &str| sent[name].as_str().map(str::to_owned);
        method("request").or(method("notification")).or(method("method")).unwrap_or_default()
    });
    let next: BTreeSet<String> = next.collect();
    match next.is_empty() {
        true => "the recording ends before the turn does".to_owned(),
        false => {
            let next: Vec<String> = next.into_iter().collect();
            format!("the recorded turn goes on after {}, which did not come", next.join(" or "))
        }
    }
}

/// The result or error of an answer.
fn payload(sent: &Value) -> &Value {
    sent.get("result").unwrap_or(&sent["error"])
}

/// The entry whose message has the most words in common with this one.
fn nearest<'a>(sent: &Value, entries: impl Iterator<Item = &'a Entry>) -> Option<&'a Entry> {
    fn words(value: &Value) -> BTreeSet<String> {
        let text = value.to_string();
        let words = text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
        words.map(str::to_lowercase).collect()
    }
    let wanted = words(sent);
    let similarity = |entry: &&Entry| {
        let words = words(&entry.sent());
        let common = wanted.intersection(&words).count();
        // In thousandths of all words.
        common * 1000 / wanted.union(&words).count().max(1)
    };
    entries.max_by_key(similarity)
}

/// How a message differs from the nearest recorded one.
fn difference(recorded: &Value, sent: &Value) -> String {
    let mut path = String::new();
    let (recorded, sent) = first_difference(recorded, sent, &mut path);
    format!(
        "the nearest recorded one differs in {}: {} is recorded, {} was sent",
        path.trim_start_matches('.'),
        quote(recorded),
        quote(sent)
    )
}

/// The first place in which two values differ.
fn first_difference<'a>(
    one: &'a Value,
    two: &'a Value,
    path: &mut String,
) -> (&'a Value, &'a Value) {
    match (one, two) {
        (Value::Object(members), Value::Object(others)) => {
            let names: BTreeSet<&String> = members.keys().chain(others.keys()).collect();
            let member = |name: &String| (members.get(name), others.get(name));
            let different = names.into_iter().find(|name| member(name).0 != member(name).1);
            let Some(name) = different else { return (one, two) };
            path.push_str(&format!(".{name}"));
            let (one, two) = member(name);
            first_difference(one.unwrap_or(&Value::Null), two.unwrap_or(&Value::Null), path)
        }
        (Value::Array(values), Value::Array(others)) => {
            let count = values.len().max(others.len());
            let different = (0..count).find(|&index| values.get(index) != others.get(index));
            let Some(index) = different else { return (one, two) };
            path.push_str(&format!("[{index}]"));
            let element = |list: &'a Vec<Value>| list.get(index).unwrap_or(&Value::Null);
            first_difference(element(values), element(others), path)
        }
        _ => (one, two),
    }
}

/// A short form of a value. Of a prompt it is the text.
fn quote(value: &Value) -> String {
    let blocks = value["prompt"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let text = match texts.is_empty() {
        true => value.to_string(),
        false => Value::String(texts.join("\n")).to_string(),
    };
    match text.char_indices().nth(MAX_QUOTE) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
