//! Hooks after a tool call that the agent reports.

use std::sync::Arc;
use std::time::Instant;

use acp_proxy::schema::ToolCallStatus;
use acp_proxy::{Context, Json, ToolCall};
use serde_json::{Value, json};

use super::super::changes;
use super::super::engine::Engine;
use super::super::event::Event;
use super::super::uses::Subject;
use super::after;
use component_base::action::Action;
use component_base::sessions::text;

impl Engine {
    /// Sees a tool call that the agent reports. When it is over, runs the hooks after it, unless they have run.
    pub(crate) fn on_tool_call(self: &Arc<Self>, call: &ToolCall, context: &Context) {
        const EVENTS: [Event; 4] = [
            Event::PreToolUse,
            Event::PostToolUse,
            Event::PostToolUseFailure,
            Event::PermissionRequest,
        ];
        let Some(id) = call.id().filter(|_| self.may_have(&EVENTS)) else { return };
        let session = call.session();
        let mut action = self.with_facts(session, |facts| Action::of_tool_call(call, facts));
        action.call = Some(id.clone());
        let subject = Subject::of(&action);
        let failed = call.status() == Some(ToolCallStatus::Failed);
        let is_over = failed || call.status() == Some(ToolCallStatus::Completed);
        let terminals = terminals_of(call.json());
        let (is_new, started, is_unused) = self.sessions.with(session, |it| {
            let state = &mut it.state;
            let known = state.uses.announce(&id, Some(subject), Instant::now());
            let is_unused = known.updated_input.is_some() && !known.is_updated;
            let started = known.started;
            for terminal in &terminals {
                if state.terminals.join(terminal, &id) {
                    state.uses.report(&id);
                }
            }
            let is_new = is_over && state.uses.report(&id) && !state.uses.is_denied(&id);
            if is_over {
                state.terminals.report(&id);
            }
            // The agent repeats what happened before the session was loaded.
            (is_new && !state.is_loading, started, is_unused)
        });
        let name = action.tool.common.clone();
        if is_unused && !failed && is_new {
            let text = format!(
                "{name} has run without the arguments that a hook wanted, because the agent has run it itself"
            );
            context.log(&text);
            self.tell(context, session, &text);
        }
        if !is_new {
            return;
        }
        let response = response_of(call.json());
        let failure = failed.then(|| changes::output_text(&response));
        let later = after(action, "session/update", response, failure, started.elapsed());
        self.fire_later(context, session, later, move |engine, context, session, reply| {
            if let Some(why) = &reply.stop {
                engine.stop_turn(context, session, why);
            }
            engine.keep_context(session, &format!("hook after {name}"), reply.context);
        });
    }
}

/// The terminals that a tool call shows.
fn terminals_of(call: &Json) -> Vec<String> {
    let blocks = call.member("content").map(|it| it.elements()).unwrap_or_default();
    blocks.iter().filter_map(|block| text(Some(block), "terminalId")).collect()
}

/// The result of a tool call that the agent reports.
fn response_of(call: &Json) -> Value {
    let read = |json: Json| serde_json::from_slice::<Value>(json.as_bytes()).ok();
    let own = call.at(&["_meta", "claudeCode", "toolResponse"]);
    let raw = || call.member("rawOutput").filter(|it| !it.is_null());
    if let Some(value) = own.or_else(raw).and_then(read) {
        return value;
    }
    let blocks = call.member("content").map(|it| it.elements()).unwrap_or_default();
    let texts = blocks
        .iter()
        .filter_map(|block| block.at(&["content", "text"])?.text().map(|text| text.into_owned()));
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { Value::Null } else { json!(texts.join("\n")) }
}
