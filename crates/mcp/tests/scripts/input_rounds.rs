//! A stateless server requests input before it answers. The broker sends these requests to the
//! client.

use mcp::ClientId;

use crate::harness::*;

const SERVER: &str = r#"{"type":"acp","name":"N","serverId":"U"}"#;

/// A client with these capabilities, connected to a stateless server.
fn client(capabilities: &str) -> (Harness, ClientId) {
    let mut harness = Harness::new("p1:P5 (x:P4) agent", STDIO);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{SERVER}]}}"#));
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    let initialize = format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities}}}"#);
    harness.client_sends(client, &format!("initialize 1 {initialize}"));
    let id = harness.expect("p1", r#"~mcp/message ? …"server/discover"…"#);
    harness.send_line("p1", &format!(r#"result {id} {{"result":{{"capabilities":{{}}}}}}"#));
    harness.expect_client(client, "result 1 …");
    (harness, client)
}

const ASKS: &str = r#"{"result":{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?"}},"where":{"method":"roots/list"}},"requestState":"opaque"}}"#;

#[test]
fn a_client_gets_the_input_requests_and_the_original_request_is_repeated() {
    let (mut harness, client) = client(r#"{"elicitation":{},"roots":{}}"#);
    harness.client_sends(client, r#"tools/call 2 {"name":"x","_meta":{"progressToken":"t"}}"#);
    let first = harness.expect("p1", r#"~mcp/message ? …{"name":"x",…"#);
    let request = harness.last_member("requestId");
    harness.send_line("p1", &format!("result {first} {ASKS}"));
    let participant = harness.expect_client(client, r#"elicitation/create ? {"message":"Who?"}"#);
    let place = harness.expect_client(client, "roots/list ?…");
    harness.client_sends(client, &format!(r#"result {place} {{"roots":[]}}"#));
    harness.expect_nothing_more();
    harness.client_sends(client, &format!(r#"result {participant} {{"action":"accept"}}"#));
    let second = harness.expect(
        "p1",
        r#"~mcp/message ? {"serverId":"U","requestId":"…","method":"tools/call","params":{"name":"x","_meta":{"progressToken":"t",…},"inputResponses":{"who":{"action":"accept"},"where":{"roots":[]}},"requestState":"opaque"}}"#,
    );
    assert_ne!(harness.last_member("requestId"), request);
    // The server may request input again, without its previous state.
    let again = r#"{"result":{"resultType":"input_required","inputRequests":{"why":{"method":"elicitation/create"}}}}"#;
    harness.send_line("p1", &format!("result {second} {again}"));
    let why = harness.expect_client(client, "elicitation/create ?…");
    harness.client_sends(client, &format!(r#"result {why} {{"action":"decline"}}"#));
    let third =
        harness.expect("p1", r#"~mcp/message ? …"inputResponses":{"why":{"action":"decline"}}}}"#);
    let progress = harness.last_member("requestId");
    harness.send_line("p1", &format!(r#"~mcp/message {{"serverId":"U","requestId":"{progress}","method":"notifications/progress","params":{{"progressToken":"t"}}}}"#));
    harness.expect_client(client, r#"notifications/progress {"progressToken":"t"}"#);
    harness.send_line(
        "p1",
        &format!(r#"result {third} {{"result":{{"resultType":"complete","content":[]}}}}"#),
    );
    harness.expect_client(client, r#"result 2 {"content":[]}"#);
    harness.disconnect(client);
    harness.expect_nothing_more();
}

#[test]
fn a_client_that_does_not_support_the_input_request_gets_an_error() {
    for capabilities in ["{}", r#"{"roots":{}}"#, r#"{"sampling":{}}"#] {
        let (mut harness, client) = client(capabilities);
        harness.client_sends(client, r#"tools/call 2 {"name":"x"}"#);
        let id = harness.expect("p1", "~mcp/message ? …");
        harness.send_line("p1", &format!("result {id} {ASKS}"));
        harness.expect_client(client, r#"error 2 {"code":-32603,"message":"the MCP server needs '…' from its client, which does not support it"}"#);
        harness.expect_nothing_more();
    }
}

#[test]
fn a_request_fails_if_the_client_refuses_the_input_request() {
    let (mut harness, client) = client(r#"{"elicitation":{},"roots":{}}"#);
    harness.client_sends(client, r#"tools/call 2 {"name":"x"}"#);
    let id = harness.expect("p1", "~mcp/message ? …");
    harness.send_line("p1", &format!("result {id} {ASKS}"));
    let participant = harness.expect_client(client, "elicitation/create ? …");
    let place = harness.expect_client(client, "roots/list ?…");
    harness.client_sends(
        client,
        &format!(r#"error {participant} {{"code":-1,"message":"rather not"}}"#),
    );
    // The client does not have to answer the other requests.
    harness.expect_client(client, &format!(r#"notifications/cancelled {{"requestId":"{place}"}}"#));
    harness.expect_client(client, r#"error 2 {"code":-1,"message":"rather not"}"#);
    harness.client_sends(client, &format!("result {place} {{}}"));
    harness.expect_nothing_more();
}

#[test]
fn a_server_that_requests_no_input_gets_the_request_again() {
    let (mut harness, client) = client("{}");
    harness.client_sends(client, r#"tools/call 2 {"name":"x"}"#);
    for _ in 0..16 {
        let id = harness.expect("p1", "~mcp/message ? …");
        harness.send_line(
            "p1",
            &format!(
                r#"result {id} {{"result":{{"resultType":"input_required","requestState":"s"}}}}"#
            ),
        );
    }
    // But only a limited number of times.
    let id = harness.expect("p1", r#"~mcp/message ? …"inputResponses":{},"requestState":"s",…"#);
    harness.send_line(
        "p1",
        &format!(
            r#"result {id} {{"result":{{"resultType":"input_required","requestState":"s"}}}}"#
        ),
    );
    harness.expect_client(
        client,
        r#"error 2 {"code":-32603,"message":"the MCP server requested input too often"}"#,
    );
    harness.expect_nothing_more();
}

/// The client cancels its request, or disconnects, during an input request.
#[test]
fn input_requests_end_with_their_original_request() {
    for leaves in [false, true] {
        let (mut harness, client) = client(r#"{"elicitation":{},"roots":{}}"#);
        harness.client_sends(client, r#"tools/call 2 {"name":"x"}"#);
        let id = harness.expect("p1", "~mcp/message ? …");
        harness.send_line("p1", &format!("result {id} {ASKS}"));
        let participant = harness.expect_client(client, "elicitation/create ? …");
        let place = harness.expect_client(client, "roots/list ?…");
        if leaves {
            harness.disconnect(client);
        } else {
            harness.client_sends(client, r#"notifications/cancelled {"requestId":2}"#);
            harness.expect_client(
                client,
                &format!(r#"notifications/cancelled {{"requestId":"{participant}"}}"#),
            );
            harness.expect_client(
                client,
                &format!(r#"notifications/cancelled {{"requestId":"{place}"}}"#),
            );
            harness.client_sends(client, &format!("result {participant} {{}}"));
        }
        // The server has answered, so it gets no cancellation.
        harness.expect_nothing_more();
        let [_, _, _, _, request, .., talks, watched] = harness.broker().sizes();
        assert_eq!(
            (request, talks, watched),
            (0, if leaves { 0 } else { 1 }, 2),
            "only the session is left"
        );
    }
}

/// Native agents with connections get input requests in their own form.
#[test]
fn an_agent_with_connections_gets_input_requests_in_its_own_form() {
    let mut harness = Harness::new("p1:P5 agent", NATIVE);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{SERVER}]}}"#));
    harness.expect("agent", "session/new ? …");
    harness.send_line("agent", r#"mcp/connect 1 {"serverId":"U"}"#);
    // The provider might use the same form.
    let id = harness.expect("p1", "~mcp/connect ? …");
    harness.send_line("p1", &format!(r#"error {id} {{"code":-32601,"message":"no"}}"#));
    let id = harness.expect("p1", r#"~mcp/message ? …"server/discover"…"#);
    harness.send_line("p1", &format!(r#"result {id} {{"result":{{}}}}"#));
    harness.expect("agent", r#"result 1 {"connectionId":"mcp-over-acp:1"}"#);
    let mcp_message = |rest: &str| format!(r#"{{"connectionId":"mcp-over-acp:1",{rest}}}"#);
    let initialize = r#""method":"initialize","params":{"capabilities":{"roots":{}}}"#;
    harness.send_line("agent", &format!("mcp/message 2 {}", mcp_message(initialize)));
    harness.expect("agent", "result 2 …");
    harness.send_line(
        "agent",
        &format!("mcp/message 3 {}", mcp_message(r#""method":"tools/call","params":{}"#)),
    );
    let id = harness.expect("p1", "~mcp/message ? …");
    harness.send_line("p1", &format!(r#"result {id} {{"result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"roots/list"}}}}}}}}"#));
    let id = harness
        .expect("agent", &format!("mcp/message ? {}", mcp_message(r#""method":"roots/list""#)));
    harness.send_line("agent", &format!(r#"result {id} {{"roots":[]}}"#));
    harness.expect("p1", r#"~mcp/message ? …"inputResponses":{"a":{"roots":[]}}…"#);
    harness.expect_nothing_more();
}
