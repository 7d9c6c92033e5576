//! A chain that contains a guard is a guard of the chain around it.

use serde_json::{Value, json};
use testkit::rpc::request;
use testkit::test_chain::{TestChainBuilder, assert_gone, directory, wait_until, write_script};

use crate::chain::{PLAIN, ScriptedChain, SessionRequest, kill};
use crate::{SHORT_GRACE, new_setup};

const INNER: &[&str] = &["proxy", "--restart-delay", "0..0", "--notices", "off"];

/// A component that is itself a chain.
fn nested_chain(name: &str, options: &[&str], components: &[Value]) -> Value {
    let components = components.iter().map(Value::to_string);
    let args = options.iter().map(|it| (*it).to_owned()).chain(components);
    let args: Vec<String> = args.collect();
    json!({ "name": name, "command": env!("CARGO_BIN_EXE_conductor"), "args": args })
}

fn guard_component(setup: &TestChainBuilder) -> Value {
    let mut guard = setup.scripted_json("guard");
    guard["guard"] = json!(true);
    guard
}

/// An inner chain with a guard, and an agent.
fn start_with_inner_guard(setup: TestChainBuilder, inner: &[&str]) -> ScriptedChain {
    let inner = nested_chain("inner", inner, &[guard_component(&setup)]);
    let components = [inner.to_string(), setup.scripted_json("agent").to_string()];
    ScriptedChain::handshake(setup.run("agent", &components), &["guard", "agent"], PLAIN)
}

/// Checks that the first component is shown as a guard that is never bypassed.
fn assert_is_guard(chain: &ScriptedChain) {
    let component = chain.status()["components"][0].take();
    assert_eq!((&component["guard"], &component["policy"]), (&json!(true), &json!("restart,stop")));
}

/// Kills the inner conductor.
fn kill_inner(chain: &ScriptedChain) {
    let inner = chain.status()["components"][0]["pid"].as_i64().expect("a process");
    // SAFETY: sends a signal to a child of the conductor that the test has started.
    unsafe { libc::kill(inner as i32, libc::SIGKILL) };
}

/// The inner chain fails once more than allowed. Nothing passes, and the whole chain ends. A request is open
/// when that happens, because a chain without one may end before the editor could send it.
fn assert_ends(mut chain: ScriptedChain, fail: impl FnOnce(&ScriptedChain)) {
    chain.test.editor.send(&request("7", "_x/ask", "{}"));
    chain.proxies[0].request("_x/ask");
    fail(&chain);
    let answer = chain.test.editor.message();
    assert_eq!(answer["id"], 7, "{answer}");
    // The inner chain may have answered before it ended.
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("'inner'") || why.contains("'guard'"), "{answer}");
    assert_eq!(chain.test.conductor.status(), 1);
    // The agent has received nothing.
    assert_eq!(chain.agent.next_line(), None);
}

fn expect_restart_and_replay(chain: &mut ScriptedChain, session: &SessionRequest) {
    chain.await_restart(0);
    chain.expect_replay(0, std::slice::from_ref(session));
    chain.assert_works();
}

#[test]
fn an_inner_conductor_with_a_guard_that_is_killed_repeatedly_is_never_bypassed() {
    let mut chain = start_with_inner_guard(
        new_setup().option(&SHORT_GRACE).option(&["--restarts", "1/600"]),
        INNER,
    );
    assert_is_guard(&chain);
    let session = chain.new_session("s");
    kill_inner(&chain);
    expect_restart_and_replay(&mut chain, &session);
    assert_is_guard(&chain);
    let guard = chain.proxies[0].pid;
    assert_ends(chain, kill_inner);
    assert_gone(guard, "the guard");
}

#[test]
fn an_inner_chain_that_ends_with_its_guard_is_never_bypassed() {
    let inner = [INNER, &["--on-crash", "stop", "--grace", "0.1"]].concat();
    let mut chain = start_with_inner_guard(
        new_setup().option(&SHORT_GRACE).option(&["--restarts", "1/600"]),
        &inner,
    );
    let session = chain.new_session("s");
    kill(&chain.proxies[0]);
    expect_restart_and_replay(&mut chain, &session);
    assert_ends(chain, |chain| kill(&chain.proxies[0]));
}

/// A policy for all components does not bypass a guard either, at any depth.
#[test]
fn a_guard_two_chains_deep_makes_the_outer_component_a_guard() {
    for options in [&[][..], &["--on-crash", "bypass"], &["--on-crash", "restart,bypass"]] {
        let setup =
            new_setup().option(&SHORT_GRACE).option(&["--restarts", "0/600"]).option(options);
        let innermost = nested_chain("innermost", INNER, &[guard_component(&setup)]);
        let inner = nested_chain("inner", INNER, &[setup.scripted_json("first"), innermost]);
        let components = [
            inner.to_string(),
            setup.scripted_json("last").to_string(),
            setup.scripted_json("agent").to_string(),
        ];
        let chain = setup.run("agent", &components);
        let names = ["first", "guard", "last", "agent"];
        let chain = ScriptedChain::handshake(chain, &names, PLAIN);
        assert_is_guard(&chain);
        assert_eq!(chain.status()["components"][1]["guard"], false);
        let guard = chain.proxies[1].pid;
        assert_ends(chain, kill_inner);
        assert_gone(guard, "the guard");
    }
}

#[test]
fn a_guard_chain_can_be_bypassed_by_name() {
    let mut chain =
        start_with_inner_guard(new_setup().option(&["--on-crash", "inner=bypass"]), INNER);
    let component = chain.status()["components"][0].take();
    assert_eq!((&component["guard"], &component["policy"]), (&json!(true), &json!("bypass")));
    kill_inner(&chain);
    chain.wait_for_state(1, "bypassed");
    chain.proxies.remove(0);
    chain.assert_works();
}

#[test]
fn a_chain_without_a_guard_is_bypassed() {
    let setup = new_setup().option(&["--restarts", "0/600"]);
    let inner = nested_chain("inner", INNER, &[setup.scripted_json("plain")]);
    let components = [inner.to_string(), setup.scripted_json("agent").to_string()];
    let mut chain =
        ScriptedChain::handshake(setup.run("agent", &components), &["plain", "agent"], PLAIN);
    assert_eq!(chain.status()["components"][0]["policy"], "restart,bypass");
    kill_inner(&chain);
    chain.wait_for_state(1, "bypassed");
    chain.proxies.remove(0);
    chain.assert_works();
}

/// A chain that crashes before it has reported what it contains is not bypassed by a policy for all
/// components, however its command is written.
#[test]
fn an_inner_chain_that_fails_at_the_start_ends_the_outer_chain() {
    let place = directory("inner-wrapped");
    let direct =
        nested_chain("inner", INNER, &[json!({ "command": "/is/not/there", "guard": true })]);
    let wrapper = format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_conductor"));
    let mut wrapped = direct.clone();
    wrapped["command"] = json!(write_script(&place, "wrapper", &wrapper));
    let mut by_env = direct.clone();
    by_env["command"] = json!("env");
    let args = by_env["args"].as_array_mut().expect("a list");
    args.splice(0..0, [json!("X=1"), json!(env!("CARGO_BIN_EXE_conductor"))]);
    for inner in [direct, wrapped, by_env] {
        let setup = new_setup().option(&SHORT_GRACE).option(&["--on-crash", "bypass"]);
        let components = [inner.to_string(), setup.scripted_json("agent").to_string()];
        let mut chain = setup.run("agent", &components);
        chain.editor.send(&request("1", "initialize", crate::chain::GREETING));
        let answer = chain.editor.message();
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("/is/not/there") || why.contains("'inner'"), "{answer}");
        assert_eq!(chain.conductor.status(), 1, "{inner}");
        // The agent may have started, and has received nothing.
        if chain.has_reported("agent") {
            assert_eq!(chain.wait_for_component("agent").next_line(), None);
        }
    }
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// The replacement of a guard is a guard, whatever it declares.
#[test]
fn a_chain_that_was_a_guard_stays_a_guard() {
    let place = directory("once-a-guard");
    let setup = new_setup().option(&SHORT_GRACE).option(&["--restarts", "1/600"]);
    let conductor = format!("exec '{}' {}", env!("CARGO_BIN_EXE_conductor"), INNER.join(" "));
    let (guarded, plain) = (guard_component(&setup), setup.scripted_json("guard"));
    let body = format!(
        "if mkdir '{0}/seen' 2>/dev/null; then {conductor} '{guarded}'; else {conductor} '{plain}'; fi",
        place.display()
    );
    let inner = write_script(&place, "inner", &body).display().to_string();
    let components = [inner, setup.scripted_json("agent").to_string()];
    let mut chain =
        ScriptedChain::handshake(setup.run("agent", &components), &["guard", "agent"], PLAIN);
    assert_is_guard(&chain);
    let session = chain.new_session("s");
    kill_inner(&chain);
    expect_restart_and_replay(&mut chain, &session);
    assert_is_guard(&chain);
    assert_ends(chain, kill_inner);
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// What a hostile or odd agent may send where a chain declares that it contains a guard.
const AGENT_META: [&str; 7] = [
    r#"{"conductor":{"guards":18446744073709551615}}"#,
    r#"{"conductor":{"guards":1,"more":[1.10]}}"#,
    r#"{"conductor":{"guards":true}}"#,
    r#"{"conductor":{"guards":{"a":false}}}"#,
    r#"{"conductor":{"guards":false}}"#,
    r#"{"conductor":"x"}"#,
    "3",
];

/// A proxy that is not scripted, because the dialects differ in what a scripted proxy would have to send.
fn transparent(guard: bool) -> Value {
    json!({ "name": "transparent", "guard": guard, "command": testkit::test_chain::binary("transparent") })
}

/// Starts a chain of one inner chain and an agent that answers `initialize` with this result. Returns the
/// status of the first component.
fn status_after_handshake(setup: TestChainBuilder, inner: &Value, result: &str) -> Value {
    let components = [inner.to_string(), setup.scripted_json("agent").to_string()];
    let mut chain = setup.run("agent", &components);
    chain.editor.send(&request("1", "initialize", crate::chain::GREETING));
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    assert!(!received.to_string().contains("guards"), "{received}");
    agent.answer(&received, result);
    let answer = chain.editor.line();
    assert!(answer.contains("\"result\""), "{answer}");
    let component = wait_until("the chain is up", || {
        let component = crate::chain::status(&chain)["components"][0].take();
        (component["state"] == "live").then_some(component)
    });
    // Only conductors see the flag. The editor sees what the agent sent. (Under SCP a chain answers before
    // it knows its successor.)
    let (_, meta) = result.split_once("\"_meta\":").expect("each answer has it");
    if component["dialect"] != "P0" {
        assert!(answer.contains(meta.trim_end_matches('}')), "{answer}");
    }
    assert!(meta.contains("guards") || !answer.contains("guards"), "{answer}");
    component
}

fn with_meta(meta: &str) -> String {
    format!(r#"{{"protocolVersion":1,"agentCapabilities":{{}},"authMethods":[],"_meta":{meta}}}"#)
}

/// Holds in each dialect between the two conductors. No other component sees the declaration.
#[test]
fn an_inner_guard_is_declared_in_every_dialect() {
    for dialect in ["P0", "P1", "P2", "P3", "P3t", "P4", "P5"] {
        let answers = [
            PLAIN.to_owned(),
            with_meta(AGENT_META[0]),
            with_meta(AGENT_META[2]),
            with_meta(AGENT_META[6]),
        ];
        for result in answers {
            let setup = new_setup().option(&["--dialect", &format!("inner={dialect}")]);
            let inner = nested_chain("inner", INNER, &[transparent(true)]);
            let component = status_after_handshake(setup, &inner, &result);
            assert_eq!(component["dialect"], dialect);
            assert_eq!(component["guard"], true, "{dialect}, {result}: {component}");
            assert_eq!(component["policy"], "restart,stop", "{dialect}");
        }
    }
}

/// An agent can neither hide the guard of an inner chain nor turn a chain without one into a guard, at one
/// level or two.
#[test]
fn an_agent_cannot_change_whether_a_chain_contains_a_guard() {
    for (number, meta) in AGENT_META.into_iter().enumerate() {
        let guard = number % 2 == 0 || number == 5;
        let innermost = nested_chain("innermost", INNER, &[transparent(guard)]);
        let inner = nested_chain("inner", INNER, &[transparent(false), innermost]);
        let component = status_after_handshake(new_setup(), &inner, &with_meta(meta));
        assert_eq!(component["guard"], guard, "{meta}: {component}");
    }
}

/// A proxy in the inner chain that drops the agent's `_meta` changes nothing.
#[test]
fn a_proxy_that_drops_meta_does_not_hide_the_guard() {
    for meta in AGENT_META {
        let setup = new_setup();
        let inner = nested_chain("inner", INNER, &[guard_component(&setup)]);
        let components = [inner.to_string(), setup.scripted_json("agent").to_string()];
        let mut chain = setup.run("agent", &components);
        chain.editor.send(&request("1", "initialize", crate::chain::GREETING));
        let mut guard = chain.wait_for_component("guard");
        let greeting = guard.request("proxy/initialize");
        guard.send(&testkit::rpc::request(
            "9",
            "proxy/successor",
            &json!({ "method": "initialize", "params": greeting["params"] }).to_string(),
        ));
        let mut agent = chain.wait_for_component("agent");
        let received_request = agent.request("initialize");
        agent.answer(&received_request, &with_meta(meta));
        let received = guard.message();
        assert_eq!(received["id"], 9, "{received}");
        assert!(!received.to_string().contains("guards"), "{received}");
        guard.answer(&greeting, PLAIN);
        assert!(chain.editor.line().contains("\"result\""));
        let component = crate::chain::status(&chain)["components"][0].take();
        assert_eq!(component["guard"], true, "{meta}: {component}");
    }
}

/// A chain cannot add its declaration to a result that is not a JSON object.
#[test]
fn an_agent_whose_result_is_not_an_object_is_refused_behind_a_guard() {
    for result in ["3", "null", "[]", "\"x\""] {
        let setup = new_setup();
        let inner = nested_chain("inner", INNER, &[transparent(true)]);
        let components = [inner.to_string(), setup.scripted_json("agent").to_string()];
        let mut chain = setup.run("agent", &components);
        chain.editor.send(&request("1", "initialize", crate::chain::GREETING));
        let mut agent = chain.wait_for_component("agent");
        let received = agent.request("initialize");
        agent.answer(&received, result);
        let answer = chain.editor.message();
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("'agent'") && why.contains("not a JSON object"), "{answer}");
    }
}
