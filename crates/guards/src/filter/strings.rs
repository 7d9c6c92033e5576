//! The strings of a JSON text: finds them with their place, and replaces some of them. Everything else keeps its bytes.
//!
//! Strings are decoded to bytes in which half a surrogate pair stays what it is (WTF-8). So a string whose other half
//! comes with the next message is written back without loss.

/// Where a string stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The names of the members around the string, from the outermost one. Lists have no names.
    pub(super) path: &'a [&'a [u8]],
    /// Whether the string is the name of a member.
    pub(super) is_name: bool,
    /// The object whose member the string is, and the text after the object.
    pub(super) object: Option<&'a [u8]>,
}

/// Replaces strings of a JSON text. `replace` gets each string with its quotes, and returns the new text of the string.
/// Returns `None` if nothing was replaced.
///
/// The text may also be a list of members without braces, as JSON-RPC keeps members that it does not know.
pub(super) fn replace(
    text: &[u8],
    mut replace: impl FnMut(Place<'_>, &[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut out: Vec<u8> = Vec::new();
    let mut copied = 0;
    let mut path: Vec<&[u8]> = Vec::new();
    // For each open object: whether a member is open, whose name is the last of the path. `None` for a list.
    let mut open: Vec<Option<bool>> = Vec::new();
    // Where the open objects and lists begin.
    let mut starts: Vec<usize> = Vec::new();
    let mut names_in = NewNames::default();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'{' | b'[' => {
                open.push((text[at] == b'{').then_some(false));
                starts.push(at);
            }
            b'}' | b']' => {
                starts.pop();
                let member = open.pop().flatten().filter(|is_open| *is_open);
                member.and_then(|_| path.pop());
            }
            b',' => {
                if let Some(Some(is_open)) = open.last_mut()
                    && std::mem::take(is_open)
                {
                    path.pop();
                }
            }
            b'"' => {
                let end = end_of_string(text, at);
                let quoted = &text[at..end];
                let is_name = match open.last() {
                    Some(Some(is_open)) => !is_open,
                    Some(None) => false,
                    None => text[end..].iter().find(|it| !it.is_ascii_whitespace()) == Some(&b':'),
                };
                let is_member = matches!(open.last(), Some(Some(_)));
                let object = starts.last().filter(|_| is_member).map(|it| &text[*it..]);
                if let Some(new) = replace(Place { path: &path, is_name, object }, quoted) {
                    out.extend_from_slice(&text[copied..at]);
                    let new = if is_name { names_in.unique(new) } else { new };
                    write_string(&new, &mut out);
                    copied = end;
                }
                if let (Some(Some(is_open)), true) = (open.last_mut(), is_name) {
                    *is_open = true;
                    path.push(quoted.get(1..quoted.len() - 1).unwrap_or_default());
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&text[copied..]);
    Some(out)
}

/// The members of the object that a JSON text begins with: their names without quotes, and strings with their quotes. Other
/// values are empty.
pub(super) fn members(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let (mut at, mut depth, mut name) = (0, 0, None);
    std::iter::from_fn(move || {
        while at < text.len() {
            match text[at] {
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 1 => at = text.len(),
                b'}' | b']' => depth -= 1,
                b',' if depth == 1 => {
                    at += 1;
                    if let Some(name) = name.take() {
                        return Some((name, &[][..]));
                    }
                    continue;
                }
                b'"' => {
                    let end = end_of_string(text, at);
                    let quoted = &text[at..end];
                    at = end;
                    match name.take() {
                        _ if depth != 1 => {}
                        None => name = quoted.get(1..quoted.len() - 1),
                        Some(name) => return Some((name, quoted)),
                    }
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        name.take().map(|it| (it, &[][..]))
    })
}

/// The names that were written in one message: two members must not get the same name.
#[derive(Default)]
struct NewNames(std::collections::BTreeMap<Vec<u8>, usize>);

impl NewNames {
    fn unique(&mut self, mut name: Vec<u8>) -> Vec<u8> {
        let count = self.0.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            name.extend(format!("-{count}").bytes());
        }
        name
    }
}

fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// The bytes of a string in quotes.
pub(super) fn decode(quoted: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains(&b'\\') {
        return inner.into();
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut at = 0;
    while at < inner.len() {
        if inner[at] != b'\\' {
            out.push(inner[at]);
            at += 1;
            continue;
        }
        at += 2;
        match inner.get(at - 1) {
            Some(b'b') => out.push(8),
            Some(b'f') => out.push(12),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(b'u') => {
                let unit = code_unit(inner, at);
                at += 4;
                let low = inner.get(at..at + 2).filter(|it| *it == b"\\u");
                let low = low.map(|_| code_unit(inner, at + 2));
                match (unit, low) {
                    (0xD800..0xDC00, Some(low @ 0xDC00..0xE000)) => {
                        at += 6;
                        push_code(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), &mut out);
                    }
                    (unit, _) => push_code(unit, &mut out),
                }
            }
            Some(other) => out.push(*other),
            None => {}
        }
    }
    out.into()
}

fn code_unit(text: &[u8], at: usize) -> u32 {
    let digits = text.get(at..at + 4).and_then(|it| std::str::from_utf8(it).ok());
    digits.and_then(|it| u32::from_str_radix(it, 16).ok()).unwrap_or(0xFFFD)
}

/// Writes a code in UTF-8, also half a surrogate pair.
fn push_code(code: u32, out: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some(it) => out.extend_from_slice(it.encode_utf8(&mut [0; 4]).as_bytes()),
        None => {
            let low = |shift: u32| 0x80 | (code >> shift & 0x3F) as u8;
            out.extend([0xE0 | (code >> 12) as u8, low(6), low(0)]);
        }
    }
}

/// Writes a JSON string. Half a surrogate pair becomes an escape. Other bytes that are not UTF-8 become U+FFFD.
pub(super) fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(valid) => valid,
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
        };
        for byte in valid.bytes() {
            match byte {
                b'"' | b'\\' => out.extend([b'\\', byte]),
                b'\n' => out.extend(b"\\n"),
                b'\r' => out.extend(b"\\r"),
                b'\t' => out.extend(b"\\t"),
                0..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
                _ => out.push(byte),
            }
        }
        rest = &rest[valid.len()..];
        match rest {
            [] => {}
            [0xED, high @ 0xA0..=0xBF, low @ 0x80..=0xBF, more @ ..] => {
                let code = 0xD000 | u32::from(high & 0x3F) << 6 | u32::from(low & 0x3F);
                out.extend(format!("\\u{code:04x}").bytes());
                rest = more;
            }
            [_, more @ ..] => {
                out.extend("\u{fffd}".bytes());
                rest = more;
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str) -> Option<String> {
        let new = replace(text.as_bytes(), |_, quoted| {
            let text = decode(quoted);
            let at = text.windows(6).position(|it| it == b"secret")?;
            Some([&text[..at], b"***", &text[at + 6..]].concat())
        });
        new.map(|it| String::from_utf8(it).unwrap())
    }

    #[test]
    fn only_the_strings_that_change_are_written_anew() {
        for (text, expected) in [
            (r#"{ "a":1.10,"big":123456789012345678901234567890, "b" : "x\/\u00e9" }"#, None),
            (
                r#"{ "a":1.10,"b":["\u0073ecret",{"c":"x\/"}], "d" : 1e400 }"#,
                Some(r#"{ "a":1.10,"b":["***",{"c":"x\/"}], "d" : 1e400 }"#),
            ),
            (r#""secret""#, Some(r#""***""#)),
            (r#"["a\"secret\\"]"#, Some(r#"["a\"***\\"]"#)),
            (
                r#"{"secret":1,"x":{"secret":2},"y":"secret"}"#,
                Some(r#"{"***":1,"x":{"***-2":2},"y":"***"}"#),
            ),
            (r#","extra":"secret","more":1"#, Some(r#","extra":"***","more":1"#)),
            (
                r#"{"a":"\ud83d secret \ude00\u0001\n"}"#,
                Some(r#"{"a":"\ud83d *** \ude00\u0001\n"}"#),
            ),
            (r#"{"a":"\ud83d\ude00 secret"}"#, Some(r#"{"a":"😀 ***"}"#)),
        ] {
            assert_eq!(replaced(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_string_has_the_names_of_the_members_around_it() {
        let text = r#"{"a":{"b":["x",{"c":"y"},"z"],"d":"w"},"e":"v","f":{}, "g":["u"]}"#;
        let mut seen = Vec::new();
        replace(text.as_bytes(), |place, quoted| {
            let path: Vec<_> = place.path.iter().map(|it| String::from_utf8_lossy(it)).collect();
            let text = String::from_utf8_lossy(&decode(quoted)).into_owned();
            if !place.is_name {
                seen.push(format!("{}={text}", path.join(".")));
            }
            None
        });
        assert_eq!(seen, ["a.b=x", "a.b.c=y", "a.b=z", "a.d=w", "e=v", "g=u"]);
    }

    #[test]
    fn bytes_that_are_not_text_become_replacement_characters() {
        let mut out = Vec::new();
        write_string(b"a\xffb\xed\xa0\xbdc", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "\"a\u{fffd}b\\ud83dc\"");
    }
}
