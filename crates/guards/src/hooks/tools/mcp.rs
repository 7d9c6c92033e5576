//! Hooks around a call of an MCP tool that passes through the chain.

use std::sync::Arc;
use std::time::Instant;

use acp_proxy::{Json, McpNext, McpRequest, Result};
use serde_json::{Value, json};

use super::super::changes;
use super::super::engine::Engine;
use super::super::event::Event;
use super::super::settings::Hook;
use super::super::uses::Decided;
use super::action::Passage;
use super::{blocked, label};
use component_base::action::Action;

const UNKNOWN_SERVER: &str = "its MCP server is not known, because hooks was restarted, so no hook can decide about it; \
                              start a new session";

impl Engine {
    /// Handles an MCP request that passes through the chain.
    pub(crate) async fn on_mcp(
        self: &Arc<Self>,
        mut request: McpRequest,
        next: McpNext,
    ) -> Result<Json> {
        let Some(tool) = request.tool() else { return next.run(request).await };
        let session = request.session().unwrap_or_default().to_owned();
        let server = request.server().unwrap_or("unknown").to_owned();
        let arguments = serde_json::from_slice(request.arguments().as_bytes()).unwrap_or_default();
        let mut action = self.with_facts(&session, |facts| {
            Action::of_mcp_call(&session, &server, &tool, arguments, facts)
        });
        // After a restart the server is not known, so matchers that name it cannot match.
        let may_concern =
            |hook: &Hook| hook.event == Event::PreToolUse && hook.matcher.may_match_mcp();
        if request.server().is_none() && self.in_effect(&session).iter().any(|it| may_concern(it)) {
            return Err(blocked(&action, &Decided::denied(UNKNOWN_SERVER)));
        }
        let change =
            |action: &Action, input: &Value| Ok(Action { input: input.clone(), ..action.clone() });
        let (call, updated_input) = match self.admit(&next, &mut action, change).await {
            Passage::Blocked(error) => return Err(error),
            Passage::Open { call, updated_input } => (call, updated_input),
        };
        if let Some(input) = updated_input {
            let arguments = acp_proxy::to_json(&input)?;
            request.set_params(request.params().with_at(&["arguments"], Some(&arguments)));
            action.input = input;
        }
        let started = Instant::now();
        let result = next.run(request).await;
        if !self.may_have(&[Event::PostToolUse, Event::PostToolUseFailure]) {
            return result;
        }
        self.sessions.with(&session, |it| it.state.uses.report(&call));
        let content = result.as_ref().ok().and_then(|it| it.member("content"));
        let content: Value =
            content.and_then(|it| serde_json::from_slice(it.as_bytes()).ok()).unwrap_or_default();
        let is_error = result.as_ref().ok().and_then(|it| it.member("isError"));
        let failure = match &result {
            Err(error) => Some(error.message()),
            Ok(_) if is_error.is_some_and(|it| it.as_str() == "true") => {
                Some(changes::output_text(&content))
            }
            Ok(_) => None,
        };
        let time = started.elapsed();
        let reply = self.after(&next, &action, content, failure, time).await;
        let mut answer = result?;
        if let Some(output) = &reply.updated_output {
            answer = answer.with_at(&["content"], Some(&changes::mcp_content(output)?));
        }
        if !reply.context.is_empty() {
            let text = format!("[{}] {}", label(&action), reply.context.join("\n"));
            let block = acp_proxy::to_json(&json!({ "type": "text", "text": text }))?;
            let mut blocks = answer.member("content").map(|it| it.elements()).unwrap_or_default();
            blocks.push(block);
            answer = answer.with_at(&["content"], Some(&Json::array(&blocks)));
        }
        Ok(answer)
    }
}
