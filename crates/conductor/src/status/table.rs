//! A snapshot for people.

use std::fmt::Write;

use super::{Component, State, Status};

/// Lines are cut to about this, whatever they are shown on.
const WIDTH: usize = 100;

/// Of a command, at least so much is shown.
const LEAST: usize = 20;

/// How many of a component's last words are shown.
const WORDS: usize = 3;

const HEAD: [&str; 11] =
    ["#", "name", "role", "speaks", "pid", "state", "restarts", "up", "queue", "owes", "command"];

/// All conductors, one below the other.
pub fn text(all: &[Status]) -> String {
    if all.is_empty() {
        return "No conductor is running.\n".into();
    }
    all.iter().map(chain).collect::<Vec<_>>().join("\n")
}

fn chain(status: &Status) -> String {
    let mut text = format!("{}  {}  up {}", status.pid, status.mode, time(status.uptime_seconds));
    if status.state != State::Running {
        let _ = write!(text, "  {}", status.state);
    }
    let requests = if status.open_requests == 1 { "request" } else { "requests" };
    let _ = write!(text, "  {} open {requests}", status.open_requests);
    if let Some(sessions) = status.sessions {
        let _ = write!(text, "  {sessions} {}", if sessions == 1 { "session" } else { "sessions" });
    }
    let _ = writeln!(text, "  in {}", printable(&status.cwd));
    if status.editor.out_bytes > 0 {
        let _ = writeln!(text, "  {} wait for the editor", size(status.editor.out_bytes));
    }
    if status.editor.paused {
        let _ = writeln!(text, "  the editor has to wait");
    }
    table(&mut text, &status.components);
    text
}

fn table(text: &mut String, components: &[Component]) {
    let rows: Vec<[String; 11]> =
        std::iter::once(HEAD.map(str::to_owned)).chain(components.iter().map(cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len() - 1).filter_map(width).collect();
    let before: usize = widths.iter().map(|width| width + 2).sum();
    let rest = WIDTH.saturating_sub(before + 2).max(LEAST);
    for (index, row) in rows.iter().enumerate() {
        text.push_str("  ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "{cell}{}  ", " ".repeat(width - cell.chars().count()));
        }
        let _ = writeln!(text, "{}", cut(&row[HEAD.len() - 1], rest));
        if let Some(component) = index.checked_sub(1).and_then(|index| components.get(index)) {
            last_exit(text, component);
        }
    }
}

fn cells(component: &Component) -> [String; 11] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
    let queue = &component.queue;
    let held = match queue.held_messages {
        0 => String::new(),
        count => format!(" + {count} held"),
    };
    [
        component.number.to_string(),
        printable(&component.name),
        component.role.to_string(),
        printable(&component.dialect),
        or_dash(component.pid.map(|pid| pid.to_string())),
        component.state.to_string(),
        component.restarts.to_string(),
        or_dash(component.uptime_seconds.map(time)),
        format!("{}{held}", size(queue.out_bytes)),
        queue.owes.to_string(),
        printable(without_directory(&component.command)),
    ]
}

/// How the last one who sat there ended, and what it said.
fn last_exit(text: &mut String, component: &Component) {
    let Some(exit) = &component.last_exit else { return };
    let _ = writeln!(text, "     last exit: {}", cut(&printable(exit), WIDTH - 16));
    let words = &component.exit_words;
    for line in &words[words.len().saturating_sub(WORDS)..] {
        let _ = writeln!(text, "       {}", cut(&printable(line), WIDTH - 7));
    }
}

/// `12s`, `3m 12s`, `2h 5m`, `3d 4h`: what is less does not matter.
fn time(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// What components say and how they are called is not for the terminal to obey.
fn printable(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { '·' } else { it }).collect()
}

/// There is little room, and the directory of a program says the least.
fn without_directory(command: &str) -> &str {
    let program = command.split_whitespace().next().unwrap_or_default();
    match program.rfind('/') {
        Some(at) if !program.contains(['\'', '"']) && at + 1 < program.len() => &command[at + 1..],
        _ => command,
    }
}

/// So many characters at most.
fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}
