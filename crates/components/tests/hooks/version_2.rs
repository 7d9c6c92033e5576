//! Hooks on a connection of ACP version 2.

use serde_json::json;

use super::*;

fn talk(folder: &Folder, hooks: &[(&str, &str, &str)]) -> Talk {
    let conversation = Conversation::new(component(&[], folder.options(hooks)));
    Talk { conversation, id: 0 }.initialized("some-agent", 2).with_session(&folder.0)
}

fn state(state: &str) -> Value {
    json!({ "sessionUpdate": "state_update", "state": state, "stopReason": "end_turn" })
}

#[test]
fn a_permission_request_of_version_2_is_decided() {
    let folder = Folder::new("v2-permission");
    let command = format!(
        "{}; grep -q push {} && {{ echo no >&2; exit 2; }}; exit 0",
        folder.record("input"),
        folder.path("input")
    );
    let mut talk = talk(&folder, &[("PreToolUse", "Bash", &command)]);
    let options = json!([{ "optionId": "once", "name": "x", "kind": "allow_once" }, { "optionId": "no", "name": "x", "kind": "reject_once" }]);
    for (subject, chosen) in [
        (json!({ "type": "tool_call", "toolCall": bash("t1", "git status") }), "once"),
        (json!({ "type": "command", "toolCallId": "t2", "command": "git push", "cwd": "/" }), "no"),
    ] {
        let params =
            json!({ "sessionId": "s", "title": "Run", "subject": subject, "options": options });
        talk.request("agent", "session/request_permission", &params);
        if chosen == "once" {
            talk.choose("once");
        }
        assert_eq!(talk.chosen(), chosen);
    }
    assert_eq!(folder.inputs("input")[1]["tool_input"]["command"], "git push");
}

#[test]
fn a_stop_hook_holds_the_end_of_a_turn_of_version_2() {
    let folder = Folder::new("v2-stop");
    let command = format!(
        "{}; grep -q '\"stop_hook_active\":true' {} || {{ echo more >&2; exit 2; }}",
        folder.record("input"),
        folder.path("input")
    );
    let mut talk = talk(
        &folder,
        &[
            ("Stop", "", &command),
            ("UserPromptSubmit", "", "grep -q secret && { echo no >&2; exit 2; }; exit 0"),
        ],
    );
    talk.prompt("go");
    let prompt = talk.expect_prompt(&["go"]);
    talk.answer("agent", &prompt, &json!({ "messageId": "m1" }));
    assert_eq!(talk.receive("editor")["result"]["messageId"], "m1");
    talk.update(&state("running"));
    talk.receive("editor");
    talk.update(&state("idle"));
    let prompt = talk.expect_prompt(&["more"]);
    talk.answer("agent", &prompt, &json!({ "messageId": "m2" }));
    talk.update(&state("running"));
    assert_eq!(talk.receive("editor")["params"]["update"]["state"], "running");
    talk.update(&state("idle"));
    // Only now the editor sees that the turn is over.
    assert_eq!(talk.receive("editor")["params"]["update"]["state"], "idle");
    assert_eq!(folder.inputs("input").len(), 2);
    // A blocked prompt.
    talk.prompt("secret");
    let mut messages = Vec::new();
    while messages.last().is_none_or(|it: &Value| it["params"]["update"]["state"] != "idle") {
        messages.push(talk.receive("editor"));
    }
    assert!(
        messages.iter().any(|it| it.to_string().contains("The prompt is blocked: no")),
        "{messages:?}"
    );
    assert_eq!(messages.last().unwrap()["params"]["update"]["stopReason"], "refusal");
}
