//! Just enough JSON: check one text, find the members of its outermost object, copy none of it.
//!
//! A conductor forwards what it does not understand, so a payload is never turned into a tree: it
//! is checked once, byte by byte, and kept as a range of the line it came on. That preserves key
//! order, number spelling and escapes by construction. The walk keeps its own bit stack instead of
//! recursing, so no depth of nesting can overflow the thread's stack.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

/// The text of one valid JSON value, without white space around it and without line breaks (they
/// would split the frame of the message that carries it).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Bytes);

impl Json {
    pub const NULL: Json = Json(Bytes::from_static(b"null"));
    pub const TRUE: Json = Json(Bytes::from_static(b"true"));
    pub const EMPTY: Json = Json(Bytes::from_static(b"{}"));

    /// Checks `text`, which must hold exactly one value. Line breaks between its tokens become
    /// spaces.
    pub fn parse(text: impl Into<Bytes>) -> Result<Json, Syntax> {
        let text = text.into();
        let span = check(&text)?;
        let json = text.slice(span.start..span.end);
        if !json.contains(&b'\n') {
            return Ok(Json(json));
        }
        let unbroken = |&byte: &u8| if byte == b'\n' { b' ' } else { byte };
        Ok(Json(json.iter().map(unbroken).collect::<Vec<u8>>().into()))
    }

    /// For text that this program wrote itself. Checked in debug builds only.
    pub fn trusted(text: impl Into<Bytes>) -> Json {
        let text = text.into();
        debug_assert!(check(&text).is_ok(), "not JSON: {text:?}");
        Json(text)
    }

    /// The JSON string that says `text`.
    pub fn string(text: &str) -> Json {
        let mut out = Vec::with_capacity(text.len() + 2);
        write_string(text, &mut out);
        Json(out.into())
    }

    /// A range of a line that was checked as a whole.
    pub(crate) fn slice_of(line: &Bytes, span: Span) -> Json {
        Json(line.slice(span.start..span.end))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
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

    /// Does this string say `text`, a text without quotes, backslashes and control characters?
    pub(crate) fn says(&self, text: &str) -> bool {
        match self.as_bytes() {
            [b'"', inner @ .., b'"'] => {
                inner == text.as_bytes()
                    || (inner.contains(&b'\\') && self.text().as_deref() == Some(text))
            }
            _ => false,
        }
    }

    /// The value of an integer without fraction or exponent that fits.
    pub fn integer(&self) -> Option<i64> {
        self.as_str().parse().ok()
    }

    /// The member `key` of an object; the last one where it stands several times.
    pub fn member(&self, key: &str) -> Option<Json> {
        let mut found = None;
        self.each_member(|name, span| {
            if name == key.as_bytes() {
                found = Some(Json::slice_of(&self.0, span));
            }
        });
        found
    }

    /// The value at the end of a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<Json> {
        path.iter().try_fold(self.clone(), |json, key| json.member(key))
    }

    /// A copy in which the member `key` has another value; everything else stays as it is spelt.
    /// Without such a member, or on anything but an object, nothing changes.
    pub fn with_member(&self, key: &str, value: &Json) -> Json {
        let mut found = None;
        self.each_member(|name, span| {
            if name == key.as_bytes() {
                found = Some(span);
            }
        });
        let Some(span) = found else { return self.clone() };
        let text = self.as_bytes();
        let parts = [&text[..span.start], value.as_bytes(), &text[span.end..]];
        Json(parts.concat().into())
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
        Json(out.into())
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
        Json([b"{", kept.join(&b","[..]).as_slice(), b"}"].concat().into())
    }

    pub fn is_empty_object(&self) -> bool {
        matches!(self.as_bytes(), [b'{', inner @ .., b'}'] if inner.trim_ascii().is_empty())
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

    /// A copy that does not keep the line it was cut from alive.
    pub fn detached(&self) -> Json {
        Json(Bytes::copy_from_slice(&self.0))
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
pub struct Syntax {
    pub what: &'static str,
    pub at: usize,
}

impl fmt::Display for Syntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at + 1)
    }
}

impl std::error::Error for Syntax {}

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

fn check(text: &[u8]) -> Result<Span, Syntax> {
    let mut walker = Walker::new(text);
    let span = walker.value()?;
    walker.end()?;
    Ok(span)
}

fn utf8(text: &[u8]) -> Result<(), Syntax> {
    std::str::from_utf8(text)
        .map(drop)
        .map_err(|error| Syntax { what: "invalid UTF-8", at: error.valid_up_to() })
}

/// Walks over text and accepts exactly the grammar of RFC 8259. Bytes beyond ASCII can only be in
/// strings; whether they are UTF-8 is checked once, at the [`end`](Walker::end).
pub(crate) struct Walker<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the key of the member at hand begins.
    key_start: usize,
    /// All bytes of strings so far, one over the other: is there any that is not ASCII?
    seen: u64,
}

impl<'a> Walker<'a> {
    pub fn new(text: &'a [u8]) -> Walker<'a> {
        Walker { text, at: 0, key_start: 0, seen: 0 }
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, Syntax> {
        Err(Syntax { what, at: self.at })
    }

    /// The next byte that is not white space, not yet taken.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Inside `object`'s visitor: where the member's key begins.
    pub fn key_start(&self) -> usize {
        self.key_start
    }

    /// Nothing may follow, and all of it must be UTF-8.
    pub fn end(&mut self) -> Result<(), Syntax> {
        match self.peek() {
            None if self.seen & HIGH == 0 => Ok(()),
            None => utf8(self.text),
            Some(_) => self.fail("text after the end of the value"),
        }
    }

    /// Visits the members of an object: `visit` gets what each key says and must walk over its
    /// value.
    pub fn object(
        &mut self,
        mut visit: impl FnMut(&[u8], &mut Self) -> Result<(), Syntax>,
    ) -> Result<Span, Syntax> {
        if self.peek() != Some(b'{') {
            return self.fail("expected an object");
        }
        let start = self.at;
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Span { start, end: self.at });
        }
        loop {
            let (key, escaped) = self.key()?;
            self.key_start = key.start;
            if escaped {
                let key = unquote(key.of(self.text)).unwrap_or_default();
                visit(key.as_bytes(), self)?;
            } else {
                visit(&self.text[key.start + 1..key.end - 1], self)?;
            }
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Span { start, end: self.at });
                }
                _ => return self.fail("expected ',' or '}'"),
            }
        }
    }

    /// Walks over any value.
    pub fn value(&mut self) -> Result<Span, Syntax> {
        let Some(mut byte) = self.peek() else { return self.fail("expected a value") };
        let start = self.at;
        let mut open = Nesting::default();
        loop {
            match byte {
                b'"' => drop(self.string()?),
                b'{' => {
                    self.at += 1;
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                    } else {
                        open.push(true);
                        self.key()?;
                        byte = self.start_of_value()?;
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    if self.peek() == Some(b']') {
                        self.at += 1;
                    } else {
                        open.push(false);
                        byte = self.start_of_value()?;
                        continue;
                    }
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => return self.fail("expected a value"),
            }
            // A value has ended: close what ends with it, go on to the next one.
            loop {
                let Some(in_object) = open.top() else { return Ok(Span { start, end: self.at }) };
                match (self.peek(), in_object) {
                    (Some(b','), true) => {
                        self.at += 1;
                        self.key()?;
                        break;
                    }
                    (Some(b','), false) => {
                        self.at += 1;
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        open.pop();
                    }
                    (_, true) => return self.fail("expected ',' or '}'"),
                    (_, false) => return self.fail("expected ',' or ']'"),
                }
            }
            byte = self.start_of_value()?;
        }
    }

    fn start_of_value(&mut self) -> Result<u8, Syntax> {
        match self.peek() {
            Some(byte) => Ok(byte),
            None => self.fail("expected a value"),
        }
    }

    /// A key and the colon behind it: the span of the quoted key, and whether it has escapes.
    fn key(&mut self) -> Result<(Span, bool), Syntax> {
        if self.peek() != Some(b'"') {
            return self.fail("expected a key");
        }
        let start = self.at;
        let escaped = self.string()?;
        let span = Span { start, end: self.at };
        if self.peek() != Some(b':') {
            return self.fail("expected ':'");
        }
        self.at += 1;
        Ok((span, escaped))
    }

    /// Walks over a string; says whether it has escapes.
    fn string(&mut self) -> Result<bool, Syntax> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.plain();
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    self.escape()?;
                    escaped = true;
                }
                Some(_) => return self.fail("control character in a string"),
                None => return self.fail("unterminated string"),
            }
        }
    }

    /// Walks on to what ends a run of ordinary string bytes: a quote, a backslash or a control
    /// character. Looks at eight bytes at a time, since most of a payload is such runs.
    #[inline]
    fn plain(&mut self) {
        let (mut at, mut seen) = (self.at, self.seen);
        while let Some(chunk) = self.text.get(at..at + 8) {
            let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
            // A borrow can only mark bytes above a true hit, so the lowest mark is exact.
            let control = word.wrapping_sub(ONES * 0x20) & !word;
            let hits = (control | zero_byte(word ^ QUOTES) | zero_byte(word ^ BACKSLASHES)) & HIGH;
            if hits != 0 {
                let before = hits.trailing_zeros() / 8;
                self.at = at + before as usize;
                self.seen = seen | (word & ((1 << (before * 8)) - 1));
                return;
            }
            seen |= word;
            at += 8;
        }
        while let Some(&byte) = self.text.get(at) {
            if byte == b'"' || byte == b'\\' || byte < 0x20 {
                break;
            }
            seen |= u64::from(byte);
            at += 1;
        }
        (self.at, self.seen) = (at, seen);
    }

    fn escape(&mut self) -> Result<(), Syntax> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match self.text.get(self.at + 2..self.at + 6) {
                Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => self.at += 6,
                _ => return self.fail("invalid \\u escape"),
            },
            _ => return self.fail("invalid escape"),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Syntax> {
        if self.text[self.at] == b'-' {
            self.at += 1;
        }
        match self.text.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return self.fail("invalid number"),
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Syntax> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
        if self.at == start { self.fail("invalid number") } else { Ok(()) }
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), Syntax> {
        if !self.text[self.at..].starts_with(word) {
            return self.fail("expected a value");
        }
        self.at += word.len();
        Ok(())
    }
}

/// A stack of bits: is the container an object? 64 levels fit without an allocation.
#[derive(Default)]
struct Nesting {
    top: u64,
    depth: usize,
    deeper: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.deeper.push(self.top);
        }
        self.top = self.top << 1 | u64::from(object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.top >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.top = self.deeper.pop().unwrap_or_default();
        }
    }

    fn top(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.top & 1 == 1)
    }
}

const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES << 7;
const QUOTES: u64 = ONES * b'"' as u64;
const BACKSLASHES: u64 = ONES * b'\\' as u64;

/// The high bit of each byte that is zero (and perhaps of some above the first one).
fn zero_byte(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word
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
mod tests {
    use super::*;

    fn agrees_with_serde(text: &str) {
        let ours = Json::parse(text.to_owned()).is_ok();
        let theirs = serde_json::from_str::<Box<serde_json::value::RawValue>>(text).is_ok();
        assert_eq!(ours, theirs, "{text}");
    }

    #[test]
    fn accepts_and_refuses_what_serde_json_does() {
        for text in [
            "",
            " ",
            "0",
            "-0",
            "01",
            "-",
            "1.",
            "1.5",
            ".5",
            "1e5",
            "1e",
            "1E+5",
            "1e-",
            "--1",
            "+1",
            "null",
            "nul",
            "nulll",
            "true",
            "false",
            "\"\"",
            "\"a",
            "\"\\\"",
            "\"\\u12\"",
            "\"\\u12aF\"",
            "\"\\x\"",
            "\"\u{1}\"",
            "\"é\u{1F600}\"",
            "[]",
            "[ ]",
            "[1,]",
            "[,]",
            "[1 2]",
            "[1,2]",
            "{}",
            "{ }",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "{a:1}",
            "{\"a\":[{\"b\":[[]]}]}",
            "[}",
            "{]",
            "[1}",
            "{\"a\":1]",
            "1 1",
            "[]]",
            "{\"a\":1}{",
            "1e400",
            "123456789012345678901234567890",
            "\"\\ud800\"",
            "[\"12345678\",\"1234567\\n\",\"1234567\\\\\"]",
        ] {
            agrees_with_serde(text);
        }
    }

    #[test]
    fn random_mutations_of_json_are_judged_as_serde_json_judges_them() {
        let seed = br#"{"a":[1,2.5e-3,"x\u00e9\"\\",{"b":null,"c":[true,false]}],"long text":"0123456789abcdef"}"#;
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        for _ in 0..20_000 {
            let mut text = seed.to_vec();
            for _ in 0..=random(3) {
                let at = random(text.len());
                match random(3) {
                    0 => text[at] = b" \"\\{}[],:0123456789eE+-.tfn\x01x"[random(29)],
                    1 => drop(text.remove(at)),
                    _ => text.insert(at, b"\"\\{}[],:1"[random(9)]),
                }
            }
            agrees_with_serde(std::str::from_utf8(&text).unwrap());
        }
    }

    #[test]
    fn any_depth_is_walked_without_the_stack() {
        for depth in [63, 64, 65, 128, 1_000_000] {
            let text = "[{\"a\":".repeat(depth / 2) + "1" + &"}]".repeat(depth / 2);
            assert!(Json::parse(text.clone()).is_ok(), "{depth}");
            assert!(Json::parse(text.clone() + "]").is_err());
            assert!(Json::parse(text[..text.len() - 1].to_owned() + "}").is_err());
        }
    }

    #[test]
    fn strings_say_what_they_say() {
        let say = |text: &'static str| Json::parse(text).unwrap().text().unwrap().into_owned();
        assert_eq!(say(r#""a\/b\n\u0041\ud83d\ude00""#), "a/b\nA\u{1F600}");
        assert_eq!(say(r#""\ud800x""#), "\u{FFFD}x");
        assert_eq!(say(r#""\ud800\u0041""#), "\u{FFFD}A");
        let awkward = "q\"b\\n\nt\tc\u{1}é";
        assert_eq!(Json::string(awkward).text().unwrap(), awkward);
        assert_eq!(Json::parse("12").unwrap().text(), None);
    }

    #[test]
    fn values_are_put_and_taken_at_the_end_of_a_path() {
        let json = |text: &'static str| Json::parse(text).unwrap();
        let put = |text, path: &[&str]| json(text).with_at(path, Some(&Json::TRUE)).to_string();
        let take = |text, path: &[&str]| json(text).with_at(path, None).to_string();
        assert_eq!(put("{}", &["a", "b"]), r#"{"a":{"b":true}}"#);
        assert_eq!(put(r#"{ "x" : 1.0 }"#, &["a"]), r#"{ "x" : 1.0,"a":true}"#);
        assert_eq!(
            put(r#"{"a":{ "b": 1e3, "c":[ ] }}"#, &["a", "b"]),
            r#"{"a":{ "b": true, "c":[ ] }}"#
        );
        assert_eq!(put(r#"{"a":null}"#, &["a", "b"]), r#"{"a":{"b":true}}"#);
        assert_eq!(put("[]", &["a"]), "[]");
        assert_eq!(
            take(r#"{"a":{ "b": 1, "c": 1.10 }, "d":2}"#, &["a", "b"]),
            r#"{"a":{"c": 1.10}, "d":2}"#
        );
        assert_eq!(take(r#"{"a":{"b":1}}"#, &["a", "x", "y"]), r#"{"a":{"b":1}}"#);
        assert_eq!(take(r#"{"a":1}"#, &["a"]), "{}");
    }

    #[test]
    fn members_are_found_and_replaced_where_they_stand() {
        let json = Json::parse(r#" { "a" : 1.10 , "b":{"a":2}, "\u0063":[ 3 ] } "#).unwrap();
        assert_eq!(json.member("a").unwrap().as_str(), "1.10");
        assert_eq!(json.at(&["b", "a"]).unwrap().as_str(), "2");
        assert_eq!(json.member("c").unwrap().as_str(), "[ 3 ]");
        assert_eq!(json.member("d"), None);
        let other = json.with_member("a", &Json::NULL);
        assert_eq!(other.as_str(), r#"{ "a" : null , "b":{"a":2}, "\u0063":[ 3 ] }"#);
        assert_eq!(json.with_member("d", &Json::NULL), json);
    }
}
