//! Handlers of permission requests get everything that is known of the tool call.

use acp_proxy::schema::{RequestPermissionRequest, ToolKind};
use acp_proxy::script::Talk;
use acp_proxy::{Json, Proxy};

/// Answers with the kind that it sees.
fn kinds() -> Proxy {
    Proxy::new("kinds").on_permission(async |permission, _| {
        let kind = permission.kind().map_or("unknown".to_owned(), |kind| format!("{kind:?}"));
        Ok(Json::string(&kind))
    })
}

fn update(session: &str, update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
    )
}

fn call(rest: &str) -> String {
    update("s", &format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"{rest}}}"#))
}

fn change(rest: &str) -> String {
    update("s", &format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"t"{rest}}}"#))
}

fn prompt(session: &str) -> String {
    format!(
        r#"{{"id":9,"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[]}}}}"#
    )
}

/// What a handler sees when the agent asks for permission after these updates.
async fn seen(before: &[String], version: u8, tool_call: &str) -> String {
    let mut talk = Talk::new(kinds());
    talk.send(
        "editor",
        &format!(r#"{{"id":1,"method":"initialize","params":{{"protocolVersion":{version}}}}}"#),
    );
    let asked = talk.receive("agent").await;
    talk.send(
        "agent",
        &format!(r#"{{"id":{},"result":{{"protocolVersion":{version}}}}}"#, asked["id"]),
    );
    talk.receive("editor").await;
    for text in before {
        match text.contains("session/prompt") {
            true => talk.send("editor", text),
            false => talk.send_text("agent", text),
        }
    }
    let subject = match version {
        1 => format!(r#""toolCall":{tool_call}"#),
        _ => format!(r#""title":"May I?","subject":{{"type":"tool_call","toolCall":{tool_call}}}"#),
    };
    talk.send_text("agent", &format!(r#"{{"jsonrpc":"2.0","id":"Agent:1","method":"session/request_permission","params":{{"sessionId":"s","options":[],{subject}}}}}"#));
    loop {
        let received = talk.receive("agent").await;
        if let Some(kind) = received["result"].as_str() {
            return kind.to_owned();
        }
    }
}

const ID: &str = r#"{"toolCallId":"t"}"#;

/// Item 18: the kind may have been told only in an earlier update.
#[tokio::test]
async fn the_kind_of_a_tool_call_is_known_from_earlier_updates() {
    let read = r#","kind":"read""#;
    let delete = r#","kind":"delete""#;
    for (before, request, expected) in [
        (vec![call(delete)], ID, "Delete"),
        (vec![call(read), change(delete)], ID, "Delete"),
        (vec![call(read), change(r#","status":"in_progress""#)], ID, "Read"),
        // Some agents send no tool_call at all.
        (vec![change(delete)], ID, "Delete"),
        (vec![], r#"{"toolCallId":"t","kind":"edit"}"#, "Edit"),
        // The request counts more, where it says something.
        (vec![call(read)], r#"{"toolCallId":"t","kind":"delete"}"#, "Delete"),
        (vec![call(delete)], r#"{"toolCallId":"t","kind":null}"#, "Delete"),
        // The last call with an id is the one that counts, with nothing of the one before.
        (vec![call(read), call(delete)], ID, "Delete"),
        (vec![call(read), call("")], ID, "unknown"),
        (vec![call(r#","kind":"vaporise""#)], ID, "Other"),
        (vec![call(r#","kind":["read"]"#)], ID, "unknown"),
        (vec![], ID, "unknown"),
        // Another session's call with the same id is another call.
        (vec![call(delete).replace(r#""s""#, r#""other""#)], ID, "unknown"),
        (vec![call(delete), call(read).replace(r#""s""#, r#""other""#)], ID, "Delete"),
        // Ids may be used again when a call is over, and in the next turn.
        (vec![call(read), change(r#","status":"completed""#)], ID, "unknown"),
        (vec![call(read), prompt("s")], ID, "unknown"),
        (vec![call(read), prompt("other")], ID, "Read"),
        // Readers disagree about these.
        (vec![call(r#","kind":"delete","kind":"read""#)], ID, "unknown"),
        (
            vec![
                call(delete),
                change(read).replace(r#""sessionId":"s""#, r#""sessionId":"s","sessionId":"s""#),
            ],
            ID,
            "unknown",
        ),
        (vec![call(read)], r#"{"toolCallId":"t","kind":"delete","kind":"read"}"#, "unknown"),
        (vec![call(r#","k\u0069nd":"delete","kind":"read""#)], ID, "unknown"),
    ] {
        assert_eq!(seen(&before, 1, request).await, expected, "{before:#?} {request}");
    }
}

#[tokio::test]
async fn version_2_clears_with_null_and_asks_about_subjects() {
    let delete = r#","kind":"delete""#;
    for (before, request, expected) in [
        (vec![change(delete)], ID, "Delete"),
        (vec![change(delete), change(r#","kind":null"#)], ID, "unknown"),
        (vec![change(delete)], r#"{"toolCallId":"t","kind":"read"}"#, "Read"),
        (vec![change(r#","kind":"read""#)], r#"{"toolCallId":"t","kind":null}"#, "unknown"),
        (vec![change(r#","kind":"_own""#)], ID, "Other"),
    ] {
        assert_eq!(seen(&before, 2, request).await, expected, "{before:#?} {request}");
    }
}

/// A request must not be read as one of the other version, and a command is one whatever it belongs to.
#[tokio::test]
async fn a_request_is_read_as_its_version_spells_it() {
    let read = r#"{"toolCallId":"t","kind":"read"}"#;
    let delete = r#"{"toolCallId":"t","kind":"delete"}"#;
    let both = format!(r#"{delete},"subject":{{"type":"tool_call","toolCall":{read}}}"#);
    assert_eq!(seen(&[], 1, &both).await, "unknown");
    let only = format!(r#"null,"subject":{{"type":"tool_call","toolCall":{read}}}"#);
    assert_eq!(seen(&[], 1, &only).await, "unknown");
    let also = format!(r#"{read}}},"toolCall":{delete},"_meta":{{"x":1"#);
    assert_eq!(seen(&[], 2, &also).await, "unknown");
    let command = format!(r#"{read},"type":"command","toolCallId":"t","command":"rm""#);
    let command = seen(&[change(r#","kind":"read""#)], 2, &command).await;
    // The type occurs twice, which no reader may guess about.
    assert_eq!(command, "unknown");
    let odd = r#"{"toolCallId":"\ud800","kind":"read"}"#;
    assert_eq!(seen(&[], 1, odd).await, "unknown");
}

/// A handler of the schema's own type gets the same, and what it passes on is what it got.
#[tokio::test]
async fn a_typed_request_is_filled_in_and_passes_unchanged() {
    let proxy = Proxy::new("typed").on::<RequestPermissionRequest, _>(async |request, next| {
        assert_eq!(request.tool_call.fields.kind, Some(ToolKind::Delete));
        assert_eq!(request.tool_call.fields.title.as_deref(), Some("T"));
        next.run(request).await
    });
    let mut talk = Talk::new(proxy);
    talk.send_text("agent", &call(r#","kind":"delete""#));
    talk.receive("editor").await;
    let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"t","new":1.0},"options":[]}"#;
    talk.send_text("agent", &format!(r#"{{"jsonrpc":"2.0","id":"Agent:1","method":"session/request_permission","params":{params}}}"#));
    let passed = talk.receive("editor").await;
    assert_eq!(passed["params"].to_string(), params);
}
