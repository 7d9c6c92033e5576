//! Words of a text that is not parsed: code of other languages, and command lines that are not understood.

use super::words::Word;

/// Characters that end a command.
const ENDS: [char; 4] = [';', '\n', '&', '|'];

/// The words of a text, command by command. Quotes are read in two ways: as borders of words, and as nothing. So are
/// continued lines.
pub(crate) fn commands(text: &str) -> Vec<Vec<Word>> {
    let mut commands = Vec::new();
    let clean: String = text.chars().filter_map(replace_odd).collect();
    if clean.contains("\\\n") {
        add_commands(&clean.replace("\\\n", ""), &mut commands);
    }
    add_commands(&clean, &mut commands);
    commands
}

fn add_commands(clean: &str, commands: &mut Vec<Vec<Word>>) {
    for (quotes_separate, escapes) in [(true, false), (false, false), (false, true)] {
        if !quotes_separate && !clean.contains(['\'', '"', '\\', '`']) {
            break;
        }
        for part in clean.split(ENDS) {
            let part: String =
                part.chars().filter_map(|it| keep(it, quotes_separate, escapes)).collect();
            let words: Vec<Word> = part.split_whitespace().map(Word::of_text).collect();
            if !words.is_empty() {
                commands.push(words);
            }
        }
    }
}

/// The character in the words of a text: itself, a space, or nothing.
fn keep(character: char, quotes_separate: bool, escapes: bool) -> Option<char> {
    match character {
        '\'' | '"' | '`' if quotes_separate => Some(' '),
        '\\' if quotes_separate && !escapes => Some(' '),
        '\'' | '"' | '`' | '\\' => None,
        '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | ',' | '$' | '!' => Some(' '),
        _ => Some(character),
    }
}

/// The reason why a text must not be allowed because of its characters. `None` if there is none.
pub(crate) fn odd_character(text: &str) -> Option<&'static str> {
    text.chars().find_map(|it| match it {
        '\n' | '\t' => None,
        it if it.is_control() => Some("it contains a control character"),
        it if it.is_ascii() => None,
        '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some("it contains a character that changes the direction of text")
        }
        it if is_invisible(it) => Some("it contains an invisible character"),
        it if it.is_whitespace() => Some("it contains a space that is not ASCII"),
        _ => None,
    })
}

fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{e000}'..='\u{f8ff}'
    )
}

/// The text as a person reads it: odd spaces are spaces, invisible characters are left out.
pub(crate) fn cleaned(text: &str) -> String {
    text.chars().filter_map(replace_odd).collect()
}

fn replace_odd(character: char) -> Option<char> {
    match character {
        '\n' | '\t' => Some(character),
        '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some('\n'),
        it if it.is_ascii() && !it.is_control() => Some(it),
        it if it.is_whitespace() => Some(' '),
        it if odd_character(it.encode_utf8(&mut [0; 4])).is_some() => None,
        it => Some(it),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let texts = |it: Vec<Word>| it.iter().filter_map(Word::text).map(str::to_owned).collect();
        commands(text).into_iter().map(texts).collect()
    }

    #[test]
    fn the_words_of_code_are_found() {
        let git = ["git".to_owned(), "push".to_owned(), "-f".to_owned()];
        for code in [
            "import os; os.system(\"git push -f\")",
            "subprocess.run(['git', 'push', '-f'])",
            "`git push -f`",
            "g\\it pu\"sh\" -'f",
            "git\u{a0}push\u{200b} -f",
            "true; git push -f\r\n",
        ] {
            let found = words(code).iter().any(|it| it.ends_with(&git));
            assert!(found, "{code}: {:?}", words(code));
        }
    }

    #[test]
    fn odd_characters_are_named() {
        for text in
            ["a\u{a0}b", "a\u{202e}b", "a\u{200b}b", "a\rb", "a\u{1b}b", "a\u{feff}", "a\u{3000}"]
        {
            assert!(odd_character(text).is_some(), "{text:?}");
        }
        for text in ["a b\n\tc", "ä ß 漢字 🙂"] {
            assert_eq!(odd_character(text), None, "{text:?}");
        }
    }
}
