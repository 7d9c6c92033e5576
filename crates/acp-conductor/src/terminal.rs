//! Text from components, made safe to print on a terminal.
//!
//! A component must not be able to move the cursor, set the window title, write to the clipboard or
//! reorder what the user reads. Everything from a component goes through here before it is printed.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// The text without escape sequences and control characters. Line breaks and tabs stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    clean(text, false)
}

/// The same, but colours and other text attributes (SGR sequences) stay. The attributes are reset at the
/// end of the text, so that they cannot affect what is printed after it.
pub fn coloured(text: &str) -> Cow<'_, str> {
    clean(text, true)
}

/// [`plain`] text in one line: line breaks and tabs become spaces.
pub fn one_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

/// Text in JSON with every character that [`plain`] would drop written as `\u` and its number. It says the
/// same: such characters occur in strings only.
pub fn json(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        match is_harmless(it) {
            true => out.push(it),
            // All of them have four digits.
            false => out.push_str(&format!("\\u{:04x}", u32::from(it))),
        }
    }
    Cow::Owned(out)
}

fn clean(text: &str, colours: bool) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
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
            _ if is_harmless(it) => {
                out.push(it);
                continue;
            }
            _ => continue,
        };
        match kind {
            Sequence::Control => {
                if let Some(attributes) = control(&mut chars).filter(|_| colours) {
                    open = !matches!(attributes.as_str(), "" | "0");
                    out.push_str("\x1b[");
                    out.push_str(&attributes);
                    out.push('m');
                }
            }
            Sequence::Text => skip_string(&mut chars),
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

/// The kinds of escape sequences, by how they end.
enum Sequence {
    /// CSI: parameters, then one final character.
    Control,
    /// OSC, DCS and the like: a text up to BEL or ST.
    Text,
    /// ESC and a final character, perhaps with intermediate characters before it.
    Short,
}

/// Whether a terminal prints it as it is, or breaks the line.
pub fn is_harmless(it: char) -> bool {
    match it {
        '\n' | '\t' => true,
        // Characters that change the direction of the text around them.
        '\u{61c}' | '\u{200e}' | '\u{200f}' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        // Line and paragraph separators.
        '\u{2028}' | '\u{2029}' => false,
        _ => !it.is_control(),
    }
}

/// Reads a control sequence. Gives its parameters if it sets text attributes.
fn control(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut parameters = String::new();
    while let Some(it) = chars.next_if(|it| matches!(it, ' '..='?')) {
        parameters.push(it);
    }
    let last = chars.next_if(|it| matches!(it, '@'..='~'))?;
    let plain = |it: char| it.is_ascii_digit() || matches!(it, ';' | ':');
    (last == 'm' && parameters.len() <= 64 && parameters.chars().all(plain)).then_some(parameters)
}

/// Skips the text of a sequence that ends with BEL or ST. Without such an end only the characters that
/// began the sequence are dropped, and the text is printed.
///
/// The search stops where another sequence may begin, so that no character is searched for two sequences.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
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
        // A new line, CAN, SUB, ESC, and the controls of which some begin a sequence.
        if matches!(it, '\n' | '\x18' | '\x1a' | '\x1b' | '\u{80}'..='\u{9f}') {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_controls_is_not_copied() {
        assert!(matches!(plain("Grüße,\n\t→ ✓"), Cow::Borrowed(_)));
    }

    #[test]
    fn escape_sequences_and_control_characters_are_dropped() {
        for (text, shown) in [
            ("a\x1b[2Jb\r\x07\u{9b}31mc\n\td\x7f", "abc\n\td"),
            ("\x1b]0;title\x07a\x1b]52;c;eA==\x1b\\b\u{9d}8;;x\u{9c}c", "abc"),
            ("\x1bP1;2q#0\x1b\\a\x1b(Bb\x1bcc\x1b7d", "abcd"),
            ("\x1b[?1049ha\x1b[6nb\x1b[>0qc", "abc"),
            // A sequence without an end swallows nothing that could be read.
            ("\x1b]0;never ended", "0;never ended"),
            ("\x1b]0;a\nb\x07", "0;a\nb"),
            ("\x1b[31", ""),
            ("\x1b[3\u{1b}[2Jx", "x"),
            ("\x1b", ""),
            // Text that would be shown in another order.
            ("a\u{202e}txt.exe\u{2066}b\u{200f}\u{2028}", "atxt.exeb"),
        ] {
            assert_eq!(plain(text), shown, "{text:?}");
        }
        assert_eq!(one_line("a\nb\tc\x1b[A"), "a b c");
    }

    #[test]
    fn colours_stay_where_they_are_wanted_and_are_reset_at_the_end() {
        let text = "\x1b[1;31merror\x1b[0m: \x1b[38:5:2mno\x1b[2K";
        assert_eq!(coloured(text), "\x1b[1;31merror\x1b[0m: \x1b[38:5:2mno\x1b[0m");
        assert_eq!(coloured("\x1b[mx"), "\x1b[mx");
        assert_eq!(coloured("\x1b[>4mx\x1b[ mx"), "xx");
        assert_eq!(plain(text), "error: no");
    }

    #[test]
    fn json_says_the_same_without_control_characters() {
        let said = "a\u{9b}2J\u{202e}b\x7f\n\x1b";
        let text = serde_json::to_string(said).expect("a string");
        let shown = json(&text);
        assert!(shown.chars().all(is_harmless), "{shown:?}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), said);
    }

    /// How often each character is read must not depend on how many sequences begin in the text. With a
    /// search to the end of the text for each of them, this would take hours.
    #[test]
    fn a_text_of_nothing_but_openers_is_read_in_one_pass() {
        let openers = [
            "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1bX", "\x1b^", "\x1b_", "\u{90}", "\u{98}",
            "\u{9b}", "\u{9d}", "\u{9e}", "\u{9f}", "\x1b[1", "\x1b]0;", "\u{9d}0;", "\x1b(",
        ];
        for opener in openers {
            let text = opener.repeat((1 << 20) / opener.len());
            for shown in [plain(&text), coloured(&text)] {
                assert!(shown.chars().all(is_harmless), "{opener:?}");
                assert!(shown.len() < text.len(), "{opener:?}");
            }
        }
    }

    #[test]
    fn nothing_that_is_printed_contains_a_control_character() {
        // Every pair of characters that could begin a sequence, before an ordinary one.
        let starts = ['\x1b', '\u{9b}', '\u{9d}', '[', ']', 'P', '\\', '\x07', '\u{9c}', '\x18'];
        for first in starts {
            for second in starts {
                for third in starts {
                    let text: String = [first, second, third, 'm', 'x', '\x1b'].iter().collect();
                    let shown = plain(&text).into_owned();
                    assert!(shown.chars().all(is_harmless), "{text:?} became {shown:?}");
                }
            }
        }
    }
}
