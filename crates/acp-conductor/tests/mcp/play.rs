//! A chain with puppets in which sessions are set up and MCP servers offered, step by step.

use serde_json::{Value, json};
use testkit::rpc::{id_of, proxy_greeting, request, result};
use testkit::stage::{Peer, Puppet, Setup, Stage, parse};

use crate::clients::Client;

/// Agents: one that takes servers over stdio only, as all do, and one that also takes HTTP.
pub const STDIO: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}"#;
pub const HTTP: &str = r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true,"sse":false}},"agentInfo":{"name":"a","version":"1"}}"#;

/// A server as programs with connections declare it (M3), and as the newest do (M7).
pub fn m3(name: &str, id: &str) -> String {
    format!(r#"{{"type":"http","name":"{name}","url":"acp:{id}","headers":[]}}"#)
}

pub fn m7(name: &str, id: &str) -> String {
    format!(r#"{{"type":"acp","name":"{name}","serverId":"{id}"}}"#)
}

pub const GREETING: &str = r#"{"protocolVersion":1,"clientCapabilities":{}}"#;

/// A chain that stands: P5 proxies, which pass everything on and add servers, and an agent.
#[derive(Debug)]
pub struct Play {
    pub stage: Stage,
    pub proxies: Vec<Puppet>,
    pub agent: Puppet,
    /// What the editor was told in answer to `initialize`.
    pub greeted: String,
    /// A set-up request on its way: the ids under which each proxy, and the agent, was asked.
    asked: Vec<String>,
}

impl Play {
    /// A chain of these puppets, the last of which is the agent, who answers `initialize` like this.
    pub fn begin(setup: Setup, names: &[&str], greeted: &str) -> Play {
        Play::of(setup.named(names), names, GREETING, greeted)
    }

    /// One proxy, called `tools`, and an agent.
    pub fn tools(greeted: &str) -> Play {
        Play::begin(crate::stage(), &["tools", "agent"], greeted)
    }

    pub fn of(mut stage: Stage, names: &[&str], greeting: &str, greeted: &str) -> Play {
        stage.editor.send(&request("\"init\"", "initialize", greeting));
        let (agent, names) = names.split_last().expect("an agent");
        let (mut proxies, mut asked) = (Vec::new(), Vec::new());
        for name in names {
            let mut proxy = stage.enter(name);
            let line = proxy.line();
            assert_eq!(line, proxy_greeting(id_of(&line), greeting));
            proxy.forward("init", "initialize", greeting);
            asked.push(line);
            proxies.push(proxy);
        }
        let mut agent = stage.enter(agent);
        let line = agent.line();
        agent.send(&result(id_of(&line), greeted));
        for (proxy, asked) in proxies.iter_mut().zip(&asked).rev() {
            let told = proxy.line();
            let told = told.strip_prefix(r#"{"jsonrpc":"2.0","id":"init","result":"#);
            let told = told.and_then(|it| it.strip_suffix('}')).expect("the answer");
            proxy.send(&result(id_of(asked), told));
        }
        let greeted = stage.editor.line();
        let greeted = greeted.strip_prefix(r#"{"jsonrpc":"2.0","id":"init","result":"#);
        let greeted = greeted.and_then(|it| it.strip_suffix('}')).expect("a result").to_owned();
        Play { stage, proxies, agent, greeted, asked: Vec::new() }
    }

    pub fn tool_proxy(&mut self) -> &mut Puppet {
        &mut self.proxies[0]
    }

    /// The editor asks for a session with these params. Each proxy adds its servers on the way, if
    /// there are some for it. Gives the params that the agent gets.
    pub fn ask(&mut self, method: &str, params: &Value, servers: &[&[String]]) -> Value {
        self.stage.editor.send(&request("\"set-up\"", method, &params.to_string()));
        for (at, proxy) in self.proxies.iter_mut().enumerate() {
            let asked = proxy.request(method);
            let mut params = asked["params"].clone();
            let list = params["mcpServers"].as_array_mut().expect("a list");
            list.extend(servers.get(at).unwrap_or(&&[][..]).iter().map(|it| parse(it)));
            proxy.forward("set-up", method, &params.to_string());
            self.asked.push(asked["id"].to_string());
        }
        let asked = self.agent.request(method);
        self.asked.push(asked["id"].to_string());
        asked["params"].clone()
    }

    /// The agent answers it, and so does everybody.
    pub fn answer(&mut self, answer: &str) -> Value {
        let id = self.asked.pop().expect("it was asked");
        self.agent.send(&result(&id, answer));
        self.answered_all()
    }

    /// The agent refuses it, and the refusal reaches the editor.
    pub fn refuse(&mut self, error: &str) {
        self.agent_refuses(error);
        let answer = self.answered_all();
        assert_eq!(answer["error"], parse(error), "{answer}");
    }

    /// The agent refuses it, and is asked again. Gives the params of that.
    pub fn refuse_at_agent(&mut self, error: &str) -> Value {
        self.agent_refuses(error);
        let asked = self.agent.request("session/new");
        self.asked.push(asked["id"].to_string());
        asked["params"].clone()
    }

    pub fn agent_refuses(&mut self, error: &str) {
        let id = self.asked.pop().expect("it was asked");
        self.agent.send(&testkit::rpc::error(&id, error));
    }

    /// The answer on its way back to the editor.
    pub fn answered_all(&mut self) -> Value {
        let mut asked = std::mem::take(&mut self.asked);
        for proxy in self.proxies.iter_mut().rev() {
            let id = asked.pop().expect("it was asked");
            let mut answer = proxy.message();
            assert_eq!(answer["id"], "set-up", "{answer}");
            answer["id"] = parse(&id);
            proxy.send(&answer.to_string());
        }
        let answer = self.stage.editor.message();
        assert_eq!(answer["id"], "set-up", "{answer}");
        answer
    }

    /// A session of this name, with these servers of each proxy. Gives them as the agent sees them.
    pub fn session(&mut self, name: &str, servers: &[&[String]]) -> Vec<Value> {
        let params = json!({ "cwd": "/", "mcpServers": [] });
        let asked = self.ask("session/new", &params, servers);
        let answer = self.answer(&json!({ "sessionId": name }).to_string());
        assert_eq!(answer["result"]["sessionId"], name, "{answer}");
        asked["mcpServers"].as_array().expect("a list").clone()
    }

    /// A session with one server of the first proxy, which it knows as `U`, and an MCP client that
    /// has connected to it.
    pub fn connected(&mut self, server: String) -> (Value, Client) {
        let entry = self.session("S", &[&[server]]).remove(0);
        let mut client = Client::of(&entry);
        connect(&mut client, &mut self.proxies[0], "C");
        (entry, client)
    }

    /// The editor closes a session; everybody agrees.
    pub fn close(&mut self, session: &str) {
        let params = format!(r#"{{"sessionId":"{session}"}}"#);
        let method = "session/close";
        self.stage.editor.send(&request("\"set-up\"", method, &params));
        for proxy in &mut self.proxies {
            let line = proxy.line();
            assert_eq!(line, request(id_of(&line), method, &params));
            proxy.forward("set-up", method, &params);
            self.asked.push(id_of(&line).to_owned());
        }
        let line = self.agent.line();
        assert_eq!(line, request(id_of(&line), method, &params));
        self.asked.push(id_of(&line).to_owned());
        let id = self.asked.pop().expect("it was asked");
        self.agent.send(&result(&id, "{}"));
        self.answered_all();
    }

    /// Nothing has come to the editor that it was not meant to see.
    pub fn assert_editor_undisturbed(&mut self) {
        self.agent.send(&request("\"mark\"", "_x/mark", "{}"));
        for proxy in self.proxies.iter_mut().rev() {
            let asked = proxy.message();
            assert_eq!(asked["params"]["method"], "_x/mark", "{asked}");
            proxy.send(&request("\"mark\"", "_x/mark", "{}"));
        }
        assert_eq!(self.stage.editor.message()["method"], "_x/mark");
    }

    /// Nothing has come to the agent that it was not meant to see.
    pub fn assert_agent_undisturbed(&mut self) {
        self.stage.editor.send(&request("\"mark\"", "_x/mark", "{}"));
        for proxy in &mut self.proxies {
            proxy.request("_x/mark");
            proxy.forward("mark", "_x/mark", "{}");
        }
        self.agent.request("_x/mark");
    }
}

/// What somebody hears from the agent's side: without the envelope, if it is a proxy.
pub fn heard(provider: &mut impl Peer) -> Value {
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

/// What a provider hears, which must be an MCP message on this connection (M3). Gives its id in ACP
/// (null for a notification), its method, and its params.
pub fn said(provider: &mut impl Peer, connection: &str, method: &str) -> (Value, Value) {
    let message = heard(provider);
    assert_eq!(message["method"], "_mcp/message", "{message}");
    assert_eq!(message["params"]["connectionId"], connection, "{message}");
    assert_eq!(message["params"]["method"], method, "{message}");
    (message["id"].clone(), message["params"]["params"].clone())
}

/// Answers what was heard under this id.
pub fn reply(provider: &mut impl Peer, id: &Value, answer: &str) {
    provider.send(&result(&id.to_string(), answer));
}

pub const HELLO: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}"#;
pub const SERVED: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1.10"}}"#;

/// A client introduces itself on a new connection, which the provider (M3) calls like this.
pub fn connect(client: &mut Client, provider: &mut impl Peer, connection: &str) {
    client.send(&request("0", "initialize", HELLO));
    accept(provider, connection);
    let (id, params) = said(provider, connection, "initialize");
    assert_eq!(params, parse(HELLO));
    reply(provider, &id, SERVED);
    assert_eq!(client.line(), result("0", SERVED));
    client.send(&testkit::rpc::notification("notifications/initialized", ""));
    let (id, _) = said(provider, connection, "notifications/initialized");
    assert!(id.is_null());
}

/// A provider (M3) is asked for a connection, and gives it this name. Tells which server it is to.
pub fn accept(provider: &mut impl Peer, connection: &str) -> String {
    let message = heard(provider);
    assert_eq!(message["method"], "_mcp/connect", "{message}");
    let server = message["params"]["acp_url"].as_str().expect("a server").to_owned();
    reply(provider, &message["id"], &json!({ "connectionId": connection }).to_string());
    server
}

/// A client lists the tools of a provider (M3).
pub fn list_tools(client: &mut Client, provider: &mut impl Peer, connection: &str) {
    client.send(&request("\"list\"", "tools/list", ""));
    let (id, _) = said(provider, connection, "tools/list");
    let tools = r#"{"tools":[{"name":"echo","inputSchema":{"type":"object","x":1e400}}]}"#;
    reply(provider, &id, tools);
    assert_eq!(client.line(), result("\"list\"", tools));
}
