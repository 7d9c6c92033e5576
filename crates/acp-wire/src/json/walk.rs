//! The JSON parser. It walks over a text without recursion and without copies.

use super::run::{Mask, end_of_run};
use super::{Span, SyntaxError, unquote, utf8};

/// Walks over a text and accepts exactly the grammar of RFC 8259. Non-ASCII bytes can occur only in
/// strings. Whether they are valid UTF-8 is checked once, in [`end`](Walker::end).
pub(crate) struct Walker<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the key of the current member starts.
    key_start: usize,
    /// Not zero if the text has a non-ASCII byte.
    non_ascii: Mask,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Walker<'a> {
        Walker { text, at: 0, key_start: 0, non_ascii: 0 }
    }

    #[cold]
    fn fail<T>(&self, what: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError { message: what, offset: self.at })
    }

    /// Skips white space. Returns the next byte without consuming it.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        match self.text.get(self.at) {
            Some(&byte) if byte > b' ' => Some(byte),
            Some(_) => self.peek_past_blanks(),
            None => None,
        }
    }

    fn peek_past_blanks(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Where the key of the current member starts. For the visitor of [`object`](Walker::object).
    pub(crate) fn key_start(&self) -> usize {
        self.key_start
    }

    /// Checks that only white space follows and that the whole text is valid UTF-8.
    pub(crate) fn end(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            None if self.non_ascii == 0 => Ok(()),
            None => utf8(self.text),
            Some(_) => self.fail("text after the end of the value"),
        }
    }

    /// Walks over an object. `visit` gets each unescaped key and must walk over the value.
    pub(crate) fn object(
        &mut self,
        mut visit: impl FnMut(&[u8], &mut Self) -> Result<(), SyntaxError>,
    ) -> Result<Span, SyntaxError> {
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

    /// Walks over an array. `visit` must walk over each element.
    pub(crate) fn array(
        &mut self,
        mut visit: impl FnMut(&mut Self) -> Result<(), SyntaxError>,
    ) -> Result<(), SyntaxError> {
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

    /// Finds the value at a path of keys. Returns an error to stop the walk as soon as it is clear whether the
    /// value exists, so that the rest of the text is not parsed.
    pub(crate) fn find(
        &mut self,
        path: &[&str],
        found: &mut Option<Span>,
    ) -> Result<(), SyntaxError> {
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
    pub(crate) fn value(&mut self) -> Result<Span, SyntaxError> {
        let Some(byte) = self.peek() else { return self.fail("expected a value") };
        let start = self.at;
        match byte {
            b'"' => drop(self.string()?),
            b'{' | b'[' => self.container(byte == b'{')?,
            _ => self.scalar(byte)?,
        }
        Ok(Span { start, end: self.at })
    }

    /// Walks over an object or array and everything in it.
    fn container(&mut self, mut in_object: bool) -> Result<(), SyntaxError> {
        let mut enclosing = ContainerStack::default();
        let mut opened = true;
        self.at += 1;
        loop {
            let end = if in_object { b'}' } else { b']' };
            if !(opened && self.peek() == Some(end)) {
                if in_object {
                    self.key()?;
                }
                match self.peek() {
                    Some(b'"') => drop(self.string()?),
                    Some(byte @ (b'{' | b'[')) => {
                        enclosing.push(in_object);
                        (in_object, opened) = (byte == b'{', true);
                        self.at += 1;
                        continue;
                    }
                    Some(byte) => self.scalar(byte)?,
                    None => return self.fail("expected a value"),
                }
            }
            // After a value or an empty container: close the containers that end here, then continue with
            // the next value.
            loop {
                match (self.peek(), in_object) {
                    (Some(b','), _) => break self.at += 1,
                    (Some(b'}'), true) | (Some(b']'), false) => self.at += 1,
                    (_, true) => return self.fail("expected ',' or '}'"),
                    (_, false) => return self.fail("expected ',' or ']'"),
                }
                match enclosing.pop() {
                    Some(object) => in_object = object,
                    None => return Ok(()),
                }
            }
            opened = false;
        }
    }

    /// Walks over a number, `true`, `false` or `null`.
    fn scalar(&mut self, byte: u8) -> Result<(), SyntaxError> {
        match byte {
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.fail("expected a value"),
        }
    }

    /// Walks over a key and its colon. Returns the span of the quoted key and whether it has escapes.
    #[inline(always)]
    fn key(&mut self) -> Result<(Span, bool), SyntaxError> {
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

    /// Walks over a string. Returns whether it has escapes.
    #[inline(always)]
    fn string(&mut self) -> Result<bool, SyntaxError> {
        let end = end_of_run(self.text, self.at + 1, &mut self.non_ascii);
        if self.text.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(false);
        }
        self.at = end;
        self.rest_of_string()
    }

    /// Walks over the rest of a string after its first run of plain bytes.
    #[inline(never)]
    fn rest_of_string(&mut self) -> Result<bool, SyntaxError> {
        let (text, mut at, mut non_ascii) = (self.text, self.at, self.non_ascii);
        let what = loop {
            match text.get(at) {
                Some(b'"') => {
                    (self.at, self.non_ascii) = (at + 1, non_ascii);
                    return Ok(true);
                }
                Some(b'\\') => match text.get(at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                    Some(b'u') => match text.get(at + 2..at + 6) {
                        Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => at += 6,
                        _ => break "invalid \\u escape",
                    },
                    _ => break "invalid escape",
                },
                Some(_) => break "control character in a string",
                None => break "unterminated string",
            }
            at = end_of_run(text, at, &mut non_ascii);
        };
        self.at = at;
        self.fail(what)
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
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

    fn digits(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
        if self.at == start { self.fail("invalid number") } else { Ok(()) }
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), SyntaxError> {
        if !self.text[self.at..].starts_with(word) {
            return self.fail("expected a value");
        }
        self.at += word.len();
        Ok(())
    }
}

/// The stack of enclosing containers, one bit each: set for an object. 64 levels need no allocation.
#[derive(Default)]
struct ContainerStack {
    top: u64,
    depth: usize,
    deeper: Vec<u64>,
}

impl ContainerStack {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.deeper.push(self.top);
        }
        self.top = self.top << 1 | u64::from(object);
        self.depth += 1;
    }

    fn pop(&mut self) -> Option<bool> {
        self.depth = self.depth.checked_sub(1)?;
        let object = self.top & 1 == 1;
        self.top >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.top = self.deeper.pop().unwrap_or_default();
        }
        Some(object)
    }
}

/// How many plain bytes of a string come before a quote, a backslash or a control character.
pub(crate) fn plain_prefix_length(text: &[u8]) -> usize {
    end_of_run(text, 0, &mut 0)
}
