//! A scripted proxy of any generation, and the conversations that all generations have.

use std::ops::{Deref, DerefMut};

use serde_json::{Value, json};
use testkit::rpc::{cancel, error, id_of, notification, request, result};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, parse};

use crate::generation::Generation;

pub const GREETING: &str =
    r#"{"protocolVersion":1,"clientCapabilities":{"terminal":true},"clientInfo":{"name":"e"}}"#;
/// The result of an agent that supports MCP over ACP, so that the conductor needs no bridge.
pub const AGENT_RESULT: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}},"authMethods":[],"agentInfo":{"name":"a"}}"#;

/// A scripted proxy that behaves like published proxies of its generation.
#[derive(Debug)]
pub struct ScriptedProxy {
    pub component: ScriptedComponent,
    pub generation: &'static Generation,
}

impl Deref for ScriptedProxy {
    type Target = ScriptedComponent;

    fn deref(&self) -> &ScriptedComponent {
        &self.component
    }
}

impl DerefMut for ScriptedProxy {
    fn deref_mut(&mut self) -> &mut ScriptedComponent {
        &mut self.component
    }
}

impl Peer for ScriptedProxy {
    fn send(&mut self, line: &str) {
        self.component.send(line);
    }

    fn line(&mut self) -> String {
        self.component.line()
    }
}

impl ScriptedProxy {
    pub fn wait_for(
        chain: &mut TestChain,
        name: &str,
        generation: &'static Generation,
    ) -> ScriptedProxy {
        ScriptedProxy { component: chain.wait_for_component(name), generation }
    }

    /// Handles a greeting of another generation like any unknown request: passes it on to its successor, and
    /// returns the error that it receives.
    pub fn forward_unknown(&mut self, greeting: &Value) {
        let (method, params) = (&greeting["method"], &greeting["params"]);
        let method = method.as_str().expect("a method");
        self.component.send(&self.generation.sent("\"unknown\"", method, &params.to_string()));
        let answer = self.component.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("unknown"), &json!(-32601)));
        self.component.answer_error(greeting, &answer["error"].to_string());
    }

    /// Receives these greetings one after the other, and understands only the last one. Returns that.
    pub fn expect_greeting(&mut self, methods: &[&str]) -> Value {
        let (last, unknown) = methods.split_last().expect("a greeting");
        for method in unknown {
            let greeting = self.component.request(method);
            self.forward_unknown(&greeting);
        }
        self.component.request(last)
    }

    /// Initializes its successor.
    pub fn forward_greeting(&mut self, greeting: &Value) {
        let params = self.generation.forwarded(&greeting["params"]).to_string();
        self.component.send(&self.generation.sent("\"forward\"", "initialize", &params));
    }

    /// Receives its successor's answer and answers its own greeting with it.
    pub fn accept_greeting(&mut self, greeting: &Value) {
        let answer = self.component.message();
        assert_eq!(answer["id"], "forward", "{answer}");
        let accepted = self.generation.accepted(&answer["result"]);
        self.component.answer(greeting, &accepted.to_string());
    }
}

/// The editor initializes a chain of these proxies, each greeted with these methods, and an agent. The editor
/// receives the agent's answer and the agent the editor's params, as if there were no proxies.
pub fn initialize(
    chain: &mut TestChain,
    proxies: &[(&str, &'static Generation, &[&str])],
) -> (Vec<ScriptedProxy>, ScriptedComponent) {
    chain.editor.send(&request("\"init\"", "initialize", GREETING));
    let (proxies, agent) = handshake(chain, proxies);
    assert_eq!(parse(&chain.editor.line()), parse(&result("\"init\"", AGENT_RESULT)));
    (proxies, agent)
}

/// The handshake of these proxies and an agent, without the editor.
pub fn handshake(
    chain: &mut TestChain,
    proxies: &[(&str, &'static Generation, &[&str])],
) -> (Vec<ScriptedProxy>, ScriptedComponent) {
    let mut greeted = Vec::new();
    for (name, generation, methods) in proxies {
        let mut proxy = ScriptedProxy::wait_for(chain, name, generation);
        let greeting = proxy.expect_greeting(methods);
        proxy.forward_greeting(&greeting);
        greeted.push((proxy, greeting));
    }
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    assert_eq!(greeting["params"], parse(GREETING));
    agent.answer(&greeting, AGENT_RESULT);
    for (proxy, greeting) in greeted.iter_mut().rev() {
        proxy.accept_greeting(greeting);
    }
    (greeted.into_iter().map(|(proxy, _)| proxy).collect(), agent)
}

/// Completes the handshake of a chain of one proxy, which has received this greeting, and an agent. The id of the
/// editor's request is 1. Returns the agent.
pub fn complete_handshake(
    chain: &mut TestChain,
    proxy: &mut ScriptedProxy,
    greeting: &Value,
) -> ScriptedComponent {
    proxy.forward_greeting(greeting);
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    agent.answer(&received, AGENT_RESULT);
    proxy.accept_greeting(greeting);
    let answer = chain.editor.message();
    assert_eq!(answer, parse(&result("1", AGENT_RESULT)), "{}", proxy.generation.name);
    agent
}

const ERROR: &str =
    r#"{"code":-7,"message":"m","data":null,"n":1.10,"_meta":{"traceparent":"00-ab-cd-01"}}"#;
const PARAMS: &str = r#"{"sessionId":"s","_meta":{"traceparent":"00-ab-cd-01"},"n":[1.10,1e400]}"#;

/// Messages of every kind pass the chain in both directions, and arrive unchanged.
pub fn assert_messages_pass(
    editor: &mut impl Peer,
    proxies: &mut [ScriptedProxy],
    agent: &mut ScriptedComponent,
) {
    assert_messages_with_params_pass(editor, proxies, agent);
    assert_notifications_pass(editor, proxies, agent, "");
}

/// The same without messages that lack params: between two conductors the oldest generations cannot tell
/// them from messages with empty params.
pub fn assert_messages_with_params_pass(
    editor: &mut impl Peer,
    proxies: &mut [ScriptedProxy],
    agent: &mut ScriptedComponent,
) {
    assert_editor_request_passes(editor, proxies, agent);
    assert_agent_request_passes(editor, proxies, agent);
    assert_notifications_pass(editor, proxies, agent, PARAMS);
}

/// A request of the editor, its cancellation and its error.
fn assert_editor_request_passes(
    editor: &mut impl Peer,
    proxies: &mut [ScriptedProxy],
    agent: &mut ScriptedComponent,
) {
    editor.send(&request("1", "session/prompt", PARAMS));
    let mut received = Vec::new();
    for proxy in proxies.iter_mut() {
        let received_request = proxy.line();
        assert_eq!(received_request, request(id_of(&received_request), "session/prompt", PARAMS));
        proxy.send(&proxy.generation.sent("1", "session/prompt", PARAMS));
        received.push(received_request);
    }
    let received_request = agent.line();
    assert_eq!(received_request, request(id_of(&received_request), "session/prompt", PARAMS));
    editor.send(&cancel("1"));
    for (proxy, received) in proxies.iter_mut().zip(&received) {
        assert_eq!(proxy.line(), cancel(id_of(received)));
        proxy.send(&cancel("1"));
    }
    assert_eq!(agent.line(), cancel(id_of(&received_request)));
    agent.send(&error(id_of(&received_request), ERROR));
    for (proxy, received) in proxies.iter_mut().zip(&received).rev() {
        assert_eq!(proxy.line(), error("1", ERROR));
        proxy.send(&error(id_of(received), ERROR));
    }
    assert_eq!(editor.line(), error("1", ERROR));
}

/// A request of the agent, and its result.
fn assert_agent_request_passes(
    editor: &mut impl Peer,
    proxies: &mut [ScriptedProxy],
    agent: &mut ScriptedComponent,
) {
    agent.send(&request("1", "x/unknown", PARAMS));
    let mut received_request = Vec::new();
    for proxy in proxies.iter_mut().rev() {
        let forwarded_request = proxy.line();
        assert_eq!(
            forwarded_request,
            proxy.generation.received(id_of(&forwarded_request), "x/unknown", PARAMS)
        );
        proxy.send(&request("2", "x/unknown", PARAMS));
        received_request.push(forwarded_request);
    }
    let forwarded_request = editor.line();
    assert_eq!(forwarded_request, request(id_of(&forwarded_request), "x/unknown", PARAMS));
    editor.send(&result(id_of(&forwarded_request), "null"));
    for (proxy, received_request) in proxies.iter_mut().zip(received_request.iter().rev()) {
        assert_eq!(proxy.line(), result("2", "null"));
        proxy.send(&result(id_of(received_request), "null"));
    }
    assert_eq!(agent.line(), result("1", "null"));
}

/// A notification in each direction.
fn assert_notifications_pass(
    editor: &mut impl Peer,
    proxies: &mut [ScriptedProxy],
    agent: &mut ScriptedComponent,
    params: &str,
) {
    editor.send(&notification("_x/down", params));
    for proxy in proxies.iter_mut() {
        assert_eq!(proxy.line(), notification("_x/down", params));
        proxy.send(&proxy.generation.sent_notification("_x/down", params));
    }
    assert_eq!(agent.line(), notification("_x/down", params));
    agent.send(&notification("_x/up", params));
    for proxy in proxies.iter_mut().rev() {
        assert_eq!(proxy.line(), proxy.generation.received_notification("_x/up", params));
        proxy.send(&notification("_x/up", params));
    }
    assert_eq!(editor.line(), notification("_x/up", params));
}
