//! Shows a conversation as JSON: one object on each line of standard output.
//!
//! Each object has the member `type`:
//!
//! | type | members |
//! |---|---|
//! | `session` | `sessionId`, `protocolVersion`, `cwd`, `agent` (its name and version) |
//! | `prompt` | `text` |
//! | `update` | `update`: as the agent sent it; `replayed` if it belongs to an earlier turn |
//! | `permission` | `title`, `toolCall`, `options`, `answer` (the name of the chosen option) |
//! | `turn_end` | `stopReason` |
//! | `terminal` | `terminalId`, `output`, `exit`: a command that the agent runs |
//! | `note`, `error` | `text` |
//! | `wire` | a message on a hop, with `--show-wire`: `timeMs`, `from`, `to`, `kind` (`request`, `notification`, `answer`, `error`, `more` for a number of chunks, `started`, `ended`), `method`, `number`, `durationMs`, `payload` |

use std::io::{self, Write};

use acp_wire::printable;
use serde_json::{Value, json};

use crate::view::{Activity, Question, SlashCommand, View};
use crate::wire::Row;

/// Writes JSON.
#[derive(Debug, Default)]
pub struct JsonView<W> {
    out: W,
    error: Option<io::Error>,
}

impl JsonView<io::Stdout> {
    /// A view on standard output.
    pub fn stdout() -> JsonView<io::Stdout> {
        JsonView { out: io::stdout(), error: None }
    }
}

impl<W: Write> JsonView<W> {
    fn write(&mut self, value: &Value) {
        self.write_text(&value.to_string());
    }

    fn write_text(&mut self, line: &str) {
        let line = format!("{}\n", printable::json(line));
        let written = self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush());
        self.error = self.error.take().or(written.err());
    }
}

impl<W: Write + Send> View for JsonView<W> {
    fn activity(&mut self, _: Activity) {}

    fn awaited(&mut self, _: Option<&str>) {}

    fn session(&mut self, session: &Value) {
        let mut value = json!({ "type": "session" });
        for (name, member) in session.as_object().into_iter().flatten() {
            value[name] = member.clone();
        }
        self.write(&value);
    }

    fn note(&mut self, text: &str) {
        self.write(&json!({ "type": "note", "text": text }));
    }

    fn error(&mut self, text: &str) {
        self.write(&json!({ "type": "error", "text": text }));
    }

    fn prompt(&mut self, text: &str) {
        self.write(&json!({ "type": "prompt", "text": text }));
    }

    fn queued(&mut self, _: &[String]) {}

    fn update(&mut self, update: &Value, replayed: bool) {
        self.write(&match replayed {
            true => json!({ "type": "update", "replayed": true, "update": update }),
            false => json!({ "type": "update", "update": update }),
        });
    }

    fn terminal_output(&mut self, terminal: &str, output: &str, exit: Option<&str>) {
        // Only once: the output may be long.
        if exit.is_some() {
            self.write(&json!({
                "type": "terminal", "terminalId": terminal, "output": output, "exit": exit,
            }));
        }
    }

    fn question(&mut self, _: Option<&Question>) {}

    fn answered(&mut self, question: &Question, answer: &str) {
        let options = question.options.iter();
        let options = options.map(|it| json!({ "id": it.id, "name": it.name, "kind": it.kind }));
        self.write(&json!({
            "type": "permission",
            "title": question.title,
            "toolCall": question.tool_call,
            "options": options.collect::<Vec<_>>(),
            "answer": answer,
        }));
    }

    fn turn_ended(&mut self, stop_reason: Option<&str>) {
        self.write(&json!({ "type": "turn_end", "stopReason": stop_reason }));
    }

    fn commands(&mut self, _: &[SlashCommand]) {}

    fn facts(&mut self, _: &[String]) {}

    fn unfold(&mut self, _: Option<usize>) {}

    fn wire(&mut self, row: &Row) {
        self.write_text(&row.to_json());
    }

    fn finish(&mut self) {}

    fn write_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_one_line_of_json() {
        let mut view = JsonView { out: Vec::new(), error: None };
        view.session(&json!({ "sessionId": "s" }));
        view.update(&json!({ "sessionUpdate": "x", "text": "a\nb\u{1b}" }), false);
        view.turn_ended(Some("end_turn"));
        let text = String::from_utf8(view.out).expect("UTF-8");
        let lines: Vec<Value> =
            text.lines().map(|it| serde_json::from_str(it).expect("JSON")).collect();
        assert_eq!(lines[0], json!({ "type": "session", "sessionId": "s" }));
        assert_eq!(lines[1]["update"]["text"], "a\nb\u{1b}");
        assert_eq!(lines[2]["stopReason"], "end_turn");
        assert!(!text.contains('\u{1b}'));
    }
}
