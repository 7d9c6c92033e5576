//! Sessions, connections and requests that end while a provider is down.

use super::*;

/// A session ends while the provider of its servers is down.
#[test]
fn a_session_may_end_while_a_provider_is_down() {
    for consumer in some_consumers() {
        for form in [Form::M1, Form::M3, Form::M6, Form::M7] {
            let mut scenario = scenario_of(consumer, form);
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            handshake(&mut scenario, &connection, form);
            scenario.editor_requests("session/close", r#"{"sessionId":"S"}"#);
            scenario.harness.crash("p1");
            let (id, _) = scenario.agent.requests.pop_back().unwrap();
            scenario.agent_answers_with(&id, "{}");
            let disconnect_id = scenario.agent.disconnect(&mut scenario.harness, &connection);
            scenario.finish_restart("p1", &[("N", "U-new")]);
            assert!(
                disconnect_id.is_none_or(|name| scenario.agent.outcomes.remove(&name).is_some())
            );
            assert!(
                scenario.provider("p1").open.is_empty()
                    && scenario.provider("p1").received.is_empty()
            );
            assert!(scenario.editor().misdelivered.is_empty());
            scenario.harness.expect_all_closed();
        }
    }
}

/// A set-up request that is lost with its provider leaves nothing behind.
#[test]
fn a_session_whose_set_up_is_not_answered_is_lost_with_its_provider() {
    for consumer in some_consumers() {
        let mut scenario = scenario_of(consumer, Form::M3);
        let (id, call) = scenario.begin_session();
        scenario.connect(&servers(&call)[0]);
        scenario.harness.crash("p1");
        scenario.settle();
        assert!(matches!(scenario.editor().answers["e1"], Outcome::Error(_)));
        scenario.finish_restart("p1", &[("N", "U")]);
        scenario.agent_answers_with(&id, r#"{"sessionId":"S"}"#);
        // Only the agent knows the session, so it receives a request to close it.
        let (close, call) = scenario.agent.requests.pop_back().expect("a request");
        assert!(call.is("session/close"), "{call:?}");
        scenario.agent_answers_with(&close, "{}");
        scenario.harness.expect_all_closed();
    }
}

/// A client whose `initialize` the bridge has answered does not send it again.
#[test]
fn a_server_that_crashes_before_it_answers_initialize_gets_it_again_after_its_restart() {
    for form in [Form::M2, Form::M3, Form::M6] {
        let mut scenario = scenario_of(None, form);
        let entries = scenario.session("S");
        let client = scenario.harness.connect_client(ticket_of(&entries[0]));
        scenario.harness.client_sends(client, &format!("initialize 1 {INITIALIZE}"));
        scenario.settle();
        assert!(scenario.next_received("p1").call.is("initialize"));
        scenario.harness.wait(2_000);
        scenario.harness.expect_client(client, "result 1 …");
        scenario.harness.client_sends(client, "notifications/initialized");
        scenario.harness.client_sends(client, "tools/list 2");
        scenario.restart("p1", &[("N", "U-new")]);
        let initialize = scenario.next_received("p1");
        assert!(initialize.call.is("initialize"), "{initialize:?}");
        assert!(scenario.provider("p1").received.is_empty());
        scenario.result("p1", &initialize, "{}");
        assert!(scenario.next_received("p1").call.is("notifications/initialized"));
        let list = scenario.next_received("p1");
        assert!(list.call.is("tools/list"));
        scenario.result("p1", &list, "{}");
        assert!(scenario.provider("p1").received.is_empty());
        assert!(scenario.agent.outcomes.remove("2").is_some());
        scenario.close_session("S");
        scenario.harness.expect_all_closed();
    }
}

/// A connection that cannot be opened again is closed, and its consumer receives a disconnect.
#[test]
fn a_consumer_receives_a_disconnect_if_its_connection_cannot_be_opened_again() {
    for consumer in [None, Some(Form::M3), Some(Form::M6)] {
        for (form, initialized) in [(Form::M3, true), (Form::M6, true), (Form::M6, false)] {
            let mut scenario = scenario_of(consumer, form);
            let entries = scenario.session("S");
            let connection = scenario.connect(&entries[0]);
            handshake(&mut scenario, &connection, form);
            scenario.harness.crash("p1");
            scenario.provider("p1").reset(&[("N", "U-new")]);
            scenario.replay_sessions("p1");
            scenario.harness.assert_restarted("p1");
            let waits =
                scenario.agent.ask(&mut scenario.harness, &connection, &call("tools/list", ""));
            let no = r#"{"code":-32000,"message":"not again"}"#;
            match initialized {
                true => {
                    scenario.settle();
                    let initialize = scenario.next_received("p1");
                    scenario.answer("p1", &initialize, Outcome::Error(json(no)));
                }
                false => {
                    let connect = scenario.harness.expect("p1", "~mcp/connect ? …");
                    scenario.harness.send_line("p1", &format!("error {connect} {no}"));
                    scenario.settle();
                }
            }
            match &connection {
                ServerConnection::Client(client_id) => {
                    assert!(scenario.harness.disconnected.contains(client_id))
                }
                ServerConnection::Native { connection_id, .. } => {
                    assert_eq!(
                        scenario.agent.closed_by_provider.iter().collect::<Vec<_>>(),
                        [connection_id]
                    );
                    let outcome = scenario.agent.outcomes.remove(&waits);
                    assert_eq!(outcome, Some(Outcome::Error(json(no))));
                }
            }
            assert!(scenario.provider("p1").open.is_empty());
            // The consumer may connect again.
            let connection = scenario.connect(&entries[0]);
            expect_call_works(&mut scenario, &connection, "p1", "U-new");
            scenario.close_session("S");
            scenario.harness.expect_all_closed();
        }
    }
}

/// The transport of the agent's clients makes no difference.
#[test]
fn clients_of_both_transports_stay_connected() {
    for transport in [Transport::Stdio, Transport::Http] {
        for form in FORMS {
            let participants = format!("(w:P5) p1:{} (x:P4) agent", generation_of(form));
            let harness = Harness::with_policy(&participants, STDIO, BridgePolicy::Only(transport));
            let provider = Provider::new("p1", form, &[("N", "U")]);
            let mut scenario = Scenario::with_harness(harness, None, vec![provider]);
            let entries = scenario.session("S");
            let tickets = scenario.harness.tickets();
            let connection = scenario.connect(&entries[0]);
            handshake(&mut scenario, &connection, form);
            scenario.restart("p1", &[("N", "U-new")]);
            expect_handshake_replay(&mut scenario, form);
            expect_call_works(&mut scenario, &connection, "p1", "U-new");
            // The endpoint is still valid.
            assert_eq!(
                (scenario.harness.tickets(), scenario.harness.transports()),
                (tickets, vec![transport])
            );
            let another = scenario.connect(&entries[0]);
            expect_call_works(&mut scenario, &another, "p1", "U-new");
            end(&mut scenario, &connection);
            assert_eq!(scenario.harness.disconnected.len(), 2);
        }
    }
}

/// A stateless server requests input and crashes before it gets the answer.
#[test]
fn the_input_requests_of_a_crashed_server_are_dropped() {
    for consumer in [None, Some(Form::M3), Some(Form::M6)] {
        let mut scenario = scenario_of(consumer, Form::M7);
        let entries = scenario.session("S");
        let connection = scenario.connect(&entries[0]);
        handshake(&mut scenario, &connection, Form::M7);
        let before = scenario.harness.broker().sizes();
        let lost = scenario.ask(&connection, "tools/call", r#"{"name":"t"}"#);
        let received = scenario.next_received("p1");
        let asks =
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#;
        scenario.result("p1", &received, asks);
        let request = scenario.agent.received.pop_front().unwrap();
        assert!(request.call.is("roots/list"));
        scenario.harness.crash("p1");
        scenario.settle();
        assert!(matches!(scenario.agent.outcomes.remove(&lost), Some(Outcome::Error(_))));
        assert_eq!(scenario.harness.broker().sizes(), before, "{consumer:?}");
        scenario.agent.answer(&mut scenario.harness, &request, r#"{"roots":[]}"#);
        scenario.agent.received.clear();
        scenario.finish_restart("p1", &[("N", "U-new")]);
        scenario.discover();
        assert!(
            scenario.provider("p1").received.is_empty(),
            "this provider must not receive a request"
        );
        expect_call_works(&mut scenario, &connection, "p1", "U-new");
        // The restarted server may also request input, because the capabilities of the client are
        // known.
        let name = scenario.ask(&connection, "tools/call", r#"{"name":"t"}"#);
        let received = scenario.next_received("p1");
        scenario.result("p1", &received, asks);
        let request = scenario.agent.received.pop_front().unwrap();
        scenario.agent.answer(&mut scenario.harness, &request, r#"{"roots":[]}"#);
        let received = scenario.next_received("p1");
        scenario.result("p1", &received, "{}");
        assert!(matches!(scenario.agent.outcomes.remove(&name), Some(Outcome::Result(_))));
        end(&mut scenario, &connection);
    }
}
