//! The terminals of a session, and the tool calls that they belong to.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use acp_proxy::{Call, Json, Next, Result};
use serde_json::{Value, json};

use super::changes;
use super::engine::Engine;
use super::event::Event;
use super::tools::label;
use component_base::action::Action;
use component_base::sessions::text;

/// How many terminals of a session are remembered.
const MAX_TERMINALS: usize = 64;

/// A terminal that the agent has created.
#[derive(Debug, Clone)]
pub(crate) struct TerminalUse {
    pub(crate) terminal: String,
    /// The id of the tool call.
    pub(crate) call: String,
    pub(crate) action: Action,
    pub(crate) started: Instant,
    /// How the command has ended, as far as the agent has seen it.
    pub(crate) exit: Option<Json>,
    /// Whether the hooks that run after the command have run.
    pub(crate) is_reported: bool,
    /// The output that a hook wants the agent to see.
    pub(crate) updated_output: Option<String>,
}

/// The terminals of a session.
#[derive(Debug, Default)]
pub(crate) struct Terminals(VecDeque<TerminalUse>);

impl Terminals {
    pub(crate) fn add(&mut self, terminal: TerminalUse) {
        if self.0.len() == MAX_TERMINALS {
            self.0.pop_front();
        }
        self.0.push_back(terminal);
    }

    pub(crate) fn find(&mut self, terminal: &str) -> Option<&mut TerminalUse> {
        self.0.iter_mut().find(|it| it.terminal == terminal)
    }

    /// A terminal belongs to the tool call with this id, as the agent reports. Returns whether the hooks that run after
    /// its command have run.
    pub(crate) fn join(&mut self, terminal: &str, call: &str) -> bool {
        let Some(found) = self.find(terminal) else { return false };
        call.clone_into(&mut found.call);
        found.action.call = Some(call.to_owned());
        found.is_reported
    }

    /// The hooks that run after the tool call with this id have run, or will run.
    pub(crate) fn report(&mut self, call: &str) {
        self.0.iter_mut().filter(|it| it.call == call).for_each(|it| it.is_reported = true);
    }

    pub(crate) fn remove(&mut self, terminal: &str) -> Option<TerminalUse> {
        let index = self.0.iter().position(|it| it.terminal == terminal)?;
        self.0.remove(index)
    }
}

impl TerminalUse {
    /// The result of the command in the form of Claude Code, and the error if it has failed.
    pub(crate) fn result(&self, output: Option<&str>) -> (Value, Option<String>) {
        let code = self.exit.as_ref().and_then(|exit| exit.member("exitCode")?.integer());
        let signal = self.exit.as_ref().and_then(|exit| exit.member("signal"));
        let signal = signal.as_ref().and_then(Json::text);
        let response = json!({
            "stdout": output.unwrap_or_default(),
            "stderr": "",
            "interrupted": signal.is_some(),
            "exitCode": code,
        });
        let failure = match (code, signal) {
            (Some(0), _) | (None, None) => None,
            (Some(code), _) => Some(format!("Exit code {code}\n{}", output.unwrap_or_default())),
            (None, Some(signal)) => {
                Some(format!("Signal {signal}\n{}", output.unwrap_or_default()))
            }
        };
        (response, failure)
    }
}

impl Engine {
    /// Handles a request for the output or the end of a terminal.
    pub(crate) async fn on_terminal(
        self: &Arc<Self>,
        call: Call,
        next: Next<Call>,
    ) -> Result<Json> {
        let is_output = call.is("terminal/output");
        let is_release = call.is("terminal/release");
        let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
        let terminal = text(call.params.as_ref(), "terminalId").unwrap_or_default();
        let result = next.run(call).await?;
        let exit = match is_output {
            true => result.member("exitStatus").filter(|it| !it.is_null()),
            false if is_release => None,
            false => Some(result.clone()),
        };
        let known = self.sessions.with(&session, |it| {
            let terminals = &mut it.state.terminals;
            let found = terminals.find(&terminal)?;
            found.exit = exit.map(|it| it.detached()).or(found.exit.take());
            let is_new = !found.is_reported && found.exit.is_some() && is_output;
            let is_last = !found.is_reported && is_release;
            found.is_reported |= is_new || is_last;
            let known = found.clone();
            if is_release {
                terminals.remove(&terminal);
            }
            // The agent may have reported the end of the tool call before.
            let is_over = (is_new || is_last) && it.state.uses.report(&known.call);
            Some((known, is_over))
        });
        let Some((mut known, is_over)) = known else { return Ok(result) };
        if is_over && self.may_have(&[Event::PostToolUse, Event::PostToolUseFailure]) {
            let output = text(Some(&result), "output").filter(|_| is_output);
            let (response, failure) = known.result(output.as_deref());
            let time = known.started.elapsed();
            let reply = self.after(&next, &known.action, response, failure, time).await;
            known.updated_output = reply.updated_output.map(|it| changes::output_text(&it));
            match is_output && !reply.context.is_empty() {
                true => {
                    let output = known.updated_output.take().or(output).unwrap_or_default();
                    let texts = reply.context.join("\n");
                    known.updated_output =
                        Some(format!("{output}\n[{}] {texts}", label(&known.action)));
                }
                false => self.keep_context(&session, &label(&known.action), reply.context),
            }
            let updated = known.updated_output.clone();
            self.sessions.with(&session, |it| {
                it.state
                    .terminals
                    .find(&terminal)
                    .into_iter()
                    .for_each(|it| it.updated_output.clone_from(&updated));
            });
        }
        Ok(match known.updated_output.filter(|_| is_output && known.exit.is_some()) {
            Some(output) => result.with_at(&["output"], Some(&Json::string(&output))),
            None => result,
        })
    }
}
