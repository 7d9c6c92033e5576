//! JSON values as text: checks a value, finds members of its outermost object, and copies nothing.
//!
//! A conductor forwards messages that it does not understand, so it never builds a tree from a payload. It
//! checks the text once and keeps it as a range of the line that contained it. This preserves the order of
//! keys, the spelling of numbers, and escapes. The parser does not recurse, so deeply nested values cannot
//! overflow the stack.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use bytes::Bytes;

use crate::sink::{LONG_THRESHOLD, Sink};

mod run;
mod walk;

pub(crate) use walk::{Walker, plain_prefix_length};

/// The text of one valid JSON value.
///
/// It has no white space around it and no line breaks in it. A clone shares the memory of the line that
/// contained it; see [`detached`](Json::detached).
#[derive(Clone)]
pub struct Json(Bytes, SessionPosition);

/// The position of the member `sessionId` in the text of an object, if it was found while the line was
/// parsed. The session of a message is needed several times, and a prompt may be long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionPosition(u32);

impl SessionPosition {
    /// The position was not looked for.
    const UNKNOWN: SessionPosition = SessionPosition(0);
    /// The object has no such member.
    pub(crate) const ABSENT: SessionPosition = SessionPosition(u32::MAX);

    /// A member at `position` in the text of the object.
    pub(crate) fn new(position: usize) -> SessionPosition {
        let position = u32::try_from(position).ok().filter(|it| *it != u32::MAX);
        position.map_or(SessionPosition::UNKNOWN, SessionPosition)
    }
}

/// The key of the session id.
pub(crate) const SESSION: &str = "sessionId";

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.0 == other.0
    }
}

impl Eq for Json {}

impl Hash for Json {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Json {
    const fn raw(text: Bytes) -> Json {
        Json(text, SessionPosition::UNKNOWN)
    }

    /// `null`
    pub const NULL: Json = Json::raw(Bytes::from_static(b"null"));
    /// `true`
    pub const TRUE: Json = Json::raw(Bytes::from_static(b"true"));
    /// `{}`
    pub const EMPTY_OBJECT: Json = Json::raw(Bytes::from_static(b"{}"));

    /// Parses `text`, which must contain exactly one value. Line breaks between its tokens become spaces.
    pub fn parse(text: impl Into<Bytes>) -> Result<Json, SyntaxError> {
        let text = text.into();
        let span = check(&text)?;
        let json = text.slice(span.start..span.end);
        if !json.contains(&b'\n') {
            return Ok(Json::raw(json));
        }
        let unbroken = |&byte: &u8| if byte == b'\n' { b' ' } else { byte };
        Ok(Json::raw(json.iter().map(unbroken).collect::<Vec<u8>>().into()))
    }

    /// A value from text that this program generated. The text is checked in debug builds only.
    pub fn trusted(text: impl Into<Bytes>) -> Json {
        let text = text.into();
        debug_assert!(check(&text).is_ok(), "not JSON: {text:?}");
        Json::raw(text)
    }

    /// A value from a constant. The text is not checked.
    pub(crate) const fn from_static(text: &'static str) -> Json {
        Json::raw(Bytes::from_static(text.as_bytes()))
    }

    /// The JSON string with this text.
    pub fn string(text: &str) -> Json {
        let mut out = Vec::with_capacity(text.len() + 2);
        write_string(text, &mut out);
        Json::raw(out.into())
    }

    /// The value in this range of a line. The whole line must have been parsed.
    pub(crate) fn slice_of(line: &Bytes, span: Span) -> Json {
        Json::raw(line.slice(span.start..span.end))
    }

    /// The object in this range of a line, with the position of its `sessionId`.
    pub(crate) fn object_of(line: &Bytes, span: Span, session: SessionPosition) -> Json {
        Json(line.slice(span.start..span.end), session)
    }

    /// The text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Appends the text.
    pub(crate) fn write<S: Sink + ?Sized>(&self, out: &mut S) {
        match self.0.len() < LONG_THRESHOLD {
            true => out.buffer().extend_from_slice(&self.0),
            false => out.append_long(&self.0),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.as_bytes() == b"null"
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.as_bytes().first() == Some(&b'{')
    }

    /// Whether the value is an array.
    pub fn is_array(&self) -> bool {
        self.as_bytes().first() == Some(&b'[')
    }

    /// Whether the value is a string.
    pub fn is_string(&self) -> bool {
        self.as_bytes().first() == Some(&b'"')
    }

    /// The unescaped text of a JSON string. `None` for any other value. Lone surrogates become U+FFFD.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        unquote(self.as_bytes())
    }

    /// Whether the value is a string with this text.
    pub fn equals_text(&self, text: &str) -> bool {
        match self.as_bytes() {
            [b'"', inner @ .., b'"'] => {
                inner == text.as_bytes()
                    || (inner.contains(&b'\\') && self.text().as_deref() == Some(text))
            }
            _ => false,
        }
    }

    /// Whether `test` returns true for any string in the value, at any depth. Keys of objects are tested,
    /// too. Strings are unescaped first; lone surrogates become U+FFFD.
    pub fn any_string(&self, test: impl FnMut(&str) -> bool) -> bool {
        any_string(self.as_bytes(), test)
    }

    /// The value of an integer without fraction or exponent. `None` if it does not fit into `i64`, and for any
    /// other value.
    pub fn integer(&self) -> Option<i64> {
        self.as_str().parse().ok()
    }

    /// The value of the member `key` of an object. If the key occurs more than once, the last one counts.
    pub fn member(&self, key: &str) -> Option<Json> {
        if key == SESSION && self.1 != SessionPosition::UNKNOWN {
            return self.session();
        }
        self.find_member(key).map(|span| Json::slice_of(&self.0, span))
    }

    fn find_member(&self, key: &str) -> Option<Span> {
        let mut found = None;
        self.each_member(|name, span| {
            if name == key.as_bytes() {
                found = Some(span);
            }
        });
        found
    }

    /// The same value, with the position of its `sessionId`.
    pub(crate) fn with_session(self) -> Json {
        let session = self.find_member(SESSION);
        let session =
            session.map_or(SessionPosition::ABSENT, |span| SessionPosition::new(span.start));
        Json(self.0, session)
    }

    /// The member `sessionId`. Its position must be known.
    fn session(&self) -> Option<Json> {
        let at = Some(self.1).filter(|it| *it != SessionPosition::ABSENT)?.0 as usize;
        let length = Walker::new(self.0.get(at..)?).value().ok()?.end;
        Some(Json::slice_of(&self.0, Span { start: at, end: at + length }))
    }

    /// The value at a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<Json> {
        path.iter().try_fold(self.clone(), |json, key| json.member(key))
    }

    /// The value at a path of keys, like [`at`](Json::at). If a key occurs more than once, the first one
    /// counts. The rest of the text is not parsed, so this is cheap for large objects.
    pub fn first_at(&self, path: &[&str]) -> Option<Json> {
        let mut found = None;
        // An error ends the walk; the text is known to be valid.
        let _ = Walker::new(&self.0).find(path, &mut found);
        found.map(|span| Json::slice_of(&self.0, span))
    }

    /// A copy in which the member `key` has another value. The rest of the text stays the same. If there is
    /// no such member, or the value is not an object, nothing changes.
    pub fn with_member(&self, key: &str, value: &Json) -> Json {
        let Some(span) = self.find_member(key) else { return self.clone() };
        let text = self.as_bytes();
        let parts = [&text[..span.start], value.as_bytes(), &text[span.end..]];
        Json::raw(parts.concat().into())
    }

    /// A copy in which the value at a path of keys is replaced, or removed for `None`. Missing objects on
    /// the path are created. The rest of the text stays the same. If the value is not an object, nothing
    /// changes.
    pub fn with_at(&self, path: &[&str], value: Option<&Json>) -> Json {
        let [key, rest @ ..] = path else { return value.unwrap_or(self).clone() };
        if !self.is_object() {
            return self.clone();
        }
        let old = self.member(key);
        let new = match (&old, rest) {
            (_, []) => value.cloned(),
            (Some(old), rest) if old.is_object() => Some(old.with_at(rest, value)),
            // There is nothing to remove, or a value that cannot contain the rest of the path.
            (old, _) if value.is_none() => old.clone(),
            (_, rest) => Some(Json::EMPTY_OBJECT.with_at(rest, value)),
        };
        match (old, new) {
            (Some(_), Some(new)) => self.with_member(key, &new),
            (Some(_), None) => self.without_member(key),
            (None, Some(new)) => self.with_new_member(key, &new),
            (None, None) => self.clone(),
        }
    }

    fn with_new_member(&self, key: &str, value: &Json) -> Json {
        let text = self.as_bytes();
        let mut out = text[..text.len() - 1].trim_ascii_end().to_vec();
        if out != b"{" {
            out.push(b',');
        }
        write_string(key, &mut out);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
        out.push(b'}');
        Json::raw(out.into())
    }

    fn without_member(&self, key: &str) -> Json {
        let mut kept = Vec::new();
        let walked = Walker::new(&self.0).object(|name, walker| {
            let start = walker.key_start();
            let end = walker.value()?.end;
            if name != key.as_bytes() {
                kept.push(&self.0[start..end]);
            }
            Ok(())
        });
        debug_assert!(walked.is_ok());
        Json::raw([b"{", kept.join(&b","[..]).as_slice(), b"}"].concat().into())
    }

    /// Whether the value is an object without members.
    pub fn is_empty_object(&self) -> bool {
        matches!(self.as_bytes(), [b'{', inner @ .., b'}'] if inner.trim_ascii().is_empty())
    }

    /// An object with these members, in this order. Members without a value are omitted.
    pub fn object<'a>(members: impl IntoIterator<Item = (&'a str, Option<Json>)>) -> Json {
        let mut out = vec![b'{'];
        for (key, value) in members {
            let Some(value) = value else { continue };
            if out.len() > 1 {
                out.push(b',');
            }
            write_string(key, &mut out);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
        out.push(b'}');
        Json::raw(out.into())
    }

    /// An array of these elements.
    pub fn array<'a>(elements: impl IntoIterator<Item = &'a Json>) -> Json {
        let elements: Vec<&[u8]> = elements.into_iter().map(Json::as_bytes).collect();
        Json::raw([b"[", elements.join(&b","[..]).as_slice(), b"]"].concat().into())
    }

    /// The elements of an array. Empty for any other value.
    pub fn elements(&self) -> Vec<Json> {
        let mut elements = Vec::new();
        let walked = Walker::new(&self.0).array(|walker| {
            elements.push(Json::slice_of(&self.0, walker.value()?));
            Ok(())
        });
        debug_assert!(walked.is_ok() || !self.is_array());
        elements
    }

    /// The members of an object, in order. Empty for any other value.
    pub fn members(&self) -> Vec<(String, Json)> {
        let mut members = Vec::new();
        self.each_member(|name, span| {
            let name = String::from_utf8_lossy(name).into_owned();
            members.push((name, Json::slice_of(&self.0, span)));
        });
        members
    }

    /// The keys of an object, in order. Empty for any other value.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        self.each_member(|name, _| keys.push(String::from_utf8_lossy(name).into_owned()));
        keys
    }

    fn each_member(&self, mut visit: impl FnMut(&[u8], Span)) {
        if self.is_object() {
            let walked = Walker::new(&self.0).object(|key, walker| {
                let span = walker.value()?;
                visit(key, span);
                Ok(())
            });
            debug_assert!(walked.is_ok());
        }
    }

    /// Whether this value contains everything that `other` contains, and perhaps more. Objects may have
    /// additional members, arrays additional elements, and a null member may be missing. Below a depth of
    /// 64 only identical text matches.
    pub fn extends(&self, other: &Json) -> bool {
        let mut work = 16 * (self.0.len() + other.0.len()) + (1 << 20);
        self.extends_within_budget(other, &mut work)
    }

    /// Like [`extends`](Json::extends), but compares at most `budget` bytes. The compared bytes are subtracted
    /// from `budget`. Returns `false` if the budget does not suffice.
    pub fn extends_within_budget(&self, other: &Json, budget: &mut usize) -> bool {
        self.extends_within(other, 64, budget)
    }

    fn extends_within(&self, other: &Json, depth: u8, work: &mut usize) -> bool {
        if self.as_bytes() == other.as_bytes() {
            return true;
        }
        let spent = self.0.len() + other.0.len();
        let (Some(depth), Some(rest)) = (depth.checked_sub(1), work.checked_sub(spent)) else {
            return false;
        };
        if self.is_object() && other.is_object() {
            *work = rest;
            let ours: BTreeMap<String, Json> = self.members().into_iter().collect();
            return other.members().iter().all(|(key, theirs)| match ours.get(key) {
                Some(ours) => ours.extends_within(theirs, depth, work),
                None => theirs.is_null(),
            });
        }
        if self.is_array() && other.is_array() {
            *work = rest;
            let mut ours = self.elements().into_iter();
            let mut finds = |it: &Json| ours.any(|my| my.extends_within(it, depth, work));
            return other.elements().iter().all(&mut finds);
        }
        matches!((self.text(), other.text()), (Some(ours), Some(theirs)) if ours == theirs)
    }

    /// A copy that does not share the memory of the line that contained the value. Use it for values that
    /// are kept for long.
    pub fn detached(&self) -> Json {
        Json::raw(Bytes::copy_from_slice(&self.0))
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a text is not valid JSON, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong.
    pub message: &'static str,
    /// The offset in bytes from the start of the text.
    pub offset: usize,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.message, self.offset + 1)
    }
}

impl std::error::Error for SyntaxError {}

/// The range of a value in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start..self.end]
    }
}

fn check(text: &[u8]) -> Result<Span, SyntaxError> {
    let mut walker = Walker::new(text);
    let span = walker.value()?;
    walker.end()?;
    Ok(span)
}

fn utf8(text: &[u8]) -> Result<(), SyntaxError> {
    std::str::from_utf8(text)
        .map(drop)
        .map_err(|error| SyntaxError { message: "invalid UTF-8", offset: error.valid_up_to() })
}

/// The unescaped text of a quoted JSON string. `None` if `quoted` is not in quotes.
pub(crate) fn unquote(quoted: &[u8]) -> Option<Cow<'_, str>> {
    let inner = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let inner = std::str::from_utf8(inner).ok()?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes().get(at + 1).copied()?;
        rest = &rest[at + 2..];
        match escape {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let high = u32::from_str_radix(rest.get(..4)?, 16).ok()?;
                rest = &rest[4..];
                let low = rest
                    .strip_prefix("\\u")
                    .and_then(|tail| tail.get(..4))
                    .and_then(|hex| u32::from_str_radix(hex, 16).ok());
                match (high, low) {
                    (0xD800..0xDC00, Some(low @ 0xDC00..0xE000)) => {
                        rest = &rest[6..];
                        let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    _ => out.push(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER)),
                }
            }
            other => out.push(char::from(other)),
        }
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

/// [`Json::any_string`] for a fragment of valid JSON text that may contain several values.
pub(crate) fn any_string(text: &[u8], mut test: impl FnMut(&str) -> bool) -> bool {
    let mut at = 0;
    while let Some(start) = text[at..].iter().position(|it| *it == b'"').map(|it| at + it) {
        let mut end = start + 1;
        while let Some(byte) = text.get(end).filter(|byte| **byte != b'"') {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        at = (end + 1).min(text.len());
        // A string that cannot be unescaped cannot be tested, so it counts as a match.
        if unquote(&text[start..at]).is_none_or(|unescaped| test(&unescaped)) {
            return true;
        }
    }
    false
}

/// Appends a JSON string with this text.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
