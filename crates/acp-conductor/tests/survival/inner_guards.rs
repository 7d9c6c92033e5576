//! A chain that contains a guard is a guard of the chain around it. Issue 11, item 16.

use serde_json::{Value, json};
use testkit::rpc::request;
use testkit::stage::{Setup, assert_gone, directory, script, wait_until};

use crate::play::{PLAIN, Play, SetUp, kill};
use crate::{HASTE, stage};

const INNER: &[&str] = &["proxy", "--restart-delay", "0..0", "--notices", "off"];

/// A component that is a chain.
fn chain(name: &str, options: &[&str], components: &[Value]) -> Value {
    let components = components.iter().map(Value::to_string);
    let args = options.iter().map(|it| (*it).to_owned()).chain(components);
    let args: Vec<String> = args.collect();
    json!({ "name": name, "command": env!("CARGO_BIN_EXE_conductor"), "args": args })
}

fn guard(setup: &Setup) -> Value {
    let mut guard = setup.component("guard");
    guard["guard"] = json!(true);
    guard
}

/// An inner chain with a guard, and an agent.
fn begin(setup: Setup, inner: &[&str]) -> Play {
    let inner = chain("inner", inner, &[guard(&setup)]);
    let components = [inner.to_string(), setup.component("agent").to_string()];
    Play::of(setup.run("agent", &components), &["guard", "agent"], PLAIN)
}

/// The first component is shown as a guard that is never left out.
fn assert_guards(play: &Play) {
    let component = play.status()["components"][0].take();
    assert_eq!((&component["guard"], &component["policy"]), (&json!(true), &json!("restart,stop")));
}

/// Kills the inner conductor.
fn kill_inner(play: &Play) {
    let inner = play.status()["components"][0]["pid"].as_i64().expect("a process");
    // SAFETY: sends a signal to a child of the conductor that the test has started.
    unsafe { libc::kill(inner as i32, libc::SIGKILL) };
}

/// The inner chain fails once more than it may: nothing passes, and the whole chain ends. A request is open
/// when that happens, because a chain without one may end before the editor could ask.
fn assert_ends(mut play: Play, fail: impl FnOnce(&Play)) {
    play.stage.editor.send(&request("7", "_x/ask", "{}"));
    play.proxies[0].request("_x/ask");
    fail(&play);
    let answer = play.stage.editor.message();
    assert_eq!(answer["id"], 7, "{answer}");
    // The inner chain may have answered before it ended.
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("'inner'") || why.contains("'guard'"), "{answer}");
    assert_eq!(play.stage.conductor.status(), 1);
    // The agent has heard nothing.
    assert_eq!(play.agent.next_line(), None);
}

fn learns(play: &mut Play, session: &SetUp) {
    play.replaced(0);
    play.learns(0, std::slice::from_ref(session));
    play.works();
}

#[test]
fn an_inner_conductor_that_is_killed_again_and_again_is_never_left_out() {
    let mut play = begin(stage().option(&HASTE).option(&["--restarts", "1/600"]), INNER);
    assert_guards(&play);
    let session = play.session("s");
    kill_inner(&play);
    learns(&mut play, &session);
    assert_guards(&play);
    let guard = play.proxies[0].pid;
    assert_ends(play, kill_inner);
    assert_gone(guard, "the guard");
}

#[test]
fn an_inner_chain_that_ends_with_its_guard_is_never_left_out() {
    let inner = [INNER, &["--on-crash", "stop", "--grace", "0.1"]].concat();
    let mut play = begin(stage().option(&HASTE).option(&["--restarts", "1/600"]), &inner);
    let session = play.session("s");
    kill(&play.proxies[0]);
    learns(&mut play, &session);
    assert_ends(play, |play| kill(&play.proxies[0]));
}

/// What is said of all components does not open a door either, at any depth.
#[test]
fn a_guard_two_chains_deep_is_heard_of() {
    for options in [&[][..], &["--on-crash", "bypass"], &["--on-crash", "restart,bypass"]] {
        let setup = stage().option(&HASTE).option(&["--restarts", "0/600"]).option(options);
        let innermost = chain("innermost", INNER, &[guard(&setup)]);
        let inner = chain("inner", INNER, &[setup.component("first"), innermost]);
        let components = [
            inner.to_string(),
            setup.component("last").to_string(),
            setup.component("agent").to_string(),
        ];
        let stage = setup.run("agent", &components);
        let names = ["first", "guard", "last", "agent"];
        let play = Play::of(stage, &names, PLAIN);
        assert_guards(&play);
        assert_eq!(play.status()["components"][1]["guard"], false);
        let guard = play.proxies[1].pid;
        assert_ends(play, kill_inner);
        assert_gone(guard, "the guard");
    }
}

#[test]
fn a_user_who_names_the_chain_may_leave_it_out() {
    let mut play = begin(stage().option(&["--on-crash", "inner=bypass"]), INNER);
    let component = play.status()["components"][0].take();
    assert_eq!((&component["guard"], &component["policy"]), (&json!(true), &json!("bypass")));
    kill_inner(&play);
    play.wait_for_state(1, "bypassed");
    play.proxies.remove(0);
    play.works();
}

#[test]
fn a_chain_without_a_guard_is_left_out_as_before() {
    let setup = stage().option(&["--restarts", "0/600"]);
    let inner = chain("inner", INNER, &[setup.component("plain")]);
    let components = [inner.to_string(), setup.component("agent").to_string()];
    let mut play = Play::of(setup.run("agent", &components), &["plain", "agent"], PLAIN);
    assert_eq!(play.status()["components"][0]["policy"], "restart,bypass");
    kill_inner(&play);
    play.wait_for_state(1, "bypassed");
    play.proxies.remove(0);
    play.works();
}

/// A chain that dies before it has said what it contains is not left out by a word for all, however its
/// command is written.
#[test]
fn a_chain_that_fails_at_the_start_ends_the_chain_around_it() {
    let place = directory("inner-wrapped");
    let direct = chain("inner", INNER, &[json!({ "command": "/is/not/there", "guard": true })]);
    let wrapper = format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_conductor"));
    let mut wrapped = direct.clone();
    wrapped["command"] = json!(script(&place, "wrapper", &wrapper));
    let mut by_env = direct.clone();
    by_env["command"] = json!("env");
    let args = by_env["args"].as_array_mut().expect("a list");
    args.splice(0..0, [json!("X=1"), json!(env!("CARGO_BIN_EXE_conductor"))]);
    for inner in [direct, wrapped, by_env] {
        let setup = stage().option(&HASTE).option(&["--on-crash", "bypass"]);
        let components = [inner.to_string(), setup.component("agent").to_string()];
        let mut stage = setup.run("agent", &components);
        stage.editor.send(&request("1", "initialize", crate::play::GREETING));
        let answer = stage.editor.message();
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("/is/not/there") || why.contains("'inner'"), "{answer}");
        assert_eq!(stage.conductor.status(), 1, "{inner}");
        // The agent may have been started, and has heard nothing.
        if stage.has_entered("agent") {
            assert_eq!(stage.enter("agent").next_line(), None);
        }
    }
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// What takes the place of a guard is a guard, whatever it says.
#[test]
fn a_chain_that_was_a_guard_stays_one() {
    let place = directory("once-a-guard");
    let setup = stage().option(&HASTE).option(&["--restarts", "1/600"]);
    let conductor = format!("exec '{}' {}", env!("CARGO_BIN_EXE_conductor"), INNER.join(" "));
    let (guarded, plain) = (guard(&setup), setup.component("guard"));
    let body = format!(
        "if mkdir '{0}/seen' 2>/dev/null; then {conductor} '{guarded}'; else {conductor} '{plain}'; fi",
        place.display()
    );
    let inner = script(&place, "inner", &body).display().to_string();
    let components = [inner, setup.component("agent").to_string()];
    let mut play = Play::of(setup.run("agent", &components), &["guard", "agent"], PLAIN);
    assert_guards(&play);
    let session = play.session("s");
    kill_inner(&play);
    learns(&mut play, &session);
    assert_guards(&play);
    assert_ends(play, kill_inner);
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// What a hostile or odd agent may say where a chain says that it contains a guard.
const SAID: [&str; 7] = [
    r#"{"conductor":{"guards":18446744073709551615}}"#,
    r#"{"conductor":{"guards":1,"more":[1.10]}}"#,
    r#"{"conductor":{"guards":true}}"#,
    r#"{"conductor":{"guards":{"a":false}}}"#,
    r#"{"conductor":{"guards":false}}"#,
    r#"{"conductor":"x"}"#,
    "3",
];

/// A proxy that needs no puppet: the dialects differ in what a puppet would have to say.
fn transparent(guard: bool) -> Value {
    json!({ "name": "transparent", "guard": guard, "command": testkit::stage::binary("transparent") })
}

/// Starts a chain of one inner chain and an agent, which answers so. Gives the first component's status.
fn greeted(setup: Setup, inner: &Value, result: &str) -> Value {
    let components = [inner.to_string(), setup.component("agent").to_string()];
    let mut stage = setup.run("agent", &components);
    stage.editor.send(&request("1", "initialize", crate::play::GREETING));
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    assert!(!asked.to_string().contains("guards"), "{asked}");
    agent.answer(&asked, result);
    let answer = stage.editor.line();
    assert!(answer.contains("\"result\""), "{answer}");
    let component = wait_until("the chain is up", || {
        let component = crate::play::status(&stage)["components"][0].take();
        (component["state"] == "live").then_some(component)
    });
    // Nobody but the conductors sees the flag; the editor sees what the agent said. (Under SCP a chain
    // answers before it knows its successor.)
    let (_, said) = result.split_once("\"_meta\":").expect("each answer has it");
    if component["dialect"] != "P0" {
        assert!(answer.contains(said.trim_end_matches('}')), "{answer}");
    }
    assert!(said.contains("guards") || !answer.contains("guards"), "{answer}");
    component
}

fn with_meta(said: &str) -> String {
    format!(r#"{{"protocolVersion":1,"agentCapabilities":{{}},"authMethods":[],"_meta":{said}}}"#)
}

/// In whatever dialect the two conductors speak to each other; and nobody else sees anything of it.
#[test]
fn a_guard_is_heard_of_in_every_dialect() {
    for dialect in ["P0", "P1", "P2", "P3", "P3t", "P4", "P5"] {
        let answers =
            [PLAIN.to_owned(), with_meta(SAID[0]), with_meta(SAID[2]), with_meta(SAID[6])];
        for result in answers {
            let setup = stage().option(&["--dialect", &format!("inner={dialect}")]);
            let inner = chain("inner", INNER, &[transparent(true)]);
            let component = greeted(setup, &inner, &result);
            assert_eq!(component["dialect"], dialect);
            assert_eq!(component["guard"], true, "{dialect}, {result}: {component}");
            assert_eq!(component["policy"], "restart,stop", "{dialect}");
        }
    }
}

/// An agent can neither switch the guard of an inner chain off nor make a guard of a chain without one, at
/// one level or two.
#[test]
fn an_agent_has_no_say_in_whether_a_chain_contains_a_guard() {
    for (number, said) in SAID.into_iter().enumerate() {
        let guard = number % 2 == 0 || number == 5;
        let innermost = chain("innermost", INNER, &[transparent(guard)]);
        let inner = chain("inner", INNER, &[transparent(false), innermost]);
        let component = greeted(stage(), &inner, &with_meta(said));
        assert_eq!(component["guard"], guard, "{said}: {component}");
    }
}

/// A proxy in the inner chain that drops what the agent says in `_meta` changes nothing.
#[test]
fn a_proxy_that_drops_meta_does_not_hide_the_guard() {
    for said in SAID {
        let setup = stage();
        let inner = chain("inner", INNER, &[guard(&setup)]);
        let components = [inner.to_string(), setup.component("agent").to_string()];
        let mut stage = setup.run("agent", &components);
        stage.editor.send(&request("1", "initialize", crate::play::GREETING));
        let mut guard = stage.enter("guard");
        let greeting = guard.request("proxy/initialize");
        guard.send(&testkit::rpc::request(
            "9",
            "proxy/successor",
            &json!({ "method": "initialize", "params": greeting["params"] }).to_string(),
        ));
        let mut agent = stage.enter("agent");
        let asked = agent.request("initialize");
        agent.answer(&asked, &with_meta(said));
        let heard = guard.message();
        assert_eq!(heard["id"], 9, "{heard}");
        assert!(!heard.to_string().contains("guards"), "{heard}");
        guard.answer(&greeting, PLAIN);
        assert!(stage.editor.line().contains("\"result\""));
        let component = crate::play::status(&stage)["components"][0].take();
        assert_eq!(component["guard"], true, "{said}: {component}");
    }
}

/// To an answer that is no object, a chain could not add that it contains a guard.
#[test]
fn an_agent_whose_answer_is_no_object_is_refused_behind_a_guard() {
    for result in ["3", "null", "[]", "\"x\""] {
        let setup = stage();
        let inner = chain("inner", INNER, &[transparent(true)]);
        let components = [inner.to_string(), setup.component("agent").to_string()];
        let mut stage = setup.run("agent", &components);
        stage.editor.send(&request("1", "initialize", crate::play::GREETING));
        let mut agent = stage.enter("agent");
        let asked = agent.request("initialize");
        agent.answer(&asked, result);
        let answer = stage.editor.message();
        let why = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("'agent'") && why.contains("not an object"), "{answer}");
    }
}
