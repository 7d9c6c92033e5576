//! MCP servers of SCP, the eldest relative (M0): `{"type":"scp"}` and `_scp/mcp`.

use serde_json::{Value, json};
use testkit::rpc::{error, id_of, notification, request, result};
use testkit::stage::{Peer, Puppet, Stage, parse};

use crate::clients::Client;
use crate::play::{HELLO, HTTP, SERVED, STDIO};
use crate::stage;

/// An SCP proxy says that it is one.
const SCP_PROXY: &str = r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0","proxy":true}}}"#;
const GREETING: &str =
    r#"{"protocolVersion":1,"clientCapabilities":{},"_meta":{"symposium":{"version":"1.0"}}}"#;

/// A chain of an SCP proxy, which has started its successor (our relay), and an agent.
struct Scp {
    stage: Stage,
    /// Plain lines come from the editor's side; its child's from the agent's.
    proxy: Puppet,
    agent: Puppet,
}

impl Scp {
    fn begin(greeted: &str) -> Scp {
        let mut stage = stage().option(&["--dialect", "1=P0"]).named(&["scp", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut proxy = stage.enter("scp");
        let greeting = proxy.request("initialize");
        proxy.answer(&greeting, SCP_PROXY);
        let told = proxy.request("_scp/proxy");
        proxy.start_child(&told["params"]["servers"][0]);
        let mut agent = stage.enter("agent");
        proxy.child().send(&request("0", "initialize", GREETING));
        let asked = agent.request("initialize");
        agent.answer(&asked, greeted);
        assert_eq!(proxy.child().message()["id"], 0);
        proxy.answer(&told, "{}");
        assert_eq!(stage.editor.message()["id"], 1);
        Scp { stage, proxy, agent }
    }

    /// A session to which the proxy adds a server. Gives it as the agent sees it.
    fn session(&mut self) -> Value {
        self.stage.editor.send(&request("2", "session/new", r#"{"cwd":"/","mcpServers":[]}"#));
        let asked = self.proxy.request("session/new");
        let servers = r#"{"cwd":"/","mcpServers":[{"type":"scp","name":"tools"}]}"#;
        self.proxy.child().send(&request("1", "session/new", servers));
        let at_agent = self.agent.request("session/new");
        self.agent.answer(&at_agent, r#"{"sessionId":"S"}"#);
        assert_eq!(self.proxy.child().message()["result"]["sessionId"], "S");
        self.proxy.answer(&asked, r#"{"sessionId":"S"}"#);
        assert_eq!(self.stage.editor.message()["result"]["sessionId"], "S");
        at_agent["params"]["mcpServers"][0].clone()
    }

    /// What the proxy hears of its server: the whole MCP message, by the server's name. Gives its id
    /// in ACP.
    fn said(&mut self, method: &str, params: &str) -> (String, Value) {
        let line = self.proxy.child().line();
        let asked = parse(&line);
        assert_eq!(
            (&asked["method"], &asked["params"]["name"]),
            (&json!("_scp/mcp"), &json!("tools"))
        );
        let message = &asked["params"]["message"];
        assert_eq!((&message["jsonrpc"], &message["method"]), (&json!("2.0"), &json!(method)));
        assert_eq!(message["params"], parse(params), "{line}");
        let id = if asked.get("id").is_some() { id_of(&line).to_owned() } else { String::new() };
        (id, message["id"].clone())
    }
}

/// Checklist 97: an agent that has never heard of SCP.
#[test]
fn an_scp_server_is_bridged() {
    for agent in [STDIO, HTTP] {
        let mut scp = Scp::begin(agent);
        let entry = scp.session();
        assert_eq!(entry["name"], "tools", "{entry}");
        let mut client = Client::of(&entry);
        client.send(&request("0", "initialize", HELLO));
        let (id, inner) = scp.said("initialize", HELLO);
        assert!(!id.is_empty() && !inner.is_null(), "a request, outside and inside");
        // The answer holds a whole message, too; its shape is nowhere written down.
        let message = format!(r#"{{"message":{}}}"#, result(&inner.to_string(), SERVED));
        scp.proxy.child().send(&result(&id, &message));
        assert_eq!(client.line(), result("0", SERVED));
        client.send(&notification("notifications/initialized", "{}"));
        let (id, inner) = scp.said("notifications/initialized", "{}");
        assert!(inner.is_null() && id.is_empty());
        client.send(&request("1", "tools/call", r#"{"name":"x"}"#));
        let (id, _) = scp.said("tools/call", r#"{"name":"x"}"#);
        let refusal = r#"{"code":-32000,"message":"no","data":1.10}"#;
        scp.proxy.child().send(&result(&id, &format!(r#"{{"message":{}}}"#, error("1", refusal))));
        assert_eq!(client.line(), error("1", refusal));
        // It may also be given bare.
        client.send(&request("2", "tools/list", "{}"));
        let (id, _) = scp.said("tools/list", "{}");
        scp.proxy.child().send(&result(&id, r#"{"tools":[]}"#));
        assert_eq!(client.line(), result("2", r#"{"tools":[]}"#));
        // And the server says something.
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

/// Checklist 97: an agent that knows SCP is given the server as it is, and its messages pass.
#[test]
fn an_scp_agent_uses_the_server_by_itself() {
    let knows =
        r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0"}}}"#;
    let mut scp = Scp::begin(knows);
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
