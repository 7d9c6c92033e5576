//! The same conversation between every form of consumer and every form of provider.

use acp_wire::Outcome;
use mcp::form::{Answer, Form};

use crate::harness::*;
use crate::participants::*;
use crate::scenario::*;

const INITIALIZE: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}"#;
const WELCOME: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
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
            let participants = format!("p1:{} agent", dialect_of(provider));
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
                let participants = format!("p1:{} {between} agent", dialect_of(provider));
                converse(&participants, consumer, provider, "p1");
            }
        }
    }
}

fn converse(participants: &str, consumer: Option<Form>, form: Form, who: &str) {
    eprintln!("{consumer:?} talks with {form:?} in {participants}");
    let mut scenario =
        Scenario::new(participants, consumer, vec![Provider::new(who, form, &[("N", "U")])]);
    let entries = scenario.session("S");
    let connection = scenario.connect(&entries[0]);
    let (client_stands, server_stands) = (consumer == Some(Form::M7), form == Form::M7);

    if !client_stands {
        let initialize = scenario.ask(&connection, "initialize", INITIALIZE);
        let expected = if server_stands {
            scenario.discover();
            WELCOME
        } else {
            let received = scenario.next_received(who);
            assert_eq!(received.call, call("initialize", INITIALIZE));
            scenario.result(who, &received, WELCOME);
            WELCOME
        };
        assert_eq!(scenario.agent.outcome(&initialize), Some(received(expected)));
        scenario.note(&connection, "notifications/initialized", "");
        if !server_stands {
            assert!(scenario.next_received(who).call.is("notifications/initialized"));
        }
    }

    let list = scenario.ask(&connection, "tools/list", r#"{"cursor":"x"}"#);
    if client_stands && !server_stands {
        let initialize = scenario.next_received(who);
        assert!(initialize.call.is("initialize"), "{initialize:?}");
        scenario.result(who, &initialize, WELCOME);
        assert!(scenario.next_received(who).call.is("notifications/initialized"));
    }
    let asked = scenario.next_received(who);
    let expected = match (client_stands, server_stands) {
        (_, false) => call("tools/list", r#"{"cursor":"x"}"#),
        (true, true) => as_stateless(&call("tools/list", r#"{"cursor":"x"}"#)),
        // Checklist 82: each request contains what the client has declared in `initialize`.
        (false, true) => call(
            "tools/list",
            r#"{"cursor":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}"#,
        ),
    };
    assert_eq!(asked.call, expected);
    let (plain, typed) = (r#"{"tools":[]}"#, r#"{"tools":[],"resultType":"complete"}"#);
    scenario.result(who, &asked, if server_stands { typed } else { plain });
    let expected = if client_stands { typed } else { plain };
    assert_eq!(scenario.agent.outcome(&list), Some(received(expected)));

    let params = r#"{"name":"x","arguments":{"n":1.10},"_meta":{"progressToken":"t"}}"#;
    let progressing = scenario.ask(&connection, "tools/call", params);
    let asked = scenario.next_received(who);
    let arguments = asked.call.params.as_ref().unwrap().member("arguments").unwrap();
    assert_eq!(arguments.as_str(), r#"{"n":1.10}"#);
    note(&mut scenario, who, &asked, "notifications/progress", PROGRESS);
    let heard = scenario.agent.received.pop_front().expect("progress");
    assert_eq!((heard.id, heard.call), (None, call("notifications/progress", PROGRESS)));
    scenario.result(who, &asked, r#"{"content":[],"resultType":"complete"}"#);
    assert!(matches!(
        scenario.agent.outcome(&progressing),
        Some(Answer::FromServer(Outcome::Result(_)))
    ));

    // Checklist 83: it stays an MCP error, even if its code has another meaning in ACP.
    let failing = scenario.ask(&connection, "tools/call", r#"{"name":"y"}"#);
    let failed = scenario.next_received(who);
    let error = Outcome::Error(json(r#"{"code":-32000,"message":"no","data":{"k":1}}"#));
    scenario.answer(who, &failed, error.clone());
    assert_eq!(scenario.agent.outcome(&failing), Some(Answer::FromServer(error)));

    if !client_stands {
        scenario.note(&connection, "notifications/roots/list_changed", "");
        if !server_stands {
            assert!(scenario.next_received(who).call.is("notifications/roots/list_changed"));
        }
    }

    if !server_stands {
        note(&mut scenario, who, &failed, "notifications/tools/list_changed", "");
        let heard = scenario.agent.received.pop_front();
        assert_eq!(
            heard.is_none(),
            client_stands,
            "a notification without a request belongs to no stateless consumer"
        );
        server_request(&mut scenario, who, &failed, client_stands);
    }

    cancel(&mut scenario, &connection, who);

    let disconnect_id = scenario.agent.disconnect(&mut scenario.harness, &connection);
    scenario.settle();
    if let Some(disconnect_id) = disconnect_id {
        let outcome = scenario.agent.outcomes.remove(&disconnect_id);
        assert_eq!(outcome, Some(Outcome::Result(json("{}"))), "checklist 80");
    }
    if consumer.is_none_or(Form::has_connections) {
        assert!(scenario.provider(who).open.is_empty(), "checklist 87: the connection is closed");
    }
    scenario.close_session("S");
    assert!(scenario.provider(who).open.is_empty(), "the connection is not closed");
    assert!(scenario.provider(who).received.is_empty(), "{:?}", scenario.provider(who).received);
    assert!(scenario.agent.received.is_empty(), "{:?}", scenario.agent.received);
    assert_eq!(scenario.agent.outcomes.len(), 0, "{:?}", scenario.agent.outcomes);
    assert!(scenario.editor().misdelivered.is_empty());
    scenario.harness.expect_nothing_more();
    scenario.harness.expect_all_closed();
}

fn received(result: &str) -> Answer {
    Answer::FromServer(Outcome::Result(json(result)))
}

fn note(scenario: &mut Scenario, who: &str, to: &ReceivedMessage, method: &str, params: &str) {
    let index = scenario.providers.iter().position(|it| it.who == who).unwrap();
    scenario.providers[index].note(&mut scenario.harness, to, &call(method, params));
    scenario.settle();
}

/// The server sends a request to the client. Checklist 91.
fn server_request(scenario: &mut Scenario, who: &str, to: &ReceivedMessage, refused: bool) {
    let index = scenario.providers.iter().position(|it| it.who == who).unwrap();
    let name = scenario.providers[index].ask(&mut scenario.harness, to, &call("roots/list", ""));
    scenario.settle();
    if refused {
        let answer = scenario.providers[index].answered(&name);
        let Some(Answer::FromServer(error)) = answer else { panic!("not refused: {answer:?}") };
        assert_eq!(error.error_code(), Some(-32601));
        return;
    }
    let heard = scenario.agent.received.pop_front().expect("a question");
    assert!(heard.call.is("roots/list"));
    scenario.agent.answer(&mut scenario.harness, &heard, r#"{"roots":[]}"#);
    scenario.settle();
    assert_eq!(scenario.providers[index].answered(&name), Some(received(r#"{"roots":[]}"#)));
}

/// The client cancels a request. The server answers nevertheless, too late.
fn cancel(scenario: &mut Scenario, connection: &ServerConnection, who: &str) {
    let name = scenario.ask(connection, "tools/call", r#"{"name":"slow"}"#);
    let asked = scenario.next_received(who);
    scenario.agent.cancel(&mut scenario.harness, connection, &name);
    scenario.settle();
    let id = asked.id.clone().unwrap();
    assert!(scenario.provider(who).cancelled.contains(&id), "ACP's word for it");
    if scenario.provider(who).form != Form::M7 {
        let told = scenario.next_received(who).call;
        assert!(
            told.is("notifications/cancelled"),
            "expected an MCP cancellation, received {told:?}"
        );
        let named = told.params.unwrap().member("requestId").unwrap();
        let called = asked.inner.as_ref().map_or(id, token);
        assert_eq!(named.text().unwrap(), called, "the id that the server knows");
    }
    scenario.answer(who, &asked, Outcome::error(-32800, "cancelled"));
    match connection {
        ServerConnection::Client(_) => {
            assert!(scenario.agent.outcomes.is_empty(), "MCP wants no answer")
        }
        ServerConnection::Native { .. } => {
            assert!(scenario.agent.outcomes.remove(&name).is_some(), "ACP does")
        }
    }
}
