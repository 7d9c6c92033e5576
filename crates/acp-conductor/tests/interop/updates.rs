//! Every kind of `session/update` reaches the editor through published proxies, most of which know only the
//! first eight: once, and in order.

use serde_json::{Value, json};
use testkit::test_chain::{ScriptedComponent, TestChain, directory};

use crate::{marking, peer};

/// An update of every kind in schema 1.15.1, in v1 and v2, values that are newer than a proxy's schema, and
/// kinds that are in no schema.
fn every_update() -> Vec<Value> {
    let text = json!({ "type": "text", "text": "x" });
    let content = |kind: &str| json!({ "sessionUpdate": kind, "content": text });
    let whole = |kind: &str| json!({ "sessionUpdate": kind, "messageId": "m", "content": [text] });
    vec![
        content("user_message_chunk"),
        content("agent_message_chunk"),
        content("agent_thought_chunk"),
        json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "kind": "read" }),
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" }),
        json!({ "sessionUpdate": "plan", "entries": [] }),
        json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] }),
        json!({ "sessionUpdate": "current_mode_update", "currentModeId": "m" }),
        json!({ "sessionUpdate": "config_option_update", "configOptions": [] }),
        json!({ "sessionUpdate": "session_info_update", "title": "T" }),
        json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }),
        json!({ "sessionUpdate": "notice", "severity": "info", "title": "T" }),
        json!({ "sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed" }),
        json!({ "sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": text }),
        json!({ "sessionUpdate": "plan_update", "plan": { "type": "items", "id": "p", "entries": [] } }),
        json!({ "sessionUpdate": "plan_removed", "id": "p" }),
        json!({ "sessionUpdate": "subagent_update", "sessionId": "c" }),
        json!({ "sessionUpdate": "session_message", "messageId": "m", "content": [text] }),
        json!({ "sessionUpdate": "session_message_chunk", "messageId": "m", "content": text }),
        whole("user_message"),
        whole("agent_message"),
        whole("agent_thought"),
        json!({ "sessionUpdate": "state_update", "state": "running" }),
        json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": { "type": "content", "content": text } }),
        json!({ "sessionUpdate": "terminal_update", "terminalId": "t" }),
        json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "x" }),
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "paused" }),
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "content": [{ "type": "diff", "changes": [] }] }),
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "video", "uri": "u" } }),
        json!({ "sessionUpdate": "plan", "entries": [{ "content": "c", "priority": "high", "status": "cancelled" }] }),
        json!({ "sessionUpdate": "_vendor/update", "x": 1 }),
        json!({ "sessionUpdate": "of_the_future" }),
    ]
}

fn send_update(agent: &mut ScriptedComponent, update: &Value, number: usize) {
    let mut update = update.clone();
    update["_meta"] = json!({ "n": number });
    let params = json!({ "sessionId": "S1", "update": update });
    agent.send(
        &json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string(),
    );
}

/// Runs a session through these proxies. The agent sends every update, alone and between others.
fn check(name: &str, options: &[&str], proxies: &[String]) {
    let home = directory(&format!("updates-{name}")).to_str().expect("UTF-8").to_owned();
    let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
        .env("XDG_CACHE_HOME", &home)
        .env("HOME", &home)
        .option(&["--grace", "0.5"])
        .option(options);
    let components: Vec<String> =
        proxies.iter().cloned().chain([setup.scripted_command("agent")]).collect();
    let mut chain = setup.run("agent", &components);
    let request = |chain: &mut TestChain, id: u32, method: &str, params: Value| {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        chain.editor.send(&line.to_string());
    };
    request(&mut chain, 1, "initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, r#"{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}"#);
    assert_eq!(chain.editor.message()["result"]["protocolVersion"], 1, "{name}");

    let (updates, mut sent) = (every_update(), 0);
    let mut send = |agent: &mut ScriptedComponent, update: &Value| {
        send_update(agent, update, sent);
        sent += 1;
    };
    let usage = json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 });
    request(&mut chain, 2, "session/new", json!({ "cwd": home, "mcpServers": [] }));
    let new = agent.request("session/new");
    send(&mut agent, &usage);
    agent.answer(&new, r#"{"sessionId":"S1"}"#);
    send(&mut agent, &usage);
    let prompt = json!([{ "type": "text", "text": "hello" }]);
    request(&mut chain, 3, "session/prompt", json!({ "sessionId": "S1", "prompt": prompt }));
    loop {
        let received = agent.request("session/prompt");
        // A proxy's own prompt may quote the editor's: sparkle-mcp sends its record of the last session.
        let mut blocks = received["params"]["prompt"].as_array().expect("blocks").iter();
        let is_ours = blocks.any(|it| it["text"] == "hello");
        for update in updates.iter().filter(|_| is_ours) {
            send(&mut agent, update);
            send(&mut agent, &updates[1]);
            send(&mut agent, update);
        }
        send(&mut agent, &usage);
        agent.answer(&received, r#"{"stopReason":"end_turn"}"#);
        if is_ours {
            break;
        }
    }
    let (mut seen, mut answered) = (Vec::new(), Vec::new());
    while answered.len() < 2 {
        let message = chain.editor.message();
        match message["method"].as_str() {
            Some("session/update") => {
                let number = &message["params"]["update"]["_meta"]["n"];
                seen.push(number.as_u64().unwrap_or_else(|| panic!("{name}: {message}")));
            }
            Some(_) => panic!("{name}: {message}"),
            None => answered.push(message),
        }
    }
    assert_eq!(answered[0]["result"]["sessionId"], "S1", "{name}: {answered:?}");
    assert_eq!(answered[1]["result"]["stopReason"], "end_turn", "{name}: {answered:?}");
    assert_eq!(seen, (0..sent as u64).collect::<Vec<_>>(), "{name}");
    chain.editor.close();
    let stderr = chain.conductor.whole_stderr();
    assert!(!stderr.contains("crashed") && !stderr.contains("restarted"), "{name}: {stderr}");
}

fn marked(name: &str) -> String {
    format!("{} --mark A", peer(name))
}

#[test]
fn every_update_reaches_the_editor_through_sparkle() {
    for name in ["sparkle_0_7", "sparkle_0_1"] {
        check(name, &[], &[format!("{} --acp", peer(name))]);
    }
}

#[test]
fn every_update_reaches_the_editor_through_proxies_on_old_sdks() {
    for name in ["proxy_p3", "proxy_sacp_11", "proxy_0_11", "proxy_1_3", "proxy_2_2", "proxy_3_6"] {
        check(&format!("{name}-plain"), &[], &[peer(name)]);
        check(name, &[], &[marked(name)]);
    }
    for name in ["tee_0_1", "tee_10", "ferris", "symposium_cargo"] {
        check(name, &[], &[peer(name)]);
    }
}

/// Typed proxies of the current generation do not crash on an unknown update, but drop it.
#[test]
fn every_update_reaches_the_editor_through_current_proxies() {
    check("rust_proxy-plain", &[], &[peer("rust_proxy")]);
    check("ts_proxy", &[], &[marked("ts_proxy")]);
}

#[test]
fn every_update_reaches_the_editor_through_many_proxies() {
    let chain = [
        format!("{} --acp", peer("sparkle_0_7")),
        marked("proxy_sacp_11"),
        marking("B"),
        marked("proxy_p3"),
        peer("tee_10"),
        marked("proxy_3_6"),
    ];
    check("many", &["--updates", "3=known"], &chain);
}
