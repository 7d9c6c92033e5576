//! Words of a command line, with unknown parts.

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Unit {
    /// This text.
    Text(String),
    /// Any one character: `?`, or a class such as `[ab]`.
    One,
    /// Any characters but a slash: `*`.
    Many,
    /// Any text: a variable, a substitution.
    Unknown,
}

/// A word of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Word {
    /// The pieces. Two texts do not follow each other.
    pub(crate) units: Vec<Unit>,
    /// Whether the word begins with a tilde that stands for the home folder.
    pub(crate) tilde: bool,
    /// Whether it can become several words or none, because an unknown part is not quoted.
    pub(crate) splits: bool,
}

impl Word {
    /// A word without unknown parts.
    pub(crate) fn of_text(text: impl Into<String>) -> Word {
        Word { units: vec![Unit::Text(text.into())], ..Word::default() }
    }

    /// A word about which nothing is known.
    pub(crate) fn unknown() -> Word {
        Word { units: vec![Unit::Unknown], tilde: false, splits: true }
    }

    /// The text of the word. `None` if a part is unknown.
    pub(crate) fn text(&self) -> Option<&str> {
        match self.units.as_slice() {
            [] => Some(""),
            [Unit::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// All known texts of the word.
    pub(crate) fn known_texts(&self) -> impl Iterator<Item = &str> {
        self.units.iter().filter_map(|unit| match unit {
            Unit::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The word as text of a script, with variables in the place of unknown parts.
    pub(crate) fn script_text(&self) -> String {
        let piece = |unit: &'_ Unit| match unit {
            Unit::Text(text) => text.clone(),
            Unit::One => "?".to_owned(),
            Unit::Many => "*".to_owned(),
            Unit::Unknown => "$_".to_owned(),
        };
        self.units.iter().map(piece).collect()
    }

    /// Whether the word has both known and unknown parts.
    pub(crate) fn is_mixed(&self) -> bool {
        self.units.len() > 1 && self.units.contains(&Unit::Unknown)
    }

    /// The text after the last slash, if the part before it does not matter and the rest is known.
    pub(crate) fn base_name(&self) -> Option<&str> {
        match self.units.last() {
            None => Some(""),
            Some(Unit::Text(text)) => {
                let slash = text.rfind(['/', '\\']);
                match slash {
                    Some(slash) => Some(&text[slash + 1..]),
                    None if self.units.len() == 1 => Some(text),
                    None => None,
                }
            }
            Some(_) => None,
        }
    }

    /// The pieces after the last slash.
    pub(crate) fn base_units(&self) -> Vec<Unit> {
        let mut units: Vec<Unit> = Vec::new();
        for unit in self.units.iter().rev() {
            if let Unit::Text(text) = unit
                && let Some(slash) = text.rfind(['/', '\\'])
            {
                units.push(Unit::Text(text[slash + 1..].to_owned()));
                break;
            }
            units.push(unit.clone());
        }
        units.reverse();
        units
    }

    /// Whether the word begins with this character.
    pub(crate) fn starts_with(&self, character: char) -> bool {
        matches!(self.units.first(), Some(Unit::Text(text)) if text.starts_with(character))
    }

    /// Adds text to the end.
    pub(crate) fn push_text(&mut self, text: &str) {
        match self.units.last_mut() {
            Some(Unit::Text(last)) => last.push_str(text),
            _ => self.units.push(Unit::Text(text.to_owned())),
        }
    }

    /// Adds a piece to the end.
    pub(crate) fn push(&mut self, unit: Unit) {
        match unit {
            Unit::Text(text) => self.push_text(&text),
            Unit::Unknown if self.units.last() == Some(&Unit::Unknown) => {}
            unit => self.units.push(unit),
        }
    }
}

/// Whether a text fits a pattern in which `*` is any text and `?` any character. Takes time proportional to the product
/// of the lengths at most.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while position < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, position));
                at += 1;
            }
            Some(b'?') => {
                at += 1;
                position += 1;
                while position < text.len() && text[position] & 0xC0 == 0x80 {
                    position += 1;
                }
            }
            Some(byte) if *byte == text[position] => {
                at += 1;
                position += 1;
            }
            _ => match star {
                Some((star_at, star_position)) => {
                    at = star_at + 1;
                    position = star_position + 1;
                    star = Some((star_at, star_position + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The pieces of a pattern in which `*` is any text and `?` any character.
pub(crate) fn units_of_glob(pattern: &str) -> Vec<Unit> {
    let mut word = Word::default();
    for character in pattern.chars() {
        match character {
            '*' => word.push(Unit::Unknown),
            '?' => word.push(Unit::One),
            _ => word.push_text(character.encode_utf8(&mut [0; 4])),
        }
    }
    word.units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("+*", "+main", true),
            ("+*", "main", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
            ("?", "ä", true),
            ("??", "ä", false),
            ("", "", true),
            ("a", "ab", false),
            ("a**", "a", true),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn the_name_of_a_program_is_known_even_if_its_folder_is_not() {
        let mut word = Word::unknown();
        assert_eq!(word.base_name(), None);
        word.push_text("/bin/git");
        assert_eq!(word.base_name(), Some("git"));
        assert_eq!(Word::of_text("/usr/bin/git").base_name(), Some("git"));
        assert_eq!(Word::of_text(r"C:\git\git.exe").base_name(), Some("git.exe"));
        word.push(Unit::Many);
        assert_eq!(word.base_units(), [Unit::Text("git".to_owned()), Unit::Many]);
    }
}
