//! A message of the chain as lines.

use acp_wire::Side;
use acp_wire::printable::one_line;

use crate::markdown::Layout;
use crate::text::{Color, Line, Style, shorten_line};
use crate::wire::{Row, RowKind};

/// The width of the hop column.
const HOP_WIDTH: usize = 21;

/// The lines of a message.
pub fn lines(row: &Row, layout: Layout) -> Vec<Line> {
    let color = if row.toward == Side::Agent { Color::Cyan } else { Color::Blue };
    let hop = format!("{} → {}", row.from, row.to);
    let (what, more) = match &row.kind {
        RowKind::Request(method) | RowKind::Notification(method) => (method.clone(), String::new()),
        RowKind::Answer(method) => (format!("✓ {method}"), String::new()),
        RowKind::Failure(method) => (format!("✗ {method}"), String::new()),
        RowKind::More(method, count) => (method.clone(), format!("… {count} more")),
    };
    let id = row.id.as_ref().map(|id| format!(" #{id}")).unwrap_or_default();
    let json = if row.json.is_empty() { more } else { row.json.clone() };
    let failed = matches!(row.kind, RowKind::Failure(_));
    let space = " ".repeat(HOP_WIDTH.saturating_sub(crate::text::width(&hop)) + 1);
    let line = Line::styled(format!("│ {}", one_line(&hop)), Style::color(color))
        .with(space, Style::PLAIN)
        .with(one_line(&what), if failed { Style::color(Color::Red) } else { Style::BOLD })
        .with(one_line(&id), Style::DIM)
        .with(format!(" {}", one_line(&json)), Style::DIM);
    vec![shorten_line(&line, layout.width)]
}
