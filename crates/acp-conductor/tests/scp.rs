//! Panels and comments of components, with real processes.

#![cfg(unix)]

use testkit::rpc::{notification, wrapped_notification};
use testkit::test_chain::{ScriptedComponent, TestChain, TestChainBuilder, signal};

const SHOW: &str = "_scp/html_panel/show";
const EVENT: &str = "_scp/html_panel/event";
const PANEL: &str = r#"{"label":"a","contents":"<p>1.10</p>", "id":"plan"}"#;

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

/// The id of a panel in the params of a message, which may be in an envelope.
fn id_in(line: &str) -> String {
    let message = testkit::test_chain::parse(line);
    let params = &message["params"];
    let id = params["id"].as_str().or(params["params"]["id"].as_str());
    id.expect("an id").to_owned()
}

/// These params with another id.
fn with_id(id: &str) -> String {
    PANEL.replace("plan", id)
}

/// A proxy gets a panel from behind it, and passes it on. Returns the id that the proxy sees.
fn pass_panel_on(proxy: &mut ScriptedComponent) -> String {
    let line = proxy.line();
    let id = id_in(&line);
    assert_eq!(line, wrapped_notification(SHOW, &with_id(&id)));
    proxy.send(&notification(SHOW, &with_id(&id)));
    id
}

/// A proxy gets an event for a component behind it, and passes it on.
fn pass_event_on(proxy: &mut ScriptedComponent, id: &str) {
    assert_eq!(proxy.line(), notification(EVENT, &with_id(id)));
    proxy.send(&wrapped_notification(EVENT, &with_id(id)));
}

#[test]
fn an_event_reaches_the_owner_of_its_id_also_after_a_kill() {
    let setup = new_setup().option(&["--restart-delay", "0..0", "--notices", "off"]);
    let mut chain = setup.run_named(&["first", "second", "agent"]);
    let mut components = chain.initialize(&["first", "second", "agent"]);
    let [first, second, agent] = &mut components[..] else { panic!("three components") };
    second.send(&notification(SHOW, PANEL));
    let second_id = pass_panel_on(first);
    assert_eq!(chain.editor.line(), notification(SHOW, PANEL), "the editor gets the same bytes");
    // The agent uses the same id.
    agent.send(&notification(SHOW, PANEL));
    let agent_id = pass_panel_on(second);
    assert_eq!(pass_panel_on(first), agent_id);
    assert_eq!(chain.editor.line(), notification(SHOW, &with_id(&agent_id)));
    assert_ne!(agent_id, second_id);

    signal(second.pid, 9);
    let mut second = chain.wait_for_component("second");
    let greeting = second.request("proxy/initialize");
    chain.editor.send(&notification(EVENT, PANEL));
    pass_event_on(first, &second_id);
    second.forward("forward", "initialize", r#"{"protocolVersion":1,"clientCapabilities":{}}"#);
    let answer = second.message();
    second.answer(&greeting, &answer["result"].to_string());
    assert_eq!(second.line(), notification(EVENT, PANEL), "the new process owns the id");
    chain.editor.send(&notification(EVENT, &with_id(&agent_id)));
    pass_event_on(first, &agent_id);
    pass_event_on(&mut second, &agent_id);
    assert_eq!(agent.line(), notification(EVENT, PANEL));
}

/// The chain `outer inner(first second) agent`. Both conductors are processes, with random marks.
#[test]
fn ids_do_not_mix_across_nested_conductors() {
    let setup = new_setup();
    let named = |name| setup.scripted_json(name).to_string();
    let components = [setup.subchain(&[named("first"), named("second")]), named("agent")];
    let mut chain = setup.run("agent", &components);
    let mut components = chain.initialize(&["first", "second", "agent"]);
    let [first, second, agent] = &mut components[..] else { panic!("three components") };
    agent.send(&notification(SHOW, PANEL));
    let agent_id = pass_panel_on(second);
    assert_eq!(pass_panel_on(first), agent_id);
    assert_eq!(chain.editor.line(), notification(SHOW, PANEL), "both marks are removed");
    second.send(&notification(SHOW, PANEL));
    let second_id = pass_panel_on(first);
    let shown = chain.editor.line();
    let shown_id = id_in(&shown);
    assert_eq!(shown, notification(SHOW, &with_id(&shown_id)));
    assert!(shown_id != "plan" && shown_id != second_id, "the outer conductor keeps its mark");
    first.send(&notification(SHOW, PANEL));
    let first_id = id_in(&chain.editor.line());
    assert!(first_id != "plan" && first_id != shown_id, "{first_id}");

    chain.editor.send(&notification(EVENT, &with_id(&shown_id)));
    pass_event_on(first, &second_id);
    assert_eq!(second.line(), notification(EVENT, PANEL));
    chain.editor.send(&notification(EVENT, &with_id(&first_id)));
    assert_eq!(first.line(), notification(EVENT, PANEL));
    chain.editor.send(&notification(EVENT, PANEL));
    pass_event_on(first, &agent_id);
    pass_event_on(second, &agent_id);
    assert_eq!(agent.line(), notification(EVENT, PANEL));
}
