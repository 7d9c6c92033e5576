//! Who plays: a proxy of some generation on its strings, and the conversations that all of them have.

use std::ops::{Deref, DerefMut};

use serde_json::{Value, json};
use testkit::rpc::{cancel, error, id_of, notification, request, result};
use testkit::stage::{Peer, Puppet, Stage, parse};

use crate::spelling::Generation;

pub const GREETING: &str =
    r#"{"protocolVersion":1,"clientCapabilities":{"terminal":true},"clientInfo":{"name":"e"}}"#;
/// An agent that speaks MCP over ACP itself, so that nothing has to be said in its place.
pub const GREETED: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}},"authMethods":[],"agentInfo":{"name":"a"}}"#;

/// A proxy that does what published ones of its generation do.
#[derive(Debug)]
pub struct Proxy {
    pub puppet: Puppet,
    pub generation: &'static Generation,
}

impl Deref for Proxy {
    type Target = Puppet;

    fn deref(&self) -> &Puppet {
        &self.puppet
    }
}

impl DerefMut for Proxy {
    fn deref_mut(&mut self) -> &mut Puppet {
        &mut self.puppet
    }
}

impl Peer for Proxy {
    fn send(&mut self, line: &str) {
        self.puppet.send(line);
    }

    fn line(&mut self) -> String {
        self.puppet.line()
    }
}

impl Proxy {
    pub fn enter(stage: &mut Stage, name: &str, generation: &'static Generation) -> Proxy {
        Proxy { puppet: stage.enter(name), generation }
    }

    /// Is greeted in a way that it does not know. It does with it what it does with any unknown
    /// request: passes it on to its successor, and passes back the error that it gets.
    pub fn passes_on(&mut self, greeting: &Value) {
        let (method, params) = (&greeting["method"], &greeting["params"]);
        let method = method.as_str().expect("a method");
        self.puppet.send(&self.generation.sent("\"unknown\"", method, &params.to_string()));
        let answer = self.puppet.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("unknown"), &json!(-32601)));
        self.puppet.fail(greeting, &answer["error"].to_string());
    }

    /// Is greeted in one way after the other until it understands one, which must be the last of
    /// these methods.
    pub fn is_greeted(&mut self, methods: &[&str]) -> Value {
        let (last, unknown) = methods.split_last().expect("a greeting");
        for method in unknown {
            let greeting = self.puppet.request(method);
            self.passes_on(&greeting);
        }
        self.puppet.request(last)
    }

    /// Initialises its successor.
    pub fn forwards(&mut self, greeting: &Value) {
        let params = self.generation.forwarded(&greeting["params"]).to_string();
        self.puppet.send(&self.generation.sent("\"forward\"", "initialize", &params));
    }

    /// Gets its successor's answer and makes it its own.
    pub fn accepts(&mut self, greeting: &Value) {
        let answer = self.puppet.message();
        assert_eq!(answer["id"], "forward", "{answer}");
        let accepted = self.generation.accepted(&answer["result"]);
        self.puppet.answer(greeting, &accepted.to_string());
    }
}

/// The editor initialises a chain of these proxies, each greeted with these methods, and an agent.
/// The editor sees the agent's answer and the agent what the editor sent, as if nobody were between.
pub fn initialize(
    stage: &mut Stage,
    proxies: &[(&str, &'static Generation, &[&str])],
) -> (Vec<Proxy>, Puppet) {
    stage.editor.send(&request("\"init\"", "initialize", GREETING));
    let (proxies, agent) = shake_hands(stage, proxies);
    assert_eq!(parse(&stage.editor.line()), parse(&result("\"init\"", GREETED)));
    (proxies, agent)
}

/// The part that the components have in it.
pub fn shake_hands(
    stage: &mut Stage,
    proxies: &[(&str, &'static Generation, &[&str])],
) -> (Vec<Proxy>, Puppet) {
    let mut played = Vec::new();
    for (name, generation, methods) in proxies {
        let mut proxy = Proxy::enter(stage, name, generation);
        let greeting = proxy.is_greeted(methods);
        proxy.forwards(&greeting);
        played.push((proxy, greeting));
    }
    let mut agent = stage.enter("agent");
    let greeting = agent.request("initialize");
    assert_eq!(greeting["params"], parse(GREETING));
    agent.answer(&greeting, GREETED);
    for (proxy, greeting) in played.iter_mut().rev() {
        proxy.accepts(greeting);
    }
    (played.into_iter().map(|(proxy, _)| proxy).collect(), agent)
}

const ODD: &str =
    r#"{"code":-7,"message":"m","data":null,"n":1.10,"_meta":{"traceparent":"00-ab-cd-01"}}"#;
const PARAMS: &str = r#"{"sessionId":"s","_meta":{"traceparent":"00-ab-cd-01"},"n":[1.10,1e400]}"#;

/// Everything there is walks down and up the chain, past every proxy, and comes out as it went in.
pub fn walk(editor: &mut impl Peer, proxies: &mut [Proxy], agent: &mut Puppet) {
    walk_spelt_out(editor, proxies, agent);
    walk_notes(editor, proxies, agent, "");
}

/// The same without messages that have no params: between two conductors the oldest generations
/// cannot tell them from messages with empty ones.
pub fn walk_spelt_out(editor: &mut impl Peer, proxies: &mut [Proxy], agent: &mut Puppet) {
    walk_down(editor, proxies, agent);
    walk_up(editor, proxies, agent);
    walk_notes(editor, proxies, agent, PARAMS);
}

/// A request of the editor, its cancellation, and the error that comes back.
fn walk_down(editor: &mut impl Peer, proxies: &mut [Proxy], agent: &mut Puppet) {
    editor.send(&request("1", "session/prompt", PARAMS));
    let mut asked = Vec::new();
    for proxy in proxies.iter_mut() {
        let question = proxy.line();
        assert_eq!(question, request(id_of(&question), "session/prompt", PARAMS));
        proxy.send(&proxy.generation.sent("1", "session/prompt", PARAMS));
        asked.push(question);
    }
    let question = agent.line();
    assert_eq!(question, request(id_of(&question), "session/prompt", PARAMS));
    editor.send(&cancel("1"));
    for (proxy, asked) in proxies.iter_mut().zip(&asked) {
        assert_eq!(proxy.line(), cancel(id_of(asked)));
        proxy.send(&cancel("1"));
    }
    assert_eq!(agent.line(), cancel(id_of(&question)));
    agent.send(&error(id_of(&question), ODD));
    for (proxy, asked) in proxies.iter_mut().zip(&asked).rev() {
        assert_eq!(proxy.line(), error("1", ODD));
        proxy.send(&error(id_of(asked), ODD));
    }
    assert_eq!(editor.line(), error("1", ODD));
}

/// A request of the agent and its result.
fn walk_up(editor: &mut impl Peer, proxies: &mut [Proxy], agent: &mut Puppet) {
    agent.send(&request("1", "x/unknown", PARAMS));
    let mut asked = Vec::new();
    for proxy in proxies.iter_mut().rev() {
        let question = proxy.line();
        assert_eq!(question, proxy.generation.received(id_of(&question), "x/unknown", PARAMS));
        proxy.send(&request("2", "x/unknown", PARAMS));
        asked.push(question);
    }
    let question = editor.line();
    assert_eq!(question, request(id_of(&question), "x/unknown", PARAMS));
    editor.send(&result(id_of(&question), "null"));
    for (proxy, asked) in proxies.iter_mut().zip(asked.iter().rev()) {
        assert_eq!(proxy.line(), result("2", "null"));
        proxy.send(&result(id_of(asked), "null"));
    }
    assert_eq!(agent.line(), result("1", "null"));
}

/// A notification each way.
fn walk_notes(editor: &mut impl Peer, proxies: &mut [Proxy], agent: &mut Puppet, params: &str) {
    editor.send(&notification("_x/down", params));
    for proxy in proxies.iter_mut() {
        assert_eq!(proxy.line(), notification("_x/down", params));
        proxy.send(&proxy.generation.sent_note("_x/down", params));
    }
    assert_eq!(agent.line(), notification("_x/down", params));
    agent.send(&notification("_x/up", params));
    for proxy in proxies.iter_mut().rev() {
        assert_eq!(proxy.line(), proxy.generation.received_note("_x/up", params));
        proxy.send(&notification("_x/up", params));
    }
    assert_eq!(editor.line(), notification("_x/up", params));
}
