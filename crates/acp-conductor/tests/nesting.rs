//! Chains inside chains: `conductor proxy` is a proxy like any other, to any depth.

use testkit::rpc::{
    error, id_of, notification, proxy_greeting, request, result, wrapped_notification,
    wrapped_request,
};
use testkit::stage::{Peer, Puppet, Setup, Stage};

const GREETING: &str = r#"{"protocolVersion":1,"clientCapabilities":{"x":1.10}}"#;
const GREETED: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{"y":[ ],"mcpCapabilities":{"acp":true}}}"#;

fn stage() -> Setup {
    Stage::new(env!("CARGO_BIN_EXE_conductor"))
}

/// `conductor proxy` with these puppets, greeted. The test plays the conductor above: what is
/// called the editor here is that one.
fn proxy(names: &[&str]) -> (Stage, Vec<Puppet>) {
    let setup = stage();
    let components: Vec<String> = names.iter().map(|name| setup.puppet(name)).collect();
    let mut stage = setup.run("proxy", &components);
    stage.editor.send(&request("\"g\"", "proxy/initialize", GREETING));
    let mut puppets = Vec::new();
    let mut greetings = Vec::new();
    for name in names {
        let mut puppet = stage.enter(name);
        let greeting = puppet.line();
        assert_eq!(greeting, proxy_greeting(id_of(&greeting), GREETING));
        puppet.send(&wrapped_request("0", "initialize", GREETING));
        greetings.push(greeting);
        puppets.push(puppet);
    }
    let greeting = stage.editor.line();
    assert_eq!(greeting, wrapped_request(id_of(&greeting), "initialize", GREETING));
    stage.editor.send(&result(id_of(&greeting), GREETED));
    for (puppet, greeting) in puppets.iter_mut().zip(&greetings).rev() {
        assert_eq!(puppet.line(), result("0", GREETED));
        puppet.send(&result(id_of(greeting), GREETED));
    }
    assert_eq!(stage.editor.line(), result("\"g\"", GREETED));
    (stage, puppets)
}

/// A request and a notification walk from the editor to the agent and others walk back, past every
/// proxy, each time wrapped once or not at all.
fn walk(editor: &mut impl Peer, proxies: &mut [Puppet], agent: &mut Puppet) {
    editor.send(&notification("_down", "{}"));
    editor.send(&request("1", "down", "{}"));
    let mut asked = Vec::new();
    for proxy in proxies.iter_mut() {
        assert_eq!(proxy.line(), notification("_down", "{}"));
        proxy.send(&wrapped_notification("_down", "{}"));
        let question = proxy.line();
        assert_eq!(question, request(id_of(&question), "down", "{}"));
        proxy.send(&wrapped_request("1", "down", "{}"));
        asked.push(question);
    }
    assert_eq!(agent.line(), notification("_down", "{}"));
    let question = agent.line();
    assert_eq!(question, request(id_of(&question), "down", "{}"));
    agent.send(&notification("_up", "{}"));
    agent.send(&result(id_of(&question), "[]"));
    for (proxy, asked) in proxies.iter_mut().zip(&asked).rev() {
        assert_eq!(proxy.line(), wrapped_notification("_up", "{}"));
        proxy.send(&notification("_up", "{}"));
        assert_eq!(proxy.line(), result("1", "[]"));
        proxy.send(&result(id_of(asked), "[]"));
    }
    assert_eq!(editor.line(), notification("_up", "{}"));
    assert_eq!(editor.line(), result("1", "[]"));
    walk_up(editor, proxies, agent);
}

/// The agent's part of the walk: a request to the editor.
fn walk_up(editor: &mut impl Peer, proxies: &mut [Puppet], agent: &mut Puppet) {
    agent.send(&request("1", "up", "{}"));
    let mut asked = Vec::new();
    for proxy in proxies.iter_mut().rev() {
        let question = proxy.line();
        assert_eq!(question, wrapped_request(id_of(&question), "up", "{}"));
        proxy.send(&request("2", "up", "{}"));
        asked.push(question);
    }
    let question = editor.line();
    assert_eq!(question, request(id_of(&question), "up", "{}"));
    editor.send(&error(id_of(&question), r#"{"code":1,"message":"m"}"#));
    for (proxy, asked) in proxies.iter_mut().zip(asked.iter().rev()) {
        assert_eq!(proxy.line(), error("2", r#"{"code":1,"message":"m"}"#));
        proxy.send(&error(id_of(asked), r#"{"code":1,"message":"m"}"#));
    }
    assert_eq!(agent.line(), error("1", r#"{"code":1,"message":"m"}"#));
}

/// Checklist 64, 65.
#[test]
fn the_first_proxy_faces_the_editor_and_the_last_one_the_successor() {
    let (mut stage, mut puppets) = proxy(&["first", "last"]);
    let [first, last] = &mut puppets[..] else { panic!("two were named") };
    let parent = &mut stage.editor;

    parent.send(&request("1", "m", "[1]"));
    let asked = first.line();
    assert_eq!(asked, request(id_of(&asked), "m", "[1]"));
    first.send(&result(id_of(&asked), "1"));
    assert_eq!(parent.line(), result("1", "1"));

    parent.send(&wrapped_request("2", "m", "[2]"));
    let asked = last.line();
    assert_eq!(asked, wrapped_request(id_of(&asked), "m", "[2]"));
    last.send(&result(id_of(&asked), "2"));
    assert_eq!(parent.line(), result("2", "2"));

    last.send(&wrapped_request("3", "m", "[3]"));
    let asked = parent.line();
    assert_eq!(asked, wrapped_request(id_of(&asked), "m", "[3]"));
    parent.send(&result(id_of(&asked), "3"));
    assert_eq!(last.line(), result("3", "3"));

    first.send(&request("4", "m", "[4]"));
    let asked = parent.line();
    assert_eq!(asked, request(id_of(&asked), "m", "[4]"));
    parent.send(&result(id_of(&asked), "4"));
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

/// Checklist 66. The handshake passes like everything else.
#[test]
fn without_components_everything_passes() {
    let (mut stage, _) = proxy(&[]);
    let parent = &mut stage.editor;
    parent.send(&notification("m", "[1]"));
    assert_eq!(parent.line(), wrapped_notification("m", "[1]"));
    parent.send(&wrapped_notification("m", "[2]"));
    assert_eq!(parent.line(), notification("m", "[2]"));

    // The conductor above asks from both sides, with one id.
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
    let setup = stage();
    let deepest = setup.subchain(&[setup.puppet("c")]);
    let deeper = setup.subchain(&[setup.puppet("b"), deepest, setup.puppet("d")]);
    let deep = setup.subchain(&[deeper]);
    let components = [setup.puppet("a"), deep, setup.puppet("e"), setup.puppet("agent")];
    let mut stage = setup.run("agent", &components);
    let mut puppets = stage.initialize(&["a", "b", "c", "d", "e", "agent"]);
    let (agent, proxies) = puppets.split_last_mut().expect("an agent");
    walk(&mut stage.editor, proxies, agent);
    walk(&mut stage.editor, proxies, agent);
}

#[test]
fn several_chains_in_one_chain() {
    let setup = stage();
    let components = [
        setup.subchain(&[setup.puppet("a"), setup.puppet("b")]),
        setup.subchain(&[]),
        setup.puppet("c"),
        setup.subchain(&[setup.subchain(&[]), setup.puppet("d")]),
        setup.subchain(&[setup.puppet("e")]),
        setup.puppet("agent"),
    ];
    let mut stage = setup.run("agent", &components);
    let mut puppets = stage.initialize(&["a", "b", "c", "d", "e", "agent"]);
    let (agent, proxies) = puppets.split_last_mut().expect("an agent");
    walk(&mut stage.editor, proxies, agent);
}

/// A whole chain may be the agent of another, too.
#[test]
fn a_chain_as_the_agent_of_a_chain() {
    let setup = stage();
    let inner = setup.nested("agent", &[setup.puppet("b"), setup.puppet("agent")]);
    let components = [setup.puppet("a"), inner];
    let mut stage = setup.run("agent", &components);
    let mut puppets = stage.initialize(&["a", "b", "agent"]);
    let (agent, proxies) = puppets.split_last_mut().expect("an agent");
    walk(&mut stage.editor, proxies, agent);
}

/// Checklist 68.
#[test]
fn the_conductor_above_may_not_wrap_twice() {
    let (mut stage, mut puppets) = proxy(&["only"]);
    let inner = r#"{"method":"m"}"#;
    stage.editor.send(&wrapped_request("1", "proxy/successor", inner));
    let refused = stage.editor.line();
    assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"#), "{refused}");
    stage.editor.send(&wrapped_notification("proxy/successor", inner));
    stage.editor.send(&notification("next", ""));
    assert_eq!(puppets[0].line(), notification("next", ""));
}

/// Checklist 30. It may try again.
#[test]
fn a_proxy_is_not_greeted_as_an_agent() {
    let setup = stage();
    let components = [setup.puppet("only")];
    let mut stage = setup.run("proxy", &components);
    for refused in ["initialize", "session/new"] {
        stage.editor.send(&request("1", refused, GREETING));
        let answer = stage.editor.line();
        let expected = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"#;
        assert!(answer.starts_with(expected), "{refused}: {answer}");
    }
    assert!(!stage.has_entered("only"));
    stage.editor.send(&request("2", "proxy/initialize", GREETING));
    let mut only = stage.enter("only");
    let greeting = only.line();
    assert_eq!(greeting, proxy_greeting(id_of(&greeting), GREETING));
}
