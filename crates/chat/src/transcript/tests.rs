use serde_json::json;

use super::tool_call::Labels;
use super::*;
use crate::markdown::Layout;
use crate::text::Line;

const LAYOUT: Layout = Layout { width: 60, color: false, linear: false };

fn shown(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{}\n", line.clone().trimmed().text())).collect()
}

/// A tool call as a terminal shows it.
fn call(transcript: &Transcript, call: &Value) -> String {
    let mut lines = tool_call::head(call, LAYOUT, Labels::Signs);
    lines.extend(tool_call::locations(call, LAYOUT));
    lines.extend(tool_call::output(call, transcript.terminals(), LAYOUT));
    shown(&lines)
}

/// The pieces of these updates.
fn pieces(transcript: &mut Transcript, updates: &[Value]) -> Vec<Piece> {
    updates.iter().flat_map(|update| transcript.update(update, false)).collect()
}

fn text(kind: &str, text: &str, id: Option<&str>) -> Value {
    let content = json!({ "type": "text", "text": text });
    json!({ "sessionUpdate": kind, "content": content, "messageId": id })
}

#[test]
fn a_message_ends_when_another_kind_or_id_begins() {
    let mut transcript = Transcript::default();
    let pieces = pieces(
        &mut transcript,
        &[
            text("agent_thought_chunk", "hm", None),
            text("agent_message_chunk", "a", Some("1")),
            text("agent_message_chunk", "b", Some("1")),
            text("agent_message_chunk", "c", Some("2")),
        ],
    );
    let answer = |text: &str| Piece::Text(TextKind::Answer, text.into());
    let expected = [
        Piece::Text(TextKind::Thought, "hm".into()),
        Piece::EndOfText,
        answer("a"),
        answer("b"),
        Piece::EndOfText,
        answer("c"),
    ];
    assert_eq!(pieces, expected);
}

/// In ACP version 2, an agent can send a whole message. It may repeat what it has streamed.
#[test]
fn a_whole_message_is_shown_unless_it_was_streamed() {
    let mut transcript = Transcript::default();
    let whole = json!({
        "sessionUpdate": "agent_message", "messageId": "1",
        "content": [{ "type": "text", "text": "ab" }],
    });
    let shown = transcript.update(&whole, false);
    assert_eq!(shown[0], Piece::Text(TextKind::Answer, "ab".into()));
    assert!(transcript.update(&whole, false).is_empty());
    transcript.update(&text("agent_message_chunk", "x", Some("2")), false);
    let repeated = json!({ "sessionUpdate": "agent_message", "messageId": "2", "content": [{ "type": "text", "text": "x" }] });
    assert!(transcript.update(&repeated, false).is_empty());
}

#[test]
fn prompts_are_shown_only_when_a_session_is_replayed() {
    let mut transcript = Transcript::default();
    let prompt = text("user_message_chunk", "hello", None);
    assert!(transcript.update(&prompt, false).is_empty());
    assert_eq!(transcript.update(&prompt, true), [Piece::Text(TextKind::User, "hello".into())]);
}

#[test]
fn content_that_is_not_text_is_described() {
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "A".repeat(16_000) });
    for (block, expected) in [
        (image, "[image: image/png, 12 KB]"),
        (
            json!({ "type": "audio", "mimeType": "audio/wav", "data": "AAAA" }),
            "[audio: audio/wav, 3 bytes]",
        ),
        (
            json!({ "type": "resource_link", "name": "a.txt", "uri": "file:///a.txt" }),
            "[link: a.txt (file:///a.txt)]",
        ),
        (
            json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "x```y" } }),
            "[file: file:///a]\n\n````\nx```y\n````\n",
        ),
        (
            json!({ "type": "resource", "resource": { "uri": "file:///b", "blob": "AAAA", "mimeType": "x/y" } }),
            "[file: file:///b, x/y, 3 bytes]",
        ),
        (json!({ "type": "hologram\u{1b}[2J" }), "[hologram]"),
        (json!({}), "[content without a type]"),
    ] {
        assert_eq!(describe(&block), expected);
    }
}

#[test]
fn a_tool_call_is_shown_when_it_ends_and_again_if_its_output_comes_later() {
    let mut transcript = Transcript::default();
    let started = transcript.update(
        &json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "title": "List\nfiles", "kind": "search" }),
        false,
    );
    assert_eq!(started, [Piece::EndOfText]);
    assert_eq!(call(&transcript, &transcript.running()[0]), "… List files (search, waiting)\n");
    let ended =
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" });
    let pieces = transcript.update(&ended, false);
    let [Piece::EndOfText, Piece::ToolCall(first)] = &pieces[..] else { panic!("{pieces:?}") };
    assert_eq!(call(&transcript, first), "✓ List files (search, done)\n");
    assert!(transcript.running().is_empty());
    assert_eq!(transcript.update(&ended, false), [Piece::EndOfText], "nothing has changed");
    let late = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "t",
        "content": [{ "type": "content", "content": { "type": "text", "text": "```\na\nb\n```" } }],
    });
    let pieces = transcript.update(&late, false);
    let [_, Piece::ToolCall(again)] = &pieces[..] else { panic!("{pieces:?}") };
    assert_eq!(call(&transcript, again), "✓ List files (search, done)\n  a\n  b\n");
}

#[test]
fn the_content_of_a_tool_call_in_version_2_arrives_in_parts() {
    let mut transcript = Transcript::default();
    let content =
        |text: &str| json!({ "type": "content", "content": { "type": "text", "text": text } });
    pieces(
        &mut transcript,
        &[
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "name": "ls", "status": "in_progress" }),
            json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": content("a") }),
            json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": content("b") }),
        ],
    );
    assert_eq!(call(&transcript, &transcript.running()[0]), "… ls (running)\n  a\n  b\n");
}

#[test]
fn tool_calls_show_their_diffs_and_locations() {
    let transcript = Transcript::default();
    let edit = json!({
        "title": "Edit", "status": "failed", "kind": "edit",
        "locations": [{ "path": "/a/b.rs", "line": 7 }, { "path": "/a/c.rs" }],
        "content": [{ "type": "diff", "path": "/a/c.rs", "oldText": "1\n2\n3\n4\n5\n6\n", "newText": "1\n2\n3\n4\n5\nsix\n" }],
    });
    assert_eq!(
        call(&transcript, &edit),
        "✗ Edit (edit, failed)\n  /a/b.rs:7\n  /a/c.rs (+1 -1)\n    3\n    4\n    5\n  - 6\n  + six\n"
    );
    let new = json!({
        "title": "Write c.rs", "status": "completed",
        "content": [{ "type": "diff", "path": "/a/c.rs", "newText": "1\n" }],
    });
    assert_eq!(
        call(&transcript, &new),
        "✓ Write c.rs (done)\n  /a/c.rs (new file, +1 -0)\n  + 1\n"
    );
    let patch = "diff --git a/c b/c\n--- a/c\n+++ b/c\n@@ -1 +1 @@\n-one\n+two\n same\n";
    let changed = json!({
        "title": "Patch", "status": "completed",
        "content": [{
            "type": "diff", "patch": { "format": "git_patch", "text": patch },
            "changes": [{ "operation": "move", "oldPath": "/b", "path": "/c" }],
        }],
    });
    assert_eq!(
        call(&transcript, &changed),
        "✓ Patch (done)\n  /b → /c (move)\n  ⋯\n  - one\n  + two\n    same\n"
    );
}

#[test]
fn tool_calls_show_the_output_of_terminals() {
    let mut transcript = Transcript::default();
    let run = json!({
        "title": "Run it", "status": "completed", "content": [{ "type": "terminal", "terminalId": "t" }],
    });
    transcript.set_terminal("t", "one\ntwo\n", Some("exit status 3"));
    assert_eq!(call(&transcript, &run), "✓ Run it (done)\n  one\n  two\n  (exit status 3)\n");
    // In ACP version 2, the agent reports its terminals.
    let mut transcript = Transcript::default();
    pieces(
        &mut transcript,
        &[
            json!({ "sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls -l" }),
            json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "YWI=" }),
            json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "Y2QK" }),
            json!({ "sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": { "exitCode": 0 } }),
        ],
    );
    assert_eq!(call(&transcript, &run), "✓ Run it (done)\n  $ ls -l\n  abcd\n");
}

#[test]
fn a_raw_output_is_shown_if_there_is_no_other() {
    let transcript = Transcript::default();
    for (raw, expected) in [
        (json!("text"), "  text\n"),
        (json!({ "stdout": "out" }), "  out\n"),
        (json!({ "code": 1 }), ""),
        (Value::Null, ""),
    ] {
        let ended = json!({ "title": "x", "status": "completed", "rawOutput": raw });
        assert_eq!(call(&transcript, &ended), format!("✓ x (done)\n{expected}"));
    }
}

#[test]
fn plans_of_both_versions_are_shown() {
    let mut transcript = Transcript::default();
    let entries = json!([
        { "content": "one", "status": "completed" },
        { "content": "two", "status": "in_progress" },
        { "content": "three", "status": "pending" },
    ]);
    transcript.update(&json!({ "sessionUpdate": "plan", "entries": entries }), false);
    let plans: Vec<Value> = transcript.plans().cloned().collect();
    let steps = "  ✓ one\n  ▸ two\n  · three\n";
    assert_eq!(
        shown(&plan::lines(&plans[0], LAYOUT, Labels::Signs)),
        format!("Plan (1 of 3 done)\n{steps}")
    );
    assert_eq!(
        shown(&plan::lines(&plans[0], LAYOUT, Labels::Words)),
        "Plan: 1 of 3 done\n  done: one\n  now: two\n  to do: three\n"
    );
    let mut transcript = Transcript::default();
    for plan in [
        json!({ "type": "items", "planId": "a", "entries": [] }),
        json!({ "type": "items", "planId": "a", "entries": entries }),
        json!({ "type": "markdown", "planId": "b", "content": "- x" }),
        json!({ "type": "file", "planId": "c", "uri": "file:///plan.md" }),
    ] {
        transcript.update(&json!({ "sessionUpdate": "plan_update", "plan": plan }), false);
    }
    let (_, plans) = transcript.end_turn();
    let plans: String =
        plans.iter().map(|it| shown(&plan::lines(it, LAYOUT, Labels::Signs))).collect();
    assert_eq!(plans, format!("Plan (1 of 3 done)\n{steps}Plan\n  • x\nPlan\n  file:///plan.md\n"));
}

#[test]
fn notices_are_shown_and_unknown_updates_are_ignored() {
    let mut transcript = Transcript::default();
    let notice = json!({ "sessionUpdate": "notice", "severity": "warning", "title": "Careful", "description": "x" });
    let shown = transcript.update(&notice, false);
    let text = "warning: Careful\nx".to_owned();
    assert_eq!(shown[1], Piece::Notice { is_error: false, text });
    for ignored in [
        json!({ "sessionUpdate": "hologram" }),
        json!({ "sessionUpdate": 1 }),
        json!(null),
        json!([1]),
        json!({ "sessionUpdate": "usage_update" }),
    ] {
        assert!(transcript.update(&ignored, false).is_empty());
    }
}

#[test]
fn paths_in_the_folder_of_the_session_are_relative() {
    let mut transcript = Transcript::new(Path::new("/home/me/"));
    let update = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "status": "completed",
        "locations": [{ "path": "/home/me/a/b.rs" }, { "path": "/home/mean" }, { "path": "/home/me" }],
        "content": [{ "type": "diff", "path": "/home/me/c", "newText": "1" }],
    });
    let pieces = transcript.update(&update, false);
    let [_, Piece::ToolCall(shown)] = &pieces[..] else { panic!("{pieces:?}") };
    let expected = "✓ x (done)\n  a/b.rs\n  /home/mean\n  /home/me\n  c (new file, +1 -0)\n  + 1\n";
    assert_eq!(call(&transcript, shown), expected);
}

#[test]
fn base64_is_decoded() {
    assert_eq!(base64("w6TDtg=="), "äö");
    assert_eq!(base64("/w"), "\u{fffd}");
    assert_eq!(base64("%%%"), "");
}

#[test]
fn the_command_of_a_tool_call_is_found() {
    for (input, expected) in [
        (json!({ "command": "ls -l" }), Some("ls -l")),
        (json!({ "command": ["ls", "-l"] }), Some("ls -l")),
        (json!({ "command": "ls", "args": ["-l"] }), Some("ls -l")),
        (json!({ "cmd": "x\u{1b}[2J" }), Some("x")),
        (json!({ "path": "x" }), None),
    ] {
        assert_eq!(tool_call::command(&json!({ "rawInput": input })).as_deref(), expected);
    }
}
