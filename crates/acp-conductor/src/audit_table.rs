//! The table of `conductor audit show`.

use acp_wire::printable::one_line;
use components::audit::{rule, subject};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::columns::{Columns, shorten};

/// The longest session id and tool name in the table.
const NAME_WIDTH: usize = 20;

/// The longest rule in the table.
const RULE_WIDTH: usize = 40;

/// The narrowest last column.
const MIN_WIDTH: usize = 20;

/// Records as a table. All texts in them are untrusted. `width` is the width of the terminal, if there is one.
pub fn text(records: &[Value], width: Option<usize>) -> String {
    if records.is_empty() {
        return "No record fits.\n".to_owned();
    }
    let header = ["TIME", "SESSION", "EVENT", "BY", "TOOL", "RULE", "WHAT"].map(str::to_owned);
    let rows: Vec<[String; 7]> = std::iter::once(header).chain(records.iter().map(row)).collect();
    let columns = Columns::of(&rows);
    let last = width.map(|width| width.saturating_sub(columns.before_last()).max(MIN_WIDTH));
    let line = |mut row: [String; 7]| {
        if let Some(last) = last {
            row[6] = shorten(&row[6], last);
        }
        columns.line(&row).trim_end().to_owned() + "\n"
    };
    rows.into_iter().map(line).collect()
}

fn row(record: &Value) -> [String; 7] {
    let member =
        |name: &str| one_line(record.get(name).and_then(Value::as_str).unwrap_or_default());
    let or_dash = |text: String| if text.width() == 0 { "-".to_owned() } else { text };
    let short = |name: &str| or_dash(shorten(&member(name), NAME_WIDTH));
    let time = shorten(&member("time"), 24);
    let event = match (member("event").as_str(), member("decision")) {
        ("decision", decision) if !decision.is_empty() => decision,
        (event, decision) if !decision.is_empty() => format!("{event}: {decision}"),
        (event, _) => event.to_owned(),
    };
    let by = if record.get("by").is_some() { short("by") } else { short("component") };
    let rule = or_dash(shorten(&one_line(&rule(record)), RULE_WIDTH));
    [
        or_dash(time),
        short("session"),
        or_dash(shorten(&event, NAME_WIDTH)),
        by,
        short("tool"),
        rule,
        one_line(&subject(record)),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_is_a_row_and_hostile_texts_are_safe() {
        let records = [
            json!({ "time": "2026-11-16T14:00:00.000Z", "event": "decision", "decision": "deny", "by": "rule",
                "session": "s1", "tool": "Bash", "what": { "command": "git push\n-f" },
                "rule": { "name": "no push", "file": "rules.toml", "line": 12 } }),
            json!({ "time": "\u{1b}[2Jx", "session": "\u{202e}abc", "event": 7, "what": { "command": "\u{9b}31m\rrm" } }),
            json!({ "event": "x".repeat(1000), "component": "filter", "details": { "github": 2 } }),
        ];
        let table = text(&records, Some(100));
        assert!(
            table.chars().all(|it| it == '\n' || !it.is_control()) && !table.contains('\u{202e}'),
            "{table:?}"
        );
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("TIME ") && lines[0].ends_with("WHAT"), "{table}");
        assert!(
            lines[1].contains("deny") && lines[1].contains("no push (rules.toml:12)"),
            "{table}"
        );
        assert!(lines[1].ends_with("git push -f"), "{table}");
        assert!(lines[3].contains("filter") && lines[3].ends_with("{\"github\":2}"), "{table}");
        assert_eq!(text(&[], None), "No record fits.\n");
    }
}
