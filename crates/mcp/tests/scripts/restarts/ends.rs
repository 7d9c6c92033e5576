//! What ends while a provider is away: sessions, connections, questions.

use super::*;

/// A session that ends while the provider of its servers is away.
#[test]
fn a_session_may_end_while_a_provider_is_away() {
    for consumer in some_consumers() {
        for form in [Form::M1, Form::M3, Form::M6, Form::M7] {
            let mut world = world_of(consumer, form);
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            greet(&mut world, &line, form);
            world.editor_asks("session/close", r#"{"sessionId":"S"}"#);
            world.stage.die("p1");
            let (id, _) = world.agent.requests.pop_back().unwrap();
            world.agent_says(&id, "{}");
            let goodbye = world.agent.hang_up(&mut world.stage, &line);
            world.revive("p1", &[("N", "U-new")]);
            assert!(goodbye.is_none_or(|name| world.agent.outcomes.remove(&name).is_some()));
            assert!(world.provider("p1").open.is_empty() && world.provider("p1").heard.is_empty());
            assert!(world.editor().strangers.is_empty());
            world.stage.empty();
        }
    }
}

/// A set-up that dies with a provider leaves nothing.
#[test]
fn a_session_that_was_not_set_up_yet_is_lost_with_its_provider() {
    for consumer in some_consumers() {
        let mut world = world_of(consumer, Form::M3);
        let (id, call) = world.begin_session();
        world.line(&servers(&call)[0]);
        world.stage.die("p1");
        world.settle();
        assert!(matches!(world.editor().answers["e1"], Outcome::Error(_)));
        world.revive("p1", &[("N", "U")]);
        world.agent_says(&id, r#"{"sessionId":"S"}"#);
        // Only the agent knows of it, and is told to close it.
        let (close, call) = world.agent.requests.pop_back().expect("a request");
        assert!(call.is("session/close"), "{call:?}");
        world.agent_says(&close, "{}");
        world.stage.empty();
    }
}

/// A client of the bridge that we have greeted ourselves does not say its hello again.
#[test]
fn a_server_that_dies_before_it_has_greeted_is_replaced_by_one_that_is_greeted() {
    for form in [Form::M2, Form::M3, Form::M6] {
        let mut world = world_of(None, form);
        let entries = world.session("S");
        let client = world.stage.call(ticket_of(&entries[0]));
        world.stage.hear(client, &format!("initialize 1 {HELLO}"));
        world.settle();
        assert!(world.heard("p1").call.is("initialize"));
        world.stage.wait(2_000);
        world.stage.told(client, "result 1 …");
        world.stage.hear(client, "notifications/initialized");
        world.stage.hear(client, "tools/list 2");
        world.restart("p1", &[("N", "U-new")]);
        let hello = world.heard("p1");
        assert!(hello.call.is("initialize"), "{hello:?}");
        assert!(world.provider("p1").heard.is_empty());
        world.result("p1", &hello, "{}");
        assert!(world.heard("p1").call.is("notifications/initialized"));
        let list = world.heard("p1");
        assert!(list.call.is("tools/list"));
        world.result("p1", &list, "{}");
        assert!(world.provider("p1").heard.is_empty());
        assert!(world.agent.outcomes.remove("2").is_some());
        world.close_session("S");
        world.stage.empty();
    }
}

/// A connection that cannot be opened again ends, and its consumer is told.
#[test]
fn a_consumer_hears_of_a_connection_that_cannot_be_opened_again() {
    for consumer in [None, Some(Form::M3), Some(Form::M6)] {
        for (form, greeted) in [(Form::M3, true), (Form::M6, true), (Form::M6, false)] {
            let mut world = world_of(consumer, form);
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            greet(&mut world, &line, form);
            world.stage.die("p1");
            world.provider("p1").reborn(&[("N", "U-new")]);
            world.told_all("p1");
            world.stage.is_back("p1");
            let waits = world.agent.ask(&mut world.stage, &line, &call("tools/list", ""));
            let no = r#"{"code":-32000,"message":"not again"}"#;
            match greeted {
                true => {
                    world.settle();
                    let hello = world.heard("p1");
                    world.answer("p1", &hello, Outcome::Error(json(no)));
                }
                false => {
                    let connect = world.stage.see("p1", "~mcp/connect ? …");
                    world.stage.say("p1", &format!("error {connect} {no}"));
                    world.settle();
                }
            }
            match &line {
                Line::Client(client_id) => assert!(world.stage.hung_up.contains(client_id)),
                Line::Native { connection, .. } => {
                    assert_eq!(world.agent.dismissed.iter().collect::<Vec<_>>(), [connection]);
                    let outcome = world.agent.outcomes.remove(&waits);
                    assert_eq!(outcome, Some(Outcome::Error(json(no))));
                }
            }
            assert!(world.provider("p1").open.is_empty());
            // It may try again.
            let line = world.line(&entries[0]);
            works(&mut world, &line, "p1", "U-new");
            world.close_session("S");
            world.stage.empty();
        }
    }
}

/// It makes no difference how the agent's clients reach us.
#[test]
fn clients_of_both_kinds_keep_their_calls() {
    for kind in [Transport::Stdio, Transport::Http] {
        for form in FORMS {
            let cast = format!("(w:P5) p1:{} (x:P4) agent", dialect_of(form));
            let stage = Stage::with_policy(&cast, STDIO, BridgePolicy::Only(kind));
            let provider = Provider::new("p1", form, &[("N", "U")]);
            let mut world = World::with_stage(stage, None, vec![provider]);
            let entries = world.session("S");
            let tickets = world.stage.tickets();
            let line = world.line(&entries[0]);
            greet(&mut world, &line, form);
            world.restart("p1", &[("N", "U-new")]);
            is_greeted(&mut world, form);
            works(&mut world, &line, "p1", "U-new");
            // The place is as good as it was.
            assert_eq!((world.stage.tickets(), world.stage.kinds()), (tickets, vec![kind]));
            let another = world.line(&entries[0]);
            works(&mut world, &another, "p1", "U-new");
            end(&mut world, &line);
            assert_eq!(world.stage.hung_up.len(), 2);
        }
    }
}

/// A stateless server wants to know something before it answers, and dies before it is told.
#[test]
fn what_a_dead_server_wanted_to_know_is_of_no_interest() {
    for consumer in [None, Some(Form::M3), Some(Form::M6)] {
        let mut world = world_of(consumer, Form::M7);
        let entries = world.session("S");
        let line = world.line(&entries[0]);
        greet(&mut world, &line, Form::M7);
        let before = world.stage.broker().sizes();
        let lost = world.ask(&line, "tools/call", r#"{"name":"t"}"#);
        let said = world.heard("p1");
        let asks =
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#;
        world.result("p1", &said, asks);
        let asked = world.agent.heard.pop_front().unwrap();
        assert!(asked.call.is("roots/list"));
        world.stage.die("p1");
        world.settle();
        assert!(matches!(world.agent.outcomes.remove(&lost), Some(Outcome::Error(_))));
        assert_eq!(world.stage.broker().sizes(), before, "{consumer:?}");
        world.agent.answer(&mut world.stage, &asked, r#"{"roots":[]}"#);
        world.agent.heard.clear();
        world.revive("p1", &[("N", "U-new")]);
        world.discover();
        assert!(world.provider("p1").heard.is_empty(), "nobody asks this one");
        works(&mut world, &line, "p1", "U-new");
        // The new one may ask, too: what the client can do is known.
        let name = world.ask(&line, "tools/call", r#"{"name":"t"}"#);
        let said = world.heard("p1");
        world.result("p1", &said, asks);
        let asked = world.agent.heard.pop_front().unwrap();
        world.agent.answer(&mut world.stage, &asked, r#"{"roots":[]}"#);
        let said = world.heard("p1");
        world.result("p1", &said, "{}");
        assert!(matches!(world.agent.outcomes.remove(&name), Some(Outcome::Result(_))));
        end(&mut world, &line);
    }
}
