//! Hooks at a request for a file, a terminal or an MCP tool, which is the action itself.

use std::sync::Arc;
use std::time::Instant;

use acp_proxy::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionRequest, ToolCallUpdate,
    ToolCallUpdateFields,
};
use acp_proxy::{Call, Context, Error, Json, Next, Result};
use serde_json::{Value, json};

use super::super::changes;
use super::super::engine::{Engine, Occasion};
use super::super::event::Event;
use super::super::occasion::{fields, tool_input};
use super::super::reply::Decision;
use super::super::terminals::TerminalUse;
use super::super::uses::{Decided, Subject};
use super::{blocked, label, show_directory};
use component_base::action::{Action, At};
use component_base::sessions::text;

/// What hooks have decided about an action that is not asked for with a permission request.
pub(super) enum Passage {
    Blocked(Error),
    /// The action may happen, with these arguments if a hook has changed them. The id is that of the tool call.
    Open {
        call: String,
        updated_input: Option<Value>,
    },
}

impl Engine {
    /// Decides about a request for a file, a terminal or an MCP tool. `change` makes the action with other arguments, or
    /// says why that is not possible.
    pub(super) async fn admit(
        self: &Arc<Self>,
        context: &Context,
        action: &mut Action,
        change: impl Fn(&Action, &Value) -> std::result::Result<Action, String>,
    ) -> Passage {
        let (session, subject) = (action.session.clone(), Subject::of(action));
        if action.at == At::WriteTextFile {
            let tool =
                self.sessions.with(&session, |it| it.state.uses.tool_of(action.at, &subject));
            action.tool.native = tool;
        }
        let occasion = Occasion::about(Event::PreToolUse, action.at.method(), action, fields([]));
        let hooks = self.select(&session, &occasion);
        let found =
            self.sessions.with(&session, |it| it.state.uses.find(action.at, &subject, &hooks));
        let call = found.as_ref().map_or_else(|| self.new_id(), |it| it.id.clone());
        action.call = Some(call.clone());
        let updated_before = found.as_ref().and_then(|it| it.updated_input.clone());
        let (decided, updated_input, is_known) = match found.and_then(|it| it.decided) {
            Some(decided) => (decided, updated_before, true),
            None => {
                let fields = fields([("tool_use_id", json!(call))]);
                let occasion =
                    Occasion::about(Event::PreToolUse, action.at.method(), action, fields);
                let reply = self.run_selected(context, &session, occasion, hooks).await;
                let Some(reply) = reply else {
                    let why = Decided::denied("the turn was cancelled");
                    return Passage::Blocked(blocked(action, &why));
                };
                let (decided, updated_input) = self.judge(context, &session, action, reply);
                (decided, updated_input, false)
            }
        };
        if decided.decision == Some(Decision::Deny) {
            return Passage::Blocked(blocked(action, &decided));
        }
        // If the change cannot be made, the old action must not happen either.
        let changed = match &updated_input {
            Some(input) => match change(action, input) {
                Ok(changed) => changed,
                Err(why) => return Passage::Blocked(blocked(action, &Decided::denied(why))),
            },
            None => action.clone(),
        };
        if decided.decision == Some(Decision::Ask)
            && !is_known
            && !self.user_allows(context, &changed, &decided.reason).await
        {
            let why = Decided::denied("the user did not allow it");
            return Passage::Blocked(blocked(action, &why));
        }
        Passage::Open { call, updated_input }
    }

    /// Asks the user about an action for which the agent does not ask.
    async fn user_allows(
        self: &Arc<Self>,
        context: &Context,
        action: &Action,
        reason: &str,
    ) -> bool {
        let title = match reason {
            "" => action.to_string(),
            reason => format!("{action}: {reason}"),
        };
        let mut update = ToolCallUpdateFields::new().title(title).raw_input(action.input.clone());
        update.kind = action.kind;
        let call = ToolCallUpdate::new(action.call.clone().unwrap_or_default(), update);
        let options = vec![
            PermissionOption::new("allow", "Allow", PermissionOptionKind::AllowOnce),
            PermissionOption::new("reject", "Reject", PermissionOptionKind::RejectOnce),
        ];
        let name = &action.tool.common;
        let message = format!("A hook asks for permission to use {name}");
        self.notify(context, &action.session, "permission_prompt", &message);
        let request = RequestPermissionRequest::new(action.session.clone(), call, options);
        let cancelled = self.sessions.with(&action.session, |it| it.state.cancelled.clone());
        let editor = context.editor();
        let answer = tokio::select! {
            answer = editor.request(request) => answer,
            () = cancelled.notified() => return false,
            () = context.cancelled() => return false,
        };
        let answer = answer.ok().and_then(|answer| serde_json::to_value(answer).ok());
        answer.is_some_and(|answer| answer["outcome"]["optionId"] == "allow")
    }

    /// The action of a request, as scripts see it.
    fn action_of(&self, session: &str, call: &Call) -> Option<Action> {
        self.with_facts(session, |facts| {
            let mut action = Action::of_call(call, facts)?;
            show_directory(&mut action, facts.cwd);
            Some(action)
        })
    }

    /// A request with the arguments that a hook wants.
    fn changed(
        &self,
        call: &Call,
        action: &Action,
        input: &Value,
    ) -> std::result::Result<(Call, Action), String> {
        changes::check(&action.tool.common, &tool_input(action), input)?;
        let mut call = call.clone();
        let params = call.params.take().unwrap_or(Json::EMPTY_OBJECT);
        let params = changes::apply(action.at, action, params, input);
        call.params = Some(params.map_err(|error| error.message())?);
        let changed = self.action_of(&action.session, &call);
        let mut changed = changed.ok_or("a hook has changed it to something that is not valid")?;
        changed.call.clone_from(&action.call);
        changed.tool.native.clone_from(&action.tool.native);
        Ok((call, changed))
    }

    /// Handles a request to read or write a file, or to create a terminal.
    pub(crate) async fn on_action(
        self: &Arc<Self>,
        mut call: Call,
        next: Next<Call>,
    ) -> Result<Json> {
        let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
        let Some(mut action) = self.action_of(&session, &call) else {
            let why =
                format!("hooks: cannot read this {}, so it does not pass", call.method.name());
            return Err(Error::invalid_params(why));
        };
        let change = |action: &Action, input: &Value| {
            self.changed(&call, action, input).map(|(_, action)| action)
        };
        let (id, updated_input) = match self.admit(&next, &mut action, change).await {
            Passage::Blocked(error) => return Err(error),
            Passage::Open { call, updated_input } => (call, updated_input),
        };
        if let Some(input) = updated_input {
            (call, action) = self.changed(&call, &action, &input).map_err(Error::internal)?;
        }
        let (at, started) = (action.at, Instant::now());
        let result = next.run(call).await;
        if at == At::CreateTerminal {
            if let Some(terminal) = result.as_ref().ok().and_then(|it| text(Some(it), "terminalId"))
            {
                let terminal = TerminalUse {
                    terminal,
                    call: id,
                    action,
                    started,
                    exit: None,
                    is_reported: false,
                    updated_output: None,
                };
                self.sessions.with(&session, |it| it.state.terminals.add(terminal));
            }
            return result;
        }
        if !self.may_have(&[Event::PostToolUse, Event::PostToolUseFailure]) {
            return result;
        }
        // The call reads the file that it edits: this is not its result.
        let is_step = at == At::ReadTextFile
            && self.sessions.with(&session, |it| it.state.uses.is_write(&id));
        if is_step {
            return result;
        }
        self.sessions.with(&session, |it| it.state.uses.report(&id));
        let path = &action.input["file_path"];
        let (response, failure) = match (&result, at) {
            (Err(error), _) => (Value::Null, Some(error.message())),
            (Ok(answer), At::ReadTextFile) => {
                let content = text(Some(answer), "content").unwrap_or_default();
                (json!({ "type": "text", "file": { "filePath": path, "content": content } }), None)
            }
            (Ok(_), _) => (json!({ "filePath": path, "success": true }), None),
        };
        let reply = self.after(&next, &action, response, failure, started.elapsed()).await;
        self.keep_context(&session, &label(&action), reply.context);
        match (reply.updated_output, at) {
            (Some(output), At::ReadTextFile) => {
                let content = Json::string(&changes::output_text(&output));
                Ok(result?.with_at(&["content"], Some(&content)))
            }
            _ => result,
        }
    }
}
