//! Converts messages from ACP version 1 to version 2.

use serde_json::{Value, json};

use super::client::Client;

/// The id of the plan in version 2. In version 1 a session has one plan, without an id.
pub(super) const PLAN_ID: &str = "plan";

/// An update in the version of the client. `None` if that version has no such update.
pub(super) fn update(client: &Client, mut update: Value, message: &str) -> Option<Value> {
    if !client.is_v2() {
        return Some(update);
    }
    let kind = update["sessionUpdate"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "tool_call" | "tool_call_update" => {
            update["sessionUpdate"] = json!("tool_call_update");
            convert_content(&mut update);
        }
        "plan" => {
            let plan = json!({ "type": "items", "planId": PLAN_ID, "entries": update["entries"] });
            return Some(json!({ "sessionUpdate": "plan_update", "plan": plan }));
        }
        "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk"
            if update.get("messageId").is_none() =>
        {
            let part = kind.split('_').nth(1).unwrap_or_default();
            let part = if kind.starts_with("user") { "user" } else { part };
            update["messageId"] = json!(format!("{message}-{part}"));
        }
        "available_commands_update" => {
            let commands = update["availableCommands"].as_array_mut().map(Vec::as_mut_slice);
            for command in commands.unwrap_or_default() {
                command["type"] = json!("command");
                if command["input"].is_object() {
                    command["input"]["type"] = json!("text");
                }
            }
        }
        // In version 2 the mode is an option of the session.
        "current_mode_update" => return None,
        _ => {}
    }
    Some(update)
}

/// A tool call in the version of the client.
pub(super) fn tool_call(client: &Client, mut call: Value) -> Value {
    if client.is_v2() {
        convert_content(&mut call);
    }
    call
}

fn convert_content(call: &mut Value) {
    let content = call.get_mut("content").and_then(Value::as_array_mut);
    for item in content.map(Vec::as_mut_slice).unwrap_or_default() {
        if item["type"] == "diff" {
            *item = patch(item);
        }
    }
}

/// A diff as a patch.
fn patch(diff: &Value) -> Value {
    let text = |name: &str| diff[name].as_str().unwrap_or_default();
    let (path, old, new) = (text("path"), text("oldText"), text("newText"));
    let is_new = diff["oldText"].is_null();
    let before = if is_new { "/dev/null" } else { path };
    let hunk = hunk(old, new);
    json!({
        "type": "diff",
        "changes": [{
            "operation": if is_new { "add" } else { "modify" },
            "path": path,
            "fileType": "text",
        }],
        "patch": {
            "format": "git_patch",
            "text": format!("diff --git {path} {path}\n--- {before}\n+++ {path}\n{hunk}"),
        },
    })
}

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// The change from one text to another, as one hunk of a unified diff.
fn hunk(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let equal = |it: &(&&str, &&str)| it.0 == it.1;
    let before = old.iter().zip(&new).take_while(equal).count();
    let rest = (&old[before..], &new[before..]);
    let after = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(equal).count();
    let (start, end) = (before.saturating_sub(CONTEXT), after.saturating_sub(CONTEXT));
    let (old_end, new_end) = (old.len() - end, new.len() - end);
    let number = |lines: usize| if lines == 0 { 0 } else { start + 1 };
    let mut text = format!(
        "@@ -{},{} +{},{} @@\n",
        number(old_end - start),
        old_end - start,
        number(new_end - start),
        new_end - start
    );
    let mut push = |mark: char, lines: &[&str]| {
        lines.iter().for_each(|line| text.push_str(&format!("{mark}{line}\n")));
    };
    push(' ', &old[start..before]);
    push('-', &old[before..old.len() - after]);
    push('+', &new[before..new.len() - after]);
    push(' ', &old[old.len() - after..old_end]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunk_has_the_changed_lines_and_three_lines_around_them() {
        assert_eq!(hunk("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n";
        assert_eq!(hunk(old, new), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
        assert_eq!(hunk("a\n", ""), "@@ -1,1 +0,0 @@\n-a\n");
    }
}
