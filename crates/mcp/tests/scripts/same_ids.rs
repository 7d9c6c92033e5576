//! Servers, connections and sessions with the same names or ids.

use acp_wire::{Json, Outcome};
use mcp::form::{Answer, Form};

use crate::harness::*;
use crate::participants::*;
use crate::scenario::*;

fn consumers() -> [Option<Form>; 6] {
    [None, Some(Form::M1), Some(Form::M3), Some(Form::M5), Some(Form::M6), Some(Form::M7)]
}

/// Expects that a connection leads to this server.
#[track_caller]
fn expect_server(
    scenario: &mut Scenario,
    connection: &ServerConnection,
    participant: &str,
    server: &str,
) {
    let name = scenario.ask(connection, "tools/call", r#"{"name":"who"}"#);
    let received = loop {
        let received = scenario.next_received(participant);
        if received.call.is("tools/call") {
            break received;
        }
        if received.call.is("initialize") {
            scenario.result(participant, &received, "{}");
        }
    };
    assert_eq!(received.server, server, "the id that {participant} uses");
    scenario.result(participant, &received, &format!(r#"{{"i":"{participant}"}}"#));
    match scenario.agent.outcome(&name) {
        Some(Answer::FromServer(Outcome::Result(it))) => {
            assert_eq!(it.member("i").unwrap().text().unwrap(), participant);
        }
        other => scenario.harness.fail(&format!("no answer from {participant}: {other:?}")),
    }
}

fn name_of(entry: &Json) -> String {
    entry.member("name").unwrap().text().unwrap().into_owned()
}

/// ACP does not allow two servers with the same name.
#[test]
fn a_server_name_that_is_taken_gets_a_number() {
    for consumer in consumers() {
        let providers = vec![
            Provider::new("p1", Form::M3, &[("tools", "U1"), ("tools", "U2")]),
            Provider::new("p2", Form::M7, &[("tools", "U3")]),
        ];
        let mut scenario = Scenario::new("p1:P4 p2:P5 agent", consumer, providers);
        let entries = scenario.session("S");
        let names: Vec<String> = entries.iter().map(name_of).collect();
        assert_eq!(names, ["tools", "tools-2", "tools-3"]);
        for (entry, participant, server) in [(0, "p1", "U1"), (1, "p1", "U2"), (2, "p2", "U3")] {
            let connection = scenario.connect(&entries[entry]);
            expect_server(&mut scenario, &connection, participant, server);
        }
    }
}

#[test]
fn names_of_servers_with_other_transports_are_also_taken() {
    let mut harness = Harness::new("p1:P5 agent", NATIVE);
    let (given, expected) = (
        r#"{"type":"acp","name":"a","serverId":"U"},{"name":"a","command":"x"},{"name":"a-2","command":"y"}"#,
        r#"{"type":"acp","name":"a-3","serverId":"U"},{"name":"a","command":"x"},{"name":"a-2","command":"y"}"#,
    );
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{given}]}}"#));
    harness.expect("agent", &format!(r#"session/new ? {{"mcpServers":[{expected}]}}"#));
}

/// Each provider chooses its own ids, so two may choose the same one.
#[test]
fn two_providers_may_use_one_server_id() {
    for consumer in consumers() {
        for (first, second) in
            [(Form::M3, Form::M3), (Form::M7, Form::M7), (Form::M6, Form::M7), (Form::M1, Form::M4)]
        {
            let participants =
                format!("p1:{} (x:P4) p2:{} agent", generation_of(first), generation_of(second));
            let providers = vec![
                Provider::new("p1", first, &[("one", "U")]),
                Provider::new("p2", second, &[("two", "U")]),
            ];
            let mut scenario = Scenario::new(&participants, consumer, providers);
            for session in ["S", "T"] {
                let entries = scenario.session(session);
                assert_eq!(entries.iter().map(name_of).collect::<Vec<_>>(), ["one", "two"]);
                for (entry, participant) in [(0, "p1"), (1, "p2"), (0, "p1")] {
                    let connection = scenario.connect(&entries[entry]);
                    expect_server(&mut scenario, &connection, participant, "U");
                }
            }
            scenario.close_session("S");
            scenario.close_session("T");
        }
    }
}

/// Also if only one of them is in each session, and if the newer one is first in the list.
#[test]
fn one_server_id_in_two_sessions_may_be_two_servers() {
    let entry = |name| format!(r#"{{"type":"acp","name":"{name}","serverId":"U"}}"#);
    let (one, two) = (entry("one"), entry("two"));
    let new = entry("two").replace(r#""U""#, r#""U#2""#);
    for (first, second) in [("p1", "p2"), ("p2", "p1")] {
        let mut harness = Harness::new("p1:P5 p2:P5 agent", NATIVE);
        harness.send_line(first, &format!(r#"~session/new 1 {{"mcpServers":[{one}]}}"#));
        if first == "p1" {
            let (side, message) = harness.next("p2").unwrap();
            harness.forward("p2", side, message);
        }
        let id = harness.expect("agent", &format!(r#"session/new ? {{"mcpServers":[{one}]}}"#));
        harness.send_line("agent", &format!(r#"result {id} {{"sessionId":"S"}}"#));
        match first {
            "p1" => {
                let (side, message) = harness.next("p2").unwrap();
                harness.forward("p2", side, message);
            }
            _ => drop(harness.expect("p2", "result 1 …")),
        }
        harness.send_line(second, &format!(r#"~session/new 2 {{"mcpServers":[{two}]}}"#));
        if second == "p1" {
            let (side, message) = harness.next("p2").unwrap();
            harness.forward("p2", side, message);
        }
        harness.expect("agent", &format!(r#"session/new ? {{"mcpServers":[{new}]}}"#));
    }
    let mut harness = Harness::new("p1:P5 p2:P5 agent", NATIVE);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{one}]}}"#));
    harness.expect("p2", &format!(r#"session/new ? {{"mcpServers":[{one}]}}"#));
    harness.send_line("p2", &format!(r#"~session/new 1 {{"mcpServers":[{two},{one}]}}"#));
    harness.expect("agent", &format!(r#"session/new ? {{"mcpServers":[{new},{one}]}}"#));
    // Or if a component has renamed the server.
    let other = entry("another");
    harness.send_line("p2", &format!(r#"~session/new 2 {{"mcpServers":[{other}]}}"#));
    harness.expect("agent", &format!(r#"session/new ? {{"mcpServers":[{other}]}}"#));
}

/// The notifications of a server contain the id by which the agent knows it.
#[test]
fn messages_of_a_stateless_server_contain_the_id_that_the_agent_knows() {
    let entry = |name, id| format!(r#"{{"type":"acp","name":"{name}","serverId":"{id}"}}"#);
    let mut harness = Harness::new("p1:P5 p2:P5 agent", NATIVE);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{}]}}"#, entry("one", "U")));
    harness.expect("p2", "session/new ? …");
    let both = format!(r#"{},{}"#, entry("one", "U"), entry("two", "U"));
    harness.send_line("p2", &format!(r#"~session/new 1 {{"mcpServers":[{both}]}}"#));
    harness.expect("agent", &format!(r#"session/new ? …{}…"#, entry("two", "U#2")));
    let received = |id| format!(r#"{{"serverId":"{id}","requestId":"r","method":"tools/list"}}"#);
    harness.send_line("agent", &format!("mcp/message 1 {}", received("U#2")));
    let id = harness.expect("p2", &format!("~mcp/message ? {}", received("U")));
    let progress = received("U").replace("tools/list", "notifications/progress");
    harness.send_line("p2", &format!("~mcp/message {progress}"));
    harness.expect("agent", &format!("mcp/message {}", progress.replace("\"U\"", "\"U#2\"")));
    harness.send_line("p2", &format!(r#"result {id} {{"result":{{}}}}"#));
    harness.expect("agent", r#"result 1 {"result":{}}"#);
    // The provider does not take messages for the other server as its own.
    harness.send_line("agent", &format!("mcp/message 2 {}", received("U")));
    harness.expect("p2", &format!("~mcp/message ? {}", received("U#theirs")));
    harness.send_line("p2", &format!("mcp/message 7 {}", received("U#theirs")));
    harness.expect("p1", &format!("~mcp/message ? {}", received("U")));
    harness.send_line("p1", &format!("~mcp/message {progress}"));
    harness.expect("p2", &format!("mcp/message {}", progress.replace("\"U\"", "\"U#theirs\"")));
    harness.send_line("p2", &format!("~mcp/message {}", progress.replace("\"U\"", "\"U#theirs\"")));
    harness.expect("agent", &format!("mcp/message {progress}"));
}

#[test]
fn two_providers_may_use_one_connection_id() {
    for consumer in [None, Some(Form::M2), Some(Form::M3), Some(Form::M6), Some(Form::M7)] {
        for (first, second) in [(Form::M3, Form::M3), (Form::M2, Form::M6), (Form::M6, Form::M6)] {
            let participants =
                format!("p1:{} p2:{} agent", generation_of(first), generation_of(second));
            let mut providers = vec![
                Provider::new("p1", first, &[("one", "U1")]),
                Provider::new("p2", second, &[("two", "U2")]),
            ];
            for provider in &mut providers {
                provider.prefix = "V".into();
            }
            let mut scenario = Scenario::new(&participants, consumer, providers);
            let entries = scenario.session("S");
            let connections = [scenario.connect(&entries[0]), scenario.connect(&entries[1])];
            for (connection, participant, server) in
                [(0, "p1", "U1"), (1, "p2", "U2"), (0, "p1", "U1"), (1, "p2", "U2")]
            {
                expect_server(&mut scenario, &connections[connection], participant, server);
            }
            assert_eq!(scenario.provider("p1").open.keys().collect::<Vec<_>>(), ["V1"]);
            assert_eq!(scenario.provider("p2").open.keys().collect::<Vec<_>>(), ["V1"]);
            // The messages of each server reach its own client.
            for index in [0, 1] {
                let received = ReceivedMessage {
                    id: None,
                    server: String::new(),
                    connection_id: "V1".into(),
                    request: String::new(),
                    inner: None,
                    call: call("", ""),
                };
                let note = call("notifications/n", &format!(r#"{{"i":{index}}}"#));
                scenario.providers[index].note(&mut scenario.harness, &received, &note);
            }
            scenario.settle();
            if consumer != Some(Form::M7) {
                let sender: Vec<_> =
                    scenario.agent.received.drain(..).map(|it| it.sender).collect();
                assert!(sender.len() == 2 && sender[0] != sender[1], "{sender:?}");
            }
            for connection in &connections {
                scenario.agent.disconnect(&mut scenario.harness, connection);
                scenario.settle();
            }
            scenario.close_session("S");
            assert!(
                scenario.provider("p1").open.is_empty() && scenario.provider("p2").open.is_empty()
            );
            scenario.harness.expect_all_closed();
        }
    }
}

/// Checklist 84.
#[test]
fn two_servers_of_one_proxy_and_one_proxy_in_two_sessions_are_kept_apart() {
    for consumer in consumers() {
        for form in [Form::M0, Form::M1, Form::M2, Form::M3, Form::M4, Form::M5, Form::M6, Form::M7]
        {
            let providers = vec![Provider::new("p1", form, &[("a", "U1"), ("b", "U2")])];
            let mut scenario =
                Scenario::new(&format!("p1:{} agent", generation_of(form)), consumer, providers);
            let (first, second) = (scenario.session("S"), scenario.session("T"));
            let known_as = |index: usize| match form {
                Form::M0 => ["a", "b"][index],
                _ => ["U1", "U2"][index],
            };
            for entries in [&first, &second] {
                for index in [0, 1] {
                    let connection = scenario.connect(&entries[index]);
                    expect_server(&mut scenario, &connection, "p1", known_as(index));
                }
            }
            // The end of one session does not end the other.
            scenario.close_session("S");
            let connection = scenario.connect(&second[1]);
            expect_server(&mut scenario, &connection, "p1", known_as(1));
            scenario.close_session("T");
            scenario.harness.expect_all_closed();
        }
    }
}

/// Checklist 85.
#[test]
fn two_connections_to_one_server_are_independent() {
    for consumer in [None, Some(Form::M2), Some(Form::M3t), Some(Form::M5), Some(Form::M6)] {
        for form in [Form::M2, Form::M3, Form::M3t, Form::M4, Form::M5, Form::M6] {
            let providers = vec![Provider::new("p1", form, &[("a", "U")])];
            let mut scenario =
                Scenario::new(&format!("p1:{} agent", generation_of(form)), consumer, providers);
            let entries = scenario.session("S");
            let connections = [scenario.connect(&entries[0]), scenario.connect(&entries[0])];
            let mut connection_ids = Vec::new();
            for connection in &connections {
                scenario.ask(connection, "initialize", r#"{"protocolVersion":"2025-06-18"}"#);
                let received = scenario.next_received("p1");
                assert!(received.call.is("initialize"), "each connection has its own handshake");
                connection_ids.push(received.connection_id.clone());
                scenario.result("p1", &received, "{}");
            }
            assert_ne!(connection_ids[0], connection_ids[1]);
            assert_eq!(scenario.provider("p1").open.len(), 2);
            scenario.agent.disconnect(&mut scenario.harness, &connections[0]);
            scenario.settle();
            assert_eq!(
                scenario.provider("p1").open.keys().collect::<Vec<_>>(),
                [&connection_ids[1]]
            );
            expect_server(&mut scenario, &connections[1], "p1", "U");
            scenario.close_session("S");
            assert!(scenario.provider("p1").open.is_empty());
            scenario.harness.expect_all_closed();
        }
    }
}

/// Two stateless requests to one server may have the same `requestId`, one after the other.
/// Requests of bridged clients have unique ids.
#[test]
fn requests_of_several_clients_have_different_request_ids() {
    let providers = vec![Provider::new("p1", Form::M7, &[("a", "U")])];
    let mut scenario = Scenario::new("p1:P5 agent", None, providers);
    let entries = scenario.session("S");
    let connections = [scenario.connect(&entries[0]), scenario.connect(&entries[0])];
    let mut requests = Vec::new();
    for connection in connections.iter().cycle().take(6) {
        scenario.ask(connection, "tools/list", "{}");
        requests.push(scenario.next_received("p1").request);
    }
    requests.sort();
    requests.dedup();
    assert_eq!(requests.len(), 6);
}
