//! Hooks before and after tool calls: permission requests, files, terminals, and calls inside the agent.

use serde_json::{Value, json};

use super::*;

fn updated(input: &Value) -> String {
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": input,
    }});
    format!("printf '%s' '{output}'")
}

fn after(output: &Value) -> String {
    let mut specific = output.clone();
    specific["hookEventName"] = json!("PostToolUse");
    format!("printf '%s' '{}'", json!({ "hookSpecificOutput": specific }))
}

#[test]
fn the_input_of_a_hook_has_the_members_that_scripts_know() {
    let folder = Folder::new("input");
    let mut talk = folder.session(&[("PreToolUse", "Bash", &folder.record("input"))]);
    talk.prompt("go");
    talk.expect_prompt(&["go"]);
    talk.ask(&bash("t1", "git push"));
    talk.choose("once");
    talk.chosen();
    let input = &folder.inputs("input")[0];
    // Scripts that search the text may rely on the order.
    let text = folder.read("input");
    let order =
        ["session_id", "transcript_path", "cwd", "hook_event_name", "tool_name", "tool_input"];
    let places: Vec<_> = order.iter().map(|it| text.find(&format!("\"{it}\":"))).collect();
    assert!(places.is_sorted() && places[0] == Some(1), "{text}");
    assert_eq!(input["session_id"], "s");
    assert_eq!(input["cwd"], folder.0.to_str().unwrap());
    assert_eq!(input["hook_event_name"], "PreToolUse");
    assert_eq!(input["permission_mode"], "default");
    assert_eq!(input["tool_name"], "Bash");
    assert_eq!(input["tool_input"]["command"], "git push");
    assert_eq!(input["tool_use_id"], "t1");
    assert_eq!(input["prompt_id"].as_str().map(str::len), Some(36));
    let transcript = fs::read_to_string(input["transcript_path"].as_str().unwrap()).unwrap();
    let line: Value = serde_json::from_str(transcript.lines().next().unwrap()).unwrap();
    assert_eq!(line, json!({ "type": "user", "message": { "role": "user", "content": "go" } }));
    let mode =
        fs::metadata(input["transcript_path"].as_str().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_hook_runs_in_the_project_with_the_variables_that_scripts_know() {
    let folder = Folder::new("environment");
    let command = format!(
        "pwd > {0}; echo \"$CLAUDE_PROJECT_DIR $GEMINI_SESSION_ID $CONDUCTOR\" >> {0}",
        folder.path("out")
    );
    let mut talk = folder.session(&[("UserPromptSubmit", "", &command)]);
    talk.prompt("go");
    talk.expect_prompt(&["go"]);
    let project = folder.0.display();
    assert_eq!(folder.read("out"), format!("{project}\n{project} s 1\n"));
}

#[test]
fn a_blocked_file_or_terminal_is_answered_with_the_reason() {
    let folder = Folder::new("blocked");
    let mut talk =
        folder.session(&[("PreToolUse", "Write|Read|Bash", "echo 'not here' >&2; exit 2")]);
    for (method, params, tool) in [
        ("fs/write_text_file", json!({ "sessionId": "s", "path": "/x", "content": "y" }), "Write"),
        ("fs/read_text_file", json!({ "sessionId": "s", "path": "/x" }), "Read"),
        ("terminal/create", json!({ "sessionId": "s", "command": "ls" }), "Bash"),
    ] {
        talk.request("agent", method, &params);
        let error = talk.receive("agent")["error"].clone();
        assert_eq!(error["code"], -32000, "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with(&format!("hooks: {tool} is blocked by a hook: not here")),
            "{message}"
        );
        assert!(message.ends_with("[more: conductor errors blocked-by-hook]"), "{message}");
        let data = json!({ "component": "hooks", "code": "blocked-by-hook", "tool": tool, "reason": "not here" });
        assert_eq!(error["data"], data);
    }
}

#[test]
fn the_arguments_of_files_and_terminals_can_be_changed() {
    let folder = Folder::new("changed");
    let (write, read, run) = (
        updated(&json!({ "file_path": "/other", "content": "new" })),
        updated(&json!({ "file_path": "/other", "offset": 3, "limit": 5 })),
        updated(&json!({ "command": "ls -a", "env": { "A": "1" } })),
    );
    let mut talk = folder.session(&[
        ("PreToolUse", "Write", &write),
        ("PreToolUse", "Read", &read),
        ("PreToolUse", "Bash", &run),
    ]);
    let sh = json!(["-c", "ls -a"]);
    for (method, params, expected) in [
        (
            "fs/write_text_file",
            json!({ "path": "/x", "content": "y", "odd": 1 }),
            json!({ "path": "/other", "content": "new", "odd": 1 }),
        ),
        (
            "fs/read_text_file",
            json!({ "path": "/x" }),
            json!({ "path": "/other", "line": 3, "limit": 5 }),
        ),
        ("terminal/create", json!({ "command": "ls" }), json!({ "command": "ls -a" })),
        (
            "terminal/create",
            json!({ "command": "ls", "args": ["-l"] }),
            json!({ "command": "/bin/sh", "args": sh }),
        ),
        (
            "terminal/create",
            json!({ "command": "/bin/bash", "args": ["-lc", "ls"] }),
            json!({ "command": "/bin/bash", "args": ["-lc", "ls -a"] }),
        ),
    ] {
        let mut params = params;
        params["sessionId"] = json!("s");
        talk.request("agent", method, &params);
        let request = talk.receive("editor");
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(request["params"][name], *value, "{request}");
        }
        talk.answer("editor", &request, &json!({ "terminalId": "x", "content": "" }));
        talk.receive("agent");
    }
}

#[test]
fn a_hook_runs_once_for_a_call_that_asks_and_then_acts() {
    let folder = Folder::new("once");
    let mut talk = folder.session(&[("PreToolUse", "", &folder.record("input"))]);
    talk.ask(&bash("t1", "npm test"));
    talk.choose("once");
    talk.chosen();
    let create = |command: &str| json!({ "sessionId": "s", "command": command });
    talk.exchange("agent", "terminal/create", &create("npm test"), &json!({ "terminalId": "x" }));
    assert_eq!(folder.inputs("input").len(), 1);
    // Another command is a new call, and so is the same command once more.
    talk.exchange(
        "agent",
        "terminal/create",
        &create("npm publish"),
        &json!({ "terminalId": "y" }),
    );
    talk.exchange("agent", "terminal/create", &create("npm test"), &json!({ "terminalId": "z" }));
    let inputs = folder.inputs("input");
    assert_eq!(inputs.len(), 3, "{inputs:?}");
    assert_eq!(inputs[1]["tool_input"]["command"], "npm publish");
    assert!(inputs[1]["tool_use_id"].as_str().unwrap().starts_with("conductor-"));
    // The same call asks again.
    talk.ask(&bash("t2", "ls"));
    talk.choose("once");
    talk.chosen();
    talk.ask(&bash("t2", "ls"));
    talk.choose("once");
    talk.chosen();
    assert_eq!(folder.inputs("input").len(), 4);
    talk.ask(&bash("t2", "rm -r x"));
    talk.choose("no");
    talk.chosen();
    assert_eq!(folder.inputs("input").len(), 5);
}

#[test]
fn a_call_that_was_denied_does_not_act() {
    let folder = Folder::new("denied");
    let mut talk = folder.session(&[
        ("PreToolUse", "Bash", "echo no >&2; exit 2"),
        ("PostToolUseFailure", "Bash", "echo 'it did not run' >&2; exit 2"),
    ]);
    talk.ask(&bash("t1", "npm test"));
    assert_eq!(talk.chosen(), "no");
    talk.expect_text();
    // The agent reports it as failed. No hook is told that, because the tool has not run.
    talk.update(
        &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "failed" }),
    );
    talk.receive("editor");
    talk.request("agent", "terminal/create", &json!({ "sessionId": "s", "command": "npm test" }));
    assert_eq!(talk.receive("agent")["error"]["data"]["reason"], "no");
    talk.prompt("next");
    talk.expect_prompt(&["next"]);
}

#[test]
fn changed_arguments_of_a_permission_request_are_used_if_the_agent_uses_the_editor() {
    let folder = Folder::new("later");
    let command = updated(&json!({ "command": "npm test --silent" }));
    let options = folder.options(&[("PreToolUse", "Bash", &command)]);
    let all = json!({ "terminal": true, "fs": { "readTextFile": true, "writeTextFile": true } });
    let start = |agent: &str, abilities: &Value| {
        let conversation = Conversation::new(component(&[], options.clone()));
        Talk { conversation, id: 0 }.initialized_with(agent, 1, abilities).with_session(&folder.0)
    };
    let mut talk = start("goose", &all);
    talk.ask(&bash("t1", "npm test"));
    assert_eq!(talk.chosen(), "once");
    talk.request("agent", "terminal/create", &json!({ "sessionId": "s", "command": "npm test" }));
    assert_eq!(talk.receive("editor")["params"]["command"], "npm test --silent");
    // Other agents run the command themselves, and so does this one with an editor without terminals.
    for (agent, abilities) in [("gemini-cli", &all), ("some-agent", &all), ("goose", &json!({}))] {
        let mut talk = start(agent, abilities);
        talk.ask(&bash("t1", "npm test"));
        assert_eq!(talk.chosen(), "no", "{agent}");
        assert!(talk.expect_text().contains("takes no changed arguments"), "{agent}");
    }
}

#[test]
fn a_hook_that_asks_about_a_file_lets_the_user_decide() {
    let folder = Folder::new("ask-file");
    let asks = r#"printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask"}}'"#;
    let mut talk = folder.session(&[("PreToolUse", "Write", asks)]);
    let write = json!({ "sessionId": "s", "path": "/x", "content": "y" });
    talk.request("agent", "fs/write_text_file", &write);
    let question = talk.receive("editor");
    assert_eq!(question["method"], "session/request_permission");
    assert_eq!(question["params"]["toolCall"]["title"], "write /x");
    talk.answer(
        "editor",
        &question,
        &json!({ "outcome": { "outcome": "selected", "optionId": "reject" } }),
    );
    assert_eq!(talk.receive("agent")["error"]["data"]["reason"], "the user did not allow it");
    talk.request("agent", "fs/write_text_file", &write);
    talk.choose("allow");
    assert_eq!(talk.receive("editor")["method"], "fs/write_text_file");
}

#[test]
fn hooks_run_after_a_tool_call_inside_the_agent_once() {
    let folder = Folder::new("post");
    let record = folder.record("input");
    let mut talk = folder
        .session(&[("PostToolUse", "Edit|Write", &record), ("PostToolUseFailure", "", &record)]);
    talk.prompt("go");
    let prompt = talk.expect_prompt(&["go"]);
    let call = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t1", "kind": "edit", "title": "Edit", "status": "pending",
        "rawInput": { "path": "/x", "old_string": "a", "new_string": "b" }, "name": "Edit",
    });
    talk.update(&call);
    let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "rawOutput": { "ok": true } });
    talk.update(&done);
    talk.update(&done);
    let call = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t2", "kind": "execute", "title": "x", "status": "failed",
        "rawInput": { "command": "false" }, "content": [{ "type": "content", "content": { "type": "text", "text": "it failed" } }],
    });
    talk.update(&call);
    talk.end_turn(&prompt);
    for _ in 0..4 {
        assert_eq!(talk.receive("editor")["method"], "session/update");
    }
    talk.receive("editor");
    let mut inputs = talk.wait_for(&folder, 2);
    inputs.sort_by_key(|it| it["tool_use_id"].as_str().unwrap_or_default().to_owned());
    assert_eq!(inputs[0]["hook_event_name"], "PostToolUse");
    assert_eq!(
        inputs[0]["tool_input"],
        json!({ "file_path": "/x", "old_string": "a", "new_string": "b" })
    );
    assert_eq!(inputs[0]["tool_response"], json!({ "ok": true }));
    assert!(inputs[0]["duration_ms"].is_u64());
    assert_eq!(inputs[1]["hook_event_name"], "PostToolUseFailure");
    assert_eq!(
        (&inputs[1]["tool_name"], &inputs[1]["error"]),
        (&json!("Bash"), &json!("it failed"))
    );
}

#[test]
fn what_a_hook_says_after_a_call_waits_for_the_next_prompt() {
    let folder = Folder::new("feedback");
    let mut talk =
        folder.session(&[("PostToolUse", "Edit", "echo 'lint error in line 3' >&2; exit 2")]);
    talk.prompt("go");
    let prompt = talk.expect_prompt(&["go"]);
    talk.update(&json!({
        "sessionUpdate": "tool_call", "toolCallId": "t1", "kind": "edit", "title": "Edit", "name": "Edit",
        "status": "completed", "rawInput": { "path": "/x" },
    }));
    talk.end_turn(&prompt);
    // The next prompt waits for the hook.
    talk.receive("editor");
    talk.receive("editor");
    talk.prompt("more");
    talk.expect_prompt(&["[hook after Edit] lint error in line 3", "more"]);
}

#[test]
fn the_result_of_a_file_or_a_terminal_can_be_changed() {
    let folder = Folder::new("results");
    let hidden = after(&json!({ "updatedToolOutput": "hidden" }));
    let more = after(&json!({ "additionalContext": "see the manual" }));
    let record = folder.record("input");
    let mut talk = folder.session(&[
        ("PostToolUse", "Read", &hidden),
        ("PostToolUse", "Bash", &more),
        ("PostToolUse", "", &record),
        ("PostToolUseFailure", "", &record),
    ]);
    let read = json!({ "sessionId": "s", "path": "/x" });
    let answer =
        talk.exchange("agent", "fs/read_text_file", &read, &json!({ "content": "secret" }));
    assert_eq!(answer["result"]["content"], "hidden");
    let create = json!({ "sessionId": "s", "command": "ls" });
    let terminal = json!({ "sessionId": "s", "terminalId": "x" });
    talk.exchange("agent", "terminal/create", &create, &json!({ "terminalId": "x" }));
    let running = json!({ "output": "a", "truncated": false });
    let answer = talk.exchange("agent", "terminal/output", &terminal, &running);
    assert_eq!(answer["result"]["output"], "a");
    talk.exchange("agent", "terminal/wait_for_exit", &terminal, &json!({ "exitCode": 0 }));
    let over = json!({ "output": "a\nb", "truncated": false, "exitStatus": { "exitCode": 0 } });
    for _ in 0..2 {
        let answer = talk.exchange("agent", "terminal/output", &terminal, &over);
        assert_eq!(answer["result"]["output"], "a\nb\n[hook after Bash] see the manual");
    }
    talk.exchange("agent", "terminal/release", &terminal, &json!({}));
    let inputs = folder.inputs("input");
    assert_eq!(inputs.len(), 2, "{inputs:?}");
    assert_eq!(inputs[1]["tool_response"]["stdout"], "a\nb");
    // A terminal that is released without a look at its output.
    talk.exchange("agent", "terminal/create", &create, &json!({ "terminalId": "y" }));
    let terminal = json!({ "sessionId": "s", "terminalId": "y" });
    talk.exchange("agent", "terminal/wait_for_exit", &terminal, &json!({ "exitCode": 1 }));
    talk.exchange("agent", "terminal/release", &terminal, &json!({}));
    let inputs = folder.inputs("input");
    assert_eq!((inputs.len(), &inputs[2]["hook_event_name"]), (3, &json!("PostToolUseFailure")));
}

#[test]
fn hooks_after_a_write_run_before_the_agent_goes_on_and_only_once() {
    let folder = Folder::new("format");
    let file = folder.path("a.txt");
    let record = folder.record("input");
    let format = format!("tr a-z A-Z < {file} > {file}.new && mv {file}.new {file}");
    let mut talk =
        folder.session(&[("PostToolUse", "Write", &format), ("PostToolUse", "Write", &record)]);
    talk.update(&json!({
        "sessionUpdate": "tool_call", "toolCallId": "t1", "kind": "edit", "title": "Write", "name": "write_file",
        "status": "in_progress", "rawInput": { "path": file, "content": "text" },
    }));
    talk.receive("editor");
    let write = json!({ "sessionId": "s", "path": file, "content": "text" });
    talk.request("agent", "fs/write_text_file", &write);
    let request = talk.receive("editor");
    folder.write("a.txt", "text");
    talk.answer("editor", &request, &json!({}));
    talk.receive("agent");
    assert_eq!(folder.read("a.txt"), "TEXT");
    talk.update(
        &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed" }),
    );
    talk.prompt("next");
    talk.receive("editor");
    talk.expect_prompt(&["next"]);
    let inputs = folder.inputs("input");
    assert_eq!(inputs.len(), 1, "{inputs:?}");
    assert_eq!(inputs[0]["tool_use_id"], "t1");
    assert_eq!(inputs[0]["tool_response"], json!({ "filePath": file, "success": true }));
}

/// The agent announces an edit, and then writes the whole file through the editor.
#[test]
fn hooks_for_edits_run_once_for_an_edit_that_is_written_through_the_editor() {
    for matcher in ["Edit", "Edit|Write", "Write", "Edit|MultiEdit"] {
        let folder = Folder::new(&format!("edit-{}", matcher.replace('|', "-")));
        let (before, after) = (folder.record("before"), folder.record("after"));
        let mut talk =
            folder.session(&[("PreToolUse", matcher, &before), ("PostToolUse", matcher, &after)]);
        let file = folder.path("a.txt");
        talk.update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": "t1", "kind": "edit", "title": "Edit", "name": "Edit",
            "status": "in_progress", "rawInput": { "file_path": file, "old_string": "a", "new_string": "b" },
        }));
        talk.receive("editor");
        let write = json!({ "sessionId": "s", "path": file, "content": "b" });
        talk.exchange("agent", "fs/write_text_file", &write, &json!({}));
        talk.update(
            &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed" }),
        );
        talk.receive("editor");
        talk.prompt("next");
        talk.expect_prompt(&["next"]);
        for name in ["before", "after"] {
            let inputs = folder.inputs(name);
            assert_eq!(inputs.len(), 1, "{matcher} {name}: {inputs:?}");
            assert_eq!(inputs[0]["tool_use_id"], "t1");
            assert_eq!(inputs[0]["tool_input"]["file_path"], json!(file));
        }
    }
}

#[test]
fn a_hook_for_edits_does_not_run_for_a_file_that_is_only_written() {
    let folder = Folder::new("only-written");
    let record = folder.record("input");
    let mut talk =
        folder.session(&[("PreToolUse", "Edit", &record), ("PostToolUse", "Edit", &record)]);
    let write = json!({ "sessionId": "s", "path": folder.path("a.txt"), "content": "b" });
    talk.exchange("agent", "fs/write_text_file", &write, &json!({}));
    talk.prompt("next");
    talk.expect_prompt(&["next"]);
    assert_eq!(folder.inputs("input").len(), 0);
}

#[test]
fn an_mcp_call_that_passes_the_chain_can_be_blocked_and_changed() {
    let folder = Folder::new("mcp");
    let change = updated(&json!({ "text": "changed" }));
    let result = after(&json!({ "updatedMCPToolOutput": "other" }));
    let mut talk = folder.talk(folder.options(&[
        ("PreToolUse", "mcp__kit__delete", "echo no >&2; exit 2"),
        ("PreToolUse", "mcp__kit__ec.*", &change),
        ("PostToolUse", "mcp__.*", &result),
        ("PreToolUse", "mcp__kit", "echo wrong >&2; exit 2"),
    ]));
    let server = json!([{ "type": "acp", "name": "kit", "serverId": "k1" }]);
    let new = json!({ "cwd": folder.0, "mcpServers": server });
    talk.exchange("editor", "session/new", &new, &json!({ "sessionId": "s" }));
    let call = |tool: &str| {
        json!({ "serverId": "k1", "requestId": "1", "method": "tools/call",
            "params": { "name": tool, "arguments": { "text": "hi" } } })
    };
    talk.request("agent", "mcp/message", &call("delete"));
    let answer = talk.receive("agent");
    assert!(answer.to_string().contains("mcp__kit__delete is blocked by a hook: no"), "{answer}");
    talk.request("agent", "mcp/message", &call("echo"));
    let request = talk.receive("editor");
    assert_eq!(request["params"]["params"]["arguments"], json!({ "text": "changed" }));
    let content = json!({ "content": [{ "type": "text", "text": "changed" }] });
    talk.answer("editor", &request, &json!({ "result": content }));
    let answer = talk.receive("agent");
    assert_eq!(answer["result"]["result"]["content"], json!([{ "type": "text", "text": "other" }]));
}

#[test]
fn a_call_that_a_permission_hook_has_denied_does_not_act() {
    let folder = Folder::new("denied-permission");
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PermissionRequest", "decision": { "behavior": "deny", "message": "never" },
    }});
    let mut talk =
        folder.session(&[("PermissionRequest", "Bash", &format!("printf '%s' '{output}'"))]);
    talk.ask(&bash("t1", "git push"));
    assert!(talk.expect_text().contains("never"));
    assert_eq!(talk.chosen(), "no");
    talk.request("agent", "terminal/create", &json!({ "sessionId": "s", "command": "git push" }));
    let answer = talk.receive("agent");
    assert_eq!(answer["error"]["data"]["reason"], "never", "{answer}");
}

#[test]
fn a_call_that_the_user_has_rejected_runs_the_hooks_again_if_it_acts() {
    let folder = Folder::new("rejected");
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "ask",
    }});
    let mut talk = folder.session(&[("PreToolUse", "Bash", &format!("printf '%s' '{output}'"))]);
    talk.ask(&bash("t1", "git push"));
    talk.choose("no");
    assert_eq!(talk.chosen(), "no");
    talk.request("agent", "terminal/create", &json!({ "sessionId": "s", "command": "git push" }));
    talk.choose("reject");
    let answer = talk.receive("agent");
    assert_eq!(answer["error"]["data"]["reason"], "the user did not allow it", "{answer}");
}

#[test]
fn a_hook_sees_a_terminal_in_another_directory_than_the_permission_request() {
    let folder = Folder::new("directory");
    let mut talk = folder.session(&[("PreToolUse", "Bash", &folder.record("input"))]);
    talk.ask(&bash("t1", "rm -r *"));
    talk.choose("once");
    talk.chosen();
    for directory in [folder.0.to_str().unwrap(), "/"] {
        let params = json!({ "sessionId": "s", "command": "rm -r *", "cwd": directory });
        talk.exchange("agent", "terminal/create", &params, &json!({ "terminalId": directory }));
    }
    let inputs = folder.inputs("input");
    assert_eq!(inputs.len(), 2, "{inputs:?}");
    assert_eq!(inputs[0]["tool_input"]["cwd"], Value::Null);
    assert_eq!(inputs[1]["tool_input"]["cwd"], "/");
    // The request itself may be for another directory, whatever the agent calls it.
    let mut call = bash("t2", "rm -r *");
    call["rawInput"]["workdir"] = json!("/");
    talk.ask(&call);
    talk.choose("no");
    talk.chosen();
    assert_eq!(folder.inputs("input")[2]["tool_input"]["cwd"], "/");
}
