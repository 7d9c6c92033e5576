//! A chain with puppets that pass everything on, until one of them is killed and another comes in its
//! place.

use std::process::Command;

use serde_json::{Value, json};
use testkit::rpc::{id_of, proxy_greeting, request, result, wrapped_request};
use testkit::stage::{Puppet, Setup, Stage, parse, wait_until};

/// With members that nobody knows, and numbers that a parser would spoil.
pub const GREETING: &str = r#"{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true}},"_meta":{"n":[1.10,12345678901234567890123]}}"#;

/// Agents that take MCP over ACP, so that nothing has to be said in their place: one that has nothing
/// else to offer, one that loads sessions, one that resumes them as well.
pub const PLAIN: &str = r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}},"_meta":{"n":1e400}}"#;
pub const LOADS: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}},"_meta":{"n":1e400}}"#;
pub const RESUMES: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}},"mcpCapabilities":{"acp":true}}}"#;

/// How a session is set up, and what comes of it.
#[derive(Debug, Clone)]
pub struct SetUp {
    pub method: &'static str,
    pub params: String,
    pub result: String,
}

impl SetUp {
    pub fn new(session: &str) -> SetUp {
        SetUp {
            method: "session/new",
            params: format!(r#"{{"cwd":"/{session}","mcpServers":[],"x":1.10}}"#),
            result: format!(r#"{{"sessionId":"{session}","modes":null,"x":1e400}}"#),
        }
    }

    /// One that was there before.
    pub fn old(method: &'static str, session: &str) -> SetUp {
        SetUp {
            method,
            params: format!(r#"{{"sessionId":"{session}","cwd":"/old","mcpServers":[],"x":1.10}}"#),
            result: r#"{"modes":null,"x":1.10}"#.into(),
        }
    }
}

/// A chain that stands.
#[derive(Debug)]
pub struct Play {
    pub stage: Stage,
    pub proxies: Vec<Puppet>,
    pub agent: Puppet,
    pub greeted: String,
}

impl Play {
    /// A chain of these puppets, the last of which is the agent, who answers `initialize` like this.
    pub fn begin(setup: Setup, names: &[&str], greeted: &str) -> Play {
        Play::of(setup.named(names), names, greeted)
    }

    /// A proxy and an agent.
    pub fn pair(greeted: &str) -> Play {
        Play::begin(crate::stage(), &["proxy", "agent"], greeted)
    }

    pub fn of(mut stage: Stage, names: &[&str], greeted: &str) -> Play {
        stage.editor.send(&request("\"init\"", "initialize", GREETING));
        let (agent, names) = names.split_last().expect("an agent");
        let (mut proxies, mut asked) = (Vec::new(), Vec::new());
        for name in names {
            let mut proxy = stage.enter(name);
            asked.push(is_greeted(&mut proxy));
            proxies.push(proxy);
        }
        let mut agent = stage.enter(agent);
        let line = agent.line();
        assert_eq!(line, request(id_of(&line), "initialize", GREETING));
        agent.send(&result(id_of(&line), greeted));
        for (proxy, asked) in proxies.iter_mut().zip(&asked).rev() {
            assert_eq!(proxy.line(), result("\"init\"", greeted));
            proxy.send(&result(asked, greeted));
        }
        assert_eq!(stage.editor.line(), result("\"init\"", greeted));
        Play { stage, proxies, agent, greeted: greeted.to_owned() }
    }

    /// A session is set up; everybody passes it on.
    pub fn set_up(&mut self, set_up: &SetUp) {
        let SetUp { method, params, result: answer } = set_up;
        self.stage.editor.send(&request("\"set-up\"", method, params));
        let mut asked = Vec::new();
        for proxy in &mut self.proxies {
            let line = proxy.line();
            assert_eq!(line, request(id_of(&line), method, params));
            proxy.send(&wrapped_request("\"set-up\"", method, params));
            asked.push(id_of(&line).to_owned());
        }
        let line = self.agent.line();
        assert_eq!(line, request(id_of(&line), method, params));
        self.agent.send(&result(id_of(&line), answer));
        for (proxy, asked) in self.proxies.iter_mut().zip(&asked).rev() {
            assert_eq!(proxy.line(), result("\"set-up\"", answer));
            proxy.send(&result(asked, answer));
        }
        assert_eq!(self.stage.editor.line(), result("\"set-up\"", answer));
    }

    pub fn session(&mut self, name: &str) -> SetUp {
        let set_up = SetUp::new(name);
        self.set_up(&set_up);
        set_up
    }

    /// Kills a proxy (by its place, from 0) and waits for the one that takes its place.
    pub fn kill(&mut self, at: usize) {
        kill(&self.proxies[at]);
        self.replaced(at);
    }

    pub fn replaced(&mut self, at: usize) {
        let name = self.proxies[at].name.clone();
        self.proxies[at] = self.stage.enter(&name);
    }

    /// The new proxy is greeted as the old one was, and told of these sessions. All that it sends to its
    /// successor for that is answered from memory, and in the end it is live.
    pub fn learns(&mut self, at: usize, sessions: &[SetUp]) {
        let (proxy, greeted) = (&mut self.proxies[at], &self.greeted);
        let asked = is_greeted(proxy);
        assert_eq!(proxy.line(), result("\"init\"", greeted));
        proxy.send(&result(&asked, greeted));
        for set_up in sessions {
            let SetUp { method, params, result: answer } = set_up;
            let line = proxy.line();
            assert_eq!(line, request(id_of(&line), method, params));
            proxy.send(&wrapped_request("\"again\"", method, params));
            assert_eq!(proxy.line(), result("\"again\"", answer));
            proxy.send(&result(id_of(&line), answer));
        }
    }

    /// Kills the agent and waits for the one that takes its place, which is greeted as it was.
    pub fn kill_agent(&mut self) {
        kill(&self.agent);
        self.agent_is_back();
    }

    pub fn agent_is_back(&mut self) {
        let name = self.agent.name.clone();
        self.agent = self.stage.enter(&name);
        let line = self.agent.line();
        assert_eq!(line, request(id_of(&line), "initialize", GREETING));
        self.agent.send(&result(id_of(&line), &self.greeted));
    }

    /// The editor asks; everybody passes it on. Gives the question as the agent gets it.
    pub fn ask(&mut self, id: &str, method: &str, params: &str) -> Value {
        self.stage.editor.send(&request(id, method, params));
        self.proxies.iter_mut().for_each(|proxy| drop(pass(proxy)));
        let asked = self.agent.request(method);
        assert_eq!(asked["params"], parse(params));
        asked
    }

    pub fn prompt(&mut self, id: &str, session: &str) -> Value {
        self.ask(id, "session/prompt", &prompt(session))
    }

    /// The agent answers, and everybody passes that on.
    pub fn answer(&mut self, asked: &Value, answer: &str) -> Value {
        self.agent.answer(asked, answer);
        self.proxies.iter_mut().rev().for_each(|proxy| drop(pass(proxy)));
        self.stage.editor.message()
    }

    /// A question and its answer come through, and nothing else has come before them: neither to the
    /// agent, nor to any proxy, nor to the editor.
    pub fn works(&mut self) {
        let asked = self.ask("\"works\"", "_x/works", r#"{"n":1}"#);
        let answer = self.answer(&asked, r#"{"n":2}"#);
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "works", "result": { "n": 2 } }));
        self.agent.send(&request("\"up\"", "_x/up", "{}"));
        self.proxies.iter_mut().rev().for_each(|proxy| drop(pass(proxy)));
        let asked = self.stage.editor.message();
        assert_eq!(asked["method"], "_x/up", "{asked}");
        self.stage.editor.send(&result(&asked["id"].to_string(), "{}"));
        self.proxies.iter_mut().for_each(|proxy| drop(pass(proxy)));
        assert_eq!(self.agent.line(), result("\"up\"", "{}"));
    }

    /// What `conductor status --json` tells.
    pub fn status(&self) -> Value {
        status(&self.stage)
    }

    /// Waits until a component, by its number, is in this state.
    pub fn wait_for_state(&self, number: usize, state: &str) -> Value {
        wait_until(&format!("component {number} is {state}"), || {
            let component = self.status()["components"][number - 1].take();
            (component["state"] == state).then_some(component)
        })
    }

    /// Waits until the conductor has said this on standard error.
    pub fn wait_for_words(&self, words: &str) {
        wait_until(&format!("the conductor says {words:?}"), || {
            self.stage.conductor.stderr().contains(words).then_some(())
        });
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

/// A proxy is greeted, and greets its successor. Gives the id that it was asked under.
pub fn is_greeted(proxy: &mut Puppet) -> String {
    let line = proxy.line();
    assert_eq!(line, proxy_greeting(id_of(&line), GREETING));
    proxy.send(&wrapped_request("\"init\"", "initialize", GREETING));
    id_of(&line).to_owned()
}

pub fn kill(puppet: &Puppet) {
    signal(puppet, libc::SIGKILL);
}

pub fn signal(puppet: &Puppet, signal: i32) {
    // SAFETY: sends a signal to a process that the test has played so far.
    unsafe { libc::kill(puppet.pid as i32, signal) };
}

/// A transparent proxy passes the next message on, whatever it is, and gives it as it came.
pub fn pass(proxy: &mut Puppet) -> Value {
    let message = proxy.message();
    pass_on(proxy, &message);
    message
}

/// It passes this message on. Requests get an id of its own, from which that of the question can be
/// told.
pub fn pass_on(proxy: &mut Puppet, message: &Value) {
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
            answer["id"] = json!(id.unwrap_or_else(|| panic!("not asked: {message}")));
            return proxy.send(&answer.to_string());
        }
    };
    passed["jsonrpc"] = json!("2.0");
    if let Some(id) = message.get("id") {
        passed["id"] = own(id);
    }
    proxy.send(&passed.to_string());
}

/// What `conductor status --json` tells of this one.
pub fn status(stage: &Stage) -> Value {
    let pid = stage.conductor.pid().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["status", &pid, "--json"]).env("XDG_RUNTIME_DIR", stage.runtime_directory());
    let output = command.output().expect("the conductor starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    parse(&text)[0].take()
}

/// An answer must be an error of the crash of a component that the chain survives.
pub fn assert_crash(answer: &Value, id: Value, component: &str, cause: &str, what_next: &str) {
    assert_eq!(answer["id"], id, "{answer}");
    testkit::stage::assert_blames(answer, component, cause, "");
    let message = answer["error"]["message"].as_str().expect("words");
    for word in [what_next, "send again"] {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
}
