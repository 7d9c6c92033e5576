//! The streamed texts of sub-agents, which come in one session with the texts of the agent.

use serde_json::{Value, json};

use super::{GITHUB, NPM, Talk, chunk, kinds, said};

/// A chunk of a sub-agent, in the way of different agents.
fn of(meta: &Value, kind: &str, text: &str) -> Value {
    let mut update = chunk(kind, text);
    if !meta.is_null() {
        update["_meta"] = meta.clone();
    }
    update
}

fn writers() -> Vec<[Value; 2]> {
    vec![
        [
            json!({ "claudeCode": { "parentToolUseId": "toolu_1" } }),
            json!({ "claudeCode": { "parentToolUseId": "toolu_2" } }),
        ],
        [json!({ "claudeCode": { "parentToolUseId": "toolu_1" } }), Value::Null],
        [
            json!({ "parentToolCallId": "a", "subagentType": "explore" }),
            json!({ "parentToolCallId": "b", "subagentType": "explore" }),
        ],
        [json!({ "taskId": "a", "threadId": "t" }), json!({ "taskId": "b", "threadId": "t" })],
        [json!({ "sub-agent_name": "a" }), json!({ "sub-agent_name": "b" })],
        [json!({ "x": { "childSessionID": "a" } }), json!({ "x": { "childSessionID": "b" } })],
        [json!({ "x": { "agent": { "id": 1 } } }), json!({ "x": { "agent": { "id": 2 } } })],
        [json!({ "goose": { "messageId": "a" } }), json!({ "goose": { "messageId": "b" } })],
    ]
}

/// The text of the chunks with exactly this `_meta`.
fn said_by(received: &[Value], meta: &Value) -> String {
    let own = received.iter().filter(|it| it["params"]["update"]["_meta"] == *meta);
    said(&own.cloned().collect::<Vec<_>>())
}

#[test]
fn interleaved_chunks_of_sub_agents_do_not_mix() {
    for [one, other] in writers() {
        for kind in ["agent_message_chunk", "agent_thought_chunk"] {
            for size in [1, 3, 7, 20] {
                let mut talk = Talk::new();
                let request = talk.prompt("s", "hi");
                let words = "some-quite-long-words ".as_bytes().chunks(size).cycle();
                for (piece, word) in GITHUB.as_bytes().chunks(size).zip(words) {
                    talk.update("s", of(&one, kind, std::str::from_utf8(piece).unwrap()));
                    talk.update("s", of(&other, kind, std::str::from_utf8(word).unwrap()));
                }
                talk.update("s", of(&one, kind, " ok"));
                talk.end(&request);
                let received = talk.received("editor");
                let shown = said_by(&received, &one);
                let public = shown.strip_suffix("[redacted:github] ok");
                assert!(public.is_some_and(|it| it.len() <= 8), "{one}, {size}: {shown}");
                let words: String = "some-quite-long-words ".repeat(3);
                let shown = said_by(&received, &other);
                assert!(!shown.is_empty() && words.starts_with(&shown), "{other}, {size}: {shown}");
            }
        }
    }
}

#[test]
fn the_beginning_of_a_token_is_not_joined_with_the_text_of_another_sub_agent() {
    let rest = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6";
    let writers = writers();
    let (_, writers) = writers.split_last().expect("writers");
    for [one, other] in writers {
        let mut talk = Talk::new();
        let request = talk.prompt("s", "hi");
        talk.update("s", of(one, "agent_message_chunk", "prefix: ghp_"));
        talk.update("s", of(other, "agent_message_chunk", rest));
        talk.update("s", of(one, "agent_message_chunk", " is short"));
        talk.end(&request);
        let received = talk.received("editor");
        assert_eq!(said_by(&received, one), "prefix: ghp_ is short");
        assert_eq!(said_by(&received, other), rest);
    }
}

#[test]
fn held_text_keeps_the_marks_of_its_text() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    let meta = json!({ "claudeCode": { "parentToolUseId": "toolu_1" }, "usage": { "total": 5 },
        "traceparent": "00-1-2-01", "messageId": 7 });
    let mut update = of(&meta, "agent_message_chunk", "see ghp_a");
    update["messageId"] = "m".into();
    talk.update("s", update);
    talk.say("s", "Hello");
    let received = talk.received("editor");
    assert_eq!(kinds(&received), ["agent_message_chunk"; 3]);
    let mut expected = chunk("agent_message_chunk", "ghp_a");
    expected["messageId"] = "m".into();
    // The tokens were counted with the first part.
    expected["_meta"] = json!({ "claudeCode": { "parentToolUseId": "toolu_1" }, "messageId": 7 });
    assert_eq!(received[1]["params"]["update"], expected);
    assert_eq!(received[2]["params"]["update"], chunk("agent_message_chunk", "Hello"));
    let output = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": {
        "claudeCode": { "parentToolUseId": "toolu_1" },
        "terminal_output_delta": { "data": "abc ghp_a", "terminal_id": "t" }, "usage": 7 } });
    talk.update("s", output);
    talk.say("s", "Hello");
    let expected = json!({ "claudeCode": { "parentToolUseId": "toolu_1" },
        "terminal_output_delta": { "data": "ghp_a", "terminal_id": "t" } });
    assert_eq!(talk.received("editor")[1]["params"]["update"]["_meta"], expected);
}

/// `_meta` may stand in the notification, in the update and in its content.
#[test]
fn a_sub_agent_may_be_named_anywhere_in_a_notification() {
    let rest = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6";
    for place in ["", "/update", "/update/content"] {
        let mut talk = Talk::new();
        let request = talk.prompt("s", "hi");
        let texts = [
            ("1", "see ghp_"),
            ("2", rest),
            ("1", "."),
            ("1", &GITHUB[..20]),
            ("2", " "),
            ("1", &GITHUB[20..]),
        ];
        for (parent, text) in texts {
            let mut params =
                json!({ "sessionId": "s", "update": chunk("agent_message_chunk", text) });
            let object = params.pointer_mut(place).expect("an object");
            object["_meta"] = json!({ "claudeCode": { "parentToolUseId": parent } });
            talk.send("agent", &json!({ "method": "session/update", "params": params }));
        }
        talk.end(&request);
        let received = talk.received("editor");
        let of = |parent: &str| {
            let meta = |it: &Value| it["params"].pointer(place).map(|it| it["_meta"].clone());
            let expected = json!({ "claudeCode": { "parentToolUseId": parent } });
            let own = received.iter().filter(|it| meta(it).as_ref() == Some(&expected));
            said(&own.cloned().collect::<Vec<_>>())
        };
        assert_eq!(of("2"), format!("{rest} "), "{place}");
        assert_eq!(of("1"), "see ghp_.[redacted:github]", "{place}");
    }
}

/// Members of `_meta` that differ in each chunk do not cut a text.
#[test]
fn a_secret_in_chunks_with_other_marks_each_stays_hidden() {
    let names = ["messageId", "eventId", "traceparent", "created", "chunkId", "uuid", "agentTime"];
    let of_events = [
        "agentEventId",
        "agent_event_type",
        "subagentChunkId",
        "taskSequenceId",
        "session-request-id",
        "toolOutputId",
        "threadUuid",
        "parentId",
        "parentUuid",
    ];
    let metas: [fn(&str, usize) -> Value; 3] = [
        |name, number| json!({ "x": { name: format!("{number}") } }),
        |name, number| json!({ "agent": { "id": "a", name: number } }),
        |name, number| json!({ "agent": { "id": "a", "event": { "id": number, name: number } } }),
    ];
    for (name, meta) in names.into_iter().chain(of_events).flat_map(|it| metas.map(|of| (it, of))) {
        let mut talk = Talk::new();
        let request = talk.prompt("s", "hi");
        for (number, piece) in NPM.as_bytes().chunks(6).enumerate() {
            let piece = std::str::from_utf8(piece).unwrap();
            let meta = meta(name, number);
            talk.update("s", of(&meta, "agent_message_chunk", piece));
        }
        talk.end(&request);
        let shown = said(&talk.received("editor")).replace("[redacted:npm]", "");
        assert!(shown.len() <= 8, "{name}: {shown}");
    }
}

/// The updates of one tool call are one text, whether a sub-agent is named in them or not.
#[test]
fn the_output_of_a_tool_call_is_one_text() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    for (number, text) in [&GITHUB[..20], &GITHUB[20..], " ok"].iter().enumerate() {
        let mut meta = json!({ "terminal_output": { "data": text } });
        if number == 0 {
            meta["claudeCode"] = json!({ "parentToolUseId": "toolu_1" });
        }
        talk.update(
            "s",
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": meta }),
        );
    }
    let received = talk.received("editor");
    let data =
        received.iter().map(|it| &it["params"]["update"]["_meta"]["terminal_output"]["data"]);
    assert_eq!(data.filter_map(Value::as_str).collect::<String>(), "[redacted:github] ok");
}
