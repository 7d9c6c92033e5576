//! The steps of a plan.

use acp_wire::printable::{one_line, plain};
use serde_json::Value;

use super::tool_call::{Labels, indented};
use crate::markdown::{Layout, render};
use crate::text::{Color, Line, Style, wrap};

/// The lines of a plan, of either version of ACP.
pub fn lines(plan: &Value, layout: Layout, labels: Labels) -> Vec<Line> {
    let mut lines = vec![head(plan, labels)];
    if let Some(uri) = plan["uri"].as_str() {
        lines.push(Line::from(format!("  {}", one_line(uri)).as_str()));
    } else if let Some(markdown) = plan["content"].as_str() {
        let rendered = render(&plain(markdown), layout.narrower(2));
        lines.extend(indented(rendered, layout));
    } else {
        for entry in entries(plan) {
            lines.extend(step(entry, layout, labels));
        }
    }
    let room = layout.width;
    lines
        .iter()
        .flat_map(|line| crate::text::break_line(line, room, &Line::new(), &Line::new()))
        .collect()
}

fn entries(plan: &Value) -> &[Value] {
    plan["entries"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether the plan has nothing to show.
pub fn is_empty(plan: &Value) -> bool {
    entries(plan).is_empty() && plan["uri"].is_null() && plan["content"].is_null()
}

fn head(plan: &Value, labels: Labels) -> Line {
    let steps = entries(plan);
    let done = steps.iter().filter(|it| it["status"] == "completed").count();
    match labels {
        Labels::Signs if steps.is_empty() => Line::styled("Plan", Style::BOLD),
        Labels::Signs => Line::styled("Plan", Style::BOLD)
            .with(format!(" ({done} of {} done)", steps.len()), Style::DIM),
        Labels::Short => Line::styled("Plan", Style::BOLD),
        Labels::Words => Line::from(format!("Plan: {done} of {} done", steps.len()).as_str()),
    }
}

fn step(entry: &Value, layout: Layout, labels: Labels) -> Vec<Line> {
    let text = one_line(entry["content"].as_str().unwrap_or_default());
    let (sign, word, color, style) = match entry["status"].as_str() {
        Some("completed") => ("✓", "done", Some(Color::Green), Style::DIM),
        Some("in_progress") => ("▸", "now", Some(Color::Yellow), Style::BOLD),
        Some("cancelled") => ("✗", "cancelled", Some(Color::Red), Style::DIM),
        _ => ("·", "to do", None, Style::PLAIN),
    };
    let first = match labels {
        Labels::Words => Line::from(format!("  {word}: ").as_str()),
        _ => {
            let sign_style = Style { color, ..Style::PLAIN };
            Line::from("  ").with(sign, sign_style).with(" ", Style::PLAIN)
        }
    };
    wrap(&Line::styled(text, style), layout.width, &first, &Line::from("    "))
}
