//! Delays, timeouts, and which participants wait for each other.

use acp_wire::Outcome;
use mcp::form::Form;

use crate::harness::*;
use crate::participants::*;
use crate::scenario::*;

const INITIALIZE: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;

/// Checklist 75: an agent may list the tools of its servers before it answers `session/new`.
#[test]
fn servers_can_be_used_before_the_session_is_set_up() {
    for consumer in FORMS.into_iter().map(Some).chain([None]) {
        for form in FORMS {
            let participants = format!("p1:{} (x:P4) agent", generation_of(form));
            let providers = vec![Provider::new("p1", form, &[("N", "U")])];
            let mut scenario = Scenario::new(&participants, consumer, providers);
            let (id, set_up) = scenario.begin_session();
            let connection = scenario.connect(&servers(&set_up)[0]);
            let name = scenario.ask(&connection, "tools/list", "{}");
            if consumer == Some(Form::M7) && form != Form::M7 {
                let initialize = scenario.next_received("p1");
                scenario.result("p1", &initialize, "{}");
                scenario.next_received("p1");
            }
            let received = scenario.next_received("p1");
            scenario.result("p1", &received, r#"{"tools":[]}"#);
            assert!(matches!(scenario.agent.outcomes.remove(&name), Some(Outcome::Result(_))));
            scenario.agent_answers_with(&id, r#"{"sessionId":"S"}"#);
            assert!(scenario.editor().answers.contains_key("e1"));
            scenario.close_session("S");
            scenario.agent.disconnect(&mut scenario.harness, &connection);
        }
    }
}

/// Some servers lose a message that arrives right after `notifications/initialized`, unless both
/// arrive together.
#[test]
fn initialized_is_sent_with_the_next_message_or_alone_after_a_delay() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    for alone in [false, true] {
        let mut harness = Harness::new("p1:P4 agent", STDIO);
        harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
        harness.expect("agent", "session/new ? …");
        let client = harness.connect_client(harness.tickets()[0]);
        harness.client_sends(client, &format!("initialize 1 {INITIALIZE}"));
        let connect = harness.expect("p1", "~_mcp/connect ? …");
        harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
        let initialize = harness.expect("p1", r#"~_mcp/message ? {…"method":"initialize"…"#);
        harness.send_line("p1", &format!("result {initialize} {{}}"));
        harness.expect_client(client, "result 1 {}");
        harness.client_sends_at_once(client, ready);
        harness.wait(199);
        harness.expect_nothing_more();
        match alone {
            true => harness.wait(1),
            false => harness.client_sends(client, "tools/list 2"),
        }
        harness.expect("p1", r#"~_mcp/message {…"method":"notifications/initialized"…"#);
        if !alone {
            harness.expect("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);
        }
        harness.expect_nothing_more();
    }
}

/// A provider may be busy with the very request that sets up the session, and the agent may answer
/// that request only after the handshakes with all its servers.
#[test]
fn the_initialize_of_a_client_is_answered_after_two_seconds_even_if_its_server_does_not_answer() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut harness = Harness::new("p1:P4 agent", STDIO);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    harness.client_sends(client, &format!("initialize 1 {INITIALIZE}"));
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.wait(1_999);
    harness.expect_nothing_more();
    harness.wait(1);
    harness.expect_client(client, r#"result 1 {"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"N",…}}"#);
    harness.client_sends(client, "notifications/initialized");
    harness.client_sends(client, "tools/list 2");
    harness.wait(2_000);
    harness.expect_nothing_more();
    // The deferred messages are sent in order, and the client is notified that lists have
    // changed.
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let initialize = harness.expect(
        "p1",
        &format!(r#"~_mcp/message ? {{…"method":"initialize","params":{INITIALIZE}}}"#),
    );
    // No server expects a message before it has answered `initialize`.
    harness.expect_nothing_more();
    harness.send_line("p1", &format!(r#"result {initialize} {{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}},"prompts":{{}}}}}}"#));
    harness.expect_client(client, "notifications/tools/list_changed");
    harness.expect_client(client, "notifications/prompts/list_changed");
    harness.expect("p1", r#"~_mcp/message {…"method":"notifications/initialized"…"#);
    let list = harness.expect("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);
    harness.send_line("p1", &format!(r#"result {list} {{"tools":[]}}"#));
    harness.expect_client(client, r#"result 2 {"tools":[]}"#);
    harness.expect_nothing_more();
}

/// Over HTTP the answer to a request is a stream, which has to end even if the request is
/// cancelled.
#[test]
fn a_request_that_is_cancelled_before_it_is_sent_gets_an_answer_over_http() {
    for (agent, http) in [(STDIO, false), (HTTP, true)] {
        let (mut harness, client) = waiting_client(agent);
        harness.client_sends(client, "tools/list 1");
        let connect = harness.expect("p1", "~_mcp/connect ? …");
        harness.client_sends(client, r#"notifications/cancelled {"requestId":1}"#);
        if http {
            harness.expect_client(client, r#"error 1 {"code":-32800,…"#);
        }
        harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
        harness.expect_nothing_more();
    }
}

#[test]
fn an_initialize_that_the_bridge_has_answered_cannot_be_cancelled() {
    for agent in [STDIO, HTTP] {
        let (mut harness, client) = waiting_client(agent);
        harness.client_sends(client, &format!("initialize 1 {INITIALIZE}"));
        let connect = harness.expect("p1", "~_mcp/connect ? …");
        harness.wait(2_000);
        harness.expect_client(client, "result 1 …");
        harness.client_sends(client, r#"notifications/cancelled {"requestId":1}"#);
        harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
        let initialize = harness.expect("p1", r#"~_mcp/message ? {…"method":"initialize"…"#);
        harness.send_line("p1", &format!("result {initialize} {{}}"));
        harness.expect_nothing_more();
    }
}

/// A client of a server that was declared to this agent. The session is not set up yet.
fn waiting_client(agent: &str) -> (Harness, mcp::ClientId) {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut harness = Harness::new("p1:P4 agent", agent);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    (harness, client)
}

#[test]
fn a_server_that_is_in_time_answers_initialize_itself() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut harness = Harness::new("p1:P4 agent", STDIO);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    harness.client_sends(client, &format!("initialize 1 {INITIALIZE}"));
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.wait(1_000);
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let initialize = harness.expect("p1", r#"~_mcp/message ? …"#);
    harness.wait(999);
    harness.send_line("p1", &format!(r#"result {initialize} {{"own":1}}"#));
    harness.expect_client(client, r#"result 1 {"own":1}"#);
    harness.wait(60_000);
    // Other requests have no timeout.
    harness.client_sends(client, "tools/call 2 {}");
    harness.expect("p1", r#"~_mcp/message ? …"#);
    harness.wait(3_600_000);
    harness.expect_nothing_more();
}

/// The server cannot be reached after the bridge has answered `initialize`. The client gets errors
/// for its other requests.
#[test]
fn after_a_refused_connect_all_waiting_requests_get_an_error() {
    let entry = r#"{"type":"acp","name":"N","id":"U"}"#;
    let mut harness = Harness::new("p1:P5 agent", STDIO);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    harness.client_sends(client, &format!("initialize 1 {INITIALIZE}"));
    let connect = harness.expect("p1", "~mcp/connect ? …");
    harness.wait(2_000);
    harness.expect_client(client, "result 1 …");
    harness.client_sends(client, "tools/list 2");
    harness.send_line("p1", &format!(r#"error {connect} {{"code":-32000,"message":"no"}}"#));
    harness.expect_client(client, r#"error 2 {"code":-32000,"message":"no"}"#);
    harness.expect_nothing_more();
    // The client may try again.
    harness.client_sends(client, "tools/list 3");
    let connect = harness.expect("p1", "~mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {connect} {{"connectionId":"V"}}"#));
    // The client does not send `initialize` again, and the server has not received it.
    let initialize =
        harness.expect("p1", r#"~mcp/message ? {"connectionId":"V","method":"initialize"…"#);
    harness.expect_nothing_more();
    harness.send_line("p1", &format!("result {initialize} {{}}"));
    harness.expect("p1", r#"~mcp/message ? {"connectionId":"V","method":"tools/list"…"#);
    harness.expect_nothing_more();
}

/// Requests of the broker have a timeout. Requests of a consumer have none.
#[test]
fn requests_of_the_broker_time_out_after_25_seconds() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let received = r#"{"serverId":"U","requestId":"r-1","method":"tools/list","params":{}}"#;
    for answers in [0, 1] {
        let mut harness = Harness::new("p1:P4 agent", NATIVE);
        harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
        harness.expect("agent", "session/new ? …");
        harness.wait(100_000);
        harness.send_line("agent", &format!("mcp/message 1 {received}"));
        let connect = harness.expect("p1", "~_mcp/connect ? …");
        if answers == 1 {
            harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
            harness.expect("p1", r#"~_mcp/message ? …"initialize"…"#);
        }
        harness.wait(24_999);
        harness.expect_nothing_more_at("agent");
        harness.discard_all("p1");
        harness.wait(1);
        let error = r#"error 1 {"code":-33002,"message":"…proxy 'p1' did not answer … for its MCP server 'N' within 25 s…"…}"#;
        harness.expect("agent", error);
        if answers == 1 {
            harness.expect("p1", "~_mcp/disconnect …");
        }
        harness.expect_nothing_more();
        // The next request starts again.
        harness.send_line("agent", &format!("mcp/message 2 {received}"));
        let again = harness.expect("p1", "~_mcp/connect ? …");
        assert_ne!(connect, again);
    }
}

/// A server that refuses `initialize` has not answered the stateless request.
#[test]
fn a_stateless_request_fails_if_the_server_refuses_initialize() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut harness = Harness::new("p1:P4 agent", NATIVE);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    let received = r#"{"serverId":"U","requestId":"r-1","method":"tools/list"}"#;
    harness.send_line("agent", &format!("mcp/message 1 {received}"));
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let initialize = harness.expect("p1", r#"~_mcp/message ? …"initialize"…"#);
    harness
        .send_line("p1", &format!(r#"error {initialize} {{"code":-32000,"message":"not today"}}"#));
    harness.expect("p1", r#"~_mcp/disconnect {"connection_id":"V","connectionId":"V"}"#);
    harness.expect(
        "agent",
        r#"error 1 {"code":-33002,"message":"the MCP server could not be opened: not today"…}"#,
    );
    harness.expect_nothing_more();
}

/// A discovery that starts late has the same timeout.
#[test]
fn the_timeout_of_a_discovery_starts_with_the_discovery() {
    let mut harness = Harness::new("p1:P5 agent", OLDER);
    harness.send_line(
        "p1",
        r#"~session/new 1 {"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#,
    );
    harness.expect("agent", "session/new ? …");
    harness.wait(1_000_000);
    harness.send_line("agent", r#"_mcp/client_to_server/request 1 {"url":"acp:U","message":{"jsonrpc":"2.0","id":"m","method":"initialize","params":{}}}"#);
    let first = harness.expect("p1", r#"~mcp/message ? …"server/discover"…"#);
    harness.send_line(
        "p1",
        &format!(r#"result {first} {{"error":{{"code":-32601,"message":"what?"}}}}"#),
    );
    let second = harness.expect("p1", r#"~mcp/message ? …"server/discover"…"#);
    harness.wait(999);
    harness.expect_nothing_more();
    harness.send_line(
        "p1",
        &format!(r#"result {second} {{"error":{{"code":-32601,"message":"what?"}}}}"#),
    );
    harness.expect("agent", r#"result 1 {"message":{"jsonrpc":"2.0","id":"m","result":{…"capabilities":{"tools":{}}…}}}"#);
    harness.expect_nothing_more();
}

/// Checklist 55.
#[test]
fn a_session_that_hangs_does_not_stall_or_reorder_another() {
    let providers = vec![Provider::new("p1", Form::M3, &[("N", "U")])];
    let mut scenario = Scenario::new("p1:P4 (x:P5) agent", None, providers);
    // The agent does not answer. One of its clients waits for a connection that does not open.
    let (_, hanging) = scenario.begin_session();
    let stuck = scenario.harness.connect_client(ticket_of(&servers(&hanging)[0]));
    scenario.harness.client_sends(stuck, &format!("initialize 1 {INITIALIZE}"));
    let (_, connect) = scenario.harness.next("p1").unwrap();
    scenario.editor_requests("session/cancel", r#"{"sessionId":"T"}"#);
    scenario.agent.requests.clear();
    let (id, other) = scenario.begin_session();
    let connection = scenario.connect(&servers(&other)[0]);
    scenario.agent_answers_with(&id, r#"{"sessionId":"T"}"#);
    for n in 0..3 {
        scenario.editor_requests("session/prompt", &format!(r#"{{"sessionId":"T","n":{n}}}"#));
    }
    let seen: Vec<String> =
        scenario.agent.requests.drain(..).map(|(_, it)| it.params.unwrap().to_string()).collect();
    assert_eq!(seen, [0, 1, 2].map(|n| format!(r#"{{"sessionId":"T","n":{n}}}"#)));
    let name = scenario.ask(&connection, "tools/list", "{}");
    let received = scenario.next_received("p1");
    scenario.result("p1", &received, "{}");
    assert_eq!(scenario.agent.outcomes.remove(&name), Some(Outcome::Result(json("{}"))));
    // Finally the connection opens.
    let id = text(&connect).split(' ').nth(1).unwrap().to_owned();
    scenario.provider("p1").open.insert("late".into(), "U".into());
    scenario.harness.send_line("p1", &format!(r#"result {id} {{"connection_id":"late"}}"#));
    let initialize = scenario.next_received("p1");
    assert!(initialize.call.is("initialize") && initialize.connection_id == "late");
}

/// A suspended proxy keeps its messages in order, and no other component waits for it.
#[test]
fn a_provider_behind_a_suspended_proxy_is_reached_when_the_proxy_resumes() {
    let providers = vec![
        Provider::new("p1", Form::M6, &[("far", "U1")]),
        Provider::new("p2", Form::M7, &[("near", "U2")]),
    ];
    let mut scenario = Scenario::new("p1:P4 (x:P3) p2:P5 agent", None, providers);
    let entries = scenario.session("S");
    scenario.harness.suspend("x", true);
    let (far, near) = (scenario.connect(&entries[0]), scenario.connect(&entries[1]));
    let first = scenario.ask(&far, "tools/list", "{}");
    let second = scenario.ask(&near, "tools/list", "{}");
    let received = scenario.next_received("p2");
    scenario.result("p2", &received, "{}");
    assert!(scenario.agent.outcomes.remove(&second).is_some());
    assert!(scenario.provider("p1").received.is_empty());
    scenario.harness.suspend("x", false);
    let received = scenario.next_received("p1");
    scenario.result("p1", &received, "{}");
    assert!(scenario.agent.outcomes.remove(&first).is_some());
}
