//! Prompts, their queue, and the end of a turn.

use serde_json::{Value, json};

use super::{Conversation, Pending, Phase};
use crate::commands::{self, Line};

/// The state of a turn in ACP version 2. There the answer to a prompt only means that the prompt was accepted.
/// The turn ends when the agent reports that it is idle.
#[derive(Debug, Default)]
pub(super) struct TurnState {
    /// Whether the prompt was accepted.
    accepted: bool,
    /// Whether the agent has reported that it is working.
    worked: bool,
    /// The report that the agent is idle, if it arrived before the answer.
    idle: Option<Value>,
}

impl Conversation {
    /// Performs the next queued lines, if the agent is idle.
    pub(super) fn advance(&mut self) {
        while self.end.is_none() && self.is_idle() {
            let Some(line) = self.queue.pop_front() else { break };
            self.perform(&line);
        }
        self.show_queue();
        self.show_facts();
    }

    /// Performs a line when the agent is idle.
    pub(super) fn perform(&mut self, line: &str) {
        match commands::parse(line) {
            Line::Prompt(text) => self.prompt(&text),
            Line::Command { name, argument } => self.command(line, &name, &argument),
        }
    }

    /// Shows the lines that wait, if they have changed.
    pub(super) fn show_queue(&mut self) {
        let queued: Vec<String> = self.queue.iter().cloned().collect();
        if queued != self.shown_queue {
            self.view.lock().queued(&queued);
            self.shown_queue = queued;
        }
    }

    /// Discards the lines that are not performed yet, and says so.
    pub(super) fn discard_queue(&mut self) {
        let count = self.queue.len();
        self.queue.clear();
        if count > 0 {
            self.show_queue();
            let lines = if count == 1 { "line was" } else { "lines were" };
            self.view.lock().note(&format!("{count} queued {lines} discarded."));
        }
    }

    /// Sends a prompt.
    pub(super) fn prompt(&mut self, text: &str) {
        self.view.lock().prompt(text);
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        self.turn = TurnState::default();
        self.tool_calls.clear();
        self.request("session/prompt", &params, Pending::Prompt);
        self.enter(Phase::Turn { cancelled: false });
    }

    pub(super) fn on_prompt_answer(&mut self, outcome: Result<Value, Value>) {
        match outcome {
            Ok(answer) if self.version >= 2 && answer["stopReason"].is_null() => {
                self.turn.accepted = true;
                if let Some(idle) = self.turn.idle.take() {
                    self.end_turn(stop_reason(&idle));
                }
            }
            outcome => {
                self.end_turn(outcome.map(|it| it["stopReason"].as_str().map(str::to_owned)))
            }
        }
    }

    /// Handles the agent's report that it is working or idle (ACP version 2).
    pub(super) fn on_state_update(&mut self, update: &Value) {
        if self.version < 2 || !matches!(self.phase, Phase::Turn { .. }) {
            return;
        }
        match (update["state"] == "idle", self.turn.accepted) {
            (false, _) => (self.turn.worked, self.turn.idle) = (true, None),
            (true, true) => {
                self.end_turn(stop_reason(update));
                self.advance();
            }
            // The agent has not reported work in this turn, so this report belongs to an earlier turn.
            (true, false) if self.turn.worked => self.turn.idle = Some(update.clone()),
            (true, false) => {}
        }
    }

    /// Ends the turn, with the stop reason or an error.
    fn end_turn(&mut self, end: Result<Option<String>, Value>) {
        // The agent no longer waits for permissions. Its requests are answered all the same.
        self.cancel_questions();
        self.show_terminals();
        self.last_turn_failed = end.is_err();
        match end {
            Ok(reason) => {
                self.answers += 1;
                self.view.lock().turn_ended(reason.as_deref());
                self.offer_next_step();
            }
            Err(error) => {
                let mut description = self.describe(&error, "session/prompt");
                if description.login && self.options.interactive && self.can_login() {
                    description.remedy = vec!["enter /login to log in".to_owned()];
                }
                self.show_error(&description.to_string());
                self.view.lock().turn_ended(Some("error"));
            }
        }
        self.enter(Phase::Idle);
    }

    fn offer_next_step(&mut self) {
        let offered = std::mem::replace(&mut self.next_step_offered, true);
        if !offered && self.options.interactive && !self.options.next_step.is_empty() {
            let next_step = self.options.next_step.clone();
            self.view.lock().note(&next_step);
        }
    }

    /// Cancels the turn. The agent ends it.
    pub(super) fn cancel_turn(&mut self) {
        self.outgoing.notify("session/cancel", &json!({ "sessionId": self.session }));
        self.enter(Phase::Turn { cancelled: true });
        self.cancel_questions();
        self.discard_queue();
        self.interrupted = true;
    }
}

/// The stop reason or error in a report that the agent is idle.
fn stop_reason(idle: &Value) -> Result<Option<String>, Value> {
    match idle["stopReason"].as_str() {
        Some("error") => Err(idle["error"].clone()),
        reason => Ok(Some(reason.unwrap_or("end_turn").to_owned())),
    }
}
