//! ACP version 2, in which an `idle` update ends a turn.

use serde_json::{Value, json};

use super::{Chain, TestClock, options};

fn v2(words: &str) -> Chain {
    let clock = TestClock::default();
    let mut chain = Chain::start(&options(words), &clock);
    let id = chain.request("editor", "initialize", json!({ "protocolVersion": 2 }));
    let request = chain.passes("agent", "initialize");
    chain.answer("agent", &request, json!({ "protocolVersion": 2 }));
    chain.answered("editor", id);
    chain.open("s");
    chain.open("t");
    chain
}

fn idle(chain: &mut Chain, session: &str) {
    let update =
        json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" });
    chain.notify("agent", "session/update", json!({ "sessionId": session, "update": update }));
}

/// Reads messages to the editor until one fits.
fn until(chain: &mut Chain, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let message = chain.talk.receive("editor");
        if fits(&message) {
            return message;
        }
    }
}

#[test]
fn a_turn_of_version_2_runs_until_its_idle_update() {
    let mut chain = v2("--prompts-at-once 1 --when-reached refuse");
    let first = chain.prompt("s");
    let request = chain.passes("agent", "session/prompt");
    chain.answer("agent", &request, json!({}));
    chain.answered("editor", first);
    // The prompt is accepted, but its turn still runs.
    let id = chain.prompt("t");
    assert_eq!(chain.refused("editor", id)["limit"], "prompts_at_once");
    idle(&mut chain, "s");
    until(&mut chain, |it| it["params"]["update"]["state"] == "idle");
    let id = chain.prompt("t");
    let request = chain.passes("agent", "session/prompt");
    chain.answer("agent", &request, json!({}));
    chain.answered("editor", id);
}

#[test]
fn a_prompt_of_version_2_waits_and_can_be_cancelled() {
    let mut chain = v2("--prompts-at-once 1");
    let first = chain.prompt("s");
    let request = chain.passes("agent", "session/prompt");
    chain.answer("agent", &request, json!({}));
    chain.answered("editor", first);
    let second = chain.prompt("t");
    assert!(chain.told().contains("1 prompt at once"));
    chain.nothing_else("agent");
    chain.notify("editor", "session/cancel", json!({ "sessionId": "t" }));
    let is_end =
        |it: &Value| it["params"]["update"]["stopReason"] == "cancelled" || it["id"] == second;
    let answer = until(&mut chain, is_end);
    assert!(answer.get("error").is_none(), "{answer}");
    chain.passes("agent", "session/cancel");
    // The next one waits, and passes when the first turn ends.
    let third = chain.prompt("t");
    idle(&mut chain, "s");
    let request = chain.passes("agent", "session/prompt");
    assert_eq!(request["params"]["sessionId"], "t");
    chain.answer("agent", &request, json!({}));
    until(&mut chain, |it| it["id"] == third);
}

#[test]
fn a_permission_request_of_version_2_counts() {
    let mut chain = v2("--tool-calls-per-minute 1 --when-reached refuse");
    let params = json!({ "sessionId": "s", "title": "Run ls", "subject": { "type": "tool_call", "toolCall": { "toolCallId": "c" } },
        "options": [{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }] });
    let id = chain.request("agent", "session/request_permission", params.clone());
    let request = chain.passes("editor", "session/request_permission");
    assert_eq!(request["params"], params);
    chain.answer(
        "editor",
        &request,
        json!({ "outcome": { "outcome": "selected", "optionId": "yes" } }),
    );
    chain.answered("agent", id);
    let id = chain.request("agent", "session/request_permission", params);
    chain.refused("agent", id);
}
