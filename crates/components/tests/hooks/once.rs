//! Hooks run once, when something happens, and hold only what waits for them.

use serde_json::json;

use super::*;

fn start(talk: &mut Talk, id: &str, input: &Value) {
    talk.update(&json!({
        "sessionUpdate": "tool_call", "toolCallId": id, "kind": "execute", "title": "x", "status": "in_progress",
        "rawInput": input,
    }));
    talk.receive("editor");
}

fn complete(talk: &mut Talk, id: &str) {
    talk.update(
        &json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed" }),
    );
    let message = talk.receive("editor");
    assert_eq!(message["params"]["update"]["toolCallId"], id, "{message}");
}

/// The next prompt waits for the hooks of the tool calls.
fn inputs_before_next_prompt(talk: &mut Talk, folder: &Folder) -> Vec<Value> {
    talk.prompt("next");
    talk.expect_prompt(&["next"]);
    folder.inputs("input")
}

#[test]
fn the_history_of_a_loaded_session_runs_no_hooks() {
    let folder = Folder::new("history");
    let record = folder.record("input");
    let hooks = [("PostToolUse", "", &*record), ("PostToolUseFailure", "", &*record)];
    let mut talk = folder.session(&hooks);
    let params = json!({ "sessionId": "s", "cwd": folder.0, "mcpServers": [] });
    talk.request("editor", "session/load", &params);
    let request = talk.receive("agent");
    for (id, status) in [("h1", "completed"), ("h2", "failed")] {
        talk.update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "kind": "execute", "title": "x", "status": status,
            "rawInput": { "command": "git push" },
        }));
        talk.receive("editor");
    }
    talk.answer("agent", &request, &json!({}));
    talk.receive("editor");
    assert_eq!(inputs_before_next_prompt(&mut talk, &folder), [Value::Null; 0]);
    start(&mut talk, "c1", &json!({ "command": "ls" }));
    complete(&mut talk, "c1");
    assert_eq!(inputs_before_next_prompt(&mut talk, &folder).len(), 1);
}

#[test]
fn a_session_that_is_loaded_again_starts_again() {
    let folder = Folder::new("again");
    let mut talk = folder.session(&[("SessionStart", "", &folder.record("input"))]);
    let params = json!({ "sessionId": "s", "cwd": folder.0, "mcpServers": [] });
    talk.exchange("editor", "session/load", &params, &json!({}));
    let inputs = inputs_before_next_prompt(&mut talk, &folder);
    let sources: Vec<_> = inputs.iter().map(|it| it["source"].as_str().unwrap()).collect();
    assert_eq!(sources.len(), 2, "{sources:?}");
    assert!(sources.contains(&"startup") && sources.contains(&"resume"), "{sources:?}");
}

#[test]
fn hooks_after_a_call_with_a_terminal_run_once() {
    for (name, is_described, looks) in
        [("released", true, false), ("shown", false, true), ("shown-released", false, false)]
    {
        let folder = Folder::new(name);
        let mut talk = folder.session(&[("PostToolUse", "", &folder.record("input"))]);
        let input = if is_described { json!({ "command": "ls" }) } else { Value::Null };
        start(&mut talk, "c1", &input);
        let create = json!({ "sessionId": "s", "command": "ls" });
        let terminal = json!({ "sessionId": "s", "terminalId": "T" });
        talk.exchange("agent", "terminal/create", &create, &json!({ "terminalId": "T" }));
        let content = json!([{ "type": "terminal", "terminalId": "T" }]);
        talk.update(
            &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "content": content }),
        );
        talk.receive("editor");
        talk.exchange("agent", "terminal/wait_for_exit", &terminal, &json!({ "exitCode": 0 }));
        if looks {
            let over =
                json!({ "output": "a", "truncated": false, "exitStatus": { "exitCode": 0 } });
            talk.exchange("agent", "terminal/output", &terminal, &over);
        }
        complete(&mut talk, "c1");
        talk.exchange("agent", "terminal/release", &terminal, &json!({}));
        let inputs = inputs_before_next_prompt(&mut talk, &folder);
        assert_eq!(inputs.len(), 1, "{name}: {inputs:?}");
        assert_eq!(inputs[0]["tool_use_id"], "c1");
    }
}

#[test]
fn a_changed_write_is_not_reported_as_unchanged() {
    let folder = Folder::new("changed-write");
    let input = json!({ "file_path": folder.path("b"), "content": "new" });
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": input,
    }});
    let options = folder.options(&[("PreToolUse", "", &format!("printf '%s' '{output}'"))]);
    let conversation = Conversation::new(component(&[], options));
    let abilities = json!({ "fs": { "readTextFile": true, "writeTextFile": true } });
    let talk = Talk { conversation, id: 0 }.initialized_with("goose", 1, &abilities);
    let mut talk = talk.with_session(&folder.0);
    let (file, old) = (folder.path("a"), "old");
    talk.ask(&json!({
        "toolCallId": "c1", "kind": "edit", "title": "x", "name": "write",
        "rawInput": { "path": file, "content": old },
    }));
    assert_eq!(talk.chosen(), "once");
    // Also the second time, the old content does not pass.
    for _ in 0..2 {
        let write = json!({ "sessionId": "s", "path": file, "content": old });
        talk.request("agent", "fs/write_text_file", &write);
        let request = talk.receive("editor");
        assert_eq!(request["params"]["content"], "new", "{request}");
        talk.answer("editor", &request, &json!({}));
        talk.receive("agent");
    }
    complete(&mut talk, "c1");
    talk.prompt("next");
    talk.expect_prompt(&["next"]);
    complete(&mut talk, "c2");
}

#[test]
fn a_hook_that_says_so_goes_on_in_the_background() {
    let folder = Folder::new("goes-on");
    let command = format!(
        "cat > /dev/null; echo '{{\"async\":true,\"asyncTimeout\":600000}}'; until [ -e {} ]; do sleep 0.02; done; echo '{{}}' >> {}",
        folder.path("go"),
        folder.path("input")
    );
    let mut talk = folder.session(&[("UserPromptSubmit", "", &command)]);
    talk.prompt("go");
    let prompt = talk.expect_prompt(&["go"]);
    talk.end_turn(&prompt);
    talk.receive("editor");
    folder.write("go", "");
    talk.wait_for(&folder, 1);
}

#[test]
fn a_prompt_does_not_wait_for_a_notification() {
    let folder = Folder::new("notification");
    let command = format!("{}; sleep 600", folder.record("input"));
    let mut options = folder.options(&[("Notification", "", &command)]);
    options["idle_after"] = json!("1ms");
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.prompt("go");
    let prompt = talk.expect_prompt(&["go"]);
    talk.end_turn(&prompt);
    talk.receive("editor");
    talk.wait_for(&folder, 1);
    talk.prompt("next");
    talk.expect_prompt(&["next"]);
}

#[test]
fn a_turn_that_is_cancelled_during_a_stop_hook_is_answered_as_cancelled() {
    let folder = Folder::new("stop-cancelled");
    let command = format!("{}; sleep 600", folder.record("input"));
    let mut talk = folder.session(&[("Stop", "", &command)]);
    talk.prompt("go");
    let prompt = talk.expect_prompt(&["go"]);
    talk.end_turn(&prompt);
    talk.wait_for(&folder, 1);
    talk.send("editor", &json!({ "method": "session/cancel", "params": { "sessionId": "s" } }));
    assert_eq!(talk.receive("editor")["result"]["stopReason"], "cancelled");
}

#[test]
fn the_text_of_a_turn_is_in_the_transcript_and_the_last_message_is_whole() {
    let folder = Folder::new("texts");
    let copy = "cp \"$(printf '%s' \"$input\" | sed 's/.*transcript_path\":\"//; s/\".*//')\"";
    let command = format!("{}; {copy} {}", folder.record("input"), folder.path("copy"));
    let mut talk = folder.session(&[("Stop", "", &command)]);
    talk.prompt("question");
    let prompt = talk.expect_prompt(&["question"]);
    let say = |talk: &mut Talk, text: &str| {
        talk.update(&json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }));
        talk.receive("editor");
    };
    say(&mut talk, "I look.");
    start(&mut talk, "c1", &json!({ "command": "ls" }));
    say(&mut talk, "The answer");
    complete(&mut talk, "c1");
    say(&mut talk, " is 42.");
    talk.end_turn(&prompt);
    assert_eq!(talk.receive("editor")["result"]["stopReason"], "end_turn");
    let inputs = folder.inputs("input");
    assert_eq!(inputs[0]["last_assistant_message"], "The answer is 42.");
    let texts: Vec<Value> =
        folder.inputs("copy").iter().map(|it| it["message"]["content"].clone()).collect();
    assert_eq!(texts, ["question", "I look.", "The answer is 42."]);
}
