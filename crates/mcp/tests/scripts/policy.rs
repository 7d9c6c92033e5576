//! The choice of transport for an agent without MCP over ACP, and how it changes when the transport
//! does not work.

use mcp::{BridgePolicy, Transport};

use crate::harness::*;

const SERVER: &str = r#"{"type":"acp","name":"N","serverId":"U"}"#;

/// Sends a set-up request. Returns its id at the agent, and the transports of the endpoints.
fn begin(harness: &mut Harness, id: u64) -> (String, Vec<Transport>) {
    harness.send_line("editor", &format!(r#"session/new {id} {{"mcpServers":[{SERVER}]}}"#));
    let request = harness.expect(&harness.agent(), "session/new ? …");
    (request, harness.transports())
}

fn answer(harness: &mut Harness, request: &str, line: &str) {
    let agent = harness.agent();
    harness.send_line(&agent, &line.replacen('?', request, 1));
}

/// Checklist 70, 71.
#[test]
fn the_agents_capabilities_decide_the_transport() {
    for (agent, transport) in [(STDIO, Transport::Stdio), (HTTP, Transport::Http)] {
        let mut harness = Harness::new("(p1:P4) agent", agent);
        assert_eq!(begin(&mut harness, 1).1, [transport]);
    }
}

#[test]
fn a_known_agent_gets_the_transport_that_works_with_it() {
    let named = |name: &str, http: bool| {
        format!(
            r#"{{"protocolVersion":1,"agentInfo":{{"name":"{name}"}},"agentCapabilities":{{"mcpCapabilities":{{"http":{http}}}}}}}"#
        )
    };
    for (participants, agent, transport) in [
        ("agent", named("OpenHands CLI", true), Transport::Stdio),
        ("agent", named("GitHub Copilot", false), Transport::Http),
        ("agent", named("another", true), Transport::Http),
        ("openhands-acp", named("x", true), Transport::Stdio),
        ("copilot", named("x", false), Transport::Http),
    ] {
        let mut harness = Harness::new(participants, &agent);
        assert_eq!(begin(&mut harness, 1).1, [transport], "{participants} {agent}");
    }
    // The other transport is not tried.
    let mut harness = Harness::new("copilot", STDIO);
    let (request, _) = begin(&mut harness, 1);
    answer(&mut harness, &request, r#"error ? {"code":-32602,"message":"no"}"#);
    harness.expect("editor", r#"error 1 {"code":-32602,"message":"no"}"#);
    harness.expect_nothing_more();
    harness.expect_all_closed();
}

#[test]
fn a_forced_transport_is_the_only_one_that_is_tried() {
    for (agent, transport) in [(STDIO, Transport::Http), (HTTP, Transport::Stdio)] {
        let mut harness = Harness::with_policy("agent", agent, BridgePolicy::Only(transport));
        let (request, transports) = begin(&mut harness, 1);
        assert_eq!(transports, [transport]);
        answer(&mut harness, &request, r#"error ? {"code":-32602,"message":"no"}"#);
        harness.expect("editor", r#"error 1 {"code":-32602,"message":"no"}"#);
        let (request, _) = begin(&mut harness, 2);
        answer(&mut harness, &request, r#"result ? {"sessionId":"S"}"#);
        harness.expect("editor", "result 2 …");
        prompt(&mut harness, "S");
        assert!(harness.reports.is_empty());
        assert_eq!(begin(&mut harness, 3).1, [transport, transport]);
    }
    // A native agent gets no transport forced on it.
    let mut harness = Harness::with_policy("agent", NATIVE, BridgePolicy::Only(Transport::Http));
    assert_eq!(begin(&mut harness, 1).1, []);
}

fn prompt(harness: &mut Harness, session: &str) {
    harness.send_line("editor", &format!(r#"session/prompt prompt {{"sessionId":"{session}"}}"#));
    let agent = harness.agent();
    let id = harness.expect(&agent, "session/prompt ? …");
    harness.send_line(&agent, &format!("result {id} {{}}"));
    harness.expect("editor", "result prompt {}");
}

#[test]
fn a_refused_session_is_retried_with_the_other_transport() {
    for code in [-32602, -32603] {
        let mut harness = Harness::new("(p1:P4) agent", HTTP);
        let (request, transports) = begin(&mut harness, 1);
        assert_eq!(transports, [Transport::Http]);
        answer(
            &mut harness,
            &request,
            &format!(r#"error ? {{"code":{code},"message":"no MCP server over http"}}"#),
        );
        // No other component sees the retry.
        let again =
            harness.expect("agent", r#"session/new ? {"mcpServers":[{"name":"N","command":…}]}"#);
        harness.expect_nothing_more();
        assert_eq!(
            (again.as_str(), harness.transports()),
            (request.as_str(), vec![Transport::Stdio])
        );
        answer(&mut harness, &again, r#"result ? {"sessionId":"S"}"#);
        harness.expect("editor", r#"result 1 {"sessionId":"S"}"#);
        assert_eq!(harness.reports.len(), 1, "{:?}", harness.reports);
        // The transport is used for the next session.
        assert_eq!(begin(&mut harness, 2).1, [Transport::Stdio, Transport::Stdio]);
    }
}

#[test]
fn if_both_transports_are_refused_the_editor_gets_the_first_error() {
    let mut harness = Harness::new("agent", HTTP);
    let (request, _) = begin(&mut harness, 1);
    answer(&mut harness, &request, r#"error ? {"code":-32602,"message":"first MCP"}"#);
    let again = harness.expect("agent", "session/new ? …");
    answer(&mut harness, &again, r#"error ? {"code":-32603,"message":"second MCP"}"#);
    harness.expect("editor", r#"error 1 {"code":-32602,"message":"first MCP"}"#);
    harness.expect_nothing_more();
    harness.expect_all_closed();
    assert_eq!(
        begin(&mut harness, 2).1,
        [Transport::Http],
        "the choice of transport has not changed"
    );
}

#[test]
fn a_session_that_is_refused_for_another_reason_is_not_retried() {
    let mut harness = Harness::new("agent", HTTP);
    let (request, _) = begin(&mut harness, 1);
    answer(&mut harness, &request, r#"error ? {"code":-32000,"message":"log in"}"#);
    harness.expect("editor", r#"error 1 {"code":-32000,"message":"log in"}"#);
    harness.expect_nothing_more();
    harness.expect_all_closed();
    // The agent explains its refusal.
    for error in [
        r#"{"code":-32602,"message":"cwd does not exist"}"#,
        r#"{"code":-32602,"message":"Invalid params","data":{"cwd":["not absolute"]}}"#,
        r#"{"code":-32603,"message":"the model is overloaded (HTTP 529)"}"#,
        r#"{"code":-32603,"message":"no"}"#,
    ] {
        let (request, _) = begin(&mut harness, 3);
        answer(&mut harness, &request, &format!("error ? {error}"));
        harness.expect("editor", &format!("error 3 {error}"));
        harness.expect_nothing_more();
        harness.expect_all_closed();
    }
    // Nor is a session without ACP servers.
    harness.send_line("editor", r#"session/new 2 {"mcpServers":[]}"#);
    let request = harness.expect("agent", "session/new ? …");
    answer(&mut harness, &request, r#"error ? {"code":-32602,"message":"no"}"#);
    harness.expect("editor", r#"error 2 {"code":-32602,"message":"no"}"#);
    harness.expect_nothing_more();
}

/// A v2 agent declares all transports that it accepts.
#[test]
fn in_acp_v2_only_declared_transports_are_tried() {
    let only = r#"{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{"mcp":{"http":{}}}}}"#;
    let mut harness = Harness::new("agent", only);
    let (request, transports) = begin(&mut harness, 1);
    assert_eq!(transports, [Transport::Http]);
    answer(&mut harness, &request, r#"error ? {"code":-32602,"message":"no mcp"}"#);
    harness.expect("editor", r#"error 1 {"code":-32602,"message":"no mcp"}"#);
    harness.expect_nothing_more();
}

#[test]
fn an_agent_that_does_not_connect_in_its_first_turn_gets_the_other_transport_in_the_next_session() {
    let mut harness = Harness::new("agent", HTTP);
    let (request, transports) = begin(&mut harness, 1);
    assert_eq!(transports, [Transport::Http]);
    answer(&mut harness, &request, r#"result ? {"sessionId":"S"}"#);
    harness.expect("editor", "result 1 …");
    prompt(&mut harness, "another");
    assert!(harness.reports.is_empty());
    prompt(&mut harness, "S");
    assert_eq!(harness.reports.len(), 1);
    let report = &harness.reports[0];
    assert!(report.contains("agent 'agent'") && report.contains("(N)"), "{report}");
    prompt(&mut harness, "S");
    assert_eq!(harness.reports.len(), 1, "the message is sent once");
    let (request, transports) = begin(&mut harness, 2);
    assert_eq!(transports, [Transport::Http, Transport::Stdio]);
    answer(&mut harness, &request, r#"result ? {"sessionId":"T"}"#);
    harness.expect("editor", "result 2 …");
    // Now the agent connects, so the transport stays.
    harness.connect_client(harness.tickets()[1]);
    prompt(&mut harness, "T");
    assert_eq!(begin(&mut harness, 3).1, [Transport::Http, Transport::Stdio, Transport::Stdio]);
    assert_eq!(harness.reports.len(), 1);
}

/// Checklist 71: an agent never gets a transport that it does not declare.
#[test]
fn a_transport_that_the_agent_does_not_declare_is_not_tried() {
    let mut harness = Harness::new("agent", STDIO);
    let (request, transports) = begin(&mut harness, 1);
    assert_eq!(transports, [Transport::Stdio]);
    let error = r#"{"code":-32602,"message":"stdio MCP servers are not supported"}"#;
    answer(&mut harness, &request, &format!("error ? {error}"));
    harness.expect("editor", &format!("error 1 {error}"));
    let (request, _) = begin(&mut harness, 2);
    answer(&mut harness, &request, r#"result ? {"sessionId":"S"}"#);
    harness.expect("editor", "result 2 …");
    prompt(&mut harness, "S");
    assert!(harness.reports.is_empty(), "{:?}", harness.reports);
    assert_eq!(begin(&mut harness, 3).1, [Transport::Stdio, Transport::Stdio]);
}

#[test]
fn an_agent_that_has_connected_keeps_its_transport() {
    let mut harness = Harness::new("agent", HTTP);
    let (request, _) = begin(&mut harness, 1);
    answer(&mut harness, &request, r#"result ? {"sessionId":"S"}"#);
    harness.expect("editor", "result 1 …");
    let client = harness.connect_client(harness.tickets()[0]);
    harness.disconnect(client);
    prompt(&mut harness, "S");
    assert!(harness.reports.is_empty());
    let (request, transports) = begin(&mut harness, 2);
    assert_eq!(transports, [Transport::Http, Transport::Http]);
    // The transport also stays if the agent does not connect in another session, or in one that it
    // resumes.
    answer(&mut harness, &request, r#"result ? {"sessionId":"T"}"#);
    harness.expect("editor", "result 2 …");
    prompt(&mut harness, "T");
    assert!(harness.reports.is_empty());
    assert_eq!(begin(&mut harness, 3).1, [Transport::Http; 3]);
}
