//! Words: quotes, escapes, and what a shell would replace.

use super::super::words::{Unit, Word};
use super::{Parsed, Parser, Raw, Unparsed};

/// The longest class of characters, such as `[a-z]`.
const MAX_CLASS: usize = 256;

/// Expansions that become several words even in double quotes.
const SEVERAL_WORDS: [&str; 4] = ["$@", "${@", "[@]", "${="];

/// What ends a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The closing double quote.
    Quote,
    /// The end of the text. Double quotes are ordinary characters.
    End,
}

impl Parser<'_, '_> {
    /// Reads a word without expanding braces. Globs are unknown text, unless `globs` is false.
    pub(super) fn word(&mut self, globs: bool) -> Parsed<Word> {
        let (raw, mut word) = self.raw_word()?;
        for piece in raw {
            match piece {
                Raw::Mark(mark) => word.push_text(mark.encode_utf8(&mut [0; 4])),
                Raw::Unit(Unit::Many) if !globs => word.push_text("*"),
                Raw::Unit(Unit::One) if !globs => word.push_text("?"),
                Raw::Unit(unit) => word.push(unit),
            }
        }
        Ok(word)
    }

    /// Reads a word. The pieces are returned beside it, because braces are not expanded yet.
    pub(super) fn raw_word(&mut self) -> Parsed<(Vec<Raw>, Word)> {
        let mut raw: Vec<Raw> = Vec::new();
        let mut word = Word::default();
        let mut understood = true;
        self.tilde(&mut raw, &mut word);
        while let Some(next) = self.peek() {
            match next {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' => break,
                '<' | '>' if self.text[self.at + 1..].starts_with('(') => {
                    self.at += 2;
                    self.substitution()?;
                    raw.push(Raw::Unit(Unit::Unknown));
                    word.splits = true;
                }
                '<' | '>' => break,
                '\\' => self.escape(&mut raw),
                '\'' => push_text(&mut raw, self.single_quoted()?),
                '"' => {
                    self.at += 1;
                    let quoted = self.deeper(|it| it.expanded(Until::Quote))?;
                    word.splits |= quoted.splits;
                    append(&mut raw, quoted);
                }
                '$' => word.splits |= self.unquoted_dollar(&mut raw)?,
                '`' => {
                    self.backquoted(false)?;
                    raw.push(Raw::Unit(Unit::Unknown));
                    word.splits = true;
                }
                '*' => self.one(&mut raw, Raw::Unit(Unit::Many)),
                '?' => self.one(&mut raw, Raw::Unit(Unit::One)),
                '[' => understood &= self.class(&mut raw),
                '{' | ',' | '}' => self.one(&mut raw, Raw::Mark(next)),
                _ => {
                    self.at += next.len_utf8();
                    push_text(&mut raw, next.encode_utf8(&mut [0; 4]));
                }
            }
        }
        if !understood {
            return Ok((vec![Raw::Unit(Unit::Unknown)], Word { splits: true, ..Word::default() }));
        }
        Ok((raw, word))
    }

    fn one(&mut self, raw: &mut Vec<Raw>, piece: Raw) {
        self.at += 1;
        raw.push(piece);
    }

    /// `~` and `~/…` are the home folder. Other tildes are unknown.
    fn tilde(&mut self, raw: &mut Vec<Raw>, word: &mut Word) {
        if !self.looking_at("~") {
            return;
        }
        let rest = &self.text[self.at + 1..];
        let end = rest.find([' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>', '/']);
        let name = &rest[..end.unwrap_or(rest.len())];
        if name.is_empty() {
            word.tilde = true;
        } else if name.chars().all(|it| it.is_alphanumeric() || "_-+.".contains(it)) {
            self.at += 1 + name.len();
            raw.push(Raw::Unit(Unit::Unknown));
        }
    }

    fn escape(&mut self, raw: &mut Vec<Raw>) {
        self.at += 1;
        match self.peek() {
            None => push_text(raw, "\\"),
            Some('\n') => self.at += 1,
            Some(next) => {
                self.at += next.len_utf8();
                push_text(raw, next.encode_utf8(&mut [0; 4]));
            }
        }
    }

    /// Reads text in single quotes.
    fn single_quoted(&mut self) -> Parsed<&'_ str> {
        let start = self.at + 1;
        let Some(length) = self.text[start..].find('\'') else {
            return Err(Unparsed("a quote does not end"));
        };
        self.at = start + length + 1;
        Ok(&self.text[start..start + length])
    }

    /// A class such as `[ab]` is one character, if it ends in this word. Returns false if the class is not understood.
    fn class(&mut self, raw: &mut Vec<Raw>) -> bool {
        let rest = &self.text[self.at + 1..];
        let most = (0..=MAX_CLASS.min(rest.len())).rev().find(|it| rest.is_char_boundary(*it));
        let window = &rest[..most.unwrap_or(0)];
        let skip = usize::from(window.starts_with(['!', '^']));
        let skip = skip + usize::from(window[skip..].starts_with(']'));
        let end =
            window[skip..].find([']', ' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>', '/']);
        let end = end.map(|end| skip + end);
        let inside = &window[..end.unwrap_or(window.len())];
        self.at += 1;
        if inside.contains(['$', '`', '"', '\'', '\\'])
            || (end.is_none() && window.len() < rest.len())
        {
            return false;
        }
        match end {
            Some(end) if window[end..].starts_with(']') => {
                self.at += end + 1;
                raw.push(Raw::Unit(Unit::One));
            }
            _ => push_text(raw, "["),
        }
        true
    }

    /// Reads what follows a dollar sign outside of quotes. Returns whether it can become several words.
    fn unquoted_dollar(&mut self, raw: &mut Vec<Raw>) -> Parsed<bool> {
        if self.skip("$\"") {
            let quoted = self.deeper(|it| it.expanded(Until::Quote))?;
            let splits = quoted.splits;
            append(raw, quoted);
            return Ok(splits);
        }
        if self.looking_at("$'") {
            self.at += 2;
            match self.ansi_c()? {
                Some(text) => push_text(raw, &text),
                None => raw.push(Raw::Unit(Unit::Unknown)),
            }
            return Ok(false);
        }
        if self.dollar(false)? {
            raw.push(Raw::Unit(Unit::Unknown));
            return Ok(true);
        }
        push_text(raw, "$");
        Ok(false)
    }

    /// Reads an expansion after a dollar sign. Returns false if the dollar sign is an ordinary character.
    fn dollar(&mut self, in_quotes: bool) -> Parsed<bool> {
        self.at += 1;
        match self.peek() {
            Some('(') => {
                if self.text[self.at + 1..].starts_with('(') && self.arithmetic_command()? {
                    return Ok(true);
                }
                self.at += 1;
                self.substitution()?;
            }
            Some('[') => {
                return Err(Unparsed("the old form of arithmetic is not understood"));
            }
            Some('{') => self.deeper(|it| it.parameter(in_quotes))?,
            Some(next) if next.is_ascii_alphabetic() || next == '_' => {
                let rest = &self.text[self.at..];
                let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                self.at += end.unwrap_or(rest.len());
                if self.peek() == Some('[') {
                    // For zsh, this is a subscript.
                    self.note_evaluation();
                }
            }
            Some(next) if next.is_ascii_digit() || "@*#?-$!".contains(next) => self.at += 1,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads the commands of a substitution, after its opening parenthesis.
    fn substitution(&mut self) -> Parsed<()> {
        self.open()?;
        self.deeper(Self::list)?;
        match self.skip(")") {
            true => Ok(()),
            false => Err(Unparsed("a substitution does not end")),
        }
    }

    /// Reads the commands in backquotes.
    fn backquoted(&mut self, in_quotes: bool) -> Parsed<()> {
        self.open()?;
        self.at += 1;
        let mut inside = String::new();
        loop {
            let Some(next) = self.peek() else {
                return Err(Unparsed("a backquote does not end"));
            };
            self.at += next.len_utf8();
            match next {
                '`' => break,
                '\\' => match self.peek() {
                    Some(escaped @ ('`' | '\\' | '$')) => {
                        self.at += 1;
                        inside.push(escaped);
                    }
                    Some('"') if in_quotes => {
                        self.at += 1;
                        inside.push('"');
                    }
                    _ => inside.push('\\'),
                },
                _ => inside.push(next),
            }
        }
        self.deeper(|it| {
            let mut inner = Parser::new(&inside, it.depth, it.script);
            inner.openers = it.openers;
            inner.script()?;
            it.openers = inner.openers;
            Ok(())
        })
    }

    /// Reads text in which variables and substitutions are replaced.
    fn expanded(&mut self, until: Until) -> Parsed<Word> {
        let mut word = Word::default();
        loop {
            let Some(next) = self.peek() else {
                return match until {
                    Until::End => Ok(word),
                    Until::Quote => Err(Unparsed("a quote does not end")),
                };
            };
            match next {
                '"' if until == Until::Quote => {
                    self.at += 1;
                    return Ok(word);
                }
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some('\n') => self.at += 1,
                        Some(escaped @ ('$' | '`' | '"' | '\\')) => {
                            self.at += 1;
                            word.push_text(escaped.encode_utf8(&mut [0; 4]));
                        }
                        _ => word.push_text("\\"),
                    }
                }
                // A single quote in `${…}` is an ordinary character here.
                '$' => {
                    let start = self.at;
                    match self.dollar(true)? {
                        true => word.push(Unit::Unknown),
                        false => word.push_text("$"),
                    }
                    let written = &self.text[start..self.at];
                    word.splits |= SEVERAL_WORDS.iter().any(|it| written.contains(it));
                }
                '`' => {
                    self.backquoted(until == Until::Quote)?;
                    word.push(Unit::Unknown);
                }
                _ => {
                    self.at += next.len_utf8();
                    word.push_text(next.encode_utf8(&mut [0; 4]));
                }
            }
        }
    }

    /// Reads a text of its own, such as a here-document, in which variables and substitutions are replaced.
    pub(in super::super) fn expand_text(&mut self, text: &str) -> Parsed<Word> {
        self.deeper(|it| {
            let mut inner = Parser::new(text, it.depth, it.script);
            inner.openers = it.openers;
            let word = inner.expanded(Until::End)?;
            it.openers = inner.openers;
            Ok(word)
        })
    }

    /// Reads `${…}`, at its brace.
    fn parameter(&mut self, in_quotes: bool) -> Parsed<()> {
        self.open()?;
        self.at += 1;
        if matches!(self.peek(), Some(' ' | '\t' | '\n' | '|' | '(')) {
            return Err(Unparsed("a substitution in braces is not understood"));
        }
        self.note_operator();
        loop {
            let Some(next) = self.peek() else {
                return Err(Unparsed("a variable in braces does not end"));
            };
            match next {
                '}' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    self.at += 1;
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
                '\'' if in_quotes => {
                    return Err(Unparsed("a quote in a variable is not understood"));
                }
                '\'' => {
                    self.single_quoted()?;
                }
                '"' => {
                    self.at += 1;
                    self.deeper(|it| it.expanded(Until::Quote))?;
                }
                '$' if self.looking_at("$'") => {
                    if in_quotes {
                        return Err(Unparsed("a quote in a variable is not understood"));
                    }
                    self.at += 2;
                    self.ansi_c()?;
                }
                '$' => {
                    self.dollar(in_quotes)?;
                }
                '`' => self.backquoted(in_quotes)?,
                '<' | '>' if self.text[self.at + 1..].starts_with('(') => {
                    self.at += 2;
                    self.substitution()?;
                }
                _ => self.at += next.len_utf8(),
            }
        }
    }

    /// Reads `$'…'` after its opening quote. `None` if an escape is not understood.
    fn ansi_c(&mut self) -> Parsed<Option<String>> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut understood = true;
        loop {
            let Some(next) = self.peek() else { return Err(Unparsed("a quote does not end")) };
            self.at += next.len_utf8();
            match next {
                '\'' => break,
                '\\' => understood &= self.ansi_c_escape(&mut bytes),
                _ => bytes.extend(next.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        // A zero byte ends the text in the shell.
        understood &= !bytes.contains(&0);
        Ok(String::from_utf8(bytes).ok().filter(|_| understood))
    }

    fn ansi_c_escape(&mut self, bytes: &mut Vec<u8>) -> bool {
        let Some(next) = self.peek() else { return false };
        self.at += next.len_utf8();
        let byte = match next {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\'' => {
                self.script.doubts.push("`sh` and bash read a quote of it differently");
                b'\''
            }
            '\\' | '"' | '?' => next as u8,
            'x' => match self.digits(2, 16) {
                Some(value) => value as u8,
                None => return false,
            },
            'u' | 'U' => {
                let value = self.digits(if next == 'u' { 4 } else { 8 }, 16);
                let Some(character) = value.and_then(char::from_u32) else { return false };
                bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
                return true;
            }
            '0'..='7' => {
                self.at -= 1;
                self.digits(3, 8).unwrap_or_default() as u8
            }
            // `\c` and others: the shells differ.
            _ => return false,
        };
        bytes.push(byte);
        true
    }

    /// Reads up to this many digits.
    fn digits(&mut self, most: usize, radix: u32) -> Option<u32> {
        let rest = &self.text[self.at..];
        let count = rest.chars().take(most).take_while(|it| it.is_digit(radix)).count();
        let value = u32::from_str_radix(&rest[..count], radix).ok();
        self.at += count;
        value
    }
}

fn push_text(raw: &mut Vec<Raw>, text: &str) {
    match raw.last_mut() {
        Some(Raw::Unit(Unit::Text(last))) => last.push_str(text),
        _ => raw.push(Raw::Unit(Unit::Text(text.to_owned()))),
    }
}

fn append(raw: &mut Vec<Raw>, quoted: Word) {
    if quoted.units.is_empty() {
        push_text(raw, "");
    }
    for unit in quoted.units {
        match unit {
            Unit::Text(text) => push_text(raw, &text),
            unit => raw.push(Raw::Unit(unit)),
        }
    }
}
