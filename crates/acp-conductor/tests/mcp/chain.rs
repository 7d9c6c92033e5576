//! A chain of scripted components in which sessions are set up and MCP servers declared, step by step.

use serde_json::{Value, json};
use testkit::rpc::{id_of, proxy_greeting, request, result};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, TestChainBuilder, parse};

use crate::clients::Client;

/// Results of `initialize`: from an agent that supports MCP over stdio, as all do, and from one that also
/// supports HTTP.
pub const STDIO: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}"#;
pub const HTTP: &str = r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true,"sse":false}},"agentInfo":{"name":"a","version":"1"}}"#;

/// The declaration of a server by a provider with connections (M3), and by the newest providers (M7).
pub fn m3(name: &str, id: &str) -> String {
    format!(r#"{{"type":"http","name":"{name}","url":"acp:{id}","headers":[]}}"#)
}

pub fn m7(name: &str, id: &str) -> String {
    format!(r#"{{"type":"acp","name":"{name}","serverId":"{id}"}}"#)
}

pub const GREETING: &str = r#"{"protocolVersion":1,"clientCapabilities":{}}"#;

/// A chain that is up: P5 proxies, which pass everything on and add servers, and an agent.
#[derive(Debug)]
pub struct McpChain {
    /// The conductor. The test is its editor.
    pub test: TestChain,
    pub proxies: Vec<ScriptedComponent>,
    pub agent: ScriptedComponent,
    /// The result of `initialize` as the editor received it.
    pub editor_result: String,
    /// The ids of a set-up request that is under way, at each proxy and at the agent.
    open_ids: Vec<String>,
}

impl McpChain {
    /// Starts a chain of these scripted components and does the handshake. The last one is the agent, and
    /// `agent_result` is its result for `initialize`.
    pub fn start(setup: TestChainBuilder, names: &[&str], agent_result: &str) -> McpChain {
        McpChain::handshake(setup.run_named(names), names, GREETING, agent_result)
    }

    /// Starts a chain of one proxy, called `tools`, and an agent.
    pub fn with_provider(agent_result: &str) -> McpChain {
        McpChain::start(crate::new_setup(), &["tools", "agent"], agent_result)
    }

    pub fn handshake(
        mut chain: TestChain,
        names: &[&str],
        greeting: &str,
        agent_result: &str,
    ) -> McpChain {
        chain.editor.send(&request("\"init\"", "initialize", greeting));
        let (agent, names) = names.split_last().expect("an agent");
        let (mut proxies, mut received) = (Vec::new(), Vec::new());
        for name in names {
            let mut proxy = chain.wait_for_component(name);
            let line = proxy.line();
            assert_eq!(line, proxy_greeting(id_of(&line), greeting));
            proxy.forward("init", "initialize", greeting);
            received.push(line);
            proxies.push(proxy);
        }
        let mut agent = chain.wait_for_component(agent);
        let line = agent.line();
        agent.send(&result(id_of(&line), agent_result));
        for (proxy, received) in proxies.iter_mut().zip(&received).rev() {
            let answer = proxy.line();
            let answer = answer.strip_prefix(r#"{"jsonrpc":"2.0","id":"init","result":"#);
            let answer = answer.and_then(|it| it.strip_suffix('}')).expect("the answer");
            proxy.send(&result(id_of(received), answer));
        }
        let editor_result = chain.editor.line();
        let editor_result = editor_result.strip_prefix(r#"{"jsonrpc":"2.0","id":"init","result":"#);
        let editor_result =
            editor_result.and_then(|it| it.strip_suffix('}')).expect("a result").to_owned();
        McpChain { test: chain, proxies, agent, editor_result, open_ids: Vec::new() }
    }

    /// The first proxy.
    pub fn provider(&mut self) -> &mut ScriptedComponent {
        &mut self.proxies[0]
    }

    /// The editor sends a set-up request. Each proxy adds its servers, if there are any for it, and passes it
    /// on. Returns the params that the agent receives.
    pub fn request_session(
        &mut self,
        method: &str,
        params: &Value,
        servers: &[&[String]],
    ) -> Value {
        self.test.editor.send(&request("\"set-up\"", method, &params.to_string()));
        for (at, proxy) in self.proxies.iter_mut().enumerate() {
            let received = proxy.request(method);
            let mut params = received["params"].clone();
            let list = params["mcpServers"].as_array_mut().expect("a list");
            list.extend(servers.get(at).unwrap_or(&&[][..]).iter().map(|it| parse(it)));
            proxy.forward("set-up", method, &params.to_string());
            self.open_ids.push(received["id"].to_string());
        }
        let received = self.agent.request(method);
        self.open_ids.push(received["id"].to_string());
        received["params"].clone()
    }

    /// The agent answers the set-up request, and each proxy passes the answer on.
    pub fn answer(&mut self, answer: &str) -> Value {
        let id = self.open_ids.pop().expect("an open request");
        self.agent.send(&result(&id, answer));
        self.return_answer()
    }

    /// The agent refuses the set-up request, and the editor receives the error.
    pub fn refuse(&mut self, error: &str) {
        self.send_refusal(error);
        let answer = self.return_answer();
        assert_eq!(answer["error"], parse(error), "{answer}");
    }

    /// The agent refuses the set-up request and receives it once more. Returns the params of that.
    pub fn refuse_and_receive_retry(&mut self, error: &str) -> Value {
        self.send_refusal(error);
        let received = self.agent.request("session/new");
        self.open_ids.push(received["id"].to_string());
        received["params"].clone()
    }

    /// The agent refuses the set-up request.
    pub fn send_refusal(&mut self, error: &str) {
        let id = self.open_ids.pop().expect("an open request");
        self.agent.send(&testkit::rpc::error(&id, error));
    }

    /// Each proxy passes the answer on. Returns it as the editor receives it.
    pub fn return_answer(&mut self) -> Value {
        let mut received = std::mem::take(&mut self.open_ids);
        for proxy in self.proxies.iter_mut().rev() {
            let id = received.pop().expect("an open request");
            let mut answer = proxy.message();
            assert_eq!(answer["id"], "set-up", "{answer}");
            answer["id"] = parse(&id);
            proxy.send(&answer.to_string());
        }
        let answer = self.test.editor.message();
        assert_eq!(answer["id"], "set-up", "{answer}");
        answer
    }

    /// Sets up a session with this id and these servers of each proxy. Returns the servers as the agent
    /// receives them.
    pub fn new_session(&mut self, name: &str, servers: &[&[String]]) -> Vec<Value> {
        let params = json!({ "cwd": "/", "mcpServers": [] });
        let received = self.request_session("session/new", &params, servers);
        let answer = self.answer(&json!({ "sessionId": name }).to_string());
        assert_eq!(answer["result"]["sessionId"], name, "{answer}");
        received["mcpServers"].as_array().expect("a list").clone()
    }

    /// Sets up a session with one server of the first proxy, and connects an MCP client to it. The provider's
    /// id for the connection is `C`.
    pub fn connect_client(&mut self, server: String) -> (Value, Client) {
        let entry = self.new_session("S", &[&[server]]).remove(0);
        let mut client = Client::of(&entry);
        connect(&mut client, &mut self.proxies[0], "C");
        (entry, client)
    }

    /// The editor closes a session, and the agent confirms that.
    pub fn close_session(&mut self, session: &str) {
        let params = format!(r#"{{"sessionId":"{session}"}}"#);
        let method = "session/close";
        self.test.editor.send(&request("\"set-up\"", method, &params));
        for proxy in &mut self.proxies {
            let line = proxy.line();
            assert_eq!(line, request(id_of(&line), method, &params));
            proxy.forward("set-up", method, &params);
            self.open_ids.push(id_of(&line).to_owned());
        }
        let line = self.agent.line();
        assert_eq!(line, request(id_of(&line), method, &params));
        self.open_ids.push(id_of(&line).to_owned());
        let id = self.open_ids.pop().expect("an open request");
        self.agent.send(&result(&id, "{}"));
        self.return_answer();
    }

    /// Checks that the editor has received nothing unexpected.
    pub fn assert_editor_received_nothing(&mut self) {
        self.agent.send(&request("\"mark\"", "_x/mark", "{}"));
        for proxy in self.proxies.iter_mut().rev() {
            let received = proxy.message();
            assert_eq!(received["params"]["method"], "_x/mark", "{received}");
            proxy.send(&request("\"mark\"", "_x/mark", "{}"));
        }
        assert_eq!(self.test.editor.message()["method"], "_x/mark");
    }

    /// Checks that the agent has received nothing unexpected.
    pub fn assert_agent_received_nothing(&mut self) {
        self.test.editor.send(&request("\"mark\"", "_x/mark", "{}"));
        for proxy in &mut self.proxies {
            proxy.request("_x/mark");
            proxy.forward("mark", "_x/mark", "{}");
        }
        self.agent.request("_x/mark");
    }
}

/// The next message, without the envelope if it has one.
pub fn receive(provider: &mut impl Peer) -> Value {
    unwrap(parse(&provider.line()))
}

pub fn unwrap(message: Value) -> Value {
    match message["method"].as_str() {
        Some("proxy/successor") => {
            let mut inner = message["params"].clone();
            inner["id"] = message["id"].clone();
            inner
        }
        _ => message,
    }
}

/// The provider's next message, which must be this MCP message on this connection (M3). Returns its id in
/// ACP (null for a notification) and its params.
pub fn receive_mcp(provider: &mut impl Peer, connection: &str, method: &str) -> (Value, Value) {
    let message = receive(provider);
    assert_eq!(message["method"], "_mcp/message", "{message}");
    assert_eq!(message["params"]["connectionId"], connection, "{message}");
    assert_eq!(message["params"]["method"], method, "{message}");
    (message["id"].clone(), message["params"]["params"].clone())
}

/// Answers the message with this id.
pub fn reply(provider: &mut impl Peer, id: &Value, answer: &str) {
    provider.send(&result(&id.to_string(), answer));
}

pub const INITIALIZE_PARAMS: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}"#;
pub const INITIALIZE_RESULT: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1.10"}}"#;

/// A client initializes a new connection, to which the provider (M3) gives this id.
pub fn connect(client: &mut Client, provider: &mut impl Peer, connection: &str) {
    client.send(&request("0", "initialize", INITIALIZE_PARAMS));
    accept_connection(provider, connection);
    let (id, params) = receive_mcp(provider, connection, "initialize");
    assert_eq!(params, parse(INITIALIZE_PARAMS));
    reply(provider, &id, INITIALIZE_RESULT);
    assert_eq!(client.line(), result("0", INITIALIZE_RESULT));
    client.send(&testkit::rpc::notification("notifications/initialized", ""));
    let (id, _) = receive_mcp(provider, connection, "notifications/initialized");
    assert!(id.is_null());
}

/// A provider (M3) receives a connect request and gives the connection this id. Returns the id of the
/// server.
pub fn accept_connection(provider: &mut impl Peer, connection: &str) -> String {
    let message = receive(provider);
    assert_eq!(message["method"], "_mcp/connect", "{message}");
    let server = message["params"]["acp_url"].as_str().expect("a server").to_owned();
    reply(provider, &message["id"], &json!({ "connectionId": connection }).to_string());
    server
}

/// A client lists the tools of a provider (M3).
pub fn list_tools(client: &mut Client, provider: &mut impl Peer, connection: &str) {
    client.send(&request("\"list\"", "tools/list", ""));
    let (id, _) = receive_mcp(provider, connection, "tools/list");
    let tools = r#"{"tools":[{"name":"echo","inputSchema":{"type":"object","x":1e400}}]}"#;
    reply(provider, &id, tools);
    assert_eq!(client.line(), result("\"list\"", tools));
}
