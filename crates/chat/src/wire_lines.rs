//! A message of the chain as lines.
//!
//! In a wide terminal a row is one line: time, hop, method, number, duration and the beginning of the payload. In a
//! narrow one the hop has a line of its own. The gutter `│` distinguishes rows from the conversation.

mod payload;

use std::time::Duration;

use acp_wire::Side;
use acp_wire::printable::one_line;

use crate::markdown::Layout;
use crate::text::{Color, Line, Style, shorten, shorten_line, width, wrap};
use crate::wire::{PayloadLayout, Row, RowKind};

/// The columns that are left for method and payload in a wide terminal.
const MIN_ROOM: usize = 34;

/// The widest hop that shares a line with the method.
const MAX_HOP: usize = 32;

/// The width of the time.
const TIME_WIDTH: usize = 6;

/// The lines of a row.
pub fn lines(row: &Row, layout: Layout) -> Vec<Line> {
    let hop_width = row.hop_width.clamp(1, MAX_HOP);
    let head_width = 2 + TIME_WIDTH + 1 + hop_width + 2;
    let is_narrow = row.payload != PayloadLayout::OneLine && layout.width < head_width + MIN_ROOM;
    let hop = hop(row);
    let time = format!("{:>TIME_WIDTH$} ", format_time(row.time));
    let color = if row.toward == Side::Agent { Color::Cyan } else { Color::Blue };
    let mut head = Line::styled("│ ", Style::color(color)).with(time, Style::DIM);
    if is_narrow {
        head.push(hop, Style::color(color));
        let what = Line::styled("│   ", Style::color(color));
        let mut lines = vec![shorten_line(&head, layout.width)];
        lines.extend(with_what(row, what, layout, true));
        return lines;
    }
    let hop = match row.payload {
        PayloadLayout::OneLine => hop,
        _ => shorten(&hop, hop_width),
    };
    let space = " ".repeat(hop_width.saturating_sub(width(&hop)) + 2);
    head = head.with(hop, Style::color(color)).with(space, Style::PLAIN);
    with_what(row, head, layout, false)
}

fn hop(row: &Row) -> String {
    match row.to.is_empty() {
        true => one_line(&row.from),
        false => format!("{} → {}", one_line(&row.from), one_line(&row.to)),
    }
}

/// Appends what the row says to its beginning.
fn with_what(row: &Row, head: Line, layout: Layout, is_narrow: bool) -> Vec<Line> {
    let mut line = head;
    let bold = Style::BOLD;
    let red = Style::color(Color::Red);
    let name = |method: &str| match is_narrow {
        true => short_method(&one_line(method)),
        false => one_line(method),
    };
    match &row.kind {
        RowKind::Request(method) | RowKind::Notification(method) => line.push(name(method), bold),
        RowKind::Answer(method) => {
            line.push("✓ ", Style::color(Color::Green));
            line.push(name(method), bold);
        }
        RowKind::Failure { method, .. } => line.push(format!("✗ {}", name(method)), red),
        RowKind::More(method, count) => {
            line.push(name(method), bold);
            line.push(format!(" … {count} more"), Style::DIM);
        }
        RowKind::Started => line.push("started", Style::color(Color::Green)),
        RowKind::Ended(how) => line.push(one_line(how), red),
    }
    if let Some(number) = row.number {
        line.push(format!(" #{number}"), Style::color(Color::Magenta));
    }
    if let Some(took) = row.took {
        line.push(format!(" {}", format_duration(took)), Style::DIM);
    }
    if let RowKind::Failure { code, message, .. } = &row.kind {
        let code = code.map(|code| format!(" {code}")).unwrap_or_default();
        line.push(format!("{code} {}", one_line(message)), red);
    }
    let gutter = Line::styled("│   ", line_style(row));
    match row.payload {
        PayloadLayout::OneLine => {
            push_payload(&mut line, &row.json);
            vec![line]
        }
        PayloadLayout::Shortened => {
            let json = payload::summary(&row.json).unwrap_or_else(|| row.json.clone());
            push_payload(&mut line, &json);
            vec![shorten_line(&line, layout.width)]
        }
        PayloadLayout::Wrapped => {
            let one = line.clone();
            push_payload(&mut line, &row.json);
            if line.width() <= layout.width {
                return vec![line];
            }
            let mut lines = wrap(&one, layout.width, &Line::new(), &gutter);
            let room = layout.width.saturating_sub(gutter.width()).max(1);
            for text in payload::pretty(&row.json, room) {
                let spaces = text.len() - text.trim_start().len();
                let next = gutter.clone().with(" ".repeat(spaces + 2), Style::PLAIN);
                let first = gutter.clone().with(" ".repeat(spaces), Style::PLAIN);
                let text = Line::styled(one_line(text.trim_start()), Style::DIM);
                lines.extend(wrap(&text, layout.width, &first, &next));
            }
            lines
        }
    }
}

fn line_style(row: &Row) -> Style {
    Style::color(if row.toward == Side::Agent { Color::Cyan } else { Color::Blue })
}

fn push_payload(line: &mut Line, json: &str) {
    if !json.is_empty() {
        line.push(format!(" {}", one_line(json)), Style::DIM);
    }
}

/// A method without the part that its other part implies.
fn short_method(method: &str) -> String {
    match method.split_once(' ') {
        Some(("session/update", kind)) => kind.to_owned(),
        Some(("mcp/message", inner)) => format!("mcp {inner}"),
        _ => method.to_owned(),
    }
}

/// Seconds with milliseconds, such as `0.214`.
fn format_time(time: Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}

/// A duration such as `3 ms`, `1.2 s` or `2 min 5 s`.
fn format_duration(took: Duration) -> String {
    match (took.as_millis(), took.as_secs()) {
        (0, _) => "<1 ms".to_owned(),
        (milliseconds, 0) => format!("{milliseconds} ms"),
        (_, seconds @ 1..60) => format!("{seconds}.{} s", took.subsec_millis() / 100),
        (_, seconds) => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests;
