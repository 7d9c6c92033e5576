//! The tool calls of a turn: what earlier updates have said about each of them.

use std::collections::BTreeMap;

use acp_wire::words;
use serde_json::{Map, Value, json};

/// The maximum number of tool calls that are remembered.
const MAX_CALLS: usize = 1000;
/// The maximum number of contents that are remembered for a tool call.
const MAX_CONTENTS: usize = 1000;

/// The tool calls of a turn, by id.
#[derive(Debug, Default)]
pub struct ToolCalls(BTreeMap<String, Map<String, Value>>);

impl ToolCalls {
    /// Merges an update, of ACP version 1 or 2.
    pub fn update(&mut self, update: &Value) {
        let Some(id) = update["toolCallId"].as_str() else { return };
        if self.0.len() >= MAX_CALLS && !self.0.contains_key(id) {
            return;
        }
        match update["sessionUpdate"].as_str() {
            Some("tool_call" | "tool_call_update") => {
                merge(self.0.entry(id.to_owned()).or_default(), update);
            }
            Some("tool_call_content_chunk") => {
                let call = self.0.entry(id.to_owned()).or_default();
                let content = call.entry("content").or_insert_with(|| json!([]));
                if let Some(content) = content.as_array_mut()
                    && content.len() < MAX_CONTENTS
                {
                    content.push(update["content"].clone());
                }
            }
            _ => {}
        }
    }

    /// A tool call with everything that is known about it.
    pub fn complete(&self, call: &Value) -> Value {
        let known = call["toolCallId"].as_str().and_then(|id| self.0.get(id));
        let mut complete = known.cloned().unwrap_or_default();
        merge(&mut complete, call);
        complete.into()
    }

    /// Whether a tool call shows this command, in its title or input.
    pub fn shows_command(&self, command: &str) -> bool {
        let shows = |value: Option<&Value>| {
            value.and_then(Value::as_str).is_some_and(|text| words::contains_any(text, &[command]))
        };
        self.0.values().any(|call| {
            let input = call.get("rawInput").and_then(|it| it.get("command"));
            shows(call.get("title")) || shows(input)
        })
    }

    /// Forgets all tool calls.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Members that are missing or null keep their value.
fn merge(call: &mut Map<String, Value>, update: &Value) {
    let Some(members) = update.as_object() else { return };
    for (name, value) in members {
        let empty = value.as_array().is_some_and(Vec::is_empty);
        if !value.is_null() && name != "sessionUpdate" && !(empty && call.contains_key(name)) {
            call.insert(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stands_for_everything_that_earlier_updates_said() {
        let mut calls = ToolCalls::default();
        calls.update(&json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Edit",
            "rawInput": { "path": "/a" }, "status": "pending" }));
        calls.update(
            &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": null,
            "content": [{ "type": "diff" }] }),
        );
        calls.update(&json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "t",
            "content": { "type": "content" } }));
        let call = calls.complete(&json!({ "toolCallId": "t", "status": "in_progress" }));
        assert_eq!((&call["title"], &call["status"]), (&json!("Edit"), &json!("in_progress")));
        assert_eq!(call["rawInput"]["path"], "/a");
        assert_eq!(call["content"].as_array().map(Vec::len), Some(2));
        assert_eq!(calls.complete(&json!({ "toolCallId": "x" })), json!({ "toolCallId": "x" }));
        assert!(calls.shows_command("Edit") && !calls.shows_command("ls"));
        calls.update(
            &json!({ "sessionUpdate": "tool_call", "toolCallId": "u", "title": "List tools" }),
        );
        assert!(!calls.shows_command("ls"), "a part of another word");
        calls.update(
            &json!({ "sessionUpdate": "tool_call", "toolCallId": "v", "title": "Run `ls`" }),
        );
        assert!(calls.shows_command("ls"));
        calls.clear();
        assert!(calls.complete(&json!({ "toolCallId": "t" }))["title"].is_null());
    }
}
