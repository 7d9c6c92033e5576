//! How deeply the tables and lists of a TOML text are nested. A parser builds a tree with one call for each level, so a text with
//! many thousands of them would overflow the stack. This module looks at the characters alone, before any parser does.
//!
//! ```
//! use acp_wire::toml_nesting::too_deep;
//!
//! assert_eq!(too_deep("a.b = { c = [1, 2] } # {{{"), None);
//! assert_eq!(too_deep(&format!("a = {}", "[".repeat(1000))), Some(4 + 128));
//! ```

/// The most levels that a text may have.
pub const MAX_LEVELS: usize = 128;

/// Why a text with more levels is refused.
pub const TOO_DEEP: &str = "tables and lists are nested more than 128 levels deep";
/// What to do about it.
pub const TOO_DEEP_HELP: &str = "nest them less deeply";

/// Where a text has more than [`MAX_LEVELS`] levels, in bytes. None if it has no such place.
///
/// Each opening bracket is a level, and so is each dot of a key. A text that is not TOML may seem to be deeper than it is, but never
/// less deep than a parser that goes on after a mistake makes it.
pub fn too_deep(text: &str) -> Option<usize> {
    let start = text.len() - text.strip_prefix('\u{feff}').unwrap_or(text).len();
    let mut scan = Scan { text: text.as_bytes(), at: start, ..Scan::default() };
    while let Some(byte) = scan.text.get(scan.at) {
        let start = scan.at;
        scan.token(*byte);
        if scan.level > MAX_LEVELS {
            return Some(start);
        }
    }
    None
}

/// A position in a text.
#[derive(Default)]
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    /// How many levels are around the position.
    level: usize,
    /// The levels that the header of the table has.
    header: usize,
    /// The brackets that are open, with the level outside of each.
    open: Vec<(u8, usize)>,
    /// Whether a line with text has begun.
    in_line: bool,
    /// Whether this line is the header of a table.
    in_header: bool,
}

impl Scan<'_> {
    /// Reads a token that begins with this byte.
    fn token(&mut self, byte: u8) {
        self.at += 1;
        match byte {
            b' ' | b'\t' => return,
            b'\n' | b'\r' => return self.end_line(),
            b'#' => return self.skip_until(|it| matches!(it, b'\n' | b'\r')),
            b'[' if !self.in_line && self.open.is_empty() => {
                self.in_header = true;
                self.level = 1;
            }
            // The second bracket of [[NAME]], or a mistake. Nothing else in the line counts.
            b'[' if self.in_header => self.level += 1,
            b'[' | b'{' => {
                self.open.push((byte, self.level));
                self.level += 1;
            }
            b']' | b'}' => {
                let opening = if byte == b']' { b'[' } else { b'{' };
                if let Some((_, outside)) = self.open.pop_if(|(it, _)| *it == opening) {
                    self.level = outside;
                }
            }
            b'.' => self.level += 1,
            b',' => self.level = self.open.last().map_or(self.level, |(_, outside)| outside + 1),
            b'=' => {}
            quote @ (b'"' | b'\'') => self.skip_string(quote),
            _ => self.skip_until(|it| b".=,[]{} \t#\r\n".contains(&it)),
        }
        self.in_line = true;
    }

    fn end_line(&mut self) {
        if self.in_header {
            self.header = self.level;
        }
        if self.open.is_empty() {
            self.level = self.header;
        }
        (self.in_line, self.in_header) = (false, false);
    }

    fn skip_until(&mut self, ends: impl Fn(u8) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|it| ends(*it)).unwrap_or(rest.len());
    }

    /// Skips a string whose first quotation mark is behind the position. One without an end is as long as the parser takes it to be.
    fn skip_string(&mut self, quote: u8) {
        let is_long = self.text[self.at..].starts_with(&[quote, quote]);
        let end = [quote; 3];
        self.at += if is_long { 2 } else { 0 };
        while let Some(byte) = self.text.get(self.at) {
            let rest = &self.text[self.at..];
            match byte {
                b'\\' if quote == b'"' => {
                    let is_pair = matches!(rest.get(1), Some(b'\\' | b'"'));
                    self.at += if is_pair { 2 } else { 1 };
                }
                _ if is_long && rest.starts_with(&end) => {
                    // Up to two quotation marks may be the last characters of the string.
                    let marks = rest.iter().take(5).take_while(|it| **it == quote);
                    self.at += marks.count();
                    return;
                }
                b'\n' if !is_long => return,
                byte => {
                    self.at += 1;
                    if *byte == quote && !is_long {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_nest_counts() {
        for (before, part, after) in [
            ("a = ", "[", ""),
            ("a = ", "[\n", ""),
            ("a = ", "{ b = ", ""),
            ("a", ".b", " = 1"),
            ("a", " . \"b.c\"", " = 1"),
        ] {
            let text = |count: usize| format!("{before}{}{after}\n", part.repeat(count));
            assert_eq!(too_deep(&text(MAX_LEVELS)), None, "{before}{part}");
            assert!(too_deep(&text(MAX_LEVELS + 1)).is_some(), "{before}{part}");
        }
        let header = |dots: usize, rest: &str| format!("[a{}]{rest}", ".a".repeat(dots));
        assert_eq!(too_deep(&header(127, "")), None);
        assert!(too_deep(&header(128, "")).is_some());
        // What follows is inside of the table.
        for rest in ["\nb.c = 1", "\n\nb = {}", "\r\nb = []", " # x\rb.c = 1", "\nx = 1\nb = []"] {
            assert_eq!(too_deep(&header(126, rest)), None, "{rest}");
            assert!(too_deep(&header(127, rest)).is_some(), "{rest}");
            assert_eq!(too_deep(&header(127, &format!("\n[a]{rest}"))), None, "{rest}");
        }
    }

    /// Keys and brackets multiply. This text has 80 times 80 levels, and a parser that limits each alone accepts it.
    #[test]
    fn keys_in_brackets_add_up() {
        let key = vec!["a"; 79].join(".");
        let text = format!("{key}={}1{}", format!("{{{key}=").repeat(79), "}".repeat(79));
        assert!(too_deep(&text).is_some());
        // With each mistake after which the parser goes on.
        for between in ["x ", "x = 1 ", "x\" ", "] ", "[}, ", "[ ] ", ", ", "'x\n"] {
            let text = format!("{key}={}", format!("{{{between}{key}={{").repeat(40));
            assert!(too_deep(&text).is_some(), "{between}");
        }
    }

    #[test]
    fn what_is_no_nesting_does_not_count() {
        let many = |text: &str| text.repeat(MAX_LEVELS * 2);
        for text in [
            format!("a = \"{}\"", many("[.{")),
            format!("a = '{}'", many("[.{\\")),
            format!("a = \"\"\"\n{}\"\"\"\"\"\n", many("[\\\"\"\".{\n\\\\")),
            format!("a = '''{}'''''", many("[.\\''{\n")),
            format!("a = 1 # {}\n", many("[.{\"")),
            format!("a = [{}]", many("1.5, ")),
            format!("a = [{}]", many("{ b.c = [1.5], d = {} },\n")),
            many("a.b = 1.5\n"),
            many("[[a.b]]\nc = { d = \"\\\\\" }\n[e]\n"),
            format!("a = {{ {} }}", many("b.c = 1, ")),
            "a = \"x\\".to_owned(),
            "a = '''".to_owned(),
            String::new(),
        ] {
            assert_eq!(too_deep(&text), None, "{text}");
        }
        // A string that has no end is over with its line.
        for text in [
            "\u{feff}\"\"=1\n",
            "a = \"x\n",
            "a = 'x\n",
            "a = x\"\n",
            "a = \"\\\n",
            "# \"\"\"\r",
            "a = ''\n",
        ] {
            let text = format!("{text}b = {}", many("["));
            assert!(too_deep(&text).is_some(), "{text}");
        }
    }
}
