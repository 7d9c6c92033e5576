//! Handlers of types of ACP version 1 and 2.

use acp_proxy::prelude::*;
use acp_proxy::script::Conversation;
use acp_proxy::{schema, schema_v2};

/// Adds the version of its type to the working directory.
fn marks_both() -> Proxy {
    Proxy::new("both")
        .on_request(async |mut request: schema::NewSessionRequest, next| {
            request.cwd.push("1");
            next.run(request).await
        })
        .on_request(async |mut request: schema_v2::NewSessionRequest, next| {
            request.cwd.0.push("2");
            next.run(request).await
        })
}

fn marks_v2() -> Proxy {
    Proxy::new("second").log_to(|_| {}).on_request(
        async |mut request: schema_v2::NewSessionRequest, next| {
            request.cwd.0.push("2");
            next.run(request).await
        },
    )
}

fn marks_v1() -> Proxy {
    Proxy::new("first").on_request(async |mut request: schema::NewSessionRequest, next| {
        request.cwd.push("1");
        next.run(request).await
    })
}

/// The working directory that the agent gets after `initialize` with this version. The error if there is one.
fn directory(proxy: Proxy, version: u8) -> String {
    let mut conversation = Conversation::new(proxy);
    let initialize =
        format!(r#"{{"id":1,"method":"initialize","params":{{"protocolVersion":{version}}}}}"#);
    conversation.send("editor", &initialize);
    let id = conversation.receive("agent")["id"].clone();
    conversation
        .send("agent", &format!(r#"{{"id":{id},"result":{{"protocolVersion":{version}}}}}"#));
    conversation.receive("editor");
    conversation
        .send("editor", r#"{"id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#);
    conversation.send("editor", r#"{"id":3,"method":"_last"}"#);
    let received = conversation.receive("agent");
    match received["method"].as_str() {
        Some("session/new") => received["params"]["cwd"].as_str().unwrap_or_default().to_owned(),
        _ => conversation.receive("editor")["error"]["code"].to_string(),
    }
}

#[test]
fn the_negotiated_version_decides_which_typed_handlers_run() {
    assert_eq!(directory(marks_both(), 1), "/1");
    assert_eq!(directory(marks_both(), 2), "/2");
    assert_eq!(directory(marks_v2(), 2), "/2");
    assert_eq!(directory(marks_v2(), 1), "/");
    // Most types of version 1 fit messages of version 2, too.
    assert_eq!(directory(marks_v1(), 2), "/1");
}

#[test]
fn a_strict_proxy_refuses_a_request_whose_handlers_are_for_another_version() {
    assert_eq!(directory(marks_v2().strict(), 1), "-32602");
    assert_eq!(directory(marks_v2().strict(), 2), "/2");
}

/// A handler of the version 2 type waits for the end of the turn, too.
#[test]
fn a_prompt_of_version_2_is_handled_as_its_own_type() {
    let proxy = Proxy::new("typed").on_request(async |prompt: schema_v2::PromptRequest, next| {
        let session = prompt.session_id.to_string();
        let answer = next.run(prompt).await?;
        let params = json!({ "session": session, "message": answer.message_id });
        next.editor().notify_raw("_end", params)?;
        Ok(answer)
    });
    acp_proxy::script::play(
        proxy,
        r#"
        editor > {"id":0,"method":"initialize","params":{"protocolVersion":2}}
        agent  < {"id":0,"method":"initialize","params":{"protocolVersion":2}}
        agent  > {"id":0,"result":{"protocolVersion":2}}
        editor < {"id":0,"result":{"protocolVersion":2}}
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        agent  < {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        agent  > {"id":1,"result":{"messageId":"m"}}
        editor < {"id":1,"result":{"messageId":"m"}}
        agent  > {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"max_tokens"}}}
        editor < {"method":"_end","params":{"session":"s","message":"m"}}
        editor < {"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"max_tokens"}}}
        "#,
    );
}

/// Whether a handler of the component answers `initialize`, or the agent's answer passes.
#[test]
fn a_guard_declares_itself_in_every_answer_to_initialize() {
    let pass = || Proxy::new("guard");
    let handle = || {
        pass().on_raw_request(Side::Editor, "initialize", async |call: Call, next| {
            next.run(call).await
        })
    };
    for (proxy, flag) in [
        (acp_proxy::Component::from(pass()).declared_as_guard(), true),
        (acp_proxy::Component::from(handle()).declared_as_guard(), true),
        (pass().into(), false),
        (handle().into(), false),
    ] {
        let mut conversation = Conversation::new(proxy);
        conversation
            .send("editor", r#"{"id":1,"method":"initialize","params":{"protocolVersion":1}}"#);
        let id = conversation.receive("agent")["id"].clone();
        let answer = format!(r#"{{"id":{id},"result":{{"protocolVersion":1,"_meta":{{"x":1}}}}}}"#);
        conversation.send("agent", &answer);
        let result = conversation.receive("editor")["result"].clone();
        assert_eq!(result["_meta"]["conductor"]["guards"] == true, flag, "{result}");
        assert_eq!(result["_meta"]["x"], 1, "{result}");
    }
}
