//! Editors without panels, without comments, with SCP 1.0, and those that refuse.

use serde_json::json;

use super::{FULL, Talk, tour};

#[test]
fn an_editor_without_panels_gets_the_walkthrough_in_the_chat() {
    for version in [1, 2] {
        let mut talk = Talk::new(&format!("chat{version}"), &[], "null", version);
        talk.present(tour());
        let update = talk.conversation.receive("editor");
        let text = update["params"]["update"]["content"]["text"].as_str().expect("a text");
        assert_eq!(
            text,
            "\n\n# A & B\n\n## How <it> works\n\nSee **a** and <script>x</script>.\n\n`src/a.rs:1-2`\n\n```rust\nfn a() {\n    b(\"<\");\n```\n\nIt *begins* here.\n\n```diff\n-a\n+b\n```\n\n```mermaid\ngraph TD; A-->B\n```\n\n**Question 1:** Which one?\n\n- a) the \"first\"\n- b) the second\n\n"
        );
        let result = talk.result();
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert!(text.contains("The user answers the questions in the chat"), "{text}");
        assert_eq!(result["structuredContent"]["status"], "in_chat");
    }
}

/// Nothing can be closed there, so there is no limit.
#[test]
fn a_chat_takes_any_number_of_walkthroughs() {
    let comments = r#"{"version":"1.1","file_comment":true}"#;
    for symposium in ["null", r#"{"version":"1.0","html_panel":true}"#, comments] {
        let mut talk = Talk::new("any-number", &[], symposium, 1);
        let mut shown = Vec::new();
        for number in 0..80 {
            let code = json!([{ "path": "src/a.rs", "line": 1, "comment": "c" }]);
            let title = number.to_string();
            talk.present(json!({ "title": title, "sections": [{ "code": code }] }));
            // The comments of the oldest ones are removed.
            if symposium == comments && number >= 64 {
                assert_eq!(
                    talk.editor_answers("_scp/file_comment/clear")["id"],
                    shown[number - 64]
                );
            }
            let first = talk.conversation.receive("editor");
            if first["method"] == "_scp/html_panel/show" {
                talk.send("editor", json!({ "id": first["id"], "result": {} }));
            }
            if symposium == comments {
                shown.push(talk.editor_answers("_scp/file_comment/show")["id"].clone());
            }
            assert_eq!(talk.result()["isError"], json!(null), "{number}");
        }
    }
}

/// An editor that shows nothing outside of a turn shows it when the next turn begins.
#[test]
fn an_editor_without_late_updates_says_at_the_prompt_that_answers_go_with_it() {
    let mut talk = Talk::new("late-updates", &[], FULL, 1);
    let info = json!({ "name": "agent-shell", "version": "1" });
    talk.greet_as(&info);
    talk.open("s");
    talk.present(
        json!({ "title": "T", "wait": false, "sections": [{ "question": { "text": "Why?" } }] }),
    );
    let panel = talk.editor_answers("_scp/html_panel/show");
    talk.result();
    talk.event(&panel, "q1-text", "input", "so");
    let params = json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": "x" }] });
    talk.send("editor", json!({ "id": 99, "method": "session/prompt", "params": params }));
    let text = talk.shown_text();
    assert!(
        text.contains("What you have answered before goes to the agent with this prompt"),
        "{text}"
    );
    assert_eq!(talk.agent_answers_prompt("s").len(), 2);
}

#[test]
fn panels_and_comments_are_mixed_as_far_as_the_editor_can() {
    // Comments without panels.
    let mut talk = Talk::new("mix1", &[], r#"{"version":"1.1","file_comment":true}"#, 1);
    talk.present(tour());
    assert_eq!(talk.conversation.receive("editor")["method"], "session/update");
    let comment = talk.editor_answers("_scp/file_comment/show");
    assert!(talk.result_text().contains("in the chat, and as comments on the code"));
    talk.reply(&comment["id"], "Yes");
    assert_eq!(talk.prompt("s", "x")[0], "The user replied to your comment on src/a.rs:1-2: Yes");
    // Panels of SCP 1.0 have no events, and its comments have no text and no replies.
    let old = r#"{"version":"1.0","html_panel":true,"file_comment":true}"#;
    let mut talk = Talk::new("mix2", &[], old, 1);
    talk.present(tour());
    let panel = talk.editor_answers("_scp/html_panel/show");
    let html = panel["contents"].as_str().expect("HTML");
    assert!(!html.contains("data-widget") && html.contains("Answer in the chat."), "{html}");
    let comment = talk.editor_answers("_scp/file_comment/show");
    assert_eq!(comment["start"], json!({ "line": 1 }));
    assert_eq!((&comment["end"], &comment["can_reply"]), (&json!({ "line": 2 }), &json!(false)));
    let text = talk.result_text();
    assert!(
        text.contains("as comments on the code. The user answers the questions in the chat"),
        "{text}"
    );
    // Its comments alone: nobody can reply, so nothing waits.
    let mut talk = Talk::new("mix4", &[], r#"{"version":"1.0","file_comment":true}"#, 1);
    let code = json!([{ "path": "src/a.rs", "line": 1, "comment": "c" }]);
    talk.present(json!({ "title": "T", "wait": true, "sections": [{ "code": code }] }));
    assert!(talk.shown_text().contains("src/a.rs:1"));
    talk.editor_answers("_scp/file_comment/show");
    assert_eq!(talk.result()["structuredContent"]["status"], "in_chat");
    talk.call("close_walkthrough", json!({ "title": "T" }));
    assert!(talk.result_text().contains("in the chat, where it stays"));
    // An editor that refuses the panel.
    let mut talk = Talk::new("mix3", &[], FULL, 1);
    talk.present(tour());
    let request = talk.conversation.receive("editor");
    talk.send(
        "editor",
        json!({ "id": request["id"], "error": { "code": -32602, "message": "full" } }),
    );
    assert_eq!(talk.conversation.receive("editor")["method"], "session/update");
    let comment = talk.editor_answers("_scp/file_comment/show");
    let text = talk.result_text();
    assert!(text.contains("answers the questions in the chat"), "{text}");
    assert!(text.contains("could not show the panel: full"), "{text}");
    talk.reply(&comment["id"], "Yes");
    assert_eq!(talk.prompt("s", "x").len(), 2);
}
