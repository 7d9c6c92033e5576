//! An early design of Sparkle, in its own form: a component of generation P2 whose server is declared in a
//! map, with a URL `acp:UUID`, and addressed with `_mcp/client_to_server/*` and `_mcp/server_to_client/*`
//! (M1).

use serde_json::json;
use testkit::rpc::{id_of, notification, request, result};
use testkit::test_chain::{Peer, ScriptedComponent, parse};

use crate::chain::{GREETING, INITIALIZE_PARAMS, INITIALIZE_RESULT, STDIO};
use crate::clients::Client;
use crate::new_setup;

const UUID: &str = "acp:550e8400-e29b-41d4-a716-446655440000";

/// A message of the component to its successor.
fn forward(id: &str, method: &str, params: &str) -> String {
    let inner = format!(r#"{{"message":{{"method":"{method}","params":{params}}}}}"#);
    match id {
        "" => notification("_proxy/successor/notification", &inner),
        id => request(id, "_proxy/successor/request", &inner),
    }
}

/// The component receives a line about its server, which must contain this MCP message. Returns the line.
fn receive_mcp(sparkle: &mut ScriptedComponent, kind: &str, message: &str) -> String {
    let line = sparkle.line();
    let outer = parse(&line);
    assert_eq!(outer["method"], format!("_proxy/successor/{kind}"), "{line}");
    let inner = &outer["params"]["message"];
    assert_eq!(inner["method"], format!("_mcp/client_to_server/{kind}"), "{line}");
    assert_eq!(inner["params"]["url"], UUID, "{line}");
    let mut got = inner["params"]["message"].clone();
    // The conductor's id, which the answer repeats.
    if let Some(object) = got.as_object_mut()
        && let Some(id) = object.remove("id")
    {
        assert!(id.is_string(), "{line}");
    }
    assert_eq!(got, parse(message), "{line}");
    line
}

/// The component answers a line, with a whole message.
fn reply(sparkle: &mut ScriptedComponent, line: &str, answer: &str) {
    let inner = parse(line)["params"]["message"]["params"]["message"]["id"].to_string();
    sparkle.send(&result(id_of(line), &format!(r#"{{"message":{}}}"#, result(&inner, answer))));
}

/// Checklist 78: the capability, the rewritten map, requests and notifications both ways, and answers through
/// the bridge.
#[test]
fn a_p2_component_with_an_m1_server_works() {
    let mut chain = new_setup().option(&["--dialect", "1=P2"]).run_named(&["sparkle", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let mut sparkle = chain.wait_for_component("sparkle");
    let greeting = sparkle.request("initialize");
    sparkle.send(&forward("0", "initialize", GREETING));
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    agent.answer(&received, STDIO);
    let answer = sparkle.message();
    assert_eq!(answer["id"], 0);
    // The agent does not support the transport, but the component sees that it does.
    assert!(answer["result"].to_string().contains("acp"), "{answer}");
    let accepted = json!({ "protocolVersion": 1, "capabilities": { "_meta": { "symposium": { "version": "1.0", "proxy": true } } } });
    sparkle.answer(&greeting, &accepted.to_string());
    assert_eq!(chain.editor.message()["id"], 1);

    chain.editor.send(&request("2", "session/new", r#"{"cwd":"/"}"#));
    let new = sparkle.request("session/new");
    let declared = format!(
        r#"{{"cwd":"/","tools":{{"mcpServers":{{"sparkle":{{"transport":"http","url":"{UUID}","headers":{{}}}}}}}}}}"#
    );
    sparkle.send(&forward("1", "session/new", &declared));
    let at_agent = agent.request("session/new");
    let entry = &at_agent["params"]["tools"]["mcpServers"]["sparkle"];
    assert_eq!((&entry["transport"], &entry["args"][0]), (&json!("stdio"), &json!("mcp")));
    // As an agent of that generation would start it.
    let env = entry["env"].as_object().expect("a map").iter();
    let env: Vec<_> = env.map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let mut client = Client::of(
        &json!({ "name": "sparkle", "command": entry["command"], "args": entry["args"], "env": env }),
    );

    client.send(&request("\"mcp-0\"", "initialize", INITIALIZE_PARAMS));
    let call = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
    };
    let line = receive_mcp(&mut sparkle, "request", &call("initialize", INITIALIZE_PARAMS));
    reply(&mut sparkle, &line, INITIALIZE_RESULT);
    assert_eq!(client.line(), result("\"mcp-0\"", INITIALIZE_RESULT));
    client.send(&notification("notifications/initialized", "{}"));
    receive_mcp(&mut sparkle, "notification", &call("notifications/initialized", "{}"));
    agent.answer(&at_agent, r#"{"sessionId":"S"}"#);
    assert_eq!(sparkle.message()["result"]["sessionId"], "S");
    sparkle.answer(&new, r#"{"sessionId":"S"}"#);
    assert_eq!(chain.editor.message()["result"]["sessionId"], "S");

    let embody = r#"{"name":"embody_sparkle","arguments":{}}"#;
    client.send(&request("\"mcp-123\"", "tools/call", embody));
    let line = receive_mcp(&mut sparkle, "request", &call("tools/call", embody));
    // The server sends a request and reports progress.
    let sampling = request("\"mcp-456\"", "sampling/createMessage", r#"{"messages":[]}"#);
    let params = format!(r#"{{"url":"{UUID}","message":{sampling}}}"#);
    sparkle.send(&forward("\"S1\"", "_mcp/server_to_client/request", &params));
    let received_request = client.line();
    assert_eq!(
        received_request,
        request(id_of(&received_request), "sampling/createMessage", r#"{"messages":[]}"#)
    );
    client.send(&result(id_of(&received_request), r#"{"role":"assistant"}"#));
    let answer = sparkle.message();
    assert_eq!(answer["id"], "S1", "{answer}");
    let expected = parse(&result("\"mcp-456\"", r#"{"role":"assistant"}"#));
    assert_eq!(answer["result"]["message"], expected, "{answer}");
    let progress = r#"{"progressToken":"token-1","progress":50,"total":100}"#;
    let note = notification("notifications/progress", progress);
    let params = format!(r#"{{"url":"{UUID}","message":{note}}}"#);
    sparkle.send(&forward("", "_mcp/server_to_client/notification", &params));
    assert_eq!(client.line(), note);
    let done = r#"{"content":[{"type":"text","text":"Embodiment complete"}]}"#;
    reply(&mut sparkle, &line, done);
    assert_eq!(client.line(), result("\"mcp-123\"", done));
}
