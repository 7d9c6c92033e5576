//! The same in ACP version 2, where an idle update ends a turn.

use serde_json::json;

use crate::chain::{Chain, DAY, Folder};

#[test]
fn the_idle_update_reports_what_the_turn_has_consumed() {
    let folder = Folder::new();
    let mut chain = Chain::v2(&folder, "--tokens-per-day 100", "claude-agent-acp");
    assert_eq!(chain.turn("s", 30).notices, "");
    let turn = chain.turn("s", 70);
    assert!(turn.notices.contains("100 of 100 tokens today"), "{}", turn.notices);
    assert_eq!(turn.end["params"]["update"]["usage"]["totalTokens"], 70, "{}", turn.end);
    let error = chain.refused("s");
    assert_eq!((&error["data"]["spent"], &error["data"]["limit"]), (&json!(100), &json!(100)));
    assert_eq!(folder.events(DAY), ["day", "open", "spent", "end", "open", "spent", "end"]);
    assert_eq!(folder.lines(DAY)[3]["why"], "end_turn");
}

#[test]
fn the_user_is_asked_in_the_form_of_version_2() {
    let folder = Folder::new();
    let mut chain = Chain::v2(&folder, "--tokens-per-day 10 --when-spent ask", "claude-agent-acp");
    chain.turn("s", 10);
    chain.prompt("s");
    let question = chain.editor();
    assert_eq!(question["method"], "session/request_permission");
    let title = question["params"]["title"].as_str().expect("a title");
    assert!(title.starts_with("Budget spent: 10 of 10 tokens today"), "{title}");
    let outcome = json!({ "outcome": "selected", "optionId": "budget-stop" });
    chain.editor_answers(&question, json!({ "outcome": outcome }));
    chain.question_ends(&question, "failed");
    assert_eq!(chain.editor()["error"]["data"]["code"], "budget-spent");
    chain.prompt("s");
    let question = chain.editor();
    let outcome = json!({ "outcome": "selected", "optionId": "budget-once" });
    chain.editor_answers(&question, json!({ "outcome": outcome }));
    assert_eq!(chain.agent()["method"], "session/prompt");
}

#[test]
fn with_now_the_running_turn_is_cancelled() {
    let folder = Folder::new();
    let mut chain = Chain::v2(&folder, "--cost-per-turn 1 --when-spent now", "claude-agent-acp");
    chain.prompt("s");
    let prompt = chain.agent();
    chain.agent_answers(&prompt, json!({ "messageId": "m" }));
    chain.editor();
    let cost = json!({ "amount": 1.5, "currency": "USD" });
    let update = json!({ "sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": cost });
    chain.agent_sends(
        &json!({ "method": "session/update", "params": { "sessionId": "s", "update": update } }),
    );
    let cancel = chain.agent();
    assert_eq!(
        (&cancel["method"], &cancel["params"]["sessionId"]),
        (&json!("session/cancel"), &json!("s"))
    );
}

/// Half a surrogate pair is legal JSON, and JavaScript programs send it when they split a text.
#[test]
fn odd_messages_pass_unchanged() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 10", "codex");
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}}}"#;
    chain.agent_sends_text(update);
    let received = chain.editor().to_string();
    assert!(received.contains("ud83d"), "{received}");
}
