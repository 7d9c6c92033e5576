//! Messages that go around a proxy: updates that the SDKs of its generation cannot read, and kinds of
//! message that it has crashed on twice.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use testkit::peers::quote;
use testkit::rpc::{notification, request, result};
use testkit::stage::{Peer, Puppet, Stage, binary, directory, parse, wait_until};

use crate::play::{PLAIN, Play, assert_crash, kill, pass, prompt};
use crate::players::{Proxy, initialize};
use crate::spelling::{ALL, Generation, P3, P4, P5};
use crate::{bare, loud, stage};

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

fn pinned(generation: &Generation) -> [String; 2] {
    ["--dialect".into(), format!("1={}", generation.name)]
}

fn chain(options: &[&str], generation: &'static Generation) -> (Stage, Proxy, Puppet) {
    let pin = pinned(generation);
    let setup = stage().option(&[&pin[0], &pin[1]]).option(options);
    let mut stage = setup.named(&["old", "agent"]);
    let (mut proxies, agent) =
        initialize(&mut stage, &[("old", generation, &[generation.greeting])]);
    (stage, proxies.remove(0), agent)
}

/// The proxy must get a barrier; gives it.
fn gets_barrier(proxy: &mut Proxy) -> Value {
    let line = proxy.line();
    let barrier = parse(&line);
    assert_eq!(barrier["params"]["method"], BARRIER, "{line}");
    barrier
}

fn passes_barrier(proxy: &mut Proxy, barrier: &Value) {
    let params = barrier["params"]["params"].to_string();
    proxy.send(&request("\"passed\"", BARRIER, &params));
    assert_eq!(proxy.line(), result("\"passed\"", "{}"));
    proxy.answer(barrier, "{}");
}

/// Every generation: what goes around it keeps its place and its spelling.
#[test]
fn updates_that_a_generation_cannot_read_go_around_its_proxies() {
    for generation in ALL {
        let (mut stage, mut proxy, mut agent) = chain(&[], generation);
        for params in [chunk("1"), usage(2), usage(3), chunk("4")] {
            agent.send(&notification(UPDATE, &params));
        }
        let is_old = [&P3, &P4].contains(&generation);
        assert_eq!(proxy.line(), generation.received_note(UPDATE, &chunk("1")));
        let barrier = match is_old {
            true => Some(gets_barrier(&mut proxy)),
            false => {
                assert_eq!(proxy.line(), generation.received_note(UPDATE, &usage(2)));
                assert_eq!(proxy.line(), generation.received_note(UPDATE, &usage(3)));
                None
            }
        };
        assert_eq!(proxy.line(), generation.received_note(UPDATE, &chunk("4")));
        proxy.send(&notification(UPDATE, &chunk("1")));
        match &barrier {
            Some(barrier) => passes_barrier(&mut proxy, barrier),
            None => {
                proxy.send(&notification(UPDATE, &usage(2)));
                proxy.send(&notification(UPDATE, &usage(3)));
            }
        }
        proxy.send(&notification(UPDATE, &chunk("4")));
        for params in [chunk("1"), usage(2), usage(3), chunk("4")] {
            assert_eq!(stage.editor.line(), notification(UPDATE, &params), "{}", generation.name);
        }
    }
}

/// A proxy may drop requests that it does not know. Nothing overtakes, and nothing is late.
#[test]
fn a_proxy_that_drops_barriers_does_not_change_the_order() {
    for generation in [&P3, &P4] {
        let (mut stage, mut proxy, mut agent) = chain(&[], generation);
        for turn in 0..2 {
            let id = (turn + 1).to_string();
            stage.editor.send(&request(&id, "session/prompt", &prompt("s")));
            let asked = proxy.message();
            let params = asked["params"].to_string();
            proxy.send(&generation.sent("5", "session/prompt", &params));
            let question = agent.message();
            agent.send(&notification(UPDATE, &chunk("1")));
            agent.send(&notification(UPDATE, &usage(2)));
            agent.send(&notification(UPDATE, &chunk("3")));
            agent.send(&notification(UPDATE, &usage(4)));
            agent.answer(&question, "{}");
            // The two barriers of the first turn are dropped; it is sent no more.
            let is_barrier = |line: &String| line.contains(BARRIER);
            let lines: Vec<String> =
                (0..if turn == 0 { 5 } else { 3 }).map(|_| proxy.line()).collect();
            assert_eq!(lines.iter().filter(|it| is_barrier(it)).count(), 2 - 2 * turn, "{lines:?}");
            for text in ["1", "3"] {
                proxy.send(&notification(UPDATE, &chunk(text)));
            }
            proxy.answer(&asked, r#"{"changed":true}"#);
            for params in [chunk("1"), usage(2), chunk("3"), usage(4)] {
                assert_eq!(stage.editor.line(), notification(UPDATE, &params));
            }
            assert_eq!(stage.editor.line(), result(&id, r#"{"changed":true}"#));
        }
    }
}

#[test]
fn a_value_that_is_newer_than_its_schema_goes_around_a_proxy_too() {
    let (mut stage, mut proxy, mut agent) = chain(&[], &P4);
    let newer = [
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"paused"}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"video","uri":"u"}}"#,
    ];
    for update in newer {
        agent.send(&notification(UPDATE, &format!(r#"{{"sessionId":"s","update":{update}}}"#)));
    }
    let barrier = gets_barrier(&mut proxy);
    proxy.fail(&barrier, r#"{"code":-32601,"message":"what?"}"#);
    for update in newer {
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        assert_eq!(stage.editor.line(), notification(UPDATE, &params));
    }
}

/// A guard sees everything, whatever it can read, and whatever it has died of.
#[test]
fn nothing_goes_around_a_guard() {
    let (_stage, mut proxy, mut agent) = chain(&["--guard", "old"], &P4);
    agent.send(&notification(UPDATE, &usage(1)));
    assert_eq!(proxy.line(), P4.received_note(UPDATE, &usage(1)));

    let mut play = Play::begin(stage().option(&["--guard", "proxy"]), &["proxy", "agent"], PLAIN);
    for _ in 0..4 {
        play.agent.send(&notification(UPDATE, &usage(1)));
        assert_eq!(play.proxies[0].message()["params"]["method"], UPDATE);
        play.proxies[0].exit(1);
        play.replaced(0);
        play.learns(0, &[]);
    }
}

#[test]
fn the_user_decides_which_updates_a_proxy_is_sent() {
    let (_stage, mut proxy, mut agent) = chain(&["--updates", "old=all"], &P4);
    agent.send(&notification(UPDATE, &usage(1)));
    assert_eq!(proxy.line(), P4.received_note(UPDATE, &usage(1)));

    let (mut stage, mut proxy, mut agent) = chain(&["--updates", "known"], &P5);
    let future = r#"{"sessionId":"s","update":{"sessionUpdate":"_future"}}"#;
    agent.send(&notification(UPDATE, &usage(1)));
    agent.send(&notification(UPDATE, future));
    assert_eq!(proxy.line(), P5.received_note(UPDATE, &usage(1)));
    let barrier = gets_barrier(&mut proxy);
    passes_barrier(&mut proxy, &barrier);
    assert_eq!(stage.editor.line(), notification(UPDATE, future));

    let setup = bare();
    let component = json!({ "command": "x", "updates": "some" }).to_string();
    let mut wrong = setup.run("agent", &[component, "y".into()]);
    assert_eq!(wrong.conductor.status(), 2);
    wait_until("it is told", || {
        wrong.conductor.stderr().contains("neither all nor known").then_some(())
    });
}

/// A prompt's answer, a death in the middle, and two old proxies in a row: nothing is lost or overtaken.
#[test]
fn a_death_in_between_loses_nothing_that_goes_around() {
    let pins = ["--dialect", "1=P4", "--dialect", "2=P3"];
    let mut stage = stage().option(&pins).named(&["first", "second", "agent"]);
    let parts: [(&str, &'static Generation, &[&str]); 2] =
        [("first", &P4, &[P4.greeting]), ("second", &P3, &[P3.greeting])];
    let (mut proxies, mut agent) = initialize(&mut stage, &parts);
    agent.send(&notification(UPDATE, &usage(1)));
    gets_barrier(&mut proxies[1]);
    agent.send(&notification(UPDATE, &usage(2)));
    // Both are behind one barrier when the question comes.
    agent.send(&request("7", "_x/ask", "{}"));
    assert_eq!(parse(&proxies[1].line())["params"]["method"], "_x/ask");
    kill(&proxies[1]);
    let barrier = gets_barrier(&mut proxies[0]);
    assert_crash(&agent.message(), json!(7), "second", "SIGKILL", "restarted");
    passes_barrier(&mut proxies[0], &barrier);
    for used in [1, 2] {
        assert_eq!(stage.editor.line(), notification(UPDATE, &usage(used)));
    }
}

#[test]
fn what_goes_around_a_proxy_is_explained() {
    let picky = quote(&binary("picky").to_string_lossy());
    let explain = |options: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_conductor"))
            .args(["agent", "--explain"])
            .args(options)
            .args([&format!("{picky} x"), "demo-agent"])
            .env("XDG_CACHE_HOME", directory("explained"))
            .output()
            .expect("it runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert!(!explain(&[]).contains("go around"));
    let known = explain(&["--updates", "known"]);
    assert!(known.contains("go around picky: plan_update, plan_removed"), "{known}");
    let report = parse(&explain(&["--updates", "known", "--json"]));
    let around = &report["components"][0]["around"];
    assert!(around.as_array().is_some_and(|it| it.contains(&json!("state_update"))), "{report}");
    assert_eq!(report["components"][1]["around"], json!([]));
}

/// Two crashes; the third message of that kind goes around it, and the editor is told why.
#[test]
fn a_proxy_that_crashes_twice_on_a_kind_of_message_is_spared_it() {
    let mut play = Play::begin(loud(), &["proxy", "agent"], PLAIN);
    let session = play.session("s");
    for _ in 0..2 {
        play.agent.send(&notification(UPDATE, &chunk("fine")));
        pass(&mut play.proxies[0]);
        assert_eq!(play.stage.editor.line(), notification(UPDATE, &chunk("fine")));
        play.agent.send(&notification(UPDATE, &usage(1)));
        assert_eq!(play.proxies[0].message()["params"]["params"], parse(&usage(1)));
        play.proxies[0].exit(1);
        play.replaced(0);
        play.learns(0, std::slice::from_ref(&session));
    }
    play.agent.send(&notification(UPDATE, &usage(3)));
    let barrier = play.proxies[0].message();
    assert_eq!(barrier["params"]["method"], BARRIER);
    play.proxies[0].answer(&barrier, "{}");
    assert_eq!(play.stage.editor.line(), notification(UPDATE, &usage(3)));
    // Other kinds go through it as before.
    play.agent.send(&notification(UPDATE, &chunk("on")));
    pass(&mut play.proxies[0]);
    assert_eq!(play.stage.editor.line(), notification(UPDATE, &chunk("on")));
    // The notes of the two crashes, and the one that says what follows.
    play.stage.editor.send(&request("9", "session/prompt", &prompt("s")));
    let notes: Vec<String> = (0..3)
        .map(|_| play.stage.editor.message()["params"]["update"]["content"]["text"].to_string())
        .collect();
    assert!(notes[2].contains("has crashed twice on session/update usage_update"), "{notes:?}");
    wait_until("the log says so", || {
        play.stage.conductor.stderr().contains("has crashed twice").then_some(())
    });
}

/// A request, too: it is asked of the next component, and its answer comes back behind what was said
/// before.
#[test]
fn a_request_that_a_proxy_crashes_on_is_asked_of_the_next_component() {
    let mut play = Play::pair(PLAIN);
    let session = play.session("s");
    for id in ["1", "2"] {
        play.stage.editor.send(&request(id, "_x/deadly", "{}"));
        play.proxies[0].request("_x/deadly");
        play.proxies[0].exit(101);
        assert_crash(&play.stage.editor.message(), parse(id), "proxy", "101", "restarted");
        play.replaced(0);
        play.learns(0, std::slice::from_ref(&session));
    }
    play.stage.editor.send(&request("3", "_x/deadly", "{}"));
    let barrier = play.proxies[0].request(BARRIER);
    play.proxies[0].answer(&barrier, "{}");
    let asked = play.agent.request("_x/deadly");
    play.agent.send(&notification(UPDATE, &chunk("before")));
    play.agent.answer(&asked, "{}");
    pass(&mut play.proxies[0]);
    let barrier = play.proxies[0].message();
    play.proxies[0].answer(&barrier, "{}");
    assert_eq!(play.stage.editor.line(), notification(UPDATE, &chunk("before")));
    assert_eq!(play.stage.editor.line(), result("3", "{}"));
    play.works();
}

/// A proxy that is killed from outside has not crashed on a message. Nor has a proxy that had passed the
/// message on.
#[test]
fn only_crashes_on_the_message_itself_count() {
    let mut play = Play::pair(PLAIN);
    let send = |play: &mut Play| {
        play.agent.send(&notification(UPDATE, &usage(1)));
        assert_eq!(play.proxies[0].message()["params"]["method"], UPDATE);
    };
    for _ in 0..3 {
        send(&mut play);
        kill(&play.proxies[0]);
        play.replaced(0);
        play.learns(0, &[]);
    }
    for _ in 0..2 {
        send(&mut play);
        play.proxies[0].send(&notification(UPDATE, &usage(1)));
        assert_eq!(play.stage.editor.line(), notification(UPDATE, &usage(1)));
        play.proxies[0].exit(1);
        play.replaced(0);
        play.learns(0, &[]);
    }
    send(&mut play);
}

fn picky_chain(program: &str, cache: &str) -> Play {
    let setup = stage().env("XDG_CACHE_HOME", cache);
    let components = [format!("{} usage_update", quote(program)), setup.puppet("agent")];
    Play::of(setup.run("agent", &components), &["agent"], PLAIN)
}

/// The proxy crashes so often, and then the update goes around it.
fn crashes(mut play: Play, count: u32) {
    for restarts in 1..=count {
        play.agent.send(&notification(UPDATE, &usage(1)));
        wait_until("it is back", || {
            let proxy = play.status()["components"][0].take();
            (proxy["restarts"] == restarts && proxy["state"] == "live").then_some(())
        });
    }
    play.agent.send(&notification(UPDATE, &usage(2)));
    assert_eq!(play.stage.editor.line(), notification(UPDATE, &usage(2)));
    assert_eq!(play.status()["components"][0]["restarts"], count);
}

/// It is remembered by command, until the program is another one.
#[test]
fn what_a_command_crashes_on_is_remembered() {
    let own = directory("picky");
    let program = own.join("picky-program");
    fs::copy(binary("picky"), &program).expect("a copy");
    let (program, cache) = (program.to_string_lossy(), own.join("cache"));
    let cache = cache.to_string_lossy();
    crashes(picky_chain(&program, &cache), 2);
    crashes(picky_chain(&program, &cache), 0);
    let remembered = fs::read_to_string(own.join("cache/conductor/crashes")).expect("a file");
    assert!(remembered.contains(r#"["session/update","usage_update"]"#), "{remembered}");
    // The same bytes, but a new file.
    fs::remove_file(&*program).expect("it is there");
    fs::copy(binary("picky"), &*program).expect("a copy");
    crashes(picky_chain(&program, &cache), 2);
}
