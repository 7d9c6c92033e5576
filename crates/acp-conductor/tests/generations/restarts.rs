//! Components that crash on a greeting that they do not know, mostly older conductors. Checklist 21.

use testkit::rpc::{request, result};
use testkit::test_chain::{assert_gone, assert_reports_failure, parse};

use crate::generation::{P3, P4};
use crate::scripted_proxy::{
    AGENT_RESULT, GREETING, ScriptedProxy, assert_messages_pass, complete_handshake,
};
use crate::{SHORT_GRACE, new_setup};

/// The reference conductors 1.3 to 3.6 in proxy mode behave like this.
#[test]
fn a_component_that_exits_on_a_greeting_is_restarted_with_the_next_older_one() {
    let mut chain = new_setup().run_agent(&["old", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let (mut first, mut agent) =
        (chain.wait_for_component("old"), chain.wait_for_component("agent"));
    first.request("proxy/initialize");
    first.exit(1);
    let mut second = ScriptedProxy::wait_for(&mut chain, "old", &P4);
    assert_ne!(second.pid, first.pid);
    let greeting = second.request("_proxy/initialize");
    second.forward_greeting(&greeting);
    let received = agent.request("initialize");
    assert_eq!(received["params"], parse(GREETING), "the agent does not notice");
    agent.answer(&received, AGENT_RESULT);
    second.accept_greeting(&greeting);
    assert_eq!(chain.editor.message(), parse(&result("1", AGENT_RESULT)));
    assert_messages_pass(&mut chain.editor, &mut [second], &mut agent);
    // The agent is started only once.
    chain.assert_not_started("agent");
}

/// sacp-conductor 1 and 4 behave like this.
#[test]
fn a_component_that_exits_on_two_greetings_is_restarted_with_the_oldest_one() {
    let mut chain = new_setup().run_agent(&["old", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    for method in ["proxy/initialize", "_proxy/initialize"] {
        let mut old = chain.wait_for_component("old");
        old.request(method);
        old.write_stderr("panicked at unknown message\n");
        old.exit(101);
    }
    let mut old = ScriptedProxy::wait_for(&mut chain, "old", &P3);
    let greeting = old.request("initialize");
    let mut agent = complete_handshake(&mut chain, &mut old, &greeting);
    assert_messages_pass(&mut chain.editor, &mut [old], &mut agent);
}

/// The reference conductor 0.11 and sacp-conductor 11 fail inside and notice that only when the next line
/// arrives. The conductor therefore sends a line that is harmless to any other component.
#[test]
fn a_component_that_hangs_on_a_greeting_is_restarted() {
    let mut chain = new_setup().run_agent(&["old", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let mut wedged = chain.wait_for_component("old");
    wedged.request("proxy/initialize");
    let poke = wedged.message();
    assert_eq!(poke["method"], "$/cancel_request", "{poke}");
    assert!(poke.get("id").is_none(), "{poke}");
    wedged.exit(1);
    let mut old = ScriptedProxy::wait_for(&mut chain, "old", &P4);
    let greeting = old.request("_proxy/initialize");
    let mut agent = complete_handshake(&mut chain, &mut old, &greeting);
    assert_messages_pass(&mut chain.editor, &mut [old], &mut agent);
}

/// A component that exits on every greeting is broken. After three starts the editor receives an error.
#[test]
fn a_component_that_exits_on_every_greeting_ends_the_chain() {
    let mut chain = new_setup().option(&SHORT_GRACE).run_named(&["broken", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let agent = chain.wait_for_component("agent");
    for method in ["proxy/initialize", "_proxy/initialize", "initialize"] {
        let mut broken = chain.wait_for_component("broken");
        broken.request(method);
        broken.write_stderr("no licence\n");
        broken.exit(3);
    }
    assert_reports_failure(&chain.editor.message(), "broken", "exited with status 3", "no licence");
    assert_eq!(chain.conductor.status(), 1);
    // There is no fourth start.
    chain.assert_not_started("broken");
    assert_gone(agent.pid, "the agent");
}

/// A component that accepts its greeting and ends later is not probed again.
#[test]
fn a_component_that_exits_after_it_accepted_its_greeting_is_not_restarted() {
    for generation in [&P4, &P3] {
        let mut chain = new_setup().option(&SHORT_GRACE).run_named(&["old", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let greeting = old.expect_greeting(&["proxy/initialize", generation.greeting]);
        old.forward_greeting(&greeting);
        chain.wait_for_component("agent").request("initialize");
        old.exit(4);
        assert_reports_failure(&chain.editor.message(), "old", "exited with status 4", "");
        assert_eq!(chain.conductor.status(), 1);
        chain.assert_not_started("old");
    }
}
