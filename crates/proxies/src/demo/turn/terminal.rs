//! Runs commands in terminals of the client.

use acp_proxy::schema::StopReason;
use acp_proxy::{Json, Result};
use serde_json::{Value, json};

use super::Turn;
use super::basics::text_content;
use super::files::sentence;
use crate::demo::command::first_line;

/// The maximum number of bytes of output that the client keeps.
const OUTPUT_LIMIT: u64 = 64 * 1024;

/// How a command ended.
struct Run {
    /// "with status 0", or "by signal SIGTERM".
    how: String,
    succeeded: bool,
    output: String,
}

impl Turn {
    /// Runs a command in a terminal of the client, after the user has permitted it.
    pub(super) async fn run_command(&self, words: &[String]) -> Result<StopReason> {
        let line = words.join(" ");
        let call = json!({
            "title": format!("`{line}`"),
            "kind": "execute",
            "rawInput": { "command": line, "cwd": self.directory },
        });
        let id = self.announce(call.clone())?;
        if !self.client.has_terminals {
            let why = "the editor does not let me use terminals";
            self.finish(&id, "failed", json!({ "content": text_content(why) }))?;
            self.say(&format!("I cannot run `{line}`: {why}.")).await?;
            return Ok(StopReason::EndTurn);
        }
        if let Some(end) = self.end_unless_granted(&id, call, &format!("`{line}`")).await? {
            return Ok(end);
        }
        match self.run_in_terminal(&id, words).await {
            Ok(run) => {
                let status = if run.succeeded { "completed" } else { "failed" };
                self.finish(&id, status, json!({}))?;
                self.pause().await;
                let output = match run.output.trim() {
                    "" => "It has printed nothing.".to_owned(),
                    output => format!("It has printed: {}", first_line(output)),
                };
                self.say(&format!("`{line}` has ended {}. {output}", run.how)).await?;
            }
            Err(why) => {
                self.finish(&id, "failed", json!({ "content": text_content(&why.message()) }))?;
                self.say(&format!("I could not run `{line}`: {}.", sentence(&why))).await?;
            }
        }
        Ok(StopReason::EndTurn)
    }

    async fn run_in_terminal(&self, tool: &str, words: &[String]) -> Result<Run> {
        let (program, arguments) = words.split_first().ok_or("there is no command")?;
        let created = self
            .editor
            .request_raw(
                "terminal/create",
                json!({
                    "sessionId": self.session, "command": program, "args": arguments,
                    "cwd": self.directory, "outputByteLimit": OUTPUT_LIMIT,
                }),
            )
            .await?;
        let terminal = text(&created, "terminalId").ok_or("the terminal has no id")?;
        *self.terminal.borrow_mut() = Some(terminal.clone());
        let content = json!([{ "type": "terminal", "terminalId": terminal }]);
        self.change_tool_call(tool, json!({ "status": "in_progress", "content": content }))?;
        let params = json!({ "sessionId": self.session, "terminalId": terminal });
        let ended = self.editor.request_raw("terminal/wait_for_exit", &params).await;
        let output = self.editor.request_raw("terminal/output", &params).await;
        self.release_terminal(false);
        let (ended, output) = (ended?, output?);
        let status = ended.member("exitCode").and_then(|it| it.integer());
        let how = match (status, text(&ended, "signal")) {
            (Some(status), _) => format!("with status {status}"),
            (None, Some(signal)) => format!("by signal {signal}"),
            (None, None) => "without a status".to_owned(),
        };
        let output = text(&output, "output").unwrap_or_default();
        Ok(Run { how, succeeded: status == Some(0), output })
    }

    /// Releases the open terminal without waiting. Kills its command first if it may still run.
    pub(super) fn release_terminal(&self, kill: bool) {
        let Some(terminal) = self.terminal.borrow_mut().take() else { return };
        let (editor, session) = (self.editor.clone(), self.session.clone());
        self.context.spawn(async move {
            let params: Value = json!({ "sessionId": session, "terminalId": terminal });
            // An error means that the terminal is gone.
            if kill {
                let _ = editor.request_raw("terminal/kill", &params).await;
            }
            let _ = editor.request_raw("terminal/release", &params).await;
        });
    }
}

fn text(answer: &Json, name: &str) -> Option<String> {
    answer.member(name)?.text().map(|text| text.into_owned())
}
