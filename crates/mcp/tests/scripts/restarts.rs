//! A component dies while all others live on: what its successor hears, and what the others notice.

use acp_wire::Outcome;
use mcp::form::{Answer, Form};
use mcp::{BridgePolicy, Transport};

use crate::cast::*;
use crate::stage::*;
use crate::world::*;

mod ends;

const HELLO: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c"}}"#;

pub fn all_consumers() -> impl Iterator<Item = Option<Form>> {
    FORMS.into_iter().map(Some).chain([None])
}

pub fn some_consumers() -> [Option<Form>; 5] {
    [None, Some(Form::M1), Some(Form::M3), Some(Form::M6), Some(Form::M7)]
}

/// A chain with a provider of this form in the middle.
pub fn world_of(consumer: Option<Form>, form: Form) -> World {
    let cast = format!("(w:P5) p1:{} (x:P4) agent", dialect_of(form));
    let mut provider = Provider::new("p1", form, &[("N", "U")]);
    provider.passes_unknown = true;
    World::new(&cast, consumer, vec![provider])
}

/// SCP knows servers by their names alone.
fn id_in(form: Form, id: &str) -> &str {
    if form == Form::M0 { "N" } else { id }
}

/// What the server hears next, but for what we ourselves want to know and say for stateless consumers.
#[track_caller]
fn hears(world: &mut World, consumer: Option<Form>, who: &str) -> Said {
    loop {
        let said = world.heard(who);
        match (consumer, &said.id) {
            (Some(Form::M7), Some(_)) if said.call.is("initialize") => {
                world.result(who, &said, "{}");
            }
            (Some(Form::M7), None) if said.call.is("notifications/initialized") => {}
            _ => return said,
        }
    }
}

/// The consumer says hello, as connections begin.
pub fn greet(world: &mut World, line: &Line, form: Form) {
    if world.agent.form == Some(Form::M7) {
        return;
    }
    let name = world.ask(line, "initialize", HELLO);
    world.discover();
    if form != Form::M7 {
        let said = world.heard("p1");
        assert!(said.call.is("initialize"));
        world.result("p1", &said, r#"{"capabilities":{}}"#);
    }
    assert!(world.agent.outcomes.remove(&name).is_some(), "{form:?}");
    world.note(line, "notifications/initialized", "{}");
    if form != Form::M7 {
        assert!(world.heard("p1").call.is("notifications/initialized"));
    }
}

/// A newcomer hears what the one before it was told at the beginning.
#[track_caller]
pub fn is_greeted(world: &mut World, form: Form) {
    world.discover();
    if form == Form::M7 || world.agent.form == Some(Form::M7) {
        return;
    }
    let said = world.heard("p1");
    assert!(said.call.is("initialize"), "{said:?}");
    assert_eq!(said.call.params.clone().unwrap(), json(HELLO));
    assert!(world.provider("p1").heard.is_empty(), "it has not answered yet");
    world.result("p1", &said, "{}");
    assert!(world.heard("p1").call.is("notifications/initialized"));
    assert!(world.agent.outcomes.is_empty(), "nobody else notices");
}

/// A call is heard by the server with this id, and its answer by the consumer.
#[track_caller]
pub fn works(world: &mut World, line: &Line, who: &str, id: &str) -> Said {
    let consumer = world.agent.form;
    let name = world.ask(line, "tools/call", r#"{"name":"t"}"#);
    let said = hears(world, consumer, who);
    assert!(said.call.is("tools/call"), "{said:?}");
    assert_eq!(said.server, id_in(world.provider(who).form, id));
    world.result(who, &said, r#"{"i":1}"#);
    match world.agent.outcome(&name) {
        Some(Answer::FromServer(Outcome::Result(it))) => assert!(it.member("i").is_some()),
        other => world.stage.fail(&format!("{consumer:?} was answered {other:?}")),
    }
    said
}

/// What is said to those who ask a server that is gone.
fn is_nowhere(outcome: Option<Outcome>) -> bool {
    let Some(Outcome::Error(error)) = &outcome else { return false };
    error.as_str().contains("there is no MCP")
}

pub fn end(world: &mut World, line: &Line) {
    world.close_session("S");
    if let Line::Native { .. } = line {
        let goodbye = world.agent.hang_up(&mut world.stage, line);
        world.settle();
        assert!(goodbye.is_none_or(|name| world.agent.outcomes.remove(&name).is_some()));
    }
    assert!(world.provider("p1").open.is_empty(), "{:?}", world.provider("p1").open);
    assert!(world.editor().strangers.is_empty());
    world.stage.empty();
}

/// Every consumer, every provider: the old connection leads to the new server.
#[test]
fn a_provider_that_is_started_again_is_reached_over_the_old_connection() {
    for consumer in all_consumers() {
        for form in FORMS {
            for id in ["U", "U-new"] {
                let mut world = world_of(consumer, form);
                let entries = world.session("S");
                let line = world.line(&entries[0]);
                greet(&mut world, &line, form);
                works(&mut world, &line, "p1", "U");
                for _ in 0..2 {
                    world.restart("p1", &[("N", id)]);
                    is_greeted(&mut world, form);
                    works(&mut world, &line, "p1", id);
                    assert!(world.agent.heard.is_empty() && world.stage.hung_up.is_empty());
                    assert!(world.agent.dismissed.is_empty());
                }
                end(&mut world, &line);
            }
        }
    }
}

/// What a newcomer says and asks in its connection comes to those who knew the one before.
#[test]
fn what_the_new_server_says_comes_over_the_old_connection() {
    for consumer in all_consumers().filter(|it| *it != Some(Form::M7)) {
        for form in FORMS.into_iter().filter(|it| *it != Form::M7) {
            let mut world = world_of(consumer, form);
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            greet(&mut world, &line, form);
            world.provider("p1").prefix = "other-".into();
            world.restart("p1", &[("N", "U-new")]);
            is_greeted(&mut world, form);
            let said = works(&mut world, &line, "p1", "U-new");
            let stage = &mut world.stage;
            let provider = world.providers.iter_mut().find(|it| it.who == "p1").unwrap();
            provider.note(stage, &said, &call("notifications/x", "{}"));
            let name = provider.ask(stage, &said, &call("roots/list", "{}"));
            world.settle();
            let (note, asked) = (world.agent.heard.pop_front(), world.agent.heard.pop_front());
            let (note, asked) = (note.unwrap(), asked.unwrap());
            assert!(note.call.is("notifications/x") && asked.call.is("roots/list"));
            let expected = match &line {
                Line::Native { server, connection } if connection.is_empty() => server.clone(),
                Line::Native { connection, .. } => connection.clone(),
                Line::Client(client_id) => format!("client {}", client_id.0),
            };
            assert_eq!([note.whom, asked.whom.clone()], [expected.clone(), expected]);
            world.agent.answer(&mut world.stage, &asked, r#"{"roots":[]}"#);
            world.settle();
            let answer = world.provider("p1").answered(&name);
            assert_eq!(answer, Some(Answer::FromServer(Outcome::Result(json(r#"{"roots":[]}"#)))));
            end(&mut world, &line);
        }
    }
}

/// What was asked of the dead is answered once, by the router; what is said while it is away waits.
#[test]
fn what_is_said_while_a_provider_is_away_is_heard_by_its_successor() {
    for consumer in all_consumers() {
        for form in FORMS {
            let mut world = world_of(consumer, form);
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            greet(&mut world, &line, form);
            let lost = world.ask(&line, "tools/call", r#"{"name":"lost"}"#);
            world.discover();
            world.stage.die("p1");
            world.settle();
            let outcome = world.agent.outcomes.remove(&lost);
            assert!(matches!(outcome, Some(Outcome::Error(_))), "{outcome:?}");
            let early = world.ask(&line, "tools/call", r#"{"name":"early"}"#);
            world.revive("p1", &[("N", "U-new")]);
            is_greeted(&mut world, form);
            let said = hears(&mut world, consumer, "p1");
            let name = said.call.params.clone().unwrap().member("name").unwrap();
            assert_eq!(name.as_str(), r#""early""#);
            world.result("p1", &said, "{}");
            assert!(matches!(world.agent.outcomes.remove(&early), Some(Outcome::Result(_))));
            assert!(world.provider("p1").heard.is_empty());
            end(&mut world, &line);
        }
    }
}

/// It may die at any moment of coming back, and again.
#[test]
fn a_provider_that_dies_again_and_again_is_awaited() {
    for consumer in some_consumers() {
        for form in [Form::M1, Form::M3, Form::M6, Form::M7] {
            let mut world = world_of(consumer, form);
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            greet(&mut world, &line, form);
            let new = [("N", "U-new")];
            // Before it was greeted, before it was told all, and after that.
            world.stage.die("p1");
            world.stage.die_again("p1");
            world.stage.boot("p1", STDIO);
            world.stage.die_again("p1");
            world.provider("p1").reborn(&new);
            world.told_all("p1");
            world.stage.die_again("p1");
            // After it was asked to open the connection: it never answers.
            world.provider("p1").reborn(&new);
            world.told_all("p1");
            world.stage.is_back("p1");
            let waits = world.agent.ask(&mut world.stage, &line, &call("tools/list", ""));
            world.stage.die("p1");
            // After that: it never answers the greeting.
            world.revive("p1", &new);
            world.stage.die("p1");
            world.settle();
            let outcome = world.agent.outcomes.remove(&waits);
            assert!(
                matches!(outcome, Some(Outcome::Error(_))),
                "{consumer:?} {form:?}: {outcome:?}"
            );
            world.revive("p1", &new);
            is_greeted(&mut world, form);
            works(&mut world, &line, "p1", "U-new");
            // What was to be answered in an earlier life is of no interest.
            for number in 1..40 {
                let late = r#"{"connection_id":"Z","connectionId":"Z","result":{}}"#;
                world.stage.say("p1", &format!("result m:{number} {late}"));
            }
            works(&mut world, &line, "p1", "U-new");
            end(&mut world, &line);
        }
    }
}

/// A server that is not declared again is gone, and whoever uses it hears so.
#[test]
fn a_server_that_is_offered_no_more_is_taken_from_its_consumers() {
    for consumer in some_consumers() {
        for form in [Form::M1, Form::M3, Form::M6, Form::M7] {
            for bypassed in [false, true] {
                let cast = format!("p1:{}+once (x:P4) p2:P4 agent", dialect_of(form));
                let providers = vec![
                    Provider::new("p1", form, &[("a", "U1"), ("b", "U2")]),
                    Provider::new("p2", Form::M6, &[("c", "U3")]),
                ];
                let mut world = World::new(&cast, consumer, providers);
                let entries = world.session("S");
                let lines: Vec<Line> = entries.iter().map(|entry| world.line(entry)).collect();
                for line in &lines[..2] {
                    greet(&mut world, line, form);
                }
                works(&mut world, &lines[2], "p2", "U3");
                world.stage.die("p1");
                let early = world.ask(&lines[0], "tools/list", "{}");
                let lost = match bypassed {
                    true => {
                        world.stage.die_again("p1");
                        assert!(world.stage.is_left_out("p1"));
                        world.settle();
                        2
                    }
                    false => {
                        world.revive("p1", &[("b", "new")]);
                        1
                    }
                };
                let early = world.agent.outcomes.remove(&early);
                assert!(consumer.is_none() || is_nowhere(early));
                if !bypassed {
                    let report = "proxy 'p1' was restarted and no longer offers the MCP server 'a'";
                    assert!(world.stage.reports.iter().any(|it| it == report));
                    is_greeted(&mut world, form);
                    works(&mut world, &lines[1], "p1", "new");
                }
                match consumer {
                    None => {
                        assert_eq!(world.stage.hung_up.len(), lost);
                        assert_eq!(world.stage.tickets().len(), 3 - lost);
                    }
                    Some(it) if it.has_connections() => {
                        assert_eq!(world.agent.dismissed.len(), lost)
                    }
                    Some(_) => {}
                }
                for line in lines[..lost].iter().filter(|_| consumer.is_some()) {
                    let name = world.ask(line, "tools/list", "{}");
                    assert!(is_nowhere(world.agent.outcomes.remove(&name)));
                }
                works(&mut world, &lines[2], "p2", "U3");
                // The next session does without.
                let entries = world.session("T");
                assert_eq!(entries.len(), 3 - lost);
                for session in ["S", "T"] {
                    world.close_session(session);
                }
                world.stage.empty();
                assert!(world.editor().strangers.is_empty());
            }
        }
    }
}

/// Each session may have servers of its own, or all the same: after a restart, too.
#[test]
fn servers_of_several_sessions_are_told_apart() {
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
            let mut world = World::new("p1:P4 agent", consumer, providers);
            let mut lines = Vec::new();
            for (session, ids) in ["S", "T"].into_iter().zip(old) {
                let servers = named(ids).map(|(name, id)| (name.to_owned(), id.to_owned()));
                world.provider("p1").servers = servers.to_vec();
                let entries = world.session(session);
                lines.extend(entries.iter().map(|entry| world.line(entry)));
            }
            world.stage.die("p1");
            let everything = new.map(named).concat();
            world.provider("p1").reborn(&everything);
            world.stage.boot("p1", STDIO);
            for ids in new {
                let servers = named(ids).map(|(name, id)| (name.to_owned(), id.to_owned()));
                world.provider("p1").servers = servers.to_vec();
                // It is told of a session, passes that on, and answers.
                let index = world.providers.iter().position(|it| it.who == "p1").unwrap();
                for _ in 0..2 {
                    assert!(world.providers[index].step(&mut world.stage));
                }
            }
            world.provider("p1").reborn(&everything);
            world.stage.is_back("p1");
            world.settle();
            let [(a, b), (c, d)] = new;
            // By one id for both, the same server is meant, whichever it is for a session.
            for (line, id) in lines.iter().zip([a, b, c, d]) {
                works(&mut world, line, "p1", id);
            }
            for session in ["S", "T"] {
                world.close_session(session);
            }
            for line in &lines {
                world.agent.hang_up(&mut world.stage, line);
            }
            world.settle();
            world.stage.empty();
        }
    }
}

/// A newer program may have taken the place of an older one.
#[test]
fn a_provider_may_come_back_in_another_form() {
    for consumer in all_consumers() {
        for (old, new) in [
            (Form::M6, Form::M7),
            (Form::M7, Form::M6),
            (Form::M3, Form::M7),
            (Form::M7, Form::M3),
            (Form::M5, Form::M6),
        ] {
            let mut world = World::new(
                "(w:P5) p1:P5 (x:P4) agent",
                consumer,
                vec![Provider::new("p1", old, &[("N", "U")])],
            );
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            greet(&mut world, &line, old);
            works(&mut world, &line, "p1", "U");
            world.provider("p1").form = new;
            world.restart("p1", &[("N", "U-new")]);
            is_greeted(&mut world, new);
            works(&mut world, &line, "p1", "U-new");
            end(&mut world, &line);
        }
    }
}

/// What waits for a connection that is opened again can be taken back, or its consumer may leave.
#[test]
fn a_consumer_may_change_its_mind_while_its_provider_comes_back() {
    for consumer in some_consumers() {
        for form in [Form::M3, Form::M6] {
            for leaves in [false, true] {
                let mut world = world_of(consumer, form);
                let entries = world.session("S");
                let line = world.line(&entries[0]);
                greet(&mut world, &line, form);
                world.stage.die("p1");
                world.provider("p1").reborn(&[("N", "U-new")]);
                world.told_all("p1");
                let early = world.agent.ask(&mut world.stage, &line, &call("tools/list", ""));
                world.stage.is_back("p1");
                let late = world.agent.ask(&mut world.stage, &line, &call("tools/list", ""));
                for name in [&early, &late] {
                    world.agent.cancel(&mut world.stage, &line, name);
                }
                let goodbye =
                    leaves.then(|| world.agent.hang_up(&mut world.stage, &line)).flatten();
                world.settle();
                if consumer == Some(Form::M7) {
                    let hello = world.provider("p1").heard.pop_back();
                    hello.iter().for_each(|hello| world.result("p1", hello, "{}"));
                    let said: Vec<Said> = world.provider("p1").owed.values().cloned().collect();
                    said.iter().for_each(|said| world.result("p1", said, "{}"));
                    world.provider("p1").heard.clear();
                }
                for name in [early, late].into_iter().chain(goodbye) {
                    let answered = world.agent.outcomes.remove(&name).is_some();
                    assert_eq!(answered, consumer.is_some(), "{consumer:?}");
                }
                if consumer != Some(Form::M7) && !leaves {
                    is_greeted(&mut world, form);
                }
                if !leaves || consumer.is_some_and(|it| !it.has_connections()) {
                    let heard =
                        world.provider("p1").heard.iter().any(|it| it.call.is("tools/list"));
                    assert!(!heard);
                }
                world.close_session("S");
                assert!(world.provider("p1").open.is_empty(), "{consumer:?} {form:?}");
                world.stage.empty();
            }
        }
    }
}
