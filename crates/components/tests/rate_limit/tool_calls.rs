//! Tool calls: permission requests, files, terminals and MCP calls.

use serde_json::{Value, json};

use super::Chain;

fn permission(session: &str) -> Value {
    let options = json!([{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }]);
    json!({ "sessionId": session, "toolCall": { "toolCallId": "c" }, "options": options })
}

#[test]
fn every_kind_of_tool_call_counts() {
    let calls = [
        ("session/request_permission", permission("s")),
        ("fs/read_text_file", json!({ "sessionId": "s", "path": "/a" })),
        ("fs/write_text_file", json!({ "sessionId": "s", "path": "/a", "content": "" })),
        ("terminal/create", json!({ "sessionId": "s", "command": "ls" })),
    ];
    let mut chain = Chain::new("--tool-calls-per-minute 4 --when-reached refuse");
    for (method, params) in &calls {
        let id = chain.request("agent", method, params.clone());
        let request = chain.passes("editor", method);
        chain.answer("editor", &request, json!({ "content": "" }));
        chain.answered("agent", id);
    }
    for (method, params) in &calls {
        let id = chain.request("agent", method, params.clone());
        let data = chain.refused("agent", id);
        assert_eq!(
            (&data["limit"], &data["retryAfterSeconds"]),
            (&json!("tool_calls_per_minute"), &json!(15))
        );
    }
    // What belongs to a tool call that has passed is not limited.
    for method in ["terminal/output", "terminal/release", "terminal/kill", "terminal/wait_for_exit"]
    {
        let id = chain.request("agent", method, json!({ "sessionId": "s", "terminalId": "t" }));
        let request = chain.passes("editor", method);
        chain.answer("editor", &request, json!({}));
        chain.answered("agent", id);
    }
    // Prompts have limits of their own.
    chain.turn("s");
}

#[test]
fn mcp_calls_count_and_other_mcp_requests_do_not() {
    let mut chain = Chain::new("--session-tool-calls-per-minute 1 --when-reached refuse");
    let server = json!({ "type": "acp", "name": "files", "serverId": "U" });
    let id = chain.request("editor", "session/new", json!({ "cwd": "/", "mcpServers": [server] }));
    let request = chain.passes("agent", "session/new");
    chain.answer("agent", &request, json!({ "sessionId": "m" }));
    chain.answered("editor", id);
    let message = |method: &str| json!({ "serverId": "U", "requestId": "r", "method": method, "params": { "name": "echo" } });
    for method in ["tools/list", "tools/call", "tools/list"] {
        let id = chain.request("agent", "mcp/message", message(method));
        let request = chain.passes("editor", "mcp/message");
        chain.answer("editor", &request, json!({ "result": {} }));
        chain.answered("agent", id);
    }
    let id = chain.request("agent", "mcp/message", message("tools/call"));
    let answer = chain.answered("agent", id);
    let error = &answer["result"]["error"];
    assert_eq!(
        (&error["code"], &error["data"]["retryAfterSeconds"]),
        (&json!(-32000), &json!(60)),
        "{answer}"
    );
}

#[test]
fn a_terminal_runs_until_its_command_ends() {
    let mut chain = Chain::new("--tool-calls-at-once 1 --when-reached refuse");
    let params = json!({ "sessionId": "s", "command": "sleep" });
    let create = |chain: &mut Chain, terminal: &str| {
        let id = chain.request("agent", "terminal/create", params.clone());
        let request = chain.passes("editor", "terminal/create");
        chain.answer("editor", &request, json!({ "terminalId": terminal }));
        chain.answered("agent", id);
    };
    let ends: [(&str, Value, bool); 6] = [
        ("terminal/output", json!({ "output": "", "truncated": false, "exitStatus": null }), false),
        ("terminal/output", json!({ "output": "", "truncated": false }), false),
        (
            "terminal/output",
            json!({ "output": "", "truncated": false, "exitStatus": { "exitCode": 0 } }),
            true,
        ),
        ("terminal/wait_for_exit", json!({ "exitCode": 0 }), true),
        ("terminal/kill", json!({}), true),
        ("terminal/release", json!({}), true),
    ];
    let mut is_running = false;
    for (number, (method, result, has_ended)) in ends.into_iter().enumerate() {
        if !is_running {
            create(&mut chain, &format!("t{number}"));
        }
        let id =
            chain.request("agent", "terminal/create", json!({ "sessionId": "t", "command": "ls" }));
        assert_eq!(chain.refused("agent", id)["limit"], "tool_calls_at_once");
        let terminal = if is_running { "t0".to_owned() } else { format!("t{number}") };
        // An end that is reported twice counts once.
        for _ in 0..2 {
            let id =
                chain.request("agent", method, json!({ "sessionId": "s", "terminalId": terminal }));
            let request = chain.passes("editor", method);
            chain.answer("editor", &request, result.clone());
            chain.answered("agent", id);
        }
        is_running = !has_ended;
    }
    // A session takes its terminals with it.
    create(&mut chain, "last");
    let id = chain.request("editor", "session/close", json!({ "sessionId": "s" }));
    let request = chain.passes("agent", "session/close");
    chain.answer("agent", &request, json!({}));
    chain.answered("editor", id);
    create(&mut chain, "new");
}

/// A crashed agent neither kills nor releases its terminals.
#[test]
fn the_terminals_of_a_session_end_when_the_agent_crashes() {
    for options in ["--tool-calls-at-once 2", "--tool-calls-at-once 2 --prompts-at-once 2"] {
        let mut chain = Chain::new(&format!("{options} --when-reached refuse"));
        let create = |chain: &mut Chain, session: &str, terminal: &str| {
            let params = json!({ "sessionId": session, "command": "sleep" });
            let id = chain.request("agent", "terminal/create", params);
            let request = chain.passes("editor", "terminal/create");
            chain.answer("editor", &request, json!({ "terminalId": terminal }));
            chain.answered("agent", id);
        };
        create(&mut chain, "t", "other");
        for (code, has_ended) in [("login-required", false), ("crashed", true)] {
            let id = chain.prompt("s");
            let request = chain.passes("agent", "session/prompt");
            if !has_ended {
                create(&mut chain, "s", "own");
            }
            let error = json!({ "code": -32603, "message": "failed", "data": { "code": code } });
            let answer = json!({ "id": request["id"], "error": error });
            chain.talk.send("agent", &answer.to_string());
            assert_eq!(chain.answered("editor", id)["error"]["data"]["code"], code);
            let read = json!({ "sessionId": "s", "path": "/a" });
            let id = chain.request("agent", "fs/read_text_file", read);
            if has_ended {
                chain.passes("editor", "fs/read_text_file");
                // The terminal of the other session still runs.
                let read = json!({ "sessionId": "t", "path": "/a" });
                let id = chain.request("agent", "fs/read_text_file", read);
                chain.refused("agent", id);
            } else {
                chain.refused("agent", id);
            }
        }
    }
}

/// Some agents never answer the prompt of a session that is closed.
#[test]
fn a_closed_session_takes_its_requests_with_it() {
    let mut chain = Chain::new("--prompts-at-once 1 --tool-calls-at-once 1 --when-reached refuse");
    let prompt = chain.prompt("s");
    let unanswered = chain.passes("agent", "session/prompt");
    chain.request("agent", "fs/read_text_file", json!({ "sessionId": "s", "path": "/a" }));
    chain.passes("editor", "fs/read_text_file");
    let id = chain.prompt("t");
    chain.refused("editor", id);
    let id = chain.request("editor", "session/close", json!({ "sessionId": "s" }));
    let request = chain.passes("agent", "session/close");
    chain.answer("agent", &request, json!({}));
    chain.answered("editor", id);
    let running = chain.prompt("t");
    let request = chain.passes("agent", "session/prompt");
    chain.request("agent", "fs/read_text_file", json!({ "sessionId": "t", "path": "/a" }));
    chain.passes("editor", "fs/read_text_file");
    // A late answer does not end another request.
    chain.answer("agent", &unanswered, json!({ "stopReason": "cancelled" }));
    chain.answered("editor", prompt);
    let id = chain.prompt("t");
    chain.refused("editor", id);
    chain.answer("agent", &request, json!({ "stopReason": "end_turn" }));
    chain.answered("editor", running);
}

/// A prompt that waits must not take the place of a tool call that has to wait.
#[test]
fn prompts_and_tool_calls_have_queues_of_their_own() {
    let mut chain = Chain::new("--prompts-at-once 1 --tool-calls-at-once 1 --max-waiting 1");
    chain.prompt("s");
    chain.passes("agent", "session/prompt");
    chain.prompt("s");
    chain.told();
    let read = json!({ "sessionId": "s", "path": "/a" });
    let first = chain.request("agent", "fs/read_text_file", read.clone());
    let file = chain.passes("editor", "fs/read_text_file");
    let second = chain.request("agent", "fs/read_text_file", read.clone());
    chain.nothing_else("editor");
    let third = chain.request("agent", "fs/read_text_file", read);
    chain.refused("agent", third);
    chain.answer("editor", &file, json!({ "content": "" }));
    chain.answered("agent", first);
    let file = chain.passes("editor", "fs/read_text_file");
    chain.answer("editor", &file, json!({ "content": "" }));
    chain.answered("agent", second);
}

#[test]
fn a_waiting_permission_request_is_cancelled_with_its_session() {
    let mut chain = Chain::new("--tool-calls-at-once 1");
    chain.request("agent", "session/request_permission", permission("t"));
    chain.passes("editor", "session/request_permission");
    let asked = chain.request("agent", "session/request_permission", permission("s"));
    let read =
        chain.request("agent", "fs/read_text_file", json!({ "sessionId": "s", "path": "/a" }));
    chain.nothing_else("editor");
    chain.notify("editor", "session/cancel", json!({ "sessionId": "s" }));
    chain.passes("agent", "session/cancel");
    let answer = chain.answered("agent", asked);
    assert_eq!(answer["result"]["outcome"]["outcome"], "cancelled", "{answer}");
    assert_eq!(chain.answered("agent", read)["error"]["code"], -32800);
}

/// A prompt that waits must not hold the tool calls of the prompt that runs.
#[test]
fn prompts_and_tool_calls_wait_apart() {
    let mut chain = Chain::new("--prompts-at-once 1 --tool-calls-per-minute 1");
    let running = chain.prompt("s");
    let request = chain.passes("agent", "session/prompt");
    let waiting = chain.prompt("s");
    chain.told();
    let read =
        chain.request("agent", "fs/read_text_file", json!({ "sessionId": "s", "path": "/a" }));
    let file = chain.passes("editor", "fs/read_text_file");
    chain.answer("editor", &file, json!({ "content": "" }));
    chain.answered("agent", read);
    chain.answer("agent", &request, json!({ "stopReason": "end_turn" }));
    chain.answered("editor", running);
    chain.ends(waiting);
}

/// Half a surrogate pair is legal JSON, and JavaScript programs send it when they split a text.
#[test]
fn odd_updates_pass_unchanged() {
    let mut chain = Chain::new("--tool-calls-per-minute 1");
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}}}"#;
    chain.talk.send_text("agent", update);
    let received = chain.talk.receive("editor").to_string();
    assert!(received.contains("ud83d"), "{received}");
}
