//! Requests that a provider does not answer: which of them are sent again, and when they time out.

use acp_wire::Outcome;
use mcp::form::Form;

use crate::harness::*;
use crate::participants::*;
use crate::scenario::*;

const INITIALIZE: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A client of a P4 proxy's server, after its handshake.
fn initialized_client() -> (Harness, mcp::ClientId) {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
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
    (harness, client)
}

/// The published sacp 10 loses the answer to a list request right after
/// `notifications/initialized`.
#[test]
fn a_list_request_whose_answer_is_lost_is_sent_again() {
    let (mut harness, client) = initialized_client();
    harness.client_sends_at_once(client, READY);
    harness.client_sends(client, "tools/list 2");
    harness.expect("p1", r#"~_mcp/message {…"method":"notifications/initialized"…"#);
    let first = harness.expect("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);
    harness.wait(999);
    harness.expect_nothing_more();
    harness.wait(1);
    let again =
        harness.expect("p1", r#"~_mcp/message ? {"connectionId":"V","method":"tools/list"…"#);
    assert_ne!(first, again);
    harness.send_line("p1", &format!(r#"result {again} {{"tools":[1]}}"#));
    harness.expect_client(client, r#"result 2 {"tools":[1]}"#);
    // A late answer is dropped.
    harness.send_line("p1", &format!(r#"result {first} {{"tools":[2]}}"#));
    harness.wait(60_000);
    harness.expect_nothing_more();
}

#[test]
fn the_first_answer_counts_and_retries_stop_with_it() {
    let (mut harness, client) = initialized_client();
    harness.client_sends(client, "resources/templates/list 2");
    let first = harness.expect("p1", r#"~_mcp/message ? {…"method":"resources/templates/list"…"#);
    let mut retries = Vec::new();
    for pause in [1_000, 2_000, 4_000] {
        harness.wait(pause);
        retries.push(harness.expect("p1", "~_mcp/message ? …"));
        harness.expect_nothing_more();
    }
    harness.send_line("p1", &format!("result {first} {{}}"));
    harness.expect_client(client, "result 2 {}");
    for retry in retries {
        harness.send_line("p1", &format!(r#"error {retry} {{"code":-32603,"message":"late"}}"#));
    }
    harness.wait(60_000);
    harness.expect_nothing_more();
}

#[test]
fn a_request_that_times_out_gets_an_error_that_names_the_provider() {
    let (mut harness, client) = initialized_client();
    harness.client_sends(client, "tools/list 2");
    harness.client_sends(client, "tools/call 3 {}");
    harness.wait(24_999);
    harness.discard_all("p1");
    harness.expect_nothing_more();
    harness.wait(1);
    let error = r#"error 2 {"code":-32603,"message":"proxy 'p1' did not answer tools/list for its MCP server 'N' within 25 s…"}"#;
    harness.expect_client(client, error);
    harness.discard_all("p1");
    // A request that is not safe to repeat has no timeout.
    harness.wait(3_600_000);
    harness.expect_nothing_more();
}

/// A client of a P4 proxy's server that has sent `initialize`, on the connection `V`. Returns the
/// id of the request.
fn waiting_client() -> (Harness, mcp::ClientId, String) {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut harness = Harness::new("p1:P4 agent", STDIO);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    harness.client_sends(client, &format!("initialize 1 {INITIALIZE}"));
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let initialize = harness.expect("p1", &initialize_on("V"));
    (harness, client, initialize)
}

fn initialize_on(connection_id: &str) -> String {
    format!(r#"~_mcp/message ? {{"connectionId":"{connection_id}","method":"initialize"…"#)
}

const TOOLS: &str = r#"{"capabilities":{"tools":{}}}"#;

#[test]
fn a_connect_is_sent_again() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut harness = Harness::new("p1:P4 agent", STDIO);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    harness.client_sends(client, &format!("initialize 1 {INITIALIZE}"));
    let lost = harness.expect("p1", "~_mcp/connect ? …");
    harness.wait(5_000);
    harness.expect_client(client, "result 1 …");
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let initialize = harness.expect("p1", &initialize_on("V"));
    // The connection of the first attempt is not needed.
    harness.send_line("p1", &format!(r#"result {lost} {{"connection_id":"W"}}"#));
    harness.expect("p1", r#"~_mcp/disconnect {"connection_id":"W","connectionId":"W"}"#);
    harness.send_line("p1", &format!("result {initialize} {TOOLS}"));
    harness.expect_client(client, "notifications/tools/list_changed");
    harness.wait(60_000);
    harness.expect_nothing_more();
}

/// Servers of the SDK rmcp exit when they get `initialize` twice on one connection, even if their
/// first answer is late.
#[test]
fn a_server_that_is_slow_to_answer_initialize_gets_it_once() {
    for delay in [1_300, 4_999] {
        let (mut harness, client, initialize) = waiting_client();
        harness.wait(delay);
        harness.expect_nothing_more_at("p1");
        harness.send_line("p1", &format!("result {initialize} {TOOLS}"));
        if delay > 2_000 {
            harness.expect_client(client, "result 1 …");
            harness.expect_client(client, "notifications/tools/list_changed");
        } else {
            harness.expect_client(client, &format!("result 1 {TOOLS}"));
        }
        harness.wait(60_000);
        harness.expect_nothing_more();
    }
}

#[test]
fn a_lost_initialize_is_sent_again_on_another_connection() {
    let (mut harness, client, lost) = waiting_client();
    harness.wait(5_000);
    harness.expect_client(client, "result 1 …");
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.expect_nothing_more();
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"W"}}"#));
    let initialize = harness.expect("p1", &initialize_on("W"));
    harness.send_line("p1", &format!("result {initialize} {TOOLS}"));
    harness.expect("p1", r#"~_mcp/disconnect {"connection_id":"V","connectionId":"V"}"#);
    harness.expect_client(client, "notifications/tools/list_changed");
    // The client uses the other connection from now on, in both directions.
    harness.client_sends_at_once(client, READY);
    harness.client_sends(client, "tools/call 2 {}");
    harness
        .expect("p1", r#"~_mcp/message {"connectionId":"W","method":"notifications/initialized"…"#);
    let call =
        harness.expect("p1", r#"~_mcp/message ? {"connectionId":"W","method":"tools/call"…"#);
    harness.send_line("p1", r#"~_mcp/message {"connectionId":"W","method":"notifications/x"}"#);
    harness.expect_client(client, "notifications/x …");
    harness.send_line("p1", &format!("result {call} {{}}"));
    harness.expect_client(client, "result 2 {}");
    harness.send_line("p1", &format!("result {lost} {{}}"));
    harness.wait(60_000);
    harness.expect_nothing_more();
}

#[test]
fn extra_connections_for_initialize_are_closed() {
    let (mut harness, client, initialize) = waiting_client();
    harness.wait(5_000);
    harness.expect_client(client, "result 1 …");
    let second = harness.expect("p1", "~_mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {second} {{"connection_id":"W"}}"#));
    let refused = harness.expect("p1", &initialize_on("W"));
    // An error on an extra connection is ignored.
    harness.send_line(
        "p1",
        &format!(r#"error {refused} {{"code":-32600,"message":"one client only"}}"#),
    );
    harness.wait(5_000);
    let third = harness.expect("p1", "~_mcp/connect ? …");
    harness.expect_nothing_more();
    harness.send_line("p1", &format!("result {initialize} {TOOLS}"));
    harness.expect("p1", r#"~_mcp/disconnect {"connection_id":"W","connectionId":"W"}"#);
    harness.expect_client(client, "notifications/tools/list_changed");
    harness.send_line("p1", &format!(r#"result {third} {{"connection_id":"X"}}"#));
    harness.expect("p1", r#"~_mcp/disconnect {"connection_id":"X","connectionId":"X"}"#);
    harness.wait(60_000);
    harness.expect_nothing_more();
}

/// A provider may give the same id to every connection. Then it has only one.
#[test]
fn a_provider_with_one_connection_gets_initialize_once() {
    let (mut harness, client, initialize) = waiting_client();
    harness.wait(5_000);
    harness.expect_client(client, "result 1 …");
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    harness.expect_nothing_more();
    harness.send_line("p1", &format!("result {initialize} {TOOLS}"));
    harness.expect_client(client, "notifications/tools/list_changed");
    harness.wait(60_000);
    harness.expect_nothing_more();
}

/// A client that the bridge has answered does not send `initialize` again. The broker sends it, on
/// a new connection.
#[test]
fn after_its_timeout_initialize_is_sent_on_a_new_connection() {
    let (mut harness, client, _) = waiting_client();
    harness.wait(24_999);
    harness.expect_client(client, "result 1 …");
    harness.discard_all("p1");
    harness.wait(1);
    harness.expect("p1", r#"~_mcp/disconnect {"connection_id":"V","connectionId":"V"}"#);
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"Y"}}"#));
    let initialize = harness.expect("p1", &initialize_on("Y"));
    harness.send_line("p1", &format!("result {initialize} {TOOLS}"));
    harness.expect_client(client, "notifications/tools/list_changed");
    harness.client_sends(client, "tools/call 2 {}");
    harness.expect("p1", r#"~_mcp/message ? {"connectionId":"Y","method":"tools/call"…"#);
    harness.expect_nothing_more();
}

/// Without connections, `initialize` is sent once, and its timeout still applies.
#[test]
fn without_connections_initialize_is_sent_once() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut harness = Harness::new("p1:P1 agent", OLDER);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    let received =
        r#"{"url":"acp:U","message":{"jsonrpc":"2.0","id":"m","method":"initialize","params":{}}}"#;
    harness.send_line("agent", &format!("_mcp/client_to_server/request 1 {received}"));
    harness.expect("p1", "~_mcp/client_to_server/request ? …");
    harness.wait(24_999);
    harness.expect_nothing_more();
    harness.wait(1);
    harness.expect("agent", "result 1 …did not answer initialize…");
    harness.wait(60_000);
    harness.expect_nothing_more();
}

/// Native consumers and the bridge, with providers of every form.
#[test]
fn every_pair_of_forms_survives_a_lost_answer() {
    for consumer in FORMS.into_iter().map(Some).chain([None]) {
        for form in FORMS {
            let participants = format!("p1:{} (x:P4) agent", generation_of(form));
            let providers = vec![Provider::new("p1", form, &[("N", "U")])];
            let mut scenario = Scenario::new(&participants, consumer, providers);
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            let name = scenario.ask(&connection, "tools/list", "{}");
            if consumer == Some(Form::M7) && form != Form::M7 {
                let mut initialize = scenario.next_received("p1");
                if form.has_connections() {
                    scenario.provider("p1").lose(&initialize);
                    scenario.harness.wait(5_000);
                    scenario.settle();
                    initialize = scenario.next_received("p1");
                }
                assert!(initialize.call.is("initialize"), "{consumer:?} {form:?}");
                scenario.result("p1", &initialize, "{}");
                scenario.next_received("p1");
            }
            let received = scenario.next_received("p1");
            scenario.provider("p1").lose(&received);
            scenario.harness.wait(1_000);
            scenario.settle();
            let again = scenario.next_received("p1");
            assert!(again.call.is("tools/list"), "{consumer:?} {form:?}");
            assert_ne!(received.id, again.id);
            assert!(received.request.is_empty() || received.request != again.request);
            scenario.result("p1", &again, r#"{"tools":[]}"#);
            let outcome = scenario.agent.outcomes.remove(&name);
            assert!(matches!(outcome, Some(Outcome::Result(_))), "{consumer:?} {form:?}");
            scenario.harness.wait(60_000);
            scenario.settle();
            scenario.close_session("S");
            scenario.agent.disconnect(&mut scenario.harness, &connection);
            scenario.settle();
        }
    }
}

/// A cancelled request is not retried, and its retries are cancelled.
#[test]
fn retries_are_cancelled_with_the_request() {
    let (mut harness, client) = initialized_client();
    harness.client_sends(client, "tools/list 2");
    let first = harness.expect("p1", "~_mcp/message ? …");
    harness.wait(1_000);
    let again = harness.expect("p1", "~_mcp/message ? …");
    harness.client_sends(client, r#"notifications/cancelled {"requestId":2}"#);
    let cancel = |id: &str| format!(r#"$/cancel_request {{"requestId":"{id}"}}"#);
    let cancellation = |id: &str| format!(r#"~_mcp/message {{…"requestId":"{id}"}}}}"#);
    harness.expect("p1", &cancel(&first));
    harness.expect("p1", &cancel(&again));
    harness.expect("p1", &cancellation(&first));
    harness.expect("p1", &cancellation(&again));
    harness.wait(60_000);
    harness.expect_nothing_more();
}

/// A request that waits for its connection has the same timeout.
#[test]
fn a_timeout_runs_from_the_moment_the_request_is_sent() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut harness = Harness::new("p1:P4 agent", NATIVE);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    harness.send_line(
        "agent",
        r#"mcp/message 1 {"serverId":"U","requestId":"r","method":"tools/list"}"#,
    );
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.wait(4_000);
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    harness.wait(20_999);
    harness.expect_nothing_more_at("agent");
    harness.wait(1);
    harness.expect(
        "agent",
        r#"error 1 {"code":-33002,"message":"…proxy 'p1' did not answer tools/list…"#,
    );
    harness.expect_nothing_more_at("agent");
}
