//! The agent, or a component in front of it, is restarted while the providers keep running.

use acp_wire::{Json, Outcome};
use mcp::form::{Answer, Form};
use mcp::{BridgePolicy, ClientId, Transport};

use crate::harness::*;
use crate::participants::*;
use crate::restarts::*;
use crate::scenario::*;

/// The agent is restarted. Nothing of the old agent is left at the providers.
#[test]
fn a_restarted_agent_gets_new_tickets_and_connections() {
    for consumer in all_consumers() {
        for form in FORMS {
            let mut scenario = scenario_of(consumer, form);
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            handshake(&mut scenario, &connection, form);
            expect_call_works(&mut scenario, &connection, "p1", "U");
            scenario.agent.ask(&mut scenario.harness, &connection, &call("tools/list", ""));
            let (_, connecting) = scenario.agent.start_connect(&mut scenario.harness, &entries[0]);
            scenario.discover();
            let tickets = scenario.harness.tickets();
            scenario.harness.crash("agent");
            scenario.settle();
            assert!(scenario.provider("p1").open.is_empty(), "{:?}", scenario.provider("p1").open);
            scenario.provider("p1").received.clear();
            for received in scenario.provider("p1").owed.values().cloned().collect::<Vec<_>>() {
                scenario.result("p1", &received, "{}");
            }
            scenario.provider("p1").client_requests.clear();
            assert!(scenario.harness.tickets().is_empty());
            if let (None, ServerConnection::Client(client_id)) = (consumer, &connection) {
                assert!(scenario.harness.disconnected.contains(client_id));
            }
            drop(connecting.map(|name| scenario.agent.outcomes.remove(&name)));
            let given = scenario.finish_agent_restart();
            assert_eq!((given.len(), given[0].0.as_str()), (1, "S"));
            assert!(scenario.harness.tickets().iter().all(|it| !tickets.contains(it)));
            assert_eq!(scenario.harness.tickets().len(), tickets.len());
            let connection = scenario.connect(&given[0].1[0]);
            handshake(&mut scenario, &connection, form);
            expect_call_works(&mut scenario, &connection, "p1", "U");
            // Then its provider is restarted, and then the agent again.
            scenario.restart("p1", &[("N", "U-new")]);
            expect_handshake_replay(&mut scenario, form);
            let given = scenario.restart_agent();
            let connection = scenario.connect(&given[0].1[0]);
            expect_call_works(&mut scenario, &connection, "p1", "U-new");
            end(&mut scenario, &connection);
        }
    }
}

/// An agent with either transport, whose client has not answered a request of its server.
#[test]
fn clients_of_a_crashed_agent_are_disconnected_even_with_open_requests() {
    for transport in [Transport::Stdio, Transport::Http] {
        let harness =
            Harness::with_policy("p1:P4 (x:P5) agent", STDIO, BridgePolicy::Only(transport));
        let providers = vec![Provider::new("p1", Form::M3, &[("N", "U")])];
        let mut scenario = Scenario::with_harness(harness, None, providers);
        let entries = scenario.session("S");
        let connection = scenario.connect(&entries[0]);
        handshake(&mut scenario, &connection, Form::M3);
        scenario.ask(&connection, "tools/list", "{}");
        let received = scenario.next_received("p1");
        let provider = scenario.providers.iter_mut().find(|it| it.name == "p1").unwrap();
        let name = provider.ask(&mut scenario.harness, &received, &call("roots/list", ""));
        scenario.settle();
        assert!(scenario.agent.received.pop_front().unwrap().call.is("roots/list"));
        // Another client has connected and sent nothing.
        let idle = scenario.harness.connect_client(scenario.harness.tickets()[0]);
        let given = scenario.restart_agent();
        assert!(matches!(
            scenario.provider("p1").answered(&name),
            Some(Answer::FromServer(Outcome::Error(_)))
        ));
        assert_eq!(scenario.harness.disconnected.len(), 2);
        assert!(scenario.harness.disconnected.contains(&idle));
        assert_eq!(scenario.harness.transports(), [transport]);
        // Lines of these clients are ignored.
        let ServerConnection::Client(old) = connection else { panic!("a client") };
        for client_id in [old, idle, ClientId(99)] {
            scenario.harness.client_sends(client_id, "tools/list 1");
            scenario.harness.disconnect(client_id);
        }
        scenario.result("p1", &received, "{}");
        let late = scenario.harness.connect_client(ticket_of(&entries[0]));
        assert!(
            scenario.harness.disconnected.contains(&late),
            "the ticket belonged to the crashed agent"
        );
        let connection = scenario.connect(&given[0].1[0]);
        expect_call_works(&mut scenario, &connection, "p1", "U");
        scenario.close_session("S");
        scenario.harness.expect_all_closed();
    }
}

/// A component in between crashes. Open connections stay open, and connections that are being
/// opened are given up.
#[test]
fn connections_survive_the_restart_of_a_proxy_between_consumer_and_provider() {
    for consumer in all_consumers() {
        for form in FORMS {
            let mut scenario = scenario_of(consumer, form);
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            handshake(&mut scenario, &connection, form);
            expect_call_works(&mut scenario, &connection, "p1", "U");
            let open = scenario.provider("p1").open.len();
            // A connect and a disconnect are on their way.
            let (_, connecting) = scenario.agent.start_connect(&mut scenario.harness, &entries[0]);
            let second = scenario.connect(&entries[0]);
            expect_call_works(&mut scenario, &second, "p1", "U");
            scenario.harness.suspend("x", true);
            let disconnect_id = scenario.agent.disconnect(&mut scenario.harness, &second);
            if connecting.is_some() {
                scenario.agent.start_connect(&mut scenario.harness, &entries[0]);
            }
            scenario.discover();
            scenario.harness.crash("x");
            scenario.replay_sessions("x");
            scenario.harness.assert_restarted("x");
            scenario.discover();
            assert!(
                disconnect_id.is_none_or(|name| scenario.agent.outcomes.remove(&name).is_some())
            );
            expect_call_works(&mut scenario, &connection, "p1", "U");
            if consumer.is_none() {
                assert!(scenario.provider("p1").open.len() <= open, "{consumer:?} {form:?}");
            }
            scenario.agent.outcomes.clear();
            end(&mut scenario, &connection);
        }
    }
}

/// A restarted agent does not get servers that are gone.
#[test]
fn the_servers_of_a_bypassed_provider_are_not_declared_to_a_restarted_agent() {
    for consumer in some_consumers() {
        let providers = vec![
            Provider::new("p1", Form::M3, &[("a", "U")]),
            Provider::new("p2", Form::M7, &[("b", "U")]),
        ];
        let mut scenario = Scenario::new("p1:P4+once p2:P5 agent", consumer, providers);
        scenario.session("S");
        scenario.harness.crash("p1");
        scenario.harness.crash_again("p1");
        assert!(scenario.harness.is_bypassed("p1"));
        // A restarted provider does not take over the server of the other one.
        scenario.restart("p2", &[("b", "U")]);
        let given = scenario.restart_agent();
        let names: Vec<Json> = given[0].1.iter().filter_map(|it| it.member("name")).collect();
        assert_eq!(names, [Json::string("b")], "{consumer:?}");
        let connection = scenario.connect(&given[0].1[0]);
        expect_call_works(&mut scenario, &connection, "p2", "U");
        scenario.close_session("S");
        scenario.agent.disconnect(&mut scenario.harness, &connection);
        scenario.settle();
        scenario.harness.expect_all_closed();
    }
}

/// A proxy uses a server itself. When the proxy crashes, its connection is closed.
#[test]
fn the_connections_of_a_crashed_proxy_are_closed() {
    let mut harness = Harness::new("p1:P4 p2:P5 agent", NATIVE);
    let entry = r#"{"type":"acp","name":"N","serverId":"U"}"#;
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    let id = harness.expect("p2", "session/new ? …");
    harness.send_line("p2", &format!(r#"~session/new 2 {{"mcpServers":[{entry}]}}"#));
    let new = harness.expect("agent", "session/new ? …");
    harness.send_line("agent", &format!(r#"result {new} {{"sessionId":"S"}}"#));
    harness.expect("p2", "result 2 …");
    harness.send_line("p2", &format!(r#"result {id} {{"sessionId":"S"}}"#));
    harness.expect("p1", "result 1 …");
    harness.send_line("p2", r#"mcp/connect 3 {"serverId":"U"}"#);
    let connect = harness.expect("p1", "~mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {connect} {{"connectionId":"V"}}"#));
    harness.expect("p2", r#"result 3 {"connectionId":"V"}"#);
    harness.send_line("agent", r#"mcp/connect 4 {"serverId":"U"}"#);
    let (side, message) = harness.next("p2").unwrap();
    harness.forward("p2", side, message);
    let connect = harness.expect("p1", "~mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {connect} {{"connectionId":"W"}}"#));
    let (side, message) = harness.next("p2").unwrap();
    harness.forward("p2", side, message);
    harness.expect("agent", r#"result 4 {"connectionId":"W"}"#);
    harness.crash("p2");
    let disconnect_id = harness.expect("p1", r#"~mcp/disconnect ? {"connectionId":"V"}"#);
    harness.send_line("p1", &format!("result {disconnect_id} {{}}"));
    harness.expect_nothing_more();
}

/// A guard judges the messages of a connection by its server, so a restarted guard must know both.
#[test]
fn a_restarted_proxy_gets_the_connections_that_pass_it() {
    let mut harness = Harness::new("p1:P4 p2:P5 agent", NATIVE);
    let servers = r#"{"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#;
    harness.send_line("p1", &format!("~session/new 1 {servers}"));
    let id = harness.expect("p2", "session/new ? …");
    harness.send_line("p2", &format!("~session/new 2 {servers}"));
    let new = harness.expect("agent", "session/new ? …");
    harness.send_line("agent", &format!(r#"result {new} {{"sessionId":"S"}}"#));
    harness.expect("p2", "result 2 …");
    harness.send_line("p2", &format!(r#"result {id} {{"sessionId":"S"}}"#));
    harness.expect("p1", "result 1 …");
    harness.send_line("agent", r#"mcp/connect 4 {"serverId":"U"}"#);
    let id = harness.expect("p2", r#"~mcp/connect ? {"serverId":"U"}"#);
    harness.send_line("p2", r#"mcp/connect 3 {"serverId":"U"}"#);
    let connect = harness.expect("p1", "~mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {connect} {{"connectionId":"W"}}"#));
    harness.expect("p2", "result 3 …");
    harness.send_line("p2", &format!(r#"result {id} {{"connectionId":"W"}}"#));
    harness.expect("agent", r#"result 4 {"connectionId":"W"}"#);

    harness.crash("p2");
    // This message waits until the proxy knows its connection.
    let call = r#"{"connectionId":"W","method":"tools/call","params":{}}"#;
    harness.send_line("agent", &format!("mcp/message 5 {call}"));
    harness.restart_handshake("p2", NATIVE);
    let id = harness.expect("p2", "session/new ? …");
    harness.send_line("p2", &format!("~session/new 6 {servers}"));
    harness.expect("p2", r#"result 6 {"sessionId":"S"}"#);
    harness.send_line("p2", &format!(r#"result {id} {{"sessionId":"S"}}"#));
    let id = harness.expect("p2", r#"~mcp/connect ? {"serverId":"U"}"#);
    harness.send_line("p2", r#"mcp/connect 7 {"serverId":"U"}"#);
    harness.expect("p2", r#"result 7 {"connectionId":"W"}"#);
    harness.expect_nothing_more();
    harness.send_line("p2", &format!(r#"result {id} {{"connectionId":"W"}}"#));
    let id = harness.expect("p2", &format!("~mcp/message ? {call}"));
    harness.send_line("p2", &format!("mcp/message 8 {call}"));
    let received = harness.expect("p1", &format!("~mcp/message ? {call}"));
    harness.send_line("p1", &format!("result {received} {{}}"));
    harness.expect("p2", "result 8 {}");
    harness.send_line("p2", &format!("result {id} {{}}"));
    harness.expect("agent", "result 5 {}");
    harness.expect_nothing_more();
}

/// The router cancels the connect of a crashed agent.
#[test]
fn a_cancelled_connect_is_answered_and_its_connection_is_closed() {
    for form in [Form::M2, Form::M3, Form::M5, Form::M6, Form::M7] {
        let providers = vec![Provider::new("p1", form, &[("N", "U")])];
        let participants = format!("p1:{} agent", generation_of(form));
        let mut scenario = Scenario::new(&participants, Some(Form::M5), providers);
        let entries = scenario.session("S");
        let (connection, name) = scenario.agent.start_connect(&mut scenario.harness, &entries[0]);
        let name = name.unwrap();
        scenario.agent.cancel(&mut scenario.harness, &connection, &name);
        scenario.agent.pump(&mut scenario.harness);
        let Some(Outcome::Error(error)) = scenario.agent.outcomes.remove(&name) else {
            panic!("{form:?}: the connect is not answered")
        };
        assert!(error.as_str().contains("-32800"), "{error}");
        scenario.discover();
        assert!(scenario.provider("p1").open.is_empty());
        scenario.close_session("S");
        scenario.harness.expect_all_closed();
    }
}
