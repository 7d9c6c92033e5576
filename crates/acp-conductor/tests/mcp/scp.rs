//! MCP servers in SCP, the oldest generation (M0): `{"type":"scp"}` and `_scp/mcp`.

use serde_json::{Value, json};
use testkit::rpc::{error, id_of, notification, request, result};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, parse};

use crate::chain::{HTTP, INITIALIZE_PARAMS, INITIALIZE_RESULT, STDIO};
use crate::clients::Client;
use crate::new_setup;

/// The answer of an SCP proxy to `initialize`.
const SCP_PROXY: &str = r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0","proxy":true}}}"#;
const GREETING: &str =
    r#"{"protocolVersion":1,"clientCapabilities":{},"_meta":{"symposium":{"version":"1.0"}}}"#;

/// A chain of an SCP proxy, which has started its successor (a relay to the conductor), and an agent.
struct ScpChain {
    test: TestChain,
    /// Its own lines are exchanged with the editor's side, and those of its child with the agent's side.
    proxy: ScriptedComponent,
    agent: ScriptedComponent,
}

impl ScpChain {
    fn start(agent_result: &str) -> ScpChain {
        let mut chain = new_setup().option(&["--dialect", "1=P0"]).run_named(&["scp", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        let mut proxy = chain.wait_for_component("scp");
        let greeting = proxy.request("initialize");
        proxy.answer(&greeting, SCP_PROXY);
        let proxy_request = proxy.request("_scp/proxy");
        proxy.start_child(&proxy_request["params"]["servers"][0]);
        let mut agent = chain.wait_for_component("agent");
        proxy.child().send(&request("0", "initialize", GREETING));
        let received = agent.request("initialize");
        agent.answer(&received, agent_result);
        assert_eq!(proxy.child().message()["id"], 0);
        proxy.answer(&proxy_request, "{}");
        assert_eq!(chain.editor.message()["id"], 1);
        ScpChain { test: chain, proxy, agent }
    }

    /// Sets up a session to which the proxy adds a server. Returns the server as the agent receives it.
    fn session(&mut self) -> Value {
        self.test.editor.send(&request("2", "session/new", r#"{"cwd":"/","mcpServers":[]}"#));
        let received = self.proxy.request("session/new");
        let servers = r#"{"cwd":"/","mcpServers":[{"type":"scp","name":"tools"}]}"#;
        self.proxy.child().send(&request("1", "session/new", servers));
        let at_agent = self.agent.request("session/new");
        self.agent.answer(&at_agent, r#"{"sessionId":"S"}"#);
        assert_eq!(self.proxy.child().message()["result"]["sessionId"], "S");
        self.proxy.answer(&received, r#"{"sessionId":"S"}"#);
        assert_eq!(self.test.editor.message()["result"]["sessionId"], "S");
        at_agent["params"]["mcpServers"][0].clone()
    }

    /// The proxy receives an MCP message, whole and by the server's name. Returns its ids in ACP and in MCP.
    fn receive_mcp(&mut self, method: &str, params: &str) -> (String, Value) {
        let line = self.proxy.child().line();
        let received = parse(&line);
        assert_eq!(
            (&received["method"], &received["params"]["name"]),
            (&json!("_scp/mcp"), &json!("tools"))
        );
        let message = &received["params"]["message"];
        assert_eq!((&message["jsonrpc"], &message["method"]), (&json!("2.0"), &json!(method)));
        assert_eq!(message["params"], parse(params), "{line}");
        let id = if received.get("id").is_some() { id_of(&line).to_owned() } else { String::new() };
        (id, message["id"].clone())
    }
}

/// Checklist 97: the agent does not support SCP.
#[test]
fn an_scp_server_is_bridged() {
    for agent in [STDIO, HTTP] {
        let mut scp = ScpChain::start(agent);
        let entry = scp.session();
        assert_eq!(entry["name"], "tools", "{entry}");
        let mut client = Client::of(&entry);
        client.send(&request("0", "initialize", INITIALIZE_PARAMS));
        let (id, inner) = scp.receive_mcp("initialize", INITIALIZE_PARAMS);
        assert!(!id.is_empty() && !inner.is_null(), "a request in ACP and in MCP");
        // The answer also contains a whole message. No document describes its form.
        let message = format!(r#"{{"message":{}}}"#, result(&inner.to_string(), INITIALIZE_RESULT));
        scp.proxy.child().send(&result(&id, &message));
        assert_eq!(client.line(), result("0", INITIALIZE_RESULT));
        client.send(&notification("notifications/initialized", "{}"));
        let (id, inner) = scp.receive_mcp("notifications/initialized", "{}");
        assert!(inner.is_null() && id.is_empty());
        client.send(&request("1", "tools/call", r#"{"name":"x"}"#));
        let (id, _) = scp.receive_mcp("tools/call", r#"{"name":"x"}"#);
        let refusal = r#"{"code":-32000,"message":"no","data":1.10}"#;
        scp.proxy.child().send(&result(&id, &format!(r#"{{"message":{}}}"#, error("1", refusal))));
        assert_eq!(client.line(), error("1", refusal));
        // A bare result is accepted as well.
        client.send(&request("2", "tools/list", "{}"));
        let (id, _) = scp.receive_mcp("tools/list", "{}");
        scp.proxy.child().send(&result(&id, r#"{"tools":[]}"#));
        assert_eq!(client.line(), result("2", r#"{"tools":[]}"#));
        // The server sends a request.
        if let Client::Http(http) = &client {
            http.listen();
        }
        let message = request("\"m\"", "roots/list", "{}");
        let params = format!(r#"{{"name":"tools","message":{message}}}"#);
        scp.proxy.child().send(&request("7", "_scp/mcp", &params));
        let line = client.line();
        assert_eq!(line, request(id_of(&line), "roots/list", "{}"));
        client.send(&result(id_of(&line), r#"{"roots":[]}"#));
        let answer = scp.proxy.child().message();
        assert_eq!(answer["id"], 7, "{answer}");
        let expected = parse(&result("\"m\"", r#"{"roots":[]}"#));
        assert_eq!(answer["result"]["message"], expected, "{answer}");
    }
}

/// Checklist 97: an agent that supports SCP receives the declaration unchanged, and its messages pass.
#[test]
fn an_scp_agent_uses_the_server_by_itself() {
    let knows =
        r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0"}}}"#;
    let mut scp = ScpChain::start(knows);
    let entry = scp.session();
    assert_eq!(entry, json!({ "type": "scp", "name": "tools" }));
    let message = request("\"m\"", "tools/list", r#"{"n":1.10}"#);
    let params = format!(r#"{{"name":"tools","message":{message}}}"#);
    scp.agent.send(&request("5", "_scp/mcp", &params));
    let line = scp.proxy.child().line();
    assert_eq!(line, request(id_of(&line), "_scp/mcp", &params));
    let answer = format!(r#"{{"message":{}}}"#, result("\"m\"", r#"{"n":1e400}"#));
    scp.proxy.child().send(&result(id_of(&line), &answer));
    let line = scp.agent.line();
    assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":5,"result":"#), "{line}");
    assert!(line.contains(&result("\"m\"", r#"{"n":1e400}"#)), "{line}");
}
