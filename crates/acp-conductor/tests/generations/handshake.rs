//! What a handshake in an old spelling leaves behind: nothing.

use testkit::rpc::{id_of, notification, request, result};
use testkit::stage::parse;

use crate::players::{GREETED, GREETING, Proxy, initialize};
use crate::spelling::{ALL, P1, P2, P3, P3T, P4, P5, mentions_role};
use crate::stage;

/// Checklist 23: envelopes to a P3 or P4 proxy always have `params`; without, published ones end.
#[test]
fn an_envelope_has_params_where_a_proxy_would_end_without() {
    for (generation, none) in [(&P4, "null"), (&P3, "null"), (&P2, "{}"), (&P1, "{}")] {
        let mut stage = stage().agent(&["old", "agent"]);
        let greetings = ["proxy/initialize", generation.greeting];
        let (mut proxies, mut agent) = initialize(&mut stage, &[("old", generation, &greetings)]);
        let old = &mut proxies[0];
        agent.send(&notification("_x/note", ""));
        assert_eq!(old.line(), generation.received_note("_x/note", none));
        agent.send(&request("1", "_x/ask", ""));
        let asked = old.line();
        assert_eq!(asked, generation.received(id_of(&asked), "_x/ask", none));
        old.send(&result(id_of(&asked), "null"));
        assert_eq!(agent.line(), result("1", "null"));
    }
}

/// Checklist 24, 51: an envelope's metadata is of its hop, in either spelling.
#[test]
fn an_envelope_may_have_metadata_of_its_own_in_either_spelling() {
    for (generation, key) in [(&P5, "meta"), (&P5, "_meta"), (&P4, "meta"), (&P4, "_meta")] {
        let pin = format!("1={}", generation.name);
        let mut stage = stage().option(&["--dialect", &pin]).agent(&["old", "agent"]);
        let (mut proxies, mut agent) =
            initialize(&mut stage, &[("old", generation, &[generation.greeting])]);
        let plain = generation.sent_note("_x/note", r#"{"_meta":{"inner":1}}"#);
        let with_meta = format!(r#"{},"{key}":{{"hop":"only"}}}}}}"#, &plain[..plain.len() - 2]);
        proxies[0].send(&with_meta);
        assert_eq!(agent.line(), notification("_x/note", r#"{"_meta":{"inner":1}}"#));
    }
}

/// Checklist 25: who was offered the role must accept it.
#[test]
fn a_proxy_of_the_capability_that_does_not_accept_it_fails() {
    for (generation, pinned) in [(&P3, true), (&P3, false), (&P3T, true), (&P3T, false)] {
        let pin = format!("1={}", generation.name);
        let setup = stage();
        let setup = if pinned { setup.option(&["--dialect", &pin]) } else { setup };
        let mut stage = setup.named(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let greetings: &[&str] =
            if pinned { &["initialize"] } else { &["proxy/initialize", "initialize"] };
        let greeting = old.is_greeted(greetings);
        old.forwards(&greeting);
        let mut agent = stage.enter("agent");
        let asked = agent.request("initialize");
        agent.answer(&asked, GREETED);
        let answer = old.message();
        old.answer(&greeting, &answer["result"].to_string());
        let answer = stage.editor.message();
        let message = answer["error"]["message"].as_str().expect("an error");
        assert!(message.contains("component 'old' is not a proxy"), "{message}");
        assert!(message.contains("did not accept the proxy capability"), "{message}");
    }
}

/// The two oldest documents contradict themselves on that, so there it is not asked for.
#[test]
fn but_the_two_oldest_need_not() {
    for generation in [&P2, &P1] {
        let mut stage = stage().agent(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let greeting = old.is_greeted(&["proxy/initialize", "initialize"]);
        old.forwards(&greeting);
        let mut agent = stage.enter("agent");
        let asked = agent.request("initialize");
        agent.answer(&asked, GREETED);
        let answer = old.message();
        old.answer(&greeting, &answer["result"].to_string());
        assert_eq!(stage.editor.message(), parse(&result("1", GREETED)), "{}", generation.name);
    }
}

/// Checklist 14, 26: the agent sees no offer, the editor no acceptance, and neither a trace of them.
/// Checklist 27: what the editor says of itself in the same place stays.
#[test]
fn offer_and_acceptance_are_seen_by_nobody_else() {
    let own = r#"{"protocolVersion":1,"clientCapabilities":{"fs":{},"_meta":{"symposium":{"version":"1.0","file_comment":true},"own":1}},"_meta":{"symposium":{"version":"2.0","html_panel":true},"traceparent":"00-ab-cd-01"}}"#;
    for asked in [GREETING, own] {
        for generation in ALL {
            let mut stage = stage().agent(&["old", "agent"]);
            stage.editor.send(&request("1", "initialize", asked));
            let mut old = Proxy::enter(&mut stage, "old", generation);
            let greeting = match generation.name {
                "P5" => old.request("proxy/initialize"),
                _ => old.is_greeted(&["proxy/initialize", generation.greeting]),
            };
            let told = &greeting["params"];
            if asked == own {
                let symposium = &told["_meta"]["symposium"];
                assert_eq!(symposium["html_panel"], true, "{told}");
                assert_eq!(symposium["version"], "2.0", "{told}");
                let symposium = &told["clientCapabilities"]["_meta"]["symposium"];
                assert_eq!(symposium["file_comment"], true, "{told}");
            }
            old.forwards(&greeting);
            let mut agent = stage.enter("agent");
            let question = agent.request("initialize");
            assert_eq!(question["params"], parse(asked), "{}", generation.name);
            agent.answer(&question, GREETED);
            old.accepts(&greeting);
            let answer = stage.editor.message();
            assert!(!mentions_role(&answer), "{answer}");
            assert_eq!(answer, parse(&result("1", GREETED)), "{}", generation.name);
        }
    }
}

const V2: &str = r#"{"protocolVersion":2,"info":{"name":"e","version":"1"},"capabilities":{"x":{}},"_meta":{"t":1}}"#;

/// Checklist 112: proxies of old know ACP v1 only. The chain is asked for what all can speak.
#[test]
fn a_proxy_of_old_brings_the_chain_to_v1() {
    for generation in [&P4, &P3] {
        let mut stage = stage().agent(&["new", "old", "agent"]);
        stage.editor.send(&request("1", "initialize", V2));
        let mut new = Proxy::enter(&mut stage, "new", &P5);
        let first = new.request("proxy/initialize");
        let asked = P5.offered(&parse(V2));
        assert_eq!(first["params"], asked, "one of today can be asked for v2");
        new.forwards(&first);
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let greeting = old.is_greeted(&["proxy/initialize", generation.greeting]);
        let params = &greeting["params"];
        assert_eq!(params["protocolVersion"], 1, "{params}");
        assert_eq!(params["clientInfo"]["name"], "e", "{params}");
        assert_eq!(params["_meta"]["t"], 1, "{params}");
        assert!(params["clientCapabilities"].is_object(), "{params}");
        assert!(params.get("info").is_none() && params.get("capabilities").is_none(), "{params}");
        old.forwards(&greeting);
        let mut agent = stage.enter("agent");
        let question = agent.request("initialize");
        assert_eq!(question["params"]["protocolVersion"], 1, "{question}");
        assert!(!mentions_role(&question["params"]), "{question}");
        agent.answer(&question, GREETED);
        old.accepts(&greeting);
        new.accepts(&first);
        assert_eq!(stage.editor.message(), parse(&result("1", GREETED)));
    }
}
