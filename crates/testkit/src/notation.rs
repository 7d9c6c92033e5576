//! The notation for lines in scripts: writes a line from its short form, and back.
//!
//! ```text
//! session/prompt 5 {"a":1}    a request; an id is JSON, or a word without quotes
//! session/update {"a":1}      a notification
//! ~session/update {"a":1}     the same in an envelope (P5)
//! result 5 {"a":1}            a response with a result
//! error 5 {"code":1}          a response with an error
//! {"jsonrpc":"2.0", …}        any other JSON, unchanged
//! raw text                    any other text, unchanged
//! ```
//!
//! `#1` is the first id that the conductor has made (on the wire: `"c:1"`), also as a string inside a payload.

use acp_wire::{Id, Json, Message, Outcome};
use bytes::Bytes;

/// The line of a short form. `base` is the number of ids that the conductor had made before `#1`.
///
/// # Panics
/// If the text is not in the notation.
pub fn line(text: &str, base: u64) -> Bytes {
    let text = text.trim();
    if let Some(raw) = text.strip_prefix("raw ") {
        return raw.to_owned().into();
    }
    if text.starts_with('{') {
        return unnumber(text, base).into();
    }
    let (head, rest) = word(text);
    let (id, payload) = match rest.chars().next() {
        None | Some('{' | '[') => (None, rest),
        Some(_) => {
            let (id, payload) = word(rest);
            (Some(to_json_id(id)), payload)
        }
    };
    let mut out = r#"{"jsonrpc":"2.0""#.to_owned();
    let mut member = |key: &str, value: &str| {
        if !value.is_empty() {
            out += &format!(r#","{key}":{value}"#);
        }
    };
    member("id", id.as_deref().unwrap_or_default());
    match (head, head.strip_prefix('~')) {
        ("result" | "error", _) => {
            assert!(id.is_some() && !payload.is_empty(), "an answer needs an id and a payload");
            member(head, payload);
        }
        (_, Some(method)) => {
            let params = if payload.is_empty() { "" } else { &format!(r#","params":{payload}"#) };
            member("method", r#""proxy/successor""#);
            member("params", &format!(r#"{{"method":"{method}"{params}}}"#));
        }
        (method, None) => {
            member("method", &format!("{method:?}"));
            member("params", payload);
        }
    }
    out.push('}');
    unnumber(&out, base).into()
}

/// The short form of a line. If it has none, the line itself.
pub fn text(line: &Bytes, base: u64) -> String {
    let short = Message::parse(line).ok().map(|message| match message {
        Message::Request { id, call } => call_text(&call, &format!(" {}", bare(&id))),
        Message::Notification(call) => call_text(&call, ""),
        Message::Response { id, outcome, .. } => match outcome {
            Outcome::Result(json) => format!("result {} {json}", bare(&id)),
            Outcome::Error(json) => format!("error {} {json}", bare(&id)),
        },
    });
    let faithful = short.filter(|short| self::line(short, 0) == line);
    number(&faithful.unwrap_or_else(|| String::from_utf8_lossy(line).into_owned()), base)
}

fn call_text(call: &acp_wire::Call, id: &str) -> String {
    let payload = |json: Option<Json>| json.map_or_else(String::new, |json| format!(" {json}"));
    let inner = call.params.as_ref().filter(|_| call.is("proxy/successor"));
    if let Some((params, method)) =
        inner.and_then(|it| Some((it, it.member("method")?.text()?.into_owned())))
    {
        return format!("~{method}{id}{}", payload(params.member("params")));
    }
    format!("{}{id}{}", call.method.name(), payload(call.params.clone()))
}

fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, rest.trim_start())
}

/// The JSON of an id in the notation.
fn to_json_id(id: &str) -> String {
    match Json::parse(id.to_owned()) {
        Ok(_) => id.to_owned(),
        Err(_) => format!("{id:?}"),
    }
}

/// An id without quotes, unless that is ambiguous.
fn bare(id: &Id) -> String {
    match id.text() {
        Some(text) if to_json_id(&text) == id.json().as_str() && !text.contains(' ') => {
            text.into_owned()
        }
        _ => id.to_string(),
    }
}

/// Replaces each string `#1` by `c:1`.
fn unnumber(text: &str, base: u64) -> String {
    replace(text, "\"#", |number| format!("\"c:{}", number + base))
}

/// Replaces each `c:1` by `#1`.
fn number(text: &str, base: u64) -> String {
    let shown = |number: u64| number.checked_sub(base).filter(|it| *it > 0);
    let quoted = |number| match shown(number) {
        Some(number) => format!("\"#{number}"),
        None => format!("\"c:{number}"),
    };
    let bare = |number| match shown(number) {
        Some(number) => format!(" #{number}"),
        None => format!(" c:{number}"),
    };
    replace(&replace(text, "\"c:", quoted), " c:", bare)
}

/// Replaces each `prefix` that a number follows, and the number.
fn replace(text: &str, prefix: &str, new: impl Fn(u64) -> String) -> String {
    let mut parts = text.split(prefix);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        match part[..digits].parse() {
            Ok(number) => out += &new(number),
            Err(_) => out += &format!("{prefix}{}", &part[..digits]),
        }
        out += &part[digits..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn both_ways(short: &str, long: &str) {
        assert_eq!(line(short, 3), long);
        assert_eq!(text(&Bytes::copy_from_slice(long.as_bytes()), 3), short);
    }

    #[test]
    fn short_forms_and_lines_are_translated_both_ways() {
        both_ways(
            "a/b 5 {\"x\": 1.0}",
            r#"{"jsonrpc":"2.0","id":5,"method":"a/b","params":{"x": 1.0}}"#,
        );
        both_ways("a", r#"{"jsonrpc":"2.0","method":"a"}"#);
        both_ways("result P0 null", r#"{"jsonrpc":"2.0","id":"P0","result":null}"#);
        both_ways("result \"5\" {}", r#"{"jsonrpc":"2.0","id":"5","result":{}}"#);
        both_ways("a #1", r#"{"jsonrpc":"2.0","id":"c:4","method":"a"}"#);
        both_ways(
            "~a #2 {\"i\":\"#1\"}",
            r#"{"jsonrpc":"2.0","id":"c:5","method":"proxy/successor","params":{"method":"a","params":{"i":"c:4"}}}"#,
        );
        both_ways("~a", r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"a"}}"#);
        both_ways(
            r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"a","_meta":{}}}"#,
            r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"a","_meta":{}}}"#,
        );
        assert_eq!(line("raw hello", 0), "hello");
    }
}
