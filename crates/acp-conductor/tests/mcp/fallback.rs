//! Agents that cannot use the declared transport: the conductor tries the other one and logs that.

use serde_json::{Value, json};
use testkit::rpc::{id_of, request, result};

use crate::chain::{HTTP, McpChain, connect, list_tools, m3};
use crate::clients::{Client, assert_closed, port_of};
use crate::new_setup;

fn is_stdio(entry: &Value) -> bool {
    entry.get("command").is_some()
}

/// Waits until a line of the log contains these words.
fn assert_logged(chain: &McpChain, words: &[&str]) {
    let is_it = |line: &str| words.iter().all(|word| line.contains(word));
    chain.test.conductor.wait_for_stderr_where(&format!("a line with {words:?}"), |stderr| {
        stderr.lines().any(is_it)
    });
}

/// The agent refuses `session/new` with an error that may be about the servers. It receives the request once
/// more, with the other transport. The editor does not notice.
#[test]
fn a_refused_session_is_retried_with_the_other_transport() {
    // Every agent of v1 supports stdio. A transport that the agent has not declared is not tried.
    let (first, other) = ("http", "stdio");
    let mut chain = McpChain::with_provider(HTTP);
    let params = json!({ "cwd": "/", "x": 1, "mcpServers": [] });
    let received = chain.request_session("session/new", &params, &[&[m3("tools", "U")]]);
    let refused = received["mcpServers"][0].clone();
    assert_eq!(is_stdio(&refused), first == "stdio");
    let again = chain.refuse_and_receive_retry(r#"{"code":-32602,"message":"unknown transport"}"#);
    let entry = &again["mcpServers"][0];
    assert_eq!((is_stdio(entry), &entry["name"]), (other == "stdio", &json!("tools")));
    assert_eq!((&again["cwd"], &again["x"]), (&json!("/"), &json!(1)));
    assert_closed(port_of(&refused));
    let mut client = Client::of(entry);
    connect(&mut client, chain.provider(), "C");
    let answer = chain.answer(r#"{"sessionId":"S"}"#);
    assert_eq!(answer["result"]["sessionId"], "S");
    list_tools(&mut client, chain.provider(), "C");
    assert_logged(&chain, &["'agent'", "refused", first, other]);
    // Later sessions use the transport that the agent accepted.
    let next = chain.new_session("S2", &[&[m3("tools", "V")]]).remove(0);
    assert_eq!(is_stdio(&next), other == "stdio");
    chain.assert_editor_received_nothing();
}

/// If the agent refuses both transports, the editor receives the first error, and no port stays open.
#[test]
fn a_session_that_is_refused_twice_fails_with_the_first_error() {
    let mut chain = McpChain::with_provider(HTTP);
    let params = json!({ "cwd": "/", "mcpServers": [] });
    let received = chain.request_session("session/new", &params, &[&[m3("tools", "U")]]);
    let again =
        chain.refuse_and_receive_retry(r#"{"code":-32602,"message":"no MCP","data":{"n":1}}"#);
    chain.send_refusal(r#"{"code":-32602,"message":"still no MCP"}"#);
    let answer = chain.return_answer();
    assert_eq!(answer["error"], json!({ "code": -32602, "message": "no MCP", "data": { "n": 1 } }));
    for entry in [&received["mcpServers"][0], &again["mcpServers"][0]] {
        assert_closed(port_of(entry));
    }
}

/// Errors that are not about servers do not cause a retry, and a forced transport is never changed.
#[test]
fn errors_that_are_not_about_servers_are_not_retried() {
    let refusals = [
        (new_setup(), r#"{"code":-32000,"message":"Authentication required"}"#),
        (new_setup(), r#"{"code":-32602,"message":"cwd does not exist"}"#),
        (new_setup(), r#"{"code":-32603,"message":"the model is overloaded"}"#),
        (new_setup().option(&["--mcp-bridge", "stdio"]), r#"{"code":-32602,"message":"no MCP"}"#),
        (new_setup().option(&["--mcp-bridge", "http"]), r#"{"code":-32602,"message":"no MCP"}"#),
    ];
    for (setup, refusal) in refusals {
        let mut chain = McpChain::start(setup, &["tools", "agent"], HTTP);
        let params = json!({ "cwd": "/", "mcpServers": [] });
        chain.request_session("session/new", &params, &[&[m3("tools", "U")]]);
        chain.refuse(refusal);
        chain.assert_agent_received_nothing();
    }
    // A session without servers to bridge is not tried again either.
    let mut chain = McpChain::with_provider(HTTP);
    let params = json!({ "cwd": "/", "mcpServers": [] });
    chain.request_session("session/new", &params, &[]);
    chain.refuse(r#"{"code":-32602,"message":"no"}"#);
    chain.assert_agent_received_nothing();
}

fn prompt(chain: &mut McpChain, session: &str) {
    let params = format!(r#"{{"sessionId":"{session}","prompt":[]}}"#);
    chain.test.editor.send(&request("\"p\"", "session/prompt", &params));
    let received = chain.provider().request("session/prompt");
    chain.provider().forward("p", "session/prompt", &params);
    let line = chain.agent.line();
    chain.agent.send(&result(id_of(&line), r#"{"stopReason":"end_turn"}"#));
    chain.provider().message();
    chain.provider().answer(&received, r#"{"stopReason":"end_turn"}"#);
    assert_eq!(chain.test.editor.message()["id"], "p");
}

/// If the agent has not connected by the end of its first turn, its next session gets the other transport,
/// and the log reports that.
#[test]
fn an_agent_that_never_connects_gets_the_other_transport_in_its_next_session() {
    let (first, other) = ("http", "stdio");
    let mut chain = McpChain::with_provider(HTTP);
    let entry = chain.new_session("S1", &[&[m3("tools", "U")]]).remove(0);
    assert_eq!(is_stdio(&entry), first == "stdio");
    prompt(&mut chain, "S1");
    assert_logged(&chain, &["'agent'", "has not connected", "tools", first, other]);
    let next = chain.new_session("S2", &[&[m3("tools", "V")]]).remove(0);
    assert_eq!(is_stdio(&next), other == "stdio");
    // The first declaration still works.
    let mut client = Client::of(&entry);
    connect(&mut client, chain.provider(), "C");
}

/// An agent that connects, before or during its first turn, keeps its transport. A transport that the user
/// has chosen is never changed.
#[test]
fn an_agent_that_connects_keeps_its_transport() {
    let mut chain = McpChain::with_provider(HTTP);
    let entry = chain.new_session("S1", &[&[m3("tools", "U")]]).remove(0);
    let mut client = Client::of(&entry);
    connect(&mut client, chain.provider(), "C");
    prompt(&mut chain, "S1");
    prompt(&mut chain, "S1");
    let next = chain.new_session("S2", &[&[m3("tools", "V")]]).remove(0);
    assert!(!is_stdio(&next));
    client.close();
    let McpChain { mut test, mut proxies, mut agent, .. } = chain;
    assert_eq!(test.end(proxies.iter_mut().chain([&mut agent])), "");

    let forced = new_setup().option(&["--mcp-bridge", "stdio"]);
    let mut chain = McpChain::start(forced, &["tools", "agent"], HTTP);
    chain.new_session("S1", &[&[m3("tools", "U")]]);
    prompt(&mut chain, "S1");
    let next = chain.new_session("S2", &[&[m3("tools", "V")]]).remove(0);
    assert!(is_stdio(&next));
}

/// Built-in exceptions for agents that declare wrong capabilities.
#[test]
fn agents_with_known_wrong_capabilities_get_a_transport_that_works() {
    let openhands = r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}},"agentInfo":{"name":"OpenHands","version":"1"}}"#;
    let mut chain = McpChain::with_provider(openhands);
    assert!(is_stdio(&chain.new_session("S", &[&[m3("tools", "U")]])[0]));
    let copilot = r#"{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"copilot-cli","version":"1"}}"#;
    let mut chain = McpChain::with_provider(copilot);
    assert!(!is_stdio(&chain.new_session("S", &[&[m3("tools", "U")]])[0]));
}
