//! How an SCP proxy is distinguished from other proxies that are greeted with a capability, and what is written on a
//! link of unknown generation.

use acp_wire::dialect::{Generation, Proxy};
use acp_wire::{Json, Side};

use crate::{EXAMPLES, INITIALIZE, Link, RESULT, UPDATE, proxy};

const ACCEPTED: &str = r#"{"id":"c:1","result":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#;
const NO: &str = r#"{"code":-32601,"message":"no"}"#;

/// The link to a component that accepted its role without sending `initialize` to a successor, and was sent
/// `_scp/proxy`.
fn after_scp_proxy() -> Link {
    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    link.receive(&format!(r#"{{"id":"c:1","error":{NO}}}"#));
    link.receive(&format!(r#"{{"id":"c:1~1","error":{NO}}}"#));
    assert_eq!(link.receive(&ACCEPTED.replace("c:1", "c:1~2")), (None, vec![]));
    assert!(link.proxy().needs_successor());
    let servers = Json::trusted(r#"{"servers":[]}"#);
    assert_eq!(link.proxy().set_successor(Some(servers), &mut Vec::new()), None);
    link
}

/// `_scp/proxy` in an envelope of generation P2.
const FORWARDED: &str = r#"{"id":4,"method":"_proxy/successor/request","params":{"message":{"method":"_scp/proxy","params":{"servers":[]}}}}"#;

/// A proxy forwards unknown requests. So it is not an SCP proxy, and the envelope shows its generation.
#[test]
fn a_proxy_that_forwards_scp_proxy_has_the_generation_of_its_envelope() {
    let mut link = after_scp_proxy();
    link.assert_refuses(FORWARDED, "-32601");
    link.assert_refuses(
        &FORWARDED.replace(r#""id":4,"#, "").replace("request", "notification"),
        "",
    );
    assert_eq!(link.0.protocol().name(), "unknown");
    let (decoded, _) = link.receive(&format!(r#"{{"id":"scp","error":{NO}}}"#));
    assert_eq!(decoded.unwrap().1, RESULT);
    assert_eq!(link.0.protocol().name(), "P2");
    // From now on the method and the id have no special meaning.
    let (decoded, replies) = link.receive(FORWARDED);
    assert!(replies.is_empty() && decoded.unwrap().1.contains(r#""method":"_scp/proxy""#));
}

/// Only the answer to `_scp/proxy`, or `_scp/proxy` itself, shows whether the component is an SCP proxy.
#[test]
fn a_proxy_may_send_other_messages_before_it_answers_scp_proxy() {
    let mut link = after_scp_proxy();
    let answer = r#"{"jsonrpc":"2.0","id":"c:9","result":{}}"#;
    link.assert_decodes(answer, Side::Editor, answer);
    assert!(link.0.generation().is_none());
    link.assert_decodes(EXAMPLES[2].sent, Side::Agent, UPDATE);
}

/// For other components, `_scp/proxy` and the id `scp` have no special meaning.
#[test]
fn scp_messages_are_forwarded_if_scp_proxy_was_not_sent() {
    let mut link = proxy("P2");
    link.encode(Side::Agent, INITIALIZE);
    let (decoded, replies) = link.receive(FORWARDED);
    assert!(replies.is_empty() && decoded.unwrap().1.contains(r#""method":"_scp/proxy""#));
    let answer = r#"{"jsonrpc":"2.0","id":"scp","result":{}}"#;
    link.assert_decodes(answer, Side::Editor, answer);
}

/// The user has set the generation.
#[test]
fn a_pinned_proxy_is_an_scp_proxy_only_if_it_is_pinned_to_p0() {
    let mut p3 = proxy("P3");
    p3.encode(Side::Agent, INITIALIZE);
    let (decoded, replies) = p3.receive(EXAMPLES[2].accepted);
    assert!(decoded.unwrap().1.starts_with(r#"{"jsonrpc":"2.0","id":"c:1","result""#));
    assert!(replies.is_empty() && !p3.proxy().needs_successor());
    let mut p0 = proxy("P0");
    p0.encode(Side::Agent, INITIALIZE);
    assert_eq!(p0.receive(ACCEPTED), (None, vec![]));
    assert!(p0.proxy().needs_successor());
    // Its successor may be initialized before it answers `_scp/proxy`.
    assert_eq!(p0.proxy().on_successor_initialized(&mut Vec::new()), None);
    p0.proxy().set_successor(Some(Json::EMPTY_OBJECT), &mut Vec::new());
    let (decoded, _) = p0.receive(r#"{"id":"scp","result":{}}"#);
    assert_eq!(decoded.unwrap().1, RESULT);
}

/// Without a relay, the component is treated as one that is not an SCP proxy.
#[test]
fn a_proxy_without_a_relay_is_treated_as_p3() {
    let mut link =
        Link::to(Proxy::remembered("x", acp_wire::dialect::generation::Greeting::Capability));
    link.encode(Side::Agent, INITIALIZE);
    assert_eq!(link.receive(ACCEPTED), (None, vec![]));
    let decoded = link.proxy().set_successor(None, &mut Vec::new());
    assert_eq!(decoded.unwrap().1.to_line(), RESULT);
    assert_eq!(link.0.protocol().name(), "P3");
}

/// Before a greeting, or if no greeting was understood, messages use the newest envelopes or those of the generation
/// that the user has set.
#[test]
fn a_message_for_a_proxy_of_unknown_generation_is_in_an_envelope() {
    let request = r#"{"jsonrpc":"2.0","id":"c:9","method":"ping","params":{}}"#;
    let p4 = Link::to(Proxy::pinned("x", Generation::P4));
    for (mut link, envelope) in
        [(Link::to(Proxy::unknown("x")), "proxy/successor"), (p4, "_proxy/successor")]
    {
        let inner = r#""params":{"method":"ping","params":{}}"#;
        let sent = format!(r#"{{"jsonrpc":"2.0","id":"c:9","method":"{envelope}",{inner}}}"#);
        link.assert_encodes(Side::Editor, request, &[&sent]);
        let notification = request.replace(r#""id":"c:9","#, "");
        link.assert_encodes(Side::Editor, &notification, &[&sent.replace(r#""id":"c:9","#, "")]);
        link.assert_encodes(Side::Agent, &notification, &[&notification]);
    }
}

/// Two greetings can be open on the link to a pinned component. Each answer belongs to its own greeting.
#[test]
fn two_open_greetings_get_their_own_answers() {
    let mut link = proxy("P5");
    link.encode(Side::Agent, INITIALIZE);
    let second = INITIALIZE.replace("c:1", "c:2");
    assert!(
        link.encode(Side::Agent, &second)[0].contains(r#""id":"c:2","method":"proxy/initialize""#)
    );
    let refused = format!(r#"{{"jsonrpc":"2.0","id":"c:2","error":{NO}}}"#);
    link.assert_decodes(&refused, Side::Editor, &refused);
    link.assert_decodes(RESULT, Side::Editor, RESULT);
    // What the second greeting offered is removed from its answer.
    let mut link = proxy("P5");
    link.encode(Side::Agent, INITIALIZE);
    link.encode(Side::Agent, &second);
    link.assert_decodes(RESULT, Side::Editor, RESULT);
    let (decoded, _) = link.receive(&EXAMPLES[0].accepted.replace("c:1", "c:2"));
    assert_eq!(decoded.unwrap().1, RESULT.replace("c:1", "c:2"));
}
