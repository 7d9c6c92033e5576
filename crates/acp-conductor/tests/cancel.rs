//! `$/cancel_request` names an id of one link. It goes to the responder under the id of its link, and does not
//! change the answer, which comes once.

use testkit::rpc::{
    cancel, error, id_of, notification, request, result, wrapped_notification, wrapped_request,
};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, binary};

const CANCELLED: &str = r#"{"code":-32800,"message":"cancelled"}"#;

/// A chain of two scripted proxies and a scripted agent.
struct TwoProxyChain {
    chain: TestChain,
    first: ScriptedComponent,
    second: ScriptedComponent,
    agent: ScriptedComponent,
}

fn start() -> TwoProxyChain {
    let names = ["first", "second", "agent"];
    let mut chain = TestChain::builder(env!("CARGO_BIN_EXE_conductor")).run_agent(&names);
    let [first, second, agent] = chain.initialize(&names).try_into().expect("three components");
    TwoProxyChain { chain, first, second, agent }
}

/// Sends a notification, which must be the next message at the other end.
fn assert_next(from: &mut impl Peer, to: &mut impl Peer, expected: &str) {
    from.send(&notification("_next", ""));
    assert_eq!(to.line(), expected);
}

/// Checklist 57, 62.
#[test]
fn a_cancellation_reaches_the_agent_under_the_id_of_each_hop() {
    let TwoProxyChain { mut chain, mut first, mut second, mut agent } = start();
    chain.editor.send(&request("\"p\"", "session/prompt", "{}"));
    let at_first = first.line();
    first.send(&wrapped_request("1", "session/prompt", "{}"));
    let at_second = second.line();
    second.send(&wrapped_request("1", "session/prompt", "{}"));
    let at_agent = agent.line();

    chain.editor.send(&cancel("\"p\""));
    assert_eq!(first.line(), cancel(id_of(&at_first)));
    first.send(&cancel("1"));
    assert_eq!(second.line(), cancel(id_of(&at_second)));
    second.send(&cancel("1"));
    assert_eq!(agent.line(), cancel(id_of(&at_agent)));

    agent.send(&error(id_of(&at_agent), CANCELLED));
    assert_eq!(second.line(), error("1", CANCELLED));
    second.send(&error(id_of(&at_second), CANCELLED));
    assert_eq!(first.line(), error("1", CANCELLED));
    first.send(&error(id_of(&at_first), CANCELLED));
    assert_eq!(chain.editor.line(), error("\"p\"", CANCELLED));

    assert_next(&mut chain.editor, &mut first, &notification("_next", ""));
    first.send(&wrapped_notification("_next", ""));
    assert_eq!(second.line(), notification("_next", ""));
    second.send(&wrapped_notification("_next", ""));
    assert_eq!(agent.line(), notification("_next", ""));
    assert_next(&mut agent, &mut second, &wrapped_notification("_next", ""));
}

/// Checklist 58.
#[test]
fn a_cancellation_reaches_the_editor_without_an_envelope() {
    let TwoProxyChain { mut chain, mut first, mut second, mut agent } = start();
    agent.send(&request("5", "session/request_permission", "{}"));
    let at_second = second.line();
    second.send(&request("1", "session/request_permission", "{}"));
    let at_first = first.line();
    first.send(&request("1", "session/request_permission", "{}"));
    let at_editor = chain.editor.line();

    agent.send(&cancel("5"));
    assert_eq!(second.line(), cancel(id_of(&at_second)));
    second.send(&cancel("1"));
    assert_eq!(first.line(), cancel(id_of(&at_first)));
    first.send(&cancel("1"));
    assert_eq!(chain.editor.line(), cancel(id_of(&at_editor)));

    chain.editor.send(&error(id_of(&at_editor), CANCELLED));
    assert_eq!(first.line(), error("1", CANCELLED));
    first.send(&error(id_of(&at_first), CANCELLED));
    assert_eq!(second.line(), error("1", CANCELLED));
    second.send(&error(id_of(&at_second), CANCELLED));
    assert_eq!(agent.line(), error("5", CANCELLED));
    assert_next(&mut first, &mut chain.editor, &notification("_next", ""));
}

/// The same through proxies that are real programs.
#[test]
fn a_cancellation_passes_through_real_proxies() {
    let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
    let transparent = format!("'{}'", binary("transparent").display());
    let inner = setup.subchain(&[transparent.clone(), transparent.clone()]);
    let components = [transparent, inner, setup.scripted_command("agent")];
    let mut chain = setup.run("agent", &components);
    let mut agent = chain.initialize(&["agent"]).remove(0);
    let assert_cancelled = |requester: &mut dyn Peer, responder: &mut dyn Peer| {
        requester.send(&request("1", "m", "{}"));
        let request_line = responder.line();
        requester.send(&cancel("1"));
        assert_eq!(responder.line(), cancel(id_of(&request_line)));
        responder.send(&error(id_of(&request_line), CANCELLED));
        assert_eq!(requester.line(), error("1", CANCELLED));
    };
    assert_cancelled(&mut chain.editor, &mut agent);
    assert_cancelled(&mut agent, &mut chain.editor);
}

/// Checklist 61.
#[test]
fn a_cancellation_of_an_unknown_or_finished_request_is_ignored() {
    let TwoProxyChain { mut chain, mut first, .. } = start();
    chain.editor.send(&request("1", "m", ""));
    let received = first.line();
    first.send(&result(id_of(&received), "1"));
    assert_eq!(chain.editor.line(), result("1", "1"));
    for params in [
        r#"{"requestId":1}"#,
        r#"{"requestId":2}"#,
        r#"{"requestId":"1"}"#,
        r#"{"requestId":[]}"#,
        "{}",
        "null",
        "[1]",
        "",
    ] {
        chain.editor.send(&notification("$/cancel_request", params));
    }
    assert_next(&mut chain.editor, &mut first, &notification("_next", ""));
}

/// Its other members are passed on.
#[test]
fn a_cancellation_keeps_its_other_members() {
    let TwoProxyChain { mut chain, mut first, .. } = start();
    chain.editor.send(&request("1", "m", ""));
    let received = first.line();
    let params = |id: &str| format!(r#"{{"_meta":{{"n": 1.10}},"requestId":{id},"why":"x"}}"#);
    chain.editor.send(&notification("$/cancel_request", &params("1")));
    assert_eq!(first.line(), notification("$/cancel_request", &params(id_of(&received))));
}

/// The same id can be written in several ways.
#[test]
fn a_request_is_found_by_the_value_of_its_id() {
    let TwoProxyChain { mut chain, mut first, .. } = start();
    chain.editor.send(&request(r#""a\/""#, "m", ""));
    let received = first.line();
    chain.editor.send(&cancel(r#""\u0061/""#));
    assert_eq!(first.line(), cancel(id_of(&received)));
}

/// Checklist 62.
#[test]
fn a_second_cancellation_is_dropped() {
    let TwoProxyChain { mut chain, mut first, .. } = start();
    chain.editor.send(&request("1", "m", ""));
    let received = first.line();
    chain.editor.send(&cancel("1"));
    chain.editor.send(&cancel("1"));
    assert_eq!(first.line(), cancel(id_of(&received)));
    assert_next(&mut chain.editor, &mut first, &notification("_next", ""));
    // The cancellation came too late. The first answer counts, and a second one does not.
    first.send(&result(id_of(&received), "\"done\""));
    first.send(&error(id_of(&received), CANCELLED));
    assert_eq!(chain.editor.line(), result("1", "\"done\""));
    assert_next(&mut first, &mut chain.editor, &notification("_next", ""));
}

/// Checklist 63.
#[test]
fn session_cancel_is_an_ordinary_notification() {
    let TwoProxyChain { mut chain, mut first, mut second, .. } = start();
    let line = notification("session/cancel", r#"{"sessionId":"s","requestId":1}"#);
    chain.editor.send(&line);
    assert_eq!(first.line(), line);
    first.send(&wrapped_notification("session/cancel", r#"{"sessionId":"s"}"#));
    assert_eq!(second.line(), notification("session/cancel", r#"{"sessionId":"s"}"#));
}
