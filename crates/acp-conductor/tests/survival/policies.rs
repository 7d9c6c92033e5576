//! What becomes of a component that fails: what people can ask for, and what happens if they ask for
//! nothing. Line 1.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testkit::rpc::{id_of, notification, request, result};
use testkit::stage::{Stage, assert_blames, assert_gone, wait_until};

use crate::play::{GREETING, LOADS, PLAIN, Play, RESUMES, assert_crash, kill, pass};
use crate::{HASTE, never_back, stage};

const PROMPT: &str = "session/prompt";

/// The policies of a chain, as `conductor status` tells them.
fn policies(options: &[&str], components: &[&str]) -> Vec<String> {
    let components: Vec<String> = components.iter().map(|&it| it.to_owned()).collect();
    let stage = stage().option(options).run("agent", &components);
    let status = wait_until("it can be asked", || try_status(&stage));
    let components = status["components"].as_array().expect("a list").clone();
    components.iter().map(|it| it["policy"].as_str().expect("a word").to_owned()).collect()
}

fn try_status(stage: &Stage) -> Option<Value> {
    let pid = stage.conductor.pid().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["status", &pid, "--json"]).env("XDG_RUNTIME_DIR", stage.runtime_directory());
    let output = command.output().expect("the conductor starts");
    let list: Value = serde_json::from_slice(&output.stdout).ok()?;
    list.get(0).cloned()
}

/// Line 1: defaults as --help tells them.
#[test]
fn by_default_proxies_are_left_out_at_last_and_guards_and_agents_are_not() {
    let guard = r#"{"command":"b","guard":true}"#;
    assert_eq!(
        policies(&[], &["a", guard, "c"]),
        ["restart,bypass", "restart,stop", "restart,stop"]
    );
    assert_eq!(policies(&["--guard", "1"], &["a", "c"]), ["restart,stop"; 2]);
    assert_eq!(policies(&["--guard", "a"], &["a", "c"]), ["restart,stop"; 2]);
    let help = conductor(&["agent", "--help"]);
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "By default proxies are restarted and then left out, guards are restarted and then the chain stops",
        "the agent is restarted if it can take its sessions up again",
        "(default 5/60)",
        "[default: 0.1..10]",
        "[default: 120]",
    ] {
        assert!(help.contains(words), "{words:?} is not in {help}");
    }
}

/// Line 1: by number, by name, by JSON, for all that are not named; what is said of one counts more
/// than what is said of all, and an option more than the component's own words.
#[test]
fn a_policy_is_for_one_by_number_or_name_or_for_all_that_are_not_named() {
    let chain = ["a", "b", "c"];
    let with = |options: &[&str]| policies(options, &chain);
    assert_eq!(with(&["--on-crash", "2=stop"]), ["restart,bypass", "stop", "restart,stop"]);
    assert_eq!(with(&["--on-crash", "b=stop"]), ["restart,bypass", "stop", "restart,stop"]);
    assert_eq!(with(&["--on-crash", "stop"]), ["stop", "stop", "stop"]);
    // In any order.
    let one = ["--on-crash", "b=bypass"];
    let all = ["--on-crash", "stop"];
    assert_eq!(with(&[one, all].concat()), ["stop", "bypass", "stop"]);
    assert_eq!(with(&[all, one].concat()), ["stop", "bypass", "stop"]);
    // Said of all, leaving out means all but the agent.
    assert_eq!(with(&["--on-crash", "bypass"]), ["bypass", "bypass", "restart,stop"]);
    assert_eq!(with(&["--on-crash", "restart,bypass"])[2], "restart,stop");
    let json = r#"{"command":"b","onCrash":"restart,stop"}"#;
    let chain = ["a", json, "c"];
    let with = |options: &[&str]| policies(options, &chain);
    assert_eq!(with(&[]), ["restart,bypass", "restart,stop", "restart,stop"]);
    assert_eq!(with(&["--on-crash", "stop"]), ["stop", "restart,stop", "stop"]);
    assert_eq!(with(&["--on-crash", "2=bypass"])[1], "bypass");
    // A guard may be left out, if somebody says so of it and not of all.
    let guard = ["--guard", "1", "--on-crash", "1=restart,bypass"];
    assert_eq!(with(&guard)[0], "restart,bypass");
    assert_eq!(with(&["--guard", "1", "--on-crash", "bypass"])[0], "restart,stop");
}

fn conductor(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(args).stdin(Stdio::null()).output().expect("the conductor starts")
}

/// Line 1: mistakes on the command line, each with what to write instead.
#[test]
fn a_mistake_is_told_with_its_remedy_before_anything_starts() {
    let json = |text: &'static str| ["agent", text, "true"].to_vec();
    for (args, words) in [
        (vec!["agent", "--on-crash", "2=bypass", "a", "c"], &["the agent", "restart or stop"][..]),
        (vec!["agent", "--on-crash", "c=restart,bypass", "a", "c"], &["the agent", "stop"]),
        (vec!["agent", "--on-crash", "x=stop", "a", "c"], &["\"x\"", "a, c"]),
        (vec!["agent", "--on-crash", "3=stop", "a", "c"], &["\"3\"", "a, c"]),
        (vec!["agent", "--on-crash", "0=stop", "a", "c"], &["\"0\"", "a, c"]),
        (vec!["agent", "--on-crash", "1=retry", "a", "c"], &["retry", "restart,bypass"]),
        (vec!["agent", "--guard", "2", "a", "c"], &["--guard", "the agent", "only proxies"]),
        (vec!["agent", "--guard", "x", "a", "c"], &["--guard", "a, c"]),
        (vec!["agent", "--restarts", "5", "a", "c"], &["COUNT/SECONDS", "5/60"]),
        (vec!["agent", "--restarts", "x=5/60", "a", "c"], &["--restarts", "a, c"]),
        (vec!["agent", "--restarts=-1/60", "a", "c"], &["--restarts"]),
        (vec!["agent", "--restart-delay", "1", "a", "c"], &["FIRST..LONGEST", "0.1..10"]),
        (vec!["agent", "--restart-delay", "1..x", "a", "c"], &["number of seconds"]),
        (vec!["agent", "--answer-limit", "soon", "a", "c"], &["number of seconds"]),
        (vec!["agent", "--prompt-limit=-1", "a", "c"], &["--prompt-limit"]),
        (vec!["agent", "--cancel-limit", "on", "a", "c"], &["number of seconds"]),
        (vec!["agent", "--notices", "maybe", "a", "c"], &["--notices"]),
        (json(r#"{"command":"a","onCrash":"retry"}"#), &["component 1", "restart,bypass"]),
        (json(r#"{"command":"a","restarts":"5"}"#), &["component 1", "COUNT/SECONDS"]),
        (json(r#"{"command":"a","guard":"yes"}"#), &["component 1"]),
        (
            vec!["agent", "a", r#"{"command":"c","onCrash":"bypass"}"#],
            &["the agent", "restart or stop"],
        ),
        (vec!["agent", "a", r#"{"command":"c","guard":true}"#], &["the agent", "only proxies"]),
    ] {
        let output = conductor(&args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
        for word in words {
            assert!(said.contains(word), "{args:?}: {word:?} is not in {said:?}");
        }
    }
}

/// Line 1: so many restarts in so much time, and then the chain closes over the gap. Checklist 104.
#[test]
fn a_proxy_that_crashes_too_often_is_left_out() {
    for options in [&["--restarts", "2/600"][..], &["--restarts", "1=2/600", "--restarts", "9/9"]] {
        let mut play = Play::begin(stage().option(options), &["proxy", "other", "agent"], PLAIN);
        let session = play.session("s");
        for _ in 0..2 {
            play.kill(0);
            play.learns(0, std::slice::from_ref(&session));
            play.works();
        }
        kill(&play.proxies[0]);
        let component = play.wait_for_state(1, "bypassed");
        assert_eq!((&component["restarts"], &component["pid"]), (&json!(2), &Value::Null));
        play.proxies.remove(0);
        play.works();
        assert!(!play.stage.has_entered("proxy"), "twice is enough");
    }
}

/// Line 1: the same in a component's JSON. None at all is allowed, too.
#[test]
fn how_often_is_said_in_json_as_well() {
    let setup = stage();
    let mut proxy = setup.component("proxy");
    proxy["restarts"] = json!("0/60");
    let components = [proxy.to_string(), setup.component("agent").to_string()];
    let mut play = Play::of(setup.run("agent", &components), &["proxy", "agent"], PLAIN);
    kill(&play.proxies[0]);
    play.wait_for_state(1, "bypassed");
    play.proxies.clear();
    play.works();
}

/// Line 1: crashes that are long ago do not count. Checklist 104.
#[test]
fn who_crashes_seldom_is_always_restarted() {
    let options = ["--restarts", "1/0"];
    let mut play = Play::begin(stage().option(&options), &["proxy", "agent"], PLAIN);
    for _ in 0..5 {
        play.kill(0);
        play.learns(0, &[]);
        play.works();
    }
}

/// Line 1: a guard is never left out; so is nobody who is to be restarted or else to stop the chain.
#[test]
fn a_chain_stops_with_what_it_must_not_lose() {
    for options in [
        &["--guard", "proxy", "--restarts", "1/600"][..],
        &["--on-crash", "proxy=restart,stop", "--restarts", "1/600"],
        &["--on-crash", "restart,stop", "--restarts", "proxy=1/600"],
        &["--guard", "1", "--on-crash", "restart", "--restarts", "1/600"],
    ] {
        let setup = stage().option(options).option(&HASTE);
        let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
        play.kill(0);
        play.learns(0, &[]);
        play.works();
        play.stage.editor.send(&request("1", PROMPT, r#"{"sessionId":"s"}"#));
        play.proxies[0].request(PROMPT);
        play.proxies[0].mutter("no licence\n");
        play.proxies[0].exit(3);
        assert_blames(&play.stage.editor.message(), "proxy", "ended with status 3", "no licence");
        assert_eq!(play.stage.conductor.status(), 1);
        assert_gone(play.agent.pid, "the agent");
        let said = play.stage.conductor.stderr();
        assert!(said.contains("'proxy'") && said.contains("no licence"), "{said}");
    }
}

/// Processor time that a process has used, in seconds; also of one that has ended and was not waited for.
fn processor_time(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    let ticks = rest.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.map(|it| it.parse::<f64>().expect("a number")).sum();
    // SAFETY: asks for a constant.
    ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

/// Line 1: a guard that says nothing in its last life ends the chain, which is told once; while others are
/// given time to end, nobody is busy with its silence.
#[test]
fn a_chain_ends_quietly_with_a_guard_that_says_nothing_in_its_last_life() {
    let limits = ["--restarts", "1/600", "--init-timeout", "2", "--grace", "2"];
    let setup = stage().option(&["--guard", "guard"]).option(&limits);
    let mut play = Play::begin(setup, &["first", "guard", "agent"], PLAIN);
    play.kill(1);
    play.proxies[1].request("proxy/initialize");
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    pass(&mut play.proxies[0]);
    // It keeps the bad news to itself, so that the editor's question stays open.
    let cause = "did not answer initialize within 2 s";
    assert_blames(&play.proxies[0].message(), "guard", cause, "");
    let pid = play.stage.conductor.pid();
    let before = processor_time(pid);
    assert_gone(pid, "the conductor");
    let used = processor_time(pid) - before;
    assert!(used < 0.5, "{used} s in a grace period of 2 s");
    assert_eq!(play.stage.conductor.status(), 1);
    let said = play.stage.conductor.stderr();
    let told: Vec<&str> = said.lines().filter(|line| line.contains(cause)).collect();
    assert_eq!(told.len(), 1, "{said}");
    assert!(told[0].contains("'guard'"), "{said}");
}

/// Line 1: `bypass` at once: what was in it is answered, what follows goes straight on. Checklist 100.
#[test]
fn bypass_means_that_the_chain_goes_on_without_it_at_once() {
    let setup = stage();
    let mut json = setup.component("proxy");
    json["onCrash"] = json!("bypass");
    let agent = setup.component("agent").to_string();
    let by_json = setup.run("agent", &[json.to_string(), agent]);
    let by_option = stage().option(&["--on-crash", "bypass"]).named(&["proxy", "agent"]);
    for stage in [by_json, by_option] {
        let mut play = Play::of(stage, &["proxy", "agent"], PLAIN);
        play.stage.editor.send(&request("1", PROMPT, r#"{"sessionId":"s"}"#));
        play.proxies[0].request(PROMPT);
        play.agent.send(&request("7", "fs/read_text_file", "{}"));
        play.proxies[0].request("proxy/successor");
        play.proxies[0].exit(0);
        let answer = play.stage.editor.message();
        assert_crash(&answer, json!(1), "proxy", "ended with status 0", "left out");
        let answer = play.agent.message();
        assert_crash(&answer, json!(7), "proxy", "ended with status 0", "left out");
        play.proxies.clear();
        play.works();
        assert!(!play.stage.has_entered("proxy"));
        // It is a chain like any other, in which nobody is missed.
        play.session("s");
    }
}

/// Line 1: `stop`, by any name. Checklist 100.
#[test]
fn stop_means_that_the_chain_ends() {
    for option in ["stop", "1=stop", "proxy=stop"] {
        let setup = stage().option(&["--on-crash", option]).option(&HASTE);
        let mut play = Play::begin(setup, &["proxy", "agent"], LOADS);
        play.agent.send(&request("7", "fs/read_text_file", "{}"));
        play.proxies[0].request("proxy/successor");
        kill(&play.proxies[0]);
        assert_blames(&play.agent.message(), "proxy", "signal 9 (SIGKILL)", "");
        assert_eq!(play.stage.conductor.status(), 1);
        assert!(!play.stage.has_entered("proxy"));
    }
}

/// Line 1: the time before a restart is what was asked for. Until it is over nobody is started, and
/// what is said waits.
#[test]
fn a_restart_waits_as_long_as_it_is_told_to() {
    let mut play = Play::begin(never_back(), &["proxy", "agent"], PLAIN);
    kill(&play.proxies[0]);
    let component = play.wait_for_state(1, "restarting");
    assert_eq!((&component["pid"], &component["restarts"]), (&Value::Null, &json!(0)));
    let next = &component["nextStart"];
    assert_eq!(next["attempt"], 1, "{component}");
    assert!(next["inSeconds"].as_f64().is_some_and(|it| it > 60.0), "{component}");
    play.stage.editor.send(&request("1", PROMPT, r#"{"sessionId":"s"}"#));
    wait_until("the prompt waits", || {
        (play.status()["components"][0]["queue"]["heldMessages"] == 1).then_some(())
    });
    assert!(!play.stage.has_entered("proxy"));
}

/// Line 1: however a component ends, it is survived; its children end with it. Checklist 100.
#[test]
fn every_kind_of_end_is_survived() {
    let careless = "trap '' TERM; sleep 1000; sleep 1000";
    let careful = "exec >/dev/null; trap '' TERM; sleep 1000; sleep 1000";
    for (child, order, cause) in [
        (careless, json!({ "exit": 0 }), "ended with status 0"),
        (careless, json!({ "exit": 101 }), "ended with status 101"),
        (careless, json!({ "signal": libc::SIGABRT }), "signal 6 (SIGABRT)"),
        // A child that has its pipe would keep it open.
        (careful, json!({ "close_stdout": true }), "closed its standard output"),
    ] {
        let mut play = Play::pair(PLAIN);
        let child = play.proxies[0].spawn(child);
        play.stage.editor.send(&request("1", PROMPT, r#"{"sessionId":"s"}"#));
        play.proxies[0].request(PROMPT);
        play.proxies[0].order(order);
        let answer = play.stage.editor.message();
        assert_crash(&answer, json!(1), "proxy", cause, "restarted");
        assert_gone(play.proxies[0].pid, "the old proxy");
        assert_gone(child, "its child");
        play.replaced(0);
        play.learns(0, &[]);
        play.works();
    }
}

/// The same for one that only does not read any more.
#[test]
fn a_component_that_closes_its_input_is_replaced() {
    let mut play = Play::pair(PLAIN);
    let proxy = &mut play.proxies[0];
    // It reads one more line and then no further, so that nobody is inside a call to read.
    proxy.order(json!({ "read": false }));
    proxy.settle();
    play.stage.editor.send(&notification("_x/last", "{}"));
    assert_eq!(proxy.message()["method"], "_x/last");
    proxy.order(json!({ "close_stdin": true }));
    proxy.settle();
    let old = proxy.pid;
    play.stage.editor.send(&request("1", PROMPT, r#"{"sessionId":"s"}"#));
    let answer = play.stage.editor.message();
    assert_crash(&answer, json!(1), "proxy", "closed its standard input", "restarted");
    assert_gone(old, "the old proxy");
    play.replaced(0);
    play.learns(0, &[]);
    play.works();
}

/// Line 1: the last words of one that has failed may lack their newline, and end with its pipe: that is no
/// end of the next one. Another, which closes its pipe later and is given up for it, tells when that would
/// have been seen.
#[test]
fn a_last_line_without_a_newline_is_no_end_of_the_next_one() {
    let refusal =
        |line: &str| testkit::rpc::error(id_of(line), r#"{"code":1,"message":"not now"}"#);
    let said = "refused to be initialized again: not now";
    for at in 0..2 {
        let mut play = Play::begin(stage(), &["one", "two", "agent"], LOADS);
        match at {
            0 => {
                play.kill(0);
                let line = play.proxies[0].line();
                play.proxies[0].order(json!({ "out": refusal(&line), "exit": 1 }));
                play.wait_for_words("not now");
                play.replaced(0);
                play.learns(0, &[]);
            }
            _ => {
                kill(&play.agent);
                play.agent = play.stage.enter("agent");
                let line = play.agent.line();
                play.agent.order(json!({ "out": refusal(&line), "exit": 1 }));
                play.wait_for_words(said);
                play.agent_is_back();
            }
        }
        play.works();
        play.proxies[1].order(json!({ "close_stdout": true }));
        play.replaced(1);
        play.learns(1, &[]);
        play.works();
        let status = play.status();
        let (number, pid) = if at == 0 { (0, play.proxies[0].pid) } else { (2, play.agent.pid) };
        let component = &status["components"][number];
        assert_eq!((&component["state"], &component["pid"]), (&json!("live"), &json!(pid)));
        assert_eq!(component["restarts"], 2, "{component}");
    }
}

// The start.

/// Line 1: what never stood is a mistake to be corrected: the start fails. A `bypass` for all components does
/// not help, since the proxy may contain a guard.
#[test]
fn a_proxy_that_never_stood_fails_the_start() {
    for word in ["", "restart", "restart,bypass", "bypass", "1=restart,bypass"] {
        let option = ["--on-crash", word];
        let options = if word.is_empty() { &[][..] } else { &option };
        let setup = stage().option(options).option(&HASTE).option(&["--dialect", "1=P5"]);
        let mut stage = setup.named(&["proxy", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut proxy = stage.enter("proxy");
        proxy.request("proxy/initialize");
        proxy.mutter("no licence\n");
        proxy.exit(3);
        assert_blames(&stage.editor.message(), "proxy", "ended with status 3", "no licence");
        assert_eq!(stage.conductor.status(), 1);
        assert!(!stage.has_entered("proxy"));
        let explained = stage.conductor.stderr().contains("said of it by name");
        assert_eq!(explained, word == "bypass", "{word}");
    }
    for options in [&[][..], &["--on-crash", "bypass"]] {
        let setup = stage().option(&HASTE).option(options);
        let agent = setup.puppet("agent");
        let mut stage = setup.run("agent", &["/nowhere/proxy".into(), agent]);
        stage.editor.send(&request("1", "initialize", GREETING));
        assert_blames(&stage.editor.message(), "proxy", "command not found", "");
        assert_eq!(stage.conductor.status(), 1);
    }
}

/// Line 1: unless it is one that the chain can do without from the beginning.
#[test]
fn a_proxy_that_is_to_be_left_out_is_left_out_from_the_start() {
    // It dies of its greeting.
    let options = ["--on-crash", "1=bypass", "--dialect", "1=P5"];
    let mut stage = stage().option(&options).named(&["proxy", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let mut proxy = stage.enter("proxy");
    proxy.request("proxy/initialize");
    proxy.exit(3);
    stands_without_it(stage);
}

fn stands_without_it(mut stage: Stage) {
    let mut agent = stage.enter("agent");
    let line = agent.line();
    assert_eq!(line, request(id_of(&line), "initialize", GREETING));
    agent.send(&result(id_of(&line), PLAIN));
    assert_eq!(stage.editor.line(), result("1", PLAIN));
    let greeted = PLAIN.to_owned();
    let mut play = Play { stage, proxies: Vec::new(), agent, greeted };
    assert_eq!(play.status()["components"][0]["state"], "bypassed");
    play.works();
    assert!(!play.stage.has_entered("proxy"));
}

/// Line 1: the same for one that cannot be started, that says nothing, or that refuses.
#[test]
fn so_is_one_that_cannot_be_started_or_says_nothing() {
    let setup = stage().option(&["--on-crash", "1=bypass"]);
    let agent = setup.puppet("agent");
    let mut missing = setup.run("agent", &["/nowhere/proxy".into(), agent]);
    missing.editor.send(&request("1", "initialize", GREETING));
    stands_without_it(missing);

    let setup = stage();
    let by_json = json!({ "command": "/nowhere/proxy", "onCrash": "bypass" }).to_string();
    let agent = setup.puppet("agent");
    let mut missing = setup.run("agent", &[by_json, agent]);
    missing.editor.send(&request("1", "initialize", GREETING));
    stands_without_it(missing);

    let options = ["--on-crash", "1=bypass", "--dialect", "1=P5", "--init-timeout", "0.3"];
    let mut silent = stage().option(&options).named(&["proxy", "agent"]);
    silent.editor.send(&request("1", "initialize", GREETING));
    let mut proxy = silent.enter("proxy");
    proxy.request("proxy/initialize");
    let pid = proxy.pid;
    stands_without_it(silent);
    assert_gone(pid, "the silent one");
}

/// Line 1: nor is the agent's answer lost that such a proxy had asked for already.
#[test]
fn a_proxy_that_is_left_out_in_the_middle_of_the_handshake_leaves_the_chain_standing() {
    let options = ["--on-crash", "1=bypass"];
    let mut stage = stage().option(&options).named(&["proxy", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let mut proxy = stage.enter("proxy");
    crate::play::is_greeted(&mut proxy);
    let mut agent = stage.enter("agent");
    let line = agent.line();
    kill(&proxy);
    let greeted = PLAIN.to_owned();
    let mut play = Play { stage, proxies: Vec::new(), agent, greeted };
    play.wait_for_state(1, "bypassed");
    play.agent.send(&result(id_of(&line), PLAIN));
    assert_eq!(play.stage.editor.line(), result("1", PLAIN));
    play.works();
}

// The agent.

/// Line 1: an agent that has no session yet has nothing to lose. Checklist 99.
#[test]
fn an_agent_without_sessions_is_restarted() {
    let mut play = Play::pair(PLAIN);
    for _ in 0..2 {
        play.kill_agent();
        play.works();
    }
    // A session that was closed is none.
    play.session("s");
    let closed = play.ask("1", "session/close", r#"{"sessionId":"s"}"#);
    play.answer(&closed, "{}");
    play.kill_agent();
    play.works();
    play.session("s");
}

/// Line 1: one that can take its sessions up is restarted, too.
#[test]
fn an_agent_that_takes_sessions_up_is_restarted() {
    for (greeted, method) in [(LOADS, "session/load"), (RESUMES, "session/resume")] {
        let mut play = Play::pair(greeted);
        play.session("s");
        play.kill_agent();
        let asked = play.agent.request(method);
        play.agent.answer(&asked, "{}");
        play.works();
    }
}

/// Line 1: one that would lose its sessions ends the chain, with the error of old. Checklist 99.
#[test]
fn an_agent_that_would_lose_its_sessions_stops_the_chain() {
    for known in [true, false] {
        let mut play = Play::begin(stage().option(&HASTE), &["proxy", "agent"], PLAIN);
        // Of the other kind is one that the conductor has never seen begin.
        if known {
            play.session("s");
        }
        play.prompt("1", "s");
        play.agent.mutter("out of memory\n");
        play.agent.exit(3);
        pass(&mut play.proxies[0]);
        let answer = play.stage.editor.message();
        assert_eq!(answer["id"], 1, "{answer}");
        assert_blames(&answer, "agent", "ended with status 3", "out of memory");
        assert!(!answer.to_string().contains("send again"), "{answer}");
        assert_eq!(play.stage.conductor.status(), 1);
        assert!(!play.stage.has_entered("agent"));
    }
}

/// Line 1: unless its user wants it back all the same. Its sessions are lost, others can begin.
#[test]
fn an_agent_is_restarted_whatever_it_offers_if_somebody_says_so() {
    for option in ["restart", "agent=restart", "2=restart,stop"] {
        let setup = stage().option(&["--on-crash", option]);
        let mut play = Play::begin(setup, &["proxy", "agent"], PLAIN);
        play.session("s");
        play.kill_agent();
        play.works();
        play.stage.editor.send(&request("1", PROMPT, &crate::play::prompt("s")));
        pass(&mut play.proxies[0]);
        pass(&mut play.proxies[0]);
        let answer = play.stage.editor.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32002)));
        let message = answer["error"]["message"].as_str().expect("words");
        for word in ["agent 'agent'", "session 's'", "SIGKILL", "Start a new session"] {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
        play.session("t");
        play.works();
    }
}

/// Line 1: an agent that crashes too often stops the chain: it cannot be left out.
#[test]
fn an_agent_that_crashes_too_often_stops_the_chain() {
    for option in ["restart", "bypass", "restart,bypass"] {
        let options = ["--on-crash", option, "--restarts", "1/600"];
        let setup = stage().option(&options).option(&HASTE);
        let mut play = Play::begin(setup, &["agent"], LOADS);
        play.kill_agent();
        play.works();
        play.prompt("1", "s");
        kill(&play.agent);
        assert_blames(&play.stage.editor.message(), "agent", "SIGKILL", "");
        assert_eq!(play.stage.conductor.status(), 1);
    }
}
