//! How sessions, clients and providers end, and what is left of them: nothing.

use acp_wire::Outcome;
use mcp::form::Form;

use crate::cast::*;
use crate::stage::*;
use crate::world::*;

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

/// A client is connected to each server, and has asked it something.
fn busy(world: &mut World, entries: &[acp_wire::Json]) -> Vec<String> {
    let mut names = Vec::new();
    for entry in entries {
        let line = world.line(entry);
        names.push(world.ask(&line, "tools/call", r#"{"name":"slow"}"#));
        world.discover();
    }
    names
}

/// Checklist 87.
#[test]
fn the_end_of_a_session_releases_everything() {
    for end in ["session/close", "session/delete"] {
        for consumer in consumers() {
            let mut world = World::new(CAST, consumer, providers());
            let entries = world.session("S");
            assert_eq!(entries.len(), 5);
            let names = busy(&mut world, &entries);
            world.editor_asks(end, r#"{"sessionId":"S"}"#);
            let (id, _) = world.agent.requests.pop_back().unwrap();
            world.agent_says(&id, "{}");
            for provider in &world.providers {
                assert!(provider.open.is_empty(), "{}: {:?}", provider.who, provider.open);
            }
            match consumer {
                None => assert_eq!(world.stage.hung_up.len(), 5),
                // Nobody waits for an answer that will not come.
                Some(_) => {
                    let mut open =
                        names.iter().filter(|it| !world.agent.outcomes.contains_key(*it));
                    let still = open.next().cloned();
                    let stateless = consumer == Some(Form::M7);
                    assert!(still.is_none() || stateless, "{still:?}");
                    if stateless {
                        // What passes as it is, is answered by its server.
                        let said: Vec<Said> = world.provider("p3").heard.drain(..).collect();
                        for said in said {
                            world.result("p3", &said, "{}");
                        }
                        assert!(names.iter().all(|it| world.agent.outcomes.contains_key(it)));
                    }
                }
            }
            world.stage.empty();
        }
    }
}

/// A session that the agent does not end goes on.
#[test]
fn a_session_whose_end_is_refused_goes_on() {
    let mut world = World::new(CAST, None, providers());
    let entries = world.session("S");
    world.editor_asks("session/close", r#"{"sessionId":"S"}"#);
    let (id, _) = world.agent.requests.pop_back().unwrap();
    world.stage.say("agent", &format!(r#"error {id} {{"code":-32601,"message":"no"}}"#));
    let line = world.line(&entries[1]);
    world.ask(&line, "tools/list", "{}");
    world.heard("p1");
    assert_eq!(world.stage.tickets().len(), 5);
}

#[test]
fn a_session_that_is_refused_releases_everything() {
    for consumer in consumers() {
        let mut world = World::new(CAST, consumer, providers());
        let (id, call) = world.begin_session();
        busy(&mut world, &servers(&call));
        let error = r#"{"code":-32000,"message":"log in first"}"#;
        world.stage.say("agent", &format!("error {id} {error}"));
        world.settle();
        assert_eq!(world.editor().answers["e1"], Outcome::Error(json(error)));
        for index in 0..world.providers.len() {
            let provider = &mut world.providers[index];
            assert!(provider.open.is_empty(), "{}: {:?}", provider.who, provider.open);
            for said in provider.heard.drain(..).filter(|it| it.id.is_some()).collect::<Vec<_>>() {
                provider.result(&mut world.stage, &said, "{}");
            }
        }
        world.settle();
        world.stage.empty();
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
        let mut world = World::new("p1:P4 p2:P5 agent", consumer, few);
        for n in 0..1_000 {
            let session = format!("S{n}");
            let entries = world.session(&session);
            if n % 10 == 0 {
                let line = world.line(&entries[n / 10 % 3]);
                let name = world.ask(&line, "ping", "");
                world.discover();
                for index in 0..world.providers.len() {
                    while let Some(said) = world.providers[index].heard.pop_front() {
                        if said.id.is_some() {
                            world.providers[index].result(&mut world.stage, &said, "{}");
                            world.settle();
                        }
                    }
                }
                assert!(world.agent.outcomes.remove(&name).is_some());
            }
            world.close_session(&session);
            world.editor().answers.clear();
        }
        world.stage.empty();
        let desk = &world.stage.desk;
        assert_eq!(desk.admitted, if consumer.is_none() { 3_000 } else { 0 });
        assert_eq!(desk.admitted, desk.revoked);
    }
}

/// A session that is loaded again has the places of its last set-up only.
#[test]
fn a_session_that_is_set_up_again_replaces_what_it_had() {
    let mut world =
        World::new("p1:P4 agent", None, vec![Provider::new("p1", Form::M3, &[("a", "U")])]);
    let entries = world.session("S");
    let client = world.stage.call(ticket_of(&entries[0]));
    for method in ["session/load", "session/resume"] {
        let before = world.stage.tickets();
        world.editor_asks(method, r#"{"sessionId":"S","mcpServers":[]}"#);
        let (id, _) = world.agent.requests.pop_back().unwrap();
        assert_eq!(world.stage.tickets().len(), 2, "until the agent agrees");
        world.agent_says(&id, "{}");
        assert_eq!(world.stage.tickets().len(), 1);
        assert!(!before.contains(&world.stage.tickets()[0]));
    }
    assert!(world.stage.hung_up.contains(&client));
    // A fork is a session of its own.
    world.editor_asks("session/fork", r#"{"sessionId":"S","mcpServers":[]}"#);
    let (id, _) = world.agent.requests.pop_back().unwrap();
    world.agent_says(&id, r#"{"sessionId":"F"}"#);
    assert_eq!(world.stage.tickets().len(), 2);
    world.close_session("S");
    assert_eq!(world.stage.tickets().len(), 1);
    world.close_session("F");
    world.stage.empty();
}

/// A place that was given up: who comes too late is turned away.
#[test]
fn who_calls_with_an_old_ticket_is_hung_up_on() {
    let mut world = World::new(CAST, None, providers());
    let entries = world.session("S");
    world.close_session("S");
    let client = world.stage.call(ticket_of(&entries[0]));
    assert!(world.stage.hung_up.contains(&client));
    world.stage.hear(client, "tools/list 1");
    world.stage.quiet();
    world.stage.empty();
}

/// Checklist 87.
#[test]
fn a_client_that_hangs_up_takes_back_what_it_asked_and_disconnects() {
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
        let mut stage = Stage::new(&format!("p1:{} agent", dialect_of(form)), STDIO);
        let entry = &Provider::new("p1", form, &[("N", "U")]).declarations()[0];
        stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
        stage.see("agent", "session/new ? …");
        let client = stage.call(stage.tickets()[0]);
        stage.hear(client, "tools/call 1 {}");
        let connect = stage.see("p1", "~…connect ? …");
        stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
        let call = stage.see("p1", "~…message ? …");
        // Its server asks it something, too.
        let method = if form == Form::M3 { "_mcp/message" } else { "mcp/message" };
        stage.say("p1", &format!(r#"~{method} 7 {{"connectionId":"V","method":"roots/list"}}"#));
        stage.told(client, "roots/list ?…");
        stage.hang_up(client);
        stage.see("p1", r#"error 7 {"code":-32603,"message":"the MCP client has disconnected"}"#);
        stage.see("p1", &format!(r#"$/cancel_request {{"requestId":"{call}"}}"#));
        stage.see("p1", &format!("~{cancelled}"));
        let goodbye = stage.see("p1", &format!("~{disconnect}"));
        if !goodbye.is_empty() {
            stage.say("p1", &format!("result {goodbye} {{}}"));
        }
        // Too late.
        stage.say("p1", &format!("result {call} {{}}"));
        stage.say("p1", &format!(r#"~{method} {{"connectionId":"V","method":"notifications/x"}}"#));
        stage.say("p1", &format!(r#"~{method} 8 {{"connectionId":"V","method":"roots/list"}}"#));
        stage.see("p1", r#"error 8 {"code":-32602,"message":"there is no MCP connection 'V'"}"#);
        stage.quiet();
    }
}

/// The provider learns of a connection that nobody wants any more, once it is there.
#[test]
fn a_client_that_leaves_before_it_is_connected_leaves_no_connection() {
    for form in [Form::M2, Form::M3, Form::M4, Form::M5, Form::M6] {
        let cast = format!("p1:{} agent", dialect_of(form));
        let mut world = World::new(&cast, None, vec![Provider::new("p1", form, &[("N", "U")])]);
        let entries = world.session("S");
        let client = world.stage.call(ticket_of(&entries[0]));
        world.stage.hear(client, "tools/list 1");
        world.stage.hang_up(client);
        world.settle();
        assert!(world.provider("p1").open.is_empty() && world.provider("p1").heard.is_empty());
        // The same, but the session has ended in the meantime.
        let client = world.stage.call(ticket_of(&entries[0]));
        world.stage.hear(client, "tools/list 1");
        let late = world.stage.next("p1").unwrap();
        world.editor_asks("session/close", r#"{"sessionId":"S"}"#);
        let (id, _) = world.agent.requests.pop_back().unwrap();
        world.agent_says(&id, "{}");
        let id = text(&late.1).split(' ').nth(1).unwrap().to_owned();
        world.provider("p1").open.insert("late".into(), "U".into());
        let result = r#"{"connection_id":"late","connectionId":"late"}"#;
        world.stage.say("p1", &format!("result {id} {result}"));
        world.settle();
        assert!(world.provider("p1").open.is_empty(), "{form:?}");
        world.stage.empty();
    }
}

/// An agent that speaks MCP over ACP waits for its connect while the session ends.
#[test]
fn a_connect_that_is_overtaken_by_the_end_of_its_session_is_answered() {
    for form in [Form::M3, Form::M5, Form::M6, Form::M7] {
        let cast = format!("p1:{} agent", dialect_of(form));
        let providers = vec![Provider::new("p1", form, &[("N", "U")])];
        let mut world = World::new(&cast, Some(Form::M3), providers);
        let entries = world.session("S");
        let (_, name) = world.agent.reach(&mut world.stage, &entries[0]);
        let (_, asked) = world.stage.next("p1").unwrap();
        world.close_session("S");
        let outcome = world.agent.outcomes.remove(&name.unwrap());
        assert!(matches!(outcome, Some(Outcome::Error(_))), "{form:?}: {outcome:?}");
        let id = text(&asked).split(' ').nth(1).unwrap().to_owned();
        world.provider("p1").open.insert("late".into(), "U".into());
        let result = r#"{"connection_id":"late","connectionId":"late","result":{}}"#;
        world.stage.say("p1", &format!("result {id} {result}"));
        world.settle();
        assert!(world.provider("p1").open.is_empty() || form == Form::M7, "{form:?}");
        world.stage.empty();
    }
}

#[test]
fn a_provider_may_close_a_connection() {
    for consumer in [None, Some(Form::M3), Some(Form::M6), Some(Form::M7)] {
        for (form, close) in [
            (Form::M3, r#"~_mcp/disconnect {"connection_id":"p1-V1"}"#),
            (Form::M6, r#"~mcp/disconnect 9 {"connectionId":"p1-V1"}"#),
        ] {
            let cast = format!("p1:{} (x:P5) agent", dialect_of(form));
            let providers = vec![Provider::new("p1", form, &[("N", "U")])];
            let mut world = World::new(&cast, consumer, providers);
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            let name = world.ask(&line, "tools/list", "{}");
            if consumer == Some(Form::M7) {
                let hello = world.heard("p1");
                world.result("p1", &hello, "{}");
                world.heard("p1");
            }
            world.heard("p1");
            world.provider("p1").open.clear();
            world.stage.say("p1", close);
            if form == Form::M6 {
                world.stage.see("p1", "result 9 {}");
            }
            match (consumer, &line) {
                (None, Line::Client(client_id)) => {
                    assert!(world.stage.hung_up.contains(client_id));
                    world.settle();
                    assert!(world.agent.outcomes.is_empty());
                }
                (Some(Form::M3 | Form::M6), _) => {
                    world.stage.see("agent", "…mcp/disconnect …");
                    world.settle();
                    assert!(world.agent.outcomes.remove(&name).is_some(), "it waits in vain");
                }
                _ => {
                    world.settle();
                    assert!(world.agent.outcomes.remove(&name).is_some(), "it waits in vain");
                }
            }
            // And open another.
            let line = world.line(&entries[0]);
            world.ask(&line, "tools/list", "{}");
            let said = world.heard("p1");
            assert_eq!(said.connection, "p1-V2");
            world.close_session("S");
        }
    }
}

/// The router tells who waits; the exchange forgets.
#[test]
fn a_provider_that_leaves_owes_nothing() {
    for consumer in consumers() {
        let providers = vec![Provider::new("p1", Form::M3, &[("N", "U")])];
        let mut world = World::new("p1:P4+stop agent", consumer, providers);
        let entries = world.session("S");
        let line = world.line(&entries[0]);
        let first = world.ask(&line, "tools/list", "{}");
        let second = world.ask(&line, "tools/list", "{}");
        world.stage.die("p1");
        world.agent.pump(&mut world.stage);
        for name in [first, second] {
            let outcome = world.agent.outcomes.remove(&name);
            assert!(matches!(outcome, Some(Outcome::Error(_))), "{consumer:?}: {outcome:?}");
        }
        let [.., talks, watched] = world.stage.broker().sizes();
        assert_eq!([talks, watched], [0, 0]);
    }
}

#[test]
fn what_is_taken_back_too_late_is_ignored() {
    let mut world = World::new(CAST, None, providers());
    let entries = world.session("S");
    let line = world.line(&entries[1]);
    let name = world.ask(&line, "tools/list", "{}");
    let said = world.heard("p1");
    world.result("p1", &said, "{}");
    assert!(world.agent.outcomes.remove(&name).is_some());
    for name in [name.as_str(), "never", "7"] {
        world.agent.cancel(&mut world.stage, &line, name);
    }
    world.note(&line, "notifications/cancelled", "{}");
    world.note(&line, "notifications/cancelled", r#"{"requestId":{}}"#);
    assert!(world.provider("p1").heard.is_empty() && world.provider("p1").cancelled.is_empty());
}

/// What waits for a connection and is taken back is never said.
#[test]
fn what_is_taken_back_in_time_is_never_said() {
    for consumer in [None, Some(Form::M1), Some(Form::M7)] {
        let providers = vec![Provider::new("p1", Form::M3, &[("N", "U")])];
        let mut world = World::new("p1:P4 agent", consumer, providers);
        let entries = world.session("S");
        let (line, _) = world.agent.reach(&mut world.stage, &entries[0]);
        let first = world.agent.ask(&mut world.stage, &line, &call("tools/call", r#"{"n":1}"#));
        let second = world.agent.ask(&mut world.stage, &line, &call("tools/call", r#"{"n":2}"#));
        world.agent.cancel(&mut world.stage, &line, &first);
        let mut said = world.heard("p1");
        if consumer == Some(Form::M7) {
            world.result("p1", &said, "{}");
            world.heard("p1");
            said = world.heard("p1");
        }
        assert_eq!(said.call.params.clone().unwrap().member("n").unwrap().as_str(), "2");
        world.result("p1", &said, "{}");
        assert!(world.agent.outcomes.remove(&second).is_some());
        let answered = world.agent.outcomes.remove(&first);
        assert_eq!(answered.is_some(), consumer.is_some(), "ACP wants an answer, MCP does not");
        assert!(world.provider("p1").heard.is_empty());
    }
}

/// A server's question that it takes back: its client hears it in MCP's words, and does not answer.
#[test]
fn a_server_may_take_its_question_back() {
    let mut stage = Stage::new("p1:P4 (x:P5) agent", STDIO);
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    stage.hear(client, "notifications/initialized");
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    stage.see("p1", "~_mcp/message …");
    stage.say("p1", r#"~_mcp/message 7 {"connectionId":"V","method":"roots/list","params":{}}"#);
    let asked = stage.told(client, "roots/list ? {}");
    stage.say("p1", r#"$/cancel_request {"requestId":7}"#);
    stage.told(client, &format!(r#"notifications/cancelled {{"requestId":"{asked}"}}"#));
    stage.see("p1", r#"error 7 {"code":-32800,…}"#);
    stage.hear(client, &format!("result {asked} {{}}"));
    stage.say("p1", r#"$/cancel_request {"requestId":7}"#);
    stage.quiet();
}

/// A client may say anything.
#[test]
fn nonsense_of_a_client_is_answered_or_ignored() {
    let mut world = World::new(CAST, None, providers());
    let entries = world.session("S");
    let client = world.stage.call(ticket_of(&entries[0]));
    for (line, told) in [
        ("nonsense", Some("error null {\"code\":-32700,…")),
        ("[]", Some("error null {\"code\":-32600,…")),
        (r#"{"jsonrpc":"2.0","id":5}"#, Some("error 5 {\"code\":-32600,…")),
        (r#"{"jsonrpc":"2.0","id":"c:1","result":{}}"#, None),
        (r#"{"jsonrpc":"2.0","result":{}}"#, None),
    ] {
        world.stage.hear_raw(client, line);
        match told {
            Some(told) => drop(world.stage.told(client, told)),
            None => world.stage.quiet(),
        }
    }
    world.stage.hear_raw(mcp::ClientId(99), r#"{"jsonrpc":"2.0","id":5,"method":"x"}"#);
    world.stage.hang_up(mcp::ClientId(99));
    world.stage.quiet();
}
