//! Makes text from components safe to print on a terminal.
//!
//! A component must not be able to move the cursor, set the window title, write to the clipboard or change the
//! order of text. All text from components passes through this module before it is printed.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// Removes escape sequences and control characters. Keeps line breaks and tabs.
pub fn plain(text: &str) -> Cow<'_, str> {
    clean(text, false)
}

/// Like [`plain`], but keeps colors and other text attributes (SGR sequences). Resets the attributes at the end, so
/// that they do not affect the text that follows.
pub fn with_colors(text: &str) -> Cow<'_, str> {
    clean(text, true)
}

/// Like [`plain`], but replaces line breaks and tabs with spaces.
pub fn one_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

/// Escapes the characters in JSON text that [`plain`] would remove. They can occur only in strings, so the value
/// stays the same.
pub fn json(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        match is_printable(it) {
            true => out.push(it),
            // All of these characters have at most four hexadecimal digits.
            false => out.push_str(&format!("\\u{:04x}", u32::from(it))),
        }
    }
    Cow::Owned(out)
}

fn clean(text: &str, keep_colors: bool) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut open = false;
    let mut chars = text.chars().peekable();
    while let Some(it) = chars.next() {
        let kind = match it {
            '\x1b' => match chars.next_if(|it| matches!(it, '[' | ']' | 'P' | 'X' | '^' | '_')) {
                Some('[') => Sequence::Control,
                Some(_) => Sequence::Text,
                None => Sequence::Short,
            },
            '\u{9b}' => Sequence::Control,
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => Sequence::Text,
            _ if is_printable(it) => {
                out.push(it);
                continue;
            }
            _ => continue,
        };
        match kind {
            Sequence::Control => {
                if let Some(attributes) = control(&mut chars).filter(|_| keep_colors) {
                    open = !matches!(attributes.as_str(), "" | "0");
                    out.push_str("\x1b[");
                    out.push_str(&attributes);
                    out.push('m');
                }
            }
            Sequence::Text => skip_text(&mut chars),
            Sequence::Short => {
                while chars.next_if(|it| matches!(it, ' '..='/')).is_some() {}
                chars.next_if(|it| matches!(it, '0'..='~'));
            }
        }
    }
    if open {
        out.push_str("\x1b[0m");
    }
    Cow::Owned(out)
}

/// The kinds of escape sequences. They differ in how they end.
enum Sequence {
    /// CSI: parameters, then one final character.
    Control,
    /// OSC, DCS and similar: a text that ends with BEL or ST.
    Text,
    /// ESC, optional intermediate characters, and a final character.
    Short,
}

/// Whether a character is safe to print: visible text, a tab or a line break.
pub fn is_printable(it: char) -> bool {
    match it {
        '\n' | '\t' => true,
        // Characters that change the text direction.
        '\u{61c}' | '\u{200e}' | '\u{200f}' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        // Line and paragraph separators.
        '\u{2028}' | '\u{2029}' => false,
        _ => !it.is_control(),
    }
}

/// Reads a control sequence. Returns its parameters if it sets text attributes.
fn control(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut parameters = String::new();
    while let Some(it) = chars.next_if(|it| matches!(it, ' '..='?')) {
        parameters.push(it);
    }
    let last = chars.next_if(|it| matches!(it, '@'..='~'))?;
    let plain = |it: char| it.is_ascii_digit() || matches!(it, ';' | ':');
    (last == 'm' && parameters.len() <= 64 && parameters.chars().all(plain)).then_some(parameters)
}

/// Skips the text of a sequence that ends with BEL or ST. If there is no such end, nothing is skipped, and the text is
/// printed.
///
/// The search stops where another sequence may begin, so that each character is searched at most once.
fn skip_text(chars: &mut Peekable<Chars<'_>>) {
    let mut ahead = chars.clone();
    while let Some(it) = ahead.next() {
        let ends = match it {
            '\x07' | '\u{9c}' => true,
            '\x1b' => ahead.next_if_eq(&'\\').is_some(),
            _ => false,
        };
        if ends {
            *chars = ahead;
            return;
        }
        // Line feed, CAN, SUB, ESC, and the C1 controls, some of which begin a sequence.
        if matches!(it, '\n' | '\x18' | '\x1a' | '\x1b' | '\u{80}'..='\u{9f}') {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_control_characters_is_not_copied() {
        assert!(matches!(plain("Grüße,\n\t→ ✓"), Cow::Borrowed(_)));
    }

    #[test]
    fn escape_sequences_and_control_characters_are_removed() {
        for (text, shown) in [
            ("a\x1b[2Jb\r\x07\u{9b}31mc\n\td\x7f", "abc\n\td"),
            ("\x1b]0;title\x07a\x1b]52;c;eA==\x1b\\b\u{9d}8;;x\u{9c}c", "abc"),
            ("\x1bP1;2q#0\x1b\\a\x1b(Bb\x1bcc\x1b7d", "abcd"),
            ("\x1b[?1049ha\x1b[6nb\x1b[>0qc", "abc"),
            // An unterminated sequence does not hide text.
            ("\x1b]0;never ended", "0;never ended"),
            ("\x1b]0;a\nb\x07", "0;a\nb"),
            ("\x1b[31", ""),
            ("\x1b[3\u{1b}[2Jx", "x"),
            ("\x1b", ""),
            // Characters that would change the order of the text.
            ("a\u{202e}txt.exe\u{2066}b\u{200f}\u{2028}", "atxt.exeb"),
        ] {
            assert_eq!(plain(text), shown, "{text:?}");
        }
        assert_eq!(one_line("a\nb\tc\x1b[A"), "a b c");
    }

    #[test]
    fn with_colors_keeps_colors_and_resets_them_at_the_end() {
        let text = "\x1b[1;31merror\x1b[0m: \x1b[38:5:2mno\x1b[2K";
        assert_eq!(with_colors(text), "\x1b[1;31merror\x1b[0m: \x1b[38:5:2mno\x1b[0m");
        assert_eq!(with_colors("\x1b[mx"), "\x1b[mx");
        assert_eq!(with_colors("\x1b[>4mx\x1b[ mx"), "xx");
        assert_eq!(plain(text), "error: no");
    }

    #[test]
    fn escaped_json_has_the_same_value_and_no_control_characters() {
        let original = "a\u{9b}2J\u{202e}b\x7f\n\x1b";
        let text = serde_json::to_string(original).expect("a string");
        let shown = json(&text);
        assert!(shown.chars().all(is_printable), "{shown:?}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), original);
    }

    /// The number of reads per character must not depend on the number of sequences in the text. If each of them
    /// searched to the end of the text, this test would take hours.
    #[test]
    fn a_text_of_many_sequence_starts_is_read_in_one_pass() {
        let openers = [
            "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1bX", "\x1b^", "\x1b_", "\u{90}", "\u{98}",
            "\u{9b}", "\u{9d}", "\u{9e}", "\u{9f}", "\x1b[1", "\x1b]0;", "\u{9d}0;", "\x1b(",
        ];
        for opener in openers {
            let text = opener.repeat((1 << 20) / opener.len());
            for shown in [plain(&text), with_colors(&text)] {
                assert!(shown.chars().all(is_printable), "{opener:?}");
                assert!(shown.len() < text.len(), "{opener:?}");
            }
        }
    }

    #[test]
    fn printed_text_contains_no_control_characters() {
        // All combinations of characters that can begin or end a sequence.
        let starts = ['\x1b', '\u{9b}', '\u{9d}', '[', ']', 'P', '\\', '\x07', '\u{9c}', '\x18'];
        for first in starts {
            for second in starts {
                for third in starts {
                    let text: String = [first, second, third, 'm', 'x', '\x1b'].iter().collect();
                    let shown = plain(&text).into_owned();
                    assert!(shown.chars().all(is_printable), "{text:?} became {shown:?}");
                }
            }
        }
    }
}
