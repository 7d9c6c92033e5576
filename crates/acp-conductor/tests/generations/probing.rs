//! A proxy is found out by what it does with a greeting that it does not know.

use std::time::Duration;

use serde_json::json;
use testkit::rpc::{error, notification, request, result};
use testkit::stage::parse;

use crate::players::{GREETED, GREETING, Proxy, initialize, walk};
use crate::spelling::{ALL, Generation, P1, P2, P3, P3T, P4, P5};
use crate::stage;

/// With what a component is greeted of which nothing is known, until it understands.
fn greetings(generation: &Generation) -> &'static [&'static str] {
    match generation.greeting {
        "proxy/initialize" => &["proxy/initialize"],
        "_proxy/initialize" => &["proxy/initialize", "_proxy/initialize"],
        _ => &["proxy/initialize", "initialize"],
    }
}

/// The first thing that the agent and the editor see is their own handshake, so nothing of the probe
/// has reached them; and the proxy on its strings is one process all the time.
fn check(generation: &'static Generation) {
    let mut stage = stage().agent(&["old", "agent"]);
    let (mut proxies, mut agent) =
        initialize(&mut stage, &[("old", generation, greetings(generation))]);
    walk(&mut stage.editor, &mut proxies, &mut agent);
    assert!(!stage.has_entered("old"), "{} was started twice", generation.name);
}

#[test]
fn a_proxy_of_the_current_generation_is_understood_at_once() {
    check(&P5);
}

/// Checklist 15, 20, 21.
#[test]
fn a_p4_proxy_needs_no_configuration() {
    check(&P4);
}

/// Checklist 16, 20, 21.
#[test]
fn a_p3_proxy_needs_no_configuration() {
    check(&P3);
}

/// Checklist 17.
#[test]
fn a_p3t_proxy_needs_no_configuration() {
    check(&P3T);
}

/// Checklist 18.
#[test]
fn a_p2_proxy_needs_no_configuration() {
    check(&P2);
}

/// Checklist 19.
#[test]
fn a_p1_proxy_needs_no_configuration() {
    check(&P1);
}

/// Checklist 17: what it gets is offered wherever a proxy of old may look for it, but not in
/// `capabilities`, which means something else in ACP v2.
#[test]
fn the_role_is_offered_in_every_place_at_once() {
    let mut stage = stage().agent(&["old", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let mut proxy = Proxy::enter(&mut stage, "old", &P3);
    let greeting = proxy.is_greeted(&["proxy/initialize", "initialize"]);
    let editor = parse(GREETING);
    let expected = [&P3, &P3T, &P1].iter().fold(editor, |params, it| it.offered(&params));
    assert_eq!(greeting["params"], expected);
}

/// Checklist 31: what published proxies write on stdout beside the protocol is passed over, also
/// while it is not known what they speak.
#[test]
fn noise_on_stdout_breaks_no_probe() {
    let mut stage = stage().agent(&["tee", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let mut tee = Proxy::enter(&mut stage, "tee", &P3);
    tee.send("tee 0.1.0 listening");
    let greeting = tee.request("proxy/initialize");
    tee.send("\u{1b}[32mINFO\u{1b}[0m an unknown method: proxy/initialize");
    tee.passes_on(&greeting);
    let greeting = tee.request("initialize");
    tee.send("INFO initialize");
    tee.forwards(&greeting);
    tee.send("INFO waiting");
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(&asked, GREETED);
    tee.accepts(&greeting);
    tee.send("INFO ready");
    assert_eq!(stage.editor.message(), parse(&result("1", GREETED)));
    let mut proxies = [tee];
    walk(&mut stage.editor, &mut proxies, &mut agent);
}

/// A component may refuse a greeting by itself instead of passing it on: sacp-conductor 5 does, and
/// so do programs that are a proxy or an agent as they are greeted.
#[test]
fn a_component_that_refuses_a_greeting_is_sent_the_next_older_one() {
    for generation in [&P4, &P3, &P1] {
        let mut stage = stage().agent(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let order = ["proxy/initialize", "_proxy/initialize", "initialize"];
        let greeting = order.iter().find_map(|method| {
            let greeting = old.request(method);
            if *method == generation.greeting {
                return Some(greeting);
            }
            old.fail(&greeting, r#"{"code":-32600,"message":"Invalid request"}"#);
            None
        });
        let greeting = greeting.expect("one of the three");
        old.forwards(&greeting);
        let mut agent = stage.enter("agent");
        let asked = agent.request("initialize");
        agent.answer(&asked, GREETED);
        old.accepts(&greeting);
        assert_eq!(stage.editor.message(), parse(&result("1", GREETED)), "{}", generation.name);
        walk(&mut stage.editor, &mut [old], &mut agent);
    }
}

/// Note 6 of the probe: a component may ask its editor something before it has finished its
/// handshake, and what the editor sends it meanwhile waits and keeps its order.
#[test]
fn what_is_said_during_the_probe_is_neither_lost_nor_misspelt() {
    for generation in ALL {
        let mut stage = stage().agent(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        stage.editor.send(&notification("_x/first", ""));
        stage.editor.send(&notification("_x/second", ""));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let mut greeting = old.request("proxy/initialize");
        old.send(&request("7", "_x/early", "{}"));
        let early = stage.editor.message();
        assert_eq!(early["method"], "_x/early", "{early}");
        stage.editor.send(&result(&early["id"].to_string(), "1.10"));
        assert_eq!(old.line(), result("7", "1.10"));
        if generation.greeting != "proxy/initialize" {
            old.passes_on(&greeting);
            greeting = old.request(generation.greeting);
        }
        old.forwards(&greeting);
        assert_eq!(old.line(), notification("_x/first", ""), "{}", generation.name);
        assert_eq!(old.line(), notification("_x/second", ""), "{}", generation.name);
    }
}

/// Checklist 7, 20: an agent in a proxy's place. The editor is told which component, and what was
/// tried; the real agent never hears of it.
#[test]
fn an_agent_in_a_proxys_place_is_named_with_all_that_was_tried() {
    let mut stage = stage().named(&["eliza", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let (mut eliza, mut agent) = (stage.enter("eliza"), stage.enter("agent"));
    for method in ["proxy/initialize", "_proxy/initialize"] {
        let greeting = eliza.request(method);
        eliza.fail(&greeting, r#"{"code":-32601,"message":"Method not found","data":"so"}"#);
    }
    let greeting = eliza.request("initialize");
    eliza.answer(&greeting, GREETED);
    let answer = stage.editor.message();
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
    // Checklist 6: nothing hangs after that.
    stage.editor.send(&request("2", "session/new", "{}"));
    let answer = stage.editor.message();
    assert!(answer["error"].is_object(), "{answer}");
    stage.editor.leave();
    assert_eq!(agent.next_line(), None, "the agent was never spoken to");
}

/// Checklist 21, 95: whatever the code of a refusal, the next older greeting is tried.
#[test]
fn a_refusal_with_any_code_leads_to_the_next_older_greeting() {
    for (code, generation) in [(-32000, &P3), (-32603, &P4), (7, &P1), (-32800, &P3T)] {
        let mut stage = stage().agent(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let mut greeting = old.request("proxy/initialize");
        for next in ["_proxy/initialize", "initialize"] {
            if greeting["method"] == generation.greeting {
                break;
            }
            old.fail(&greeting, &format!(r#"{{"code":{code},"message":"what?"}}"#));
            greeting = old.request(next);
        }
        old.forwards(&greeting);
        let mut agent = stage.enter("agent");
        let asked = agent.request("initialize");
        agent.answer(&asked, GREETED);
        old.accepts(&greeting);
        assert_eq!(stage.editor.message(), parse(&result("1", GREETED)), "{}", generation.name);
        walk(&mut stage.editor, &mut [old], &mut agent);
    }
}

/// Checklist 21, 95: nor does the code of a refusal shorten the time for the next greeting.
#[test]
fn a_proxy_may_take_its_time_after_a_refusal_with_any_code() {
    let begin = |generation: &'static Generation| {
        let mut stage = stage().agent(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let mut greeting = old.request("proxy/initialize");
        for next in ["_proxy/initialize", "initialize"] {
            if greeting["method"] != generation.greeting {
                old.fail(&greeting, r#"{"code":-32000,"message":"what?"}"#);
                greeting = old.request(next);
            }
        }
        (stage, old, greeting)
    };
    let mut slow = [&P4, &P3].map(begin);
    for (_, old, _) in &mut slow {
        assert_eq!(old.message()["method"], "$/cancel_request");
    }
    // Time itself is what is tested here: both are slower than a proxy is that will never answer.
    std::thread::sleep(Duration::from_millis(3000));
    for (mut stage, mut old, greeting) in slow {
        old.forwards(&greeting);
        let mut agent = stage.enter("agent");
        let asked = agent.request("initialize");
        agent.answer(&asked, GREETED);
        old.accepts(&greeting);
        assert_eq!(stage.editor.message(), parse(&result("1", GREETED)));
        walk(&mut stage.editor, &mut [old], &mut agent);
    }
}

/// Checklist 21: a component that refuses one greeting with an error of its own and is silent on the next is
/// started again for the last one, like any other.
#[test]
fn a_component_that_is_silent_after_a_refusal_is_begun_with_an_older_greeting() {
    let mut stage = stage().option(&["--init-timeout", "9"]).agent(&["old", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let mut first = stage.enter("old");
    let greeting = first.request("proxy/initialize");
    first.fail(&greeting, r#"{"code":-32000,"message":"what?"}"#);
    first.request("_proxy/initialize");
    assert_eq!(first.message()["method"], "$/cancel_request");
    let mut old = Proxy::enter(&mut stage, "old", &P3);
    let greeting = old.request("initialize");
    old.forwards(&greeting);
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(&asked, GREETED);
    old.accepts(&greeting);
    assert_eq!(stage.editor.message(), parse(&result("1", GREETED)));
    walk(&mut stage.editor, &mut [old], &mut agent);
}

/// Checklist 6: when every greeting was refused, the editor gets the component's first error as it is.
#[test]
fn the_first_error_is_passed_on_when_every_greeting_was_refused() {
    for generation in [&P5, &P4] {
        let mut stage = stage().agent(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let (greeting, rest) = match generation.name {
            "P5" => (old.request("proxy/initialize"), &["_proxy/initialize", "initialize"][..]),
            _ => (old.is_greeted(&["proxy/initialize", "_proxy/initialize"]), &["initialize"][..]),
        };
        let refusal = r#"{"code":-32000,"message":"log in first","data":{"n":1.10},"x":[]}"#;
        old.fail(&greeting, refusal);
        for method in rest {
            let greeting = old.request(method);
            old.fail(&greeting, r#"{"code":-32600,"message":"Invalid request"}"#);
        }
        assert_eq!(stage.editor.line(), error("1", refusal));
    }
}

/// Checklist 6: the agent refuses `initialize`, and its proxy passes that on: no greeting was refused.
#[test]
fn an_error_of_the_agent_is_passed_on_as_it_is() {
    for generation in ALL {
        let mut stage = stage().agent(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let greeting = old.is_greeted(greetings(generation));
        old.forwards(&greeting);
        let mut agent = stage.enter("agent");
        let asked = agent.request("initialize");
        let refusal = r#"{"code":-32000,"message":"log in first","data":{"n":1.10},"x":[]}"#;
        agent.fail(&asked, refusal);
        assert_eq!(old.line(), error("\"forward\"", refusal));
        old.fail(&greeting, refusal);
        assert_eq!(stage.editor.line(), error("1", refusal), "{}", generation.name);
    }
}
