//! Components between a consumer and a provider, and messages that no component provides for.

use acp_wire::Outcome;
use mcp::form::Form;

use crate::harness::*;
use crate::participants::*;
use crate::scenario::*;

const SERVER: &str = r#"{"type":"acp","name":"N","serverId":"U"}"#;
const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;

/// Checklist 90: the components in between see the messages of the consumer unchanged and in order.
#[test]
fn components_in_between_see_the_messages_of_the_bridge() {
    let mut harness = Harness::new("p1:P5 p2:P3 agent", STDIO);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{SERVER}]}}"#));
    let (side, message) = harness.next("p2").unwrap();
    harness.forward("p2", side, message);
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    harness.client_sends(client, r#"tools/call 1 {"name":"a"}"#);
    harness.client_sends(client, "notifications/x {}");
    harness.client_sends(client, r#"tools/call 2 {"name":"b"}"#);
    // The message waits until the client is connected.
    let (side, message) = harness.next("p2").unwrap();
    assert!(text(&message).starts_with("_mcp/connect "));
    assert!(text(&message).ends_with(r#"{"acp_url":"acp:U","acp_id":"acp:U","url":"acp:U"}"#));
    harness.expect_nothing_more();
    harness.forward("p2", side, message);
    let id = harness.expect("p1", "~mcp/message ? …server/discover…");
    harness.send_line("p1", &format!(r#"result {id} {{"result":{{}}}}"#));
    let (side, message) = harness.next("p2").unwrap();
    harness.forward("p2", side, message);
    for expected in [
        r#"_mcp/message ? {"connectionId":"mcp-over-acp:1","method":"tools/call","params":{"name":"a"}}"#,
        r#"_mcp/message {"connectionId":"mcp-over-acp:1","method":"notifications/x","params":{}}"#,
        r#"_mcp/message ? {"connectionId":"mcp-over-acp:1","method":"tools/call","params":{"name":"b"}}"#,
    ] {
        let (side, message) = harness.next("p2").unwrap();
        let id = text(&message).split(' ').nth(1).unwrap().to_owned();
        assert_eq!(text(&message), expected.replacen('?', &id, 1));
        harness.forward("p2", side, message);
    }
    let first = harness.expect("p1", r#"~mcp/message ? …{"name":"a",…"#);
    let second = harness.expect("p1", r#"~mcp/message ? …{"name":"b",…"#);
    harness.send_line("p1", &format!(r#"result {second} {{"result":{{"n":2}}}}"#));
    harness.send_line("p1", &format!(r#"result {first} {{"result":{{"n":1}}}}"#));
    // The answers belong to the requests that the component has passed on.
    for n in [2, 1] {
        let (side, message) = harness.next("p2").unwrap();
        assert!(text(&message).ends_with(&format!(r#" {{"n":{n}}}"#)), "{}", text(&message));
        harness.forward("p2", side, message);
    }
    harness.expect_client(client, r#"result 2 {"n":2}"#);
    harness.expect_client(client, r#"result 1 {"n":1}"#);
    harness.disconnect(client);
    let (side, message) = harness.next("p2").unwrap();
    assert_eq!(
        text(&message),
        r#"_mcp/disconnect {"connection_id":"mcp-over-acp:1","connectionId":"mcp-over-acp:1"}"#
    );
    harness.forward("p2", side, message);
    harness.expect_nothing_more();
}

/// Checklist 90: messages of a native agent are translated only at the provider.
#[test]
fn components_in_between_see_the_messages_of_a_native_agent() {
    let received = r#"{"serverId":"U","requestId":"r-1","method":"tools/list","params":{}}"#;
    let mut harness = Harness::new("p1:P4 p2:P3 agent", NATIVE);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{URL}]}}"#));
    let (side, message) = harness.next("p2").unwrap();
    harness.forward("p2", side, message);
    harness.send_line("agent", &format!("mcp/message 1 {received}"));
    harness.expect("p2", &format!("~mcp/message ? {received}"));
    harness.send_line("p2", &format!("mcp/message 9 {received}"));
    harness.expect("p1", "~_mcp/connect ? …");
    // A component that intercepts a message may answer it.
    harness.send_line("agent", &format!("mcp/message 2 {}", received.replace("r-1", "r-2")));
    let id = harness.expect("p2", "~mcp/message ? …");
    harness.send_line("p2", &format!(r#"result {id} {{"result":{{"mine":1}}}}"#));
    harness.expect("agent", "session/new ? …");
    harness.expect("agent", r#"result 2 {"result":{"mine":1}}"#);
}

/// Checklist 90.
#[test]
fn messages_between_a_server_and_its_client_stay_in_order() {
    for between in ["", " (x:P3)", " (x:P4) (y:P5)"] {
        for (provider, form) in [("P4", Form::M3), ("P4", Form::M6), ("P5", Form::M7)] {
            let participants = format!("p1:{provider}{between} agent");
            let mut scenario =
                Scenario::new(&participants, None, vec![Provider::new("p1", form, &[("N", "U")])]);
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            let token = r#"{"name":"x","_meta":{"progressToken":"t"}}"#;
            let name = scenario.ask(&connection, "tools/call", token);
            let received = scenario.next_received("p1");
            let provider = &mut scenario.providers[0];
            for n in 0..50 {
                let params = format!(r#"{{"progressToken":"t","progress":{n}}}"#);
                provider.note(
                    &mut scenario.harness,
                    &received,
                    &call("notifications/progress", &params),
                );
            }
            provider.result(&mut scenario.harness, &received, "{}");
            let ServerConnection::Client(client_id) = connection else { unreachable!() };
            for n in 0..50 {
                let params = format!(r#"{{"progressToken":"t","progress":{n}}}"#);
                scenario
                    .harness
                    .expect_client(client_id, &format!("notifications/progress {params}"));
            }
            scenario.harness.expect_client(client_id, &format!("result {name} {{}}"));
            for n in 0..50 {
                let message = format!(r#"{{"n":{n}}}"#);
                scenario.agent.ask(
                    &mut scenario.harness,
                    &connection,
                    &call("tools/call", &message),
                );
            }
            for n in 0..50 {
                let received = scenario.next_received("p1");
                let params = received.call.params.unwrap();
                assert_eq!(params.member("n").unwrap().as_str(), n.to_string());
            }
        }
    }
}

/// Checklist 86, 88: the consumer gets an error, and the editor receives nothing.
#[test]
fn a_message_for_an_unknown_server_is_refused() {
    for (request, code) in [
        (r#"{"serverId":"X","requestId":"r","method":"tools/list"}"#, -33001),
        (r#"{"connectionId":"X","method":"tools/list"}"#, -32602),
    ] {
        refused("mcp/message", request, code);
    }
    refused("mcp/connect", r#"{"serverId":"X"}"#, -32602);
    refused("mcp/connect", r#"{"acpId":"X"}"#, -32602);
    refused("mcp/connect", r#"{"acpUrl":"acp:X"}"#, -32602);
    refused("mcp/disconnect", r#"{"connectionId":"X"}"#, -32602);
    refused("_mcp/connect", r#"{"acp_url":"acp:X"}"#, -32602);
    refused("_mcp/message", r#"{"connectionId":"X","method":"m","params":{}}"#, -32602);
    refused("_mcp/request", r#"{"connectionId":"X","method":"m","params":{}}"#, -32602);
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
    refused("_scp/mcp", &format!(r#"{{"name":"X","message":{message}}}"#), -32602);
    let params = format!(r#"{{"url":"acp:X","message":{message}}}"#);
    refused("_mcp/client_to_server/request", &params, -32602);
}

fn refused(method: &str, params: &str, code: i64) {
    for participants in ["agent", "(x:P4) agent", "(x:P5) (y:P3) agent"] {
        let mut harness = Harness::new(participants, NATIVE);
        // Another server makes no difference.
        harness.send_line(
            "editor",
            r#"session/new 1 {"mcpServers":[{"type":"acp","name":"E","serverId":"E"}]}"#,
        );
        harness.expect("agent", "session/new ? …");
        harness.send_line("agent", &format!("{method} 1 {params}"));
        harness.expect(
            "agent",
            &format!(r#"error 1 {{"code":{code},"message":"there is no MCP …'X'"}}"#),
        );
        harness.send_line("agent", &format!("{method} {params}"));
        harness.expect_nothing_more();
    }
}

/// Checklist 88: only messages for the editor's servers reach the editor.
#[test]
fn the_editor_receives_messages_for_its_own_servers_only() {
    for consumer in [None, Some(Form::M3), Some(Form::M6), Some(Form::M7)] {
        let providers = vec![
            Provider::new("p1", Form::M3, &[("P", "UP")]),
            Provider::new("editor", Form::M7, &[("E", "UE")]),
        ];
        let mut scenario = Scenario::new("p1:P4 (x:P5) agent", consumer, providers);
        let entries = scenario.session("S");
        assert_eq!(entries.len(), 2);
        for (entry, participant, other) in [(0, "editor", "p1"), (1, "p1", "editor")] {
            let connection = scenario.connect(&entries[entry]);
            let name = scenario.ask(&connection, "tools/call", r#"{"name":"x"}"#);
            if consumer == Some(Form::M7) && participant == "p1" {
                let initialize = scenario.next_received(participant);
                scenario.result(participant, &initialize, "{}");
                scenario.next_received(participant);
            }
            let received = scenario.next_received(participant);
            assert!(scenario.provider(other).received.is_empty());
            scenario.result(participant, &received, r#"{"who":1}"#);
            assert!(matches!(scenario.agent.outcomes.remove(&name), Some(Outcome::Result(_))));
        }
        assert!(scenario.editor().misdelivered.is_empty());
    }
}

/// Messages that are not part of MCP over ACP pass unchanged.
#[test]
fn unknown_methods_pass_unchanged() {
    let mut harness = Harness::new("(p1:P4) agent", STDIO);
    for (method, params) in [
        ("mcp/unknown", r#"{"serverId":"U"}"#),
        ("_mcp/own", "{}"),
        ("_mcp/message", r#"{"method":"x"}"#),
    ] {
        harness.send_line("agent", &format!("{method} 1 {params}"));
        let id = harness.expect("editor", &format!("{method} ? {params}"));
        harness.send_line("editor", &format!(r#"error {id} {{"code":-32601,"message":"no"}}"#));
        harness.expect("agent", r#"error 1 {"code":-32601,"message":"no"}"#);
        harness.send_line("editor", &format!("{method} {params}"));
        harness.expect("agent", &format!("{method} {params}"));
    }
}

/// A server that was not declared to the broker may be known to the components that use it.
#[test]
fn messages_for_an_undeclared_server_pass_unchanged() {
    let mut harness = Harness::new("p1:P1 (x:P4) agent", OLDER);
    let received = r#"{"url":"acp:U","message":{"jsonrpc":"2.0","id":"m1","method":"x"}}"#;
    harness.send_line("p1", &format!("~_mcp/server_to_client/request 1 {received}"));
    let id = harness.expect("agent", &format!("_mcp/server_to_client/request ? {received}"));
    harness.send_line("agent", &format!(r#"result {id} {{"message":{{"id":"m1","result":1}}}}"#));
    harness.expect("p1", r#"result 1 {"message":{"id":"m1","result":1}}"#);
    harness.send_line("agent", &format!("_mcp/client_to_server/request 2 {received}"));
    let id = harness.expect("p1", &format!("~_mcp/client_to_server/request ? {received}"));
    harness.send_line("p1", &format!("result {id} {{}}"));
    harness.expect("agent", "result 2 {}");
    harness.send_line("p1", &format!("~_mcp/server_to_client/notification {received}"));
    harness.expect("agent", &format!("_mcp/server_to_client/notification {received}"));
    // But not messages that the agent could not read.
    harness.send_line("p1", r#"~mcp/message 3 {"connectionId":"V","method":"x"}"#);
    harness.expect("p1", r#"error 3 {"code":-32602,"message":"there is no MCP connection 'V'"}"#);
    harness.expect_nothing_more();
}
