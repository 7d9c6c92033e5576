//! `$/cancel_request` names an id of one link: it goes to who was asked, under that link's id, and
//! changes nothing about the answer, which comes once.

use testkit::rpc::{
    cancel, error, id_of, notification, request, result, wrapped_notification, wrapped_request,
};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, binary};

const CANCELLED: &str = r#"{"code":-32800,"message":"cancelled"}"#;

/// The editor, two proxies and the agent.
struct Cast {
    chain: TestChain,
    first: ScriptedComponent,
    second: ScriptedComponent,
    agent: ScriptedComponent,
}

fn cast() -> Cast {
    let names = ["first", "second", "agent"];
    let mut chain = TestChain::builder(env!("CARGO_BIN_EXE_conductor")).run_agent(&names);
    let [first, second, agent] = chain.initialize(&names).try_into().expect("as many as names");
    Cast { chain, first, second, agent }
}

/// Says something that can only come next if nothing else was on its way.
fn nothing_else(from: &mut impl Peer, to: &mut impl Peer, expected: &str) {
    from.send(&notification("_next", ""));
    assert_eq!(to.line(), expected);
}

/// Checklist 57, 62.
#[test]
fn a_cancellation_walks_to_the_agent_under_the_id_of_each_hop() {
    let Cast { mut chain, mut first, mut second, mut agent } = cast();
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

    nothing_else(&mut chain.editor, &mut first, &notification("_next", ""));
    first.send(&wrapped_notification("_next", ""));
    assert_eq!(second.line(), notification("_next", ""));
    second.send(&wrapped_notification("_next", ""));
    assert_eq!(agent.line(), notification("_next", ""));
    nothing_else(&mut agent, &mut second, &wrapped_notification("_next", ""));
}

/// Checklist 58.
#[test]
fn a_cancellation_walks_to_the_editor_likewise_and_stays_plain() {
    let Cast { mut chain, mut first, mut second, mut agent } = cast();
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
    nothing_else(&mut first, &mut chain.editor, &notification("_next", ""));
}

/// The same through proxies that are programs, not scripted components.
#[test]
fn pass_through_proxies_pass_a_cancellation_through() {
    let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
    let transparent = format!("'{}'", binary("transparent").display());
    let inner = setup.subchain(&[transparent.clone(), transparent.clone()]);
    let components = [transparent, inner, setup.scripted_command("agent")];
    let mut chain = setup.run("agent", &components);
    let mut agent = chain.initialize(&["agent"]).remove(0);
    let cancelled = |asker: &mut dyn Peer, asked: &mut dyn Peer| {
        asker.send(&request("1", "m", "{}"));
        let question = asked.line();
        asker.send(&cancel("1"));
        assert_eq!(asked.line(), cancel(id_of(&question)));
        asked.send(&error(id_of(&question), CANCELLED));
        assert_eq!(asker.line(), error("1", CANCELLED));
    };
    cancelled(&mut chain.editor, &mut agent);
    cancelled(&mut agent, &mut chain.editor);
}

/// Checklist 61.
#[test]
fn what_is_unknown_or_finished_is_not_cancelled() {
    let Cast { mut chain, mut first, .. } = cast();
    chain.editor.send(&request("1", "m", ""));
    let asked = first.line();
    first.send(&result(id_of(&asked), "1"));
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
    nothing_else(&mut chain.editor, &mut first, &notification("_next", ""));
}

/// Its other fields are passed on, too.
#[test]
fn a_cancellation_keeps_what_else_it_says() {
    let Cast { mut chain, mut first, .. } = cast();
    chain.editor.send(&request("1", "m", ""));
    let asked = first.line();
    let params = |id: &str| format!(r#"{{"_meta":{{"n": 1.10}},"requestId":{id},"why":"x"}}"#);
    chain.editor.send(&notification("$/cancel_request", &params("1")));
    assert_eq!(first.line(), notification("$/cancel_request", &params(id_of(&asked))));
}

/// An id may be spelt in several ways.
#[test]
fn a_request_is_found_by_what_its_id_says() {
    let Cast { mut chain, mut first, .. } = cast();
    chain.editor.send(&request(r#""a\/""#, "m", ""));
    let asked = first.line();
    chain.editor.send(&cancel(r#""\u0061/""#));
    assert_eq!(first.line(), cancel(id_of(&asked)));
}

/// Checklist 62.
#[test]
fn cancelled_twice_is_told_once_and_answered_once() {
    let Cast { mut chain, mut first, .. } = cast();
    chain.editor.send(&request("1", "m", ""));
    let asked = first.line();
    chain.editor.send(&cancel("1"));
    chain.editor.send(&cancel("1"));
    assert_eq!(first.line(), cancel(id_of(&asked)));
    nothing_else(&mut chain.editor, &mut first, &notification("_next", ""));
    // It was late: the work is done. The answer counts as it is, and a second one does not.
    first.send(&result(id_of(&asked), "\"done\""));
    first.send(&error(id_of(&asked), CANCELLED));
    assert_eq!(chain.editor.line(), result("1", "\"done\""));
    nothing_else(&mut first, &mut chain.editor, &notification("_next", ""));
}

/// Checklist 63.
#[test]
fn a_sessions_own_cancel_is_an_ordinary_notification() {
    let Cast { mut chain, mut first, mut second, .. } = cast();
    let line = notification("session/cancel", r#"{"sessionId":"s","requestId":1}"#);
    chain.editor.send(&line);
    assert_eq!(first.line(), line);
    first.send(&wrapped_notification("session/cancel", r#"{"sessionId":"s"}"#));
    assert_eq!(second.line(), notification("session/cancel", r#"{"sessionId":"s"}"#));
}
