//! The flow of seed 003, in its own spelling: a component of its generation (P2) whose server is
//! declared in a map, with a URL `acp:UUID`, and spoken to in `_mcp/client_to_server/*` and
//! `_mcp/server_to_client/*` (M1).

use serde_json::json;
use testkit::rpc::{id_of, notification, request, result};
use testkit::stage::{Peer, Puppet, parse};

use crate::clients::Client;
use crate::play::{GREETING, HELLO, SERVED, STDIO};
use crate::stage;

const UUID: &str = "acp:550e8400-e29b-41d4-a716-446655440000";

/// The component says something to its successor.
fn forward(id: &str, method: &str, params: &str) -> String {
    let inner = format!(r#"{{"message":{{"method":"{method}","params":{params}}}}}"#);
    match id {
        "" => notification("_proxy/successor/notification", &inner),
        id => request(id, "_proxy/successor/request", &inner),
    }
}

/// What the component hears about its server: the line, which must be this MCP message.
fn said(sparkle: &mut Puppet, kind: &str, message: &str) -> String {
    let line = sparkle.line();
    let outer = parse(&line);
    assert_eq!(outer["method"], format!("_proxy/successor/{kind}"), "{line}");
    let inner = &outer["params"]["message"];
    assert_eq!(inner["method"], format!("_mcp/client_to_server/{kind}"), "{line}");
    assert_eq!(inner["params"]["url"], UUID, "{line}");
    let mut got = inner["params"]["message"].clone();
    // It has an id of ours, which the answer repeats.
    if let Some(object) = got.as_object_mut()
        && let Some(id) = object.remove("id")
    {
        assert!(id.is_string(), "{line}");
    }
    assert_eq!(got, parse(message), "{line}");
    line
}

/// Answers what the component has heard, with a whole message.
fn reply(sparkle: &mut Puppet, line: &str, answer: &str) {
    let inner = parse(line)["params"]["message"]["params"]["message"]["id"].to_string();
    sparkle.send(&result(id_of(line), &format!(r#"{{"message":{}}}"#, result(&inner, answer))));
}

/// Checklist 78; phases 2, 3 and 5: detection, the capability, the rewritten map, requests and
/// notifications both ways, answers back through the bridge.
#[test]
fn sparkle_as_seed_003_has_it() {
    let mut stage = stage().option(&["--dialect", "1=P2"]).named(&["sparkle", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let mut sparkle = stage.enter("sparkle");
    let greeting = sparkle.request("initialize");
    sparkle.send(&forward("0", "initialize", GREETING));
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(&asked, STDIO);
    let told = sparkle.message();
    assert_eq!(told["id"], 0);
    // The agent has no such transport; the component hears that there is one.
    assert!(told["result"].to_string().contains("acp"), "{told}");
    let accepted = json!({ "protocolVersion": 1, "capabilities": { "_meta": { "symposium": { "version": "1.0", "proxy": true } } } });
    sparkle.answer(&greeting, &accepted.to_string());
    assert_eq!(stage.editor.message()["id"], 1);

    stage.editor.send(&request("2", "session/new", r#"{"cwd":"/"}"#));
    let new = sparkle.request("session/new");
    let declared = format!(
        r#"{{"cwd":"/","tools":{{"mcpServers":{{"sparkle":{{"transport":"http","url":"{UUID}","headers":{{}}}}}}}}}}"#
    );
    sparkle.send(&forward("1", "session/new", &declared));
    let at_agent = agent.request("session/new");
    let entry = &at_agent["params"]["tools"]["mcpServers"]["sparkle"];
    assert_eq!((&entry["transport"], &entry["args"][0]), (&json!("stdio"), &json!("mcp")));
    // As an agent of that time would start it.
    let env = entry["env"].as_object().expect("a map").iter();
    let env: Vec<_> = env.map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let mut client = Client::of(
        &json!({ "name": "sparkle", "command": entry["command"], "args": entry["args"], "env": env }),
    );

    client.send(&request("\"mcp-0\"", "initialize", HELLO));
    let call = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
    };
    let line = said(&mut sparkle, "request", &call("initialize", HELLO));
    reply(&mut sparkle, &line, SERVED);
    assert_eq!(client.line(), result("\"mcp-0\"", SERVED));
    client.send(&notification("notifications/initialized", "{}"));
    said(&mut sparkle, "notification", &call("notifications/initialized", "{}"));
    agent.answer(&at_agent, r#"{"sessionId":"S"}"#);
    assert_eq!(sparkle.message()["result"]["sessionId"], "S");
    sparkle.answer(&new, r#"{"sessionId":"S"}"#);
    assert_eq!(stage.editor.message()["result"]["sessionId"], "S");

    let embody = r#"{"name":"embody_sparkle","arguments":{}}"#;
    client.send(&request("\"mcp-123\"", "tools/call", embody));
    let line = said(&mut sparkle, "request", &call("tools/call", embody));
    // The server has a question, and tells how far it is.
    let sampling = request("\"mcp-456\"", "sampling/createMessage", r#"{"messages":[]}"#);
    let params = format!(r#"{{"url":"{UUID}","message":{sampling}}}"#);
    sparkle.send(&forward("\"S1\"", "_mcp/server_to_client/request", &params));
    let question = client.line();
    assert_eq!(question, request(id_of(&question), "sampling/createMessage", r#"{"messages":[]}"#));
    client.send(&result(id_of(&question), r#"{"role":"assistant"}"#));
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
