//! The layout of tables.

use pulldown_cmark::Alignment;

use crate::text::{Line, Style, wrap};

/// Longer words than this are broken to make a column narrower. In a terminal that is still too narrow, each row is shown
/// as a list.
const UNBROKEN: usize = 12;

/// The maximum number of columns that is shown as a table.
const MAX_COLUMNS: usize = 50;

const SEPARATOR: &str = " │ ";

/// A table that is being read.
pub(super) struct Table {
    alignments: Vec<Alignment>,
    /// The first row is the head.
    rows: Vec<Vec<Line>>,
}

impl Table {
    pub(super) fn new(alignments: &[Alignment]) -> Table {
        Table { alignments: alignments.to_vec(), rows: Vec::new() }
    }

    pub(super) fn start_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn cell(&mut self, cell: Line) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// The lines of the table. `linear` asks for a list of its rows.
    pub(super) fn render(&self, room: usize, linear: bool) -> Vec<Line> {
        match self.widths(room).filter(|_| !linear) {
            Some(widths) => self.grid(&widths),
            None => self.list(room, if linear { "- " } else { "• " }),
        }
    }

    /// The widths of the columns, or `None` if the table does not fit.
    fn widths(&self, room: usize) -> Option<Vec<usize>> {
        let count = self.rows.iter().map(Vec::len).max()?;
        if count == 0 || count > MAX_COLUMNS {
            return None;
        }
        let of_column = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(Line::width).max().unwrap_or(0).max(1)
        };
        let least = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(longest_word).max().unwrap_or(0).clamp(1, UNBROKEN)
        };
        let mut widths: Vec<usize> = (0..count).map(of_column).collect();
        let least: Vec<usize> = (0..count).map(least).collect();
        let room = room.checked_sub((count - 1) * SEPARATOR.chars().count())?;
        widths.iter_mut().for_each(|width| *width = (*width).min(room.max(1)));
        while widths.iter().sum::<usize>() > room {
            // The widest column becomes narrower.
            let can_shrink = (0..count).filter(|index| widths[*index] > least[*index]);
            let widest = can_shrink.max_by_key(|index| widths[*index])?;
            widths[widest] -= 1;
        }
        Some(widths)
    }

    fn grid(&self, widths: &[usize]) -> Vec<Line> {
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let style = if index == 0 { Style::BOLD } else { Style::PLAIN };
            lines.extend(self.grid_row(row, widths, style));
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(Line::styled(rule.join("─┼─"), Style::DIM));
            }
        }
        lines
    }

    fn grid_row(&self, row: &[Line], widths: &[usize], style: Style) -> Vec<Line> {
        let nothing = Line::new();
        let cells: Vec<Vec<Line>> = widths
            .iter()
            .enumerate()
            .map(|(index, width)| {
                let cell = row.get(index).unwrap_or(&nothing).clone().restyled(style);
                wrap(&cell, *width, &nothing, &nothing)
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        (0..height)
            .map(|line| {
                let mut shown = Line::new();
                for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
                    if index > 0 {
                        shown.push(SEPARATOR, Style::DIM);
                    }
                    let part = cell.get(line).unwrap_or(&nothing);
                    let spare = width.saturating_sub(part.width());
                    let left = match self.alignments.get(index) {
                        Some(Alignment::Right) => spare,
                        Some(Alignment::Center) => spare / 2,
                        _ => 0,
                    };
                    shown.push(" ".repeat(left), Style::PLAIN);
                    shown.append(part);
                    shown.push(" ".repeat(spare - left), Style::PLAIN);
                }
                shown
            })
            .collect()
    }

    /// Each row as a list of its cells.
    fn list(&self, room: usize, sign: &str) -> Vec<Line> {
        let nothing = Line::new();
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines = Vec::new();
        for row in rows {
            for (index, cell) in row.iter().enumerate() {
                let mut line = Line::new();
                if let Some(name) = head.get(index).filter(|name| !name.is_blank()) {
                    line.append(&name.clone().restyled(Style::BOLD));
                    line.push(": ", Style::BOLD);
                }
                line.append(cell);
                let first = Line::from(if index == 0 { sign } else { "  " });
                lines.extend(wrap(&line, room, &first, &Line::from("    ")));
            }
        }
        if rows.is_empty() {
            head.iter().for_each(|cell| lines.extend(wrap(cell, room, &nothing, &nothing)));
        }
        lines
    }
}

/// The width of the longest word.
fn longest_word(cell: &Line) -> usize {
    cell.text().split_whitespace().map(crate::text::width).max().unwrap_or(0)
}
