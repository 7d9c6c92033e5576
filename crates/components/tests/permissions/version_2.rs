//! ACP version 2: a permission request has a title and a subject, and there are no files and terminals of the editor.

use serde_json::{Value, json};

use crate::{Chain, RULES, options, outcome, selected};

fn request(subject: Value) -> Value {
    json!({ "sessionId": "s", "title": "May I?", "subject": subject, "options": options() })
}

fn chain() -> Chain {
    Chain::of_agent(RULES, &[], 2, "test")
}

#[test]
fn rules_decide_about_commands_and_tool_calls() {
    let mut chain = chain();
    let cwd = chain.project();
    let command = |line: &str| json!({ "type": "command", "command": line, "cwd": cwd });
    for (line, option) in [("git status", "yes"), ("git push -f", "no")] {
        chain.ask("agent", "session/request_permission", request(command(line)));
        let answer = chain.receive("agent");
        assert_eq!(outcome(&answer), option, "{line}");
    }
    let said = chain.receive("editor");
    let update = &said["params"]["update"];
    assert_eq!(update["sessionUpdate"], "agent_message_chunk", "{said}");
    assert!(update["messageId"].is_string(), "{said}");
    chain.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "kind": "edit",
        "rawInput": { "file_path": chain.in_project(".git/config") } }));
    chain.receive("editor");
    let call = json!({ "type": "tool_call", "toolCall": { "toolCallId": "t" } });
    chain.ask("agent", "session/request_permission", request(call));
    assert_eq!(outcome(&chain.receive("agent")), "no");
}

#[test]
fn a_subject_that_is_not_known_is_asked_about() {
    let mut chain = chain();
    for params in [
        request(json!({ "type": "_other", "command": "git status" })),
        json!({ "sessionId": "s", "title": "May I?", "options": options() }),
    ] {
        let received =
            chain.request("agent", "session/request_permission", params.clone(), selected("yes"));
        assert_eq!(received["params"], params);
    }
    // The members of both versions.
    let mut both = request(json!({ "type": "command", "command": "git status", "cwd": "/" }));
    both["toolCall"] = json!({ "toolCallId": "t", "rawInput": { "command": "git status" } });
    chain.request("agent", "session/request_permission", both, selected("no"));
}

#[test]
fn a_command_is_denied_if_it_stands_in_any_version_of_the_request() {
    let push =
        json!({ "toolCallId": "t", "kind": "execute", "rawInput": { "command": "git push -f" } });
    let harmless = json!({ "toolCallId": "t", "kind": "execute", "rawInput": { "command": "ls" } });
    let of_command = |line: &str| json!({ "type": "command", "command": line, "cwd": "/" });
    for version in [1, 2] {
        let mut chain = Chain::of_agent(RULES, &[], version, "test");
        for (subject, call) in [
            (of_command("git push -f"), Some(&harmless)),
            (of_command("ls"), Some(&push)),
            (json!({ "type": "tool_call", "toolCall": push }), Some(&harmless)),
            (of_command("git push -f"), None),
        ] {
            let mut params = request(subject);
            if let Some(call) = call {
                params["toolCall"] = call.clone();
            }
            chain.ask("agent", "session/request_permission", params.clone());
            assert_eq!(outcome(&chain.receive("agent")), "no", "{params}");
            chain.receive("editor");
        }
    }
}

#[test]
fn the_user_is_asked_about_an_mcp_call_in_the_form_of_version_2() {
    let mut chain = chain();
    let call = json!({ "serverId": "kit-id", "requestId": "r", "method": "tools/call", "params": { "name": "other" } });
    chain.ask("agent", "mcp/message", call);
    let asked = chain.receive("editor");
    assert_eq!(asked["params"]["title"], "permissions: may the agent call other of kit?");
    assert_eq!(asked["params"]["subject"]["type"], "tool_call");
    chain.answer("editor", &asked, selected("conductor-reject-once"));
    assert!(chain.receive("agent")["result"]["error"].is_object());
}
