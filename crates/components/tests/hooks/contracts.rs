//! Exit statuses and outputs of hooks, in the contracts of Claude Code and Codex.

use serde_json::{Value, json};

use super::*;

/// What happens to a tool call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Allowed,
    /// With this reason.
    Denied(&'static str),
    /// The user is asked.
    Asked,
}
use Fate::{Allowed, Asked, Denied};

fn check(talk: &mut Talk, command: &str, fate: Fate) {
    talk.ask(&bash("t1", "rm -rf build"));
    match fate {
        Allowed => assert_eq!(talk.chosen(), "once", "{command}"),
        Asked => {
            talk.choose("always");
            assert_eq!(talk.chosen(), "always", "{command}");
        }
        Denied(reason) => {
            let answer = talk.receive("agent");
            assert_eq!(answer["result"]["outcome"]["optionId"], "no", "{command}");
            assert_eq!(answer["result"]["_meta"]["conductor"]["reason"], reason, "{command}");
            let told = talk.expect_text();
            assert!(told.contains(reason) && told.contains("Bash"), "{command}: {told}");
        }
    }
}

/// JSON on standard output.
fn print(json: &Value) -> String {
    format!("printf '%s' '{json}'")
}

/// A decision without a reason.
fn bare(decision: &str) -> String {
    let specific = json!({ "hookEventName": "PreToolUse", "permissionDecision": decision });
    print(&json!({ "hookSpecificOutput": specific }))
}

fn decide(decision: &str) -> String {
    print(&json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": decision,
        "permissionDecisionReason": "because",
    }}))
}

#[test]
fn a_hook_of_claude_code_decides_with_its_exit_status_or_with_json() {
    let wrong_event = print(&json!({ "hookSpecificOutput": { "hookEventName": "Stop" } }));
    let block = print(&json!({ "decision": "block", "reason": "because" }));
    let cases = [
        ("echo because >&2; exit 2".to_owned(), Denied("because")),
        ("exit 2".to_owned(), Denied("the hook (PreToolUse 1 of the options) gives no reason")),
        ("exit 0".to_owned(), Asked),
        ("echo hello".to_owned(), Asked),
        ("echo because >&2; exit 1".to_owned(), Asked),
        ("/no/such/program".to_owned(), Asked),
        (decide("deny"), Denied("because")),
        (decide("allow"), Allowed),
        (bare("defer"), Asked),
        (block, Denied("because")),
        (print(&json!({ "decision": "approve" })), Allowed),
        (print(&json!({ "suppressOutput": true })), Asked),
        (print(&json!({ "async": true })), Asked),
        // Failures: the action goes on.
        ("echo '{ not JSON'".to_owned(), Asked),
        (print(&json!({ "continue": "false" })), Asked),
        (decide("perhaps"), Asked),
        (wrong_event, Asked),
    ];
    for (command, fate) in cases {
        let folder = Folder::new("claude");
        check(&mut folder.session(&[("PreToolUse", "Bash", &command)]), &command, fate);
    }
}

#[test]
fn a_hook_that_asks_shows_its_reason_to_the_user() {
    let folder = Folder::new("asks");
    let mut talk = folder.session(&[("PreToolUse", "", &decide("ask"))]);
    talk.ask(&bash("t1", "ls"));
    assert!(talk.expect_text().contains("because"));
    talk.choose("no");
    assert_eq!(talk.chosen(), "no");
}

#[test]
fn a_hook_of_codex_blocks_only_with_a_reason_and_cannot_ask_or_allow() {
    let allow = |input: Value| {
        print(&json!({ "hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": input,
        }}))
    };
    for (command, fate) in [
        ("echo because >&2; exit 2".to_owned(), Denied("because")),
        ("exit 2".to_owned(), Asked),
        (decide("deny"), Denied("because")),
        (decide("allow"), Asked),
        (decide("ask"), Asked),
        (print(&json!({ "continue": false })), Asked),
        (print(&json!({ "decision": "approve" })), Asked),
        (print(&json!({ "decision": "block", "reason": "because" })), Denied("because")),
        (allow(json!({ "command": "rm -rf build" })), Allowed),
    ] {
        let folder = Folder::new("codex");
        let hooks = json!({ "hooks": { "PreToolUse": [
            { "matcher": "^Bash$", "hooks": [{ "type": "command", "command": command, "timeout": 30 }] },
        ]}});
        let file = folder.write(".codex/hooks.json", &hooks.to_string());
        let mut options = folder.options(&[]);
        options["codex"] = json!([file]);
        check(&mut folder.talk(options).with_session(&folder.0), &command, fate);
    }
}

#[test]
fn a_hook_of_codex_gets_a_turn_a_model_and_patches() {
    let folder = Folder::new("patch");
    let command = folder.record("input");
    let group = |matcher: &str| json!({ "matcher": matcher, "hooks": [{ "type": "command", "command": command }] });
    let hooks = json!({ "hooks": { "PreToolUse": [group("Edit"), group("apply_patch|Bash")] } });
    let mut options = folder.options(&[]);
    options["codex"] = json!([folder.write("hooks.json", &hooks.to_string())]);
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.prompt("go");
    talk.expect_prompt(&["go"]);
    let write = json!({ "sessionId": "s", "path": folder.path("a.txt"), "content": "x\ny\n" });
    talk.exchange("agent", "fs/write_text_file", &write, &json!({}));
    let inputs = folder.inputs("input");
    assert_eq!(inputs.len(), 1, "the same command runs once: {inputs:?}");
    let input = &inputs[0];
    assert_eq!((&input["tool_name"], &input["model"]), (&json!("apply_patch"), &json!("unknown")));
    assert_eq!(input["turn_id"].as_str().map(str::len), Some(36));
    let patch =
        format!("*** Begin Patch\n*** Add File: {}\n+x\n+y\n*** End Patch\n", folder.path("a.txt"));
    assert_eq!(input["tool_input"]["command"], patch);
}

#[test]
fn the_strictest_of_several_hooks_wins_and_all_reasons_are_told() {
    let folder = Folder::new("several");
    let deny = |reason: &str| format!("echo {reason} >&2; exit 2");
    let (first, second) = (deny("first"), deny("second"));
    let hooks = [
        ("PreToolUse", "Bash", decide("allow")),
        ("PreToolUse", "", first),
        ("PreToolUse", "Edit|Bash", second.clone()),
        ("PreToolUse", "*", second),
        ("PreToolUse", "Edit", deny("other")),
        ("PreToolUse", "Bash.*", decide("ask")),
    ];
    let hooks: Vec<_> =
        hooks.iter().map(|(event, matcher, it)| (*event, *matcher, it.as_str())).collect();
    check(&mut folder.session(&hooks), "several", Denied("first\nsecond"));
}

#[test]
fn a_hook_that_fails_blocks_if_it_or_the_options_say_so() {
    let hook = |command: &str, on_failure: Value| {
        let mut hook = json!({ "type": "command", "command": command });
        if !on_failure.is_null() {
            hook["onFailure"] = on_failure;
        }
        json!({ "PreToolUse": [{ "hooks": [hook] }] })
    };
    let failed = "the hook `exit 3` failed: it exited with status 3";
    let bad = "the hook `echo {` failed: its output is not JSON: EOF while parsing an object at line 1 column 1";
    for (command, on_failure, strict, fate) in [
        ("exit 3", json!("block"), false, Denied(failed)),
        ("exit 3", Value::Null, true, Denied(failed)),
        ("exit 3", json!("continue"), true, Asked),
        ("exit 3", Value::Null, false, Asked),
        ("echo {", Value::Null, true, Denied(bad)),
    ] {
        let folder = Folder::new("failure");
        let mut options = folder.options(&[]);
        options["hooks"] = hook(command, on_failure);
        options["strict"] = json!(strict);
        check(&mut folder.talk(options).with_session(&folder.0), command, fate);
    }
}

#[test]
fn a_hook_at_a_permission_request_answers_for_the_user() {
    let decision = |decision: Value| {
        print(
            &json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": decision } }),
        )
    };
    let deny = decision(json!({ "behavior": "deny", "message": "because" }));
    let allow = decision(json!({ "behavior": "allow" }));
    for (before, command, fate) in [
        ("exit 0", &allow, Allowed),
        ("exit 0", &deny, Denied("because")),
        ("exit 0", &"exit 2".to_owned(), Asked),
        // It does not weaken what another hook has said.
        (&bare("defer"), &deny, Denied("because")),
    ] {
        let folder = Folder::new("permission");
        let hooks = [("PreToolUse", "", before), ("PermissionRequest", "Bash", command)];
        check(&mut folder.session(&hooks), command, fate);
    }
    let folder = Folder::new("permission");
    let mut talk =
        folder.session(&[("PreToolUse", "", &bare("ask")), ("PermissionRequest", "", &allow)]);
    check(&mut talk, "ask, then allow", Asked);
}

#[test]
fn continue_false_stops_the_turn() {
    let folder = Folder::new("stop");
    let command = print(&json!({ "continue": false, "stopReason": "enough" }));
    let mut talk = folder.session(&[("PreToolUse", "", &command)]);
    talk.ask(&bash("t1", "ls"));
    let messages = [talk.receive("agent"), talk.receive("agent")];
    assert!(messages.iter().any(|it| it["method"] == "session/cancel"), "{messages:?}");
    let denied = |it: &Value| it["result"]["outcome"]["optionId"] == "no";
    assert!(messages.iter().any(denied), "{messages:?}");
    assert!(talk.expect_text().contains("enough"));
}

#[test]
fn a_system_message_is_shown_to_the_user() {
    let folder = Folder::new("message");
    let command = print(&json!({ "systemMessage": "look here" }));
    let mut talk = folder.session(&[("UserPromptSubmit", "", &command)]);
    talk.prompt("hi");
    assert_eq!(talk.expect_text(), "\n[hooks] look here\n");
    talk.expect_prompt(&["hi"]);
    // An editor that shows notices gets a notice.
    let talk = Talk {
        conversation: Conversation::new(component(
            &[],
            folder.options(&[("UserPromptSubmit", "", &command)]),
        )),
        id: 0,
    };
    let abilities = json!({ "session": { "notices": {} } });
    let mut talk = talk.initialized_with("some-agent", 1, &abilities).with_session(&folder.0);
    talk.prompt("hi");
    let notice = talk.receive("editor");
    assert_eq!(notice["params"]["update"]["sessionUpdate"], "notice", "{notice}");
    assert_eq!(notice["params"]["update"]["title"], "hooks: look here");
    assert!(notice["params"]["update"]["description"].is_null(), "not twice: {notice}");
}
