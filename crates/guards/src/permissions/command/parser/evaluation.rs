//! Texts that the shell may read a second time: arithmetic, subscripts, tests, and operators of variables.
//!
//! In all of them, the value of a variable can be code: with `x='a[$(id)]'`, bash runs `id` for `$((x))`. The value may
//! be put together from pieces, so that no text shows the command. So every such place makes the command line doubtful.

use super::super::words::Word;
use super::{Parsed, Parser, Pipeline, Unparsed};

/// Operators of `[[ … ]]` that take arithmetic, or the name of a variable with a subscript.
const ARITHMETIC_TESTS: [&str; 8] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

impl Parser<'_, '_> {
    /// Reads `[[ … ]]`. Only the substitutions inside count.
    pub(super) fn test(&mut self, pipeline: &Pipeline) -> Parsed<()> {
        self.open()?;
        let start = self.at;
        let mut operators = false;
        loop {
            self.skip_blanks_and_lines()?;
            if self.bare_word() == "]]" {
                if operators {
                    self.ambiguous(self.text[start..self.at].to_owned());
                }
                self.at += 2;
                return self.trailing_redirections(pipeline);
            }
            match self.peek() {
                None => return Err(Unparsed("`[[` does not end")),
                Some('(' | ')' | '&' | '|' | ';') => {
                    operators = true;
                    self.at += 1;
                }
                Some('<' | '>') if !self.text[self.at + 1..].starts_with('(') => {
                    operators = true;
                    self.at += 1;
                }
                Some(_) => {
                    let word = self.word(true)?;
                    self.note_evaluated(&word);
                    if word.text().is_some_and(|it| ARITHMETIC_TESTS.contains(&it)) {
                        self.note_evaluation();
                    }
                }
            }
        }
    }

    /// Notes a text that is an expression for bash, and commands for a plain `sh`.
    pub(super) fn ambiguous(&mut self, text: String) {
        self.script.doubts.push("`sh` and bash read a part of it differently");
        self.script.ambiguous.push(text);
    }

    /// Reads `((…))`, at its first parenthesis. Returns false, and reads nothing, if the parentheses do not close at the
    /// same place: then they are two groups.
    pub(super) fn arithmetic_command(&mut self) -> Parsed<bool> {
        let start = self.at + 2;
        let bytes = self.text.as_bytes();
        let (mut at, mut open) = (start, 0_usize);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\'' | b'"' => match self.text[at + 1..].find(*byte as char) {
                    Some(length) => at += length + 1,
                    None => return Err(Unparsed("a quote does not end")),
                },
                b'(' => open += 1,
                b')' if open > 0 => open -= 1,
                b')' if bytes.get(at + 1) == Some(&b')') => {
                    self.open()?;
                    let inside = &self.text[start..at];
                    self.at = at + 2;
                    let word = self.expand_text(inside)?;
                    self.note_evaluated(&word);
                    if names_a_value(inside) {
                        self.note_evaluation();
                    }
                    return Ok(true);
                }
                b')' => return Ok(false),
                _ => {}
            }
            at += 1;
        }
        Err(Unparsed("an arithmetic expression does not end"))
    }

    /// Notes text that a shell may evaluate again: in a subscript, or as the value of a variable in arithmetic.
    pub(super) fn note_evaluated(&mut self, word: &Word) {
        for text in word.known_texts() {
            if text.contains("$(") || text.contains('`') || text.contains("${") {
                self.script.evaluated.push(text.to_owned());
            }
        }
    }

    /// Notes that the value of a variable may be read as code.
    pub(super) fn note_evaluation(&mut self) {
        let doubt = "the shell may read the value of a variable as code";
        if !self.script.doubts.contains(&doubt) {
            self.script.doubts.push(doubt);
        }
    }

    /// Notes an operator of `${…}` that reads a value as code: `${!x}`, `${x@P}`, `${x:y}`, `${x[y]}`.
    pub(super) fn note_operator(&mut self) {
        let rest = &self.text[self.at..];
        let rest = rest.strip_prefix('#').unwrap_or(rest);
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let name = match rest.find(|it| !is_name(it)) {
            Some(0) if rest.starts_with(['@', '*', '?', '-', '$']) => 1,
            Some(end) => end,
            None => return,
        };
        let mut operator = &rest[name..];
        let mut evaluates = name == 0 && operator.starts_with('!') && !operator.starts_with("!}");
        if let Some(inside) = operator.strip_prefix('[') {
            let end = inside.find(']').unwrap_or(inside.len());
            evaluates |= !["@", "*"].contains(&&inside[..end]) && names_a_value(&inside[..end]);
            operator = inside.get(end + 1..).unwrap_or_default();
        }
        evaluates |= operator.starts_with('@');
        if let Some(range) =
            operator.strip_prefix(':').filter(|it| !it.starts_with(['-', '=', '?', '+']))
        {
            let end = range.find('}').unwrap_or(range.len());
            evaluates |= names_a_value(&range[..end]);
        }
        if evaluates {
            self.note_evaluation();
        }
    }
}

/// Whether an arithmetic expression contains more than numbers and operators.
fn names_a_value(expression: &str) -> bool {
    expression.contains(|it: char| {
        !it.is_ascii_digit() && !it.is_ascii_whitespace() && !"+-*/%<>=!&|^~?:,;()".contains(it)
    })
}
