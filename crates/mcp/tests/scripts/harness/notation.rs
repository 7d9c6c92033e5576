//! The notation of messages in tests.

use super::*;

/// An id as it is written in a line: a string has no quotes.
pub fn token(id: &Id) -> String {
    id.text().map_or_else(|| id.json().as_str().to_owned(), |text| text.into_owned())
}

/// The id that is written like this.
pub fn id(token: &str) -> Id {
    match token.parse::<u64>() {
        Ok(number) => Id::from(number),
        Err(_) => Id::string(token),
    }
}

/// Parses JSON, or fails the test.
pub fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Parses a message.
pub fn parse(line: &str) -> Message {
    let (method, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (name, params) = match rest.starts_with(['{', '[']) || rest.is_empty() {
        true => (None, rest),
        false => {
            let (name, params) = rest.split_once(' ').unwrap_or((rest, ""));
            (Some(id(name)), params)
        }
    };
    let params = (!params.is_empty()).then(|| json(params));
    match (method, name, params) {
        ("result", Some(id), Some(result)) => Message::response(id, Outcome::Result(result)),
        ("error", Some(id), Some(error)) => Message::response(id, Outcome::Error(error)),
        (method, Some(id), params) => Message::Request { id, call: Call::new(method, params) },
        (method, None, params) => Message::Notification(Call::new(method, params)),
    }
}

/// Writes a message.
pub fn text(message: &Message) -> String {
    let call = |call: &Call, id: Option<&Id>| {
        let id = id.map_or(String::new(), |id| format!(" {}", token(id)));
        let params = call.params.as_ref().map_or(String::new(), |it| format!(" {}", it.as_str()));
        format!("{}{id}{params}", call.method.name())
    };
    match message {
        Message::Request { id, call: it } => call(it, Some(id)),
        Message::Notification(it) => call(it, None),
        Message::Response { id, outcome: Outcome::Result(result), .. } => {
            format!("result {} {}", token(id), result.as_str())
        }
        Message::Response { id, outcome: Outcome::Error(error), .. } => {
            format!("error {} {}", token(id), error.as_str())
        }
    }
}

/// Whether a text matches a pattern, in which `…` stands for any text.
pub(super) fn matches_pattern(expected: &str, text: &str) -> bool {
    let parts: Vec<&str> = expected.split('…').collect();
    let [first, middle @ .., last] = &parts[..] else { return expected == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}
