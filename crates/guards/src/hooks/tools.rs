//! Hooks around tool calls: before a permission request, a file or a terminal, and after a tool call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use acp_proxy::{Context, Error};
use acp_wire::ErrorKind;
use serde_json::{Value, json};

use super::changes;
use super::engine::{Engine, LaterOccasion, Occasion};
use super::event::Event;
use super::occasion::{fields, tool_input};
use super::reply::{Decision, Reply};
use super::uses::Decided;
use component_base::action::{Action, At};

mod action;
mod mcp;
mod permission;
mod reported;

/// The code of the errors that blocked requests are answered with.
const BLOCKED: i64 = component_base::refusal::TO_AGENT;

impl Engine {
    /// Runs the hooks that are told about something that the user should notice.
    pub(crate) fn notify(
        self: &Arc<Self>,
        context: &Context,
        session: &str,
        kind: &str,
        message: &str,
    ) {
        if !self.may_have(&[Event::Notification]) {
            return;
        }
        let later = LaterOccasion {
            event: Event::Notification,
            at: "",
            subject: kind.to_owned(),
            action: None,
            fields: fields([("message", json!(message)), ("notification_type", json!(kind))]),
        };
        self.fire_later(context, session, later, |_, _, _, _| {});
    }

    /// Turns the answer of hooks into a decision, and does what it says besides.
    fn judge(
        &self,
        context: &Context,
        session: &str,
        action: &Action,
        reply: Reply,
    ) -> (Decided, Option<Value>) {
        let Reply { mut decision, mut reason, updated_input, context: texts, stop, kind, .. } =
            reply;
        self.keep_context(session, "", texts);
        if let Some(why) = stop {
            decision = Some(Decision::Deny);
            reason = reason.or_else(|| Some(why.clone()).filter(|it| !it.is_empty()));
            self.stop_turn(context, session, &why);
        }
        let is_change = |input: &Value| changes::differ(&tool_input(action), input);
        let updated_input =
            updated_input.filter(is_change).filter(|_| decision != Some(Decision::Deny));
        let is_denied = |input: &Value| {
            action.at == At::PermissionRequest && !self.can_change_later(action, input)
        };
        if updated_input.as_ref().is_some_and(is_denied) {
            let why = format!(
                "a hook changes the arguments of {}, and this agent takes no changed arguments",
                action.tool.common
            );
            return (Decided::denied(why), None);
        }
        let kind = kind.unwrap_or(ErrorKind::BlockedByHook);
        (Decided { decision, reason: reason.unwrap_or_default(), kind }, updated_input)
    }

    /// Runs the hooks after a tool call.
    pub(super) async fn after(
        self: &Arc<Self>,
        context: &Context,
        action: &Action,
        response: Value,
        failure: Option<String>,
        time: Duration,
    ) -> Reply {
        let later = after(action.clone(), action.at.method(), response, failure, time);
        let occasion = Occasion::about(later.event, later.at, action, later.fields);
        let reply = self.fire(context, &action.session, occasion).await.unwrap_or_default();
        if let Some(why) = &reply.stop {
            self.stop_turn(context, &action.session, why);
        }
        reply
    }
}

/// What hooks are told after a tool call.
fn after(
    action: Action,
    at: &'static str,
    response: Value,
    failure: Option<String>,
    time: Duration,
) -> LaterOccasion {
    let call = action.call.clone().unwrap_or_default();
    let time = json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let mut all = fields([("tool_use_id", json!(call)), ("duration_ms", time)]);
    let event = match failure {
        Some(error) => {
            all.extend(fields([("error", json!(error)), ("is_interrupt", json!(false))]));
            Event::PostToolUseFailure
        }
        None => {
            all.extend(fields([("tool_response", response)]));
            Event::PostToolUse
        }
    };
    LaterOccasion {
        event,
        at,
        subject: action.tool.common.clone(),
        action: Some(action),
        fields: all,
    }
}

/// Adds the directory of a command to its arguments, if it is not the one that scripts know: that of the session.
fn show_directory(action: &mut Action, session: &Path) {
    if action.cwd != session
        && action.tool.common == "Bash"
        && let Some(input) = action.input.as_object_mut()
    {
        input.insert("cwd".to_owned(), json!(action.cwd.to_string_lossy()));
    }
}

pub(super) fn label(action: &Action) -> String {
    format!("hook after {}", action.tool.common)
}

/// The error for a request that a hook blocks. The agent shows it to its model.
fn blocked(action: &Action, decided: &Decided) -> Error {
    let (kind, tool) = (decided.kind, &action.tool.common);
    let reason = acp_wire::printable::plain(&decided.reason);
    let by = if kind == ErrorKind::BlockedByHook { " by a hook" } else { "" };
    let text = kind.tag(format!("hooks: {tool} is blocked{by}: {reason}"));
    let data = json!({
        "component": "hooks", "code": kind.code(), "tool": tool, "reason": reason,
    });
    Error::with_data(BLOCKED, text, &data)
}
