//! Formats tables with aligned columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The space between two columns.
const BETWEEN: &str = "  ";

/// The widths of all columns of a table except the last one.
#[derive(Debug)]
pub(crate) struct Columns(Vec<usize>);

impl Columns {
    /// The widths for these rows.
    pub(crate) fn of(rows: &[impl AsRef<[String]>]) -> Columns {
        let count = rows.first().map_or(0, |row| row.as_ref().len());
        let cells = |column: usize| rows.iter().map(move |row| &row.as_ref()[column]);
        let width = |column: usize| cells(column).map(|cell| cell.width()).max();
        Columns((0..count.saturating_sub(1)).filter_map(width).collect())
    }

    /// The width of what stands before the last column.
    pub(crate) fn before_last(&self) -> usize {
        self.0.iter().map(|width| width + BETWEEN.len()).sum()
    }

    /// Formats a row, without a line break. The last cell is not padded.
    pub(crate) fn line(&self, row: &[String]) -> String {
        let padded = row.iter().zip(&self.0).map(|(cell, width)| {
            let missing = width.saturating_sub(cell.width());
            format!("{cell}{}{BETWEEN}", " ".repeat(missing))
        });
        padded.chain(row.last().cloned()).collect()
    }
}

/// The rows as lines with aligned columns. Each row has the same number of cells.
pub fn table(rows: &[impl AsRef<[String]>]) -> String {
    let columns = Columns::of(rows);
    rows.iter().map(|row| columns.line(row.as_ref()).trim_end().to_owned() + "\n").collect()
}

/// Shortens a text to this width.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |it: &char| {
        used += it.width().unwrap_or_default();
        used <= width
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows =
            [["name", "role", "about"], ["é", "proxy", "x"]].map(|row| row.map(String::from));
        let columns = Columns::of(&rows);
        assert_eq!(columns.before_last(), "name  proxy  ".len());
        let lines = rows.each_ref().map(|row| columns.line(row));
        assert_eq!(lines, ["name  role   about", "é     proxy  x"]);
    }

    #[test]
    fn a_wide_character_has_two_columns() {
        let rows = [["name", "x"], ["代理", "x"], ["a", "x"]].map(|row| row.map(String::from));
        let columns = Columns::of(&rows);
        let lines = rows.each_ref().map(|row| columns.line(row));
        assert_eq!(lines, ["name  x", "代理  x", "a     x"]);
        let short = [3, 4, 5, 6].map(|width| shorten("代理a", width));
        assert_eq!(short, ["代…", "代…", "代理a", "代理a"]);
    }
}
