//! Sends updates, texts, tool calls and requests for permission.

use acp_proxy::{Json, Result};
use serde_json::{Value, json};

use super::Turn;
use crate::demo::options::AUTO;
use crate::demo::version;

/// The answer to a request for permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Permission {
    Granted,
    Denied,
    /// The user has cancelled the turn.
    Cancelled,
    /// The client could not be asked. The text is the reason.
    NotAsked(String),
}

impl Turn {
    /// Sends a text of the agent's message word by word.
    pub(super) async fn say(&self, text: &str) -> Result<()> {
        match self.options.is_loud() {
            true => self.stream("agent_message_chunk", &text.to_uppercase()).await,
            false => self.stream("agent_message_chunk", text).await,
        }
    }

    /// Sends a text of the agent's thoughts word by word, unless the user does not want thoughts.
    pub(super) async fn think(&self, text: &str) -> Result<()> {
        match self.options.thoughts {
            true => self.stream("agent_thought_chunk", text).await,
            false => Ok(()),
        }
    }

    async fn stream(&self, kind: &str, text: &str) -> Result<()> {
        for word in text.split_inclusive(char::is_whitespace) {
            let content = json!({ "type": "text", "text": word });
            self.update(json!({ "sessionUpdate": kind, "content": content }))?;
            self.pause().await;
        }
        Ok(())
    }

    pub(super) async fn pause(&self) {
        if !self.pace.is_zero() {
            tokio::time::sleep(self.pace).await;
        }
    }

    /// Sends an update of version 1, in the version of the client.
    pub(super) fn update(&self, update: Value) -> Result<()> {
        match self.record(update) {
            Some(update) => self.send(update),
            None => Ok(()),
        }
    }

    /// Adds an update of version 1 to the history. Returns it in the version of the client.
    pub(super) fn record(&self, update: Value) -> Option<Value> {
        let update = version::update(&self.client, update, &self.message_id())?;
        self.sessions.record(&self.session, &update);
        Some(update)
    }

    /// Sends an update in the version of the client.
    pub(super) fn send(&self, update: Value) -> Result<()> {
        let params = json!({ "sessionId": self.session, "update": update });
        self.editor.notify_raw("session/update", params)
    }

    /// A prefix for the ids of messages of this turn.
    pub(super) fn message_id(&self) -> String {
        format!("turn-{}", self.number)
    }

    /// Announces a tool call with these members. Returns its id.
    pub(super) fn announce(&self, members: Value) -> Result<String> {
        // Ids are unique in the session, not only in the turn.
        let count = self.sessions.with(&self.session, |session| {
            session.tool_calls += 1;
            session.tool_calls
        })?;
        let id = format!("tool-{count}");
        *self.tool.borrow_mut() = Some(id.clone());
        let start = json!({ "sessionUpdate": "tool_call", "toolCallId": id, "status": "pending" });
        self.update(merged(start, members))?;
        Ok(id)
    }

    pub(super) fn mark_in_progress(&self, id: &str) -> Result<()> {
        self.change_tool_call(id, json!({ "status": "in_progress" }))
    }

    pub(super) fn change_tool_call(&self, id: &str, members: Value) -> Result<()> {
        let start = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id });
        self.update(merged(start, members))
    }

    /// Ends a tool call with a status and these members.
    pub(super) fn finish(&self, id: &str, status: &str, members: Value) -> Result<()> {
        self.tool.borrow_mut().take();
        self.change_tool_call(id, merged(json!({ "status": status }), members))
    }

    /// Asks the user for permission, unless the user has decided for the whole session. `call` has the members of
    /// the tool call.
    pub(super) async fn ask(&self, id: &str, call: Value) -> Result<Permission> {
        let decision = self.sessions.with(&self.session, |session| session.decision)?;
        match decision {
            _ if self.options.mode == AUTO => return Ok(Permission::Granted),
            Some(true) => return Ok(Permission::Granted),
            Some(false) => return Ok(Permission::Denied),
            None => {}
        }
        let title = call["title"].clone();
        let call = version::tool_call(&self.client, merged(json!({ "toolCallId": id }), call));
        let options = json!([
            { "optionId": "allow", "name": "Allow once", "kind": "allow_once" },
            { "optionId": "allow-always", "name": "Always allow", "kind": "allow_always" },
            { "optionId": "reject", "name": "Reject", "kind": "reject_once" },
            { "optionId": "reject-always", "name": "Always reject", "kind": "reject_always" },
        ]);
        let mut params = json!({ "sessionId": self.session, "options": options });
        match self.client.is_v2() {
            true => {
                params["title"] = title;
                params["subject"] = json!({ "type": "tool_call", "toolCall": call });
            }
            false => params["toolCall"] = call,
        }
        let answer = self.editor.request_raw("session/request_permission", params).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => return Ok(Permission::NotAsked(why.message())),
        };
        let member = |name: &str| {
            let value = answer.at(&["outcome", name]);
            value.as_ref().and_then(Json::text).map(|it| it.into_owned())
        };
        if member("outcome").as_deref() != Some("selected") {
            return Ok(Permission::Cancelled);
        }
        let option = member("optionId").unwrap_or_default();
        let granted = option.starts_with("allow");
        if option.ends_with("-always") {
            self.sessions.with(&self.session, |session| session.decision = Some(granted))?;
        }
        Ok(if granted { Permission::Granted } else { Permission::Denied })
    }
}

/// An object with the members of both.
pub(super) fn merged(mut object: Value, members: Value) -> Value {
    if let (Some(object), Value::Object(members)) = (object.as_object_mut(), members) {
        object.extend(members);
    }
    object
}

/// The content of a tool call that is a text.
pub(super) fn text_content(text: &str) -> Value {
    json!([{ "type": "content", "content": { "type": "text", "text": text } }])
}
