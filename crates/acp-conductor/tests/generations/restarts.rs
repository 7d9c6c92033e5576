//! Components that do not survive a greeting they do not know: older conductors, mostly. Checklist 21.

use testkit::rpc::{request, result};
use testkit::stage::{assert_blames, assert_gone, parse};

use crate::players::{GREETED, GREETING, Proxy, walk};
use crate::spelling::{P3, P4};
use crate::{HASTE, stage};

/// The reference conductors 1.3 to 3.6 in proxy mode.
#[test]
fn a_component_that_exits_is_started_again_with_the_next_older_greeting() {
    let mut stage = stage().agent(&["old", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let (mut first, mut agent) = (stage.enter("old"), stage.enter("agent"));
    first.request("proxy/initialize");
    first.exit(1);
    let mut second = Proxy::enter(&mut stage, "old", &P4);
    assert_ne!(second.pid, first.pid);
    let greeting = second.request("_proxy/initialize");
    second.forwards(&greeting);
    let asked = agent.request("initialize");
    assert_eq!(asked["params"], parse(GREETING), "the agent knows nothing of all this");
    agent.answer(&asked, GREETED);
    second.accepts(&greeting);
    assert_eq!(stage.editor.message(), parse(&result("1", GREETED)));
    walk(&mut stage.editor, &mut [second], &mut agent);
    assert!(!stage.has_entered("agent"), "the agent was started once");
}

/// sacp-conductor 1 and 4.
#[test]
fn and_again_with_the_oldest() {
    let mut stage = stage().agent(&["old", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    for method in ["proxy/initialize", "_proxy/initialize"] {
        let mut old = stage.enter("old");
        old.request(method);
        old.mutter("panicked at unknown message\n");
        old.exit(101);
    }
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

/// The reference conductor 0.11 and sacp-conductor 11: something has failed inside, which it finds
/// out when the next line comes. So it is sent one, which nobody else could take amiss.
#[test]
fn a_component_that_wedges_is_poked_and_started_again() {
    let mut stage = stage().agent(&["old", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let mut wedged = stage.enter("old");
    wedged.request("proxy/initialize");
    let poke = wedged.message();
    assert_eq!(poke["method"], "$/cancel_request", "{poke}");
    assert!(poke.get("id").is_none(), "{poke}");
    wedged.exit(1);
    let mut old = Proxy::enter(&mut stage, "old", &P4);
    let greeting = old.request("_proxy/initialize");
    old.forwards(&greeting);
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(&asked, GREETED);
    old.accepts(&greeting);
    assert_eq!(stage.editor.message(), parse(&result("1", GREETED)));
    walk(&mut stage.editor, &mut [old], &mut agent);
}

/// What exits whatever it is told is broken: three starts, then the editor is told how it ended.
#[test]
fn a_component_that_survives_no_greeting_ends_the_chain() {
    let mut stage = stage().option(&HASTE).named(&["broken", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let agent = stage.enter("agent");
    for method in ["proxy/initialize", "_proxy/initialize", "initialize"] {
        let mut broken = stage.enter("broken");
        broken.request(method);
        broken.mutter("no licence\n");
        broken.exit(3);
    }
    assert_blames(&stage.editor.message(), "broken", "ended with status 3", "no licence");
    assert_eq!(stage.conductor.status(), 1);
    assert!(!stage.has_entered("broken"), "three times are enough");
    assert_gone(agent.pid, "the agent");
}

/// One that understood the greeting and ends later has another reason, and is not greeted anew.
#[test]
fn a_component_that_ends_after_it_has_understood_is_not_started_again() {
    for generation in [&P4, &P3] {
        let mut stage = stage().option(&HASTE).named(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let greeting = old.is_greeted(&["proxy/initialize", generation.greeting]);
        old.forwards(&greeting);
        stage.enter("agent").request("initialize");
        old.exit(4);
        assert_blames(&stage.editor.message(), "old", "ended with status 4", "");
        assert_eq!(stage.conductor.status(), 1);
        assert!(!stage.has_entered("old"), "{}", generation.name);
    }
}
