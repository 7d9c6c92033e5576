//! Permission handlers get everything that is known about the tool call.

use acp_proxy::schema::{RequestPermissionRequest, ToolKind};
use acp_proxy::script::Conversation;
use acp_proxy::{Error, Proxy};

/// Answers each permission request with an error whose message is the kind of the tool call.
fn kinds() -> Proxy {
    Proxy::new("kinds").on_permission(async |permission, _| {
        let kind = permission.kind().map_or("unknown".to_owned(), |kind| format!("{kind:?}"));
        Err(Error::internal(kind))
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

/// The kind that the handler sees when the agent requests permission after these updates.
fn seen(before: &[String], version: u8, tool_call: &str) -> String {
    let mut conversation = Conversation::new(kinds());
    conversation.send(
        "editor",
        &format!(r#"{{"id":1,"method":"initialize","params":{{"protocolVersion":{version}}}}}"#),
    );
    let asked = conversation.receive("agent");
    conversation.send(
        "agent",
        &format!(r#"{{"id":{},"result":{{"protocolVersion":{version}}}}}"#, asked["id"]),
    );
    conversation.receive("editor");
    for text in before {
        match text.contains("session/prompt") {
            true => conversation.send("editor", text),
            false => conversation.send_text("agent", text),
        }
    }
    let subject = match version {
        1 => format!(r#""toolCall":{tool_call}"#),
        _ => format!(r#""title":"May I?","subject":{{"type":"tool_call","toolCall":{tool_call}}}"#),
    };
    conversation.send_text("agent", &format!(r#"{{"jsonrpc":"2.0","id":"Agent:1","method":"session/request_permission","params":{{"sessionId":"s","options":[],{subject}}}}}"#));
    loop {
        let received = conversation.receive("agent");
        if let Some(kind) = received["error"]["message"].as_str() {
            return kind.to_owned();
        }
    }
}

const ID: &str = r#"{"toolCallId":"t"}"#;

/// The kind may be only in an earlier update.
#[test]
fn the_kind_of_a_tool_call_is_known_from_earlier_updates() {
    let read = r#","kind":"read""#;
    let delete = r#","kind":"delete""#;
    for (before, request, expected) in [
        (vec![call(delete)], ID, "Delete"),
        (vec![call(read), change(delete)], ID, "Delete"),
        (vec![call(read), change(r#","status":"in_progress""#)], ID, "Read"),
        // Some agents send no tool_call at all.
        (vec![change(delete)], ID, "Delete"),
        (vec![], r#"{"toolCallId":"t","kind":"edit"}"#, "Edit"),
        // The members of the request win over those of the updates.
        (vec![call(read)], r#"{"toolCallId":"t","kind":"delete"}"#, "Delete"),
        (vec![call(delete)], r#"{"toolCallId":"t","kind":null}"#, "Delete"),
        // A new `tool_call` with the same id replaces the old one.
        (vec![call(read), call(delete)], ID, "Delete"),
        (vec![call(read), call("")], ID, "unknown"),
        (vec![call(r#","kind":"vaporise""#)], ID, "Other"),
        (vec![call(r#","kind":["read"]"#)], ID, "unknown"),
        (vec![], ID, "unknown"),
        // A call of another session with the same id is another call.
        (vec![call(delete).replace(r#""s""#, r#""other""#)], ID, "unknown"),
        (vec![call(delete), call(read).replace(r#""s""#, r#""other""#)], ID, "Delete"),
        // The agent may use an id again after the call is over, and in the next turn.
        (vec![call(read), change(r#","status":"completed""#)], ID, "unknown"),
        (vec![call(read), prompt("s")], ID, "unknown"),
        (vec![call(read), prompt("other")], ID, "Read"),
        // Programs read these messages differently.
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
        assert_eq!(seen(&before, 1, request), expected, "{before:#?} {request}");
    }
}

#[test]
fn in_version_2_null_clears_a_member() {
    let delete = r#","kind":"delete""#;
    for (before, request, expected) in [
        (vec![change(delete)], ID, "Delete"),
        (vec![change(delete), change(r#","kind":null"#)], ID, "unknown"),
        (vec![change(delete)], r#"{"toolCallId":"t","kind":"read"}"#, "Read"),
        (vec![change(r#","kind":"read""#)], r#"{"toolCallId":"t","kind":null}"#, "unknown"),
        (vec![change(r#","kind":"_own""#)], ID, "Other"),
    ] {
        assert_eq!(seen(&before, 2, request), expected, "{before:#?} {request}");
    }
}

/// A request must not be read as one of the other version. A command is of kind `execute`.
#[test]
fn a_request_is_read_by_the_rules_of_its_version() {
    let read = r#"{"toolCallId":"t","kind":"read"}"#;
    let delete = r#"{"toolCallId":"t","kind":"delete"}"#;
    let both = format!(r#"{delete},"subject":{{"type":"tool_call","toolCall":{read}}}"#);
    assert_eq!(seen(&[], 1, &both), "unknown");
    let only = format!(r#"null,"subject":{{"type":"tool_call","toolCall":{read}}}"#);
    assert_eq!(seen(&[], 1, &only), "unknown");
    let also = format!(r#"{read}}},"toolCall":{delete},"_meta":{{"x":1"#);
    assert_eq!(seen(&[], 2, &also), "unknown");
    let command = format!(r#"{read},"type":"command","toolCallId":"t","command":"rm""#);
    let command = seen(&[change(r#","kind":"read""#)], 2, &command);
    // The member `type` occurs twice, so programs read it differently.
    assert_eq!(command, "unknown");
    let odd = r#"{"toolCallId":"\ud800","kind":"read"}"#;
    assert_eq!(seen(&[], 1, odd), "unknown");
}

/// A handler of the schema's type gets the merged tool call, and forwards the request unchanged.
#[test]
fn a_typed_permission_request_has_the_merged_tool_call_and_passes_unchanged() {
    let proxy = Proxy::new("typed").on_request(async |request: RequestPermissionRequest, next| {
        assert_eq!(request.tool_call.fields.kind, Some(ToolKind::Delete));
        assert_eq!(request.tool_call.fields.title.as_deref(), Some("T"));
        next.run(request).await
    });
    let mut conversation = Conversation::new(proxy);
    conversation.send_text("agent", &call(r#","kind":"delete""#));
    conversation.receive("editor");
    let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"t","new":1.0},"options":[]}"#;
    conversation.send_text("agent", &format!(r#"{{"jsonrpc":"2.0","id":"Agent:1","method":"session/request_permission","params":{params}}}"#));
    let passed = conversation.receive("editor");
    assert_eq!(passed["params"].to_string(), params);
}

/// Denies writes, allows the rest.
fn gate() -> Proxy {
    Proxy::new("gate").on_permission(async |permission, _| match permission.kind() {
        Some(ToolKind::Edit) => Ok(permission.deny()),
        _ => Ok(permission.allow()),
    })
}

/// The answer of the gate to a permission request with these options, or `None` if the user is asked.
fn decided(kind: &str, options: &[&str]) -> Option<String> {
    let options: Vec<String> = options
        .iter()
        .map(|kind| format!(r#"{{"optionId":"the {kind}","name":"N","kind":"{kind}"}}"#))
        .collect();
    let mut conversation = Conversation::new(gate());
    conversation.send("agent", &format!(r#"{{"id":1,"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"t","kind":"{kind}"}},"options":[{}]}}}}"#, options.join(",")));
    conversation.send("agent", r#"{"id":2,"method":"_last"}"#);
    let to_editor = conversation.receive("editor");
    if to_editor["method"] == "session/request_permission" {
        return None;
    }
    let outcome = conversation.receive("agent")["result"]["outcome"].clone();
    let option = outcome["optionId"].as_str().or(outcome["outcome"].as_str());
    Some(option.expect("an outcome").to_owned())
}

#[test]
fn allow_and_deny_choose_only_one_time_options_that_the_agent_offers() {
    let all = ["allow_always", "reject_always", "allow_once", "reject_once"];
    assert_eq!(decided("read", &all).as_deref(), Some("the allow_once"));
    assert_eq!(decided("edit", &all).as_deref(), Some("the reject_once"));
    assert_eq!(decided("read", &["allow_always", "reject_once"]), None);
    assert_eq!(decided("edit", &["allow_once", "reject_always"]).as_deref(), Some("cancelled"));
    assert_eq!(decided("read", &[]), None);
}

/// One id for two options: the agent may take the answer for the other one.
#[test]
fn an_option_whose_id_is_not_unique_is_never_chosen() {
    let options = r#"[{"optionId":"x","name":"A","kind":"allow_once"},{"optionId":"x","name":"B","kind":"allow_always"},{"optionId":"y","name":"C","kind":"allow_once"}]"#;
    let params =
        format!(r#"{{"sessionId":"s","toolCall":{{"toolCallId":"t"}},"options":{options}}}"#);
    let mut conversation = Conversation::new(gate());
    conversation.send(
        "agent",
        &format!(r#"{{"id":1,"method":"session/request_permission","params":{params}}}"#),
    );
    assert_eq!(conversation.receive("agent")["result"]["outcome"]["optionId"], "y");
}

#[test]
fn an_answer_may_have_metadata_for_the_agent() {
    let proxy = Proxy::new("meta").on_permission(async |permission, _| {
        permission.deny().with_meta("conductor", serde_json::json!({ "reason": "no" }))
    });
    acp_proxy::script::play(
        proxy,
        r#"
        agent  > {"id":1,"method":"session/request_permission","params":{"sessionId":"s","options":[],"toolCall":{"toolCallId":"t"}}}
        agent  < {"id":1,"result":{"outcome":{"outcome":"cancelled"},"_meta":{"conductor":{"reason":"no"}}}}
    "#,
    );
}

#[test]
fn a_tool_call_handler_sees_everything_that_is_known() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = seen.clone();
    let proxy = Proxy::new("watch").on_tool_call(move |call, context| {
        let paths = call.paths().len();
        let line = (call.id(), call.title(), call.kind(), call.status(), paths, context.session());
        log.lock().unwrap().push(format!("{line:?}"));
    });
    let mut conversation = Conversation::new(proxy);
    conversation.send_text("agent", &call(r#","kind":"read","locations":[{"path":"/a"}]"#));
    conversation.send_text("agent", &change(r#","status":"in_progress""#));
    conversation.send_text("agent", &change(r#","status":"completed""#));
    // The agent may use the id again.
    conversation.send_text("agent", &change(r#","status":"pending""#));
    let known = r#"(Some("t"), Some("T"), Some(Read)"#;
    let expected = [
        format!(r#"{known}, None, 1, Some("s"))"#),
        format!(r#"{known}, Some(InProgress), 1, Some("s"))"#),
        format!(r#"{known}, Some(Completed), 1, Some("s"))"#),
        r#"(Some("t"), None, None, Some(Pending), 0, Some("s"))"#.to_owned(),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

/// A diff names a file that is not among the locations. A rule about paths must see it.
#[test]
fn the_paths_of_a_permission_include_the_files_of_diffs() {
    let proxy = Proxy::new("paths").on_permission(async |permission, _| {
        let expected = ["/a/x", "/a/demo.txt"].map(std::path::PathBuf::from);
        assert_eq!(permission.paths(), expected);
        Ok(permission.deny())
    });
    acp_proxy::script::play(
        proxy,
        r#"
        agent  > {"id":1,"method":"session/request_permission","params":{"sessionId":"s","options":[{"optionId":"no","name":"No","kind":"reject_once"}],"toolCall":{"toolCallId":"t","locations":[{"path":"/a/x"}],"content":[{"type":"diff","path":"/a/demo.txt","oldText":null,"newText":""},{"type":"diff","path":"/a/x","oldText":null,"newText":""}]}}}
        agent  < {"id":1,"result":{"outcome":{"outcome":"selected","optionId":"no"}}}
    "#,
    );
}
