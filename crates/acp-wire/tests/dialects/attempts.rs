//! Which greeting is tried next, what is known of earlier attempts, and a second handshake.

use acp_wire::Side;
use acp_wire::dialect::{Generation, Proxy, generation};

use crate::probing::error;
use crate::{EXAMPLES, INITIALIZE, Link, RESULT, proxy};

/// Checklist 21: only greetings over which the component has ended are left out on its next start.
#[test]
fn a_refused_greeting_is_not_one_over_which_the_component_has_ended() {
    use generation::Greeting::{Capability, Proxy as Newest, Underscore};
    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    assert_eq!(link.proxy().failed_greetings(), [Newest]);
    link.hears(&error("c:1", -32601, "no"));
    assert_eq!(link.proxy().failed_greetings(), [Underscore]);
    assert!(link.proxy().retry_on_restart(&mut Vec::new()));
    assert_eq!(link.proxy().failed_greetings(), [Underscore, Capability]);

    // A guess over which it has ended is not one of them.
    let mut link = Link::to(Proxy::remembered("x", Underscore));
    link.says(Side::Agent, INITIALIZE);
    assert!(link.proxy().is_guessing() && link.proxy().retry_on_restart(&mut Vec::new()));
    assert_eq!(link.proxy().failed_greetings(), [Newest]);
}

/// Checklist 21: what is known of earlier starts is not tried again.
#[test]
fn greetings_that_failed_on_earlier_starts_are_skipped() {
    use generation::Greeting::{Capability, Proxy as Newest, Underscore};
    let mut link = Link::to(Proxy::after_failures("x", vec![Newest]));
    assert!(link.says(Side::Agent, INITIALIZE)[0].contains("_proxy/initialize"));
    assert_eq!(link.proxy().failed_greetings(), [Newest, Underscore]);
    let (_, said) = link.hears(&error("c:1", -32601, "no"));
    assert!(said[0].contains(r#""method":"initialize""#), "{said:?}");
    let (heard, said) = link.hears(&error("c:1~2", -32601, "no"));
    assert!(said.is_empty() && heard.unwrap().1.contains("proxy/initialize: the component exited"));

    // When all have failed, the newest is tried once more.
    let mut link = Link::to(Proxy::after_failures("x", vec![Newest, Underscore, Capability]));
    assert!(link.says(Side::Agent, INITIALIZE)[0].contains("\"proxy/initialize"));
    let (heard, said) = link.hears(&error("c:1", -32601, "no"));
    assert!(heard.is_some() && said.is_empty(), "nothing is left to try");
}

/// An envelope in which a component passes on a greeting.
fn passed_on(envelope: &str, greeting: &str) -> String {
    format!(r#"{{"id":1,"method":"{envelope}","params":{{"method":"{greeting}","params":{{}}}}}}"#)
}

/// Checklist 20, 21: the envelope tells what to try, unless the component has refused it.
#[test]
fn a_hint_counts_unless_the_greeting_was_refused() {
    // It passes on what belongs to its own generation: it is not greeted so for ever.
    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    link.hears(&passed_on("_proxy/successor", "proxy/initialize"));
    let (_, said) = link.hears(&error("c:1", -32601, "no"));
    assert!(said[0].contains("_proxy/initialize"), "{said:?}");
    link.hears(&passed_on("_proxy/successor", "_proxy/initialize"));
    let (_, said) = link.hears(&error("c:1~1", -32601, "no"));
    assert!(said[0].contains(r#""method":"initialize""#), "{said:?}");

    // A greeting over which it has ended is tried once more if its envelope says so.
    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    assert!(link.proxy().retry_on_restart(&mut Vec::new()));
    link.hears(&passed_on("proxy/successor", "_proxy/initialize"));
    let (_, said) = link.hears(&error("c:1~1", -32601, "no"));
    assert!(said[0].contains(r#""method":"proxy/initialize""#), "{said:?}");

    // A guess that offered the role in one place only was not refused for good.
    let mut link = Link::to(Proxy::restarted("x", Generation::P2));
    link.says(Side::Agent, INITIALIZE);
    link.hears(&error("c:1", -32603, "no"));
    link.hears(&passed_on("_proxy/successor/request", "proxy/initialize"));
    let (_, said) = link.hears(&error("c:1~1", -32601, "no"));
    assert!(said[0].contains(r#""method":"initialize""#), "{said:?}");
}

/// An answer that leaves open what the component is speaks for the guess as well.
#[test]
fn an_answer_speaks_for_a_guess() {
    let mut link = Link::to(Proxy::remembered("x", generation::Greeting::Capability));
    link.says(Side::Agent, INITIALIZE);
    let accepted = EXAMPLES[2].accepted;
    assert_eq!(link.hears(accepted), (None, vec![]));
    assert!(link.proxy().needs_successor() && !link.proxy().awaits_first_line());
}

/// Section 5.5: an older greeting asks for ACP v1, also where the generation is not known.
#[test]
fn only_the_newest_greeting_offers_acp_v2() {
    let v2 = INITIALIZE.replace(r#""protocolVersion":1"#, r#""protocolVersion":2"#);
    let mut link = Link::to(Proxy::unknown("x"));
    assert!(link.says(Side::Agent, &v2)[0].contains(r#""protocolVersion":2"#));
    let (_, said) = link.hears(&error("c:1", -32601, "no"));
    assert!(said[0].contains(r#""protocolVersion":1"#), "{said:?}");
}

/// A known component may be greeted again. Then it passes on another `initialize`, which is as it sent it.
#[test]
fn a_second_handshake_is_in_the_spelling_that_was_found() {
    for given_up in [false, true] {
        let mut link = Link::to(Proxy::unknown("x"));
        if given_up {
            link.says(Side::Agent, &INITIALIZE.replace("c:1", "c:0"));
            assert!(link.proxy().stop_waiting(&mut Vec::new()).is_some());
        }
        link.says(Side::Agent, INITIALIZE);
        assert_eq!(link.proxy().understood_greeting(), None);
        link.hears(&error("c:1", -32601, "no"));
        link.hears(EXAMPLES[1].forwarded);
        let (heard, _) = link.hears(&RESULT.replace("c:1", "c:1~1"));
        assert_eq!(heard.unwrap().1, RESULT);
        assert_eq!(link.proxy().understood_greeting(), Some(generation::Greeting::Underscore));
        // The component says by itself what it would be offered in another generation.
        let own = r#"{"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}"#;
        let line =
            passed_on("_proxy/successor", "initialize").replace("{}}}", &format!("{own}}}}}"));
        let (heard, _) = link.hears(&line);
        assert!(heard.unwrap().1.ends_with(&format!(r#""params":{own}}}"#)));
        let greeting = EXAMPLES[1].greeting.replace("c:1", "c:2");
        link.sends(Side::Agent, &INITIALIZE.replace("c:1", "c:2"), &[&greeting]);
    }
}

/// Checklist 7, 26: a proxy of generation P3 has to accept its role.
#[test]
fn a_proxy_that_does_not_accept_its_role_is_refused() {
    for guess in [false, true] {
        let p3 = EXAMPLES.iter().find(|it| it.name == "P3").unwrap();
        let mut link = match guess {
            true => Link::to(Proxy::restarted("x", Generation::P3)),
            false => proxy("P3"),
        };
        link.says(Side::Agent, INITIALIZE);
        assert!(link.hears(p3.forwarded).0.is_some());
        let (heard, _) = link.hears(RESULT);
        let error = heard.unwrap().1;
        assert!(error.contains("component 'x' is not a proxy"), "{error}");
        assert_eq!(link.proxy().guess_failed(), guess);
    }
}
