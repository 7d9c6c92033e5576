//! Where secrets are found, in both directions, and where nothing is touched.

use serde_json::{Value, json};

use super::{GITHUB, NPM, Talk};

#[test]
fn prompts_resources_and_links_are_redacted_toward_the_agent() {
    let mut talk = Talk::new();
    talk.send(
        "editor",
        &json!({ "id": 1, "method": "session/prompt", "params": { "sessionId": "s", "prompt": [
            { "type": "text", "text": format!("use {GITHUB} now") },
            { "type": "resource", "resource": { "uri": "file:///a", "text": format!("T={NPM}\n") } },
            { "type": "resource_link", "name": "x", "uri": format!("https://h/?t={GITHUB}") },
            { "type": "image", "mimeType": "image/png", "data": "aGVsbG8=" },
        ], "_meta": { "note": GITHUB } } }),
    );
    let prompt = talk.one("agent");
    assert_eq!(
        prompt["params"],
        json!({ "sessionId": "s", "prompt": [
            { "type": "text", "text": "use [redacted:github] now" },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "T=[redacted:npm]\n" } },
            { "type": "resource_link", "name": "x", "uri": "https://h/?t=[redacted:github]" },
            { "type": "image", "mimeType": "image/png", "data": "aGVsbG8=" },
        ], "_meta": { "note": "[redacted:github]" } })
    );
}

#[test]
fn files_terminals_tools_and_errors_are_redacted_toward_the_agent() {
    let mut talk = Talk::new();
    let session = json!({ "sessionId": "s" });
    let content = json!({ "result": { "content": format!("a\n{GITHUB}\n") } });
    let answer = talk.ask("fs/read_text_file", session.clone(), &content);
    assert_eq!(answer["result"]["content"], "a\n[redacted:github]\n");

    let result = json!({ "result": { "content": [{ "type": "text", "text": NPM }],
        "structuredContent": { "type": NPM } } });
    let call = json!({ "connectionId": "c", "method": "tools/call", "params": { "name": "x" } });
    let answer = talk.ask("mcp/message", call, &result);
    assert_eq!(answer["result"]["content"][0]["text"], "[redacted:npm]");
    assert_eq!(answer["result"]["structuredContent"]["type"], "[redacted:npm]");

    let error =
        json!({ "error": { "code": -1, "message": format!("bad {NPM}"), "data": [GITHUB] } });
    let answer = talk.ask("fs/read_text_file", session, &error);
    assert_eq!(
        answer["error"],
        json!({ "code": -1, "message": "bad [redacted:npm]", "data": ["[redacted:github]"] })
    );
}

/// The agent polls a terminal while its program prints a token.
#[test]
fn a_token_that_a_terminal_has_printed_in_part_is_not_shown() {
    let mut talk = Talk::new();
    for end in 0..=GITHUB.len() {
        for is_over in [false, true] {
            let exit = if is_over { json!({ "exitCode": 0 }) } else { Value::Null };
            let output = json!({ "output": format!("$ x\n{}", &GITHUB[..end]), "truncated": false, "exitStatus": exit });
            let params = json!({ "sessionId": "s", "terminalId": "t" });
            let answer = talk.ask("terminal/output", params, &json!({ "result": output }));
            let shown = answer["result"]["output"].as_str().unwrap();
            let public = "$ x\n".len() + "ghp_".len() + 4;
            let is_hidden = shown == "$ x\n[redacted:github]" || shown.len() <= public;
            // What is too short for a token is none when nothing follows.
            assert!(is_hidden || is_over && end < 34, "{end}: {shown}");
        }
    }
}

#[test]
fn the_secrets_of_mcp_servers_are_never_touched() {
    let mut talk = Talk::new();
    for method in ["session/new", "session/load", "session/resume", "session/fork"] {
        let params = json!({ "cwd": "/p", "sessionId": "s", "mcpServers": [
            { "name": "a", "command": "x", "args": [GITHUB], "env": [{ "name": "T", "value": GITHUB }] },
            { "type": "http", "name": "b", "url": "https://h", "headers": [{ "name": "A", "value": GITHUB }] },
        ] });
        talk.send("editor", &json!({ "id": method, "method": method, "params": params }));
        assert_eq!(talk.one("agent")["params"], params);
    }
    for (method, params) in [
        ("authenticate", json!({ "methodId": "key", "_meta": { "api-key": GITHUB } })),
        ("auth/login", json!({ "methodId": "key", "_meta": { "api-key": GITHUB } })),
        ("providers/set", json!({ "providerId": "a", "headers": { "x-api-key": GITHUB } })),
        (
            "session/new",
            json!({ "_meta": { "claudeCode": { "options": { "env": { "KEY": GITHUB } } } } }),
        ),
    ] {
        talk.send("editor", &json!({ "id": 9, "method": method, "params": params }));
        let request = talk.one("agent");
        assert_eq!(request["params"], params);
        if method != "session/new" {
            continue;
        }
        // If the agent sends them back, they are redacted.
        talk.send("agent", &json!({ "id": request["id"], "result": { "mcpServers": [GITHUB] } }));
        assert_eq!(talk.one("editor")["result"]["mcpServers"][0], "[redacted:github]");
    }
}

#[test]
fn every_text_of_a_tool_call_is_redacted_toward_the_editor() {
    let mut talk = Talk::new();
    let call = |secret: &str, name: &str| {
        json!({
            "sessionUpdate": "tool_call", "toolCallId": "c1", "title": format!("run {secret}"), "kind": "execute",
            "status": "completed", "locations": [{ "path": format!("/p/{secret}"), "line": 1 }],
            "rawInput": { "command": ["sh", format!("x {secret}")], "id": secret, name: 1, "n": 1.5 },
            "rawOutput": [{ "data": secret }, { "sessionId": secret }],
            "content": [
                { "type": "content", "content": { "type": "text", "text": secret } },
                { "type": "diff", "path": "/a", "oldText": secret, "newText": format!("{secret}\n") },
            ],
            "_meta": { "claudeCode": { "toolResponse": { "stdout": secret } }, "goose": [secret] },
        })
    };
    talk.update("s", call(GITHUB, GITHUB));
    let received = talk.one("editor");
    assert_eq!(received["params"]["update"], call("[redacted:github]", "[redacted:github]"));
}

#[test]
fn permission_requests_plans_titles_and_notices_are_redacted() {
    let mut talk = Talk::new();
    let request = json!({ "sessionId": "s", "toolCall": { "toolCallId": "c", "rawInput": { "command": GITHUB } },
        "options": [{ "optionId": "once", "name": "Allow", "kind": "allow_once" }] });
    let answer = json!({ "result": { "outcome": { "outcome": "selected", "optionId": "once" } } });
    talk.send(
        "agent",
        &json!({ "id": 1, "method": "session/request_permission", "params": request }),
    );
    let received = talk.one("editor");
    assert_eq!(received["params"]["toolCall"]["rawInput"]["command"], "[redacted:github]");
    assert_eq!(received["params"]["options"], request["options"]);
    let mut answer = answer;
    answer["id"] = received["id"].clone();
    talk.send("editor", &answer);
    assert_eq!(talk.one("agent")["result"], answer["result"]);
    for update in [
        json!({ "sessionUpdate": "plan", "entries": [{ "content": GITHUB, "priority": "low", "status": "pending" }] }),
        json!({ "sessionUpdate": "session_info_update", "title": GITHUB }),
        json!({ "sessionUpdate": "notice", "severity": "info", "title": "t", "description": GITHUB }),
        json!({ "sessionUpdate": "compaction_update", "compactionId": "c", "summary": [{ "type": "text", "text": GITHUB }] }),
        json!({ "sessionUpdate": "agent_message", "messageId": "m", "content": [{ "type": "text", "text": GITHUB }] }),
        json!({ "sessionUpdate": "_any/kind", "deep": [[[{ "x": GITHUB }]]] }),
    ] {
        talk.update("s", update.clone());
        let received = talk.one("editor")["params"]["update"].to_string();
        assert_eq!(received, update.to_string().replace(GITHUB, "[redacted:github]"));
    }
    let elicitation = json!({ "sessionId": "s", "message": GITHUB, "requestedSchema": {} });
    talk.send("agent", &json!({ "id": 2, "method": "elicitation/create", "params": elicitation }));
    assert_eq!(talk.one("editor")["params"]["message"], "[redacted:github]");
}

#[test]
fn the_end_of_a_turn_that_fails_is_redacted() {
    let mut talk = Talk::new();
    let request = talk.prompt("s", "hi");
    let error =
        json!({ "code": -32603, "message": format!("401 for {NPM}"), "data": { "key": GITHUB } });
    talk.send("agent", &json!({ "id": request["id"], "error": error }));
    let expected = json!({ "code": -32603, "message": "401 for [redacted:npm]", "data": { "key": "[redacted:github]" } });
    assert_eq!(talk.one("editor")["error"], expected);
}

#[test]
fn a_file_or_a_command_with_a_secret_is_refused_and_never_changed() {
    let mut talk = Talk::new();
    let actions = [
        (
            "fs/write_text_file",
            json!({ "sessionId": "s", "path": "/a", "content": format!("k={GITHUB}") }),
        ),
        ("terminal/create", json!({ "sessionId": "s", "command": "curl", "args": ["-H", GITHUB] })),
        (
            "terminal/create",
            json!({ "sessionId": "s", "command": "x", "env": [{ "name": "T", "value": GITHUB }] }),
        ),
        (
            "mcp/message",
            json!({ "connectionId": "c", "method": "tools/call", "params": { "arguments": { "q": GITHUB } } }),
        ),
    ];
    for (method, params) in &actions {
        talk.send("agent", &json!({ "id": 1, "method": method, "params": params }));
        let answer = talk.one("agent");
        assert_eq!(talk.received("editor"), [] as [Value; 0], "{method}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            message.starts_with(&format!("filter: this {method} toward the editor is refused")),
            "{message}"
        );
        assert!(message.contains("(1 github)") && !message.contains("aB3d"), "{message}");
        assert_eq!(answer["error"]["code"], -32000);
        assert_eq!(answer["error"]["data"]["code"], "secret-blocked");
        assert_eq!(answer["error"]["data"]["secrets"], json!({ "github": 1 }));
    }
    let mut talk = Talk::with(&["--actions", "warn"]);
    for (method, params) in &actions {
        talk.send("agent", &json!({ "id": 1, "method": method, "params": params }));
        assert_eq!(talk.one("editor")["params"], *params);
    }
    assert_eq!(talk.metrics[0]["labels"]["action"], "warned");
}

#[test]
fn an_update_without_parameters_is_redacted() {
    let mut talk = Talk::new();
    talk.send("agent", &json!({ "method": "session/update", "x": GITHUB }));
    assert_eq!(talk.one("editor")["x"], "[redacted:github]");
}

/// The agent has read a file with a placeholder and writes the whole file back.
#[test]
fn a_placeholder_is_not_written_over_a_secret() {
    let mut talk = Talk::new();
    let params =
        json!({ "sessionId": "s", "path": "/.env", "content": "A=[redacted:github]\nB=2\n" });
    talk.send("agent", &json!({ "id": 1, "method": "fs/write_text_file", "params": params }));
    let message = talk.one("agent")["error"]["message"].to_string();
    assert!(message.contains("placeholder") && message.contains("secret-blocked"), "{message}");
}

#[test]
fn what_has_no_secret_keeps_its_bytes() {
    let mut talk = Talk::new();
    let texts = [
        r#"{"jsonrpc":"2.0","method":"session/update","params":{ "z":1.10,"sessionId":"s", "update":{"sessionUpdate":"tool_call","big":123456789012345678901234567890,"n":1e400,"a":"\u00e9\/\ud83d","rawInput":{"a":1,"a":2}} },"extra":"x"}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"update":{"content":{"text":"caf\u00e9 ","type":"text","more":[ ]},"sessionUpdate":"agent_message_chunk"},"sessionId":"s"}}"#,
    ];
    for text in texts {
        talk.conversation.send_text("agent", text);
        // A message that serde_json cannot read is compared as text.
        let received = talk.conversation.receive("editor");
        let expected = serde_json::from_str(text).map(|mut it: Value| {
            it.as_object_mut().unwrap().remove("jsonrpc");
            it
        });
        assert_eq!(received, expected.unwrap_or_else(|_| text.into()));
    }
}

#[test]
fn only_the_string_with_the_secret_changes() {
    let mut talk = Talk::new();
    let text = r#"{"jsonrpc":"2.0","method":"_x/y","params":{ "z":1.10,"n":1e400,"a":"\u00e9","k":["\u0067hp_SECRET"],"big":123456789012345678901234567890 },"x":"ghp_SECRET"}"#;
    talk.conversation.send_text(
        "agent",
        &text
            .replace("ghp_SECRET", GITHUB)
            .replace("\\u0067hp_SECRET", &format!("\\u0067{}", &GITHUB[1..])),
    );
    let received = talk.conversation.receive("editor");
    let expected = text
        .replace("\\u0067hp_SECRET", "[redacted:github]")
        .replace("ghp_SECRET", "[redacted:github]");
    assert_eq!(received, expected);
}

/// Of two members with the same name, one program reads the first and another the last.
#[test]
fn a_secret_in_a_repeated_member_is_redacted() {
    let mut talk = Talk::new();
    let text = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"SECRET","text":"SECRET"}}}}"#;
    talk.conversation.send_text("agent", &text.replace("SECRET", &format!("{GITHUB} ")));
    let received = talk.conversation.receive("editor").to_string();
    assert!(!received.contains("aB3d"), "{received}");
}

/// Only the words of the protocol are left alone, and only in its own methods.
#[test]
fn a_secret_in_a_member_with_a_choice_of_words_is_redacted() {
    let mut talk = Talk::new();
    for name in ["type", "kind", "status", "state", "stopReason", "mimeType", "cursor", "cwd"] {
        let redacted = json!({ "sessionId": GITHUB, "x": { name: "[redacted:github]" } });
        let params = json!({ "sessionId": GITHUB, "x": { name: GITHUB } });
        talk.send("agent", &json!({ "method": "_x/y", "params": params }));
        assert_eq!(talk.one("editor")["params"], redacted, "{name}");
        talk.send("editor", &json!({ "id": 1, "method": "_x/y", "params": params }));
        assert_eq!(talk.one("agent")["params"], redacted, "{name}");
        let mut update =
            json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "status": "completed" });
        update[name] = GITHUB.into();
        talk.update("s", update);
        assert_eq!(talk.one("editor")["params"]["update"][name], "[redacted:github]", "{name}");
    }
    let request = talk.prompt("s", "hi");
    talk.send("agent", &json!({ "id": request["id"], "result": { "stopReason": GITHUB } }));
    assert_eq!(talk.one("editor")["result"]["stopReason"], "[redacted:github]");
}

/// A pattern or a value of the user may be a word of the protocol.
#[test]
fn the_words_of_the_protocol_are_never_changed() {
    let mut talk = Talk::with(&["--pattern", "completed", "--pattern", "session/update"]);
    let update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "completed",
        "status": "completed", "rawOutput": { "status": "completed" } });
    talk.update("s", update.clone());
    let received = talk.one("editor");
    let mut expected = update;
    expected["rawOutput"]["status"] = "[redacted:pattern]".into();
    assert_eq!(received["params"]["update"], expected);
    assert_eq!(received["method"], "session/update");
}

#[test]
fn a_folder_and_a_page_of_sessions_keep_their_names() {
    let mut talk = Talk::new();
    let cwd = format!("/home/{GITHUB}");
    let list = json!({ "cwd": cwd, "cursor": GITHUB });
    talk.send("editor", &json!({ "id": 1, "method": "session/list", "params": list }));
    let request = talk.one("agent");
    assert_eq!(request["params"], list);
    let result = json!({ "sessions": [{ "sessionId": "s", "cwd": cwd, "title": GITHUB }],
        "nextCursor": GITHUB });
    talk.send("agent", &json!({ "id": request["id"], "result": result }));
    let mut expected = result;
    expected["sessions"][0]["title"] = "[redacted:github]".into();
    assert_eq!(talk.one("editor")["result"], expected);
    // A command with a secret in its folder is refused.
    let command = json!({ "sessionId": "s", "command": "ls", "cwd": cwd });
    talk.send("agent", &json!({ "id": 2, "method": "terminal/create", "params": command }));
    assert_eq!(talk.one("agent")["error"]["data"]["code"], "secret-blocked");
}

#[test]
fn a_secret_in_the_name_of_a_method_does_not_get_through() {
    let mut talk = Talk::new();
    let method = format!("_x/{GITHUB}");
    talk.send("agent", &json!({ "method": method, "params": {} }));
    assert_eq!(talk.one("editor")["method"], "_x/[redacted:github]");
    talk.send("editor", &json!({ "id": 1, "method": method, "params": {} }));
    assert_eq!(talk.one("agent")["method"], "_x/[redacted:github]");
    talk.send("agent", &json!({ "id": 2, "method": method, "params": {} }));
    let answer = talk.one("agent");
    assert_eq!(answer["error"]["data"]["secrets"], json!({ "github": 1 }));
    assert!(!answer.to_string().contains(&GITHUB[4..12]), "{answer}");
    assert_eq!(talk.received("editor"), [] as [Value; 0]);
}

/// Honest limits: docs/filter.md lists them.
#[test]
fn images_identifiers_and_encoded_secrets_are_not_searched() {
    let mut talk = Talk::new();
    let image = "AIzaaB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6kL9n".repeat(4);
    let update = json!({ "sessionUpdate": "tool_call", "toolCallId": GITHUB, "content": [
        { "type": "content", "content": { "type": "image", "mimeType": "image/png", "data": image } },
        { "type": "content", "content": { "type": "text", "text": "Z2hwX2FCM2RFNmdIOWpLMm1ONXA=" } },
    ] });
    talk.update("s", update.clone());
    assert_eq!(talk.one("editor")["params"]["update"], update);
}

/// Only images, sounds and files are not searched for shapes. An exact value is found there, too.
#[test]
fn long_texts_of_letters_in_data_are_searched() {
    let value =
        "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0".repeat(2);
    let folder = std::env::temp_dir().join(format!("filter-data-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("created");
    let path = folder.join("kube");
    std::fs::write(&path, &value).expect("written");
    let mut talk = Talk::with(&["--values", &path.display().to_string()]);
    std::fs::remove_dir_all(&folder).expect("ours");
    let key = format!("AIza{}", "aB3dE6gH9jK2".repeat(12));
    let update = |value: &str, key: &str| {
        json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "status": "completed",
            "rawOutput": { "data": key, "list": { "data": [key, value] } },
            "content": [{ "type": "content", "content":
                { "data": value, "nested": [{ "a": "}" }], "type": "image", "mimeType": "image/png" } }] })
    };
    talk.update("s", update(&value, &key));
    let expected = update("[redacted:kube]", "[redacted:google]");
    assert_eq!(talk.one("editor")["params"]["update"], expected);
    let request = talk.prompt("s", "hi");
    let error = json!({ "code": -1, "message": "m", "data": key });
    talk.send("agent", &json!({ "id": request["id"], "error": error }));
    assert_eq!(talk.one("editor")["error"]["data"], "[redacted:google]");
}
