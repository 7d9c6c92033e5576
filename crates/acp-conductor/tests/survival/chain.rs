//! A chain of scripted components that pass every message on. A test kills one of them and checks what
//! the conductor does with its replacement.

use std::process::Command;

use serde_json::{Value, json};
use testkit::rpc::{id_of, proxy_greeting, request, result, wrapped_request};
use testkit::test_chain::{ScriptedComponent, TestChain, TestChainBuilder, parse, wait_until};

/// The params of `initialize`, with unknown members and numbers that a parser would change.
pub const GREETING: &str = r#"{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true}},"_meta":{"n":[1.10,12345678901234567890123]}}"#;

/// Results of `initialize` from agents that support MCP over ACP, so that the conductor needs no bridge:
/// an agent without further capabilities, one that can load sessions, and one that can also resume them.
pub const PLAIN: &str = r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}},"_meta":{"n":1e400}}"#;
pub const LOADS: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}},"_meta":{"n":1e400}}"#;
pub const RESUMES: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}},"mcpCapabilities":{"acp":true}}}"#;

/// A request that sets up a session, and its result.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    pub method: &'static str,
    pub params: String,
    pub result: String,
}

impl SessionRequest {
    pub fn new(session: &str) -> SessionRequest {
        SessionRequest {
            method: "session/new",
            params: format!(r#"{{"cwd":"/{session}","mcpServers":[],"x":1.10}}"#),
            result: format!(r#"{{"sessionId":"{session}","modes":null,"x":1e400}}"#),
        }
    }

    /// The request that loads or resumes a session that already exists.
    pub fn existing(method: &'static str, session: &str) -> SessionRequest {
        SessionRequest {
            method,
            params: format!(r#"{{"sessionId":"{session}","cwd":"/old","mcpServers":[],"x":1.10}}"#),
            result: r#"{"modes":null,"x":1.10}"#.into(),
        }
    }
}

/// A chain that is up.
#[derive(Debug)]
pub struct ScriptedChain {
    /// The conductor. The test is its editor.
    pub test: TestChain,
    pub proxies: Vec<ScriptedComponent>,
    pub agent: ScriptedComponent,
    /// The result of `initialize` that the agent gives, also after a restart.
    pub agent_result: String,
}

impl ScriptedChain {
    /// Starts a chain of these scripted components and does the handshake. The last one is the agent, and
    /// `agent_result` is its result for `initialize`.
    pub fn start(setup: TestChainBuilder, names: &[&str], agent_result: &str) -> ScriptedChain {
        ScriptedChain::handshake(setup.run_named(names), names, agent_result)
    }

    /// Starts a chain of one proxy and an agent.
    pub fn proxy_and_agent(agent_result: &str) -> ScriptedChain {
        ScriptedChain::start(crate::new_setup(), &["proxy", "agent"], agent_result)
    }

    /// Does the handshake of a chain of these scripted components.
    pub fn handshake(mut chain: TestChain, names: &[&str], agent_result: &str) -> ScriptedChain {
        chain.editor.send(&request("\"init\"", "initialize", GREETING));
        let (agent, names) = names.split_last().expect("an agent");
        let (mut proxies, mut received) = (Vec::new(), Vec::new());
        for name in names {
            let mut proxy = chain.wait_for_component(name);
            received.push(expect_greeting(&mut proxy));
            proxies.push(proxy);
        }
        let mut agent = chain.wait_for_component(agent);
        let line = agent.line();
        assert_eq!(line, request(id_of(&line), "initialize", GREETING));
        agent.send(&result(id_of(&line), agent_result));
        for (proxy, received) in proxies.iter_mut().zip(&received).rev() {
            assert_eq!(proxy.line(), result("\"init\"", agent_result));
            proxy.send(&result(received, agent_result));
        }
        assert_eq!(chain.editor.line(), result("\"init\"", agent_result));
        ScriptedChain { test: chain, proxies, agent, agent_result: agent_result.to_owned() }
    }

    /// The editor sets up a session; each proxy passes the request and the result on.
    pub fn set_up_session(&mut self, session_request: &SessionRequest) {
        let SessionRequest { method, params, result: answer } = session_request;
        self.test.editor.send(&request("\"set-up\"", method, params));
        let mut received = Vec::new();
        for proxy in &mut self.proxies {
            let line = proxy.line();
            assert_eq!(line, request(id_of(&line), method, params));
            proxy.send(&wrapped_request("\"set-up\"", method, params));
            received.push(id_of(&line).to_owned());
        }
        let line = self.agent.line();
        assert_eq!(line, request(id_of(&line), method, params));
        self.agent.send(&result(id_of(&line), answer));
        for (proxy, received) in self.proxies.iter_mut().zip(&received).rev() {
            assert_eq!(proxy.line(), result("\"set-up\"", answer));
            proxy.send(&result(received, answer));
        }
        assert_eq!(self.test.editor.line(), result("\"set-up\"", answer));
    }

    /// Sets up a new session.
    pub fn new_session(&mut self, name: &str) -> SessionRequest {
        let session_request = SessionRequest::new(name);
        self.set_up_session(&session_request);
        session_request
    }

    /// Kills a proxy (by its index) and waits until its replacement has started.
    pub fn kill_proxy(&mut self, at: usize) {
        kill(&self.proxies[at]);
        self.await_restart(at);
    }

    /// Waits until the replacement of a proxy (by its index) has started.
    pub fn await_restart(&mut self, at: usize) {
        let name = self.proxies[at].name.clone();
        self.proxies[at] = self.test.wait_for_component(&name);
    }

    /// The restarted proxy receives the same greeting as before, and the set-up requests of these sessions.
    /// The conductor answers from memory what the proxy sends to its successor meanwhile.
    pub fn expect_replay(&mut self, at: usize, sessions: &[SessionRequest]) {
        let proxy = &mut self.proxies[at];
        complete_greeting(proxy, &self.agent_result);
        for session_request in sessions {
            let SessionRequest { method, params, result: answer } = session_request;
            let line = proxy.line();
            assert_eq!(line, request(id_of(&line), method, params));
            proxy.send(&wrapped_request("\"again\"", method, params));
            assert_eq!(proxy.line(), result("\"again\"", answer));
            proxy.send(&result(id_of(&line), answer));
        }
    }

    /// Kills the agent, waits for its replacement and initializes that.
    pub fn kill_agent(&mut self) {
        kill(&self.agent);
        self.await_agent_restart();
    }

    /// Waits for the replacement of the agent and initializes it.
    pub fn await_agent_restart(&mut self) {
        let name = self.agent.name.clone();
        self.agent = self.test.wait_for_component(&name);
        let line = self.agent.line();
        assert_eq!(line, request(id_of(&line), "initialize", GREETING));
        self.agent.send(&result(id_of(&line), &self.agent_result));
    }

    /// The editor sends a request and each proxy passes it on. Returns the request as the agent receives it.
    pub fn request(&mut self, id: &str, method: &str, params: &str) -> Value {
        self.test.editor.send(&request(id, method, params));
        self.proxies.iter_mut().for_each(|proxy| drop(forward_next(proxy)));
        let received = self.agent.request(method);
        assert_eq!(received["params"], parse(params));
        received
    }

    /// The editor sends a prompt and each proxy passes it on. Returns the prompt as the agent receives it.
    pub fn prompt(&mut self, id: &str, session: &str) -> Value {
        self.request(id, "session/prompt", &prompt(session))
    }

    /// The agent answers a request, and each proxy passes the answer on.
    pub fn answer(&mut self, received: &Value, answer: &str) -> Value {
        self.agent.answer(received, answer);
        self.proxies.iter_mut().rev().for_each(|proxy| drop(forward_next(proxy)));
        self.test.editor.message()
    }

    /// Checks that a request and its answer pass in both directions, and that no other message has arrived
    /// before them: neither at the agent, nor at a proxy, nor at the editor.
    pub fn assert_works(&mut self) {
        let received = self.request("\"works\"", "_x/works", r#"{"n":1}"#);
        let answer = self.answer(&received, r#"{"n":2}"#);
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "works", "result": { "n": 2 } }));
        self.agent.send(&request("\"up\"", "_x/up", "{}"));
        self.proxies.iter_mut().rev().for_each(|proxy| drop(forward_next(proxy)));
        let received = self.test.editor.message();
        assert_eq!(received["method"], "_x/up", "{received}");
        self.test.editor.send(&result(&received["id"].to_string(), "{}"));
        self.proxies.iter_mut().for_each(|proxy| drop(forward_next(proxy)));
        assert_eq!(self.agent.line(), result("\"up\"", "{}"));
    }

    /// The output of `conductor status --json` for this chain.
    pub fn status(&self) -> Value {
        status(&self.test)
    }

    /// Waits until a component, by its number from 1, is in this state.
    pub fn wait_for_state(&self, number: usize, state: &str) -> Value {
        wait_until(&format!("component {number} is {state}"), || {
            let component = self.status()["components"][number - 1].take();
            (component["state"] == state).then_some(component)
        })
    }
}

pub fn prompt(session: &str) -> String {
    format!(r#"{{"sessionId":"{session}","prompt":[{{"type":"text","text":"hi"}}]}}"#)
}

pub fn update(session: &str, kind: &str, what: &str) -> String {
    let params = format!(
        r#"{{"sessionId":"{session}","update":{{"sessionUpdate":"{kind}","what":"{what}"}}}}"#
    );
    testkit::rpc::notification("session/update", &params)
}

/// A proxy receives its greeting and greets its successor. Returns the id of the greeting.
pub fn expect_greeting(proxy: &mut ScriptedComponent) -> String {
    let line = proxy.line();
    assert_eq!(line, proxy_greeting(id_of(&line), GREETING));
    proxy.send(&wrapped_request("\"init\"", "initialize", GREETING));
    id_of(&line).to_owned()
}

/// A proxy receives its greeting, initializes its successor and answers with this result.
pub fn complete_greeting(proxy: &mut ScriptedComponent, agent_result: &str) {
    let id = expect_greeting(proxy);
    assert_eq!(proxy.line(), result("\"init\"", agent_result));
    proxy.send(&result(&id, agent_result));
}

pub fn kill(component: &ScriptedComponent) {
    signal(component, libc::SIGKILL);
}

pub fn signal(component: &ScriptedComponent, signal: i32) {
    // SAFETY: sends a signal to a process that this test controls.
    unsafe { libc::kill(component.pid as i32, signal) };
}

/// A transparent proxy passes its next message on, whatever its kind. Returns the message as it arrived.
pub fn forward_next(proxy: &mut ScriptedComponent) -> Value {
    let message = proxy.message();
    forward(proxy, &message);
    message
}

/// A transparent proxy passes this message on. A request gets a new id, from which the original id can be
/// derived.
pub fn forward(proxy: &mut ScriptedComponent, message: &Value) {
    let own = |id: &Value| json!(format!("own {}", id.as_str().expect("our ids are strings")));
    let mut passed = match message["method"].as_str() {
        Some("proxy/successor") => message["params"].clone(),
        Some("$/cancel_request") => {
            let id = own(&message["params"]["requestId"]);
            json!({ "method": "$/cancel_request", "params": { "requestId": id } })
        }
        Some(_) => {
            let inner = json!({ "method": message["method"], "params": message["params"] });
            json!({ "method": "proxy/successor", "params": inner })
        }
        None => {
            let id = message["id"].as_str().and_then(|id| id.strip_prefix("own "));
            let mut answer = message.clone();
            answer["id"] =
                json!(id.unwrap_or_else(|| panic!("not an answer to a request: {message}")));
            return proxy.send(&answer.to_string());
        }
    };
    passed["jsonrpc"] = json!("2.0");
    if let Some(id) = message.get("id") {
        passed["id"] = own(id);
    }
    proxy.send(&passed.to_string());
}

/// The output of `conductor status --json` for this chain.
pub fn status(chain: &TestChain) -> Value {
    let pid = chain.conductor.pid().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["status", &pid, "--json"]).env("XDG_RUNTIME_DIR", chain.runtime_directory());
    let output = command.output().expect("the conductor starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    parse(&text)[0].take()
}

/// Checks that an answer is an error that reports the crash of a component, says what happens next and
/// asks to send the request again.
pub fn assert_crash(answer: &Value, id: Value, component: &str, cause: &str, what_next: &str) {
    assert_eq!(answer["id"], id, "{answer}");
    testkit::test_chain::assert_reports_failure(answer, component, cause, "");
    let message = answer["error"]["message"].as_str().expect("a message");
    for word in [what_next, "send the request again"] {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
}
