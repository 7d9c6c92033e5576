//! Agents that do not take what they were given: the other transport, and what is said about it.

use serde_json::{Value, json};
use testkit::rpc::{id_of, request, result};
use testkit::stage::wait_until;

use crate::clients::{Client, assert_closed, port_of};
use crate::play::{HTTP, Play, connect, list_tools, m3};
use crate::stage;

fn is_stdio(entry: &Value) -> bool {
    entry.get("command").is_some()
}

/// The log has said this.
fn assert_logged(play: &Play, words: &[&str]) {
    wait_until(&format!("the log says {words:?}"), || {
        let said = play.stage.conductor.stderr();
        said.lines().any(|line| words.iter().all(|word| line.contains(word))).then_some(())
    });
}

/// The agent refuses `session/new` with an error that may be about the servers: it is asked once more,
/// with the other transport. Nobody above hears of it.
#[test]
fn a_refused_session_is_tried_with_the_other_transport() {
    // Every agent of v1 has stdio. What an agent has not offered is not tried.
    let (first, other) = ("http", "stdio");
    let mut play = Play::tools(HTTP);
    let params = json!({ "cwd": "/", "x": 1, "mcpServers": [] });
    let asked = play.ask("session/new", &params, &[&[m3("tools", "U")]]);
    let refused = asked["mcpServers"][0].clone();
    assert_eq!(is_stdio(&refused), first == "stdio");
    let again = play.refuse_at_agent(r#"{"code":-32602,"message":"unknown transport"}"#);
    let entry = &again["mcpServers"][0];
    assert_eq!((is_stdio(entry), &entry["name"]), (other == "stdio", &json!("tools")));
    assert_eq!((&again["cwd"], &again["x"]), (&json!("/"), &json!(1)));
    assert_closed(port_of(&refused));
    let mut client = Client::of(entry);
    connect(&mut client, play.tool_proxy(), "C");
    let answer = play.answer(r#"{"sessionId":"S"}"#);
    assert_eq!(answer["result"]["sessionId"], "S");
    list_tools(&mut client, play.tool_proxy(), "C");
    assert_logged(&play, &["'agent'", "refused", first, other]);
    // From now on it is given what it took.
    let next = play.session("S2", &[&[m3("tools", "V")]]).remove(0);
    assert_eq!(is_stdio(&next), other == "stdio");
    play.assert_editor_undisturbed();
}

/// Refused both ways, the editor gets the first refusal, and nothing stays open.
#[test]
fn refused_twice_is_refused() {
    let mut play = Play::tools(HTTP);
    let params = json!({ "cwd": "/", "mcpServers": [] });
    let asked = play.ask("session/new", &params, &[&[m3("tools", "U")]]);
    let again = play.refuse_at_agent(r#"{"code":-32602,"message":"no MCP","data":{"n":1}}"#);
    play.agent_refuses(r#"{"code":-32602,"message":"still no MCP"}"#);
    let answer = play.answered_all();
    assert_eq!(answer["error"], json!({ "code": -32602, "message": "no MCP", "data": { "n": 1 } }));
    for entry in [&asked["mcpServers"][0], &again["mcpServers"][0]] {
        assert_closed(port_of(entry));
    }
}

/// Other errors are not about the servers, and a forced transport is not changed.
#[test]
fn what_is_not_about_servers_is_not_tried_again() {
    let refusals = [
        (stage(), r#"{"code":-32000,"message":"Authentication required"}"#),
        (stage(), r#"{"code":-32602,"message":"cwd does not exist"}"#),
        (stage(), r#"{"code":-32603,"message":"the model is overloaded"}"#),
        (stage().option(&["--mcp-bridge", "stdio"]), r#"{"code":-32602,"message":"no MCP"}"#),
        (stage().option(&["--mcp-bridge", "http"]), r#"{"code":-32602,"message":"no MCP"}"#),
    ];
    for (setup, refusal) in refusals {
        let mut play = Play::begin(setup, &["tools", "agent"], HTTP);
        let params = json!({ "cwd": "/", "mcpServers": [] });
        play.ask("session/new", &params, &[&[m3("tools", "U")]]);
        play.refuse(refusal);
        play.assert_agent_undisturbed();
    }
    // Nor is a session without such servers.
    let mut play = Play::tools(HTTP);
    let params = json!({ "cwd": "/", "mcpServers": [] });
    play.ask("session/new", &params, &[]);
    play.refuse(r#"{"code":-32602,"message":"no"}"#);
    play.assert_agent_undisturbed();
}

fn prompt(play: &mut Play, session: &str) {
    let params = format!(r#"{{"sessionId":"{session}","prompt":[]}}"#);
    play.stage.editor.send(&request("\"p\"", "session/prompt", &params));
    let asked = play.tool_proxy().request("session/prompt");
    play.tool_proxy().forward("p", "session/prompt", &params);
    let line = play.agent.line();
    play.agent.send(&result(id_of(&line), r#"{"stopReason":"end_turn"}"#));
    play.tool_proxy().message();
    play.tool_proxy().answer(&asked, r#"{"stopReason":"end_turn"}"#);
    assert_eq!(play.stage.editor.message()["id"], "p");
}

/// Issue 3: an agent that has not connected by the end of its first turn gets the other transport in
/// its next session, and the log says so.
#[test]
fn an_agent_that_never_connects_is_given_the_other_transport_next() {
    let (first, other) = ("http", "stdio");
    let mut play = Play::tools(HTTP);
    let entry = play.session("S1", &[&[m3("tools", "U")]]).remove(0);
    assert_eq!(is_stdio(&entry), first == "stdio");
    prompt(&mut play, "S1");
    assert_logged(&play, &["'agent'", "has not connected", "tools", first, other]);
    let next = play.session("S2", &[&[m3("tools", "V")]]).remove(0);
    assert_eq!(is_stdio(&next), other == "stdio");
    // What it was given first still works.
    let mut client = Client::of(&entry);
    connect(&mut client, play.tool_proxy(), "C");
}

/// One that connects, be it before or in its first turn, is not bothered; nor is it with a transport
/// that the user has chosen.
#[test]
fn an_agent_that_connects_keeps_its_transport() {
    let mut play = Play::tools(HTTP);
    let entry = play.session("S1", &[&[m3("tools", "U")]]).remove(0);
    let mut client = Client::of(&entry);
    connect(&mut client, play.tool_proxy(), "C");
    prompt(&mut play, "S1");
    prompt(&mut play, "S1");
    let next = play.session("S2", &[&[m3("tools", "V")]]).remove(0);
    assert!(!is_stdio(&next));
    assert_eq!(play.stage.conductor.stderr(), "");

    let forced = stage().option(&["--mcp-bridge", "stdio"]);
    let mut play = Play::begin(forced, &["tools", "agent"], HTTP);
    play.session("S1", &[&[m3("tools", "U")]]);
    prompt(&mut play, "S1");
    let next = play.session("S2", &[&[m3("tools", "V")]]).remove(0);
    assert!(is_stdio(&next));
}

/// Agents of which it is known that they do not do what they say.
#[test]
fn known_agents_are_given_what_works_with_them() {
    let openhands = r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}},"agentInfo":{"name":"OpenHands","version":"1"}}"#;
    let mut play = Play::tools(openhands);
    assert!(is_stdio(&play.session("S", &[&[m3("tools", "U")]])[0]));
    let copilot = r#"{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"copilot-cli","version":"1"}}"#;
    let mut play = Play::tools(copilot);
    assert!(!is_stdio(&play.session("S", &[&[m3("tools", "U")]])[0]));
}
