//! One conversation between every form of consumer and every form of provider.

use acp_wire::Outcome;
use mcp::form::{Answer, Form};

use crate::cast::*;
use crate::stage::*;
use crate::world::*;

const HELLO: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}"#;
const WELCOME: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
const PROGRESS: &str = r#"{"progressToken":"t","progress":1}"#;

/// Native agents of every form, and the bridge.
fn consumers() -> impl Iterator<Item = Option<Form>> {
    FORMS.into_iter().map(Some).chain([None])
}

/// Checklist 70, 71, 76 to 83, 85, 91, 97.
#[test]
fn every_consumer_talks_with_proxies_of_every_form() {
    for consumer in consumers() {
        for provider in FORMS {
            let cast = format!("p1:{} agent", dialect_of(provider));
            converse(&cast, consumer, provider, "p1");
        }
    }
}

/// Checklist 88. That an editor is of M2 or M3t cannot be seen: those were proxies only.
#[test]
fn every_consumer_talks_with_editors_of_every_form() {
    for consumer in consumers() {
        for provider in FORMS.into_iter().filter(|it| ![Form::M2, Form::M3t].contains(it)) {
            converse("agent", consumer, provider, "editor");
        }
    }
}

/// Checklist 90: it does not matter who is in between.
#[test]
fn every_consumer_talks_with_every_provider_beyond_proxies_of_other_generations() {
    for between in ["(x:P3) (y:P5)", "(x:P5) (y:P4)"] {
        for consumer in consumers() {
            for provider in FORMS {
                let cast = format!("p1:{} {between} agent", dialect_of(provider));
                converse(&cast, consumer, provider, "p1");
            }
        }
    }
}

fn converse(cast: &str, consumer: Option<Form>, form: Form, who: &str) {
    eprintln!("{consumer:?} talks with {form:?} in {cast}");
    let mut world = World::new(cast, consumer, vec![Provider::new(who, form, &[("N", "U")])]);
    let entries = world.session("S");
    let line = world.line(&entries[0]);
    let (client_stands, server_stands) = (consumer == Some(Form::M7), form == Form::M7);

    if !client_stands {
        let hello = world.ask(&line, "initialize", HELLO);
        let expected = if server_stands {
            world.discover();
            WELCOME
        } else {
            let said = world.heard(who);
            assert_eq!(said.call, call("initialize", HELLO));
            world.result(who, &said, WELCOME);
            WELCOME
        };
        assert_eq!(world.agent.outcome(&hello), Some(said(expected)));
        world.note(&line, "notifications/initialized", "");
        if !server_stands {
            assert!(world.heard(who).call.is("notifications/initialized"));
        }
    }

    let list = world.ask(&line, "tools/list", r#"{"cursor":"x"}"#);
    if client_stands && !server_stands {
        let hello = world.heard(who);
        assert!(hello.call.is("initialize"), "{hello:?}");
        world.result(who, &hello, WELCOME);
        assert!(world.heard(who).call.is("notifications/initialized"));
    }
    let asked = world.heard(who);
    let expected = match (client_stands, server_stands) {
        (_, false) => call("tools/list", r#"{"cursor":"x"}"#),
        (true, true) => standing_alone(&call("tools/list", r#"{"cursor":"x"}"#)),
        // Checklist 82: what the client had said once is in each request.
        (false, true) => call(
            "tools/list",
            r#"{"cursor":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}"#,
        ),
    };
    assert_eq!(asked.call, expected);
    let (plain, typed) = (r#"{"tools":[]}"#, r#"{"tools":[],"resultType":"complete"}"#);
    world.result(who, &asked, if server_stands { typed } else { plain });
    let expected = if client_stands { typed } else { plain };
    assert_eq!(world.agent.outcome(&list), Some(said(expected)));

    let params = r#"{"name":"x","arguments":{"n":1.10},"_meta":{"progressToken":"t"}}"#;
    let progressing = world.ask(&line, "tools/call", params);
    let asked = world.heard(who);
    let arguments = asked.call.params.as_ref().unwrap().member("arguments").unwrap();
    assert_eq!(arguments.as_str(), r#"{"n":1.10}"#);
    note(&mut world, who, &asked, "notifications/progress", PROGRESS);
    let heard = world.agent.heard.pop_front().expect("progress");
    assert_eq!((heard.id, heard.call), (None, call("notifications/progress", PROGRESS)));
    world.result(who, &asked, r#"{"content":[],"resultType":"complete"}"#);
    assert!(matches!(
        world.agent.outcome(&progressing),
        Some(Answer::FromServer(Outcome::Result(_)))
    ));

    // Checklist 83: it stays an error of MCP, whatever its code means elsewhere.
    let failing = world.ask(&line, "tools/call", r#"{"name":"y"}"#);
    let failed = world.heard(who);
    let error = Outcome::Error(json(r#"{"code":-32000,"message":"no","data":{"k":1}}"#));
    world.answer(who, &failed, error.clone());
    assert_eq!(world.agent.outcome(&failing), Some(Answer::FromServer(error)));

    if !client_stands {
        world.note(&line, "notifications/roots/list_changed", "");
        if !server_stands {
            assert!(world.heard(who).call.is("notifications/roots/list_changed"));
        }
    }

    if !server_stands {
        note(&mut world, who, &failed, "notifications/tools/list_changed", "");
        let heard = world.agent.heard.pop_front();
        assert_eq!(heard.is_none(), client_stands, "without a request it belongs to nothing");
        reverse(&mut world, who, &failed, client_stands);
    }

    cancel(&mut world, &line, who);

    let goodbye = world.agent.hang_up(&mut world.stage, &line);
    world.settle();
    if let Some(goodbye) = goodbye {
        let outcome = world.agent.outcomes.remove(&goodbye);
        assert_eq!(outcome, Some(Outcome::Result(json("{}"))), "checklist 80");
    }
    if consumer.is_none_or(Form::has_connections) {
        assert!(world.provider(who).open.is_empty(), "checklist 87: the connection is closed");
    }
    world.close_session("S");
    assert!(world.provider(who).open.is_empty(), "nobody needs the connection");
    assert!(world.provider(who).heard.is_empty(), "{:?}", world.provider(who).heard);
    assert!(world.agent.heard.is_empty(), "{:?}", world.agent.heard);
    assert_eq!(world.agent.outcomes.len(), 0, "{:?}", world.agent.outcomes);
    assert!(world.editor().strangers.is_empty());
    world.stage.quiet();
    world.stage.empty();
}

fn said(result: &str) -> Answer {
    Answer::FromServer(Outcome::Result(json(result)))
}

fn note(world: &mut World, who: &str, to: &Said, method: &str, params: &str) {
    let index = world.providers.iter().position(|it| it.who == who).unwrap();
    world.providers[index].note(&mut world.stage, to, &call(method, params));
    world.settle();
}

/// The server asks the client. Checklist 91.
fn reverse(world: &mut World, who: &str, to: &Said, refused: bool) {
    let index = world.providers.iter().position(|it| it.who == who).unwrap();
    let name = world.providers[index].ask(&mut world.stage, to, &call("roots/list", ""));
    world.settle();
    if refused {
        let answer = world.providers[index].answered(&name);
        let Some(Answer::FromServer(error)) = answer else { panic!("not refused: {answer:?}") };
        assert_eq!(error.error_code(), Some(-32601));
        return;
    }
    let heard = world.agent.heard.pop_front().expect("a question");
    assert!(heard.call.is("roots/list"));
    world.agent.answer(&mut world.stage, &heard, r#"{"roots":[]}"#);
    world.settle();
    assert_eq!(world.providers[index].answered(&name), Some(said(r#"{"roots":[]}"#)));
}

/// The client takes a question back; the server answers all the same, too late.
fn cancel(world: &mut World, line: &Line, who: &str) {
    let name = world.ask(line, "tools/call", r#"{"name":"slow"}"#);
    let asked = world.heard(who);
    world.agent.cancel(&mut world.stage, line, &name);
    world.settle();
    let id = asked.id.clone().unwrap();
    assert!(world.provider(who).cancelled.contains(&id), "ACP's word for it");
    if world.provider(who).form != Form::M7 {
        let told = world.heard(who).call;
        assert!(told.is("notifications/cancelled"), "MCP's word for it, not {told:?}");
        let named = told.params.unwrap().member("requestId").unwrap();
        let called = asked.inner.as_ref().map_or(id, token);
        assert_eq!(named.text().unwrap(), called, "as the server knows it");
    }
    world.answer(who, &asked, Outcome::error(-32800, "cancelled"));
    match line {
        Line::Client(_) => assert!(world.agent.outcomes.is_empty(), "MCP wants no answer"),
        Line::Native { .. } => assert!(world.agent.outcomes.remove(&name).is_some(), "ACP does"),
    }
}
