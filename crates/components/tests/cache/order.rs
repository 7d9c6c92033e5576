//! Cancelled turns, and messages in another order than in the recording.

use std::path::Path;

use serde_json::json;

use crate::{Talk, cache, file, new_session, prompt, record, replay_agent, replay_edit, update};

/// Begins to record a session `s`.
fn start_recording(path: &Path) -> Talk {
    let mut talk = Talk::new(cache("record", path, &[]), true);
    talk.greet(1);
    talk.send("session/new", new_session("/w"));
    let request = talk.agent_receives("session/new");
    talk.agent_answers(&request, json!({ "sessionId": "s" }));
    talk.editor_receives();
    talk
}

#[test]
fn a_turn_that_the_recording_continues_otherwise_ends_with_an_error() {
    let path = file("course");
    record(&path, "yes");
    let mut talk = Talk::new(replay_agent(&path, &["--wait", "1ms"]), false);
    talk.greet(1);
    let session = replay_edit(&mut talk, "/w");
    let id = talk.send("session/prompt", prompt(&session, "wait"));
    talk.editor_receives();
    let answer = talk.editor_receives();
    assert_eq!(answer["id"], id);
    let why = answer["error"]["message"].to_string();
    assert!(why.contains("goes on after session/cancel, which did not come"), "{why}");
}

/// A turn that was not cancelled in the recording can be cancelled in a replay that takes its time.
#[test]
fn a_replayed_turn_can_be_cancelled() {
    let path = file("cancel");
    let mut talk = start_recording(&path);
    talk.send("session/prompt", prompt("s", "count"));
    let request = talk.agent_receives("session/prompt");
    for number in 0..50 {
        talk.agent_sends(update("s", &number.to_string()));
        talk.editor_receives();
    }
    talk.agent_answers(&request, json!({ "stopReason": "end_turn" }));
    talk.editor_receives();
    drop(talk);

    let mut talk = Talk::new(replay_agent(&path, &["--pace", "20ms"]), false);
    talk.greet(1);
    talk.send("session/new", new_session("/w"));
    let session = talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
    let id = talk.send("session/prompt", prompt(&session, "count"));
    assert_eq!(talk.editor_receives(), update(&session, "0"));
    talk.notify("session/cancel", json!({ "sessionId": session }));
    let mut count = 1;
    let answer = loop {
        match talk.editor_receives() {
            message if message["id"] == id => break message,
            _ => count += 1,
        }
    };
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert!(count < 50, "{count}");
    // A cancellation outside of a turn means nothing.
    talk.notify("session/cancel", json!({ "sessionId": session }));
    talk.send("session/prompt", prompt(&session, "count"));
    let why = talk.editor_receives()["error"]["message"].to_string();
    assert!(why.contains("the turn before was cancelled, but not in the recording"), "{why}");
}

/// The editor cancels a turn in which the agent waits for an answer, in either order of the two messages.
#[test]
fn a_turn_is_cancelled_while_the_agent_waits_for_an_answer() {
    let path = file("cancel-question");
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    let ask = json!({ "id": 1, "method": "session/request_permission", "params": { "sessionId": "s", "toolCall": { "toolCallId": "c" }, "options": [] } });
    let mut talk = start_recording(&path);
    talk.send("session/prompt", prompt("s", "edit"));
    let request = talk.agent_receives("session/prompt");
    talk.agent_sends(ask);
    let question = talk.editor_receives();
    talk.notify("session/cancel", json!({ "sessionId": "s" }));
    talk.conversation.receive("agent");
    talk.editor_answers(&question, cancelled.clone());
    talk.conversation.receive("agent");
    talk.agent_sends(update("s", "stopped"));
    talk.agent_answers(&request, json!({ "stopReason": "cancelled" }));
    talk.editor_receives();
    talk.editor_receives();
    drop(talk);
    for cancel_first in [true, false] {
        let mut talk = Talk::new(replay_agent(&path, &[]), false);
        talk.greet(1);
        talk.send("session/new", new_session("/w"));
        let session =
            talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
        let id = talk.send("session/prompt", prompt(&session, "edit"));
        let question = talk.editor_receives();
        if cancel_first {
            talk.notify("session/cancel", json!({ "sessionId": session }));
        }
        talk.editor_answers(&question, cancelled.clone());
        if !cancel_first {
            talk.notify("session/cancel", json!({ "sessionId": session }));
        }
        assert_eq!(talk.editor_receives(), update(&session, "stopped"));
        assert_eq!(
            talk.editor_receives(),
            json!({ "id": id, "result": { "stopReason": "cancelled" } })
        );
    }
}

/// Answers may arrive in another order than in the recording, and a prompt before an answer.
#[test]
fn the_order_of_answers_does_not_matter() {
    let path = file("order");
    let ask = |id: u64, path: &str| json!({ "id": id, "method": "fs/read_text_file", "params": { "sessionId": "s", "path": path } });
    let mut talk = start_recording(&path);
    talk.agent_sends(ask(1, "/early"));
    let early = talk.editor_receives();
    talk.send("session/prompt", prompt("s", "read"));
    let request = talk.agent_receives("session/prompt");
    talk.agent_sends(ask(2, "/two"));
    talk.agent_sends(ask(3, "/three"));
    let (two, three) = (talk.editor_receives(), talk.editor_receives());
    for question in [&three, &early, &two] {
        let content = question["params"]["path"].clone();
        talk.editor_answers(question, json!({ "content": content }));
        talk.conversation.receive("agent");
    }
    talk.agent_answers(&request, json!({ "stopReason": "end_turn" }));
    talk.editor_receives();
    drop(talk);

    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    talk.send("session/new", new_session("/w"));
    let session = talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
    let early = talk.editor_receives();
    talk.editor_answers(&early, json!({ "content": "/early" }));
    let id = talk.send("session/prompt", prompt(&session, "read"));
    for _ in 0..2 {
        let question = talk.editor_receives();
        let content = question["params"]["path"].clone();
        talk.editor_answers(&question, json!({ "content": content }));
    }
    assert_eq!(talk.editor_receives(), json!({ "id": id, "result": { "stopReason": "end_turn" } }));
}

/// The recording has the same prompt with and without a cancellation, in either order. Without one, the turn is replayed
/// to its end. A second cancellation means nothing.
#[test]
fn a_cancelled_turn_does_not_hide_the_one_that_ends() {
    for cancel_first in [true, false] {
        let path = file(&format!("cancel-and-end-{cancel_first}"));
        let mut talk = start_recording(&path);
        for is_cancelled in [cancel_first, !cancel_first] {
            let session = if is_cancelled == cancel_first { "s" } else { "t" };
            if session == "t" {
                talk.send("session/new", new_session("/w"));
                let request = talk.agent_receives("session/new");
                talk.agent_answers(&request, json!({ "sessionId": "t" }));
                talk.editor_receives();
            }
            talk.send("session/prompt", prompt(session, "work"));
            let request = talk.agent_receives("session/prompt");
            talk.agent_sends(update(session, "begin"));
            talk.editor_receives();
            let stop_reason = if is_cancelled { "cancelled" } else { "end_turn" };
            for _ in 0..if is_cancelled { 2 } else { 0 } {
                talk.notify("session/cancel", json!({ "sessionId": session }));
                talk.conversation.receive("agent");
            }
            talk.agent_sends(update(session, stop_reason));
            talk.agent_answers(&request, json!({ "stopReason": stop_reason }));
            talk.editor_receives();
            talk.editor_receives();
        }
        drop(talk);
        let mut talk = Talk::new(replay_agent(&path, &[]), false);
        talk.greet(1);
        talk.send("session/new", new_session("/w"));
        let session =
            talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
        let id = talk.send("session/prompt", prompt(&session, "work"));
        assert_eq!(talk.editor_receives(), update(&session, "begin"));
        assert_eq!(talk.editor_receives(), update(&session, "end_turn"));
        assert_eq!(
            talk.editor_receives(),
            json!({ "id": id, "result": { "stopReason": "end_turn" } })
        );
        // A late cancellation is not the recorded one.
        talk.notify("session/cancel", json!({ "sessionId": session }));
        talk.send("session/close", json!({ "sessionId": session }));
        assert_eq!(talk.editor_receives()["result"], json!({}));
    }
}

/// The agent withdraws a request. In a replay, the editor sees the same, and its answer means nothing.
#[test]
fn a_withdrawn_request_is_withdrawn_in_a_replay() {
    let path = file("withdrawn");
    let ask = json!({ "sessionId": "s", "toolCall": { "toolCallId": "c" }, "options": [] });
    let read = json!({ "sessionId": "s", "path": "/w/a" });
    let mut talk = start_recording(&path);
    talk.send("session/prompt", prompt("s", "ask"));
    let request = talk.agent_receives("session/prompt");
    talk.agent_sends(json!({ "id": 1, "method": "session/request_permission", "params": ask }));
    let question = talk.editor_receives();
    talk.agent_sends(json!({ "id": 2, "method": "fs/read_text_file", "params": read }));
    let file = talk.editor_receives();
    talk.editor_answers(&file, json!({ "content": "a" }));
    talk.conversation.receive("agent");
    talk.agent_sends(json!({ "method": "$/cancel_request", "params": { "requestId": 1 } }));
    assert_eq!(talk.editor_receives()["method"], "$/cancel_request");
    talk.editor_answers(&question, json!({ "outcome": { "outcome": "cancelled" } }));
    talk.conversation.receive("agent");
    talk.agent_sends(update("s", "withdrawn"));
    talk.editor_receives();
    talk.agent_answers(&request, json!({ "stopReason": "end_turn" }));
    talk.editor_receives();
    drop(talk);

    let mut talk = Talk::new(replay_agent(&path, &[]), false);
    talk.greet(1);
    talk.send("session/new", new_session("/w"));
    let session = talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
    let id = talk.send("session/prompt", prompt(&session, "ask"));
    let question = talk.editor_receives();
    assert_eq!(question["method"], "session/request_permission");
    let file = talk.editor_receives();
    talk.editor_answers(&file, json!({ "content": "a" }));
    assert_eq!(talk.editor_receives()["method"], "$/cancel_request");
    assert_eq!(talk.editor_receives(), update(&session, "withdrawn"));
    assert_eq!(talk.editor_receives(), json!({ "id": id, "result": { "stopReason": "end_turn" } }));
    talk.editor_answers(&question, json!({ "outcome": { "outcome": "cancelled" } }));
    talk.send("session/close", json!({ "sessionId": session }));
    assert_eq!(talk.editor_receives()["result"], json!({}));
}
