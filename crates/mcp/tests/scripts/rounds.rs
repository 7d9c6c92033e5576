//! A stateless server asks back before it answers; a client of the bridge is asked in its place.

use mcp::ClientId;

use crate::stage::*;

const SERVER: &str = r#"{"type":"acp","name":"N","serverId":"U"}"#;

/// A client that can this, in a conversation with a stateless server.
fn client(capabilities: &str) -> (Stage, ClientId) {
    let mut stage = Stage::new("p1:P5 (x:P4) agent", STDIO);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{SERVER}]}}"#));
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    let hello = format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities}}}"#);
    stage.hear(client, &format!("initialize 1 {hello}"));
    let id = stage.see("p1", r#"~mcp/message ? …"server/discover"…"#);
    stage.say("p1", &format!(r#"result {id} {{"result":{{"capabilities":{{}}}}}}"#));
    stage.told(client, "result 1 …");
    (stage, client)
}

const ASKS: &str = r#"{"result":{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?"}},"where":{"method":"roots/list"}},"requestState":"opaque"}}"#;

#[test]
fn a_client_that_can_is_asked_and_the_request_is_repeated() {
    let (mut stage, client) = client(r#"{"elicitation":{},"roots":{}}"#);
    stage.hear(client, r#"tools/call 2 {"name":"x","_meta":{"progressToken":"t"}}"#);
    let first = stage.see("p1", r#"~mcp/message ? …{"name":"x",…"#);
    let request = stage.last_member("requestId");
    stage.say("p1", &format!("result {first} {ASKS}"));
    let who = stage.told(client, r#"elicitation/create ? {"message":"Who?"}"#);
    let place = stage.told(client, "roots/list ?…");
    stage.hear(client, &format!(r#"result {place} {{"roots":[]}}"#));
    stage.quiet();
    stage.hear(client, &format!(r#"result {who} {{"action":"accept"}}"#));
    let second = stage.see(
        "p1",
        r#"~mcp/message ? {"serverId":"U","requestId":"…","method":"tools/call","params":{"name":"x","_meta":{"progressToken":"t",…},"inputResponses":{"who":{"action":"accept"},"where":{"roots":[]}},"requestState":"opaque"}}"#,
    );
    assert_ne!(stage.last_member("requestId"), request);
    // It may ask again, and forget what it had remembered.
    let again = r#"{"result":{"resultType":"input_required","inputRequests":{"why":{"method":"elicitation/create"}}}}"#;
    stage.say("p1", &format!("result {second} {again}"));
    let why = stage.told(client, "elicitation/create ?…");
    stage.hear(client, &format!(r#"result {why} {{"action":"decline"}}"#));
    let third =
        stage.see("p1", r#"~mcp/message ? …"inputResponses":{"why":{"action":"decline"}}}}"#);
    let progress = stage.last_member("requestId");
    stage.say("p1", &format!(r#"~mcp/message {{"serverId":"U","requestId":"{progress}","method":"notifications/progress","params":{{"progressToken":"t"}}}}"#));
    stage.told(client, r#"notifications/progress {"progressToken":"t"}"#);
    stage.say(
        "p1",
        &format!(r#"result {third} {{"result":{{"resultType":"complete","content":[]}}}}"#),
    );
    stage.told(client, r#"result 2 {"content":[]}"#);
    stage.hang_up(client);
    stage.quiet();
}

#[test]
fn a_client_that_cannot_is_told_why_there_is_no_answer() {
    for capabilities in ["{}", r#"{"roots":{}}"#, r#"{"sampling":{}}"#] {
        let (mut stage, client) = client(capabilities);
        stage.hear(client, r#"tools/call 2 {"name":"x"}"#);
        let id = stage.see("p1", "~mcp/message ? …");
        stage.say("p1", &format!("result {id} {ASKS}"));
        stage.told(client, r#"error 2 {"code":-32603,"message":"the MCP server needs '…' from its client, which does not support it"}"#);
        stage.quiet();
    }
}

#[test]
fn a_client_that_refuses_ends_the_operation() {
    let (mut stage, client) = client(r#"{"elicitation":{},"roots":{}}"#);
    stage.hear(client, r#"tools/call 2 {"name":"x"}"#);
    let id = stage.see("p1", "~mcp/message ? …");
    stage.say("p1", &format!("result {id} {ASKS}"));
    let who = stage.told(client, "elicitation/create ? …");
    let place = stage.told(client, "roots/list ?…");
    stage.hear(client, &format!(r#"error {who} {{"code":-1,"message":"rather not"}}"#));
    // It need not answer the rest.
    stage.told(client, &format!(r#"notifications/cancelled {{"requestId":"{place}"}}"#));
    stage.told(client, r#"error 2 {"code":-1,"message":"rather not"}"#);
    stage.hear(client, &format!("result {place} {{}}"));
    stage.quiet();
}

#[test]
fn a_server_that_only_wants_to_be_asked_again_is() {
    let (mut stage, client) = client("{}");
    stage.hear(client, r#"tools/call 2 {"name":"x"}"#);
    for _ in 0..16 {
        let id = stage.see("p1", "~mcp/message ? …");
        stage.say(
            "p1",
            &format!(
                r#"result {id} {{"result":{{"resultType":"input_required","requestState":"s"}}}}"#
            ),
        );
    }
    // But not without end.
    let id = stage.see("p1", r#"~mcp/message ? …"inputResponses":{},"requestState":"s",…"#);
    stage.say(
        "p1",
        &format!(
            r#"result {id} {{"result":{{"resultType":"input_required","requestState":"s"}}}}"#
        ),
    );
    stage.told(
        client,
        r#"error 2 {"code":-32603,"message":"the MCP server requested input too often"}"#,
    );
    stage.quiet();
}

/// The client takes its request back, or leaves, while it is asked something.
#[test]
fn what_is_asked_for_a_request_is_over_with_it() {
    for leaves in [false, true] {
        let (mut stage, client) = client(r#"{"elicitation":{},"roots":{}}"#);
        stage.hear(client, r#"tools/call 2 {"name":"x"}"#);
        let id = stage.see("p1", "~mcp/message ? …");
        stage.say("p1", &format!("result {id} {ASKS}"));
        let who = stage.told(client, "elicitation/create ? …");
        let place = stage.told(client, "roots/list ?…");
        if leaves {
            stage.hang_up(client);
        } else {
            stage.hear(client, r#"notifications/cancelled {"requestId":2}"#);
            stage.told(client, &format!(r#"notifications/cancelled {{"requestId":"{who}"}}"#));
            stage.told(client, &format!(r#"notifications/cancelled {{"requestId":"{place}"}}"#));
            stage.hear(client, &format!("result {who} {{}}"));
        }
        // The server has answered, so it has nothing to take back.
        stage.quiet();
        let [_, _, _, _, asked, .., talks, watched] = stage.broker().sizes();
        assert_eq!((asked, talks, watched), (0, if leaves { 0 } else { 1 }, 2), "but the session");
    }
}

/// Agents that speak of connections themselves are asked in their own words.
#[test]
fn an_agent_that_speaks_of_connections_is_asked_in_its_words() {
    let mut stage = Stage::new("p1:P5 agent", NATIVE);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{SERVER}]}}"#));
    stage.see("agent", "session/new ? …");
    stage.say("agent", r#"mcp/connect 1 {"serverId":"U"}"#);
    // It might be of the same form.
    let id = stage.see("p1", "~mcp/connect ? …");
    stage.say("p1", &format!(r#"error {id} {{"code":-32601,"message":"no"}}"#));
    let id = stage.see("p1", r#"~mcp/message ? …"server/discover"…"#);
    stage.say("p1", &format!(r#"result {id} {{"result":{{}}}}"#));
    stage.see("agent", r#"result 1 {"connectionId":"mcp-over-acp:1"}"#);
    let say = |rest: &str| format!(r#"{{"connectionId":"mcp-over-acp:1",{rest}}}"#);
    let hello = r#""method":"initialize","params":{"capabilities":{"roots":{}}}"#;
    stage.say("agent", &format!("mcp/message 2 {}", say(hello)));
    stage.see("agent", "result 2 …");
    stage.say("agent", &format!("mcp/message 3 {}", say(r#""method":"tools/call","params":{}"#)));
    let id = stage.see("p1", "~mcp/message ? …");
    stage.say("p1", &format!(r#"result {id} {{"result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"roots/list"}}}}}}}}"#));
    let id = stage.see("agent", &format!("mcp/message ? {}", say(r#""method":"roots/list""#)));
    stage.say("agent", &format!(r#"result {id} {{"roots":[]}}"#));
    stage.see("p1", r#"~mcp/message ? …"inputResponses":{"a":{"roots":[]}}…"#);
    stage.quiet();
}
