//! Chains inside chains: `conductor proxy` is a proxy like any other, at any depth.

use testkit::rpc::{
    error, id_of, notification, proxy_greeting, request, result, wrapped_notification,
    wrapped_request,
};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, TestChainBuilder};

const GREETING: &str = r#"{"protocolVersion":1,"clientCapabilities":{"x":1.10}}"#;
const AGENT_RESULT: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{"y":[ ],"mcpCapabilities":{"acp":true}}}"#;

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

/// `conductor proxy` with these scripted components, after the handshake. The test is the parent conductor, so
/// `editor` is the connection to that.
fn start_nested(names: &[&str]) -> (TestChain, Vec<ScriptedComponent>) {
    let setup = new_setup();
    let components: Vec<String> = names.iter().map(|name| setup.scripted_command(name)).collect();
    let mut chain = setup.run("proxy", &components);
    chain.editor.send(&request("\"g\"", "proxy/initialize", GREETING));
    let mut scripted = Vec::new();
    let mut greetings = Vec::new();
    for name in names {
        let mut component = chain.wait_for_component(name);
        let greeting = component.line();
        assert_eq!(greeting, proxy_greeting(id_of(&greeting), GREETING));
        component.send(&wrapped_request("0", "initialize", GREETING));
        greetings.push(greeting);
        scripted.push(component);
    }
    let greeting = chain.editor.line();
    assert_eq!(greeting, wrapped_request(id_of(&greeting), "initialize", GREETING));
    chain.editor.send(&result(id_of(&greeting), AGENT_RESULT));
    for (component, greeting) in scripted.iter_mut().zip(&greetings).rev() {
        assert_eq!(component.line(), result("0", AGENT_RESULT));
        component.send(&result(id_of(greeting), AGENT_RESULT));
    }
    assert_eq!(chain.editor.line(), result("\"g\"", AGENT_RESULT));
    (chain, scripted)
}

/// A request and a notification pass from the editor to the agent and others pass back, through every proxy,
/// each wrapped once or not at all.
fn assert_messages_pass(
    editor: &mut impl Peer,
    proxies: &mut [ScriptedComponent],
    agent: &mut ScriptedComponent,
) {
    editor.send(&notification("_down", "{}"));
    editor.send(&request("1", "down", "{}"));
    let mut received_request = Vec::new();
    for proxy in proxies.iter_mut() {
        assert_eq!(proxy.line(), notification("_down", "{}"));
        proxy.send(&wrapped_notification("_down", "{}"));
        let received = proxy.line();
        assert_eq!(received, request(id_of(&received), "down", "{}"));
        proxy.send(&wrapped_request("1", "down", "{}"));
        received_request.push(received);
    }
    assert_eq!(agent.line(), notification("_down", "{}"));
    let received = agent.line();
    assert_eq!(received, request(id_of(&received), "down", "{}"));
    agent.send(&notification("_up", "{}"));
    agent.send(&result(id_of(&received), "[]"));
    for (proxy, received_request) in proxies.iter_mut().zip(&received_request).rev() {
        assert_eq!(proxy.line(), wrapped_notification("_up", "{}"));
        proxy.send(&notification("_up", "{}"));
        assert_eq!(proxy.line(), result("1", "[]"));
        proxy.send(&result(id_of(received_request), "[]"));
    }
    assert_eq!(editor.line(), notification("_up", "{}"));
    assert_eq!(editor.line(), result("1", "[]"));
    assert_agent_request_passes(editor, proxies, agent);
}

/// A request of the agent to the editor.
fn assert_agent_request_passes(
    editor: &mut impl Peer,
    proxies: &mut [ScriptedComponent],
    agent: &mut ScriptedComponent,
) {
    agent.send(&request("1", "up", "{}"));
    let mut received_request = Vec::new();
    for proxy in proxies.iter_mut().rev() {
        let received = proxy.line();
        assert_eq!(received, wrapped_request(id_of(&received), "up", "{}"));
        proxy.send(&request("2", "up", "{}"));
        received_request.push(received);
    }
    let received = editor.line();
    assert_eq!(received, request(id_of(&received), "up", "{}"));
    editor.send(&error(id_of(&received), r#"{"code":1,"message":"m"}"#));
    for (proxy, received_request) in proxies.iter_mut().zip(received_request.iter().rev()) {
        assert_eq!(proxy.line(), error("2", r#"{"code":1,"message":"m"}"#));
        proxy.send(&error(id_of(received_request), r#"{"code":1,"message":"m"}"#));
    }
    assert_eq!(agent.line(), error("1", r#"{"code":1,"message":"m"}"#));
}

/// Checklist 64, 65.
#[test]
fn the_parent_reaches_the_first_proxy_directly_and_the_last_one_through_envelopes() {
    let (mut chain, mut scripted) = start_nested(&["first", "last"]);
    let [first, last] = &mut scripted[..] else { panic!("not two components") };
    let parent = &mut chain.editor;

    parent.send(&request("1", "m", "[1]"));
    let received = first.line();
    assert_eq!(received, request(id_of(&received), "m", "[1]"));
    first.send(&result(id_of(&received), "1"));
    assert_eq!(parent.line(), result("1", "1"));

    parent.send(&wrapped_request("2", "m", "[2]"));
    let received = last.line();
    assert_eq!(received, wrapped_request(id_of(&received), "m", "[2]"));
    last.send(&result(id_of(&received), "2"));
    assert_eq!(parent.line(), result("2", "2"));

    last.send(&wrapped_request("3", "m", "[3]"));
    let received = parent.line();
    assert_eq!(received, wrapped_request(id_of(&received), "m", "[3]"));
    parent.send(&result(id_of(&received), "3"));
    assert_eq!(last.line(), result("3", "3"));

    first.send(&request("4", "m", "[4]"));
    let received = parent.line();
    assert_eq!(received, request(id_of(&received), "m", "[4]"));
    parent.send(&result(id_of(&received), "4"));
    assert_eq!(first.line(), result("4", "4"));

    parent.send(&notification("m", "[5]"));
    assert_eq!(first.line(), notification("m", "[5]"));
    parent.send(&wrapped_notification("m", "[6]"));
    assert_eq!(last.line(), wrapped_notification("m", "[6]"));
    last.send(&wrapped_notification("m", "[7]"));
    assert_eq!(parent.line(), wrapped_notification("m", "[7]"));
    first.send(&notification("m", "[8]"));
    assert_eq!(parent.line(), notification("m", "[8]"));
}

/// Checklist 66. The handshake passes like any other message.
#[test]
fn without_components_everything_passes() {
    let (mut chain, _) = start_nested(&[]);
    let parent = &mut chain.editor;
    parent.send(&notification("m", "[1]"));
    assert_eq!(parent.line(), wrapped_notification("m", "[1]"));
    parent.send(&wrapped_notification("m", "[2]"));
    assert_eq!(parent.line(), notification("m", "[2]"));

    // The parent sends requests from both sides, with the same id.
    parent.send(&request("1", "m", "[1]"));
    let down = parent.line();
    assert_eq!(down, wrapped_request(id_of(&down), "m", "[1]"));
    parent.send(&wrapped_request("1", "m", "[2]"));
    let up = parent.line();
    assert_eq!(up, request(id_of(&up), "m", "[2]"));
    parent.send(&result(id_of(&up), "\"up\""));
    assert_eq!(parent.line(), result("1", "\"up\""));
    parent.send(&result(id_of(&down), "\"down\""));
    assert_eq!(parent.line(), result("1", "\"down\""));
}

/// Checklist 67.
#[test]
fn three_levels_deep_nothing_is_wrapped_twice() {
    let setup = new_setup();
    let deepest = setup.subchain(&[setup.scripted_command("c")]);
    let deeper =
        setup.subchain(&[setup.scripted_command("b"), deepest, setup.scripted_command("d")]);
    let deep = setup.subchain(&[deeper]);
    let components = [
        setup.scripted_command("a"),
        deep,
        setup.scripted_command("e"),
        setup.scripted_command("agent"),
    ];
    let mut chain = setup.run("agent", &components);
    let mut scripted = chain.initialize(&["a", "b", "c", "d", "e", "agent"]);
    let (agent, proxies) = scripted.split_last_mut().expect("an agent");
    assert_messages_pass(&mut chain.editor, proxies, agent);
    assert_messages_pass(&mut chain.editor, proxies, agent);
}

#[test]
fn several_nested_chains_work_in_one_chain() {
    let setup = new_setup();
    let components = [
        setup.subchain(&[setup.scripted_command("a"), setup.scripted_command("b")]),
        setup.subchain(&[]),
        setup.scripted_command("c"),
        setup.subchain(&[setup.subchain(&[]), setup.scripted_command("d")]),
        setup.subchain(&[setup.scripted_command("e")]),
        setup.scripted_command("agent"),
    ];
    let mut chain = setup.run("agent", &components);
    let mut scripted = chain.initialize(&["a", "b", "c", "d", "e", "agent"]);
    let (agent, proxies) = scripted.split_last_mut().expect("an agent");
    assert_messages_pass(&mut chain.editor, proxies, agent);
}

/// A whole chain can also be the agent of another.
#[test]
fn a_chain_can_be_the_agent_of_another() {
    let setup = new_setup();
    let inner =
        setup.nested("agent", &[setup.scripted_command("b"), setup.scripted_command("agent")]);
    let components = [setup.scripted_command("a"), inner];
    let mut chain = setup.run("agent", &components);
    let mut scripted = chain.initialize(&["a", "b", "agent"]);
    let (agent, proxies) = scripted.split_last_mut().expect("an agent");
    assert_messages_pass(&mut chain.editor, proxies, agent);
}

/// Checklist 68.
#[test]
fn an_envelope_inside_an_envelope_of_the_parent_is_refused() {
    let (mut chain, mut scripted) = start_nested(&["only"]);
    let inner = r#"{"method":"m"}"#;
    chain.editor.send(&wrapped_request("1", "proxy/successor", inner));
    let refused = chain.editor.line();
    assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"#), "{refused}");
    chain.editor.send(&wrapped_notification("proxy/successor", inner));
    chain.editor.send(&notification("next", ""));
    assert_eq!(scripted[0].line(), notification("next", ""));
}

/// Checklist 30. The parent may try again.
#[test]
fn conductor_proxy_refuses_the_greeting_of_an_agent() {
    let setup = new_setup();
    let components = [setup.scripted_command("only")];
    let mut chain = setup.run("proxy", &components);
    for refused in ["initialize", "session/new"] {
        chain.editor.send(&request("1", refused, GREETING));
        let answer = chain.editor.line();
        let expected = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"#;
        assert!(answer.starts_with(expected), "{refused}: {answer}");
    }
    chain.assert_not_started("only");
    chain.editor.send(&request("2", "proxy/initialize", GREETING));
    let mut only = chain.wait_for_component("only");
    let greeting = only.line();
    assert_eq!(greeting, proxy_greeting(id_of(&greeting), GREETING));
}
