//! The end of a tool call that waits for answers: by the user, the agent, the editor or the time.

use serde_json::{Value, json};

use super::{FULL, LATE, Talk};

fn call_update(status: &str) -> Value {
    let update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "mcp.walkthrough.present_walkthrough", "status": status });
    json!({ "method": "session/update", "params": { "sessionId": "s", "update": update } })
}

#[test]
fn the_wait_ends_with_the_panel_the_button_the_turn_and_the_time() {
    let mut talk = Talk::new("ends", &[], FULL, 1);
    let short = json!({ "title": "T", "sections": [{ "question": { "text": "Why?" } }, { "question": { "text": "How?" } }] });
    talk.present(short.clone());
    let panel = talk.editor_answers("_scp/html_panel/show");
    talk.event(&panel, "q2-text", "input", "so");
    let closed = json!({ "method": "_scp/html_panel/closed", "params": { "id": panel["id"] } });
    talk.send("editor", closed.clone());
    let text = "The user has closed the walkthrough.\n1. Why?\n   Answer: (no answer)\n2. How?\n   Answer: so";
    assert_eq!(talk.result_text(), text);
    // Nothing waits any more.
    talk.send("editor", closed);

    talk.present(short.clone());
    let panel = talk.editor_answers("_scp/html_panel/show");
    talk.event(&panel, "done", "click", "");
    talk.editor_answers("_scp/html_panel/show");
    assert!(talk.result_text().starts_with("The user has read the walkthrough."));

    // What is written in the fields comes with the button. A text does not replace a choice.
    let question = json!({ "text": "Which?", "choices": ["a", "b"], "free_text": true });
    let questions = json!([{ "question": question }, { "question": { "text": "Why?" } }, { "question": { "text": "How?" } }]);
    talk.present(json!({ "title": "T", "sections": questions }));
    let panel = talk.editor_answers("_scp/html_panel/show");
    talk.event(&panel, "q1", "choice", "b");
    let inputs = json!({ "q1-text": "but later", "q2-text": "because", "q3-text": " ", "x": "y" });
    let click = json!({ "id": panel["id"], "widget": "done", "kind": "click", "inputs": inputs });
    talk.send("editor", json!({ "method": "_scp/html_panel/event", "params": click }));
    talk.editor_answers("_scp/html_panel/show");
    let text = "The user has answered.\n1. Which?\n   Answer: b; but later\n2. Why?\n   Answer: because\n3. How?\n   Answer: (no answer)";
    assert_eq!(talk.result_text(), text);

    // The turn is cancelled: what the user has answered is kept.
    talk.present(short.clone());
    let panel = talk.editor_answers("_scp/html_panel/show");
    talk.event(&panel, "q1-text", "input", "because");
    talk.send("editor", json!({ "method": "session/cancel", "params": { "sessionId": "s" } }));
    assert_eq!(talk.conversation.receive("agent")["method"], "session/cancel");
    assert!(talk.result_text().contains("was cancelled"));
    assert_eq!(talk.prompt("s", "x").len(), 2);

    // The agent cancels the call.
    let id = talk.present(short.clone());
    talk.editor_answers("_scp/html_panel/show");
    talk.send("agent", json!({ "method": "$/cancel_request", "params": { "requestId": id } }));
    assert!(talk.result_text().contains("was cancelled"));

    let mut talk = Talk::new("ends2", &["--wait", "1ms"], FULL, 1);
    talk.present(short.clone());
    talk.editor_answers("_scp/html_panel/show");
    let text = talk.result_text();
    assert!(text.starts_with("The user has not finished within 1ms."), "{text}");
    // It does not wait if that is not wanted, or not allowed.
    let mut quick = short.clone();
    quick["wait"] = json!(false);
    talk.present(quick);
    talk.editor_answers("_scp/html_panel/show");
    let text =
        "The walkthrough is shown in a panel. What the user answers is added to the next prompt.";
    assert_eq!(talk.result_text(), text);
    let mut talk = Talk::new("ends3", &["--wait", "0s"], FULL, 1);
    talk.present(short);
    talk.editor_answers("_scp/html_panel/show");
    assert_eq!(talk.result_text(), text);
}

/// The first text answers the last open question. The second one is still a part of the result.
#[test]
fn all_answers_of_one_click_are_in_the_result() {
    let mut talk = Talk::new("one-click", &[], FULL, 1);
    let which = json!({ "text": "Which?", "choices": ["a", "b"], "free_text": true });
    let questions = json!([{ "question": { "text": "Why?" } }, { "question": which }]);
    talk.present(json!({ "title": "T", "sections": questions }));
    let panel = talk.editor_answers("_scp/html_panel/show");
    talk.event(&panel, "q2", "choice", "b");
    let inputs = json!({ "q1-text": "because", "q2-text": "but later" });
    let click = json!({ "id": panel["id"], "widget": "done", "kind": "click", "inputs": inputs });
    let click = json!({ "method": "_scp/html_panel/event", "params": click });
    talk.send("editor", click.clone());
    talk.editor_answers("_scp/html_panel/show");
    let text =
        "The user has answered.\n1. Why?\n   Answer: because\n2. Which?\n   Answer: b; but later";
    assert_eq!(talk.result_text(), text);
    assert_eq!(talk.prompt("s", "x"), ["x"]);
    // When no call waits, all of them wait for the next prompt.
    talk.send("editor", click);
    assert_eq!(talk.shown_text(), LATE);
    let texts = talk.prompt("s", "x");
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].ends_with(": because") && texts[1].ends_with(": but later"), "{texts:?}");
}

/// A panel that the user has closed does not count, and its comments are removed, except for those with replies.
#[test]
fn a_walkthrough_is_over_when_the_user_closes_its_panel() {
    let mut talk = Talk::new("closed", &[], FULL, 1);
    for number in 0..20 {
        let code = json!([
            { "path": "src/a.rs", "line": 1, "comment": "one" },
            { "path": "src/a.rs", "line": 2, "comment": "two" },
        ]);
        let title = format!("T{number}");
        talk.present(json!({ "title": title, "sections": [{ "code": code }] }));
        let panel = talk.editor_answers("_scp/html_panel/show");
        let [first, second] =
            [0, 1].map(|_| talk.editor_answers("_scp/file_comment/show")["id"].clone());
        assert_eq!(talk.result()["structuredContent"]["status"], "shown");
        talk.reply(&second, "Why?");
        assert_eq!(talk.shown_text(), LATE);
        let closed = json!({ "id": panel["id"] });
        talk.send("editor", json!({ "method": "_scp/html_panel/closed", "params": closed }));
        assert_eq!(talk.editor_answers("_scp/file_comment/clear")["id"], first);
        talk.reply(&second, "And how?");
        assert_eq!(talk.prompt("s", "x").len(), 3);
        // The agent can still remove it.
        if number % 2 == 0 {
            talk.call("close_walkthrough", json!({ "title": title }));
            assert_eq!(talk.editor_answers("_scp/file_comment/clear")["id"], second);
            talk.editor_answers("_scp/html_panel/clear");
            assert!(talk.result_text().contains("is closed"));
        }
    }
    // A walkthrough with the same title removes it as well.
    talk.present(json!({ "title": "T1", "sections": [{ "markdown": "x" }] }));
    talk.editor_answers("_scp/file_comment/clear");
    talk.editor_answers("_scp/html_panel/show");
    talk.result();
}

#[test]
fn the_chat_says_once_before_each_prompt_that_late_answers_wait_for_it() {
    let mut talk = Talk::new("late", &[], FULL, 1);
    let code = json!([{ "path": "src/a.rs", "line": 1, "comment": "c" }]);
    talk.present(json!({ "title": "T", "sections": [{ "code": code }] }));
    let panel = talk.editor_answers("_scp/html_panel/show");
    let comment = talk.editor_answers("_scp/file_comment/show");
    talk.result();
    for _ in 0..2 {
        talk.reply(&comment["id"], "Why?");
        assert_eq!(talk.shown_text(), LATE);
        talk.reply(&comment["id"], "And how?");
        // The editor receives nothing before this.
        talk.call("close_walkthrough", json!({ "title": "other" }));
        assert_ne!(talk.editor_answers("_scp/html_panel/clear")["id"], panel["id"]);
        talk.result();
        assert_eq!(talk.prompt("s", "x").len(), 3);
    }
}

/// The MCP client of the agent has its own timeout, and does not cancel the call. The agent only reports that it failed.
#[test]
fn an_answer_after_the_agent_has_given_up_is_in_the_next_prompt() {
    for ending in ["failed", "the turn"] {
        let mut talk = Talk::new("gave-up", &[], FULL, 1);
        let prompt = json!([{ "type": "text", "text": "go" }]);
        let params = json!({ "sessionId": "s", "prompt": prompt });
        talk.send("editor", json!({ "id": 9, "method": "session/prompt", "params": params }));
        let turn = talk.conversation.receive("agent")["id"].clone();
        talk.send("agent", call_update("in_progress"));
        talk.conversation.receive("editor");
        talk.present(json!({ "title": "T", "sections": [{ "question": { "text": "Why?" } }, { "question": { "text": "How?" } }] }));
        let panel = talk.editor_answers("_scp/html_panel/show");
        talk.event(&panel, "q1-text", "input", "because");
        let end = json!({ "id": turn, "result": { "stopReason": "end_turn" } });
        if ending == "failed" {
            talk.send("agent", call_update("failed"));
            talk.conversation.receive("editor");
        } else {
            talk.send("agent", end.clone());
            talk.conversation.receive("editor");
        }
        assert!(talk.result_text().contains("cancelled"), "nobody reads it");
        talk.event(&panel, "q2-text", "input", "so");
        if ending == "failed" {
            talk.send("agent", end);
            talk.conversation.receive("editor");
        }
        let texts = talk.prompt("s", "x");
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[0].contains("because") && texts[1].ends_with(": so"), "{texts:?}");
    }
}

/// Two calls at the same time: the report about one of them does not end the wait of the other one.
#[test]
fn a_report_about_another_call_does_not_end_a_wait() {
    let mut talk = Talk::new("two-calls", &[], FULL, 1);
    let of = |id: &str, status: &str| {
        let mut update = call_update(status);
        update["params"]["update"]["toolCallId"] = json!(id);
        update
    };
    for id in ["one", "two"] {
        talk.send("agent", of(id, "in_progress"));
        talk.conversation.receive("editor");
    }
    talk.present(json!({ "title": "T", "sections": [{ "question": { "text": "Why?" } }] }));
    let panel = talk.editor_answers("_scp/html_panel/show");
    talk.send("agent", of("one", "completed"));
    talk.conversation.receive("editor");
    talk.event(&panel, "q1-text", "input", "because");
    talk.editor_answers("_scp/html_panel/show");
    assert!(talk.result_text().contains("because"));
}

#[test]
fn an_editor_that_does_not_answer_is_asked_once_and_not_after_the_call() {
    let places: Vec<Value> =
        (1..=3).map(|line| json!({ "path": "src/a.rs", "line": line, "comment": "c" })).collect();
    let tour = json!({ "title": "T", "sections": [{ "code": places }] });
    let mut talk = Talk::new("silent", &[], FULL, 1);
    let id = talk.present(tour.clone());
    talk.editor_answers("_scp/html_panel/show");
    let asked = talk.conversation.receive("editor");
    assert_eq!(asked["method"], "_scp/file_comment/show");
    talk.send("agent", json!({ "method": "$/cancel_request", "params": { "requestId": id } }));
    let cancelled = talk.conversation.receive("editor");
    assert_eq!(cancelled["method"], "$/cancel_request", "the editor is asked for nothing more");
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    assert!(talk.result_text().contains("before the whole walkthrough was shown"));
}
