//! Servers without connections, as the newest programs offer them (M7), for clients that have one.

use serde_json::{Value, json};
use testkit::rpc::{
    cancel, error, id_of, notification, request, result, wrapped_notification, wrapped_request,
};
use testkit::stage::{Peer, parse};

use crate::clients::Client;
use crate::play::{HELLO, HTTP, Play, STDIO, heard, m7, reply};

const FOUND: &str = r#"{"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1.10"},"instructions":"i"}}"#;

/// What the provider is asked, which must be this MCP method on the server `U`. Gives the ids in ACP
/// and in MCP over ACP, and the params.
pub fn asked(provider: &mut impl Peer, method: &str) -> (Value, Value, Value) {
    let message = heard(provider);
    assert_eq!(message["method"], "mcp/message", "{message}");
    let params = &message["params"];
    assert_eq!((&params["serverId"], &params["method"]), (&json!("U"), &json!(method)));
    let meta = &params["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{message}");
    assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object(), "{message}");
    (message["id"].clone(), params["requestId"].clone(), params["params"].clone())
}

/// A client introduces itself to a server that is asked only what it is.
pub fn connect(client: &mut Client, provider: &mut impl Peer) {
    client.send(&request("0", "initialize", HELLO));
    let (id, ..) = asked(provider, "server/discover");
    reply(provider, &id, FOUND);
    let answer = client.message();
    assert_eq!(answer["id"], 0, "{answer}");
    let expected = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "s", "version": "1.10" },
        "instructions": "i",
    });
    assert_eq!(answer["result"], expected);
    client.send(&notification("notifications/initialized", ""));
}

pub fn list_tools(client: &mut Client, provider: &mut impl Peer) {
    client.send(&request("\"list\"", "tools/list", ""));
    let (id, ..) = asked(provider, "tools/list");
    let tools = r#""tools":[{"name":"echo","inputSchema":{"x":1e400}}]"#;
    reply(provider, &id, &format!(r#"{{"result":{{{tools},"resultType":"complete"}}}}"#));
    assert_eq!(client.line(), result("\"list\"", &format!("{{{tools}}}")));
}

fn connected(agent: &str) -> (Play, Client) {
    let mut play = Play::tools(agent);
    let entry = play.session("S", &[&[m7("tools", "U")]]).remove(0);
    let mut client = Client::of(&entry);
    connect(&mut client, play.tool_proxy());
    (play, client)
}

/// Checklist 82: `initialize` is answered here, each request says what a connection would have said.
#[test]
fn a_client_with_a_connection_uses_a_server_without() {
    for agent in [STDIO, HTTP] {
        let (mut play, mut client) = connected(agent);
        list_tools(&mut client, play.tool_proxy());
        // What is the connection's own is answered here.
        client.send(&request("1", "ping", ""));
        assert_eq!(client.line(), result("1", "{}"));
        client.send(&request("2", "tools/call", r#"{"name":"x","arguments":{"n":1}}"#));
        let (id, _, params) = asked(play.tool_proxy(), "tools/call");
        assert_eq!((&params["name"], &params["arguments"]), (&json!("x"), &json!({ "n": 1 })));
        let able = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*able, parse(HELLO)["capabilities"]);
        reply(play.tool_proxy(), &id, r#"{"result":{"content":[],"resultType":"complete"}}"#);
        assert_eq!(client.line(), result("2", r#"{"content":[]}"#));
        client.close();
        play.assert_editor_undisturbed();
    }
}

/// A client of that version itself is spoken to in its own way: nothing is added or taken away.
#[test]
fn a_client_without_a_connection_uses_a_server_without() {
    let mut play = Play::tools(STDIO);
    let entry = play.session("S", &[&[m7("tools", "U")]]).remove(0);
    let mut client = Client::of(&entry);
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
    client.send(&request("0", "server/discover", &format!("{{{meta}}}")));
    // Once to find out what the provider speaks, once for the client.
    let (id, ..) = asked(play.tool_proxy(), "server/discover");
    reply(play.tool_proxy(), &id, FOUND);
    let (id, ..) = asked(play.tool_proxy(), "server/discover");
    reply(play.tool_proxy(), &id, FOUND);
    assert_eq!(client.message()["result"], parse(FOUND)["result"]);
    let params = format!(r#"{{"name":"x",{meta}}}"#);
    client.send(&request("1", "tools/call", &params));
    let (id, _, said) = asked(play.tool_proxy(), "tools/call");
    assert_eq!(said, parse(&params));
    let asks = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}},"requestState":"s"}"#;
    reply(play.tool_proxy(), &id, &format!(r#"{{"result":{asks}}}"#));
    assert_eq!(client.line(), result("1", asks));
    client.send(&request("2", "tools/call", &params));
    let (id, ..) = asked(play.tool_proxy(), "tools/call");
    let done = r#"{"resultType":"complete","content":[],"n":1.10}"#;
    reply(play.tool_proxy(), &id, &format!(r#"{{"result":{done}}}"#));
    assert_eq!(client.line(), result("2", done));
}

/// Issue 4: 8 MiB each way, not a byte changed; exotic numbers.
#[test]
fn long_messages_pass_byte_for_byte() {
    const NUMBERS: &str = r#""n":[123456789012345678901234567890,1.10,1e400]"#;
    let (mut play, mut client) = connected(STDIO);
    let text = "wörds ".repeat(8 * 1024 * 1024 / 7);
    let arguments = format!(r#"{{"text":"{text}", {NUMBERS}}}"#);
    let params = format!(r#"{{"name":"t","arguments":{arguments}}}"#);
    client.send(&request("1", "tools/call", &params));
    let line = play.tool_proxy().line();
    assert!(line.contains(&arguments), "{} bytes", line.len());
    let answer = format!(r#""content":[],"structuredContent":{{"text":"{text}", {NUMBERS}}}"#);
    let wrapped = format!(r#"{{"result":{{"resultType":"complete",{answer}}}}}"#);
    play.tool_proxy().send(&result(id_of(&line), &wrapped));
    let got = client.line();
    assert!(got == result("1", &format!("{{{answer}}}")), "{} bytes", got.len());
}

/// Checklist 83: what the server says about the call, and what happened to the call.
#[test]
fn inner_errors_pass_and_outer_ones_are_told() {
    for agent in [STDIO, HTTP] {
        let (mut play, mut client) = connected(agent);
        client.send(&request("1", "tools/call", "{}"));
        let (id, ..) = asked(play.tool_proxy(), "tools/call");
        let inner = r#"{"code":-32000,"message":"no such file","data":{"n":1.10}}"#;
        reply(play.tool_proxy(), &id, &format!(r#"{{"error":{inner}}}"#));
        assert_eq!(client.line(), error("1", inner));
        client.send(&request("2", "tools/call", "{}"));
        let (id, ..) = asked(play.tool_proxy(), "tools/call");
        let outer = r#"{"code":-33002,"message":"the backend failed"}"#;
        play.tool_proxy().send(&error(&id.to_string(), outer));
        let answer = client.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32603)));
        assert_eq!(answer["error"]["message"], "the backend failed", "{answer}");
        assert_eq!(answer["error"]["data"]["code"], -33002, "{answer}");
    }
}

/// Progress finds its request, and a cancelled call is cancelled in ACP.
#[test]
fn progress_and_cancellation() {
    for agent in [STDIO, HTTP] {
        let (mut play, mut client) = connected(agent);
        let params = r#"{"name":"t","_meta":{"progressToken":"p"}}"#;
        client.send(&request("1", "tools/call", params));
        let (id, operation, params) = asked(play.tool_proxy(), "tools/call");
        assert_eq!(params["_meta"]["progressToken"], "p");
        for n in 0..50 {
            let progress = format!(r#"{{"progressToken":"p","progress":{n}}}"#);
            let params = format!(
                r#"{{"serverId":"U","requestId":{operation},"method":"notifications/progress","params":{progress}}}"#
            );
            play.tool_proxy().send(&wrapped_notification("mcp/message", &params));
            assert_eq!(client.line(), notification("notifications/progress", &progress));
        }
        client.send(&notification("notifications/cancelled", r#"{"requestId":1}"#));
        assert_eq!(play.tool_proxy().line(), cancel(&id.to_string()));
        play.tool_proxy().send(&error(&id.to_string(), r#"{"code":-32800,"message":"m"}"#));
        if agent == HTTP {
            // There the request is a stream, which has to end.
            assert!(client.line().contains("-32800"));
        }
        list_tools(&mut client, play.tool_proxy());
    }
}

/// A server that has to know something of its client first says so instead of asking; the client is
/// asked for it.
#[test]
fn a_server_that_requires_input_gets_it_from_the_client() {
    for agent in [STDIO, HTTP] {
        let (mut play, mut client) = connected(agent);
        client.send(&request("1", "tools/call", r#"{"name":"t"}"#));
        let (id, ..) = asked(play.tool_proxy(), "tools/call");
        reply(
            play.tool_proxy(),
            &id,
            r#"{"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":"s"}}"#,
        );
        let line = client.line();
        assert_eq!(line, request(id_of(&line), "elicitation/create", r#"{"message":"?"}"#));
        client.send(&result(id_of(&line), r#"{"action":"accept","content":{"n":1}}"#));
        let (id, _, params) = asked(play.tool_proxy(), "tools/call");
        let answers = json!({ "a": { "action": "accept", "content": { "n": 1 } } });
        assert_eq!((&params["inputResponses"], &params["requestState"]), (&answers, &json!("s")));
        reply(play.tool_proxy(), &id, r#"{"result":{"content":[],"resultType":"complete"}}"#);
        assert_eq!(client.line(), result("1", r#"{"content":[]}"#));
    }
}

/// A provider of the form before: it does not know messages without a connection, and is connected.
#[test]
fn a_provider_that_has_connections_after_all_is_found_out() {
    let mut play = Play::tools(STDIO);
    let entry = play.session("S", &[&[m7("tools", "U")]]).remove(0);
    let mut client = Client::of(&entry);
    client.send(&request("0", "initialize", HELLO));
    let (id, ..) = asked(play.tool_proxy(), "server/discover");
    play.tool_proxy().send(&error(&id.to_string(), r#"{"code":-32602,"message":"connectionId"}"#));
    let connect = heard(play.tool_proxy());
    assert_eq!(connect["method"], "mcp/connect", "{connect}");
    assert_eq!(connect["params"], json!({ "serverId": "U" }));
    reply(play.tool_proxy(), &connect["id"], r#"{"connectionId":"V"}"#);
    let line = play.tool_proxy().line();
    let params = format!(r#"{{"connectionId":"V","method":"initialize","params":{HELLO}}}"#);
    assert_eq!(line, wrapped_request(id_of(&line), "mcp/message", &params));
    play.tool_proxy().send(&result(id_of(&line), "{}"));
    assert_eq!(client.line(), result("0", "{}"));
    // Checklist 80: here a disconnect is a request.
    client.close();
    let bye = heard(play.tool_proxy());
    assert_eq!(
        (&bye["method"], &bye["params"]),
        (&json!("mcp/disconnect"), &json!({ "connectionId": "V" }))
    );
    assert!(!bye["id"].is_null(), "{bye}");
    reply(play.tool_proxy(), &bye["id"], "{}");
    play.assert_editor_undisturbed();
}
