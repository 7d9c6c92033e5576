//! Providers whose form does not follow from their declaration.

use acp_wire::Outcome;
use mcp::form::Form;

use crate::harness::*;
use crate::participants::*;
use crate::scenario::*;

fn consumers() -> impl Iterator<Item = Option<Form>> {
    FORMS.into_iter().map(Some).chain([None])
}

/// Uses a server over two connections that are opened at the same time.
fn use_server(participants: &str, consumer: Option<Form>, provider: Provider) {
    let (participant, is_stateless) = (provider.name.clone(), provider.form == Form::M7);
    let mut scenario = Scenario::new(participants, consumer, vec![provider]);
    let entries = scenario.session("S");
    let mut connections = Vec::new();
    let begun: Vec<_> =
        (0..2).map(|_| scenario.agent.start_connect(&mut scenario.harness, &entries[0])).collect();
    scenario.discover();
    scenario.discover();
    for (connection, name) in begun {
        connections.push(match name {
            Some(name) => scenario.agent.finish_connect(connection, &name).unwrap(),
            None => connection,
        });
    }
    let request: Vec<String> = connections
        .iter()
        .map(|connection| {
            scenario.agent.ask(&mut scenario.harness, connection, &call("tools/call", r#"{"n":1}"#))
        })
        .collect();
    for _ in 0..6 {
        scenario.discover();
        for received in scenario.provider(&participant).received.drain(..).collect::<Vec<_>>() {
            if received.id.is_some() {
                scenario.result(
                    &participant,
                    &received,
                    if received.call.is("tools/call") { r#"{"n":2}"# } else { "{}" },
                );
            }
        }
    }
    for name in request {
        let outcome = scenario.agent.outcomes.remove(&name);
        let Some(Outcome::Result(result)) = outcome else {
            scenario.harness.fail(&format!("{consumer:?} received no answer: {outcome:?}"));
        };
        assert!(result.as_str().contains(r#""n":2"#), "{consumer:?} of {is_stateless}: {result}");
    }
    assert!(scenario.editor().misdelivered.is_empty(), "{:?}", scenario.editor().misdelivered);
    for connection in &connections {
        scenario.agent.disconnect(&mut scenario.harness, connection);
    }
    scenario.settle();
    scenario.close_session("S");
    scenario.harness.expect_all_closed();
}

/// Providers of M6 and of M7 declare a `serverId`.
#[test]
fn an_m6_provider_that_could_be_m7_is_detected() {
    for consumer in consumers() {
        use_server("p1:P5 agent", consumer, Provider::new("p1", Form::M6, &[("N", "U")]));
        use_server("agent", consumer, Provider::new("editor", Form::M6, &[("N", "U")]));
        use_server("(x:P4) agent", consumer, Provider::new("editor", Form::M6, &[("N", "U")]));
    }
}

#[test]
fn an_m7_provider_that_could_be_m6_is_detected() {
    for consumer in consumers() {
        use_server("p1:P4 (x:P5) agent", consumer, Provider::new("p1", Form::M7, &[("N", "U")]));
    }
}

/// The SDKs 3.x pass on messages that they do not know, even messages for themselves. Such a
/// message must not reach the editor, which does not know it either.
#[test]
fn a_provider_that_passes_on_a_message_for_itself_gets_an_error() {
    for consumer in consumers() {
        for (generation, form) in [
            ("P4", Form::M7),
            ("P4", Form::M6),
            ("P5", Form::M6),
            ("P5", Form::M7),
            ("P3", Form::M1),
        ] {
            let mut provider = Provider::new("p1", form, &[("N", "U")]);
            provider.passes_unknown = true;
            use_server(&format!("(x:P5) p1:{generation} (y:P3) agent"), consumer, provider);
        }
    }
}

/// The exact messages of this case.
#[test]
fn a_request_of_the_broker_that_its_provider_passes_on_is_refused() {
    let mut harness = Harness::new("p1:P4 agent", STDIO);
    harness.send_line(
        "p1",
        r#"~session/new 1 {"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#,
    );
    harness.expect("agent", "session/new ? …");
    let client = harness.connect_client(harness.tickets()[0]);
    harness.client_sends(client, r#"tools/call 1 {"name":"x"}"#);
    let connect = harness.expect("p1", r#"~mcp/connect ? {"serverId":"U"}"#);
    harness.send_line("p1", r#"mcp/connect 77 {"serverId":"U"}"#);
    harness.expect(
        "p1",
        r#"error 77 {"code":-32601,"message":"proxy 'p1' does not know this method"}"#,
    );
    harness.expect_nothing_more();
    harness.send_line("p1", &format!(r#"error {connect} {{"code":-32601,"message":"no"}}"#));
    let discover = harness.expect("p1", r#"~mcp/message ? {"serverId":"U",…"server/discover"…"#);
    harness.send_line("p1", &format!(r#"result {discover} {{"result":{{}}}}"#));
    harness.expect("p1", r#"~mcp/message ? {"serverId":"U",…"tools/call"…"#);
    // From now on the form of the provider is known.
    let second = harness.connect_client(harness.tickets()[0]);
    harness.client_sends(second, r#"tools/call 1 {"name":"y"}"#);
    harness.expect("p1", r#"~mcp/message ? {"serverId":"U",…"tools/call"…"#);
    harness.expect_nothing_more();
}

/// A provider of M1 refuses a connect.
#[test]
fn an_m1_provider_behind_a_newer_link_is_detected() {
    for consumer in consumers() {
        for generation in ["P3", "P4", "P5"] {
            let provider = Provider::new("p1", Form::M1, &[("N", "U")]);
            use_server(&format!("p1:{generation} agent"), consumer, provider);
        }
    }
}

/// An invalid first request does not make a server unreachable.
#[test]
fn a_server_stays_usable_after_it_refuses_an_invalid_request() {
    let mut harness = Harness::new("p1:P5 agent", NATIVE);
    harness.send_line(
        "p1",
        r#"~session/new 1 {"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#,
    );
    harness.expect("agent", "session/new ? …");
    let bad = r#"{"serverId":"U","requestId":"r","method":"tools/list","params":{"bad":7}}"#;
    harness.send_line("agent", &format!("mcp/message 1 {bad}"));
    let id = harness.expect("p1", &format!("~mcp/message ? {bad}"));
    harness
        .send_line("p1", &format!(r#"error {id} {{"code":-32602,"message":"bad must not be 7"}}"#));
    let id = harness.expect("p1", r#"~mcp/connect ? {"serverId":"U"}"#);
    harness.send_line("p1", &format!(r#"error {id} {{"code":-32601,"message":"no"}}"#));
    harness.expect("agent", "error 1 …");
    let good = r#"{"serverId":"U","requestId":"r","method":"tools/list"}"#;
    harness.send_line("agent", &format!("mcp/message 2 {good}"));
    let id = harness.expect("p1", &format!("~mcp/message ? {good}"));
    harness.send_line("p1", &format!(r#"result {id} {{"result":{{}}}}"#));
    harness.expect("agent", r#"result 2 {"result":{}}"#);
    // A server whose form is known keeps it.
    harness.send_line("agent", &format!("mcp/message 3 {bad}"));
    let id = harness.expect("p1", &format!("~mcp/message ? {bad}"));
    harness.send_line("p1", &format!(r#"error {id} {{"code":-32602,"message":"no"}}"#));
    harness.expect("agent", r#"error 3 {"code":-32602,"message":"no"}"#);
    harness.expect_nothing_more();
}
