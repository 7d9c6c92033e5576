//! The walk over a text: the grammar, without recursion and without copies.

use super::{Span, Syntax, unquote, utf8};

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

    /// Visits the elements of an array: `visit` must walk over each.
    pub fn array(
        &mut self,
        mut visit: impl FnMut(&mut Self) -> Result<(), Syntax>,
    ) -> Result<(), Syntax> {
        if self.peek() != Some(b'[') {
            return self.fail("expected an array");
        }
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            visit(self)?;
            let next = self.peek();
            self.at += 1;
            match next {
                Some(b',') => {}
                Some(b']') => return Ok(()),
                _ => return self.fail("expected ',' or ']'"),
            }
        }
    }

    /// Finds the value at the end of a path of keys, and ends with an error as soon as it is clear whether
    /// there is one.
    pub fn find(&mut self, path: &[&str], found: &mut Option<Span>) -> Result<(), Syntax> {
        let [key, rest @ ..] = path else {
            *found = Some(self.value()?);
            return self.fail("found");
        };
        if self.peek() != Some(b'{') {
            return self.fail("not there");
        }
        self.object(|name, walker| {
            if name != key.as_bytes() {
                return walker.value().map(drop);
            }
            walker.find(rest, found)?;
            walker.fail("not there")
        })
        .map(drop)
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
        let (text, mut seen, mut escaped) = (self.text, self.seen, false);
        let mut at = self.at + 1;
        loop {
            at = plain(text, at, &mut seen);
            let what = match text.get(at) {
                Some(b'"') => {
                    (self.at, self.seen) = (at + 1, seen);
                    return Ok(escaped);
                }
                Some(b'\\') => match text.get(at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                        (at, escaped) = (at + 2, true);
                        continue;
                    }
                    Some(b'u') => match text.get(at + 2..at + 6) {
                        Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => {
                            (at, escaped) = (at + 6, true);
                            continue;
                        }
                        _ => "invalid \\u escape",
                    },
                    _ => "invalid escape",
                },
                Some(_) => "control character in a string",
                None => "unterminated string",
            };
            self.at = at;
            return self.fail(what);
        }
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

/// How many ordinary bytes of a string come before a quote, a backslash or a control character.
pub(crate) fn passed_over(text: &[u8]) -> usize {
    plain(text, 0, &mut 0)
}

/// The position from `at` on of what ends a run of ordinary string bytes: a quote, a backslash or a
/// control character. Looks at eight bytes at a time, since most of a payload is such runs. What was
/// passed over is put into `seen`, one byte over the other.
#[inline(always)]
fn plain(text: &[u8], mut at: usize, seen: &mut u64) -> usize {
    while let Some(chunk) = text.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        // A borrow can only mark bytes above a true hit, so the lowest mark is exact.
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let hits = (control | zero_byte(word ^ QUOTES) | zero_byte(word ^ BACKSLASHES)) & HIGH;
        if hits != 0 {
            let before = hits.trailing_zeros() / 8;
            *seen |= word & ((1 << (before * 8)) - 1);
            return at + before as usize;
        }
        *seen |= word;
        at += 8;
    }
    while let Some(&byte) = text.get(at) {
        if byte == b'"' || byte == b'\\' || byte < 0x20 {
            break;
        }
        *seen |= u64::from(byte);
        at += 1;
    }
    at
}

const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES << 7;
const QUOTES: u64 = ONES * b'"' as u64;
const BACKSLASHES: u64 = ONES * b'\\' as u64;

/// The high bit of each byte that is zero (and perhaps of some above the first one).
fn zero_byte(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word
}
