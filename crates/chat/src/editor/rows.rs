//! The rows of the text in a terminal.

use unicode_segmentation::UnicodeSegmentation;

use super::Editor;
use crate::text::grapheme_width;

/// The rows of a text, and where the cursor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// The rows. There is at least one.
    pub rows: Vec<String>,
    /// The row of the cursor.
    pub row: usize,
    /// The column of the cursor.
    pub column: usize,
}

impl Rows {
    /// The rows around the cursor, if there are too many.
    #[must_use]
    pub fn around_cursor(mut self, height: usize) -> Rows {
        let height = height.max(1);
        if self.rows.len() > height {
            let start = self.row.saturating_sub(height - 1);
            self.rows = self.rows.split_off(start);
            self.rows.truncate(height);
            self.row -= start;
        }
        self
    }
}

impl Editor {
    /// The rows of the text in this many columns.
    pub fn rows(&self, columns: usize) -> Rows {
        let columns = columns.max(1);
        let mut rows = vec![String::new()];
        let (mut used, mut cursor) = (0, (0, 0));
        for (at, grapheme) in self.text.grapheme_indices(true) {
            let wide = grapheme_width(grapheme).min(columns);
            if grapheme != "\n" && used + wide > columns {
                rows.push(String::new());
                used = 0;
            }
            if at == self.cursor {
                cursor = (rows.len() - 1, used);
            }
            if grapheme == "\n" {
                rows.push(String::new());
                used = 0;
            } else if grapheme_width(grapheme) <= columns {
                if let Some(row) = rows.last_mut() {
                    row.push_str(grapheme);
                }
                used += wide;
            }
        }
        if self.cursor == self.text.len() {
            // The cursor needs a column, too.
            if used >= columns {
                rows.push(String::new());
                used = 0;
            }
            cursor = (rows.len() - 1, used);
        }
        // A cursor in the last column of a full row is still in the row.
        Rows { rows, row: cursor.0, column: cursor.1.min(columns) }
    }
}
