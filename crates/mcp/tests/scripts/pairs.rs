//! The same conversation between every form of consumer and every form of provider.

use acp_wire::Outcome;
use mcp::form::{Answer, Form};

use crate::harness::*;
use crate::participants::*;
use crate::scenario::*;

const INITIALIZE: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}"#;
const INITIALIZE_RESULT: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
const PROGRESS: &str = r#"{"progressToken":"t","progress":1}"#;

/// Native agents of every form, and the bridge.
fn consumers() -> impl Iterator<Item = Option<Form>> {
    FORMS.into_iter().map(Some).chain([None])
}

/// Checklist 70, 71, 76 to 83, 85, 91, 97.
#[test]
fn every_consumer_can_use_proxies_of_every_form() {
    for consumer in consumers() {
        for provider in FORMS {
            let participants = format!("p1:{} agent", generation_of(provider));
            converse(&participants, consumer, provider, "p1");
        }
    }
}

/// Checklist 88. An editor cannot be recognized as M2 or M3t, which only proxies used.
#[test]
fn every_consumer_can_use_editors_of_every_form() {
    for consumer in consumers() {
        for provider in FORMS.into_iter().filter(|it| ![Form::M2, Form::M3t].contains(it)) {
            converse("agent", consumer, provider, "editor");
        }
    }
}

/// Checklist 90: components in between make no difference.
#[test]
fn every_consumer_can_use_every_provider_behind_proxies_of_other_generations() {
    for between in ["(x:P3) (y:P5)", "(x:P5) (y:P4)"] {
        for consumer in consumers() {
            for provider in FORMS {
                let participants = format!("p1:{} {between} agent", generation_of(provider));
                converse(&participants, consumer, provider, "p1");
            }
        }
    }
}

fn converse(participants: &str, consumer: Option<Form>, form: Form, participant: &str) {
    eprintln!("{consumer:?} uses {form:?} in {participants}");
    let mut scenario = Scenario::new(
        participants,
        consumer,
        vec![Provider::new(participant, form, &[("N", "U")])],
    );
    let entries = scenario.session("S");
    let connection = scenario.connect(&entries[0]);
    let (client_is_stateless, server_is_stateless) = (consumer == Some(Form::M7), form == Form::M7);

    if !client_is_stateless {
        handshake(&mut scenario, &connection, participant, server_is_stateless);
    }

    let list = scenario.ask(&connection, "tools/list", r#"{"cursor":"x"}"#);
    if client_is_stateless && !server_is_stateless {
        let initialize = scenario.next_received(participant);
        assert!(initialize.call.is("initialize"), "{initialize:?}");
        scenario.result(participant, &initialize, INITIALIZE_RESULT);
        assert!(scenario.next_received(participant).call.is("notifications/initialized"));
    }
    let request = scenario.next_received(participant);
    let expected = match (client_is_stateless, server_is_stateless) {
        (_, false) => call("tools/list", r#"{"cursor":"x"}"#),
        (true, true) => as_stateless(&call("tools/list", r#"{"cursor":"x"}"#)),
        // Checklist 82: each request contains what the client has declared in `initialize`.
        (false, true) => call(
            "tools/list",
            r#"{"cursor":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}"#,
        ),
    };
    assert_eq!(request.call, expected);
    let (plain, typed) = (r#"{"tools":[]}"#, r#"{"tools":[],"resultType":"complete"}"#);
    scenario.result(participant, &request, if server_is_stateless { typed } else { plain });
    let expected = if client_is_stateless { typed } else { plain };
    assert_eq!(scenario.agent.outcome(&list), Some(received(expected)));

    call_with_progress(&mut scenario, &connection, participant);

    // Checklist 83: it stays an MCP error, even if its code has another meaning in ACP.
    let failing = scenario.ask(&connection, "tools/call", r#"{"name":"y"}"#);
    let failed = scenario.next_received(participant);
    let error = Outcome::Error(json(r#"{"code":-32000,"message":"no","data":{"k":1}}"#));
    scenario.answer(participant, &failed, error.clone());
    assert_eq!(scenario.agent.outcome(&failing), Some(Answer::FromServer(error)));

    if !client_is_stateless {
        scenario.note(&connection, "notifications/roots/list_changed", "");
        if !server_is_stateless {
            assert!(
                scenario.next_received(participant).call.is("notifications/roots/list_changed")
            );
        }
    }

    if !server_is_stateless {
        note(&mut scenario, participant, &failed, "notifications/tools/list_changed", "");
        let message = scenario.agent.received.pop_front();
        assert_eq!(
            message.is_none(),
            client_is_stateless,
            "a notification without a request belongs to no stateless consumer"
        );
        server_request(&mut scenario, participant, &failed, client_is_stateless);
    }

    cancel(&mut scenario, &connection, participant);

    close(&mut scenario, &connection, participant);
}

/// The consumer runs the handshake of its connection.
fn handshake(
    scenario: &mut Scenario,
    connection: &ServerConnection,
    participant: &str,
    server_is_stateless: bool,
) {
    let initialize = scenario.ask(connection, "initialize", INITIALIZE);
    let expected = if server_is_stateless {
        scenario.discover();
        INITIALIZE_RESULT
    } else {
        let received = scenario.next_received(participant);
        assert_eq!(received.call, call("initialize", INITIALIZE));
        scenario.result(participant, &received, INITIALIZE_RESULT);
        INITIALIZE_RESULT
    };
    assert_eq!(scenario.agent.outcome(&initialize), Some(received(expected)));
    scenario.note(connection, "notifications/initialized", "");
    if !server_is_stateless {
        assert!(scenario.next_received(participant).call.is("notifications/initialized"));
    }
}

/// The server reports progress before it answers a call.
fn call_with_progress(scenario: &mut Scenario, connection: &ServerConnection, participant: &str) {
    let params = r#"{"name":"x","arguments":{"n":1.10},"_meta":{"progressToken":"t"}}"#;
    let progressing = scenario.ask(connection, "tools/call", params);
    let request = scenario.next_received(participant);
    let arguments = request.call.params.as_ref().unwrap().member("arguments").unwrap();
    assert_eq!(arguments.as_str(), r#"{"n":1.10}"#);
    note(scenario, participant, &request, "notifications/progress", PROGRESS);
    let message = scenario.agent.received.pop_front().expect("progress");
    assert_eq!((message.id, message.call), (None, call("notifications/progress", PROGRESS)));
    scenario.result(participant, &request, r#"{"content":[],"resultType":"complete"}"#);
    assert!(matches!(
        scenario.agent.outcome(&progressing),
        Some(Answer::FromServer(Outcome::Result(_)))
    ));
}

/// The consumer disconnects and the session ends. Nothing may be left.
fn close(scenario: &mut Scenario, connection: &ServerConnection, participant: &str) {
    let disconnect_id = scenario.agent.disconnect(&mut scenario.harness, connection);
    scenario.settle();
    if let Some(disconnect_id) = disconnect_id {
        let outcome = scenario.agent.outcomes.remove(&disconnect_id);
        assert_eq!(outcome, Some(Outcome::Result(json("{}"))), "checklist 80");
    }
    if scenario.agent.form.is_none_or(Form::has_connections) {
        assert!(
            scenario.provider(participant).open.is_empty(),
            "checklist 87: the connection is closed"
        );
    }
    scenario.close_session("S");
    assert!(scenario.provider(participant).open.is_empty(), "the connection is not closed");
    assert!(
        scenario.provider(participant).received.is_empty(),
        "{:?}",
        scenario.provider(participant).received
    );
    assert!(scenario.agent.received.is_empty(), "{:?}", scenario.agent.received);
    assert_eq!(scenario.agent.outcomes.len(), 0, "{:?}", scenario.agent.outcomes);
    assert!(scenario.editor().misdelivered.is_empty());
    scenario.harness.expect_nothing_more();
    scenario.harness.expect_all_closed();
}

fn received(result: &str) -> Answer {
    Answer::FromServer(Outcome::Result(json(result)))
}

fn note(
    scenario: &mut Scenario,
    participant: &str,
    to: &ReceivedMessage,
    method: &str,
    params: &str,
) {
    let index = scenario.providers.iter().position(|it| it.name == participant).unwrap();
    scenario.providers[index].note(&mut scenario.harness, to, &call(method, params));
    scenario.settle();
}

/// The server sends a request to the client. Checklist 91.
fn server_request(scenario: &mut Scenario, participant: &str, to: &ReceivedMessage, refused: bool) {
    let index = scenario.providers.iter().position(|it| it.name == participant).unwrap();
    let name = scenario.providers[index].ask(&mut scenario.harness, to, &call("roots/list", ""));
    scenario.settle();
    if refused {
        let answer = scenario.providers[index].answered(&name);
        let Some(Answer::FromServer(error)) = answer else { panic!("not refused: {answer:?}") };
        assert_eq!(error.error_code(), Some(-32601));
        return;
    }
    let message = scenario.agent.received.pop_front().expect("a request");
    assert!(message.call.is("roots/list"));
    scenario.agent.answer(&mut scenario.harness, &message, r#"{"roots":[]}"#);
    scenario.settle();
    assert_eq!(scenario.providers[index].answered(&name), Some(received(r#"{"roots":[]}"#)));
}

/// The client cancels a request. The server answers nevertheless, too late.
fn cancel(scenario: &mut Scenario, connection: &ServerConnection, participant: &str) {
    let name = scenario.ask(connection, "tools/call", r#"{"name":"slow"}"#);
    let request = scenario.next_received(participant);
    scenario.agent.cancel(&mut scenario.harness, connection, &name);
    scenario.settle();
    let id = request.id.clone().unwrap();
    assert!(scenario.provider(participant).cancelled.contains(&id), "expected an ACP cancellation");
    if scenario.provider(participant).form != Form::M7 {
        let cancellation = scenario.next_received(participant).call;
        assert!(
            cancellation.is("notifications/cancelled"),
            "expected an MCP cancellation, received {cancellation:?}"
        );
        let named = cancellation.params.unwrap().member("requestId").unwrap();
        let called = request.inner.as_ref().map_or(id, token);
        assert_eq!(named.text().unwrap(), called, "the id that the server knows");
    }
    scenario.answer(participant, &request, Outcome::error(-32800, "cancelled"));
    match connection {
        ServerConnection::Client(_) => {
            assert!(scenario.agent.outcomes.is_empty(), "MCP wants no answer")
        }
        ServerConnection::Native { .. } => {
            assert!(scenario.agent.outcomes.remove(&name).is_some(), "ACP does")
        }
    }
}
