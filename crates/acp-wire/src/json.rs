//! Just enough JSON: check one text, find the members of its outermost object, copy none of it.
//!
//! A conductor forwards what it does not understand, so a payload is never turned into a tree: it
//! is checked once, byte by byte, and kept as a range of the line it came on. That preserves key
//! order, number spelling and escapes by construction. The walk keeps its own bit stack instead of
//! recursing, so no depth of nesting can overflow the thread's stack.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use bytes::Bytes;

use crate::sink::{LONG, Sink};

mod run;
mod walk;

pub(crate) use walk::{Walker, plain_prefix_length};

/// The text of one valid JSON value, without white space around it and without line breaks (they
/// would split the frame of the message that carries it).
#[derive(Clone)]
pub struct Json(Bytes, SessionAt);

/// Where the value of the member `sessionId` stands in an object, if that was found out when the object was
/// checked. The core asks for the session of a message several times; a prompt may be long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionAt(u32);

impl SessionAt {
    const UNKNOWN: SessionAt = SessionAt(0);
    /// The object has no such member.
    pub const ABSENT: SessionAt = SessionAt(u32::MAX);

    /// `position` is that in the text of the object.
    pub fn new(position: usize) -> SessionAt {
        let position = u32::try_from(position).ok().filter(|it| *it != u32::MAX);
        position.map_or(SessionAt::UNKNOWN, SessionAt)
    }
}

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
        Json(text, SessionAt::UNKNOWN)
    }

    pub const NULL: Json = Json::raw(Bytes::from_static(b"null"));
    pub const TRUE: Json = Json::raw(Bytes::from_static(b"true"));
    pub const EMPTY: Json = Json::raw(Bytes::from_static(b"{}"));

    /// Checks `text`, which must hold exactly one value. Line breaks between its tokens become
    /// spaces.
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

    /// For text that this program wrote itself. Checked in debug builds only.
    pub fn trusted(text: impl Into<Bytes>) -> Json {
        let text = text.into();
        debug_assert!(check(&text).is_ok(), "not JSON: {text:?}");
        Json::raw(text)
    }

    /// For text in the program itself. Not checked.
    pub(crate) const fn from_static(text: &'static str) -> Json {
        Json::raw(Bytes::from_static(text.as_bytes()))
    }

    /// The JSON string that says `text`.
    pub fn string(text: &str) -> Json {
        let mut out = Vec::with_capacity(text.len() + 2);
        write_string(text, &mut out);
        Json::raw(out.into())
    }

    /// A range of a line that was checked as a whole.
    pub(crate) fn slice_of(line: &Bytes, span: Span) -> Json {
        Json::raw(line.slice(span.start..span.end))
    }

    /// The same for an object, with where its `sessionId` stands.
    pub(crate) fn object_of(line: &Bytes, span: Span, session: SessionAt) -> Json {
        Json(line.slice(span.start..span.end), session)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Appends the text.
    pub(crate) fn write<S: Sink + ?Sized>(&self, out: &mut S) {
        match self.0.len() < LONG {
            true => out.short().extend_from_slice(&self.0),
            false => out.long(&self.0),
        }
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub fn is_null(&self) -> bool {
        self.as_bytes() == b"null"
    }

    pub fn is_object(&self) -> bool {
        self.as_bytes().first() == Some(&b'{')
    }

    pub fn is_array(&self) -> bool {
        self.as_bytes().first() == Some(&b'[')
    }

    pub fn is_string(&self) -> bool {
        self.as_bytes().first() == Some(&b'"')
    }

    /// The text of a JSON string; `None` for any other value. Lone surrogates become U+FFFD.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        unquote(self.as_bytes())
    }

    /// Whether this is a string that says `text`.
    pub fn equals_text(&self, text: &str) -> bool {
        match self.as_bytes() {
            [b'"', inner @ .., b'"'] => {
                inner == text.as_bytes()
                    || (inner.contains(&b'\\') && self.text().as_deref() == Some(text))
            }
            _ => false,
        }
    }

    /// Whether the test holds for any string inside, at any depth; the names of members are strings, too.
    /// Each is tested as a reader understands it, without escapes. Lone surrogates become U+FFFD.
    pub fn any_string(&self, test: impl FnMut(&str) -> bool) -> bool {
        any_string(self.as_bytes(), test)
    }

    /// The value of an integer without fraction or exponent that fits.
    pub fn integer(&self) -> Option<i64> {
        self.as_str().parse().ok()
    }

    /// The member `key` of an object; the last one where it stands several times.
    pub fn member(&self, key: &str) -> Option<Json> {
        if key == SESSION && self.1 != SessionAt::UNKNOWN {
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

    /// The same, with where its `sessionId` stands.
    pub(crate) fn with_session(self) -> Json {
        let session = self.find_member(SESSION);
        let session = session.map_or(SessionAt::ABSENT, |span| SessionAt::new(span.start));
        Json(self.0, session)
    }

    /// The member `sessionId`, of which it is known where it stands.
    fn session(&self) -> Option<Json> {
        let at = Some(self.1).filter(|it| *it != SessionAt::ABSENT)?.0 as usize;
        let length = Walker::new(self.0.get(at..)?).value().ok()?.end;
        Some(Json::slice_of(&self.0, Span { start: at, end: at + length }))
    }

    /// The value at the end of a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<Json> {
        path.iter().try_fold(self.clone(), |json, key| json.member(key))
    }

    /// The value at the end of a path of keys, as [`at`](Json::at) gives it, but of members that occur twice
    /// the first one. What stands behind it is not looked at, so this is cheap in a large object.
    pub fn first_at(&self, path: &[&str]) -> Option<Json> {
        let mut found = None;
        // An error ends the walk; the text is known to be JSON.
        let _ = Walker::new(&self.0).find(path, &mut found);
        found.map(|span| Json::slice_of(&self.0, span))
    }

    /// A copy in which the member `key` has another value; everything else stays as it is spelt.
    /// Without such a member, or on anything but an object, nothing changes.
    pub fn with_member(&self, key: &str, value: &Json) -> Json {
        let Some(span) = self.find_member(key) else { return self.clone() };
        let text = self.as_bytes();
        let parts = [&text[..span.start], value.as_bytes(), &text[span.end..]];
        Json::raw(parts.concat().into())
    }

    /// A copy in which the value at a path of keys is another one, or gone (`None`). Objects on the
    /// way are made where they are missing; whatever is not on the way stays as it is spelt. On
    /// anything but an object nothing changes.
    pub fn with_at(&self, path: &[&str], value: Option<&Json>) -> Json {
        let [key, rest @ ..] = path else { return value.unwrap_or(self).clone() };
        if !self.is_object() {
            return self.clone();
        }
        let old = self.member(key);
        let new = match (&old, rest) {
            (_, []) => value.cloned(),
            (Some(old), rest) if old.is_object() => Some(old.with_at(rest, value)),
            // Nothing there to take away, or something that cannot hold it.
            (old, _) if value.is_none() => old.clone(),
            (_, rest) => Some(Json::EMPTY.with_at(rest, value)),
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

    pub fn is_empty_object(&self) -> bool {
        matches!(self.as_bytes(), [b'{', inner @ .., b'}'] if inner.trim_ascii().is_empty())
    }

    /// The object with these members, in this order; those without a value are left out.
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

    pub fn array<'a>(elements: impl IntoIterator<Item = &'a Json>) -> Json {
        let elements: Vec<&[u8]> = elements.into_iter().map(Json::as_bytes).collect();
        Json::raw([b"[", elements.join(&b","[..]).as_slice(), b"]"].concat().into())
    }

    /// The elements of an array, as they are spelt; none of anything else.
    pub fn elements(&self) -> Vec<Json> {
        let mut elements = Vec::new();
        let walked = Walker::new(&self.0).array(|walker| {
            elements.push(Json::slice_of(&self.0, walker.value()?));
            Ok(())
        });
        debug_assert!(walked.is_ok() || !self.is_array());
        elements
    }

    /// The members of an object, in their order.
    pub fn members(&self) -> Vec<(String, Json)> {
        let mut members = Vec::new();
        self.each_member(|name, span| {
            let name = String::from_utf8_lossy(name).into_owned();
            members.push((name, Json::slice_of(&self.0, span)));
        });
        members
    }

    /// The keys of an object, in their order.
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

    /// Does this say everything that `other` says, and perhaps more? Objects may have further members,
    /// arrays further elements; a member that is null may be left out. Beyond a certain depth, which
    /// nobody reaches in earnest, only the same text says the same.
    pub fn extends(&self, other: &Json) -> bool {
        let mut work = 16 * (self.0.len() + other.0.len()) + (1 << 20);
        self.extends_within_budget(other, &mut work)
    }

    /// The same, if so much work is enough to find out: bytes that may be looked at. What was spent is taken
    /// away from it.
    pub fn extends_within_budget(&self, other: &Json, work: &mut usize) -> bool {
        self.extends_within(other, 64, work)
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

    /// A copy that does not keep the line it was cut from alive.
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

/// Why a text is not JSON, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxError {
    pub what: &'static str,
    pub at: usize,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at + 1)
    }
}

impl std::error::Error for SyntaxError {}

/// Where a value stands in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn of(self, text: &[u8]) -> &[u8] {
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
        .map_err(|error| SyntaxError { what: "invalid UTF-8", at: error.valid_up_to() })
}

/// What a quoted JSON string says. `None` if `quoted` does not start with a quote.
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

/// [`Json::any_string`] for a piece of valid JSON text that need not be one value.
pub(crate) fn any_string(text: &[u8], mut test: impl FnMut(&str) -> bool) -> bool {
    let mut at = 0;
    while let Some(start) = text[at..].iter().position(|it| *it == b'"').map(|it| at + it) {
        let mut end = start + 1;
        while let Some(byte) = text.get(end).filter(|byte| **byte != b'"') {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        at = (end + 1).min(text.len());
        // What cannot be read cannot be tested, so it counts.
        if unquote(&text[start..at]).is_none_or(|said| test(&said)) {
            return true;
        }
    }
    false
}

/// Appends the JSON string that says `text`.
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
