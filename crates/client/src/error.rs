//! Describes the errors of agents for people.

use serde_json::Value;

/// Formats an error as one line.
pub fn one_line(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or("no reason given");
    let line = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    match error["data"].as_str() {
        Some(data) if !data.contains('\n') && !line.contains(data) => format!("{line}: {data}"),
        _ => line,
    }
}
