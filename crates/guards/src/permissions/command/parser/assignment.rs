//! Assignments and arrays.

use super::super::words::Word;
use super::super::{SimpleCommand, programs};
use super::{Parsed, Parser, Unparsed, is_operator};

/// The longest subscript of an array.
const MAX_SUBSCRIPT: usize = 1024;

impl Parser<'_, '_> {
    /// Whether a parenthesis begins the values of an array: `declare x=(…)`.
    pub(super) fn array_follows(&self, command: &SimpleCommand) -> bool {
        let declares = |it: &Word| it.text().is_some_and(programs::declares);
        let name = command.words.last().and_then(Word::text).and_then(|it| it.strip_suffix('='));
        let is_name =
            |it: &str| it.chars().all(|it| it.is_ascii_alphanumeric() || "_+".contains(it));
        self.text[..self.at].ends_with('=')
            && command.words.first().is_some_and(declares)
            && name.is_some_and(|it| !it.is_empty() && is_name(it))
    }

    /// Reads the values of an array: `(a b c)`.
    pub(super) fn array(&mut self) -> Parsed<()> {
        self.at += 1;
        let mut values = Vec::new();
        loop {
            self.skip_blanks_and_lines()?;
            match self.peek() {
                None => return Err(Unparsed("an array does not end")),
                Some(')') => {
                    self.at += 1;
                    self.script.values.push(values);
                    return Ok(());
                }
                // `[subscript]=value`
                Some('[') => self.note_evaluation(),
                Some('<' | '>') if self.text[self.at + 1..].starts_with('(') => {}
                Some(next) if is_operator(next) => {
                    return Err(Unparsed("an array is not understood"));
                }
                Some(_) => {}
            }
            let word = self.word(true)?;
            self.note_evaluated(&word);
            values.push(word);
        }
    }

    /// Reads `name=value` before a program.
    pub(super) fn assignment(&mut self, command: &mut SimpleCommand) -> Parsed<bool> {
        let rest = &self.text[self.at..];
        let name_length = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        let name = &rest[..name_length.unwrap_or(rest.len())];
        if name.is_empty() || name.starts_with(|it: char| it.is_ascii_digit()) {
            return Ok(false);
        }
        let start = self.at;
        self.at += name.len();
        if self.peek() == Some('[') {
            self.note_evaluation();
            if !self.subscript()? {
                self.at = start;
                return Ok(false);
            }
        }
        if !(self.skip("+=") || self.skip("=")) {
            self.at = start;
            return Ok(false);
        }
        let value = match self.peek() {
            Some('(') => {
                self.array()?;
                Word::unknown()
            }
            _ => self.word(false)?,
        };
        self.note_evaluated(&value);
        self.script.values.push(vec![value.clone()]);
        command.assignments.push((name.to_owned(), value));
        Ok(true)
    }

    /// Notes that the shell sets a variable: the one of a loop, for example.
    pub(super) fn note_variable(&mut self, name: &str) {
        if programs::is_dangerous_variable(name) {
            self.script.doubts.push("it sets a variable that decides which programs run");
        }
    }

    /// Notes all variables that the text from a position on names.
    pub(super) fn note_variables(&mut self, start: usize) {
        let text = self.text;
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        text[start..self.at].split(|it| !is_name(it)).for_each(|name| self.note_variable(name));
    }

    /// Reads the subscript of an array. Its substitutions count. Returns false if it does not end.
    fn subscript(&mut self) -> Parsed<bool> {
        let mut open = 0_usize;
        let mut end = None;
        for (offset, character) in self.text[self.at..].char_indices() {
            if offset > MAX_SUBSCRIPT {
                return Err(Unparsed("a subscript is too long"));
            }
            match character {
                '[' => open += 1,
                ']' if open == 1 => {
                    end = Some(self.at + offset);
                    break;
                }
                ']' => open -= 1,
                '\n' | ';' => break,
                _ => {}
            }
        }
        let Some(end) = end else { return Ok(false) };
        let after = &self.text[end + 1..];
        if !after.starts_with('=') && !after.starts_with("+=") {
            return Ok(false);
        }
        let inside = &self.text[self.at + 1..end];
        self.expand_text(inside)?;
        self.at = end + 1;
        Ok(true)
    }
}
