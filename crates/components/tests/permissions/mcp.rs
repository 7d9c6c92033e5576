//! MCP calls that pass the chain.

use serde_json::{Value, json};

use crate::{Chain, RULES, selected};

fn call(tool: &str) -> Value {
    json!({ "serverId": "kit-id", "requestId": "r", "method": "tools/call", "params": { "name": tool, "arguments": { "text": "x" } } })
}

#[test]
fn rules_decide_about_calls_of_mcp_tools() {
    let mut chain = Chain::new(RULES, &[]);
    let result = json!({ "result": { "content": [] } });
    chain.request("agent", "mcp/message", call("echo"), Ok(result.clone()));
    // Denied.
    chain.ask("agent", "mcp/message", call("drop"));
    let error = chain.receive("agent")["result"]["error"].clone();
    assert_eq!(error["code"], -32000, "{error}");
    let text = error["message"].as_str().expect("a text");
    assert!(text.starts_with("permissions: the agent may not call drop of kit"), "{text}");
    // Asked.
    chain.ask("agent", "mcp/message", call("other"));
    let asked = chain.receive("editor");
    assert_eq!(
        asked["params"]["toolCall"]["title"],
        "permissions: may the agent call other of kit?"
    );
    assert_eq!(asked["params"]["toolCall"]["rawInput"], json!({ "text": "x" }));
    let why = asked["params"]["toolCall"]["content"][0]["content"]["text"].as_str();
    let expected =
        format!("Folder: {}\n\nWhy: no rule matches the tool `mcp__kit__other`", chain.project());
    assert_eq!(why, Some(expected.as_str()));
    chain.answer("editor", &asked, selected("conductor-allow-once"));
    let passed = chain.receive("editor");
    assert_eq!(passed["params"], call("other"));
    chain.answer("editor", &passed, Ok(result.clone()));
    assert_eq!(chain.receive("agent")["result"], result);
    // Other MCP requests are no actions.
    let list =
        json!({ "serverId": "kit-id", "requestId": "r", "method": "tools/list", "params": {} });
    chain.request("agent", "mcp/message", list, Ok(result));
    chain.assert_quiet();
}

#[test]
fn a_call_that_the_user_has_allowed_is_not_asked_about_again() {
    let mut chain = Chain::new(RULES, &[]);
    chain.ask_permission(json!({ "toolCallId": "t", "kind": "other", "name": "mcp__kit__other", "rawInput": { "text": "x" } }));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, selected("yes"));
    assert_eq!(chain.outcome(), "yes");
    let sent = |text: &str| {
        let mut sent = call("other");
        sent["params"]["arguments"] = json!({ "text": text });
        sent
    };
    // The permission is for these arguments, and for one call.
    let mut passed = 0;
    for text in ["y", "x", "x"] {
        chain.ask("agent", "mcp/message", sent(text));
        let received = chain.receive("editor");
        let is_asked = received["method"] == "session/request_permission";
        assert_eq!(is_asked, text != "x" || passed > 0, "{received}");
        if is_asked {
            chain.answer("editor", &received, selected("conductor-reject-once"));
            assert_eq!(chain.receive("agent")["result"]["error"]["code"], -32000);
        } else {
            passed += 1;
            chain.answer("editor", &received, Ok(json!({ "result": {} })));
            chain.receive("agent");
        }
    }
    assert_eq!(passed, 1);
    chain.assert_quiet();
}

/// The component was restarted and knows neither the server nor the session.
#[test]
fn a_call_of_an_unknown_server_is_denied_because_nobody_can_be_asked() {
    let mut chain = Chain::new(RULES, &[]);
    let mut unknown = call("echo");
    unknown["serverId"] = json!("other-id");
    chain.ask("agent", "mcp/message", unknown);
    let error = chain.receive("agent")["result"]["error"].clone();
    let text = error["message"].as_str().expect("a text");
    assert!(text.contains("this session is not known"), "{text}");
    chain.assert_quiet();
}
