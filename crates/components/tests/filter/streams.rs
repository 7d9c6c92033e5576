//! Secrets in streamed texts.

use clap::Parser;
use components::filter::Filter;
use serde_json::{Value, json};

use super::{GITHUB, NPM, Talk, chunk, kinds, said};

/// Splits a text into pieces of this many characters.
fn pieces(text: &str, size: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(size).map(|it| it.iter().collect()).collect()
}

#[test]
fn a_secret_that_is_cut_anywhere_never_gets_through() {
    let text = format!("The token is {GITHUB}, é😀 and {NPM}.");
    for kind in ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"] {
        for size in 1..=20 {
            let mut talk = Talk::new();
            let request = talk.prompt("s", "hi");
            for piece in pieces(&text, size) {
                talk.update("s", chunk(kind, &piece));
            }
            talk.end(&request);
            let received = talk.received("editor");
            assert_eq!(said(&received), "The token is [redacted:github], é😀 and [redacted:npm].");
            assert_eq!(kinds(&received).last(), Some(&"answer"));
        }
    }
}

#[test]
fn ordinary_chunks_pass_at_once_and_unchanged() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    for text in ["Hello", " world, ", "one ", "word", ".", "waiting", " high", " tasks"] {
        talk.say("s", text);
        assert_eq!(talk.one("editor")["params"]["update"], chunk("agent_message_chunk", text));
    }
    // The beginning of a token waits for the next chunk.
    talk.say("s", " g");
    assert_eq!(said(&talk.received("editor")), " ");
    for text in ["hp_", "a"] {
        talk.say("s", text);
        assert_eq!(talk.received("editor"), [] as [Value; 0]);
    }
    talk.say("s", ".");
    assert_eq!(said(&talk.received("editor")), "ghp_a.");
}

#[test]
fn held_text_comes_before_whatever_ends_it() {
    // Nothing follows: it is too short for a token. A text that was cut off may be a part of one.
    let (whole, cut_off) = ("a ghp_aB3dE6gH", "a [redacted:github]");
    let ends: [(&str, Value); 5] = [
        (whole, json!({ "result": { "stopReason": "end_turn" } })),
        (whole, json!({ "result": { "stopReason": "refusal" } })),
        (cut_off, json!({ "result": { "stopReason": "cancelled" } })),
        (cut_off, json!({ "result": { "stopReason": "max_tokens" } })),
        (cut_off, json!({ "error": { "code": -32603, "message": "failed" } })),
    ];
    for (expected, end) in ends {
        let mut talk = Talk::new();
        let request = talk.prompt("s", "hi");
        talk.say("s", "a ghp_aB3dE6gH");
        let mut end = end;
        end["id"] = request["id"].clone();
        talk.send("agent", &end);
        let received = talk.received("editor");
        assert_eq!(kinds(&received), ["agent_message_chunk", "agent_message_chunk", "answer"]);
        assert_eq!(said(&received), expected);
    }
    for method in ["session/close", "session/delete"] {
        let mut talk = Talk::new();
        talk.prompt("s", "hi");
        talk.say("s", "a ghp_a");
        talk.send("editor", &json!({ "id": 5, "method": method, "params": { "sessionId": "s" } }));
        let request = talk.one("agent");
        assert_eq!(request["method"], method);
        talk.send("agent", &json!({ "id": request["id"], "result": {} }));
        assert_eq!(said(&talk.received("editor")), "a ghp_a");
    }
    let idle =
        json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" });
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    talk.say("s", "a ghp_aB3dE6gH");
    talk.update("s", idle);
    let received = talk.received("editor");
    assert_eq!(kinds(&received), ["agent_message_chunk", "agent_message_chunk", "state_update"]);
    assert_eq!(said(&received), "a ghp_aB3dE6gH");
}

/// Each message of the same session that could come in between.
#[test]
fn an_interrupted_secret_shows_at_most_four_characters_and_its_rest_stays_hidden() {
    for cut in 1..GITHUB.len() {
        let between: [Value; 5] = [
            json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "x" }),
            json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }),
            chunk("agent_thought_chunk", "hm"),
            json!({ "sessionUpdate": "plan", "entries": [] }),
            json!({ "sessionUpdate": "_x/y" }),
        ];
        for update in between {
            let mut talk = Talk::new();
            let request = talk.prompt("s", "hi");
            talk.say("s", &format!("is {}", &GITHUB[..cut]));
            talk.update("s", update.clone());
            let first = talk.received("editor");
            assert_eq!(first.last().unwrap()["params"]["update"], update, "order is kept");
            talk.say("s", &format!("{} ok", &GITHUB[cut..]));
            talk.end(&request);
            let mut all = first;
            all.pop();
            all.extend(talk.received("editor"));
            let text = said(&all);
            let shown = text
                .strip_suffix("[redacted:github] ok")
                .unwrap_or_else(|| text.strip_suffix(" ok").unwrap());
            let shown = shown.replace("[redacted:github]", "");
            assert!(
                shown.len() <= "is ghp_".len() + 4 && text.contains("[redacted:github]"),
                "{cut}: {text}"
            );
        }
    }
}

#[test]
fn a_request_of_the_agent_comes_after_the_text_before_it() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    talk.say("s", "reading the ghp_a");
    let params = json!({ "sessionId": "s", "path": "/a" });
    talk.send("agent", &json!({ "id": 3, "method": "fs/read_text_file", "params": params }));
    let received = talk.received("editor");
    assert_eq!(
        kinds(&received),
        ["agent_message_chunk", "agent_message_chunk", "fs/read_text_file"]
    );
    assert_eq!(said(&received), "reading the ghp_a");
}

#[test]
fn streams_of_two_sessions_do_not_mix() {
    let mut talk = Talk::new();
    let (one, two) = (talk.prompt("one", "hi"), talk.prompt("two", "hi"));
    for (left, right) in pieces(GITHUB, 3).iter().zip(pieces(NPM, 3)) {
        talk.say("one", left);
        talk.say("two", &right);
    }
    talk.end(&one);
    talk.end(&two);
    let received = talk.received("editor");
    let of = |session: &str| {
        let own = received.iter().filter(|it| it["params"]["sessionId"] == session);
        said(&own.cloned().collect::<Vec<_>>())
    };
    assert_eq!((of("one").as_str(), of("two").as_str()), ("[redacted:github]", "[redacted:npm]"));
}

pub(super) fn with_id(kind: &str, id: &str, text: &str) -> Value {
    let mut update = chunk(kind, text);
    update["messageId"] = id.into();
    update
}

#[test]
fn interleaved_messages_of_one_session_do_not_mix() {
    let mut talk = Talk::new();
    let request = talk.prompt("s", "hi");
    for piece in pieces(GITHUB, 6) {
        talk.update("s", with_id("agent_message_chunk", "a", &piece));
        talk.update("s", with_id("agent_message_chunk", "b", "word "));
    }
    talk.end(&request);
    let received = talk.received("editor");
    let of = |id: &str| {
        let own = received.iter().filter(|it| it["params"]["update"]["messageId"] == id);
        said(&own.cloned().collect::<Vec<_>>())
    };
    assert_eq!(of("b"), "word ".repeat(7));
    assert_eq!(of("a"), "ghp_aB[redacted:github]");
}

#[test]
fn a_secret_that_continues_in_the_next_message_stays_hidden() {
    for cut in 1..GITHUB.len() {
        let mut talk = Talk::new();
        let request = talk.prompt("s", "hi");
        talk.update("s", with_id("agent_message_chunk", "a", &GITHUB[..cut]));
        talk.update("s", with_id("agent_message_chunk", "b", &format!("{} b", &GITHUB[cut..])));
        talk.end(&request);
        let text = said(&talk.received("editor"));
        let shown = text.replace("[redacted:github]", "");
        assert!(shown.len() <= "ghp_".len() + 4 + 2 && text.ends_with(" b"), "{cut}: {text}");
    }
    // A word begins with a new message.
    let mut talk = Talk::new();
    let request = talk.prompt("s", "hi");
    talk.update("s", with_id("agent_message_chunk", "a", "words"));
    talk.update("s", with_id("agent_message_chunk", "b", NPM));
    talk.end(&request);
    assert_eq!(said(&talk.received("editor")), "words[redacted:npm]");
}

#[test]
fn a_private_key_over_many_chunks_is_one_placeholder() {
    let line = "MIIEowIBAAKCAQEAx1aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6kL9nXyZ+/ab\n";
    let key = format!(
        "-----BEGIN RSA PRIVATE KEY-----\n{}-----END RSA PRIVATE KEY-----",
        line.repeat(60)
    );
    for size in [1, 7, 50, 3000] {
        let mut talk = Talk::new();
        let request = talk.prompt("s", "hi");
        for (number, piece) in pieces(&format!("Key:\n{key}\nEnd"), size).iter().enumerate() {
            talk.say("s", piece);
            if number % 100 == 50 {
                talk.update("s", json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }));
            }
        }
        talk.end(&request);
        let text = said(&talk.received("editor"));
        assert_eq!(text, "Key:\n[redacted:private-key]\nEnd", "pieces of {size}");
    }
}

#[test]
fn a_very_long_candidate_is_replaced_and_dropped_to_its_end() {
    let mut talk = Talk::new();
    let request = talk.prompt("s", "hi");
    talk.say("s", "a ghp_");
    for _ in 0..2000 {
        talk.say("s", "aB3dE6gH9");
    }
    talk.say("s", " b");
    talk.end(&request);
    let received = talk.received("editor");
    assert_eq!(said(&received), "a [redacted:github] b");
}

/// Codex streams terminal output in `_meta`.
#[test]
fn terminal_output_in_meta_is_a_stream() {
    for name in ["terminal_output_delta", "terminal_output"] {
        let mut talk = Talk::new();
        talk.prompt("s", "hi");
        let delta = |text: &str, status: &str| {
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": status,
                "_meta": { name: { "data": text, "terminal_id": "t" }, "other": 1 } })
        };
        for piece in pieces(&format!("$ echo\n{GITHUB}\n"), 5) {
            talk.update("s", delta(&piece, "in_progress"));
        }
        talk.update("s", delta("end of ghp_a", "completed"));
        let received = talk.received("editor");
        let data =
            |it: &Value| it["params"]["update"]["_meta"][name]["data"].as_str().unwrap().to_owned();
        let text: String = received.iter().map(data).collect();
        assert_eq!(text, "$ echo\n[redacted:github]\nend of ghp_a");
        assert!(
            received.iter().all(|it| it["params"]["update"]["_meta"]["other"] == 1),
            "nothing is lost"
        );
    }
}

#[test]
fn held_terminal_output_is_sent_before_another_update() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    talk.update("s", json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "x",
        "_meta": { "terminal_output_delta": { "data": "abc ghp_a", "terminal_id": "t" }, "usage": 7 } }));
    talk.say("s", "Hello");
    let received = talk.received("editor");
    assert_eq!(kinds(&received), ["tool_call_update", "tool_call_update", "agent_message_chunk"]);
    let expected = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c",
        "_meta": { "terminal_output_delta": { "data": "ghp_a", "terminal_id": "t" } } });
    assert_eq!(received[1]["params"]["update"], expected);
}

/// A chunk with more than its text is never dropped, because the rest would be lost.
#[test]
fn a_chunk_whose_text_is_held_keeps_its_other_members() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    let mut update = chunk("agent_message_chunk", "ghp_a");
    update["_meta"] = json!({ "usage": { "inputTokens": 5 } });
    talk.update("s", update.clone());
    update["content"]["text"] = "".into();
    assert_eq!(talk.one("editor")["params"]["update"], update);
    talk.say("s", ".");
    assert_eq!(talk.one("editor")["params"]["update"], chunk("agent_message_chunk", "ghp_a."));
}

#[test]
fn half_a_surrogate_pair_survives_beside_a_secret() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    let send = |talk: &mut Talk, text: &str| {
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        );
        talk.conversation.send_text("agent", &text);
    };
    send(&mut talk, &format!("{GITHUB} \\ud83d"));
    let first = talk.conversation.receive("editor").to_string();
    assert!(first.contains("[redacted:github] \\\\ud83d"), "{first}");
    assert_eq!(talk.conversation.receive("editor")["method"], "_proxy/metric");
    send(&mut talk, "\\ude00 smile");
    let second = talk.conversation.receive("editor").to_string();
    assert!(second.contains("\\\\ude00 smile"), "{second}");
}

#[test]
fn escapes_in_json_do_not_hide_a_secret() {
    let mut talk = Talk::new();
    let request = talk.prompt("s", "hi");
    let escaped: String = GITHUB.bytes().map(|it| format!("\\u{it:04x}")).collect();
    for part in [&escaped[..60], &escaped[60..]] {
        talk.conversation.send_text("agent", &format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","upd\u0061te":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{part}"}}}}}}}}"#
        ));
    }
    talk.end(&request);
    assert_eq!(said(&talk.received("editor")), "[redacted:github]");
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encode = |bytes: &[u8]| {
        let number = bytes.iter().fold(0_u32, |sum, it| sum << 8 | u32::from(*it))
            << (8 * (3 - bytes.len()));
        let digits = (0..4).map(|it| ALPHABET[(number >> (18 - 6 * it) & 63) as usize] as char);
        digits.take(bytes.len() + 1).chain("==".chars()).take(4).collect::<String>()
    };
    text.as_bytes().chunks(3).map(encode).collect()
}

#[test]
fn the_terminals_of_version_2_are_redacted_in_base64() {
    let mut talk = Talk::new();
    let request = talk.prompt("s", "hi");
    for piece in pieces(&format!("$ x\n{GITHUB}\n"), 9) {
        talk.update("s", json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": base64(&piece) }));
    }
    let received = talk.received("editor");
    let data: Vec<&str> =
        received.iter().map(|it| it["params"]["update"]["data"].as_str().unwrap()).collect();
    assert_eq!(data, [base64("$ x\n"), base64("[redacted:github]\n")]);
    let snapshot = |text: &str| {
        json!({ "sessionUpdate": "terminal_update", "terminalId": "t",
        "output": { "data": base64(text) }, "exitStatus": { "exitCode": 0 } })
    };
    talk.update("s", snapshot(&format!("{} {GITHUB} {}", "long ".repeat(40), "output")));
    let expected = snapshot(&format!("{} [redacted:github] output", "long ".repeat(40)));
    assert_eq!(talk.one("editor")["params"]["update"], expected);
    talk.end(&request);
}

/// Decoders differ: many read Base64 without padding, with line breaks, or with the alphabet of addresses.
#[test]
fn base64_that_only_some_programs_read_does_not_hide_a_secret() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    let data = base64(&format!("???>>>  {GITHUB} "));
    assert!(data.ends_with('=') && data.contains(['+', '/']), "{data}");
    let (left, right) = data.split_at(21);
    for data in [
        data.trim_end_matches('=').to_owned(),
        data.replace('+', "-").replace('/', "_"),
        format!("{left}\n{right}"),
        format!("{left}#{right}"),
    ] {
        talk.update(
            "s",
            json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data }),
        );
        talk.update("s", json!({ "sessionUpdate": "terminal_update", "terminalId": "u", "output": { "data": data } }));
        for received in talk.received("editor") {
            let update = &received["params"]["update"];
            let shown = update["data"].as_str().or(update["output"]["data"].as_str()).unwrap();
            let redacted = base64("???>>>  [redacted:github] ");
            assert!(["", &redacted].contains(&shown), "{data}: {shown}");
        }
    }
}

/// In version 2, chunks continue a text that was sent as a whole.
#[test]
fn a_chunk_after_a_whole_text_does_not_complete_a_secret() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let content = |it: &str| json!({ "type": "content", "content": text(it) });
    let with = |kind: &str, id: &str, member: &str, value: Value| json!({ "sessionUpdate": kind, id: "x", member: value });
    for length in [4, 12, 20, 30, 38] {
        let (left, right) = GITHUB.split_at(length);
        let (left, right) = (format!("is {left}"), format!("{right} ok"));
        for (whole, rest) in [
            (
                with("agent_message", "messageId", "content", json!([text("a"), text(&left)])),
                with("agent_message_chunk", "messageId", "content", text(&right)),
            ),
            (
                with("agent_thought", "messageId", "content", json!([text(&left)])),
                with("agent_thought_chunk", "messageId", "content", text(&right)),
            ),
            (
                with("compaction_update", "compactionId", "summary", json!([text(&left)])),
                with("compaction_summary_chunk", "compactionId", "content", text(&right)),
            ),
            (
                with("tool_call_update", "toolCallId", "content", json!([content(&left)])),
                with("tool_call_content_chunk", "toolCallId", "content", content(&right)),
            ),
            (
                with("terminal_update", "terminalId", "output", json!({ "data": base64(&left) })),
                with("terminal_output_chunk", "terminalId", "data", base64(&right).into()),
            ),
        ] {
            let mut talk = Talk::new();
            talk.prompt("s", "hi");
            talk.update("s", whole.clone());
            talk.update("s", rest);
            let received = talk.received("editor");
            let shown = json!(received).to_string();
            let is_hidden = !shown.contains(&GITHUB[8..20]) && !shown.contains(&GITHUB[20..]);
            let hidden = [base64(&right), base64(&left)];
            let is_hidden =
                is_hidden && (length == 4 || !hidden.iter().any(|it| shown.contains(it)));
            assert!(is_hidden, "{length}: {whole}: {shown}");
            assert_eq!(received.len(), 2, "{shown}");
        }
    }
    // A text that was replaced is not continued.
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    for text in [format!("is {}", &GITHUB[..12]), "is done ".to_owned()] {
        let content = json!([{ "type": "text", "text": text }]);
        talk.update(
            "s",
            json!({ "sessionUpdate": "agent_message", "messageId": "x", "content": content }),
        );
    }
    talk.received("editor");
    let rest = "ordinary-text-that-goes-on ";
    talk.update("s", with_id("agent_message_chunk", "x", rest));
    assert_eq!(said(&talk.received("editor")), rest);
}

#[test]
fn the_chunks_of_version_2_are_streams() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    let tool = |text: &str| {
        json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "c",
        "content": { "type": "content", "content": { "type": "text", "text": text } } })
    };
    for piece in pieces(GITHUB, 7) {
        talk.update("s", tool(&piece));
    }
    talk.update("s", tool("\n"));
    let received = talk.received("editor");
    let texts: String = received
        .iter()
        .map(|it| it["params"]["update"]["content"]["content"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, "[redacted:github]\n");
    for piece in pieces(NPM, 7) {
        let mut update = chunk("compaction_summary_chunk", &piece);
        update["compactionId"] = "x".into();
        talk.update("s", update);
    }
    talk.update("s", json!({ "sessionUpdate": "state_update", "state": "idle" }));
    assert_eq!(said(&talk.received("editor")), "[redacted:npm]");
}

/// The answer to a prompt only accepts it, in version 2. The turn goes on.
#[test]
fn an_accepted_prompt_does_not_end_the_texts_of_version_2() {
    let mut talk = Talk::new();
    let request = talk.prompt("s", "hi");
    let (left, right) = GITHUB.split_at(20);
    talk.update("s", with_id("agent_message_chunk", "m", left));
    talk.send("agent", &json!({ "id": request["id"], "result": { "messageId": "u" } }));
    talk.update("s", with_id("agent_message_chunk", "m", &format!("{right} ok")));
    assert_eq!(said(&talk.received("editor")), "[redacted:github] ok");
}

/// After a restart the component has forgotten the first half. The next prompt may overtake the rest.
#[test]
fn the_rest_of_a_secret_after_a_restart_is_redacted() {
    let filter = Filter::parse_from(["filter"]);
    let (first, rest) = GITHUB.split_at(12);
    for has_prompt in [false, true] {
        let mut talk = Talk::of(&filter);
        talk.prompt("s", "hi");
        talk.say("s", &format!("is {first}"));
        talk.received("editor");
        let mut talk = Talk::of(&filter);
        if has_prompt {
            talk.prompt("s", "again");
        }
        talk.say("s", rest);
        talk.say("s", " and more of it");
        assert_eq!(said(&talk.received("editor")), "[redacted:rest] and more of it");
    }
    // Ordinary words stay, and a later turn is not affected.
    let mut talk = Talk::of(&filter);
    let request = talk.prompt("s", "hi");
    talk.say("s", "ing the file configuration-dependent ");
    talk.end(&request);
    assert_eq!(said(&talk.received("editor")), "ing the file configuration-dependent ");
    talk.prompt("s", "hi");
    talk.say("s", "configuration-dependent ");
    assert_eq!(said(&talk.received("editor")), "configuration-dependent ");
}

/// An agent whose turn was cancelled may go on for a moment.
#[test]
fn the_rest_of_a_secret_after_the_end_of_its_turn_is_redacted() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END PRIVATE KEY-----";
    for (secret, length, left, right) in [
        (GITHUB, 4, "ghp_", "[redacted:github] y"),
        (GITHUB, 28, &GITHUB[..28], "[redacted:github] y"),
        (GITHUB, 38, "[redacted:github]", " y"),
        (key, 60, "[redacted:private-key]", " y"),
    ] {
        let mut talk = Talk::new();
        let request = talk.prompt("s", "hi");
        talk.say("s", &format!("x {}", &secret[..length]));
        talk.end(&request);
        talk.say("s", &format!("{} y", &secret[length..]));
        let received = talk.received("editor");
        let end = kinds(&received).iter().position(|it| *it == "answer").expect("the answer");
        assert_eq!(said(&received[..end]), format!("x {left}"));
        assert_eq!(said(&received[end..]), right);
        // The next turn begins anew.
        talk.prompt("s", "hi");
        talk.say("s", "ordinary-text-that-goes-on ");
        assert_eq!(said(&talk.received("editor")), "ordinary-text-that-goes-on ");
    }
}

#[test]
fn a_session_is_closed_only_when_the_agent_has_closed_it() {
    let mut talk = Talk::new();
    talk.prompt("s", "hi");
    talk.say("s", &format!("x {}", &GITHUB[..28]));
    talk.send(
        "editor",
        &json!({ "id": "c", "method": "session/close", "params": { "sessionId": "s" } }),
    );
    let request = talk.one("agent");
    talk.say("s", &format!("{} y", &GITHUB[28..]));
    talk.send("agent", &json!({ "id": request["id"], "result": {} }));
    assert_eq!(said(&talk.received("editor")), "x [redacted:github] y");
}

/// After a restart, the answer that ends the turn does not come: Conductor has answered the request.
#[test]
fn no_text_is_held_after_a_restart_until_a_turn_begins() {
    let filter = Filter::parse_from(["filter"]);
    Talk::of(&filter).prompt("s", "hi");
    let mut talk = Talk::of(&filter);
    talk.say("s", "it begins with ghp_abcdefghi");
    assert_eq!(said(&talk.received("editor")), "it begins with [redacted:github]");
    talk.say("s", " or so");
    assert_eq!(said(&talk.received("editor")), " or so");
}

/// Nothing may follow for hours.
#[test]
fn outside_of_a_turn_no_text_is_held() {
    let mut talk = Talk::new();
    let request = talk.prompt("s", "hi");
    talk.end(&request);
    talk.received("editor");
    talk.say("s", "late message of ghp_a");
    assert_eq!(said(&talk.received("editor")), "late message of ghp_a");
    talk.say("s", &format!(" {}", &GITHUB[..20]));
    talk.say("s", &format!("{} ok", &GITHUB[20..]));
    assert_eq!(said(&talk.received("editor")), " [redacted:github] ok");
    // A turn that the agent begins, in version 2.
    talk.update("s", json!({ "sessionUpdate": "state_update", "state": "running" }));
    talk.say("s", "ghp_a");
    assert_eq!(kinds(&talk.received("editor")), ["state_update"]);
}
