//! Providers whose form cannot be seen in their declaration.

use acp_wire::Outcome;
use mcp::form::Form;

use crate::cast::*;
use crate::stage::*;
use crate::world::*;

fn consumers() -> impl Iterator<Item = Option<Form>> {
    FORMS.into_iter().map(Some).chain([None])
}

/// Uses a server twice, by two conversations that begin at once.
fn use_it(cast: &str, consumer: Option<Form>, provider: Provider) {
    let (who, stands) = (provider.who.clone(), provider.form == Form::M7);
    let mut world = World::new(cast, consumer, vec![provider]);
    let entries = world.session("S");
    let mut lines = Vec::new();
    let begun: Vec<_> = (0..2).map(|_| world.agent.reach(&mut world.stage, &entries[0])).collect();
    world.discover();
    world.discover();
    for (line, name) in begun {
        lines.push(match name {
            Some(name) => world.agent.reached(line, &name).unwrap(),
            None => line,
        });
    }
    let asked: Vec<String> = lines
        .iter()
        .map(|line| world.agent.ask(&mut world.stage, line, &call("tools/call", r#"{"n":1}"#)))
        .collect();
    for _ in 0..6 {
        world.discover();
        for said in world.provider(&who).heard.drain(..).collect::<Vec<_>>() {
            if said.id.is_some() {
                world.result(
                    &who,
                    &said,
                    if said.call.is("tools/call") { r#"{"n":2}"# } else { "{}" },
                );
            }
        }
    }
    for name in asked {
        let outcome = world.agent.outcomes.remove(&name);
        let Some(Outcome::Result(result)) = outcome else {
            world.stage.fail(&format!("{consumer:?} got no answer: {outcome:?}"));
        };
        assert!(result.as_str().contains(r#""n":2"#), "{consumer:?} of {stands}: {result}");
    }
    assert!(world.editor().strangers.is_empty(), "{:?}", world.editor().strangers);
    for line in &lines {
        world.agent.hang_up(&mut world.stage, line);
    }
    world.settle();
    world.close_session("S");
    world.stage.empty();
}

/// `serverId` is declared by M6 and by M7.
#[test]
fn an_m6_provider_that_could_be_m7_is_found_out() {
    for consumer in consumers() {
        use_it("p1:P5 agent", consumer, Provider::new("p1", Form::M6, &[("N", "U")]));
        use_it("agent", consumer, Provider::new("editor", Form::M6, &[("N", "U")]));
        use_it("(x:P4) agent", consumer, Provider::new("editor", Form::M6, &[("N", "U")]));
    }
}

#[test]
fn an_m7_provider_that_could_be_m6_is_found_out() {
    for consumer in consumers() {
        use_it("p1:P4 (x:P5) agent", consumer, Provider::new("p1", Form::M7, &[("N", "U")]));
    }
}

/// The SDKs 3.x pass on what they do not know, even if it is for themselves: it must not get to
/// the editor, who would not know it either.
#[test]
fn a_provider_that_passes_on_what_it_does_not_know_is_told_that_nobody_does() {
    for consumer in consumers() {
        for (dialect, form) in [
            ("P4", Form::M7),
            ("P4", Form::M6),
            ("P5", Form::M6),
            ("P5", Form::M7),
            ("P3", Form::M1),
        ] {
            let mut provider = Provider::new("p1", form, &[("N", "U")]);
            provider.passes_unknown = true;
            use_it(&format!("(x:P5) p1:{dialect} (y:P3) agent"), consumer, provider);
        }
    }
}

/// What exactly is said then.
#[test]
fn an_echo_of_our_own_question_is_refused_where_it_comes_from() {
    let mut stage = Stage::new("p1:P4 agent", STDIO);
    stage.say("p1", r#"~session/new 1 {"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#);
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    stage.hear(client, r#"tools/call 1 {"name":"x"}"#);
    let connect = stage.see("p1", r#"~mcp/connect ? {"serverId":"U"}"#);
    stage.say("p1", r#"mcp/connect 77 {"serverId":"U"}"#);
    stage.see("p1", r#"error 77 {"code":-32601,"message":"proxy 'p1' does not know this method"}"#);
    stage.quiet();
    stage.say("p1", &format!(r#"error {connect} {{"code":-32601,"message":"no"}}"#));
    let discover = stage.see("p1", r#"~mcp/message ? {"serverId":"U",…"server/discover"…"#);
    stage.say("p1", &format!(r#"result {discover} {{"result":{{}}}}"#));
    stage.see("p1", r#"~mcp/message ? {"serverId":"U",…"tools/call"…"#);
    // From now on it is known.
    let second = stage.call(stage.tickets()[0]);
    stage.hear(second, r#"tools/call 1 {"name":"y"}"#);
    stage.see("p1", r#"~mcp/message ? {"serverId":"U",…"tools/call"…"#);
    stage.quiet();
}

/// A provider of whole messages refuses to be connected to.
#[test]
fn an_m1_provider_behind_a_newer_link_is_found_out() {
    for consumer in consumers() {
        for dialect in ["P3", "P4", "P5"] {
            let provider = Provider::new("p1", Form::M1, &[("N", "U")]);
            use_it(&format!("p1:{dialect} agent"), consumer, provider);
        }
    }
}

/// A first request that is wrong in itself does not make a server unreachable for good.
#[test]
fn a_refusal_that_was_meant_is_not_the_end() {
    let mut stage = Stage::new("p1:P5 agent", NATIVE);
    stage.say("p1", r#"~session/new 1 {"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#);
    stage.see("agent", "session/new ? …");
    let bad = r#"{"serverId":"U","requestId":"r","method":"tools/list","params":{"bad":7}}"#;
    stage.say("agent", &format!("mcp/message 1 {bad}"));
    let id = stage.see("p1", &format!("~mcp/message ? {bad}"));
    stage.say("p1", &format!(r#"error {id} {{"code":-32602,"message":"bad must not be 7"}}"#));
    let id = stage.see("p1", r#"~mcp/connect ? {"serverId":"U"}"#);
    stage.say("p1", &format!(r#"error {id} {{"code":-32601,"message":"no"}}"#));
    stage.see("agent", "error 1 …");
    let good = r#"{"serverId":"U","requestId":"r","method":"tools/list"}"#;
    stage.say("agent", &format!("mcp/message 2 {good}"));
    let id = stage.see("p1", &format!("~mcp/message ? {good}"));
    stage.say("p1", &format!(r#"result {id} {{"result":{{}}}}"#));
    stage.see("agent", r#"result 2 {"result":{}}"#);
    // A server that is known is not doubted any more.
    stage.say("agent", &format!("mcp/message 3 {bad}"));
    let id = stage.see("p1", &format!("~mcp/message ? {bad}"));
    stage.say("p1", &format!(r#"error {id} {{"code":-32602,"message":"no"}}"#));
    stage.see("agent", r#"error 3 {"code":-32602,"message":"no"}"#);
    stage.quiet();
}
