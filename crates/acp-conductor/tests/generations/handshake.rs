//! A handshake in an old spelling leaves no trace in other components.

use testkit::rpc::{id_of, notification, request, result};
use testkit::test_chain::parse;

use crate::generation::{ALL, P1, P2, P3, P3T, P4, P5, mentions_role};
use crate::new_setup;
use crate::scripted_proxy::{AGENT_RESULT, GREETING, ScriptedProxy, initialize};

/// Checklist 23: envelopes to a P3 or P4 proxy always have `params`; without them published proxies crash.
#[test]
fn envelopes_to_older_proxies_always_have_params() {
    for (generation, none) in [(&P4, "null"), (&P3, "null"), (&P2, "{}"), (&P1, "{}")] {
        let mut chain = new_setup().run_agent(&["old", "agent"]);
        let greetings = ["proxy/initialize", generation.greeting];
        let (mut proxies, mut agent) = initialize(&mut chain, &[("old", generation, &greetings)]);
        let old = &mut proxies[0];
        agent.send(&notification("_x/note", ""));
        assert_eq!(old.line(), generation.received_notification("_x/note", none));
        agent.send(&request("1", "_x/ask", ""));
        let received_request = old.line();
        assert_eq!(received_request, generation.received(id_of(&received_request), "_x/ask", none));
        old.send(&result(id_of(&received_request), "null"));
        assert_eq!(agent.line(), result("1", "null"));
    }
}

/// Checklist 24, 51: the metadata of an envelope concerns one hop only, in either spelling.
#[test]
fn the_metadata_of_an_envelope_is_not_passed_on() {
    for (generation, key) in [(&P5, "meta"), (&P5, "_meta"), (&P4, "meta"), (&P4, "_meta")] {
        let pin = format!("1={}", generation.name);
        let mut chain = new_setup().option(&["--dialect", &pin]).run_agent(&["old", "agent"]);
        let (mut proxies, mut agent) =
            initialize(&mut chain, &[("old", generation, &[generation.greeting])]);
        let plain = generation.sent_notification("_x/note", r#"{"_meta":{"inner":1}}"#);
        let with_meta = format!(r#"{},"{key}":{{"hop":"only"}}}}}}"#, &plain[..plain.len() - 2]);
        proxies[0].send(&with_meta);
        assert_eq!(agent.line(), notification("_x/note", r#"{"_meta":{"inner":1}}"#));
    }
}

/// Checklist 25: a proxy that was offered the role must accept it.
#[test]
fn a_p3_proxy_that_does_not_accept_the_capability_fails() {
    for (generation, pinned) in [(&P3, true), (&P3, false), (&P3T, true), (&P3T, false)] {
        let pin = format!("1={}", generation.name);
        let setup = new_setup();
        let setup = if pinned { setup.option(&["--dialect", &pin]) } else { setup };
        let mut chain = setup.run_named(&["old", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let greetings: &[&str] =
            if pinned { &["initialize"] } else { &["proxy/initialize", "initialize"] };
        let greeting = old.expect_greeting(greetings);
        old.forward_greeting(&greeting);
        let mut agent = chain.wait_for_component("agent");
        let received = agent.request("initialize");
        agent.answer(&received, AGENT_RESULT);
        let answer = old.message();
        old.answer(&greeting, &answer["result"].to_string());
        let answer = chain.editor.message();
        let message = answer["error"]["message"].as_str().expect("an error");
        assert!(message.contains("component 'old' is not a proxy"), "{message}");
        assert!(message.contains("did not accept the proxy capability"), "{message}");
    }
}

/// The two oldest documents contradict themselves about that, so the conductor does not require it.
#[test]
fn a_p2_or_p1_proxy_need_not_accept_the_capability() {
    for generation in [&P2, &P1] {
        let mut chain = new_setup().run_agent(&["old", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let greeting = old.expect_greeting(&["proxy/initialize", "initialize"]);
        old.forward_greeting(&greeting);
        let mut agent = chain.wait_for_component("agent");
        let received = agent.request("initialize");
        agent.answer(&received, AGENT_RESULT);
        let answer = old.message();
        old.answer(&greeting, &answer["result"].to_string());
        assert_eq!(
            chain.editor.message(),
            parse(&result("1", AGENT_RESULT)),
            "{}",
            generation.name
        );
    }
}

/// Checklist 14, 26: the agent does not see the offer, and the editor does not see the acceptance.
/// Checklist 27: the editor's own members in the same place stay.
#[test]
fn only_the_proxy_sees_the_offer_of_its_role() {
    let own = r#"{"protocolVersion":1,"clientCapabilities":{"fs":{},"_meta":{"symposium":{"version":"1.0","file_comment":true},"own":1}},"_meta":{"symposium":{"version":"2.0","html_panel":true},"traceparent":"00-ab-cd-01"}}"#;
    for received_request in [GREETING, own] {
        for generation in ALL {
            let mut chain = new_setup().run_agent(&["old", "agent"]);
            chain.editor.send(&request("1", "initialize", received_request));
            let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
            let greeting = match generation.name {
                "P5" => old.request("proxy/initialize"),
                _ => old.expect_greeting(&["proxy/initialize", generation.greeting]),
            };
            let received = &greeting["params"];
            if received_request == own {
                let symposium = &received["_meta"]["symposium"];
                assert_eq!(symposium["html_panel"], true, "{received}");
                assert_eq!(symposium["version"], "2.0", "{received}");
                let symposium = &received["clientCapabilities"]["_meta"]["symposium"];
                assert_eq!(symposium["file_comment"], true, "{received}");
            }
            old.forward_greeting(&greeting);
            let mut agent = chain.wait_for_component("agent");
            let forwarded_request = agent.request("initialize");
            assert_eq!(forwarded_request["params"], parse(received_request), "{}", generation.name);
            agent.answer(&forwarded_request, AGENT_RESULT);
            old.accept_greeting(&greeting);
            let answer = chain.editor.message();
            assert!(!mentions_role(&answer), "{answer}");
            assert_eq!(answer, parse(&result("1", AGENT_RESULT)), "{}", generation.name);
        }
    }
}

const V2: &str = r#"{"protocolVersion":2,"info":{"name":"e","version":"1"},"capabilities":{"x":{}},"_meta":{"t":1}}"#;

/// Checklist 112: older proxies support ACP v1 only. The conductor requests a version that all support.
#[test]
fn an_older_proxy_lowers_the_chain_to_v1() {
    for generation in [&P4, &P3] {
        let mut chain = new_setup().run_agent(&["new", "old", "agent"]);
        chain.editor.send(&request("1", "initialize", V2));
        let mut new = ScriptedProxy::wait_for(&mut chain, "new", &P5);
        let first = new.request("proxy/initialize");
        let received = P5.offered(&parse(V2));
        assert_eq!(first["params"], received, "a current proxy is asked for v2");
        new.forward_greeting(&first);
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let greeting = old.expect_greeting(&["proxy/initialize", generation.greeting]);
        let params = &greeting["params"];
        assert_eq!(params["protocolVersion"], 1, "{params}");
        assert_eq!(params["clientInfo"]["name"], "e", "{params}");
        assert_eq!(params["_meta"]["t"], 1, "{params}");
        assert!(params["clientCapabilities"].is_object(), "{params}");
        assert!(params.get("info").is_none() && params.get("capabilities").is_none(), "{params}");
        old.forward_greeting(&greeting);
        let mut agent = chain.wait_for_component("agent");
        let received_request = agent.request("initialize");
        assert_eq!(received_request["params"]["protocolVersion"], 1, "{received_request}");
        assert!(!mentions_role(&received_request["params"]), "{received_request}");
        agent.answer(&received_request, AGENT_RESULT);
        old.accept_greeting(&greeting);
        new.accept_greeting(&first);
        assert_eq!(chain.editor.message(), parse(&result("1", AGENT_RESULT)));
    }
}
