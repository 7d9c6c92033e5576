//! The end of sessions, clients and providers. Nothing may be left of them.

use acp_wire::Outcome;
use mcp::form::Form;

use crate::harness::*;
use crate::participants::*;
use crate::scenario::*;

fn providers() -> Vec<Provider> {
    vec![
        Provider::new("p1", Form::M3, &[("a", "U1")]),
        Provider::new("p2", Form::M6, &[("b", "U2")]),
        Provider::new("p3", Form::M7, &[("c", "U3"), ("d", "U4")]),
        Provider::new("editor", Form::M5, &[("e", "U5")]),
    ]
}

const CAST: &str = "p1:P4 p2:P4 (x:P3) p3:P5 agent";

fn consumers() -> [Option<Form>; 5] {
    [None, Some(Form::M1), Some(Form::M3), Some(Form::M6), Some(Form::M7)]
}

/// A client is connected to each server, and has an open request to it.
fn busy(scenario: &mut Scenario, entries: &[acp_wire::Json]) -> Vec<String> {
    let mut names = Vec::new();
    for entry in entries {
        let connection = scenario.connect(entry);
        names.push(scenario.ask(&connection, "tools/call", r#"{"name":"slow"}"#));
        scenario.discover();
    }
    names
}

/// Checklist 87.
#[test]
fn the_end_of_a_session_releases_its_servers_and_connections() {
    for end in ["session/close", "session/delete"] {
        for consumer in consumers() {
            let mut scenario = Scenario::new(CAST, consumer, providers());
            let entries = scenario.session("S");
            assert_eq!(entries.len(), 5);
            let names = busy(&mut scenario, &entries);
            scenario.editor_requests(end, r#"{"sessionId":"S"}"#);
            let (id, _) = scenario.agent.requests.pop_back().unwrap();
            scenario.agent_answers_with(&id, "{}");
            for provider in &scenario.providers {
                assert!(provider.open.is_empty(), "{}: {:?}", provider.name, provider.open);
            }
            match consumer {
                None => assert_eq!(scenario.harness.disconnected.len(), 5),
                // Every open request is answered.
                Some(_) => {
                    let mut open =
                        names.iter().filter(|it| !scenario.agent.outcomes.contains_key(*it));
                    let still = open.next().cloned();
                    let stateless = consumer == Some(Form::M7);
                    assert!(still.is_none() || stateless, "{still:?}");
                    if stateless {
                        // A request that passes unchanged is answered by its server.
                        let received: Vec<ReceivedMessage> =
                            scenario.provider("p3").received.drain(..).collect();
                        for received in received {
                            scenario.result("p3", &received, "{}");
                        }
                        assert!(names.iter().all(|it| scenario.agent.outcomes.contains_key(it)));
                    }
                }
            }
            scenario.harness.expect_all_closed();
        }
    }
}

/// A session stays open if the agent refuses to close it.
#[test]
fn a_session_whose_close_request_is_refused_stays_open() {
    let mut scenario = Scenario::new(CAST, None, providers());
    let entries = scenario.session("S");
    scenario.editor_requests("session/close", r#"{"sessionId":"S"}"#);
    let (id, _) = scenario.agent.requests.pop_back().unwrap();
    scenario.harness.send_line("agent", &format!(r#"error {id} {{"code":-32601,"message":"no"}}"#));
    let connection = scenario.connect(&entries[1]);
    scenario.ask(&connection, "tools/list", "{}");
    scenario.next_received("p1");
    assert_eq!(scenario.harness.tickets().len(), 5);
}

#[test]
fn a_session_that_is_refused_releases_its_servers() {
    for consumer in consumers() {
        let mut scenario = Scenario::new(CAST, consumer, providers());
        let (id, call) = scenario.begin_session();
        busy(&mut scenario, &servers(&call));
        let error = r#"{"code":-32000,"message":"log in first"}"#;
        scenario.harness.send_line("agent", &format!("error {id} {error}"));
        scenario.settle();
        assert_eq!(scenario.editor().answers["e1"], Outcome::Error(json(error)));
        for index in 0..scenario.providers.len() {
            let provider = &mut scenario.providers[index];
            assert!(provider.open.is_empty(), "{}: {:?}", provider.name, provider.open);
            for received in
                provider.received.drain(..).filter(|it| it.id.is_some()).collect::<Vec<_>>()
            {
                provider.result(&mut scenario.harness, &received, "{}");
            }
        }
        scenario.settle();
        scenario.harness.expect_all_closed();
    }
}

#[test]
fn a_thousand_sessions_leave_nothing_behind() {
    for consumer in [None, Some(Form::M6), Some(Form::M7)] {
        let few = vec![
            Provider::new("p1", Form::M3, &[("a", "U1")]),
            Provider::new("p2", Form::M7, &[("b", "U2")]),
            Provider::new("editor", Form::M5, &[("c", "U3")]),
        ];
        let mut scenario = Scenario::new("p1:P4 p2:P5 agent", consumer, few);
        for n in 0..1_000 {
            let session = format!("S{n}");
            let entries = scenario.session(&session);
            if n % 10 == 0 {
                let connection = scenario.connect(&entries[n / 10 % 3]);
                let name = scenario.ask(&connection, "ping", "");
                scenario.discover();
                for index in 0..scenario.providers.len() {
                    while let Some(received) = scenario.providers[index].received.pop_front() {
                        if received.id.is_some() {
                            scenario.providers[index].result(
                                &mut scenario.harness,
                                &received,
                                "{}",
                            );
                            scenario.settle();
                        }
                    }
                }
                assert!(scenario.agent.outcomes.remove(&name).is_some());
            }
            scenario.close_session(&session);
            scenario.editor().answers.clear();
        }
        scenario.harness.expect_all_closed();
        let endpoints = &scenario.harness.endpoints;
        assert_eq!(endpoints.opened_count, if consumer.is_none() { 3_000 } else { 0 });
        assert_eq!(endpoints.opened_count, endpoints.revoked_count);
    }
}

/// A session that is loaded again has only the endpoints of its last set-up request.
#[test]
fn a_second_set_up_request_of_a_session_replaces_its_endpoints() {
    let mut scenario =
        Scenario::new("p1:P4 agent", None, vec![Provider::new("p1", Form::M3, &[("a", "U")])]);
    let entries = scenario.session("S");
    let client = scenario.harness.connect_client(ticket_of(&entries[0]));
    for method in ["session/load", "session/resume"] {
        let before = scenario.harness.tickets();
        scenario.editor_requests(method, r#"{"sessionId":"S","mcpServers":[]}"#);
        let (id, _) = scenario.agent.requests.pop_back().unwrap();
        assert_eq!(scenario.harness.tickets().len(), 2, "both are valid until the agent answers");
        scenario.agent_answers_with(&id, "{}");
        assert_eq!(scenario.harness.tickets().len(), 1);
        assert!(!before.contains(&scenario.harness.tickets()[0]));
    }
    assert!(scenario.harness.disconnected.contains(&client));
    // A fork is a separate session.
    scenario.editor_requests("session/fork", r#"{"sessionId":"S","mcpServers":[]}"#);
    let (id, _) = scenario.agent.requests.pop_back().unwrap();
    scenario.agent_answers_with(&id, r#"{"sessionId":"F"}"#);
    assert_eq!(scenario.harness.tickets().len(), 2);
    scenario.close_session("S");
    assert_eq!(scenario.harness.tickets().len(), 1);
    scenario.close_session("F");
    scenario.harness.expect_all_closed();
}

/// A client that connects with a revoked ticket is disconnected.
#[test]
fn a_client_with_a_revoked_ticket_is_disconnected() {
    let mut scenario = Scenario::new(CAST, None, providers());
    let entries = scenario.session("S");
    scenario.close_session("S");
    let client = scenario.harness.connect_client(ticket_of(&entries[0]));
    assert!(scenario.harness.disconnected.contains(&client));
    scenario.harness.client_sends(client, "tools/list 1");
    scenario.harness.expect_nothing_more();
    scenario.harness.expect_all_closed();
}

/// Checklist 87.
#[test]
fn when_a_client_disconnects_its_requests_are_cancelled_and_its_connection_is_closed() {
    for (form, [cancelled, disconnect]) in [
        (
            Form::M3,
            [
                r#"_mcp/message {"connectionId":"V","method":"notifications/cancelled"…"#,
                "_mcp/disconnect …",
            ],
        ),
        (
            Form::M6,
            [
                r#"mcp/message {"connectionId":"V","method":"notifications/cancelled"…"#,
                "mcp/disconnect ? …",
            ],
        ),
    ] {
        let mut harness = Harness::new(&format!("p1:{} agent", generation_of(form)), STDIO);
        let entry = &Provider::new("p1", form, &[("N", "U")]).declarations()[0];
        harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
        harness.expect("agent", "session/new ? …");
        let client = harness.connect_client(harness.tickets()[0]);
        harness.client_sends(client, "tools/call 1 {}");
        let connect = harness.expect("p1", "~…connect ? …");
        harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
        let call = harness.expect("p1", "~…message ? …");
        // The server has an open request to the client.
        let method = if form == Form::M3 { "_mcp/message" } else { "mcp/message" };
        harness.send_line(
            "p1",
            &format!(r#"~{method} 7 {{"connectionId":"V","method":"roots/list"}}"#),
        );
        harness.expect_client(client, "roots/list ?…");
        harness.disconnect(client);
        harness
            .expect("p1", r#"error 7 {"code":-32603,"message":"the MCP client has disconnected"}"#);
        harness.expect("p1", &format!(r#"$/cancel_request {{"requestId":"{call}"}}"#));
        harness.expect("p1", &format!("~{cancelled}"));
        let disconnect_id = harness.expect("p1", &format!("~{disconnect}"));
        if !disconnect_id.is_empty() {
            harness.send_line("p1", &format!("result {disconnect_id} {{}}"));
        }
        // This answer is too late.
        harness.send_line("p1", &format!("result {call} {{}}"));
        harness.send_line(
            "p1",
            &format!(r#"~{method} {{"connectionId":"V","method":"notifications/x"}}"#),
        );
        harness.send_line(
            "p1",
            &format!(r#"~{method} 8 {{"connectionId":"V","method":"roots/list"}}"#),
        );
        harness
            .expect("p1", r#"error 8 {"code":-32602,"message":"there is no MCP connection 'V'"}"#);
        harness.expect_nothing_more();
    }
}

/// A connection that is not needed any more is closed as soon as it is open.
#[test]
fn a_client_that_disconnects_before_its_connection_is_open_leaves_none_behind() {
    for form in [Form::M2, Form::M3, Form::M4, Form::M5, Form::M6] {
        let participants = format!("p1:{} agent", generation_of(form));
        let mut scenario =
            Scenario::new(&participants, None, vec![Provider::new("p1", form, &[("N", "U")])]);
        let entries = scenario.session("S");
        let client = scenario.harness.connect_client(ticket_of(&entries[0]));
        scenario.harness.client_sends(client, "tools/list 1");
        scenario.harness.disconnect(client);
        scenario.settle();
        assert!(
            scenario.provider("p1").open.is_empty() && scenario.provider("p1").received.is_empty()
        );
        // The same, but the session has ended in the meantime.
        let client = scenario.harness.connect_client(ticket_of(&entries[0]));
        scenario.harness.client_sends(client, "tools/list 1");
        let late = scenario.harness.next("p1").unwrap();
        scenario.editor_requests("session/close", r#"{"sessionId":"S"}"#);
        let (id, _) = scenario.agent.requests.pop_back().unwrap();
        scenario.agent_answers_with(&id, "{}");
        let id = text(&late.1).split(' ').nth(1).unwrap().to_owned();
        scenario.provider("p1").open.insert("late".into(), "U".into());
        let result = r#"{"connection_id":"late","connectionId":"late"}"#;
        scenario.harness.send_line("p1", &format!("result {id} {result}"));
        scenario.settle();
        assert!(scenario.provider("p1").open.is_empty(), "{form:?}");
        scenario.harness.expect_all_closed();
    }
}

/// A native agent waits for the answer to its connect while the session ends.
#[test]
fn a_connect_is_answered_even_if_its_session_ends_first() {
    for form in [Form::M3, Form::M5, Form::M6, Form::M7] {
        let participants = format!("p1:{} agent", generation_of(form));
        let providers = vec![Provider::new("p1", form, &[("N", "U")])];
        let mut scenario = Scenario::new(&participants, Some(Form::M3), providers);
        let entries = scenario.session("S");
        let (_, name) = scenario.agent.start_connect(&mut scenario.harness, &entries[0]);
        let (_, request) = scenario.harness.next("p1").unwrap();
        scenario.close_session("S");
        let outcome = scenario.agent.outcomes.remove(&name.unwrap());
        assert!(matches!(outcome, Some(Outcome::Error(_))), "{form:?}: {outcome:?}");
        let id = text(&request).split(' ').nth(1).unwrap().to_owned();
        scenario.provider("p1").open.insert("late".into(), "U".into());
        let result = r#"{"connection_id":"late","connectionId":"late","result":{}}"#;
        scenario.harness.send_line("p1", &format!("result {id} {result}"));
        scenario.settle();
        assert!(scenario.provider("p1").open.is_empty() || form == Form::M7, "{form:?}");
        scenario.harness.expect_all_closed();
    }
}

#[test]
fn a_provider_may_close_a_connection() {
    for consumer in [None, Some(Form::M3), Some(Form::M6), Some(Form::M7)] {
        for (form, close) in [
            (Form::M3, r#"~_mcp/disconnect {"connection_id":"p1-V1"}"#),
            (Form::M6, r#"~mcp/disconnect 9 {"connectionId":"p1-V1"}"#),
        ] {
            let participants = format!("p1:{} (x:P5) agent", generation_of(form));
            let providers = vec![Provider::new("p1", form, &[("N", "U")])];
            let mut scenario = Scenario::new(&participants, consumer, providers);
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            let name = scenario.ask(&connection, "tools/list", "{}");
            if consumer == Some(Form::M7) {
                let initialize = scenario.next_received("p1");
                scenario.result("p1", &initialize, "{}");
                scenario.next_received("p1");
            }
            scenario.next_received("p1");
            scenario.provider("p1").open.clear();
            scenario.harness.send_line("p1", close);
            if form == Form::M6 {
                scenario.harness.expect("p1", "result 9 {}");
            }
            match (consumer, &connection) {
                (None, ServerConnection::Client(client_id)) => {
                    assert!(scenario.harness.disconnected.contains(client_id));
                    scenario.settle();
                    assert!(scenario.agent.outcomes.is_empty());
                }
                (Some(Form::M3 | Form::M6), _) => {
                    scenario.harness.expect("agent", "…mcp/disconnect …");
                    scenario.settle();
                    assert!(
                        scenario.agent.outcomes.remove(&name).is_some(),
                        "the request has no answer"
                    );
                }
                _ => {
                    scenario.settle();
                    assert!(
                        scenario.agent.outcomes.remove(&name).is_some(),
                        "the request has no answer"
                    );
                }
            }
            // The consumer may open another connection.
            let connection = scenario.connect(&entries[0]);
            scenario.ask(&connection, "tools/list", "{}");
            let received = scenario.next_received("p1");
            assert_eq!(received.connection_id, "p1-V2");
            scenario.close_session("S");
        }
    }
}

/// The router answers the open requests, and the broker forgets them.
#[test]
fn the_requests_to_a_provider_that_has_left_are_answered_and_forgotten() {
    for consumer in consumers() {
        let providers = vec![Provider::new("p1", Form::M3, &[("N", "U")])];
        let mut scenario = Scenario::new("p1:P4+stop agent", consumer, providers);
        let entries = scenario.session("S");
        let connection = scenario.connect(&entries[0]);
        let first = scenario.ask(&connection, "tools/list", "{}");
        let second = scenario.ask(&connection, "tools/list", "{}");
        scenario.harness.crash("p1");
        scenario.agent.pump(&mut scenario.harness);
        for name in [first, second] {
            let outcome = scenario.agent.outcomes.remove(&name);
            assert!(matches!(outcome, Some(Outcome::Error(_))), "{consumer:?}: {outcome:?}");
        }
        let [.., talks, watched] = scenario.harness.broker().sizes();
        assert_eq!([talks, watched], [0, 0]);
    }
}

#[test]
fn a_cancellation_of_an_answered_request_is_ignored() {
    let mut scenario = Scenario::new(CAST, None, providers());
    let entries = scenario.session("S");
    let connection = scenario.connect(&entries[1]);
    let name = scenario.ask(&connection, "tools/list", "{}");
    let received = scenario.next_received("p1");
    scenario.result("p1", &received, "{}");
    assert!(scenario.agent.outcomes.remove(&name).is_some());
    for name in [name.as_str(), "never", "7"] {
        scenario.agent.cancel(&mut scenario.harness, &connection, name);
    }
    scenario.note(&connection, "notifications/cancelled", "{}");
    scenario.note(&connection, "notifications/cancelled", r#"{"requestId":{}}"#);
    assert!(
        scenario.provider("p1").received.is_empty() && scenario.provider("p1").cancelled.is_empty()
    );
}

/// A queued request that is cancelled is never sent to the provider.
#[test]
fn a_queued_request_that_is_cancelled_is_never_sent() {
    for consumer in [None, Some(Form::M1), Some(Form::M7)] {
        let providers = vec![Provider::new("p1", Form::M3, &[("N", "U")])];
        let mut scenario = Scenario::new("p1:P4 agent", consumer, providers);
        let entries = scenario.session("S");
        let (connection, _) = scenario.agent.start_connect(&mut scenario.harness, &entries[0]);
        let first = scenario.agent.ask(
            &mut scenario.harness,
            &connection,
            &call("tools/call", r#"{"n":1}"#),
        );
        let second = scenario.agent.ask(
            &mut scenario.harness,
            &connection,
            &call("tools/call", r#"{"n":2}"#),
        );
        scenario.agent.cancel(&mut scenario.harness, &connection, &first);
        let mut received = scenario.next_received("p1");
        if consumer == Some(Form::M7) {
            scenario.result("p1", &received, "{}");
            scenario.next_received("p1");
            received = scenario.next_received("p1");
        }
        assert_eq!(received.call.params.clone().unwrap().member("n").unwrap().as_str(), "2");
        scenario.result("p1", &received, "{}");
        assert!(scenario.agent.outcomes.remove(&second).is_some());
        let answered = scenario.agent.outcomes.remove(&first);
        assert_eq!(answered.is_some(), consumer.is_some(), "ACP wants an answer, MCP does not");
        assert!(scenario.provider("p1").received.is_empty());
    }
}

/// A server cancels its own request. Its client gets `notifications/cancelled` and does not answer.
#[test]
fn a_server_can_cancel_its_own_request() {
    let mut harness = Harness::new("p1:P4 (x:P5) agent", STDIO);
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    harness.client_sends(client, "notifications/initialized");
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    harness.expect("p1", "~_mcp/message …");
    harness.send_line(
        "p1",
        r#"~_mcp/message 7 {"connectionId":"V","method":"roots/list","params":{}}"#,
    );
    let request = harness.expect_client(client, "roots/list ? {}");
    harness.send_line("p1", r#"$/cancel_request {"requestId":7}"#);
    harness
        .expect_client(client, &format!(r#"notifications/cancelled {{"requestId":"{request}"}}"#));
    harness.expect("p1", r#"error 7 {"code":-32800,…}"#);
    harness.client_sends(client, &format!("result {request} {{}}"));
    harness.send_line("p1", r#"$/cancel_request {"requestId":7}"#);
    harness.expect_nothing_more();
}

/// A client may send any line.
#[test]
fn an_invalid_line_of_a_client_is_answered_with_an_error_or_ignored() {
    let mut scenario = Scenario::new(CAST, None, providers());
    let entries = scenario.session("S");
    let client = scenario.harness.connect_client(ticket_of(&entries[0]));
    for (line, expected) in [
        ("nonsense", Some("error null {\"code\":-32700,…")),
        ("[]", Some("error null {\"code\":-32600,…")),
        (r#"{"jsonrpc":"2.0","id":5}"#, Some("error 5 {\"code\":-32600,…")),
        (r#"{"jsonrpc":"2.0","id":"c:1","result":{}}"#, None),
        (r#"{"jsonrpc":"2.0","result":{}}"#, None),
    ] {
        scenario.harness.client_sends_raw(client, line);
        match expected {
            Some(expected) => drop(scenario.harness.expect_client(client, expected)),
            None => scenario.harness.expect_nothing_more(),
        }
    }
    scenario
        .harness
        .client_sends_raw(mcp::ClientId(99), r#"{"jsonrpc":"2.0","id":5,"method":"x"}"#);
    scenario.harness.disconnect(mcp::ClientId(99));
    scenario.harness.expect_nothing_more();
}
