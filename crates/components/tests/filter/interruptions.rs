//! What is shown when another message interrupts a text, and when a text ends.

use serde_json::{Value, json};

use super::streams::with_id;
use super::{GITHUB, Talk, kinds, said};

fn output(call: &str, text: &str, status: &str) -> Value {
    json!({ "sessionUpdate": "tool_call_update", "toolCallId": call, "status": status,
        "_meta": { "terminal_output_delta": { "data": text, "terminal_id": call } } })
}

/// The output of a call, joined.
fn shown_output(received: &[Value], call: &str) -> String {
    let own = received.iter().map(|it| &it["params"]["update"]);
    let own = own.filter(|it| it["toolCallId"] == call);
    own.filter_map(|it| it["_meta"]["terminal_output_delta"]["data"].as_str()).collect()
}

#[test]
fn the_rest_of_a_secret_stays_hidden_beside_many_other_texts() {
    // Calls that are over are forgotten, and their texts do not displace others.
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx1aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0\n";
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    talk.say("s", &format!("tok {}", &GITHUB[..8]));
    talk.update("s", output("key", key, "in_progress"));
    for number in 0..100 {
        talk.update("s", output(&format!("c{number}"), "done\n", "completed"));
    }
    talk.say("s", &format!("{} ok", &GITHUB[8..]));
    let rest = format!("{}\n-----END RSA PRIVATE KEY-----\n$ ", &key[32..]);
    talk.update("s", output("key", &rest, "in_progress"));
    let received = talk.received("editor");
    assert_eq!(said(&received), format!("tok {}[redacted:github] ok", &GITHUB[..8]));
    assert_eq!(shown_output(&received, "key"), "[redacted:private-key]\n$ ");
    // More calls at once than are remembered.
    for count in [9, 100] {
        let mut talk = Talk::new();
        let request = talk.prompt("s", "hi");
        for number in 0..count {
            let text = format!("tok {}", &GITHUB[..14]);
            talk.update("s", output(&format!("c{number}"), &text, "in_progress"));
        }
        for number in 0..count {
            let text = format!("{}\n", &GITHUB[14..]);
            talk.update("s", output(&format!("c{number}"), &text, "in_progress"));
        }
        talk.end(&request);
        let received = talk.received("editor");
        for number in 0..count {
            let shown = shown_output(&received, &format!("c{number}"));
            let is_hidden = ["tok [redacted:github]", "tok [redacted:github][redacted:rest]"];
            assert!(is_hidden.contains(&shown.trim_end()), "{number} of {count}: {shown}");
        }
    }
}

#[test]
fn complete_matches_of_short_patterns_are_hidden_at_an_interruption() {
    let options = ["--pattern", "EMP-[0-9]{4}", "--pattern", "BLUEBIRD"];
    let mut talk = Talk::with(&options);
    let request = talk.prompt("s", "hi");
    talk.update(
        "s",
        json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "look up EMP-1234",
            "status": "pending", "rawInput": { "id": "EMP-1234" }, "rawOutput": "EMP-1234" }),
    );
    let shown = talk.one("editor").to_string();
    assert!(!shown.contains("EMP-1"), "{shown}");
    for text in ["it is EMP-1234", "BLUEBIRD"] {
        talk.say("s", text);
        talk.update("s", json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }));
    }
    talk.say("s", " Codename ");
    talk.say("s", "BLUEBIRD");
    talk.end(&request);
    let expected =
        "it is [redacted:pattern][redacted:pattern] Codename [redacted:pattern]".to_owned();
    assert_eq!(said(&talk.received("editor")), expected);
    let output = json!({ "result": { "output": "the name is BLUEBIRD", "truncated": false } });
    let params = json!({ "sessionId": "s", "terminalId": "t" });
    let answer = talk.ask("terminal/output", params, &output);
    assert_eq!(answer["result"]["output"], "the name is [redacted:pattern]");
}

#[test]
fn ordinary_words_and_allowed_texts_stay_at_an_interruption() {
    let mut talk = Talk::with(&["--allow", GITHUB]);
    talk.prompt("s", "hi");
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "pip install sk-learn",
        "status": "pending", "rawInput": { "a": "sk-learn", "b": GITHUB }, "content": [
            { "type": "content", "content": { "type": "text", "text": GITHUB } }] });
    talk.update("s", call.clone());
    assert_eq!(talk.one("editor")["params"]["update"], call);
    talk.say("s", &GITHUB[..15]);
    talk.say("s", &GITHUB[15..]);
    talk.update("s", json!({ "sessionUpdate": "plan", "entries": [] }));
    assert_eq!(said(&talk.received("editor")), GITHUB);
    // The end of a call decides about its text.
    talk.update("s", output("k", "pip install sk-learnings", "in_progress"));
    talk.update(
        "s",
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "k", "status": "completed" }),
    );
    assert_eq!(shown_output(&talk.received("editor"), "k"), "pip install sk-learnings");
}

#[test]
fn a_key_without_its_end_does_not_hide_the_next_messages() {
    let mut talk = Talk::new();
    let request = talk.prompt("s", "hi");
    let begin = "It begins:\n-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx1\n(cut)\n";
    talk.update("s", with_id("agent_message_chunk", "a", begin));
    talk.update("s", json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "x" }));
    let more = ["I have fixed the bug in main.rs. ", "All tests pass."];
    talk.update("s", with_id("agent_message_chunk", "b", more[0]));
    talk.update("s", with_id("agent_message_chunk", "c", more[1]));
    talk.end(&request);
    let expected = format!("It begins:\n[redacted:private-key]{}", more.concat());
    assert_eq!(said(&talk.received("editor")), expected);
}

#[test]
fn a_question_without_a_session_comes_after_the_text_before_it() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    talk.say("s", "hello ghp_a");
    let params = json!({ "message": "?", "mode": "form", "requestedSchema": {} });
    talk.send("agent", &json!({ "id": "e", "method": "elicitation/create", "params": params }));
    let received = talk.received("editor");
    assert_eq!(kinds(&received)[1..], ["agent_message_chunk", "elicitation/create"]);
}

#[test]
fn an_embedded_file_in_chunks_is_a_stream() {
    let mut talk = Talk::new();
    let request = talk.prompt("s", "hi");
    for text in [&GITHUB[..20], &GITHUB[20..]] {
        let resource = json!({ "type": "resource", "resource": { "uri": "a:b", "text": text } });
        talk.update("s", json!({ "sessionUpdate": "agent_message_chunk", "content": resource }));
    }
    talk.end(&request);
    let received = talk.received("editor");
    let texts = received.iter().map(|it| &it["params"]["update"]["content"]["resource"]["text"]);
    assert_eq!(texts.filter_map(Value::as_str).collect::<String>(), "[redacted:github]");
}
