//! Servers without connections, as the newest providers declare them (M7), with clients that have one.

use serde_json::{Value, json};
use testkit::rpc::{
    cancel, error, id_of, notification, request, result, wrapped_notification, wrapped_request,
};
use testkit::test_chain::{Peer, parse};

use crate::chain::{HTTP, INITIALIZE_PARAMS, McpChain, STDIO, m7, receive, reply};
use crate::clients::Client;

const DISCOVER_RESULT: &str = r#"{"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1.10"},"instructions":"i"}}"#;

/// The provider receives this MCP method for the server `U`. Returns the ids in ACP and in MCP over ACP, and
/// the params.
pub fn receive_request(provider: &mut impl Peer, method: &str) -> (Value, Value, Value) {
    let message = receive(provider);
    assert_eq!(message["method"], "mcp/message", "{message}");
    let params = &message["params"];
    assert_eq!((&params["serverId"], &params["method"]), (&json!("U"), &json!(method)));
    let meta = &params["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{message}");
    assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object(), "{message}");
    (message["id"].clone(), params["requestId"].clone(), params["params"].clone())
}

/// A client initializes a connection. The server only receives `server/discover`.
pub fn connect(client: &mut Client, provider: &mut impl Peer) {
    client.send(&request("0", "initialize", INITIALIZE_PARAMS));
    let (id, ..) = receive_request(provider, "server/discover");
    reply(provider, &id, DISCOVER_RESULT);
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
    let (id, ..) = receive_request(provider, "tools/list");
    let tools = r#""tools":[{"name":"echo","inputSchema":{"x":1e400}}]"#;
    reply(provider, &id, &format!(r#"{{"result":{{{tools},"resultType":"complete"}}}}"#));
    assert_eq!(client.line(), result("\"list\"", &format!("{{{tools}}}")));
}

fn connected(agent: &str) -> (McpChain, Client) {
    let mut chain = McpChain::with_provider(agent);
    let entry = chain.new_session("S", &[&[m7("tools", "U")]]).remove(0);
    let mut client = Client::of(&entry);
    connect(&mut client, chain.provider());
    (chain, client)
}

/// Checklist 82: the conductor answers `initialize`, and each request carries what the connection would have
/// established.
#[test]
fn a_client_with_a_connection_can_use_a_server_without_one() {
    for agent in [STDIO, HTTP] {
        let (mut chain, mut client) = connected(agent);
        list_tools(&mut client, chain.provider());
        // The conductor answers what concerns only the connection.
        client.send(&request("1", "ping", ""));
        assert_eq!(client.line(), result("1", "{}"));
        client.send(&request("2", "tools/call", r#"{"name":"x","arguments":{"n":1}}"#));
        let (id, _, params) = receive_request(chain.provider(), "tools/call");
        assert_eq!((&params["name"], &params["arguments"]), (&json!("x"), &json!({ "n": 1 })));
        let able = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*able, parse(INITIALIZE_PARAMS)["capabilities"]);
        reply(chain.provider(), &id, r#"{"result":{"content":[],"resultType":"complete"}}"#);
        assert_eq!(client.line(), result("2", r#"{"content":[]}"#));
        client.close();
        chain.assert_editor_received_nothing();
    }
}

/// Messages of a client of that version pass unchanged.
#[test]
fn messages_between_a_client_and_a_server_without_connections_pass_unchanged() {
    let mut chain = McpChain::with_provider(STDIO);
    let entry = chain.new_session("S", &[&[m7("tools", "U")]]).remove(0);
    let mut client = Client::of(&entry);
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
    client.send(&request("0", "server/discover", &format!("{{{meta}}}")));
    // The first request finds out the provider's version, and the second is the client's.
    let (id, ..) = receive_request(chain.provider(), "server/discover");
    reply(chain.provider(), &id, DISCOVER_RESULT);
    let (id, ..) = receive_request(chain.provider(), "server/discover");
    reply(chain.provider(), &id, DISCOVER_RESULT);
    assert_eq!(client.message()["result"], parse(DISCOVER_RESULT)["result"]);
    let params = format!(r#"{{"name":"x",{meta}}}"#);
    client.send(&request("1", "tools/call", &params));
    let (id, _, received) = receive_request(chain.provider(), "tools/call");
    assert_eq!(received, parse(&params));
    let asks = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}},"requestState":"s"}"#;
    reply(chain.provider(), &id, &format!(r#"{{"result":{asks}}}"#));
    assert_eq!(client.line(), result("1", asks));
    client.send(&request("2", "tools/call", &params));
    let (id, ..) = receive_request(chain.provider(), "tools/call");
    let done = r#"{"resultType":"complete","content":[],"n":1.10}"#;
    reply(chain.provider(), &id, &format!(r#"{{"result":{done}}}"#));
    assert_eq!(client.line(), result("2", done));
}

/// 8 MiB each way pass unchanged, and so do unusual numbers.
#[test]
fn long_messages_pass_byte_for_byte() {
    const NUMBERS: &str = r#""n":[123456789012345678901234567890,1.10,1e400]"#;
    let (mut chain, mut client) = connected(STDIO);
    let text = "wörds ".repeat(8 * 1024 * 1024 / 7);
    let arguments = format!(r#"{{"text":"{text}", {NUMBERS}}}"#);
    let params = format!(r#"{{"name":"t","arguments":{arguments}}}"#);
    client.send(&request("1", "tools/call", &params));
    let line = chain.provider().line();
    assert!(line.contains(&arguments), "{} bytes", line.len());
    let answer = format!(r#""content":[],"structuredContent":{{"text":"{text}", {NUMBERS}}}"#);
    let wrapped = format!(r#"{{"result":{{"resultType":"complete",{answer}}}}}"#);
    chain.provider().send(&result(id_of(&line), &wrapped));
    let got = client.line();
    assert!(got == result("1", &format!("{{{answer}}}")), "{} bytes", got.len());
}

/// Checklist 83: an error of the server, and an error of the call.
#[test]
fn errors_of_the_server_and_of_the_call_reach_the_client() {
    for agent in [STDIO, HTTP] {
        let (mut chain, mut client) = connected(agent);
        client.send(&request("1", "tools/call", "{}"));
        let (id, ..) = receive_request(chain.provider(), "tools/call");
        let inner = r#"{"code":-32000,"message":"no such file","data":{"n":1.10}}"#;
        reply(chain.provider(), &id, &format!(r#"{{"error":{inner}}}"#));
        assert_eq!(client.line(), error("1", inner));
        client.send(&request("2", "tools/call", "{}"));
        let (id, ..) = receive_request(chain.provider(), "tools/call");
        let outer = r#"{"code":-33002,"message":"the backend failed"}"#;
        chain.provider().send(&error(&id.to_string(), outer));
        let answer = client.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32603)));
        assert_eq!(answer["error"]["message"], "the backend failed", "{answer}");
        assert_eq!(answer["error"]["data"]["code"], -33002, "{answer}");
    }
}

/// Progress reaches the right request, and a cancelled call is cancelled in ACP.
#[test]
fn progress_and_cancellations_reach_their_request() {
    for agent in [STDIO, HTTP] {
        let (mut chain, mut client) = connected(agent);
        let params = r#"{"name":"t","_meta":{"progressToken":"p"}}"#;
        client.send(&request("1", "tools/call", params));
        let (id, operation, params) = receive_request(chain.provider(), "tools/call");
        assert_eq!(params["_meta"]["progressToken"], "p");
        for n in 0..50 {
            let progress = format!(r#"{{"progressToken":"p","progress":{n}}}"#);
            let params = format!(
                r#"{{"serverId":"U","requestId":{operation},"method":"notifications/progress","params":{progress}}}"#
            );
            chain.provider().send(&wrapped_notification("mcp/message", &params));
            assert_eq!(client.line(), notification("notifications/progress", &progress));
        }
        client.send(&notification("notifications/cancelled", r#"{"requestId":1}"#));
        assert_eq!(chain.provider().line(), cancel(&id.to_string()));
        chain.provider().send(&error(&id.to_string(), r#"{"code":-32800,"message":"m"}"#));
        if agent == HTTP {
            // Over HTTP the request is a stream, which has to end.
            assert!(client.line().contains("-32800"));
        }
        list_tools(&mut client, chain.provider());
    }
}

/// A server without connections cannot send a request. Its result asks for input instead, which the conductor
/// requests of the client.
#[test]
fn a_server_that_requires_input_gets_it_from_the_client() {
    for agent in [STDIO, HTTP] {
        let (mut chain, mut client) = connected(agent);
        client.send(&request("1", "tools/call", r#"{"name":"t"}"#));
        let (id, ..) = receive_request(chain.provider(), "tools/call");
        reply(
            chain.provider(),
            &id,
            r#"{"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":"s"}}"#,
        );
        let line = client.line();
        assert_eq!(line, request(id_of(&line), "elicitation/create", r#"{"message":"?"}"#));
        client.send(&result(id_of(&line), r#"{"action":"accept","content":{"n":1}}"#));
        let (id, _, params) = receive_request(chain.provider(), "tools/call");
        let answers = json!({ "a": { "action": "accept", "content": { "n": 1 } } });
        assert_eq!((&params["inputResponses"], &params["requestState"]), (&answers, &json!("s")));
        reply(chain.provider(), &id, r#"{"result":{"content":[],"resultType":"complete"}}"#);
        assert_eq!(client.line(), result("1", r#"{"content":[]}"#));
    }
}

/// A provider of the previous form refuses messages without a connection, so the conductor connects to it.
#[test]
fn a_provider_that_requires_connections_is_connected_to() {
    let mut chain = McpChain::with_provider(STDIO);
    let entry = chain.new_session("S", &[&[m7("tools", "U")]]).remove(0);
    let mut client = Client::of(&entry);
    client.send(&request("0", "initialize", INITIALIZE_PARAMS));
    let (id, ..) = receive_request(chain.provider(), "server/discover");
    chain.provider().send(&error(&id.to_string(), r#"{"code":-32602,"message":"connectionId"}"#));
    let connect = receive(chain.provider());
    assert_eq!(connect["method"], "mcp/connect", "{connect}");
    assert_eq!(connect["params"], json!({ "serverId": "U" }));
    reply(chain.provider(), &connect["id"], r#"{"connectionId":"V"}"#);
    let line = chain.provider().line();
    let params =
        format!(r#"{{"connectionId":"V","method":"initialize","params":{INITIALIZE_PARAMS}}}"#);
    assert_eq!(line, wrapped_request(id_of(&line), "mcp/message", &params));
    chain.provider().send(&result(id_of(&line), "{}"));
    assert_eq!(client.line(), result("0", "{}"));
    // Checklist 80: in this form a disconnect is a request.
    client.close();
    let bye = receive(chain.provider());
    assert_eq!(
        (&bye["method"], &bye["params"]),
        (&json!("mcp/disconnect"), &json!({ "connectionId": "V" }))
    );
    assert!(!bye["id"].is_null(), "{bye}");
    reply(chain.provider(), &bye["id"], "{}");
    chain.assert_editor_received_nothing();
}
