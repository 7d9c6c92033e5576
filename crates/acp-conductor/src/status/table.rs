//! Formats status snapshots as text.

use std::fmt::Write;

use super::{ChainState, Component, NextStart, QueryResult, Status};
use crate::columns::{Columns, shorten};
use acp_wire::printable::is_printable;
use unicode_width::UnicodeWidthStr;

/// The maximum width of a line, unless it is for a terminal.
const WIDTH: usize = 100;

/// The minimum width of the command column.
const MIN_COMMAND_WIDTH: usize = 20;

/// The number of stderr lines that are shown below a component that has exited.
const MAX_STDERR_LINES: usize = 3;

const HEAD: [&str; 11] =
    ["#", "name", "role", "dialect", "pid", "state", "restarts", "up", "queue", "owes", "command"];

/// The columns that are left out on a narrow terminal, in this order: command, dialect, restarts, role, queue, uptime.
const OPTIONAL: [&str; 6] = ["command", "dialect", "restarts", "role", "queue", "up"];

/// The output of `conductor status`. `width` is that of the terminal, if it is for one.
pub fn text(found: &QueryResult, width: Option<usize>) -> String {
    match (found.running.is_empty(), found.unresponsive.is_empty()) {
        (true, true) => "No conductor is running.\n".into(),
        (true, false) => "No conductor answered.\n".into(),
        _ => {
            let chains: Vec<String> = found.running.iter().map(|it| chain(it, width)).collect();
            chains.join("\n")
        }
    }
}

fn chain(status: &Status, width: Option<usize>) -> String {
    let mut text = wrap(&summary(status), width.unwrap_or(usize::MAX));
    if status.editor.out_bytes > 0 {
        let _ = writeln!(
            text,
            "  the editor has not read {} yet",
            format_size(status.editor.out_bytes)
        );
    }
    if status.editor.paused {
        let _ = writeln!(text, "  reading from the editor is paused");
    }
    table(&mut text, &status.components, width);
    text
}

/// The parts of the line about a chain.
fn summary(status: &Status) -> Vec<String> {
    let mut parts = vec![
        status.pid.to_string(),
        status.mode.to_string(),
        format!("up {}", format_duration(status.uptime_seconds)),
    ];
    if status.state != ChainState::Running {
        parts.push(status.state.to_string());
    }
    let requests = if status.open_requests == 1 { "request" } else { "requests" };
    parts.push(format!("{} open {requests}", status.open_requests));
    let sessions = status.sessions;
    if sessions > 0 {
        parts.push(format!("{sessions} {}", if sessions == 1 { "session" } else { "sessions" }));
    }
    parts.push(format!("in {}", printable(&status.cwd)));
    parts
}

/// The parts on one line, or on several indented lines if they do not fit into the width.
fn wrap(parts: &[String], width: usize) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for part in parts {
        if used > 0 && used + 2 + part.width() > width {
            text.push('\n');
            used = 0;
        }
        if !text.is_empty() {
            text.push_str("  ");
            used += 2;
        }
        text.push_str(part);
        used += part.width();
    }
    text.push('\n');
    text
}

fn table(text: &mut String, components: &[Component], width: Option<usize>) {
    let mut rows: Vec<Vec<String>> = std::iter::once(HEAD.map(str::to_owned))
        .chain(components.iter().map(cells))
        .map(Vec::from)
        .collect();
    if let Some(width) = width {
        leave_out_columns(&mut rows, width);
    }
    let columns = Columns::of(&rows);
    let rest =
        width.unwrap_or(WIDTH).saturating_sub(columns.before_last() + 2).max(MIN_COMMAND_WIDTH);
    for (index, row) in rows.iter_mut().enumerate() {
        if let Some(last) = row.last_mut() {
            *last = shorten(last, rest);
        }
        let _ = writeln!(text, "  {}", columns.line(row));
        if let Some(component) = index.checked_sub(1).and_then(|index| components.get(index)) {
            last_exit(text, component);
            next_start(text, component);
            report(text, component, width.unwrap_or(WIDTH));
        }
    }
}

/// Leaves out columns until the table fits, as far as possible.
fn leave_out_columns(rows: &mut [Vec<String>], width: usize) {
    for name in OPTIONAL {
        let columns = Columns::of(rows);
        let is_command = rows[0].last().is_some_and(|last| last == "command");
        let last = rows.iter().filter_map(|row| row.last()).map(|cell| cell.width()).max();
        let last = last.unwrap_or_default();
        let last = if is_command { last.min(MIN_COMMAND_WIDTH) } else { last };
        if 2 + columns.before_last() + last <= width {
            return;
        }
        if let Some(column) = rows[0].iter().position(|cell| cell == name) {
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
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
        or_dash(component.uptime_seconds.map(format_duration)),
        format!("{}{held}", format_size(queue.out_bytes)),
        queue.owes.to_string(),
        printable(without_directory(&component.command)),
    ]
}

/// Appends how the previous process ended and the end of its stderr.
fn last_exit(text: &mut String, component: &Component) {
    let Some(exit) = &component.last_exit else { return };
    let _ = writeln!(text, "     last exit: {}", shorten(&printable(exit), WIDTH - 16));
    let lines = &component.exit_words;
    for line in &lines[lines.len().saturating_sub(MAX_STDERR_LINES)..] {
        let _ = writeln!(text, "       {}", shorten(&printable(line), WIDTH - 7));
    }
}

/// Appends when a component that has failed is restarted.
fn next_start(text: &mut String, component: &Component) {
    if let Some(NextStart { attempt, in_seconds }) = component.next_start {
        let _ = writeln!(text, "     next start: attempt {attempt}, in {in_seconds:.1}s");
    }
}

/// Appends how the component describes its state.
fn report(text: &mut String, component: &Component, width: usize) {
    for line in &component.report {
        let _ = writeln!(text, "     {}", shorten(&printable(line), width.saturating_sub(5)));
    }
}

/// Formats a duration with its two largest units: `12s`, `3m 12s`, `2h 5m`, `3d 4h`.
fn format_duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

fn format_size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// Replaces control characters: names and stderr lines come from components.
fn printable(text: &str) -> String {
    let shown = |it: char| if is_printable(it) && !it.is_control() { it } else { '·' };
    text.chars().map(shown).collect()
}

/// Removes the directory of the program from a command line, to save space.
fn without_directory(command: &str) -> &str {
    let program = command.split_whitespace().next().unwrap_or_default();
    match program.rfind('/') {
        Some(at) if !program.contains(['\'', '"']) && at + 1 < program.len() => &command[at + 1..],
        _ => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{ComponentState, Editor, Mcp, Mode, Queue, Role, Unresponsive, VERSION};

    fn component(number: usize, name: &str, command: &str) -> Component {
        Component {
            number,
            name: name.into(),
            command: command.into(),
            role: Role::Proxy,
            dialect: "P5".into(),
            guard: false,
            policy: "stop".into(),
            state: ComponentState::Live,
            pid: Some(100 + number as u32),
            restarts: 0,
            next_start: None,
            uptime_seconds: Some(192.5),
            last_exit: None,
            exit_words: Vec::new(),
            last_words: Vec::new(),
            report: Vec::new(),
            queue: Queue::default(),
        }
    }

    fn status(components: Vec<Component>) -> Status {
        Status {
            version: VERSION,
            pid: 100,
            conductor_version: "1.2.3".into(),
            mode: Mode::Agent,
            cwd: "/home/me".into(),
            uptime_seconds: 3600.0,
            state: ChainState::Running,
            open_requests: 1,
            sessions: 0,
            components,
            editor: Editor::default(),
            mcp: Mcp::default(),
        }
    }

    fn shown(status: Status) -> String {
        text(&QueryResult { running: vec![status], ..QueryResult::default() }, None)
    }

    #[test]
    fn a_chain_is_a_line_and_a_table() {
        let mut agent = component(2, "agent", "/opt/bin/agent --acp");
        agent.role = Role::Agent;
        agent.dialect = "plain".into();
        agent.restarts = 12;
        agent.state = ComponentState::Restarting;
        (agent.pid, agent.uptime_seconds) = (None, None);
        agent.next_start = Some(NextStart { attempt: 3, in_seconds: 0.42 });
        agent.queue = Queue { out_bytes: 1_600_000, held_messages: 3, held_bytes: 9, owes: 1 };
        let mut sparkle = component(1, "sparkle", "builtin:sparkle");
        sparkle.report = vec!["2 of 3 sessions\u{1b}[2J".to_owned()];
        let expected = "\
100  agent  up 1h 0m  1 open request  in /home/me
  #  name     role   dialect  pid  state       restarts  up      queue             owes  command
  1  sparkle  proxy  P5       101  live        0         3m 12s  0 B               0     builtin:sparkle
     2 of 3 sessions·[2J
  2  agent    agent  plain    –    restarting  12        –       1.5 MiB + 3 held  1     agent --acp
     next start: attempt 3, in 0.4s
";
        assert_eq!(shown(status(vec![sparkle, agent])), expected);
    }

    #[test]
    fn the_state_of_the_chain_and_of_the_editor_is_shown() {
        let mut chain = status(Vec::new());
        chain.state = ChainState::Ending;
        chain.open_requests = 0;
        chain.sessions = 2;
        chain.editor = Editor { out_bytes: 2048, paused: true };
        let text = shown(chain);
        let head = "100  agent  up 1h 0m  ending  0 open requests  2 sessions  in /home/me\n";
        assert!(text.starts_with(head), "{text}");
        assert!(
            text.contains(
                "\n  the editor has not read 2.0 KiB yet\n  reading from the editor is paused\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_component_that_has_exited_is_shown_with_its_exit_status_and_last_stderr_lines() {
        let mut gone = component(1, "gone", "gone");
        gone.last_exit = Some("exited with status 3".into());
        gone.exit_words = ["one", "two", "\x1b[31mthree\x07", "four"].map(str::to_owned).to_vec();
        gone.last_words = vec!["something since".into()];
        let text = shown(status(vec![gone, component(2, "next", "next")]));
        let rest = text.lines().skip(3).take(4).collect::<Vec<_>>();
        let expected = [
            "     last exit: exited with status 3",
            "       two",
            "       ·[31mthree·",
            "       four",
        ];
        assert_eq!(rest, expected, "{text}");
        assert!(text.lines().nth(7).is_some_and(|line| line.starts_with("  2  next")), "{text}");
    }

    #[test]
    fn long_commands_and_stderr_lines_are_shortened() {
        let mut long = component(1, "long", &format!("/usr/bin/long {}", "é".repeat(500)));
        long.last_exit = Some("x".repeat(500));
        long.exit_words = vec!["ü".repeat(500)];
        let text = shown(status(vec![long]));
        for line in text.lines().skip(2) {
            assert!(line.chars().count() == 100 && line.ends_with('…'), "{line}");
        }
        let name = "n".repeat(90);
        let text = shown(status(vec![component(1, &name, &"c".repeat(50))]));
        assert!(text.ends_with(&format!("  {}…\n", "c".repeat(MIN_COMMAND_WIDTH - 1))), "{text}");
    }

    #[test]
    fn an_empty_result_is_reported() {
        assert_eq!(text(&QueryResult::default(), None), "No conductor is running.\n");
        let silent = Unresponsive { pid: 1, why: "does not answer".into() };
        let unresponsive = QueryResult { unresponsive: vec![silent], ..QueryResult::default() };
        assert_eq!(text(&unresponsive, None), "No conductor answered.\n");
    }

    #[test]
    fn durations_and_sizes_are_formatted_briefly() {
        let times = [(0.999, "0s"), (59.0, "59s"), (3599.9, "59m 59s"), (7500.0, "2h 5m")];
        for (seconds, text) in times.into_iter().chain([(273_600.0, "3d 4h"), (-1.0, "0s")]) {
            assert_eq!(format_duration(seconds), text);
        }
        for (bytes, text) in [(1023, "1023 B"), (1536, "1.5 KiB"), (2 << 20, "2.0 MiB")] {
            assert_eq!(format_size(bytes), text);
        }
    }

    #[test]
    fn a_program_is_shown_without_its_directory() {
        assert_eq!(without_directory("/a/b c/d"), "b c/d");
        for whole in ["a", "a b/c", "'/a b/c' d", "/", ""] {
            assert_eq!(without_directory(whole), whole);
        }
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        let rows = |width: usize| {
            let mut rows: Vec<Vec<String>> = vec![
                HEAD.map(str::to_owned).into(),
                cells(&component(1, "claude-agent-acp", "/usr/bin/claude-agent-acp --verbose"))
                    .into(),
            ];
            leave_out_columns(&mut rows, width);
            rows[0].join(" ")
        };
        assert_eq!(rows(200), HEAD.join(" "));
        assert_eq!(rows(80), "# name role dialect pid state restarts up queue owes");
        assert_eq!(rows(60), "# name pid state up queue owes");
        assert_eq!(rows(20), "# name pid state owes");
    }

    #[test]
    fn a_narrow_terminal_gets_the_line_about_a_chain_in_parts() {
        let found = QueryResult { running: vec![status(Vec::new())], ..QueryResult::default() };
        let lines = |width: usize| {
            let text = text(&found, Some(width));
            text.lines().take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(40), ["100  agent  up 1h 0m  1 open request", "  in /home/me"]);
        assert_eq!(lines(60)[0], "100  agent  up 1h 0m  1 open request  in /home/me");
    }
}
