//! Which components may send messages to a client, which ids are accepted, and how many bytes may
//! be queued.

use crate::harness::*;

/// The second of three proxies declares this server. The agent answers `initialize` with this.
fn chain(generation: &str, entry: &str, agent: &str) -> Harness {
    let mut harness = Harness::new(&format!("p1:P5 p2:{generation} p3:P5 agent"), agent);
    harness.send_line("p2", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    let (toward, message) = harness.next("p3").expect("a set-up request");
    harness.forward("p3", toward, message);
    harness.expect("agent", "session/new ? …");
    harness
}

const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;

/// A message of the agent's side passes through `p3`.
fn past(harness: &mut Harness, participant: &str) {
    while let Some((toward, message)) = harness.next(participant) {
        harness.forward(participant, toward, message);
    }
}

/// A chain with a client of the bridge, whose connection is `V`.
fn bridged() -> (Harness, mcp::ClientId) {
    let mut harness = chain("P4", URL, STDIO);
    let client = harness.connect_client(harness.tickets()[0]);
    harness.client_sends(client, "tools/call 1 {}");
    past(&mut harness, "p3");
    let connect = harness.expect("p2", "~_mcp/connect ? …");
    harness.send_line("p2", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    past(&mut harness, "p3");
    past(&mut harness, "p3");
    harness.expect("p2", r#"~_mcp/message ? {"connectionId":"V"…"#);
    (harness, client)
}

#[test]
fn only_the_provider_and_components_behind_it_may_send_to_a_client() {
    let lines = [
        r#"_mcp/message ? {"connectionId":"V","method":"sampling/createMessage"}"#,
        r#"mcp/message ? {"connectionId":"V","method":"sampling/createMessage"}"#,
        r#"_mcp/request ? {"connectionId":"V","method":"sampling/createMessage"}"#,
        r#"_mcp/message ? {"connectionId":"V#theirs","method":"sampling/createMessage"}"#,
        r#"mcp/disconnect ? {"connectionId":"V"}"#,
        r#"_mcp/disconnect ? {"connection_id":"V"}"#,
        r#"_mcp/server_to_client/request ? {"url":"acp:U","message":{"id":1,"method":"x"}}"#,
        r#"_scp/mcp ? {"name":"N","message":{"id":1,"method":"x"}}"#,
        r#"mcp/message ? {"serverId":"U","requestId":"r-1","method":"notifications/progress"}"#,
    ];
    for (participant, plain) in [("p1", "~"), ("editor", "")] {
        let (mut harness, client) = bridged();
        for (number, line) in lines.iter().enumerate() {
            harness.send_line(participant, &format!("{plain}{}", line.replacen('?', "7", 1)));
            harness.expect(participant, "error 7 …");
            harness.send_line(participant, &format!("{plain}{}", line.replacen("? ", "", 1)));
            harness.expect_nothing_more();
            assert_eq!(harness.reports.len(), 2 * (number + 1), "{:?}", harness.reports);
        }
        assert!(!harness.disconnected.contains(&client));
        // Messages of the provider reach the client, and so do messages that are passed on.
        harness.send_line(
            "p2",
            r#"~_mcp/message 8 {"connectionId":"V","method":"sampling/createMessage"}"#,
        );
        past(&mut harness, "p3");
        let request = harness.expect_client(client, "sampling/createMessage ?");
        harness.client_sends(client, &format!("result {request} {{}}"));
        past(&mut harness, "p3");
        harness.expect("p2", "result 8 {}");
        harness.send_line("p2", r#"~_mcp/message {"connectionId":"V","method":"notifications/x"}"#);
        past(&mut harness, "p3");
        harness.expect_client(client, "notifications/x");
        harness.expect_nothing_more();
    }
}

/// The same for native agents.
#[test]
fn native_agents_receive_messages_of_a_server_only_from_its_provider() {
    let entry = r#"{"type":"acp","name":"N","serverId":"U"}"#;
    let mut harness = chain("P5", entry, NATIVE);
    let progress = r#"{"serverId":"U","requestId":"r","method":"notifications/progress"}"#;
    harness.send_line(
        "agent",
        r#"mcp/message 1 {"serverId":"U","requestId":"r","method":"tools/call"}"#,
    );
    past(&mut harness, "p3");
    harness.expect("p2", "~mcp/message ? …");
    harness.send_line("p1", &format!("~mcp/message {progress}"));
    harness.send_line("editor", &format!("mcp/message {progress}"));
    harness.expect_nothing_more();
    harness.send_line("p2", &format!("~mcp/message {progress}"));
    past(&mut harness, "p3");
    harness.expect("agent", &format!("mcp/message {progress}"));

    let mut harness = chain("P4", URL, OLDER);
    let received = r#"{"url":"acp:U","message":{"jsonrpc":"2.0","id":"m","method":"x"}}"#;
    harness.send_line("agent", &format!("_mcp/client_to_server/request 1 {received}"));
    harness.send_line("p1", &format!("~_mcp/server_to_client/request 7 {received}"));
    harness.expect("p1", "error 7 …");
    harness.send_line("p1", &format!("~_mcp/server_to_client/notification {received}"));
    harness.expect_nothing_more_at("agent");
    harness.expect_nothing_more_at("p2");
}

/// Every request is answered, whatever id a peer chooses.
#[test]
fn requests_with_ids_that_look_like_ours_are_answered() {
    let (mut harness, _) = bridged();
    for id in [
        "conductor/mcp:1",
        "conductor/mcp:2",
        "conductor/mcp:5",
        "conductor/mcp-input:1",
        "conductor/mcp-input:7",
        "m:1",
        "m:2",
        "c:1",
        "r:1",
    ] {
        harness.send_line("agent", &format!("fs/read {id} {{}}"));
        for participant in ["p3", "p2", "p1"] {
            past(&mut harness, participant);
        }
        let request = harness.expect("editor", "fs/read ? {}");
        harness.send_line("editor", &format!("result {request} {{}}"));
        for participant in ["p1", "p2", "p3"] {
            past(&mut harness, participant);
        }
        harness.expect("agent", &format!("result {id} {{}}"));
        // A proxy sends requests of its own in both directions.
        harness.send_line("p2", &format!("fs/read {id} {{}}"));
        past(&mut harness, "p1");
        let request = harness.expect("editor", "fs/read ? {}");
        harness.send_line("editor", &format!("result {request} {{}}"));
        past(&mut harness, "p1");
        harness.expect("p2", &format!("result {id} {{}}"));
        harness.send_line("p2", &format!("~session/x {id} {{}}"));
        past(&mut harness, "p3");
        let request = harness.expect("agent", "session/x ? {}");
        harness.send_line("agent", &format!("result {request} {{}}"));
        past(&mut harness, "p3");
        harness.expect("p2", &format!("result {id} {{}}"));
        // The proxy cannot cancel a request of the broker.
        harness.send_line("agent", &format!(r#"$/cancel_request {{"requestId":"{id}"}}"#));
        harness.expect_nothing_more();
    }
}

/// The messages of a client for a server that does not answer are queued up to a limit.
#[test]
fn the_queue_for_a_server_that_does_not_answer_is_limited() {
    let mut harness = Harness::new("p1:P4 agent", STDIO);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{URL}]}}"#));
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    let text = "x".repeat(1024 * 1024);
    for number in 1..=20 {
        harness.client_sends(client, &format!(r#"tools/call {number} {{"x":"{text}"}}"#));
    }
    for number in 8..=20 {
        harness.expect_client(
            client,
            &format!(r#"error {number} {{"code":-32603,"message":"8 MiB are queued for…"#),
        );
    }
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.expect_nothing_more();
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    for _ in 1..=7 {
        harness.expect("p1", "~_mcp/message ? …");
    }
    harness.expect_nothing_more();
    // The queue is empty again, and messages to an open server are not queued.
    harness.client_sends(client, &format!(r#"tools/call 21 {{"x":"{text}"}}"#));
    harness.expect("p1", "~_mcp/message ? …");

    // A notification cannot be refused, and must not be lost silently.
    let client = harness.connect_client(harness.tickets()[0]);
    for _ in 0..20 {
        harness.client_sends(client, &format!(r#"notifications/x {{"x":"{text}"}}"#));
    }
    assert!(harness.disconnected.contains(&client));
    assert_eq!(harness.reports.len(), 1, "{:?}", harness.reports);
}

/// The same for consumers without connections.
#[test]
fn the_queue_for_a_server_that_is_being_opened_is_limited() {
    let mut harness = Harness::new("p1:P4 agent", NATIVE);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{URL}]}}"#));
    harness.expect("agent", "session/new ? …");
    let text = "x".repeat(1024 * 1024);
    for number in 1..=20 {
        let received = format!(
            r#"{{"serverId":"U","requestId":"r{number}","method":"tools/call","params":{{"x":"{text}"}}}}"#
        );
        harness.send_line("agent", &format!("mcp/message {number} {received}"));
    }
    for number in 8..=20 {
        harness.expect("agent", &format!(r#"result {number} {{"error":{{"code":-32603,…"#));
    }
    harness.expect("p1", "~_mcp/connect ? …");
    harness.expect_nothing_more();
}

/// A connect is not a message to a client. It is for the provider, wherever that is.
#[test]
fn any_component_may_send_a_connect() {
    let (mut harness, _) = bridged();
    harness.send_line("p1", r#"~mcp/connect 7 {"acpId":"U"}"#);
    harness.expect("p2", r##"mcp/connect ? {"acpId":"U#theirs"}"##);
    assert!(harness.reports.is_empty(), "{:?}", harness.reports);
}
