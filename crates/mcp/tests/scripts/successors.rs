//! The agent is started again, or somebody on the way to it, while the providers live on.

use acp_wire::{Json, Outcome};
use mcp::form::{Answer, Form};
use mcp::{BridgePolicy, ClientId, Transport};

use crate::cast::*;
use crate::restarts::*;
use crate::stage::*;
use crate::world::*;

/// The agent is started again: nothing of the one before is left with the providers.
#[test]
fn an_agent_that_is_started_again_begins_anew() {
    for consumer in all_consumers() {
        for form in FORMS {
            let mut world = world_of(consumer, form);
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            greet(&mut world, &line, form);
            works(&mut world, &line, "p1", "U");
            world.agent.ask(&mut world.stage, &line, &call("tools/list", ""));
            let (_, connecting) = world.agent.reach(&mut world.stage, &entries[0]);
            world.discover();
            let tickets = world.stage.tickets();
            world.stage.die("agent");
            world.settle();
            assert!(world.provider("p1").open.is_empty(), "{:?}", world.provider("p1").open);
            world.provider("p1").heard.clear();
            for said in world.provider("p1").owed.values().cloned().collect::<Vec<_>>() {
                world.result("p1", &said, "{}");
            }
            world.provider("p1").asked.clear();
            assert!(world.stage.tickets().is_empty());
            if let (None, Line::Client(client_id)) = (consumer, &line) {
                assert!(world.stage.hung_up.contains(client_id));
            }
            drop(connecting.map(|name| world.agent.outcomes.remove(&name)));
            let given = world.revive_agent();
            assert_eq!((given.len(), given[0].0.as_str()), (1, "S"));
            assert!(world.stage.tickets().iter().all(|it| !tickets.contains(it)));
            assert_eq!(world.stage.tickets().len(), tickets.len());
            let line = world.line(&given[0].1[0]);
            greet(&mut world, &line, form);
            works(&mut world, &line, "p1", "U");
            // And then its provider, and then itself.
            world.restart("p1", &[("N", "U-new")]);
            is_greeted(&mut world, form);
            let given = world.restart_agent();
            let line = world.line(&given[0].1[0]);
            works(&mut world, &line, "p1", "U-new");
            end(&mut world, &line);
        }
    }
}

/// An agent that is given another kind of place, and one that has a question of its server open.
#[test]
fn clients_of_a_dead_agent_are_hung_up_on_whatever_they_owe() {
    for kind in [Transport::Stdio, Transport::Http] {
        let stage = Stage::with_policy("p1:P4 (x:P5) agent", STDIO, BridgePolicy::Only(kind));
        let providers = vec![Provider::new("p1", Form::M3, &[("N", "U")])];
        let mut world = World::with_stage(stage, None, providers);
        let entries = world.session("S");
        let line = world.line(&entries[0]);
        greet(&mut world, &line, Form::M3);
        world.ask(&line, "tools/list", "{}");
        let said = world.heard("p1");
        let provider = world.providers.iter_mut().find(|it| it.who == "p1").unwrap();
        let name = provider.ask(&mut world.stage, &said, &call("roots/list", ""));
        world.settle();
        assert!(world.agent.heard.pop_front().unwrap().call.is("roots/list"));
        // Another has called, and said nothing.
        let idle = world.stage.call(world.stage.tickets()[0]);
        let given = world.restart_agent();
        assert!(matches!(
            world.provider("p1").answered(&name),
            Some(Answer::FromServer(Outcome::Error(_)))
        ));
        assert_eq!(world.stage.hung_up.len(), 2);
        assert!(world.stage.hung_up.contains(&idle));
        assert_eq!(world.stage.kinds(), [kind]);
        // They may say what they like.
        let Line::Client(old) = line else { panic!("a client") };
        for client_id in [old, idle, ClientId(99)] {
            world.stage.hear(client_id, "tools/list 1");
            world.stage.hang_up(client_id);
        }
        world.result("p1", &said, "{}");
        let late = world.stage.call(ticket_of(&entries[0]));
        assert!(world.stage.hung_up.contains(&late), "that ticket was the other's");
        let line = world.line(&given[0].1[0]);
        works(&mut world, &line, "p1", "U");
        world.close_session("S");
        world.stage.empty();
    }
}

/// Somebody in between dies: what was open stays open, what was on its way to be is given up.
#[test]
fn a_proxy_between_consumer_and_provider_may_be_started_again() {
    for consumer in all_consumers() {
        for form in FORMS {
            let mut world = world_of(consumer, form);
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            greet(&mut world, &line, form);
            works(&mut world, &line, "p1", "U");
            let open = world.provider("p1").open.len();
            // A connect is on its way, and a goodbye.
            let (_, connecting) = world.agent.reach(&mut world.stage, &entries[0]);
            let second = world.line(&entries[0]);
            works(&mut world, &second, "p1", "U");
            world.stage.sleep("x", true);
            let goodbye = world.agent.hang_up(&mut world.stage, &second);
            if connecting.is_some() {
                world.agent.reach(&mut world.stage, &entries[0]);
            }
            world.discover();
            world.stage.die("x");
            world.told_all("x");
            world.stage.is_back("x");
            world.discover();
            assert!(goodbye.is_none_or(|name| world.agent.outcomes.remove(&name).is_some()));
            works(&mut world, &line, "p1", "U");
            if consumer.is_none() {
                assert!(world.provider("p1").open.len() <= open, "{consumer:?} {form:?}");
            }
            world.agent.outcomes.clear();
            end(&mut world, &line);
        }
    }
}

/// An agent is not told of servers that are gone.
#[test]
fn who_was_bypassed_is_not_offered_to_a_new_agent() {
    for consumer in some_consumers() {
        let providers = vec![
            Provider::new("p1", Form::M3, &[("a", "U")]),
            Provider::new("p2", Form::M7, &[("b", "U")]),
        ];
        let mut world = World::new("p1:P4+once p2:P5 agent", consumer, providers);
        world.session("S");
        world.stage.die("p1");
        world.stage.die_again("p1");
        assert!(world.stage.is_left_out("p1"));
        // The other's server is not taken for its own when it comes back.
        world.restart("p2", &[("b", "U")]);
        let given = world.restart_agent();
        let names: Vec<Json> = given[0].1.iter().filter_map(|it| it.member("name")).collect();
        assert_eq!(names, [Json::string("b")], "{consumer:?}");
        let line = world.line(&given[0].1[0]);
        works(&mut world, &line, "p2", "U");
        world.close_session("S");
        world.agent.hang_up(&mut world.stage, &line);
        world.settle();
        world.stage.empty();
    }
}

/// A proxy that uses a server itself: when it dies, its connection is closed.
#[test]
fn the_connections_of_a_dead_proxy_are_closed() {
    let mut stage = Stage::new("p1:P4 p2:P5 agent", NATIVE);
    let entry = r#"{"type":"acp","name":"N","serverId":"U"}"#;
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    let id = stage.see("p2", "session/new ? …");
    stage.say("p2", &format!(r#"~session/new 2 {{"mcpServers":[{entry}]}}"#));
    let new = stage.see("agent", "session/new ? …");
    stage.say("agent", &format!(r#"result {new} {{"sessionId":"S"}}"#));
    stage.see("p2", "result 2 …");
    stage.say("p2", &format!(r#"result {id} {{"sessionId":"S"}}"#));
    stage.see("p1", "result 1 …");
    stage.say("p2", r#"mcp/connect 3 {"serverId":"U"}"#);
    let connect = stage.see("p1", "~mcp/connect ? …");
    stage.say("p1", &format!(r#"result {connect} {{"connectionId":"V"}}"#));
    stage.see("p2", r#"result 3 {"connectionId":"V"}"#);
    stage.say("agent", r#"mcp/connect 4 {"serverId":"U"}"#);
    let (side, message) = stage.next("p2").unwrap();
    stage.forward("p2", side, message);
    let connect = stage.see("p1", "~mcp/connect ? …");
    stage.say("p1", &format!(r#"result {connect} {{"connectionId":"W"}}"#));
    let (side, message) = stage.next("p2").unwrap();
    stage.forward("p2", side, message);
    stage.see("agent", r#"result 4 {"connectionId":"W"}"#);
    stage.die("p2");
    let goodbye = stage.see("p1", r#"~mcp/disconnect ? {"connectionId":"V"}"#);
    stage.say("p1", &format!("result {goodbye} {{}}"));
    stage.quiet();
}

/// What a dead agent was about to open, and the router takes back in its place.
#[test]
fn a_connect_that_is_taken_back_is_answered_and_what_it_opens_is_closed() {
    for form in [Form::M2, Form::M3, Form::M5, Form::M6, Form::M7] {
        let providers = vec![Provider::new("p1", form, &[("N", "U")])];
        let cast = format!("p1:{} agent", dialect_of(form));
        let mut world = World::new(&cast, Some(Form::M5), providers);
        let entries = world.session("S");
        let (line, name) = world.agent.reach(&mut world.stage, &entries[0]);
        let name = name.unwrap();
        world.agent.cancel(&mut world.stage, &line, &name);
        world.agent.pump(&mut world.stage);
        let Some(Outcome::Error(error)) = world.agent.outcomes.remove(&name) else {
            panic!("{form:?}: it is not answered")
        };
        assert!(error.as_str().contains("-32800"), "{error}");
        world.discover();
        assert!(world.provider("p1").open.is_empty());
        world.close_session("S");
        world.stage.empty();
    }
}
