//! Positions in the text.

use unicode_segmentation::UnicodeSegmentation;

use super::Editor;
use crate::text::width;

impl Editor {
    /// The position one character before the cursor.
    pub(super) fn before(&self) -> usize {
        let before = self.text[..self.cursor].graphemes(true).next_back();
        self.cursor - before.map_or(0, str::len)
    }

    /// The position one character after the cursor.
    pub(super) fn after(&self) -> usize {
        let after = self.text[self.cursor..].graphemes(true).next();
        self.cursor + after.map_or(0, str::len)
    }

    /// The start of the line with the cursor.
    pub(super) fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    /// The end of the line with the cursor.
    pub(super) fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    /// The start of the word before the cursor.
    pub(super) fn word_before(&self) -> usize {
        let before = &self.text[..self.cursor];
        let words = before.trim_end_matches(|it: char| !it.is_alphanumeric());
        words.trim_end_matches(char::is_alphanumeric).len()
    }

    /// The end of the word after the cursor.
    pub(super) fn word_after(&self) -> usize {
        let after = &self.text[self.cursor..];
        let words = after.trim_start_matches(|it: char| !it.is_alphanumeric());
        self.text.len() - words.trim_start_matches(char::is_alphanumeric).len()
    }

    /// The position after the last space before the cursor.
    pub(super) fn blank_before(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before.rfind(char::is_whitespace).map_or(0, |at| {
            let space = before[at..].chars().next().map_or(0, char::len_utf8);
            at + space
        })
    }

    /// Exchanges the two characters before the cursor.
    pub(super) fn transpose(&mut self) {
        let graphemes: Vec<&str> = self.text[..self.cursor].graphemes(true).collect();
        if let [.., first, second] = graphemes[..] {
            let start = self.cursor - first.len() - second.len();
            let exchanged = format!("{second}{first}");
            self.text.replace_range(start..self.cursor, &exchanged);
        }
    }

    pub(super) fn move_to_line_before(&mut self) {
        let start = self.line_start();
        let column = width(&self.text[start..self.cursor]);
        let before = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
        self.cursor = self.at_column(before, start - 1, column);
    }

    pub(super) fn move_to_line_after(&mut self) {
        let column = width(&self.text[self.line_start()..self.cursor]);
        let start = self.line_end() + 1;
        let end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        self.cursor = self.at_column(start, end, column);
    }

    /// The position in a line at this column, or at its end.
    fn at_column(&self, start: usize, end: usize, column: usize) -> usize {
        let mut used = 0;
        for (at, grapheme) in self.text[start..end].grapheme_indices(true) {
            if used >= column {
                return start + at;
            }
            used += width(grapheme);
        }
        end
    }
}
