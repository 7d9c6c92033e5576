//! Redirections and here-documents.

use super::super::words::Word;
use super::super::{Redirection, SimpleCommand};
use super::{HereDocument, Parsed, Parser, Unparsed};

impl Parser<'_, '_> {
    /// Reads a redirection, if one follows.
    pub(super) fn redirection(&mut self, command: &mut SimpleCommand) -> Parsed<bool> {
        let rest = &self.text[self.at..];
        let digits = rest.len() - rest.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        let (number, operator) = rest.split_at(digits);
        let is_redirection =
            operator.starts_with(['<', '>']) || (number.is_empty() && operator.starts_with("&>"));
        if !is_redirection || operator.starts_with("<(") || operator.starts_with(">(") {
            return Ok(false);
        }
        self.at += digits;
        if self.skip("<<<") {
            self.skip_blanks();
            let word = self.word(true)?;
            command.here.push(word);
        } else if self.looking_at("<<") {
            self.here_document()?;
        } else {
            let (writes, reads) = self.redirection_operator();
            let duplicates = self.text[..self.at].ends_with('&');
            self.skip_blanks();
            let target = self.word(true)?;
            let descriptor = target
                .text()
                .is_some_and(|it| it.trim_end_matches('-').chars().all(|it| it.is_ascii_digit()));
            if !(duplicates && descriptor) {
                command.redirections.push(Redirection { writes, reads, target });
            }
        }
        Ok(true)
    }

    /// Skips the operator of a redirection. Returns whether it writes and whether it reads.
    fn redirection_operator(&mut self) -> (bool, bool) {
        const OPERATORS: [(&str, bool, bool); 9] = [
            ("&>>", true, false),
            ("&>", true, false),
            (">>", true, false),
            (">|", true, false),
            (">&", true, false),
            ("<>", true, true),
            ("<&", false, true),
            (">", true, false),
            ("<", false, true),
        ];
        for (operator, writes, reads) in OPERATORS {
            if self.skip(operator) {
                return (writes, reads);
            }
        }
        (true, true)
    }

    fn here_document(&mut self) -> Parsed<()> {
        self.at += 2;
        let strip_tabs = self.skip("-");
        self.skip_blanks();
        let start = self.at;
        let word = self.word(true)?;
        let written = self.text[start..self.at].replace("\\\n", "");
        let known = !written.is_empty() && !written.contains(['$', '`']);
        let Some(delimiter) = word.text().filter(|_| known) else {
            return Err(Unparsed("the end of a here-document is not known"));
        };
        self.here_documents.push(HereDocument {
            command: usize::MAX,
            delimiter: delimiter.to_owned(),
            quoted: written.contains(['\'', '"', '\\']),
            strip_tabs,
        });
        Ok(())
    }

    /// Reads the texts of the here-documents that were announced on the line before.
    pub(super) fn read_here_documents(&mut self) -> Parsed<()> {
        for document in std::mem::take(&mut self.here_documents) {
            let start = self.at;
            let mut end = self.text.len();
            self.at = end;
            let mut position = start;
            while position < self.text.len() {
                let rest = &self.text[position..];
                let length = rest.find('\n').unwrap_or(rest.len());
                let line = &rest[..length];
                let line = if document.strip_tabs { line.trim_start_matches('\t') } else { line };
                if line == document.delimiter {
                    end = position;
                    self.at = (position + length + 1).min(self.text.len());
                    break;
                }
                if !document.quoted && ends_in_escape(line) {
                    return Err(Unparsed("a line of a here-document is continued"));
                }
                // Bash also ends the here-document before a parenthesis.
                if self.depth > 0 && line.starts_with(&document.delimiter) {
                    return Err(Unparsed("the end of a here-document is not known"));
                }
                position += length + 1;
            }
            let body = &self.text[start.min(end)..end];
            let word = if document.quoted { Word::of_text(body) } else { self.expand_text(body)? };
            if let Some(command) = self.script.commands.get_mut(document.command) {
                command.here.push(word);
            }
        }
        Ok(())
    }
}

/// Whether the last backslash of a line escapes the end of the line.
fn ends_in_escape(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}
