//! Splits a command line that is not complete: its last word may have an open quotation mark.

/// A command line up to the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PartialLine {
    /// The words before the last, without quotes. The first one is the program.
    pub words: Vec<String>,
    /// The last word, without quotes. Empty after a space.
    pub current: String,
    /// The quotation mark of the last word, if it is open.
    pub quote: Option<char>,
    /// The index in `current` after the last open quotation mark or word break.
    pub begin: usize,
    /// The index of the last word in the line.
    pub offset: usize,
}

impl PartialLine {
    /// A line whose words have no quotes.
    pub fn unquoted(words: Vec<String>, current: String) -> PartialLine {
        PartialLine { words, current, ..PartialLine::default() }
    }
}

/// Splits a line as a POSIX shell does. The last word also begins anew after each of the characters in `breaks`.
pub fn split(line: &str, breaks: &str) -> PartialLine {
    let mut parsed = PartialLine::default();
    let mut in_word = false;
    let mut characters = line.char_indices();
    while let Some((at, it)) = characters.next() {
        match (parsed.quote, it) {
            (None, it) if it.is_whitespace() => {
                if in_word {
                    parsed.words.push(std::mem::take(&mut parsed.current));
                }
                in_word = false;
                parsed.begin = 0;
                parsed.offset = at + it.len_utf8();
                continue;
            }
            (None, '\'' | '"') => {
                parsed.quote = Some(it);
                parsed.begin = parsed.current.len();
            }
            (Some(open), it) if open == it => parsed.quote = None,
            (None | Some('"'), '\\') => {
                if let Some((_, escaped)) = characters.next() {
                    parsed.current.push(escaped);
                }
            }
            (quote, it) => {
                parsed.current.push(it);
                if quote.is_none() && breaks.contains(it) {
                    parsed.begin = parsed.current.len();
                }
            }
        }
        in_word = true;
    }
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_may_be_incomplete() {
        let words = |line: &str| {
            let parsed = split(line, "=:");
            (parsed.words.join("|"), parsed.current[parsed.begin..].to_owned(), parsed.quote)
        };
        assert_eq!(words(""), (String::new(), String::new(), None));
        assert_eq!(words("a b"), ("a".into(), "b".into(), None));
        assert_eq!(words("a b "), ("a|b".into(), String::new(), None));
        assert_eq!(words("a 'b c' d=e"), ("a|b c".into(), "e".into(), None));
        assert_eq!(words("a 'b c"), ("a".into(), "b c".into(), Some('\'')));
        assert_eq!(words("a x=\"b \\\" c"), ("a".into(), "b \" c".into(), Some('"')));
        assert_eq!(words("a b\\ c"), ("a".into(), "b c".into(), None));
        assert_eq!(words("a ''"), ("a".into(), String::new(), None));
        assert_eq!(split("ab  c", "").offset, 4);
    }
}
