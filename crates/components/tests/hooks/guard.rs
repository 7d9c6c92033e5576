//! A guard does not open: what hooks have not seen does not pass.

use serde_json::json;

use super::*;

fn write(path: &str, content: &str) -> Value {
    json!({ "sessionId": "s", "path": path, "content": content })
}

fn terminal(command: &str) -> Value {
    json!({ "sessionId": "s", "command": command })
}

#[test]
fn hooks_see_each_command_and_file_of_a_permission_request() {
    let folder = Folder::new("parts");
    let (file, secret) = (folder.path("a"), folder.path(".env"));
    let diff = |path: &str, text: &str| json!({ "type": "diff", "path": path, "oldText": "a", "newText": text });
    let read = json!({
        "toolCallId": "c2", "kind": "read", "title": "x", "rawInput": { "file_path": file },
        "locations": [{ "path": file }, { "path": secret }],
    });
    let edit = json!({
        "toolCallId": "c3", "kind": "edit", "title": "x", "content": [diff(&file, "b"), diff(&secret, "c")],
    });
    let mut talk = folder.session(&[("PreToolUse", "", &folder.guard(".env"))]);
    for call in [read, edit] {
        talk.ask(&call);
        assert_eq!(talk.chosen(), "no", "{call}");
        talk.expect_text();
    }
    talk.expect_blocked("fs/read_text_file", &json!({ "sessionId": "s", "path": secret }));
    talk.expect_blocked("fs/write_text_file", &write(&secret, "c"));
    let inputs = folder.inputs("input");
    let paths: Vec<_> = inputs.iter().map(|it| it["tool_input"]["file_path"].clone()).collect();
    assert_eq!(paths[..4], [&file, &secret, &file, &secret].map(|it| json!(it)));
    assert_eq!(inputs[3]["tool_input"]["new_string"], "c");
    // If all of them are allowed, the request is.
    let diffs = json!([diff(&file, "b"), diff(&folder.path("b"), "c")]);
    talk.ask(&json!({ "toolCallId": "c4", "kind": "edit", "title": "x", "content": diffs }));
    assert_eq!(talk.chosen(), "once");
}

#[test]
fn hooks_see_the_command_that_the_agent_has_reported_before() {
    let folder = Folder::new("reported");
    let mut talk = folder.session(&[("PreToolUse", "", &folder.guard("evil"))]);
    for (number, reported) in [json!("evil"), json!(["bash", "-c", "evil"])].iter().enumerate() {
        let id = format!("c{number}");
        talk.update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "kind": "execute", "title": "x",
            "rawInput": { "command": reported },
        }));
        talk.receive("editor");
        talk.ask(&bash(&id, "ls"));
        assert_eq!(talk.chosen(), "no", "{reported}");
        talk.expect_text();
        talk.expect_blocked("terminal/create", &terminal("evil"));
    }
    // A program with arguments is one command.
    talk.ask(&json!({
        "toolCallId": "c9", "kind": "execute", "title": "x", "rawInput": { "command": "rm", "args": ["evil"] },
    }));
    assert_eq!(talk.chosen(), "no");
    assert_eq!(folder.inputs("input").last().unwrap()["tool_input"]["command"], "rm evil");
}

#[test]
fn a_program_that_is_called_like_a_shell_is_not_taken_for_one() {
    let folder = Folder::new("shell");
    let mut talk = folder.session(&[("PreToolUse", "", &folder.record("input"))]);
    let create = json!({ "sessionId": "s", "command": "./evil/bash", "args": ["-c", "ls"] });
    talk.exchange("agent", "terminal/create", &create, &json!({ "terminalId": "x" }));
    assert_eq!(folder.inputs("input")[0]["tool_input"]["command"], "./evil/bash -c ls");
}

#[test]
fn no_session_id_keeps_hooks_from_running() {
    let folder = Folder::new("ids");
    let mut talk = folder.talk(folder.options(&[("PreToolUse", "", "echo no >&2; exit 2")]));
    for id in ["s\0x".to_owned(), "s".repeat(200_000)] {
        let new = json!({ "cwd": folder.0, "mcpServers": [] });
        talk.exchange("editor", "session/new", &new, &json!({ "sessionId": id }));
        let read = json!({ "sessionId": id, "path": "/x" });
        assert_eq!(talk.expect_blocked("fs/read_text_file", &read), "no");
    }
}

#[test]
fn hooks_that_cannot_start_in_time_block() {
    let folder = Folder::new("crowded");
    let commands: Vec<String> = (0..17).map(|number| format!("sleep {}", 600 + number)).collect();
    let hooks: Vec<_> = commands.iter().map(|it| ("UserPromptSubmit", "", it.as_str())).collect();
    let mut options = folder.options(&hooks);
    options["longest"] = json!("1s");
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.prompt("go");
    let text = talk.expect_text();
    assert!(text.contains("too many other hooks ran"), "{text}");
    assert_eq!(talk.receive("editor")["result"]["stopReason"], "refusal");
}

#[test]
fn an_mcp_call_of_a_server_that_is_not_known_is_blocked() {
    let folder = Folder::new("unknown-server");
    // A component that was restarted has not seen which server has this id.
    let call = json!({ "serverId": "k1", "requestId": "1", "method": "tools/call",
        "params": { "name": "delete", "arguments": {} } });
    for matcher in ["mcp__kit__.*", "mcp__kit__delete", ""] {
        let mut talk = folder.session(&[("PreToolUse", matcher, "exit 2")]);
        talk.request("agent", "mcp/message", &call);
        let answer = talk.receive("agent").to_string();
        assert!(answer.contains("start a new session"), "{matcher}: {answer}");
    }
    let mut talk = folder.session(&[("PreToolUse", "Bash|Write", "exit 2")]);
    talk.request("agent", "mcp/message", &call);
    assert_eq!(talk.receive("editor")["method"], "mcp/message");
}

#[test]
fn a_call_that_is_not_described_is_denied_after_a_restart_and_never_allowed() {
    let folder = Folder::new("opaque");
    let mut talk = folder.session(&[
        ("PreToolUse", "Bash", "exit 2"),
        ("PreToolUse", "unknown", &decision("allow")),
    ]);
    // The component has seen no prompt: it may have been restarted in a turn.
    talk.ask(&json!({ "toolCallId": "c1" }));
    assert!(talk.expect_text().contains("was restarted"));
    assert_eq!(talk.chosen(), "no");
    talk.prompt("go");
    talk.expect_prompt(&["go"]);
    talk.ask(&json!({ "toolCallId": "c1" }));
    talk.choose("no");
    assert_eq!(talk.chosen(), "no");
}

#[test]
fn a_call_that_changes_after_it_was_allowed_is_a_new_one() {
    let folder = Folder::new("changing");
    let mut talk = folder.session(&[("PreToolUse", "", &folder.guard("evil"))]);
    let fetch = |url: &str| {
        let input = json!({ "url": url, "prompt": "x" });
        json!({ "toolCallId": "c1", "name": "WebFetch", "kind": "fetch", "title": "x", "rawInput": input })
    };
    let edit = |text: &str| {
        let input = json!({ "file_path": folder.path("a"), "old_string": "x", "new_string": text });
        json!({ "toolCallId": "c2", "name": "Edit", "kind": "edit", "title": "x", "rawInput": input })
    };
    for (call, chosen) in [
        (fetch("http://good"), "once"),
        (fetch("http://evil"), "no"),
        (edit("good"), "once"),
        (edit("evil"), "no"),
    ] {
        talk.ask(&call);
        assert_eq!(talk.chosen(), chosen, "{call}");
    }
}

#[test]
fn a_request_that_the_user_has_not_answered_decides_nothing() {
    let folder = Folder::new("pending");
    let (file, ask) = (folder.path(".env"), decision("ask"));
    let mut talk = folder
        .session(&[("PreToolUse", "Read", "echo no >&2; exit 2"), ("PreToolUse", "Bash", &ask)]);
    let input = json!({ "file_path": file, "old_string": "x", "new_string": "y" });
    talk.ask(&json!({ "toolCallId": "c1", "name": "Edit", "kind": "edit", "title": "x", "rawInput": input }));
    assert_eq!(talk.receive("editor")["method"], "session/request_permission");
    talk.expect_blocked("fs/read_text_file", &json!({ "sessionId": "s", "path": file }));
    talk.ask(&bash("c2", "ls"));
    assert_eq!(talk.receive("editor")["method"], "session/request_permission");
    talk.request("agent", "terminal/create", &terminal("ls"));
    let question = talk.receive("editor");
    assert_eq!(question["params"]["toolCall"]["title"], "run `ls`", "{question}");
}

#[test]
fn a_decision_about_one_tool_is_not_used_for_another() {
    let folder = Folder::new("other-tool");
    let file = folder.path("a");
    let delete = json!({ "toolCallId": "c1", "kind": "delete", "title": "x", "locations": [{ "path": file }] });
    let input = json!({ "file_path": file, "old_string": "x", "new_string": "y" });
    let edit = json!({ "toolCallId": "c2", "name": "Edit", "kind": "edit", "title": "x", "rawInput": input });
    for call in [delete, edit] {
        let mut talk = folder.session(&[("PreToolUse", "Write", "echo no >&2; exit 2")]);
        talk.ask(&call);
        talk.choose("once");
        talk.chosen();
        assert_eq!(talk.expect_blocked("fs/write_text_file", &write(&file, "evil")), "no");
    }
}

#[test]
fn a_path_through_a_link_is_another_path() {
    let folder = Folder::new("link");
    std::os::unix::fs::symlink("/etc", folder.path("link")).unwrap();
    let mut talk = folder.session(&[("PreToolUse", "", &folder.record("input"))]);
    let input = json!({ "file_path": folder.path("passwd"), "content": "x" });
    talk.ask(&json!({ "toolCallId": "c1", "name": "Write", "kind": "edit", "title": "x", "rawInput": input }));
    talk.choose("once");
    talk.chosen();
    let path = folder.path("link/../passwd");
    talk.exchange("agent", "fs/write_text_file", &write(&path, "x"), &json!({}));
    let inputs = folder.inputs("input");
    assert_eq!(inputs.len(), 2, "{inputs:?}");
    assert_eq!(inputs[1]["tool_input"]["file_path"], path);
}

#[test]
fn a_change_that_cannot_be_made_blocks() {
    let folder = Folder::new("unsupported");
    for input in [json!({ "command": ["safe"] }), json!({ "cmd": "safe" })] {
        let output = json!({ "hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": input,
        }});
        let mut talk = folder.session(&[("PreToolUse", "", &format!("printf '%s' '{output}'"))]);
        let reason = talk.expect_blocked("terminal/create", &terminal("rm -rf x"));
        assert!(reason.starts_with("a hook gives Bash"), "{reason}");
    }
}

#[test]
fn the_user_is_asked_about_the_changed_command() {
    let folder = Folder::new("ask-changed");
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "ask", "updatedInput": { "command": "ls -a" },
    }});
    let mut talk = folder.session(&[("PreToolUse", "", &format!("printf '%s' '{output}'"))]);
    talk.request("agent", "terminal/create", &terminal("ls"));
    let question = talk.receive("editor");
    let call = &question["params"]["toolCall"];
    assert_eq!(
        (&call["title"], &call["rawInput"]["command"]),
        (&json!("run `ls -a`"), &json!("ls -a"))
    );
    talk.answer(
        "editor",
        &question,
        &json!({ "outcome": { "outcome": "selected", "optionId": "allow" } }),
    );
    assert_eq!(talk.receive("editor")["params"]["command"], "ls -a");
}

#[test]
fn an_audit_log_that_cannot_be_written_is_named_in_the_error() {
    let folder = Folder::new("audit-failed");
    let mut options = folder.options(&[("PreToolUse", "", "exit 0")]);
    options["audit"] = json!(folder.path("audit.jsonl"));
    let parsed = components::find("hooks").unwrap().parse(&[], options.as_object().unwrap());
    let build = parsed.unwrap_or_else(|why| panic!("{why}"));
    let _ = fs::remove_file(folder.path("audit.jsonl"));
    fs::create_dir(folder.path("audit.jsonl")).unwrap();
    let talk = Talk { conversation: Conversation::new(build()), id: 0 };
    let mut talk = talk.initialized("some-agent", 1).with_session(&folder.0);
    talk.request("agent", "fs/write_text_file", &write("/x", "y"));
    let answer = talk.receive("agent");
    assert_eq!(answer["error"]["data"]["code"], "audit-failed", "{answer}");
}
