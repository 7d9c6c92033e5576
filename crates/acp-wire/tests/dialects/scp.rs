//! How a proxy that may be an SCP proxy is told from other proxies that are offered a capability, and what is
//! written on a link whose generation is not known.

use acp_wire::dialect::{Generation, Proxy};
use acp_wire::{Json, Side};

use crate::{EXAMPLES, INITIALIZE, Link, RESULT, UPDATE, proxy};

const ACCEPTED: &str = r#"{"id":"c:1","result":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#;
const NO: &str = r#"{"code":-32601,"message":"no"}"#;

/// A component that accepted its role without initialising a successor, and was told its successor.
fn told_its_successor() -> Link {
    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    link.hears(&format!(r#"{{"id":"c:1","error":{NO}}}"#));
    link.hears(&format!(r#"{{"id":"c:1~1","error":{NO}}}"#));
    assert_eq!(link.hears(&ACCEPTED.replace("c:1", "c:1~2")), (None, vec![]));
    assert!(link.proxy().needs_successor());
    let servers = Json::trusted(r#"{"servers":[]}"#);
    assert_eq!(link.proxy().set_successor(Some(servers), &mut Vec::new()), None);
    link
}

/// `_scp/proxy` in an envelope of generation P2.
const PASSED_ON: &str = r#"{"id":4,"method":"_proxy/successor/request","params":{"message":{"method":"_scp/proxy","params":{"servers":[]}}}}"#;

/// A proxy passes on what it does not know. So it is not an SCP proxy, and the envelope tells its generation.
#[test]
fn a_proxy_that_passes_on_scp_proxy_is_of_the_generation_of_its_envelope() {
    let mut link = told_its_successor();
    link.refuses(PASSED_ON, "-32601");
    link.refuses(&PASSED_ON.replace(r#""id":4,"#, "").replace("request", "notification"), "");
    assert_eq!(link.0.protocol().name(), "unknown");
    let (heard, _) = link.hears(&format!(r#"{{"id":"scp","error":{NO}}}"#));
    assert_eq!(heard.unwrap().1, RESULT);
    assert_eq!(link.0.protocol().name(), "P2");
    // From now on the method is like any other, and so is the id.
    let (heard, said) = link.hears(PASSED_ON);
    assert!(said.is_empty() && heard.unwrap().1.contains(r#""method":"_scp/proxy""#));
}

/// Only `_scp/proxy` and its answer have to do with the successor.
#[test]
fn a_proxy_that_was_told_its_successor_may_say_other_things_first() {
    let mut link = told_its_successor();
    let answer = r#"{"jsonrpc":"2.0","id":"c:9","result":{}}"#;
    link.passes(answer, Side::Editor, answer);
    assert!(link.0.generation().is_none());
    link.passes(EXAMPLES[2].sent, Side::Agent, UPDATE);
}

/// To other components neither `_scp/proxy` nor the id `scp` means anything.
#[test]
fn scp_words_pass_where_no_successor_was_given() {
    let mut link = proxy("P2");
    link.says(Side::Agent, INITIALIZE);
    let (heard, said) = link.hears(PASSED_ON);
    assert!(said.is_empty() && heard.unwrap().1.contains(r#""method":"_scp/proxy""#));
    let answer = r#"{"jsonrpc":"2.0","id":"scp","result":{}}"#;
    link.passes(answer, Side::Editor, answer);
}

/// The user has said that it is of another generation.
#[test]
fn a_pinned_proxy_is_an_scp_proxy_only_if_it_is_pinned_to_p0() {
    let mut p3 = proxy("P3");
    p3.says(Side::Agent, INITIALIZE);
    let (heard, said) = p3.hears(EXAMPLES[2].accepted);
    assert!(heard.unwrap().1.starts_with(r#"{"jsonrpc":"2.0","id":"c:1","result""#));
    assert!(said.is_empty() && !p3.proxy().needs_successor());
    let mut p0 = proxy("P0");
    p0.says(Side::Agent, INITIALIZE);
    assert_eq!(p0.hears(ACCEPTED), (None, vec![]));
    assert!(p0.proxy().needs_successor());
    // Its successor may stand before it answers `_scp/proxy`.
    assert_eq!(p0.proxy().on_successor_initialized(&mut Vec::new()), None);
    p0.proxy().set_successor(Some(Json::EMPTY), &mut Vec::new());
    let (heard, _) = p0.hears(r#"{"id":"scp","result":{}}"#);
    assert_eq!(heard.unwrap().1, RESULT);
}

/// Without a successor to give, the component is treated as if it had not asked.
#[test]
fn a_proxy_that_cannot_be_given_a_successor_is_of_the_third_generation() {
    let mut link =
        Link::to(Proxy::remembered("x", acp_wire::dialect::generation::Greeting::Capability));
    link.says(Side::Agent, INITIALIZE);
    assert_eq!(link.hears(ACCEPTED), (None, vec![]));
    let heard = link.proxy().set_successor(None, &mut Vec::new());
    assert_eq!(heard.unwrap().1.to_line(), RESULT);
    assert_eq!(link.0.protocol().name(), "P3");
}

/// Nothing was sent to it yet, or it understood no greeting: its messages are in the newest envelopes, or in
/// those of the generation that the user named.
#[test]
fn a_message_for_a_proxy_of_unknown_generation_is_in_an_envelope() {
    let ask = r#"{"jsonrpc":"2.0","id":"c:9","method":"ping","params":{}}"#;
    let p4 = Link::to(Proxy::pinned("x", Generation::P4));
    for (mut link, envelope) in
        [(Link::to(Proxy::unknown("x")), "proxy/successor"), (p4, "_proxy/successor")]
    {
        let inner = r#""params":{"method":"ping","params":{}}"#;
        let sent = format!(r#"{{"jsonrpc":"2.0","id":"c:9","method":"{envelope}",{inner}}}"#);
        link.sends(Side::Editor, ask, &[&sent]);
        let note = ask.replace(r#""id":"c:9","#, "");
        link.sends(Side::Editor, &note, &[&sent.replace(r#""id":"c:9","#, "")]);
        link.sends(Side::Agent, &note, &[&note]);
    }
}

/// Two greetings can be open on the link to a pinned component. Each answer is that of its own greeting.
#[test]
fn the_answer_to_a_second_greeting_is_not_taken_for_that_to_the_first() {
    let mut link = proxy("P5");
    link.says(Side::Agent, INITIALIZE);
    let second = INITIALIZE.replace("c:1", "c:2");
    assert!(
        link.says(Side::Agent, &second)[0].contains(r#""id":"c:2","method":"proxy/initialize""#)
    );
    let refused = format!(r#"{{"jsonrpc":"2.0","id":"c:2","error":{NO}}}"#);
    link.passes(&refused, Side::Editor, &refused);
    link.passes(RESULT, Side::Editor, RESULT);
    // What was offered with the second one is taken out of its answer.
    let mut link = proxy("P5");
    link.says(Side::Agent, INITIALIZE);
    link.says(Side::Agent, &second);
    link.passes(RESULT, Side::Editor, RESULT);
    let (heard, _) = link.hears(&EXAMPLES[0].accepted.replace("c:1", "c:2"));
    assert_eq!(heard.unwrap().1, RESULT.replace("c:1", "c:2"));
}
