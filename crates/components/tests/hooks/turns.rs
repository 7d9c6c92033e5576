//! Hooks of sessions and turns.

use serde_json::{Value, json};

use super::*;

#[test]
fn a_blocked_prompt_does_not_reach_the_agent() {
    let folder = Folder::new("prompt");
    let command =
        r#"grep -q password && { echo 'no passwords' >&2; exit 2; }; echo "today is Monday""#;
    let mut talk = folder.session(&[("UserPromptSubmit", "ignored", command)]);
    talk.prompt("my password is x");
    assert_eq!(talk.expect_text(), "The prompt is blocked: no passwords\n");
    assert_eq!(talk.receive("editor")["result"]["stopReason"], "refusal");
    // What a hook prints is added to the prompt.
    talk.prompt("hello");
    talk.expect_prompt(&["hello", "today is Monday"]);
}

#[test]
fn the_context_of_the_start_is_before_the_first_prompt() {
    let folder = Folder::new("start");
    let output = json!({ "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": "On branch main." } });
    let (json, plain) = (format!("printf '%s' '{output}'"), "echo Use tabs.");
    let resumed = "echo resumed";
    let mut talk = folder.session(&[
        ("SessionStart", "startup", &json),
        ("SessionStart", "", plain),
        ("SessionStart", "resume", resumed),
    ]);
    talk.prompt("one");
    let prompt = talk.expect_prompt(&["On branch main.", "Use tabs.", "one"]);
    talk.end_turn(&prompt);
    talk.receive("editor");
    talk.prompt("two");
    talk.expect_prompt(&["two"]);
}

#[test]
fn a_loaded_session_starts_as_resumed() {
    let folder = Folder::new("resume");
    let record = folder.record("input");
    let mut talk = folder.talk(
        folder
            .options(&[("SessionStart", "resume", &record), ("SessionStart", "startup", &record)]),
    );
    let load = json!({ "sessionId": "s", "cwd": folder.0, "mcpServers": [] });
    talk.exchange(
        "editor",
        "session/load",
        &load,
        &json!({ "models": { "currentModelId": "m1" } }),
    );
    talk.prompt("go");
    talk.expect_prompt(&["go"]);
    let inputs = folder.inputs("input");
    assert_eq!(inputs.len(), 1);
    assert_eq!((&inputs[0]["source"], &inputs[0]["model"]), (&json!("resume"), &json!("m1")));
}

#[test]
fn a_stop_hook_makes_the_agent_go_on_five_times_at_most() {
    let folder = Folder::new("stop");
    let command = format!("{}; echo 'run the tests' >&2; exit 2", folder.record("input"));
    let mut talk = folder.session(&[("Stop", "", &command)]);
    talk.prompt("go");
    let mut prompt = talk.expect_prompt(&["go"]);
    for _ in 0..5 {
        talk.update(&json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "I am " } }));
        talk.update(&json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "done." } }));
        talk.end_turn(&prompt);
        prompt = talk.expect_prompt(&["run the tests"]);
    }
    talk.end_turn(&prompt);
    for _ in 0..10 {
        assert_eq!(talk.receive("editor")["method"], "session/update");
    }
    assert!(talk.expect_text().contains("five times"));
    assert_eq!(talk.receive("editor")["result"]["stopReason"], "end_turn");
    let inputs = folder.inputs("input");
    let active: Vec<&Value> = inputs.iter().map(|it| &it["stop_hook_active"]).collect();
    assert_eq!(active, [false, true, true, true, true, true]);
    assert_eq!(inputs[0]["last_assistant_message"], "I am done.");
    assert_eq!(inputs[5]["last_assistant_message"], Value::Null);
}

#[test]
fn a_stop_hook_that_does_not_block_ends_the_turn() {
    let folder = Folder::new("stops");
    let record = folder.record("input");
    let mut talk = folder.session(&[("Stop", "", &record), ("StopFailure", "", &record)]);
    for reason in ["end_turn", "cancelled", "refusal"] {
        talk.prompt("go");
        let prompt = talk.expect_prompt(&["go"]);
        talk.answer("agent", &prompt, &json!({ "stopReason": reason }));
        assert_eq!(talk.receive("editor")["result"]["stopReason"], reason);
    }
    let inputs = talk.wait_for(&folder, 2);
    assert_eq!(inputs[0]["hook_event_name"], "Stop");
    assert_eq!(
        (&inputs[1]["hook_event_name"], &inputs[1]["error"]),
        (&json!("StopFailure"), &json!("refusal"))
    );
}

#[test]
fn hooks_are_notified_of_questions_and_of_an_idle_session() {
    let folder = Folder::new("notify");
    let record = folder.record("input");
    let mut options =
        folder.options(&[("Notification", "", &record), ("Notification", "other", &record)]);
    options["idle_after"] = json!("1ms");
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.ask(&bash("t1", "ls"));
    talk.choose("once");
    talk.chosen();
    talk.wait_for(&folder, 1);
    talk.prompt("go");
    let prompt = talk.expect_prompt(&["go"]);
    talk.end_turn(&prompt);
    talk.receive("editor");
    let inputs = talk.wait_for(&folder, 2);
    let kinds: Vec<&Value> = inputs.iter().map(|it| &it["notification_type"]).collect();
    assert_eq!(kinds, ["permission_prompt", "idle_prompt"]);
    assert_eq!(inputs[0]["message"], "The agent asks for permission to use Bash");
}

#[test]
fn hooks_run_at_the_end_of_a_session_and_its_transcript_is_removed() {
    let folder = Folder::new("end");
    let record = folder.record("input");
    let mut talk = folder.session(&[("SessionEnd", "other", &record), ("Interrupt", "", &record)]);
    talk.send("editor", &json!({ "method": "session/cancel", "params": { "sessionId": "s" } }));
    talk.receive("agent");
    talk.wait_for(&folder, 1);
    talk.exchange("editor", "session/close", &json!({ "sessionId": "s" }), &json!({}));
    let inputs = folder.inputs("input");
    assert_eq!(inputs.len(), 2);
    assert_eq!(inputs[0]["hook_event_name"], "Interrupt");
    assert_eq!(
        (&inputs[1]["hook_event_name"], &inputs[1]["reason"]),
        (&json!("SessionEnd"), &json!("other"))
    );
    let transcript = inputs[1]["transcript_path"].as_str().unwrap();
    assert!(!Path::new(transcript).exists(), "{transcript}");
}

#[test]
fn cancelling_a_turn_ends_the_hooks_that_hold_it() {
    let folder = Folder::new("cancel");
    let command = format!("{}; sleep 600", folder.record("input"));
    let mut talk =
        folder.session(&[("UserPromptSubmit", "", &command), ("PreToolUse", "", &command)]);
    talk.prompt("go");
    talk.wait_for(&folder, 1);
    talk.send("editor", &json!({ "method": "session/cancel", "params": { "sessionId": "s" } }));
    assert_eq!(talk.receive("editor")["result"]["stopReason"], "cancelled");
    assert_eq!(talk.receive("agent")["method"], "session/cancel");
}

#[test]
fn compactions_that_the_agent_reports_run_hooks() {
    let folder = Folder::new("compact");
    let record = folder.record("input");
    let mut talk = folder.session(&[("PreCompact", "auto", &record), ("PostCompact", "", &record)]);
    talk.update(&json!({ "sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress" }));
    talk.receive("editor");
    talk.wait_for(&folder, 1);
    let summary = json!([{ "type": "text", "text": "in short" }]);
    talk.update(&json!({ "sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed", "summary": summary }));
    talk.receive("editor");
    let inputs = talk.wait_for(&folder, 2);
    assert_eq!(inputs[0]["hook_event_name"], "PreCompact");
    assert_eq!(inputs[1]["compact_summary"], "in short");
}
