//! Which greeting is tried next, the record of earlier attempts, and a second handshake.

use acp_wire::Side;
use acp_wire::dialect::{Generation, Proxy, generation};

use crate::probing::error;
use crate::{EXAMPLES, INITIALIZE, Link, RESULT, proxy};

/// Checklist 21: only greetings on which the component has exited are skipped after its restart.
#[test]
fn a_refused_greeting_does_not_count_as_one_on_which_the_component_exited() {
    use generation::Greeting::{Capability, Proxy as Newest, Underscore};
    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    assert_eq!(link.proxy().failed_greetings(), [Newest]);
    link.receive(&error("c:1", -32601, "no"));
    assert_eq!(link.proxy().failed_greetings(), [Underscore]);
    assert!(link.proxy().retry_on_restart(&mut Vec::new()));
    assert_eq!(link.proxy().failed_greetings(), [Underscore, Capability]);

    // A guess does not count.
    let mut link = Link::to(Proxy::remembered("x", Underscore));
    link.encode(Side::Agent, INITIALIZE);
    assert!(link.proxy().is_guessing() && link.proxy().retry_on_restart(&mut Vec::new()));
    assert_eq!(link.proxy().failed_greetings(), [Newest]);
}

/// Checklist 21: a greeting on which the component has exited is not tried again.
#[test]
fn greetings_that_failed_on_earlier_starts_are_skipped() {
    use generation::Greeting::{Capability, Proxy as Newest, Underscore};
    let mut link = Link::to(Proxy::after_failures("x", vec![Newest]));
    assert!(link.encode(Side::Agent, INITIALIZE)[0].contains("_proxy/initialize"));
    assert_eq!(link.proxy().failed_greetings(), [Newest, Underscore]);
    let (_, replies) = link.receive(&error("c:1", -32601, "no"));
    assert!(replies[0].contains(r#""method":"initialize""#), "{replies:?}");
    let (decoded, replies) = link.receive(&error("c:1~2", -32601, "no"));
    assert!(
        replies.is_empty() && decoded.unwrap().1.contains("proxy/initialize: the component exited")
    );

    // If all greetings have failed, the newest one is tried once more.
    let mut link = Link::to(Proxy::after_failures("x", vec![Newest, Underscore, Capability]));
    assert!(link.encode(Side::Agent, INITIALIZE)[0].contains("\"proxy/initialize"));
    let (decoded, replies) = link.receive(&error("c:1", -32601, "no"));
    assert!(decoded.is_some() && replies.is_empty(), "no greeting is left");
}

/// An envelope in which a component forwards a greeting.
fn forwarded_in(envelope: &str, greeting: &str) -> String {
    format!(r#"{{"id":1,"method":"{envelope}","params":{{"method":"{greeting}","params":{{}}}}}}"#)
}

/// Checklist 20, 21: the envelope determines the next greeting, unless the component has refused that one.
#[test]
fn an_envelope_hint_counts_unless_the_greeting_was_refused() {
    // The component forwards even the greeting of its own generation. That greeting is not sent again and again.
    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    link.receive(&forwarded_in("_proxy/successor", "proxy/initialize"));
    let (_, replies) = link.receive(&error("c:1", -32601, "no"));
    assert!(replies[0].contains("_proxy/initialize"), "{replies:?}");
    link.receive(&forwarded_in("_proxy/successor", "_proxy/initialize"));
    let (_, replies) = link.receive(&error("c:1~1", -32601, "no"));
    assert!(replies[0].contains(r#""method":"initialize""#), "{replies:?}");

    // A greeting on which the component has exited is tried once more if its envelope hints at it.
    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    assert!(link.proxy().retry_on_restart(&mut Vec::new()));
    link.receive(&forwarded_in("proxy/successor", "_proxy/initialize"));
    let (_, replies) = link.receive(&error("c:1~1", -32601, "no"));
    assert!(replies[0].contains(r#""method":"proxy/initialize""#), "{replies:?}");

    // A refused guess that offered the role at one path is tried again with more paths.
    let mut link = Link::to(Proxy::restarted("x", Generation::P2));
    link.encode(Side::Agent, INITIALIZE);
    link.receive(&error("c:1", -32603, "no"));
    link.receive(&forwarded_in("_proxy/successor/request", "proxy/initialize"));
    let (_, replies) = link.receive(&error("c:1~1", -32601, "no"));
    assert!(replies[0].contains(r#""method":"initialize""#), "{replies:?}");
}

/// An answer that does not show the generation still confirms the guess.
#[test]
fn an_answer_confirms_a_guess() {
    let mut link = Link::to(Proxy::remembered("x", generation::Greeting::Capability));
    link.encode(Side::Agent, INITIALIZE);
    let accepted = EXAMPLES[2].accepted;
    assert_eq!(link.receive(accepted), (None, vec![]));
    assert!(link.proxy().needs_successor() && !link.proxy().awaits_first_line());
}

/// Section 5.5: an older greeting requests ACP v1, even if the generation is not known.
#[test]
fn only_the_newest_greeting_offers_acp_v2() {
    let v2 = INITIALIZE.replace(r#""protocolVersion":1"#, r#""protocolVersion":2"#);
    let mut link = Link::to(Proxy::unknown("x"));
    assert!(link.encode(Side::Agent, &v2)[0].contains(r#""protocolVersion":2"#));
    let (_, replies) = link.receive(&error("c:1", -32601, "no"));
    assert!(replies[0].contains(r#""protocolVersion":1"#), "{replies:?}");
}

/// A component of known generation may be sent `initialize` again. Its forwarded `initialize` is not changed.
#[test]
fn a_second_handshake_uses_the_detected_generation() {
    for given_up in [false, true] {
        let mut link = Link::to(Proxy::unknown("x"));
        if given_up {
            link.encode(Side::Agent, &INITIALIZE.replace("c:1", "c:0"));
            assert!(link.proxy().stop_waiting(&mut Vec::new()).is_some());
        }
        link.encode(Side::Agent, INITIALIZE);
        assert_eq!(link.proxy().understood_greeting(), None);
        link.receive(&error("c:1", -32601, "no"));
        link.receive(EXAMPLES[1].forwarded);
        let (decoded, _) = link.receive(&RESULT.replace("c:1", "c:1~1"));
        assert_eq!(decoded.unwrap().1, RESULT);
        assert_eq!(link.proxy().understood_greeting(), Some(generation::Greeting::Underscore));
        // The component itself adds what another generation would be offered.
        let own = r#"{"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}"#;
        let line =
            forwarded_in("_proxy/successor", "initialize").replace("{}}}", &format!("{own}}}}}"));
        let (decoded, _) = link.receive(&line);
        assert!(decoded.unwrap().1.ends_with(&format!(r#""params":{own}}}"#)));
        let greeting = EXAMPLES[1].greeting.replace("c:1", "c:2");
        link.assert_encodes(Side::Agent, &INITIALIZE.replace("c:1", "c:2"), &[&greeting]);
    }
}

/// Checklist 7, 26: a proxy of generation P3 must accept its role.
#[test]
fn a_proxy_that_does_not_accept_its_role_is_refused() {
    for guess in [false, true] {
        let p3 = EXAMPLES.iter().find(|it| it.name == "P3").unwrap();
        let mut link = match guess {
            true => Link::to(Proxy::restarted("x", Generation::P3)),
            false => proxy("P3"),
        };
        link.encode(Side::Agent, INITIALIZE);
        assert!(link.receive(p3.forwarded).0.is_some());
        let (decoded, _) = link.receive(RESULT);
        let error = decoded.unwrap().1;
        assert!(error.contains("component 'x' is not a proxy"), "{error}");
        assert_eq!(link.proxy().guess_failed(), guess);
    }
}
