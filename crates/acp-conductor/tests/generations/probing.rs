//! The generation of a proxy is recognized by its reaction to greetings that it does not know.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::rpc::{error, notification, request, result};
use testkit::test_chain::parse;

use crate::generation::{ALL, Generation, P1, P2, P3, P3T, P4, P5};
use crate::new_setup;
use crate::scripted_proxy::{
    AGENT_RESULT, GREETING, ScriptedProxy, assert_messages_pass, complete_handshake, initialize,
};

/// The first message that the agent and the editor receive is their own handshake, so nothing of the probe
/// reaches them. The proxy is a single process all the time.
fn assert_recognized_without_restart(generation: &'static Generation) {
    let mut chain = new_setup().run_agent(&["old", "agent"]);
    let (mut proxies, mut agent) =
        initialize(&mut chain, &[("old", generation, generation.probe_greetings())]);
    assert_messages_pass(&mut chain.editor, &mut proxies, &mut agent);
    chain.assert_not_started("old");
}

#[test]
fn a_p5_proxy_is_recognized_by_its_first_greeting() {
    assert_recognized_without_restart(&P5);
}

/// Checklist 15, 20, 21.
#[test]
fn a_p4_proxy_needs_no_configuration() {
    assert_recognized_without_restart(&P4);
}

/// Checklist 16, 20, 21.
#[test]
fn a_p3_proxy_needs_no_configuration() {
    assert_recognized_without_restart(&P3);
}

/// Checklist 17.
#[test]
fn a_p3t_proxy_needs_no_configuration() {
    assert_recognized_without_restart(&P3T);
}

/// Checklist 18.
#[test]
fn a_p2_proxy_needs_no_configuration() {
    assert_recognized_without_restart(&P2);
}

/// Checklist 19.
#[test]
fn a_p1_proxy_needs_no_configuration() {
    assert_recognized_without_restart(&P1);
}

/// Checklist 17: the greeting offers the role wherever an older proxy may look for it, but not in
/// `capabilities`, which has another meaning in ACP v2.
#[test]
fn the_greeting_offers_the_role_in_every_place_at_once() {
    let mut chain = new_setup().run_agent(&["old", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let mut proxy = ScriptedProxy::wait_for(&mut chain, "old", &P3);
    let greeting = proxy.expect_greeting(&["proxy/initialize", "initialize"]);
    let editor = parse(GREETING);
    let expected = [&P3, &P3T, &P1].iter().fold(editor, |params, it| it.offered(&params));
    assert_eq!(greeting["params"], expected);
}

/// Checklist 31: noise on a proxy's stdout is skipped, also while its generation is unknown.
#[test]
fn noise_on_stdout_does_not_break_the_probe() {
    let mut chain = new_setup().run_agent(&["tee", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let mut tee = ScriptedProxy::wait_for(&mut chain, "tee", &P3);
    tee.send("tee 0.1.0 listening");
    let greeting = tee.request("proxy/initialize");
    tee.send("\u{1b}[32mINFO\u{1b}[0m an unknown method: proxy/initialize");
    tee.forward_unknown(&greeting);
    let greeting = tee.request("initialize");
    tee.send("INFO initialize");
    tee.forward_greeting(&greeting);
    tee.send("INFO waiting");
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    agent.answer(&received, AGENT_RESULT);
    tee.accept_greeting(&greeting);
    tee.send("INFO ready");
    assert_eq!(chain.editor.message(), parse(&result("1", AGENT_RESULT)));
    let mut proxies = [tee];
    assert_messages_pass(&mut chain.editor, &mut proxies, &mut agent);
}

/// A component may refuse a greeting itself instead of passing it on. sacp-conductor 5 does, and so do
/// programs that are a proxy or an agent depending on their greeting.
#[test]
fn a_component_that_refuses_a_greeting_receives_the_next_older_one() {
    for generation in [&P4, &P3, &P1] {
        let mut chain = new_setup().run_agent(&["old", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let order = ["proxy/initialize", "_proxy/initialize", "initialize"];
        let greeting = order.iter().find_map(|method| {
            let greeting = old.request(method);
            if *method == generation.greeting {
                return Some(greeting);
            }
            old.answer_error(&greeting, r#"{"code":-32600,"message":"Invalid request"}"#);
            None
        });
        let greeting = greeting.expect("one of the three");
        let mut agent = complete_handshake(&mut chain, &mut old, &greeting);
        assert_messages_pass(&mut chain.editor, &mut [old], &mut agent);
    }
}

/// A component may send the editor a request before its handshake is complete. Messages from the editor wait
/// meanwhile and keep their order.
#[test]
fn messages_during_the_probe_are_delivered_in_the_right_form() {
    for generation in ALL {
        let mut chain = new_setup().run_agent(&["old", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        chain.editor.send(&notification("_x/first", ""));
        chain.editor.send(&notification("_x/second", ""));
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let mut greeting = old.request("proxy/initialize");
        old.send(&request("7", "_x/early", "{}"));
        let early = chain.editor.message();
        assert_eq!(early["method"], "_x/early", "{early}");
        chain.editor.send(&result(&early["id"].to_string(), "1.10"));
        assert_eq!(old.line(), result("7", "1.10"));
        if generation.greeting != "proxy/initialize" {
            old.forward_unknown(&greeting);
            greeting = old.request(generation.greeting);
        }
        old.forward_greeting(&greeting);
        assert_eq!(old.line(), notification("_x/first", ""), "{}", generation.name);
        assert_eq!(old.line(), notification("_x/second", ""), "{}", generation.name);
    }
}

/// Checklist 7, 20: an agent in the place of a proxy. The error names the component and the greetings that
/// were tried. The real agent receives nothing.
#[test]
fn an_agent_in_the_place_of_a_proxy_is_reported_with_the_greetings_that_were_tried() {
    let mut chain = new_setup().run_named(&["eliza", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let (mut eliza, mut agent) =
        (chain.wait_for_component("eliza"), chain.wait_for_component("agent"));
    for method in ["proxy/initialize", "_proxy/initialize"] {
        let greeting = eliza.request(method);
        eliza
            .answer_error(&greeting, r#"{"code":-32601,"message":"Method not found","data":"so"}"#);
    }
    let greeting = eliza.request("initialize");
    eliza.answer(&greeting, AGENT_RESULT);
    let answer = chain.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32603)));
    let message = answer["error"]["message"].as_str().expect("a message");
    for part in [
        "component 'eliza' is not a proxy",
        "proxy/initialize: the error {\"code\":-32601",
        "_proxy/initialize: the error",
        "initialize with the proxy capability: a result that does not accept",
        "the last one is the agent",
    ] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    // Checklist 6: later requests are answered.
    chain.editor.send(&request("2", "session/new", "{}"));
    let answer = chain.editor.message();
    assert!(answer["error"].is_object(), "{answer}");
    chain.editor.close();
    assert_eq!(agent.next_line(), None, "the agent has received nothing");
}

/// Checklist 21, 95: the error code of a refusal does not matter.
#[test]
fn a_refusal_with_any_code_leads_to_the_next_older_greeting() {
    for (code, generation) in [(-32000, &P3), (-32603, &P4), (7, &P1), (-32800, &P3T)] {
        let mut chain = new_setup().run_agent(&["old", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let mut greeting = old.request("proxy/initialize");
        for next in ["_proxy/initialize", "initialize"] {
            if greeting["method"] == generation.greeting {
                break;
            }
            old.answer_error(&greeting, &format!(r#"{{"code":{code},"message":"what?"}}"#));
            greeting = old.request(next);
        }
        let mut agent = complete_handshake(&mut chain, &mut old, &greeting);
        assert_messages_pass(&mut chain.editor, &mut [old], &mut agent);
    }
}

/// Checklist 21, 95: a component that refuses one greeting and does not answer the next is restarted and greeted
/// with the last one. The error code of the refusal does not shorten the timeout of the next greeting.
#[test]
fn a_component_that_is_silent_after_a_refusal_is_restarted_with_an_older_greeting() {
    let began = Instant::now();
    let mut chain = new_setup().option(&["--init-timeout", "9"]).run_agent(&["old", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let mut first = chain.wait_for_component("old");
    let greeting = first.request("proxy/initialize");
    first.answer_error(&greeting, r#"{"code":-32000,"message":"what?"}"#);
    first.request("_proxy/initialize");
    assert_eq!(first.message()["method"], "$/cancel_request");
    let mut old = ScriptedProxy::wait_for(&mut chain, "old", &P3);
    // The component had two thirds of the time that was left when it refused the first greeting.
    assert!(began.elapsed() >= Duration::from_secs(6), "{:?}", began.elapsed());
    let greeting = old.request("initialize");
    let mut agent = complete_handshake(&mut chain, &mut old, &greeting);
    assert_messages_pass(&mut chain.editor, &mut [old], &mut agent);
}

/// Checklist 6: the editor receives the component's first error, unchanged.
#[test]
fn the_editor_receives_the_first_error_when_every_greeting_is_refused() {
    for generation in [&P5, &P4] {
        let mut chain = new_setup().run_agent(&["old", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let (greeting, rest) = match generation.name {
            "P5" => (old.request("proxy/initialize"), &["_proxy/initialize", "initialize"][..]),
            _ => (
                old.expect_greeting(&["proxy/initialize", "_proxy/initialize"]),
                &["initialize"][..],
            ),
        };
        let refusal = r#"{"code":-32000,"message":"log in first","data":{"n":1.10},"x":[]}"#;
        old.answer_error(&greeting, refusal);
        for method in rest {
            let greeting = old.request(method);
            old.answer_error(&greeting, r#"{"code":-32600,"message":"Invalid request"}"#);
        }
        assert_eq!(chain.editor.line(), error("1", refusal));
    }
}

/// Checklist 6: the agent refuses `initialize`, and its proxy passes the error on. No greeting was refused.
#[test]
fn an_initialize_error_of_the_agent_reaches_the_editor_unchanged() {
    for generation in ALL {
        let mut chain = new_setup().run_agent(&["old", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let greeting = old.expect_greeting(generation.probe_greetings());
        old.forward_greeting(&greeting);
        let mut agent = chain.wait_for_component("agent");
        let received = agent.request("initialize");
        let refusal = r#"{"code":-32000,"message":"log in first","data":{"n":1.10},"x":[]}"#;
        agent.answer_error(&received, refusal);
        assert_eq!(old.line(), error("\"forward\"", refusal));
        old.answer_error(&greeting, refusal);
        assert_eq!(chain.editor.line(), error("1", refusal), "{}", generation.name);
    }
}
