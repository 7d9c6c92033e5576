//! A provider crashes and is restarted: which messages it receives, and what the others notice.

use acp_wire::Outcome;
use mcp::form::{Answer, Form};
use mcp::{BridgePolicy, Transport};

use crate::harness::*;
use crate::participants::*;
use crate::scenario::*;

mod cleanup;

const INITIALIZE: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c"}}"#;

pub fn all_consumers() -> impl Iterator<Item = Option<Form>> {
    FORMS.into_iter().map(Some).chain([None])
}

pub fn some_consumers() -> [Option<Form>; 5] {
    [None, Some(Form::M1), Some(Form::M3), Some(Form::M6), Some(Form::M7)]
}

/// A chain with a provider of this form in the middle.
pub fn scenario_of(consumer: Option<Form>, form: Form) -> Scenario {
    let participants = format!("(w:P5) p1:{} (x:P4) agent", generation_of(form));
    let mut provider = Provider::new("p1", form, &[("N", "U")]);
    provider.passes_unknown = true;
    Scenario::new(&participants, consumer, vec![provider])
}

/// SCP addresses servers by their names alone.
fn id_in(form: Form, id: &str) -> &str {
    if form == Form::M0 { "N" } else { id }
}

/// The next message for the server, except messages that the broker sends on its own for stateless
/// consumers.
#[track_caller]
fn next_from_consumer(
    scenario: &mut Scenario,
    consumer: Option<Form>,
    participant: &str,
) -> ReceivedMessage {
    loop {
        let received = scenario.next_received(participant);
        match (consumer, &received.id) {
            (Some(Form::M7), Some(_)) if received.call.is("initialize") => {
                scenario.result(participant, &received, "{}");
            }
            (Some(Form::M7), None) if received.call.is("notifications/initialized") => {}
            _ => return received,
        }
    }
}

/// The consumer runs its handshake, as connections begin.
pub fn handshake(scenario: &mut Scenario, connection: &ServerConnection, form: Form) {
    if scenario.agent.form == Some(Form::M7) {
        return;
    }
    let name = scenario.ask(connection, "initialize", INITIALIZE);
    scenario.discover();
    if form != Form::M7 {
        let received = scenario.next_received("p1");
        assert!(received.call.is("initialize"));
        scenario.result("p1", &received, r#"{"capabilities":{}}"#);
    }
    assert!(scenario.agent.outcomes.remove(&name).is_some(), "{form:?}");
    scenario.note(connection, "notifications/initialized", "{}");
    if form != Form::M7 {
        assert!(scenario.next_received("p1").call.is("notifications/initialized"));
    }
}

/// The restarted provider receives the handshake of its predecessor.
#[track_caller]
pub fn expect_handshake_replay(scenario: &mut Scenario, form: Form) {
    scenario.discover();
    if form == Form::M7 || scenario.agent.form == Some(Form::M7) {
        return;
    }
    let received = scenario.next_received("p1");
    assert!(received.call.is("initialize"), "{received:?}");
    assert_eq!(received.call.params.clone().unwrap(), json(INITIALIZE));
    assert!(scenario.provider("p1").received.is_empty(), "no message may follow before the answer");
    scenario.result("p1", &received, "{}");
    assert!(scenario.next_received("p1").call.is("notifications/initialized"));
    assert!(scenario.agent.outcomes.is_empty(), "no other participant may notice");
}

/// The server with this id receives a call, and the consumer receives the answer.
#[track_caller]
pub fn expect_call_works(
    scenario: &mut Scenario,
    connection: &ServerConnection,
    participant: &str,
    id: &str,
) -> ReceivedMessage {
    let consumer = scenario.agent.form;
    let name = scenario.ask(connection, "tools/call", r#"{"name":"t"}"#);
    let received = next_from_consumer(scenario, consumer, participant);
    assert!(received.call.is("tools/call"), "{received:?}");
    assert_eq!(received.server, id_in(scenario.provider(participant).form, id));
    scenario.result(participant, &received, r#"{"i":1}"#);
    match scenario.agent.outcome(&name) {
        Some(Answer::FromServer(Outcome::Result(it))) => assert!(it.member("i").is_some()),
        other => scenario.harness.fail(&format!("{consumer:?} received the answer {other:?}")),
    }
    received
}

/// Whether an outcome is the error for a server that is gone.
fn is_gone_error(outcome: Option<Outcome>) -> bool {
    let Some(Outcome::Error(error)) = &outcome else { return false };
    error.as_str().contains("there is no MCP")
}

pub fn end(scenario: &mut Scenario, connection: &ServerConnection) {
    scenario.close_session("S");
    if let ServerConnection::Native { .. } = connection {
        let disconnect_id = scenario.agent.disconnect(&mut scenario.harness, connection);
        scenario.settle();
        assert!(disconnect_id.is_none_or(|name| scenario.agent.outcomes.remove(&name).is_some()));
    }
    assert!(scenario.provider("p1").open.is_empty(), "{:?}", scenario.provider("p1").open);
    assert!(scenario.editor().misdelivered.is_empty());
    scenario.harness.expect_all_closed();
}

/// Every consumer, every provider: the old connection leads to the restarted server.
#[test]
fn a_restarted_provider_is_reached_over_the_old_connection() {
    for consumer in all_consumers() {
        for form in FORMS {
            for id in ["U", "U-new"] {
                let mut scenario = scenario_of(consumer, form);
                let entries = scenario.session("S");
                let connection = scenario.connect(&entries[0]);
                handshake(&mut scenario, &connection, form);
                expect_call_works(&mut scenario, &connection, "p1", "U");
                for _ in 0..2 {
                    scenario.restart("p1", &[("N", id)]);
                    expect_handshake_replay(&mut scenario, form);
                    expect_call_works(&mut scenario, &connection, "p1", id);
                    assert!(
                        scenario.agent.received.is_empty()
                            && scenario.harness.disconnected.is_empty()
                    );
                    assert!(scenario.agent.closed_by_provider.is_empty());
                }
                end(&mut scenario, &connection);
            }
        }
    }
}

/// Messages of the restarted server on its connection reach the consumer of the old one.
#[test]
fn messages_of_a_restarted_server_arrive_on_the_old_connection() {
    for consumer in all_consumers().filter(|it| *it != Some(Form::M7)) {
        for form in FORMS.into_iter().filter(|it| *it != Form::M7) {
            let mut scenario = scenario_of(consumer, form);
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            handshake(&mut scenario, &connection, form);
            scenario.provider("p1").prefix = "other-".into();
            scenario.restart("p1", &[("N", "U-new")]);
            expect_handshake_replay(&mut scenario, form);
            let received = expect_call_works(&mut scenario, &connection, "p1", "U-new");
            let harness = &mut scenario.harness;
            let provider = scenario.providers.iter_mut().find(|it| it.name == "p1").unwrap();
            provider.note(harness, &received, &call("notifications/x", "{}"));
            let name = provider.ask(harness, &received, &call("roots/list", "{}"));
            scenario.settle();
            let (note, request) =
                (scenario.agent.received.pop_front(), scenario.agent.received.pop_front());
            let (note, request) = (note.unwrap(), request.unwrap());
            assert!(note.call.is("notifications/x") && request.call.is("roots/list"));
            let expected = match &connection {
                ServerConnection::Native { server, connection_id } if connection_id.is_empty() => {
                    server.clone()
                }
                ServerConnection::Native { connection_id, .. } => connection_id.clone(),
                ServerConnection::Client(client_id) => format!("client {}", client_id.0),
            };
            assert_eq!([note.sender, request.sender.clone()], [expected.clone(), expected]);
            scenario.agent.answer(&mut scenario.harness, &request, r#"{"roots":[]}"#);
            scenario.settle();
            let answer = scenario.provider("p1").answered(&name);
            assert_eq!(answer, Some(Answer::FromServer(Outcome::Result(json(r#"{"roots":[]}"#)))));
            end(&mut scenario, &connection);
        }
    }
}

/// The router answers requests to the crashed provider, once. Messages that are sent while it is
/// down wait.
#[test]
fn messages_sent_while_a_provider_is_down_reach_the_restarted_provider() {
    for consumer in all_consumers() {
        for form in FORMS {
            let mut scenario = scenario_of(consumer, form);
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            handshake(&mut scenario, &connection, form);
            let lost = scenario.ask(&connection, "tools/call", r#"{"name":"lost"}"#);
            scenario.discover();
            scenario.harness.crash("p1");
            scenario.settle();
            let outcome = scenario.agent.outcomes.remove(&lost);
            assert!(matches!(outcome, Some(Outcome::Error(_))), "{outcome:?}");
            let early = scenario.ask(&connection, "tools/call", r#"{"name":"early"}"#);
            scenario.finish_restart("p1", &[("N", "U-new")]);
            expect_handshake_replay(&mut scenario, form);
            let received = next_from_consumer(&mut scenario, consumer, "p1");
            let name = received.call.params.clone().unwrap().member("name").unwrap();
            assert_eq!(name.as_str(), r#""early""#);
            scenario.result("p1", &received, "{}");
            assert!(matches!(scenario.agent.outcomes.remove(&early), Some(Outcome::Result(_))));
            assert!(scenario.provider("p1").received.is_empty());
            end(&mut scenario, &connection);
        }
    }
}

/// The provider may crash at any step of its restart, repeatedly.
#[test]
fn messages_wait_for_a_provider_that_crashes_repeatedly() {
    for consumer in some_consumers() {
        for form in [Form::M1, Form::M3, Form::M6, Form::M7] {
            let mut scenario = scenario_of(consumer, form);
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            handshake(&mut scenario, &connection, form);
            let new = [("N", "U-new")];
            // Before its handshake, before the end of the session replay, and after that.
            scenario.harness.crash("p1");
            scenario.harness.crash_again("p1");
            scenario.harness.restart_handshake("p1", STDIO);
            scenario.harness.crash_again("p1");
            scenario.provider("p1").reset(&new);
            scenario.replay_sessions("p1");
            scenario.harness.crash_again("p1");
            // After the connect: it never answers.
            scenario.provider("p1").reset(&new);
            scenario.replay_sessions("p1");
            scenario.harness.assert_restarted("p1");
            let waits =
                scenario.agent.ask(&mut scenario.harness, &connection, &call("tools/list", ""));
            scenario.harness.crash("p1");
            // After the `initialize` of the connection: it never answers.
            scenario.finish_restart("p1", &new);
            scenario.harness.crash("p1");
            scenario.settle();
            let outcome = scenario.agent.outcomes.remove(&waits);
            assert!(
                matches!(outcome, Some(Outcome::Error(_))),
                "{consumer:?} {form:?}: {outcome:?}"
            );
            scenario.finish_restart("p1", &new);
            expect_handshake_replay(&mut scenario, form);
            expect_call_works(&mut scenario, &connection, "p1", "U-new");
            // Requests of an earlier process are ignored.
            for number in 1..40 {
                let late = r#"{"connection_id":"Z","connectionId":"Z","result":{}}"#;
                scenario.harness.send_line("p1", &format!("result m:{number} {late}"));
            }
            expect_call_works(&mut scenario, &connection, "p1", "U-new");
            end(&mut scenario, &connection);
        }
    }
}

/// A server that is not declared again is gone, and its consumers get an error.
#[test]
fn a_server_that_is_not_declared_again_is_removed() {
    for consumer in some_consumers() {
        for form in [Form::M1, Form::M3, Form::M6, Form::M7] {
            for bypassed in [false, true] {
                let participants = format!("p1:{}+once (x:P4) p2:P4 agent", generation_of(form));
                let providers = vec![
                    Provider::new("p1", form, &[("a", "U1"), ("b", "U2")]),
                    Provider::new("p2", Form::M6, &[("c", "U3")]),
                ];
                let mut scenario = Scenario::new(&participants, consumer, providers);
                let entries = scenario.session("S");
                let connections: Vec<ServerConnection> =
                    entries.iter().map(|entry| scenario.connect(entry)).collect();
                for connection in &connections[..2] {
                    handshake(&mut scenario, connection, form);
                }
                expect_call_works(&mut scenario, &connections[2], "p2", "U3");
                scenario.harness.crash("p1");
                let early = scenario.ask(&connections[0], "tools/list", "{}");
                let lost = match bypassed {
                    true => {
                        scenario.harness.crash_again("p1");
                        assert!(scenario.harness.is_bypassed("p1"));
                        scenario.settle();
                        2
                    }
                    false => {
                        scenario.finish_restart("p1", &[("b", "new")]);
                        1
                    }
                };
                let early = scenario.agent.outcomes.remove(&early);
                assert!(consumer.is_none() || is_gone_error(early));
                if !bypassed {
                    let report = "proxy 'p1' was restarted and no longer offers the MCP server 'a'";
                    assert!(scenario.harness.reports.iter().any(|it| it == report));
                    expect_handshake_replay(&mut scenario, form);
                    expect_call_works(&mut scenario, &connections[1], "p1", "new");
                }
                match consumer {
                    None => {
                        assert_eq!(scenario.harness.disconnected.len(), lost);
                        assert_eq!(scenario.harness.tickets().len(), 3 - lost);
                    }
                    Some(it) if it.has_connections() => {
                        assert_eq!(scenario.agent.closed_by_provider.len(), lost)
                    }
                    Some(_) => {}
                }
                for connection in connections[..lost].iter().filter(|_| consumer.is_some()) {
                    let name = scenario.ask(connection, "tools/list", "{}");
                    assert!(is_gone_error(scenario.agent.outcomes.remove(&name)));
                }
                expect_call_works(&mut scenario, &connections[2], "p2", "U3");
                // The next session does not have the server.
                let entries = scenario.session("T");
                assert_eq!(entries.len(), 3 - lost);
                for session in ["S", "T"] {
                    scenario.close_session(session);
                }
                scenario.harness.expect_all_closed();
                assert!(scenario.editor().misdelivered.is_empty());
            }
        }
    }
}

/// Each session may have its own servers, or the same ones.
#[test]
fn servers_of_several_sessions_are_matched_after_a_restart() {
    for consumer in some_consumers() {
        for (old, new) in [
            ([("U", "V"), ("U", "V")], [("X", "Y"), ("X", "Y")]),
            ([("1", "2"), ("3", "4")], [("4", "3"), ("2", "1")]),
            ([("1", "2"), ("3", "4")], [("1", "2"), ("3", "4")]),
            ([("1", "2"), ("3", "4")], [("3", "4"), ("1", "2")]),
            ([("1", "2"), ("3", "4")], [("X", "Y"), ("X", "Y")]),
            ([("2", "1"), ("4", "3")], [("X", "Y"), ("Z", "W")]),
        ] {
            let named = |(one, two)| [("tools", one), ("tools", two)];
            let providers = vec![Provider::new("p1", Form::M6, &named(old[0]))];
            let mut scenario = Scenario::new("p1:P4 agent", consumer, providers);
            let mut connections = Vec::new();
            for (session, ids) in ["S", "T"].into_iter().zip(old) {
                let servers = named(ids).map(|(name, id)| (name.to_owned(), id.to_owned()));
                scenario.provider("p1").servers = servers.to_vec();
                let entries = scenario.session(session);
                connections.extend(entries.iter().map(|entry| scenario.connect(entry)));
            }
            scenario.harness.crash("p1");
            let everything = new.map(named).concat();
            scenario.provider("p1").reset(&everything);
            scenario.harness.restart_handshake("p1", STDIO);
            for ids in new {
                let servers = named(ids).map(|(name, id)| (name.to_owned(), id.to_owned()));
                scenario.provider("p1").servers = servers.to_vec();
                // The provider receives a replayed session, passes it on, and answers.
                let index = scenario.providers.iter().position(|it| it.name == "p1").unwrap();
                for _ in 0..2 {
                    assert!(scenario.providers[index].step(&mut scenario.harness));
                }
            }
            scenario.provider("p1").reset(&everything);
            scenario.harness.assert_restarted("p1");
            scenario.settle();
            let [(a, b), (c, d)] = new;
            // If two sessions use one id, both mean the same server.
            for (connection, id) in connections.iter().zip([a, b, c, d]) {
                expect_call_works(&mut scenario, connection, "p1", id);
            }
            for session in ["S", "T"] {
                scenario.close_session(session);
            }
            for connection in &connections {
                scenario.agent.disconnect(&mut scenario.harness, connection);
            }
            scenario.settle();
            scenario.harness.expect_all_closed();
        }
    }
}

/// A newer version of the program may be started.
#[test]
fn a_restarted_provider_may_use_another_form() {
    for consumer in all_consumers() {
        for (old, new) in [
            (Form::M6, Form::M7),
            (Form::M7, Form::M6),
            (Form::M3, Form::M7),
            (Form::M7, Form::M3),
            (Form::M5, Form::M6),
        ] {
            let mut scenario = Scenario::new(
                "(w:P5) p1:P5 (x:P4) agent",
                consumer,
                vec![Provider::new("p1", old, &[("N", "U")])],
            );
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            handshake(&mut scenario, &connection, old);
            expect_call_works(&mut scenario, &connection, "p1", "U");
            scenario.provider("p1").form = new;
            scenario.restart("p1", &[("N", "U-new")]);
            expect_handshake_replay(&mut scenario, new);
            expect_call_works(&mut scenario, &connection, "p1", "U-new");
            end(&mut scenario, &connection);
        }
    }
}

/// A message that waits for a reopened connection can be cancelled, and its consumer may
/// disconnect.
#[test]
fn a_consumer_may_cancel_or_disconnect_while_its_provider_restarts() {
    for consumer in some_consumers() {
        for form in [Form::M3, Form::M6] {
            for leaves in [false, true] {
                let mut scenario = scenario_of(consumer, form);
                let entries = scenario.session("S");
                let connection = scenario.connect(&entries[0]);
                handshake(&mut scenario, &connection, form);
                scenario.harness.crash("p1");
                scenario.provider("p1").reset(&[("N", "U-new")]);
                scenario.replay_sessions("p1");
                let early =
                    scenario.agent.ask(&mut scenario.harness, &connection, &call("tools/list", ""));
                scenario.harness.assert_restarted("p1");
                let late =
                    scenario.agent.ask(&mut scenario.harness, &connection, &call("tools/list", ""));
                for name in [&early, &late] {
                    scenario.agent.cancel(&mut scenario.harness, &connection, name);
                }
                let disconnect_id = leaves
                    .then(|| scenario.agent.disconnect(&mut scenario.harness, &connection))
                    .flatten();
                scenario.settle();
                if consumer == Some(Form::M7) {
                    let initialize = scenario.provider("p1").received.pop_back();
                    initialize
                        .iter()
                        .for_each(|initialize| scenario.result("p1", initialize, "{}"));
                    let received: Vec<ReceivedMessage> =
                        scenario.provider("p1").owed.values().cloned().collect();
                    received.iter().for_each(|received| scenario.result("p1", received, "{}"));
                    scenario.provider("p1").received.clear();
                }
                for name in [early, late].into_iter().chain(disconnect_id) {
                    let answered = scenario.agent.outcomes.remove(&name).is_some();
                    assert_eq!(answered, consumer.is_some(), "{consumer:?}");
                }
                if consumer != Some(Form::M7) && !leaves {
                    expect_handshake_replay(&mut scenario, form);
                }
                if !leaves || consumer.is_some_and(|it| !it.has_connections()) {
                    let message =
                        scenario.provider("p1").received.iter().any(|it| it.call.is("tools/list"));
                    assert!(!message);
                }
                scenario.close_session("S");
                assert!(scenario.provider("p1").open.is_empty(), "{consumer:?} {form:?}");
                scenario.harness.expect_all_closed();
            }
        }
    }
}
