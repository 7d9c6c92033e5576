//! Servers, connections and sessions that could be taken for each other.

use acp_wire::{Json, Outcome};
use mcp::form::{Answer, Form};

use crate::cast::*;
use crate::stage::*;
use crate::world::*;

fn consumers() -> [Option<Form>; 6] {
    [None, Some(Form::M1), Some(Form::M3), Some(Form::M5), Some(Form::M6), Some(Form::M7)]
}

/// Asks a server who it is. It must be this one.
#[track_caller]
fn is(world: &mut World, line: &Line, who: &str, server: &str) {
    let name = world.ask(line, "tools/call", r#"{"name":"who"}"#);
    let said = loop {
        let said = world.heard(who);
        if said.call.is("tools/call") {
            break said;
        }
        if said.call.is("initialize") {
            world.result(who, &said, "{}");
        }
    };
    assert_eq!(said.server, server, "as {who} calls it");
    world.result(who, &said, &format!(r#"{{"i":"{who}"}}"#));
    match world.agent.outcome(&name) {
        Some(Answer::FromServer(Outcome::Result(it))) => {
            assert_eq!(it.member("i").unwrap().text().unwrap(), who);
        }
        other => world.stage.fail(&format!("no answer of {who}: {other:?}")),
    }
}

fn name_of(entry: &Json) -> String {
    entry.member("name").unwrap().text().unwrap().into_owned()
}

/// Current ACP does not allow two servers of one name.
#[test]
fn a_name_that_is_taken_gets_a_number() {
    for consumer in consumers() {
        let providers = vec![
            Provider::new("p1", Form::M3, &[("tools", "U1"), ("tools", "U2")]),
            Provider::new("p2", Form::M7, &[("tools", "U3")]),
        ];
        let mut world = World::new("p1:P4 p2:P5 agent", consumer, providers);
        let entries = world.session("S");
        let names: Vec<String> = entries.iter().map(name_of).collect();
        assert_eq!(names, ["tools", "tools-2", "tools-3"]);
        for (entry, who, server) in [(0, "p1", "U1"), (1, "p1", "U2"), (2, "p2", "U3")] {
            let line = world.line(&entries[entry]);
            is(&mut world, &line, who, server);
        }
    }
}

#[test]
fn names_of_other_servers_are_taken_too() {
    let mut stage = Stage::new("p1:P5 agent", NATIVE);
    let (given, expected) = (
        r#"{"type":"acp","name":"a","serverId":"U"},{"name":"a","command":"x"},{"name":"a-2","command":"y"}"#,
        r#"{"type":"acp","name":"a-3","serverId":"U"},{"name":"a","command":"x"},{"name":"a-2","command":"y"}"#,
    );
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{given}]}}"#));
    stage.see("agent", &format!(r#"session/new ? {{"mcpServers":[{expected}]}}"#));
}

/// Ids are their providers' own: two may have had the same idea.
#[test]
fn two_providers_may_use_one_server_id() {
    for consumer in consumers() {
        for (first, second) in
            [(Form::M3, Form::M3), (Form::M7, Form::M7), (Form::M6, Form::M7), (Form::M1, Form::M4)]
        {
            let cast = format!("p1:{} (x:P4) p2:{} agent", dialect_of(first), dialect_of(second));
            let providers = vec![
                Provider::new("p1", first, &[("one", "U")]),
                Provider::new("p2", second, &[("two", "U")]),
            ];
            let mut world = World::new(&cast, consumer, providers);
            for session in ["S", "T"] {
                let entries = world.session(session);
                assert_eq!(entries.iter().map(name_of).collect::<Vec<_>>(), ["one", "two"]);
                for (entry, who) in [(0, "p1"), (1, "p2"), (0, "p1")] {
                    let line = world.line(&entries[entry]);
                    is(&mut world, &line, who, "U");
                }
            }
            world.close_session("S");
            world.close_session("T");
        }
    }
}

/// Also if only one of them is in each session, and if the newer one comes first in the list.
#[test]
fn one_server_id_in_two_sessions_may_be_two_servers() {
    let entry = |name| format!(r#"{{"type":"acp","name":"{name}","serverId":"U"}}"#);
    let (one, two) = (entry("one"), entry("two"));
    let new = entry("two").replace(r#""U""#, r#""U#2""#);
    for (first, second) in [("p1", "p2"), ("p2", "p1")] {
        let mut stage = Stage::new("p1:P5 p2:P5 agent", NATIVE);
        stage.say(first, &format!(r#"~session/new 1 {{"mcpServers":[{one}]}}"#));
        if first == "p1" {
            let (side, message) = stage.next("p2").unwrap();
            stage.forward("p2", side, message);
        }
        let id = stage.see("agent", &format!(r#"session/new ? {{"mcpServers":[{one}]}}"#));
        stage.say("agent", &format!(r#"result {id} {{"sessionId":"S"}}"#));
        match first {
            "p1" => {
                let (side, message) = stage.next("p2").unwrap();
                stage.forward("p2", side, message);
            }
            _ => drop(stage.see("p2", "result 1 …")),
        }
        stage.say(second, &format!(r#"~session/new 2 {{"mcpServers":[{two}]}}"#));
        if second == "p1" {
            let (side, message) = stage.next("p2").unwrap();
            stage.forward("p2", side, message);
        }
        stage.see("agent", &format!(r#"session/new ? {{"mcpServers":[{new}]}}"#));
    }
    let mut stage = Stage::new("p1:P5 p2:P5 agent", NATIVE);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{one}]}}"#));
    stage.see("p2", &format!(r#"session/new ? {{"mcpServers":[{one}]}}"#));
    stage.say("p2", &format!(r#"~session/new 1 {{"mcpServers":[{two},{one}]}}"#));
    stage.see("agent", &format!(r#"session/new ? {{"mcpServers":[{new},{one}]}}"#));
    // Or if it was given another name on the way.
    let other = entry("another");
    stage.say("p2", &format!(r#"~session/new 2 {{"mcpServers":[{other}]}}"#));
    stage.see("agent", &format!(r#"session/new ? {{"mcpServers":[{other}]}}"#));
}

/// The notifications of a server that others know by another id say that id.
#[test]
fn what_a_stateless_twin_says_bears_the_id_that_the_agent_knows() {
    let entry = |name, id| format!(r#"{{"type":"acp","name":"{name}","serverId":"{id}"}}"#);
    let mut stage = Stage::new("p1:P5 p2:P5 agent", NATIVE);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{}]}}"#, entry("one", "U")));
    stage.see("p2", "session/new ? …");
    let both = format!(r#"{},{}"#, entry("one", "U"), entry("two", "U"));
    stage.say("p2", &format!(r#"~session/new 1 {{"mcpServers":[{both}]}}"#));
    stage.see("agent", &format!(r#"session/new ? …{}…"#, entry("two", "U#2")));
    let said = |id| format!(r#"{{"serverId":"{id}","requestId":"r","method":"tools/list"}}"#);
    stage.say("agent", &format!("mcp/message 1 {}", said("U#2")));
    let id = stage.see("p2", &format!("~mcp/message ? {}", said("U")));
    let progress = said("U").replace("tools/list", "notifications/progress");
    stage.say("p2", &format!("~mcp/message {progress}"));
    stage.see("agent", &format!("mcp/message {}", progress.replace("\"U\"", "\"U#2\"")));
    stage.say("p2", &format!(r#"result {id} {{"result":{{}}}}"#));
    stage.see("agent", r#"result 1 {"result":{}}"#);
    // Nor does it take for its own what is for the other.
    stage.say("agent", &format!("mcp/message 2 {}", said("U")));
    stage.see("p2", &format!("~mcp/message ? {}", said("U#theirs")));
    stage.say("p2", &format!("mcp/message 7 {}", said("U#theirs")));
    stage.see("p1", &format!("~mcp/message ? {}", said("U")));
    stage.say("p1", &format!("~mcp/message {progress}"));
    stage.see("p2", &format!("mcp/message {}", progress.replace("\"U\"", "\"U#theirs\"")));
    stage.say("p2", &format!("~mcp/message {}", progress.replace("\"U\"", "\"U#theirs\"")));
    stage.see("agent", &format!("mcp/message {progress}"));
}

#[test]
fn two_providers_may_use_one_connection_id() {
    for consumer in [None, Some(Form::M2), Some(Form::M3), Some(Form::M6), Some(Form::M7)] {
        for (first, second) in [(Form::M3, Form::M3), (Form::M2, Form::M6), (Form::M6, Form::M6)] {
            let cast = format!("p1:{} p2:{} agent", dialect_of(first), dialect_of(second));
            let mut providers = vec![
                Provider::new("p1", first, &[("one", "U1")]),
                Provider::new("p2", second, &[("two", "U2")]),
            ];
            for provider in &mut providers {
                provider.prefix = "V".into();
            }
            let mut world = World::new(&cast, consumer, providers);
            let entries = world.session("S");
            let lines = [world.line(&entries[0]), world.line(&entries[1])];
            for (line, who, server) in
                [(0, "p1", "U1"), (1, "p2", "U2"), (0, "p1", "U1"), (1, "p2", "U2")]
            {
                is(&mut world, &lines[line], who, server);
            }
            assert_eq!(world.provider("p1").open.keys().collect::<Vec<_>>(), ["V1"]);
            assert_eq!(world.provider("p2").open.keys().collect::<Vec<_>>(), ["V1"]);
            // What each of them says reaches its own client.
            for index in [0, 1] {
                let said = Said {
                    id: None,
                    server: String::new(),
                    connection: "V1".into(),
                    request: String::new(),
                    inner: None,
                    call: call("", ""),
                };
                let note = call("notifications/n", &format!(r#"{{"i":{index}}}"#));
                world.providers[index].note(&mut world.stage, &said, &note);
            }
            world.settle();
            if consumer != Some(Form::M7) {
                let whom: Vec<_> = world.agent.heard.drain(..).map(|it| it.whom).collect();
                assert!(whom.len() == 2 && whom[0] != whom[1], "{whom:?}");
            }
            for line in &lines {
                world.agent.hang_up(&mut world.stage, line);
                world.settle();
            }
            world.close_session("S");
            assert!(world.provider("p1").open.is_empty() && world.provider("p2").open.is_empty());
            world.stage.empty();
        }
    }
}

/// Checklist 84.
#[test]
fn two_servers_of_one_proxy_and_one_proxy_in_two_sessions_are_kept_apart() {
    for consumer in consumers() {
        for form in [Form::M0, Form::M1, Form::M2, Form::M3, Form::M4, Form::M5, Form::M6, Form::M7]
        {
            let providers = vec![Provider::new("p1", form, &[("a", "U1"), ("b", "U2")])];
            let mut world =
                World::new(&format!("p1:{} agent", dialect_of(form)), consumer, providers);
            let (first, second) = (world.session("S"), world.session("T"));
            let known_as = |index: usize| match form {
                Form::M0 => ["a", "b"][index],
                _ => ["U1", "U2"][index],
            };
            for entries in [&first, &second] {
                for index in [0, 1] {
                    let line = world.line(&entries[index]);
                    is(&mut world, &line, "p1", known_as(index));
                }
            }
            // The end of one session is not the end of the other.
            world.close_session("S");
            let line = world.line(&second[1]);
            is(&mut world, &line, "p1", known_as(1));
            world.close_session("T");
            world.stage.empty();
        }
    }
}

/// Checklist 85.
#[test]
fn two_connections_to_one_server_are_two() {
    for consumer in [None, Some(Form::M2), Some(Form::M3t), Some(Form::M5), Some(Form::M6)] {
        for form in [Form::M2, Form::M3, Form::M3t, Form::M4, Form::M5, Form::M6] {
            let providers = vec![Provider::new("p1", form, &[("a", "U")])];
            let mut world =
                World::new(&format!("p1:{} agent", dialect_of(form)), consumer, providers);
            let entries = world.session("S");
            let lines = [world.line(&entries[0]), world.line(&entries[0])];
            let mut connections = Vec::new();
            for line in &lines {
                world.ask(line, "initialize", r#"{"protocolVersion":"2025-06-18"}"#);
                let said = world.heard("p1");
                assert!(said.call.is("initialize"), "each has its own beginning");
                connections.push(said.connection.clone());
                world.result("p1", &said, "{}");
            }
            assert_ne!(connections[0], connections[1]);
            assert_eq!(world.provider("p1").open.len(), 2);
            world.agent.hang_up(&mut world.stage, &lines[0]);
            world.settle();
            assert_eq!(world.provider("p1").open.keys().collect::<Vec<_>>(), [&connections[1]]);
            is(&mut world, &lines[1], "p1", "U");
            world.close_session("S");
            assert!(world.provider("p1").open.is_empty());
            world.stage.empty();
        }
    }
}

/// Two stateless requests may be of one name to one server, if it is answered in between; and those
/// of clients are given other names than anybody else's.
#[test]
fn requests_of_several_clients_have_several_names() {
    let providers = vec![Provider::new("p1", Form::M7, &[("a", "U")])];
    let mut world = World::new("p1:P5 agent", None, providers);
    let entries = world.session("S");
    let lines = [world.line(&entries[0]), world.line(&entries[0])];
    let mut requests = Vec::new();
    for line in lines.iter().cycle().take(6) {
        world.ask(line, "tools/list", "{}");
        requests.push(world.heard("p1").request);
    }
    requests.sort();
    requests.dedup();
    assert_eq!(requests.len(), 6);
}
