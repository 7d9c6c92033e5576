//! Makes the values of a record fit for the log: secrets are redacted, and long texts are cut.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::record::{Record, content};
use secrets::Secrets;

/// The longest text in a record, in bytes.
const MAX_TEXT: usize = 4 * 1024;

/// How much of a long text is searched for secrets. A secret that begins before the cut is found whole.
const SEARCHED: usize = 4 * MAX_TEXT;

/// The longest array or object in a record.
const MAX_MEMBERS: usize = 256;

/// The deepest nesting.
const MAX_DEPTH: usize = 16;

/// The largest record, without the members that the log adds.
const MAX_RECORD: usize = 48 * 1024;

/// A record with short texts and without secrets.
pub(super) fn fit(mut record: Record) -> Record {
    let ids = [
        &mut record.session,
        &mut record.agent,
        &mut record.at,
        &mut record.call,
        &mut record.tool,
        &mut record.option,
        &mut record.outcome,
    ];
    for text in ids.into_iter().flatten() {
        shorten(text);
    }
    if let Some(rule) = &mut record.rule {
        for text in [&mut rule.name, &mut rule.file, &mut rule.hash].into_iter().flatten() {
            shorten(text);
        }
    }
    fit_value(&mut record.what, 0);
    fit_members(&mut record.details, 0);
    let size = |value: &Value| value.to_string().len();
    if size(&record.what) > MAX_RECORD / 2 {
        record.what = content(record.what.to_string());
    }
    let details = Value::Object(std::mem::take(&mut record.details));
    let details =
        if size(&details) > MAX_RECORD / 2 { content(details.to_string()) } else { details };
    if let Value::Object(details) = details {
        record.details = details;
    }
    record
}

fn fit_value(value: &mut Value, depth: usize) {
    match value {
        Value::String(text) => shorten(text),
        Value::Array(_) | Value::Object(_) if depth == MAX_DEPTH => {
            *value = content(value.to_string());
        }
        Value::Array(values) => {
            let rest = values.len().saturating_sub(MAX_MEMBERS);
            values.truncate(MAX_MEMBERS);
            values.iter_mut().for_each(|value| fit_value(value, depth + 1));
            if rest > 0 {
                values.push(format!("… and {rest} more").into());
            }
        }
        Value::Object(members) => fit_members(members, depth),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn fit_members(members: &mut Map<String, Value>, depth: usize) {
    let count = members.len();
    let kept = std::mem::take(members).into_iter().take(MAX_MEMBERS);
    *members = kept
        .map(|(mut name, mut value)| {
            shorten(&mut name);
            fit_value(&mut value, depth + 1);
            (name, value)
        })
        .collect();
    if count > MAX_MEMBERS {
        members.insert("…".to_owned(), format!("and {} more", count - MAX_MEMBERS).into());
    }
}

/// Redacts secrets, and then cuts the text. (A secret that is cut first would not be found.)
pub(super) fn shorten(text: &mut String) {
    let length = text.len();
    let searched = &text[..text.floor_char_boundary(SEARCHED)];
    let redacted = redact(searched);
    if length <= MAX_TEXT {
        if let Cow::Owned(redacted) = redacted {
            *text = redacted;
        }
        return;
    }
    let end = redacted.floor_char_boundary(MAX_TEXT);
    *text = format!("{}… [{length} bytes]", &redacted[..end]);
}

/// A log is kept for long, so it is better to redact too much: also what stands behind `Authorization:` or `password =`,
/// and the password in an address.
fn redact(text: &str) -> Cow<'_, str> {
    static CONTEXT: LazyLock<Secrets> =
        LazyLock::new(|| Secrets::builder().context(|_| true).build());
    // A token keeps the name of its kind.
    match Secrets::standard().redact(text) {
        Cow::Borrowed(text) => CONTEXT.redact(text),
        Cow::Owned(text) => Cow::Owned(CONTEXT.redact(&text).into_owned()),
    }
}
