//! Messages that go around a proxy: updates that the SDKs of its generation cannot parse, and kinds of
//! message that it has crashed on twice.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use testkit::peers::quote;
use testkit::rpc::{notification, request, result};
use testkit::test_chain::{
    Peer, ScriptedComponent, TestChain, binary, directory, parse, wait_until,
};

use crate::chain::{PLAIN, ScriptedChain, assert_crash, forward_next, kill, prompt};
use crate::generation::{ALL, Generation, P3, P4, P5};
use crate::scripted_proxy::{ScriptedProxy, initialize};
use crate::{default_setup, new_setup, setup_with_notices};

const UPDATE: &str = "session/update";
const BARRIER: &str = "_conductor/barrier";

fn chunk(text: &str) -> String {
    format!(
        r#"{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}"#
    )
}

fn usage(used: u32) -> String {
    format!(
        r#"{{"sessionId":"s","update":{{"sessionUpdate":"usage_update","used":{used},"size":1.10}}}}"#
    )
}

fn dialect_option(generation: &Generation) -> [String; 2] {
    ["--dialect".into(), format!("1={}", generation.name)]
}

fn chain_with_old_proxy(
    options: &[&str],
    generation: &'static Generation,
) -> (TestChain, ScriptedProxy, ScriptedComponent) {
    let pin = dialect_option(generation);
    let setup = new_setup().option(&[&pin[0], &pin[1]]).option(options);
    let mut chain = setup.run_named(&["old", "agent"]);
    let (mut proxies, agent) =
        initialize(&mut chain, &[("old", generation, &[generation.greeting])]);
    (chain, proxies.remove(0), agent)
}

/// The proxy receives a barrier. Returns it.
fn expect_barrier(proxy: &mut ScriptedProxy) -> Value {
    let line = proxy.line();
    let barrier = parse(&line);
    assert_eq!(barrier["params"]["method"], BARRIER, "{line}");
    barrier
}

fn forward_barrier(proxy: &mut ScriptedProxy, barrier: &Value) {
    let params = barrier["params"]["params"].to_string();
    proxy.send(&request("\"passed\"", BARRIER, &params));
    assert_eq!(proxy.line(), result("\"passed\"", "{}"));
    proxy.answer(barrier, "{}");
}

/// In every generation: updates that go around a proxy keep their place in the order and their bytes.
#[test]
fn updates_that_a_generation_cannot_read_go_around_its_proxies() {
    for generation in ALL {
        let (mut chain, mut proxy, mut agent) = chain_with_old_proxy(&[], generation);
        for params in [chunk("1"), usage(2), usage(3), chunk("4")] {
            agent.send(&notification(UPDATE, &params));
        }
        let is_old = [&P3, &P4].contains(&generation);
        assert_eq!(proxy.line(), generation.received_notification(UPDATE, &chunk("1")));
        let barrier = match is_old {
            true => Some(expect_barrier(&mut proxy)),
            false => {
                assert_eq!(proxy.line(), generation.received_notification(UPDATE, &usage(2)));
                assert_eq!(proxy.line(), generation.received_notification(UPDATE, &usage(3)));
                None
            }
        };
        assert_eq!(proxy.line(), generation.received_notification(UPDATE, &chunk("4")));
        proxy.send(&notification(UPDATE, &chunk("1")));
        match &barrier {
            Some(barrier) => forward_barrier(&mut proxy, barrier),
            None => {
                proxy.send(&notification(UPDATE, &usage(2)));
                proxy.send(&notification(UPDATE, &usage(3)));
            }
        }
        proxy.send(&notification(UPDATE, &chunk("4")));
        for params in [chunk("1"), usage(2), usage(3), chunk("4")] {
            assert_eq!(chain.editor.line(), notification(UPDATE, &params), "{}", generation.name);
        }
    }
}

/// A proxy may drop unknown requests such as barriers. No message overtakes another, and none is late.
#[test]
fn a_proxy_that_drops_barriers_does_not_change_the_order() {
    for generation in [&P3, &P4] {
        let (mut chain, mut proxy, mut agent) = chain_with_old_proxy(&[], generation);
        for turn in 0..2 {
            let id = (turn + 1).to_string();
            chain.editor.send(&request(&id, "session/prompt", &prompt("s")));
            let received = proxy.message();
            let params = received["params"].to_string();
            proxy.send(&generation.sent("5", "session/prompt", &params));
            let received_request = agent.message();
            agent.send(&notification(UPDATE, &chunk("1")));
            agent.send(&notification(UPDATE, &usage(2)));
            agent.send(&notification(UPDATE, &chunk("3")));
            agent.send(&notification(UPDATE, &usage(4)));
            agent.answer(&received_request, "{}");
            // The proxy drops the two barriers of the first turn. It receives none after that.
            let is_barrier = |line: &String| line.contains(BARRIER);
            let lines: Vec<String> =
                (0..if turn == 0 { 5 } else { 3 }).map(|_| proxy.line()).collect();
            assert_eq!(lines.iter().filter(|it| is_barrier(it)).count(), 2 - 2 * turn, "{lines:?}");
            for text in ["1", "3"] {
                proxy.send(&notification(UPDATE, &chunk(text)));
            }
            proxy.answer(&received, r#"{"changed":true}"#);
            for params in [chunk("1"), usage(2), chunk("3"), usage(4)] {
                assert_eq!(chain.editor.line(), notification(UPDATE, &params));
            }
            assert_eq!(chain.editor.line(), result(&id, r#"{"changed":true}"#));
        }
    }
}

#[test]
fn an_update_with_a_value_newer_than_its_schema_goes_around_a_proxy() {
    let (mut chain, mut proxy, mut agent) = chain_with_old_proxy(&[], &P4);
    let newer = [
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"paused"}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"video","uri":"u"}}"#,
    ];
    for update in newer {
        agent.send(&notification(UPDATE, &format!(r#"{{"sessionId":"s","update":{update}}}"#)));
    }
    let barrier = expect_barrier(&mut proxy);
    proxy.answer_error(&barrier, r#"{"code":-32601,"message":"what?"}"#);
    for update in newer {
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        assert_eq!(chain.editor.line(), notification(UPDATE, &params));
    }
}

/// A guard receives every message, even if it cannot parse it or has crashed on it.
#[test]
fn nothing_goes_around_a_guard() {
    let (_chain, mut proxy, mut agent) = chain_with_old_proxy(&["--guard", "old"], &P4);
    agent.send(&notification(UPDATE, &usage(1)));
    assert_eq!(proxy.line(), P4.received_notification(UPDATE, &usage(1)));

    let mut chain =
        ScriptedChain::start(new_setup().option(&["--guard", "proxy"]), &["proxy", "agent"], PLAIN);
    for _ in 0..4 {
        chain.agent.send(&notification(UPDATE, &usage(1)));
        assert_eq!(chain.proxies[0].message()["params"]["method"], UPDATE);
        chain.proxies[0].exit(1);
        chain.await_restart(0);
        chain.expect_replay(0, &[]);
    }
}

#[test]
fn the_user_can_choose_which_updates_a_proxy_receives() {
    let (_chain, mut proxy, mut agent) = chain_with_old_proxy(&["--updates", "old=all"], &P4);
    agent.send(&notification(UPDATE, &usage(1)));
    assert_eq!(proxy.line(), P4.received_notification(UPDATE, &usage(1)));

    let (mut chain, mut proxy, mut agent) = chain_with_old_proxy(&["--updates", "known"], &P5);
    let future = r#"{"sessionId":"s","update":{"sessionUpdate":"_future"}}"#;
    agent.send(&notification(UPDATE, &usage(1)));
    agent.send(&notification(UPDATE, future));
    assert_eq!(proxy.line(), P5.received_notification(UPDATE, &usage(1)));
    let barrier = expect_barrier(&mut proxy);
    forward_barrier(&mut proxy, &barrier);
    assert_eq!(chain.editor.line(), notification(UPDATE, future));

    let setup = default_setup();
    let component = json!({ "command": "x", "updates": "some" }).to_string();
    let mut wrong = setup.run("agent", &[component, "y".into()]);
    // The editor gets the error as the answer to its first request.
    wrong
        .editor
        .send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    assert_eq!(wrong.conductor.status(), 2);
    let stderr = wrong.conductor.whole_stderr();
    assert!(stderr.contains("not one of all, known"), "{stderr}");
}

/// A proxy crashes while updates go around two old proxies in a row. None is lost or overtaken.
#[test]
fn a_crash_loses_no_update_that_goes_around_a_proxy() {
    let pins = ["--dialect", "1=P4", "--dialect", "2=P3"];
    let mut chain = new_setup().option(&pins).run_named(&["first", "second", "agent"]);
    let parts: [(&str, &'static Generation, &[&str]); 2] =
        [("first", &P4, &[P4.greeting]), ("second", &P3, &[P3.greeting])];
    let (mut proxies, mut agent) = initialize(&mut chain, &parts);
    agent.send(&notification(UPDATE, &usage(1)));
    expect_barrier(&mut proxies[1]);
    agent.send(&notification(UPDATE, &usage(2)));
    // One barrier covers both updates when the request arrives.
    agent.send(&request("7", "_x/ask", "{}"));
    assert_eq!(parse(&proxies[1].line())["params"]["method"], "_x/ask");
    kill(&proxies[1]);
    let barrier = expect_barrier(&mut proxies[0]);
    assert_crash(&agent.message(), json!(7), "second", "SIGKILL", "restarted");
    forward_barrier(&mut proxies[0], &barrier);
    for used in [1, 2] {
        assert_eq!(chain.editor.line(), notification(UPDATE, &usage(used)));
    }
}

#[test]
fn explain_lists_the_updates_that_go_around_a_proxy() {
    let crashing_proxy = quote(&binary("crashing_proxy").to_string_lossy());
    let explain = |options: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_conductor"))
            .args(["agent", "--explain"])
            .args(options)
            .args([&format!("{crashing_proxy} x"), "demo-agent"])
            .env("XDG_CACHE_HOME", directory("explained"))
            .output()
            .expect("it runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert!(!explain(&[]).contains("go around"));
    let known = explain(&["--updates", "known"]);
    assert!(
        known.contains("updates that go around crashing_proxy: plan_update, plan_removed"),
        "{known}"
    );
    let report = parse(&explain(&["--updates", "known", "--json"]));
    let around = &report["components"][0]["around"];
    assert!(around.as_array().is_some_and(|it| it.contains(&json!("state_update"))), "{report}");
    assert_eq!(report["components"][1]["around"], json!([]));
}

/// After two crashes the third message of that kind goes around the proxy, and the editor learns why.
#[test]
fn a_kind_of_message_goes_around_a_proxy_that_crashes_twice_on_it() {
    let mut chain = ScriptedChain::start(setup_with_notices(), &["proxy", "agent"], PLAIN);
    let session = chain.new_session("s");
    for _ in 0..2 {
        chain.agent.send(&notification(UPDATE, &chunk("fine")));
        forward_next(&mut chain.proxies[0]);
        assert_eq!(chain.test.editor.line(), notification(UPDATE, &chunk("fine")));
        chain.agent.send(&notification(UPDATE, &usage(1)));
        assert_eq!(chain.proxies[0].message()["params"]["params"], parse(&usage(1)));
        chain.proxies[0].exit(1);
        chain.await_restart(0);
        chain.expect_replay(0, std::slice::from_ref(&session));
    }
    chain.agent.send(&notification(UPDATE, &usage(3)));
    let barrier = chain.proxies[0].message();
    assert_eq!(barrier["params"]["method"], BARRIER);
    chain.proxies[0].answer(&barrier, "{}");
    assert_eq!(chain.test.editor.line(), notification(UPDATE, &usage(3)));
    // Other kinds still pass through the proxy.
    chain.agent.send(&notification(UPDATE, &chunk("on")));
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.test.editor.line(), notification(UPDATE, &chunk("on")));
    // The notices of the two crashes, and the notice of what follows.
    chain.test.editor.send(&request("9", "session/prompt", &prompt("s")));
    let notes: Vec<String> = (0..3)
        .map(|_| chain.test.editor.message()["params"]["update"]["content"]["text"].to_string())
        .collect();
    assert!(notes[2].contains("has crashed twice on session/update usage_update"), "{notes:?}");
    chain.test.conductor.wait_for_stderr("has crashed twice");
}

/// The request goes to the next component, and its answer comes back after what was sent before it.
#[test]
fn a_request_that_a_proxy_crashes_on_twice_goes_to_the_next_component() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    for id in ["1", "2"] {
        chain.test.editor.send(&request(id, "_x/deadly", "{}"));
        chain.proxies[0].request("_x/deadly");
        chain.proxies[0].exit(101);
        assert_crash(&chain.test.editor.message(), parse(id), "proxy", "101", "restarted");
        chain.await_restart(0);
        chain.expect_replay(0, std::slice::from_ref(&session));
    }
    chain.test.editor.send(&request("3", "_x/deadly", "{}"));
    let barrier = chain.proxies[0].request(BARRIER);
    chain.proxies[0].answer(&barrier, "{}");
    let received = chain.agent.request("_x/deadly");
    chain.agent.send(&notification(UPDATE, &chunk("before")));
    chain.agent.answer(&received, "{}");
    forward_next(&mut chain.proxies[0]);
    let barrier = chain.proxies[0].message();
    chain.proxies[0].answer(&barrier, "{}");
    assert_eq!(chain.test.editor.line(), notification(UPDATE, &chunk("before")));
    assert_eq!(chain.test.editor.line(), result("3", "{}"));
    chain.assert_works();
}

/// A proxy that is killed from outside has not crashed on a message. Neither has a proxy that had already
/// passed the message on.
#[test]
fn only_a_crash_on_the_message_itself_counts() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let send = |chain: &mut ScriptedChain| {
        chain.agent.send(&notification(UPDATE, &usage(1)));
        assert_eq!(chain.proxies[0].message()["params"]["method"], UPDATE);
    };
    for _ in 0..3 {
        send(&mut chain);
        kill(&chain.proxies[0]);
        chain.await_restart(0);
        chain.expect_replay(0, &[]);
    }
    for _ in 0..2 {
        send(&mut chain);
        chain.proxies[0].send(&notification(UPDATE, &usage(1)));
        assert_eq!(chain.test.editor.line(), notification(UPDATE, &usage(1)));
        chain.proxies[0].exit(1);
        chain.await_restart(0);
        chain.expect_replay(0, &[]);
    }
    send(&mut chain);
}

fn crashing_chain(program: &str, cache: &str) -> ScriptedChain {
    let setup = new_setup().env("XDG_CACHE_HOME", cache);
    let components = [format!("{} usage_update", quote(program)), setup.scripted_command("agent")];
    ScriptedChain::handshake(setup.run("agent", &components), &["agent"], PLAIN)
}

/// The proxy crashes this often on the update, which then goes around it.
fn assert_crashes(mut chain: ScriptedChain, count: u32) {
    for restarts in 1..=count {
        chain.agent.send(&notification(UPDATE, &usage(1)));
        wait_until("the proxy is live again", || {
            let proxy = chain.status()["components"][0].take();
            (proxy["restarts"] == restarts && proxy["state"] == "live").then_some(())
        });
    }
    chain.agent.send(&notification(UPDATE, &usage(2)));
    assert_eq!(chain.test.editor.line(), notification(UPDATE, &usage(2)));
    assert_eq!(chain.status()["components"][0]["restarts"], count);
}

/// The kinds of message are remembered for each command, until the program file changes.
#[test]
fn the_kinds_of_message_a_command_crashes_on_are_remembered() {
    let own = directory("crashing_proxy");
    let program = own.join("crashing_proxy-program");
    fs::copy(binary("crashing_proxy"), &program).expect("a copy");
    let (program, cache) = (program.to_string_lossy(), own.join("cache"));
    let cache = cache.to_string_lossy();
    assert_crashes(crashing_chain(&program, &cache), 2);
    assert_crashes(crashing_chain(&program, &cache), 0);
    let remembered = fs::read_to_string(own.join("cache/conductor/crashes")).expect("a file");
    assert!(remembered.contains(r#"["session/update","usage_update"]"#), "{remembered}");
    // The same content, but a new file.
    fs::remove_file(&*program).expect("it exists");
    fs::copy(binary("crashing_proxy"), &*program).expect("a copy");
    assert_crashes(crashing_chain(&program, &cache), 2);
}
