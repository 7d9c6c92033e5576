//! A restarted proxy of an older generation is greeted in the dialect that it used before. Checklist 104.

use serde_json::{Value, json};
use testkit::rpc::{id_of, notification, request, result};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, TestChainBuilder, parse};

use crate::chain::{SessionRequest, kill, status};
use crate::generation::{ALL, P2, P3, P4, P5};
use crate::new_setup;
use crate::scripted_proxy::{
    AGENT_RESULT, GREETING, ScriptedProxy, assert_messages_pass, initialize,
};

/// The editor sets up a session through a proxy.
fn set_up_session(
    chain: &mut TestChain,
    proxy: &mut ScriptedProxy,
    agent: &mut ScriptedComponent,
    session_request: &SessionRequest,
) {
    let SessionRequest { method, params, result: answer } = session_request;
    chain.editor.send(&request("1", method, params));
    let received = proxy.line();
    assert_eq!(received, request(id_of(&received), method, params));
    proxy.send(&proxy.generation.sent("\"own\"", method, params));
    let at_agent = agent.line();
    assert_eq!(at_agent, request(id_of(&at_agent), method, params));
    agent.send(&result(id_of(&at_agent), answer));
    assert_eq!(proxy.line(), result("\"own\"", answer));
    proxy.send(&result(id_of(&received), answer));
    assert_eq!(chain.editor.line(), result("1", answer));
}

/// A restarted proxy is greeted in its own dialect at once, and receives the replay of a session.
fn expect_replay(proxy: &mut ScriptedProxy, pinned: bool, session_request: &SessionRequest) {
    let generation = proxy.generation;
    let greeting = proxy.request(generation.greeting);
    let (params, offered) = (&greeting["params"], generation.offered(&parse(GREETING)));
    let role = generation.offer.iter().fold(params, |it, key| &it[*key]);
    if !generation.offer.is_empty() {
        assert_eq!(*role, json!(true), "{}: {params}", generation.name);
    }
    assert_eq!(params["clientInfo"], offered["clientInfo"]);
    // The conductor may not know where P3 and P3t look for their role. To all others, and to a pinned
    // component, it offers the role only where they look for it.
    if pinned || !["P3", "P3t"].contains(&generation.name) {
        assert_eq!(*params, offered, "{}", generation.name);
    }
    accept_and_expect_replay(proxy, &greeting, session_request);
}

/// The proxy accepts its greeting and receives the replay of a session.
fn accept_and_expect_replay(
    proxy: &mut ScriptedProxy,
    greeting: &Value,
    session_request: &SessionRequest,
) {
    let generation = proxy.generation;
    proxy.forward_greeting(greeting);
    proxy.accept_greeting(greeting);
    let SessionRequest { method, params, result: answer } = session_request;
    let received = proxy.line();
    assert_eq!(received, request(id_of(&received), method, params));
    proxy.send(&generation.sent("\"own\"", method, params));
    assert_eq!(proxy.line(), result("\"own\"", answer));
    proxy.send(&result(id_of(&received), answer));
}

/// Holds for every generation, whether the dialect was probed or pinned.
#[test]
fn a_restarted_proxy_is_greeted_in_the_dialect_it_used_before() {
    for generation in ALL {
        let pin = format!("1={}", generation.name);
        for pinned in [false, true] {
            let (setup, methods) = match pinned {
                true => (new_setup().option(&["--dialect", &pin]), &[generation.greeting][..]),
                false => (new_setup(), generation.probe_greetings()),
            };
            let mut chain = setup.run_named(&["old", "agent"]);
            let (mut proxies, mut agent) = initialize(&mut chain, &[("old", generation, methods)]);
            let session = SessionRequest::new("s");
            set_up_session(&mut chain, &mut proxies[0], &mut agent, &session);
            for _ in 0..2 {
                kill(&proxies[0]);
                proxies[0] = ScriptedProxy::wait_for(&mut chain, "old", generation);
                expect_replay(&mut proxies[0], pinned, &session);
                assert_messages_pass(&mut chain.editor, &mut proxies, &mut agent);
            }
            chain.assert_not_started("agent");
        }
    }
}

/// A process that crashes on the greeting of its predecessor may be another program. The next ones are
/// probed as unknown components, each with the next older greeting.
#[test]
fn a_proxy_that_crashes_on_its_greeting_is_probed_again() {
    for generation in ALL {
        let mut chain = new_setup().option(&["--restarts", "3/600"]).run_named(&["old", "agent"]);
        let (mut proxies, mut agent) =
            initialize(&mut chain, &[("old", generation, generation.probe_greetings())]);
        let session = SessionRequest::new("s");
        set_up_session(&mut chain, &mut proxies[0], &mut agent, &session);
        kill(&proxies[0]);
        for greeting in [generation.greeting, "proxy/initialize"] {
            let mut proxy = ScriptedProxy::wait_for(&mut chain, "old", generation);
            proxy.request(greeting);
            proxy.exit(3);
        }
        proxies[0] = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let greeting = match generation.greeting {
            "_proxy/initialize" => proxies[0].request("_proxy/initialize"),
            // The conductor returns to the greeting on which the component crashed, because its envelope shows that
            // the greeting is right.
            greeting => proxies[0].expect_greeting(&["_proxy/initialize", greeting]),
        };
        accept_and_expect_replay(&mut proxies[0], &greeting, &session);
        assert_messages_pass(&mut chain.editor, &mut proxies, &mut agent);
        let component = status(&chain)["components"][0].take();
        assert_eq!(component["restarts"], 3, "{}: {component}", generation.name);
    }
}

/// A program that was upgraded refuses the old greeting, with any error code. The conductor tries the other
/// greetings on the same process.
#[test]
fn an_upgraded_proxy_is_probed_again() {
    for (old, new) in [(&P4, &P5), (&P2, &P5), (&P5, &P3), (&P3, &P4)] {
        let mut chain = new_setup().run_named(&["old", "agent"]);
        let (mut proxies, mut agent) =
            initialize(&mut chain, &[("old", old, old.probe_greetings())]);
        kill(&proxies[0]);
        let mut proxy = ScriptedProxy::wait_for(&mut chain, "old", new);
        let mut greeting = proxy.request(old.greeting);
        for next in ["proxy/initialize", "_proxy/initialize", "initialize"] {
            if next == old.greeting {
                continue;
            }
            proxy.answer_error(&greeting, r#"{"code":-32000,"message":"What?"}"#);
            greeting = proxy.request(next);
            if next == new.greeting {
                break;
            }
        }
        proxy.forward_greeting(&greeting);
        proxy.accept_greeting(&greeting);
        proxies[0] = proxy;
        assert_messages_pass(&mut chain.editor, &mut proxies, &mut agent);
    }
}

/// The old proxy was greeted with `initialize`. The new program answers that as an agent would. The
/// conductor restarts it and greets it as a proxy.
#[test]
fn a_proxy_that_answers_as_an_agent_after_its_restart_is_restarted() {
    let mut chain = new_setup().run_named(&["old", "agent"]);
    let (mut proxies, mut agent) = initialize(&mut chain, &[("old", &P3, P3.probe_greetings())]);
    kill(&proxies[0]);
    let mut mistaken = chain.wait_for_component("old");
    let greeting = mistaken.request("initialize");
    mistaken.answer(&greeting, AGENT_RESULT);
    let mut proxy = ScriptedProxy::wait_for(&mut chain, "old", &P5);
    let greeting = proxy.request("proxy/initialize");
    proxy.forward_greeting(&greeting);
    proxy.accept_greeting(&greeting);
    proxies[0] = proxy;
    assert_messages_pass(&mut chain.editor, &mut proxies, &mut agent);
}

// SCP: a proxy starts its successor itself. The successor is a relay to the conductor.

const SCP_EDITOR: &str = r#"{"protocolVersion":1,"clientCapabilities":{},"_meta":{"symposium":{"version":"1.0","html_panel":true}}}"#;
const SCP_PROXY: &str = r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0","proxy":true}}}"#;

/// An SCP proxy is greeted, starts the successor that it is given, and initializes it. Returns the request
/// that the proxy answers when its successor has answered.
fn greet_scp_proxy(proxy: &mut ScriptedComponent) -> Value {
    let greeting = proxy.request("initialize");
    proxy.answer(&greeting, SCP_PROXY);
    let proxy_request = proxy.request("_scp/proxy");
    let servers = proxy_request["params"]["servers"].as_array().expect("a list of servers");
    assert_eq!(servers.len(), 1, "{proxy_request}");
    proxy.start_child(&servers[0].clone());
    proxy.child().send(&request("0", "initialize", SCP_EDITOR));
    proxy_request
}

/// The successor has answered, so the SCP proxy is up.
fn finish_scp_handshake(proxy: &mut ScriptedComponent, proxy_request: &Value) {
    let answer = proxy.child().message();
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(0), &json!(1)));
    proxy.answer(proxy_request, "{}");
}

/// Starts a chain of an SCP proxy, which refuses these greetings, and an agent.
fn start_scp_chain(
    setup: TestChainBuilder,
    unknown: &[&str],
) -> (TestChain, ScriptedComponent, ScriptedComponent) {
    let mut chain = setup.run_named(&["walkthrough", "agent"]);
    chain.editor.send(&request("1", "initialize", SCP_EDITOR));
    let mut proxy = chain.wait_for_component("walkthrough");
    for method in unknown {
        let greeting = proxy.request(method);
        proxy.answer_error(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
    }
    let proxy_request = greet_scp_proxy(&mut proxy);
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    agent.answer(&received, AGENT_RESULT);
    finish_scp_handshake(&mut proxy, &proxy_request);
    assert_eq!(chain.editor.message()["id"], 1);
    (chain, proxy, agent)
}

/// The restarted SCP proxy gets a new relay. The conductor answers the replay there, from memory.
#[test]
fn an_scp_proxy_is_restarted_with_a_new_relay() {
    check_restart_with_a_new_relay(new_setup().option(&["--dialect", "1=P0"]), &[]);
    check_restart_with_a_new_relay(new_setup(), &["proxy/initialize", "_proxy/initialize"]);
}

fn check_restart_with_a_new_relay(setup: TestChainBuilder, unknown: &[&str]) {
    let (mut chain, mut proxy, mut agent) = start_scp_chain(setup, unknown);
    let SessionRequest { method, params, result: answer } = SessionRequest::new("s");
    chain.editor.send(&request("1", method, &params));
    let received = proxy.line();
    proxy.child().send(&request("1", method, &params));
    let at_agent = agent.line();
    agent.send(&result(id_of(&at_agent), &answer));
    assert_eq!(proxy.child().line(), result("1", &answer));
    proxy.send(&result(id_of(&received), &answer));
    assert_eq!(chain.editor.line(), result("1", &answer));

    for _ in 0..2 {
        kill(&proxy);
        proxy = chain.wait_for_component("walkthrough");
        let proxy_request = greet_scp_proxy(&mut proxy);
        finish_scp_handshake(&mut proxy, &proxy_request);
        let received = proxy.line();
        assert_eq!(received, request(id_of(&received), method, &params));
        proxy.child().send(&request("1", method, &params));
        assert_eq!(proxy.child().line(), result("1", &answer));
        proxy.send(&result(id_of(&received), &answer));
        // The proxy is live, and messages pass both ways.
        chain.editor.send(&request("2", "session/prompt", "{}"));
        let received = proxy.line();
        assert_eq!(received, request(id_of(&received), "session/prompt", "{}"));
        proxy.child().send(&request("2", "session/prompt", "{}"));
        let at_agent = agent.line();
        assert_eq!(at_agent, request(id_of(&at_agent), "session/prompt", "{}"));
        agent.send(&notification("session/update", "{}"));
        assert_eq!(proxy.child().line(), notification("session/update", "{}"));
        proxy.send(&notification("session/update", "{}"));
        assert_eq!(chain.editor.line(), notification("session/update", "{}"));
        agent.send(&result(id_of(&at_agent), "{}"));
        assert_eq!(proxy.child().line(), result("2", "{}"));
        proxy.send(&result(id_of(&received), "{}"));
        assert_eq!(chain.editor.line(), result("2", "{}"));
    }
}

/// An SCP proxy whose relay is killed is replaced.
#[test]
fn an_scp_proxy_that_lost_its_relay_is_replaced() {
    let setup = new_setup().option(&["--dialect", "1=P0"]);
    let (mut chain, mut proxy, mut agent) = start_scp_chain(setup, &[]);
    chain.editor.send(&request("1", "session/prompt", "{}"));
    proxy.line();
    proxy.child().close();
    assert_eq!(proxy.child().status(), 0);
    let answer = chain.editor.message();
    let cause = "closed the connection to its successor";
    crate::chain::assert_crash(&answer, json!(1), "walkthrough", cause, "restarted");
    testkit::test_chain::assert_gone(proxy.pid, "the old proxy");
    let mut proxy = chain.wait_for_component("walkthrough");
    let proxy_request = greet_scp_proxy(&mut proxy);
    finish_scp_handshake(&mut proxy, &proxy_request);
    chain.editor.send(&notification("_x/note", "{}"));
    assert_eq!(proxy.line(), notification("_x/note", "{}"));
    proxy.child().send(&notification("_x/note", "{}"));
    assert_eq!(agent.line(), notification("_x/note", "{}"));
}
