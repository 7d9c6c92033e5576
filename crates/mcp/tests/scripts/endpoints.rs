//! The shell opens an endpoint for each bridged server, and may be slow. Until then the set-up
//! request waits, and so do all later messages for the agent.

use mcp::Transport;

use crate::harness::*;

const SERVERS: &str = r#"{"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#;
const TWO_SERVERS: &str = r#"{"mcpServers":[{"type":"acp","name":"N","serverId":"U"},{"type":"acp","name":"M","serverId":"V"}]}"#;

fn slow(participants: &str, agent: &str) -> Harness {
    let mut harness = Harness::new(participants, agent);
    harness.delay_shell(true);
    harness
}

/// The agent answers a request with this result.
fn agent_answers(harness: &mut Harness, id: &str, result: &str) {
    harness.send_line("agent", &format!("result {id} {result}"));
}

#[test]
fn no_message_overtakes_a_set_up_request_that_waits_for_an_endpoint() {
    let mut harness = slow("agent", STDIO);
    harness.send_line("agent", "fs/read_text_file 7 {}");
    harness.expect("editor", "fs/read_text_file ? {}");
    harness.send_line("editor", &format!("session/new 1 {SERVERS}"));
    harness.send_line("editor", r#"session/prompt 2 {"sessionId":"other"}"#);
    harness.send_line("editor", "result c:2 {}");
    harness.send_line("editor", r#"$/cancel_request {"requestId":1}"#);
    harness.send_line("editor", &format!("session/new 3 {TWO_SERVERS}"));
    harness.send_line("editor", r#"session/cancel {"sessionId":"other"}"#);
    harness.send_line("agent", "mcp/message 8 {}");
    harness.expect_nothing_more();
    // The second set-up request is handled when it is the first in the queue.
    assert_eq!(harness.requested_endpoints().len(), 1);
    harness.answer_endpoint(0);
    let first = harness.expect("agent", r#"session/new ? …"args":["mcp","7000"]…"value":"s1"…"#);
    harness.expect("agent", r#"session/prompt ? {"sessionId":"other"}"#);
    harness.expect("agent", "result 7 {}");
    harness.expect("agent", &format!(r#"$/cancel_request {{"requestId":"{first}"}}"#));
    harness.expect_nothing_more();
    assert_eq!(harness.requested_endpoints().len(), 2);
    // Endpoints may open in any order. The request waits for both.
    harness.answer_endpoint(1);
    harness.expect_nothing_more();
    harness.answer_endpoint(0);
    harness.expect("agent", r#"session/new ? …"name":"N"…"value":"s2"…"name":"M"…"value":"s3"…"#);
    harness.expect("agent", r#"session/cancel {"sessionId":"other"}"#);
    harness.expect("agent", "error 8 …");
    harness.expect_nothing_more();
}

#[test]
fn messages_for_other_components_are_not_held() {
    let mut harness = slow("p1:P5 agent", STDIO);
    harness.send_line("p1", &format!("~session/new 1 {SERVERS}"));
    harness.send_line("editor", "session/list 2 {}");
    harness.expect("p1", "session/list ? {}");
    harness.send_line("agent", r#"session/update {"sessionId":"other"}"#);
    harness.expect("p1", r#"~session/update {"sessionId":"other"}"#);
    harness.expect_nothing_more();
}

#[test]
fn a_request_fails_if_its_endpoint_cannot_be_opened_and_later_messages_are_delivered() {
    let mut harness = slow("agent", STDIO);
    harness.send_line("editor", &format!("session/new 1 {TWO_SERVERS}"));
    harness.send_line("editor", r#"session/prompt 2 {"sessionId":"other"}"#);
    harness.answer_endpoint(0);
    harness.endpoints.failure = Some("no port is free".into());
    harness.answer_endpoint(0);
    harness.expect(
        "editor",
        r#"error 1 {"code":-32603,"message":"the MCP server 'M' cannot be offered to agent 'agent': no port is free"}"#,
    );
    let prompt = harness.expect("agent", r#"session/prompt ? {"sessionId":"other"}"#);
    agent_answers(&mut harness, &prompt, "{}");
    harness.expect("editor", "result 2 {}");
    harness.expect_nothing_more();
    harness.expect_all_closed();
}

#[test]
fn an_agent_that_refuses_http_gets_stdio_when_that_endpoint_is_open() {
    let mut harness = slow("agent", HTTP);
    harness.send_line("editor", &format!("session/new 1 {SERVERS}"));
    harness.answer_endpoint(0);
    let refused = harness.expect("agent", "session/new ? …");
    // Another request already waits. The retry is queued behind it.
    harness.send_line("editor", &format!("session/new 2 {SERVERS}"));
    harness.send_line(
        "agent",
        &format!(r#"error {refused} {{"code":-32602,"message":"no MCP over http"}}"#),
    );
    let transports: Vec<Transport> =
        harness.requested_endpoints().iter().map(|(_, transport)| *transport).collect();
    assert_eq!(transports, [Transport::Http, Transport::Stdio]);
    harness.send_line("editor", r#"session/prompt 3 {"sessionId":"other"}"#);
    harness.answer_endpoint(1);
    harness.expect_nothing_more();
    assert!(harness.reports.is_empty(), "{:?}", harness.reports);
    harness.answer_endpoint(0);
    harness.expect("agent", r#"session/new ? …"type":"http"…"#);
    harness.expect(
        "agent",
        &format!(r#"session/new {refused} {{"mcpServers":[{{"name":"N","command":…"#),
    );
    harness.expect("agent", r#"session/prompt ? {"sessionId":"other"}"#);
    assert_eq!(harness.reports.len(), 1, "{:?}", harness.reports);
    agent_answers(&mut harness, &refused, r#"{"sessionId":"S"}"#);
    harness.expect("editor", r#"result 1 {"sessionId":"S"}"#);
    harness.expect_nothing_more();
}

#[test]
fn if_the_second_endpoint_cannot_be_opened_the_editor_gets_the_error_of_the_agent() {
    let mut harness = slow("agent", HTTP);
    harness.send_line("editor", &format!("session/new 1 {SERVERS}"));
    harness.answer_endpoint(0);
    let refused = harness.expect("agent", "session/new ? …");
    harness.send_line(
        "agent",
        &format!(r#"error {refused} {{"code":-32602,"message":"no MCP over http"}}"#),
    );
    harness.endpoints.failure = Some("no port is free".into());
    harness.answer_endpoint(0);
    harness.expect("editor", r#"error 1 {"code":-32602,"message":"no MCP over http"}"#);
    harness.expect_nothing_more();
    harness.expect_all_closed();
    assert!(harness.reports.is_empty(), "{:?}", harness.reports);
}

#[test]
fn messages_held_for_an_agent_that_crashes_are_not_delivered_to_the_restarted_agent() {
    let mut harness = slow("agent", STDIO);
    harness.send_line("editor", &format!("session/new 1 {SERVERS}"));
    harness.send_line("editor", r#"session/prompt 2 {"sessionId":"other"}"#);
    harness.send_line("editor", r#"session/cancel {"sessionId":"other"}"#);
    harness.crash("agent");
    harness.expect("editor", "error 1 …");
    harness.expect("editor", "error 2 …");
    // Messages from now on are for the restarted agent.
    harness.send_line("editor", &format!("session/new 3 {SERVERS}"));
    harness.restart_handshake("agent", STDIO);
    harness.assert_restarted("agent");
    harness.expect_nothing_more();
    // The endpoint of the lost request is not needed.
    assert_eq!(harness.requested_endpoints().len(), 2);
    harness.answer_endpoint(0);
    assert_eq!((harness.tickets().len(), harness.endpoints.revoked_count), (0, 1));
    harness.expect_nothing_more();
    harness.answer_endpoint(0);
    let id = harness.expect("agent", r#"session/new ? …"value":"s2"…"#);
    agent_answers(&mut harness, &id, r#"{"sessionId":"S"}"#);
    harness.expect("editor", r#"result 3 {"sessionId":"S"}"#);
    harness.expect_nothing_more();
}

#[test]
fn messages_held_for_an_agent_that_has_left_for_good_are_forgotten() {
    let mut harness = slow("p1:P5 agent+stop", STDIO);
    // The chain does not end before this request is answered.
    harness.send_line("editor", "_x/wait 9 {}");
    harness.expect("p1", "_x/wait ? {}");
    harness.send_line("p1", &format!("~session/new 1 {TWO_SERVERS}"));
    harness.answer_endpoint(0);
    harness.crash("agent");
    harness.expect("p1", "error 1 …");
    harness.answer_endpoint(0);
    assert_eq!((harness.endpoints.opened_count, harness.endpoints.revoked_count), (2, 2));
    let [tickets, .., held, _, _, watched] = harness.broker().sizes();
    assert_eq!([tickets, held, watched], [0; 3]);
}

#[test]
fn a_server_that_is_gone_before_its_endpoint_is_open_is_removed_from_the_request() {
    let mut harness = slow("p1:P5+once p2:P5 agent", STDIO);
    harness.send_line("p1", &format!("~session/new 5 {SERVERS}"));
    harness.expect("p2", &format!("session/new ? {SERVERS}"));
    harness.send_line("p2", &format!("~session/new 6 {TWO_SERVERS}"));
    assert_eq!(harness.requested_endpoints().len(), 2);
    // The first server belongs to the component that crashes, the second does not.
    harness.crash("p1");
    harness.crash_again("p1");
    assert!(harness.is_bypassed("p1"));
    harness.answer_endpoint(0);
    assert_eq!(
        (harness.tickets().len(), harness.endpoints.revoked_count),
        (0, 1),
        "the endpoint is not needed"
    );
    harness.expect_nothing_more_at("agent");
    harness.answer_endpoint(0);
    harness.expect("agent", r#"session/new ? {"mcpServers":[{"name":"M",…"value":"s2"}]}]}"#);
    assert_eq!((harness.tickets().len(), harness.endpoints.revoked_count), (1, 1));
}

/// An error of an agent may contain no more than the name of the server.
#[test]
fn an_error_that_names_a_server_leads_to_another_transport() {
    for (name, is_retried) in [("N", true), ("another", false)] {
        let mut harness = Harness::new("agent", HTTP);
        harness.send_line("editor", &format!("session/new 1 {SERVERS}"));
        let refused = harness.expect("agent", "session/new ? …");
        let error = format!(r#"{{"code":-32602,"message":"could not start '{name}'"}}"#);
        harness.send_line("agent", &format!("error {refused} {error}"));
        match is_retried {
            true => {
                drop(harness.expect("agent", &format!(r#"session/new {refused} …"command":…"#)))
            }
            false => drop(harness.expect("editor", &format!("error 1 {error}"))),
        }
        harness.expect_nothing_more();
    }
}
